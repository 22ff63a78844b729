"""Calls with one row: predict and learn it with all experts, and snapshot what it changes.

A call has two steps: `OneRow.peek` predicts, `OneRow.commit` learns. The numbers are those of a
block of one row up to rounding, without the cost of setting up a block, and a row that was just
predicted is learned without computing its features, its leverage or the experts' predictions again.

A snapshot of the whole learner would cost a third of learning the row. `RowSnapshot` copies only
what most rows change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.local import OneLocalRow
from pronk.aggregate.mixture import fill_row
from pronk.aggregate.settings import Group, View
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar
from pronk.core.linalg import GrowingRows, solve_one
from pronk.core.state import Stateful
from pronk.newton.discounted import DiscountedNewton

if TYPE_CHECKING:
    from pronk.aggregate.experts import Experts, Recorded

Array = NDArray[np.float64]


@compiled(fastmath={"contract"})
def exponential_features(distances: Array, rate: float, factor: Array, phi: Array) -> None:
    """Write features L^-1 exp(-rate * distances) to ``phi`` (r,).

    ``distances`` (r,) are those to the points, which all have a coordinate; ``factor`` is L.
    """
    # k_i = exp(-rate * distance_i),  phi = L^-1 k
    for i in range(phi.size):
        phi[i] = exp_scalar(-rate * distances[i])
    solve_one(factor, phi)


class GroupRow(NamedTuple):
    """A group of experts, its features of the row, and its learners.

    ``learners`` has each learner with its part of the features and its row (outputs,) of P.
    """

    group: Group
    rate: float | None  # for a kernel exp(-rate * distance) whose points all have a coordinate
    phi: Array
    learners: list[tuple[DiscountedNewton, Array, Array]]


class OneRow:
    """The row of the last `peek`: its features and the experts' predictions P (experts, outputs).

    ``final`` and ``error_scale`` (outputs,) are its prediction and the scale of its error. The
    arrays depend on points, experts and outputs; `Experts` drops the object when those change.
    """

    def __init__(self, experts: Experts) -> None:
        self._experts, self._key = experts, (0, b"")  # rows so far, the row's bytes
        place = {number: i for i, number in enumerate(experts.active)}
        baselines = experts.baselines
        self.P = np.empty((len(place) + baselines.count, experts.outputs))
        self._baselines = self.P[len(place) :]
        self._row = experts.mixture.new_row()
        self.local = None
        if experts.local is not None:
            self.local = OneLocalRow(experts.local, experts.outputs)
        self.final = self._row.final if self.local is None else self.local.final
        self.error_scale = np.ones(experts.outputs)
        self._past = experts.past.columns
        self.z = np.empty(experts.columns + self._past)
        self._views: list[tuple[View, Array, Array, list[GroupRow]]] = []
        for group in experts.all_groups():
            if not self._views or self._views[-1][0] is not group.view:
                points = experts.points_of(group.view)
                distances = np.empty((1, len(points)))
                self._views.append((group.view, points, distances, []))
            self._views[-1][3].append(self._group_row(group, place))
        group_rows = [group_row for *_, held in self._views for group_row in held]
        self._learners = [pair for group_row in group_rows for pair in group_row.learners]
        (self._reference,) = [s for s in group_rows if s.group is experts.reference]
        # The lengths of blocks divide an epoch, so a multiple of the shortest ends every block.
        lengths = [learner.block_length for learner, *_ in self._learners]
        if experts.error_scale is not None:
            lengths.append(experts.error_scale.shape.block_length)
        self.shortest_block = min(lengths)

    def _group_row(self, group: Group, place: dict[int, int]) -> GroupRow:
        size, own = group.nystrom.size, self._experts.error_scale
        whole = group.nystrom.points == size
        rate = group.kernel.exponent if whole else None
        reads = own is not None and group is own.group
        phi = own.features if reads and own is not None else np.empty(size)
        learners = [
            (learner, phi[: learner.size], self.P[place[number]])
            for number, learner in group.learners.items()
        ]
        return GroupRow(group, rate, phi, learners)

    def peek(self, z: Array, recorded: Recorded | None = None) -> None:
        """Predict a row z (columns,), unless it is that of the last call.

        With ``recorded``, its only row, the predictions are those that were made earlier.
        """
        experts = self._experts
        key = experts.rows, z.tobytes()
        if recorded is None and key == self._key:
            return
        self._key = 0, b""
        self.z[: len(z)] = z
        if self._past:
            past = experts.past.predict(1) if recorded is None else recorded.past
            self.z[len(z) :] = past[0]
        self._baselines[:] = experts.baselines.predict(z[None, :])[0]
        for group_row in self._group_rows():
            for learner, phi, out in group_row.learners:
                learner.peek(phi, out)
        if recorded is None:
            experts.mixture.peek(self.P, self._row)
        else:
            fill_row(self._row, recorded.inner)
        if self.local is not None:
            self.local.peek(self.z, self._row.final, None if recorded is None else recorded.own)
        if experts.error_scale is not None:
            self.error_scale = experts.error_scale.peek(self.final)
        if recorded is None:
            self._key = key
        else:
            self.error_scale = recorded.scales[0]

    def _group_rows(self) -> Iterator[GroupRow]:
        """Compute the features of the row group by group."""
        row = self.z[None, :]
        for view, points, distances, group_rows in self._views:
            seen = view.rows(row)
            if view.has_bandwidth:
                view.kernel.distances(seen, points, distances)
            for group_row in group_rows:
                self._features(group_row, seen, points, distances)
                yield group_row

    def replay(
        self, z: Array, y: Array, learners: list[DiscountedNewton], gap: float | None = None
    ) -> None:
        """Learn a logged row (`points.OpenRows`), z with lagged targets, with some learners."""
        self._key = 0, b""
        self.z[:] = z
        wanted = {id(learner) for learner in learners}
        for group_row in self._group_rows():
            for learner, phi, out in group_row.learners:
                if id(learner) in wanted:
                    learner.peek(phi, out)
                    learner.commit(y, out, *(() if gap is None else (gap,)))

    @staticmethod
    def _features(group_row: GroupRow, seen: Array, points: Array, distances: Array) -> None:
        group, rate, phi, _ = group_row
        if rate is not None:
            exponential_features(distances[0], rate, group.nystrom.factor, phi)
        elif group.view.has_bandwidth:
            values = group.kernel.from_distances(distances[:, : group.nystrom.points].copy())
            phi[:] = group.nystrom.transform_one(values[0])
        else:
            phi[:] = group.nystrom.transform_one(group.kernel(seen, points)[0])

    @property
    def rho(self) -> float:
        """Squared distance of the row to the span of the group that chooses the points."""
        phi = self._reference.phi
        return float(self._reference.group.diagonal(self.z[None, :])[0] - phi @ phi)

    @property
    def parts(self) -> list[Array]:
        """Lagged targets, the parts of both mixtures, the error scale (`Experts.read`)."""
        mixed = () if self.local is None else self.local.mixed
        return [self.z[len(self.z) - self._past :], *self._row, *mixed, self.error_scale]

    def commit(self, y: Array, given: Array, gap: float | None = None) -> None:
        """Learn the row of the last `peek`; the error scale learns the target ``given``.

        ``gap`` is the gap before the row (`clock`), where there are times.
        """
        self._key, after = (0, b""), () if gap is None else (gap,)
        for learner, _, p in self._learners:
            learner.commit(y, p, *after)
        self._experts.mixture.commit(self._row, y, *after)
        if self.local is not None:
            self.local.commit(y, *after)
        if self._experts.error_scale is not None:
            self._experts.error_scale.commit(self.final, given)

    def __reduce__(self) -> Any:
        raise TypeError("a OneRow depends on its experts and cannot be copied")


# -- snapshots for one row --------------------------------------------------------------------


class LazySnapshot:
    """A snapshot of the default learner that is filled before the changes of a call.

    A snapshot of everything costs a third of learning a row. A simple row, one that closes no
    block, ends no epoch and sets no stage, changes little: small arrays, counters, and unused
    places in open blocks. Which kind of snapshot is needed is known only when the rows are.

    ``simple`` holds what the first change of the call needs if that is a simple row, ``whole`` the
    state before the first other change. The call is undone by rolling back to ``whole``, and from
    there to ``simple``.
    """

    __slots__ = ("__weakref__", "simple", "whole")

    def __init__(self) -> None:
        self.simple: list[Any] = []
        self.whole: Any = None


class RowSnapshot:
    """Copies what a simple row changes.

    ``parts`` have small arrays that are written in place. They are moved into one buffer, of which
    each attribute is then a view, so that a copy of all is one copy. ``others`` are pairs of an
    object and the name of an attribute that is replaced; ``rows`` are only appended to.
    """

    def __init__(
        self,
        parts: Sequence[Stateful],
        others: Iterable[tuple[object, str]],
        rows: Iterable[GrowingRows],
    ) -> None:
        held = [(part.__dict__, name) for part in parts for name in part._plan.copied]
        ends = np.cumsum([owner[name].size for owner, name in held])
        self._buffer = np.empty(ends[-1])
        self._views = []
        for (owner, name), place in zip(held, np.split(self._buffer, ends[:-1]), strict=True):
            view = place.reshape(owner[name].shape)
            view[...] = owner[name]
            owner[name] = view
            self._views.append((owner, name, view))
        self._parts = list(parts)
        for part in parts:
            part._update_derived()
        self._others = [(owner.__dict__, name) for owner, name in others]
        self._rows = list(rows)

    def holds(self, rows: Sequence[GrowingRows] = ()) -> bool:
        """Whether the arrays are still the views, and the first rows still these objects."""
        same = all([owner[name] is view for owner, name, view in self._views])
        return same and all(map(is_, self._rows, rows or self._rows))

    def save(self) -> tuple[Any, ...]:
        """Return copies for `put_back`."""
        return (
            self,
            self._buffer.copy(),
            [owner[name] for owner, name in self._others],
            [rows.size for rows in self._rows],
        )

    def put_back(self, saved: tuple[Any, ...]) -> None:
        """Put back what `save` has returned."""
        _, self._buffer[:], others, sizes = saved
        if not self.holds():  # a larger snapshot was rolled back before
            for owner, name, view in self._views:
                owner[name] = view
            for part in self._parts:
                part._update_derived()
        for (owner, name), value in zip(self._others, others, strict=True):
            owner[name] = value
        for rows, size in zip(self._rows, sizes, strict=True):
            rows.size = size
