"""Small made-up data sets under the papers' names, in a temporary directory."""

import dataclasses

import numpy as np
import pytest

from papers import datasets

ROWS = 400
COLUMNS = {"w8a": 12, "covtype": 6}


def made_up(dataset):
    """Rows and targets of a small set that looks like the real one."""
    rng = np.random.default_rng(len(dataset.name))
    columns = COLUMNS.get(dataset.name, min(dataset.columns, 4))
    X = rng.uniform(0, 10, (ROWS, columns)).astype(np.float32)
    if dataset.name == "covtype":
        y = rng.integers(1, 8, ROWS)
    elif dataset.task == "classification":
        y = np.where(X[:, 0] > X[:, 1], 1, -1)
    else:
        y = 20 * np.sin(X[:, 0]) + X[:, 1]
    return X, y.astype(np.float32)


@pytest.fixture
def sets(monkeypatch, tmp_path):
    """All sets, small, stored and known by their checksums; the directory."""
    monkeypatch.setenv("PRONK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    known = {}
    for name, dataset in datasets.DATASETS.items():
        X, y = made_up(dataset)
        known[name] = dataclasses.replace(
            dataset,
            rows=ROWS,
            columns=X.shape[1],
            array=datasets.array_checksum(X, y),
            files={},
            split=None if dataset.split is None else 250,
        )
        datasets.store(known[name], X, y)
    monkeypatch.setattr(datasets, "DATASETS", known)
    datasets.load.cache_clear()
    yield tmp_path / "data"
    datasets.load.cache_clear()
