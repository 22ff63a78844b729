"""The charts as Vega-Lite, through Altair.

Colours are the chart's first, second, .. category: the page sets them for light or dark. Lines also
differ by their dashes. The parameter "shown" lists the learners that are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from pronk.evaluate.comparison import Results
from pronk.report.series import LOSSES, Chart

#: Solid, dashed, dotted, ..: 6 colours and 4 dashes make 12 pairs before one comes again.
DASHES = ([1, 0], [6, 3], [2, 2], [9, 3, 2, 3])
HEIGHT = 300


def dash(i: int) -> list[int]:
    """The dashes of the i-th learner."""
    return DASHES[(i + i // 12) % len(DASHES)]


def line_chart(chart: Chart, labels: Sequence[str]) -> dict[str, Any]:
    """Lines over rows, with a band of one deviation where there are several runs."""
    kinds = list(dict.fromkeys(one.kind for one in chart.series))
    base = alt.Chart(alt.InlineData(values=_values(chart)))
    base = base.transform_filter("indexof(shown, datum.learner) >= 0")
    x = alt.X(
        "rows:Q",
        title="rows",
        scale=_scale(chart.log_x),
        axis=alt.Axis(format="~s", labelOverlap=True, tickCount=6, grid=not chart.log_x),
    )
    y_axis = alt.Axis(format=chart.format or "~g", labelOverlap=True, tickCount=6)
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
        band = base.mark_area(opacity=0.15).encode(
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
    values = [
        {
            "learner": one.label,
            "time": one.microseconds_a_row.mean,
            "loss": one.metrics[metric].mean,
            "memory": one.memory.mean,
        }
        for one in results.summaries
        if np.isfinite(one.metrics[metric].mean)
    ]
    percent = ".3~%" if metric == "error" else "~g"
    log = all(value["loss"] > 0 for value in values)
    base = (
        alt.Chart(alt.InlineData(values=values))
        .transform_filter("indexof(shown, datum.learner) >= 0")
        .encode(
            x=alt.X(
                "time:Q",
                title="microseconds a row",
                scale=alt.Scale(type="log", nice=False, padding=40),
                axis=alt.Axis(format="~g", labelOverlap=True, tickCount=5),
            ),
            y=alt.Y(
                "loss:Q",
                title=LOSSES[metric],
                scale=alt.Scale(type="log" if log else "linear", zero=False, padding=20),
                axis=alt.Axis(format=percent, labelOverlap=True, tickCount=6),
            ),
            color=_colour(labels),
            tooltip=[
                alt.Tooltip("learner:N"),
                alt.Tooltip("loss:Q", title=LOSSES[metric], format=percent),
                alt.Tooltip("time:Q", title="microseconds a row", format=".3~g"),
                alt.Tooltip("memory:Q", title="bytes", format=".3~s"),
            ],
        )
    )
    points = base.mark_point(size=90, filled=True, opacity=1)
    names = base.mark_text(dy=-12, fontSize=12).encode(text="learner:N")
    return _finished(alt.layer(points, names), labels, "Loss against time a row")


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
            if one.deviation is not None:
                # On a logarithmic axis a band may reach down to zero.
                least = mean / 10 if chart.log_y else -np.inf
                value["low"] = _short(max(mean - one.deviation[i], least))
                value["high"] = _short(mean + one.deviation[i])
            values.append(value)
    return values


def _short(value: float) -> float:
    """Five digits: a chart shows no more, and a file of many curves is half as long."""
    return float(f"{value:.5g}")
