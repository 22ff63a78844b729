"""Several learners over one file, some runs each: who is compared on what, and how."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import without_gaps, without_label
from pronk.data import FileStream, Preparing, Reading, StreamError
from pronk.data.errors import without_secret, without_secrets
from pronk.data.prepared import prepared
from pronk.estimators.atomic import write_atomically
from pronk.estimators.registry import make
from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.formatting import setting
from pronk.evaluate.metrics import DEFAULTS
from pronk.evaluate.models import Weights, adapt
from pronk.evaluate.orders import order_of, shuffled
from pronk.evaluate.progressive import Evaluation
from pronk.evaluate.scoring import Record, part
from pronk.evaluate.study import Job

ORDERS = ("given", "random")
#: Windows of the windowed loss, and rows that a window has at least.
CURVE_WINDOWS = 50
LEAST = 100

#: The files of a results directory.
COMPARISON, RECORDS = "comparison.json", "records.jsonl"


@dataclass(frozen=True)
class ComparedLearner:
    """A learner in a comparison."""

    label: str
    algorithm: str
    """Name in the registry; empty for the baseline."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters other than the defaults; those of the kernel by their own names."""
    scale: str | None = None
    """Scaling of this learner, if not that of the comparison."""

    def build(self, task: str, seed: int) -> Any:
        """Return a new learner."""
        if not self.algorithm:
            return RunningMajority() if task == "classification" else RunningMean()
        return make(self.algorithm, task, random_state=seed, **self.params)


