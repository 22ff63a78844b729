"""The charts as Vega-Lite, through Altair.

Colours are the chart's first, second, .. category: the page sets them for light or dark. Lines also
differ by their dashes. The parameter "shown" lists the learners that are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from pronk.evaluate.metrics import WORDS
from pronk.evaluate.summaries import Results
from pronk.report.series import Chart, astray

#: Solid, dashed, dotted, ..: 8 colours and 4 dashes make 32 pairs before one comes again.
DASHES = ([1, 0], [6, 3], [2, 2], [9, 3, 2, 3])
HEIGHT = 300
#: Numbers of an axis: plain ones, and powers of ten where zeros would have to be counted.
NUMBER = (
    "datum.value != 0 && (abs(datum.value) >= 1e6 || abs(datum.value) < 1e-3)"
    " ? format(datum.value, '.2~e') : format(datum.value, '~g')"
)


def dash(i: int) -> list[int]:
    """The dashes of the i-th learner."""
    return DASHES[(i + i // 8) % len(DASHES)]


def line_chart(chart: Chart, labels: Sequence[str]) -> dict[str, Any]:
    """Lines over rows, with a band of one deviation where there are several runs."""
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
    # Large and invisible: what a finger or a mouse finds.
    layers.append(base.mark_point(size=120, opacity=0).encode(x=x, y=y, tooltip=tooltip))
    return _finished(alt.layer(*layers), labels, chart.caption)


def trade_off(results: Results, labels: Sequence[str]) -> dict[str, Any]:
    """A point a learner: its loss against its time a row."""
    metric = results.comparison.metric
    most = astray(results)
    known = [one for one in results.summaries if one.metrics[metric].mean <= most]
    known = [one for one in known if np.isfinite(one.metrics[metric].mean)]
    times = [one.microseconds_a_row.mean for one in known]
    losses = [one.metrics[metric].mean for one in known]
    log = all(loss > 0 for loss in losses)
    values = [
        {
            "learner": one.label,
            "time": _short(time),
            "loss": _short(loss),
            "memory": round(one.memory.mean),
            "place": place,
        }
        for one, time, loss, place in zip(
            known,
            times,
            losses,
            _places([one.label for one in known], times, losses, log),
            strict=True,
        )
    ]
    base = (
        alt.Chart(alt.InlineData(values=values))
        .transform_filter("indexof(shown, datum.learner) >= 0")
        .encode(
            x=alt.X(
                "time:Q",
                title="microseconds a row",
                scale=alt.Scale(type="log", nice=False, domain=_around(times, True, 0.2)),
                axis=alt.Axis(format="~g", labelOverlap=True, tickCount=5),
            ),
            y=alt.Y(
                "loss:Q",
                title=WORDS[metric],
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
                alt.Tooltip("loss:Q", title=WORDS[metric], format=".4~g"),
                alt.Tooltip("time:Q", title="microseconds a row", format=".3~g"),
                alt.Tooltip("memory:Q", title="bytes", format=".3~s"),
            ],
        )
    )
    layers = [base.mark_point(size=90, filled=True, opacity=1)]
    for place, mark in _PLACES.items():
        names = base.transform_filter(f"datum.place == '{place}'").mark_text(fontSize=12, **mark)
        layers.append(names.encode(text="learner:N"))
    return _finished(alt.layer(*layers), labels, "Loss against time a row")


#: Pixels of a plot on a phone: what fits there fits everywhere.
_WIDTH = 270.0
#: Where a point's name stands.
_PLACES: dict[str, dict[str, Any]] = {
    "above": {"dy": -12},
    "below": {"dy": 14},
    "right": {"dx": 9, "align": "left"},
    "left": {"dx": -9, "align": "right"},
}


def _places(
    names: Sequence[str], times: Sequence[float], losses: Sequence[float], log: bool
) -> list[str]:
    """Where each name stands free, in a plot of a phone's width; "none" in a crowd.

    The points come in the order of the table: the best are named first.
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
    """A domain with room on both sides."""
    low, high = min(values), max(values)
    if log:
        room = max((high / low) ** share, 1.2)
        return [_short(low / room), _short(high * room)]
    room = share * (high - low) or 1.0
    return [_short(low - room), _short(high + room)]


def _finished(chart: Any, labels: Sequence[str], description: str) -> dict[str, Any]:
    shown = alt.param(name="shown", value=list(labels))
    spec: dict[str, Any] = (
        chart.add_params(shown)
        .properties(width="container", height=HEIGHT, description=description)
        .to_dict()
    )
    spec.pop("config", None)  # the page's
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec


def _ticks(values: Any, log: bool) -> dict[str, Any]:
    """Powers of ten, where a logarithmic axis has some of them."""
    values = values[np.isfinite(values) & (values > 0)]
    if not log or not len(values) or values.max() < 100 * values.min():
        return {}
    first, last = np.ceil(np.log10(values.min())), np.floor(np.log10(values.max()))
    return {"values": [float(f"1e{power:.0f}") for power in np.arange(first, last + 1)]}


def _numbers(chosen: str) -> dict[str, Any]:
    """How an axis writes its numbers, in d3's notation where that was chosen."""
    return {"format": chosen} if chosen else {"labelExpr": NUMBER}


def _scale(log: bool) -> Any:
    return alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=False)


def _colour(labels: Sequence[str]) -> Any:
    return alt.Color("learner:N", scale=alt.Scale(domain=list(labels)), legend=None)


def _dashes(labels: Sequence[str]) -> list[list[int]]:
    return [dash(i) for i in range(len(labels))]


def _values(chart: Chart) -> list[dict[str, Any]]:
    """One row a point; what a logarithmic axis cannot show is left out."""
    values = []
    for one in chart.series:
        for i, mean in enumerate(one.mean):
            if not np.isfinite(mean) or (chart.log_y and mean <= 0):
                continue
            value = {"learner": one.label, "rows": int(one.rows[i]), "value": _short(mean)}
            if one.kind:
                value["kind"] = one.kind
            if one.deviation is not None and np.isfinite(one.deviation[i]):
                # On a logarithmic axis a band may reach down to zero.
                least = mean / 10 if chart.log_y else -np.inf
                value["low"] = _short(max(mean - one.deviation[i], least))
                value["high"] = _short(mean + one.deviation[i])
            values.append(value)
    return values


def _short(value: float) -> float:
    """Five digits: a chart shows no more, and a file of many curves is half as long."""
    return float(f"{value:.5g}")
