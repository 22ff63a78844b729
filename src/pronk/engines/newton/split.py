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

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton.certificate import merge_ledgers
from pronk.engines.newton.curvature import Squared
from pronk.engines.newton.learner import Newton
from pronk.parts.linalg import add_products

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


def learn(newton: Newton, part: Partition, sums: Sums, Phi: Array, Y: Array) -> Learned:
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
