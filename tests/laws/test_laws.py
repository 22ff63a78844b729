"""Laws that hold for every learner, whatever it computes."""

import copy
import functools
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import pronk
from laws.cases import (
    BY_ID,
    every,
    every_engine,
    every_two_classes,
    needs_a_formula,
    serves_its_own_row,
)
from pronk.aggregate import experts
from pronk.core import scales
from pronk.data.step import CACHE
from pronk.first_order import dual_sgd, dual_svrg, gradient
from pronk.newton import exact, krls, spaces


def state_of(learner):
    """Return everything a learner holds, as bytes."""
    learner = copy.deepcopy(learner)
    return pickle.dumps(learner._fitted_state() if hasattr(learner, "_model") else learner.__dict__)


def decisions(learner, X, y):
    """Return the real-valued predictions of one call."""
    if hasattr(learner, "decision_function"):
        return learner.predict_then_learn(X, y, output="decision")
    return learner.predict_then_learn(X, y)


def current(learner, X):
    if hasattr(learner, "decision_function"):
        return learner.decision_function(X)
    return learner.predict(X)


@functools.cache
def in_one_call(name):
    """Return a learner that has learned the stream of a case in one call, and its answers."""
    case = BY_ID[name]
    X, y = case.stream()
    whole = case.make()
    labels = whole.predict_then_learn(X, y)
    return whole, labels, current(whole, X)


def check_cut(case, edges):
    """Check calls that end at the given rows against one call."""
    X, y = case.stream()
    cut, (whole, labels, last) = case.make(), in_one_call(case.id)
    parts = [cut.predict_then_learn(X[i:j], y[i:j]) for i, j in pairwise(edges)]
    if case.task == "regression":
        np.testing.assert_allclose(np.concatenate(parts), labels, rtol=0, atol=1e-8)
    else:
        assert np.array_equal(np.concatenate(parts), labels)
    np.testing.assert_allclose(current(cut, X), last, rtol=0, atol=1e-8)
    assert cut.n_seen_ == whole.n_seen_ == len(X)
    assert cut.size_ == whole.size_
    if whole.size_:
        assert np.array_equal(cut.dictionary_, whole.dictionary_)


@every_engine
@settings(deadline=None, max_examples=6)
@given(cuts=st.lists(st.integers(1, 149), max_size=7, unique=True).map(sorted))
def test_cutting_the_stream_changes_nothing(case, cuts):
    check_cut(case, [0, *cuts, 150])


@every
def test_one_row_at_a_time_is_the_same_too(case):
    check_cut(case, range(151))


#: Row numbers at which something changes for some learner: open blocks are closed (of r <= 16, of
#: online Newton steps, of larger r), chunks of features and points end, lazy scalars are folded in,
#: epochs of the default learner end, the sample of its scaler is thinned.
CHANGES = sorted(
    {
        40,
        48,
        96,
        exact.BLOCK,
        exact.KONS_BLOCK,
        spaces.CHUNK,
        krls.CHUNK,
        gradient.CHUNK,
        dual_sgd.CHUNK,
    }
    | {experts.EPOCH, scales.HELD, 2 * scales.HELD, dual_svrg.CHUNK}
)


@every
def test_every_row_at_which_something_changes(case):
    """One call against calls that end before, at and after each change, and a copy made there."""
    # The last two changes are those of the default learner.
    X, y = case.stream(CHANGES[-1] + 60 if case.algorithm == "online-kernel" else 350)
    changes = [row for row in CHANGES if row < len(X) - 1]
    edges = sorted({row + step for row in changes for step in (-1, 0, 1)} | {0, len(X)})
    whole, cut = case.make(), case.make()
    expected = decisions(whole, X, y)
    parts = []
    for i, j in pairwise(edges):
        if i in (spaces.CHUNK, scales.HELD):
            cut = pickle.loads(pickle.dumps(cut))
        parts.append(decisions(cut, X[i:j], y[i:j]))
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(current(cut, X), current(whole, X), rtol=0, atol=1e-7)
    assert cut.size_ == whole.size_
    if whole.size_:
        assert np.array_equal(cut.dictionary_, whole.dictionary_)


@every
def test_it_learns(case):
    """Better than the running mean or the commonest label, on the second half."""
    X, y = case.stream(600)
    predictions = case.make().predict_then_learn(X, y)[300:]
    if case.task == "regression":
        assert np.mean((predictions - y[300:]) ** 2) < 0.8 * np.var(y[300:])
    else:
        commonest = max(np.mean(y[300:] == label) for label in np.unique(y))
        assert np.mean(predictions == y[300:]) > commonest + 0.1


