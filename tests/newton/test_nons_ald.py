"""NONS-ALD against two derivations of its definition, in uneven blocks, and its bound."""

from itertools import pairwise

import numpy as np
import pytest

import pronk
from naive import pros
from naive.kernels import gaussian, laplacian
from pronk import Gaussian, Laplacian, ProsNKONSRegressor
from pronk.regret import best_in_hindsight, bound_for, nons_ald_bound

CUTS = [0, 1, 2, 9, 10, 75, 140, 141, 200]


def stream():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(200, 2))
    X[120:125] = X[20:25]
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=200)


def in_blocks(learner, X, y):
    parts = [learner.predict_then_learn(X[i:j], y[i:j]) for i, j in pairwise(CUTS)]
    return np.concatenate(parts)


@pytest.mark.parametrize("nu, clip", [(0.3, "auto"), (0.3, 0.7), (0.01, 2.0)])
@pytest.mark.parametrize("twin", [pros.nons_ald, pros.nons_ald_explicit])
def test_nons_ald(twin, nu, clip):
    X, y = stream()
    learner = pronk.make("nons-ald", kernel=Laplacian(1.5), nu=nu, clip=clip)
    expected, accepted = twin(X, y, lambda X, Z: laplacian(X, Z, 1.5), 1.0, nu, clip)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(learner.dictionary_, X[accepted])


def test_the_name_and_its_defaults():
    learner = pronk.make("nons-ald", kernel=Gaussian(0.8))
    assert isinstance(learner, ProsNKONSRegressor) and learner.nu == 0.01
    X, y = stream()
    expected, accepted = pros.nons_ald(X, y, lambda X, Z: gaussian(X, Z, 0.8), 1.0, 0.01, "auto")
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-8)
    assert learner.size_ == accepted.sum() < 100
    with pytest.raises(ValueError, match="does regression only"):
        pronk.make("nons-ald", "classification")


def test_the_formula_of_the_bound():
    eta, slope = 1 / 8, 4.0
    expected = 0.5 * (2.0 * 9.0 + 6 / eta * np.log(1 + eta * slope**2 * 100 / (2.0 * 6)))
    expected += slope * 100 * 3.0 * 0.1
    assert nons_ald_bound(100, 2.0, 9.0, 6, eta, 1.0, 1.0, 0.01) == pytest.approx(expected)
    assert nons_ald_bound(100, 2.0, 9.0, 6, 0.126, 1.0, 1.0, 0.01) == np.inf
    assert nons_ald_bound(100, 2.0, 0.0, 0, eta, 1.0, 1.0, 0.01) == 0.0
    with pytest.raises(ValueError, match="nu must be"):
        nons_ald_bound(100, 2.0, 9.0, 6, eta, 1.0, 1.0, -1.0)


@pytest.mark.parametrize("nu", [1e-6, 1e-3])
@pytest.mark.parametrize("adversary", [False, True])
def test_the_regret_stays_below_the_bound(nu, adversary):
    X, y = stream()
    y = np.clip(y, -1, 1)
    if adversary:
        y = np.where(np.random.default_rng(1).random(200) < 0.5, 1.0, -1.0)
    kernel = Gaussian(1.0)
    learner = pronk.make("nons-ald", kernel=kernel, nu=nu, clip=1.0, track_regret=True)
    p = in_blocks(learner, X, y)
    for alpha in (0.1, 1.0, 10.0):
        best = best_in_hindsight(X, y, kernel, alpha=alpha)
        reach = np.abs(best.predictions).max() + np.sqrt(best.norm2 * nu)
        best = best.within(np.abs(best.predictions).max() * min(1.0, 1.0 / reach) * (1 - 1e-9))
        regret = np.sum((p - y) ** 2 - (best.predictions - y) ** 2)
        bound = bound_for(learner, X, y, best)
        assert regret <= bound < np.inf
        certificate = learner.certificate()
        # The sharper terms of the run, without the price of the smaller span.
        assert certificate.bound <= bound - 0.5 * best.norm2 + 1e-9
    assert certificate.regret <= certificate.bound


def test_premises_of_the_bound():
    X, y = stream()
    best = best_in_hindsight(X, y, Gaussian(1.0), alpha=1.0)
    for clip, message in (("auto", "clip given beforehand"), (0.3, "scale it down")):
        learner = pronk.make("nons-ald", kernel=Gaussian(1.0), clip=clip).fit(X, y)
        with pytest.raises(ValueError, match=message):
            bound_for(learner, X, y, best)
    full = pronk.make("nons-ald", kernel=Gaussian(1.0), clip=2.0, budget=5).fit(X, y)
    with pytest.raises(ValueError, match="below its budget"):
        bound_for(full, X, y, best)
    # With y up to 2 and clip 3 the step "unit" is longer than the curvature allows.
    wild = pronk.make("nons-ald", kernel=Gaussian(1.0), clip=3.0).fit(X, y)
    assert bound_for(wild, X, y, best) == np.inf
