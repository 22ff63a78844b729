"""The report of a comparison: its charts, their code, its tables and settings in one HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pronk.data.errors import without_secret
from pronk.data.schema import as_words
from pronk.estimators.atomic import write_atomically
from pronk.evaluate.comparison import Comparison
from pronk.evaluate.formatting import count, mean_and_deviation, microseconds, number, size
from pronk.evaluate.metrics import TITLES, describe_leads
from pronk.evaluate.results import OverRuns, Results, Summary
from pronk.report.charts import charts
from pronk.report.rendering import render

# ----------------------------------------------------------------------------------------
# The settings of a comparison, as a report tells them, and the command that runs it again.


def settings(results: Results) -> dict[str, str]:
    """What was compared on what, by name."""
    comparison, made = results.comparison, results.made
    last = comparison.seed + comparison.runs - 1
    versions = sorted(made.items(), key=lambda item: item[0] != "pronk")
    return {
        "file": f"{Path(comparison.file).name}, SHA-256 {comparison.digest[:16]}..",
        "target": comparison.target,
        "task": comparison.task
        + (f", inferred from {comparison.reason}" if comparison.reason else ""),
        "columns": ", ".join(comparison.columns),
        "left out": ", ".join(comparison.reading.drop) or "nothing",
        **_categories(comparison),
        "rows": f"{comparison.rows:,}"
        + (" (a limit)" if comparison.reading.limit else "")
        + (f", {comparison.unlabelled:,} without a label" if comparison.unlabelled else ""),
        "order": comparison.order,
        "scaling": _scaling(comparison),
        "seeds": f"{comparison.seed}" + (f" to {last}" if comparison.runs > 1 else ""),
        "machine": made.get("machine", "not known"),
        "versions": ", ".join(f"{name} {v}" for name, v in versions if name != "machine"),
    }


def parameters(results: Results) -> dict[str, str]:
    """The parameters of each learner."""
    return {_named(one): _params(one) for one in results.summaries}


def _categories(comparison: Comparison) -> dict[str, str]:
    """What became of columns that are no plain numbers."""
    told = {}
    reading, preparing = comparison.reading, comparison.preparing
    if reading.categorical:
        how = "by a hash" if preparing.encoding == "hash" else "as they come"
        names = ", ".join(reading.categorical)
        told["categories"] = f"{names}; {preparing.slots} slots each, {how}"
    if reading.missing == "mean":
        told["missing values"] = "the mean of the column so far"
    return told


def _scaling(comparison: Comparison) -> str:
    own = [f"{one.scale} for {one.label}" for one in comparison.learners if one.scale]
    return "; ".join([comparison.scale, *own])


def command(comparison: Comparison) -> str:
    """The command that runs a comparison."""
    names = [
        one.algorithm if one.label == one.algorithm else f"{one.label}={one.algorithm}"
        for one in comparison.learners
    ]
    said = ["pronk", "compare", Path(comparison.file).name, "--target", comparison.target]
    said += ["--algorithms", ",".join(names), "--runs", str(comparison.runs)]
    said += ["--order", comparison.order, "--task", comparison.task]
    if not any(one.scale for one in comparison.learners):  # else it is as nothing was chosen
        said += ["--scale", comparison.scale]
    for one in comparison.learners:
        for name, value in one.params.items():
            said += ["--param", f"{one.label}:{name}={value}"]
    chosen = comparison.reading.chosen()
    preparing = comparison.preparing.chosen() if comparison.reading.categorical else {}
    said += as_words(
        {
            name: value
            for name, value in {**chosen, **preparing}.items()
            if name not in ("file", "target", "task", "scale")
        }
    )
    if comparison.seed:
        said += ["--seed", str(comparison.seed)]
    return without_secret(shlex.join(said))


def _named(one: Summary) -> str:
    same = one.label == one.algorithm
    return one.label if same else f"{one.label} ({one.algorithm})"


def _params(one: Summary) -> str:
    own = {k: v for k, v in one.params.items() if not k.startswith("kernel__")}
    nested = {k.partition("__")[2]: v for k, v in one.params.items() if k.startswith("kernel__")}
    said = [f"{name}={value}" for name, value in own.items() if name != "kernel"]
    kernel = str(own.get("kernel", "")).partition("(")[0].lower()
    inside = ", ".join(f"{name}={value}" for name, value in nested.items())
    return ", ".join([f"kernel={kernel}({inside})", *said])


# ----------------------------------------------------------------------------------------
# The tables of a report.


@dataclass(frozen=True)
class Stroke:
    """The colour and the dashes of a learner."""

    colour: str
    dashes: str


@dataclass(frozen=True)
class Cell:
    """A text, perhaps the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class TableRow:
    """A name and its cells."""

    name: str
    cells: list[Cell]
    line: Stroke | None = None
    baseline: bool = False


