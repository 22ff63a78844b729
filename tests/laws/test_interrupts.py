"""Ctrl-C, MemoryError and other errors in the middle of a call, for every learner."""

import signal

import numpy as np
import pytest

import pronk
from laws.cases import CASES, every_engine
from laws.interrupts import attempt


@every_engine
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_call_that_is_stopped_is_rolled_back(case, error):
    """At a random line; an error after the last row may leave the rows learned."""
    seed = sum(case.id.encode())
    rng = np.random.default_rng([seed, error is MemoryError])
    assert attempt(case, rng, error) in ("before", "after")


def test_a_fit_that_is_stopped_leaves_the_old_model():
    case = CASES[0]
    X, y = case.stream(80)
    learner = case.make().fit(X, y)
    expected = learner.predict(X)

    def kernel(A, B):
        raise MemoryError

    learner.set_params(kernel=kernel)
    with pytest.raises(MemoryError):
        learner.fit(X, y)
    assert np.array_equal(learner.predict(X), expected)
    assert learner.n_seen_ == 80


def test_a_signal_in_the_middle_is_rolled_back_and_the_rows_can_be_given_again():
    X = np.random.default_rng(0).normal(size=(900, 3))
    y = np.sin(X[:, 0])
    left = []

    def kernel(A, B):
        if left and left.pop() == 1:
            signal.raise_signal(signal.SIGINT)
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(2))

    learner, twin = (pronk.PKAWVRegressor(kernel, budget=30, random_state=0) for _ in range(2))
    learner.partial_fit(X[:100], y[:100])
    expected = learner.predict(X[:50])
    left.extend(range(1, 3))  # the second call
    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(X[100:], y[100:])
    assert not left
    assert learner.n_seen_ == 100
    assert np.array_equal(learner.predict(X[:50]), expected)
    twin.partial_fit(X[:100], y[:100])
    assert np.array_equal(
        learner.predict_then_learn(X[100:], y[100:]), twin.predict_then_learn(X[100:], y[100:])
    )
