"""The default learner across every row number at which something changes in it.

Stages (8 .. 2048), epochs (256), dropped experts (4096 .. 16,384), blocks of the Newton engines,
and the growth of the limit of points, which ends where the budget is reached: hence one long stream
with few points and one shorter stream with many. Hypothesis cuts them, most of all around those
rows.
"""

import functools
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pronk
from pronk.aggregate.experts import ACTIVE_EXPERTS, EPOCH, LATE_SHARE
from pronk.aggregate.learner import STAGES
from pronk.aggregate.points import most_points
from pronk.aggregate.settings import EXPERT_WINDOWS

LONG, WIDE = 20_600, 1_100


def stream(kind, n):
    rng = np.random.default_rng(3)
    columns = 2 if kind == "long" else 6
    X = rng.uniform(-1.5, 1.5, size=(n, columns))
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
    if kind == "long":
        score += 1.5 * np.sin(np.arange(n) / 8)  # targets hang together in time
    late = np.where(np.arange(n) < 700, 1.0, 1.0 + (X[:, 0] > 1.0))  # changes at last
    return np.column_stack((X, late)), score


def rows_of_change(n):
    rows = {*STAGES, *ACTIVE_EXPERTS, *range(EPOCH, n, EPOCH)}
    return sorted(row for row in rows if row < n - 2)


def around_changes(n):
    """Return the row before each change, the row of the change and the row after."""
    return sorted({row + i for row in rows_of_change(n) for i in (-1, 0, 1)})


def cuts(n):
    """Return a strategy for cuts, most of them next to a change, some of single rows."""
    near = st.tuples(st.sampled_from(rows_of_change(n)), st.integers(-2, 2)).map(sum)
    single = near.map(lambda row: list(range(row, row + 5)))
    one = st.one_of(near, st.integers(1, n - 1)).map(lambda row: [row])
    pieces = st.lists(st.one_of(one, one, single), min_size=1, max_size=8)
    return pieces.map(lambda found: sorted({row for piece in found for row in piece if row < n}))


def learner(kind, task):
    budget = 45 if kind == "long" else 260
    return pronk.make("online-kernel", task, budget=budget, random_state=1)


def targets(task, score):
    return score if task == "regression" else np.digitize(score, [-0.6, 0.6])


def walk(model, X, y, edges, stop=None, folder=None):
    parts = []
    for i, j in pairwise(edges):
        if stop is not None and i >= stop:
            model.save(folder / "model.pronk")
            model, stop = pronk.load(folder / "model.pronk"), None
        if hasattr(model, "decision_function"):
            parts.append(model.predict_then_learn(X[i:j], y[i:j], output="decision"))
        else:
            parts.append(model.predict_then_learn(X[i:j], y[i:j], interval=0.9)[1])
    return model, np.concatenate(parts)


@functools.cache
def in_one_call(kind, task, n):
    X, score = stream(kind, n)
    y = targets(task, score)
    model = learner(kind, task)
    if task == "classification":
        model.partial_fit(X[:1], y[:1], classes=[0, 1, 2])
        X, y = X[1:], y[1:]
    model, out = walk(model, X, y, [0, len(X)])
    return X, y, model, out


def check(kind, task, n, rows, stop, folder):
    X, y, whole, expected = in_one_call(kind, task, n)
    model = learner(kind, task)
    if task == "classification":
        first, label = stream(kind, n)
        model.partial_fit(first[:1], targets(task, label)[:1], classes=[0, 1, 2])
    model, got = walk(model, X, y, [0, *rows, len(X)], stop, folder)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(model.dictionary_, whole.dictionary_)
    compare(model._fitted_state(), whole._fitted_state())


def compare(ours, theirs, where="state"):
    """Compare two states, number by number."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), where
        for key in ours.keys() - {"calls"}:  # in which calls the open rows came
            compare(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for i, pair in enumerate(zip(ours, theirs, strict=True)):
            compare(*pair, f"{where}[{i}]")
    elif isinstance(ours, np.ndarray | float):
        size = 1.0 + np.abs(theirs).max(initial=0.0) if np.size(theirs) else 1.0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * size, err_msg=where)
    else:
        assert ours == theirs, where


KINDS = [pytest.param("long", LONG, marks=pytest.mark.slow), ("wide", WIDE)]


@pytest.mark.thinned
@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize(("kind", "n"), KINDS)
def test_any_cut_gives_the_same_at_every_row(kind, n, task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")

    @settings(deadline=None, max_examples=2 if kind == "long" else 1, database=None)
    @given(rows=cuts(n), stop=st.integers(1, n - 1))
    @example(rows=list(range(7, 1000, 7)), stop=700)
    @example(rows=around_changes(n), stop=2000)
    def law(rows, stop):
        check(kind, task, n, rows, stop, folder)

    law()


@pytest.mark.slow
def test_the_long_stream_reaches_what_it_is_for():
    """It is long enough to reach every stage."""
    *_, whole, _ = in_one_call("long", "regression", LONG)
    assert LONG > 20_000 > max(ACTIVE_EXPERTS)
    own = [expert for expert in whole.experts_ if expert["learner"] == "incumbent"]
    active = [expert["kind"] for expert in own if expert["active"]]
    assert active.count("kernel") == min(ACTIVE_EXPERTS.values()) + len(EXPERT_WINDOWS)
    assert min(whole._model.experts.local.forest.leaves) > 1  # every tree was split
    points = [expert["points"] for expert in own if expert["kind"] == "kernel"]
    assert {np.ceil(LATE_SHARE * whole.budget), whole.budget} <= set(points)  # all but the best
    assert whole._model.experts.past.columns  # lags are read
    *_, labels, _ = in_one_call("long", "classification", LONG)
    assert labels._model.experts.past.columns


def test_the_wide_stream_reaches_what_it_is_for():
    *_, whole, _ = in_one_call("wide", "regression", WIDE)
    assert whole.size_ > most_points(STAGES[-2], whole.budget)  # points entered later
    assert most_points(WIDE - EPOCH, whole.budget) < whole.budget  # the limit still grew
