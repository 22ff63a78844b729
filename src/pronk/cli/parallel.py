"""`pronk run` on several cores (--workers) or machines (--cluster)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from logging import CRITICAL
from typing import TYPE_CHECKING, Any

from pronk.cli.errors import CommandError
from pronk.cluster.pool import CALL, shares_rows
from pronk.cluster.waiting import NoWorkersError
from pronk.evaluate.rows import LONG_PIECE
from pronk.evaluate.spreading import set_jobs
from pronk.streams.prepared import Prepared
from pronk.streams.values import NUMERIC

if TYPE_CHECKING:
    from pronk.cli.run_options import RunOptions

#: Seconds that a scheduler has to answer.
PATIENCE = 10.0
#: How long a process that died may take to come back: on a busy machine Dask's 15 s are too few.
LATE = "5 minutes"


def check_parallel(job: RunOptions) -> None:
    """Refuse options that exclude each other."""
    options = (("--workers", job.workers), ("--cluster", job.cluster), ("--by", job.by))
    chosen = [name for name, value in options if value is not None]
    if chosen[:2] == ["--workers", "--cluster"]:
        raise CommandError("--workers and --cluster exclude each other: choose one")
    if chosen and job.delay:
        raise CommandError(f"{chosen[0]}: labels that come late are learned one by one, not so")
    if job.by is not None and job.checkpoint is not None:
        raise CommandError("--checkpoint: models of --by are kept in the folder of --save instead")
    if job.reading.weight is not None and (job.by is not None or job.cluster is not None):
        raise CommandError(f"--weight: not with {chosen[-1]}, where each row counts once")
    if job.by is not None and job.interval is not None:
        raise CommandError("--interval: models of --by have none")
    elsewhere = job.cluster is not None and not job.cluster.startswith("local:")
    if job.by is not None and elsewhere and job.save is None:
        raise CommandError("--by with --cluster needs --save: a folder that all workers see")


def check_cluster(job: RunOptions, learner: Any) -> None:
    """Refuse what a learner whose rows the workers read does not have."""
    if job.cluster is None or job.by is not None or shares_rows(learner):
        return
    if job.interval is not None or job.reading.keep or job.skip_bad:
        raise CommandError("--cluster: no --interval, --keep or --skip-bad on a cluster")


def block_rows(job: RunOptions, default: bool) -> int | None:
    """Rows of a block: long ones where they are shared or grouped.

    On a cluster the rows of the default learner are read here.
    """
    if job.by is not None:
        return None  # `keyed_rows`, once the columns are known
    if job.cluster is not None and default:
        return CALL
    return LONG_PIECE if job.workers is not None else None


def use_workers(model: Any, workers: int) -> None:
    """Let threads share the passes of a model's learner."""
    try:
        set_jobs(model, workers)
    except ValueError as error:
        raise CommandError(f"--workers: {str(error).partition(': ')[2]}") from None


# -- a cluster -----------------------------------------------------------------------------------


@contextmanager
def open_cluster(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address; ``local:N`` starts N processes here."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise CommandError('--cluster needs Dask: pip install ".[dask]" in the clone') from None
    kind, _, number = address.partition(":")
    if kind == "local":
        if not number.isdigit() or not int(number):
            raise CommandError(f"--cluster: {address!r} must be local:N with N processes")
        with (
            dask.config.set({"distributed.deploy.lost-worker-timeout": LATE}),
            LocalCluster(
                int(number),
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # any port that is free
                silence_logs=CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise CommandError(f"--cluster: no scheduler answers at {address!r}: {error}") from None
    with client:
        yield client


@contextmanager
def losses_told(cluster: str | None) -> Iterator[None]:
    """A scheduler that was lost, or a task that no worker could end, in one line."""
    if cluster is None:
        yield
        return
    import asyncio
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise CommandError(
            f"--cluster: a task ended {error.allowed_failures + 1} workers, most likely out of "
            "memory; give the workers more",
            1,
        ) from None
    except NoWorkersError as error:
        raise CommandError(f"--cluster: {error}", 1) from None
    except (asyncio.CancelledError, CancelledError, CommClosedError):
        raise CommandError(
            f"--cluster: the scheduler at {cluster} was lost, or it has lost what it had", 1
        ) from None


def cluster_or_none(address: str | None) -> Any:
    """A client to be entered, where an address is given."""
    return nullcontext() if address is None else open_cluster(address)


def learner_for_cluster(model: Prepared) -> Any:
    """The learner of a model whose columns need no preparation on the way."""
    plain = model.scaling_ == "none" and model.missing == "error" and not model.target_scaled_
    if not plain or not set(model.kinds_) <= set(NUMERIC):
        raise CommandError(
            "--cluster: the workers read numbers as they are, and scaling, filling in and "
            "categories follow the order of the rows; use --scale none, or --workers"
        )
    return model.learner_
