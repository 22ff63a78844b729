"""`pronk run`: its options, their checks, and the steps of the command."""

from __future__ import annotations

import copy
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from pronk.cli import screen
from pronk.cli.checkpoint import checkpoint_record, damage_reported, locked
from pronk.cli.inputs import input_contents, input_files, learned_inputs, refuse_learned
from pronk.cli.models import (
    build,
    check_weights,
    open_for_model,
    open_with_target,
    read_setting,
)
from pronk.cli.on_alarm import split
from pronk.cli.outputs import check_metrics_ending, check_outputs
from pronk.cli.predictions import STANDARD_OUTPUT, StandardOutput, check_ending, check_quantiles
from pronk.cli.run_loop import RunLoop
from pronk.cli.scale_out import (
    KeyedRun,
    key_errors,
    keyed_rows,
    models_folder,
    training_record_in,
    with_key,
)
from pronk.cli.screen import CommandError
from pronk.cli.summary import as_dict, note_columns, note_worse, print_summary, write_page
from pronk.data import FileStream, Preparing, Reading
from pronk.data.opening import NDJSON
from pronk.data.prepared import around, prepared
from pronk.estimators import files
from pronk.estimators.inputs import InvalidParameterError
from pronk.estimators.registry import defaults_of, find
from pronk.evaluate.comparison_run import warm_up
from pronk.evaluate.models import supports_times
from pronk.keyed import Keyed


@dataclass(frozen=True)
class RunOptions:
    """The options of `pronk run`."""

    reading: Reading
    preparing: Preparing
    algorithm: str
    param: tuple[str, ...] = ()
    model: Path | None = None
    again: bool = False
    delay: int = 0
    save: Path | None = None
    predictions: Path | None = None
    interval: float | None = None
    quantiles: tuple[float, ...] | None = None
    probabilities: bool = True
    metrics: Path | None = None
    metrics_every: int = 1000
    window: int = 1000
    report: Path | None = None
    on_alarm: str | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 100_000
    skip_bad: Path | None = None
    seed: int = 0
    workers: int | None = None
    by: str | None = None


def run_job(job: RunOptions, *, as_json: bool) -> None:
    """Check the options, read the file once, print the summary."""
    check_job(job)
    with locked(job.checkpoint), ExitStack() as stack:
        _run(job, as_json, stack)


def _run(job: RunOptions, as_json: bool, stack: ExitStack) -> None:
    console = screen.messages()
    chosen: dict[str, Any] = {}
    if job.model is None:
        model, stream, chosen = _new_model(job, stack)
        for text in stream.notes(options=True):
            screen.note(text, console)
    else:
        job, model, stream = _resumed_model(job, job.model, stack)
    if isinstance(model, KeyedRun):
        stream.rows = keyed_rows(len(stream.columns))
    if job.workers is not None and job.by is None:
        text = "--workers shares the models of --by; one model learns on one core"
        screen.note(text, console)
    check_quantiles(job.interval, job.quantiles, stream.task, model)
    if stream.weight is not None:
        check_weights(stream.head(64)[2], model.learner, job.algorithm)
    _check_times(job, stream, model)
    run = RunLoop(job, stream, model, console, as_json)
    if job.save is not None:
        _check_input(run, model.__dict__.get("training_record_") or {}, console)
    if "training_record_" in model.__dict__:
        run.resume_metrics(model.training_record_)
    with screen.warnings_as_notes(console):
        _warm(run.model, stream, console)
        _note_unbounded(job.algorithm, model.learner, console)
        last = run.run()
    run.chosen = dict(chosen)
    if "bandwidth" in chosen and not isinstance(model, KeyedRun):  # estimated from the first rows
        run.chosen["bandwidth"] = float(run.model.learner_.kernel_.bandwidth)
    if stream.task == "classification" and len(run.model.classes_) < 2:
        label = run.model.classes_[0]
        raise CommandError(
            f"--target: all {last.rows:,} rows have the label {label!s}; there is nothing to learn "
            "(--task regression learns a constant number)"
        )
    if job.save is not None:
        run.model.training_record_ = run.training_record()
        with screen.writing("--save", job.save):
            run.model.save(job.save)
    if job.report is not None:
        write_page(run, last, job.report)
    # The summary goes to stderr where the predictions are printed to stdout.
    printed = isinstance(run.predictions, StandardOutput)
    if as_json:
        screen.print_json(as_dict(run, last), sys.stderr if printed else None)
    else:
        print_summary(run, last, console if printed else screen.output())
    if not (as_json and printed):  # then stderr is JSON, which has the same facts
        note_worse(run, console)
        note_columns(run, console)
    if isinstance(run.model, KeyedRun):
        run.model.keyed.close()


