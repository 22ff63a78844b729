"""The adversaries of the papers: streams in blocks, the same rows for the same seed.

`alternating` and `repeating` are oblivious and yield blocks (X, y); `greedy` plays against a given
learner and returns the whole game.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pronk.core.kernels import Kernel, get_kernel
from pronk.core.linalg import GrowingRows

Array = NDArray[np.float64]


def alternating(
    n_rows: int, seed: int = 0, *, columns: int = 1, size: float = 1.0, block: int = 4096
) -> Iterator[tuple[Array, Array]]:
    """Repeat one point with the labels +size, -size, +size, ...: the example of KONS, Sec. 6.

    The best function in hindsight predicts 0. The space has one dimension, so the regret of
    second-order learners is O(log n) here; that of gradient steps of 1/sqrt(t) is about sqrt(n).

    >>> X, y = next(alternating(5))
    >>> print(y, len(set(X[:, 0])))
    [ 1. -1.  1. -1.  1.] 1
    """
    _check_rows(n_rows, block)
    point = np.random.default_rng([seed, 0]).uniform(-1, 1, columns)
    for start in range(0, n_rows, block):
        rows = np.arange(start, min(start + block, n_rows))
        y: Array = size * (1.0 - 2.0 * (rows % 2).astype(np.float64))
        yield np.tile(point, (len(rows), 1)), y


def repeating(
    n_rows: int,
    n_points: int,
    seed: int = 0,
    *,
    labels: Literal["fixed", "alternating"] = "fixed",
    distance: float = 10.0,
    columns: int = 1,
    size: float = 1.0,
    block: int = 4096,
) -> Iterator[tuple[Array, Array]]:
    """Present ``n_points`` points in turn, at least ``distance`` apart: more than a budget holds.

    With labels "fixed" each point keeps its sign (half of them +, shuffled), so that a function
    with one term per point fits all rows, while a learner that holds J < n_points points has no
    information on the others: on a share 1 - J/n_points of the rows its loss is larger by size^2,
    however long the stream. With "alternating" each point's label changes sign at every visit, and
    a learner that drops points forgets how far its steps had shrunk. ``distance`` is in bandwidths
    of the kernel; 10 makes kernel values of the Gaussian below 1e-21.

    >>> X, y = next(repeating(6, 3))
    >>> print(X[:, 0], y)
    [ 0. 10. 20.  0. 10. 20.] [ 1.  1. -1.  1.  1. -1.]
    """
    _check_rows(n_rows, block)
    if n_points < 1:
        raise ValueError(f"n_points must be at least 1, got {n_points}")
    if labels not in ("fixed", "alternating"):
        raise ValueError(f"labels must be 'fixed' or 'alternating', got {labels!r}")
    points = _lattice(n_points, columns) * distance
    signs = np.random.default_rng([seed, 0]).permutation(1.0 - 2.0 * (np.arange(n_points) % 2))
    for start in range(0, n_rows, block):
        rows = np.arange(start, min(start + block, n_rows))
        visit, point = np.divmod(rows, n_points)
        turned = 1.0 - 2.0 * (visit % 2) if labels == "alternating" else 1.0
        yield points[point], size * signs[point] * turned


def _lattice(n_points: int, columns: int) -> Array:
    """Return the first points of a cubic lattice, with neighbours at distance 1."""
    side = int(np.ceil(round(n_points ** (1.0 / columns), 9)))
    axes = np.unravel_index(np.arange(n_points), (side,) * columns)
    return np.stack(axes, axis=1).astype(np.float64)


def _check_rows(n_rows: int, block: int) -> None:
    if n_rows < 1 or block < 1:
        raise ValueError(f"n_rows and block must be at least 1, got {n_rows} and {block}")


@dataclass(frozen=True)
class Game:
    """The rows that an adversary chose, the learner's predictions, and its regret.

    ``regret`` is sup_f [R_t(f) - alpha |f|^2] after each row, f over the whole RKHS.
    """

    X: Array
    y: Array
    predictions: Array
    regret: Array


def greedy(
    learner: Any,
    n_rows: int,
    kernel: Any = "gaussian",
    alpha: float = 1.0,
    *,
    grid: ArrayLike | None = None,
    columns: int = 1,
    n_candidates: int = 200,
    size: float = 1.0,
    seed: int = 0,
) -> Game:
    """Choose each row (x, y) to increase the learner's regret most (PKAWV paper, App. G).

    x runs over a grid in [-1, 1]^columns (given, or ``n_candidates`` uniform draws of the seed;
    evenly spaced for one column), y over -size and +size; squared loss, a fresh regressor. The
    regret is sup_f [R(f) - alpha |f|^2]: a row (x, y) with prediction p and ridge forecast f in
    hindsight, q = (k(x, x) - k'(K + alpha I)^-1 k)/alpha, increases it by

        (y - p)^2 - (y - f)^2/(1 + q).

    p is the result of ``learner.predict`` before the row is learned; ties go to the larger loss,
    then to y = +size and the first candidate. Cost of row t: a prediction of the grid and
    O(t |grid|).

    >>> from pronk import KernelAWVRegressor
    >>> game = greedy(KernelAWVRegressor(), 30)
    >>> print(f"regret {game.regret[-1]:.3f}")
    regret 5.355
    """
    if n_rows < 1:
        raise ValueError(f"n_rows must be at least 1, got {n_rows}")
    if getattr(learner, "n_seen_", 0):
        raise ValueError("the learner must be fresh: its regret is counted from its first row")
    points = _grid(grid, columns, n_candidates, seed)
    hindsight = _RidgeOnGrid(get_kernel(kernel), alpha, points)
    chosen, y = np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows)
    predictions, gains = np.zeros(n_rows), np.zeros(n_rows)
    for t in range(n_rows):
        expected = learner.predict(points) if t else np.zeros(len(points))
        labels = np.array([size, -size])[:, None]
        losses = (labels - expected) ** 2
        gain = losses - hindsight.cost(labels)
        sign, i = divmod(_first_best(gain / size**2, losses / size**2), len(points))
        chosen[t], y[t] = i, labels[sign, 0]
        # A randomised learner may predict otherwise than before; the prediction it makes counts.
        predictions[t] = learner.predict_then_learn(points[i : i + 1], y[t : t + 1])[0]
        gains[t] = (y[t] - predictions[t]) ** 2 - hindsight.cost(y[t])[i]
        hindsight.learn(i, y[t])
    return Game(points[chosen], y, predictions, np.cumsum(gains))


def _first_best(gain: Array, loss: Array) -> int:
    """Return the first entry of largest gain, among equals of largest loss, up to rounding.

    Ties are common: AWV predicts f/(1 + q), and then the gain of y and of -y is the same.
    """
    gain, loss = np.round(gain.ravel(), 9), np.round(loss.ravel(), 9)
    return int(np.argmax(np.where(gain == gain.max(), loss, -1.0)))


def _grid(grid: ArrayLike | None, columns: int, n_candidates: int, seed: int) -> Array:
    if grid is not None:
        points = np.ascontiguousarray(grid, dtype=np.float64)
        if points.ndim != 2 or not len(points):
            raise ValueError(f"grid must have shape (points, columns), got {points.shape}")
        return points
    if columns == 1:
        return np.linspace(-1.0, 1.0, n_candidates)[:, None]
    return np.random.default_rng([seed, 0]).uniform(-1, 1, (n_candidates, columns))


class _RidgeOnGrid:
    """Evaluate the regularised fit of the past rows at every point of a grid.

    With L L' = K + alpha I over the rows it holds V = L^-1 K(rows, grid) and U = L^-1 y, so the
    forecast at the grid is V'U and the novelty q = (k(x, x) - |v|^2)/alpha.
    """

    def __init__(self, kernel: Kernel, alpha: float, points: Array) -> None:
        if not 0.0 < alpha < np.inf:
            raise ValueError(f"alpha must be a positive finite number, got {alpha!r}")
        self.kernel, self.alpha, self.points = kernel, alpha, points
        self._V = GrowingRows(len(points))
        self._rest = kernel.diagonal(points).copy()
        self.forecast = np.zeros(len(points))

    def cost(self, y: Array | float) -> Array:
        """Return what a row with label y adds to min_f sum (y - f)^2 + alpha |f|^2, per point."""
        novelty = np.maximum(self._rest, 0.0) / self.alpha
        return np.asarray((y - self.forecast) ** 2 / (1.0 + novelty))

    def learn(self, i: int, y: float) -> None:
        """Add the row (points[i], y)."""
        V = self._V.values
        pivot = np.sqrt(max(self._rest[i], 0.0) + self.alpha)
        row = (self.kernel(self.points[i : i + 1], self.points)[0] - V[:, i] @ V) / pivot
        self.forecast += row * ((y - self.forecast[i]) / pivot)
        self._rest -= row**2
        self._V.append(row[None, :])
