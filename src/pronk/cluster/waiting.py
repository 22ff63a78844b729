"""Waiting for a task of a cluster, and not for ever where no worker is left to do it."""

from __future__ import annotations

from typing import Any

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
