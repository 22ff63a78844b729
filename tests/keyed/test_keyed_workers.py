"""`KeyedWorkers` beside `Keyed` in one process."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pronk
from pronk.keyed import Keyed
from pronk.keyed.keys import Keys, encode_key, rows_by_shard, shard_of
from pronk.keyed.workers import KeyedWorkers

ROWS = 300
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (ROWS, 2))
Y = np.sin(3 * X[:, 0])
LABELS = np.where(Y > 0, "up", "down")
KEYS = rng.choice(list("abcdefghi"), ROWS)


def template(labels=False):
    if labels:
        return pronk.KernelPerceptron(budget=20, maintenance="random", random_state=0)
    return pronk.PKAWVRegressor(budget=10, random_state=0)


def twice(model, targets=Y):
    half = ROWS // 2
    first = model.predict_then_learn(X[:half], targets[:half], KEYS[:half])
    return np.concatenate((first, model.predict_then_learn(X[half:], targets[half:], KEYS[half:])))


def notes(model):
    return {key: (rows, figures) for key, rows, figures in model.metrics_by_key()}


@pytest.mark.parametrize("labels", [False, True])
def test_the_number_of_workers_changes_no_bit(tmp_path, labels, monkeypatch):
    """Threads take the place of processes, which the slow test of the command line starts."""
    monkeypatch.setattr(
        "pronk.keyed.workers.ProcessPoolExecutor", lambda workers, **_: ThreadPoolExecutor(workers)
    )
    targets = LABELS if labels else Y
    alone = Keyed(template(labels), shards=4)
    expected = twice(alone, targets)
    keyed = Keyed(template(labels), folder=tmp_path, shards=4, cache_size=2)
    others = np.append(KEYS[1:], "unknown")
    with KeyedWorkers(keyed, 3) as shared:
        assert np.array_equal(twice(shared, targets), expected)
        assert np.array_equal(shared.predict(X, others), alone.predict(X, others))
    assert notes(keyed) == notes(alone) and len(keyed) == 9


def test_rows_by_shard():
    keys = Keys.from_values(KEYS)
    found = rows_by_shard(keys, 4)
    assert sorted(np.concatenate([rows for _, rows, _ in found]).tolist()) == list(range(ROWS))
    for number, rows, own in found:
        assert (np.diff(rows) > 0).all()
        assert {shard_of(encode_key(key), 4) for key in own.values} == {number}
        assert np.array_equal(np.array(own.values)[own.codes], KEYS[rows])
