"""Jobs: computations with data and a seed, run once and stored.

A job is plain data, so that it can be sent to another process, and its settings identify it: the
record of a finished job is a line of JSON under a key made of them, and is not computed again. The
linear algebra of a job uses one thread, or the number set with `pronk.set_threads`; several jobs
run in parallel in processes of this machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from pronk._version import __version__
from pronk.core.runtime import limited, set_threads
from pronk.data.errors import without_secrets
from pronk.evaluate.formatting import finite

#: Seconds after which a process without a job ends, also if its parent was killed.
IDLE = 10
#: A finished job with its result, as stored.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A computation. ``label`` and ``group`` only say where its result is shown."""

    label: str
    """Name of the row in a table."""
    group: str
    """Name of the section, usually the data set."""
    work: Callable[[Any], dict[str, Any]]
    """Function of a module that is called with the job."""
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    """Everything the result depends on, as JSON values."""
    view: dict[str, Any] = field(default_factory=dict)
    """The data: its source and how it is read, as JSON values."""

    @property
    def name(self) -> str:
        """Module and name of the work."""
        return f"{self.work.__module__.rpartition('.')[2]}:{self.work.__name__}"

    @property
    def key(self) -> str:
        """Identifier, equal for equal work of the same version."""
        parts = [self.name, self.seed, self.settings, without_secrets(self.view), __version__]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


class Store:
    """Records by key, one line of JSON each; a line truncated by an interrupt is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        """Lines that could not be read."""
        self._records: dict[str, Outcome] = {}
        if path.exists():
            for line in path.read_bytes().split(b"\n"):
                record = _parsed(line)
                if record is not None:
                    self._records[record["key"]] = record
                else:
                    self.damaged += bool(line.strip())

    def get(self, job: Job) -> Outcome | None:
        """Return the record of a job, or None if it is not finished."""
        return self._records.get(job.key)

    def add(self, job: Job, result: dict[str, Any]) -> Outcome:
        """Store a result; it is on disk when this returns."""
        described = {**asdict(job), "work": job.name, "view": without_secrets(job.view)}
        record = {"key": job.key, **described, "result": result, "made": made_by()}
        line = json.dumps(finite(record), sort_keys=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as file:
            # An interrupted run may have left half a line. One write appends whole lines, also
            # where two commands share a file.
            whole = not file.seek(0, os.SEEK_END)
            if not whole:
                file.seek(-1, os.SEEK_END)
                whole = file.read(1) == b"\n"
            file.write((b"" if whole else b"\n") + line.encode() + b"\n")
            os.fsync(file.fileno())
        kept: Outcome = json.loads(line)
        self._records[job.key] = kept
        return kept


def _parsed(line: bytes) -> Outcome | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "key" in record and "result" in record else None


@cache
def made_by() -> dict[str, Any]:
    """Return versions and machine of a record."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    return {
        "pronk": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


# -- running -----------------------------------------------------------------------------------


def perform(job: Job) -> dict[str, Any]:
    """Run a job with the number of threads of `pronk.set_threads`; return its result.

    The limit also applies to learners of other libraries and their OpenMP loops.
    """
    from threadpoolctl import threadpool_limits

    with limited, threadpool_limits(limited.wanted, user_api="openmp"):
        return job.work(job)


def run(
    jobs: Sequence[Job],
    store: Store,
    workers: int = 1,
    done: Callable[[Job, bool], None] | None = None,
) -> list[Outcome]:
    """Run the jobs that are not in the store; return the records of all, in order.

    ``done`` is called with each job and whether it was run now. Jobs of one view follow each
    other, so that its data is read once.
    """
    waiting: dict[str, Job] = {}
    for job in jobs:
        if store.get(job) is None:
            waiting.setdefault(job.key, job)
        elif done is not None:
            done(job, False)
    ordered = sorted(waiting.values(), key=lambda job: json.dumps(job.view, sort_keys=True))
    performed: Iterator[tuple[Job, dict[str, Any]]]
    if workers <= 1 or len(ordered) < 2:
        performed = ((job, perform(job)) for job in ordered)
    else:
        performed = _in_processes(ordered, workers)
    for job, result in performed:
        store.add(job, result)
        if done is not None:
            done(job, True)
    found = []
    for job in jobs:
        record = store.get(job)
        assert record is not None
        # The same work may be shown in two places.
        found.append({**record, "label": job.label, "group": job.group})
    return found


def _in_processes(jobs: Iterable[Job], workers: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run jobs in ``workers`` processes; yield them as they finish."""
    from joblib import Parallel, delayed

    calls = (delayed(_perform_in_worker)(job, limited.wanted) for job in jobs)
    shared = Parallel(workers, return_as="generator_unordered", idle_worker_timeout=IDLE)
    return cast("Iterator[tuple[Job, dict[str, Any]]]", shared(calls))


def _perform_in_worker(job: Job, threads: int | None) -> tuple[Job, dict[str, Any]]:
    """Run a job in another process, whose parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_threads(threads)
    return job, perform(job)
