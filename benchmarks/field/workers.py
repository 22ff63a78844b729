"""Jobs one after the other, in processes side by side, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
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


def done(jobs: list[Job], workers: int, cluster: str | None) -> Iterator[tuple[str, Any]]:
    """Keys and what `alone` gives, as the jobs end."""
    if cluster is None and workers <= 1:
        yield from ((key, alone(job)) for key, job in jobs)
        return
    pool: Any
    as_completed: Any
    if cluster is not None:
        from distributed import as_completed

        from pronk.cli.scale_out import open_cluster

        pool = open_cluster(cluster)
    else:
        from concurrent.futures import as_completed

        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    with pool as client:
        keys = {client.submit(alone, job): key for key, job in jobs}
        for future in as_completed(list(keys)):
            yield keys[future], future.result()
