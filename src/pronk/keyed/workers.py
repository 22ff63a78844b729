"""Keyed models on many workers: a task is one shard's rows, in order, with its models.

A task opens the file of its shard, alone, learns the rows and commits the models, a mark and its
answer in one transaction. The mark says which rows a shard has. So of what a lost worker did all
counts or nothing: the task that is done again begins where the shard stood, or finds the mark
behind its rows and gives the answer that was kept. No row is learned twice, and keys share nothing,
so the number of workers changes no bit.

The rows go to the workers with their tasks; the folder of the models is one that all of them see.
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

from pronk.cluster.pool import result_of, without_warning
from pronk.keyed.keys import Keys, by_shard, checked_targets
from pronk.keyed.learner import Keyed
from pronk.keyed.store import InUseError, ModelStore, StoreError

#: Seconds that a task waits for a shard which a worker that is taken for lost still has.
PATIENCE = 120.0
#: How often processes may be lost in one call before it is given up.
MOST_LOSSES = 3


@dataclass(frozen=True)
class ShardPlace:
    """A shard of a folder of models, and the mark with which its rows begin."""

    folder: str
    number: int
    mark: int
    held: int


class SpreadKeyed:
    """Calls of `Keyed` that the workers of a Dask client, or processes of this machine, do.

    Parameters
    ----------
    keyed : Keyed
        Its folder is seen by all workers. Nobody else works on it meanwhile.
    client : a Dask ``Client``, or `Processes`

    A call that fails leaves the shards that were done; give it a copy of the folder where that
    matters.
    """

    def __init__(self, keyed: Keyed, client: Any) -> None:
        self.keyed, self.client = keyed, client
        self._marks = keyed.store.marks()
        keyed.store.close()

    def predict_then_learn(self, X: Any, y: Any, keys: Any = None) -> NDArray[Any]:
        """As `Keyed.predict_then_learn`, to the last bit."""
        rows, keys = self.keyed._rows(X, keys)
        targets = checked_targets(y, len(rows), self.keyed._classifies)
        self.keyed._describe_columns()  # the workers read it
        return self._spread(learn_shard, rows, keys, targets)

    def predict(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """As `Keyed.predict`."""
        rows, keys = self.keyed._rows(X, keys)
        return self._spread(predict_shard, rows, keys)

    def _spread(self, function: Any, rows: Any, keys: Any, targets: Any = None) -> NDArray[Any]:
        store = self.keyed.store
        parts = by_shard(Keys.of(keys), store.shards)
        store.close()  # the workers have the files now
        given = []
        for number, numbers, own in parts:
            place = ShardPlace(str(store.folder), number, self._marks[number], self.keyed.held)
            more = () if targets is None else (targets[numbers],)
            given.append((function, place, own, rows[numbers], *more))
        answers = self._results(given)
        if targets is not None:
            for number, _, _ in parts:
                self._marks[number] += 1
        joined = np.concatenate(answers)
        out = np.empty_like(joined)
        out[np.concatenate([numbers for _, numbers, _ in parts])] = joined
        return out

    def _results(self, given: list[tuple[Any, ...]]) -> list[NDArray[Any]]:
        """What the tasks give, in order; those of processes that were lost are given again."""
        # Dask need not tell equal tasks by their arguments: every task is another one.
        options = {"pure": False} if hasattr(self.client, "scheduler_info") else {}
        with without_warning():
            tasks = [self.client.submit(*task, **options) for task in given]
        answers, losses = [], 0
        for i in range(len(given)):
            while True:
                try:
                    answers.append(result_of(tasks[i], self.client))
                    break
                except BrokenProcessPool:
                    losses += 1
                    if losses > MOST_LOSSES:
                        raise
                    self.client.renew()
                    tasks[i:] = [self.client.submit(*task) for task in given[i:]]
        return answers


class Processes:
    """Worker processes of this machine, as an executor that can begin anew."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
        )

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        return self._pool.submit(function, *arguments)

    def renew(self) -> None:
        """Start new processes in place of those that were lost."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._new()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """Ctrl-C is for the process that gives the tasks."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- tasks ---------------------------------------------------------------------------------------


def learn_shard(
    place: ShardPlace, keys: Keys, X: NDArray[np.float64], y: NDArray[Any]
) -> NDArray[Any]:
    """Predict then learn rows of one shard; once more, it gives the same and learns nothing."""
    with _opened(place) as keyed:
        shard = keyed.store.shard(place.number)
        if shard.mark == place.mark + 1:  # done before, by a worker that was lost afterwards
            return _read(shard.answer(place.mark + 1), len(y), shard.path)
        if shard.mark != place.mark:
            raise StoreError(f"{shard.path} has other rows: another run writes to the folder")
        predictions = keyed.predict_then_learn(X, y, keys)
        keyed.store.write_changed()
        shard.keep_answer(place.mark + 1, _written(predictions))
        shard.commit(place.mark + 1)
        return predictions


def predict_shard(place: ShardPlace, keys: Keys, X: NDArray[np.float64]) -> NDArray[Any]:
    """Predict rows of one shard."""
    with _opened(place) as keyed:
        return keyed.predict(X, keys)


@contextmanager
def _opened(place: ShardPlace) -> Iterator[Keyed]:
    """The models of one shard; what was not committed is gone when it is left."""
    store = ModelStore(place.folder, held=place.held, only=[place.number])
    waited, step = 0.0, 0.1
    while True:
        try:
            store.shard(place.number)
            break
        except InUseError:
            if waited >= PATIENCE:
                raise
            time.sleep(step)
            waited += step
    try:
        yield Keyed._of_layout(store, place.folder, place.held)
    finally:
        store.abandon()


def _written(predictions: NDArray[Any]) -> str:
    """Predictions as text that gives the same bits."""
    return json.dumps({"kind": predictions.dtype.str, "values": predictions.tolist()})


def _read(text: str | None, rows: int, path: Any) -> NDArray[Any]:
    """What `_written` made; a file may hold anything."""
    try:
        held = json.loads(text or "")
        kind = np.dtype(held["kind"])
        if kind.kind not in "fiubUO" or len(held["values"]) != rows:
            raise ValueError
        return np.array(held["values"], dtype=kind)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StoreError(f"{path}: the answer to its last rows is damaged") from None
