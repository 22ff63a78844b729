"""The results of a comparison on the screen, as JSON, and as a report and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from pronk.cli import screen
from pronk.cli.errors import CommandError
from pronk.cli.outputs import check_directory, check_figure_tools, check_file
from pronk.cli.places import refuse_input
from pronk.evaluate.comparison import RECORDS
from pronk.evaluate.metrics import WORDS, in_which_worse
from pronk.evaluate.summaries import OverRuns, Results, Summary
from pronk.evaluate.wording import mean_and_deviation, microseconds
from pronk.streams.sources import Origins


def check_report(
    option: str, path: Path | None, figures: Path | None, read: Origins | None = None
) -> None:
    """Better now than after an hour: can the report be made and written?"""
    check_figure_tools(figures)
    if path is not None:
        if read is not None:
            refuse_input(option, path, read)
        check_file(option, path)
    if figures is not None:
        check_directory("--figures", figures)


def note_damage(lines: int, directory: Path) -> None:
    """Tell of records that could not be read."""
    if lines:
        what = "1 line" if lines == 1 else f"{lines} lines"
        screen.note(f"{what} of {directory / RECORDS} cannot be read and counts for nothing")


def write(found: Results, report: Path | None, figures: Path | None) -> None:
    """The report and the figures that are asked for."""
    from pronk.report import write_figures, write_report

    try:
        if report is not None:
            write_report(found, report)
        if figures is not None:
            write_figures(found, figures)
    except OSError as error:
        name = error.filename or report or figures
        raise CommandError(f"{str(name)!r} cannot be written: {error.strerror or error}") from None


def show(found: Results) -> None:
    """The table."""
    comparison, console = found.comparison, screen.output()
    guessed = f" (guessed from {comparison.reason})" if comparison.reason else ""
    runs = "1 run" if comparison.runs == 1 else f"{comparison.runs} runs"
    order = "in the given order" if comparison.order == "given" else "each in its own random order"
    without = f", {comparison.unlabelled:,} without a label" if comparison.unlabelled else ""
    title = f"{Path(comparison.file).name}, target {comparison.target}"
    console.print(title, style="bold", markup=False)
    console.print(
        f"{comparison.task}{guessed}; {comparison.rows:,} rows of {len(comparison.columns)} "
        f"columns{without}; {runs}, {order}\n",
        markup=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("learner", style="bold", overflow="fold")
    metrics = list(found.everyone[0].metrics)
    for name in (*(WORDS.get(name, name) for name in metrics), "us a row", "points", "memory"):
        table.add_column(name, justify="right", no_wrap=name not in WORDS.values())
    for one in found.everyone:
        style = "dim" if one is found.baseline else None
        table.add_row(one.label, *_cells(one, metrics), style=style)
    console.print(table)


def note_worse(found: Results) -> None:
    """Print a note for each learner that is worse than the baseline."""
    for one in found.summaries:
        text = in_which_worse(found.worse(one))
        if text:
            screen.note(f"{one.label}: {text}")


def show_paths(**paths: Path | None) -> None:
    """Where things are."""
    console = screen.output()
    for name, path in paths.items():
        if path is not None:
            console.print(f"{name + ':':<8} {path}", style="dim", markup=False, soft_wrap=True)


def _cells(one: Summary, metrics: Sequence[str]) -> list[str]:
    return [
        *(_pm(one.metrics[name]) for name in metrics),
        microseconds(one.microseconds_a_row.mean, one.microseconds_a_row.deviation),
        f"{one.size.mean:,.0f}" if one.size else "-",
        screen.size(round(one.memory.mean)),
    ]


def _pm(spread: OverRuns) -> str:
    return mean_and_deviation(spread.mean, spread.deviation)


def as_dict(
    found: Results, directory: Path, report: Path | None, figures: Path | None
) -> dict[str, Any]:
    """Everything but the curves, which are in the results directory."""
    comparison = found.comparison
    weight = comparison.reading.weight
    return {
        "file": comparison.file,
        "target": comparison.target,
        **({} if weight is None else {"weight": weight}),
        "columns": comparison.columns,
        "task": comparison.task,
        "rows": comparison.rows,
        "unlabelled": comparison.unlabelled,
        "order": comparison.order,
        "scale": comparison.scale,
        "runs": comparison.runs,
        "runs_not_done": found.missing,
        "seed": comparison.seed,
        "learners": [
            {**one.to_dict(), "worse": [lead.to_dict() for lead in found.worse(one)]}
            for one in found.summaries
        ],
        "baseline": found.baseline.to_dict() if found.baseline else None,
        "results": str(directory),
        "report": None if report is None else str(report),
        "figures": None if figures is None else str(figures),
        "made": found.made,
    }
