"""A pass through a squared-loss engine on several threads: sums, prefix, rows.

The main thread chooses points, scans the elements and gives out work; a task is a partition of
some blocks. Features are computed once and held between the two tasks of a partition, so there is
no more arithmetic than in the sequential pass. Memory is bounded: so many partitions are under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton import split
from pronk.engines.newton.ahead import FixedMap, choose, grow, span_map, stretches
from pronk.engines.newton.embedded import FixedFeatures, GrowingFeatures
from pronk.engines.newton.learner import Newton

Array = NDArray[np.float64]

#: Partitions under way, at most and at least, and the bytes they may hold.
MOST, LEAST, BYTES = 24, 6, 1 << 28


def learn(engine: FixedFeatures | GrowingFeatures, X: Array, Y: Array, pool: Executor) -> Array:
    """As ``engine.learn(X, Y)``, by the threads of a pool; `split.why_not` says for whom."""
    newton = engine.learner
    assert isinstance(newton, Newton)
    if isinstance(engine, FixedFeatures):
        maps: Any = [(FixedMap(engine), len(X))]
    else:
        maps = _maps(engine, X, pool)
    return _Pass(newton, X, Y, pool).run(maps)


def _maps(engine: GrowingFeatures, X: Array, pool: Executor) -> Iterator[tuple[Any, int]]:
    """Maps of features and the rows up to which they hold."""
    births = np.full(engine.nystrom.size, -1, dtype=np.int64)
    for rows in stretches(engine, len(X)):
        accepted = [rows.start + row for row in choose(engine, X[rows], pool)]
        new = grow(engine, X, accepted)
        births = np.concatenate((births, np.array(new, dtype=np.int64)))
        yield span_map(engine, births), rows.stop


class _Pass:
    """The rows of one call, from the first that is not learned yet."""

    def __init__(self, newton: Newton, X: Array, Y: Array, pool: Executor) -> None:
        self.newton, self.X, self.Y, self.pool = newton, X, Y, pool
        self.out = np.empty((len(X), newton.outputs))
        self.done = 0  # rows that were given out
        self.sums: split.Sums | None = None  # before the next partition
        self.summing: deque[tuple[split.Partition, Future[Any]]] = deque()
        self.learning: deque[tuple[split.Partition, Future[split.Learned]]] = deque()
        self.ledgers: list[Array] = []

    def run(self, maps: Any) -> Array:
        newton, features = self.newton, None
        for features, reach in maps:
            if self.sums is None:  # whole blocks begin where the open one is full
                room = newton.open_room if newton.open_rows else 0
                if self.done + room > reach:
                    continue
                self._here(features, self.done + room)
                while newton.open_rows and self.done < reach:
                    # A space that grew meanwhile has an open block of another length.
                    self._here(features, min(reach, self.done + newton.open_room))
                if newton.open_rows:
                    continue
                self.sums = split.Sums(*(np.array(held, order="F") for held in newton.sums))
            for part in split.partitions(newton.rule, features.births, self.done, reach):  # type: ignore[arg-type]
                self._give_out(part, features)
        self._finish()
        if self.done < len(self.X):
            self._here(features, len(self.X))
        return self.out

    def _here(self, features: Any, stop: int) -> None:
        """Learn rows with the engine itself."""
        if stop == self.done:
            return
        whole = split.Partition(self.done, stop, (self.done,), features.births)
        rows = slice(self.done, stop)
        Phi = whole.shown(features(self.X[rows]))
        self.out[rows] = split.replay(self.newton, Phi, self.Y[rows], features.births, self.done)
        self.done = stop

    def _give_out(self, part: split.Partition, features: Any) -> None:
        self.summing.append((part, self.pool.submit(self._sum, part, features)))
        self.done = part.stop
        while len(self.summing) + len(self.learning) > self._under_way(part) or (
            self.summing and self.summing[0][1].done()
        ):
            self._advance()

    def _under_way(self, part: split.Partition) -> int:
        """How many partitions fit: features and an open block each, the sums and a factor."""
        held = 8 * part.size * (3 * (part.stop - part.start) + 4 * part.size) + 1
        return max(LEAST, min(MOST, BYTES // held))

    def _sum(self, part: split.Partition, features: Any) -> tuple[Array, split.Element]:
        rows = slice(part.start, part.stop)
        Phi = part.shown(features(self.X[rows]))
        return Phi, split.contribution(self.newton, part, Phi, self.Y[rows])

    def _advance(self) -> None:
        """The oldest partition goes one step on."""
        if self.summing and len(self.learning) <= MOST // 2:
            assert self.sums is not None
            part, future = self.summing.popleft()
            Phi, element = future.result()
            rows = slice(part.start, part.stop)
            self.learning.append(
                (
                    part,
                    self.pool.submit(split.learn, self.newton, part, self.sums, Phi, self.Y[rows]),
                )
            )
            self.sums = self.sums.after(element, self.newton.alpha)
        else:
            part, learned = self.learning.popleft()
            result = learned.result()
            self.out[part.start : part.stop] = result.predictions
            self.ledgers.append(result.ledger)

    def _finish(self) -> None:
        while self.summing or self.learning:
            self._advance()
        if self.sums is not None and self.ledgers:
            split.adopt(self.newton, self.sums, self.ledgers)