@dataclass(frozen=True)
class Comparison:
    """The learners, the data and the settings of a comparison."""

    reading: Reading
    """The file and how it is read; its task is known."""
    digest: str
    """Hash of the file: another file of the same name is another comparison."""
    reason: str
    """What the task was inferred from, if it was not given."""
    columns: list[str]
    rows: int
    learners: list[ComparedLearner]
    runs: int
    preparing: Preparing = field(default_factory=Preparing)
    order: str = "given"
    seed: int = 0
    unlabelled: int = 0
    """Rows without a label, which are only predicted."""

    @property
    def file(self) -> str:
        """The name of the input, without passwords."""
        return without_secret(self.reading.file)

    @property
    def target(self) -> str:
        """The column to predict."""
        return str(self.reading.target)

    @property
    def task(self) -> str:
        """Regression or classification."""
        return self.reading.task

    @property
    def scale(self) -> str:
        """The scaling of learners without their own."""
        return self.preparing.scale

    @property
    def baseline(self) -> ComparedLearner:
        """The baseline."""
        label = "most frequent label" if self.task == "classification" else "running mean"
        return ComparedLearner(label, "")

    @property
    def metric(self) -> str:
        """The metric by which learners are ordered."""
        return DEFAULTS[self.task][0]

    @property
    def window(self) -> int:
        """Rows of the windowed metrics."""
        return min(self.rows, max(LEAST, self.rows // CURVE_WINDOWS))

    @property
    def view(self) -> dict[str, Any]:
        """The file and how its rows are read and prepared, for `open_stream` and `prepare`.

        Defaults are left out, so that an option added later does not change existing keys.
        """
        preparing = self.preparing.chosen()
        preparing.pop("scale", None)  # it is a setting of each learner
        preparing.pop("scale_target", None)
        usual: dict[str, Any] = {"drop": [], "limit": None, "delimiter": None}
        view = {**usual, **self.reading.chosen(), "digest": self.digest}
        if self.task == "regression":  # always: earlier results learned y as it is
            view["scale_target"] = self.preparing.scale_target
        return {**view, **preparing} if self.reading.categorical else view

    def jobs(self) -> list[Job]:
        """Return all runs by seed, so that an interrupted comparison has runs of all learners."""
        jobs = []
        for run in range(self.runs):
            for compared in [*self.learners, self.baseline]:
                if not compared.algorithm and run and self.order == "given":
                    continue  # the baseline has no seed: one run suffices
                settings = {
                    "algorithm": compared.algorithm,
                    "params": compared.params,
                    "order": self.order,
                    "scale": compared.scale or self.scale,
                    "rows": self.rows,
                    "window": self.window,
                }
                work, seed = "comparison:one_run", self.seed + run
                jobs.append(Job(compared.label, self.group, work, seed, settings, self.view))
        return jobs

    @property
    def group(self) -> str:
        """The name of the data."""
        return f"{Path(self.file).name}, {self.target}"

    def save(self, directory: Path) -> None:
        """Write the comparison to its folder, for a report from the records beside it.

        The keys of the runs are written too, because they depend on the version.
        """
        keys = [(job.label, job.key) for job in self.jobs()]
        saved = {k: v for k, v in asdict(self).items() if k not in ("reading", "preparing")}
        saved |= {**without_secrets(asdict(self.reading)), **asdict(self.preparing)}
        saved["only"] = self.reading.columns
        text = json.dumps({**saved, "columns": self.columns, "keys": keys}, indent=2) + "\n"
        write_atomically(directory / COMPARISON, text.encode())

    @classmethod
    def load(cls, directory: Path) -> tuple[Comparison, list[tuple[str, str]]]:
        """Load the comparison of a results folder, with labels and keys of its runs."""
        path = directory / COMPARISON
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            _check_kinds(saved)
            learners = [ComparedLearner(**compared) for compared in saved.pop("learners")]
            keys = [(str(label), str(key)) for label, key in saved.pop("keys")]
            known = {one.name for one in fields(cls)} - {"reading", "preparing"}
            reading = Reading.of({**saved, "columns": saved.get("only", ())})
            plain = {name: value for name, value in saved.items() if name in known}
            preparing = Preparing.of(saved)
            return cls(reading, preparing=preparing, learners=learners, **plain), keys
        except FileNotFoundError:
            what = f"has no {COMPARISON}" if directory.is_dir() else "is not a directory"
            raise ValueError(f"{str(directory)!r} {what}; `pronk compare` writes one") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{str(path)!r} is damaged ({error}); the same `pronk compare` writes it again "
                "and keeps the finished runs"
            ) from None


def _check_kinds(saved: Any) -> None:
    """Raise a ValueError if this is not a saved comparison."""
    kinds: dict[str, type] = {
        **dict.fromkeys(("file", "digest", "target", "order", "scale"), str),
        **dict.fromkeys(("rows", "runs", "seed"), int),
        **dict.fromkeys(("columns", "learners", "keys", "drop"), list),
    }
    if not isinstance(saved, dict):
        raise ValueError("it is not an object")
    for name, kind in kinds.items():
        if not isinstance(saved.get(name), kind):
            raise ValueError(f"{name!r} is missing or invalid")
    if saved.get("task") not in DEFAULTS:
        raise ValueError("'task' is missing or invalid")


# -- the file --------------------------------------------------------------------------------------


def open_stream(view: dict[str, Any]) -> FileStream:
    """Open the rows of a view."""
    return Reading.of(view).open()


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

Block = tuple[NDArray[np.float64], NDArray[Any]]

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
    settings, stream = job.settings, open_stream(job.view)
    model, learner = _model(job, stream)
    warm_up(_model(job, stream)[0], stream, WARM, weighted=bool(settings["algorithm"]))
    evaluation = Evaluation(model, window=settings["window"], memory=True, trace=False)
    recorded = record_rows(settings["rows"], settings["window"])
    curve, rows = Curve(), 0
    for X, y in cut(_blocks(job, stream), recorded):
        X, weights = _split_weights(X, stream)
        # The baseline does not support sample weights.
        evaluation.feed(X, y, weights if settings["algorithm"] else None)
        rows += len(y)
        if rows in recorded:
            curve.add(rows, evaluation.record(), _certificate(learner))
    if rows != settings["rows"]:
        raise ValueError(f"the file now has {rows} rows; it had {settings['rows']}")
    last = curve.records[-1]
    params = learner.get_params() if hasattr(learner, "get_params") else {}
    return {
        "rows": last.rows,
        "unlabelled": last.unlabelled,
        "metrics": last.metrics,
        "recent": last.windowed,
        "seconds": last.seconds,
        "microseconds_per_row": last.microseconds_per_row,
        "size": last.size,
        "memory": last.memory,
        "params": {
            name: setting(value) for name, value in params.items() if name != "random_state"
        },
        "curve": curve.to_dict(),
    }


class Curve:
    """Records along a stream, kept as columns."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.records: list[Record] = []
        self.certificates: list[dict[str, Any] | None] = []

    def add(self, rows: int, record: Record, certificate: dict[str, Any] | None) -> None:
        """Add a record after so many rows of the stream, with or without a label."""
        self.rows.append(rows)
        self.records.append(record)
        self.certificates.append(certificate)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns by name, with regret and bound if they are known."""
        names, records = list(self.records[-1].metrics), self.records
        curve: dict[str, Any] = {
            "rows": self.rows,
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
    """Return the model of a run and the learner in it."""
    compared = ComparedLearner(job.label, job.settings["algorithm"], job.settings["params"])
    learner = compared.build(job.view["task"], job.seed)
    if not compared.algorithm:
        return learner, learner
    model = prepare(learner, job.settings["scale"], stream, job.view)
    return model, model.learner_


def warm_up(twin: Any, stream: FileStream, rows: int = 64, weighted: bool = True) -> None:
    """Learn the first rows with a copy of a model.

    This compiles the code, so that times are clean, and finds invalid parameters.
    """
    X, y, weights = labelled(*stream.head(rows + SINGLE)[:3])
    if not len(y):
        return
    adapter = adapt(twin, stream.task == "classification")
    for i in (0, *range(rows, len(y))):
        some = slice(i, i + 1 if i else rows)
        adapter.predict_then_learn(X[some], y[some], part(weights, some) if weighted else None)


def labelled(
    X: NDArray[np.float64], y: NDArray[Any], weights: Weights = None
) -> tuple[NDArray[np.float64], NDArray[Any], Weights]:
    """Return the rows that have a label."""
    missing = without_label(y)
    if missing is None:
        return X, y, weights
    y = y[~missing]
    return X[~missing], without_gaps(y) if len(y) else y, part(weights, ~missing)


def _certificate(learner: Any) -> dict[str, Any] | None:
    """Return regret and bound of a learner that tracks them."""
    if not hasattr(learner, "certificate"):
        return None
    try:
        certificate: dict[str, Any] = learner.certificate().to_dict()
    except (ValueError, TypeError):
        return None
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
    for X, y in blocks:
        inside = [end - done for end in ends if done < end < done + len(y)]
        for start, end in zip([0, *inside], [*inside, len(y)], strict=True):
            yield X[start:end], y[start:end]
        done += len(y)


def _blocks(job: Job, stream: FileStream) -> Iterator[Block]:
    """Yield the rows of a run, in the order of the file or in the random order of its seed."""
    blocks, columns = _with_weights(stream), len(stream.columns) + (stream.weight is not None)
    if job.settings["order"] == "given":
        yield from blocks
    else:
        order = order_of(job.seed, job.settings["rows"])
        yield from shuffled(blocks, order, columns, stream.task)


def _with_weights(stream: FileStream) -> Iterator[Block]:
    """Yield the rows with their weights as last column, so that shuffling keeps both together."""
    for X, y, weights, *_ in stream.blocks():
        yield (X if weights is None else np.column_stack([X, weights])), y


def _split_weights(
    X: NDArray[np.float64], stream: FileStream
) -> tuple[NDArray[np.float64], Weights]:
    """Split rows and weights again."""
    if stream.weight is None:
        return X, None
    return np.ascontiguousarray(X[:, :-1]), np.ascontiguousarray(X[:, -1])
