"""The dual-space engine: a few kernel terms and one vector of random features.

A model is f(x) = sum_i c_i k(x_i, x) + w'phi(x) with Fourier features phi'phi ~ k, so that a term
of the first kind can become one of the second, c_i k(x_i, .) -> c_i phi(x_i), at little loss.
`MergedDual` (DualSGD) moves the smallest terms when there are too many; `ReducedDual` (DualSVRG)
asks an oracle once, when a point arrives, and reduces the variance of its steps with a memory.

Several outputs are the classes of one problem: the margin of a row is a = s_y - max_{c != y} s_c
(lowest number on ties) and its gradient l'(a) (e_y - e_z). One output is a number or a class -1, 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.gradient import Embedding, add_multiple, chunks, dot
from pronk.parts.kernels import Kernel, square_distances
from pronk.parts.linalg import GrowingRows, Workspace, doubled
from pronk.parts.losses import Loss, slope

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Rows whose features and kernel values are held at a time.
CHUNK = 64

#: The layers of `ReducedDual`'s vectors.
BASE, MEMORY, SUM, SNAPSHOT = 0, 1, 2, 3
#: Its scalars.
SCALE, PULL, SCALES, PULLS = 0, 1, 2, 3
#: Rows between two folds of the lazy scalars, counted from the start of the stream, ...
FOLD_ROWS = 1024
#: ... and the scale at which they are folded at once: the sum of w loses 1/scale in accuracy.
SMALLEST_SCALE = 1e-3


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


# -- DualSGD ------------------------------------------------------------------------------------


@njit(cache=True, fastmath={"contract"})
def move_smallest(
    count: int, columns: int, sizes: Array, coefficients: Array, old: Array, slots: Indices,
    Phi: Array, moved: Array,
) -> None:  # fmt: skip
    """The ``count`` held columns of least size (infinite: not held), oldest first, go to ``moved``.

    Columns stand by age: first those held before this chunk, with features old[slots], then the
    chunk's rows, with features Phi.
    """
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
    K: Array, Phi: Array, y: Array, code: int, parameter: float, alpha: float, t: int, budget: int,
    merge: int, sizes: Array, coefficients: Array, old: Array, slots: Indices, moved: Array,
    out: Array,
) -> None:  # fmt: skip
    """s = (sum r_i k(x_i, x) + m'phi(x)) / (alpha (t-1)), r_t = -l'(s, y); too many terms: move.

    K's columns are the points held before the chunk and then the chunk's own rows.
    """
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
                s = (dot(coefficients[c], kernel) + dot(moved[c], Phi[i])) / (alpha * (t - 1))
            out[i, c] = s
        slopes(code, parameter, out[i], y[i], g)
        size = 0.0
        for c in range(outputs):
            coefficients[c, columns] = -g[c]
            size = max(size, abs(g[c]))
        if size > 0.0:
            sizes[columns] = size
            held += 1
            if held > budget:
                count = min(merge, held)
                move_smallest(count, columns + 1, sizes, coefficients, old, slots, Phi, moved)
                held -= count


class MergedDual:
    """DualSGD: steps 1/(alpha t); above ``budget`` terms the ``merge`` smallest are moved.

    Coefficients are kept un-shrunk, r_i = alpha t c_i, so that shrinking costs nothing and equal
    ones tie exactly. The features of held points are kept: a move evaluates nothing.
    """

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
        merged_rows(
            K, Phi, y, self.loss.code, self.loss.parameter, self.alpha, self.rows, self.budget,
            self.merge, sizes, coefficients, self._features, self._slots, self._moved, out,
        )  # fmt: skip
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
        if len(kept) > len(self._features):
            shape = (max(len(kept), 2 * len(self._features)), self._features.shape[1])
            self._features = doubled(self._features, len(self._features), shape)
        free = np.setdiff1d(np.arange(len(kept)), slots)[: len(new)]
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
        self._coefficients = np.ascontiguousarray(matrix.T @ self._coefficients)
        self._moved = np.ascontiguousarray(matrix.T @ self._moved)

    def negate(self) -> None:
        """The model of the opposite targets."""
        self.remap(np.array([[-1.0]]))

    def to_state(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "points": self._points.copy(),
            "coefficients": self._coefficients.copy(),
            "features": self._features[self._slots],
            "moved": self._moved.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.rows = state["rows"]
        self._points = np.array(state["points"])
        self._coefficients = np.array(state["coefficients"])
        self._features = np.array(state["features"])
        self._slots = np.arange(len(self._points))
        self._moved = np.array(state["moved"])


# -- DualSVRG -----------------------------------------------------------------------------------
#
# All vectors live in R^(D + N): D random features, then one coordinate a core point. A row is seen
# through q = [phi(x), k(core, x)], so that a score is one product; as a term of a gradient it is
# phi(x) if the oracle moves it, else the unit vector of its own core coordinate.
#
# With h = sum over the memory of v_i (row i), |memory| = M and kappa = 1/(1 + eta alpha) a step is
#
#     w <- kappa (w - eta (h / M + d (row t))),   v_i = l'(<u, x_i>),  d = l'(<w, x>) - l'(<u, x>).
#
# h changes by its newest and its oldest term only. So w is kept as  scale a + pull h:
#
#     h <- h + v (row)     with     a <- a - (pull / scale) v (row)         (w stays)
#     a <- a - (eta d / scale) (row t)
#     scale <- kappa scale,         pull <- kappa (pull - eta / M)
#
# and the running sum of w as  scales a + pulls h + b  with scales, pulls the sums of the scalars:
# whatever a and h change by, b changes by -(scales da + pulls dh) so that the past sum stays. A row
# thus touches the coordinates of two rows and no others, and none where the slopes are 0. The
# vectors are a (BASE), h (MEMORY), b (SUM) and u (SNAPSHOT).


@njit(cache=True, fastmath={"contract"})
def add_term(
    vectors: Array, c: int, phi: Array, place: int, in_h: float, step: float, scalars: Array
) -> None:
    """h += in_h (row), a -= step (row) beside what keeps w and its sum; place < 0: moved."""
    in_a = -(scalars[PULL] / scalars[SCALE]) * in_h - step
    in_b = -(scalars[SCALES] * in_a + scalars[PULLS] * in_h)
    if place >= 0:
        j = phi.size + place
        vectors[BASE, c, j] += in_a
        vectors[MEMORY, c, j] += in_h
        vectors[SUM, c, j] += in_b
        return
    a, h, b = vectors[BASE, c], vectors[MEMORY, c], vectors[SUM, c]
    for j in range(phi.size):
        a[j] += in_a * phi[j]
        h[j] += in_h * phi[j]
        b[j] += in_b * phi[j]


@njit(cache=True, fastmath={"contract", "reassoc"})
def three_dots(a: Array, h: Array, u: Array, q: Array) -> tuple[float, float, float]:
    """a'q, h'q and u'q."""
    in_a, in_h, in_u = 0.0, 0.0, 0.0
    for j in range(q.size):
        in_a += a[j] * q[j]
        in_h += h[j] * q[j]
        in_u += u[j] * q[j]
    return in_a, in_h, in_u


@njit(cache=True, fastmath={"contract"})
def fold(vectors: Array, scalars: Array) -> None:
    """Write w into a and its sum into b, so that the scalars start anew."""
    scale, pull, scales, pulls = scalars
    for c in range(vectors.shape[1]):
        a, h, b = vectors[BASE, c], vectors[MEMORY, c], vectors[SUM, c]
        for j in range(a.size):
            b[j] += scales * a[j] + pulls * h[j]
            a[j] = scale * a[j] + pull * h[j]
    scalars[:] = 0.0
    scalars[SCALE] = 1.0


@njit(cache=True, fastmath={"contract"})
def take_snapshot(vectors: Array, scalars: Array, period: int) -> None:
    """u = w = the average of w over the period."""
    fold(vectors, scalars)
    share = 1.0 / period
    for c in range(vectors.shape[1]):
        a, b, u = vectors[BASE, c], vectors[SUM, c], vectors[SNAPSHOT, c]
        for j in range(a.size):
            u[j] = share * b[j]
            a[j] = u[j]
            b[j] = 0.0


@njit(cache=True, fastmath={"contract"})
def refresh_memory(
    count: int, kernels: Array, features: Array, targets: Array, places: Indices, terms: Array,
    code: int, parameter: float, vectors: Array,
) -> None:  # fmt: skip
    """The memory's terms v_i and their sum h at the snapshot u; w must not hang on h (pull = 0)."""
    outputs = vectors.shape[1]
    scores = np.empty(outputs)
    size = features.shape[1]
    vectors[MEMORY] = 0.0
    for i in range(count):
        phi = features[i]
        for c in range(outputs):
            u = vectors[SNAPSHOT, c]
            scores[c] = dot(u, phi) + dot(u[size:], kernels[i])
        slopes(code, parameter, scores, targets[i], terms[i])
        for c in range(outputs):
            v = terms[i, c]
            if v == 0.0:
                continue
            if places[i] >= 0:
                vectors[MEMORY, c, size + places[i]] += v
            else:
                add_multiple(vectors[MEMORY, c], v, phi)


@njit(cache=True, fastmath={"contract"})
def reduced_rows(
    Q: Array, arrivals: Indices, y: Array, start: int, t: int, memory: int, period: int,
    code: int, parameter: float, eta: float, kappa: float, vectors: Array, scalars: Array,
    features: Array, targets: Array, places: Indices, terms: Array, out: Array,
) -> int:  # fmt: skip
    """Walk the rows from ``start`` on, t of the stream done; stop where a period ends.

    Without core points the period's end needs nothing from outside, and the walk goes on.
    """
    outputs = vectors.shape[1]
    size = features.shape[1]
    no_kernels = np.empty((features.shape[0], 0))
    at_w, at_u = np.empty(outputs), np.empty(outputs)
    scores = np.empty(outputs)
    for i in range(start, Q.shape[0]):
        q = Q[i]
        phi = q[:size]
        for c in range(outputs):
            in_a, in_h, in_u = three_dots(
                vectors[BASE, c], vectors[MEMORY, c], vectors[SNAPSHOT, c], q
            )
            out[i, c] = scalars[SCALE] * in_a + scalars[PULL] * in_h
            scores[c] = in_u
        slopes(code, parameter, out[i], y[i], at_w)
        slopes(code, parameter, scores, y[i], at_u)
        if memory == 1:
            at_u[:] = 0.0  # h is the row's own term and cancels: exactly, so that ties stay ties
        slot = t % memory
        for c in range(outputs):
            if t >= memory and terms[slot, c] != 0.0:
                add_term(vectors, c, features[slot], places[slot], -terms[slot, c], 0.0, scalars)
            step = eta * (at_w[c] - at_u[c]) / scalars[SCALE]
            if at_u[c] != 0.0 or step != 0.0:
                add_term(vectors, c, phi, arrivals[i], at_u[c], step, scalars)
            terms[slot, c] = at_u[c]
        features[slot] = phi
        targets[slot], places[slot] = y[i], arrivals[i]
        t += 1
        scalars[SCALE] *= kappa
        scalars[PULL] = kappa * (scalars[PULL] - eta / min(t, memory))
        scalars[SCALES] += scalars[SCALE]
        scalars[PULLS] += scalars[PULL]
        if t % period == 0:
            take_snapshot(vectors, scalars, period)
            if q.size > size:
                return i + 1
            if memory == 1:
                continue
            refresh_memory(
                min(t, memory), no_kernels, features, targets, places, terms, code, parameter,
                vectors,
            )  # fmt: skip
        elif t % FOLD_ROWS == 0 or scalars[SCALE] < SMALLEST_SCALE:
            fold(vectors, scalars)
    return Q.shape[0]


class FirstPoints:
    """The budget oracle: the first ``budget`` points ever stay kernel terms, later ones move."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """The rows of X that join the core."""
        return np.arange(min(len(X), self.budget - len(core)))


class Coverage:
    """The coverage oracle: a point within ``radius`` of the core moves, any other joins it."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """The rows of X that join the core."""
        if not len(core):
            near = np.zeros(len(X), dtype=bool)
        else:
            near = np.sqrt(square_distances(X, core).min(axis=1)) <= self.radius
        far = np.flatnonzero(~near)
        if not far.size:
            return far
        distances = np.sqrt(square_distances(X[far], X[far]))
        joined: list[int] = []
        for i in range(len(far)):
            if not (distances[i, joined] <= self.radius).any():
                joined.append(i)
        return far[joined]


class AlwaysMove:
    """The always-move oracle: no kernel terms at all."""

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """The rows of X that join the core: none."""
        return np.empty(0, dtype=np.intp)


Oracle = FirstPoints | Coverage | AlwaysMove


class ReducedDual:
    """DualSVRG: gradient steps with their variance reduced by a memory and a snapshot.

    ``memory`` rows of features and targets are held, and their average gradient at the snapshot u,
    the average of w over the last full ``period``.
    """

    def __init__(
        self, kernel: Kernel, embedding: Embedding, loss: Loss, oracle: Oracle, alpha: float,
        eta: float, memory: int, period: int, columns: int, outputs: int = 1,
    ) -> None:  # fmt: skip
        self.kernel, self.embedding, self.loss, self.oracle = kernel, embedding, loss, oracle
        self.eta, self.kappa = eta, 1.0 / (1.0 + eta * alpha)
        self.memory, self.period = memory, period
        self.rows = 0
        self._core = GrowingRows(columns)
        self._vectors = np.zeros((4, outputs, embedding.size))
        self._scalars = np.array([1.0, 0.0, 0.0, 0.0])
        # Kernel values of remembered rows are evaluated anew at a snapshot, if there are any.
        self._set_memory(0, 0 if isinstance(oracle, AlwaysMove) else columns, outputs)
        self._work = Workspace()

    def _set_memory(self, rows: int, columns: int, outputs: int) -> None:
        """Room for ``rows`` remembered rows."""
        self._X = np.zeros((rows, columns))
        self._features = np.zeros((rows, self.embedding.size))
        self._targets = np.zeros(rows)
        self._places = np.full(rows, -1, dtype=np.int64)
        self._terms = np.zeros((rows, outputs))

    @property
    def points(self) -> Array:
        return self._core.values

    @property
    def weights(self) -> Array:
        """w: the random features, then one coefficient a core point; one row an output."""
        scale, pull = self._scalars[[SCALE, PULL]]
        return np.asarray(scale * self._vectors[BASE] + pull * self._vectors[MEMORY])

    def learn(self, X: Array, Y: Array) -> Array:
        """Predict then learn each row; Y is one column of targets or of numbers of classes."""
        out = np.empty((len(X), self._vectors.shape[1]))
        for rows in chunks(len(X), CHUNK):
            self._learn_chunk(X[rows], np.ascontiguousarray(Y[rows, 0]), out[rows])
        return out

    def _learn_chunk(self, X: Array, y: Array, out: Array) -> None:
        arrivals = self._ask_oracle(X)
        self._make_room(len(X))
        Q = self._seen(X)
        start = 0
        while start < len(X):
            stop = reduced_rows(
                Q, arrivals, y, start, self.rows, self.memory, self.period, self.loss.code,
                self.loss.parameter, self.eta, self.kappa, self._vectors, self._scalars,
                self._features, self._targets, self._places, self._terms, out,
            )  # fmt: skip
            if self._core.size:
                self._X[np.arange(self.rows, self.rows + stop - start) % self.memory] = X[
                    start:stop
                ]
            self.rows += stop - start
            start = stop
            if self._core.size and self.rows % self.period == 0:
                self._refresh()

    def _ask_oracle(self, X: Array) -> Indices:
        """Each row's place in the core, or -1. The core's new coordinates are 0 before their row.

        The oracles do not look at labels, so a chunk's answers come before its walk.
        """
        arrivals = np.full(len(X), -1, dtype=np.int64)
        joined = self.oracle.stay(X, self.points)
        if joined.size:
            first = self._core.size
            arrivals[joined] = np.arange(first, first + len(joined))
            self._core.append(X[joined])
            zeros = np.zeros((*self._vectors.shape[:2], len(joined)))
            self._vectors = np.concatenate((self._vectors, zeros), axis=2)
        return arrivals

    def _make_room(self, rows: int) -> None:
        """The memory grows with the stream until it is full: it may be longer than the stream."""
        held, needed = len(self._targets), min(self.memory, self.rows + rows)
        if needed <= held:
            return
        old = self._X, self._features, self._targets, self._places, self._terms
        size = min(self.memory, max(needed, 2 * held))
        self._set_memory(size, self._X.shape[1], self._terms.shape[1])
        new = self._X, self._features, self._targets, self._places, self._terms
        for target, source in zip(new, old, strict=True):
            target[:held] = source

    def _seen(self, X: Array) -> Array:
        """[phi(x), k(core, x)] for every row."""
        Phi = self.embedding.transform(X)
        if not self._core.size:
            return Phi
        size = self.embedding.size
        Q = self._work.take("rows", len(X), size + self._core.size)
        Q[:, :size] = Phi
        Q[:, size:] = self.kernel(X, self.points)
        return Q

    def _refresh(self) -> None:
        """The memory's gradient at a new snapshot; a memory of one row cancels and is not used."""
        if self.memory == 1:
            return
        count = min(self.rows, self.memory)
        kernels = np.empty((count, 0))
        if self._core.size:
            kernels = self.kernel(self._X[:count], self.points)
        refresh_memory(
            count, kernels, self._features, self._targets, self._places, self._terms,
            self.loss.code, self.loss.parameter, self._vectors,
        )  # fmt: skip

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        W = self.weights.T
        return np.concatenate([self._seen(X[rows]) @ W for rows in chunks(len(X), CHUNK)])

    def remap(self, matrix: Array) -> None:
        """New outputs as combinations of the old; the memory's gradient is of the new classes."""
        fold(self._vectors, self._scalars)
        self._vectors = np.ascontiguousarray(matrix.T @ self._vectors)
        used = min(self.rows, self.memory)
        self._targets[:used] = class_numbers(self._targets[:used], matrix)
        self._terms = np.zeros((len(self._targets), matrix.shape[1]))
        self._refresh()

    def negate(self) -> None:
        """The model of the opposite targets."""
        self.remap(np.array([[-1.0]]))

    _MEMORY = ("X", "features", "targets", "places", "terms")

    def to_state(self) -> dict[str, Any]:
        used = min(self.rows, self.memory)
        state: dict[str, Any] = {name: getattr(self, "_" + name)[:used] for name in self._MEMORY}
        state = {name: array.copy() for name, array in state.items()}
        return {
            **state,
            "rows": self.rows,
            "core": self._core.to_state(),
            "vectors": self._vectors.copy(),
            "scalars": self._scalars.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        for name in self._MEMORY:
            setattr(self, "_" + name, np.array(state[name]))
        self.rows = state["rows"]
        self._core = GrowingRows.from_state(state["core"])
        self._vectors = np.array(state["vectors"])
        self._scalars = np.array(state["scalars"])
