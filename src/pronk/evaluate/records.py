"""What an evaluation tells after some rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pronk.evaluate.forecasts import Forecast


@dataclass(frozen=True, slots=True)
class Record:
    """The state of an evaluation after some rows."""

    rows: int
    """Rows scored so far."""
    metrics: dict[str, float]
    """Means over all rows so far."""
    windowed: dict[str, float]
    """Means over the last ``window`` rows."""
    seconds: float
    """Time spent in the model."""
    size: int | None
    """Points held by the model (its ``size_``), where it tells."""
    memory: int | None
    """Bytes held by the model, if asked for."""
    predictions: NDArray[Any] | None = field(default=None, repr=False)
    """Of the rows since the last record, if asked for."""
    targets: NDArray[Any] | None = field(default=None, repr=False)
    """The targets of those rows; NaN or None where a row had none."""
    forecast: Forecast | None = field(default=None, repr=False)
    """The predictions with probabilities and intervals, where they were asked for."""
    unlabelled: int = 0
    """Rows without a label so far, which were predicted only."""

    outputs: tuple[dict[str, float], ...] = ()
    """The metrics of each target, where there are several."""

    untimed: int = 0
    """Rows that are not in ``seconds``: those of an earlier run of the same model."""

    @property
    def microseconds_a_row(self) -> float:
        """Time in the model for one row."""
        return 1e6 * self.seconds / max(1, self.rows + self.unlabelled - self.untimed)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON; without predictions."""
        return {
            "rows": self.rows,
            "unlabelled": self.unlabelled,
            "metrics": dict(self.metrics),
            "windowed": dict(self.windowed),
            "seconds": self.seconds,
            "microseconds_a_row": self.microseconds_a_row,
            "size": self.size,
            "memory": self.memory,
        }
