"""The tasks of the default learner's split pass: candidates, sums and rows of a bundle.

A bundle is some rows of a call. Each expert has blocks of its own length, counted from the start of
the stream; its part of a bundle (`Cut`) begins where its last block ended and has its blocks that
end within the bundle. Tasks are pure functions of their arguments and may run in any process.
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
from pronk.parallel.partition import (
    Element,
    FirstRows,
    Learned,
    Partition,
    Sums,
    contribution,
    joined,
    learn_partition,
)

Array = NDArray[np.float64]
#: Rows ``first`` to ``last`` of a call, or none.
Range = tuple[int, int] | None


@dataclass(frozen=True)
class Span:
    """A snapshot of the features of one group: the span of its points, by one view and kernel."""

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
        """Write the coordinates of rows Z to ``out``.

        ``distances`` to the points are given where the kernel is a function of them.
        """
        if distances is None:
            seen = self.view.rows(points[: self.points])
            out[:] = self.kernel(self.view.rows(Z), seen)[:, self.used]
        else:
            every = len(self.used) == self.points
            out[:] = distances[:, : self.points] if every else distances[:, self.used]
            out[:] = self.kernel.from_distances(out)
        self.factor.solve_rows(out)


class Spans:
    """A snapshot of the features of all groups; it does not change while the dictionary grows.

    The groups of the experts, and last that of the error scale, share points and, where their
    kernels are functions of distances, the distances of a view.
    """

    def __init__(self, experts: Experts) -> None:
        groups = experts.all_groups()
        self.spans = [Span.of(group) for group in groups]
        self.reference = groups.index(experts.reference)
        self.points = experts.candidates.points.values.copy()

    def features(self, Z: Array, first: int, wanted: list[Range]) -> list[Array]:
        """Return for each group the features of its ``wanted`` rows; Z begins at row ``first``."""
        out = []
        for span, reach in zip(self.spans, wanted, strict=True):
            count = 0 if reach is None else reach[1] - reach[0]
            out.append(np.empty((count, span.factor.size)))
        for start in range(first, first + len(Z), EPOCH):
            stop = min(start + EPOCH, first + len(Z))
            cache: dict[int, Array] = {}  # distances by view
            for span, reach, Phi in zip(self.spans, wanted, out, strict=True):
                if reach is None or reach[0] >= stop or reach[1] <= start:
                    continue
                rows = Z[start - first : stop - first]
                distances = self._distances(span.view, rows, cache)
                low, high = max(reach[0], start), min(reach[1], stop)
                if distances is not None:
                    distances = distances[low - start : high - start]
                rows = rows[low - start : high - start]
                own = Phi[low - reach[0] : high - reach[0]]
                span.features(rows, self.points, distances, own)
        return out

    def _distances(self, view: View, Z: Array, cache: dict[int, Array]) -> Array | None:
        if not hasattr(view.kernel, "bandwidth"):
            return None
        if view.number not in cache:
            count = max(s.points for s in self.spans if s.view.number == view.number)
            seen = view.rows(self.points[:count])
            cache[view.number] = view.kernel.distances(view.rows(Z), seen)
        return cache[view.number]

    def are_candidates(self, Z: Array, uniforms: Array) -> NDArray[np.bool_]:
        """Return which rows may become points; a row that may not now may not later either."""
        wanted: list[Range] = [None] * len(self.spans)
        wanted[self.reference] = (0, len(Z))
        span = self.spans[self.reference]
        Phi = self.features(Z, 0, wanted)[self.reference]
        return proposes(outside(span.kernel.diagonal(span.view.rows(Z)), Phi), uniforms)


@dataclass(frozen=True)
class Rows:
    """Inputs of the kernels (with past targets) and targets, from row ``first`` of a call on."""

    Z: Array
    Y: Array
    first: int = 0

    def inputs(self, start: int, stop: int) -> Array:
        return self.Z[start - self.first : stop - self.first]

    def targets(self, start: int, stop: int) -> Array:
        return self.Y[start - self.first : stop - self.first]

    def only(self, reach: tuple[int, int]) -> Rows:
        """Return a copy with some of the rows, to be sent to another process."""
        return Rows(self.inputs(*reach), self.targets(*reach), reach[0])


@dataclass(frozen=True)
class Cut:
    """The partitions of one expert in a bundle; ``newton`` has its settings and no rows."""

    newton: DiscountedNewton
    group: int
    parts: tuple[Partition, ...]

    @property
    def reach(self) -> tuple[int, int]:
        return self.parts[0].start, self.parts[-1].stop


@dataclass(frozen=True)
class Bundle:
    """The cuts of the experts, and the rows whose features the error scale reads."""

    cuts: tuple[Cut, ...]
    wanted: tuple[Range, ...]  # of each group
    reach: tuple[int, int]  # all rows that are read
    scaled: bool  # whether the error scale reads features

    @classmethod
    def of(cls, cuts: list[Cut], groups: int, scaled: Range) -> Bundle:
        """``scaled`` are the rows of the last group, that of the error scale."""
        wanted: list[Range] = [None] * groups
        for cut in cuts:
            low, high = cut.reach
            before = wanted[cut.group]
            if before is not None:
                low, high = min(low, before[0]), max(high, before[1])
            wanted[cut.group] = low, high
        if scaled is not None:
            wanted[-1] = scaled
        reaches = [reach for reach in wanted if reach is not None]
        whole = min(r[0] for r in reaches), max(r[1] for r in reaches)
        return cls(tuple(cuts), tuple(wanted), whole, scaled is not None)


@dataclass(frozen=True)
class Summed:
    """Features by group, and for each cut the element of each partition and of all of them."""

    features: list[Array] | None
    elements: list[list[Element]]
    totals: list[Element]
    scale_features: Array | None  # those that the error scale reads


def cut_blocks(
    newton: DiscountedNewton, first_rows: FirstRows, start: int, stop: int, apart: bool
) -> tuple[Partition, ...]:
    """Return the whole blocks from ``start`` on that end at ``stop`` or before, as one partition.

    With ``apart`` each block is a partition.
    """
    blocks, end = [], start
    while True:
        r = int(np.searchsorted(first_rows, end, side="right"))
        length = newton.rule.block_rows(r)
        if end + length > stop:
            break
        blocks.append(end)
        end += length
    if not blocks:
        return ()
    if not apart:
        return (Partition(start, end, tuple(blocks), first_rows),)
    ends = [*blocks[1:], end]
    return tuple(Partition(a, b, (a,), first_rows) for a, b in zip(blocks, ends, strict=True))


@limited
def find_candidates(
    spans: Spans, rows: Rows, reach: tuple[int, int], uniforms: Array
) -> NDArray[np.int64]:
    """Return the rows of a reach that may become points."""
    return reach[0] + np.flatnonzero(spans.are_candidates(rows.inputs(*reach), uniforms))


@limited
def sum_bundle(spans: Spans, rows: Rows, bundle: Bundle, keep_features: bool) -> Summed:
    """Return what the rows of a bundle add to the sums of each expert."""
    features = spans.features(rows.inputs(*bundle.reach), bundle.reach[0], list(bundle.wanted))
    elements, totals = [], []
    for cut, Phi_of in _cuts(bundle, features):
        own = []
        for part in cut.parts:
            Y = rows.targets(part.start, part.stop)
            own.append(contribution(cut.newton, part, Phi_of(part), Y))
        total = own[0]
        for element in own[1:]:
            total = total.then(element)
        elements.append(own[:-1])
        totals.append(total)
    scale_features = features[-1] if bundle.scaled else None
    if not keep_features:
        return Summed(None, [], totals, scale_features)
    return Summed(features, elements, totals, scale_features)


@limited
def learn_bundle(
    spans: Spans, rows: Rows, bundle: Bundle, starts: list[Sums], summed: Summed | None
) -> list[Learned]:
    """Return the predictions of each expert for its cut, from the sums at its start."""
    features = None if summed is None else summed.features
    if features is None:
        wanted = list(bundle.wanted)
        features = spans.features(rows.inputs(*bundle.reach), bundle.reach[0], wanted)
    learned = []
    for i, (cut, Phi_of) in enumerate(_cuts(bundle, features)):
        sums, results = starts[i], []
        for j, part in enumerate(cut.parts):
            Y = rows.targets(part.start, part.stop)
            results.append(learn_partition(cut.newton, part, sums, Phi_of(part), Y))
            if j + 1 < len(cut.parts):
                assert summed is not None
                sums = sums.after(summed.elements[i][j], cut.newton.alpha)
        learned.append(joined(results))
    return learned


def _cuts(bundle: Bundle, features: list[Array]) -> Any:
    """Yield each cut with a function that returns the features of its partitions."""
    for cut in bundle.cuts:
        reach, Phi = bundle.wanted[cut.group], features[cut.group]
        assert reach is not None
        yield cut, _reader(Phi, reach[0])


def _reader(Phi: Array, first: int) -> Callable[[Partition], Array]:
    return lambda part: part.masked(Phi[part.start - first : part.stop - first])
