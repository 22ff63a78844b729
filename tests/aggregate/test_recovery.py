"""Recovery from change: alarm, trial, swap, dropped and restarted challengers, and their laws."""

import copy
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pronk
from laws.interrupts import Lines, state_of
from naive import recovery as naive
from pronk.aggregate import learner, recovery, trial
from pronk.aggregate.probabilities import Probabilities
from pronk.core.kernels import get_kernel
from pronk.estimators import files

#: Shorter trials for the tests.
SHORT = {"CHECK": 64, "FIRST": 128, "LAST": 512}
ROWS = 2300
#: First row of a new class.
NEW_CLASS = 770
FIRST_ROWS = {"LEAST_ROWS": 256, "RESTART_ROWS": 96}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    for name, value in SHORT.items():
        monkeypatch.setattr(trial, name, value)
    for name, value in FIRST_ROWS.items():
        monkeypatch.setattr(recovery, name, value)


@cache
def stream(kind):
    """Return a stream with a swap, a dropped and a restarted challenger."""
    rng = np.random.default_rng(5)
    X, noise = rng.uniform(-1, 1, (ROWS, 2)), rng.normal(size=ROWS)
    t = np.arange(ROWS)
    score = np.sin(3 * X[:, 0]) + X[:, 1]
    if kind == "back":  # two concepts take turns
        other = 8 - 2 * X[:, 0] ** 2 + np.cos(3 * X[:, 1])
        return X, np.where((t // 600) % 2 == 0, score, other) + 0.1 * noise
    if kind in ("number", "numbers", "late"):
        y = np.where(t < 600, score, 4 - 2 * X[:, 0] ** 2)  # another function and level
        y += np.where((t >= 1100) & (t < 1200), 2.0, 0.1) * noise  # noise for a while
        y = np.where(t >= 1700, 1e5 + 1000 * y, y)  # another unit
        return X, np.column_stack((y, 7 - y)) if kind == "numbers" else y
    labels = np.digitize(score, [0.0] if kind == "label" else [-0.5, 0.5])
    other = np.digitize(np.cos(4 * X[:, 1]) - X[:, 0], [0.0, 0.6])
    if kind == "label":
        other = 1 - labels
    labels = np.where(t < 600, labels, other)
    random = rng.integers(0, labels.max() + 1, ROWS)
    labels = np.where((t >= 1200) & (t < 1300), random, labels)
    labels = np.where(t >= 1700, (labels + 1) % (labels.max() + 1), labels)
    if kind == "labels":
        labels = np.where((t >= NEW_CLASS) & (X[:, 0] > 0.8), 3, labels)
    return X, labels


KINDS = ["number", "numbers", "label", "labels"]
#: What the naive twin knows of an entry of ``changes``.
EVENT = "row", "since", "outcome", "end", "returned"


def model_of(kind, **options):
    if kind == "late":
        return pronk.OnlineKernelRegressor(random_state=0, budget=24, experts="few", delay=20)
    make = (
        pronk.OnlineKernelRegressor
        if kind in ("number", "numbers", "back")
        else pronk.OnlineKernelClassifier
    )
    return make(**{"random_state": 0, "budget": 24, "experts": "few", **options})


def walk(model, kind, edges, stop=None):
    """Learn rows in calls that end at ``edges``; save and load at row ``stop``."""
    X, y = stream(kind)
    parts = []
    for i, j in pairwise(edges):
        if stop is not None and i >= stop:
            model, stop = files.from_bytes(files.to_bytes(model), "a model"), None
        if kind in ("number", "numbers", "late", "back"):
            P, ends = model.predict_then_learn(X[i:j], y[i:j], interval=0.9)
            parts.append(np.column_stack((P.reshape(j - i, -1), ends.reshape(j - i, -1))))
        else:
            P = model.predict_then_learn(X[i:j], y[i:j], output="probability")
            parts.append(np.hstack((P, np.zeros((j - i, 4 - P.shape[1])))))
    return model, np.concatenate(parts)


@cache
def in_one_call(kind):
    return walk(model_of(kind), kind, [0, ROWS])


def outcomes(model):
    return [change["outcome"] for change in model.changes_]


def test_the_streams_reach_what_they_are_for():
    found = {kind: outcomes(in_one_call(kind)[0]) for kind in KINDS}
    assert found["number"] == found["numbers"] == ["swap", "dropped", "swap"]
    assert {"swap", "restarted"} <= set(found["labels"]) and "swap" in found["label"]
    (first, *_) = in_one_call("labels")[0].changes_
    (cut, *_) = walk(model_of("labels"), "labels", [0, NEW_CLASS, ROWS])[0].changes_
    assert (first["row"], first["end"]) == (cut["row"], cut["end"])
    assert first["row"] < NEW_CLASS < first["end"]  # a new class during a trial
    assert abs(first["since"] - 600) <= 32
    model = in_one_call("back")[0]
    assert [bool(c["returned"]) for c in model.changes_] == [False, True, True]
    assert model.change_counts_["returns"] == 2


@pytest.mark.parametrize(
    ("kind", "delay"),
    [*((kind, 0) for kind in (*KINDS, "back")), ("number", 5), ("labels", 70), ("back", 3)],
)
def test_it_is_the_naive_one(kind, delay):
    X, y = stream(kind)
    signed = kind.startswith("label")
    Y = y.reshape(ROWS, -1).astype(float)
    if signed:
        classes = np.unique(y)
        Y = np.where(y[:, None] == (classes[1:] if len(classes) == 2 else classes), 1.0, -1.0)
    outputs = Y.shape[1]
    made = get_kernel("gaussian"), 2, outputs, 24, 7, signed, True, True

    def make(challenger=False):
        return learner.InnerLearner(*made, 50_000 if challenger else 100_000, delay)

    expected, _, events = naive.recover(
        make, X, Y, signed, trial.CHECK, trial.FIRST, trial.LAST,
        recovery.LEAST_ROWS, recovery.RESTART_ROWS, delay=delay, most=1,
    )  # fmt: skip
    if signed:  # the last step, which has its own twin
        expected = Probabilities(outputs, 2, delay).learn(X, np.array(expected), Y)
    model = recovery.DefaultLearner(*made, 100_000, delay)
    found = [model.learn(X[i:j], Y[i:j]) for i, j in pairwise([0, 7, 500, 1199, 1200, 1777, ROWS])]
    listed = [[c[name] for name in EVENT] for c in model.changes]
    assert listed == events and events
    size = 1.0 + np.abs(Y)
    np.testing.assert_allclose(np.concatenate(found) / size, expected / size, rtol=0, atol=1e-7)


def cuts_around_events(kind):
    """Return edges of calls just before, at and after the rows of all events."""
    rows = [c[name] for c in in_one_call(kind)[0].changes_ for name in ("row", "end") if c[name]]
    return sorted({row + i for row in rows for i in range(-2, 3) if row + i < ROWS})


@pytest.mark.parametrize("kind", [*KINDS, "late", "back"])
def test_any_cut_gives_the_same(kind):
    whole, expected = in_one_call(kind)

    @settings(deadline=None, max_examples=1, database=None)
    @given(
        rows=st.lists(st.integers(1, ROWS - 1), max_size=12, unique=True).map(sorted),
        stop=st.integers(600, ROWS - 1),
    )
    @example(rows=cuts_around_events(kind), stop=whole.changes_[0]["row"] + 20)
    @example(rows=list(range(590, 900)), stop=800)
    @example(rows=list(range(13, ROWS, 13)), stop=whole.changes_[0]["end"])
    def law(rows, stop):
        model, found = walk(model_of(kind), kind, [0, *rows, ROWS], stop)
        assert outcomes(model) == outcomes(whole)
        size = 1.0 + np.abs(expected)
        np.testing.assert_allclose(found / size, expected / size, rtol=0, atol=1e-6)
        assert [c["row"] for c in model.changes_] == [c["row"] for c in whole.changes_]

    law()


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["number", "labels", "late", "back"])
@pytest.mark.parametrize("length", [1, 500])
def test_a_call_that_is_stopped_is_rolled_back(kind, length):
    """At some lines of calls that contain an alarm, rows of a trial, and a decision."""
    X, y = stream(kind)
    change = in_one_call(kind)[0].changes_[0]
    for row in (change["row"], change["row"] + 30, change["end"] - 1):
        now, later = slice(row, row + length), slice(row + length, row + length + 3)
        model = model_of(kind).partial_fit(X[:row], y[:row])
        before, done = state_of(model), copy.deepcopy(model)
        lines = Lines()
        lines.run(lambda now=now, done=done: done.predict_then_learn(X[now], y[now]))
        after = state_of(done)
        expected = done.predict_then_learn(X[later], y[later])
        for at in np.random.default_rng(row).integers(1, lines.count + 1, 5):
            stopped = copy.deepcopy(model)
            Lines(int(at)).run(
                lambda now=now, stopped=stopped: stopped.predict_then_learn(X[now], y[now])
            )
            learned = stopped.n_seen_ == row + length
            assert state_of(stopped) == (after if learned else before), at
            if not learned:
                stopped.predict_then_learn(X[now], y[now])
            assert np.array_equal(stopped.predict_then_learn(X[later], y[later]), expected), at


def test_during_a_trial_both_learners_are_shown():
    X, y = stream("number")
    model, change = model_of("number"), in_one_call("number")[0].changes_[0]
    model.partial_fit(X[: change["row"]], y[: change["row"]])
    assert not model.changes_ and {e["learner"] for e in model.experts_} == {"incumbent"}
    model.partial_fit(X[change["row"] : change["end"] - 1], y[change["row"] : change["end"] - 1])
    assert model.changes_ == [{**change, "outcome": "on trial", "end": None}]
    shown = {name: 0.0 for name in ("incumbent", "challenger")}
    for expert in model.experts_:
        shown[expert["learner"]] += expert["weight"]
    assert sum(shown.values()) == pytest.approx(1.0) and shown["challenger"] > 0.9
    inner = model._model
    P, Q = inner.incumbent.predict(X[:9])[0], inner.trial.challenger.predict(X[:9])[0]
    w = shown["challenger"]
    np.testing.assert_allclose(model.predict(X[:9]), ((1 - w) * P + w * Q)[:, 0], rtol=1e-9, atol=0)
    assert model.predict(X[:9], return_std=True)[1].min() > 0
    assert model.certificate().rows == change["end"] - 1  # the incumbent's
    model.partial_fit(X[change["end"] - 1 : change["end"]], y[change["end"] - 1 : change["end"]])
    assert model.changes_ == [change] and {e["learner"] for e in model.experts_} == {"incumbent"}
    assert model.certificate().rows == change["end"] - change["row"] - 1  # since it started


def test_it_becomes_as_good_as_a_learner_that_starts_at_the_change():
    for kind, since in (("number", 600), ("label", 600)):
        X, y = stream(kind)
        fresh = model_of(kind)
        own = np.concatenate(
            [fresh.predict_then_learn(X[i : i + 1], y[i : i + 1]) for i in range(since, 1100)]
        )
        _, found = in_one_call(kind)
        if kind == "number":
            late = slice(since + 350, 1100)
            errors = np.mean((found[late, 0] - y[late]) ** 2), np.mean((own[350:] - y[late]) ** 2)
            assert errors[0] < 1.2 * errors[1]


@pytest.mark.parametrize("size", [1e-150, 1e130])
def test_targets_of_any_size(size):
    X, y = stream("number")
    model = model_of("number").partial_fit(X, size * y)
    expected = in_one_call("number")[0].changes_
    for found, known in zip(model.changes_, expected, strict=True):
        numbers = {name: found[name] for name in ("before", "after")}
        assert numbers == pytest.approx({name: known[name] for name in numbers})
        assert {**found, **numbers} == {**known, **numbers}


def test_targets_without_noise_raise_no_alarm():
    """Rounding errors of constant or exactly predicted targets are no change."""
    X, _ = stream("number")
    for y in (np.full(ROWS, 5.0), np.zeros(ROWS), 3.0 + X[:, 0] * 0.0):
        assert not model_of("number").partial_fit(X, y).changes_
    y = np.where(np.arange(ROWS) < 1000, 5.0, 7.0)  # but another constant is one
    (change,) = model_of("number").partial_fit(X, y).changes_
    assert change["row"] < 1100


def test_without_an_alarm_it_is_the_inner_learner():
    X, y = stream("number")
    Y = y[:600, None]
    made = get_kernel("gaussian"), 2, 1, 24, 7, False, True, True, 100_000
    whole, inner = recovery.DefaultLearner(*made), learner.InnerLearner(*made)
    assert (whole.learn(X[:600], Y) == inner.learn(X[:600], Y)[0]).all() and not whole.changes


def test_the_challenger_gets_half_the_memory():
    X, y = stream("number")
    row = in_one_call("number")[0].changes_[0]["end"]
    model = model_of("number", memory_limit=1_000_001).partial_fit(X[: row - 1], y[: row - 1])
    inner = copy.deepcopy(model)._model
    assert (inner.incumbent.memory, inner.trial.challenger.memory) == (1_000_001, 500_001)
    model.partial_fit(X[row - 1 : row], y[row - 1 : row])
    assert model._model.trial is None and model._model.incumbent.memory == 1_000_001
    none = model_of("number", memory_limit=0).partial_fit(X[: row - 1], y[: row - 1])
    assert none._model.trial.challenger.memory == 0


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("started",), 3, "started is not as rows says"),
        (("rows",), 10**6, "started is not as rows says"),
        (("trial", "started"), 3, "trial did not start as rows says"),
        (("trial", "counter"), np.array([3.0]), "trial/counter is not that of the challenger"),
        (("trial", "log_odds"), np.array([90.0]), "log_odds has a value outside"),
        (("trial",), None, "log has another trial"),
        (("log",), np.zeros((0, 7)), "named has 1 entries where 0 are known"),
        (("detector", "open"), np.zeros(40), "detector/open has other losses"),
        (("detector", "buckets"), np.full((1, 3), 1e9), "detector/buckets have more rows"),
        (("dropped",), 65, "dropped is outside"),
        (
            ("incumbent", "experts", "log", "Y"),
            np.zeros((0, 1)),
            "log",
        ),
        (
            ("incumbent", "experts", "mixture", "limits"),
            np.full((2, 1), 1e12),
            "experts have a range without the first targets",
        ),
    ],
)
def test_a_damaged_state_is_refused(path, value, text):
    X, y = stream("number")
    row = in_one_call("number")[0].changes_[0]["row"] + 20
    model = model_of("number").partial_fit(X[:row], y[:row])
    state = model._model.to_state()
    place = state
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    if value is None:
        del place[path[-1]]
    with pytest.raises(ValueError, match=text):
        model._model.restore(state)
