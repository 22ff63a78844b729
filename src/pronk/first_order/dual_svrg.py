"""The engine of DualSVRG: a core of kernel terms, random features, a memory and a snapshot.

f(x) = sum_i c_i k(x_i, x) + w'phi(x) with Fourier features phi'phi ~ k. An oracle decides once,
when a point arrives, whether it joins the core of kernel terms or moves into the random features.
Steps have their variance reduced by a memory of rows and the snapshot u, the average of w over the
last full period. (This snapshot is the paper's; it is part of the state.)

All vectors are in R^(D + N): D random features, then one coordinate per core point. The input of a
score is q = [phi(x), k(core, x)], so that a score is one product. As a term of a gradient, (row) is
phi(x) if the oracle moves the row, else the unit vector of its own core coordinate.

With h = sum over the memory of v_i (row i), |memory| = M and kappa = 1/(1 + eta alpha) a step is

    w <- kappa (w - eta (h / M + d (row t))),   v_i = l'(<u, x_i>),  d = l'(<w, x>) - l'(<u, x>),

where h has changed by its newest and its oldest term. The vectors are w (WEIGHTS), h (MEMORY), the
sum of w over the period (SUM) and u (SNAPSHOT).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.features import Embedding, in_chunks
from pronk.core.kernels import Kernel, square_distances
from pronk.core.linalg import GrowingRows, Workspace, recombined
from pronk.core.losses import Loss
from pronk.core.state import LARGEST_TARGET, Count, Numbers, Rows, Sizes, Stateful, require
from pronk.first_order.dual_sgd import CHUNK, class_numbers, slopes
from pronk.first_order.gradient import add_multiple, dot

Indices = NDArray[np.int64]

#: Index of each vector in ``vectors`` (4, outputs, D + N): w, h, the sum of w, and u.
WEIGHTS, MEMORY, SUM, SNAPSHOT = 0, 1, 2, 3
#: The arrays of the memory's rows; the attribute is "_" + name.
REMEMBERED = ("X", "features", "targets", "places", "terms")

# -- the compiled steps ---------------------------------------------------------------------------


class DualSVRGRule(NamedTuple):
    """The settings of DualSVRG as scalars for compiled code."""

    loss: int  # code of the loss
    parameter: float  # of the loss
    eta: float  # step size
    kappa: float  # 1 / (1 + eta alpha)
    memory: int  # rows in the memory
    period: int  # rows between two snapshots


class Memory(NamedTuple):
    """The rows of the memory; row t is in slot t modulo the memory's size."""

    features: Array  # (slots, D)
    targets: Array  # (slots,)
    places: Indices  # (slots,) the row's coordinate in the core, or -1
    terms: Array  # (slots, outputs) v_i


@compiled(fastmath={"contract"})
def add_row(vector: Array, factor: float, phi: Array, place: int) -> None:
    """Add a multiple of a row to a vector (D + N,).

    phi (D,) are the row's features and ``place`` its coordinate in the core, or -1 if it was moved.
    """
    if factor == 0.0:
        return
    if place >= 0:
        vector[phi.size + place] += factor
    else:
        add_multiple(vector, factor, phi)


@compiled(fastmath={"contract"})
def update_snapshot(vectors: Array, period: int) -> None:
    """Set u and w to the average of w over the period."""
    share = 1.0 / period
    for c in range(vectors.shape[1]):
        w, b, u = vectors[WEIGHTS, c], vectors[SUM, c], vectors[SNAPSHOT, c]
        # u = b / period,  w = u,  b = 0
        for j in range(w.size):
            u[j] = share * b[j]
            w[j] = u[j]
            b[j] = 0.0


@compiled(fastmath={"contract"})
def refresh_memory(
    rule: DualSVRGRule, memory: Memory, vectors: Array, kernels: Array, count: int
) -> None:
    """Recompute the memory's terms v_i at the snapshot u, and their sum h.

    kernels (count, N) are the kernel values of the memory's rows with the core.
    """
    features, targets, places, terms = memory
    outputs = vectors.shape[1]
    scores = np.empty(outputs)
    size = features.shape[1]
    vectors[MEMORY] = 0.0
    for i in range(count):
        phi = features[i]
        # v_i = l'(<u, x_i>, y_i)
        for c in range(outputs):
            u = vectors[SNAPSHOT, c]
            scores[c] = dot(u, phi) + dot(u[size:], kernels[i])
        slopes(rule.loss, rule.parameter, scores, targets[i], terms[i])
        # h = h + v_i (row i)
        for c in range(outputs):
            add_row(vectors[MEMORY, c], terms[i, c], phi, places[i])


