"""`pronk run`: a file through one learner, once."""

from __future__ import annotations

import ast
import difflib
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from pronk.cli import screen
from pronk.cli.errors import CommandError
from pronk.cli.predictions import PredictionsFile
from pronk.estimators.registry import find, make
from pronk.evaluate import Evaluation, Record, RunningMajority, RunningMean, held_bytes
from pronk.streams import FileStream, Scaled
from pronk.streams.scaled import named

NAMES = {"mse": "mean squared error", "mae": "mean absolute error", "error": "error rate"}


@dataclass(frozen=True)
class Job:
    """The options of `pronk run`."""

    file: Path
    target: str
    algorithm: str
    task: str = "auto"
    params: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    scale: str = "minmax"
    save: Path | None = None
    predictions: Path | None = None
    limit: int | None = None
    delimiter: str | None = None
    seed: int = 0


def run_job(job: Job, *, as_json: bool) -> None:
    """Check everything, walk the file, print the summary."""
    console = screen.messages()
    _check_algorithm(job.algorithm)
    _check_outputs(job)
    stream = FileStream(
        job.file,
        job.target,
        drop=job.drop,
        task=job.task,
        limit=job.limit,
        delimiter=job.delimiter,
    )
    learner = build(job.algorithm, stream.task, job.params, job.seed)
    model = learner if job.scale == "none" else Scaled(learner, job.scale)
    with screen.warnings_as_notes(console):
        _warm(learner, stream, console)
        _note_unbounded(job.algorithm, learner, console)
        last, baseline = _walk(job, stream, model, console)
    if stream.task == "classification" and len(learner.classes_) < 2:
        label = learner.classes_[0]
        raise CommandError(
            f"--target: all {last.rows:,} rows have the label {label!s}; there is nothing to learn"
        )
    if job.save is not None:
        _save(model, job.save)
    if as_json:
        screen.print_json(_as_dict(job, stream, model, last, baseline))
    else:
        _print_summary(job, stream, model, last, baseline)


# -- before the run ------------------------------------------------------------------------------


def _check_algorithm(name: str) -> None:
    try:
        find(name)
    except ValueError as error:
        raise CommandError(f"--algorithm: {error}") from None


def _check_outputs(job: Job) -> None:
    """Better now than after an hour: can the results be written?"""
    for option, path in (("--save", job.save), ("--predictions", job.predictions)):
        if path is None:
            continue
        where = f"{option}: {str(path)!r}"
        if path.is_dir():
            raise CommandError(f"{where} is a directory; give a file name")
        if not path.parent.is_dir():
            raise CommandError(
                f"{where}: there is no directory {str(path.parent)!r}; make it first"
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CommandError(f"{where} cannot be written; choose another place")
        if path.exists() and job.file.exists() and path.samefile(job.file):
            raise CommandError(f"{where} is the input file; choose another name")
    if job.save is not None and job.save == job.predictions:
        raise CommandError(f"--save and --predictions name the same file, {str(job.save)!r}")


def build(name: str, task: str, settings: tuple[str, ...], seed: int) -> Any:
    """A learner by name, with parameters given as text, ``key=value``."""
    try:
        learner = make(name, task, random_state=seed)
    except ValueError as error:
        raise CommandError(f"--algorithm: {error}; see --task") from None
    params = dict(_setting(text) for text in settings)
    if "kernel" in params:
        learner.set_params(kernel=params.pop("kernel"))
    for key, value in params.items():
        known = learner.get_params()
        name_of = key if key in known or f"kernel__{key}" not in known else f"kernel__{key}"
        if name_of not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}"
            raise CommandError(f"--param: {name} has no parameter {key!r}; {hint}")
        learner.set_params(**{name_of: value})
    return learner