@every_engine
def test_predicting_changes_nothing_and_rows_are_independent(case):
    X, y = case.stream()
    learner = case.make().partial_fit(X, y)
    before = state_of(learner)
    first = learner.predict(X)
    assert np.array_equal(learner.predict(X), first)
    order = np.random.default_rng(0).permutation(len(X))
    margins = current(learner, X)
    np.testing.assert_allclose(current(learner, X[order]), margins[order], rtol=0, atol=1e-12)
    assert state_of(learner) == before


@every
def test_predict_is_the_prediction_of_the_next_row(case):
    """Where the row itself cannot enter the dictionary before it is predicted."""
    X, y = case.stream()
    learner = case.make().partial_fit(X[:100], y[:100])
    same = 0
    for i in range(100, 120):
        expected = current(learner, X[i : i + 1])
        size = learner.size_
        got = decisions(learner, X[i : i + 1], y[i : i + 1])
        if learner.size_ == size or not serves_its_own_row(learner):
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)
            same += 1
    assert same > 0


@every_engine
def test_a_seed_decides_everything(case):
    X, y = case.stream()
    one, two = case.make(), case.make()
    assert np.array_equal(one.predict_then_learn(X, y), two.predict_then_learn(X, y))
    assert state_of(one) == state_of(two)
    generator = case.make(random_state=np.random.default_rng(1)).partial_fit(X, y)
    again = case.make(random_state=np.random.default_rng(1)).partial_fit(X, y)
    assert np.array_equal(generator.predict(X), again.predict(X))
    first, second = (
        case.make(random_state=np.random.RandomState(1)).partial_fit(X, y) for _ in range(2)
    )
    assert np.array_equal(first.predict(X), second.predict(X))


@every_engine
def test_clones_share_nothing_and_fit_forgets(case):
    X, y = case.stream()
    learner = case.make().partial_fit(X, y)
    before = state_of(learner)
    other = clone(learner)
    assert not hasattr(other, "n_seen_")
    other.partial_fit(X[:50], y[:50])
    assert state_of(learner) == before
    refitted = learner.fit(X[:50], y[:50])
    assert refitted is learner
    assert state_of(learner) == state_of(other)


@every_engine
@pytest.mark.parametrize("way", ["save", "pickle", "deepcopy"])
def test_saving_and_resuming_changes_no_bit(case, way, tmp_path):
    """To the last bit, also in the middle of a block."""
    X, y = case.stream()
    learner = case.make().partial_fit(X[:77], y[:77])
    if way == "save":
        learner.save(tmp_path / "model.pronk")
        other = pronk.load(tmp_path / "model.pronk")
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(learner))
    else:
        other = copy.deepcopy(learner)
    assert type(other) is type(learner)
    assert str(other.get_params()) == str(learner.get_params())
    for i, j in [(77, 78), (78, 150)]:
        expected = decisions(learner, X[i:j], y[i:j])
        assert np.array_equal(decisions(other, X[i:j], y[i:j]), expected)
    assert np.array_equal(other.predict(X), learner.predict(X))
    assert other.n_seen_ == learner.n_seen_


def refused_calls(case, X, y):
    """(what is wrong, rows, targets, a word of the error)."""
    bad_sign, bad_inf, huge = X.copy(), X.copy(), X.copy()
    bad_sign[7, 1], bad_inf[3, 0], huge[5, 1] = np.inf, -np.inf, 1e200
    yield "inf", bad_sign, y, "row 7"
    yield "infinity", bad_inf, y, "row 3"
    yield "overflow", huge, y, "row 5"
    yield "columns", X[:, :1], y, "features"
    yield "length", X, y[:-1], "rows"
    yield "one dimension", X[:, 0], y, "2D"
    yield "text", np.full(X.shape, "a"), y, "not a number"
    yield "no y", X, None, "y"
    if case.task == "regression":
        endless = y.copy()
        endless[9] = np.inf
        yield "endless target", X, endless, "row 9"
        yield "text target", X, np.full(len(X), "a"), "y|float"
        yield "three dimensions", X, y.reshape(-1, 1, 1), "y"
    else:
        yield "continuous label", X, np.linspace(0, 1, len(X)), "label"
        yield "two columns", X, np.column_stack((y, y)), "y"


