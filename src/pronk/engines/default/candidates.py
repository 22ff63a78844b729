"""Which rows become points of the default learner: the points, and the rows that ask to be one.

A row whose squared distance to the span is rho asks with probability rho / (rho + GAMMA), by its
own uniform. It waits for the end of its epoch; there rows are tried in order, as far as `cap` goes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.parts.linalg import GrowingRows
from pronk.parts.randomness import KORS_COINS, Uniforms
from pronk.parts.state import Part, Rows, Sizes, Stateful, require

Array = NDArray[np.float64]

#: The squared distance at which every second row asks.
GAMMA = 1e-3
#: A row within this of the threshold may ask: its score in a block is known up to rounding, and
#: whether it enters is decided by its score alone, row by row, whatever the block.
DOUBT = 1e-9


def cap(rows: int, budget: int) -> int:
    """Most points after so many rows: the square root keeps late rows a share of the points."""
    return min(budget, rows, int(8.0 * np.sqrt(rows)))


def outside(diagonal: Array, Phi: Array) -> Array:
    """rho of rows of features Phi."""
    return np.asarray(diagonal - np.einsum("ij,ij->i", Phi, Phi))


def asks(rho: Array | float, uniforms: Array) -> NDArray[np.bool_]:
    """Which rows, at these squared distances to the span, ask to become points."""
    return np.asarray(uniforms * (rho + GAMMA) < rho + DOUBT)


class Candidates(Stateful):
    """``points`` with their past, ``uniforms`` of the rows to come, and the rows that wait."""

    def __init__(self, columns: int, budget: int, seed: int) -> None:
        self.budget = budget
        self.points = GrowingRows(columns)
        self.uniforms = Uniforms(seed, KORS_COINS)
        self.waiting = GrowingRows(columns + 1)  # with their uniforms

    def room(self, rows: int) -> int:
        """Points that may enter at the end of the epoch, after so many rows.

        All rows of an epoch ask about its end: asked about the start of a call, it would depend
        on how the stream is cut.
        """
        return cap(rows, self.budget) - self.points.size

    def wait(self, rows: Array, uniforms: Array) -> None:
        """These rows ask."""
        self.waiting.append(np.column_stack((rows, uniforms)))

    def released(self) -> tuple[Array, Array]:
        """The rows that asked, and their uniforms; none waits any more."""
        held = self.waiting.values
        self.waiting = GrowingRows(self.waiting.columns)
        return np.ascontiguousarray(held[:, :-1]), held[:, -1].copy()

    STATE = (
        Rows("points", ("points", "wide"), "points"),
        Part("uniforms", "uniforms"),
        Rows("waiting", ("waiting", "wider"), "waiting"),
    )

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["wider"] == sizes["wide"] + 1, "waiting has another width than points")
        require(sizes["points"] <= self.budget, "points are more than the budget")
