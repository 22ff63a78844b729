"""A random order is the permutation of all rows, however a stream is cut into blocks."""

import numpy as np
import pytest

from pronk.evaluate import comparison_run as orders
from pronk.evaluate.comparison_run import order_of, shuffled


def blocks(X, y, size):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


def walked(y, block, size):
    X = np.arange(2.0 * len(y)).reshape(-1, 2)
    order = order_of(3, len(y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "BLOCK", block)
        parts = list(shuffled(blocks(X, y, size), order))
    return X[order], y[order], parts


@pytest.mark.parametrize("rows, block, size", [(1, 1, 1), (400, 60, 90), (97, 8, 13), (64, 64, 64)])
def test_all_cuts_give_the_permutation(rows, block, size):
    y = np.where(np.arange(rows) % 5, np.arange(rows) / 7, np.nan)
    X, y, parts = walked(y, block, size)
    np.testing.assert_array_equal(np.concatenate([A for A, _ in parts]), X)
    np.testing.assert_array_equal(np.concatenate([b for _, b in parts]), y)
    assert [len(b) for _, b in parts[:-1]] == [block] * (len(parts) - 1)
    assert all(A.flags.c_contiguous and A.dtype == np.float64 for A, _ in parts)


@pytest.mark.parametrize(
    "labels", [["b", "a", "longer"], [3, -1, 2**60 + 1], [True, False], [0.5, 2.0]]
)
def test_labels_come_back_as_they_were(labels):
    y = np.array(labels)[np.random.default_rng(0).integers(len(labels), size=200)]
    _, expected, parts = walked(y, 8, 50)
    given = np.concatenate([b for _, b in parts])
    assert given.dtype == y.dtype
    np.testing.assert_array_equal(given, expected)
    gaps = y.astype(object)
    gaps[::7] = None
    _, expected, parts = walked(gaps, 8, 50)
    assert np.concatenate([b for _, b in parts]).tolist() == expected.tolist()


@pytest.mark.parametrize("now", [90, 110])
def test_a_file_that_changed_is_refused(now):
    X, y = np.zeros((now, 2)), np.zeros(now)
    with pytest.raises(ValueError, match=f"the file now has {now} rows; it had 100"):
        list(shuffled(blocks(X, y, 20), order_of(0, 100)))
