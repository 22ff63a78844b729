"""The report of a comparison: tables, charts and settings in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pronk.estimators.atomic import write_atomically
from pronk.evaluate.comparison import OverRuns, Results, Summary
from pronk.evaluate.drawing import Style
from pronk.evaluate.formatting import (
    count,
    describe_rows,
    mean_and_deviation,
    microseconds,
    number,
    size,
)
from pronk.evaluate.metrics import TITLES
from pronk.evaluate.tables import Cell, Table, TableRow
from pronk.report.charts import charts, trade_off
from pronk.report.page import render

# -- settings --------------------------------------------------------------------------------------


def settings(results: Results) -> dict[str, str]:
    """Return the settings of a comparison by name."""
    comparison, made = results.comparison, results.made
    scaling = [f"{one.scale} for {one.label}" for one in comparison.learners if one.scale]
    last = comparison.seed + comparison.runs - 1
    versions = sorted(made.items(), key=lambda item: item[0] != "pronk")
    return {
        "file": f"{Path(comparison.file).name}, SHA-256 {comparison.digest[:16]}..",
        "target": comparison.target,
        "task": comparison.task
        + (f", inferred from {comparison.reason}" if comparison.reason else ""),
        "columns": ", ".join(comparison.columns),
        "rows": f"{comparison.rows:,}"
        + (" (limited)" if comparison.reading.limit else "")
        + (f", {comparison.unlabelled:,} without a label" if comparison.unlabelled else ""),
        "order": comparison.order,
        "scaling": "; ".join([comparison.scale, *scaling]),
        "seeds": f"{comparison.seed}" + (f" to {last}" if comparison.runs > 1 else ""),
        "machine": made.get("machine", "unknown"),
        "versions": ", ".join(f"{name} {v}" for name, v in versions if name != "machine"),
    }


def parameters(results: Results) -> dict[str, str]:
    """Return the parameters of each learner."""
    found = {}
    for one in results.summaries:
        name = one.label if one.label == one.algorithm else f"{one.label} ({one.algorithm})"
        params = [f"{key.removeprefix('kernel__')}={v}" for key, v in one.params.items()]
        found[name] = ", ".join(params)
    return found


# -- tables ----------------------------------------------------------------------------------------


def main_table(results: Results) -> Table:
    """Return the table of all learners."""
    metrics = list(results.everyone[0].metrics)
    header = [
        "learner",
        *(TITLES.get(name, name) for name in metrics),
        f"last {results.comparison.window:,} rows",
        "µs per row",
        "points",
        "memory",
        "runs",
    ]

    def compared(one: Summary) -> list[OverRuns]:
        metrics_ = [one.metrics[name] for name in metrics]
        return [*metrics_, one.recent[metrics[0]], one.microseconds_per_row]

    means = [[values.mean for values in compared(one)] for one in results.summaries]
    best = [min(column) for column in zip(*means, strict=True)]
    rows = []
    for i, one in enumerate(results.everyone):
        is_baseline = one in results.baselines
        *losses, time = compared(one)
        texts = [*map(pm, losses), microseconds(time.mean, time.deviation)]
        texts += [
            f"{one.size.mean:,.0f}" if one.size else "–",
            size(round(one.memory.mean)),
            str(one.runs),
        ]
        leading = {j for j, values in enumerate(compared(one)) if best and values.mean <= best[j]}
        cells = [Cell(text, not is_baseline and j in leading) for j, text in enumerate(texts)]
        rows.append(TableRow(one.label, cells, Style.of(i, is_baseline), is_baseline))
    several = any(one.runs > 1 for one in results.everyone)
    caption = (
        f"Mean{' ± standard deviation over the runs' if several else ''}; each row is predicted "
        "before its label is learned. Time is spent in the learner, on one core. Points and memory "
        "are those at the end."
    )
    return Table(header, rows, caption)


def regret_table(results: Results, labels: Sequence[str]) -> Table | None:
    """Return the table of regrets and bounds, or None if no learner has them."""
    rows = []
    for one in results.summaries:
        curves = [record["result"]["curve"] for record in one.records]
        regrets, bounds = (
            [end for curve in curves if (end := (curve.get(name) or [None])[-1]) is not None]
            for name in ("regret", "bound")
        )
        if not regrets:
            continue
        bound = pm(OverRuns.of(bounds)) if bounds else "unknown"
        cells = [Cell(pm(OverRuns.of(regrets))), Cell(bound)]
        rows.append(TableRow(one.label, cells, Style.of(labels.index(one.label))))
    if not rows:
        return None
    caption = (
        "Regret after all rows: the cumulative squared loss of the learner's real-valued "
        "predictions minus the regularised loss of the best function in hindsight; and the bound "
        "of the theory."
    )
    return Table(["learner", "regret", "bound"], rows, caption)


def pm(values: OverRuns) -> str:
    """Format a mean and its standard deviation over the runs."""
    return mean_and_deviation(values.mean, values.deviation)


# -- page ------------------------------------------------------------------------------------------


def describe(results: Results) -> str:
    """Describe the data and the runs."""
    comparison = results.comparison
    order = "in the given order" if comparison.order == "given" else "each in its own random order"
    without = f", {comparison.unlabelled:,} without a label" if comparison.unlabelled else ""
    return (
        f"{count(len(comparison.columns), 'column')}; "
        f"{describe_rows(comparison.rows, results.unpredicted)}{without}; "
        f"{count(comparison.runs, 'run')}, {order}"
    )


def write_report(results: Results, path: Path, command: str = "") -> None:
    """Write the report atomically; an existing file is replaced."""
    write_atomically(path, html(results, command).encode())


def html(results: Results, command: str = "") -> str:
    """Return the report as text; ``command`` made the results."""
    comparison = results.comparison
    labels = [one.label for one in results.everyone]
    figures = charts(results)
    figures.insert(2, trade_off(results))
    return render(
        "comparison.html",
        title=f"{Path(comparison.file).name}: {count(len(results.summaries), 'learner')} compared",
        task=comparison.task.capitalize(),
        target=comparison.target,
        what=describe(results),
        best=_best(results),
        missing=count(results.missing, "run") if results.missing else "",
        table=main_table(results),
        worse=[f"{one.label}: {text}." for one in results.summaries for text in results.notes(one)],
        legend=[
            {"name": one.label, "line": Style.of(i, one in results.baselines)}
            for i, one in enumerate(results.everyone)
        ],
        figures=figures,
        regret=regret_table(results, labels),
        settings=settings(results),
        parameters=parameters(results),
        command=command,
    )


def _best(results: Results) -> dict[str, Any] | None:
    if not results.summaries:
        return None
    metric, best = results.comparison.metric, results.summaries[0]
    baseline = ", ".join(f"{one.label}: {number(one.means[metric])}" for one in results.baselines)
    figure = pm(best.metrics[metric])
    return {"loss": TITLES[metric], "label": best.label, "figure": figure, "base": baseline}
