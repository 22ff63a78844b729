"""`pronk run`: a file through one learner, once."""

from __future__ import annotations

import ast
import copy
import difflib
import os
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.utils._param_validation import InvalidParameterError

from pronk.cli import screen
from pronk.cli.checkpoint import Checkpoint, Interruptions, Stopped, fingerprint
from pronk.cli.errors import CommandError
from pronk.cli.predictions import PredictionsFile, check_ending
from pronk.estimators import storage
from pronk.estimators.registry import find, make
from pronk.evaluate import Evaluation, Record, RunningMajority, RunningMean, held_bytes
from pronk.streams import FileStream, Scaled, StreamError
from pronk.streams.scaled import named
from pronk.streams.sources import open_source

NAMES = {"mse": "mean squared error", "mae": "mean absolute error", "error": "error rate"}


@dataclass(frozen=True)
class Job:
    """The options of `pronk run`."""

    file: Path
    target: str | None
    algorithm: str
    task: str = "auto"
    params: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    encoding: str = "hash"
    slots: int = 32
    missing: str = "error"
    scale: str = "minmax"
    save: Path | None = None
    predictions: Path | None = None
    checkpoint: Path | None = None
    every: int = 100_000
    limit: int | None = None
    delimiter: str | None = None
    query: str | None = None
    seed: int = 0


def run_job(job: Job, *, as_json: bool) -> None:
    """Check everything, walk the file, print the summary."""
    console = screen.messages()
    _check_algorithm(job.algorithm)
    _check_outputs(job)
    stream = _open(job)
    learner = build(job.algorithm, stream.task, job.params, job.seed)
    run = Run(job, stream, _prepared(job, stream, learner), console)
    with screen.warnings_as_notes(console):
        _warm(run.model, stream, console)
        _note_unbounded(job.algorithm, learner, console)
        last, baseline = run.walk()
    learner = run.model.learner if isinstance(run.model, Scaled) else run.model
    if stream.task == "classification" and len(learner.classes_) < 2:
        label = learner.classes_[0]
        raise CommandError(
            f"--target: all {last.rows:,} rows have the label {label!s}; there is nothing to learn"
        )
    if job.save is not None:
        _save(run.model, job.save)
    if as_json:
        screen.print_json(_as_dict(run, last, baseline))
    else:
        _print_summary(run, last, baseline)


def _open(job: Job) -> FileStream:
    if job.target is None:
        own = None if str(job.file) == "-" else open_source(job.file, None, job.query).label
        if own is None:
            raise CommandError("--target is missing: which column is to be predicted?")
    return FileStream(
        job.file,
        job.target,
        columns=job.columns,
        drop=job.drop,
        categorical=job.categorical,
        missing=job.missing,
        unlabelled=True,
        task=job.task,
        limit=job.limit,
        delimiter=job.delimiter,
        query=job.query,
    )


def _prepared(job: Job, stream: FileStream, learner: Any) -> Any:
    """The learner behind what its columns need."""
    if job.scale == "none" and job.missing == "error" and not stream.categorical:
        return learner
    return Scaled(
        learner,
        job.scale,
        missing=job.missing,
        categorical=[stream.columns.index(name) for name in stream.categorical],
        slots=job.slots,
        encoding=job.encoding,
    )


# -- before the run ------------------------------------------------------------------------------


def _check_algorithm(name: str) -> None:
    try:
        find(name)
    except ValueError as error:
        raise CommandError(f"--algorithm: {error}") from None


def _check_outputs(job: Job) -> None:
    """Better now than after an hour: can the results be written?"""
    outputs = {
        "--save": job.save,
        "--predictions": job.predictions,
        "--checkpoint": job.checkpoint,
    }
    for option, path in outputs.items():
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
    for (one, path), (other, place) in combinations(outputs.items(), 2):
        if path is not None and path == place:
            raise CommandError(f"{one} and {other} name the same file, {str(path)!r}")
    if job.predictions is not None:
        check_ending(job.predictions, "--predictions")


