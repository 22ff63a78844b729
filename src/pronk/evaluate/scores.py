"""The metrics of an evaluation: over all rows so far, and over a window of the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.forecasts import Forecast, joined
from pronk.evaluate.metrics import Averages, Metric
from pronk.evaluate.state import Items, checked_column
from pronk.evaluate.statistics import Explained, Running, Statistic
from pronk.parts.state import Parts, Sizes, StateError, Stateful, require


def _as_state(block: tuple[NDArray[Any], Forecast]) -> list[Any]:
    return [block[0].tolist(), block[1].to_state()]


def _checked_block(state: Any, name: str) -> tuple[NDArray[Any], Forecast]:
    require(isinstance(state, list) and len(state) == 2, f"{name} is not a block of rows")
    y, forecast = checked_column(state[0], name), Forecast.from_state(state[1])
    require(y.dtype.kind in "biufU" and len(y) == len(forecast), f"{name} has other labels")
    return y, forecast


class Scores(Stateful):
    """Means of losses, and statistics; a row is added once, and forgotten with its window."""

    def __init__(self, metrics: Sequence[Metric | Statistic], window: int | None) -> None:
        self.names = [metric.name for metric in metrics]
        self.window = window
        self._averages = [Averages(m, window) for m in metrics if isinstance(m, Metric)]
        self._statistics = [m for m in metrics if isinstance(m, Statistic)]
        self._running = [statistic.running() for statistic in self._statistics]
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
        for running in self._running:
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
        found |= {statistic.name: running.value() for statistic, running in self._pairs()}
        return {name: found[name] for name in self.names}

    def recent(self) -> dict[str, float]:
        """Each metric over the last ``window`` rows, or over all if there are fewer."""
        if self.window is None:
            return self.values()
        found = {average.metric.name: average.recent() for average in self._averages}
        if self._statistics and self._recent:
            y = np.concatenate([pair[0] for pair in self._recent])[-self.window :]
            forecast = joined([pair[1] for pair in self._recent])[-self.window :]
            found |= {one.name: running.recent(y, forecast) for one, running in self._pairs()}
        return {name: found.get(name, np.nan) for name in self.names}

    def try_out(self, labels: bool) -> None:
        """Refuse a state whose rows are wrong in ways no table says: labels for numbers, say."""
        kinds = {kind.dtype.kind for y, said in self._recent for kind in (y, said.values)}
        require(labels or kinds <= set("biuf"), "recent has text for numbers")
        try:
            with np.errstate(all="ignore"):
                self.values(), self.recent()
        except Exception as error:
            raise StateError(f"recent does not give the metrics: {error}") from None

    @property
    def outputs(self) -> set[tuple[int, ...]]:
        """Shapes of a row's target, of which there should be one."""
        sums = {np.shape(one.mean) for one in self._running if isinstance(one, Explained)}
        return sums | {y.shape[1:] for y, _ in self._recent}

    def _pairs(self) -> Iterable[tuple[Statistic, Running]]:
        return zip(self._statistics, self._running, strict=True)

    # The last rows are there where a window needs them.
    STATE = (
        Parts("averages"),
        Parts("statistics", "_running"),
        Items("recent", "_recent", out=_as_state, back=_checked_block, kind=deque),
    )

    def _restored(self, sizes: Sizes) -> None:
        self._held = sum(len(y) for y, _ in self._recent)
        rows = {average.rows for average in self._averages}
        require(len(rows) <= 1, "averages are of different rows")
