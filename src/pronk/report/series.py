"""Curves over the runs of a learner: their mean, and one standard deviation to both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.metrics import WORDS
from pronk.evaluate.summaries import Results, Summary

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One line of a chart; NaN where there is nothing to draw."""

    label: str
    rows: Array
    mean: Array
    """Or median."""
    deviation: Array | None
    """Over the runs, where there are several."""
    kind: str = ""
    """What the line is, where a learner has several."""


@dataclass(frozen=True)
class Chart:
    """Lines over rows, and how to draw them."""

    name: str
    title: str
    caption: str
    y: str
    """Name of the y axis."""
    series: list[Series]
    log_x: bool = False
    log_y: bool = True
    format: str = ""
    """Of numbers of the y axis, in d3's notation."""


#: A loss that is so many times that of the baseline says no more: the learner has gone astray.
ASTRAY = 100.0


def charts(results: Results) -> list[Chart]:
    """The charts of a comparison; those with nothing to show are left out."""
    comparison = results.comparison
    metric, window = comparison.metric, comparison.window
    part = window * max(1, comparison.rows // (10 * window))
    loss = WORDS[metric]
    everyone, learners = results.everyone, results.summaries
    percent = ".3~%" if metric == "error" else ""
    several = " The band is one standard deviation over the runs." if _several(results) else ""
    loss_charts = [
        Chart(
            "loss", "Loss so far", f"{_capital(loss)} of all rows so far, each predicted before "
            f"its label was seen. Logarithmic axes.{several}", loss,
            _all(everyone, lambda curve: curve["metrics"][metric]), log_x=True, format=percent,
        ),
        Chart(
            "windowed-loss", "Recent loss",
            f"{_capital(loss)} of each {window:,} rows: where the stream changes, it rises.", loss,
            _all(everyone, lambda curve: curve["windowed"][metric], window), format=percent,
        ),
    ]  # fmt: skip
    made = [
        *(_below(chart, astray(results)) for chart in loss_charts),
        Chart(
            "time", "Time a row", f"Microseconds in the learner for a row, over each {part:,} "
            "rows, on one core; the median of the runs.", "microseconds",
            _all(learners, _microseconds, part, median=True),
        ),
        Chart(
            "size", "Points held", "Points (support vectors, dictionary) that the learner holds. "
            "Learners with fixed features hold none and are not drawn.", "points",
            _all(learners, lambda curve: [size or None for size in curve["size"]]),
        ),
        Chart(
            "memory", "Memory", "Bytes that the learner holds.", "bytes",
            _all(learners, lambda curve: curve["memory"]), format="~s",
        ),
    ]  # fmt: skip
    regret = [
        *_all(learners, lambda curve: curve.get("regret"), kind="regret"),
        *_all(learners, lambda curve: curve.get("bound"), kind="bound"),
    ]
    made.append(
        Chart(
            "regret", "Regret and its bound",
            "Loss so far minus that of the best function in hindsight, with its norm paid for, and "
            "the bound that the theory gives for it; of learners that keep account of it.",
            "regret", regret, log_x=True,
        )
    )  # fmt: skip
    return [_drawable(chart) for chart in made if chart.series]


def astray(results: Results) -> float:
    """The loss above which nothing is drawn: the other learners would be one flat line."""
    if results.baseline is None:
        return np.inf
    metric, records = results.comparison.metric, results.baseline.records
    values = [v for r in records for v in r["result"]["curve"]["metrics"][metric] if v is not None]
    largest = max(values, default=0.0)
    return ASTRAY * largest if largest > 0 else np.inf


def _below(chart: Chart, most: float) -> Chart:
    """A chart without what is above a value; the caption says so."""
    series = [
        replace(one, mean=np.where(one.mean <= most, one.mean, np.nan)) for one in chart.series
    ]
    if all(
        np.array_equal(one.mean, other.mean, equal_nan=True)
        for one, other in zip(series, chart.series, strict=True)
    ):
        return chart
    caption = f"{chart.caption} Losses above {most:.3g} are not drawn."
    return replace(chart, series=series, caption=caption)


def _drawable(chart: Chart) -> Chart:
    """Logarithmic only where all that is drawn is positive, but for some zeros of a start."""
    values = np.concatenate([one.mean for one in chart.series])
    values = values[np.isfinite(values)]
    positive = len(values) > 0 and np.mean(values > 0) > (0.9 if chart.log_x else 0.999)
    negative = bool((values < 0).any())
    if chart.log_y and positive and not negative:
        return chart
    return replace(chart, log_y=False)


def _several(results: Results) -> bool:
    return any(summary.runs > 1 for summary in results.everyone)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _microseconds(curve: dict[str, Any]) -> Array:
    """Of a row, since the record before."""
    seconds, rows = np.diff(curve["seconds"], prepend=0.0), np.diff(curve["rows"], prepend=0)
    return 1e6 * seconds / rows


def _all(
    summaries: Sequence[Summary],
    values: Callable[[dict[str, Any]], Any],
    window: int | None = None,
    kind: str = "",
    median: bool = False,
) -> list[Series]:
    made = [_one(summary, values, window, kind, median) for summary in summaries]
    return [one for one in made if one is not None]


def _one(
    summary: Summary,
    values: Callable[[dict[str, Any]], Any],
    window: int | None,
    kind: str,
    median: bool,
) -> Series | None:
    """A curve from all runs: at all records, or where a window ends."""
    curves = [record["result"]["curve"] for record in summary.records]
    rows = np.array(curves[0]["rows"])
    at = np.ones(len(rows), dtype=bool)
    if window is not None:
        at = (rows % window == 0) & (rows >= window)
    if not at.any():
        return None
    lines = []
    for curve in curves:
        given = values(_picked(curve, at))
        if given is None:
            return None
        lines.append(np.array([np.nan if v is None else v for v in given], dtype=np.float64))
    stacked = np.array(lines)
    if not np.isfinite(stacked).any():
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # runs that went astray
        deviation = stacked.std(axis=0, ddof=1) if len(lines) > 1 and not median else None
        middle = np.median(stacked, axis=0) if median else stacked.mean(axis=0)
    return Series(summary.label, rows[at].astype(np.float64), middle, deviation, kind)


def _picked(curve: Any, at: NDArray[np.bool_]) -> Any:
    """The columns of a curve at some of its records."""
    if isinstance(curve, dict):
        return {name: _picked(column, at) for name, column in curve.items()}
    return [value for value, wanted in zip(curve, at, strict=True) if wanted]
