"""`pronk compare`: several learners on one file, as a table, JSON and a report."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from pronk.cli import screen
from pronk.cli.models import build, check_weights, open_with_target, read_setting
from pronk.cli.outputs import check_file, open_store, refuse_input, results_folder
from pronk.cli.screen import CommandError
from pronk.core.checks import did_you_mean
from pronk.data import FileStream, Preparing, Reading
from pronk.data.errors import without_secret
from pronk.data.opening import Origins, reads_once
from pronk.data.source import is_url
from pronk.estimators.registry import DEFAULT_ALGORITHM, defaults_of, find, make
from pronk.evaluate.comparison import RECORDS, ComparedLearner, Comparison, Results, results
from pronk.evaluate.comparison_run import RunError, inspect, prepare, warm_up
from pronk.evaluate.formatting import count
from pronk.evaluate.study import run
from pronk.report.comparison_page import describe, main_table, write_report


@dataclass(frozen=True)
class CompareOptions:
    """The options of `pronk compare`."""

    reading: Reading
    preparing: dict[str, Any]
    algorithms: str
    param: tuple[str, ...]
    runs: int
    order: str
    seed: int
    output: Path | None
    report: Path | None
    fresh: bool
    workers: int


def compare_learners(options: CompareOptions, *, as_json: bool) -> None:
    """Do the runs that are not done yet, then print and write the results."""
    names = read_names(options.algorithms)
    reading, console = options.reading, screen.messages()
    read = Origins(reading.file, reading.query)
    if options.report is not None:
        refuse_input("--report", options.report, read)
        check_file("--report", options.report)
    stream = _open(reading)
    comparison = _comparison(options, stream, names)
    if reading.weight is not None:
        for learner in comparison.learners:
            check_weights(stream.head(64)[2], learner.build(comparison.task, 0), learner.label)
    if reading.time is not None and options.order == "random":
        raise CommandError("--time needs --order given: rows must be in the order of time")
    with screen.warnings_as_notes(console):
        _try_learners(comparison, stream, console)
        with console.status("reading the file"):
            found = inspect(stream)
    comparison = replace(comparison, **found._asdict())
    folder = options.output or _default_folder(reading.file, comparison.target)
    refuse_input("--output", folder / RECORDS, read)
    with results_folder(folder):
        store = open_store(folder / RECORDS, options.fresh)
    if store.damaged:
        lines = count(store.damaged, "line")
        screen.note(f"{lines} of {folder / RECORDS} cannot be read; its runs are repeated")
    _run(comparison, store, options.workers, folder, console)
    done = results(comparison, store)
    if options.report is not None:
        with screen.writing("--report", options.report):
            write_report(done, options.report, screen.command_line())
    if as_json:
        screen.print_json(as_dict(done, folder, options.report))
    else:
        _print(done, {"results": folder, "report": options.report})
    for one in done.summaries:
        for text in done.notes(one):
            screen.note(f"{one.label}: {text}")


# -- what is compared ----------------------------------------------------------------------------


def read_names(text: str) -> dict[str, str]:
    """Read the names of `--algorithms`: algorithms by label."""
    names: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, sign, name = (word.strip() for word in part.partition("="))
        name = name if sign else label
        with screen.blaming("--algorithms"):
            find(name)
        if not label or label in names:
            raise CommandError(
                f"--algorithms: {part!r} occurs twice or has an empty label; write label=name to "
                "compare an algorithm with itself"
            )
        names[label] = name
    if not names:
        raise CommandError("--algorithms: give at least one name; `pronk algorithms` lists them")
    return names


def _open(reading: Reading) -> FileStream:
    if reads_once(reading.file):
        raise CommandError(
            f"{reading.file}: this input can be read only once, but every run reads the rows "
            "again; write them to a file first"
        )
    stream = open_with_target(reading)
    if len(stream.targets) > 1:
        raise CommandError("--target: a comparison has one target; `pronk run` accepts several")
    return stream


def _comparison(options: CompareOptions, stream: FileStream, names: dict[str, str]) -> Comparison:
    """Describe the comparison; the rows have not been read yet."""
    reading, file = options.reading, options.reading.file
    is_path = not is_url(file) and (reading.query is None or Path(file).exists())
    scale = options.preparing["scale"]
    return Comparison(
        replace(
            reading,
            file=str(Path(file).resolve()) if is_path else file,
            target=stream.target,
            task=stream.task,
        ),
        digest="",
        reason=stream.reason if reading.task == "auto" else "",
        columns=stream.columns,
        rows=0,
        learners=_learners(names, options.param, stream.task, scale),
        runs=options.runs,
        preparing=Preparing(**{**options.preparing, "scale": scale or "minmax"}),
        order=options.order,
        seed=options.seed,
    )


def _learners(
    names: dict[str, str], texts: Sequence[str], task: str, scale: str | None
) -> list[ComparedLearner]:
    """Return the learners with the parameters of `--param`.

    A parameter without a label goes to all learners that have it. The defaults that `pronk.make`
    adds are recorded too. Unless a scaling is chosen, the default learner gets unscaled columns.
    """
    scales_itself = DEFAULT_ALGORITHM if scale is None else None
    chosen: dict[str, dict[str, Any]] = {label: {} for label in names}
    own: dict[str, list[str]] = {label: [] for label in names}
    parameters = {label: _parameters(name, task) for label, name in names.items()}
    for text in texts:
        label, sign, setting = text.partition(":")
        if sign and "=" not in label:
            if label not in names:
                raise CommandError(
                    f"--param: {text!r} is for {label!r}, which is not one of {', '.join(names)}"
                )
            own[label].append(setting)
            continue
        key, value = read_setting(text)
        having = [one for one in names if {key, f"kernel__{key}"} & parameters[one]]
        if not having:
            hint = did_you_mean(key, set().union(*parameters.values()))
            raise CommandError(f"--param: none of {', '.join(names)} has a parameter {key!r}{hint}")
        for one in having:
            chosen[one][key] = value
    for label, settings in own.items():
        build(names[label], task, tuple(settings), 0)  # raises if a parameter is not known
        chosen[label] |= dict(map(read_setting, settings))
    return [
        ComparedLearner(
            label,
            name,
            {**chosen[label], **defaults_of(name, task, chosen[label])},
            "none" if name == scales_itself else None,
        )
        for label, name in names.items()
    ]


def _parameters(name: str, task: str) -> set[str]:
    """Return the names of all parameters, also those of the kernel."""
    with screen.blaming("--algorithms", "; see --task"):
        return set(make(name, task).get_params())


# -- before the runs -----------------------------------------------------------------------------


def _try_learners(comparison: Comparison, stream: FileStream, console: Any) -> None:
    """Learn some rows with each learner, to find invalid parameters and to compile."""
    with console.status("") as status:
        for one in comparison.learners:
            status.update(f"compiling {one.label}, once per environment")
            learner = one.build(stream.task, 0)
            model = prepare(learner, one.scale or comparison.scale, stream, comparison.view)
            with screen.blaming(f"--param: {one.label}"):
                warm_up(model, stream, single=0)


def _default_folder(file: str, target: str) -> Path:
    name = Path(without_secret(file)).name
    folder = f"{name.split('.')[0] or name}-{target}"
    return Path("pronk-results") / folder.replace("/", "_").replace(":", "")


# -- the runs ------------------------------------------------------------------------------------


def _run(comparison: Comparison, store: Any, workers: int, folder: Path, console: Any) -> None:
    jobs = comparison.jobs()
    columns = (
        TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}", style="dim"),
    )  # fmt: skip
    notes: set[str] = set()
    kept = f"finished runs are kept in {str(folder)!r}"
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
                "a process ended without a result, most likely out of memory; --workers 1 needs "
                f"less ({kept})",
                1,
            ) from None
        except KeyboardInterrupt:
            raise CommandError(
                f"interrupted from the keyboard; {kept}, the same command resumes", 130
            ) from None


# -- the results ---------------------------------------------------------------------------------


def _print(found: Results, files: dict[str, Path | None]) -> None:
    """Print the table, and the files that were written."""
    comparison, console = found.comparison, screen.output()
    inferred = f" (inferred from {comparison.reason})" if comparison.reason else ""
    title = f"{Path(comparison.file).name}, target {comparison.target}"
    console.print(title, style="bold", markup=False)
    console.print(f"{comparison.task}{inferred}; {describe(found)}\n", markup=False)
    hidden = (f"last {comparison.window:,} rows", "runs")  # for narrow screens
    console.print(screen.table(main_table(found), hidden))
    console.print()
    for name, path in files.items():
        if path is not None:
            console.print(f"{name + ':':<8} {path}", style="dim", markup=False, soft_wrap=True)


def as_dict(found: Results, folder: Path, report: Path | None) -> dict[str, Any]:
    """Return the results for JSON, without the curves, which are in the results folder."""
    comparison = found.comparison
    reading = comparison.reading
    return {
        "file": comparison.file,
        "target": comparison.target,
        **({} if reading.weight is None else {"weight": reading.weight}),
        **({} if reading.time is None else {"time": reading.time}),
        "columns": comparison.columns,
        "task": comparison.task,
        "rows": comparison.rows,
        "unlabelled": comparison.unlabelled,
        "unpredicted": found.unpredicted,
        "order": comparison.order,
        "scale": comparison.scale,
        "runs": comparison.runs,
        "runs_not_done": found.missing,
        "seed": comparison.seed,
        "learners": [
            {**one.to_dict(), "worse": [lead._asdict() for lead in found.worse(one)]}
            for one in found.summaries
        ],
        "baseline": found.baselines[0].to_dict() if found.baselines else None,
        "repeat_last": found.baselines[1].to_dict() if found.baselines[1:] else None,
        "results": str(folder),
        "report": None if report is None else str(report),
        "made": found.made,
    }
