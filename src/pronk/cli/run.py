"""`pronk run`: a file through one learner, once."""

from __future__ import annotations

import ast
import copy
import difflib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.utils._param_validation import InvalidParameterError

from pronk.cli import screen
from pronk.cli.errors import CommandError
from pronk.cli.job import Job, check_job, open_stream
from pronk.cli.predictions import StandardOutput, check_interval
from pronk.cli.walk import Run
from pronk.estimators.registry import find, make
from pronk.evaluate import Record, held_bytes
from pronk.evaluate.metrics import WORDS
from pronk.streams import FileStream, Scaled
from pronk.streams.scaled import prepared


def run_job(job: Job, *, as_json: bool) -> None:
    """Check everything, walk the file, print the summary."""
    console = screen.messages()
    _check_algorithm(job.algorithm)
    check_job(job)
    stream = open_stream(job)
    learner = build(job.algorithm, stream.task, job.params, job.seed)
    model = prepared(
        learner, stream, job.scale, job.missing, slots=job.slots, encoding=job.encoding
    )
    check_interval(job.interval, stream.task, model)
    run = Run(job, stream, model, console, as_json)
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
    # Where the predictions are printed, what is said of them goes elsewhere.
    printed = isinstance(run.file, StandardOutput)
    if as_json:
        screen.print_json(_as_dict(run, last, baseline), sys.stderr if printed else None)
    else:
        _print_summary(run, last, baseline, console if printed else screen.output())


# -- before the run ------------------------------------------------------------------------------


def _check_algorithm(name: str) -> None:
    try:
        find(name)
    except ValueError as error:
        raise CommandError(f"--algorithm: {error}") from None


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
    screen.note(f"the memory of {name} grows with the rows ({algorithm.memory}){advice}", console)


def _save(model: Any, path: Path) -> None:
    try:
        model.save(path)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--save: {str(path)!r} cannot be written: {reason}", 1) from None


# -- after the run -------------------------------------------------------------------------------


def _print_summary(run: Run, last: Record, baseline: dict[str, float], console: Console) -> None:
    job, stream, model = run.job, run.stream, run.model
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
        table.add_row(WORDS[name], text)
    table.add_row("time", f"{last.microseconds_a_row:.2f} us a row, {last.seconds:.2f} s in all")
    table.add_row("points held", f"{last.size:,}" if last.size else "none: fixed features")
    table.add_row("memory", screen.size(held_bytes(model)))
    if job.save is not None:
        table.add_row("model", f"{job.save}")
    if job.predictions is not None and not isinstance(run.file, StandardOutput):
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