@dataclass(frozen=True)
class Table:
    """A header, rows and what is said below them."""

    header: list[str]
    rows: list[TableRow]
    note: str = ""


def main_table(results: Results) -> Table:
    """The figures of all learners."""
    metrics = list(results.everyone[0].metrics)
    header = [
        "learner",
        *(TITLES.get(name, name) for name in metrics),
        f"of the last {results.comparison.window:,} rows",
        "µs a row",
        "points",
        "memory",
        "runs",
    ]
    best = [
        *(min(_means(one.metrics[name] for one in results.summaries)) for name in metrics),
        min(_means(one.recent[metrics[0]] for one in results.summaries)),
        min(_means(one.microseconds_per_row for one in results.summaries)),
    ]
    rows = []
    for i, one in enumerate(results.everyone):
        is_baseline = one is results.baseline
        time = one.microseconds_per_row
        told = [
            *((spread, pm(spread)) for spread in map(one.metrics.__getitem__, metrics)),
            (one.recent[metrics[0]], pm(one.recent[metrics[0]])),
            (time, microseconds(time.mean, time.deviation)),
        ]
        cells = [
            Cell(text, not is_baseline and spread.mean <= least)
            for (spread, text), least in zip(told, best, strict=True)
        ]
        cells += [
            Cell(f"{one.size.mean:,.0f}" if one.size else "–"),
            Cell(size(round(one.memory.mean))),
            Cell(str(one.runs)),
        ]
        rows.append(TableRow(one.label, cells, line(i, is_baseline), is_baseline))
    several = any(one.runs > 1 for one in results.everyone)
    caption = (
        f"Mean{' ± standard deviation over the runs' if several else ''}; each row is predicted "
        "before its label is learned. Time: in the learner, on one core. Points and memory: at the "
        "end."
    )
    return Table(header, rows, caption)


def regret_table(results: Results, labels: Sequence[str]) -> Table | None:
    """Regret and bound of the learners that know them."""
    rows = []
    for one in results.summaries:
        ends = [_ends(record["result"]["curve"]) for record in one.records]
        regrets = [regret for regret, _ in ends if regret is not None]
        bounds = [bound for _, bound in ends if bound is not None]
        if not regrets:
            continue
        known = pm(OverRuns.of(bounds)) if bounds else "not known"
        cells = [Cell(pm(OverRuns.of(regrets))), Cell(known)]
        rows.append(TableRow(one.label, cells, line(labels.index(one.label), False)))
    if not rows:
        return None
    caption = (
        "The cumulative loss that the learner works with (squared, of its real-valued predictions) "
        "minus that of the best function in hindsight with its norm paid for, after all rows; and "
        "what the theory says it cannot exceed."
    )
    return Table(["learner", "regret", "at most"], rows, caption)


def _ends(curve: dict[str, Any]) -> tuple[float | None, float | None]:
    return (curve.get("regret") or [None])[-1], (curve.get("bound") or [None])[-1]


def line(i: int, is_baseline: bool) -> Stroke:
    """How the i-th learner is drawn."""
    from pronk.report.charts import dash

    colour = "--grey" if is_baseline else f"--c{i % 8}"
    return Stroke(colour, " ".join(map(str, dash(i))))


def _means(spreads: Iterable[OverRuns]) -> list[float]:
    return [spread.mean for spread in spreads] or [float("-inf")]


def pm(spread: OverRuns) -> str:
    return mean_and_deviation(spread.mean, spread.deviation)


def write_report(results: Results, path: Path) -> None:
    """Write the report; a file of that name is replaced when the new one is complete."""
    write_atomically(path, html(results).encode())


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
            if (text := describe_leads(results.worse(one)))
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
    return {"loss": TITLES[metric], "label": best.label, "figure": figure, "base": told}
