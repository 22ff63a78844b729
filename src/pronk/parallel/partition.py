"""Sums of partitions of rows, for squared-loss learners, and the engine run from any of them.

The state of the ridge and AWV forecasters is two sums. Rows (a whole number of blocks) change them
by an element (l, G, H),

    A <- l A + G        b <- l b + H        l = lambda^m, the discount (1 without forgetting),

and elements compose: (l1, G1, H1) then (l2, G2, H2) is (l1 l2, l2 G1 + G2, l2 H1 + H2). So the sums
at the start of every partition follow from one scan over elements, and every partition runs the
ordinary engine from its own start:

    sums     the element of each partition, in any order, anywhere
    scan     left to right, r^2 numbers per partition
    rows     the predictions of each partition, in any order, anywhere

Partitions are whole blocks of the sequential pass, so both do the same arithmetic but for the order
of some sums. A coordinate that a dictionary adds counts from a certain row on: earlier rows are 0
there, and A has alpha on its diagonal. The cut depends on the rows alone, not on the workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pronk.core.linalg import add_products
from pronk.newton.certificate import merge_ledgers
from pronk.newton.engine import Newton, Squared

Array = NDArray[np.float64]
#: For each coordinate the first row that has it, sorted; -1 for coordinates of earlier calls.
FirstRows = NDArray[np.int64]

#: Multiplications of a partition, at least: a task should take milliseconds.
LEAST_WORK = 3e7


# -- elements and sums ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Element:
    """The change of the sums by some rows; only the lower triangle of G is read."""

    kept: float
    G: Array
    H: Array

    def then(self, later: Element) -> Element:
        """Compose with the element of later rows, which may have more coordinates."""
        first = self.padded(len(later.G))
        if later.kept == 1.0:
            return Element(self.kept, first.G + later.G, first.H + later.H)
        # (l1, G1, H1) then (l2, G2, H2) = (l1 l2, l2 G1 + G2, l2 H1 + H2)
        return Element(
            self.kept * later.kept,
            later.kept * first.G + later.G,
            later.kept * first.H + later.H,
        )

    def padded(self, size: int) -> Element:
        """Return the element in a larger space, where its rows are 0 in the new coordinates."""
        if size == len(self.G):
            return self
        G, H = np.zeros((size, size), order="F"), np.zeros((size, self.H.shape[1]))
        r = len(self.G)
        G[:r, :r], H[:r] = self.G, self.H
        return Element(self.kept, G, H)


@dataclass(frozen=True)
class Sums:
    """The state between two blocks: A (lower triangle) and b."""

    A: Array
    b: Array

    @classmethod
    def of(cls, newton: Newton) -> Sums:
        """Copy the sums of an engine whose open block is empty."""
        return cls(*(np.array(values, order="F") for values in newton.sums))

    def after(self, element: Element, alpha: float) -> Sums:
        """Return the sums after the element's rows; new coordinates have alpha on the diagonal."""
        r, size = len(self.A), len(element.G)
        if r == size and element.kept == 1.0:
            return Sums(self.A + element.G, self.b + element.H)
        A, b = np.zeros((size, size), order="F"), np.zeros((size, self.b.shape[1]))
        A[:r, :r], b[:r] = self.A, self.b
        A[range(r, size), range(r, size)] = alpha
        # A = l A + G, b = l b + H
        if element.kept != 1.0:
            A *= element.kept
            b *= element.kept
        A += element.G
        b += element.H
        return Sums(A, b)


