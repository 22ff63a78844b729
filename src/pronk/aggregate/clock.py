"""Windows that count time: the gap before each row, in units of the mean gap.

Without times every row counts 1. With times T_t, in seconds, the windows of discounted experts and
of stacks count

    gap_t  =  min((T_t - T_{t-1}) / u_t, 300),

with u_t the running mean of the gaps so far, this one included and none counted as more than 300
times the mean before it. So a discount of lambda per row becomes lambda^gap: rows of a burst hardly
fade each other, after a pause the rows before it fade as if up to 300 rows had come, and on average
a window of 100 still is about 100 rows, so nothing has to be chosen. On evenly spaced rows every
gap is 1. The mean is that of the last 10,000 rows or so, and windows stay useful if rows come more
or less often than before.

Gaps are a function of the times alone, so the cut into calls changes nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.core.compiling import compiled
from pronk.core.state import Numbers, Sizes, Stateful, require

Array = NDArray[np.float64]

#: A gap counts as at most this many mean gaps.
LONGEST_GAP = 300.0
#: Rows over which the mean gap is taken.
MEAN_ROWS = 10_000.0
#: Entries of the state of a clock: number of rows, time of the last row, mean gap.
ROWS, TIME, MEAN = range(3)


@compiled
def count_gaps(times: Array, state: Array, gaps: Array) -> None:
    """Write the gaps (n,) before rows at ``times`` (n,) in seconds; ``state`` (3,) is changed."""
    for t in range(times.size):
        gaps[t] = 1.0  # before the first row
        if state[ROWS] > 0.0:
            gap = max(times[t] - state[TIME], 0.0)
            # u <- u + (min(gap, 300 u) - u) / min(rows, 10000);  a first gap of 0 sets no limit
            most = LONGEST_GAP * state[MEAN] if state[MEAN] > 0.0 else gap
            state[MEAN] += (min(gap, most) - state[MEAN]) / min(state[ROWS], MEAN_ROWS)
            gaps[t] = min(gap / max(state[MEAN], 1e-300), LONGEST_GAP)
        state[ROWS] += 1.0
        state[TIME] = times[t]


class Clock(Stateful):
    """The time of the last row and the mean gap."""

    def __init__(self) -> None:
        self._state = np.zeros(3)

    @property
    def time(self) -> float | None:
        """Time of the last row in seconds; None before the first."""
        return float(self._state[TIME]) if self._state[ROWS] else None

    @property
    def mean_gap(self) -> float:
        """Seconds that count as one row of a window; 0 before two rows of different times."""
        return float(self._state[MEAN])

    def count(self, times: Array) -> Array:
        """Return the gaps (n,) before the next rows, at ``times`` (n,)."""
        gaps = np.empty(len(times))
        count_gaps(times, self._state, gaps)
        return gaps

    STATE = (Numbers("state", (3,)),)

    def _restored(self, sizes: Sizes) -> None:
        require(self._state[ROWS] >= 0.0 <= self._state[MEAN], "state has a negative entry")
