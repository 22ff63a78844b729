"""Several learners over one file, some runs each: what is compared, one run, and the summaries.

A run walks the file in its own order or in a random one and keeps a curve: records at some rows,
ten to a power of ten for logarithmic axes and up to fifty at equal distances for windows. Between
two of them the learner gets blocks as long as they can be, so its time is that of a plain pass.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.estimators.registry import make
from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.metrics import DEFAULTS
from pronk.evaluate.study import Job, Record, Store
from pronk.evaluate.validation import Evaluation
from pronk.evaluate.validation import Record as Point
from pronk.streams import FileStream, Scaled

Block = tuple[NDArray[np.float64], NDArray[Any]]

ORDERS = ("given", "random")
#: Windows of the windowed loss, rows that a window has at least, and records to a power of ten.
WINDOWS = 50
LEAST = 100
STEPS = 10
#: Rows learned by a copy beforehand, so that compiling is in nobody's time.
WARM = 300
BLOCK = 4096

#: The files of a results directory.
COMPARISON, RECORDS = "comparison.json", "records.jsonl"


class RunError(Exception):
    """A run failed; the message says which and why."""


@dataclass(frozen=True)
class Contender:
    """A learner of the comparison."""

    label: str
    algorithm: str
    """A name of the registry; empty for the baseline."""
    params: dict[str, Any] = field(default_factory=dict)
    """What was chosen beside the defaults; a parameter of the kernel by its own name."""

    def learner(self, task: str, seed: int) -> Any:
        """A new learner."""
        if not self.algorithm:
            return RunningMajority() if task == "classification" else RunningMean()
        learner = make(self.algorithm, task, random_state=seed)
        chosen = dict(self.params)
        if "kernel" in chosen:
            learner.set_params(kernel=chosen.pop("kernel"))
        for name, value in chosen.items():
            known = learner.get_params()
            learner.set_params(**{name if name in known else f"kernel__{name}": value})
        return learner


@dataclass(frozen=True)
class Comparison:
    """Who is compared on what, and how."""

    file: str
    digest: str
    """Of the file's bytes: another file under the same name is another comparison."""
    target: str
    task: str
    reason: str
    """Why that task, where it was guessed."""
    columns: list[str]
    rows: int
    contenders: list[Contender]
    runs: int
    order: str = "given"
    scale: str = "minmax"
    drop: list[str] = field(default_factory=list)
    limit: int | None = None
    delimiter: str | None = None
    seed: int = 0

    @property
    def baseline(self) -> Contender:
        """What everyone must beat."""
        label = "most frequent label" if self.task == "classification" else "running mean"
        return Contender(label, "")

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return DEFAULTS[self.task][0]

    @property
    def window(self) -> int:
        """Rows of the windowed metrics."""
        return min(self.rows, max(LEAST, self.rows // WINDOWS))

    def jobs(self) -> list[Job]:
        """All runs, run by run, so that an interrupted comparison has some of everyone."""
        view = {
            name: getattr(self, name)
            for name in ("file", "digest", "target", "task", "drop", "limit", "delimiter")
        }
        jobs = []
        for run in range(self.runs):
            for contender in [*self.contenders, self.baseline]:
                if not contender.algorithm and run and self.order == "given":
                    continue  # it has no seed: all its runs are one
                settings = {
                    "algorithm": contender.algorithm,
                    "params": contender.params,
                    "order": self.order,
                    "scale": self.scale,
                    "rows": self.rows,
                    "window": self.window,
                }
                work, seed = "comparison:one_run", self.seed + run
                jobs.append(Job(contender.label, self.group, work, seed, settings, view))
        return jobs

    @property
    def group(self) -> str:
        """The name of the data."""
        return f"{Path(self.file).name}, {self.target}"

    def save(self, directory: Path) -> None:
        """Write what is compared; a report reads it with the records beside it.

        The keys are written too: a later version has other ones.
        """
        keys = [(job.label, job.key) for job in self.jobs()]
        text = json.dumps({**asdict(self), "keys": keys}, indent=2) + "\n"
        path, new = directory / COMPARISON, directory / f".{COMPARISON}.{os.getpid()}"
        new.write_text(text, encoding="utf-8")
        new.replace(path)

    @classmethod
    def load(cls, directory: Path) -> tuple[Comparison, list[tuple[str, str]]]:
        """The comparison of a results directory with labels and keys, or a ValueError."""
        path = directory / COMPARISON
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            contenders = [Contender(**contender) for contender in said.pop("contenders")]
            keys = [(str(label), str(key)) for label, key in said.pop("keys")]
            return cls(contenders=contenders, **said), keys
        except FileNotFoundError:
            what = f"has no {COMPARISON}" if directory.is_dir() else "is no directory"
            raise ValueError(f"{str(directory)!r} {what}; `pronk compare` writes one") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{str(path)!r} cannot be read: {error}") from None


def inspect(stream: FileStream) -> tuple[int, str]:
    """Read all of a file: its rows and digest; a ValueError for what no learner can learn from.

    Better once before than in the middle of the tenth run.
    """
    rows, labels = 0, set[Any]()
    for _, y in stream:
        rows += len(y)
        if stream.task == "classification" and len(labels) < 2:
            labels.update(np.unique(y).tolist())
    if stream.task == "classification" and len(labels) == 1:
        raise ValueError(
            f"--target: all {rows:,} rows have the label {labels.pop()!s}; there is nothing to "
            "learn"
        )
    with stream.path.open("rb") as file:
        return rows, hashlib.file_digest(file, "sha256").hexdigest()


# -- one run -----------------------------------------------------------------------------------


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
    settings = job.settings
    model, learner = _model(job)
    _warm(job)
    evaluation = _Marked(model, window=settings["window"], memory=True)
    marks = marked_rows(settings["rows"], settings["window"])
    curve = Curve()
    for X, y in cut(_blocks(job), marks):
        evaluation.feed(X, y)
        if evaluation.rows in marks:
            curve.add(evaluation.record(), _certificate(learner))
    if evaluation.rows != settings["rows"]:
        raise ValueError(f"the file has {evaluation.rows} rows now, and had {settings['rows']}")
    last = curve.points[-1]
    said = learner.get_params() if hasattr(learner, "get_params") else {}
    return {
        "rows": last.rows,
        "metrics": last.metrics,
        "recent": last.windowed,
        "seconds": last.seconds,
        "microseconds_a_row": last.microseconds_a_row,
        "size": last.size,
        "memory": last.memory,
        "params": {name: _plain(value) for name, value in said.items() if name != "random_state"},
        "curve": curve.to_dict(),
    }


class _Marked(Evaluation):
    """An evaluation whose records are asked for."""

    def record(self) -> Point:
        return self._record()


class Curve:
    """Records along a stream, kept as columns."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.certificates: list[dict[str, Any] | None] = []

    def add(self, point: Point, certificate: dict[str, Any] | None) -> None:
        self.points.append(point)
        self.certificates.append(certificate)

    def to_dict(self) -> dict[str, Any]:
        """Columns by name; regret and bound where they are known."""
        names = list(self.points[-1].metrics)
        curve: dict[str, Any] = {
            "rows": [point.rows for point in self.points],
            "metrics": {name: [p.metrics[name] for p in self.points] for name in names},
            "windowed": {name: [p.windowed[name] for p in self.points] for name in names},
            "seconds": [point.seconds for point in self.points],
            "size": [point.size for point in self.points],
            "memory": [point.memory for point in self.points],
        }
        if any(self.certificates):
            for name in ("regret", "bound"):
                curve[name] = [c[name] if c else None for c in self.certificates]
        return curve


def _model(job: Job) -> tuple[Any, Any]:
    """The model of a run and the learner in it."""
    contender = Contender(job.label, job.settings["algorithm"], job.settings["params"])
    learner = contender.learner(job.view["task"], job.seed)
    if not contender.algorithm or job.settings["scale"] == "none":
        return learner, learner
    return Scaled(learner, job.settings["scale"]), learner


def _warm(job: Job) -> None:
    model, _ = _model(job)
    X, y = next(iter(_blocks(job)))
    model.predict_then_learn(X[:WARM], y[:WARM])
    for i in range(WARM, min(WARM + 3, len(y))):  # one row at a time is another loop
        model.predict_then_learn(X[i : i + 1], y[i : i + 1])


def _certificate(learner: Any) -> dict[str, Any] | None:
    """Regret and bound, of a learner that knows them."""
    if not hasattr(learner, "certificate"):
        return None
    try:
        certificate: dict[str, Any] = learner.certificate().to_dict()
    except (ValueError, TypeError):
        return None
    return certificate


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


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


def _stream(view: dict[str, Any]) -> FileStream:
    return FileStream(
        view["file"],
        view["target"],
        drop=view["drop"],
        task=view["task"],
        limit=view["limit"],
        delimiter=view["delimiter"],
    )


def _blocks(job: Job) -> Iterator[Block]:
    """The rows of a run: as the file has them, or all read and permuted."""
    if job.settings["order"] == "given":
        yield from _stream(job.view)
        return
    X, y = _whole(json.dumps(job.view))
    order = np.random.default_rng([job.seed, 1]).permutation(len(y))
    for start in range(0, len(y), BLOCK):
        chosen = order[start : start + BLOCK]
        yield X[chosen], y[chosen]


@lru_cache(maxsize=1)
def _whole(view: str) -> Block:
    blocks = list(_stream(json.loads(view)))
    return np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


# -- summaries ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over the runs; no deviation of one run."""

    mean: float
    deviation: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        known = len(values) > 1 and all(map(math.isfinite, values))
        return cls(fmean(values), stdev(values) if known else None)

    def to_dict(self) -> dict[str, float | None]:
        return {"mean": self.mean, "std": self.deviation}


@dataclass(frozen=True)
class Summary:
    """One learner over its runs."""

    label: str
    algorithm: str
    params: dict[str, Any]
    runs: int
    metrics: dict[str, Spread]
    recent: dict[str, Spread]
    microseconds_a_row: Spread
    size: Spread | None
    memory: Spread
    records: list[Record] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The figures, for JSON; without the curves."""
        return {
            "name": self.label,
            "algorithm": self.algorithm or None,
            "params": self.params,
            "runs": self.runs,
            "metrics": {name: spread.to_dict() for name, spread in self.metrics.items()},
            "recent": {name: spread.to_dict() for name, spread in self.recent.items()},
            "microseconds_a_row": self.microseconds_a_row.to_dict(),
            "size": None if self.size is None else self.size.to_dict(),
            "memory": self.memory.to_dict(),
        }


def summary(contender: Contender, records: list[Record], task: str) -> Summary:
    """The figures of a learner from its records."""
    results = [record["result"] for record in records]
    names = DEFAULTS[task]
    sizes = [result["size"] for result in results]

    def spread(part: str, name: str) -> Spread:
        return Spread.of([_number(result[part][name]) for result in results])

    return Summary(
        contender.label,
        contender.algorithm,
        results[0]["params"],
        len(results),
        {name: spread("metrics", name) for name in names},
        {name: spread("recent", name) for name in names},
        Spread.of([result["microseconds_a_row"] for result in results]),
        Spread.of(sizes) if all(sizes) else None,
        Spread.of([result["memory"] for result in results]),
        records,
    )


def _number(value: float | None) -> float:
    """A figure as it was before JSON, which has no infinity."""
    return math.inf if value is None else value


@dataclass(frozen=True)
class Results:
    """A comparison and the summaries of the runs that are done, the best first."""

    comparison: Comparison
    summaries: list[Summary]
    baseline: Summary | None

    @property
    def everyone(self) -> list[Summary]:
        """The learners, then the baseline."""
        return [*self.summaries, *([self.baseline] if self.baseline else [])]

    @property
    def missing(self) -> int:
        """Runs that are not done."""
        jobs = len(self.comparison.jobs())
        return jobs - sum(summary.runs for summary in self.everyone)

    @property
    def made(self) -> dict[str, Any]:
        """Versions and machine."""
        records = [record for summary in self.everyone for record in summary.records]
        made: dict[str, Any] = records[-1]["made"] if records else {}
        return made


def results(
    comparison: Comparison, store: Store, keys: Sequence[tuple[str, str]] | None = None
) -> Results:
    """Everything a store has of a comparison, by its keys or those it was saved with."""
    found: dict[str, list[Record]] = {}
    if keys is None:
        keys = [(job.label, job.key) for job in comparison.jobs()]
    for label, key in keys:
        record = store.find(key)
        if record is not None:
            found.setdefault(label, []).append(record)
    summaries = [
        summary(contender, found[contender.label], comparison.task)
        for contender in comparison.contenders
        if contender.label in found
    ]
    name = comparison.metric
    summaries.sort(key=lambda one: one.metrics[name].mean)
    last = comparison.baseline
    baseline = summary(last, found[last.label], comparison.task) if last.label in found else None
    return Results(comparison, summaries, baseline)


def load_results(directory: Path) -> Results:
    """What `pronk compare` left in a directory, or a ValueError."""
    comparison, keys = Comparison.load(directory)
    found = results(comparison, Store(directory / RECORDS), keys)
    if not found.everyone:
        raise ValueError(f"{str(directory)!r} has no finished run yet; run `pronk compare` again")
    return found
