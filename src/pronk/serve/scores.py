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

Array = NDArray[np.float64]

MOST_PIECES = 240
FIRST_LENGTH = 16


class LossCurve:
    """Sums along the stream in pieces of equal length, which doubles when there are too many."""

    def __init__(self, series: int) -> None:
        self.length = FIRST_LENGTH
        self.rows = 0
        self.sums = np.zeros((0, series))

    def add(self, values: Array) -> None:
        """Some rows, (rows, series)."""
        while self.rows + len(values) > MOST_PIECES * self.length:
            self._join()
        pieces = (self.rows + np.arange(len(values))) // self.length
        more = int(pieces[-1]) + 1 - len(self.sums)
        if more > 0:
            self.sums = np.concatenate([self.sums, np.zeros((more, values.shape[1]))])
        np.add.at(self.sums, pieces, values)
        self.rows += len(values)

    def _join(self) -> None:
        padded = np.concatenate([self.sums, np.zeros((len(self.sums) % 2, self.sums.shape[1]))])
        self.sums = padded[::2] + padded[1::2]
        self.length *= 2

    def points(self) -> tuple[list[int], Array]:
        """Where each piece ends, and the means over it."""
        ends = np.minimum(np.arange(1, len(self.sums) + 1) * self.length, self.rows)
        counts = np.diff(np.concatenate([[0], ends]))
        return ends.tolist(), self.sums / counts[:, None]

    def to_state(self) -> dict[str, Any]:
        return {"length": self.length, "rows": self.rows, "sums": self.sums}

    def restore(self, state: dict[str, Any]) -> None:
        self.length, self.rows = state["length"], state["rows"]
        self.sums = np.array(state["sums"], dtype=np.float64).reshape(-1, self.sums.shape[1])


class LiveScores:
    """Mean losses of all rows, of the baseline, the share of intervals that held, and the curve."""

    def __init__(self, task: str) -> None:
        self.names = DEFAULTS[task]
        self.rows = 0
        self.totals = np.zeros(len(self.names))
        self.baseline_totals = np.zeros(len(self.names))
        self.intervals = self.held = 0
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
        self.curve.add(np.column_stack([losses[:, 0], baseline[:, 0]]))
        if lower is not None and upper is not None:
            known = ~np.isnan(lower)
            self.intervals += int(known.sum())
            self.held += int(((lower <= y) & (y <= upper))[known].sum())

    def _losses(self, y: NDArray[Any], predictions: NDArray[Any]) -> Array:
        return np.column_stack([METRICS[name].rows(y, predictions) for name in self.names])

    def metrics(self) -> dict[str, Any]:
        """For people and machines; null before the first row."""
        found: dict[str, Any] = {"rows": self.rows}
        for name, total, naive in zip(self.names, self.totals, self.baseline_totals, strict=True):
            found[name] = _mean(float(total), self.rows)
            found[f"{name}_baseline"] = _mean(float(naive), self.rows)
        if self.intervals:
            found["coverage"] = self.held / self.intervals
        return found

    def to_state(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "totals": self.totals,
            "baseline_totals": self.baseline_totals,
            "intervals": [self.intervals, self.held],
            "baseline": self.baseline.to_state(),
            "curve": self.curve.to_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.rows = state["rows"]
        self.totals = np.array(state["totals"])
        self.baseline_totals = np.array(state["baseline_totals"])
        self.intervals, self.held = state["intervals"]
        self.baseline.restore(state["baseline"])
        self.curve.restore(state["curve"])


def _mean(total: float, rows: int) -> float | None:
    mean = total / rows if rows else math.nan
    return mean if math.isfinite(mean) else None
