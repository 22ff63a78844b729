"""What a row adds to the Newton engine's sums: its curvature c, and how that comes about.

The engine asks a rule what it does (``unit``, ``anticipate``, ``clip``), not which it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton import recurrence
from pronk.parts.losses import Loss

Array = NDArray[np.float64]

#: Up to this many features the compiled row loop is faster for any call (benchmarks/bench_newton).
SMALL = 16
#: No rule has longer blocks.
LONGEST_BLOCK = 1024


@dataclass(frozen=True)
class Squared:
    """The ridge forecaster, or with ``anticipate`` the AWV forecaster; any number of outputs."""

    anticipate: bool = True

    #: Whether c = 1 for every row, known before its prediction.
    unit: ClassVar[bool] = True
    clip: ClassVar[float | None] = None

    def block_rows(self, r: int) -> int:
        """Block length by measurement: the new factor costs r^3 / 3B a row, the triangle B r."""
        return 40 if r <= SMALL else min(LONGEST_BLOCK, max(96, 16 * round(r / 32)))

    def as_array(self) -> Array:
        """The compiled rows need no more than ``anticipate``."""
        return np.empty(0)


@dataclass(frozen=True)
class OnlineNewton:
    """The online Newton step on a loss; one output. ``clip`` None: the largest |y| so far."""

    loss: Loss
    eta: float | str = "auto"
    clip: float | None = None

    #: c depends on the prediction.
    unit: ClassVar[bool] = False
    anticipate: ClassVar[bool] = False

    def block_rows(self, r: int) -> int:
        """Shorter than for squared loss: the triangle is a compiled loop, not LAPACK."""
        return min(512, max(48, 16 * round(r / 32)))

    def as_array(self) -> Array:
        """What the compiled rows read: loss, its parameter, how eta is made, whether clip grows."""
        eta = self.eta
        if eta == "auto" and not self.loss.curved:
            eta = "convex"
        mode, given = recurrence.ETA_GIVEN, 0.0
        if eta == "auto":
            mode = recurrence.ETA_CURVATURE
        elif eta == "convex":
            mode = recurrence.ETA_CONVEX
        else:
            given = float(eta)
        growing = float(self.clip is None)
        return np.array([self.loss.code, self.loss.parameter, mode, given, growing])


Curvature = Squared | OnlineNewton
