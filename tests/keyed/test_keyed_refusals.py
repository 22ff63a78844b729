"""Keyed models: rows, keys and stores that are refused."""

import numpy as np
import pytest
import scipy.sparse

import pronk
from pronk.keyed.keys import checked_rows, split_keys
from pronk.keyed.store import MOST_SHARDS, ModelStore


def test_rows_that_are_refused():
    with pytest.raises(ValueError, match=r"X has shape \(3,\), but the keys must be in column 0"):
        split_keys(np.zeros(3), 0)
    with pytest.raises(ValueError, match="the keys must be in column 5"):
        split_keys(np.zeros((3, 2)), 5)
    with pytest.raises(ValueError, match="X must hold numbers beside the keys"):
        checked_rows([["a", 1]], None)
    with pytest.raises(ValueError, match="X must have rows and columns beside the keys"):
        checked_rows(np.zeros((3, 0)), None)
    rows = np.array([[0.0, 2.0], [1.0, 0.0]])
    assert np.array_equal(checked_rows(scipy.sparse.csr_array(rows), 2), rows)


def test_keys_that_have_no_model():
    X = np.random.default_rng(0).normal(size=(20, 2))
    keyed = pronk.Keyed(pronk.make("fogd", "regression", random_state=0))
    keys = np.repeat(["a", "b"], 10)
    assert keyed.partial_fit(X, X[:, 0], keys) is keyed and len(keyed) == 2
    with pytest.raises(KeyError):
        keyed["c"]
    assert "Keyed(" in repr(keyed)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"shards": 0}, "shards and cache_size must be at least 1"),
        ({"cache_size": 0}, "shards and cache_size must be at least 1"),
        ({"shards": MOST_SHARDS + 1}, f"shards must be at most {MOST_SHARDS}"),
    ],
)
def test_stores_that_are_refused(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        ModelStore(tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()
