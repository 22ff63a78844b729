"""Drift alarms: ADWIN (`pronk.core.drift`) on the losses of any learner."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.core.drift import ErrorWindow, LossWindow
from pronk.core.state import Field, Part, Stateful, checked_count, require
from pronk.evaluate.fields import Items, figure

Array = NDArray[np.float64]


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

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self.window = self._new_window()

    def _new_window(self) -> LossWindow:
        return LossWindow()

    def add(self, losses: Array, before: int = 0) -> None:
        """Add the losses of the next rows; ``before`` rows of the stream were not scored."""
        while len(losses):
            count, rise = self.window.first_rise(losses)
            if rise is not None:
                row, since = rise.row + before, rise.since + before
                self.alarms.append(Alarm(row, since, rise.before, rise.after))
            losses = losses[count:]

    STATE: ClassVar[tuple[Field, ...]] = (
        Part("window", "window"),
        Items("alarms", "alarms", out=Alarm.to_dict, back=_checked_alarm),
    )


class ErrorAlarm(DriftAlarm):
    """Detect rises of absolute errors of any size (`pronk.core.drift.ErrorWindow`)."""

    def _new_window(self) -> LossWindow:
        return ErrorWindow()

    def add(self, losses: Array, before: int = 0) -> None:
        """Add the errors of the next rows; ``before`` rows of the stream were not scored."""
        super().add(losses[:, None], before)
