"""The pass of a squared-loss learner in partitions that are worked on side by side.

The state of the ridge and AWV forecasters is two sums. Rows (a whole number of blocks) change them
by an element (l, G, H),

    A <- l A + G        b <- l b + H        l = lambda^m, the discount (1 without forgetting),

and elements compose: (l1, G1, H1) then (l2, G2, H2) is (l1 l2, l2 G1 + G2, l2 H1 + H2). So the sums
at the start of every partition come out of one scan over elements, and every partition runs the
ordinary engine from its own start:

    sums     the element of each partition, in any order, anywhere
    prefix   left to right, r^2 numbers a partition
    rows     the predictions of each partition, in any order, anywhere

Partitions are whole blocks of the sequential pass, so both do the same arithmetic but for the order
of some sums. A coordinate that a dictionary adds counts from its birth on: rows before it are 0
there, A has alpha on its diagonal.

The cut depends on the stream alone. The number of workers changes no bit of a result.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingCholesky, add_products
from pronk.newton.certificate import merge_ledgers
from pronk.newton.engine import Newton, Squared
from pronk.newton.spaces import CHUNK, FixedFeatures, GrowingFeatures

Array = NDArray[np.float64]

#: Work of a partition in multiplications, at least: a task should take milliseconds.
LEAST_WORK = 3e7


@dataclass(frozen=True)
class Element:
    """What some rows do to the sums; of G the lower triangle counts."""

    kept: float
    G: Array
    H: Array

    def then(self, later: Element) -> Element:
        """This, then the rows of ``later``, which may have more coordinates."""
        first = self.padded(len(later.G))
        if later.kept == 1.0:
            return Element(self.kept, first.G + later.G, first.H + later.H)
        return Element(
            self.kept * later.kept,
            later.kept * first.G + later.G,
            later.kept * first.H + later.H,
        )

    def padded(self, size: int) -> Element:
        """In a larger space, where these rows are 0 in the new coordinates."""
        if size == len(self.G):
            return self
        G, H = np.zeros((size, size), order="F"), np.zeros((size, self.H.shape[1]))
        r = len(self.G)
        G[:r, :r], H[:r] = self.G, self.H
        return Element(self.kept, G, H)


@dataclass(frozen=True)
class Sums:
    """A (lower triangle) and b between two blocks."""

    A: Array
    b: Array

    def after(self, element: Element, alpha: float) -> Sums:
        """The sums after the element's rows; alpha stands in coordinates that are new."""
        r, size = len(self.A), len(element.G)
        if r == size and element.kept == 1.0:
            return Sums(self.A + element.G, self.b + element.H)
        A, b = np.zeros((size, size), order="F"), np.zeros((size, self.b.shape[1]))
        A[:r, :r], b[:r] = self.A, self.b
        A[range(r, size), range(r, size)] = alpha
        if element.kept != 1.0:
            A *= element.kept
            b *= element.kept
        A += element.G
        b += element.H
        return Sums(A, b)


