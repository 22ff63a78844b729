"""Targets that arrive late: the rows that wait for them.

With ``delay`` = d the target of row t is used from row t + 1 + d on. What the learner reads of past
targets when it learns a row is what it could read when it predicted that row, and everything that
judges predictions (weights, stacks, error scale, intervals, probabilities) learns from the
predictions that were made then. For row t = 0, 1, ..

    predict   row t reads lagged targets and errors, counted back from row t - 1 - d; every expert
              predicts it; the predictions wait with what was read
    learn     the target of row t - d arrives. Experts learn the row as it was read then, and their
              fresh predictions of it are discarded; mixtures, error scale and calibration learn the
              predictions that waited

This is the definition, and blocks are exact: a Newton expert predicts row t as of an earlier row of
its open block (`newton.engine`, `learn_late`), everything else is a compiled loop that predicts row
t and learns row t - d. A row costs about two, one that is predicted and one that is learned.

Where experts are made again from the first rows (`learner`), the rows that wait are predicted again
by the new ones, in the same order: as if these had been there from the start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.core.linalg import GrowingRows
from pronk.core.state import Rows, Stateful

Array = NDArray[np.float64]


class WaitingRows(Stateful):
    """Rows that wait for their targets, the oldest first.

    Z      (rows, wide) with the lagged targets that were read
    inner  (rows, outputs) the prediction of the inner mixture
    final  (rows, outputs) the final prediction
    """

    def __init__(self, wide: int, outputs: int) -> None:
        self._Z = GrowingRows(wide)
        self._inner, self._final = GrowingRows(outputs), GrowingRows(outputs)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._Z.size

    def add_Z(self, Z: Array) -> Array:
        """Add new rows; return all."""
        self._Z.append(Z)
        return self._Z.values

    def add_inner(self, inner: Array) -> Array:
        """Add inner predictions of the new rows; return those of all rows."""
        self._inner.append(inner)
        return self._inner.values

    def add_final(self, final: Array) -> Array:
        """Add final predictions of the new rows; return those of all rows."""
        self._final.append(final)
        return self._final.values

    def drop(self, rows: int) -> None:
        """Drop the oldest rows, whose targets have arrived."""
        for name in ("_Z", "_inner", "_final"):
            setattr(self, name, GrowingRows.from_state(getattr(self, name).values[rows:]))

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        for name in ("_inner", "_final"):
            rows = GrowingRows.from_state(getattr(self, name).values)
            rows.remap(matrix)
            setattr(self, name, rows)

    STATE = (
        Rows("Z", ("rows", "wide")),
        Rows("inner", ("rows", "outputs")),
        Rows("final", ("rows", "outputs")),
    )
