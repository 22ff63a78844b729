"""Every rule row by row against its definition, in any cut."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

import pronk
from naive.kernels import gaussian
from naive.kors import ald, kors
from naive.randomness import stream as numbered
from pronk.core.dictionary import ALD, KORS, RULES, Dictionary, FirstRows, Rule, UniformRows
from pronk.core.kernels import Gaussian
from pronk.core.randomness import Uniforms, generator, make_seed
from pronk.regret import bound_for, regret_against_best


def scan_all(dictionary, X, cuts):
    """Accepted row numbers of the whole stream; checks the kernel columns on the way."""
    accepted, start = [], 0
    for stop in [*cuts, len(X)]:
        block = X[start:stop]
        K = dictionary.kernel(block, dictionary.points)
        rows, K = dictionary.scan(block, K)
        full = dictionary.kernel(block, dictionary.points)
        known = full.shape[1] - len(rows)
        for i, row in enumerate(rows):
            assert np.array_equal(K[row:, known + i], full[row:, known + i])
        accepted += [start + row for row in rows]
        start = stop
    return accepted


@settings(deadline=None, max_examples=12)
@given(
    cuts=st.lists(st.integers(1, 119), max_size=6).map(sorted),
    gamma=st.sampled_from([0.05, 1.0, 10.0]),
    beta=st.sampled_from([0.7, 1.0, 3.0]),
    budget=st.sampled_from([None, 1, 9]),
    power=st.sampled_from([0.5, 1.0]),
)
def test_kors_accepts_what_its_definition_accepts(cuts, gamma, beta, budget, power):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 2))
    X[60:70] = X[:10]  # exact duplicates may enter too
    uniforms = numbered(11, 0).random(120)
    kernel = partial(gaussian, bandwidth=0.8)
    flags, p, _ = kors(X, kernel, gamma, 0.5, beta, uniforms, budget, power)
    fast = Dictionary(Gaussian(0.8), 2, KORS(gamma, 0.5, beta, power), seed=11, budget=budget)
    accepted = scan_all(fast, X, cuts)
    assert accepted == list(np.flatnonzero(flags))
    np.testing.assert_allclose(fast.weights, np.asarray(p)[accepted] ** -power, rtol=1e-9, atol=0)
    assert np.array_equal(fast.points, X[accepted])


@settings(deadline=None, max_examples=12)
@given(
    cuts=st.lists(st.integers(1, 119), max_size=6).map(sorted),
    nu=st.sampled_from([0.0, 0.1, 0.7]),
    budget=st.sampled_from([None, 9]),
)
def test_ald_accepts_what_its_definition_accepts(cuts, nu, budget):
    X = np.random.default_rng(5).normal(size=(120, 2))
    X[60:70] = X[:10]  # copies never enter
    kernel = partial(gaussian, bandwidth=0.2)  # far enough from singular: no distance is rounding
    expected = ald(X, kernel, nu, budget)
    fast = Dictionary(Gaussian(0.2), 2, ALD(nu), budget=budget)
    assert scan_all(fast, X, cuts) == expected
    assert np.array_equal(fast.points, X[expected])


@pytest.mark.parametrize("cuts", [[], [3, 5, 100], [1, 150]])
def test_first_and_uniform_rows(cuts):
    X = np.random.default_rng(7).normal(size=(300, 2))
    first = Dictionary(Gaussian(), 2, FirstRows(), budget=7)
    assert scan_all(first, X, cuts) == list(range(7))
    uniform = Dictionary(Gaussian(), 2, UniformRows(0.2), seed=3, budget=20)
    expected = np.flatnonzero(numbered(3, 0).random(300) < 0.2)[:20]
    assert scan_all(uniform, X, cuts) == list(expected)


@pytest.mark.parametrize("name", RULES)
def test_a_dictionary_resumes_from_its_state(name):
    X = np.random.default_rng(8).normal(size=(200, 2))
    whole = Dictionary(Gaussian(), 2, RULES[name](), seed=3, budget=30)
    scan_all(whole, X, [])
    first, second = (Dictionary(Gaussian(), 2, RULES[name](), seed=3, budget=30) for _ in "ab")
    scan_all(first, X[:20], [])
    second.restore(first.to_state())
    scan_all(second, X[20:], [50])
    assert 0 < len(first.points) < len(whole.points)
    assert np.array_equal(second.points, whole.points)


def test_a_coin_is_drawn_also_when_the_budget_is_full():
    X = np.random.default_rng(9).normal(size=(40, 2))
    full = Dictionary(Gaussian(), 2, KORS(), seed=2, budget=1)
    scan_all(full, X, [7])
    assert full.to_state()["uniforms"]["count"] == 40


@dataclass(frozen=True)
class EveryThird(Rule):
    """A user's rule."""

    draws = True
    measures = False

    def accepts(self, rho, diagonal, uniforms):
        return uniforms < 1 / 3


