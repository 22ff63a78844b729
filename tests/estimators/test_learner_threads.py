"""One learner in several threads, and several learners at once."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pronk

rng = np.random.default_rng(0)
X = rng.uniform(-1.5, 1.5, size=(1200, 3))
y = np.sin(2.0 * X[:, 0]) + X[:, 1]
NAMES = ["online-kernel", "pkawv-nystrom", "fogd", "ogd", "dual-svrg-c", "kernel-awv", "con-kons"]
PARTS = [slice(i, i + 50) for i in range(0, 1200, 50)]


@pytest.fixture(autouse=True)
def _many_switches():
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def make(name):
    params = {"history": "projected", "budget": 20} if name == "pkawv-nystrom" else {}
    return pronk.make(name, "regression", random_state=3, **params)


def learned(name):
    learner = make(name)
    return np.concatenate([learner.predict_then_learn(X[p], y[p]) for p in PARTS])


def test_different_learners_in_different_threads_do_not_meet():
    """BLAS and compiled loops run at the same time: some release Python's lock."""
    expected = [learned(name) for name in NAMES]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(learned, NAMES * 2))
    for i, predictions in enumerate(found):
        np.testing.assert_array_equal(predictions, expected[i % len(NAMES)])


@pytest.mark.parametrize("name", NAMES)
def test_threads_that_learn_wait_for_each_other(name):
    """Each call is whole: the state is that of the calls in the order in which they came."""
    learner = make(name).partial_fit(X[:50], y[:50])
    same = slice(50, 60)  # equal calls, so that their order does not matter

    def learn(_):
        return learner.predict_then_learn(X[same], y[same])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(learn, range(12)))
    twin = make(name).partial_fit(X[:50], y[:50])
    expected = [twin.predict_then_learn(X[same], y[same]) for _ in range(12)]
    assert learner.n_seen_ == twin.n_seen_ == 170
    np.testing.assert_array_equal(sorted(map(tuple, found)), sorted(map(tuple, expected)))
    np.testing.assert_array_equal(learner.predict(X[:20]), twin.predict(X[:20]))


@pytest.mark.parametrize("name", NAMES)
def test_predictions_meanwhile_are_those_between_two_calls(name):
    twin, answers = make(name), set()
    for part in PARTS[:8]:
        twin.partial_fit(X[part], y[part])
        answers.add(twin.predict(X[:5]).tobytes())
    learner = make(name).partial_fit(X[PARTS[0]], y[PARTS[0]])

    def learn():
        for part in PARTS[1:8]:
            learner.partial_fit(X[part], y[part])

    with ThreadPoolExecutor(3) as pool:
        done = pool.submit(learn)
        while not done.done():
            for answer in pool.map(lambda _: learner.predict(X[:5]).tobytes(), range(2)):
                assert answer in answers
        done.result()


def test_the_lock_is_neither_copied_nor_pickled():
    learner = make("fogd").partial_fit(X[:50], y[:50])
    for other in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert "_lock" not in other.__dict__
        np.testing.assert_array_equal(other.predict(X), learner.predict(X))


def test_intervals_are_those_of_their_own_call():
    """One row a call: the widths are read before another thread learns."""
    learner = make("online-kernel").partial_fit(X[:50], y[:50])

    def learn(_):
        P, ends = learner.predict_then_learn(X[50:51], y[50:51], interval=0.9)
        return P[0], *ends[0]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(learn, range(400)))
    twin = make("online-kernel").partial_fit(X[:50], y[:50])
    expected = []
    for _ in range(400):
        P, ends = twin.predict_then_learn(X[50:51], y[50:51], interval=0.9)
        expected.append((P[0], *ends[0]))
    assert sorted(found) == sorted(expected)