@compiled(fastmath={"contract"})
def dual_svrg_rows(
    rule: DualSVRGRule, memory: Memory, vectors: Array, Q: Array, arrivals: Indices, y: Array,
    start: int, t: int, out: Array,
) -> int:  # fmt: skip
    """Predict, then learn, the rows from ``start`` on, up to the end of a period.

    Q (rows, D + N) holds q of each row, ``arrivals`` (rows,) the coordinate in the core or -1,
    y (rows,) the targets, t the rows before ``start``; scores are written to ``out``
    (rows, outputs). Return the first row not learned. Without core points the end of a period needs
    no kernel values, and the loop continues.
    """
    features, targets, places, terms = memory
    kappa, eta = rule.kappa, rule.eta
    outputs = vectors.shape[1]
    size = features.shape[1]
    no_kernels = np.empty((features.shape[0], 0))
    at_w, at_u = np.empty(outputs), np.empty(outputs)
    scores = np.empty(outputs)
    for i in range(start, Q.shape[0]):
        q = Q[i]
        phi = q[:size]
        for c in range(outputs):
            out[i, c], scores[c] = dot(vectors[WEIGHTS, c], q), dot(vectors[SNAPSHOT, c], q)
        slopes(rule.loss, rule.parameter, out[i], y[i], at_w)
        slopes(rule.loss, rule.parameter, scores, y[i], at_u)
        if rule.memory == 1:
            at_u[:] = 0.0  # h is the row's own term and cancels exactly, so that ties remain ties
        slot = t % rule.memory
        share = eta / min(t + 1, rule.memory)
        for c in range(outputs):
            w, h, total = vectors[WEIGHTS, c], vectors[MEMORY, c], vectors[SUM, c]
            # h = h - v_oldest (row) + v (row)
            if t >= rule.memory:
                add_row(h, -terms[slot, c], features[slot], places[slot])
            add_row(h, at_u[c], phi, arrivals[i])
            terms[slot, c] = at_u[c]
            # w = kappa (w - eta (h / M + (l'(<w, x>) - l'(<u, x>)) (row))), and the sum of w
            add_row(w, -eta * (at_w[c] - at_u[c]), phi, arrivals[i])
            for j in range(w.size):
                w[j] = kappa * (w[j] - share * h[j])
                total[j] += w[j]
        features[slot] = phi
        targets[slot], places[slot] = y[i], arrivals[i]
        t += 1
        if t % rule.period == 0:
            update_snapshot(vectors, rule.period)
            if q.size > size:
                return i + 1
            if rule.memory == 1:
                continue
            refresh_memory(rule, memory, vectors, no_kernels, min(t, rule.memory))
    return Q.shape[0]


# -- oracles: which points become kernel terms ----------------------------------------------------
#
# Oracles use inputs only, so that they decide for a whole chunk before any of its rows is learned.


