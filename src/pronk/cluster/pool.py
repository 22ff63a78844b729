"""The executor of a cluster: Dask workers as a pool for `parallel.pipeline`.

The rows of the default learner are read and prepared in this process, because scales, past targets
and the mixture follow their order; the experts' sums and predictions are computed by the workers,
which get the rows with their tasks. A bundle has 8,192 rows: a task takes about a second, and its
arguments are some megabytes. Other learners are passed over a stream that the workers read
themselves (`ClusterPass`).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from pronk.estimators.algorithms.online_kernel import OnlineKernelClassifier, OnlineKernelRegressor

#: Seconds between two checks of the workers, and without any worker before an error.
STEP, PATIENCE = 10.0, 600.0


class NoWorkersError(RuntimeError):
    """A cluster has had no worker for a long time."""


class ClusterTask:
    """A task of a Dask client."""

    def __init__(self, task: Any, client: Any) -> None:
        self.task, self.client = task, client

    def result(self) -> Any:
        """Wait for the result, but not for ever on a cluster that has no worker.

        A worker that was lost may come back, or another one may be started.
        """
        waited = 0.0
        while True:
            try:
                return self.task.result(timeout=STEP)
            except TimeoutError:
                if self.task.status == "error":  # raised by the task itself
                    raise
            waited = 0.0 if self.client.scheduler_info()["workers"] else waited + STEP
            if waited >= PATIENCE:
                raise NoWorkersError(f"no worker for {waited:.0f} seconds; start workers")

    def done(self) -> bool:
        return bool(self.task.done())

    def cancel(self) -> Any:
        return self.task.cancel()


class ClusterPool:
    """Submit tasks to a Dask client, or to an executor of `concurrent.futures`.

    ``workers`` bounds the partitions in flight and has no effect on any result.
    """

    def __init__(self, client: Any, workers: int = 4) -> None:
        self.client = client
        self.most = max(4, 2 * workers)

    def submit(self, function: Any, *arguments: Any) -> Any:
        if not is_dask(self.client):
            return self.client.submit(function, *arguments)
        # Sums are sent as arguments, not as the results of other tasks: if a worker is lost, only
        # its own tasks are run again.
        return ClusterTask(self._submit(function, *arguments), self.client)

    def _submit(self, function: Any, *arguments: Any) -> Any:
        with _without_warning():
            return self.client.submit(function, *arguments, pure=False)  # no hash of the arguments

    def share(self, snapshot: Any) -> Any:
        """Return an argument for many tasks that is sent to each worker once."""
        return self._submit(_identity, snapshot) if is_dask(self.client) else snapshot


def is_dask(client: Any) -> bool:
    """Return whether tasks go to a Dask client, and not to an executor."""
    return hasattr(client, "scheduler_info")


def pool_for(model: Any, client: Any) -> ClusterPool | None:
    """Return a pool for a model whose rows are read here, or None if the workers read them."""
    if not reads_rows_here(model):
        return None
    workers = len(client.scheduler_info()["workers"]) if is_dask(client) else 4
    return ClusterPool(client, workers)


def reads_rows_here(model: Any) -> bool:
    """Return whether the rows of a learner, or of the one inside, are read in this process."""
    learner = getattr(model, "learner", model)
    return isinstance(learner, OnlineKernelRegressor | OnlineKernelClassifier)


def _identity(value: Any) -> Any:
    return value


def _without_warning() -> Any:
    """Silence Dask's warning of tasks larger than 10 MB; with many points ours are."""
    try:
        import dask
    except ImportError:
        return nullcontext()
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})
