"""The default learner in every phase: its file continues to the same bits, a call is undone whole.

The streams go through all stages, an alarm, a trial, new classes, local experts and the second head
(past targets are read). `PHASES` are the rows at which a learner is saved or a call is stopped.
"""

import copy
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

import pronk
from laws.interrupts import state_of
from pronk.aggregate import recovery, trial
from pronk.aggregate.recovery import DefaultLearner
from pronk.estimators import files, inputs

ROWS = 2700
#: First rows of the second, third and fourth class, and of another concept.
NEW_CLASSES, CHANGE = (45, 640, 2200), 900
#: In every stage, before and after each new class, in a trial, with local experts.
PHASES = (5, 20, 60, 200, 400, 660, 1250, 2100, 2250)
LENGTH = 120
TASKS = ("numbers", "labels", "runs")


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    monkeypatch.setattr(trial, "CHECK", 64)
    monkeypatch.setattr(trial, "FIRST", 512)
    monkeypatch.setattr(recovery, "LEAST_ROWS", 256)


@cache
def stream(task):
    """Return rows, and targets that depend on them and on time; "runs": on time alone."""
    rng = np.random.default_rng(8)
    X, t = rng.uniform(-1, 1, (ROWS, 3)), np.arange(ROWS)
    hidden = np.zeros(ROWS)
    for row in range(1, ROWS):
        hidden[row] = 0.97 * hidden[row - 1] + 0.25 * rng.normal()
    score = np.where(t < CHANGE, 2 * np.sin(3 * X[:, 0]), 3 - 9 * X[:, 1] ** 2) + hidden
    if task == "numbers":
        return X, score
    labels = (score > 0.0).astype(int) if task == "labels" else t // 40 % 2
    labels[: NEW_CLASSES[0]] = 0
    for label, first in enumerate(NEW_CLASSES[1:], 2):
        labels[(t >= first) & ((t - first) % 90 < 30)] = label
    return X, labels


def learner(task, delay=0):
    make = pronk.OnlineKernelRegressor if task == "numbers" else pronk.OnlineKernelClassifier
    return make(random_state=0, budget=24, experts="few", delay=delay)


@cache
def learners(task, delay):
    """Return a learner at each of the `PHASES`; they are not to be changed."""
    (X, y), model, start, found = stream(task), learner(task, delay), 0, {}
    for row in PHASES:
        model.partial_fit(X[start:row], y[start:row])
        found[row], start = copy.deepcopy(model), row
    return found


@pytest.mark.parametrize("delay", [0, 7])
def test_the_streams_reach_what_they_are_for(delay):
    for task in ("numbers", "labels"):
        assert learners(task, delay)[1250]._model.trial is not None
    for task in ("numbers", "runs"):  # past targets are read
        assert learners(task, delay)[660]._model.experts.far is not None
    if not delay:
        experts = learners("runs", delay)[2100]._model.experts
        assert experts.local is not None
        assert experts.far.forest is not None
    for task in ("labels", "runs"):
        found = [len(model.classes_) for model in learners(task, delay).values()]
        assert found == [1, 1, 2, 2, 2, 3, 3, 3, 4]


def learned(model, rows, X, y):
    """Return what a learner predicts of rows in three calls."""
    edges = [*range(rows.start, rows.start + 2), rows.start + 40, rows.stop]
    options = {} if hasattr(model, "predict_interval") else {"output": "probability"}
    parts = [model.predict_then_learn(X[i:j], y[i:j], **options) for i, j in pairwise(edges)]
    return [np.asarray(part).tobytes() for part in parts]


@pytest.mark.thinned
@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("row", PHASES)
@pytest.mark.parametrize("task", TASKS)
def test_a_saved_learner_continues_to_the_same_bits(task, row, delay):
    """Also when a new class comes after it was loaded, and it is then saved again."""
    model, (X, y) = copy.deepcopy(learners(task, delay)[row]), stream(task)
    loaded = files.from_bytes(files.to_bytes(model), "a model")
    assert state_of(loaded) == state_of(model)
    y = y.copy()
    if task != "numbers":
        y[row + 20 : row + 30] = 9
    rows = slice(row, row + LENGTH)
    assert learned(loaded, rows, X, y) == learned(model, rows, X, y)
    again = files.from_bytes(files.to_bytes(loaded), "a model")
    assert state_of(again) == state_of(model)


# -- the parts of one call ----------------------------------------------------------------------


