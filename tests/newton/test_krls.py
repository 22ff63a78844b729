"""KRLS-ALD against its brute-force twins, and its edge cases."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

import pronk
from helpers import blockwise
from naive import expansion as naive
from naive import kernels
from pronk import Gaussian, KRLSRegressor, Laplacian, Linear
from pronk.newton import krls

CLOSE = dict(rtol=1e-8, atol=1e-8)
EXPECTED = {"check_requires_y_none": "y=None is refused, in words of pronk's own"}
GAUSSIAN = partial(kernels.gaussian, bandwidth=0.6)


def stream(seed=0, n=160, d=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(4 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("nu", [0.3, 0.03])
@pytest.mark.parametrize(
    "kernel, plain",
    [(Gaussian(0.6), GAUSSIAN), (Laplacian(2.0), partial(kernels.laplacian, bandwidth=2.0))],
)
@pytest.mark.parametrize("twin", [naive.krls, naive.krls_recursive])
def test_agrees_with_the_twins(kernel, plain, nu, twin, monkeypatch):
    monkeypatch.setattr(krls, "CHUNK", 50)
    X, y = stream()
    expected = twin(X, y, plain, nu)
    learner = KRLSRegressor(kernel, nu=nu)
    np.testing.assert_allclose(blockwise(learner, X, y), expected.predictions, **CLOSE)
    np.testing.assert_array_equal(learner.dictionary_, expected.points)
    new = np.random.default_rng(9).uniform(-1, 1, (30, 2))
    np.testing.assert_allclose(learner.predict(new), naive.decision(expected, plain, new), **CLOSE)


@pytest.mark.parametrize("twin", [naive.krls, naive.krls_recursive])
def test_a_budget_agrees_with_the_twins(twin, monkeypatch):
    monkeypatch.setattr(krls, "CHUNK", 50)
    X, y = stream()
    expected = twin(X, y, GAUSSIAN, 0.03, 9)
    learner = KRLSRegressor(Gaussian(0.6), nu=0.03, budget=9)
    np.testing.assert_allclose(blockwise(learner, X, y), expected.predictions, **CLOSE)
    np.testing.assert_array_equal(learner.dictionary_, expected.points)
    assert learner.size_ == 9 < KRLSRegressor(Gaussian(0.6), nu=0.03).fit(X, y).size_


def test_columns_that_alternate_between_scales_stay_within_the_budget():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 4)) * np.array([1e-3, 1.0, 1e3])[np.arange(600) % 3, None]
    learner = KRLSRegressor(budget=40)
    predictions = learner.predict_then_learn(X, rng.normal(size=600))
    assert learner.size_ == 40 and np.isfinite(predictions).all()


def test_a_large_dictionary_warns_once(monkeypatch):
    monkeypatch.setattr("pronk.estimators.estimator.MANY_POINTS", 20)
    rng = np.random.default_rng(3)
    X, y = 1e3 * rng.normal(size=(30, 4)), rng.normal(size=30)
    learner = KRLSRegressor()
    with pytest.warns(UserWarning, match="30 points, .* set budget="):
        learner.partial_fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.partial_fit(X, y)
        KRLSRegressor(budget=19).partial_fit(X, y)


def test_linear_kernel_is_least_squares_through_the_first_rows():
    X, _ = stream(1, d=3)
    y = X @ [1.0, -2.0, 0.5]
    learner = KRLSRegressor(Linear(), nu=1e-6)
    predictions = blockwise(learner, X, y)
    assert learner.size_ == 3
    np.testing.assert_allclose(predictions[3:], y[3:], **CLOSE)


@given(cuts=st.lists(st.integers(0, 160), max_size=6))
@settings(max_examples=25, deadline=None)
def test_any_cut_gives_the_same(cuts):
    X, y = stream(2)
    expected = KRLSRegressor(Gaussian(0.6), nu=0.02).predict_then_learn(X, y)
    learner, parts = KRLSRegressor(Gaussian(0.6), nu=0.02), []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 160], strict=True):
        if stop > start:
            parts.append(learner.predict_then_learn(X[start:stop], y[start:stop]))
    np.testing.assert_allclose(np.concatenate(parts), expected, **CLOSE)


def test_saved_and_continued_to_the_last_bit(tmp_path):
    X, y = stream(3)
    learner = KRLSRegressor(Gaussian(0.6), nu=0.02).partial_fit(X[:90], y[:90])
    learner.save(tmp_path / "model")
    again = pronk.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict_then_learn(X[90:], y[90:]), learner.predict_then_learn(X[90:], y[90:])
    )
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))


def test_predict_is_the_next_prediction():
    X, y = stream(4)
    learner = KRLSRegressor(Gaussian(0.6), nu=0.02).partial_fit(X[:90], y[:90])
    expected = learner.predict(X[90:91])
    np.testing.assert_allclose(learner.predict_then_learn(X[90:91], y[90:91]), expected, **CLOSE)


@pytest.mark.parametrize("nu", [0.0, 0.1])
def test_duplicates_never_enter(nu):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (8, 2))[rng.integers(0, 8, 200)]
    y = rng.standard_normal(200)
    learner = KRLSRegressor(Gaussian(0.3), nu=nu).fit(X, y)
    assert learner.size_ <= 8
    if nu == 0.0:  # then least squares gives every distinct row its mean
        for x in np.unique(X, axis=0):
            mean = y[(x == X).all(axis=1)].mean()
            assert learner.predict(x[None]) == pytest.approx(mean)


def test_a_large_nu_holds_nothing_and_predicts_zero():
    X, y = stream(5)
    learner = KRLSRegressor(nu=2.0)
    assert not blockwise(learner, X, y).any() and learner.size_ == 0
    assert not learner.predict(X).any()


def test_several_outputs_share_the_dictionary():
    X, y = stream(6)
    Y = np.column_stack((y, -2 * y))
    both = KRLSRegressor(nu=0.05).predict_then_learn(X, Y)
    np.testing.assert_allclose(both[:, 1], -2 * both[:, 0], **CLOSE)


def test_scikit_learn_checks():
    check_estimator(KRLSRegressor(), expected_failed_checks=EXPECTED)
