"""The report of one run: metrics, charts and drift alarms in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pronk.estimators.atomic import write_atomically
from pronk.evaluate import Record
from pronk.evaluate.formatting import count, describe_rows, number
from pronk.evaluate.metrics import TITLES
from pronk.evaluate.pictures import Picture, changed_columns, pictures
from pronk.evaluate.trace import Trace, describe_change
from pronk.report.charts import HEIGHT, NUMBER, short
from pronk.report.page import Cell, Table, TableRow, render, vega_lite_version

#: Most classes in the table of calibrations.
CLASSES = 20


@dataclass(frozen=True)
class RunReport:
    """Hold the content of the report of a run."""

    file: str
    target: str
    algorithm: str
    columns: int
    window: int
    record: Record
    trace: Trace = field(repr=False)
    worse: str = ""
    """Metrics in which a baseline is better, as text."""
    settings: dict[str, str] = field(default_factory=dict)
    command: str = ""
    targets: Sequence[str] = ()
    changes: Sequence[dict[str, Any]] = ()
    """Reactions of the learner to changes of the stream (``changes_``)."""


def write_run_report(report: RunReport, path: Path) -> None:
    """Write the report atomically; an existing file is replaced."""
    write_atomically(path, run_html(report).encode())


def run_html(report: RunReport) -> str:
    """Return the report as text."""
    trace, record = report.trace, report.record
    drawn = [*pictures(trace), *changed_columns(report.changes)]
    data: dict[str, Any] = {
        "charts": {one.name: chart(one) for one in drawn},
        "labels": [],
        "baselines": [],
    }
    return render(
        "run.html",
        data,
        title=f"{Path(report.file).name}: {report.algorithm}",
        task=trace.task.capitalize(),
        target=report.target,
        what=f"{count(report.columns, 'column')}; "
        + describe_rows(record.rows, record.unpredicted)
        + (f", {record.unlabelled:,} more without a label" if record.unlabelled else ""),
        answer=_answer(report),
        metrics=_metrics(report),
        targets=_targets(report),
        first=[one for one in drawn if one.first],
        along=[one for one in drawn if one.along and not one.first],
        inside=[one for one in drawn if not one.along],
        labels=trace.task == "classification",
        classes=_classes(trace),
        alarms=_alarms(trace),
        changes=[describe_change(change) for change in report.changes],
        settings=report.settings,
        command=report.command,
    )


def _answer(report: RunReport) -> str:
    trace = report.trace
    name = trace.metric.name
    own = f"{TITLES[name]} {number(report.record.metrics[name])}"
    theirs = [f"{title} {number(one[name])}" for title, one in trace.baselines.items()]
    worse = f" Note: {report.worse}." if report.worse else ""
    alarms = count(len(trace.alarms), "drift alarm") if trace.alarms else "no drift alarm"
    text = f"{own} ({', '.join(theirs)}); {alarms}.{worse}"
    return text[0].upper() + text[1:]


def _metrics(report: RunReport) -> Table:
    record, baselines = report.record, report.trace.baselines
    recent = record.rows > report.window  # else it would be all rows again
    last = [f"last {report.window:,} rows"] if recent else []
    header = ["metric", "all rows", *last, *baselines]
    rows = [
        TableRow(
            TITLES[name],
            [
                Cell(number(v), True),
                *([Cell(number(record.windowed[name]))] if recent else []),
                *(Cell(number(one[name]) if name in one else "") for one in baselines.values()),
            ],
        )
        for name, v in record.metrics.items()
    ]
    first, second = baselines
    note = (
        "Each row is predicted before its label is learned. Two baselines use the labels of "
        f"earlier rows: the {first}, and the {second}. "
        f"{record.microseconds_per_row:.1f} µs per row in the learner."
    )
    return Table(header, rows, note)


def _targets(report: RunReport) -> Table | None:
    """Return the metrics per target, or None for a single target."""
    outputs = report.record.outputs
    if not outputs:
        return None
    rows = [
        TableRow(name, [Cell(number(value)) for value in own.values()])
        for name, own in zip(report.targets, outputs, strict=True)
    ]
    return Table(
        ["target", *map(TITLES.__getitem__, outputs[0])],
        rows,
        "The table above has the means over the targets.",
    )


def _classes(trace: Trace) -> Table | None:
    """Return the calibration of each class, the most frequent classes; None without any."""
    found = trace.calibration.table()
    if not found:
        return None
    most = sorted(found, key=lambda one: -one["rows"])[:CLASSES]
    rows = [
        TableRow(
            str(one["label"]),
            [Cell(f"{one['rows']:,}")]
            + [Cell(f"{one[name]:.3%}") for name in ("share", "probability", "error")],
        )
        for one in found
        if one in most
    ]
    note = (
        "The share of the rows that a class has, its mean predicted probability, and the mean "
        "distance between the two among rows of similar probability."
    )
    if len(found) > CLASSES:
        note += f" The {CLASSES} most frequent classes."
    return Table(["class", "rows", "share", "mean probability", "calibration error"], rows, note)


def _alarms(trace: Trace) -> Table | None:
    rows = [
        TableRow(
            f"row {alarm.row:,}",
            [Cell(f"{alarm.since:,}"), Cell(number(alarm.before)), Cell(number(alarm.after))],
        )
        for alarm in trace.alarms
    ]
    if not rows:
        return None
    seen = "the error rate" if trace.task == "classification" else (
        "e / (e + s), where e is the absolute error and s its typical size"
    )  # fmt: skip
    note = f"ADWIN monitors {seen}; it reports the row since which its mean is higher."
    return Table(["detected at", "since row", "before", "after"], rows, note)


# -- charts as Vega-Lite -----------------------------------------------------------------------


def schema() -> str:
    """Return the address of the schema of the Vega-Lite that the page contains."""
    major = vega_lite_version().partition(".")[0]
    return f"https://vega.github.io/schema/vega-lite/v{major}.json"


def chart(picture: Picture) -> dict[str, Any]:
    """Return a chart as Vega-Lite; the page defines its colours."""
    spec: dict[str, Any] = {
        "$schema": schema(),
        "width": "container",
        "height": HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "description": picture.caption,
    }
    if picture.counts is not None:
        return spec | _counts(picture)
    return spec | {"layer": _layers(picture)}


def _layers(picture: Picture) -> list[dict[str, Any]]:
    names = [curve.name for curve in picture.curves]
    values = [
        {"x": short(x), "y": short(y), "name": curve.name, "row": i}
        for curve in picture.curves
        for i, (x, y) in enumerate(zip(curve.x, curve.y, strict=True))
        if np.isfinite(x) and np.isfinite(y) and (y > 0 or not picture.log_y)
    ]
    bands = [
        {"x": short(x), "low": short(low), "high": short(high), "name": curve.name}
        for curve in picture.curves
        if curve.band is not None
        for x, low, high in zip(curve.x, *curve.band, strict=True)
        if np.isfinite(low) and np.isfinite(high)
    ]
    along = picture.x == "rows"
    share = ".3~%"
    # Row numbers of a short part of the stream are written in full.
    count = f"format(datum.value, '{',' if picture.first else '~s'}')"
    across = {"labelExpr": count if along else NUMBER}
    up = {"format": share} if picture.percent else {"labelExpr": NUMBER}
    if picture.percent and not along:
        across = {"format": share}
    x = {
        "field": "x", "type": "quantitative", "title": picture.x,
        "scale": {"zero": False, "nice": False},
        "axis": {**across, "tickCount": 6, "labelOverlap": True},
    }  # fmt: skip
    scale = {"type": "log", "nice": False} if picture.log_y else {"zero": picture.name == "points"}
    y = {
        "field": "y", "type": "quantitative", "title": picture.y,
        "scale": scale,
        "axis": {**up, "tickCount": 6, "labelOverlap": True},
    }  # fmt: skip
    legend = {
        "orient": "top",
        "title": None,
        "labelLimit": 300,
        "symbolOpacity": 1,
        "columns": 3 if len(names) < 3 else 1,
    }
    colour = {
        "field": "name", "type": "nominal", "scale": {"domain": names},
        "legend": legend if len(names) > 1 else None,
    }  # fmt: skip
    # The same legend for colour and dashes: Vega-Lite merges the two.
    dashes = {
        "field": "name", "type": "nominal", "legend": colour["legend"],
        "scale": {"domain": names,
                  "range": [[6, 3] if curve.dashed else [1, 0] for curve in picture.curves]},
    }  # fmt: skip
    tooltip = [
        {"field": "name", "type": "nominal", "title": " "},
        {"field": "x", "type": "quantitative", "title": picture.x, "format": ",.5~g"},
        {"field": "y", "type": "quantitative", "title": picture.y,
         "format": share if picture.percent else ".4~g"},
    ]  # fmt: skip
    both = {"x": x, "y": y, "color": colour}
    lines = [curve.name for curve in picture.curves if not curve.points]
    dots = [curve.name for curve in picture.curves if curve.points]
    layers: list[dict[str, Any]] = []
    if bands:
        low, high = {**y, "field": "low"}, {"field": "high"}
        layers.append({
            "data": {"values": bands},
            "mark": {"type": "area", "opacity": 0.25},
            "encoding": {"x": x, "y": low, "y2": high, "color": colour},
        })  # fmt: skip
    if lines:
        layers.append({
            "data": {"values": [v for v in values if v["name"] in lines]},
            "mark": {"type": "line", "strokeWidth": 1.2 if dots else 2},
            "encoding": {**both, "strokeDash": dashes, "order": {"field": "row"}},
        })  # fmt: skip
    if dots:
        layers.append({
            "data": {"values": [v for v in values if v["name"] in dots]},
            "mark": {"type": "point", "filled": True, "size": 18, "opacity": 0.6},
            "encoding": both,
        })  # fmt: skip
    layers.append({
        "data": {"values": values},
        # Large invisible points, which are easy to touch, show the tooltip.
        "mark": {"type": "point", "size": 120, "opacity": 0},
        "encoding": {"x": x, "y": y, "tooltip": tooltip},
    })  # fmt: skip
    if picture.alarms:
        layers.append({
            "data": {"values": [{"x": row} for row in picture.alarms]},
            "mark": {"type": "rule", "strokeDash": [3, 3], "strokeWidth": 1.5},
            "encoding": {
                "x": {"field": "x", "type": "quantitative"},
                "tooltip": [{"field": "x", "type": "quantitative", "title": "drift at row",
                             "format": ","}],
            },
        })  # fmt: skip
    return layers


def _counts(picture: Picture) -> dict[str, Any]:
    """Draw a table of counts, shaded by the share within each row."""
    assert picture.counts is not None
    labels, matrix = picture.counts
    totals = np.maximum(matrix.sum(axis=1), 1)
    values = [
        {"label": labels[i], "prediction": labels[j], "rows": int(n), "share": short(n / total)}
        for i, total in enumerate(totals)
        for j, n in enumerate(matrix[i])
    ]
    axis = {"labelAngle": 0 if _narrow(labels) else -45, "orient": "top", "labelLimit": 90}
    layers: list[dict[str, Any]] = [
        {
            "mark": "rect",
            "encoding": {
                "color": {"field": "share", "type": "quantitative", "legend": None,
                          "scale": {"domain": [0, 1]}},
                "tooltip": [{"field": "label"}, {"field": "prediction"},
                            {"field": "rows", "type": "quantitative", "format": ","},
                            {"field": "share", "type": "quantitative", "format": ".1%"}],
            },
        }
    ]  # fmt: skip
    if len(labels) <= 8:
        layers.append({"mark": {"type": "text", "fontSize": 13},
                       "encoding": {"text": {"field": "rows", "format": ","}}})  # fmt: skip
    return {
        "data": {"values": values},
        "encoding": {
            "x": {"field": "prediction", "type": "nominal", "sort": labels, "axis": axis},
            "y": {"field": "label", "type": "nominal", "sort": labels,
                  "axis": {"labelLimit": 110}},
        },
        "layer": layers,
    }  # fmt: skip


def _narrow(labels: Sequence[str]) -> bool:
    return sum(map(len, labels)) <= 30 and len(labels) <= 8
