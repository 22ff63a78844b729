"""The engine of DualSVRG: a core of kernel terms, random features, a memory and a snapshot.

f(x) = sum_i c_i k(x_i, x) + w'phi(x) with Fourier features phi'phi ~ k. An oracle decides once,
when a point arrives, whether it joins the core of kernel terms or moves into the random features.
Steps have their variance reduced by a memory of rows and the snapshot u, the average of w over the
last full period. (This snapshot is the paper's; it is part of the state.)

The compiled steps work on lazily scaled vectors, so that a row costs only what its slopes touch.
All vectors are in R^(D + N): D random features, then one coordinate per core point. The input of a
score is q = [phi(x), k(core, x)], so that a score is one product. As a term of a gradient, (row) is
phi(x) if the oracle moves the row, else the unit vector of its own core coordinate.

With h = sum over the memory of v_i (row i), |memory| = M and kappa = 1/(1 + eta alpha) a step is

    w <- kappa (w - eta (h / M + d (row t))),   v_i = l'(<u, x_i>),  d = l'(<w, x>) - l'(<u, x>).

h changes by its newest and its oldest term only. So w is represented as  scale a + pull h:

    h <- h + v (row)     with     a <- a - (pull / scale) v (row)         (w unchanged)
    a <- a - (eta d / scale) (row t)
    scale <- kappa scale,         pull <- kappa (pull - eta / M)

and the running sum of w as  scales a + pulls h + b  with scales, pulls the sums of the scalars:
when a changes by da and h by dh, b changes by -(scales da + pulls dh), so the past sum is
unchanged. A row thus changes the coordinates of two rows and no others, and none where the slopes
are 0. The vectors are a (BASE), h (MEMORY), b (SUM) and u (SNAPSHOT).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.core.compiling import compiled
from pronk.core.features import Embedding, chunks
from pronk.core.kernels import Kernel, square_distances
from pronk.core.linalg import GrowingRows, Workspace, recombined
from pronk.core.losses import Loss
from pronk.core.state import LARGEST_TARGET, Count, Numbers, Rows, Sizes, Stateful, require
from pronk.first_order.dual_sgd import CHUNK, class_numbers, slopes
from pronk.first_order.gradient import add_multiple, dot

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Index of each vector in ``vectors`` (4, outputs, D + N): a, h, b and u.
BASE, MEMORY, SUM, SNAPSHOT = 0, 1, 2, 3
#: Index of each number in ``scalars`` (4,): scale, pull and their running sums.
SCALE, PULL, SCALES, PULLS = 0, 1, 2, 3
#: Rows between two folds of the lazy scalars, counted from the start of the stream.
FOLD_ROWS = 1024
#: Scale below which the scalars are folded at once: the sum of w loses 1/scale in accuracy.
SMALLEST_SCALE = 1e-3

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
def add_term(
    vectors: Array, c: int, phi: Array, place: int, in_h: float, step: float, scalars: Array
) -> None:
    """Add a row's term to output c: h += in_h (row), w -= scale step (row).

    a and b are corrected so that in_h changes neither w nor the running sum of w. phi (D,) are the
    row's features and ``place`` its coordinate in the core, or -1 if the row was moved.
    """
    # da = -(pull / scale) in_h - step,  db = -(scales da + pulls in_h)
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


@compiled(fastmath={"contract", "reassoc"})
def three_dots(a: Array, h: Array, u: Array, q: Array) -> tuple[float, float, float]:
    """Return a'q, h'q and u'q."""
    in_a, in_h, in_u = 0.0, 0.0, 0.0
    for j in range(q.size):
        in_a += a[j] * q[j]
        in_h += h[j] * q[j]
        in_u += u[j] * q[j]
    return in_a, in_h, in_u


@compiled(fastmath={"contract"})
def fold(vectors: Array, scalars: Array) -> None:
    """Write w into a and its running sum into b, and reset the scalars."""
    scale, pull, scales, pulls = scalars
    for c in range(vectors.shape[1]):
        a, h, b = vectors[BASE, c], vectors[MEMORY, c], vectors[SUM, c]
        # b = b + scales a + pulls h,  a = scale a + pull h
        for j in range(a.size):
            b[j] += scales * a[j] + pulls * h[j]
            a[j] = scale * a[j] + pull * h[j]
    scalars[:] = 0.0
    scalars[SCALE] = 1.0


