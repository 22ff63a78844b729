"""Split the pass of a squared-loss engine, on fixed or growing features, over threads.

The main thread chooses points, scans elements and submits tasks; a task is one partition. Features
are computed once and kept between the two tasks of a partition, so there is no more arithmetic than
in the sequential pass.

**Points ahead of the learner.** KORS needs no labels, and its score of a row only falls when points
are added: rho, the squared distance to a span with a penalty, is then a minimum over more columns.
A row that its own uniform rejects against an older dictionary is therefore rejected for good. So a
stretch of rows is scored in parallel against the dictionary of its start, and only the candidates
(u < p) are visited in order. The points are exactly those of the sequential pass. Stretches that
double keep the number of candidates a small multiple of the number of points.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingCholesky
from pronk.newton.engine import Newton
from pronk.newton.spaces import CHUNK, FixedFeatures, GrowingFeatures
from pronk.parallel.partition import (
    Element,
    FirstRows,
    Learned,
    Partition,
    Sums,
    adopt,
    contribution,
    learn_partition,
    partitions,
    replay,
)
from pronk.parallel.pipeline import PartitionedPass, Pool, Task, TaskGroup

Array = NDArray[np.float64]

#: Rows of a stretch, at most.
LONGEST_STRETCH = 8192
#: Partitions in flight, at most and at least, and the bytes they may hold.
MOST, LEAST, BYTES = 24, 6, 1 << 28


def why_sequential(engine: Any) -> str | None:
    """Return why the pass of an engine cannot be split, or None if it can."""
    learner = getattr(engine, "learner", None)
    if not isinstance(learner, Newton) or not learner.rule.unit:
        return "its updates depend on its predictions"
    reason: str | None = getattr(learner, "sequential", None)
    if reason is not None:
        return reason
    growth = getattr(engine, "growth", "carry")
    if growth == "exact":
        return 'history="exact" learns all rows again when the dictionary grows'
    return None if growth == "carry" else "it starts again when the dictionary grows"


def learn(engine: FixedFeatures | GrowingFeatures, X: Array, Y: Array, pool: Pool) -> Array:
    """Return ``engine.learn(X, Y)``, up to rounding, computed by the threads of a pool."""
    run = _Pass(engine, X, Y, pool)
    later = list(run.run())
    return np.concatenate([*run.first, *later])


# -- features ------------------------------------------------------------------------------------


class PerThread(threading.local):
    """Give each thread its own copy of an object that keeps temporaries between calls."""

    def __init__(self, shared: Any) -> None:
        self.copy = copy.deepcopy(shared)


class FixedMap:
    """A feature map that never changes; it has all coordinates from the start."""

    def __init__(self, engine: FixedFeatures) -> None:
        self._own = PerThread(engine.embedding)
        self.first_rows = np.full(engine.embedding.size, -1, dtype=np.int64)

    def __call__(self, X: Array) -> Array:
        transform = self._own.copy.transform
        parts = [transform(X[i : i + CHUNK]).copy() for i in range(0, len(X), CHUNK)]
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


class SpanMap:
    """A snapshot of a growing map: coordinates in the span of the points it has at one moment."""

    def __init__(
        self, kernel: Kernel, points: Array, factor: GrowingCholesky, first_rows: FirstRows
    ) -> None:
        self.kernel, self.first_rows = kernel, first_rows
        self._points, self._factor = points, factor

    def __call__(self, X: Array) -> Array:
        """Return all coordinates of rows, also those that count from later rows on."""
        parts = []
        for i in range(0, len(X), CHUNK):
            K = self.kernel(X[i : i + CHUNK], self._points)
            parts.append(self._factor.solve_rows(np.ascontiguousarray(K)))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


def span_map(engine: GrowingFeatures, first_rows: FirstRows) -> SpanMap:
    """Return a snapshot of the engine's map."""
    state = engine.nystrom.to_state()
    points = engine.dictionary.points[state["used"]].copy()
    return SpanMap(engine.kernel, points, GrowingCholesky.from_state(state["factor"]), first_rows)


# -- points --------------------------------------------------------------------------------------


def stretches(n: int) -> Iterator[slice]:
    """Cut n rows into stretches, each as long as all rows before it, within limits."""
    start = 0
    while start < n:
        stop = min(n, start + max(CHUNK, min(start, LONGEST_STRETCH)))
        yield slice(start, stop)
        start = stop


def choose(engine: GrowingFeatures, X: Array, tasks: TaskGroup) -> list[int]:
    """Let the dictionary read rows; return the numbers of those it accepts."""
    dictionary = engine.dictionary
    uniforms = dictionary.draw(len(X))
    if dictionary.full:
        return []
    numbers = np.arange(len(X))  # a rule of which nothing is known reads every row
    if dictionary.rule.final:
        twins = PerThread(dictionary)
        edges = [*range(0, len(X), CHUNK), len(X)]
        pending = [
            tasks.submit(_candidates, twins, X[low:high], uniforms[low:high])
            for low, high in pairwise(edges)
        ]
        numbers = np.flatnonzero(np.concatenate([task.result() for task in pending]))
    accepted = accept(engine, X[numbers], uniforms[numbers] if len(uniforms) else uniforms)
    return [int(numbers[i]) for i in accepted]


