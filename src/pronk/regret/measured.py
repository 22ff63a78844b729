"""Measured regret, a learner's losses minus those of a comparator, and the bound for a learner.

    R_t(f) = sum_{s<=t} l(yhat_s, y_s) - l(f(x_s), y_s)

For the squared loss the supremum over the RKHS, penalised by the norm, has a closed form
(Zhdanov, Kalnishkan 2010): with L L' = K + alpha I and U = L^-1 y,

    sup_f [R_t(f) - alpha |f|^2] = sum_{s<=t} (y_s - yhat_s)^2 - alpha U_s^2.

The formula is exact for every t. For the predictions of Kernel-AWV it equals
sum y_t^2 q_t/(1+q_t) - sum yhat_t^2 q_t, where 1 + q_t = L_tt^2/alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pronk.core.arrays import Array
from pronk.core.checks import check_positive
from pronk.core.dictionary import effective_dimension
from pronk.core.kernels import get_kernel
from pronk.core.linalg import cholesky, solve_lower
from pronk.core.losses import Loss, get_loss
from pronk.core.runtime import limited
from pronk.estimators.families import rule_of
from pronk.newton.spaces import FixedPoints
from pronk.regret import bounds
from pronk.regret.hindsight import Best, best_in_hindsight


def cumulative_regret(
    predictions: ArrayLike,
    y: ArrayLike,
    comparator_predictions: ArrayLike | float = 0.0,
    loss: str | Loss = "squared",
) -> Array:
    """Return R_t for every t, the sum of l(prediction, y) - l(comparator, y) over rows up to t.

    >>> print(cumulative_regret([0.0, 0.5, 0.9], [1.0, 1.0, 1.0], 1.0).round(2))
    [1.   1.25 1.26]
    """
    chosen = get_loss(loss)
    z, labels = _same_length(predictions, y)
    f = np.broadcast_to(np.asarray(comparator_predictions, dtype=np.float64), labels.shape)
    return np.cumsum(chosen.value(z, labels) - chosen.value(f, labels))


@dataclass(frozen=True)
class Regret:
    """Regret against the best function in hindsight.

    ``cumulative`` is R_t against that one function, chosen for all rows; its last value is
    ``regret``. ``supremum`` is sup_f [R(f) - alpha |f|^2] over the space of the comparator.
    """

    cumulative: Array
    learner_loss: float
    best: Best

    @property
    def regret(self) -> float:
        """R against ``best`` over all rows."""
        return float(self.cumulative[-1]) if len(self.cumulative) else 0.0

    @property
    def supremum(self) -> float:
        """sup_f [R(f) - alpha |f|^2], up to ``best.gap``; NaN for a clipped comparator."""
        if np.isnan(self.best.gap):
            return float("nan")
        return self.learner_loss - self.best.penalised


@limited
def regret_against_best(
    predictions: ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    kernel: Any = "gaussian",
    loss: str | Loss = "squared",
    alpha: float = 1.0,
    clip: float | None = None,
    best: Best | None = None,
) -> Regret:
    """Measure the regret of predictions against the best function of the RKHS in hindsight.

    With ``clip`` the comparator is scaled into [-clip, clip], as the online Newton bounds require.
    ``best`` replaces the comparator, for instance by `best_in_span` of a learner's dictionary.
    """
    chosen = get_loss(loss)
    z, labels = _same_length(predictions, y)
    if best is None:
        best = best_in_hindsight(X, labels, kernel, chosen, alpha)
    if clip is not None:
        best = best.within(clip)
    cumulative = cumulative_regret(z, labels, best.predictions, chosen)
    return Regret(cumulative, float(chosen.value(z, labels).sum()), best)


@limited
def penalised_regret(
    predictions: ArrayLike, X: ArrayLike, y: ArrayLike, kernel: Any = "gaussian", alpha: float = 1.0
) -> Array:
    """Return sup_f [R_t(f) - alpha |f|^2] over the RKHS, for the squared loss and every t.

    >>> import numpy as np
    >>> from pronk import KernelAWVRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> predictions = KernelAWVRegressor().predict_then_learn(X, y)
    >>> print(f"{penalised_regret(predictions, X, y)[-1]:.3f}")
    2.244
    """
    z, labels = _same_length(predictions, y)
    _, U = _factor(X, labels, kernel, alpha)
    return np.cumsum((labels - z) ** 2 - alpha * U**2)


@limited
def kernel_awv_penalised_regret(
    X: ArrayLike, y: ArrayLike, kernel: Any = "gaussian", alpha: float = 1.0
) -> Array:
    """Return the `penalised_regret` of Kernel-AWV without running it:

        sum_t y_t^2 q_t/(1+q_t) - sum_t yhat_t^2 q_t,    yhat_t = f_t/(1+q_t),

    where f_t is the ridge forecast of row t from the rows before it. The value never exceeds
    max y^2 d_onl(alpha).
    """
    labels = np.asarray(y, dtype=np.float64)
    pivots, U = _factor(X, labels, kernel, alpha)
    q = pivots**2 / alpha - 1.0
    awv = (labels - pivots * U) / (1.0 + q)
    return np.cumsum(labels**2 * q / (1.0 + q) - awv**2 * q)


def discounted_variation(Phi: ArrayLike, y: ArrayLike, U: ArrayLike, discount: float) -> float:
    """Return what the changes of a sequence of functions u_t = phi'U[t] cost on the past:

        sum_{t<n} F_t(u_{t+1}) - F_t(u_t),    F_t(u) = sum_{s<=t} discount^(t-s) (y_s - u'phi_s)^2,

    for features Phi (n, r), targets y (n,) and weights U (n, r); the ``variation`` of
    `discounted_awv_bound`. Time O(n r^2).
    """
    rows, labels = np.asarray(Phi, dtype=np.float64), np.asarray(y, dtype=np.float64)
    functions = np.asarray(U, dtype=np.float64)
    if functions.shape != rows.shape or len(labels) != len(rows):
        raise ValueError(f"U must have the shape of Phi, {rows.shape}, got {functions.shape}")
    G, h, total = np.zeros((rows.shape[1], rows.shape[1])), np.zeros(rows.shape[1]), 0.0
    for t in range(len(rows) - 1):
        G = discount * G + np.outer(rows[t], rows[t])
        h = discount * h + labels[t] * rows[t]
        u, later = functions[t], functions[t + 1]
        total += float(later @ G @ later - u @ G @ u - 2.0 * h @ (later - u))
    return total


def _factor(X: ArrayLike, y: Array, kernel: Any, alpha: float) -> tuple[Array, Array]:
    """Return the pivots of L L' = K + alpha I, and U = L^-1 y."""
    check_positive("alpha", alpha)
    rows = np.ascontiguousarray(X, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(y):
        raise ValueError(f"X must have shape ({len(y)}, columns), got {rows.shape}")
    K = get_kernel(kernel)(rows, rows)
    L = cholesky(K + alpha * np.eye(len(K)), "kernel matrix")
    return np.diag(L).copy(), solve_lower(L, y[:, None])[:, 0]


def _same_length(predictions: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    z, labels = np.asarray(predictions, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if z.shape != labels.shape or z.ndim != 1:
        raise ValueError(
            f"predictions and y must be vectors of one length, got {z.shape} and {labels.shape}"
        )
    return z, labels


# -- the bound for a learner ----------------------------------------------------------------------


@limited
def bound_for(learner: Any, X: ArrayLike, y: ArrayLike, comparator: Best) -> float:
    """Return the paper's bound on a learner's regret against ``comparator`` on the rows (X, y).

    ``learner`` must have learned exactly these rows; ``y`` are numbers (-1 and 1 for a classifier).
    With KORS the bound holds on its event (`kors_beta`). It is infinity if a premise of the theorem
    fails; a learner without a theorem raises a ValueError. Time O(n^3).

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
    if theorem == "aioli":
        return _aioli(learner, rows, comparator)
    if theorem == "nons-ald":
        return _nons_ald(learner, rows, labels, comparator)
    if theorem is not None:
        return _newton(learner, theorem, rows, labels, comparator)
    raise ValueError(f"none of the papers' theorems covers {learner!r}")


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
        if math.isinf(gap := bounds.taylor_gap(n, radius, sigma, degree)):
            return printed
        return min(printed, bounds.pkawv_bound(n, alpha, norm2, log_det, largest, gap))
    rule: Any = rule_of(learner)
    if learner.features == "nystrom" and rule is None:
        points = np.ascontiguousarray(learner.dictionary, dtype=np.float64)
        Phi = FixedPoints(kernel, points).transform(X)
        gap = max(float(np.linalg.eigvalsh(K - Phi @ Phi.T)[-1]), 0.0)
        return bounds.pkawv_bound(n, alpha, norm2, log_det, largest, gap)
    covered = rule is not None and rule.published
    if covered and learner.history == "exact" and learner.budget is None:
        gap = bounds.kors_gap(rule.gamma, rule.epsilon)
        d, top = effective_dimension(K, alpha), float(np.diag(K).max())
        return bounds.pkawv_kors_bound(n, alpha, norm2, d, largest, gap, learner.size_, top)
    raise ValueError(f"none of the papers' theorems covers {learner!r}")


def _aioli(learner: Any, X: Array, comparator: Best) -> float:
    """Return AIOLI's bound for a comparator in its fixed features (`best_with_features`)."""
    if rule_of(learner) is not None:
        raise ValueError(f"AIOLI's bound needs fixed features or points, not {learner!r}")
    if np.abs(comparator.predictions).max(initial=0.0) > learner.radius:
        raise ValueError("the comparator leaves [-radius, radius]; use comparator.within(radius)")
    alpha, radius = float(learner.alpha), float(learner.radius)
    Phi = learner._model.embedding.transform(X)
    log_det = bounds.log_determinant(Phi @ Phi.T, 8.0 * alpha * (1.0 + radius))
    return bounds.aioli_bound(alpha, comparator.norm2, log_det, radius)


def _nons_ald(learner: Any, X: Array, y: Array, comparator: Best) -> float:
    rule: Any = rule_of(learner)
    if learner.clip == "auto":
        raise ValueError("the online Newton bounds need a clip given beforehand, not 'auto'")
    if learner.budget is not None and learner.size_ >= learner.budget:
        raise ValueError(f"NONS-ALD's bound needs a dictionary below its budget, {learner.budget}")
    largest = float(np.abs(comparator.predictions).max(initial=0.0))
    if largest + math.sqrt(comparator.norm2 * rule.nu) > learner.clip * (1.0 + 1e-12):
        raise ValueError("the comparator needs |f(x)| + |f| sqrt(nu) <= clip; scale it down")
    if learner.eta == "convex":
        return math.inf
    C = float(learner.clip)
    eta = {"auto": 1.0 / (16.0 * C**2), "unit": 1.0 / (4.0 * C**2 + 4.0)}.get(learner.eta)
    return bounds.nons_ald_bound(
        len(X), learner.alpha, comparator.norm2, learner.size_,
        float(learner.eta) if eta is None else eta, C, float(np.abs(y).max()), rule.nu,
        trace=float(learner.kernel_.diagonal(X).sum()),
    )  # fmt: skip


def _newton(learner: Any, theorem: str, X: Array, y: Array, comparator: Best) -> float:
    loss = get_loss(learner.loss)
    clip = 1.0 if learner.clip == "auto" and hasattr(learner, "classes_") else learner.clip
    if clip == "auto":
        raise ValueError("the online Newton bounds need a clip given beforehand, not 'auto'")
    if loss.name == "squared" and np.abs(y).max() > clip:
        raise ValueError("the online Newton bounds need |y| <= clip for the squared loss")
    if np.abs(comparator.predictions).max(initial=0.0) > clip:
        raise ValueError("the comparator leaves [-clip, clip]; use comparator.within(clip)")
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
        raise ValueError(f"none of the papers' theorems covers {learner!r}")
    if not math.isclose(eta, sigma / 2):
        return math.inf
    n, points = len(X), learner.dictionary_
    before = int(np.argmax((points[0] == X).all(axis=1))) + 1 if len(points) else n
    d = effective_dimension(K, learner.alpha / (sigma * L**2))
    return bounds.pros_n_kons_bound(
        n, learner.alpha, rule.gamma, rule.epsilon, norm2, d, sigma, L, clip,
        restarts=len(points), rows_before=before, trace=max(float(np.trace(K)), float(n)),
    )  # fmt: skip
