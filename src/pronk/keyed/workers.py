"""Share the calls of keyed models among processes of this machine, for `pronk run --by --workers`.

A task opens the file of one shard, learns its rows in order and writes the models. The models of
keys share nothing, and this process computes the predictions of the first rows of new keys, so the
number of workers changes no bit. If a process is lost, the call raises and some shards have learned
its rows: work on a copy of the folder. More machines: `pronk.step` in the state of a stream engine.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.keyed.keys import Keys, checked_targets, rows_by_shard
from pronk.keyed.learner import Keyed
from pronk.keyed.store import ModelStore


class KeyedWorkers:
    """The calls of a `Keyed`, on processes; no other process may use its folder meanwhile."""

    def __init__(self, keyed: Keyed, workers: int) -> None:
        self.keyed = keyed
        self._processes = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_ignore_interrupts,
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
        tasks = [
            self._processes.submit(
                function, str(store.folder), self.keyed.cache_size, number, own, rows[numbers],
                *(values[numbers] for values in targets),
            )
            for number, numbers, own in parts
        ]  # fmt: skip
        joined = np.concatenate([task.result() for task in tasks])
        out = np.empty_like(joined)
        out[np.concatenate([numbers for _, numbers, _ in parts])] = joined
        return out


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker process; the main process handles it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- tasks ---------------------------------------------------------------------------------------


def learn_shard(
    folder: str,
    cache_size: int,
    number: int,
    keys: Keys,
    X: NDArray[np.float64],
    y: NDArray[Any],
    firsts: NDArray[Any],
) -> NDArray[Any]:
    """Predict, then learn, rows of one shard.

    ``firsts`` are the predictions of the rows as the first ones of their keys.
    """
    with _opened(folder, cache_size, number) as keyed:
        found: NDArray[Any] = keyed._predict_then_learn(X, y, keys, firsts)
        keyed.store.flush()
        return found


def predict_shard(
    folder: str, cache_size: int, number: int, keys: Keys, X: NDArray[np.float64]
) -> NDArray[Any]:
    """Predict rows of one shard."""
    with _opened(folder, cache_size, number) as keyed:
        return keyed.predict(X, keys)


@contextmanager
def _opened(folder: str, cache_size: int, number: int) -> Iterator[Keyed]:
    """Open the models of one shard; changes that were not written are lost."""
    store = ModelStore(folder, cache_size=cache_size, only=[number])
    try:
        yield Keyed._from_store(store, folder, cache_size)
    finally:
        store.abandon()
