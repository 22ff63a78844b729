"""`pronk report`: the report of a comparison once more, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pronk.cli.options import AsJSON, Figures


def report_again(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The results directory of `pronk compare`.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The report (.html).")
    ] = None,
    figures: Figures = None,
    json: AsJSON = False,
) -> None:
    """Make the report of a comparison from its results, without running anything again."""
    from pronk.cli import screen
    from pronk.cli.results import as_dict, check_report, note_damage, write
    from pronk.evaluate.summaries import load_results

    found = load_results(directory)
    if output is None and figures is None:
        output = directory / "report.html"
    check_report("--output", output, figures)
    write(found, output, figures)
    note_damage(found.damaged, directory)
    if found.missing:
        runs = "1 run is" if found.missing == 1 else f"{found.missing} runs are"
        screen.note(f"{runs} not done; the report is of the others")
    if json:
        screen.print_json(as_dict(found, directory, output, figures))
        return
    console = screen.output()
    for path in (output, figures):
        if path is not None:
            console.print(f"written: {path}", markup=False, soft_wrap=True)
