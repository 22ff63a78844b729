"""The runs of a comparison: learn a file in its order or in a random one, and keep a curve."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import without_gaps, without_label
from pronk.data import FileStream, Preparing, Reading, StreamError
from pronk.data.prepared import prepared
from pronk.evaluate.comparison import ComparedLearner
from pronk.evaluate.evaluation import Evaluation, Record, part
from pronk.evaluate.formatting import setting
from pronk.evaluate.models import Weights, adapt, can, supports_times
from pronk.evaluate.study import Job

Array = NDArray[np.float64]
#: X, y and, of a file, its weights or None.
Block = tuple[Any, ...]

# -- the file --------------------------------------------------------------------------------------


def prepare(learner: Any, scale: str, stream: FileStream, view: dict[str, Any]) -> Any:
    """Wrap a learner in the preparation of its columns."""
    return prepared(learner, stream, replace(Preparing.of(view), scale=scale))


class Inspection(NamedTuple):
    """What was found in a file."""

    rows: int
    unlabelled: int
    digest: str


def inspect(stream: FileStream) -> Inspection:
    """Read the whole file once before the runs; raise if no learner can learn from it.

    The digest is that of the file, or of the rows if they come from several files or a database.
    """
    rows, unlabelled, labels, digest = 0, 0, set[Any](), hashlib.sha256()
    one_file = stream.reading.query is None and stream.path.is_file()
    for block in stream.blocks():
        X, y = block.X, block.y
        rows += len(y)
        missing = without_label(y)
        if missing is not None:
            unlabelled += int(missing.sum())
            y = y[~missing]
        if stream.task == "classification" and len(labels) < 2:
            labels.update(y.tolist())
        if not one_file:
            digest.update(X.tobytes() + repr(y.tolist()).encode())
            digest.update(b"" if block.weights is None else block.weights.tobytes())
    if rows == unlabelled:
        raise StreamError(f"no row has a label in column {stream.target!r}", argument="target")
    if stream.task == "classification" and len(labels) == 1:
        raise StreamError(
            f"all {rows - unlabelled:,} rows have the label {labels.pop()!s}; there is nothing to "
            "learn",
            argument="target",
        )
    if not one_file:
        return Inspection(rows, unlabelled, digest.hexdigest())
    with stream.path.open("rb") as file:
        return Inspection(rows, unlabelled, hashlib.file_digest(file, "sha256").hexdigest())


# -- one run ---------------------------------------------------------------------------------------
#
# A run reads the file in its own order or in a random one and keeps a curve: records at some rows,
# ten per power of ten for logarithmic axes and up to fifty at equal distances for windows. Between
# two records the learner gets blocks of the usual length, so its time is that of a plain pass.

#: Records per power of ten.
STEPS = 10
#: Rows that a copy learns first, so that times do not include compilation.
WARM = 300
#: Further rows learned one at a time, by another compiled loop.
SINGLE = 3


class RunError(Exception):
    """A run failed; the message says which and why."""


def one_run(job: Job) -> dict[str, Any]:
    """Run one learner over the file; return its final scores and its curve."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = _run(job)
    except MemoryError:
        raise
    except Exception as error:
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise RunError(f"{job.label}, seed {job.seed}: {what}") from error
    texts = [" ".join(str(warning.message).split()) for warning in caught]
    return {**result, "notes": list(dict.fromkeys(texts))}


def _run(job: Job) -> dict[str, Any]:
    settings, stream = job.settings, Reading.of(job.view).open()
    model, learner = _model(job, stream)
    warm_up(_model(job, stream)[0], stream, WARM)
    evaluation = Evaluation(model, window=settings["window"], memory=True, trace=False)
    recorded = record_rows(settings["rows"], settings["window"])
    curve, rows = [], 0
    for X, y, weights in cut(_blocks(job, stream), recorded):
        evaluation.feed(X, y, weights_for(model, weights), weights)
        rows += len(y)
        if rows in recorded:
            curve.append((rows, evaluation.record(), _certificate(learner)))
    if rows != settings["rows"]:
        raise ValueError(f"the file now has {rows} rows; it had {settings['rows']}")
    last = curve[-1][1].to_dict()
    params = learner.get_params() if hasattr(learner, "get_params") else {}
    return {
        "recent": last.pop("windowed"),
        **last,
        "params": {
            name: setting(value) for name, value in params.items() if name != "random_state"
        },
        "curve": _as_columns(curve),
    }


