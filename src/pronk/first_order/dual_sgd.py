"""The engine of DualSGD: kernel terms, the smallest of which move into random features.

f(x) = (sum_i r_i k(x_i, x) + m'phi(x)) / (alpha t) after t rows. The points of the kernel terms
stand by age, and their features are kept, so that a term can move at any time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.core.features import Embedding, chunks
from pronk.core.kernels import Kernel
from pronk.core.linalg import Workspace, doubled, recombined
from pronk.core.losses import Loss, slope
from pronk.core.state import Count, Numbers, Sizes, Stateful, require
from pronk.first_order.gradient import add_multiple, dot

# ----------------------------------------------------------------------------------------
# What the engines of dual space share: the slopes of a loss on one output or on classes.
#
# A model is f(x) = sum_i c_i k(x_i, x) + w'phi(x) with Fourier features phi'phi ~ k, so that a
# term of the first kind can become one of the second, c_i k(x_i, .) -> c_i phi(x_i), at little
# loss. `dual_sgd` moves the smallest terms when there are too many; `dual_svrg` asks an oracle
# once, when a point arrives, and reduces the variance of its steps with a memory.
#
# Several outputs are the classes of one problem: the margin of a row is a = s_y - max_{c != y} s_c
# (lowest number on ties) and its gradient l'(a) (e_y - e_z). One output is a number or a class -1,
# 1.

Array = NDArray[np.float64]

#: Rows whose features and kernel values are held at a time.
CHUNK = 64


@njit(cache=True)
def slopes(code: int, parameter: float, scores: Array, y: float, out: Array) -> None:
    """out_c = dl/ds_c: the loss's slope at (s, y), or l'(a) (e_y - e_z) for several classes."""
    if scores.size == 1:
        out[0] = slope(code, parameter, scores[0], y)
        return
    own = int(y)
    rival = 1 if own == 0 else 0
    for c in range(rival + 1, scores.size):
        if c != own and scores[c] > scores[rival]:
            rival = c
    g = slope(code, parameter, scores[own] - scores[rival], 1.0)
    out[:] = 0.0
    out[own] = g
    out[rival] = -g


def class_numbers(targets: Array, matrix: Array) -> Array:
    """Targets (-1 and 1, or numbers of classes) when the outputs become outputs @ matrix."""
    if matrix.shape == (1, 1):
        return np.asarray(targets * matrix[0, 0])
    if matrix.shape[0] == 1:  # one output s becomes -s/2 and s/2 among three
        places = np.array([matrix[0].argmin(), matrix[0].argmax()], dtype=np.float64)
        return places[(targets > 0).astype(np.intp)]
    return matrix.argmax(axis=1).astype(np.float64)[targets.astype(np.intp)]


Indices = NDArray[np.int64]


class DualRule(NamedTuple):
    """What is learned from a row and how many terms are held; scalars only."""

    loss: int  # code of the loss
    parameter: float  # of the loss
    alpha: float
    budget: int
    merge: int  # terms that move when there are too many


class Terms(NamedTuple):
    """The kernel terms of a chunk's walk, one column each, by age, and what has moved.

    Columns are first the terms held before the chunk, with features old[slots], then the chunk's
    rows.
    """

    sizes: Array  # the largest coefficient of the column; infinite: not held
    coefficients: Array  # (outputs, columns)
    old: Array
    slots: Indices
    moved: Array  # the vector of random features, one row an output


@njit(cache=True, fastmath={"contract"})
def move_smallest(terms: Terms, Phi: Array, count: int, columns: int) -> None:
    """The ``count`` held columns of least size, oldest first, go to ``moved``.

    Phi has the features of the chunk's rows.
    """
    sizes, coefficients, old, slots, moved = terms
    for _ in range(count):
        least = 0
        for j in range(1, columns):
            if sizes[j] < sizes[least]:
                least = j
        phi = old[slots[least]] if least < slots.size else Phi[least - slots.size]
        for c in range(moved.shape[0]):
            if coefficients[c, least] != 0.0:
                add_multiple(moved[c], coefficients[c, least], phi)
                coefficients[c, least] = 0.0
        sizes[least] = np.inf


@njit(cache=True, fastmath={"contract"})
def merged_rows(
    rule: DualRule, terms: Terms, K: Array, Phi: Array, y: Array, t: int, out: Array
) -> None:
    """s = (sum r_i k(x_i, x) + m'phi(x)) / (alpha (t-1)), r_t = -l'(s, y); too many terms: move.

    K's columns are the points held before the chunk and then the chunk's own rows.
    """
    sizes, coefficients, _, slots, moved = terms
    outputs = moved.shape[0]
    held = slots.size
    g = np.empty(outputs)
    for i in range(y.size):
        t += 1
        columns = slots.size + i
        kernel = K[i, :columns]
        for c in range(outputs):
            s = 0.0
            if t > 1:
                s = (dot(coefficients[c], kernel) + dot(moved[c], Phi[i])) / (rule.alpha * (t - 1))
            out[i, c] = s
        slopes(rule.loss, rule.parameter, out[i], y[i], g)
        size = 0.0
        for c in range(outputs):
            coefficients[c, columns] = -g[c]
            size = max(size, abs(g[c]))
        if size > 0.0:
            sizes[columns] = size
            held += 1
            if held > rule.budget:
                count = min(rule.merge, held)
                move_smallest(terms, Phi, count, columns + 1)
                held -= count


class MergedDual(Stateful):
    """DualSGD: steps 1/(alpha t); above ``budget`` terms the ``merge`` smallest are moved.

    Coefficients are kept un-shrunk, r_i = alpha t c_i, so that shrinking costs nothing and equal
    ones tie exactly. The features of held points are kept: a move evaluates nothing.
    """

    coded = True  # targets of several outputs are numbers of classes

    def __init__(
        self, kernel: Kernel, embedding: Embedding, loss: Loss, alpha: float, columns: int,
        budget: int, merge: int, outputs: int = 1,
    ) -> None:  # fmt: skip
        self.kernel, self.embedding, self.loss, self.alpha = kernel, embedding, loss, alpha
        self.budget, self.merge = budget, merge
        self.rows = 0
        self._points = np.zeros((0, columns))  # oldest first
        self._coefficients = np.zeros((outputs, 0))
        self._slots = np.zeros(0, dtype=np.int64)  # where a point's features are
        self._features = np.zeros((16, embedding.size))
        self._moved = np.zeros((outputs, embedding.size))
        self._reserved = self._slots  # slots that a snapshot may come back to
        self._memory = Workspace()

    @property
    def points(self) -> Array:
        return self._points

    @property
    def weights(self) -> Array:
        """The vector of random features, un-shrunk."""
        return self._moved

    def learn(self, X: Array, Y: Array) -> Array:
        """Predict then learn each row; Y is one column of targets or of numbers of classes."""
        out = np.empty((len(X), len(self._moved)))
        for rows in chunks(len(X), CHUNK):
            self._learn_chunk(X[rows], np.ascontiguousarray(Y[rows, 0]), out[rows])
        return out

    def _learn_chunk(self, X: Array, y: Array, out: Array) -> None:
        held, n = len(self._points), len(X)
        K = self._memory.take("kernel values", n, held + n)
        K[:, :held] = self.kernel(X, self._points)
        K[:, held:] = self.kernel(X, X)
        Phi = self.embedding.transform(X)
        coefficients = np.zeros((len(self._moved), held + n))
        coefficients[:, :held] = self._coefficients
        sizes = np.full(held + n, np.inf)
        sizes[:held] = np.abs(self._coefficients).max(axis=0, initial=0.0)
        loss = self.loss
        rule = DualRule(loss.code, loss.parameter, self.alpha, self.budget, self.merge)
        terms = Terms(sizes, coefficients, self._features, self._slots, self._moved)
        merged_rows(rule, terms, K, Phi, y, self.rows, out)
        self.rows += n
        self._settle(X, Phi, coefficients, np.flatnonzero(sizes < np.inf))

    def _settle(self, X: Array, Phi: Array, coefficients: Array, kept: NDArray[np.intp]) -> None:
        """Hold the columns that are left; the features of new ones take the free slots."""
        held = len(self._points)
        new = kept[kept >= held] - held
        if not new.size and len(kept) == held:
            return
        old = kept[kept < held]
        slots = self._slots[old]
        room = len(kept) + len(self._reserved)
        if room > len(self._features):
            shape = (max(room, 2 * len(self._features)), self._features.shape[1])
            self._features = doubled(self._features, len(self._features), shape)
        taken = np.concatenate((slots, self._reserved))
        free = np.setdiff1d(np.arange(room), taken)[: len(new)]
        self._features[free] = Phi[new]
        self._slots = np.concatenate((slots, free))
        self._points = np.concatenate((self._points[old], X[new]))
        self._coefficients = np.ascontiguousarray(coefficients[:, kept])

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        parts = []
        for rows in chunks(len(X), CHUNK):
            s = self.kernel(X[rows], self._points) @ self._coefficients.T
            parts.append(s + self.embedding.transform(X[rows]) @ self._moved.T)
        return np.concatenate(parts) / (self.alpha * max(self.rows, 1))

    def remap(self, matrix: Array) -> None:
        """New outputs as combinations of the old."""
        self._coefficients = recombined(self._coefficients, matrix, axis=-2)
        self._moved = recombined(self._moved, matrix, axis=-2)

    def negate(self) -> None:
        """The model of the opposite targets."""
        self.remap(np.array([[-1.0]]))

    # A chunk replaces points, coefficients and slots; features go to slots that no snapshot needs.
    STATE = (
        Count("rows", "rows"),
        Numbers("points", ("points", "columns"), kept=True),
        Numbers("coefficients", ("outputs", "points"), kept=True),
        Numbers("features", ("points", "features"), "held_features", marked=False),
        Numbers("moved", ("outputs", "features")),
    )
    DERIVED = ("_features", "_slots")

    def _sizes(self) -> dict[str, int]:
        outputs, features = self._moved.shape
        return {"outputs": outputs, "features": features, "columns": self._points.shape[1]}

    @property
    def held_features(self) -> Array:
        """The features of the points held."""
        return self._features[self._slots]

    @held_features.setter
    def held_features(self, features: Array) -> None:
        self._features = features
        self._slots = np.arange(len(features))

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["points"] <= self.budget, "points are more than the budget")

    def snapshot(self) -> Any:
        self._reserved = self._slots
        return super().snapshot()
