"""The report of one run: metrics, charts and drift alarms in one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pronk.estimators.atomic import write_atomically
from pronk.evaluate import Evaluation, Record
from pronk.evaluate.drawing import Picture
from pronk.evaluate.formatting import count, describe_rows, number
from pronk.evaluate.metrics import TITLES
from pronk.evaluate.pictures import changed_columns, pictures
from pronk.evaluate.tables import Cell, Table, TableRow, metrics_table, targets_table
from pronk.evaluate.trace import Trace, describe_change
from pronk.report.page import render

#: Most classes in the table of calibrations; directions and columns in that of directions.
CLASSES, DIRECTIONS, COLUMNS = 20, 4, 12


def write_run_report(path: Path, **content: Any) -> None:
    """Write the page of `run_html` atomically; an existing file is replaced."""
    write_atomically(path, run_html(**content).encode())


def run_html(
    *,
    file: str,
    target: str,
    algorithm: str,
    columns: int,
    evaluation: Evaluation,
    record: Record,
    settings: Mapping[str, str],
    command: str,
    targets: Sequence[str],
    changes: Sequence[dict[str, Any]],
    directions: Sequence[dict[str, Any]],
) -> str:
    """Return the report as text; ``record`` is the last one of the evaluation.

    ``changes`` and ``directions`` are the learner's ``changes_`` and ``directions_``.
    """
    trace = evaluation.trace
    assert trace is not None
    drawn = [*pictures(trace), *changed_columns(changes)]
    return render(
        "run.html",
        title=f"{Path(file).name}: {algorithm}",
        task=trace.task.capitalize(),
        target=target,
        what=f"{count(columns, 'column')}; "
        + describe_rows(record.rows, record.unpredicted)
        + (f", {record.unlabelled:,} more without a label" if record.unlabelled else ""),
        answer=_answer(evaluation, record, trace),
        metrics=_metrics(evaluation, record, trace),
        targets=targets_table(targets, record.outputs),
        first=[one for one in drawn if one.first],
        along=[one for one in drawn if one.along and not one.first],
        inside=[one for one in drawn if not one.along and one.counts is None],
        confusion=[_counts(one) for one in drawn if one.counts is not None],
        labels=trace.task == "classification",
        classes=_classes(trace),
        alarms=_alarms(trace),
        directions=_directions(directions),
        changes=[describe_change(change) for change in changes],
        settings=settings,
        command=command,
    )


def _answer(evaluation: Evaluation, record: Record, trace: Trace) -> str:
    name = trace.metric.name
    own = f"{TITLES[name]} {number(record.metrics[name])}"
    theirs = [f"{title} {number(one[name])}" for title, one in trace.baselines.items()]
    worse = "; ".join(evaluation.notes)
    alarms = count(len(trace.alarms), "drift alarm") if trace.alarms else "no drift alarm"
    text = f"{own} ({', '.join(theirs)}); {alarms}.{f' Note: {worse}.' if worse else ''}"
    return text[0].upper() + text[1:]


def _metrics(evaluation: Evaluation, record: Record, trace: Trace) -> Table:
    first, second = trace.baselines
    return metrics_table(
        evaluation,
        "Each row is predicted before its label is learned. Two baselines use the labels of "
        f"earlier rows: the {first}, and the {second}. "
        f"{record.microseconds_per_row:.1f} µs per row in the learner.",
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


def _counts(picture: Picture) -> Table:
    """Return the table of labels and predictions; a shade is a share of the label's rows."""
    assert picture.counts is not None
    labels, matrix = picture.counts
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    rows = [
        TableRow(
            label, [Cell(f"{n:,}", shade=float(share)) for n, share in zip(*pair, strict=True)]
        )
        for label, *pair in zip(labels, matrix, shares, strict=True)
    ]
    return Table(["label \\ prediction", *labels], rows, picture.caption)


def _directions(found: Sequence[dict[str, Any]]) -> Table | None:
    """Return the columns of the first directions, those of the strongest first; None without."""
    found = found[:DIRECTIONS]
    names = list(dict.fromkeys(name for one in found for name in one["columns"]))[:COLUMNS]
    if not names:
        return None
    rows = []
    for name in names:
        weights = [one["columns"].get(name) for one in found]
        cells = [
            Cell("", shade=0.0) if w is None else Cell(f"{w:.2f}", shade=abs(w)) for w in weights
        ]
        rows.append(TableRow(name, cells))
    note = (
        "Weights of the columns, as scaled, in the combinations along which the prediction changes "
        "most, and their shares of the whole change, in squares."
    )
    header = [f"direction {i}: {one['share']:.0%}" for i, one in enumerate(found, 1)]
    return Table(["column", *header], rows, note)


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
