"""ADWIN: detect that the losses of a stream have risen.

ADWIN keeps the longest window of recent losses in which no cut separates two parts whose means
differ by more than chance allows. Here the window is stored in buckets of 32 rows, counted from the
start of the window, that are merged in pairs as they age, so a window of n rows needs O(log n)
numbers, and any cut of the stream into blocks finds the same rises. After each bucket every cut
between buckets is tried,

    mean(newer) - mean(older) > sqrt((2/m) v log(2/d)) + (2/(3m)) log(2/d),
    1/m = 1/n_newer + 1/n_older,   v the variance of the window,   d = delta / buckets,

and if one holds, the older part is dropped. A rise is reported; a fall only drops the older part.
Losses must lie in [0, 1], as mistakes do; absolute errors e are mapped to e / (e + s), where s is a
typical error (`ErrorWindow`).

river has this detector too (`river.drift.ADWIN`), but is an optional dependency, and its Python
loop per row would cost more than the fast learners.

Reference: Bifet, Gavalda, "Learning from time-changing data with adaptive windowing", SDM 2007.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.state import (
    LARGEST,
    LARGEST_TARGET,
    Count,
    Field,
    Numbers,
    Sizes,
    Stateful,
    require,
)

#: Rows of the smallest bucket, and buckets of one size before two are merged.
BUCKET, MOST = 32, 8
#: Chance of a false rise in a window, by default.
DELTA = 1e-4
#: Columns of the buckets: rows, sum of losses, sum of their squares.
ROWS, SUM, SQUARES = range(3)
#: An error counts as at most this many times the scale when the next scale is computed.
REACH = 10.0


class Rise(NamedTuple):
    """The loss has risen; rows are counted from the start of the window."""

    row: int
    """The row whose loss made the rise significant."""
    since: int
    """First row of the higher loss, up to the length of a bucket."""
    before: float
    """Mean of the losses before."""
    after: float
    """Mean of those since."""


class LossWindow(Stateful):
    """Detect rises of losses in [0, 1].

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> losses = (rng.random(4000) < np.where(np.arange(4000) < 2000, 0.1, 0.4)).astype(float)
    >>> count, rise = LossWindow().first_rise(losses)
    >>> print(count, rise.row, rise.since)
    2080 2079 1984
    """

    def __init__(self, delta: float = DELTA) -> None:
        self.delta = delta
        self._rows = 0
        self._open = np.zeros(0)  # losses of the bucket that is not full yet
        self._buckets = np.zeros((0, 3))  # from old to new

    @property
    def rows(self) -> int:
        """Number of rows added."""
        return self._rows

    @property
    def rows_to_bucket(self) -> int:
        """Number of rows that fill the open bucket; no rise is found before."""
        return BUCKET - len(self._open)

    def first_rise(self, values: Array) -> tuple[int, Rise | None]:
        """Add rows up to the first rise; return how many were added, and the rise."""
        done = 0
        while done < len(values):
            part = values[done : done + BUCKET - len(self._open)]
            self._open = np.concatenate((self._open, self._losses(part)))
            done += len(part)
            self._rows += len(part)
            if len(self._open) == BUCKET and (rise := self._close_bucket()) is not None:
                return done, rise
        return done, None

    def _losses(self, values: Array) -> Array:
        """Return the losses (n,) of rows that lie in one bucket."""
        return values

    def _close_bucket(self) -> Rise | None:
        """Add the open bucket to the window and test the window; return a rise."""
        loss, self._open = self._open, np.zeros(0)
        new = [[BUCKET, loss.sum(), (loss * loss).sum()]]
        self._buckets = _merged(np.concatenate((self._buckets, new)))
        return self._detect()

    def _detect(self) -> Rise | None:
        """Drop the buckets before significant cuts; return the first rise."""
        found = None
        while len(self._buckets) > 1:
            rows, sums, squares = np.cumsum(self._buckets, axis=0).T
            older, newer = rows[:-1], rows[-1] - rows[:-1]
            low, high = sums[:-1] / older, (sums[-1] - sums[:-1]) / newer
            mean = sums[-1] / rows[-1]
            variance = max(squares[-1] / rows[-1] - mean * mean, 0.0)
            inverse = 1.0 / older + 1.0 / newer
            sure = math.log(2.0 * len(self._buckets) / self.delta)
            allowed = np.sqrt(2.0 * inverse * variance * sure) + 2.0 / 3.0 * inverse * sure
            apart = np.abs(high - low) > allowed
            if not apart.any():
                break
            # The most significant cut is nearest to the change.
            cut = int(np.argmax(np.where(apart, np.abs(high - low) / allowed, 0.0)))
            if high[cut] > low[cut] and found is None:
                since = self._rows - int(newer[cut])
                found = Rise(self._rows - 1, since, float(low[cut]), float(high[cut]))
            self._buckets = self._buckets[cut + 1 :]
        return found

    STATE: ClassVar[tuple[Field, ...]] = (
        Count("rows"),
        Numbers("open", ("open",), low=0.0, high=1.0, written="replaced"),
        Numbers("buckets", ("buckets", 3), low=0.0, written="replaced"),
    )

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["open"] == self._rows % BUCKET, "open has other losses than rows says")
        rows = self._buckets[:, ROWS]
        require((rows >= BUCKET).all(), "buckets are too small")
        require(rows.sum() <= self._rows, "buckets have more rows than rows says")
        require((self._buckets[:, SUM] <= rows).all(), "buckets have losses above 1")


def _merged(buckets: Array) -> Array:
    """Return the buckets (n, 3); of too many of one size the two oldest are merged."""
    size = BUCKET
    while True:
        same = np.flatnonzero(buckets[:, ROWS] == size)
        if len(same) <= MOST:
            return buckets
        i = same[0]
        pair = (buckets[i] + buckets[i + 1])[None]
        buckets = np.concatenate((buckets[:i], pair, buckets[i + 2 :]))
        size *= 2


@compiled
def error_losses(errors: Array, totals: Array, scale: Array, out: Array) -> None:
    """Write the losses of ``errors`` (n, outputs) to ``out`` (n,); add to ``totals`` (outputs,).

    ``scale`` (outputs,) is s; an error that is not finite counts as the largest target.
    """
    for t in range(errors.shape[0]):
        loss = 0.0
        for o in range(errors.shape[1]):
            error, s = errors[t, o], scale[o]
            if not error <= LARGEST_TARGET:
                error = LARGEST_TARGET
            # s <- mean of min(e, 10 s)
            totals[o] += min(error, REACH * s) if s > 0.0 else error
            # loss = mean of e / (e + s)
            if error > 0.0:
                loss += error / (error + s)
        out[t] = loss / errors.shape[1]


class ErrorWindow(LossWindow):
    """Detect rises of absolute errors (n, outputs) of any size.

    An error e is mapped to e / (e + s); the loss is the mean over outputs. At row 64, 128, 256, ..
    of the window the mean error since the last such row is computed; if it is not within a factor 2
    of s, it becomes s, and the window starts over. A scale that followed all errors would fall
    while a learner improves, and constant errors would seem to rise.
    """

    def __init__(self, outputs: int = 1, delta: float = DELTA) -> None:
        super().__init__(delta)
        self._totals = np.zeros(outputs)  # of the errors since the last such row
        self._scale = np.zeros(outputs)

    def _losses(self, values: Array) -> Array:
        losses, self._totals = np.empty(len(values)), self._totals.copy()
        error_losses(np.ascontiguousarray(values), self._totals, self._scale, losses)
        return losses

    def _close_bucket(self) -> Rise | None:
        rise = super()._close_bucket()
        if self._rows < 2 * BUCKET or self._rows & (self._rows - 1):
            return rise
        # at rows 64, 128, 256, ..
        mean = self._totals / (self._rows if self._rows == 2 * BUCKET else self._rows // 2)
        self._totals = np.zeros(len(mean))
        kept = (0.5 * self._scale <= mean) & (mean <= 2.0 * self._scale)
        if not kept.all():
            self._scale, self._buckets = np.where(kept, self._scale, mean), np.zeros((0, 3))
        return rise

    STATE: ClassVar[tuple[Field, ...]] = (
        *LossWindow.STATE,
        Numbers("totals", ("outputs",), low=0.0, high=LARGEST, written="replaced"),
        Numbers("scale", ("outputs",), low=0.0, high=LARGEST, written="replaced"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": len(self._scale)}
