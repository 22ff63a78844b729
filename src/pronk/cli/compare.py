"""`pronk compare`: several learners over one file, side by side; `pronk report`: once more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pronk.cli.errors import CommandError
from pronk.cli.options import Order, Scale, Task

if TYPE_CHECKING:
    from pronk.evaluate.comparison import Comparison, Contender, Results, Spread, Summary
    from pronk.streams import FileStream


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV (also .gz) or Parquet file.")],
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.")
    ],
    algorithms: Annotated[
        str,
        typer.Option(
            "--algorithms", "-a", metavar="A,B,..",
            help="Names that `pronk algorithms` lists; label=name to have one of them twice.",
        ),
    ],
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs, each with a seed.")] = 10,
    order: Annotated[
        Order, typer.Option(help="given: as in the file; random: another one for each run.")
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
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Leave a column out.")
    ] = None,
    scale: Annotated[
        Scale,
        typer.Option(help="Scale columns as the stream goes: to [-1/2, 1/2], to deviation 1."),
    ] = Scale.minmax,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The first so many rows only.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="Of a CSV file, if it is not a comma.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Processes side by side.")] = 2,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results are kept; pronk-results/FILE-COLUMN."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report (.html).")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write figures as PNG and SVG.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run again what was run before.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the first run.")] = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:  # fmt: skip
    """Run several learners over a file, side by side. Interrupted, it goes on where it stopped."""
    from pronk.cli import screen
    from pronk.evaluate.comparison import Comparison, inspect, results
    from pronk.streams import FileStream

    names = _names(algorithms)
    _check_report(report, figures, file)
    stream = FileStream(
        file, target, drop=drop or (), task=task.value, limit=limit, delimiter=delimiter
    )
    contenders = _contenders(names, param or [], stream.task)
    console = screen.messages()
    with screen.warnings_as_notes(console):
        with console.status("reading the file"):
            rows, digest = inspect(stream)
        _try(contenders, stream, console)
    comparison = Comparison(
        file=str(file.resolve()),
        digest=digest,
        target=target,
        task=stream.task,
        reason=stream.reason if task is Task.auto else "",
        columns=stream.columns,
        rows=rows,
        contenders=contenders,
        runs=runs,
        order=order.value,
        scale=scale.value,
        drop=list(drop or ()),
        limit=limit,
        delimiter=delimiter,
        seed=seed,
    )
    directory = out if out is not None else Path("pronk-results") / f"{_stem(file)}-{target}"
    store = _open(directory, comparison, fresh)
    _run(comparison, store, jobs, directory, console)
    found = results(comparison, store)
    _write(found, report, figures)
    if json:
        screen.print_json(_as_dict(found, directory, report))
    else:
        _print(found, directory, report, figures)


def report_again(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The results directory of `pronk compare`.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The report (.html).")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write figures as PNG and SVG.")
    ] = None,
) -> None:
    """Make the report of a comparison from its results, without running anything again."""
    from pronk.cli import screen
    from pronk.evaluate.comparison import load_results

    found = load_results(directory)
    if output is None and figures is None:
        output = directory / "report.html"
    _check_report(output, figures, None)
    _write(found, output, figures)
    console = screen.output()
    if found.missing:
        runs = "1 run is" if found.missing == 1 else f"{found.missing} runs are"
        console.print(f"{runs} not done; the report is of the others")
    for path in (output, figures):
        if path is not None:
            console.print(f"written: {path}", markup=False, soft_wrap=True)


# -- before the runs -----------------------------------------------------------------------------


def _names(text: str) -> dict[str, str]:
    """Algorithms by label."""
    from pronk.estimators.registry import find

    names: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, sign, name = (word.strip() for word in part.partition("="))
        name = name if sign else label
        try:
            find(name)
        except ValueError as error:
            raise CommandError(f"--algorithms: {error}") from None
        if not label or label in names:
            raise CommandError(
                f"--algorithms: {part!r} is there twice; label=name tells two of a kind apart"
            )
        names[label] = name
    if not names:
        raise CommandError("--algorithms: give at least one name; `pronk algorithms` lists them")
    return names


def _contenders(names: dict[str, str], texts: Sequence[str], task: str) -> list[Contender]:
    """The learners with their parameters; those without a label go to all that have them."""
    from pronk.cli.run import build, read_setting
    from pronk.evaluate.comparison import Contender

    chosen: dict[str, dict[str, Any]] = {label: {} for label in names}
    own: dict[str, list[str]] = {label: [] for label in names}
    known = {label: set(build(name, task, (), 0).get_params()) for label, name in names.items()}
    for text in texts:
        label, sign, setting = text.partition(":")
        if sign and "=" not in label:
            if label not in names:
                raise CommandError(
                    f"--param: {text!r} is for {label!r}, but compared are {', '.join(names)}"
                )
            own[label].append(setting)
            continue
        key, value = read_setting(text)
        having = [one for one in names if {key, f"kernel__{key}"} & known[one]]
        if not having:
            _refuse(key, known)
        for one in having:
            chosen[one][key] = value
    for label, settings in own.items():
        build(names[label], task, tuple(settings), 0)  # refuses what it does not know
        chosen[label] |= dict(map(read_setting, settings))
    return [Contender(label, names[label], chosen[label]) for label in names]


def _refuse(key: str, known: dict[str, set[str]]) -> None:
    import difflib

    near = difflib.get_close_matches(key, set().union(*known.values()), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise CommandError(f"--param: none of {', '.join(known)} has a parameter {key!r}{hint}")


def _try(contenders: Sequence[Contender], stream: FileStream, console: Any) -> None:
    """Learn some rows with each: wrong parameters show now, and what is compiled is kept."""
    import numpy as np
    from sklearn.utils._param_validation import InvalidParameterError

    X, y = next(iter(stream))
    rows = np.ascontiguousarray(X[:64])
    rows /= max(1.0, float(np.abs(rows).max()))
    with console.status("") as status:
        for contender in contenders:
            status.update(f"getting ready: {contender.label} (compiled once, then kept)")
            try:
                contender.learner(stream.task, 0).predict_then_learn(rows, y[:64])
            except (InvalidParameterError, ValueError) as error:
                raise CommandError(f"--param: {contender.label}: {error}") from None


def _check_report(path: Path | None, figures: Path | None, file: Path | None) -> None:
    """Better now than after an hour: can the report be made and written?"""
    from importlib.util import find_spec

    needed = ["altair", "vl_convert"] if path is not None else []
    needed += ["matplotlib"] if figures is not None else []
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise CommandError(f"a report needs {missing[0]}: pip install 'pronk[plot]'")
    if path is not None:
        where = f"--report: {str(path)!r}" if file is not None else f"--output: {str(path)!r}"
        if path.is_dir():
            raise CommandError(f"{where} is a directory; give a file name")
        if not path.parent.is_dir():
            raise CommandError(
                f"{where}: there is no directory {str(path.parent)!r}; make it first"
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CommandError(f"{where} cannot be written; choose another place")
        if file is not None and path.exists() and file.exists() and path.samefile(file):
            raise CommandError(f"{where} is the input file; choose another name")
    if figures is not None and figures.exists() and not figures.is_dir():
        raise CommandError(f"--figures: {str(figures)!r} is no directory")


def _stem(file: Path) -> str:
    return file.name.split(".")[0] or file.name


def _open(directory: Path, comparison: Comparison, fresh: bool) -> Any:
    """The store of a results directory, after the first write into it."""
    from pronk.evaluate.comparison import RECORDS
    from pronk.evaluate.study import Store

    try:
        directory.mkdir(parents=True, exist_ok=True)
        comparison.save(directory)
        if fresh:
            (directory / RECORDS).unlink(missing_ok=True)
        return Store(directory / RECORDS)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--out: {str(directory)!r} cannot be written: {reason}") from None


# -- the runs ------------------------------------------------------------------------------------


def _run(comparison: Comparison, store: Any, workers: int, directory: Path, console: Any) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from pronk.evaluate.comparison import RunError
    from pronk.evaluate.study import run

    jobs = comparison.jobs()
    columns = (
        TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}", style="dim"),
    )  # fmt: skip
    notes: set[str] = set()
    kept = f"finished runs are kept in {str(directory)!r}"
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bars:
        bar = bars.add_task("", total=len(jobs))

        def done(job: Any, _: bool) -> None:
            bars.update(bar, advance=1, description=f"{job.label}, seed {job.seed}")
            for text in (store.get(job) or {"result": {"notes": []}})["result"]["notes"]:
                note = f"note: {job.label}: {text}"
                if note not in notes:
                    console.print(note, style="yellow", markup=False)
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


# -- after the runs ------------------------------------------------------------------------------


def _write(found: Results, report: Path | None, figures: Path | None) -> None:
    from pronk.report import write_figures, write_report

    try:
        if report is not None:
            write_report(found, report)
        if figures is not None:
            write_figures(found, figures)
    except OSError as error:
        name = error.filename or report or figures
        raise CommandError(f"{str(name)!r} cannot be written: {error.strerror or error}") from None


def _print(found: Results, directory: Path, report: Path | None, figures: Path | None) -> None:
    from rich.table import Table

    from pronk.cli import screen
    from pronk.cli.run import NAMES

    comparison, console = found.comparison, screen.output()
    guessed = f" (guessed from {comparison.reason})" if comparison.reason else ""
    runs = "1 run" if comparison.runs == 1 else f"{comparison.runs} runs"
    order = "in the given order" if comparison.order == "given" else "each in its own random order"
    title = f"{Path(comparison.file).name}, target {comparison.target}"
    console.print(title, style="bold", markup=False)
    console.print(
        f"{comparison.task}{guessed}; {comparison.rows:,} rows of {len(comparison.columns)} "
        f"columns; {runs}, {order}\n",
        markup=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("learner", style="bold", overflow="fold")
    metrics = list(found.everyone[0].metrics)
    for name in (*(NAMES.get(name, name) for name in metrics), "us a row", "points", "memory"):
        table.add_column(name, justify="right", no_wrap=name not in NAMES.values())
    for one in found.everyone:
        style = "dim" if one is found.baseline else None
        table.add_row(one.label, *_cells(one, metrics), style=style)
    console.print(table)
    console.print(f"\nresults: {directory}", style="dim", markup=False, soft_wrap=True)
    for name, path in (("report: ", report), ("figures:", figures)):
        if path is not None:
            console.print(f"{name} {path}", style="dim", markup=False, soft_wrap=True)


def _cells(one: Summary, metrics: Sequence[str]) -> list[str]:
    from pronk.cli import screen
    from pronk.report.text import microseconds

    return [
        *(_pm(one.metrics[name]) for name in metrics),
        microseconds(one.microseconds_a_row.mean, one.microseconds_a_row.deviation),
        f"{one.size.mean:,.0f}" if one.size else "-",
        screen.size(round(one.memory.mean)),
    ]


def _pm(spread: Spread) -> str:
    from pronk.report.text import mean_and_deviation

    return mean_and_deviation(spread.mean, spread.deviation)


def _as_dict(found: Results, directory: Path, report: Path | None) -> dict[str, Any]:
    comparison = found.comparison
    return {
        "file": comparison.file,
        "target": comparison.target,
        "columns": comparison.columns,
        "task": comparison.task,
        "rows": comparison.rows,
        "order": comparison.order,
        "scale": comparison.scale,
        "runs": comparison.runs,
        "seed": comparison.seed,
        "learners": [one.to_dict() for one in found.summaries],
        "baseline": found.baseline.to_dict() if found.baseline else None,
        "results": str(directory),
        "report": None if report is None else str(report),
        "made": found.made,
    }
