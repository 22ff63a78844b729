"""`pronk compare`: several learners over one file, side by side."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pronk.cli.errors import CommandError
from pronk.cli.options import (
    PREPARING,
    READING,
    WEIGHING,
    AsJSON,
    Cluster,
    Figures,
    Jobs,
    Order,
    Task,
    Threads,
    with_choices,
)

if TYPE_CHECKING:
    from pronk.data import FileStream, Reading
    from pronk.evaluate.comparison import Comparison

#: Who is compared where nobody is named: the default, second order and first order, all bounded.
USUAL = "online-kernel,con-kons,fogd,nogd"

EXAMPLES = """\b
Examples:
  pronk compare data.csv -t price
  pronk compare data.csv -t price -a online-kernel,pkawv-nystrom --runs 5 --report page.html
  pronk compare data.csv -t y -a wide=fogd,narrow=fogd -p wide:bandwidth=4 -p narrow:bandwidth=1
"""


@with_choices(reading={**READING, **WEIGHING}, preparing=PREPARING)
def compare(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="CSV, NDJSON, LIBSVM (also .gz), Parquet or Arrow file; a directory or pattern.",
        ),
    ],
    reading: dict[str, Any],
    preparing: dict[str, Any],
    algorithms: Annotated[
        str,
        typer.Option(
            "--algorithms", "-a", metavar="A,B,..",
            help="Names that `pronk algorithms` lists; label=name to have one of them twice.",
        ),
    ] = USUAL,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="COLUMN", help="The column to predict; LIBSVM has its own."
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs, each with a seed.")] = 3,
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
    jobs: Jobs = 2,
    cluster: Cluster = None,
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
    from pronk.cli.comparison import (
        as_dict,
        check_report,
        check_weight,
        contenders,
        note_damage,
        note_worse,
        read_names,
        show,
        show_paths,
        try_all,
        write,
    )
    from pronk.cli.outputs import refuse_input
    from pronk.cli.scale_out import cluster_or_none, losses_told
    from pronk.data import Preparing, Reading
    from pronk.data.opening import Origins
    from pronk.data.source import is_url
    from pronk.evaluate.comparison import COMPARISON, RECORDS, Comparison, inspect
    from pronk.evaluate.orders import check_room
    from pronk.evaluate.results import results

    names = read_names(algorithms)
    how = Reading(file, target, task=task.value, **reading)
    read = Origins(file, how.query)
    check_report("--report", report, figures, read)
    stream = _open(how)
    assert stream.target is not None
    if len(stream.targets) > 1:
        raise CommandError("--target: a comparison has one target; `pronk run` takes several")
    scale = preparing["scale"]
    named = how.query is None or Path(file).exists()
    comparison = Comparison(
        replace(
            how,
            file=file if is_url(file) or not named else str(Path(file).resolve()),
            target=stream.target,
            task=stream.task,
        ),
        digest="",
        reason=stream.reason if task is Task.auto else "",
        columns=stream.columns,
        rows=0,
        contenders=contenders(names, param or [], stream.task, scale),
        runs=runs,
        preparing=Preparing(**{**preparing, "scale": scale or "minmax"}),
        order=order.value,
        seed=seed,
    )
    console = screen.messages()
    check_weight(comparison)
    with screen.warnings_as_notes(console):
        try_all(comparison.contenders, comparison.scale, stream, comparison.view, console)
        with console.status("reading the file"):
            found = inspect(stream)
    comparison = replace(comparison, **found._asdict())
    if order is Order.random:
        check_room(found.rows, len(stream.columns), min(jobs, len(comparison.jobs())))
    directory = out if out is not None else _usual_place(file, stream.target)
    for name in (COMPARISON, RECORDS):
        refuse_input("--out", directory / name, read)
    store = _store(directory, comparison, fresh)
    note_damage(store.damaged, directory)
    with cluster_or_none(cluster) as client, losses_told(cluster):
        _run(comparison, store, jobs, directory, console, client)
    told = results(comparison, store)
    write(told, report, figures)
    if json:
        screen.print_json(as_dict(told, directory, report, figures))
    else:
        show(told)
        screen.output().print()
        show_paths(results=directory, report=report, figures=figures)
    note_worse(told)


# -- before the runs -----------------------------------------------------------------------------


def _open(reading: Reading) -> FileStream:
    from pronk.cli.models import open_with_target
    from pronk.data.opening import reads_once

    if reads_once(reading.file):
        raise CommandError(
            f"{reading.file}: it can be read only once, and each run reads the rows again; write "
            "them to a file first"
        )
    return open_with_target(reading)


def _usual_place(file: str, target: str) -> Path:
    from pronk.data.errors import without_secret

    name = Path(without_secret(file)).name
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


def _run(
    comparison: Comparison, store: Any, workers: int, directory: Path, console: Any, client: Any
) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from pronk.cli import screen
    from pronk.evaluate.comparison import RunError
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
            run(jobs, store, workers, done, client)
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
