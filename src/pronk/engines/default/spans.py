"""The features of all groups as they were at some moment: what tasks of a split pass compute with.

The groups of the experts, and last that of the spread, share points and, where their kernels are of
distances, the distances of a view. A snapshot does not change while the dictionary grows on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.candidates import asks, outside
from pronk.engines.default.discounted import EPOCH
from pronk.engines.default.experts import Experts
from pronk.engines.default.grid import Group
from pronk.engines.default.views import View
from pronk.parts.kernels import Kernel
from pronk.parts.linalg import GrowingCholesky

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
        return asks(outside(span.kernel.diagonal(span.view.rows(Z)), Phi), uniforms)
