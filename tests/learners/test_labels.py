"""Labels that are discovered on the way: against a row-by-row simulation of the rules."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.awv import kernel_awv
from naive.kernels import gaussian
from naive.labels import classifier_awv
from pronk import Gaussian, KernelAWVClassifier, PKAWVClassifier

KINDS = {
    "signs": [-1, 1],
    "bits": [0, 1],
    "booleans": [False, True],
    "one and two": [1, 2],
    "zero to two": [0, 1, 2],
    "floats": [1.0, 0.0, -1.0],
    "far numbers": [7, 3, 5],
    "text": ["b", "a", "cc"],
}


def scorer(X, targets):
    return kernel_awv(X, targets, lambda A, B: gaussian(A, B, 0.7), 1.0, True)


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    order=st.lists(st.integers(0, 2), min_size=1, max_size=25),
    cuts=st.lists(st.integers(1, 24), max_size=5).map(sorted),
)
def test_predictions_name_only_labels_of_earlier_rows(kind, order, cuts):
    names = KINDS[kind]
    y = np.array([names[i % len(names)] for i in order])
    X = np.random.default_rng(3).normal(size=(len(y), 2))
    expected, decision = classifier_awv(X, y, scorer)
    learner = KernelAWVClassifier(Gaussian(0.7))
    edges = [0, *[c for c in cuts if c < len(y)], len(y)]
    parts = []
    for i, j in pairwise(edges):
        if i < j:
            parts += list(learner.predict_then_learn(X[i:j], y[i:j]))
    assert parts == list(expected)
    whole = KernelAWVClassifier(Gaussian(0.7)).predict_then_learn(X, y, output="decision")
    np.testing.assert_allclose(whole, decision, rtol=0, atol=1e-09)


def test_the_second_label_may_sort_before_the_first():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, "zebra", "ant")
    y[0] = "zebra"
    learner = PKAWVClassifier(random_state=0)
    learner.predict_then_learn(X[:1], y[:1])
    assert learner.classes_.tolist() == ["zebra"]
    assert learner.decision_function(X[:1]) < 0  # a lone label counts as -1
    learner.predict_then_learn(X[1:], y[1:])
    assert learner.classes_.tolist() == ["ant", "zebra"]
    assert np.mean(learner.predict(X) == y) > 0.8


def test_given_classes_are_kept_and_others_refused():
    X = np.random.default_rng(0).normal(size=(10, 2))
    learner = PKAWVClassifier(random_state=0)
    learner.partial_fit(X, np.array([2, 3] * 5), classes=[3, 2, 9])
    assert learner.classes_.tolist() == [2, 3, 9]
    assert learner.decision_function(X).shape == (10, 3)
    before = learner.decision_function(X)
    with pytest.raises(ValueError, match=r"label .*4.* at row 1"):
        learner.partial_fit(X[:2], [2, 4])
    with pytest.raises(ValueError, match="classes"):
        learner.partial_fit(X[:2], [2, 3], classes=[2, 3])
    assert np.array_equal(learner.decision_function(X), before)
    with pytest.raises(ValueError, match="at least two"):
        PKAWVClassifier().partial_fit(X, [1] * 10, classes=[1])


def test_zero_is_the_positive_class():
    learner = KernelAWVClassifier()
    assert learner.predict_then_learn(np.zeros((1, 1)), [-1]).tolist() == [1]
    assert learner.predict(np.array([[1e3]])).tolist() == [1]
