"""Jobs one after the other, or in processes side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from threadpoolctl import threadpool_limits

Job = tuple[str, Callable[[], dict[str, Any]]]


def alone(job: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    """What a job gives with one thread, or why it is left out."""
    try:
        with threadpool_limits(1):
            return job()
    except (FileNotFoundError, ModuleNotFoundError) as missing:
        return str(missing)


def apart(job: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    """What `alone` gives in a process of its own, whose memory is that of this job."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        try:
            return process.submit(alone, job).result()
        except BrokenProcessPool:
            return "the process ended, out of memory or stopped from outside"


def done_apart(jobs: list[Job], workers: int) -> Iterator[tuple[str, Any]]:
    """Keys and what `apart` gives, as the jobs end."""
    with ThreadPoolExecutor(workers) as threads:
        keys = {threads.submit(apart, job): key for key, job in jobs}
        for future in as_completed(keys):
            yield keys[future], future.result()


def done(jobs: list[Job], workers: int) -> Iterator[tuple[str, Any]]:
    """Keys and what `alone` gives, as the jobs end."""
    if workers <= 1:
        yield from ((key, alone(job)) for key, job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        keys = {pool.submit(alone, job): key for key, job in jobs}
        for future in as_completed(keys):
            yield keys[future], future.result()
