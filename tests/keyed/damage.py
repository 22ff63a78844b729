"""Damage stores of keyed models at random: bytes of files, rows of tables, the header.

`outcome` opens and uses a store: it works, or it raises a StoreError with a message of one line.
``python tests/keyed/damage.py 500`` damages 500 stores and counts the outcomes.
"""

from __future__ import annotations

import collections
import contextlib
import json
import shutil
import sqlite3
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pronk
from pronk.estimators import files as storage
from pronk.keyed import StoreError

RNG = np.random.default_rng(0)
ROWS = 40
FRAME = pd.DataFrame(
    {
        "who": [f"k{i % 4}" for i in range(ROWS)],
        "x": RNG.normal(size=ROWS),
        "colour": RNG.choice(["red", "blue"], ROWS),
    }
)
X = FRAME[["x", "colour"]]
Y = FRAME.x.to_numpy() * 2
VALUES = (None, -1, 2**70, 0.5, "text", "", [], {}, True, [[1]], [None, None], b"\xff", b"", b"x")


def make_store(folder: Path, number: int = 0) -> Path:
    """A sound store; every third one has other learners."""
    inner = [
        pronk.FOGDRegressor(n_features=5, random_state=0),
        pronk.OnlineKernelRegressor(budget=8, experts="few", random_state=0),
        pronk.PKAWVRegressor(budget=5, random_state=0),
    ][number % 3]
    models = pronk.Keyed(pronk.Prepared(inner), by="who", folder=folder, shards=2)
    models.predict_then_learn(FRAME, Y)
    models.close()
    return folder


def damage(folder: Path, rng: np.random.Generator) -> str:
    """Damage a store in some way; which."""
    ways = (_cut, _flip, _remove, _layout, _cell, _cell, _model_bytes, _schema)
    way = ways[rng.integers(len(ways))]
    way(folder, rng)
    return way.__name__


def outcome(folder: Path) -> str:
    """Whether the models work, or were refused; anything else is raised."""
    models = None
    try:
        models = pronk.load(folder)
        models.predict(X, FRAME.who)
        models.predict_then_learn(X, Y, FRAME.who)
        assert models.n_seen_ >= 0 and set(models.metrics()) == {"mse", "mae"}
        assert len(models) and list(models) and list(models.metrics_by_key())
        assert "k1" in models and models["k1"] is not None
        [models.store.shard(i).position for i in range(models.store.shards)]
        models.save(folder / "copy")
        models.close()
        return "works"
    except StoreError as error:
        return "refused" if "\n" not in str(error) else "several lines"
    finally:
        if models is not None and models._store is not None:
            models._store.abandon()


def _some_file(folder: Path, rng: np.random.Generator) -> Path:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return files[rng.integers(len(files))]


def _cut(folder: Path, rng: np.random.Generator) -> None:
    path = _some_file(folder, rng)
    data = path.read_bytes()
    path.write_bytes(data[: rng.integers(len(data))])


def _flip(folder: Path, rng: np.random.Generator) -> None:
    path = _some_file(folder, rng)
    data = np.frombuffer(path.read_bytes(), dtype=np.uint8).copy()
    places = rng.integers(len(data), size=rng.integers(1, 40))
    if rng.random() < 0.5:  # a run of bytes
        places = np.arange(places[0], min(len(data), places[0] + 200))
    data[places] = rng.integers(256, size=len(places))
    path.write_bytes(data.tobytes())


def _remove(folder: Path, rng: np.random.Generator) -> None:
    path = _some_file(folder, rng)
    path.unlink()
    if rng.random() < 0.5:
        path.mkdir()


def _layout(folder: Path, rng: np.random.Generator) -> None:
    path = folder / "store.json"
    layout = json.loads(path.read_text())
    if rng.random() < 0.4:
        tree = json.loads(layout["metadata"]["learner"])
        _change(tree, rng)
        layout["metadata"]["learner"] = json.dumps(tree)
    else:
        _change(layout, rng)
    path.write_text(json.dumps(layout))


