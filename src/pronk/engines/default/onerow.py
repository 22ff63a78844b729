"""One row past all experts, in two steps: what it will be (`look`), then that it came (`take`).

The same numbers as a block of one row, up to rounding, without what a block costs to set up. A row
that was just predicted is learned without computing its features, its leverage or the experts'
predictions again. What is held here follows from the experts; they drop it when their points, their
number or their outputs change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.default.discounted import DiscountedNewton
from pronk.engines.default.grid import Group
from pronk.engines.default.views import View
from pronk.parts.elementary import exp_scalar
from pronk.parts.linalg import solve_one

if TYPE_CHECKING:
    from pronk.engines.default.experts import Experts

Array = NDArray[np.float64]


@njit(cache=True, nogil=True, fastmath={"contract"})
def exponential_features(distances: Array, rate: float, factor: Array, phi: Array) -> None:
    """Features from distances, one a point, where all points have a coordinate."""
    for i in range(phi.size):
        phi[i] = exp_scalar(-rate * distances[i])
    solve_one(factor, phi)


class Station(NamedTuple):
    """A group that the row passes: its features and, with their places in P, its learners."""

    group: Group
    rate: float | None  # of a kernel exp(-rate * distance) whose points all have a coordinate
    phi: Array
    learners: list[tuple[DiscountedNewton, Array, Array]]


class OneRow:
    """The row that was looked at last; ``final``, ``spread`` and ``rho`` are what is known of it.

    ``rho`` is its squared distance to the span of the group that chooses the points.
    """

    def __init__(self, experts: Experts) -> None:
        self._experts, self._key = experts, (0, b"")  # rows learned so far, the row's bytes
        place = {number: i for i, number in enumerate(experts.awake)}
        guesses = experts.guesses
        self.P = np.empty((len(place) + guesses.count, experts.outputs))
        self._guessed = self.P[len(place) :]
        self._row = experts.mixture.new_row()
        self.final = self._row.final
        self.spread = np.ones(experts.outputs)
        self._past = experts.past.columns
        self.z = np.empty(experts.columns + self._past)
        self._views: list[tuple[View, Array, Array, list[Station]]] = []
        for group in experts.all_groups():
            if not self._views or self._views[-1][0] is not group.view:
                points = experts.points_of(group.view)
                distances = np.empty((1, len(points)))
                self._views.append((group.view, points, distances, []))
            self._views[-1][3].append(self._station(group, place))
        stations = [station for *_, held in self._views for station in held]
        self._learners = [pair for station in stations for pair in station.learners]
        (self._reference,) = [s for s in stations if s.group is experts.reference]

    def _station(self, group: Group, place: dict[int, int]) -> Station:
        size, spread = group.nystrom.size, self._experts.spread
        whole = group.nystrom.points == size
        rate = group.kernel.exponent if whole else None
        mine = spread is not None and group is spread.group
        phi = spread.features if mine and spread is not None else np.empty(size)
        learners = [
            (learner, phi[: learner.size], self.P[place[number]])
            for number, learner in group.learners.items()
        ]
        return Station(group, rate, phi, learners)

    def look(self, z: Array) -> None:
        """Predict a row, if it is not the one that was looked at last."""
        experts = self._experts
        key = experts.rows, z.tobytes()
        if key == self._key:
            return
        self._key = 0, b""
        self.z[: len(z)] = z
        if self._past:
            self.z[len(z) :] = experts.past.predict(1)[0]
        self._guessed[:] = experts.guesses.predict(z[None, :])[0]
        for station in self._stations():
            for learner, phi, out in station.learners:
                learner.look(phi, out)
        experts.mixture.look(self.P, self._row)
        if experts.spread is not None:
            self.spread = experts.spread.look(self.final)
        self._key = key

    def _stations(self) -> Iterator[Station]:
        """Each group with the features of the row."""
        row = self.z[None, :]
        for view, points, distances, stations in self._views:
            seen = view.rows(row)
            if view.has_bandwidth:
                view.kernel.distances(seen, points, distances)
            for station in stations:
                self._features(station, seen, points, distances)
                yield station

    def again(self, z: Array, y: Array, learners: list[DiscountedNewton]) -> None:
        """A row with its past that was learned before goes to these learners only (`openrows`)."""
        self._key = 0, b""
        self.z[:] = z
        wanted = {id(learner) for learner in learners}
        for station in self._stations():
            for learner, phi, out in station.learners:
                if id(learner) in wanted:
                    learner.look(phi, out)
                    learner.take(y, out)

    @staticmethod
    def _features(station: Station, seen: Array, points: Array, distances: Array) -> None:
        group, rate, phi, _ = station
        if rate is not None:
            exponential_features(distances[0], rate, group.nystrom.factor, phi)
        elif group.view.has_bandwidth:
            values = group.kernel.from_distances(distances[:, : group.nystrom.points].copy())
            phi[:] = group.nystrom.transform_one(values[0])
        else:
            phi[:] = group.nystrom.transform_one(group.kernel(seen, points)[0])

    @property
    def rho(self) -> float:
        phi = self._reference.phi
        return float(self._reference.group.diagonal(self.z[None, :])[0] - phi @ phi)

    def take(self, y: Array, given: Array) -> None:
        """Learn the row that was looked at last."""
        self._key = 0, b""
        for learner, _, p in self._learners:
            learner.take(y, p)
        self._experts.mixture.take(self._row, y)
        if self._experts.spread is not None:
            self._experts.spread.take(self.final, given)

    def __reduce__(self) -> Any:
        raise TypeError("what follows from the experts is not copied with them")
