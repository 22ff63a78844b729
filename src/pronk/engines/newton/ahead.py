"""The features of rows ahead of the learner: fixed ones, and those of a dictionary that grows.

KORS needs no labels, and its score of a row only falls when points are added: rho, the squared
distance to a span with a penalty, is a minimum over more columns then. A row that its own uniform
rejects against an older dictionary is therefore rejected for good. So a stretch of rows is scored
side by side against the dictionary of its start, and only the candidates (u < p) are gone through
in order. The points are those of the sequential pass to the last. Stretches that double keep the
candidates a small multiple of the points.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton.embedded import CHUNK, FixedFeatures, GrowingFeatures
from pronk.parts.kernels import Kernel
from pronk.parts.linalg import GrowingCholesky

Array = NDArray[np.float64]

#: Most rows of a stretch.
LONGEST_STRETCH = 8192


class Own(threading.local):
    """A copy for each thread of something that keeps its temporaries between calls."""

    def __init__(self, shared: Any) -> None:
        self.held = copy.deepcopy(shared)


class FixedMap:
    """Features that never change; every coordinate is there from the start."""

    def __init__(self, engine: FixedFeatures) -> None:
        self._own = Own(engine.embedding)
        self.births = np.full(engine.embedding.size, -1, dtype=np.int64)

    def __call__(self, X: Array) -> Array:
        transform = self._own.held.transform
        parts = [transform(X[i : i + CHUNK]).copy() for i in range(0, len(X), CHUNK)]
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


class SpanMap:
    """Coordinates in the span of the points of some moment: a snapshot of a growing map."""

    def __init__(
        self, kernel: Kernel, points: Array, factor: GrowingCholesky, births: NDArray[np.int64]
    ) -> None:
        self.kernel, self.births = kernel, births
        self._points, self._factor = points, factor

    def __call__(self, X: Array) -> Array:
        """All coordinates of the rows, also those that were born later."""
        parts = []
        for i in range(0, len(X), CHUNK):
            K = self.kernel(X[i : i + CHUNK], self._points)
            parts.append(self._factor.solve_rows(np.ascontiguousarray(K)))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


def span_map(engine: GrowingFeatures, births: NDArray[np.int64]) -> SpanMap:
    """The engine's present map; ``births`` are the rows from which its coordinates count."""
    state = engine.nystrom.to_state()
    points = engine.dictionary.points[state["used"]].copy()
    return SpanMap(engine.kernel, points, GrowingCholesky.from_state(state["factor"]), births)


def stretches(engine: GrowingFeatures, n: int) -> Iterator[slice]:
    """Stretches of n rows, as long as what came before them."""
    start, seen = 0, 0
    while start < n:
        stop = min(n, start + max(CHUNK, min(seen, LONGEST_STRETCH)))
        yield slice(start, stop)
        seen += stop - start
        start = stop


def choose(engine: GrowingFeatures, X: Array, pool: Executor) -> list[int]:
    """Let the dictionary read rows; the numbers of those it accepts."""
    dictionary = engine.dictionary
    uniforms = dictionary.draw(len(X))
    if dictionary.full:
        return []
    if dictionary.rule.final:
        twins = Own(dictionary)
        pieces = [slice(i, i + CHUNK) for i in range(0, len(X), CHUNK)]
        asking = pool.map(
            lambda rows: twins.held.asks(X[rows], uniforms[rows] if len(uniforms) else uniforms),
            pieces,
        )
        numbers = np.flatnonzero(np.concatenate(list(asking)))
    else:  # a rule of which nothing is known reads every row
        numbers = np.arange(len(X))
    accepted: list[int] = []
    for first in range(0, len(numbers), CHUNK):
        some = numbers[first : first + CHUNK]
        rows = np.ascontiguousarray(X[some])
        K = engine.kernel(rows, dictionary.points)
        found, _ = dictionary.scan(rows, K, uniforms[some] if len(uniforms) else uniforms)
        accepted += [int(some[i]) for i in found]
    return accepted


def grow(engine: GrowingFeatures, X: Array, accepted: list[int]) -> list[int]:
    """Take accepted rows into the map; the rows from which new coordinates count."""
    known = len(engine.dictionary.points) - len(accepted)
    births = []
    for i, row in enumerate(accepted):
        points = engine.dictionary.points[: known + i]
        phi = engine.nystrom.transform(engine.kernel(X[row : row + 1], points))[0].copy()
        diagonal = float(engine.kernel.diagonal(X[row : row + 1])[0])
        if engine.nystrom.grow(phi, diagonal) is not None:
            births.append(row + engine.lag)
    return births
