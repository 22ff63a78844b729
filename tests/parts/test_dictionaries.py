"""KORS row by row against its definition; the other dictionaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from naive.kernels import gaussian
from naive.kors import kors
from naive.randomness import stream as numbered
from pronk.parts.dictionaries import KORS, FirstRows, UniformRows
from pronk.parts.kernels import Gaussian
from pronk.parts.randomness import FirstSeed, Uniforms, generator, make_seed


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
)
def test_kors_accepts_what_its_definition_accepts(cuts, gamma, beta, budget):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 2))
    X[60:70] = X[:10]  # exact duplicates may enter too
    uniforms = numbered(11, 0).random(120)
    flags, p, _ = kors(X, lambda A, B: gaussian(A, B, 0.8), gamma, 0.5, beta, uniforms, budget)
    fast = KORS(Gaussian(0.8), 2, gamma, 0.5, beta, seed=11, budget=budget)
    accepted = scan_all(fast, X, cuts)
    assert accepted == list(np.flatnonzero(flags))
    assert np.allclose(fast.probabilities, np.asarray(p)[accepted], rtol=1e-9)
    assert np.array_equal(fast.points, X[accepted])


def test_kors_scores_without_changing():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 3))
    fast = KORS(Gaussian(1.0), 3, 0.5, 0.5, 1.0, seed=1)
    scan_all(fast, X, [20])
    before = fast.points.copy()
    scores = fast.score(X)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert np.array_equal(fast.points, before)
    assert fast.score(X + 100.0) == pytest.approx(np.full(50, 1.0))


def test_first_and_uniform_rows():
    X = np.random.default_rng(7).normal(size=(300, 2))
    assert scan_all(FirstRows(Gaussian(), 2, budget=7), X, [3, 5, 100]) == list(range(7))
    uniform = UniformRows(Gaussian(), 2, rate=0.2, seed=3, budget=20)
    expected = np.flatnonzero(numbered(3, 0).random(300) < 0.2)[:20]
    assert scan_all(uniform, X, [1, 150]) == list(expected)


def test_a_seed_of_format_1_keeps_its_rule():
    assert np.array_equal(generator(FirstSeed(5), 3).random(4), default_rng([5, 3]).random(4))


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_no_stream_is_what_a_user_draws_from_the_seed(seed):
    users = {float(default_rng(key).random()) for key in (seed, *([seed, k] for k in range(5)))}
    assert not users & {float(generator(seed, k).random()) for k in range(5)}


def test_uniforms_resume_where_they_were():
    whole = numbered(5, 3).random(100)
    drawn = Uniforms(5, 3)
    assert np.array_equal(drawn.take(37), whole[:37])
    again = Uniforms.from_state(drawn.to_state())
    assert np.array_equal(again.take(63), whole[37:])
    assert make_seed(np.int64(4)) == 4
    assert make_seed(np.random.default_rng(0)) == make_seed(np.random.default_rng(0))
