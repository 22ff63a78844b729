"""Kernel-AWV, kernel ridge, PKAWV and PKRR against their definitions, in uneven blocks."""

from itertools import pairwise

import numpy as np
import pytest

import pronk
from naive import awv, features
from naive.kernels import gaussian, laplacian
from naive.kors import kors
from naive.randomness import stream as numbered
from pronk import (
    Gaussian,
    KernelAWVClassifier,
    KernelAWVRegressor,
    Laplacian,
    Linear,
    PKAWVClassifier,
    PKAWVRegressor,
)
from pronk.core.dictionary import Dictionary

CUTS = [0, 1, 2, 9, 10, 75, 140, 141, 260]


def in_blocks(learner, X, y, **options):
    parts = [learner.predict_then_learn(X[i:j], y[i:j], **options) for i, j in pairwise(CUTS)]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(260, 2))
    X[100:110] = X[20:30]
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=260)
    return X, y


def kernel_of_twin(X, Z):
    return gaussian(X, Z, 0.6)


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_kernel_awv(stream, anticipate, alpha):
    X, y = stream
    learner = KernelAWVRegressor(Gaussian(0.6), alpha=alpha, anticipate=anticipate)
    expected = awv.kernel_awv(X, y, kernel_of_twin, alpha, anticipate)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-08)
    assert learner.size_ == 260
    assert np.array_equal(learner.dictionary_, X)


@pytest.mark.parametrize("anticipate", [True, False])
def test_taylor(stream, anticipate):
    X, y = stream
    learner = PKAWVRegressor(
        Gaussian(1.3), alpha=0.5, features="taylor", degree=4, anticipate=anticipate
    )
    expected = awv.feature_awv(features.taylor(X, 4, 1.3), y, 0.5, anticipate)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-08)
    assert learner.size_ == 0


@pytest.mark.parametrize("anticipate", [True, False])
def test_fourier(stream, anticipate):
    X, y = stream
    learner = PKAWVRegressor(
        Gaussian(0.6), features="fourier", n_features=30, anticipate=anticipate, random_state=9
    )
    expected = awv.feature_awv(features.fourier(X, 30, 9, 0.6), y, 1.0, anticipate)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-08)


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("budget", [None, 12])
@pytest.mark.parametrize("history", ["exact", "projected"])
def test_nystrom(stream, anticipate, budget, history):
    """The Laplacian's kernel matrix is well-conditioned: fast and naive spans are the same."""
    X, y = stream
    Y = np.column_stack((y, np.cos(X[:, 0])))
    learner = PKAWVRegressor(
        Laplacian(1.5), anticipate=anticipate, budget=budget, history=history, random_state=4
    )
    uniforms = numbered(4, 0).random(260)
    accepted, _, indices = kors(X, twin_laplacian, 1.0, 0.5, 1.0, uniforms, budget)
    twin = {"exact": awv.nystrom_awv_exact, "projected": awv.nystrom_awv_projected}[history]
    expected = twin(X, Y, twin_laplacian, 1.0, anticipate, accepted)
    np.testing.assert_allclose(in_blocks(learner, X, Y), expected, rtol=0, atol=1e-08)
    assert np.array_equal(learner.dictionary_, X[indices])
    assert learner.size_ == len(indices)


def twin_laplacian(X, Z):
    return laplacian(X, Z, 1.5)


@pytest.mark.parametrize("anticipate", [True, False])
def test_points_given_beforehand(stream, anticipate):
    X, y = stream
    points = np.vstack((X[:15], X[3:4]))  # one of them twice
    learner = PKAWVRegressor(Gaussian(0.6), dictionary=points, anticipate=anticipate)
    expected = awv.nystrom_awv_fixed(X, y, kernel_of_twin, 1.0, anticipate, points)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-08)
    assert learner.size_ == 16
    assert np.array_equal(learner.dictionary_, points)


def test_the_limit_of_a_full_dictionary_is_kernel_awv(stream):
    X, y = stream
    X, y = X[110:], y[110:]
    learner = PKAWVRegressor(Laplacian(1.5), beta=1e9, history="exact", random_state=0)
    whole = KernelAWVRegressor(Laplacian(1.5)).predict_then_learn(X, y)
    np.testing.assert_allclose(learner.predict_then_learn(X, y), whole, rtol=0, atol=1e-08)
    assert learner.size_ == 150


