"""The engine of DualSGD: kernel terms, the smallest of which move into random features.

After t rows f(x) = (sum_i r_i k(x_i, x) + m'phi(x)) / (alpha t) with Fourier features
phi'phi ~ k, so a kernel term can become a random-feature term, r_i k(x_i, .) -> r_i phi(x_i), at a
small loss. When there are too many kernel terms, the smallest ones move. The points are stored by
age together with their features, so a move evaluates nothing.

Several outputs are the classes of one problem: the margin of a row is a = s_y - max_{c != y} s_c
(lowest number on ties) and its gradient l'(a) (e_y - e_z). One output is a number or a label -1 or
1. `dual_svrg` shares this definition (`slopes`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.features import Embedding, in_chunks
from pronk.core.kernels import Kernel
from pronk.core.linalg import Workspace, doubled, recombined
from pronk.core.losses import Loss, slope
from pronk.core.state import Count, Numbers, Sizes, Stateful, Unsaved, require
from pronk.first_order.gradient import add_multiple, dot

Indices = NDArray[np.int64]

#: Rows per chunk, whose features and kernel values are in memory at a time.
CHUNK = 64

# -- the loss on one output or on classes ---------------------------------------------------------


@compiled
def slopes(code: int, parameter: float, scores: Array, y: float, out: Array) -> None:
    """Compute out_c = dl/ds_c: l'(s, y) for one output, l'(a) (e_y - e_z) for several classes.

    scores (outputs,), y a target or the number of a class, out (outputs,).
    """
    if scores.size == 1:
        out[0] = slope(code, parameter, scores[0], y)
        return
    # z = argmax_{c != y} s_c, the lowest number on ties
    own = int(y)
    rival = 1 if own == 0 else 0
    for c in range(rival + 1, scores.size):
        if c != own and scores[c] > scores[rival]:
            rival = c
    # a = s_y - s_z,  gradient l'(a) (e_y - e_z)
    g = slope(code, parameter, scores[own] - scores[rival], 1.0)
    out[:] = 0.0
    out[own] = g
    out[rival] = -g


def class_numbers(targets: Array, matrix: Array) -> Array:
    """Return targets (-1 and 1, or numbers of classes) after outputs become outputs @ matrix."""
    if matrix.shape == (1, 1):
        return np.asarray(targets * matrix[0, 0])
    if matrix.shape[0] == 1:  # one output s becomes -s/2 and s/2 among three
        places = np.array([matrix[0].argmin(), matrix[0].argmax()], dtype=np.float64)
        return places[(targets > 0).astype(np.intp)]
    return matrix.argmax(axis=1).astype(np.float64)[targets.astype(np.intp)]


# -- the compiled loop ----------------------------------------------------------------------------


class DualSGDRule(NamedTuple):
    """The settings of DualSGD as scalars for compiled code."""

    loss: int  # code of the loss
    parameter: float  # of the loss
    alpha: float  # steps are 1 / (alpha t)
    budget: int  # most kernel terms
    merge: int  # terms that move when there are too many


class Terms(NamedTuple):
    """The kernel terms of a chunk, one column per term, by age, and the random-feature terms.

    The first columns are the terms before the chunk, the others the rows of the chunk.
    """

    sizes: Array  # (columns,) largest coefficient of the column; infinite: not a kernel term
    coefficients: Array  # (outputs, columns)
    old: Array  # features of the terms before the chunk, in the rows ``slots``
    slots: Indices  # one per term before the chunk
    moved: Array  # (outputs, features) weights m of the random features


@compiled(fastmath={"contract"})
def move_smallest(terms: Terms, Phi: Array, count: int, columns: int) -> None:
    """Move the ``count`` kernel terms of smallest size, oldest first, into the random features.

    Phi (rows, features) are the features of the chunk's rows; only the first ``columns`` columns of
    the terms are in use.
    """
    sizes, coefficients, old, slots, moved = terms
    for _ in range(count):
        least = 0
        for j in range(1, columns):
            if sizes[j] < sizes[least]:
                least = j
        # m_c = m_c + r_c phi,  r_c = 0
        phi = old[slots[least]] if least < slots.size else Phi[least - slots.size]
        for c in range(moved.shape[0]):
            if coefficients[c, least] != 0.0:
                add_multiple(moved[c], coefficients[c, least], phi)
                coefficients[c, least] = 0.0
        sizes[least] = np.inf


@compiled(fastmath={"contract"})
def dual_sgd_rows(
    rule: DualSGDRule, terms: Terms, K: Array, Phi: Array, y: Array, t: int, out: Array
) -> None:
    """Predict, then learn, each row of a chunk; the scores are written to ``out`` (rows, outputs).

        s = (sum_i r_i k(x_i, x) + m'phi(x)) / (alpha (t - 1)),   r_t = -l'(s, y)

    K (rows, columns) are kernel values with the points before the chunk and then with the chunk's
    rows, Phi (rows, features) the features, y (rows,) the targets, t the rows before the chunk.
    """
    sizes, coefficients, _, slots, moved = terms
    outputs = moved.shape[0]
    kernel_terms = slots.size
    g = np.empty(outputs)
    for i in range(y.size):
        t += 1
        columns = slots.size + i
        # s = (r'k + m'phi) / (alpha (t - 1))
        kernel = K[i, :columns]
        for c in range(outputs):
            s = 0.0
            if t > 1:
                s = (dot(coefficients[c], kernel) + dot(moved[c], Phi[i])) / (rule.alpha * (t - 1))
            out[i, c] = s
        # r_t = -l'(s, y)
        slopes(rule.loss, rule.parameter, out[i], y[i], g)
        size = 0.0
        for c in range(outputs):
            coefficients[c, columns] = -g[c]
            size = max(size, abs(g[c]))
        if size > 0.0:
            sizes[columns] = size
            kernel_terms += 1
            if kernel_terms > rule.budget:
                count = min(rule.merge, kernel_terms)
                move_smallest(terms, Phi, count, columns + 1)
                kernel_terms -= count


# -- the engine -----------------------------------------------------------------------------------


class DualSGD(Stateful):
    """DualSGD with steps 1/(alpha t): above ``budget`` kernel terms the ``merge`` smallest move.

    Coefficients are stored un-shrunk, r_i = alpha t c_i, so that shrinking costs nothing and equal
    coefficients tie exactly.
    """

    targets_are_classes = True  # targets of several outputs are numbers of classes

    def __init__(
        self, kernel: Kernel, embedding: Embedding, loss: Loss, alpha: float, columns: int,
        budget: int, merge: int, outputs: int = 1,
    ) -> None:  # fmt: skip
        self.kernel, self.embedding = kernel, embedding
        self.rule = DualSGDRule(loss.code, loss.parameter, alpha, budget, merge)
        self.rows = 0
        self._points = np.zeros((0, columns))  # oldest first
        self._coefficients = np.zeros((outputs, 0))
        self._slots = np.zeros(0, dtype=np.int64)  # row of each point in _features
        self._features = np.zeros((16, embedding.size))
        self._moved = np.zeros((outputs, embedding.size))
        self._memory = Workspace()

    @property
    def points(self) -> Array:
        return self._points

    @property
    def weights(self) -> Array:
        """The weights of the random features, un-shrunk."""
        return self._moved

    def learn(self, X: Array, Y: Array) -> Array:
        """Predict, then learn, each row; Y (n, 1) are targets or numbers of classes."""
        return in_chunks(CHUNK, self._learn_chunk, X, Y)

    def _learn_chunk(self, X: Array, Y: Array) -> Array:
        before, n = len(self._points), len(X)
        K = self._memory.allocate("kernel values", n, before + n)
        K[:, :before] = self.kernel(X, self._points)
        K[:, before:] = self.kernel(X, X)
        Phi = self.embedding.transform(X)
        coefficients = np.zeros((len(self._moved), before + n))
        coefficients[:, :before] = self._coefficients
        sizes = np.full(before + n, np.inf)
        sizes[:before] = np.abs(self._coefficients).max(axis=0, initial=0.0)
        terms = Terms(sizes, coefficients, self._features, self._slots, self._moved)
        y, out = np.ascontiguousarray(Y[:, 0]), np.empty((n, len(self._moved)))
        dual_sgd_rows(self.rule, terms, K, Phi, y, self.rows, out)
        self.rows += n
        self._store_terms(X, Phi, coefficients, np.flatnonzero(sizes < np.inf))
        return out

    def _store_terms(
        self, X: Array, Phi: Array, coefficients: Array, kept: NDArray[np.intp]
    ) -> None:
        """Store the columns that are still kernel terms; features of new ones use free slots."""
        before = len(self._points)
        new = kept[kept >= before] - before
        if not new.size and len(kept) == before:
            return
        old = kept[kept < before]
        slots = self._slots[old]
        needed = len(kept)
        if needed > len(self._features):
            shape = (max(needed, 2 * len(self._features)), self._features.shape[1])
            self._features = doubled(self._features, len(self._features), shape)
        free = np.setdiff1d(np.arange(needed), slots)[: len(new)]
        self._save_slots(free, (self._features, 0))
        self._features[free] = Phi[new]
        self._slots = np.concatenate((slots, free))
        self._points = np.concatenate((self._points[old], X[new]))
        self._coefficients = np.ascontiguousarray(coefficients[:, kept])

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row as if it came next; the state is unchanged."""
        return in_chunks(CHUNK, self._scores, X) / (self.rule.alpha * max(self.rows, 1))

    def _scores(self, X: Array) -> Array:
        """Return r'k + m'phi of every row."""
        s = self.kernel(X, self._points) @ self._coefficients.T
        return np.asarray(s + self.embedding.transform(X) @ self._moved.T)

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by linear combinations, outputs @ matrix."""
        self._coefficients = recombined(self._coefficients, matrix, axis=-2)
        self._moved = recombined(self._moved, matrix, axis=-2)

    # A chunk replaces the arrays of points, coefficients and slots, and writes features of new
    # points to free slots.
    STATE = (
        Count("rows", "rows"),
        Numbers("points", ("points", "columns"), written="replaced"),
        Numbers("coefficients", ("outputs", "points"), written="replaced"),
        Numbers("features", ("points", "features"), "point_features", written="computed"),
        Numbers("moved", ("outputs", "features")),
        Unsaved("_features", written="slots"),
        Unsaved("_slots"),
    )

    def _sizes(self) -> dict[str, int]:
        outputs, features = self._moved.shape
        return {"outputs": outputs, "features": features, "columns": self._points.shape[1]}

    @property
    def point_features(self) -> Array:
        """The features of the points of the kernel terms."""
        return self._features[self._slots]

    @point_features.setter
    def point_features(self, features: Array) -> None:
        self._features = features
        self._slots = np.arange(len(features))

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["points"] <= self.rule.budget, "points are more than the budget")
