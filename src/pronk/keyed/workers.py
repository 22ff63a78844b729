"""Share the calls of keyed models among processes of this machine, for `pronk run --by --workers`.

A task opens the file of one shard, learns its rows in order and writes the models. The models of
keys share nothing, and this process computes the predictions of the first rows of new keys, so the
number of workers changes no bit. If a process is lost, the call raises and some shards have learned
its rows: work on a copy of the folder. More machines: `pronk.step` in the state of a stream engine.
"""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.keyed.keys import Keys, checked_targets, rows_by_shard
from pronk.keyed.learner import Keyed, in_order
from pronk.keyed.store import ModelStore


class KeyedWorkers:
    """The calls of a `Keyed`, on processes; no other process may use its folder meanwhile."""

    def __init__(self, keyed: Keyed, workers: int) -> None:
        self.keyed = keyed
        self._processes = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=signal.signal,
            initargs=(signal.SIGINT, signal.SIG_IGN),  # the main process handles Ctrl-C
        )

    def __enter__(self) -> Self:
        self.keyed.flush()
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.shutdown(wait=True, cancel_futures=True)

    def predict_then_learn(self, X: Any, y: Any, keys: Any = None) -> NDArray[Any]:
        """Predict, then learn, the rows, with the same bits as `Keyed.predict_then_learn`."""
        rows, keys = self.keyed._rows(X, keys)
        targets = checked_targets(y, len(rows), self.keyed._classifies)
        self.keyed._write_columns()  # for the workers
        prior, firsts = self.keyed.count_targets(targets)
        store = self.keyed.store
        parts = rows_by_shard(Keys.from_values(keys), store.shards)
        store.close()  # the workers open the files
        tasks = [
            self._processes.submit(
                learn_shard, str(store.folder), self.keyed.cache_size, number, own, rows[numbers],
                targets[numbers], firsts[numbers],
            )
            for number, numbers, own in parts
        ]  # fmt: skip
        found = in_order([task.result() for task in tasks], [numbers for _, numbers, _ in parts])
        self.keyed.prior = prior
        self.keyed.write_prior()
        return np.asarray(found)

    def predict(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """Predict the rows as `Keyed.predict` does, in this process."""
        return self.keyed.predict(X, keys)


def learn_shard(
    folder: str, cache_size: int, number: int, keys: Keys, X: Any, y: Any, firsts: Any
) -> NDArray[Any]:
    """Predict, then learn, rows of one shard: the task of a worker.

    ``firsts`` are the predictions of the rows as the first ones of their keys.
    """
    store = ModelStore(folder, cache_size=cache_size, only=[number])
    try:
        found: NDArray[Any] = Keyed._from_store(store, folder, cache_size)._predict_then_learn(
            X, y, keys, firsts
        )
        store.flush()
        return found
    finally:
        store.abandon()
