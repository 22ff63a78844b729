"""Several learners over one file, some runs each: who is compared on what, and how."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from pronk.estimators.atomic import write_whole
from pronk.estimators.registry import make
from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.metrics import DEFAULTS
from pronk.evaluate.study import Job
from pronk.parts.missing import without_label
from pronk.streams import FileStream, Preparing, Reading, StreamError
from pronk.streams.errors import argument, without_secret, without_secrets
from pronk.streams.prepared import prepared

ORDERS = ("given", "random")
#: Windows of the windowed loss, and rows that a window has at least.
CURVE_WINDOWS = 50
LEAST = 100

#: The files of a results directory.
COMPARISON, RECORDS = "comparison.json", "records.jsonl"


@dataclass(frozen=True)
class Contender:
    """A learner of the comparison."""

    label: str
    algorithm: str
    """A name of the registry; empty for the baseline."""
    params: dict[str, Any] = field(default_factory=dict)
    """What was chosen beside the defaults; a parameter of the kernel by its own name."""
    scale: str | None = None
    """Its own scaling, where that of the comparison does not suit it."""

    def learner(self, task: str, seed: int) -> Any:
        """A new learner."""
        if not self.algorithm:
            return RunningMajority() if task == "classification" else RunningMean()
        return make(self.algorithm, task, random_state=seed, **self.params)


@dataclass(frozen=True)
class Comparison:
    """Who is compared on what, and how."""

    reading: Reading
    """The file and how it is read; its task is known."""
    digest: str
    """Of the file's bytes: another file under the same name is another comparison."""
    reason: str
    """Why that task, where it was guessed."""
    columns: list[str]
    rows: int
    contenders: list[Contender]
    runs: int
    preparing: Preparing = field(default_factory=Preparing)
    order: str = "given"
    seed: int = 0
    unlabelled: int = 0
    """Rows without a label, which are predicted only."""

    @property
    def file(self) -> str:
        """What is read, without a password."""
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
        """The scaling of those who have no other."""
        return self.preparing.scale

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
        return min(self.rows, max(LEAST, self.rows // CURVE_WINDOWS))

    @property
    def view(self) -> dict[str, Any]:
        """The file and how its rows are read and prepared, as `open_stream` and `prepare` want it.

        What is as usual is left out: a choice that a later version adds leaves old keys alone.
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
        """All runs, run by run, so that an interrupted comparison has some of everyone."""
        jobs = []
        for run in range(self.runs):
            for contender in [*self.contenders, self.baseline]:
                if not contender.algorithm and run and self.order == "given":
                    continue  # it has no seed: all its runs are one
                settings = {
                    "algorithm": contender.algorithm,
                    "params": contender.params,
                    "order": self.order,
                    "scale": contender.scale or self.scale,
                    "rows": self.rows,
                    "window": self.window,
                }
                work, seed = "runs:one_run", self.seed + run
                jobs.append(Job(contender.label, self.group, work, seed, settings, self.view))
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
        said = {k: v for k, v in asdict(self).items() if k not in ("reading", "preparing")}
        said |= {**without_secrets(asdict(self.reading)), **asdict(self.preparing)}
        said["only"] = self.reading.columns
        text = json.dumps({**said, "columns": self.columns, "keys": keys}, indent=2) + "\n"
        write_whole(directory / COMPARISON, text.encode())

    @classmethod
    def load(cls, directory: Path) -> tuple[Comparison, list[tuple[str, str]]]:
        """The comparison of a results directory with labels and keys, or a ValueError."""
        path = directory / COMPARISON
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            _check_kinds(said)
            contenders = [Contender(**contender) for contender in said.pop("contenders")]
            keys = [(str(label), str(key)) for label, key in said.pop("keys")]
            known = {one.name for one in fields(cls)} - {"reading", "preparing"}
            reading = Reading.of({**said, "columns": said.get("only", ())})
            plain = {name: value for name, value in said.items() if name in known}
            preparing = Preparing.of(said)
            return cls(reading, preparing=preparing, contenders=contenders, **plain), keys
        except FileNotFoundError:
            what = f"has no {COMPARISON}" if directory.is_dir() else "is no directory"
            raise ValueError(f"{str(directory)!r} {what}; `pronk compare` writes one") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{str(path)!r} is damaged ({error}); the same `pronk compare` writes it again "
                "and keeps the runs that are done"
            ) from None


def _check_kinds(said: Any) -> None:
    """A ValueError if what was read is no comparison."""
    kinds: dict[str, type] = {
        **dict.fromkeys(("file", "digest", "target", "order", "scale"), str),
        **dict.fromkeys(("rows", "runs", "seed"), int),
        **dict.fromkeys(("columns", "contenders", "keys", "drop"), list),
    }
    if not isinstance(said, dict):
        raise ValueError("it holds no object")
    for name, kind in kinds.items():
        if not isinstance(said.get(name), kind):
            raise ValueError(f"{name!r} is missing or wrong")
    if said.get("task") not in DEFAULTS:
        raise ValueError("'task' is missing or wrong")


# -- the file --------------------------------------------------------------------------------------


def open_stream(view: dict[str, Any]) -> FileStream:
    """The rows of a view."""
    return Reading.of(view).open()


def prepare(learner: Any, scale: str, stream: FileStream, view: dict[str, Any]) -> Any:
    """A learner behind what its columns need."""
    return prepared(learner, stream, replace(Preparing.of(view), scale=scale))


class Inspection(NamedTuple):
    """What was found in a file."""

    rows: int
    unlabelled: int
    digest: str


def inspect(stream: FileStream) -> Inspection:
    """Read all of a file; a ValueError for what no learner can learn from.

    Better once before than in the middle of the tenth run. The digest is that of the file, or that
    of the rows where they come from several files or from a database.
    """
    rows, unlabelled, labels, digest = 0, 0, set[Any](), hashlib.sha256()
    one_file = stream.reading.query is None and stream.path.is_file()
    for X, y in stream:
        rows += len(y)
        missing = without_label(y)
        if missing is not None:
            unlabelled += int(missing.sum())
            y = y[~missing]
        if stream.task == "classification" and len(labels) < 2:
            labels.update(y.tolist())
        if not one_file:
            digest.update(X.tobytes() + repr(y.tolist()).encode())
            digest.update(b"" if stream.weights is None else stream.weights.tobytes())
    if rows == unlabelled:
        raise StreamError(f"{argument('target')}: no row has a label in column {stream.target!r}")
    if stream.task == "classification" and len(labels) == 1:
        raise StreamError(
            f"{argument('target')}: all {rows - unlabelled:,} rows have the label "
            f"{labels.pop()!s}; there is nothing to learn"
        )
    if not one_file:
        return Inspection(rows, unlabelled, digest.hexdigest())
    with stream.path.open("rb") as file:
        return Inspection(rows, unlabelled, hashlib.file_digest(file, "sha256").hexdigest())
