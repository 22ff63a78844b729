"""The default learner row by row: the same as in blocks, with predictions in between."""

import copy

import numpy as np
import pytest

import pronk
from laws.interrupts import Lines, state_of

RNG = np.random.default_rng(3)
X = RNG.normal(size=(700, 3))
X[:, 2] = np.round(X[:, 2])
SIGNAL = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=700)
TARGETS = {
    "number": SIGNAL,
    "numbers": np.column_stack((SIGNAL, SIGNAL**2)),
    "label": np.where(SIGNAL > 0, "up", "down"),
    "labels": np.digitize(SIGNAL, [-1, 0, 1]),
}


def learner_of(kind, rows, **options):
    numbers = kind.startswith("number")
    make = pronk.OnlineKernelRegressor if numbers else pronk.OnlineKernelClassifier
    return make(random_state=0, **{"budget": 40, **options}).partial_fit(
        X[:rows], TARGETS[kind][:rows]
    )


def rows_of(learner, kind, start, stop):
    """Row by row, with predictions of this row and of others in between."""
    y, made = TARGETS[kind], []
    for i in range(start, stop):
        if i % 2:
            expected = learner.predict(X[i : i + 1])
        if i % 3 == 0:
            learner.predict(X[i - 1 : i])
        if i % 7 == 0:
            learner.predict(X[i - 7 : i])
        made.append(learner.predict_then_learn(X[i : i + 1], y[i : i + 1]))
        if i % 2:
            assert np.array_equal(made[-1], expected)
    return np.concatenate(made)


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize(("start", "stop"), [(8, 60), (470, 560)])
def test_row_by_row_is_the_block(kind, start, stop):
    one = learner_of(kind, start)
    block = copy.deepcopy(one)
    made = rows_of(one, kind, start, stop)
    expected = block.predict_then_learn(X[start:stop], TARGETS[kind][start:stop])
    assert np.array_equal(made, expected)
    assert state_of(one) == state_of(block)
    assert pronk.dumps(one) == pronk.dumps(block)
    assert np.array_equal(one.dictionary_, block.dictionary_)


@pytest.mark.parametrize("kernel", ["matern", "linear", lambda A, B: (1.0 + A @ B.T) ** 2])
def test_row_by_row_with_other_kernels(kernel):
    one = learner_of("number", 100, kernel=kernel)
    block = copy.deepcopy(one)
    made = rows_of(one, "number", 100, 140)
    expected = block.predict_then_learn(X[100:140], SIGNAL[100:140])
    assert np.array_equal(made, expected)


@pytest.mark.parametrize("kind", ["number", "labels"])
@pytest.mark.parametrize("moment", ["simple", "stage", "block"])
def test_one_row_that_is_stopped_is_rolled_back(kind, moment):
    """At some lines of a row within a block, of the last row of a stage and of a block."""
    start = {"simple": 530, "stage": 31, "block": 575}[moment]
    learner, y = learner_of(kind, start), TARGETS[kind]
    stopped_at_some_lines(learner, X[start : start + 4], y[start : start + 4])


def test_one_row_that_splits_a_leaf_is_rolled_back():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(2500, 3))
    y, start = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2], 2060
    learner = pronk.OnlineKernelRegressor(random_state=0, budget=40)
    learner.partial_fit(rows[:start], y[:start])
    while True:
        ahead = copy.deepcopy(learner).partial_fit(rows[start : start + 1], y[start : start + 1])
        if leaves_of(ahead) > leaves_of(learner):
            break
        learner.partial_fit(rows[start : start + 1], y[start : start + 1])
        start += 1
    stopped_at_some_lines(learner, rows[start : start + 4], y[start : start + 4])


def leaves_of(learner):
    return sum(learner._model.experts.local.forest.leaves)


def test_one_row_of_the_second_head_is_rolled_back():
    """At every eighth row it learns, and its forest learns the eight rows before."""
    rng = np.random.default_rng(6)
    rows, hidden = rng.uniform(-1, 1, (2120, 2)), np.zeros(2120)
    for t in range(1, 2120):
        hidden[t] = 0.98 * hidden[t - 1] + 0.2 * rng.normal()
    y = np.sin(3 * rows[:, 0]) + hidden
    learner = pronk.OnlineKernelRegressor(random_state=0, budget=40)
    learner.partial_fit(rows[:2064], y[:2064])
    experts = learner._model.experts
    assert experts.far.forest is not None
    learner.predict_then_learn(rows[2064:2065], y[2064:2065])
    stopped_at_some_lines(learner, rows[2065:2069], y[2065:2069])
    learner.partial_fit(rows[2065:2072], y[2065:2072])
    stopped_at_some_lines(learner, rows[2072:2076], y[2072:2076])


def stopped_at_some_lines(learner, rows, y):
    """Stop the call with the first row at some lines; return a learner of all rows.

    Most changes are made by the last tenth of the lines.
    """
    seen, done, before = learner.n_seen_, copy.deepcopy(learner), state_of(learner)
    lines = Lines()
    lines.run(lambda: done.predict_then_learn(rows[:1], y[:1]))
    after = state_of(done)
    later = done.predict_then_learn(rows[1:], y[1:])
    rng, late = np.random.default_rng(seen), 9 * lines.count // 10
    for at in [*rng.integers(1, late, 8), *rng.integers(late, lines.count + 1, 6)]:
        stopped = copy.deepcopy(learner)
        Lines(int(at)).run(lambda stopped=stopped: stopped.predict_then_learn(rows[:1], y[:1]))
        learned = stopped.n_seen_ == seen + 1
        assert state_of(stopped) == (after if learned else before), at
        if not learned:
            stopped.predict_then_learn(rows[:1], y[:1])
        assert np.array_equal(stopped.predict_then_learn(rows[1:], y[1:]), later), at
    return done
