"""Which bound a learner gets, by which of its parameters, and what is refused."""

import math

import numpy as np
import pytest

import pronk
from pronk.core.dictionary import effective_dimension
from pronk.core.losses import get_loss
from pronk.regret import best_in_hindsight, bound_for, bounds
from pronk.regret.hindsight import best_within_clip
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


def test_labels_beyond_the_clip_are_refused():
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


def test_what_is_refused():
    with pytest.raises(ValueError, match="clip must be positive"):
        best_within_clip(X, Y, 0.0, KERNEL)
    with pytest.raises(ValueError, match="X must have two dimensions"):
        BEST.predict(X[:, 0])
    with pytest.raises(ValueError, match="alpha must be a positive finite number"):
        kernel_awv_penalised_regret(X, Y, KERNEL, alpha=0.0)
    with pytest.raises(ValueError, match=r"X must have shape \(40, columns\)"):
        kernel_awv_penalised_regret(X[:-1], Y, KERNEL, alpha=1.0)
