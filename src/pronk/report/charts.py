"""Charts of a comparison: curves over the runs of each learner, as Vega-Lite, PNG or SVG.

A chart gives only the index of a colour; the page defines the colours for light and dark mode.
Lines also differ by their dashes. The parameter "shown" lists the learners that are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from pronk.estimators.atomic import write_atomically
from pronk.evaluate.comparison import Results, Summary
from pronk.evaluate.metrics import TITLES
from pronk.evaluate.pictures import COLOURS

Array = NDArray[np.float64]

# -- curves ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Series:
    """Hold one line of a chart; NaN values are not drawn."""

    label: str
    rows: Array
    mean: Array
    """Mean, or median, over the runs."""
    deviation: Array | None
    """Standard deviation over the runs, if there are several."""
    kind: str = ""
    """What the line shows, if a learner has several."""


@dataclass(frozen=True)
class Chart:
    """Hold lines over the rows of the stream, and how to draw them."""

    name: str
    title: str
    caption: str
    y: str
    """Title of the y axis."""
    series: list[Series]
    log_x: bool = False
    log_y: bool = True
    format: str = ""
    """Format of numbers on the y axis, in the notation of d3."""


#: A learner with more than this many times the baseline's loss has diverged.
DIVERGED = 100.0


def charts(results: Results) -> list[Chart]:
    """Return the charts of a comparison, without empty ones."""
    comparison = results.comparison
    metric, window = comparison.metric, comparison.window
    part = window * max(1, comparison.rows // (10 * window))
    loss = TITLES[metric]
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
            f"{_capital(loss)} over each {window:,} rows. It rises where the stream changes.", loss,
            _all(everyone, lambda curve: curve["windowed"][metric], window), format=percent,
        ),
    ]  # fmt: skip
    made = [
        *(_below(chart, divergence_limit(results)) for chart in loss_charts),
        Chart(
            "time", "Time per row", f"Microseconds per row in the learner, over each {part:,} "
            "rows, on one core; the median of the runs.", "microseconds",
            _all(learners, _microseconds, part, median=True),
        ),
        Chart(
            "size", "Points", "Points (support vectors, dictionary) of the learner. "
            "Learners with fixed features have none and are not drawn.", "points",
            _all(learners, lambda curve: [size or None for size in curve["size"]]),
        ),
        Chart(
            "memory", "Memory", "Memory of the learner in bytes.", "bytes",
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
            "Loss so far minus the regularised loss of the best function in hindsight, and the "
            "bound of the theory, for learners with a certificate.",
            "regret", regret, log_x=True,
        )
    )  # fmt: skip
    return [_drawable(chart) for chart in made if chart.series]


def divergence_limit(results: Results) -> float:
    """Return the loss above which nothing is drawn, so that other learners remain visible."""
    if not results.baselines:
        return np.inf
    metric, records = results.comparison.metric, results.baselines[0].records
    values = [v for r in records for v in r["result"]["curve"]["metrics"][metric] if v is not None]
    largest = max(values, default=0.0)
    return DIVERGED * largest if largest > 0 else np.inf


def _below(chart: Chart, most: float) -> Chart:
    """Remove values above a limit from a chart, and mention the limit in its caption."""
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
    """Make the y axis linear unless all values are positive, except for some zeros at the start."""
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
    """Return the microseconds per row since the previous record."""
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
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
        deviation = stacked.std(axis=0, ddof=1) if len(lines) > 1 and not median else None
        middle = np.median(stacked, axis=0) if median else stacked.mean(axis=0)
    return Series(summary.label, rows[at].astype(np.float64), middle, deviation, kind)


def _picked(curve: Any, at: NDArray[np.bool_]) -> Any:
    """Return the columns of a curve at some of its records."""
    if isinstance(curve, dict):
        return {name: _picked(column, at) for name, column in curve.items()}
    return [value for value, wanted in zip(curve, at, strict=True) if wanted]


# -- Vega-Lite -------------------------------------------------------------------------------------

#: Solid, dashed, dotted, ..: 8 colours and 4 dashes give 32 different pairs.
DASHES = ([1, 0], [6, 3], [2, 2], [9, 3, 2, 3])
HEIGHT = 300
#: Format of numbers on an axis: scientific notation for very large and very small ones.
NUMBER = (
    "datum.value != 0 && (abs(datum.value) >= 1e6 || abs(datum.value) < 1e-3)"
    " ? format(datum.value, '.2~e') : format(datum.value, '~g')"
)


def dash(i: int) -> list[int]:
    """Return the dashes of the i-th learner."""
    return DASHES[(i + i // 8) % len(DASHES)]


def line_chart(chart: Chart, labels: Sequence[str]) -> dict[str, Any]:
    """Draw lines over rows, with a band of one standard deviation if there are several runs."""
    kinds = list(dict.fromkeys(one.kind for one in chart.series))
    base = alt.Chart(alt.InlineData(values=_values(chart)))
    base = base.transform_filter("indexof(shown, datum.learner) >= 0")
    rows = np.concatenate([one.rows for one in chart.series])
    x_axis = alt.Axis(
        labelExpr="format(datum.value, '~s')",
        labelOverlap=True,
        tickCount=6,
        **_ticks(rows, chart.log_x),
    )
    x = alt.X("rows:Q", title="rows", scale=_scale(chart.log_x), axis=x_axis)
    means = np.concatenate([one.mean for one in chart.series])
    y_axis = alt.Axis(
        **_numbers(chart.format), labelOverlap=True, tickCount=6, **_ticks(means, chart.log_y)
    )
    y = alt.Y("value:Q", title=chart.y, scale=_scale(chart.log_y), axis=y_axis)
    colour = _colour(labels)
    if len(kinds) > 1:
        dashes = alt.StrokeDash("kind:N", title=None, sort=kinds, legend=alt.Legend(orient="top"))
    else:
        dashes = alt.StrokeDash(
            "learner:N", scale=alt.Scale(domain=list(labels), range=_dashes(labels)), legend=None
        )
    detail = alt.Detail("kind:N")
    tooltip = [
        alt.Tooltip("learner:N"),
        *([alt.Tooltip("kind:N")] if len(kinds) > 1 else []),
        alt.Tooltip("rows:Q", format=","),
        alt.Tooltip("value:Q", title=chart.y, format=chart.format or ".4~g"),
    ]
    layers: list[Any] = []
    if any(one.deviation is not None for one in chart.series):
        band = base.transform_filter("isValid(datum.low)").mark_area(opacity=0.15).encode(
            x=x, y=alt.Y("low:Q", scale=_scale(chart.log_y)), y2="high:Q", color=colour,
            detail=detail,
        )  # fmt: skip
        layers.append(band)
    layers.append(
        base.mark_line(strokeWidth=2).encode(
            x=x, y=y, color=colour, strokeDash=dashes, detail=detail
        )
    )
    # Large invisible points, which are easy to touch, show the tooltip.
    layers.append(base.mark_point(size=120, opacity=0).encode(x=x, y=y, tooltip=tooltip))
    return _finished(alt.layer(*layers), labels, chart.caption)


def trade_off(results: Results, labels: Sequence[str]) -> dict[str, Any]:
    """Draw one point per learner: its loss against its time per row."""
    metric = results.comparison.metric
    most = divergence_limit(results)
    drawn = [one for one in results.summaries if one.metrics[metric].mean <= most]
    drawn = [one for one in drawn if np.isfinite(one.metrics[metric].mean)]
    times = [one.microseconds_per_row.mean for one in drawn]
    losses = [one.metrics[metric].mean for one in drawn]
    log = all(loss > 0 for loss in losses)
    values = [
        {
            "learner": one.label,
            "time": short(time),
            "loss": short(loss),
            "memory": round(one.memory.mean),
            "place": place,
        }
        for one, time, loss, place in zip(
            drawn,
            times,
            losses,
            _places([one.label for one in drawn], times, losses, log),
            strict=True,
        )
    ]
    base = (
        alt.Chart(alt.InlineData(values=values))
        .transform_filter("indexof(shown, datum.learner) >= 0")
        .encode(
            x=alt.X(
                "time:Q",
                title="microseconds per row",
                scale=alt.Scale(type="log", nice=False, domain=_around(times, True, 0.2)),
                axis=alt.Axis(format="~g", labelOverlap=True, tickCount=5),
            ),
            y=alt.Y(
                "loss:Q",
                title=TITLES[metric],
                scale=alt.Scale(
                    type="log" if log else "linear", nice=False, domain=_around(losses, log, 0.1)
                ),
                axis=alt.Axis(
                    **_numbers(".3~%" if metric == "error" else ""), labelOverlap=True, tickCount=6
                ),
            ),
            color=_colour(labels),
            tooltip=[
                alt.Tooltip("learner:N"),
                alt.Tooltip("loss:Q", title=TITLES[metric], format=".4~g"),
                alt.Tooltip("time:Q", title="microseconds per row", format=".3~g"),
                alt.Tooltip("memory:Q", title="bytes", format=".3~s"),
            ],
        )
    )
    layers = [base.mark_point(size=90, filled=True, opacity=1)]
    for place, mark in _PLACES.items():
        names = base.transform_filter(f"datum.place == '{place}'").mark_text(fontSize=12, **mark)
        layers.append(names.encode(text="learner:N"))
    return _finished(alt.layer(*layers), labels, "Loss against time per row")


#: Width in pixels of a plot on a phone, in which names must fit.
_WIDTH = 270.0
#: Positions of a name relative to its point.
_PLACES: dict[str, dict[str, Any]] = {
    "above": {"dy": -12},
    "below": {"dy": 14},
    "right": {"dx": 9, "align": "left"},
    "left": {"dx": -9, "align": "right"},
}


def _places(
    names: Sequence[str], times: Sequence[float], losses: Sequence[float], log: bool
) -> list[str]:
    """Choose a position for each name without overlap in a plot of a phone's width, or "none".

    Points are in the order of the table, so the best learners get their names first.
    """
    x = _WIDTH * (0.15 + 0.7 * _unit(np.log(times)))
    y = 200 * _unit(-np.log(losses) if log else -np.array(losses)) + 25
    taken = [(u - 6, v - 6, u + 6, v + 6) for u, v in zip(x, y, strict=True)]
    places = []
    for i, (u, v) in enumerate(zip(x, y, strict=True)):
        half = 3.5 * len(names[i])
        boxes = {
            "above": (u - half, v - 20, u + half, v - 6),
            "below": (u - half, v + 6, u + half, v + 20),
            "right": (u + 7, v - 7, u + 7 + 2 * half, v + 7),
            "left": (u - 7 - 2 * half, v - 7, u - 7, v + 7),
        }
        others = taken[:i] + taken[i + 1 :]
        free = [
            place
            for place, box in boxes.items()
            if box[0] >= 0 and box[2] <= _WIDTH and not any(_overlap(box, o) for o in others)
        ]
        places.append(free[0] if free else "none")
        if free:
            taken.append(boxes[free[0]])
    return places


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _unit(values: Any) -> Any:
    span = float(np.ptp(values))
    return (values - values.min()) / span if span > 0 else np.zeros(len(values))


def _around(values: Sequence[float], log: bool, share: float) -> list[float]:
    """Return the domain of an axis with a margin on both sides."""
    low, high = min(values), max(values)
    if log:
        room = max((high / low) ** share, 1.2)
        return [short(low / room), short(high * room)]
    room = share * (high - low) or 1.0
    return [short(low - room), short(high + room)]


def _finished(chart: Any, labels: Sequence[str], description: str) -> dict[str, Any]:
    shown = alt.param(name="shown", value=list(labels))
    spec: dict[str, Any] = (
        chart.add_params(shown)
        .properties(width="container", height=HEIGHT, description=description)
        .to_dict()
    )
    spec.pop("config", None)  # the page defines it
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec


def _ticks(values: Any, log: bool) -> dict[str, Any]:
    """Return ticks at powers of ten, if a logarithmic axis contains several."""
    values = values[np.isfinite(values) & (values > 0)]
    if not log or not len(values) or values.max() < 100 * values.min():
        return {}
    first, last = np.ceil(np.log10(values.min())), np.floor(np.log10(values.max()))
    return {"values": [float(f"1e{power:.0f}") for power in np.arange(first, last + 1)]}


def _numbers(chosen: str) -> dict[str, Any]:
    """Return the format of numbers on an axis, by default `NUMBER`."""
    return {"format": chosen} if chosen else {"labelExpr": NUMBER}


def _scale(log: bool) -> Any:
    return alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=False)


def _colour(labels: Sequence[str]) -> Any:
    return alt.Color("learner:N", scale=alt.Scale(domain=list(labels)), legend=None)


def _dashes(labels: Sequence[str]) -> list[list[int]]:
    return [dash(i) for i in range(len(labels))]


def _values(chart: Chart) -> list[dict[str, Any]]:
    """Return one record per point, without those that a logarithmic axis cannot show."""
    values = []
    for one in chart.series:
        for i, mean in enumerate(one.mean):
            if not np.isfinite(mean) or (chart.log_y and mean <= 0):
                continue
            value = {"learner": one.label, "rows": int(one.rows[i]), "value": short(mean)}
            if one.kind:
                value["kind"] = one.kind
            if one.deviation is not None and np.isfinite(one.deviation[i]):
                # On a logarithmic axis a band must not reach zero.
                least = mean / 10 if chart.log_y else -np.inf
                value["low"] = short(max(mean - one.deviation[i], least))
                value["high"] = short(mean + one.deviation[i])
            values.append(value)
    return values


def short(value: float) -> float:
    """Round to five digits, which halves the size of the page."""
    return float(f"{value:.5g}")


# -- PNG and SVG for papers, by Matplotlib ---------------------------------------------------------

GREY = "#6b6b6b"
_LINE_STYLES = ("-", (0, (6, 3)), (0, (2, 2)), (0, (9, 3, 2, 3)))


def write_figures(results: Results, directory: Path) -> list[Path]:
    """Write one PNG and one SVG per chart and return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in charts(results):
        figure = _drawn(chart, results)
        for ending in ("svg", "png"):
            path = directory / f"{chart.name}.{ending}"
            # Without dates, the same results give the same bytes.
            stamp = {"Date": None} if ending == "svg" else {"Software": None}
            drawn = BytesIO()
            figure.savefig(drawn, format=ending, dpi=200, metadata=stamp)
            write_atomically(path, drawn.getvalue())
            paths.append(path)
    return paths