class FirstPoints:
    """The budget oracle: the first ``budget`` points join the core; with 0 all points move."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        #: Whether the oracle ever adds points to the core.
        self.has_core = budget > 0

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """Return the rows of X that join the core."""
        return np.arange(min(len(X), self.budget - len(core)))


class Coverage:
    """The coverage oracle: a point within ``radius`` of the core moves, any other joins it."""

    has_core = True

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """Return the rows of X that join the core."""
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


Oracle = FirstPoints | Coverage


# -- the engine -----------------------------------------------------------------------------------


class DualSVRG(Stateful):
    """DualSVRG: gradient steps whose variance a memory and a snapshot reduce.

    The state has features and targets of ``memory`` rows and their average gradient at the snapshot
    u, the average of w over the last full ``period``.
    """

    targets_are_classes = True  # targets of several outputs are numbers of classes

    def __init__(
        self, kernel: Kernel, embedding: Embedding, loss: Loss, oracle: Oracle, alpha: float,
        eta: float, memory: int, period: int, columns: int, outputs: int = 1,
    ) -> None:  # fmt: skip
        self.kernel, self.embedding, self.oracle = kernel, embedding, oracle
        kappa = 1.0 / (1.0 + eta * alpha)
        self.rule = DualSVRGRule(loss.code, loss.parameter, eta, kappa, memory, period)
        self.rows = 0
        self._core = GrowingRows(columns)
        self._vectors = np.zeros((4, outputs, embedding.size))
        # With a core, a new snapshot needs the kernel values of the memory's rows, hence the rows.
        self._X = np.zeros((0, columns if oracle.has_core else 0))
        self._features = np.zeros((0, embedding.size))
        self._targets = np.zeros(0)
        self._places = np.zeros(0, dtype=np.int64)
        self._terms = np.zeros((0, outputs))
        self._work = Workspace()

    @property
    def points(self) -> Array:
        return self._core.values

    @property
    def weights(self) -> Array:
        """w (outputs, D + N): random features, then one coefficient per core point."""
        return np.asarray(self._vectors[WEIGHTS])

    def learn(self, X: Array, Y: Array) -> Array:
        """Predict, then learn, each row; Y (n, 1) are targets or numbers of classes."""
        return in_chunks(CHUNK, self._learn_chunk, X, Y)

    def _learn_chunk(self, X: Array, Y: Array) -> Array:
        arrivals = self._extend_core(X)
        self._grow_memory(len(X))
        self._copy_before_write(len(X))
        Q, y = self._score_inputs(X), np.ascontiguousarray(Y[:, 0])
        out, start = np.empty((len(X), self._vectors.shape[1])), 0
        while start < len(X):
            stop = dual_svrg_rows(
                self.rule, self._memory, self._vectors, Q, arrivals, y, start, self.rows, out
            )
            if self._core.size:
                slots = np.arange(self.rows, self.rows + stop - start) % self.rule.memory
                self._X[slots] = X[start:stop]
            self.rows += stop - start
            start = stop
            if self._core.size and self.rows % self.rule.period == 0:
                self._refresh()
        return out

    def _extend_core(self, X: Array) -> Indices:
        """Add the rows chosen by the oracle to the core and return each row's coordinate, or -1.

        The new coordinates of all vectors are 0 until their row is learned.
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

    def _grow_memory(self, rows: int) -> None:
        """Allocate memory for the next rows: it grows with the stream until it is full."""
        allocated, needed = len(self._targets), min(self.rule.memory, self.rows + rows)
        if needed <= allocated:
            return
        size = min(self.rule.memory, max(needed, 2 * allocated))
        for name in REMEMBERED:
            held = getattr(self, f"_{name}")
            grown = np.zeros((size, *held.shape[1:]), dtype=held.dtype)
            grown[:allocated] = held
            setattr(self, f"_{name}", grown)

    @property
    def _memory(self) -> Memory:
        """The memory for compiled code."""
        return Memory(self._features, self._targets, self._places, self._terms)

    def _score_inputs(self, X: Array) -> Array:
        """Return q = [phi(x), k(core, x)] of every row."""
        Phi = self.embedding.transform(X)
        if not self._core.size:
            return Phi
        size = self.embedding.size
        Q = self._work.allocate("rows", len(X), size + self._core.size)
        Q[:, :size] = Phi
        Q[:, size:] = self.kernel(X, self.points)
        return Q

    def _refresh(self) -> None:
        """Recompute the memory's gradient at a new snapshot; a memory of one row cancels."""
        if self.rule.memory == 1:
            return
        count = min(self.rows, self.rule.memory)
        kernels = np.empty((count, 0))
        if self._core.size:
            kernels = self.kernel(self._X[:count], self.points)
        refresh_memory(self.rule, self._memory, self._vectors, kernels, count)

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row as if it came next; the state is unchanged."""
        return in_chunks(CHUNK, lambda rows: self._score_inputs(rows) @ self.weights.T, X)

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by outputs @ matrix and recompute the memory's gradient."""
        self._vectors = recombined(self._vectors, matrix, axis=-2)
        used = min(self.rows, self.rule.memory)
        self._targets = self._targets.copy()
        self._targets[:used] = class_numbers(self._targets[:used], matrix)
        self._terms = np.zeros((len(self._targets), matrix.shape[1]))
        self._refresh()

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Rows("core", ("core", "columns")),
        Numbers("X", ("used", "remembered"), written="slots"),
        # Fourier features are cosines and sines.
        Numbers("features", ("used", "features"), low=-1.0, high=1.0, written="slots"),
        Numbers("targets", ("used",), low=-LARGEST_TARGET, high=LARGEST_TARGET, written="slots"),
        Numbers("places", ("used",), whole=True, low=-1, high="core", written="slots"),
        Numbers("terms", ("used", "outputs")),
        Count("rows", "rows"),
        Numbers("vectors", (4, "outputs", "coordinates")),
    )

    def _sizes(self) -> dict[str, int]:
        return {
            "columns": self._core.columns,
            "remembered": self._X.shape[1],
            "features": self.embedding.size,
            "outputs": self._terms.shape[1],
        }

    def to_state(self) -> dict[str, Any]:
        """Return the state with only the used part of the memory."""
        used = min(self.rows, self.rule.memory)
        state = super().to_state()
        return state | {name: state[name][:used] for name in REMEMBERED}

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["used"] == min(self.rows, self.rule.memory), "rows do not fit the memory")
        expected = sizes["features"] + sizes["core"]
        require(sizes["coordinates"] == expected, "vectors do not fit the core")
        outputs = sizes["outputs"]
        if outputs > 1:
            y = self._targets
            numbers = (y == np.floor(y)) & (y >= 0.0) & (y < outputs)
            require(numbers.all(), "targets are not numbers of classes")

    def _copy_before_write(self, rows: int) -> None:
        """Save for a roll-back the slots of the memory that the next rows overwrite."""
        slots = np.arange(self.rows, self.rows + min(rows, self.rule.memory)) % self.rule.memory
        arrays = self._X, self._features, self._targets, self._places
        self._save_slots(slots, *((array, 0) for array in arrays))
