"""Learners from options, saved models, and the rows of a file that fit them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pronk.cli.scale_out import KeyedRun, key_errors, with_key
from pronk.cli.screen import CommandError, blaming
from pronk.columns.dates import DATE, TIME
from pronk.columns.values import CATEGORY, NUMBER, NUMERIC
from pronk.data import FileStream, Prepared, Reading, StreamError
from pronk.data.errors import argument
from pronk.data.opening import open_source, reads_once
from pronk.data.stream import FILL_IN
from pronk.estimators.registry import find, make, make_for_key
from pronk.evaluate.models import predicts_labels

# -- the learner of --algorithm and --param --------------------------------------------------------


def build(
    name: str, task: str, settings: Sequence[str], seed: int, *, per_key: bool = False
) -> Any:
    """Build a learner as `pronk.make` does, with parameters given as text, ``key=value``."""
    params = dict(map(read_setting, settings))
    with blaming("--algorithm", "; see --task"):
        find(name).learner_class(task)
    if "random_state" in params:
        raise CommandError("--param: give random_state as --seed")
    if per_key and params.get("delay"):
        raise CommandError("--param delay with --by counts the rows of a key: use --delay")
    try:
        return (make_for_key if per_key else make)(name, task, random_state=seed, **params)
    except (TypeError, ValueError) as error:
        raise CommandError(f"--param: {error}") from None


def check_weights(weights: Any, learner: Any, name: str, start: int = 0) -> None:
    """Raise for a weight other than 0 and 1 if the learner counts every row once."""
    if weights is None or learner._accepts_weights():
        return
    given = np.asarray(weights)
    given = given if given.ndim == 1 else given[:, 0]
    other = (given != 0.0) & (given != 1.0)
    if other.any():
        row = int(other.argmax())
        raise CommandError(
            f"--weight: {name} has only the weights 0 and 1, got {given[row]:g} at row "
            f"{start + row} (counting from 0); choose another learner, such as pkawv-nystrom"
        )


def read_setting(text: str) -> tuple[str, Any]:
    """Read ``key=value``; the value is a number, a list, true, false, none or text."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise CommandError(f"--param: {text!r} must have the form key=value, as in alpha=0.1")
    key, value = key.strip(), value.strip()
    words = {"true": True, "false": False, "none": None}
    if value.lower() in words:
        return key, words[value.lower()]
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def describe_choices(chosen: dict[str, Any]) -> list[str]:
    """Describe the chosen parameters, and how to choose others."""
    texts = []
    if "bandwidth" in chosen:
        found = chosen["bandwidth"]
        number = f"{found:.4g}" if isinstance(found, float) else found
        texts.append(f"bandwidth={number}, the median distance of the first rows")
    if "budget" in chosen:
        small = "experts" in chosen  # the default learner, which always has a budget
        other = "500: as for a single model" if small else "none: no limit"
        texts.append(f"budget={chosen['budget']} (-p budget={other})")
    others = {k: v for k, v in chosen.items() if k not in ("bandwidth", "budget")}
    return texts + [f"{k}={v}" if isinstance(v, str) else f"{k}={v:g}" for k, v in others.items()]


# -- the rows of a file for a learner or a saved model ---------------------------------------------


def open_with_target(reading: Reading, rows: int | None = None) -> FileStream:
    """Open the input; raise if no target is given or known."""
    if reading.target is None and (reads_once(reading.file) or open_source(reading).label is None):
        raise CommandError("--target is missing: name the column to predict")
    return reading.open(rows=rows)


def task_of(model: Any) -> str:
    """Return "regression" or "classification"."""
    return "classification" if predicts_labels(model, np.zeros(0)) else "regression"


def outputs_of(model: Any) -> int:
    """Return the number of targets that a model predicts."""
    if task_of(model) == "classification":
        return 1  # however many outputs its engine has
    return int(getattr(getattr(model, "learner_", model), "_outputs", 1))


def target_names(model: Any, stream: FileStream) -> list[str]:
    """Return the names of several targets: of the stream, of the model, or numbers."""
    outputs = outputs_of(model)
    if outputs < 2:
        return []
    known = (model.__dict__.get("training_record_") or {}).get("targets")
    names = stream.targets or (known if isinstance(known, list) else [])
    return list(map(str, names if len(names) == outputs else range(outputs)))


def open_for_model(
    model: Any, path: Path, reading: Reading, rows: int | None = None, *, as_given: bool = False
) -> FileStream:
    """Open the rows of a file with the columns that a model expects.

    Columns are found by the model's names, or are those of ``reading.columns`` in its order.
    """
    if isinstance(model, KeyedRun):
        reading = with_key(reading, model.by)
    found = getattr(model, "feature_names_in_", None)
    names = [] if found is None else list(map(str, found))
    ready = isinstance(model, Prepared | KeyedRun)
    kinds = list(model.kinds_) if ready else [NUMBER] * int(model.n_features_in_)
    fills = getattr(model, "missing", "error")
    given = [name for text in reading.columns for name in text.split(",")] or names
    if len(given) not in (0, len(kinds)):
        raise CommandError(
            f"--columns names {len(given)} columns; name the {len(kinds)} of the model in order"
        )
    if reading.weight is not None and reading.weight in given:
        raise CommandError(f"--weight: {reading.weight!r} is a feature of the model")
    categories = [name for name, kind in zip(given, kinds, strict=False) if kind == CATEGORY]
    chosen = replace(
        reading,
        columns=tuple(given),
        drop=() if given else reading.drop,
        categorical=tuple(categories) if given else reading.categorical,
        missing=fills,
        task=task_of(model),
    )
    with key_errors(getattr(model, "by", None)):
        try:
            stream = chosen.open(rows=rows, as_given=as_given)
        except StreamError as error:
            # Its advice would change the columns or the task, which are those of the model.
            if not any(argument(name)[:-1] in error.hint for name in ("drop", "task")):
                raise
            missing = f"a word that means a missing value is named with {argument('na', 'WORD')}"
            hint = f"the model has learned it as a number: correct the values; {missing}"
            raise error.changed(hint=hint) from None
    outputs = outputs_of(model)
    if stream.targets and len(stream.targets) != outputs:
        known = (model.__dict__.get("training_record_") or {}).get("target")
        what = f"{outputs} targets" if outputs > 1 else "one target"
        raise CommandError(
            f"--target names {len(stream.targets)}; {str(path)!r} has learned {what}"
            + (f", {known}" if known else "")
        )
    if len(stream.columns) != len(kinds):
        raise CommandError(
            f"{reading.file!r} has {len(stream.columns)} columns; the model has {len(kinds)}, "
            "without names"
        )
    for name, kind, known in zip(stream.columns, stream.kinds, kinds, strict=True):
        # A number in a column of times is its seconds.
        same = kind == known or {kind, known} <= {DATE, TIME} or {kind, known} <= {*NUMERIC}
        if not same and (kind != NUMBER or known == CATEGORY):
            raise CommandError(
                f"{reading.file!r}: column {name!r} is a {kind}, but the model has learned it as "
                f"a {known}"
            )
    if ready:
        stream.read_dates_as(model.orders_)
    return stream


def missing_value_error(error: StreamError, path: Path) -> StreamError:
    """Reword the advice of an error: this model cannot fill in missing values."""
    if error.hint != FILL_IN:
        return error
    what = f"{str(path)!r} has learned without missing values, so it cannot fill it in"
    return error.changed(hint=what)
