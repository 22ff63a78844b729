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

from pronk.aggregate.experts import Experts
from pronk.aggregate.points import outside, proposes
from pronk.aggregate.settings import Group, View
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingCholesky
from pronk.core.runtime import limited
from pronk.newton.discounted import EPOCH, DiscountedNewton
from pronk.parallel import newton as split
from pronk.parallel.newton import Element, Learned, Partition, Sums

# ----------------------------------------------------------------------------------------
# The features of all groups as they were at some moment: what tasks of a split pass compute with.
#
# The groups of the experts, and last that of the spread, share points and, where their kernels are
# of distances, the distances of a view. A snapshot does not change while the dictionary grows on.

Array = NDArray[np.float64]
#: The rows from ``first`` to ``last`` of a call, or none.
Range = tuple[int, int] | None


@dataclass(frozen=True)
class Span:
    """The span of the first points, through one view and bandwidth."""

    view: View
    kernel: Kernel
    factor: GrowingCholesky
    used: NDArray[np.int64]  # points that have a coordinate
    points: int

    @classmethod
    def of(cls, group: Group) -> Span:
        state = group.nystrom.to_state()
        factor = GrowingCholesky.from_state(state["factor"])
        used = np.array(state["used"], dtype=np.int64)
        return cls(group.view, group.kernel, factor, used, group.nystrom.points)

    def features(self, Z: Array, points: Array, distances: Array | None, out: Array) -> None:
        """The coordinates of rows whose distances to the points are given, where there are any."""
        if distances is None:
            seen = self.view.rows(points[: self.points])
            out[:] = self.kernel(self.view.rows(Z), seen)[:, self.used]
        else:
            every = len(self.used) == self.points
            out[:] = distances[:, : self.points] if every else distances[:, self.used]
            out[:] = self.kernel.from_distances(out)
        self.factor.solve_rows(out)


class Spans:
    """A snapshot of the spans of all groups."""

    def __init__(self, experts: Experts) -> None:
        groups = experts.all_groups()
        self.spans = [Span.of(group) for group in groups]
        self.reference = groups.index(experts.reference)
        self.points = experts.candidates.points.values.copy()

    def features(self, Z: Array, first: int, wanted: list[Range]) -> list[Array]:
        """Of each group the features of the rows that are wanted of it; Z begins at row first."""
        out = []
        for span, reach in zip(self.spans, wanted, strict=True):
            count = 0 if reach is None else reach[1] - reach[0]
            out.append(np.empty((count, span.factor.size)))
        for start in range(first, first + len(Z), EPOCH):
            stop = min(start + EPOCH, first + len(Z))
            held: dict[int, Array] = {}  # the distances of each view
            for span, reach, Phi in zip(self.spans, wanted, out, strict=True):
                if reach is None or reach[0] >= stop or reach[1] <= start:
                    continue
                rows = Z[start - first : stop - first]
                distances = self._distances(span.view, rows, held)
                low, high = max(reach[0], start), min(reach[1], stop)
                if distances is not None:
                    distances = distances[low - start : high - start]
                rows = rows[low - start : high - start]
                own = Phi[low - reach[0] : high - reach[0]]
                span.features(rows, self.points, distances, own)
        return out

    def _distances(self, view: View, Z: Array, held: dict[int, Array]) -> Array | None:
        if not hasattr(view.kernel, "bandwidth"):
            return None
        if view.number not in held:
            count = max(s.points for s in self.spans if s.view.number == view.number)
            seen = view.rows(self.points[:count])
            held[view.number] = view.kernel.distances(view.rows(Z), seen)
        return held[view.number]

    def asking(self, Z: Array, uniforms: Array) -> NDArray[np.bool_]:
        """Which rows ask to become points; with more points fewer would, and none that does not."""
        wanted: list[Range] = [None] * len(self.spans)
        wanted[self.reference] = (0, len(Z))
        span = self.spans[self.reference]
        Phi = self.features(Z, 0, wanted)[self.reference]
        return proposes(outside(span.kernel.diagonal(span.view.rows(Z)), Phi), uniforms)


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
            results.append(split.learn_partition(cut.newton, part, sums, Phi_of(part), Y))
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
