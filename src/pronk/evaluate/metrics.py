"""Metrics over all rows so far and over a window of the last rows: mean losses and statistics."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import did_you_mean
from pronk.core.state import Count, Parts, Sizes, StateError, Stateful, require
from pronk.evaluate.baselines import Lead
from pronk.evaluate.forecasts import AnyReal, Forecast, Items, checked_column, doubles, joined
from pronk.evaluate.formatting import number
from pronk.evaluate.statistics import STATISTICS, Explained, Running, Statistic

Array = NDArray[np.float64]
Losses = Callable[[NDArray[Any], NDArray[Any]], Any]
#: Names for screens and reports.
TITLES = {
    "mse": "mean squared error",
    "mae": "mean absolute error",
    "medae": "median absolute error",
    "r2": "R2",
    "error": "error rate",
    "balanced_accuracy": "balanced accuracy",
    "kappa": "Cohen's kappa",
    "f1": "macro F1",
    "log_loss": "log loss",
    "auc": "AUC",
}


def describe_leads(leads: Iterable[Lead]) -> str:
    """Describe in which metrics a learner is worse than its baselines; empty if in none."""
    texts: dict[str, list[str]] = {}
    for one in leads:
        own, theirs = number(one.value), number(one.theirs)
        if own != theirs:
            name = TITLES.get(one.metric, one.metric)
            texts.setdefault(one.baseline, []).append(f"{name} {own} against {theirs}")
    return "; ".join(f"worse than the {label}: {', '.join(each)}" for label, each in texts.items())


@dataclass(frozen=True)
class Metric:
    """A loss per row from y and the predictions, and a function of its mean."""

    name: str
    losses: Losses
    finish: Callable[[float], float] = float

    def rows(self, y: NDArray[Any], predictions: NDArray[Any]) -> Array:
        """Return one loss per row; the mean over several outputs."""
        losses = np.asarray(self.losses(y, predictions), dtype=np.float64)
        if losses.ndim == 2:
            losses = losses.mean(axis=1)
        if losses.shape != (len(y),):
            raise ValueError(
                f"metric {self.name!r} must return one loss per row: for {len(y)} rows it returned "
                f"shape {losses.shape}"
            )
        return losses


def _squared(y: Array, predictions: Array) -> Array:
    difference = predictions - y
    return difference * difference


def _absolute(y: Array, predictions: Array) -> Array:
    return np.abs(predictions - y)


def _mistakes(y: NDArray[Any], predictions: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(predictions != y)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("mse", _squared),
        Metric("rmse", _squared, math.sqrt),
        Metric("mae", _absolute),
        Metric("error", _mistakes),
        Metric("accuracy", _mistakes, lambda mean: 1.0 - mean),
    )
}

#: Default metrics.
DEFAULTS = {"regression": ("mse", "mae"), "classification": ("error",)}
#: Metrics of `pronk run`; log loss and AUC only with probabilities.
ALL = {
    "regression": ("mse", "mae", "medae", "r2"),
    "classification": ("error", "balanced_accuracy", "kappa", "f1", "log_loss", "auc"),
}


def get_metrics(metrics: Any) -> list[Metric]:
    """Return metrics that are means of losses, from names, functions (y, predictions) -> losses."""
    found = []
    for metric in get_scores(metrics):
        if isinstance(metric, Statistic):
            raise ValueError(
                f"metric {metric.name!r} is not a mean of losses per row; choose another"
            )
        found.append(metric)
    return found


def get_scores(metrics: Any) -> list[Metric | Statistic]:
    """Return metrics of any kind, from names or functions (y, predictions) -> losses."""
    if isinstance(metrics, str | Metric | Statistic) or callable(metrics):
        metrics = [metrics]
    return [_get(metric) for metric in _distinct(metrics)]


def _distinct(metrics: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(metrics))


def _get(metric: Any) -> Metric | Statistic:
    if isinstance(metric, Metric | Statistic):
        return metric
    if callable(metric):
        return Metric(getattr(metric, "__name__", type(metric).__name__), metric)
    if metric in METRICS:
        return METRICS[metric]
    if metric in STATISTICS:
        return STATISTICS[metric]
    known = [*METRICS, *STATISTICS]
    hint = did_you_mean(metric, known, otherwise=f"; known: {', '.join(known)}")
    raise ValueError(f"metric {metric!r} is not known{hint}")


class Averages(Stateful):
    """The mean loss over all rows and over the last ``window`` rows, for one metric."""

    def __init__(self, metric: Metric, window: int | None) -> None:
        self.metric = metric
        self.window = window
        self.rows = 0
        self.total = 0.0
        self._recent: deque[Array] = deque()
        self._held = 0

    def add(self, losses: Array) -> None:
        """Add the losses of some rows."""
        self.rows += len(losses)
        self.total += float(losses.sum())
        if self.window is None:
            return
        self._recent.append(losses)
        self._held += len(losses)
        while self._held - len(self._recent[0]) >= self.window:
            self._held -= len(self._recent.popleft())

    def mean(self) -> float:
        """Return the metric over all rows; NaN before the first."""
        if not self.rows:
            return math.nan
        return self.metric.finish(self.total / self.rows)

    def recent(self) -> float:
        """Return the metric over the last ``window`` rows, or over all if there are fewer."""
        if self.window is None or not self._recent:
            return self.mean()
        oldest = self._recent[0][max(0, self._held - self.window) :]
        total = float(oldest.sum()) + sum(float(losses.sum()) for losses in self._others())
        return self.metric.finish(total / min(self._held, self.window))

    # The last losses are stored by block, because they are summed in that order.
    STATE = (
        Count("rows", "rows"),
        AnyReal("total", "total"),
        Items(
            "recent", "_recent", out=np.array, back=partial(doubles, most=1, least=1), kind=deque
        ),
    )

    def _restored(self, sizes: Sizes) -> None:
        self._held = sum(len(losses) for losses in self._recent)

    def _others(self) -> Iterable[Array]:
        blocks = iter(self._recent)
        next(blocks)
        return blocks


def _as_state(block: tuple[NDArray[Any], Forecast]) -> list[Any]:
    return [block[0].tolist(), block[1].to_state()]


def _checked_block(state: Any, name: str) -> tuple[NDArray[Any], Forecast]:
    require(isinstance(state, list) and len(state) == 2, f"{name} is not a block of rows")
    y, forecast = checked_column(state[0], name), Forecast.from_state(state[1])
    require(y.dtype.kind in "biufU" and len(y) == len(forecast), f"{name} has other labels")
    return y, forecast


class Scores(Stateful):
    """All metrics of an evaluation, over all rows and over the last ``window`` rows."""

    def __init__(self, metrics: Sequence[Metric | Statistic], window: int | None) -> None:
        self.names = [metric.name for metric in metrics]
        self.window = window
        self._averages = [Averages(m, window) for m in metrics if isinstance(m, Metric)]
        self._statistics = [m for m in metrics if isinstance(m, Statistic)]
        self._running = [statistic.running() for statistic in self._statistics]
        self._recent: deque[tuple[NDArray[Any], Forecast]] = deque()
        self._held = 0

    def losses(self, y: NDArray[Any], forecast: Forecast) -> list[NDArray[np.float64]]:
        """Return the losses of a block, for `add`."""
        return [average.metric.rows(y, forecast.values) for average in self._averages]

    def add(
        self,
        y: NDArray[Any],
        forecast: Forecast,
        losses: Sequence[NDArray[np.float64]],
    ) -> None:
        """Add some rows."""
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
        """Return each metric over all rows so far."""
        found = {average.metric.name: average.mean() for average in self._averages}
        found |= {statistic.name: running.value() for statistic, running in self._pairs()}
        return {name: found[name] for name in self.names}

    def recent(self) -> dict[str, float]:
        """Return each metric over the last ``window`` rows, or over all if there are fewer."""
        if self.window is None:
            return self.values()
        found = {average.metric.name: average.recent() for average in self._averages}
        if self._statistics and self._recent:
            y = np.concatenate([pair[0] for pair in self._recent])[-self.window :]
            forecast = joined([pair[1] for pair in self._recent])[-self.window :]
            found |= {one.name: running.recent(y, forecast) for one, running in self._pairs()}
        return {name: found.get(name, np.nan) for name in self.names}

    def check_restored(self, labels: bool) -> None:
        """Raise if the metrics cannot be computed from the restored rows."""
        kinds = {kind.dtype.kind for y, forecast in self._recent for kind in (y, forecast.values)}
        require(labels or kinds <= set("biuf"), "recent has text for numbers")
        try:
            with np.errstate(all="ignore"):
                self.values(), self.recent()
        except Exception as error:
            raise StateError(f"recent does not give the metrics: {error}") from None

    @property
    def outputs(self) -> set[tuple[int, ...]]:
        """Shapes of the target of a row; a valid state has one."""
        sums = {np.shape(one.mean) for one in self._running if isinstance(one, Explained)}
        return sums | {y.shape[1:] for y, _ in self._recent}

    def _pairs(self) -> Iterable[tuple[Statistic, Running]]:
        return zip(self._statistics, self._running, strict=True)

    STATE = (
        Parts("averages"),
        Parts("statistics", "_running"),
        Items("recent", "_recent", out=_as_state, back=_checked_block, kind=deque),
    )

    def _restored(self, sizes: Sizes) -> None:
        self._held = sum(len(y) for y, _ in self._recent)
        rows = {average.rows for average in self._averages}
        require(len(rows) <= 1, "averages are of different rows")
