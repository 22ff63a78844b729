"""The oracles of DualSVRG: which points stay kernel terms, decided once, when a point arrives.

They look at inputs only, so the rows of a chunk can be asked for before any of them is learned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.parts.distances import square_distances

Array = NDArray[np.float64]


class FirstPoints:
    """The budget oracle: the first ``budget`` points ever stay kernel terms, later ones move."""

    #: Whether there may be kernel terms at all.
    keeps = True

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """The rows of X that join the core."""
        return np.arange(min(len(X), self.budget - len(core)))


class Coverage:
    """The coverage oracle: a point within ``radius`` of the core moves, any other joins it."""

    keeps = True

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """The rows of X that join the core."""
        if not len(core):
            near = np.zeros(len(X), dtype=bool)
        else:
            near = np.sqrt(square_distances(X, core).min(axis=1)) <= self.radius
        far = np.flatnonzero(~near)
        if not far.size:
            return far
        distances = np.sqrt(square_distances(X[far], X[far]))
        joined: list[int] = []
        for i in range(len(far)):
            if not (distances[i, joined] <= self.radius).any():
                joined.append(i)
        return far[joined]


class AlwaysMove:
    """The always-move oracle: no kernel terms at all."""

    keeps = False

    def stay(self, X: Array, core: Array) -> NDArray[np.intp]:
        """The rows of X that join the core: none."""
        return np.empty(0, dtype=np.intp)


Oracle = FirstPoints | Coverage | AlwaysMove
