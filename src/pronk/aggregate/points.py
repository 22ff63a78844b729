"""Which rows become points of the default learner: the points, and the rows that ask to be one.

A row whose squared distance to the span is rho is proposed with probability rho / (rho + GAMMA), by
its own uniform number. At the end of the epoch proposed rows are offered to the span in order, up
to `most_points`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.linalg import GrowingRows
from pronk.core.randomness import KORS_COINS, Uniforms
from pronk.core.state import Part, Rows, Sizes, Stateful, require
from pronk.newton.discounted import EPOCH

Array = NDArray[np.float64]

#: The squared distance at which every second row proposes.
GAMMA = 1e-3
#: A row within this of the threshold may ask: its score in a block is known up to rounding, and
#: whether it enters is decided by its score alone, row by row, whatever the block.
DOUBT = 1e-9


def most_points(rows: int, budget: int) -> int:
    """Most points after so many rows: the square root keeps late rows a share of the points."""
    return min(budget, rows, int(8.0 * np.sqrt(rows)))


def outside(diagonal: Array, Phi: Array) -> Array:
    """rho of rows of features Phi."""
    return np.asarray(diagonal - np.einsum("ij,ij->i", Phi, Phi))


def proposes(rho: Array | float, uniforms: Array) -> NDArray[np.bool_]:
    """Which rows, at these squared distances to the span, ask to become points."""
    return np.asarray(uniforms * (rho + GAMMA) < rho + DOUBT)


class Candidates(Stateful):
    """``points`` with their past, ``uniforms`` of the rows to come, and the rows that wait."""

    def __init__(self, columns: int, budget: int, seed: int) -> None:
        self.budget = budget
        self.points = GrowingRows(columns)
        self.uniforms = Uniforms(seed, KORS_COINS)
        self.proposed = GrowingRows(columns + 1)  # with their uniforms

    def room(self, rows: int) -> int:
        """Points that may enter at the end of the epoch, after so many rows.

        All rows of an epoch ask about its end: asked about the start of a call, it would depend
        on how the stream is cut.
        """
        return most_points(rows, self.budget) - self.points.size

    def propose(self, rows: Array, uniforms: Array) -> None:
        """These rows ask."""
        self.proposed.append(np.column_stack((rows, uniforms)))

    def pop_proposed(self) -> tuple[Array, Array]:
        """The rows that asked, and their uniforms; none waits any more."""
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


# ----------------------------------------------------------------------------------------
# The rows of the open epoch: what a file holds in the place of the experts' open blocks.
#
# An expert's open block is, for every row, its features and what the rows before it make of them:
# 2 r + B numbers a row and expert. All of that follows from the row. But its bits follow also from
# how the rows came: features of 7 rows are other sums than those of 7 times one row. So the rows
# of the open epoch are held with the calls they came in. A file has them and the experts' sums at
# the start of their open blocks; whoever loads it lets the rows come again, in the same calls, and
# the experts go on to the same bits. All blocks end where an epoch does (`discounted`).
#
# When outputs change inside an epoch (a new class), the open blocks themselves are saved until it
# ends: they were computed with other outputs.

#: A call of one row in two steps (`onerow`) is noted as 0 rows, others as the rows they had.
ONE_ROW = 0


class OpenRows(Stateful):
    """Rows with their past (n, wide), scaled targets (n, outputs), and the calls they came in."""

    def __init__(self, wide: int, outputs: int) -> None:
        self.Z, self.Y = GrowingRows(wide), GrowingRows(outputs)
        self.calls = GrowingRows(1)

    @property
    def rows(self) -> int:
        return self.Z.size

    def add(self, Z: Array, Y: Array, *, one: bool = False) -> None:
        """Rows that one call brought; ``one``: one row in two steps."""
        self.Z.append(Z)
        self.Y.append(Y)
        self.calls.append(np.array([[ONE_ROW if one else len(Z)]], dtype=np.float64))

    def pieces(self) -> Iterator[tuple[int, int, bool]]:
        """First and last row of each call, and whether it was one row in two steps."""
        start = 0
        for call in self.calls.values[:, 0].astype(np.int64).tolist():
            stop = start + max(call, 1)
            yield start, stop, call == ONE_ROW
            start = stop

    STATE = (
        Rows("Z", ("rows", "wide"), "Z"),
        Rows("Y", ("rows", "outputs"), "Y"),
        Rows("calls", ("calls", 1), "calls", low=0.0, high=float(EPOCH), whole="float"),
    )

    def _restored(self, sizes: Sizes) -> None:
        counted = np.maximum(self.calls.values, 1.0).sum()
        require(counted == sizes["rows"] < EPOCH, "calls are not those of the open rows")


def without_open_rows(state: dict[str, Any]) -> dict[str, Any]:
    """The saved state of a learner at the start of its open block; its ledger stays."""
    names = ("Phi", "Z", "upper", "kappa", "step", "curvature", "target")
    return {**state, **{name: state[name][:0] for name in names}, "open": 0}
