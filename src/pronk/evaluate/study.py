"""Jobs: computations with data and a seed, run once and stored.

A job is plain data, so that it can be sent to another process, and its settings identify it: the
record of a finished job is a line of JSON under a key made of them, and is not computed again. The
linear algebra of a job uses one thread, or the number set with `pronk.set_threads`; several jobs
run in parallel in processes of this machine, or of a Dask cluster that shares its files.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pronk._version import __version__
from pronk.core.runtime import limited, set_threads
from pronk.data.errors import without_secrets
from pronk.evaluate.formatting import finite

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
        return self.find(job.key)

    def find(self, key: str) -> Outcome | None:
        """Return the record under a key, or None."""
        return self._records.get(key)

    def add(self, job: Job, result: dict[str, Any]) -> Outcome:
        """Store a result; it is on disk when this returns."""
        described = {**asdict(job), "work": job.name, "view": without_secrets(job.view)}
        record = {"key": job.key, **described, "result": result, "made": made_by()}
        line = json.dumps(finite(record), sort_keys=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as file:
            # An interrupted run may have left half a line. One write appends whole lines, also
            # where two commands share a file.
            start = b"" if _ends_a_line(file) else b"\n"
            file.write(start + line.encode() + b"\n")
            os.fsync(file.fileno())
        kept: Outcome = json.loads(line)
        self._records[job.key] = kept
        return kept


def _ends_a_line(file: Any) -> bool:
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def _parsed(line: bytes) -> Outcome | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "key" in record and "result" in record else None


@cache
def _versions() -> dict[str, Any]:
    import numba
    import numpy
    import scipy
    import sklearn

    return {
        "pronk": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def made_by() -> dict[str, Any]:
    """Return versions and machine of a record."""
    return dict(_versions())


# -- running -----------------------------------------------------------------------------------


def perform(job: Job) -> dict[str, Any]:
    """Run a job with the number of threads of `pronk.set_threads`; return its result.

    The limit also applies to learners of other libraries and their OpenMP loops.
    """
    from threadpoolctl import threadpool_limits

    with limited, threadpool_limits(limited.wanted, user_api="openmp"):
        result = job.work(job)
    return result


def run(
    jobs: Sequence[Job],
    store: Store,
    workers: int = 1,
    done: Callable[[Job, bool], None] | None = None,
    client: Any = None,
) -> list[Outcome]:
    """Run the jobs that are not in the store; return the records of all, in order.

    ``done`` is called with each job and whether it was run now. Jobs of one view follow each
    other, so that its data is read once. With a Dask ``client``, its workers run the jobs.
    """
    waiting: dict[str, Job] = {}
    for job in jobs:
        if store.get(job) is None:
            waiting.setdefault(job.key, job)
        elif done is not None:
            done(job, False)
    ordered = sorted(waiting.values(), key=lambda job: json.dumps(job.view, sort_keys=True))
    if client is not None:
        performed = _on_cluster(ordered, client)
    elif workers <= 1 or len(ordered) < 2:
        performed = _in_turn(ordered)
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


def _in_turn(jobs: Iterable[Job]) -> Iterator[tuple[Job, dict[str, Any]]]:
    for job in jobs:
        yield job, perform(job)


def _in_processes(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run jobs in ``workers`` processes, which are terminated if the caller is interrupted."""
    left = iter(jobs)
    others = {child.pid for child in multiprocessing.active_children()}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(limited.wanted,)
    ) as pool:
        running: dict[Future[dict[str, Any]], Job] = {}
        try:
            while True:
                while len(running) < workers and (job := next(left, None)) is not None:
                    running[pool.submit(perform, job)] = job
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                if child.pid not in others:
                    child.terminate()
            raise


def _on_cluster(jobs: Sequence[Job], client: Any) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run jobs on a cluster, two per worker at a time; yield them as they finish."""
    from distributed import as_completed

    left, running = iter(jobs), {}
    most = max(2, 2 * len(client.scheduler_info()["workers"]))
    queue = as_completed()

    def submit_next() -> None:
        job = next(left, None)
        if job is not None:
            future = client.submit(perform, job, key=f"{job.name}-{job.key}", pure=False)
            running[future.key] = job, future
            queue.add(future)

    for _ in range(most):
        submit_next()
    try:
        for future in queue:
            job, _ = running.pop(future.key)
            result = future.result()
            submit_next()
            yield job, result
    finally:
        client.cancel([future for _, future in running.values()])


def _begin(threads: int | None) -> None:
    """Start a worker process: ignore Ctrl-C, which the parent handles, and end with the parent."""
    set_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    # A killed parent cannot end its workers, which would wait for work forever.
    threading.Thread(target=follow, daemon=True).start()
