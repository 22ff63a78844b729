"""The theorem that speaks of a learner, with the numbers filled in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pronk.engines.newton.embedded import FixedPoints
from pronk.estimators.families.space import rule_of
from pronk.parts.leverage import effective_dimension
from pronk.parts.losses import get_loss
from pronk.parts.threads import limited
from pronk.regret import bounds
from pronk.regret.hindsight import Best

Array = NDArray[np.float64]


@limited
def bound_for(learner: Any, X: ArrayLike, y: ArrayLike, comparator: Best) -> float:
    """The paper's bound on a learner's regret against ``comparator`` over the rows (X, y).

    ``learner`` has learned exactly these rows, ``y`` are numbers (-1 and 1 for a classifier). Where
    KORS is involved the bound holds on its event (`kors_beta`). Infinity where a theorem's premise
    fails, a ValueError where no theorem speaks of the learner. Time O(n^3).

    >>> import numpy as np
    >>> from pronk import KernelAWVRegressor
    >>> from pronk.regret import regret_against_best
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> learner = KernelAWVRegressor()
    >>> predictions = learner.predict_then_learn(X, y)
    >>> measured = regret_against_best(predictions, X, y)
    >>> bound = bound_for(learner, X, y, measured.best)
    >>> print(f"regret {measured.regret:.2f}, bound {bound:.2f}")
    regret 4.56, bound 20.35
    """
    rows = np.ascontiguousarray(X, dtype=np.float64)
    labels = np.asarray(y, dtype=np.float64)
    if learner.n_seen_ != len(rows):
        raise ValueError(f"the learner has learned {learner.n_seen_} rows, X has {len(rows)}")
    theorem = getattr(learner, "_theorem", None)
    if theorem in ("kernel-awv", "pkawv"):
        return _awv(learner, theorem, rows, labels, comparator.norm2)
    if theorem is not None:
        return _newton(learner, theorem, rows, labels, comparator)
    raise ValueError(f"none of the papers' theorems speaks of {learner!r}")


def _awv(learner: Any, theorem: str, X: Array, y: Array, norm2: float) -> float:
    kernel = learner.kernel_
    K = kernel(X, X)
    n, alpha, largest = len(X), float(learner.alpha), float(np.abs(y).max())
    log_det = bounds.log_determinant(K, alpha)
    if theorem == "kernel-awv":
        return bounds.kernel_awv_bound(alpha, norm2, log_det, largest)
    if learner.features == "taylor":
        radius = float(np.linalg.norm(X, axis=1).max())
        sigma, degree = kernel.bandwidth, learner.degree
        printed = bounds.pkawv_taylor_bound(
            n, alpha, norm2, log_det, largest, radius, sigma, degree
        )
        gap = bounds.taylor_gap(n, radius, sigma, degree)
        return min(printed, _or_infinity(n, alpha, norm2, log_det, largest, gap))
    rule: Any = rule_of(learner)
    if learner.features == "nystrom" and rule is None:
        points = np.ascontiguousarray(learner.dictionary, dtype=np.float64)
        Phi = FixedPoints(kernel, points).transform(X)
        gap = max(float(np.linalg.eigvalsh(K - Phi @ Phi.T)[-1]), 0.0)
        return _or_infinity(n, alpha, norm2, log_det, largest, gap)
    if (
        rule is not None
        and rule.published
        and learner.history == "exact"
        and learner.budget is None
    ):
        gap = bounds.kors_gap(rule.gamma, rule.epsilon)
        d, top = effective_dimension(K, alpha), float(np.diag(K).max())
        return bounds.pkawv_kors_bound(n, alpha, norm2, d, largest, gap, learner.size_, top)
    raise ValueError(f"none of the papers' theorems speaks of {learner!r}")


def _or_infinity(
    n: int, alpha: float, norm2: float, log_det: float, largest: float, gap: float
) -> float:
    if math.isinf(gap):
        return math.inf
    return bounds.pkawv_bound(n, alpha, norm2, log_det, largest, gap)


def _newton(learner: Any, theorem: str, X: Array, y: Array, comparator: Best) -> float:
    loss = get_loss(learner.loss)
    clip = 1.0 if learner.clip == "auto" and hasattr(learner, "classes_") else learner.clip
    if clip == "auto":
        raise ValueError("the online Newton bounds need a clip given beforehand, not 'auto'")
    if loss.name == "squared" and np.abs(y).max() > clip:
        raise ValueError("the online Newton bounds need |y| <= clip for the squared loss")
    if np.abs(comparator.predictions).max(initial=0.0) > clip:
        raise ValueError("the comparator leaves [-clip, clip]; take comparator.within(clip)")
    n, alpha, norm2 = len(X), float(learner.alpha), comparator.norm2
    sigma, L = loss.curvature(clip), loss.lipschitz(clip)
    eta: Any = learner.eta
    if eta == "auto":
        eta = sigma / 2 if sigma > 0 else "convex"
    K = learner.kernel_(X, X)
    trace = max(float(np.trace(K)), float(n))
    if theorem == "kons" and eta == "convex":
        d = effective_dimension(K, alpha / max(L**2, L / clip))
        return bounds.kons_convex_bound(n, alpha, norm2, d, L, clip, trace)
    if eta == "convex" or sigma == 0.0 or not 0.0 < eta <= sigma:
        return math.inf
    if theorem == "pros-n-kons":
        return _pros_n_kons(learner, X, K, norm2, sigma, L, clip, eta)
    d = effective_dimension(K, alpha / (eta * L**2))
    if theorem == "kons":
        return bounds.kons_bound(n, alpha, norm2, d, sigma, L, eta, trace)
    return bounds.sketched_kons_bound(
        n, alpha, norm2, d, sigma, L, learner.floor, learner.epsilon,
        beta=learner.beta, eta=eta, trace=trace,
    )  # fmt: skip


def _pros_n_kons(
    learner: Any, X: Array, K: Array, norm2: float, sigma: float, L: float, clip: float, eta: float
) -> float:
    rule: Any = rule_of(learner)
    if not (rule is not None and rule.published and learner.restart and learner.budget is None):
        raise ValueError(f"none of the papers' theorems speaks of {learner!r}")
    if not math.isclose(eta, sigma / 2):
        return math.inf
    n, points = len(X), learner.dictionary_
    before = int(np.argmax((points[0] == X).all(axis=1))) + 1 if len(points) else n
    d = effective_dimension(K, learner.alpha / (sigma * L**2))
    return bounds.pros_n_kons_bound(
        n, learner.alpha, rule.gamma, rule.epsilon, norm2, d, sigma, L, clip,
        restarts=len(points), rows_before=before, trace=max(float(np.trace(K)), float(n)),
    )  # fmt: skip
