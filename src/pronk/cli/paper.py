"""`pronk paper NAME`: a table or figure of a paper, ours beside the printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def paper(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which one; without a name they are listed."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The first rows and two runs only.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs (the paper's number if not given).")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Processes side by side.")] = 2,
    data: Annotated[
        list[str] | None, typer.Option(metavar="SET", help="Only this data set (repeat).")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where records, page and figures go.")
    ] = Path("pronk-results"),
    write_docs: Annotated[
        bool, typer.Option("--write-docs", help="Also write the page to docs/results.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what was run before.")] = False,
) -> None:
    """Make a table or figure of a paper again. Interrupted runs go on where they stopped."""
    from pronk.paper import Options, experiment

    if name is None:
        _list()
        return
    chosen = experiment(name)
    docs = Path("docs") / "results"
    if write_docs and not docs.parent.is_dir():
        raise typer.BadParameter("there is no directory docs here", param_hint="--write-docs")
    options = Options(quick=quick, runs=runs, data=tuple(data or ()))
    _make(chosen, options, jobs, out, docs if write_docs else None, fresh)


def _list() -> None:
    from pronk.cli import screen
    from pronk.paper import EXPERIMENTS, experiment

    console = screen.output()
    for name in EXPERIMENTS:
        console.print(f"{name:<14} {experiment(name).title}", markup=False)


def _make(
    chosen: Any, options: Any, workers: int, out: Path, docs: Path | None, fresh: bool
) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from pronk.cli import screen
    from pronk.paper.jobs import Store
    from pronk.paper.pages import command, markdown, run_experiment, write

    out.mkdir(parents=True, exist_ok=True)
    records_path = out / f"{chosen.name}.jsonl"
    if fresh:
        records_path.unlink(missing_ok=True)
    messages = screen.messages()
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=messages, transient=True, disable=not messages.is_terminal
    ) as bars:
        bar = bars.add_task(chosen.name, total=None)
        records = run_experiment(
            chosen,
            options,
            Store(records_path),
            workers,
            started=lambda jobs: bars.update(bar, total=len(jobs), completed=0),
            done=lambda job, _: bars.update(
                bar, advance=1, description=f"{job.group}: {job.label.replace('|', ' ')}"
            ),
        )
    page = chosen.page(options, records)
    _show(page)
    text = markdown(page, command(chosen, options), records)
    for directory in (out, docs):
        if directory is not None:
            messages.print(f"written: {write(page, text, chosen.name, directory)}", markup=False)


def _show(page: Any) -> None:
    from rich.table import Table

    from pronk.cli import screen

    console = screen.output()
    console.print(page.title, style="bold", markup=False)
    for text in page.intro:
        console.print(text, style="dim", markup=False)
    for section in page.sections:
        table = Table(box=None, pad_edge=False, title=section.title, title_justify="left")
        for i, head in enumerate(section.header):
            table.add_column(head, justify="left" if i < section.left else "right", no_wrap=i == 0)
        for row in section.rows:
            table.add_row(*row)
        console.print()
        console.print(table)
    console.print()
    for note in page.notes:
        console.print("- " + note.replace("**", ""), style="dim", markup=False)
