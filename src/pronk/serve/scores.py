"""How a model did so far: loss of the predictions that were given, beside a baseline's.

A row is scored with the prediction that was returned for it, also when its label came later. The
curve has at most 240 pieces of equally many rows; when they are full, neighbours are joined.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.metrics import DEFAULTS, METRICS
from pronk.evaluate.state import Items
from pronk.parts.state import Count, Numbers, Part, Sizes, Stateful, checked_count, require

Array = NDArray[np.float64]

MOST_PIECES = 240
FIRST_LENGTH = 16


class LossCurve(Stateful):
    """Sums along the stream in pieces of equal length, which doubles when there are too many."""

    def __init__(self, series: int) -> None:
        self.length = FIRST_LENGTH
        self.rows = 0
        self.sums = np.zeros((0, series))

    def add(self, values: Array) -> None:
        """Some rows, (rows, series)."""
        while self.rows + len(values) > MOST_PIECES * self.length:
            self._join()
        first, end = self.rows // self.length, self.rows + len(values)
        more = -(-end // self.length) - len(self.sums)
        if more > 0:
            self.sums = np.concatenate([self.sums, np.zeros((more, values.shape[1]))])
        starts = np.arange(first * self.length, end, self.length) - self.rows
        self.sums[first:] += np.add.reduceat(values, np.maximum(starts, 0))
        self.rows = end

    def _join(self) -> None:
        padded = np.concatenate([self.sums, np.zeros((len(self.sums) % 2, self.sums.shape[1]))])
        self.sums = padded[::2] + padded[1::2]
        self.length *= 2

    def points(self) -> tuple[list[int], Array]:
        """Where each piece ends, and the means over it."""
        ends = np.minimum(np.arange(1, len(self.sums) + 1) * self.length, self.rows)
        counts = np.diff(np.concatenate([[0], ends]))
        return ends.tolist(), self.sums / counts[:, None]

    STATE = (
        Count("length", "length", low=FIRST_LENGTH),
        Count("rows", "rows"),
        Numbers("sums", ("pieces", "series"), "sums", low=0.0, high=math.inf),
    )

    def _sizes(self) -> dict[str, int]:
        return {"series": self.sums.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        pieces = -(-self.rows // self.length)
        require(pieces <= MOST_PIECES, f"length is too small for {self.rows} rows")
        require(sizes["pieces"] == pieces, f"sums has {sizes['pieces']} pieces, not {pieces}")


class LiveScores(Stateful):
    """Mean losses of all rows, of the baseline, the share of intervals that held, and the curve."""

    def __init__(self, task: str) -> None:
        self.names = DEFAULTS[task]
        self.rows = 0
        self.totals = np.zeros(len(self.names))
        self.baseline_totals = np.zeros(len(self.names))
        self.covered = [0, 0]  # intervals, and those that held the label
        self.baseline: Any = RunningMean() if task == "regression" else RunningMajority()
        self.curve = LossCurve(2)

    def add(
        self, y: NDArray[Any], predictions: NDArray[Any], lower: Array | None, upper: Array | None
    ) -> None:
        """Rows that were learned."""
        naive = self.baseline.predict_then_learn(y, y)
        losses = self._losses(y, predictions)
        baseline = self._losses(y, naive)
        self.rows += len(y)
        self.totals = self.totals + losses.sum(axis=0)
        self.baseline_totals = self.baseline_totals + baseline.sum(axis=0)
        self.curve.add(_side_by_side([losses[:, 0], baseline[:, 0]]))
        if lower is not None and upper is not None:
            known = ~np.isnan(lower)
            held = int(((lower <= y) & (y <= upper))[known].sum())
            self.covered = [self.covered[0] + int(known.sum()), self.covered[1] + held]

    def _losses(self, y: NDArray[Any], predictions: NDArray[Any]) -> Array:
        return _side_by_side([METRICS[name].rows(y, predictions) for name in self.names])

    def metrics(self) -> dict[str, Any]:
        """For people and machines; null before the first row."""
        found: dict[str, Any] = {"rows": self.rows}
        for name, total, naive in zip(self.names, self.totals, self.baseline_totals, strict=True):
            found[name] = _mean(float(total), self.rows)
            found[f"{name}_baseline"] = _mean(float(naive), self.rows)
        if self.covered[0]:
            found["coverage"] = self.covered[1] / self.covered[0]
        return found

    STATE = (
        Count("rows", "rows"),
        Numbers("totals", ("metrics",), "totals", low=0.0, high=math.inf),
        Numbers("baseline_totals", ("metrics",), "baseline_totals", low=0.0, high=math.inf),
        Items("intervals", "covered", out=int, back=checked_count),
        Part("baseline", "baseline"),
        Part("curve", "curve"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"metrics": len(self.names)}

    def _restored(self, sizes: Sizes) -> None:
        pair = len(self.covered) == 2 and self.covered[1] <= self.covered[0] <= self.rows
        require(pair, "intervals are not how many there were and how many held")
        require(self.curve.rows == self.rows, "curve is of other rows")


def _side_by_side(columns: list[Array]) -> Array:
    """Columns as a matrix; `numpy.column_stack` takes longer than the losses."""
    found = np.empty((len(columns[0]), len(columns)))
    for place, column in enumerate(columns):
        found[:, place] = column
    return found


def _mean(total: float, rows: int) -> float | None:
    mean = total / rows if rows else math.nan
    return mean if math.isfinite(mean) else None
