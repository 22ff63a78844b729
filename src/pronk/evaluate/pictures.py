"""The pictures of a run, the same in its report and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pronk.evaluate.baselines import BASELINES
from pronk.evaluate.drawing import Array, Curve, Picture
from pronk.evaluate.metrics import COUNT, TITLES
from pronk.evaluate.trace import CHALLENGER, RECENT, TRIAL_END, Trace

#: Most experts drawn, and most labels in a table.
EXPERTS, LABELS = 6, 20
#: Fewest rows in a bin whose share is drawn.
FEW = 10
#: Segments of a curve along the stream, and fewest entries of the model history that are drawn.
SEGMENTS, ENTRIES = 64, 3
#: Fewest rows whose coverage is drawn as one value, and fewest such values of a shorter stream.
COVERAGE_ROWS, COVERAGE_VALUES = 400, 3
#: Half-width of the central 95 % of a normal distribution, in standard deviations.
CENTRAL = 1.96


def pictures(trace: Trace) -> list[Picture]:
    """Return the pictures of a run, those along the stream first."""
    drawn = [_targets, _losses, _coverage, _sizes, _experts, _calibration, _confusion, _residuals]
    return [picture for draw in drawn for picture in draw(trace)]


#: Columns that changed that are drawn.
CHANGED = 4


def changed_columns(changes: Sequence[dict[str, Any]]) -> Iterator[Picture]:
    """Draw the columns that changed at the last alarm that names any (``changes_``)."""
    named = [change for change in changes if change.get("details")]
    for i, one in enumerate(named[-1]["details"][:CHANGED] if named else []):
        if one["changed"] == "distribution":
            title, x, y = f"{one['column']}: its distribution changed", "quantile", one["column"]
            shown, places = "10, 50 and 90 % quantiles", np.array([0.1, 0.5, 0.9])
        else:
            title, x, y = f"{one['column']}: its relation to y changed", "third", "y - prediction"
            shown, places = "Mean error in each third of the column,", np.array([1.0, 2.0, 3.0])
        caption = f"{shown} before and since the change at row {named[-1]['row']:,}."
        curves = [
            Curve(name, places, np.array(one[name]), dashed=name == "before")
            for name in ("before", "since")
        ]
        yield Picture(f"changed{i}", title, caption, x, y, curves, along=False)


def _segments(trace: Trace) -> tuple[Array, Array, int]:
    """Return the ends of the drawn segments, the means over them, and their length."""
    ends, means, length = trace.segments.curve(SEGMENTS)
    return ends.astype(np.float64), means, length


def _targets(trace: Trace) -> Iterator[Picture]:
    """Draw y, its prediction and its interval: the last rows, and some of all rows."""
    last, held = trace.recent, trace.sample.held
    rows = np.arange(trace.sample.rows - len(last), trace.sample.rows, dtype=np.float64) + 1
    interval = f" The band is the {trace.nominal_coverage:.0%} interval." if trace.interval else ""
    if len(last) > 1:
        which = f"the last {len(last):,} rows" if len(held) and rows[0] > 1 else "all rows"
        caption = f"Each prediction was made before y was learned.{interval}"
        title = f"y and its prediction: {which}"
        curves = _with_prediction(rows, last)
        yield Picture("recent", title, caption, "rows", "y", curves, first=True)
    if trace.sample.rows > RECENT:
        title, caption = "y and its prediction: the whole stream", f"{_every(trace)}.{interval}"
        curves = _with_prediction(held[:, 0] + 1, held[:, 1:])
        yield Picture("stream", title, caption, "rows", "y", curves)


def _every(trace: Trace) -> str:
    """Return which rows are in the sample."""
    stride = trace.sample.stride
    return f"One row in {stride:,}" if stride > 1 else "Every row"


def _with_prediction(rows: Array, values: Array) -> list[Curve]:
    """Return curves of prediction and y; values (n, 2 or 4) are y, prediction, ends."""
    band = (values[:, 2], values[:, 3]) if values.shape[1] == 4 else None
    return [
        Curve("prediction", rows, values[:, 1], band=band),
        Curve("y", rows, values[:, 0], points=True),
    ]


def _losses(trace: Trace) -> Iterator[Picture]:
    word = TITLES[trace.metric.name]
    ends, means, length = _segments(trace)
    rows = trace.segments.ends.astype(np.float64)
    sums = trace.segments.sums.cumsum(axis=0)
    names = ["learner", *BASELINES[trace.task]]
    alarms = [alarm.row for alarm in trace.alarms]
    share = trace.task == "classification"
    shown = means[:, :3][means[:, :3] > 0]
    log = not share and len(shown) > 1 and shown.max() > 20 * shown.min()
    legend = "; vertical lines are drift alarms" if alarms else ""
    yield Picture(
        "loss",
        f"{word.capitalize()} along the stream",
        f"Mean over {length:,} rows at a time, each predicted before its label "
        f"was learned{legend}.",
        "rows",
        word,
        [Curve(names[i], ends, means[:, i], dashed=i > 0) for i in range(3)],
        log_y=log,
        percent=share,
        alarms=alarms,
    )
    yield Picture(
        "so-far",
        f"{word.capitalize()} so far",
        "Mean over all scored rows up to here.",
        "rows",
        word,
        [Curve(names[i], rows, sums[:, i] / sums[:, -1], dashed=i > 0) for i in range(3)],
        log_y=log,
        percent=share,
    )


def _coverage(trace: Trace) -> Iterator[Picture]:
    if not trace.interval:
        return
    shortest = min(COVERAGE_ROWS, max(1, trace.segments.rows // COVERAGE_VALUES))
    ends, means, length = trace.segments.curve(SEGMENTS, shortest)
    counts, rows = np.diff(ends, prepend=0), ends.astype(np.float64)
    share = trace.nominal_coverage
    nominal = np.full(len(rows), share)
    # Standard deviation of the share of n independent rows: sqrt(p (1 - p) / n).
    noise = CENTRAL * np.sqrt(share * (1.0 - share) / counts)
    band = np.maximum(nominal - noise, 0.0), np.minimum(nominal + noise, 1.0)
    covered = (
        f"{trace.coverage:.1%} of all intervals contained y. Share over {length:,} rows at a time; "
        "with exact intervals and independent rows 95% of the shares lie in the band."
    )
    every, widths, several = _segments(trace)
    curves = [
        Curve("measured", rows, means[:, 3]),
        Curve("nominal", rows, nominal, dashed=True, band=band),
    ]
    title, y = "Coverage of the intervals", "share that contained y"
    yield Picture("coverage", title, covered, "rows", y, curves, percent=True)
    title, caption = "Width of the intervals", f"Mean over {several:,} rows at a time."
    curves = [Curve("width", every, widths[:, 4])]
    yield Picture("width", title, caption, "rows", "width", curves)


def _sizes(trace: Trace) -> Iterator[Picture]:
    entries = trace.model_history.entries
    sizes = [(rows, values["points"]) for rows, values in entries if "points" in values]
    if len(sizes) >= ENTRIES:
        curve = Curve("points", *np.array(sizes, dtype=np.float64).T)
        caption = "Support vectors or dictionary points."
        yield Picture("points", "Points held", caption, "rows", "points", [curve])


def _experts(trace: Trace) -> Iterator[Picture]:
    entries = trace.model_history.entries
    totals: dict[str, float] = {}
    for _, values in entries:
        for name, weight in values.items():
            if name not in ("points", TRIAL_END, CHALLENGER):
                totals[name] = totals.get(name, 0.0) + weight
    heavy = sorted(totals, key=lambda name: -totals[name])[:EXPERTS]
    known = [(rows, values) for rows, values in entries if set(values) - {"points"}]
    if heavy and len(known) >= ENTRIES:
        x = np.array([rows for rows, _ in known], dtype=np.float64)
        curves = [Curve(n, x, np.array([v.get(n, 0.0) for _, v in known])) for n in heavy]
        caption = (
            f"The {len(heavy)} experts with the largest weights; bandwidths in multiples of "
            "the median distance of the first rows."
        )
        rows, shares = np.array(_challenger_shares(known)).T
        if shares.any():
            curves.insert(0, Curve("challenger, all experts", rows, shares, dashed=True))
            caption += (
                " After an alarm a challenger starts; if it replaces the old learner, its experts "
                "have the weights."
            )
        if alarms := [alarm.row for alarm in trace.alarms]:
            caption += " Vertical lines are drift alarms."
        title = "Weights of the experts"
        yield Picture(
            "experts", title, caption, "rows", "weight", curves, percent=True, alarms=alarms
        )


def _challenger_shares(entries: list[tuple[int, dict[str, float]]]) -> list[tuple[float, float]]:
    """Return rows and weights of the challenger, which has none after the end of its trial."""
    found: list[tuple[float, float]] = []
    for rows, values in entries:
        if TRIAL_END in values and found:
            found += [(values[TRIAL_END], found[-1][1]), (values[TRIAL_END], 0.0)]
        found.append((float(rows), values.get(CHALLENGER, 0.0)))
    return found


def _calibration(trace: Trace) -> Iterator[Picture]:
    if not trace.probabilities:
        return
    bins = trace.calibration.sums.sum(axis=0)
    # Bins with few rows are not drawn.
    shares, hits, rows = bins[bins[:, COUNT] >= min(FEW, max(1, bins[:, COUNT].max()))].T
    ideal = np.array([0.0, 1.0])
    if len(rows):
        yield Picture(
            "calibration",
            "Calibration of the probabilities",
            "How often a class with this predicted probability occurred, over all rows and "
            "classes; on the dashed line both are equal.",
            "predicted probability",
            "share of rows of the class",
            [
                Curve("learner", shares / rows, hits / rows),
                Curve("ideal", ideal, ideal, dashed=True),
            ],
            percent=True,
            along=False,
        )


def _confusion(trace: Trace) -> Iterator[Picture]:
    labels, matrix = trace.counts.labels, trace.counts.matrix
    if not len(labels):
        return
    caption = "Rows by label and prediction; the shade is the share of the label's rows."
    if len(labels) > LABELS:
        most = np.sort(np.argsort(-matrix.sum(axis=1), kind="stable")[:LABELS])
        labels, matrix = [labels[i] for i in most], matrix[np.ix_(most, most)]
        caption += f" The {LABELS} most frequent labels."
    title, counts = "Labels and predictions", ([str(label) for label in labels], matrix)
    yield Picture("confusion", title, caption, "prediction", "label", counts=counts, along=False)


def _residuals(trace: Trace) -> Iterator[Picture]:
    if not len(trace.sample.held):
        return
    rows, y, p = trace.sample.held.T[:3]
    caption = f"y minus its prediction. {_every(trace)}."
    curves = [Curve("residual", rows, y - p, points=True)]
    yield Picture("residuals", "Residuals", caption, "rows", "residual", curves, along=False)
    ends = np.array([min(y.min(), p.min()), max(y.max(), p.max())])
    title, caption = "Predictions against y", f"On the dashed line they are equal. {_every(trace)}."
    curves = [Curve("row", p, y, points=True), Curve("equal", ends, ends, dashed=True)]
    yield Picture("against", title, caption, "prediction", "y", curves, along=False)
