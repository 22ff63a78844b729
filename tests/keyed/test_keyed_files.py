"""Damaged files of a store of models: the models work, or a StoreError names the problem."""

import copy
import json
import shutil
import sqlite3
import zlib

import damage
import numpy as np
import pytest

import pronk
from pronk.keyed import StoreError

X = np.random.default_rng(0).normal(size=(12, 2))
KEYS = [f"k{i % 3}" for i in range(12)]
OTHERS = (None, -1, 2**70, 0.5, "text", [], {}, True, [[1]], ...)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed") / "store"
    learner = pronk.FOGDRegressor(n_features=5, random_state=0)
    models = pronk.Keyed(learner, folder=folder, shards=1)
    models.predict_then_learn(X, X[:, 0], keys=KEYS)
    models.close()
    return folder


def outcome(folder):
    """Return "works", or "refused" after a StoreError whose message names the folder or the key."""
    models, message = None, ""
    try:
        models = pronk.load(folder)
        models.predict(X, keys=KEYS)
        models.predict_then_learn(X, X[:, 0], keys=KEYS)
        assert models.n_seen_ >= 24 and set(models.metrics()) == {"mse", "mae"}
        assert list(models) and list(models.metrics_by_key())
        models.close()
    except StoreError as error:
        message = str(error)
    finally:
        if models is not None and models._store is not None:
            for file in models._store._files.values():
                file.close()
    assert not message or ((str(folder) in message or "key" in message) and "\n" not in message), (
        message
    )
    return "refused" if message else "works"


def leaves(tree, path=()):
    yield path
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield from leaves(value, (*path, key))


def changed(tree, path, value):
    if not path:
        return None if value is ... else value
    found = place = copy.deepcopy(tree)
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return found


@pytest.mark.slow
def test_a_damaged_header(store, tmp_path):
    layout = json.loads((store / "store.json").read_text())
    learner = json.loads(layout["metadata"]["learner"])
    layouts = [changed(layout, path, value) for path in leaves(layout) for value in OTHERS]
    for path in leaves(learner):
        for value in OTHERS:
            text = json.dumps(changed(learner, path, value))
            layouts.append(changed(layout, ("metadata", "learner"), text))
    rng = np.random.default_rng(0)
    folder = tmp_path / "s"
    found = []
    for i in rng.permutation(len(layouts))[:30]:
        shutil.copytree(store, folder)
        (folder / "store.json").write_text(json.dumps(layouts[i]))
        found.append(outcome(folder))
        shutil.rmtree(folder)
    assert found.count("refused") > 10


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("model", [b"", b"x", "text", 5, zlib.compress(b"junk")]),
        ("notes", ["{", b"\xff", '["a", 1, 2]', "[" * 9000]),
        pytest.param("notes", ["", "5", "{}", 7, "[1]"], marks=pytest.mark.matrix),
        ("key", ["", "x", b"\xff"]),
    ],
)
def test_damaged_rows_of_a_shard(store, tmp_path, column, values):
    for i, value in enumerate(values):
        folder = tmp_path / str(i)
        shutil.copytree(store, folder)
        with sqlite3.connect(folder / "shard-000.sqlite") as file:
            file.execute(f"UPDATE models SET {column} = ? WHERE key = ?", (value, '"k1"'))
        file.close()
        assert outcome(folder) == "refused"


def test_a_model_that_unpacks_to_more_than_memory_raises(store, tmp_path, monkeypatch):
    monkeypatch.setattr("pronk.keyed.store.MOST_BYTES", 100)
    with pytest.raises(StoreError, match="is damaged"):
        pronk.load(store).predict(X, keys=KEYS)


@pytest.mark.slow
def test_files_that_are_not_stores(store, tmp_path):
    for name in ("shard-000.sqlite", "store.json"):
        for i, data in enumerate((b"x" * 5000, b"[" * 100_000, (store / name).read_bytes()[:100])):
            folder = tmp_path / f"{name}-{i}"
            shutil.copytree(store, folder)
            (folder / name).write_bytes(data)
            assert outcome(folder) == "refused"


def test_damaged_stores_work_or_raise(tmp_path):
    sound = [damage.make_store(tmp_path / f"sound{i}", i) for i in range(3)]
    found = []
    for i in range(45):
        folder = tmp_path / "damaged"
        shutil.copytree(sound[i % 3], folder)
        damage.damage(folder, np.random.default_rng([1, i]))
        found.append(damage.outcome(folder))
        shutil.rmtree(folder)
    assert set(found) == {"works", "refused"} and found.count("refused") > 20


def test_a_copy_of_a_folder_that_is_in_use_leaves_nothing(store, tmp_path):
    models = pronk.load(store)
    models.predict_then_learn(X, X[:, 0], keys=KEYS)  # opens a shard and locks it
    lock = sqlite3.connect(store / "shard-000.sqlite", timeout=0)
    models.close()
    lock.execute("BEGIN EXCLUSIVE")
    other = pronk.load(store)
    with pytest.raises(StoreError, match="in use"):
        other.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    lock.close()
