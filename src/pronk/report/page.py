"""The report of a comparison: its charts, their code, its tables and settings in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pronk.estimators.atomic import write_whole
from pronk.evaluate.metrics import WORDS, in_which_worse
from pronk.evaluate.summaries import Results
from pronk.evaluate.wording import count, number
from pronk.report.rendering import render
from pronk.report.series import charts
from pronk.report.settings import command, parameters, settings
from pronk.report.tables import line, main_table, pm, regret_table


def write_report(results: Results, path: Path) -> None:
    """Write the report; a file of that name is replaced when the new one is complete."""
    write_whole(path, html(results).encode())


def html(results: Results) -> str:
    """The report as text."""
    from pronk.report.charts import line_chart, trade_off

    comparison = results.comparison
    labels = [one.label for one in results.everyone]
    drawn = charts(results)
    specs = {chart.name: line_chart(chart, labels) for chart in drawn}
    specs["trade-off"] = trade_off(results, labels)
    data = {
        "charts": specs,
        "labels": labels,
        "baseline": results.baseline.label if results.baseline else None,
    }
    figures = [{"name": c.name, "title": c.title, "caption": c.caption} for c in drawn]
    caption = (
        "A point a learner: down is better, left is faster. In a crowd, touch it for its name."
    )
    figures.insert(2, {"name": "trade-off", "title": "Loss against time", "caption": caption})
    order = "in the given order" if comparison.order == "given" else "each in its own random order"
    return render(
        "comparison.html",
        data,
        title=f"{Path(comparison.file).name}: {count(len(results.summaries), 'learner')} compared",
        task=comparison.task.capitalize(),
        target=comparison.target,
        what=f"{count(len(comparison.columns), 'column')}; {comparison.rows:,} rows; "
        f"{count(comparison.runs, 'run')}, {order}",
        best=_best(results),
        missing=count(results.missing, "run") if results.missing else "",
        table=main_table(results),
        worse=[
            f"{one.label} is {text}."
            for one in results.summaries
            if (text := in_which_worse(results.worse(one)))
        ],
        legend=[
            {"name": one.label, "line": line(i, one is results.baseline)}
            for i, one in enumerate(results.everyone)
        ],
        figures=figures,
        regret=regret_table(results, labels),
        settings=settings(results),
        parameters=parameters(results),
        command=command(comparison),
    )


def _best(results: Results) -> dict[str, Any] | None:
    if not results.summaries:
        return None
    metric, best, base = results.comparison.metric, results.summaries[0], results.baseline
    told = f"{base.label}: {number(base.metrics[metric].mean)}" if base is not None else ""
    figure = pm(best.metrics[metric])
    return {"loss": WORDS[metric], "label": best.label, "figure": figure, "base": told}
