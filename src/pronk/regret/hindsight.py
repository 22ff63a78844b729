"""The best function in hindsight, the comparator of measured regret.

For every loss the objective is

    sum_t l(f(x_t), y_t) + alpha |f|^2        (no mean over the rows, no factor 1/2),

over the whole RKHS (`best_in_hindsight`), over the span of some points such as a learner's
dictionary (`best_in_span`), or over given features (`best_with_features`). The squared loss has the
closed form (K + alpha I) c = y; losses with a derivative are minimised by Newton iterations, losses
with kinks through the dual problem, by an interior-point method. ``gap`` bounds the difference to
the minimum.

>>> import numpy as np
>>> from pronk import Gaussian
>>> X = np.linspace(-1, 1, 50)[:, None]
>>> y = np.sign(X[:, 0])
>>> best = best_in_hindsight(X, y, Gaussian(0.5), alpha=0.1)
>>> print(f"loss {best.loss:.3f}, largest {abs(best.predictions).max():.3f}")
loss 4.267, largest 1.147
>>> print(f"scaled into [-1, 1]: loss {best.within(1.0).loss:.3f}")
scaled into [-1, 1]: loss 5.199
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pronk.core.arrays import Array
from pronk.core.checks import check_positive
from pronk.core.features import in_chunks
from pronk.core.kernels import Kernel, get_kernel
from pronk.core.losses import Loss, get_loss
from pronk.core.runtime import limited
from pronk.newton.spaces import FixedPoints
from pronk.regret.solvers import FeatureSpace, KernelSpace, Space, minimise

#: Rows per chunk of features.
_CHUNK = 1024


@dataclass(frozen=True)
class Best:
    """The best function in hindsight, with its predictions and its loss on the rows.

    ``loss`` is the sum of losses, ``penalised`` adds alpha |f|^2, and ``gap`` bounds the difference
    of ``penalised`` to the minimum. ``coefficients`` belong to the rows (full RKHS), to orthonormal
    coordinates of the span, or to the features.
    """

    coefficients: Array
    norm2: float
    predictions: Array
    loss: float
    alpha: float
    gap: float
    _y: Array = field(repr=False)
    _loss: Loss = field(repr=False)
    _map: Callable[[Array], Array] | None = field(repr=False, default=None)

    @property
    def penalised(self) -> float:
        """The sum of losses plus alpha |f|^2."""
        return self.loss + self.alpha * self.norm2

    def within(self, clip: float) -> Best:
        """Return the function scaled down so that |f(x_t)| <= clip on all its rows.

        The regret bounds of the online Newton papers compare with functions whose predictions lie
        in [-clip, clip]. The scaled function is one of them but not the best; its ``gap`` is
        unknown (NaN) if it was scaled.
        """
        if not clip > 0:
            raise ValueError(f"clip must be positive, got {clip!r}")
        largest = float(np.abs(self.predictions).max(initial=0.0))
        if largest <= clip:
            return self
        scale = clip / largest
        # Without the clip, rounding could move the largest prediction outside.
        predictions = np.clip(self.predictions * scale, -clip, clip)
        return replace(
            self,
            coefficients=self.coefficients * scale,
            norm2=self.norm2 * scale**2,
            predictions=predictions,
            loss=float(self._loss.value(predictions, self._y).sum()),
            gap=float("nan"),
        )

    @limited
    def predict(self, X: ArrayLike) -> Array:
        """Return f at new rows (rows of features for `best_with_features`)."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got shape {X.shape}")
        rows = X if self._map is None else self._map(X)
        return np.asarray(rows @ self.coefficients)


@limited
def best_in_hindsight(
    X: ArrayLike,
    y: ArrayLike,
    kernel: Any = "gaussian",
    loss: str | Loss = "squared",
    alpha: float = 1.0,
) -> Best:
    """Minimise sum_t l(f(x_t), y_t) + alpha |f|^2 over the RKHS; f = sum_t c_t k(x_t, .).

    Time O(n^3), memory O(n^2).
    """
    X, y = _rows(X, y)
    k = get_kernel(kernel)
    return _best(KernelSpace(k(X, X), float(alpha)), y, loss, lambda Z: k(Z, X))


@limited
def best_in_span(
    X: ArrayLike,
    y: ArrayLike,
    points: ArrayLike,
    kernel: Any = "gaussian",
    loss: str | Loss = "squared",
    alpha: float = 1.0,
) -> Best:
    """Minimise the objective of `best_in_hindsight` over the span of k(p, .), p in ``points``.

    With a learner's ``dictionary_`` this is the BATCH comparator of the PROS-N-KONS paper. The
    coordinates are those of the Cholesky factor of K_points without its dependent points. Time
    O(n r^2).
    """
    X, y = _rows(X, y)
    points = np.ascontiguousarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != X.shape[1]:
        raise ValueError(f"points must have shape (points, {X.shape[1]}), got {points.shape}")
    embed = _span(get_kernel(kernel), points)
    return _best(FeatureSpace(embed(X), float(alpha)), y, loss, embed)


@limited
def best_with_features(
    Phi: ArrayLike, y: ArrayLike, loss: str | Loss = "squared", alpha: float = 1.0
) -> Best:
    """Minimise the objective over f = phi'w for given rows of features; |f|^2 is |w|^2."""
    Phi, y = _rows(Phi, y)
    return _best(FeatureSpace(Phi, float(alpha)), y, loss, None)


def _best(space: Space, y: Array, loss: str | Loss, embed: Callable[[Array], Array] | None) -> Best:
    check_positive("alpha", space.alpha)
    chosen = get_loss(loss)
    if chosen.task == "classification" and not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"the {chosen.name} loss needs labels -1 and 1")
    solution = minimise(space, y, chosen)
    return Best(
        coefficients=solution.coefficients,
        norm2=space.square_norm(solution.coefficients),
        predictions=solution.values,
        loss=float(chosen.value(solution.values, y).sum()),
        alpha=space.alpha,
        gap=solution.gap,
        _y=y,
        _loss=chosen,
        _map=embed,
    )


def _span(kernel: Kernel, points: Array) -> Callable[[Array], Array]:
    """Return the map to orthonormal coordinates of the span of the points."""
    if not len(points):
        return lambda X: np.zeros((len(X), 0))
    embedding = FixedPoints(kernel, points)
    # The features of a chunk are valid until the next one.
    return lambda X: in_chunks(_CHUNK, lambda rows: embedding.transform(rows).copy(), X)


def _rows(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    X = np.ascontiguousarray(X, dtype=np.float64)
    y = np.ascontiguousarray(y, dtype=np.float64)
    if X.ndim != 2 or y.shape != (len(X),):
        raise ValueError(
            f"rows and labels must have shapes (n, columns) and (n,), got {X.shape} and {y.shape}"
        )
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError("rows and labels must be finite")
    return X, y