@dataclass(frozen=True)
class Partition:
    """Rows ``start`` to ``stop`` of a stream: whole blocks, which begin at ``blocks``.

    ``births`` are the rows, sorted, from which on each coordinate counts.
    """

    start: int
    stop: int
    blocks: tuple[int, ...]
    births: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Coordinates at its end."""
        return int(np.searchsorted(self.births, self.stop - 1, side="right"))

    @property
    def size_before(self) -> int:
        """Coordinates of the rows before it."""
        return int(np.searchsorted(self.births, self.start - 1, side="right"))

    def shown(self, Phi: Array) -> Array:
        """The features, 0 where a coordinate was not born yet; Phi is changed."""
        Phi = Phi[:, : self.size] if Phi.shape[1] > self.size else Phi
        for coordinate in range(self.size_before, self.size):
            Phi[: max(0, int(self.births[coordinate]) - self.start), coordinate] = 0.0
        return np.ascontiguousarray(Phi)


def partitions(
    rule: Squared, births: NDArray[np.int64], start: int, stop: int
) -> Iterator[Partition]:
    """The partitions of the rows from ``start``, where a block begins, that end before ``stop``."""
    while True:
        end, blocks = start, []
        work, most = 0.0, LEAST_WORK
        while work < most:
            r = int(np.searchsorted(births, end, side="right"))
            length = rule.block_rows(r)
            blocks.append(end)
            end += length
            work += length * (4.0 * r * r + 20.0 * r + 2000.0)
        if end > stop:
            return
        yield Partition(start, end, tuple(blocks), births)
        start = end


def contribution(newton: Newton, part: Partition, Phi: Array, Y: Array) -> Element:
    """The element of a partition whose features are Phi."""
    edges = [*part.blocks, part.stop] if newton.forgets else [part.start, part.stop]
    total: Element | None = None
    for first, last in pairwise(edges):
        rows = slice(first - part.start, last - part.start)
        kept, W, Z, put_back = newton.weighed(Phi[rows], Y[rows])
        G = np.zeros((W.shape[1], W.shape[1]), order="F")
        if put_back:
            np.fill_diagonal(G, put_back)
        element = Element(kept, add_products(G, W), W.T @ Z)
        total = element if total is None else total.then(element)
    assert total is not None
    return total


@dataclass(frozen=True)
class Learned:
    """The predictions of a partition and the ledger of its losses."""

    predictions: Array
    ledger: Array


def joined(results: list[Learned]) -> Learned:
    """Partitions one after the other as one."""
    if len(results) == 1:
        return results[0]
    ledger = results[0].ledger.copy()
    for result in results[1:]:
        merge_ledgers(ledger, result.ledger)
    return Learned(np.concatenate([result.predictions for result in results]), ledger)


def learn_partition(newton: Newton, part: Partition, sums: Sums, Phi: Array, Y: Array) -> Learned:
    """Run the ordinary engine over a partition, from the sums at its start.

    ``newton`` gives the settings; it is not changed.
    """
    twin = newton.begun(sums.A, sums.b, len(part.blocks))
    predictions = replay(twin, Phi, Y, part.births, part.start)
    return Learned(predictions, twin.ledger)


def replay(newton: Newton, Phi: Array, Y: Array, births: NDArray[np.int64], start: int) -> Array:
    """Learn rows from number ``start`` on; the space grows at the births of coordinates."""
    stop = start + len(Phi)
    out, done = [], start
    first, last = np.searchsorted(births, [start - 1, stop - 1], side="right")
    for birth in births[first:last].tolist():
        if birth > done:
            rows = slice(done - start, birth - start)
            out.append(newton.learn(np.ascontiguousarray(Phi[rows, : newton.size]), Y[rows]))
            done = birth
        newton.grow()
    rows = slice(done - start, stop - start)
    out.append(newton.learn(np.ascontiguousarray(Phi[rows, : newton.size]), Y[rows]))
    return np.concatenate(out) if len(out) > 1 else out[0]


def adopt(newton: Newton, sums: Sums, ledgers: list[Array]) -> None:
    """Let the engine stand behind partitions: their sums, an empty block, their losses."""
    newton.continue_from(sums.A, sums.b)
    for ledger in ledgers:
        merge_ledgers(newton.ledger, ledger)


def why_not(engine: Any) -> str | None:
    """Why an engine's pass cannot be split; None if it can."""
    learner = getattr(engine, "learner", None)
    if not isinstance(learner, Newton) or not learner.rule.unit:
        return "its updates depend on its predictions"
    growth = getattr(engine, "growth", "carry")
    if growth == "exact":
        return 'history="exact" learns all rows again when the dictionary grows'
    return None if growth == "carry" else "it starts again when the dictionary grows"


# ----------------------------------------------------------------------------------------
# The features of rows ahead of the learner: fixed ones, and those of a dictionary that grows.
#
# KORS needs no labels, and its score of a row only falls when points are added: rho, the squared
# distance to a span with a penalty, is a minimum over more columns then. A row that its own
# uniform rejects against an older dictionary is therefore rejected for good. So a stretch of rows
# is scored side by side against the dictionary of its start, and only the candidates (u < p) are
# gone through in order. The points are those of the sequential pass to the last. Stretches that
# double keep the candidates a small multiple of the points.

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


# ----------------------------------------------------------------------------------------
# A pass through a squared-loss engine on several threads: sums, prefix, rows.
#
# The main thread chooses points, scans the elements and gives out work; a task is a partition of
# some blocks. Features are computed once and held between the two tasks of a partition, so there
# is no more arithmetic than in the sequential pass. Memory is bounded: so many partitions are
# under way.

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
        self.sums: Sums | None = None  # before the next partition
        self.summing: deque[tuple[Partition, Future[Any]]] = deque()
        self.learning: deque[tuple[Partition, Future[Learned]]] = deque()
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
                self.sums = Sums(*(np.array(held, order="F") for held in newton.sums))
            for part in partitions(newton.rule, features.births, self.done, reach):  # type: ignore[arg-type]
                self._give_out(part, features)
        self._finish()
        if self.done < len(self.X):
            self._here(features, len(self.X))
        return self.out

    def _here(self, features: Any, stop: int) -> None:
        """Learn rows with the engine itself."""
        if stop == self.done:
            return
        whole = Partition(self.done, stop, (self.done,), features.births)
        rows = slice(self.done, stop)
        Phi = whole.shown(features(self.X[rows]))
        self.out[rows] = replay(self.newton, Phi, self.Y[rows], features.births, self.done)
        self.done = stop

    def _give_out(self, part: Partition, features: Any) -> None:
        self.summing.append((part, self.pool.submit(self._sum, part, features)))
        self.done = part.stop
        while len(self.summing) + len(self.learning) > self._under_way(part) or (
            self.summing and self.summing[0][1].done()
        ):
            self._advance()

    def _under_way(self, part: Partition) -> int:
        """How many partitions fit: features and an open block each, the sums and a factor."""
        held = 8 * part.size * (3 * (part.stop - part.start) + 4 * part.size) + 1
        return max(LEAST, min(MOST, BYTES // held))

    def _sum(self, part: Partition, features: Any) -> tuple[Array, Element]:
        rows = slice(part.start, part.stop)
        Phi = part.shown(features(self.X[rows]))
        return Phi, contribution(self.newton, part, Phi, self.Y[rows])

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
                    self.pool.submit(
                        learn_partition, self.newton, part, self.sums, Phi, self.Y[rows]
                    ),
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
            adopt(self.newton, self.sums, self.ledgers)
