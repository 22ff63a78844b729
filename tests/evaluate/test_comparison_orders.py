"""A random order in bounded memory is the permutation of all rows, wherever parts are cut."""

import shutil
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pronk.evaluate import comparison_run as orders
from pronk.evaluate.comparison_run import check_room, disk_bytes, order_of, shuffled


def blocks(X, y, size):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


def walked(rows, columns=2, *, y=None, task="regression", size=50):
    X = np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    y = X[:, 0] / 7 if y is None else y
    order = order_of(3, rows)
    parts = list(shuffled(blocks(X, y, size), order, columns, task))
    return X[order], y[order], parts


@given(
    rows=st.integers(1, 400),
    part=st.integers(8, 4000),
    block=st.integers(1, 60),
    size=st.integers(1, 90),
)
@settings(deadline=None, max_examples=60)
def test_all_cuts_give_the_permutation(rows, part, block, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "PART", part)
        patch.setattr(orders, "BLOCK", block)
        X, y, parts = walked(rows, size=size)
    np.testing.assert_array_equal(np.concatenate([A for A, _ in parts]), X)
    np.testing.assert_array_equal(np.concatenate([b for _, b in parts]), y)
    assert [len(b) for _, b in parts[:-1]] == [block] * (len(parts) - 1)
    assert all(A.flags.c_contiguous and A.dtype == np.float64 for A, _ in parts)


@pytest.mark.parametrize("part", [orders.PART, 512])
@pytest.mark.parametrize(
    "labels", [["b", "a", "longer"], [3, -1, 2**60 + 1], [True, False], [0.5, 2.0]]
)
def test_labels_come_back_as_they_were(monkeypatch, part, labels):
    monkeypatch.setattr(orders, "PART", part)
    monkeypatch.setattr(orders, "BLOCK", 8)
    rng = np.random.default_rng(0)
    y = np.array(labels)[rng.integers(len(labels), size=200)]
    _, expected, parts = walked(200, y=y, task="classification")
    given_ = np.concatenate([b for _, b in parts])
    assert given_.dtype == y.dtype
    np.testing.assert_array_equal(given_, expected)
    gaps = y.astype(object)
    gaps[::7] = None
    _, expected, parts = walked(200, y=gaps, task="classification")
    assert np.concatenate([b.astype(object) for _, b in parts]).tolist() == expected.tolist()


def test_missing_numbers_stay_missing(monkeypatch):
    monkeypatch.setattr(orders, "PART", 512)
    monkeypatch.setattr(orders, "BLOCK", 8)
    y = np.where(np.arange(200) % 5, 1.5, np.nan)
    _, expected, parts = walked(200, y=y)
    np.testing.assert_array_equal(np.concatenate([b for _, b in parts]), expected)


@pytest.mark.parametrize("part", [orders.PART, 512])
@pytest.mark.parametrize("now", [90, 110])
def test_a_file_that_changed_is_refused(monkeypatch, part, now):
    monkeypatch.setattr(orders, "PART", part)
    monkeypatch.setattr(orders, "BLOCK", 8)
    X, y = np.zeros((now, 2)), np.zeros(now)
    with pytest.raises(ValueError, match=f"the file now has {now} rows; it had 100"):
        list(shuffled(blocks(X, y, 20), order_of(0, 100), 2, "regression"))


def test_memory_is_that_of_a_part(monkeypatch):
    import tracemalloc

    monkeypatch.setattr(orders, "PART", 1 << 20)
    rows, columns = 40_000, 40  # 13 MB

    def stream():
        for start in range(0, rows, 1000):
            X = np.full((1000, columns), float(start))
            yield X, X[:, 0]

    tracemalloc.start()
    seen = sum(len(y) for _, y in shuffled(stream(), order_of(0, rows), columns, "regression"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == rows and peak < 8e6


def test_too_little_disk_space_raises_before_the_first_row(monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9))
    assert disk_bytes(1000, 10) == 0 and disk_bytes(10**7, 9) == 8 * 10**8
    check_room(10**7, 9)
    with pytest.raises(ValueError, match=r"needs 1\.6 GB .* 1\.0 GB free; .* order='given'"):
        check_room(10**7, 9, files=2)