def weighted(model, X, y, rng):
    """Learn a call whose parts are separated by rows of weight 0."""
    weights = np.ones(len(y))
    weights[[1, 3, 4, len(y) // 2, len(y) - 2]] = 0.0
    model.predict_then_learn(X, y, sample_weight=weights)


def single_rows(model, X, y, rng):
    """Learn a call of parts of one to three rows."""
    weights = np.ones(len(y))
    weights[np.cumsum(rng.integers(2, 5, len(y) // 4))] = 0.0
    model.predict_then_learn(X, y, sample_weight=weights)


def sparse(model, X, y, rng):
    """Learn a sparse matrix, of which one row at a time is made dense (`short_blocks`)."""
    model.predict_then_learn(csr_array(X[:6]), y[:6])


WAYS = {"weighted": (weighted, 4), "single rows": (single_rows, 6), "sparse": (sparse, 6)}


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr(inputs.dense_blocks, "__defaults__", (1,))


class Stop(Exception):
    """Raised after a part of a call."""


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.thinned
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("row", PHASES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("delay", [0, 7])
def test_a_call_of_several_parts_is_undone_after_each_of_them(monkeypatch, task, row, way, delay):
    model, (X, y) = learners(task, delay)[row], stream(task)
    call, most = WAYS[way]
    rows, before = slice(row, row + LENGTH), state_of(model)
    done = copy.deepcopy(model)
    call(done, X[rows], y[rows], np.random.default_rng(row))
    whole, learn, left = state_of(done), DefaultLearner.learn, []

    def stopped(self, *args, **options):
        result = learn(self, *args, **options)
        if left and left.pop() == 0:
            raise Stop
        return result

    monkeypatch.setattr(DefaultLearner, "learn", stopped)
    for part in range(most):
        left[:] = range(part + 1)
        with pytest.raises(Stop):
            call(model, X[rows], y[rows], np.random.default_rng(row))
        assert state_of(model) == before, part
    left.clear()
    files.from_bytes(files.to_bytes(model), "a model")
    model = copy.deepcopy(model)
    call(model, X[rows], y[rows], np.random.default_rng(row))
    assert state_of(model) == whole


@pytest.mark.parametrize("rows", [60, 2100])
def test_a_refused_call_with_missing_labels_changes_nothing(rows):
    """The first part is one row, the last part has a target that is too large."""
    X, y = stream("numbers")
    model = pronk.Prepared(learner("numbers")).fit(X[:rows], y[:rows])
    twin, targets = copy.deepcopy(model), y[rows : rows + 304].copy()
    targets[[1, -2]], targets[-1] = np.nan, 1e300
    with pytest.raises(ValueError, match=r"1e\+300"):
        model.partial_fit(X[rows : rows + 304], targets)
    assert state_of(model) == state_of(twin)
    later = slice(rows, rows + 100)
    assert np.array_equal(
        model.predict_then_learn(X[later], y[later]), twin.predict_then_learn(X[later], y[later])
    )


def test_a_swap_that_is_undone_gives_the_memory_back():
    """A challenger may use half of the memory until it replaces the incumbent."""
    X, y = stream("numbers")
    model = learner("numbers").partial_fit(X[:1100], y[:1100])
    memory = model._model.trial.challenger.memory
    y = np.append(y[1100:2650], 1e300)
    weights = np.ones(len(y))
    weights[-2] = 0.0
    before = state_of(model)
    with pytest.raises(ValueError, match=r"1e\+300"):
        model.partial_fit(X[1100 : 1100 + len(y)], y, sample_weight=weights)
    assert model._model.trial.challenger.memory == memory < model._model.incumbent.memory
    assert state_of(model) == before


@pytest.mark.parametrize(("labels", "row", "delay"), [((0, 1), 100, 0), ((1, 3), 300, 3)])
def test_classes_that_come_later_change_no_bit_of_the_rows_before(labels, row, delay):
    """A call that brings a class, and one that does not know it yet, learn the same."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(620, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=620), [-1, 0, 1])
    y[:row] = np.array(labels)[y[:row] % 2]
    whole = pronk.OnlineKernelClassifier(random_state=3, delay=delay).partial_fit(X[:600], y[:600])
    for cuts in ((0, row, 600), (0, 1, row + 1, row + 20, 600), (0, 5, row - 2, 600)):
        cut = pronk.OnlineKernelClassifier(random_state=3, delay=delay)
        for start, stop in pairwise(cuts):
            cut.partial_fit(X[start:stop], y[start:stop])
        np.testing.assert_equal(cut._model.to_state(), whole._model.to_state())
        assert np.array_equal(cut.predict_proba(X[600:]), whole.predict_proba(X[600:]))