def _drawn(chart: Chart, results: Results) -> Any:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    matplotlib.rcParams["svg.hashsalt"] = "pronk"
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    labels = [one.label for one in results.everyone]
    for one in chart.series:
        i = labels.index(one.label)
        grey = one.label in {each.label for each in results.baselines}
        colour = GREY if grey else COLOURS[i % len(COLOURS)]
        style = _LINE_STYLES[(i + i // 8) % len(_LINE_STYLES)]
        if one.kind:
            style = "-" if one.kind == "regret" else "--"
        name = f"{one.label}: {one.kind}" if one.kind else one.label
        mean = np.where(one.mean > 0, one.mean, np.nan) if chart.log_y else one.mean
        axes.plot(one.rows, mean, color=colour, linestyle=style, linewidth=1.4, label=name)
        if one.deviation is not None:
            low = mean - one.deviation
            low = np.maximum(low, mean / 10) if chart.log_y else low
            axes.fill_between(one.rows, low, mean + one.deviation, color=colour, alpha=0.15, lw=0)
    axes.set_xlabel("rows")
    axes.set_ylabel(chart.y)
    axes.set_xscale("log" if chart.log_x else "linear")
    axes.set_yscale("log" if chart.log_y else "linear")
    bottom, top = axes.get_ylim()
    if chart.log_y and top < 100 * bottom:  # few powers of ten: more ticks, plain numbers
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize="small", frameon=False)
    return figure