@every_engine
def test_steps_with_bytes_are_one_model_that_never_stopped(case):
    """With the live model of the last step, and with one from the bytes."""
    X, y = case.stream()
    model, states = case.make(), [None, None]
    for cut in (slice(0, 1), slice(1, 40), slice(40, 41), slice(41, 100), slice(100, 150)):
        expected = model.predict_then_learn(X[cut], y[cut])
        for cached in (True, False):
            if not cached:
                CACHE.clear()
            states[cached], found = pronk.step(states[cached], X[cut], y[cut], new=case.make())
            np.testing.assert_array_equal(found, expected)
    assert states[0] == states[1] == pronk.dumps(model)


@every_engine
def test_refused_input_leaves_the_state_as_it_was(case):
    X, y = case.stream(40)
    learner = case.make()
    for started in (False, True):
        if started:
            learner.partial_fit(X, y)
        before = state_of(learner)
        for what, rows, targets, word in refused_calls(case, X, y):
            if what in ("columns", "text") and not started:
                continue  # the first call says how many there are, and of what kind
            with pytest.raises(ValueError, match=word):
                learner.predict_then_learn(rows, targets)
            assert state_of(learner) == before, what
    with pytest.raises(ValueError, match="row 7"):
        learner.predict(next(iter(refused_calls(case, X, y)))[1])


@every_engine
def test_an_empty_batch_has_an_empty_answer_and_changes_nothing(case):
    X, y = case.stream(40)
    learner = case.make()
    for started in (False, True):
        if started:
            learner.partial_fit(X, y)
        before = state_of(learner)
        assert learner.predict_then_learn(X[:0], y[:0]).shape == y[:0].shape
        learner.partial_fit(X[:0], y[:0])
        with pytest.raises(ValueError, match="0 rows"):
            learner.fit(X[:0], y[:0])
        with pytest.raises(ValueError, match="y has 1 rows but X has 0"):
            learner.partial_fit(X[:0], y[:1])
        assert state_of(learner) == before
    assert learner.predict(X[:0]).shape == y[:0].shape
    for name in ("decision_function", "predict_proba", "predict_interval"):
        if hasattr(learner, name):
            full, empty = (getattr(learner, name)(rows) for rows in (X[:1], X[:0]))
            assert empty.shape == (0, *full.shape[1:])


@every_engine
def test_a_kernel_that_raises_leaves_the_state_as_it_was(case):
    X, y = case.stream(60)
    if needs_a_formula(case.make()):  # then it is refused, not ignored
        with pytest.raises(ValueError, match=r"kernel|gaussian"):
            case.make(kernel=lambda A, B: A @ B.T).partial_fit(X, y)
        return
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        if (A == 99.0).any() or (B == 99.0).any():
            raise RuntimeError("stop")
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(2))

    learner = case.make(kernel=kernel).partial_fit(X, y)
    before = state_of(learner)
    spoiled = X.copy()
    spoiled[50] = 99.0
    with pytest.raises(RuntimeError, match="stop"):
        learner.predict_then_learn(spoiled, y)
    assert state_of(learner) == before
    assert calls


@every_two_classes
def test_bounded_learners_stay_bounded(case):
    if not case.bounded:
        pytest.skip("holds all rows, or a dictionary without a budget")
    X, y = case.stream(3072, seed=1)
    learner = case.make()
    local = "memory_limit" in learner.get_params()
    if local:  # the fewest leaves; they are made at row 2048
        learner.set_params(memory_limit=1)
    budget, sizes = learner.__dict__.get("budget"), []
    # At the ends of blocks and epochs; budgets are full before.
    step = 512 if local else 500 if budget is None else 250
    for i in range(0, 6 * step, step):
        learner.partial_fit(X[i : i + step], y[i : i + step])
        sizes.append(len(state_of(learner)))
    if budget is not None and case.classes == 2:
        assert learner.size_ <= budget
    # Open blocks and lazily kept rows come and go; growth would be a factor of 6 here.
    assert sizes[-1] <= (1.1 * sizes[-2] if local else 1.5 * sizes[1])


@every
def test_merged_learners_are_one_pass_or_are_refused(case):
    X, y = case.stream()
    one, two, whole = (case.make() for _ in range(3))
    one.partial_fit(X[:77], y[:77])
    two.partial_fit(X[77:], y[77:])
    before = state_of(one), state_of(two)
    if one._why_not_merged() is not None:
        with pytest.raises(ValueError, match="cannot be merged"):
            pronk.merge(one, two)
    else:
        whole.partial_fit(X, y)
        for merged in (pronk.merge(one, two), pronk.merge(two, one)):
            np.testing.assert_allclose(current(merged, X), current(whole, X), rtol=0, atol=1e-8)
            assert merged.n_seen_ == whole.n_seen_
    assert (state_of(one), state_of(two)) == before
