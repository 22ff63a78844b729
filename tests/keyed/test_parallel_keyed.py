"""Keyed models on several workers: the bits of one process, and no row is learned twice."""

import os
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

import pronk
from pronk.keyed import Keyed, StoreError, workers
from pronk.keyed.keys import Keys, encode_key, rows_by_shard, shard_of
from pronk.keyed.workers import ParallelKeyed, ProcessPool, ShardTask, learn_shard

RNG = np.random.default_rng(0)
ROWS, CUT = 240, 140
KEYS = RNG.choice([f"k{i}" for i in range(9)], ROWS)
X = RNG.normal(size=(ROWS, 2))
Y = np.sin(X[:, 0]) + X[:, 1]
LABELS = np.where(Y > 0.3, "high", "low")


def template(labels=False):
    kind = pronk.PKAWVClassifier if labels else pronk.PKAWVRegressor
    return kind(budget=8, random_state=3)


def twice(model, targets=Y):
    """Two calls, so that models go through their files."""
    parts = [(X[:CUT], targets[:CUT], KEYS[:CUT]), (X[CUT:], targets[CUT:], KEYS[CUT:])]
    return np.concatenate([model.predict_then_learn(*part) for part in parts])


def notes(keyed):
    return {key: keyed.store.notes(key) for key in keyed}


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_no_bit(tmp_path, workers, labels):
    targets = LABELS if labels else Y
    alone = Keyed(template(labels), shards=4)
    expected = twice(alone, targets)
    keyed = Keyed(template(labels), folder=tmp_path, shards=4, cache_size=2)
    with ThreadPoolExecutor(workers) as pool:
        shared = ParallelKeyed(keyed, pool)
        assert np.array_equal(twice(shared, targets), expected)
        found = shared.predict(X, np.append(KEYS[1:], "unknown"))
    assert np.array_equal(found, alone.predict(X, np.append(KEYS[1:], "unknown")))
    assert notes(keyed) == notes(alone) and len(keyed) == 9


def test_rows_by_shard():
    keys = Keys.from_values(KEYS)
    found = rows_by_shard(keys, 4)
    assert sorted(np.concatenate([rows for _, rows, _ in found]).tolist()) == list(range(ROWS))
    for number, rows, own in found:
        assert (np.diff(rows) > 0).all()
        assert {shard_of(encode_key(key), 4) for key in own.values} == {number}
        assert np.array_equal(np.array(own.values)[own.codes], KEYS[rows])


@pytest.mark.parametrize("labels", [False, True])
def test_a_repeated_task_learns_nothing_twice(tmp_path, labels):
    """Of what a lost worker did all counts or nothing."""
    targets = LABELS if labels else Y
    keyed = Keyed(template(labels), folder=tmp_path, shards=1)
    ParallelKeyed(keyed, None)
    task, keys = ShardTask(str(tmp_path), 0, 0, 100), Keys.from_values(KEYS)
    firsts = keyed.count_targets(targets)[1]
    first = learn_shard(task, keys, X, targets, firsts)
    again = learn_shard(task, keys, X, targets, firsts)
    assert np.array_equal(first, again) and first.dtype == again.dtype
    assert keyed.n_seen_ == ROWS
    keyed.close()
    with pytest.raises(StoreError, match="other rows"):
        learn_shard(ShardTask(str(tmp_path), 0, 7, 100), keys, X, targets, firsts)
    with pytest.raises(StoreError, match="damaged"):
        learn_shard(task, keys[:5], X[:5], targets[:5], firsts[:5])


def test_a_worker_lost_before_its_commit_changes_nothing(tmp_path, monkeypatch):
    keyed = Keyed(template(), folder=tmp_path, shards=1)
    ParallelKeyed(keyed, None)
    task, keys = ShardTask(str(tmp_path), 0, 0, 1), Keys.from_values(KEYS)

    firsts = keyed.count_targets(Y)[1]

    def lost(*_):
        raise RuntimeError("lost")

    with monkeypatch.context() as patch:
        patch.setattr("pronk.keyed.store.Shard.commit", lost)
        with pytest.raises(RuntimeError, match="lost"):
            learn_shard(task, keys, X, Y, firsts)
    assert len(keyed) == 0
    keyed.close()
    alone = Keyed(template(), shards=1)
    expected = alone.predict_then_learn(X, Y, KEYS)
    assert np.array_equal(learn_shard(task, keys, X, Y, firsts), expected)
    assert notes(keyed) == notes(alone)


def test_a_task_waits_for_a_shard_that_is_in_use(tmp_path, monkeypatch):
    keyed = Keyed(template(), folder=tmp_path, shards=1)
    ParallelKeyed(keyed, None)
    opened = keyed.store.shard(0)
    monkeypatch.setattr(workers.time, "sleep", lambda _: keyed.store.close())
    task, firsts = ShardTask(str(tmp_path), 0, 0, 1), keyed.count_targets(Y)[1]
    assert len(learn_shard(task, Keys.from_values(KEYS), X, Y, firsts)) == ROWS
    assert opened is not keyed.store.shard(0)


def lose_once(folder):
    """End the process at the first call, and record it in a file."""
    record = os.path.join(folder, "lost")
    if not os.path.exists(record):
        open(record, "w").close()
        os._exit(1)


class Losing(ProcessPool):
    """The first task ends its process."""

    def __init__(self, workers, folder):
        super().__init__(workers)
        self.folder, self.restarts = folder, 0

    def submit(self, function, *arguments):
        if not self.restarts:
            return super().submit(lose_once, self.folder)
        return super().submit(function, *arguments)

    def restart(self):
        super().restart()
        self.restarts += 1


@pytest.mark.slow
def test_lost_processes_are_restarted(tmp_path):
    expected = twice(Keyed(template(), shards=2))
    keyed = Keyed(template(), folder=tmp_path / "models", shards=2)
    with Losing(1, str(tmp_path)) as processes:
        assert np.array_equal(twice(ParallelKeyed(keyed, processes)), expected)
        assert processes.restarts == 1
    assert keyed.n_seen_ == ROWS


def test_processes_that_are_lost_too_often_raise(tmp_path):
    class Broken:
        restarts = 0

        def submit(self, *_):
            from concurrent.futures import Future

            future = Future()
            future.set_exception(BrokenProcessPool())
            return future

        def restart(self):
            self.restarts += 1

    broken = Broken()
    with pytest.raises(BrokenProcessPool):
        twice(ParallelKeyed(Keyed(template(), folder=tmp_path, shards=1), broken))
    assert broken.restarts == workers.MOST_LOSSES
