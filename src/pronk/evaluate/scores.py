"""The metrics of an evaluation: over all rows so far, and over a window of the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.forecasts import Forecast, joined
from pronk.evaluate.metrics import Averages, Metric
from pronk.evaluate.statistics import Statistic


class Scores:
    """Means of losses, and statistics; a row is added once, and forgotten with its window."""

    def __init__(self, metrics: Sequence[Metric | Statistic], window: int | None) -> None:
        self.names = [metric.name for metric in metrics]
        self.window = window
        self._averages = [Averages(m, window) for m in metrics if isinstance(m, Metric)]
        self._statistics = [(m, m.running()) for m in metrics if isinstance(m, Statistic)]
        self._recent: deque[tuple[NDArray[Any], Forecast]] = deque()
        self._held = 0

    def losses(self, y: NDArray[Any], forecast: Forecast) -> list[NDArray[np.float64]]:
        """What `add` takes: losses of a whole block, computed once."""
        return [average.metric.rows(y, forecast.values) for average in self._averages]

    def add(
        self,
        y: NDArray[Any],
        forecast: Forecast,
        losses: Sequence[NDArray[np.float64]],
    ) -> None:
        """Count some rows."""
        for average, values in zip(self._averages, losses, strict=True):
            average.add(values)
        for _, running in self._statistics:
            running.add(y, forecast)
        if self.window is None or not self._statistics:
            return
        self._recent.append((y, forecast))
        self._held += len(y)
        while self._held - len(self._recent[0][0]) >= self.window:
            self._held -= len(self._recent.popleft()[0])

    def values(self) -> dict[str, float]:
        """Each metric over all rows so far."""
        found = {average.metric.name: average.mean() for average in self._averages}
        found |= {statistic.name: running.value() for statistic, running in self._statistics}
        return {name: found[name] for name in self.names}

    def recent(self) -> dict[str, float]:
        """Each metric over the last ``window`` rows, or over all if there are fewer."""
        if self.window is None:
            return self.values()
        found = {average.metric.name: average.recent() for average in self._averages}
        if self._statistics and self._recent:
            y = np.concatenate([pair[0] for pair in self._recent])[-self.window :]
            forecast = joined([pair[1] for pair in self._recent])[-self.window :]
            found |= {one.name: one.exact(y, forecast) for one, _ in self._statistics}
        return {name: found.get(name, np.nan) for name in self.names}

    def to_state(self) -> dict[str, Any]:
        """Everything it knows; the last rows where a window needs them."""
        recent = [[y.tolist(), forecast.to_state()] for y, forecast in self._recent]
        return {
            "averages": [average.to_state() for average in self._averages],
            "statistics": [running.to_state() for _, running in self._statistics],
            "recent": recent,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `to_state` gave."""
        for average, held in zip(self._averages, state["averages"], strict=True):
            average.restore(held)
        for (_, running), held in zip(self._statistics, state["statistics"], strict=True):
            running.restore(held)
        pairs = [(np.array(y), Forecast.from_state(held)) for y, held in state["recent"]]
        self._recent = deque(pairs)
        self._held = sum(len(y) for y, _ in pairs)
