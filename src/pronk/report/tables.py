"""The tables of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pronk.evaluate.metrics import WORDS
from pronk.evaluate.summaries import OverRuns, Results
from pronk.evaluate.wording import mean_and_deviation, microseconds, size


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
        *(WORDS.get(name, name) for name in metrics),
        f"of the last {results.comparison.window:,} rows",
        "µs a row",
        "points",
        "memory",
        "runs",
    ]
    best = [
        *(min(_means(one.metrics[name] for one in results.summaries)) for name in metrics),
        min(_means(one.recent[metrics[0]] for one in results.summaries)),
        min(_means(one.microseconds_a_row for one in results.summaries)),
    ]
    rows = []
    for i, one in enumerate(results.everyone):
        is_baseline = one is results.baseline
        time = one.microseconds_a_row
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