def _as_columns(curve: list[tuple[int, Record, dict[str, Any]]]) -> dict[str, Any]:
    """Return numbers of rows, records and certificates along a stream as columns by name.

    Regret and bound are among them if they are known.
    """
    rows, records, certificates = zip(*curve, strict=True)
    names = list(records[-1].metrics)
    columns: dict[str, Any] = {
        "rows": list(rows),
        "metrics": {name: [one.metrics.get(name) for one in records] for name in names},
        "windowed": {name: [one.windowed.get(name) for one in records] for name in names},
    }
    for name in ("seconds", "size", "memory"):
        columns[name] = [getattr(one, name) for one in records]
    if any(certificates):
        for name in ("regret", "bound"):
            columns[name] = [one.get(name) for one in certificates]
    return columns


def _model(job: Job, stream: FileStream) -> tuple[Any, Any]:
    """Return the model of a run and the learner in it."""
    compared = ComparedLearner(job.label, job.settings["algorithm"], job.settings["params"])
    learner = compared.build(job.view["task"], job.seed)
    if not compared.algorithm:
        return learner, learner
    model = prepare(learner, job.settings["scale"], stream, job.view)
    return model, model.learner_


def weights_for(model: Any, weights: Weights) -> Weights:
    """Return the weights and times of rows that a model uses; the baseline uses none."""
    if weights is not None and weights.ndim == 2 and not supports_times(model):
        weights = None if (weights[:, 0] == 1.0).all() else np.ascontiguousarray(weights[:, 0])
    timed = weights is not None and weights.ndim == 2
    return weights if timed or can(model, "_accepts_weights") else None


def warm_up(twin: Any, stream: FileStream, rows: int = 64, single: int = SINGLE) -> None:
    """Learn the first rows with a copy of a model, the last ``single`` of them one at a time.

    This compiles the code, so that times are clean, and finds invalid parameters.
    """
    X, y, weights = labelled(*stream.head(rows + single)[:3])
    weights = weights_for(twin, weights)
    if not len(y):
        return
    adapter = adapt(twin, stream.task == "classification")
    for i in (0, *range(rows, len(y))):
        some = slice(i, i + 1 if i else rows)
        adapter.predict_then_learn(X[some], y[some], part(weights, some))


def labelled(
    X: Array, y: NDArray[Any], weights: Weights = None
) -> tuple[Array, NDArray[Any], Weights]:
    """Return the rows that have a label."""
    missing = without_label(y)
    if missing is None:
        return X, y, weights
    y = y[~missing]
    return X[~missing], without_gaps(y) if len(y) else y, part(weights, ~missing)


def _certificate(learner: Any) -> dict[str, Any]:
    """Return regret and bound of a learner that tracks them; empty for others."""
    try:
        certificate: dict[str, Any] = learner.certificate().to_dict()
    except (AttributeError, ValueError, TypeError):
        return {}
    return certificate


# -- rows --------------------------------------------------------------------------------------


def record_rows(rows: int, window: int) -> frozenset[int]:
    """Return the rows of the records: ten per power of ten from row 10, each window, the end."""
    decades = math.log10(max(rows, 10) / 10)
    powers = {round(10 * 10 ** (i / STEPS)) for i in range(math.floor(decades * STEPS) + 1)}
    return frozenset({m for m in {*powers, *range(window, rows, window)} if m < rows} | {rows})


def cut(blocks: Iterable[Block], rows: Iterable[int]) -> Iterator[Block]:
    """Cut the blocks after the rows of the records."""
    ends, done = sorted(rows), 0
    for block in blocks:
        count = len(block[1])
        inside = [end - done for end in ends if done < end < done + count]
        for start, end in pairwise([0, *inside, count]):
            yield tuple(part(values, slice(start, end)) for values in block)
        done += count


def _blocks(job: Job, stream: FileStream) -> Iterator[Block]:
    """Yield the rows of a run, in the order of the file or in the random order of its seed."""
    blocks = ((block.X, block.y, block.weights) for block in stream.blocks())
    if job.settings["order"] == "given":
        yield from blocks
    else:
        yield from shuffled(blocks, order_of(job.seed, job.settings["rows"]))


# -- random orders -------------------------------------------------------------------------------

#: Rows of an output block.
BLOCK = 4096


def order_of(seed: int, rows: int) -> NDArray[np.intp]:
    """Return the random permutation of a run."""
    return np.random.default_rng([seed, 1]).permutation(rows)


def shuffled(blocks: Iterable[Block], order: NDArray[np.intp]) -> Iterator[Block]:
    """Yield the rows of some blocks, held in memory, in a new order: ``order[0]``, ``order[1]``, ..

    Raise a ValueError if the blocks do not have as many rows as the order.
    """
    columns: list[Any] = [
        None if values[0] is None else np.concatenate(values)
        for values in zip(*blocks, strict=True)
    ]
    count = len(columns[1])
    if count != len(order):
        raise ValueError(f"the file now has {count} rows; it had {len(order)}")
    for start in range(0, len(order), BLOCK):
        chosen = order[start : start + BLOCK]
        yield tuple(part(values, chosen) for values in columns)
