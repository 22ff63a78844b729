"""The engine of DualSVRG: a core of kernel terms, random features, a memory and a snapshot.

`oracles` decides which points join the core; `steps` has the step and how it is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.dual.joint import CHUNK, class_numbers
from pronk.engines.dual.oracles import Oracle
from pronk.engines.dual.steps import (
    BASE,
    MEMORY,
    PULL,
    SCALE,
    Memory,
    ReducedRule,
    fold,
    reduced_rows,
    refresh_memory,
)
from pronk.parts.embeddings import Embedding, chunks
from pronk.parts.kernels import Kernel
from pronk.parts.linalg import GrowingRows, Workspace, recombined
from pronk.parts.losses import Loss
from pronk.parts.state import Count, Numbers, Rows, Sizes, Stateful, require

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class ReducedDual(Stateful):
    """DualSVRG: gradient steps with their variance reduced by a memory and a snapshot.

    ``memory`` rows of features and targets are held, and their average gradient at the snapshot u,
    the average of w over the last full ``period``.
    """

    coded = True  # targets of several outputs are numbers of classes

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
        self._set_memory(0, columns if oracle.keeps else 0, outputs)
        self._work = Workspace()
        self._overwritten: list[Any] | None = None  # what a mark has to put back

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
        self._remember(len(X))
        Q = self._seen(X)
        start = 0
        while start < len(X):
            stop = reduced_rows(
                self._rule(), self._remembered(), self._vectors, self._scalars, Q, arrivals, y,
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

    def _rule(self) -> ReducedRule:
        """How the compiled loops step."""
        loss = self.loss
        return ReducedRule(
            loss.code, loss.parameter, self.eta, self.kappa, self.memory, self.period
        )

    def _remembered(self) -> Memory:
        """The memory as the compiled loops see it."""
        return Memory(self._features, self._targets, self._places, self._terms)

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
        refresh_memory(self._rule(), self._remembered(), self._vectors, kernels, count)

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        W = self.weights.T
        return np.concatenate([self._seen(X[rows]) @ W for rows in chunks(len(X), CHUNK)])

    def remap(self, matrix: Array) -> None:
        """New outputs as combinations of the old; the memory's gradient is of the new classes."""
        fold(self._vectors, self._scalars)
        self._vectors = recombined(self._vectors, matrix, axis=-2)
        used = min(self.rows, self.memory)
        self._targets = self._targets.copy()
        self._targets[:used] = class_numbers(self._targets[:used], matrix)
        self._terms = np.zeros((len(self._targets), matrix.shape[1]))
        self._refresh()

    def negate(self) -> None:
        """The model of the opposite targets."""
        self.remap(np.array([[-1.0]]))

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Rows("core", ("core", "columns")),
        Numbers("X", ("used", "remembered"), marked=False),
        Numbers("features", ("used", "features"), marked=False),
        Numbers("targets", ("used",), marked=False),
        Numbers("places", ("used",), whole=True, low=-1, high="core", marked=False),
        Numbers("terms", ("used", "outputs")),
        Count("rows", "rows"),
        Numbers("vectors", (4, "outputs", "coordinates")),
        Numbers("scalars", (4,)),
    )
    DERIVED = ("_X", "_features", "_targets", "_places")

    def _sizes(self) -> dict[str, int]:
        return {
            "columns": self._core.columns,
            "remembered": self._X.shape[1],
            "features": self.embedding.size,
            "outputs": self._terms.shape[1],
        }

    def to_state(self) -> dict[str, Any]:
        """Of the memory only what is in use."""
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

    def mark(self) -> Any:
        self._overwritten = []
        return super().mark(), self._overwritten

    def _remember(self, rows: int) -> None:
        """Keep for a mark the remembered rows that the next rows write over, each once."""
        if self._overwritten is None:
            return
        done = sum(len(slots) for slots, _ in self._overwritten)
        rows = min(rows, self.memory - done)
        if rows > 0:
            slots = np.arange(self.rows, self.rows + rows) % self.memory
            held = [(array := getattr(self, name), array[slots]) for name in self.DERIVED]
            self._overwritten.append((slots, held))

    def undo(self, mark: Any) -> None:
        mark, overwritten = mark
        for slots, held in overwritten:
            for array, values in held:
                array[slots] = values
        super().undo(mark)
