"""The bound of each learner by its parameters, and the bounds of Passive-Aggressive learners."""

import math

import numpy as np
import pytest

import pronk
from naive.kernels import gaussian
from pronk.core.dictionary import effective_dimension
from pronk.core.losses import get_loss
from pronk.regret import (
    best_in_hindsight,
    bound_for,
    bounds,
    pa_mistake_bound,
    pa_squared_loss_bound,
)
from pronk.regret.measured import kernel_awv_penalised_regret

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.tanh(X[:, 0])
KERNEL = pronk.Gaussian(1.0)
BEST = best_in_hindsight(X, Y, KERNEL, alpha=1.0)


def kons(**options):
    return pronk.KONSRegressor(KERNEL, clip=1.0, **options).fit(X, Y)


def test_sketched_kons_has_theorem_3():
    learner = pronk.SketchedKONSRegressor(KERNEL, clip=1.0, random_state=0).fit(X, Y)
    loss = get_loss("squared")
    sigma, L = loss.curvature(1.0), loss.lipschitz(1.0)
    K = KERNEL(X, X)
    d = effective_dimension(K, learner.alpha / (sigma / 2 * L**2))
    expected = bounds.sketched_kons_bound(
        len(X), learner.alpha, BEST.norm2, d, sigma, L, learner.floor, learner.epsilon,
        beta=learner.beta, eta=sigma / 2, trace=max(np.trace(K), len(X)),
    )  # fmt: skip
    assert bound_for(learner, X, Y, BEST) == pytest.approx(expected, rel=1e-12)


def test_steps_that_no_theorem_covers_have_no_bound():
    """eta beyond the curvature, or for PROS-N-KONS any but half of it."""
    sigma = get_loss("squared").curvature(1.0)
    assert bound_for(kons(eta=1.01 * sigma), X, Y, BEST) == math.inf
    assert bound_for(kons(eta=sigma), X, Y, BEST) < math.inf
    for eta, bounded in ((sigma / 2, True), (sigma / 3, False)):
        learner = pronk.ProsNKONSRegressor(KERNEL, clip=1.0, eta=eta, random_state=0).fit(X, Y)
        assert (bound_for(learner, X, Y, BEST) < math.inf) is bounded


def test_labels_beyond_the_clip_raise():
    learner = kons()
    with pytest.raises(ValueError, match=r"need \|y\| <= clip for the squared loss"):
        bound_for(learner, X, 2.0 * np.sign(Y), BEST)


def test_features_that_are_too_few_for_a_bound():
    """Far points and a low degree: the gap has no number, nor has the bound."""
    far = 1e140 * X
    learner = pronk.PKAWVRegressor(KERNEL, features="taylor", degree=1).fit(X, Y)
    assert bound_for(learner, X, Y, BEST) < math.inf
    assert bounds.taylor_gap(40, 1e140, 1.0, 1) == math.inf
    assert bounds.taylor_gap(40, 0.0, 1.0, 1) == 0.0
    assert bound_for(learner, far, Y, BEST) == math.inf


def test_invalid_calls_raise():
    with pytest.raises(ValueError, match="clip must be positive"):
        BEST.within(0.0)
    with pytest.raises(ValueError, match="X must have two dimensions"):
        BEST.predict(X[:, 0])
    with pytest.raises(ValueError, match="alpha must be a positive finite number"):
        kernel_awv_penalised_regret(X, Y, KERNEL, alpha=0.0)
    with pytest.raises(ValueError, match=r"X must have shape \(40, columns\)"):
        kernel_awv_penalised_regret(X[:-1], Y, KERNEL, alpha=1.0)


def test_the_formulas_of_passive_aggressive_learners():
    assert pa_mistake_bound(0.25, 3.0, 2.0, 1.5) == 4.0 * (3.0 + 2 * 0.25 * 2.0)
    assert pa_mistake_bound(5.0, 3.0, 2.0, 1.5) == 1.5 * (3.0 + 2 * 5.0 * 2.0)
    assert pa_squared_loss_bound(0.25, 3.0, 2.0, 1.5) == (1.5 + 2.0) * (3.0 + 2 * 0.25 * 2.0)
    with pytest.raises(ValueError, match="C must be a positive finite number"):
        pa_mistake_bound(0.0, 1.0, 1.0)


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("signs", [True, False])
def test_passive_aggressive_learners_stay_below_their_bounds(C, signs):
    """Against ridge fits of all strengths: from far too smooth to nearly exact."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (300, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=300)
    y = np.where(y > 0, 1.0, -1.0) if signs else y
    K = gaussian(X, X, 0.4)
    name = "KernelPAClassifier" if signs else "KernelPARegressor"
    form = {"output": "decision"} if signs else {}
    first, second = (
        getattr(pronk, name)(pronk.Gaussian(0.4), variant=v, C=C).predict_then_learn(X, y, **form)
        for v in ("pa-1", "pa-2")
    )

    def loss(f):
        return np.maximum(1 - y * f, 0) if signs else np.maximum(np.abs(f - y) - 0.1, 0)

    for ridge in (0.01, 0.3, 10.0):
        a = np.linalg.solve(K + ridge * np.eye(300), y)
        norm2, left = a @ K @ a, loss(K @ a)
        assert np.sum(loss(second) ** 2) <= pa_squared_loss_bound(C, norm2, np.sum(left**2))
        if signs:
            assert np.sum(y * first <= 0) <= pa_mistake_bound(C, norm2, np.sum(left))