def _candidates(twins: PerThread, X: Array, uniforms: Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = twins.copy.would_accept(X, uniforms)
    return found


def accept(engine: GrowingFeatures, candidates: Array, uniforms: Array) -> list[int]:
    """Visit candidates in order, with their own uniforms; return which the dictionary accepts."""
    accepted: list[int] = []
    for start in range(0, len(candidates), CHUNK):
        rows = np.ascontiguousarray(candidates[start : start + CHUNK])
        K = engine.kernel(rows, engine.dictionary.points)
        own = uniforms[start : start + CHUNK] if len(uniforms) else uniforms
        accepted += [start + int(row) for row in engine.dictionary.scan(rows, K, own)[0]]
    return accepted


def grow(engine: GrowingFeatures, X: Array, accepted: list[int]) -> list[int]:
    """Extend the map by accepted rows; return the first rows of the new coordinates."""
    before = len(engine.dictionary.points) - len(accepted)
    first_rows = []
    for i, row in enumerate(accepted):
        points = engine.dictionary.points[: before + i]
        phi = engine.nystrom.transform(engine.kernel(X[row : row + 1], points))[0].copy()
        diagonal = float(engine.kernel.diagonal(X[row : row + 1])[0])
        if engine.nystrom.grow(phi, diagonal) is not None:
            first_rows.append(row + engine.lag)
    return first_rows


# -- the pass ------------------------------------------------------------------------------------


def sum_partition(
    newton: Newton, part: Partition, features: Any, X: Array, Y: Array
) -> tuple[Array, Element]:
    """Return the features and the element of a partition whose rows are X and Y."""
    Phi = part.masked(features(X))
    return Phi, contribution(newton, part, Phi, Y)


class _Pass(PartitionedPass[Partition, Array]):
    """Yield the predictions of the rows of one call."""

    def __init__(
        self, engine: FixedFeatures | GrowingFeatures, X: Array, Y: Array, pool: Pool
    ) -> None:
        super().__init__(pool, MOST)
        assert isinstance(engine.learner, Newton)
        self.engine, self.newton, self.X, self.Y = engine, engine.learner, X, Y
        #: Predictions of rows before the first whole block.
        self.first = [np.empty((0, self.newton.outputs))]
        self.done = 0  # rows in partitions, or learned here
        self.features: Any = None  # the latest map
        self.sums: Sums | None = None  # before the next partition
        self.ledgers: list[Array] = []

    def _maps(self) -> Iterator[tuple[Any, int]]:
        """Yield maps of features and the rows up to which they hold."""
        engine = self.engine
        if isinstance(engine, FixedFeatures):
            yield FixedMap(engine), len(self.X)
            return
        first_rows = np.full(engine.nystrom.size, -1, dtype=np.int64)
        for rows in stretches(len(self.X)):
            accepted = [rows.start + i for i in choose(engine, self.X[rows], self.tasks)]
            new = np.array(grow(engine, self.X, accepted), dtype=np.int64)
            first_rows = np.concatenate((first_rows, new))
            yield span_map(engine, first_rows), rows.stop

    def partitions(self) -> Iterator[Partition]:
        newton = self.newton
        for features, reach in self._maps():
            self.features = features
            if self.sums is None:  # whole blocks begin where the open one is full
                room = newton.open_room if newton.open_rows else 0
                if self.done + room > reach:
                    continue
                self.first.append(self._learn_here(self.done + room))
                while newton.open_rows and self.done < reach:
                    # A space that grew meanwhile has an open block of another length.
                    self.first.append(self._learn_here(min(reach, self.done + newton.open_room)))
                if newton.open_rows:
                    continue
                self.sums = Sums.of(newton)
            first_rows = features.first_rows
            for part in partitions(newton.rule, first_rows, self.done, reach):  # type: ignore[arg-type]
                self.done = part.stop
                yield part

    def _learn_here(self, stop: int) -> Array:
        """Learn the next rows with the engine itself."""
        start, self.done = self.done, stop
        if stop == start:
            return np.empty((0, self.newton.outputs))
        first_rows = self.features.first_rows
        whole = Partition(start, stop, (start,), first_rows)
        Phi = whole.masked(self.features(self.X[start:stop]))
        return replay(self.newton, Phi, self.Y[start:stop], first_rows, start)

    def limit(self, part: Partition) -> int:
        """Count what a partition holds: features, an open block, the sums and a factor."""
        numbers = part.size * (3 * (part.stop - part.start) + 4 * part.size)
        return max(LEAST, min(MOST, BYTES // (8 * numbers + 1)))

    def sum_task(self, part: Partition) -> Task:
        rows = slice(part.start, part.stop)
        return sum_partition, self.newton, part, self.features, self.X[rows], self.Y[rows]

    def scan(self, part: Partition, summed: tuple[Array, Element]) -> Task:
        assert self.sums is not None
        Phi, element = summed
        start, self.sums = self.sums, self.sums.after(element, self.newton.alpha)
        return learn_partition, self.newton, part, start, Phi, self.Y[part.start : part.stop]

    def collect(self, part: Partition, learned: Learned) -> list[Array]:
        self.ledgers.append(learned.ledger)
        return [learned.predictions]

    def finish(self) -> Iterator[Array]:
        if self.sums is not None and self.ledgers:
            adopt(self.newton, self.sums, self.ledgers)
        yield self._learn_here(len(self.X))