def build(name: str, task: str, settings: tuple[str, ...], seed: int) -> Any:
    """A learner by name, with parameters given as text, ``key=value``."""
    try:
        learner = make(name, task, random_state=seed)
    except ValueError as error:
        raise CommandError(f"--algorithm: {error}; see --task") from None
    params = dict(read_setting(text) for text in settings)
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


def read_setting(text: str) -> tuple[str, Any]:
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


def _warm(model: Any, stream: FileStream, console: Console) -> None:
    """Compile on a copy and the first rows: wrong parameters show now, and times are clean."""
    twin: Any = copy.deepcopy(model)
    X, y = stream.head(64)
    labelled = np.array([value is not None and value == value for value in y.tolist()], dtype=bool)
    if not labelled.any():
        return
    if not isinstance(twin, Scaled):
        X = X / max(1.0, float(np.abs(X).max()))
    with console.status("getting ready (compiled once, then kept)"):
        try:
            twin.predict_then_learn(X[labelled], np.array(y[labelled].tolist()))
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


class Run:
    """A walk through a stream, from its start or from the last snapshot."""

    def __init__(self, job: Job, stream: FileStream, model: Any, console: Console) -> None:
        self.job = job
        self.stream = stream
        self.model = model
        self.console = console
        self.position = 0  # rows of the stream that are done
        self.resumed = 0
        self.finished = False
        self.checkpoint: Checkpoint | None = None
        self.file: PredictionsFile | None = None
        naive: Any = RunningMajority() if stream.task == "classification" else RunningMean()
        self.baseline = Evaluation(naive, memory=False)
        self.evaluation = self._evaluation()

    def _evaluation(self) -> Evaluation:
        return Evaluation(self.model, predictions=self.job.predictions is not None, memory=False)

    def walk(self) -> tuple[Record, dict[str, float]]:
        """Predict then learn all rows; the last record and the baseline's metrics."""
        job, resume = self.job, None
        if job.checkpoint is not None:
            self.checkpoint = Checkpoint(job.checkpoint, job.every, self._settings())
            resume = self._resume()
        with ExitStack() as stack:
            if job.predictions is not None:
                self.file = stack.enter_context(self._predictions_file(job.predictions, resume))
            if not self.finished:
                try:
                    self._rows(stack)
                except Stopped as stopped:
                    raise self._stop(stopped) from None
                except (CommandError, StreamError) as error:
                    if self.checkpoint is None or self.checkpoint.advice() in str(error):
                        raise
                    code = error.code if isinstance(error, CommandError) else 2
                    raise CommandError(f"{error}; {self.checkpoint.advice()}", code) from None
                self.finished = True
                self._snapshot()
        if self.file is not None and not self.file.finished:
            self.file.finish()
        self.baseline.finish()
        return self.evaluation.record(), self.baseline.record().metrics

    def _rows(self, stack: ExitStack) -> None:
        bar = stack.enter_context(_Bar(self.console))
        signals = Interruptions()
        if self.checkpoint is not None:
            stack.enter_context(signals)
        for X, y in self.stream.blocks(self.position):
            with signals.block():
                self._block(X, y)
                bar.show(self._keep(), self.stream.expected_rows())
                # A shorter block comes before a bad row, or at the end.
                whole = self.position % self.stream.rows == 0
                if self.checkpoint is not None and whole and self.checkpoint.due(self.position):
                    self._snapshot()
        if not self.evaluation.rows:
            self.evaluation.finish()  # says why

    def _block(self, X: Any, y: Any) -> None:
        rows = named(X, self.stream.columns) if not self.evaluation.rows else X
        self.baseline.feed(X, y)
        self.evaluation.feed(rows, y)
        self.position += len(y)

    def _keep(self) -> Record:
        """The record of a block; its predictions go to the file."""
        record = self.evaluation.record()
        if self.file and record.predictions is not None:
            self.file.write(record.targets, record.predictions)
        return record

    # -- snapshots -------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        """What decides the result."""
        job = self.job
        return {
            "input": fingerprint(job.file, job.query),
            "--query": job.query,
            "--target": self.stream.target,
            "--task": self.stream.task,
            "--algorithm": job.algorithm,
            "--param": list(job.params),
            "the columns": list(self.stream.columns),
            "--categorical": list(self.stream.categorical),
            "--encoding": job.encoding,
            "--slots": job.slots,
            "--missing": job.missing,
            "--scale": job.scale,
            "--limit": job.limit,
            "--delimiter": job.delimiter,
            "--seed": job.seed,
            "the ending of --predictions": job.predictions and job.predictions.suffix.lower(),
            "blocks of": self.stream.rows,
        }

    def _snapshot(self) -> None:
        if self.checkpoint is None:
            return
        if self.file is not None:
            self.file.sync()
        fitted = self.evaluation.rows > 0
        self.checkpoint.save(
            self.position,
            model=storage.learner_tree(self.model) if fitted else None,
            evaluation=self.evaluation.to_state(),
            baseline=[self.baseline.model.to_state(), self.baseline.to_state()],
            predictions=None if self.file is None else [self.file.rows, self.file.bytes],
            finished=self.finished,
        )

    def _resume(self) -> dict[str, Any] | None:
        assert self.checkpoint is not None
        tree = self.checkpoint.load()
        if tree is None:
            return None
        if tree["model"] is not None:
            self.model = storage.learner_from_tree(tree["model"], self.checkpoint.path)
        self.evaluation = self._evaluation()
        self.evaluation.restore(tree["evaluation"])
        model, evaluation = tree["baseline"]
        self.baseline.model.restore(model)
        self.baseline.restore(evaluation)
        self.position = self.resumed = int(tree["rows"])
        self.finished = tree["finished"]
        what = "the run was finished" if self.finished else "the run goes on"
        self.console.print(f"note: {what} after {self.position:,} rows", style="yellow")
        return tree

    def _predictions_file(self, path: Path, resume: dict[str, Any] | None) -> PredictionsFile:
        kind, resumable = self.stream.target_type, self.checkpoint is not None
        file = PredictionsFile(path, kind, resumable=resumable)
        if resume is None:
            file.start()
        elif not (self.finished and file.finished):
            file.resume(*resume["predictions"])
        return file

    def _stop(self, stopped: Stopped) -> CommandError:
        """Between two blocks: a last snapshot."""
        assert self.checkpoint is not None
        if self.position % self.stream.rows == 0 and self.position > self.checkpoint.rows:
            self._snapshot()
        return CommandError(
            f"stopped by {stopped.name}; {self.checkpoint.advice()}", 128 + stopped.number
        )


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


