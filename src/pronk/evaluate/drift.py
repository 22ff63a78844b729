"""Drift alarms: ADWIN on the losses of a learner.

ADWIN keeps the longest window of recent losses in which no cut separates two parts whose means
differ by more than chance allows. Here the window is stored in buckets of 32 rows, counted from the
start of the stream, that are merged in pairs as they age, so a window of n rows needs
O(log n) numbers, and any cut of the stream into blocks gives the same alarms. After each bucket
every cut between buckets is tried,

    mean(newer) - mean(older) > sqrt((2/m) v log(2/d)) + (2/(3m)) log(2/d),
    1/m = 1/n_newer + 1/n_older,   v the variance of the window,   d = delta / buckets,

and if one holds, the older part is dropped and an alarm is raised. If the loss has fallen, the
older part is dropped without an alarm. Losses must lie in [0, 1], as mistakes do; absolute errors e
are mapped to e / (e + s), where s is a typical error (`ErrorAlarm`).

river has this detector too (`river.drift.ADWIN`), but is an optional dependency, and its Python
loop per row would cost more than the fast learners.

Reference: Bifet, Gavalda, "Learning from time-changing data with adaptive windowing", SDM 2007.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Count, Field, Sizes, Stateful, checked_count, require
from pronk.evaluate.fields import AnyReal, Items, Values, figure

Array = NDArray[np.float64]

#: Rows of the smallest bucket, and buckets of one size before two are merged.
BUCKET, MOST = 32, 8


@dataclass(frozen=True)
class Alarm:
    """The loss has risen."""

    row: int
    """The row, counted from 0, whose loss raised the alarm."""
    since: int
    """First row of the higher loss, up to the length of a bucket."""
    before: float
    """Mean of the losses before, as the detector sees them."""
    after: float
    """Mean of those since."""

    def to_dict(self) -> dict[str, Any]:
        """Return the alarm for JSON."""
        return asdict(self)


def _checked_alarm(state: Any, name: str) -> Alarm:
    known = {"row", "since", "before", "after"}
    require(isinstance(state, dict) and set(state) == known, f"{name} is not an alarm")
    row, since = checked_count(state["row"], name), checked_count(state["since"], name)
    return Alarm(row, since, figure(state["before"], name), figure(state["after"], name))


def _checked_bucket(state: Any, name: str) -> tuple[int, float, float]:
    require(isinstance(state, list) and len(state) == 3, f"{name} is not a bucket")
    return checked_count(state[0], name, low=1), figure(state[1], name), figure(state[2], name)


class DriftAlarm(Stateful):
    """Detect rises of losses in [0, 1] and keep the alarms.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> losses = (rng.random(4000) < np.where(np.arange(4000) < 2000, 0.1, 0.4)).astype(float)
    >>> alarm = DriftAlarm()
    >>> alarm.add(losses)
    >>> print([(a.row, a.since) for a in alarm.alarms])
    [(2079, 1984)]
    """

    def __init__(self, delta: float = 1e-4) -> None:
        self.delta = delta
        self.alarms: list[Alarm] = []
        self._rows = 0
        self._open = np.zeros(0)  # losses of the bucket that is not full yet
        #: From old to new: rows, sum of losses, sum of squares.
        self._buckets: list[tuple[int, float, float]] = []

    def add(self, losses: Array, before: int = 0) -> None:
        """Add the losses of the next rows; ``before`` rows of the stream were not scored."""
        losses = np.concatenate((self._open, losses))
        whole = len(losses) // BUCKET * BUCKET
        for bucket in losses[:whole].reshape(-1, BUCKET):
            self._rows += BUCKET
            self._buckets.append((BUCKET, float(bucket.sum()), float((bucket * bucket).sum())))
            self._merge()
            self._detect(before)
        self._open = losses[whole:].copy()

    def _merge(self) -> None:
        """Merge the two oldest buckets of a size if there are too many of this size."""
        size = BUCKET
        while True:
            same = [i for i, bucket in enumerate(self._buckets) if bucket[0] == size]
            if len(same) <= MOST:
                return
            i, j = same[0], same[1]
            pair = zip(self._buckets[i], self._buckets[j], strict=True)
            merged: Any = tuple(a + b for a, b in pair)
            self._buckets[i : j + 1] = [merged]
            size *= 2

    def _detect(self, unscored: int) -> None:
        """Drop the buckets before a significant cut; raise an alarm if the loss rose."""
        while len(self._buckets) > 1:
            rows, sums, squares = np.cumsum(np.array(self._buckets), axis=0).T
            older, newer = rows[:-1], rows[-1] - rows[:-1]
            low, high = sums[:-1] / older, (sums[-1] - sums[:-1]) / newer
            mean = sums[-1] / rows[-1]
            variance = max(squares[-1] / rows[-1] - mean * mean, 0.0)
            inverse = 1.0 / older + 1.0 / newer
            sure = math.log(2.0 * len(self._buckets) / self.delta)
            allowed = np.sqrt(2.0 * inverse * variance * sure) + 2.0 / 3.0 * inverse * sure
            apart = np.abs(high - low) > allowed
            if not apart.any():
                return
            # The most significant cut is nearest to the change.
            cut = int(np.argmax(np.where(apart, np.abs(high - low) / allowed, 0.0)))
            if high[cut] > low[cut]:
                row = self._rows - 1 + unscored
                since = self._rows - int(newer[cut]) + unscored
                self.alarms.append(Alarm(row, since, float(low[cut]), float(high[cut])))
            self._buckets = self._buckets[cut + 1 :]

    STATE: ClassVar[tuple[Field, ...]] = (
        Count("rows"),
        Values("open", ("open",)),
        Items("buckets", "_buckets", out=list, back=_checked_bucket),
        Items("alarms", "alarms", out=Alarm.to_dict, back=_checked_alarm),
    )

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["open"] < BUCKET, "open has a whole bucket")


class ErrorAlarm(DriftAlarm):
    """Detect rises of absolute errors of any size, mapped to e / (e + s) with a scale s.

    At row 64, 128, 256, .. the mean error since the last such row is computed; if it is not within
    a factor 2 of s, it becomes s, and the window starts over. A scale that followed all errors
    would fall while a learner improves, and constant errors would seem to rise.
    """

    def __init__(self, delta: float = 1e-4) -> None:
        super().__init__(delta)
        self._sums = np.zeros(2)  # of the errors since the last setting, and how many
        self._scale = 0.0
        self._next = 2 * BUCKET

    def add(self, losses: Array, before: int = 0) -> None:
        """Add the errors of the next rows; ``before`` rows of the stream were not scored."""
        while len(losses):
            done = self._rows + len(self._open)
            part, losses = losses[: self._next - done], losses[self._next - done :]
            # Row by row, so that any cut gives the same sum.
            total = np.cumsum(np.concatenate((self._sums[:1], part)))[-1]
            self._sums = np.array([total, self._sums[1] + len(part)])
            scaled = part / np.where(part > 0, part + self._scale, 1.0)
            super().add(scaled, before)
            if self._rows + len(self._open) == self._next:
                mean = float(self._sums[0] / self._sums[1])
                if not 0.5 * self._scale <= mean <= 2.0 * self._scale:
                    self._scale, self._buckets = mean, []
                self._sums, self._next = np.zeros(2), 2 * self._next

    STATE: ClassVar[tuple[Field, ...]] = (
        *DriftAlarm.STATE,
        Values("sums", (2,)),
        AnyReal("scale"),
        Count("next"),
    )

    def _restored(self, sizes: Sizes) -> None:
        super()._restored(sizes)
        require(self._rows + len(self._open) < self._next, "next is not after the rows")