# -- partitions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """Rows ``start`` to ``stop``: whole blocks, which begin at ``blocks``."""

    start: int
    stop: int
    blocks: tuple[int, ...]
    first_rows: FirstRows

    @property
    def size(self) -> int:
        """Coordinates at its end."""
        return int(np.searchsorted(self.first_rows, self.stop - 1, side="right"))

    @property
    def size_before(self) -> int:
        """Coordinates of the rows before it."""
        return int(np.searchsorted(self.first_rows, self.start - 1, side="right"))

    def masked(self, Phi: Array) -> Array:
        """Set features to 0 where a row is before the first row of a coordinate, in place."""
        Phi = Phi[:, : self.size] if Phi.shape[1] > self.size else Phi
        for coordinate in range(self.size_before, self.size):
            Phi[: max(0, int(self.first_rows[coordinate]) - self.start), coordinate] = 0.0
        return np.ascontiguousarray(Phi)


def partitions(rule: Squared, first_rows: FirstRows, start: int, stop: int) -> Iterator[Partition]:
    """Yield the partitions from row ``start``, where a block begins, that end before ``stop``."""
    while True:
        end, blocks = start, []
        work = 0.0
        while work < LEAST_WORK:
            r = int(np.searchsorted(first_rows, end, side="right"))
            length = rule.block_rows(r)
            blocks.append(end)
            end += length
            work += length * (4.0 * r * r + 20.0 * r + 2000.0)
        if end > stop:
            return
        yield Partition(start, end, tuple(blocks), first_rows)
        start = end


def contribution(newton: Newton, part: Partition, Phi: Array, Y: Array) -> Element:
    """Return the element of a partition with features Phi (rows x r) and targets Y."""
    edges = [*part.blocks, part.stop] if newton.forgets else [part.start, part.stop]
    total: Element | None = None
    for first, last in pairwise(edges):
        rows = slice(first - part.start, last - part.start)
        kept, W, Z, put_back = newton.weighed(Phi[rows], Y[rows])
        # G = put_back I + W'W, H = W'Z
        G = np.zeros((W.shape[1], W.shape[1]), order="F")
        if put_back:
            np.fill_diagonal(G, put_back)
        element = Element(kept, add_products(G, W), W.T @ Z)
        total = element if total is None else total.then(element)
    assert total is not None
    return total


# -- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learned:
    """The predictions of a partition and the ledger of its losses."""

    predictions: Array
    ledger: Array


def joined(results: list[Learned]) -> Learned:
    """Concatenate the results of successive partitions."""
    if len(results) == 1:
        return results[0]
    ledger = results[0].ledger.copy()
    for result in results[1:]:
        merge_ledgers(ledger, result.ledger)
    return Learned(np.concatenate([result.predictions for result in results]), ledger)


def learn_partition(newton: Newton, part: Partition, sums: Sums, Phi: Array, Y: Array) -> Learned:
    """Run the ordinary engine over a partition, from the sums at its start.

    Only the settings of ``newton`` are read.
    """
    twin = newton.begun(sums.A, sums.b, len(part.blocks))
    predictions = replay(twin, Phi, Y, part.first_rows, part.start)
    return Learned(predictions, twin.ledger)


def replay(newton: Newton, Phi: Array, Y: Array, first_rows: FirstRows, start: int) -> Array:
    """Predict then learn rows from number ``start`` on; the space grows at ``first_rows``."""
    stop = start + len(Phi)
    out, done = [], start
    low, high = np.searchsorted(first_rows, [start - 1, stop - 1], side="right")
    for row in first_rows[low:high].tolist():
        if row > done:
            rows = slice(done - start, row - start)
            out.append(newton.learn(np.ascontiguousarray(Phi[rows, : newton.size]), Y[rows]))
            done = row
        newton.grow()
    rows = slice(done - start, stop - start)
    out.append(newton.learn(np.ascontiguousarray(Phi[rows, : newton.size]), Y[rows]))
    return np.concatenate(out) if len(out) > 1 else out[0]


def adopt(newton: Newton, sums: Sums, ledgers: list[Array]) -> None:
    """Move an engine behind partitions: their sums, an empty block, their losses."""
    newton.continue_from(sums.A, sums.b)
    for ledger in ledgers:
        merge_ledgers(newton.ledger, ledger)
