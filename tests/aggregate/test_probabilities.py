"""Class probabilities of the default learner: candidates, weights, rare and repeated labels."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose as close
from scipy.special import expit

from naive import default as naive
from pronk import OnlineKernelClassifier
from pronk.aggregate import probabilities
from pronk.aggregate.probabilities import Probabilities


def stream(n, classes, seed=0, late=0):
    """Return rows, margins and labels; the last class occurs from row ``late`` on."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 30.0, 1.0]
    X[:, 2] = rng.random(n) < 0.1
    X[n // 2] *= 1e6  # an outlier
    labels = (rng.integers(classes, size=n) + (X[:, 0] > 0)) % classes
    labels[:late][labels[:late] == classes - 1] = 0
    M = np.clip(-0.6 + 0.4 * rng.normal(size=(n, classes)), -1, 1)
    M[np.arange(n), labels] = np.clip(M[np.arange(n), labels] + 0.5, -1, 1)
    return X, M, labels


def targets(labels, classes):
    """Return the ones and an output per class; of two classes that of the second."""
    Y = np.where(labels[:, None] == np.arange(classes), 1.0, -1.0)
    return np.column_stack((np.ones(len(labels)), Y[:, 1:] if classes == 2 else Y))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("delay", [0, 3])
def test_probabilities_are_their_twin(classes, delay):
    X, M, labels = stream(120, classes, late=60)
    if classes == 2:
        M[:, 0] = -M[:, 1]
    P = np.column_stack((np.ones(120), M[:, 1:] if classes == 2 else M))
    found = Probabilities(P.shape[1], 3, delay)
    Y, cuts = targets(labels, classes), [0, 1, 8, 70, 120]
    out = [found.learn(X[a:b], P[a:b], Y[a:b]) for a, b in pairwise(cuts)]
    expected = naive.ClassProbabilities(X, M, labels, classes, delay).predict_all()
    close(np.concatenate(out)[:, 1:], expected[:, 1:] if classes == 2 else expected, atol=1e-9)


def test_a_new_class_is_as_if_it_had_been_known():
    X, M, labels = stream(200, 3, late=100)
    whole = Probabilities(4, 3)
    expected = whole.learn(X, np.column_stack((np.ones(200), M)), targets(labels, 3))
    two = M[:, :2].copy()
    two[:, 0] = -two[:, 1]
    early = np.column_stack((np.ones(100), two[:100], -np.ones(100)))
    known = Probabilities(4, 3)
    known.learn(X[:100], early, targets(labels[:100], 3))
    late = Probabilities(2, 3)
    late.learn(X[:100], np.column_stack((np.ones(100), two[:100, 1])), targets(labels[:100], 2))
    late.remap(np.array([[1.0, 0.0, 0.0, -1.0], [0.0, -1.0, 1.0, 0.0]]))
    rest = X[100:], np.column_stack((np.ones(100), M[100:])), targets(labels[100:], 3)
    close(late.learn(*rest), known.learn(*rest), atol=1e-12)
    assert np.abs(expected).max() <= 1.0


def test_the_log_loss_is_near_that_of_the_best_candidate():
    """Within the bound -log(prior) + log(rows + 1), for each candidate."""
    X, M, labels = stream(1500, 3)
    P, Y = np.column_stack((np.ones(1500), M)), targets(labels, 3)
    found, rows, own = Probabilities(4, 3), np.arange(1500), []
    for t in rows:
        state = found._state
        row = probabilities.new_row(state)
        probabilities.predict_row(X[t], P[t], state, row)
        own.append(row.candidates[:, :3].copy() if row.live.all() or t > 20 else np.ones((4, 3)))
        own[-1] = np.append(own[-1], [(1 + row.final[1:]) / 2], axis=0)
        found.learn(X[t : t + 1], P[t : t + 1], Y[t : t + 1])
    losses = -np.log(np.array(own)[rows, :, labels])[20:].sum(axis=0)
    bounds = -np.log(probabilities.prior(2)) + np.log(1501)
    assert (losses[-1] <= losses[:-1] + bounds).all()
    assert losses[-1] < 0.99 * losses[1]


def test_wide_rows_have_no_logistic_learners():
    held = probabilities.MOST_COEFFICIENTS
    assert set(Probabilities(2, held // 2).weights) == {"margins", "rates"}
    found = Probabilities(2, held // 4)
    assert len(found.weights) == 4
    found.remap(np.array([[1.0, 0.0, 0.0, -1.0, -1.0], [0.0, -1.0, 1.0, 0.0, 0.0]]))
    assert sum(found.weights.values()) == pytest.approx(1.0) and len(found.weights) == 2


def auc(y, scores):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(y))
    ranks[order] = np.arange(1, len(y) + 1)
    positive = y.sum()
    return (ranks[y == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(y) - positive))


def clicks(n, rate=0.02, seed=0):
    """Return one-hot columns and labels, of which the share ``rate`` is 1."""
    rng = np.random.default_rng(seed)
    parts, f = [], np.zeros(n)
    for categories in (4, 8, 12):
        codes = rng.integers(categories, size=n)
        f += rng.normal(0, 1.0, categories)[codes]
        parts.append(np.eye(categories)[codes])
    y = rng.random(n) < expit(f - f.mean() + np.log(rate / (1 - rate)) - 0.5)
    return np.hstack(parts), y.astype(int)


def test_a_rare_class_is_ranked_and_better_than_its_rate():
    X, y = clicks(5000)
    learner = OnlineKernelClassifier(experts="few", random_state=0)
    learner.partial_fit(X[:1], y[:1], classes=[0, 1])
    p = learner.predict_then_learn(X[1:], y[1:], output="probability")[:, 1]
    rate = ((np.cumsum(y) - y + 0.5) / (np.arange(5000) + 1))[1:]
    y = y[1:]
    loss, of_rate = (-np.log(np.where(y, q, 1 - q)).mean() for q in (p, rate))
    assert loss < of_rate and auc(y, p) > 0.65


@pytest.mark.parametrize("classes", [2, 5])
def test_repeated_labels_are_not_predicted_worse_than_by_the_last_one(classes):
    rng = np.random.default_rng(4)
    y = np.zeros(2500, dtype=int)
    for t in range(1, len(y)):
        y[t] = rng.integers(classes) if rng.random() < 0.01 else y[t - 1]
    learner = OnlineKernelClassifier(experts="few", random_state=0)
    wrong = learner.predict_then_learn(rng.normal(size=(2500, 3)), y) != y
    assert wrong[1:].sum() <= 1.02 * np.count_nonzero(np.diff(y)) + 2


def test_many_calls_with_missing_labels():
    """Labels have no intervals: their empty widths grew by a factor in each call."""
    X, _, labels = stream(500, 3)
    known = labels.astype(object)
    known[::2] = None
    learner = OnlineKernelClassifier(experts="few", budget=16, random_state=0)
    for start in range(0, 500, 20):
        learner.predict_then_learn(X[start : start + 20], known[start : start + 20])
    assert learner.n_seen_ == 250 and len(learner._model.last_offsets) == 20
