"""The pictures of a comparison: curves over the runs of each learner.

A learner has one colour and one pattern of dashes in all pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.comparison import Results, Summary
from pronk.evaluate.drawing import Array, Curve, Picture, Style
from pronk.evaluate.metrics import TITLES

#: A learner with more than this many times the baseline's loss has diverged.
DIVERGED = 100.0

#: The values of one record of a run that a curve shows; None without any.
Values = Callable[[dict[str, Any]], Any]


def charts(results: Results) -> list[Picture]:
    """Return the pictures of a comparison along the stream, without empty ones."""
    comparison = results.comparison
    metric, window = comparison.metric, comparison.window
    part = window * max(1, comparison.rows // (10 * window))
    loss, percent = TITLES[metric], metric == "error"
    capital = loss[0].upper() + loss[1:]
    everyone = results.everyone
    several = ""
    if any(summary.runs > 1 for summary in everyone):
        several = " The band is one standard deviation over the runs."

    def curves(
        values: Values, window: int | None = None, median: bool = False, learners: bool = False,
        kind: str = "",
    ) -> list[Curve]:  # fmt: skip
        made = []
        for i, one in enumerate(everyone):
            baseline = one in results.baselines
            if baseline and learners:
                continue
            style = Style.of(i, baseline)
            if kind:
                style = replace(style, dashes=int(kind == "bound"))
            curve = _curve(one, values, window, kind, median, style)
            made += [] if curve is None else [curve]
        return made

    made = [
        _below(picture, divergence_limit(results))
        for picture in (
            Picture(
                "loss", "Loss so far", f"{capital} of all rows so far, each predicted "
                f"before its label was learned. Logarithmic axes.{several}", "rows", loss,
                curves(lambda curve: curve["metrics"][metric]), log_x=True, percent=percent,
            ),
            Picture(
                "windowed-loss", "Recent loss", f"{capital} over each {window:,} rows. "
                "The loss rises where the stream changes.", "rows", loss,
                curves(lambda curve: curve["windowed"][metric], window), percent=percent,
            ),
        )
    ]  # fmt: skip
    made += [
        Picture(
            "time", "Time per row", f"Microseconds per row in the learner, over each {part:,} "
            "rows, on one core; the median of the runs.", "rows", "microseconds",
            curves(_microseconds, part, median=True, learners=True),
        ),
        Picture(
            "size", "Points", "Points (support vectors, dictionary) of the learner. "
            "Learners with fixed features have none and are not drawn.", "rows", "points",
            curves(lambda curve: [size or None for size in curve["size"]], learners=True),
        ),
        Picture(
            "memory", "Memory", "Memory of the learner in bytes.", "rows", "bytes",
            curves(lambda curve: curve["memory"], learners=True),
        ),
        Picture(
            "regret", "Regret and its bound",
            "Loss so far minus the regularised loss of the best function in hindsight, and the "
            "bound of the theory, for learners with a certificate.", "rows", "regret",
            curves(lambda curve: curve.get("regret"), learners=True, kind="regret")
            + curves(lambda curve: curve.get("bound"), learners=True, kind="bound"),
            log_x=True,
        ),
    ]  # fmt: skip
    return [_drawable(picture) for picture in made if picture.curves]


def divergence_limit(results: Results) -> float:
    """Return the loss above which nothing is drawn, so that other learners remain visible."""
    if not results.baselines:
        return np.inf
    metric, records = results.comparison.metric, results.baselines[0].records
    values = [v for r in records for v in r["result"]["curve"]["metrics"][metric] if v is not None]
    largest = max(values, default=0.0)
    return DIVERGED * largest if largest > 0 else np.inf


def _below(picture: Picture, most: float) -> Picture:
    """Remove values above a limit from a picture, and mention the limit in its caption."""
    if not any((curve.y > most).any() for curve in picture.curves):
        return picture
    curves = [replace(one, y=np.where(one.y <= most, one.y, np.nan)) for one in picture.curves]
    caption = f"{picture.caption} Losses above {most:.3g} are not drawn."
    return replace(picture, curves=curves, caption=caption)


def _drawable(picture: Picture) -> Picture:
    """Make the y axis logarithmic if all values are positive, except for some at the start."""
    values = np.concatenate([one.y for one in picture.curves])
    values = values[np.isfinite(values)]
    positive = len(values) > 0 and np.mean(values > 0) > (0.9 if picture.log_x else 0.999)
    return replace(picture, log_y=bool(positive and not (values < 0).any()))


def _microseconds(curve: dict[str, Any]) -> Array:
    """Return the microseconds per row since the previous record."""
    seconds, rows = np.diff(curve["seconds"], prepend=0.0), np.diff(curve["rows"], prepend=0)
    return 1e6 * seconds / rows


def _curve(
    summary: Summary, values: Values, window: int | None, kind: str, median: bool, style: Style
) -> Curve | None:
    """Return a curve over all runs, at all records or at the ends of windows."""
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
    band = None
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
        middle = np.median(stacked, axis=0) if median else stacked.mean(axis=0)
        if len(lines) > 1 and not median:
            deviation = stacked.std(axis=0, ddof=1)
            band = (middle - deviation, middle + deviation)
    return Curve(summary.label, rows[at] * 1.0, middle, band=band, kind=kind, style=style)


def _picked(curve: Any, at: NDArray[np.bool_]) -> Any:
    """Return the columns of a curve at some of its records."""
    if isinstance(curve, dict):
        return {name: _picked(column, at) for name, column in curve.items()}
    return [value for value, wanted in zip(curve, at, strict=True) if wanted]


# -- loss against time -----------------------------------------------------------------------------


def trade_off(results: Results) -> Picture:
    """Return the picture with one point per learner: its loss against its time per row."""
    metric = results.comparison.metric
    most = divergence_limit(results)
    labels = [one.label for one in results.everyone]
    drawn = [one for one in results.summaries if one.metrics[metric].mean <= most]
    times = np.array([one.microseconds_per_row.mean for one in drawn])
    losses = np.array([one.metrics[metric].mean for one in drawn])
    picture = Picture(
        "trade-off", "Loss against time",
        "One point per learner: lower is better, further left is faster.", "microseconds per row",
        TITLES[metric], log_x=True, log_y=bool((losses > 0).all()),
    )  # fmt: skip
    points = [
        Curve(one.label, times[i : i + 1], losses[i : i + 1], points=True,
              style=Style.of(labels.index(one.label)))
        for i, one in enumerate(drawn)
    ]  # fmt: skip
    return replace(picture, curves=points)
