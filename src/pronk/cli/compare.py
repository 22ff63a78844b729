"""`pronk compare`: several learners over one file, side by side."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pronk.cli.errors import CommandError
from pronk.cli.options import (
    AsJSON,
    CategoricalColumns,
    Columns,
    Delimiter,
    Drop,
    Encoding,
    EncodingOption,
    Figures,
    Limit,
    Missing,
    MissingOption,
    NoHeader,
    Order,
    Query,
    Scale,
    ScaleOption,
    Slots,
    Task,
    Threads,
    column_names,
)

if TYPE_CHECKING:
    from pronk.evaluate.comparison import Comparison
    from pronk.streams import FileStream


def compare(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="CSV, NDJSON, LIBSVM (also .gz), Parquet or Arrow file; a directory or pattern.",
        ),
    ],
    algorithms: Annotated[
        str,
        typer.Option(
            "--algorithms", "-a", metavar="A,B,..",
            help="Names that `pronk algorithms` lists; label=name to have one of them twice.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="COLUMN", help="The column to predict; LIBSVM has its own."
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs, each with a seed.")] = 10,
    order: Annotated[
        Order,
        typer.Option(
            help="given: as in the file; random: another one for each run, through a temporary "
            "file (in TMPDIR) where the rows are many.",
        ),
    ] = Order.given,
    task: Annotated[Task, typer.Option(help="auto: labels if the target looks like it.")] = (
        Task.auto
    ),
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="[NAME:]KEY=VALUE",
            help="A parameter of one learner, or of all that have it.",
        ),
    ] = None,
    columns: Columns = None,
    drop: Drop = None,
    categorical: CategoricalColumns = None,
    encoding: EncodingOption = Encoding.hash,
    slots: Slots = 32,
    missing: MissingOption = Missing.error,
    scale: ScaleOption = None,
    limit: Limit = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    query: Query = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Processes side by side.")] = 2,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results are kept; pronk-results/FILE-COLUMN."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report (.html).")
    ] = None,
    figures: Figures = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run again what was run before.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the first run.")] = 0,
    threads: Threads = None,
    json: AsJSON = False,
) -> None:  # fmt: skip
    """Run several learners over a file, side by side. Interrupted, it goes on where it stopped.

    A row without a label is predicted only.
    """
    from pronk.cli import screen
    from pronk.cli.contenders import contenders, read_names, try_all
    from pronk.cli.places import refuse_input
    from pronk.cli.results import as_dict, check_report, note_damage, show, show_paths, write
    from pronk.evaluate.comparison import COMPARISON, RECORDS, Comparison, inspect
    from pronk.evaluate.orders import check_room
    from pronk.evaluate.summaries import results
    from pronk.streams.sources import Origins

    names = read_names(algorithms)
    read = Origins(file, query)
    check_report("--report", report, figures, read)
    choices: dict[str, Any] = {
        "drop": list(drop or ()),
        "categorical": list(categorical or ()),
        "missing": missing.value,
        "limit": limit,
        "delimiter": delimiter,
        "header": not no_header,
        "query": query,
    }
    only = column_names(columns)
    stream = _open(file, target, task, only, choices)
    assert stream.target is not None
    comparison = Comparison(
        file=str(Path(file).resolve()) if query is None or Path(file).exists() else file,
        digest="",
        target=stream.target,
        task=stream.task,
        reason=stream.reason if task is Task.auto else "",
        columns=stream.columns,
        rows=0,
        contenders=contenders(names, param or [], stream.task, scale),
        runs=runs,
        order=order.value,
        scale=(scale or Scale.minmax).value,
        seed=seed,
        only=only,
        encoding=encoding.value,
        slots=slots,
        **choices,
    )
    console = screen.messages()
    with screen.warnings_as_notes(console):
        try_all(comparison.contenders, comparison.scale, stream, comparison.view, console)
        with console.status("reading the file"):
            found = inspect(stream, query)
    comparison = replace(comparison, **found._asdict())
    if order is Order.random:
        check_room(found.rows, len(stream.columns), min(jobs, len(comparison.jobs())))
    directory = out if out is not None else _usual_place(file, stream.target)
    for name in (COMPARISON, RECORDS):
        refuse_input("--out", directory / name, read)
    store = _store(directory, comparison, fresh)
    note_damage(store.damaged, directory)
    _run(comparison, store, jobs, directory, console)
    told = results(comparison, store)
    write(told, report, figures)
    if json:
        screen.print_json(as_dict(told, directory, report, figures))
    else:
        show(told)
        screen.output().print()
        show_paths(results=directory, report=report, figures=figures)


# -- before the runs -----------------------------------------------------------------------------


def _open(
    file: str, target: str | None, task: Task, only: list[str], choices: dict[str, Any]
) -> FileStream:
    from pronk.streams import FileStream
    from pronk.streams.sources import open_source, reads_once

    if reads_once(file):
        raise CommandError(
            f"{file}: it can be read only once, and each run reads the rows again; write them to "
            "a file first"
        )
    if target is None and open_source(file, None, choices["query"]).label is None:
        raise CommandError("--target is missing: which column is to be predicted?")
    return FileStream(
        file, target, columns=only or None, task=task.value, unlabelled=True, **choices
    )


def _usual_place(file: str, target: str) -> Path:
    name = Path(file).name
    place = f"{name.split('.')[0] or name}-{target}"
    return Path("pronk-results") / place.replace("/", "_").replace(":", "")


def _store(directory: Path, comparison: Comparison, fresh: bool) -> Any:
    """The store of a results directory, after the first write into it."""
    from pronk.cli.outputs import open_store, results
    from pronk.evaluate.comparison import RECORDS

    with results(directory):
        comparison.save(directory)
        return open_store(directory / RECORDS, fresh)


# -- the runs ------------------------------------------------------------------------------------


def _run(comparison: Comparison, store: Any, workers: int, directory: Path, console: Any) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from pronk.cli import screen
    from pronk.evaluate.runs import RunError
    from pronk.evaluate.study import run

    jobs = comparison.jobs()
    columns = (
        TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}", style="dim"),
    )  # fmt: skip
    notes: set[str] = set()
    kept = f"finished runs are kept in {str(directory)!r}"
    with screen.bars(console, *columns) as bars:
        bar = bars.add_task("", total=len(jobs))

        def done(job: Any, _: bool) -> None:
            bars.update(bar, advance=1, description=f"{job.label}, seed {job.seed}")
            record = store.get(job) or {}
            for text in record.get("result", {}).get("notes", ()):
                note = f"{job.label}: {text}"
                if note not in notes:
                    screen.note(note, console)
                notes.add(note)

        try:
            run(jobs, store, workers, done)
        except RunError as error:
            raise CommandError(f"{error} ({kept})", 1) from error
        except BrokenProcessPool:
            raise CommandError(
                f"a process ended without a result, most likely out of memory; --jobs 1 needs "
                f"less ({kept})",
                1,
            ) from None
        except KeyboardInterrupt:
            raise CommandError(
                f"stopped from the keyboard; {kept}, the same command goes on", 130
            ) from None
