"""The points of the default learner, and the rows of the open epoch.

**Points.** A row whose squared distance to the span is rho is proposed as a point with probability
rho / (rho + GAMMA), by its own uniform number. At the end of the epoch proposed rows are offered to
the span in order, up to `most_points`.

**Open rows.** A saved model holds the rows of the open epoch instead of the experts' open blocks,
which have 2 r + B numbers per row and expert. All of those follow from the rows: loading learns
them again, to the same bits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.clock import LONGEST_GAP
from pronk.core.linalg import GrowingRows
from pronk.core.randomness import KORS_COINS, Uniforms
from pronk.core.state import Part, Rows, Sizes, Stateful, require

Array = NDArray[np.float64]

#: Squared distance to the span at which half of the rows are proposed.
GAMMA = 1e-3
#: A row within this distance of the threshold is proposed: rho in a block is known up to rounding,
#: and whether the row enters is decided by rho computed for the row alone.
DOUBT = 1e-9


def most_points(rows: int, budget: int) -> int:
    """Return the limit of points after ``rows`` rows: min(budget, rows, 8 sqrt(rows))."""
    return min(budget, rows, int(8.0 * math.sqrt(rows)))


def outside(diagonal: Array, Phi: Array) -> Array:
    """Return rho (n,) = k(z, z) - |phi|^2 of rows with features Phi (n, r)."""
    return np.asarray(diagonal - np.einsum("ij,ij->i", Phi, Phi))


def proposes(rho: Array | float, uniforms: Array) -> NDArray[np.bool_]:
    """Return which rows, at squared distances rho to the span, are proposed as points."""
    return np.asarray(uniforms * (rho + GAMMA) < rho + DOUBT)


class Candidates(Stateful):
    """Points with their lagged targets, uniform numbers of future rows, and proposed rows."""

    def __init__(self, columns: int, budget: int, seed: int) -> None:
        self.budget = budget
        self.points = GrowingRows(columns)
        self.uniforms = Uniforms(seed, KORS_COINS)
        self.proposed = GrowingRows(columns + 1)  # with their uniform numbers

    def room(self, rows: int) -> int:
        """Return how many points may enter at the end of an epoch, after ``rows`` rows.

        All rows of an epoch use the number at its end: the number at the start of a call would
        depend on the cut into blocks.
        """
        return most_points(rows, self.budget) - self.points.size

    def propose(self, rows: Array, uniforms: Array) -> None:
        """Add proposed rows (n, columns) with their uniform numbers (n,)."""
        self.proposed.append(np.column_stack((rows, uniforms)))

    def pop_proposed(self) -> tuple[Array, Array]:
        """Remove and return the proposed rows and their uniform numbers."""
        held = self.proposed.values
        self.proposed = GrowingRows(self.proposed.columns)
        return np.ascontiguousarray(held[:, :-1]), held[:, -1].copy()

    STATE = (
        Rows("points", ("points", "wide"), "points"),
        Part("uniforms", "uniforms"),
        Rows("proposed", ("proposed", "wider"), "proposed"),
    )

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["wider"] == sizes["wide"] + 1, "waiting has another width than points")
        require(sizes["points"] <= self.budget, "points are more than the budget")


# -- open rows --------------------------------------------------------------------------------


class OpenRows(Stateful):
    """Rows with lagged targets (n, wide), scaled targets (n, outputs), gaps (n, 1) before them."""

    def __init__(self, wide: int, outputs: int) -> None:
        self.Z, self.Y, self.gaps = GrowingRows(wide), GrowingRows(outputs), GrowingRows(1)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.Z.size

    def add(self, Z: Array, Y: Array, gaps: Array | None) -> None:
        """Add rows; without ``gaps`` all are 1."""
        self.Z.append(Z)
        self.Y.append(Y)
        if gaps is not None:
            self.gaps.append(gaps[:, None])

    STATE = (
        Rows("Z", ("rows", "wide"), "Z"),
        Rows("Y", ("rows", "outputs"), "Y"),
        Rows("gaps", ("gaps", 1), "gaps", low=0.0, high=LONGEST_GAP),
    )

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["gaps"] in (0, sizes["rows"]), "gaps are not those of the rows")