def _new_model(job: RunOptions, stack: ExitStack) -> tuple[Any, FileStream, dict[str, Any]]:
    """Build the model; return it with the rows and the parameters that were chosen for it."""
    with screen.blaming("--algorithm"):
        find(job.algorithm)
    reading = job.reading if job.by is None else with_key(job.reading, job.by)
    with key_errors(job.by):
        stream = open_with_target(reading)
    keyed = job.by is not None
    learner = build(job.algorithm, stream.task, job.param, job.seed, per_key=keyed)
    given = dict(map(read_setting, job.param))
    chosen = defaults_of(job.algorithm, stream.task, given, per_key=keyed)
    model: Any = prepared(learner, stream, job.preparing)
    if keyed:
        folder = stack.enter_context(models_folder(job))
        model = KeyedRun(Keyed(model, by=job.by, folder=folder))
        stack.callback(model.abandon)
    return model, stream, chosen


def _resumed_model(
    job: RunOptions, path: Path, stack: ExitStack
) -> tuple[RunOptions, Any, FileStream]:
    """Load the model of `--model`; return it with the options it decides and the rows."""
    model: Any = KeyedRun.load(path) if path.is_dir() else around(files.load(path))
    if isinstance(model, KeyedRun):
        stack.callback(model.abandon)
    else:
        record = checkpoint_record(path)
        if record is not None:
            model.training_record_ = record
    job = options_for_model(job, model)
    refuse_combinations(job)
    stream = open_for_model(model, path, job.reading)
    if isinstance(model, KeyedRun):
        model.move_to(job.save)
        model.move_to(stack.enter_context(models_folder(job)))
    return job, model, stream


# -- before the run ------------------------------------------------------------------------------


def check_job(job: RunOptions) -> None:
    """Raise if options exclude each other or an output cannot be written to a file of its own."""
    refuse_combinations(job)
    keyed = job.model is not None and (job.model / "store.json").is_file()
    if job.model is not None and not job.model.is_file() and not keyed:
        raise CommandError(f"--model: {str(job.model)!r} does not exist, or is not a saved model")
    outputs = {
        # One model per key: a folder.
        "--save": None if job.by or keyed else job.model if job.save is None else job.save,
        "--predictions": job.predictions,
        "--metrics": job.metrics,
        "--report": job.report,
        "--checkpoint": job.checkpoint,
        "--skip-bad": job.skip_bad,
    }
    check_outputs(outputs, job.reading.file, job.reading.query)
    if job.metrics is not None:
        check_metrics_ending(job.metrics)
    if job.predictions is not None and str(job.predictions) != STANDARD_OUTPUT:
        check_ending(job.predictions, "--predictions")
    if job.on_alarm is not None:
        split(job.on_alarm)


def refuse_combinations(job: RunOptions) -> None:
    """Raise if options exclude each other, or one has no effect without another."""
    by, workers = job.by is not None, job.workers is not None
    saves = job.model is not None or (by and job.save is not None)
    fixed = job.predictions is not None and job.predictions.suffix.lower() not in (".csv", *NDJSON)
    usual = RunOptions
    refused = {
        "--predictions: with --checkpoint, predictions need a .csv or .ndjson file: printed rows, "
        "and those of a Parquet file, cannot be removed when a run resumes": fixed
        and job.checkpoint is not None,
        "--again needs --model, or --by with --save: other runs start over": job.again
        and not saves,
        "--keep needs --predictions, to which the columns are copied": job.reading.keep
        and job.predictions is None,
        "--no-probabilities has no effect without --predictions": not job.probabilities
        and job.predictions is None,
        "--metrics-every has no effect without --metrics": job.metrics is None
        and job.metrics_every != usual.metrics_every,
        "--checkpoint-every has no effect without --checkpoint": job.checkpoint is None
        and job.checkpoint_every != usual.checkpoint_every,
        "--workers excludes --delay: a pass with late labels is not split": workers and job.delay,
        "--time excludes --workers: a pass with times is not split": workers
        and job.reading.time is not None,
        "--checkpoint excludes --by, which keeps its models in the folder of --save": by
        and job.checkpoint is not None,
        "--weight: sample weights are not supported with --by and --workers": by
        and workers
        and job.reading.weight is not None,
        "--interval with --by excludes --workers: leave one of them out": by
        and workers
        and job.interval is not None,
        "--quantiles with --by excludes --workers: leave one of them out": by
        and workers
        and job.quantiles is not None,
    }
    for text, found in refused.items():
        if found:
            raise CommandError(text)


