"""The workers of a cluster as a pool for learners whose sequential part stays here.

The default learner's rows are read and prepared in this process, because scales, past targets and
the mixture follow their order; what is left, the experts' sums and predictions, goes to the workers
with its rows. A bundle has 8,192 rows: a task takes about a second, and what travels for it is some
megabytes. The cut does not depend on the number of workers.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from pronk.estimators.algorithms.online_kernel import OnlineKernelClassifier, OnlineKernelRegressor
from pronk.parallel.aggregate import Plan

# ----------------------------------------------------------------------------------------
# Waiting for a task of a cluster, and not for ever where no worker is left to do it.

#: Seconds between two looks at the workers, and without any worker before it is said.
STEP, PATIENCE = 10.0, 600.0


class NoWorkersError(RuntimeError):
    """A cluster has had no worker for a long time."""


def result_of(task: Any, client: Any) -> Any:
    """What a task gives. A worker that was lost may come back, or another one be started."""
    if not hasattr(client, "scheduler_info"):
        return task.result()
    waited = 0.0
    while True:
        try:
            return task.result(timeout=STEP)
        except TimeoutError:
            if task.status == "error":  # the task's own
                raise
        waited = 0.0 if client.scheduler_info()["workers"] else waited + STEP
        if waited >= PATIENCE:
            raise NoWorkersError(f"for {waited:.0f} seconds there was no worker; start some")


class Awaited:
    """A task of a pool whose result is waited for in this way."""

    def __init__(self, task: Any, client: Any) -> None:
        self.task, self.client = task, client

    def result(self) -> Any:
        return result_of(self.task, self.client)

    def done(self) -> bool:
        return bool(self.task.done())

    def cancel(self) -> Any:
        return self.task.cancel()


#: Rows of a bundle, rows asked ahead, rows that are walked at a time.
BUNDLE, STRETCH, CALL = 1 << 13, 1 << 15, 1 << 17


class ClusterPool:
    """Gives tasks to a Dask client, or to an executor of processes."""

    def __init__(self, client: Any, workers: int = 4) -> None:
        self.client = client
        self._dask = hasattr(client, "scheduler_info")
        ahead = max(4, 2 * workers)
        self.plan = Plan(BUNDLE, False, STRETCH, CALL, ahead, ahead)

    def submit(self, function: Any, *arguments: Any) -> Any:
        if not self._dask:
            return self.client.submit(function, *arguments)
        # Equal tasks are not looked for; sums are sent with their task, so that a task whose worker
        # is lost can be given to another one.
        return Awaited(self._give(function, *arguments), self.client)

    def _give(self, function: Any, *arguments: Any) -> Any:
        with without_warning():
            return self.client.submit(function, *arguments, pure=False)

    def keep(self, snapshot: Any) -> Any:
        """A snapshot that goes to each worker once; made again where it is lost."""
        return self._give(_same, snapshot) if self._dask else snapshot


def pool_for(model: Any, client: Any) -> ClusterPool | None:
    """A pool for a model whose rows are read here; None for one whose workers read them."""
    if not shares_rows(model):
        return None
    workers = len(client.scheduler_info()["workers"]) if hasattr(client, "scheduler_info") else 4
    return ClusterPool(client, workers)


def shares_rows(model: Any) -> bool:
    """Whether a learner, or the one inside, has its rows read here and its tasks elsewhere."""
    learner = getattr(model, "learner", model)
    return isinstance(learner, OnlineKernelRegressor | OnlineKernelClassifier)


def _same(value: Any) -> Any:
    return value


def without_warning() -> Any:
    """Dask warns of tasks larger than 10 MB; ours are, with many points."""
    try:
        import dask
    except ImportError:
        return nullcontext()
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})