def _print_summary(run: Run, last: Record, baseline: dict[str, float]) -> None:
    job, stream, model = run.job, run.stream, run.model
    console = screen.output()
    naive = "most frequent label" if stream.task == "classification" else "running mean"
    guessed = f" (guessed from {stream.reason})" if job.task == "auto" else ""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("task", f"{stream.task}{guessed}")
    table.add_row("rows", f"{last.rows:,} of {len(stream.columns)} columns")
    if last.unlabelled:
        table.add_row("no label", f"{last.unlabelled:,} rows, predicted only")
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
    if job.checkpoint is not None:
        table.add_row("checkpoint", f"{job.checkpoint}")
    console.print(
        f"{job.algorithm} on {job.file}, target {stream.target}", style="bold", markup=False
    )
    console.print(table)


def _as_dict(run: Run, last: Record, baseline: dict[str, float]) -> dict[str, Any]:
    job, stream, model = run.job, run.stream, run.model
    learner = model.learner if isinstance(model, Scaled) else model
    result = last.to_dict()
    del result["windowed"]
    return {
        "file": str(job.file),
        "target": stream.target,
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
        "checkpoint": None if job.checkpoint is None else str(job.checkpoint),
        "resumed_at": run.resumed or None,
        "versions": screen.versions(),
    }