def options_for_model(job: RunOptions, model: Any) -> RunOptions:
    """Return the options of a run that resumes a model, with those that the model decides."""
    assert job.model is not None
    keyed = isinstance(model, KeyedRun)
    if job.by is not None and job.by != getattr(model, "by", None):
        what = f"has its keys in column {model.by!r}" if keyed else "is a single model without keys"
        raise CommandError(f"--by: {str(job.model)!r} {what}")
    if job.save is None and not keyed:
        header = files.read_header(job.model)
        if header["class"] == files.CHECKPOINT:
            raise CommandError(
                f"--model: {str(job.model)!r} is a checkpoint; name the new model with --save"
            )
    training_record = model.__dict__.get("training_record_") or {}
    algorithm = training_record.get("algorithm", type(model.learner).__name__)
    target = job.reading.target if job.reading.target is not None else training_record.get("target")
    if target is None:
        raise CommandError("--target is missing: name the column to predict")
    known, known_time = training_record.get("weight"), training_record.get("time")
    *_, levels, interval = training_record.get("scored_as", [None, None])
    return replace(
        job,
        # Coverage continues to be counted.
        interval=interval if job.interval is None and not keyed else job.interval,
        quantiles=tuple(levels)
        if job.quantiles is None and not keyed and levels
        else job.quantiles,
        algorithm=algorithm,
        save=job.model if job.save is None else job.save,
        reading=replace(
            job.reading,
            target=target,
            weight=job.reading.weight or known,
            time=job.reading.time or known_time,
        ),
        preparing=model.preparing
        if keyed
        else Preparing(model.scaling_, model.encoding, model.slots, model.scale_target),
        by=model.by if keyed else None,
    )


def _check_input(run: RunLoop, training_record: dict[str, Any], console: Console) -> None:
    """Record which files the model learns; raise if it has already learned one of them.

    The models of `--by` that are in the folder of `--save` are resumed without `--model`.
    """
    job = run.job
    option, place = ("--save", job.save) if job.model is None else ("--model", job.model)
    assert place is not None
    with damage_reported(f"{option}: {str(place)!r}", "train it again"):
        if job.model is None and job.by is not None:
            training_record = training_record_in(place) or {}
        run.learned = learned_inputs(training_record)
    with console.status("reading the input"):
        known = [file for one in run.learned for file in one.files]
        run.files_read = input_contents(input_files(job.reading), known)
    if run.files_read is None:
        what = "rows of a query" if job.reading.query else f"rows of {job.reading.name}"
        screen.note(f"{what} are not recorded in the model and can be learned twice", console)
    elif not job.again and not (job.checkpoint is not None and job.checkpoint.exists()):
        refuse_learned(option, place, run.learned, run.files_read)


def _check_times(job: RunOptions, stream: FileStream, model: Any) -> None:
    """Raise if times are missing, or given to a learner that does not use them."""
    learner = model.learner
    if stream.time is None and isinstance(getattr(learner, "half_life", None), str):
        raise CommandError(f"--time is missing: half_life={learner.half_life!r} is a time")
    if stream.time is not None and not supports_times(learner):
        raise CommandError(
            f"--time: {job.algorithm} does not forget by time; use the default learner, or one "
            "with a half-life in time, such as --algorithm kernel-awv --param half_life=1h"
        )


def _warm(model: Any, stream: FileStream, console: Console) -> None:
    """Learn the first rows with a copy, to find invalid parameters and to compile before timing."""
    twin: Any = model.model_of_new_key() if isinstance(model, KeyedRun) else copy.deepcopy(model)
    with console.status("compiling, once per environment"):
        try:
            warm_up(twin, stream, single=0)
        except InvalidParameterError as error:
            raise CommandError(f"--param: {error}") from None


def _note_unbounded(name: str, learner: Any, console: Console) -> None:
    try:
        algorithm = find(name)
    except ValueError:  # a model saved from Python, named by its class
        return
    if algorithm.bounded or getattr(learner, "history", None) == "projected":
        return
    if not hasattr(learner, "history") and getattr(learner, "budget", None) is not None:
        return  # the budget bounds the number of points
    advice = "; --param history=projected bounds it" if hasattr(learner, "history") else ""
    screen.note(f"the memory of {name} grows with the rows ({algorithm.memory}){advice}", console)
