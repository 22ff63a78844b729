"""Keyed models on several workers: a task is the rows of one shard, in order.

A task opens the file of its shard, learns the rows, and commits the models, a position and its
predictions in one transaction. The position is the number of calls that the shard has learned. So
the work of a lost worker counts completely or not at all: the repeated task starts from the state
before the task, or finds the next position and returns the stored predictions. No row is learned
twice. The models of keys share nothing, and this process computes the predictions of the first
rows of new keys, so the number of workers changes no bit.

The rows travel to the workers with their tasks; all workers must see the folder of the models.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.cluster.pool import ClusterPool
from pronk.keyed.keys import Keys, checked_targets, rows_by_shard
from pronk.keyed.learner import Keyed
from pronk.keyed.store import InUseError, ModelStore, StoreError

#: Seconds that a task waits for a shard that a worker presumed lost still has open.
PATIENCE = 120.0
#: Lost process pools per call before the call raises.
MOST_LOSSES = 3


@dataclass(frozen=True)
class ShardTask:
    """A shard of a folder of models, and its position before the rows of the task."""

    folder: str
    number: int
    position: int
    cache_size: int


class ParallelKeyed:
    """Run the calls of `Keyed` on the workers of a Dask client or on local processes.

    Parameters
    ----------
    keyed : Keyed
        All workers must see its folder, and no other process may use it meanwhile.
    client : a Dask ``Client``, or `ProcessPool`

    A call that raises keeps the shards that were finished. Work on a copy of the folder if that
    matters.
    """

    def __init__(self, keyed: Keyed, client: Any) -> None:
        self.keyed, self.client = keyed, client
        self._positions = keyed.store.positions()
        keyed.store.close()

    def predict_then_learn(self, X: Any, y: Any, keys: Any = None) -> NDArray[Any]:
        """Predict, then learn, the rows, with the same bits as `Keyed.predict_then_learn`."""
        rows, keys = self.keyed._rows(X, keys)
        targets = checked_targets(y, len(rows), self.keyed._classifies)
        self.keyed._write_columns()  # for the workers
        prior, firsts = self.keyed.count_targets(targets)
        found = self._run(learn_shard, rows, keys, targets, firsts)
        self.keyed.prior = prior
        self.keyed.write_prior()
        return found

    def predict(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """Predict the rows as `Keyed.predict` does."""
        rows, keys = self.keyed._rows(X, keys)
        return self._run(predict_shard, rows, keys)

    def _run(self, function: Any, rows: Any, keys: Any, *targets: NDArray[Any]) -> NDArray[Any]:
        store = self.keyed.store
        parts = rows_by_shard(Keys.from_values(keys), store.shards)
        store.close()  # the workers open the files
        calls = []
        for number, numbers, own in parts:
            task = ShardTask(
                str(store.folder), number, self._positions[number], self.keyed.cache_size
            )
            more = [values[numbers] for values in targets]
            calls.append((function, task, own, rows[numbers], *more))
        results = self._results(calls)
        if targets:
            for number, _, _ in parts:
                self._positions[number] += 1
        joined = np.concatenate(results)
        out = np.empty_like(joined)
        out[np.concatenate([numbers for _, numbers, _ in parts])] = joined
        return out

    def _results(self, calls: list[tuple[Any, ...]]) -> list[NDArray[Any]]:
        """Run the calls and return their results in order; repeat those of lost processes."""
        pool = ClusterPool(self.client)
        tasks = [pool.submit(*call) for call in calls]
        results, losses = [], 0
        for i in range(len(calls)):
            while True:
                try:
                    results.append(tasks[i].result())
                    break
                except BrokenProcessPool:
                    losses += 1
                    if losses > MOST_LOSSES:
                        raise
                    self.client.restart()
                    tasks[i:] = [pool.submit(*call) for call in calls[i:]]
        return results


class ProcessPool:
    """Worker processes of this machine, as an executor that can be restarted."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_ignore_interrupts,
        )

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        return self._pool.submit(function, *arguments)

    def restart(self) -> None:
        """Replace lost processes by new ones."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._new()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker process; the main process handles it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- tasks ---------------------------------------------------------------------------------------


def learn_shard(
    task: ShardTask, keys: Keys, X: NDArray[np.float64], y: NDArray[Any], firsts: NDArray[Any]
) -> NDArray[Any]:
    """Predict, then learn, rows of one shard; repeated, return the same and learn nothing.

    ``firsts`` are the predictions of the rows as the first ones of their keys.
    """
    with _opened(task) as keyed:
        shard = keyed.store.shard(task.number)
        if shard.position == task.position + 1:  # finished before by a worker that was lost
            return _from_text(shard.results(task.position + 1), len(y), shard.path)
        if shard.position != task.position:
            raise StoreError(f"{shard.path} has other rows: another run writes to the folder")
        predictions = keyed._predict_then_learn(X, y, keys, firsts)
        keyed.store.write_changed()
        shard.save_results(task.position + 1, _as_text(predictions))
        shard.commit(task.position + 1)
        return predictions


def predict_shard(task: ShardTask, keys: Keys, X: NDArray[np.float64]) -> NDArray[Any]:
    """Predict rows of one shard."""
    with _opened(task) as keyed:
        return keyed.predict(X, keys)


@contextmanager
def _opened(task: ShardTask) -> Iterator[Keyed]:
    """Open the models of one shard; uncommitted changes are lost when the block ends."""
    store = ModelStore(task.folder, cache_size=task.cache_size, only=[task.number])
    waited, step = 0.0, 0.1
    while True:
        try:
            store.shard(task.number)
            break
        except InUseError:
            if waited >= PATIENCE:
                raise
            time.sleep(step)
            waited += step
    try:
        yield Keyed._from_store(store, task.folder, task.cache_size)
    finally:
        store.abandon()


def _as_text(predictions: NDArray[Any]) -> str:
    """Return predictions as text from which `_from_text` restores the same bits."""
    return json.dumps({"kind": predictions.dtype.str, "values": predictions.tolist()})


def _from_text(text: str | None, rows: int, path: Any) -> NDArray[Any]:
    """Return the predictions written by `_as_text`; raise if the file holds anything else."""
    try:
        tree = json.loads(text or "")
        kind = np.dtype(tree["kind"])
        if kind.kind not in "fiubUO" or len(tree["values"]) != rows:
            raise ValueError
        return np.array(tree["values"], dtype=kind)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StoreError(f"{path}: the predictions of its last rows are damaged") from None
