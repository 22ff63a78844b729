"""The charts of a run, as data: the same in its report and in a notebook.

A picture holds lines over rows, points, or a table of counts. `pronk.report` draws pictures for a
browser, `draw` with Matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.metrics import COUNT, TITLES
from pronk.evaluate.trace import Trace

Array = NDArray[np.float64]

#: Distinct on white for colour-blind readers too; the report has the same.
COLOURS = (
    "#0072b2", "#c44e00", "#007a5a", "#a83279", "#7a6200", "#5a4fcf", "#008ba3", "#b0171f",
)  # fmt: skip
#: Most experts drawn, and most labels in a table.
EXPERTS, LABELS = 6, 20
#: Fewest rows in a bin whose share is drawn.
FEW = 10
#: Segments of a curve along the stream, and fewest entries of the model history that are drawn.
SEGMENTS, ENTRIES = 64, 3


@dataclass(frozen=True)
class Curve:
    """A line, or points, with its name."""

    name: str
    x: Array
    y: Array
    dashed: bool = False


@dataclass(frozen=True)
class Picture:
    """One chart: curves, points or a table of counts, with title and caption."""

    name: str
    title: str
    caption: str
    x: str
    y: str
    curves: list[Curve] = field(default_factory=list)
    points: bool = False
    log_y: bool = False
    percent: bool = False
    alarms: list[int] = field(default_factory=list)
    counts: tuple[list[str], NDArray[np.int64]] | None = None
    along: bool = True
    """Whether the horizontal axis is the stream."""


def pictures(trace: Trace) -> list[Picture]:
    """Return the pictures of a run, those along the stream first."""
    drawn = [*_losses(trace), *_coverage(trace), *_model_history(trace)]
    if trace.task == "classification":
        drawn += [*_calibration(trace), *_confusion(trace)]
    elif len(trace.sample.held):
        drawn += _residuals(trace)
    return drawn


def _segments(trace: Trace) -> tuple[Array, Array, int]:
    """Return the ends of the drawn segments, the means over them, and their length."""
    ends, means, length = trace.segments.curve(SEGMENTS)
    return ends.astype(np.float64), means, length


def _losses(trace: Trace) -> list[Picture]:
    word = TITLES[trace.metric.name]
    ends, means, length = _segments(trace)
    rows = trace.segments.ends.astype(np.float64)
    sums = trace.segments.sums.cumsum(axis=0)
    naive = "most frequent label" if trace.task == "classification" else "running mean"
    alarms = [alarm.row for alarm in trace.alarms]
    share = trace.task == "classification"
    shown = means[:, :2][means[:, :2] > 0]
    log = not share and len(shown) > 1 and shown.max() > 20 * shown.min()
    legend = "; vertical lines are drift alarms" if alarms else ""
    return [
        Picture(
            "loss",
            f"{word.capitalize()} along the stream",
            f"Mean over {length:,} rows at a time, each predicted before its label "
            f"was learned{legend}.",
            "rows",
            word,
            [Curve("learner", ends, means[:, 0]), Curve(naive, ends, means[:, 1], True)],
            log_y=log,
            percent=share,
            alarms=alarms,
        ),
        Picture(
            "so-far",
            f"{word.capitalize()} so far",
            "Mean over all rows up to here.",
            "rows",
            word,
            [
                Curve("learner", rows, sums[:, 0] / sums[:, -1]),
                Curve(naive, rows, sums[:, 1] / sums[:, -1], True),
            ],
            log_y=log,
            percent=share,
        ),
    ]


def _coverage(trace: Trace) -> list[Picture]:
    if not trace.interval:
        return []
    rows, means, _ = _segments(trace)
    known = ~np.isnan(means[:, 2])  # a resumed model may have started without intervals
    if not known.any():
        return []
    rows, means = rows[known], means[known]
    covered = f"{trace.coverage:.1%} of all intervals contained y."
    nominal = np.full(len(rows), trace.nominal_coverage)
    return [
        Picture(
            "coverage", "Coverage of the intervals", covered, "rows", "share that contained y",
            [Curve("measured", rows, means[:, 2]), Curve("nominal", rows, nominal, True)],
            percent=True,
        ),
        Picture(
            "width", "Width of the intervals", "Mean over the same rows.", "rows", "width",
            [Curve("width", rows, means[:, 3])],
        ),
    ]  # fmt: skip


def _model_history(trace: Trace) -> list[Picture]:
    entries, drawn = trace.model_history.entries, []
    sizes = [(rows, values["points"]) for rows, values in entries if "points" in values]
    if len(sizes) >= ENTRIES:
        x, y = np.array(sizes, dtype=np.float64).T
        drawn.append(
            Picture(
                "points", "Points held", "Support vectors or dictionary points.", "rows", "points",
                [Curve("points", x, y)],
            )
        )  # fmt: skip
    totals: dict[str, float] = {}
    for _, values in entries:
        for name, weight in values.items():
            if name != "points":
                totals[name] = totals.get(name, 0.0) + weight
    heavy = sorted(totals, key=lambda name: -totals[name])[:EXPERTS]
    known = [(rows, values) for rows, values in entries if set(values) - {"points"}]
    if heavy and len(known) >= ENTRIES:
        x = np.array([rows for rows, _ in known], dtype=np.float64)
        curves = [Curve(n, x, np.array([v.get(n, 0.0) for _, v in known])) for n in heavy]
        drawn.append(
            Picture(
                "experts",
                "Weights of the experts",
                f"The {len(heavy)} experts with the largest weights; bandwidths in multiples of "
                "the median distance of the first rows.",
                "rows", "weight", curves, percent=True,
            )
        )  # fmt: skip
    return drawn


def _calibration(trace: Trace) -> list[Picture]:
    bins = trace.calibration.sums.sum(axis=0)
    # Bins with few rows are not drawn.
    shares, hits, rows = bins[bins[:, COUNT] >= min(FEW, max(1, bins[:, COUNT].max()))].T
    if not trace.probabilities or not len(rows):
        return []
    ideal = np.array([0.0, 1.0])
    return [
        Picture(
            "calibration",
            "Calibration of the probabilities",
            "How often a class with this predicted probability occurred, over all rows and "
            "classes; on the dashed line both are equal.",
            "predicted probability",
            "share of rows of the class",
            [Curve("learner", shares / rows, hits / rows), Curve("ideal", ideal, ideal, True)],
            percent=True,
            along=False,
        )
    ]


def _confusion(trace: Trace) -> list[Picture]:
    labels, matrix = trace.counts.labels, trace.counts.matrix
    if not len(labels):
        return []
    caption = "Rows by label and prediction; the shade is the share of the label's rows."
    if len(labels) > LABELS:
        most = np.sort(np.argsort(-matrix.sum(axis=1), kind="stable")[:LABELS])
        labels, matrix = [labels[i] for i in most], matrix[np.ix_(most, most)]
        caption += f" The {LABELS} most frequent labels."
    counts = ([str(label) for label in labels], matrix)
    return [
        Picture(
            "confusion", "Labels and predictions", caption, "prediction", "label", counts=counts,
            along=False,
        )
    ]  # fmt: skip


def _residuals(trace: Trace) -> list[Picture]:
    rows, y, p = trace.sample.held.T[:3]
    ends = np.array([min(y.min(), p.min()), max(y.max(), p.max())])
    stride = trace.sample.stride
    every = f"One row in {stride:,}" if stride > 1 else "Every row"
    return [
        Picture(
            "residuals", "Residuals", f"y minus its prediction. {every}.", "rows", "residual",
            [Curve("residual", rows, y - p)], points=True, along=False,
        ),
        Picture(
            "against", "Predictions against y", f"On the dashed line they are equal. {every}.",
            "prediction", "y", [Curve("row", p, y), Curve("equal", ends, ends, True)], points=True,
            along=False,
        ),
    ]  # fmt: skip


# -- with Matplotlib ---------------------------------------------------------------------------


def draw(drawn: Sequence[Picture], width: float = 11.0) -> Any:
    """Draw the pictures in a Matplotlib figure, two side by side."""
    from matplotlib.figure import Figure

    lines = -(-len(drawn) // 2)
    figure = Figure(figsize=(width, 3.1 * lines), layout="constrained")
    for i, picture in enumerate(drawn):
        axes = figure.add_subplot(lines, 2, i + 1)
        axes.set_title(picture.title, fontsize=10, loc="left")
        axes.set_xlabel(picture.x, fontsize=9)
        axes.set_ylabel(picture.y, fontsize=9)
        axes.tick_params(labelsize=8)
        if picture.counts is not None:
            _draw_counts(axes, *picture.counts)
            continue
        for j, curve in enumerate(picture.curves):
            _draw_curve(axes, picture, curve, COLOURS[j % len(COLOURS)])
        for row in picture.alarms:
            axes.axvline(row, color=COLOURS[-1], linewidth=0.8, alpha=0.7)
        if picture.log_y:
            axes.set_yscale("log")
        axes.grid(alpha=0.25, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        if len(picture.curves) > 1:
            axes.legend(fontsize=7, frameon=False)
    return figure


def _draw_curve(axes: Any, picture: Picture, curve: Curve, colour: str) -> None:
    if picture.points and not curve.dashed:
        axes.plot(curve.x, curve.y, ".", color=colour, markersize=3, alpha=0.6, label=curve.name)
        return
    style = "--" if curve.dashed else "-"
    axes.plot(curve.x, curve.y, style, color=colour, linewidth=1.3, label=curve.name)


def _draw_counts(axes: Any, labels: list[str], matrix: NDArray[np.int64]) -> None:
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(labels)), labels, rotation=45 if len(labels) > 4 else 0)
    axes.set_yticks(range(len(labels)), labels)
    for (i, j), count in np.ndenumerate(matrix):
        colour = "white" if shares[i, j] > 0.6 else "black"
        axes.text(j, i, f"{count:,}", ha="center", va="center", fontsize=7, color=colour)