@pytest.mark.parametrize("make", [
    lambda: KernelAWVClassifier(Gaussian(0.6)),
    lambda: PKAWVClassifier(Gaussian(1.3), features="taylor", degree=3),
    lambda: PKAWVClassifier(Laplacian(1.5), history="exact", random_state=1),
    lambda: PKAWVClassifier(Laplacian(1.5), history="projected", random_state=1),
])  # fmt: skip
def test_classes_share_one_matrix_and_equal_separate_regressions(stream, make):
    """Each class's margin is the regression on +-1 with the same draws."""
    X, _ = stream
    labels = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5])]
    cut = make()
    cut.predict_then_learn(X[:1], labels[:1])
    cut.predict_then_learn(X[1:70], labels[1:70])
    margins = cut.predict_then_learn(X[70:], labels[70:], output="decision")
    learner = make()
    straight = learner.predict_then_learn(X, labels, output="decision")
    assert straight.shape == (260, 3)
    np.testing.assert_allclose(straight[70:], margins, rtol=0, atol=1e-10)
    regressor = type(learner).__name__.replace("Classifier", "Regressor")
    params = make().get_params(deep=False)
    del params["max_classes"]
    twin = getattr(pronk, regressor)(**params)
    columns = np.where(labels[:, None] == learner.classes_, 1.0, -1.0)
    np.testing.assert_allclose(twin.predict_then_learn(X, columns), straight, rtol=0, atol=1e-10)


@pytest.mark.parametrize("history", ["exact", "projected"])
@pytest.mark.parametrize("alpha", [1e-8, 1.0, 1e4])
def test_hard_dictionaries_are_survived(history, alpha):
    """Exact duplicates, a kernel matrix of rank 1, a smooth kernel with gamma 1e-4."""
    rng = np.random.default_rng(3)
    X = np.repeat(rng.normal(size=(4, 3)), 50, axis=0)
    X[100:] += 1e-9 * rng.normal(size=(100, 3))
    y = rng.normal(size=200)
    for kernel in (Gaussian(8.0), Gaussian(1e3), Linear()):
        learner = PKAWVRegressor(kernel, alpha=alpha, gamma=1e-4, history=history, random_state=0)
        predictions = learner.predict_then_learn(X, y)
        assert np.isfinite(predictions).all()
        assert np.abs(predictions).max() < 1e3
        assert np.isfinite(learner.predict(X)).all()


def test_parameters_that_do_not_fit_are_named(stream):
    X, y = stream
    for params, word in [
        ({"alpha": 0.0}, "alpha"), ({"alpha": -1.0}, "alpha"), ({"gamma": 0.0}, "gamma"),
        ({"features": "wavelet"}, "features"), ({"budget": 0}, "budget"),
        ({"dictionary": np.ones((3, 5))}, "dictionary"),
        ({"dictionary": np.full((3, 2), np.nan)}, "dictionary"),
        ({"features": "taylor", "kernel": "laplacian"}, "kernel"),
        ({"features": "fourier", "kernel": "linear"}, "kernel"),
        ({"kernel": Gaussian(-1.0)}, "bandwidth"), ({"random_state": -1}, "random_state"),
    ]:  # fmt: skip
        learner = PKAWVRegressor(**params)
        before = learner.__getstate__()
        with pytest.raises(ValueError, match=word):
            learner.predict_then_learn(X, y)
        assert learner.__getstate__() == before


@pytest.mark.parametrize("name", ["pkawv-nystrom", "pros-n-kons"])
def test_a_full_dictionary_measures_no_row_and_still_draws(stream, name, monkeypatch):
    X, y = stream
    options = {"history": "projected"} if name == "pkawv-nystrom" else {}
    learner = pronk.make(name, kernel=Gaussian(1.0), budget=5, random_state=0, **options)
    learner.partial_fit(X[:100], y[:100])
    assert learner.size_ == 5

    def measure(*_):
        raise AssertionError("a full dictionary measures a row")

    monkeypatch.setattr(Dictionary, "coordinates", measure)
    for i, j in pairwise([100, 101, 150, 260]):
        learner.partial_fit(X[i:j], y[i:j])
    assert learner._model.dictionary.to_state()["uniforms"]["count"] == 260
