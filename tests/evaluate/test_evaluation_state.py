"""The state of an evaluation is restored from a snapshot bit for bit, or one error is raised.

Every entry of the state is removed, replaced by things of other kinds, cut, or moved out of range.
What is taken must go on without any other error.
"""

import copy

import numpy as np
import pytest

import pronk
from pronk.core.state import StateError
from pronk.evaluate import Evaluation
from pronk.evaluate.metrics import ALL

ROWS = 150


def rows(task, seed=0, n=ROWS):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.sin(3 * X[:, 0])
    return X, (np.where(y > 0, "up", "down") if task == "classification" else y)


def evaluation(task, model=None):
    shares = task == "classification"
    options = {"n_features": 10, "random_state": 0, **({"loss": "logistic"} if shares else {})}
    model = pronk.make("fogd", task, **options) if model is None else model
    return Evaluation(
        model, ALL[task], 40, window=50, delay=3, predictions=True, probabilities=shares
    )


@pytest.fixture(
    params=[pytest.param("regression", marks=pytest.mark.matrix), "classification"], scope="module"
)
def held(request):
    """A task, a model that learned some rows, and the state of its evaluation."""
    whole = evaluation(request.param)
    whole.feed(*rows(request.param))
    whole.record()
    return request.param, whole.model, whole.to_state()


def leaves(tree, path=()):
    yield path
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(entries)[:4] if isinstance(tree, list) else entries:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def changes(value):
    """Other things in the place of one."""
    yield from ("text", None, -1, 2**70, 0.5, [], {}, True, [[1]], np.zeros((2, 2)), np.zeros(3))
    if isinstance(value, np.ndarray) and value.ndim:
        yield from (value[:-1], value[::-1].copy(), value.astype(np.float32), -value - 1)
    if isinstance(value, int | float):
        yield from (value + 1, 1000 * value)
    if isinstance(value, list):
        yield from (value[:-1], [*value, *value])


def changed(state, path, value, remove=False):
    tree = copy.deepcopy(state)
    place = tree
    for key in path[:-1]:
        place = place[key]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return tree


def found(state, path):
    for key in path:
        state = state[key]
    return state


def test_it_resumes_bit_for_bit(held):
    task, model, state = held
    whole, other = (evaluation(task, copy.deepcopy(model)) for _ in range(2))
    for one, given in ((whole, state), (other, copy.deepcopy(state))):
        one.restore(given)
        one.feed(*rows(task, 1))
    one, two = whole.record(), other.record()
    assert one.metrics == two.metrics and one.windowed == two.windowed
    assert one.rows == 2 * ROWS - 3


def test_any_change_is_refused_or_works(held):
    task, model, state = held
    refused = worked = 0
    more = rows(task, 1, 45)
    for path in leaves(state):
        if not path:
            continue
        value = found(state, path)
        trees = [changed(state, path, new) for new in changes(value)]
        for tree in [*trees, changed(state, path, None, remove=True)]:
            other = evaluation(task, model)
            try:
                other.restore(tree)
            except StateError:
                refused += 1
                continue
            worked += 1
            with np.errstate(all="ignore"):
                other.trace and other.trace.add(*_scored(other, more), 0)
                other.record()
    assert refused > 20 * worked > 0 or refused > 500, (refused, worked)


def _scored(other, more):
    X, y = more
    forecast = other._adapter.predict(X)
    other._scores.add(y, forecast)
    return y, forecast
