"""Declared state: a small class with one field of each kind, as CONTRIBUTING shows it."""

import copy

import numpy as np
import pytest

from pronk.core.linalg import GrowingCholesky, GrowingRows
from pronk.core.state import Count, Numbers, Part, Real, Rows, StateError, Stateful, require


class Running(Stateful):
    def __init__(self, outputs=2):
        self.rows, self.rate = 0, 0.5
        self._sums, self._extra = np.zeros((2, outputs)), None
        self._points, self._factor = GrowingRows(3), GrowingCholesky()

    STATE = (
        Count("rows", "rows"),
        Real("rate", "rate", low=0.0, high=1.0),
        Numbers("sums", (2, "outputs"), low=0.0),
        Numbers("extra", ("outputs",), optional=True),
        Rows("points", ("size", 3)),
        Part("factor", sizes={"size": "size"}),
    )

    def _sizes(self):
        return {"outputs": self._sums.shape[1]}

    def _restored(self, sizes):
        require(self.rows >= sizes["size"], "points are more than rows")

    def learn(self, x):
        self.rows += 1
        self.rate /= 2.0
        self._sums += x[:2]
        self._extra = self._sums[0].copy()
        self._points.append(x[None, :])
        self._factor.append(np.zeros((self._factor.size, 1)), np.array([[1.0 + x @ x]]))


def learned(rows=5):
    running = Running()
    for x in np.random.default_rng(0).random((rows, 3)):
        running.learn(x)
    return running


def same(one, two):
    a, b = one.to_state(), two.to_state()
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_equal(a[name], b[name])


def test_a_state_is_restored():
    for rows in (0, 5):
        again = Running()
        again.restore(copy.deepcopy(learned(rows).to_state()))
        same(again, learned(rows))
    assert "extra" not in Running().to_state()


@pytest.mark.parametrize("start", [0, 5])
def test_what_follows_a_snapshot_is_rolled_back(start):
    """Twice: a snapshot can be used once, and arrays of the first are not those of the second."""
    running = learned(start)
    for _ in range(2):
        snapshot = running.snapshot()
        for x in np.ones((40, 3)):
            running.learn(x)
        if running._extra is not None:
            running._extra += 1.0  # written in place
        running.roll_back(snapshot)
        same(running, learned(start))


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("rate", 1.5, "rate is outside its range"),
        ("rate", np.nan, "rate is outside its range"),
        ("rate", "x", "rate is not a number"),
        ("rows", 4, "points are more than rows"),
        ("rows", True, "rows is not a whole number"),
        ("sums", np.zeros((3, 2)), "sums"),
        ("sums", np.full((2, 2), -1.0), "sums has a value outside"),
        ("sums", np.full((2, 2), np.nan), "sums has a value outside"),
        ("extra", np.zeros(3), "extra"),
        ("points", np.zeros((4, 3)), "size|points"),
        ("points", None, "points is missing"),
        ("more", 1, "more is unknown"),
    ],
)
def test_a_state_that_does_not_fit_raises(name, value, words):
    state = {**learned().to_state(), name: value}
    with pytest.raises(StateError, match=words):
        Running().restore(state)
