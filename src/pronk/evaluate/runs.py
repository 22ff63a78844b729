"""One run of a comparison: a learner over the file once, and its curve.

A run walks the file in its own order or in a random one and keeps a curve: records at some rows,
ten to a power of ten for logarithmic axes and up to fifty at equal distances for windows. Between
two of them the learner gets blocks as long as they can be, so its time is that of a plain pass.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.adapters import Weights, adapt
from pronk.evaluate.comparison import Contender, open_stream, prepare
from pronk.evaluate.evaluation import Evaluation
from pronk.evaluate.orders import order_of, shuffled
from pronk.evaluate.plain_json import setting
from pronk.evaluate.records import Record
from pronk.evaluate.rows import part
from pronk.evaluate.study import Job
from pronk.parts.missing import without_gaps, without_label
from pronk.streams import FileStream

Block = tuple[NDArray[np.float64], NDArray[Any]]

#: Records to a power of ten.
STEPS = 10
#: Rows learned by a copy beforehand, so that compiling is in nobody's time.
WARM = 300
#: Rows more that are learned one at a time, which is another loop.
SINGLE = 3


class RunError(Exception):
    """A run failed; the message says which and why."""


def one_run(job: Job) -> dict[str, Any]:
    """Walk the file once: the final figures and the curve. The work of a job."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = _walk(job)
    except MemoryError:
        raise
    except Exception as error:
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise RunError(f"{job.label}, seed {job.seed}: {what}") from error
    texts = [" ".join(str(warning.message).split()) for warning in caught]
    return {**result, "notes": list(dict.fromkeys(texts))}


def _walk(job: Job) -> dict[str, Any]:
    settings, stream = job.settings, open_stream(job.view)
    model, learner = _model(job, stream)
    warm_with(_model(job, stream)[0], stream, WARM, weighted=bool(settings["algorithm"]))
    evaluation = Evaluation(model, window=settings["window"], memory=True, portrait=False)
    marks = marked_rows(settings["rows"], settings["window"])
    curve, walked = Curve(), 0
    for X, y in cut(_blocks(job, stream), marks):
        X, weights = _apart(X, stream)
        # What everyone must beat knows of no weights.
        evaluation.feed(X, y, weights if settings["algorithm"] else None)
        walked += len(y)
        if walked in marks:
            curve.add(walked, evaluation.record(), _certificate(learner))
    if walked != settings["rows"]:
        raise ValueError(f"the file has {walked} rows now, and had {settings['rows']}")
    last = curve.records[-1]
    said = learner.get_params() if hasattr(learner, "get_params") else {}
    return {
        "rows": last.rows,
        "unlabelled": last.unlabelled,
        "metrics": last.metrics,
        "recent": last.windowed,
        "seconds": last.seconds,
        "microseconds_a_row": last.microseconds_a_row,
        "size": last.size,
        "memory": last.memory,
        "params": {name: setting(value) for name, value in said.items() if name != "random_state"},
        "curve": curve.to_dict(),
    }


class Curve:
    """Records along a stream, kept as columns."""

    def __init__(self) -> None:
        self.walked: list[int] = []
        self.records: list[Record] = []
        self.certificates: list[dict[str, Any] | None] = []

    def add(self, walked: int, record: Record, certificate: dict[str, Any] | None) -> None:
        """A record after so many rows of the stream, with or without a label."""
        self.walked.append(walked)
        self.records.append(record)
        self.certificates.append(certificate)

    def to_dict(self) -> dict[str, Any]:
        """Columns by name; regret and bound where they are known."""
        names, records = list(self.records[-1].metrics), self.records
        curve: dict[str, Any] = {
            "rows": self.walked,
            "metrics": {name: [r.metrics.get(name) for r in records] for name in names},
            "windowed": {name: [r.windowed.get(name) for r in records] for name in names},
            "seconds": [record.seconds for record in records],
            "size": [record.size for record in records],
            "memory": [record.memory for record in records],
        }
        if any(self.certificates):
            for name in ("regret", "bound"):
                curve[name] = [c[name] if c else None for c in self.certificates]
        return curve


def _model(job: Job, stream: FileStream) -> tuple[Any, Any]:
    """The model of a run and the learner in it."""
    contender = Contender(job.label, job.settings["algorithm"], job.settings["params"])
    learner = contender.learner(job.view["task"], job.seed)
    if not contender.algorithm:
        return learner, learner
    model = prepare(learner, job.settings["scale"], stream, job.view)
    return model, model.learner_


def warm_with(twin: Any, stream: FileStream, rows: int = 64, weighted: bool = True) -> None:
    """Learn the first rows with a model that is then thrown away.

    Its code is then compiled, so that times are clean, and wrong parameters have shown.
    """
    X, y, weights = labelled(*stream.head(rows + SINGLE), stream.weights)
    if not len(y):
        return
    adapter = adapt(twin, stream.task == "classification")
    for i in (0, *range(rows, len(y))):
        some = slice(i, i + 1 if i else rows)
        adapter.predict_then_learn(X[some], y[some], part(weights, some) if weighted else None)


def labelled(
    X: NDArray[np.float64], y: NDArray[Any], weights: Weights = None
) -> tuple[NDArray[np.float64], NDArray[Any], Weights]:
    """The rows that have a label."""
    missing = without_label(y)
    if missing is None:
        return X, y, weights
    y = y[~missing]
    return X[~missing], without_gaps(y) if len(y) else y, part(weights, ~missing)


def _certificate(learner: Any) -> dict[str, Any] | None:
    """Regret and bound, of a learner that knows them."""
    if not hasattr(learner, "certificate"):
        return None
    try:
        certificate: dict[str, Any] = learner.certificate().to_dict()
    except (ValueError, TypeError):
        return None
    return certificate


# -- rows --------------------------------------------------------------------------------------


def marked_rows(rows: int, window: int) -> frozenset[int]:
    """Where records are kept: ten to a power of ten from row 10, at each window, at the end."""
    decades = math.log10(max(rows, 10) / 10)
    powers = {round(10 * 10 ** (i / STEPS)) for i in range(math.floor(decades * STEPS) + 1)}
    return frozenset({m for m in {*powers, *range(window, rows, window)} if m < rows} | {rows})


def cut(blocks: Iterable[Block], marks: Iterable[int]) -> Iterator[Block]:
    """The blocks, cut where a marked row ends."""
    ends, done = sorted(marks), 0
    for X, y in blocks:
        inside = [end - done for end in ends if done < end < done + len(y)]
        for start, end in zip([0, *inside], [*inside, len(y)], strict=True):
            yield X[start:end], y[start:end]
        done += len(y)


def _blocks(job: Job, stream: FileStream) -> Iterator[Block]:
    """The rows of a run, as the file has them or in the random order of its seed."""
    blocks, columns = _together(stream), len(stream.columns) + (stream.weight is not None)
    if job.settings["order"] == "given":
        yield from blocks
    else:
        order = order_of(job.seed, job.settings["rows"])
        yield from shuffled(blocks, order, columns, stream.task)


def _together(stream: FileStream) -> Iterator[Block]:
    """The rows with their weights as the last column, so that any order keeps them together."""
    for X, y in stream:
        yield (X if stream.weights is None else np.column_stack([X, stream.weights])), y


def _apart(X: NDArray[np.float64], stream: FileStream) -> tuple[NDArray[np.float64], Weights]:
    """Rows and weights that were put together."""
    if stream.weight is None:
        return X, None
    return np.ascontiguousarray(X[:, :-1]), np.ascontiguousarray(X[:, -1])
