"""The rows of a file for a model that is there already: its columns, found by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pronk.cli.errors import CommandError
from pronk.cli.keyed import KeyedRun, key_named, with_key
from pronk.cli.run_options import RunOptions
from pronk.cluster.pool import shares_rows
from pronk.estimators import storage
from pronk.evaluate.adapters import predicts_labels
from pronk.streams import FileStream, Prepared, Preparing, Reading, StreamError
from pronk.streams.dates import DATE, TIME
from pronk.streams.errors import argument
from pronk.streams.prepared import around
from pronk.streams.values import CATEGORY, NUMBER, NUMERIC

_GAP = f"{argument('missing', 'mean')} fills it in"


def task_of(model: Any) -> str:
    """Regression or classification."""
    return "classification" if predicts_labels(model, np.zeros(0)) else "regression"


def outputs_of(model: Any) -> int:
    """The targets that a model predicts."""
    if task_of(model) == "classification":
        return 1  # whatever its engine has
    return int(getattr(getattr(model, "learner_", model), "_outputs", 1))


def target_names(model: Any, stream: FileStream) -> list[str]:
    """Names of several targets: the stream's, those the model learned, or numbers; none of one."""
    outputs = outputs_of(model)
    if outputs < 2:
        return []
    known = (model.__dict__.get("story_") or {}).get("targets")
    names = stream.targets or (known if isinstance(known, list) else [])
    return list(map(str, names if len(names) == outputs else range(outputs)))


def saved_model(path: Path) -> Prepared | KeyedRun:
    """The model of a file or the models of a folder, to go on with."""
    return KeyedRun.load(path) if path.is_dir() else around(storage.load(path))


def for_model(job: RunOptions, model: Any) -> RunOptions:
    """A job that goes on with a model: what the model knows is not chosen again."""
    assert job.model is not None
    keyed = isinstance(model, KeyedRun)
    if job.by is not None and job.by != getattr(model, "by", None):
        what = f"has its keys in column {model.by!r}" if keyed else "is one model, without keys"
        raise CommandError(f"--by: {str(job.model)!r} {what}")
    if job.save is None and not keyed:
        header = storage.read_header(job.model)
        if header["class"] == storage.CHECKPOINT:
            raise CommandError(
                f"--model: {str(job.model)!r} is a checkpoint; give --save, where the model goes"
            )
    story = model.__dict__.get("story_") or {}
    algorithm = story.get("algorithm", type(model.learner).__name__)
    target = job.reading.target if job.reading.target is not None else story.get("target")
    if target is None:
        raise CommandError("--target is missing: which column is to be predicted?")
    known = story.get("weight")
    *_, interval = story.get("scored_as", [None])
    here = not keyed and (job.cluster is None or shares_rows(model))
    return replace(
        job,
        # A coverage that was counted goes on; where workers read the rows there is none.
        interval=interval if job.interval is None and here else job.interval,
        algorithm=algorithm,
        save=job.model if job.save is None else job.save,
        reading=replace(job.reading, target=target, weight=job.reading.weight or known),
        preparing=model.preparing
        if keyed
        else Preparing(model.scaling_, model.encoding, model.slots, model.scale_target),
        by=model.by if keyed else None,
    )


def open_for(model: Any, path: Path, reading: Reading, rows: int | None = None) -> FileStream:
    """The rows with the columns of a model, read as the model expects them.

    The model's names choose the columns; ``columns`` of the reading stand in their places.
    """
    if isinstance(model, KeyedRun):
        reading = with_key(reading, model.by)
    names, kinds = _columns(model)
    fills = getattr(model, "missing", "error")
    if reading.missing == "mean" and fills != "mean":
        raise CommandError(
            f"--missing: {str(path)!r} has learned without missing values and has no means to put "
            "there; let it learn with --missing mean"
        )
    given = [name for text in reading.columns for name in text.split(",")] or names or []
    if len(given) not in (0, len(kinds)):
        raise CommandError(
            f"--columns names {len(given)} columns; the model has {len(kinds)}, in its order"
        )
    if reading.weight is not None and reading.weight in given:
        raise CommandError(f"--weight: {reading.weight!r} is a column that the model learns from")
    categories = [name for name, kind in zip(given, kinds, strict=False) if kind == CATEGORY]
    chosen = replace(
        reading,
        columns=tuple(given),
        drop=() if given else reading.drop,
        categorical=tuple(categories) if given else reading.categorical,
        missing=fills,
        task=task_of(model),
    )
    with key_named(getattr(model, "by", None)):
        stream = chosen.open(rows=rows)
    outputs = outputs_of(model)
    if stream.targets and len(stream.targets) != outputs:
        known = (model.__dict__.get("story_") or {}).get("target")
        what = f"{outputs} targets" if outputs > 1 else "one target"
        raise CommandError(
            f"--target names {len(stream.targets)}; {str(path)!r} has learned {what}"
            + (f", {known}" if known else "")
        )
    if len(stream.columns) != len(kinds):
        raise CommandError(
            f"{reading.file!r} has {len(stream.columns)} columns; the model has {len(kinds)}, and "
            "no names to choose them by"
        )
    for name, kind, known in zip(stream.columns, stream.kinds, kinds, strict=True):
        if kind != known and not {kind, known} <= {DATE, TIME} and not {kind, known} <= {*NUMERIC}:
            raise CommandError(
                f"{reading.file!r}: column {name!r} is a {kind}, but the model has learned it as "
                f"a {known}"
            )
    if isinstance(model, Prepared | KeyedRun):
        stream.orders = model.orders_
    return stream


def _columns(model: Any) -> tuple[list[str] | None, list[str]]:
    """Names, if there are any, and kinds of a model's columns."""
    names = getattr(model, "feature_names_in_", None)
    found = None if names is None else [str(name) for name in names]
    if isinstance(model, Prepared | KeyedRun):
        return found, list(model.kinds_)
    return found, [NUMBER] * int(model.n_features_in_)


def worded(error: StreamError, path: Path) -> StreamError:
    """A gap cannot be filled by a model that has not learned how."""
    what = f"{str(path)!r} has learned without missing values, so it cannot fill it in"
    return StreamError(error.text.replace(_GAP, what))