def _change(tree: Any, rng: np.random.Generator) -> None:
    """Put anything in the place of some leaf, remove it, or add one."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = keys[rng.integers(len(keys))]
    if isinstance(tree[key], dict | list) and tree[key] and rng.random() < 0.7:
        _change(tree[key], rng)
    elif rng.random() < 0.2 and isinstance(tree, dict):
        del tree[key]
    else:
        values = [value for value in VALUES if not isinstance(value, bytes)]
        tree[key] = values[rng.integers(len(values))]


def _shard(folder: Path, rng: np.random.Generator) -> Path:
    files = sorted(folder.glob("shard-*.sqlite"))
    return files[rng.integers(len(files))]


def _execute(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    file = sqlite3.connect(path)
    for statement, values in statements:
        with contextlib.suppress(sqlite3.Error):  # what the file refuses by itself
            file.execute(statement, values)
    file.commit()
    file.close()


def _cell(folder: Path, rng: np.random.Generator) -> None:
    columns = ("models.model", "models.notes", "models.key", "positions.value", "positions.name")
    table, column = columns[rng.integers(len(columns))].split(".")
    texts = ("{", "5", "{}", "[1]", '["a", 1, 2]', "[1, NaN, 2]", "[" * 9000, '"k9"', "[true,1,1]")
    several = [v for v in VALUES if isinstance(v, str | bytes | float | int) and v != 2**70]
    value: Any = [*several, *texts, "[" + "9" * 5000 + ", 1, 1]"][rng.integers(len(several) + 10)]
    position = ("INSERT OR REPLACE INTO positions VALUES ('position', 3)", ())
    change = f"UPDATE {table} SET {column} = ?"
    if rng.random() < 0.7:
        change += f" WHERE rowid = (SELECT rowid FROM {table} ORDER BY random() LIMIT 1)"
    _execute(_shard(folder, rng), position, (change, (value,)))


def _model_bytes(folder: Path, rng: np.random.Generator) -> None:
    """A model whose header and checksum are good, of another class, state or width."""
    kinds = [
        pronk.FOGDRegressor(n_features=5, random_state=0).fit(X[["x"]].to_numpy(), Y),
        pronk.FOGDClassifier(n_features=5, random_state=0).fit(X[["x"]].to_numpy(), Y > 0),
        pronk.Prepared(pronk.PKAWVRegressor(budget=5, random_state=0)).fit(FRAME[["x"]], Y),
        pronk.Prepared(pronk.FOGDClassifier(random_state=0)).fit(FRAME[["x", "colour"]], Y > 0),
    ]
    data = storage.to_bytes(kinds[rng.integers(len(kinds))])
    if rng.random() < 0.3:
        data = data[: rng.integers(len(data))]
    change = "UPDATE models SET model = ? WHERE key = (SELECT min(key) FROM models)"
    _execute(_shard(folder, rng), (change, (zlib.compress(data),)))


def _schema(folder: Path, rng: np.random.Generator) -> None:
    changes = (
        "DROP TABLE models",
        "DROP TABLE positions",
        "ALTER TABLE models RENAME COLUMN notes TO remarks",
        "ALTER TABLE models ADD COLUMN more TEXT",
        "CREATE TRIGGER no BEFORE UPDATE ON models BEGIN SELECT RAISE(ABORT, 'two\nlines'); END",
        "DELETE FROM models",
        "PRAGMA user_version = 99",
    )
    _execute(_shard(folder, rng), (changes[rng.integers(len(changes))], ()))


def main(count: int, seed: int = 0) -> None:
    """Damage so many stores; print how they ended, and what was raised beside StoreErrors."""
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as place:
        sound = [make_store(Path(place) / f"sound{i}", i) for i in range(3)]
        for i in range(count):
            rng = np.random.default_rng([seed, i])
            folder = Path(place) / "damaged"
            shutil.copytree(sound[i % 3], folder)
            how = damage(folder, rng)
            try:
                found[outcome(folder)] += 1
            except Exception as error:
                found["other"] += 1
                print(f"{i} {how}: {type(error).__name__}: {error}"[:300])
            shutil.rmtree(folder)
    print(dict(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
