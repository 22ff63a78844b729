"""Measured regret: a learner's losses minus those of a function chosen in hindsight.

    R_t(f) = sum_{s<=t} l(yhat_s, y_s) - l(f(x_s), y_s)

For the squared loss the supremum over all of the RKHS, paid for by the norm, has a closed form
(Zhdanov, Kalnishkan 2010): with L L' = K + alpha I and U = L^-1 y,

    sup_f [R_t(f) - alpha |f|^2] = sum_{s<=t} (y_s - yhat_s)^2 - alpha U_s^2.

It is exact for every t at once, and for Kernel-AWV's own predictions it equals
sum y_t^2 q_t/(1+q_t) - sum yhat_t^2 q_t, where 1 + q_t = L_tt^2/alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pronk.parts.kernels import get_kernel
from pronk.parts.linalg import cholesky, solve_lower
from pronk.parts.losses import Loss, get_loss
from pronk.parts.threads import limited
from pronk.regret.hindsight import Best, best_in_hindsight

Array = NDArray[np.float64]


def cumulative_regret(
    predictions: ArrayLike,
    y: ArrayLike,
    comparator_predictions: ArrayLike | float = 0.0,
    loss: str | Loss = "squared",
) -> Array:
    """R_t for every t: sum over the rows so far of l(prediction, y) - l(comparator, y).

    >>> print(cumulative_regret([0.0, 0.5, 0.9], [1.0, 1.0, 1.0], 1.0).round(2))
    [1.   1.25 1.26]
    """
    chosen = get_loss(loss) if isinstance(loss, str) else loss
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
    """The regret of predictions against the best function of the RKHS in hindsight.

    With ``clip`` the comparator is scaled into [-clip, clip], as the online Newton bounds ask.
    ``best`` replaces the comparator, for instance by `best_in_span` of a learner's dictionary.
    """
    chosen = get_loss(loss) if isinstance(loss, str) else loss
    z, labels = _same_length(predictions, y)
    if best is None:
        best = best_in_hindsight(X, labels, kernel, chosen, alpha)
    if clip is not None:
        best = best.within(clip)
    cumulative = cumulative_regret(z, labels, best.predictions, chosen)
    return Regret(cumulative, float(chosen.value(z, labels).sum()), best)


@limited
def penalised_regret(
    predictions: ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    kernel: Any = "gaussian",
    alpha: float = 1.0,
) -> Array:
    """sup_f [R_t(f) - alpha |f|^2] of the squared loss for every t, f over the whole RKHS.

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
    """`penalised_regret` of Kernel-AWV itself, without its predictions:

        sum_t y_t^2 q_t/(1+q_t) - sum_t yhat_t^2 q_t,    yhat_t = f_t/(1+q_t),

    f_t the ridge forecast of row t from the rows before it. It never exceeds max y^2 d_onl(alpha).
    """
    labels = np.asarray(y, dtype=np.float64)
    pivots, U = _factor(X, labels, kernel, alpha)
    q = pivots**2 / alpha - 1.0
    awv = (labels - pivots * U) / (1.0 + q)
    return np.cumsum(labels**2 * q / (1.0 + q) - awv**2 * q)


def _factor(X: ArrayLike, y: Array, kernel: Any, alpha: float) -> tuple[Array, Array]:
    """The pivots of L L' = K + alpha I, and U = L^-1 y."""
    if not 0.0 < alpha < np.inf:
        raise ValueError(f"alpha must be a positive finite number, got {alpha!r}")
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
