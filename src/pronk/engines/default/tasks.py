"""The tasks of a split pass of the default learner: points, sums, rows.

A bundle is some rows of a call. Each expert has blocks of its own length, counted from the start of
the stream, so its part of a bundle (`Cut`) are its blocks that end there, and begins where its last
block ended. Tasks are pure functions of their arguments and may run anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.discounted import DiscountedNewton
from pronk.engines.default.spans import Range, Spans
from pronk.engines.newton import split
from pronk.engines.newton.split import Element, Learned, Partition, Sums
from pronk.parts.threads import limited

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Held:
    """Rows, with their past, as the kernels see them, and targets, from some row of a call on."""

    Z: Array
    Y: Array
    first: int = 0

    def rows(self, start: int, stop: int) -> Array:
        return self.Z[start - self.first : stop - self.first]

    def targets(self, start: int, stop: int) -> Array:
        return self.Y[start - self.first : stop - self.first]

    def only(self, reach: tuple[int, int]) -> Held:
        """Some of the rows: what is sent to another process."""
        return Held(self.rows(*reach), self.targets(*reach), reach[0])


@dataclass(frozen=True)
class Cut:
    """What one expert learns in a bundle; ``newton`` has its settings and no rows."""

    newton: DiscountedNewton
    group: int
    parts: tuple[Partition, ...]

    @property
    def reach(self) -> tuple[int, int]:
        return self.parts[0].start, self.parts[-1].stop


@dataclass(frozen=True)
class Bundle:
    """The cuts of the experts, and the rows whose features the spread reads."""

    cuts: tuple[Cut, ...]
    wanted: tuple[Range, ...]  # of each group
    reach: tuple[int, int]  # all rows that are read
    read: bool  # whether the spread reads features

    @classmethod
    def of(cls, cuts: list[Cut], groups: int, read: Range) -> Bundle:
        """``read`` is what the last group, the spread's, gives features of."""
        wanted: list[Range] = [None] * groups
        for cut in cuts:
            low, high = cut.reach
            before = wanted[cut.group]
            if before is not None:
                low, high = min(low, before[0]), max(high, before[1])
            wanted[cut.group] = low, high
        if read is not None:
            wanted[-1] = read
        given = [reach for reach in wanted if reach is not None]
        whole = min(r[0] for r in given), max(r[1] for r in given)
        return cls(tuple(cuts), tuple(wanted), whole, read is not None)


@dataclass(frozen=True)
class Summed:
    """Features by group, and for each cut the element of each part and of all of them."""

    features: list[Array] | None
    elements: list[list[Element]]
    totals: list[Element]
    read: Array | None  # the features that the spread reads


def cut_blocks(
    newton: DiscountedNewton, births: NDArray[np.int64], start: int, stop: int, apart: bool
) -> tuple[Partition, ...]:
    """The whole blocks from ``start`` on that end at ``stop`` or before; ``apart``: a part each."""
    blocks, end = [], start
    while True:
        r = int(np.searchsorted(births, end, side="right"))
        length = newton.rule.block_rows(r)
        if end + length > stop:
            break
        blocks.append(end)
        end += length
    if not blocks:
        return ()
    if not apart:
        return (Partition(start, end, tuple(blocks), births),)
    ends = [*blocks[1:], end]
    return tuple(Partition(a, b, (a,), births) for a, b in zip(blocks, ends, strict=True))


@limited
def ask(spans: Spans, source: Held, reach: tuple[int, int], uniforms: Array) -> NDArray[np.int64]:
    """The rows that ask to become points."""
    return reach[0] + np.flatnonzero(spans.asking(source.rows(*reach), uniforms))


@limited
def sum_up(spans: Spans, source: Held, bundle: Bundle, hold: bool) -> Summed:
    """What the rows of a bundle do to the sums of each expert; ``hold`` keeps their features."""
    features = spans.features(source.rows(*bundle.reach), bundle.reach[0], list(bundle.wanted))
    elements, totals = [], []
    for cut, Phi_of in _cuts(bundle, features):
        own = []
        for part in cut.parts:
            Y = source.targets(part.start, part.stop)
            own.append(split.contribution(cut.newton, part, Phi_of(part), Y))
        total = own[0]
        for element in own[1:]:
            total = total.then(element)
        elements.append(own[:-1])
        totals.append(total)
    read = features[-1] if bundle.read else None
    return Summed(features if hold else None, elements if hold else [], totals, read)


@limited
def learn_rows(
    spans: Spans, source: Held, bundle: Bundle, starts: list[Sums], summed: Summed | None
) -> list[Learned]:
    """The predictions of each expert for its part of a bundle, from the sums at its start."""
    features = None if summed is None else summed.features
    if features is None:
        wanted = list(bundle.wanted)
        features = spans.features(source.rows(*bundle.reach), bundle.reach[0], wanted)
    learned = []
    for i, (cut, Phi_of) in enumerate(_cuts(bundle, features)):
        sums, results = starts[i], []
        for j, part in enumerate(cut.parts):
            Y = source.targets(part.start, part.stop)
            results.append(split.learn(cut.newton, part, sums, Phi_of(part), Y))
            if j + 1 < len(cut.parts):
                assert summed is not None
                sums = sums.after(summed.elements[i][j], cut.newton.alpha)
        learned.append(split.joined(results))
    return learned


def _cuts(bundle: Bundle, features: list[Array]) -> Any:
    """Each cut with what gives the features of its parts."""
    for cut in bundle.cuts:
        reach, Phi = bundle.wanted[cut.group], features[cut.group]
        assert reach is not None
        yield cut, _reader(Phi, reach[0])


def _reader(Phi: Array, first: int) -> Callable[[Partition], Array]:
    return lambda part: part.shown(Phi[part.start - first : part.stop - first])