def _setting(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise CommandError(f"--param: {text!r} must have the form key=value, as in alpha=0.1")
    words = {"true": True, "false": False, "none": None}
    value = value.strip()
    if value.lower() in words:
        return key.strip(), words[value.lower()]
    try:
        return key.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key.strip(), value


def _warm(learner: Any, stream: FileStream, console: Console) -> None:
    """Compile on a copy and the first rows: wrong parameters show now, and times are clean."""
    X, y = next(iter(stream))
    copy = clone(learner)
    with console.status("getting ready (compiled once, then kept)"):
        rows = np.ascontiguousarray(X[:64])
        try:
            copy.predict_then_learn(rows / max(1.0, float(np.abs(rows).max())), y[:64])
        except InvalidParameterError as error:
            raise CommandError(f"--param: {error}") from None


def _note_unbounded(name: str, learner: Any, console: Console) -> None:
    algorithm = find(name)
    if algorithm.bounded or getattr(learner, "history", None) == "projected":
        return
    advice = "; --param history=projected bounds it" if hasattr(learner, "history") else ""
    console.print(
        f"note: the memory of {name} grows with the rows ({algorithm.memory}){advice}",
        style="yellow",
    )


# -- the run -------------------------------------------------------------------------------------


def _walk(
    job: Job, stream: FileStream, model: Any, console: Console
) -> tuple[Record, dict[str, float]]:
    """Predict then learn all rows; the last record and the baseline's metrics."""
    evaluation = Evaluation(
        model, every=stream.rows, predictions=job.predictions is not None, memory=False
    )
    naive = RunningMajority() if stream.task == "classification" else RunningMean()
    baseline = Evaluation(naive, memory=False)
    last: Record | None = None
    with ExitStack() as stack:
        file = None
        if job.predictions is not None:
            file = stack.enter_context(PredictionsFile(job.predictions))
        bar = stack.enter_context(_Bar(console))
        try:
            for X, y in stream:
                if not evaluation.rows:
                    X = named(X, stream.columns)
                baseline.feed(X, y)
                for last in evaluation.feed(X, y):
                    _keep(file, last)
                    bar.show(last, stream.expected_rows())
        finally:  # the rows before a bad one were predicted too
            end = evaluation.finish() if evaluation.rows else None
            if end is not None:
                last = end
                _keep(file, last)
    end = baseline.finish()
    assert last is not None and end is not None  # a stream without rows was refused
    return last, end.metrics


def _keep(file: PredictionsFile | None, record: Record) -> None:
    if file and record.predictions is not None and record.targets is not None:
        file.write(record.targets, record.predictions)


class _Bar:
    """A progress bar with the running loss; nothing where stderr is no terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.fields[rows]}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[loss]}", style="bold"),
            TimeRemainingColumn(compact=True),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._total = 0
        self._task = self._progress.add_task("", total=None, rows="0 rows", loss="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, record: Record, total: int | None) -> None:
        """The state after a block."""
        name, value = next(iter(record.metrics.items()))
        # A new total forgets the speed so far, so an estimate counts only if it moved.
        if total is not None and abs(total - self._total) > 0.05 * self._total:
            self._total = total
            self._progress.update(self._task, total=total)
        self._progress.update(
            self._task,
            completed=record.rows,
            rows=f"{record.rows:,} rows",
            loss=f"{name} {screen.number(value)}",
        )


def _save(model: Any, path: Path) -> None:
    try:
        model.save(path)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--save: {str(path)!r} cannot be written: {reason}", 1) from None


# -- after the run -------------------------------------------------------------------------------


def _print_summary(
    job: Job, stream: FileStream, model: Any, last: Record, baseline: dict[str, float]
) -> None:
    console = screen.output()
    naive = "most frequent label" if stream.task == "classification" else "running mean"
    guessed = f" (guessed from {stream.reason})" if job.task == "auto" else ""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("task", f"{stream.task}{guessed}")
    table.add_row("rows", f"{last.rows:,} of {len(stream.columns)} columns")
    for name, value in last.metrics.items():
        text = f"[bold]{screen.number(value)}[/bold] ({naive}: {screen.number(baseline[name])})"
        table.add_row(NAMES[name], text)
    table.add_row("time", f"{last.microseconds_a_row:.2f} us a row, {last.seconds:.2f} s in all")
    table.add_row("points held", f"{last.size:,}" if last.size else "none: fixed features")
    table.add_row("memory", screen.size(held_bytes(model)))
    if job.save is not None:
        table.add_row("model", f"{job.save}")
    if job.predictions is not None:
        table.add_row("predictions", f"{job.predictions}")
    console.print(f"{job.algorithm} on {job.file}, target {job.target}", style="bold", markup=False)
    console.print(table)


def _as_dict(
    job: Job, stream: FileStream, model: Any, last: Record, baseline: dict[str, float]
) -> dict[str, Any]:
    learner = model.learner if isinstance(model, Scaled) else model
    result = last.to_dict()
    del result["windowed"]
    return {
        "file": str(job.file),
        "target": job.target,
        "columns": stream.columns,
        "task": stream.task,
        "algorithm": job.algorithm,
        "params": learner.get_params(deep=False),
        "scale": job.scale,
        "seed": job.seed,
        **result,
        "memory": held_bytes(model),
        "baseline": baseline,
        "saved": None if job.save is None else str(job.save),
        "predictions": None if job.predictions is None else str(job.predictions),
        "versions": screen.versions(),
    }