@compiled(fastmath={"contract"})
def update_snapshot(vectors: Array, scalars: Array, period: int) -> None:
    """Set u and w to the average of w over the period."""
    fold(vectors, scalars)
    share = 1.0 / period
    for c in range(vectors.shape[1]):
        a, b, u = vectors[BASE, c], vectors[SUM, c], vectors[SNAPSHOT, c]
        # u = b / period,  a = u,  b = 0
        for j in range(a.size):
            u[j] = share * b[j]
            a[j] = u[j]
            b[j] = 0.0


@compiled(fastmath={"contract"})
def refresh_memory(
    rule: DualSVRGRule, memory: Memory, vectors: Array, kernels: Array, count: int
) -> None:
    """Recompute the memory's terms v_i at the snapshot u, and their sum h.

    kernels (count, N) are the kernel values of the memory's rows with the core. pull must be 0,
    so that w does not depend on h.
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
            v = terms[i, c]
            if v == 0.0:
                continue
            if places[i] >= 0:
                vectors[MEMORY, c, size + places[i]] += v
            else:
                add_multiple(vectors[MEMORY, c], v, phi)


@compiled(fastmath={"contract"})
def dual_svrg_rows(
    rule: DualSVRGRule, memory: Memory, vectors: Array, scalars: Array, Q: Array, arrivals: Indices,
    y: Array, start: int, t: int, out: Array,
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
        # <w, x> = scale a'q + pull h'q,  <u, x> = u'q
        for c in range(outputs):
            in_a, in_h, in_u = three_dots(
                vectors[BASE, c], vectors[MEMORY, c], vectors[SNAPSHOT, c], q
            )
            out[i, c] = scalars[SCALE] * in_a + scalars[PULL] * in_h
            scores[c] = in_u
        slopes(rule.loss, rule.parameter, out[i], y[i], at_w)
        slopes(rule.loss, rule.parameter, scores, y[i], at_u)
        if rule.memory == 1:
            at_u[:] = 0.0  # h is the row's own term and cancels exactly, so that ties remain ties
        # h = h - v_oldest (row) + v (row),  a = a - eta (l'(<w, x>) - l'(<u, x>)) / scale (row)
        slot = t % rule.memory
        for c in range(outputs):
            if t >= rule.memory and terms[slot, c] != 0.0:
                add_term(vectors, c, features[slot], places[slot], -terms[slot, c], 0.0, scalars)
            step = eta * (at_w[c] - at_u[c]) / scalars[SCALE]
            if at_u[c] != 0.0 or step != 0.0:
                add_term(vectors, c, phi, arrivals[i], at_u[c], step, scalars)
            terms[slot, c] = at_u[c]
        features[slot] = phi
        targets[slot], places[slot] = y[i], arrivals[i]
        t += 1
        # scale = kappa scale,  pull = kappa (pull - eta / M), and their sums
        scalars[SCALE] *= kappa
        scalars[PULL] = kappa * (scalars[PULL] - eta / min(t, rule.memory))
        scalars[SCALES] += scalars[SCALE]
        scalars[PULLS] += scalars[PULL]
        if t % rule.period == 0:
            update_snapshot(vectors, scalars, rule.period)
            if q.size > size:
                return i + 1
            if rule.memory == 1:
                continue
            refresh_memory(rule, memory, vectors, no_kernels, min(t, rule.memory))
        elif t % FOLD_ROWS == 0 or scalars[SCALE] < SMALLEST_SCALE:
            fold(vectors, scalars)
    return Q.shape[0]


# -- oracles: which points become kernel terms ----------------------------------------------------
#
# Oracles use inputs only, so that they decide for a whole chunk before any of its rows is learned.


class FirstPoints:
    """The budget oracle: the first ``budget`` points of the stream join the core."""

    #: Whether the oracle ever adds points to the core.
    has_core = True

    def __init__(self, budget: int) -> None:
        self.budget = budget

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


class AlwaysMove:
    """The always-move oracle: there are no kernel terms."""

    has_core = False

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """Return an empty array: no row joins the core."""
        return np.empty(0, dtype=np.intp)


Oracle = FirstPoints | Coverage | AlwaysMove


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
        self.kernel, self.embedding, self.loss, self.oracle = kernel, embedding, loss, oracle
        self.eta, self.kappa = eta, 1.0 / (1.0 + eta * alpha)
        self.memory, self.period = memory, period
        self.rows = 0
        self._core = GrowingRows(columns)
        self._vectors = np.zeros((4, outputs, embedding.size))
        self._scalars = np.array([1.0, 0.0, 0.0, 0.0])
        # With a core, a new snapshot needs the kernel values of the memory's rows, hence the rows.
        self._allocate_memory(0, columns if oracle.has_core else 0, outputs)
        self._work = Workspace()

    def _allocate_memory(self, rows: int, columns: int, outputs: int) -> None:
        """Allocate a memory of ``rows`` rows."""
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
        """w (outputs, D + N): random features, then one coefficient per core point."""
        scale, pull = self._scalars[[SCALE, PULL]]
        return np.asarray(scale * self._vectors[BASE] + pull * self._vectors[MEMORY])

    def learn(self, X: Array, Y: Array) -> Array:
        """Predict, then learn, each row; Y (n, 1) are targets or numbers of classes."""
        out = np.empty((len(X), self._vectors.shape[1]))
        for rows in chunks(len(X), CHUNK):
            self._learn_chunk(X[rows], np.ascontiguousarray(Y[rows, 0]), out[rows])
        return out

    def _learn_chunk(self, X: Array, y: Array, out: Array) -> None:
        arrivals = self._extend_core(X)
        self._grow_memory(len(X))
        self._copy_before_write(len(X))
        Q = self._score_inputs(X)
        start = 0
        while start < len(X):
            stop = dual_svrg_rows(
                self._rule(), self._memory_arrays(), self._vectors, self._scalars, Q, arrivals, y,
                start, self.rows, out,
            )  # fmt: skip
            if self._core.size:
                self._X[np.arange(self.rows, self.rows + stop - start) % self.memory] = X[
                    start:stop
                ]
            self.rows += stop - start
            start = stop
            if self._core.size and self.rows % self.period == 0:
                self._refresh()

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
        allocated, needed = len(self._targets), min(self.memory, self.rows + rows)
        if needed <= allocated:
            return
        old = self._X, self._features, self._targets, self._places, self._terms
        size = min(self.memory, max(needed, 2 * allocated))
        self._allocate_memory(size, self._X.shape[1], self._terms.shape[1])
        new = self._X, self._features, self._targets, self._places, self._terms
        for target, source in zip(new, old, strict=True):
            target[:allocated] = source

    def _rule(self) -> DualSVRGRule:
        """Return the settings for compiled code."""
        loss = self.loss
        return DualSVRGRule(
            loss.code, loss.parameter, self.eta, self.kappa, self.memory, self.period
        )

    def _memory_arrays(self) -> Memory:
        """Return the memory for compiled code."""
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
        if self.memory == 1:
            return
        count = min(self.rows, self.memory)
        kernels = np.empty((count, 0))
        if self._core.size:
            kernels = self.kernel(self._X[:count], self.points)
        refresh_memory(self._rule(), self._memory_arrays(), self._vectors, kernels, count)

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row as if it came next; the state is unchanged."""
        W = self.weights.T
        return np.concatenate([self._score_inputs(X[rows]) @ W for rows in chunks(len(X), CHUNK)])

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by outputs @ matrix and recompute the memory's gradient."""
        fold(self._vectors, self._scalars)
        self._vectors = recombined(self._vectors, matrix, axis=-2)
        used = min(self.rows, self.memory)
        self._targets = self._targets.copy()
        self._targets[:used] = class_numbers(self._targets[:used], matrix)
        self._terms = np.zeros((len(self._targets), matrix.shape[1]))
        self._refresh()

    def negate(self) -> None:
        """Turn the model into that of the negated targets."""
        self.remap(np.array([[-1.0]]))

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
        Numbers("scalars", (4,)),
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
        used = min(self.rows, self.memory)
        state = super().to_state()
        memory = ("X", "features", "targets", "places", "terms")
        return state | {name: state[name][:used] for name in memory}

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["used"] == min(self.rows, self.memory), "rows do not fit the memory")
        expected = sizes["features"] + sizes["core"]
        require(sizes["coordinates"] == expected, "vectors do not fit the core")
        require(self._scalars[SCALE] > 0.0, "scalars have a scale that is not positive")
        outputs = sizes["outputs"]
        if outputs > 1:
            y = self._targets
            numbers = (y == np.floor(y)) & (y >= 0.0) & (y < outputs)
            require(numbers.all(), "targets are not numbers of classes")

    def _copy_before_write(self, rows: int) -> None:
        """Save for a roll-back the slots of the memory that the next rows overwrite."""
        slots = np.arange(self.rows, self.rows + min(rows, self.memory)) % self.memory
        arrays = self._X, self._features, self._targets, self._places
        self._save_slots(slots, *((array, 0) for array in arrays))