def test_learners_take_a_rule_by_name_as_an_object_and_of_the_user(tmp_path):
    X = np.random.default_rng(1).uniform(-1, 1, (120, 2))
    y = X[:, 0]
    for cls, nu in ((pronk.PKAWVRegressor, 0.1), (pronk.ProsNKONSRegressor, 0.01)):
        rules = {"ald": ALD(nu), "uniform": UniformRows(), "kors": KORS(1.0, 0.5, 1.0)}
        for name, rule in rules.items():
            named = cls(dictionary=name, random_state=0)
            other = cls(dictionary=rule, random_state=0)
            assert np.array_equal(named.predict_then_learn(X, y), other.predict_then_learn(X, y))
            other.save(tmp_path / "model.pronk")
            loaded = pronk.load(tmp_path / "model.pronk")
            assert loaded.dictionary == rule
            assert np.array_equal(loaded.predict_then_learn(X, y), other.predict_then_learn(X, y))
        users = cls(dictionary=EveryThird(), random_state=3).fit(X, y)
        assert np.array_equal(users.dictionary_, X[numbered(3, 0).random(120) < 1 / 3])
        with pytest.raises(ValueError, match="a user's rule"):
            users.save(tmp_path / "other.pronk")
        with pytest.raises(ValueError, match="needs a budget"):
            cls(dictionary="first").fit(X, y)
        with pytest.raises(ValueError, match="dictionary"):
            cls(dictionary="second").fit(X, y)


@pytest.mark.parametrize("rule", ["ald", "uniform", KORS(power=1.0)])
def test_bounds_are_quoted_for_the_published_rule_only(rule):
    X = np.random.default_rng(1).uniform(-1, 1, (60, 2))
    y = X[:, 0]
    for make in (
        partial(pronk.PKAWVRegressor, history="exact"),
        partial(pronk.ProsNKONSRegressor, clip=1.0),
    ):
        for dictionary, known in ((rule, False), (None, True), (KORS(0.5), True)):
            learner = make(dictionary=dictionary, random_state=0)
            predictions = learner.predict_then_learn(X, y)
            best = regret_against_best(predictions, X, y).best.within(1.0)
            if known:
                assert bound_for(learner, X, y, best) > 0
            else:
                with pytest.raises(ValueError, match="theorems"):
                    bound_for(learner, X, y, best)


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_no_stream_is_what_a_user_draws_from_the_seed(seed):
    users = {float(default_rng(key).random()) for key in (seed, *([seed, k] for k in range(5)))}
    assert not users & {float(generator(seed, k).random()) for k in range(5)}


def test_uniforms_resume_where_they_were():
    whole = numbered(5, 3).random(100)
    drawn = Uniforms(5, 3)
    assert np.array_equal(drawn.draw(37), whole[:37])
    again = Uniforms(5, 3)
    again.restore(drawn.to_state())
    assert np.array_equal(again.draw(63), whole[37:])
    assert make_seed(np.int64(4)) == 4
    assert make_seed(np.random.default_rng(0)) == make_seed(np.random.default_rng(0))


@pytest.mark.parametrize(
    "rule, words",
    [
        (KORS(gamma=-1.0), "dictionary gamma must be a positive finite number, got -1.0"),
        (KORS(beta=np.inf), "dictionary beta must be"),
        (KORS(epsilon=1.0), r"dictionary epsilon must be in \[0, 1\), got 1.0"),
        (KORS(power=0.0), "dictionary power must be"),
        (KORS(gamma="one"), "dictionary gamma must be"),
        (ALD(nu=-0.1), "dictionary nu must be a finite number >= 0"),
        (UniformRows(rate=0.0), r"dictionary rate must be in \(0, 1\]"),
        (UniformRows(rate=1.5), "dictionary rate must be"),
        (FirstRows(), "dictionary='first' needs a budget"),
    ],
)
def test_a_rule_with_a_parameter_out_of_range_is_refused(rule, words):
    X = np.random.default_rng(0).normal(size=(20, 2))
    learner = pronk.PKAWVRegressor(dictionary=rule)
    with pytest.raises(ValueError, match=words):
        learner.partial_fit(X, X[:, 0])
    for good in (KORS(epsilon=0.0), ALD(nu=0.0), UniformRows(rate=1.0)):
        pronk.PKAWVRegressor(dictionary=good, random_state=0).partial_fit(X, X[:, 0])
