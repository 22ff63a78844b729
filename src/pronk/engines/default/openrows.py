"""The rows of the open epoch: what a file holds in the place of the experts' open blocks.

An expert's open block is, for every row, its features and what the rows before it make of them:
2 r + B numbers a row and expert. All of that follows from the row. But its bits follow also from
how the rows came: features of 7 rows are other sums than those of 7 times one row. So the rows of
the open epoch are held with the calls they came in. A file has them and the experts' sums at the
start of their open blocks; whoever loads it lets the rows come again, in the same calls, and the
experts go on to the same bits. All blocks end where an epoch does (`discounted`).

When outputs change inside an epoch (a new class), the open blocks themselves are saved until it
ends: they were computed with other outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.discounted import EPOCH
from pronk.parts.linalg import GrowingRows
from pronk.parts.state import Rows, Sizes, Stateful, require

Array = NDArray[np.float64]

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
