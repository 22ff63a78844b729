"""Labels that are discovered during the stream, against a simulation row by row."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.cases import two_classes
from naive.awv import kernel_awv
from naive.kernels import gaussian
from naive.labels import classifier_awv
from pronk import (
    DualSGDClassifier,
    FOGDClassifier,
    Gaussian,
    KernelAWVClassifier,
    OnlineKernelClassifier,
    PKAWVClassifier,
)

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
    learner = KernelAWVClassifier().partial_fit(np.zeros((2, 1)), [-1, 1])
    assert learner.predict(np.array([[1e3]])).tolist() == [1]


STREAMS = {
    "far numbers": [5, 3, 5, 3, 3, 4, 5, 4],
    "only 1": [1, 1, 1, 1],
    "only -1": [-1, -1, -1, -1],
    "only 0": [0, 0, 0, 0],
    "only True": [True, True, True, True],
    "1 then 0": [1, 1, 0, 1, 0],
    "1 then 2": [1, 1, 2, 1, 2],
    "signs": [1, 1, -1, 1],
    "floats": [2.0, 2.0, 1.0, 0.0],
    "text": ["b", "b", "a", "cc", "a", "", "b"],
}


@two_classes
@pytest.mark.parametrize("stream", STREAMS)
def test_only_labels_of_earlier_rows_are_named(case, stream):
    """By every classifier, in one call and in calls of any length; None before the first label."""
    y = np.array(STREAMS[stream])
    X = np.random.default_rng(1).uniform(-1, 1, size=(len(y), 2))
    whole = case.make()
    labels = whole.predict_then_learn(X, y).tolist()
    delay = getattr(whole, "delay", 0)
    assert labels[: 1 + delay] == [None] * min(1 + delay, len(y))
    for row in range(1 + delay, len(y)):
        assert labels[row] in set(y[: row - delay].tolist())
    assert whole.classes_.tolist() == sorted(set(y.tolist()))
    assert set(whole.predict(X).tolist()) <= set(y.tolist())
    single, cut = case.make(), case.make()
    each = [single.predict_then_learn(X[i : i + 1], y[i : i + 1])[0] for i in range(len(y))]
    assert each == labels
    parts = [cut.predict_then_learn(X[i:j], y[i:j]).tolist() for i, j in ((0, 3), (3, len(y)))]
    assert parts[0] + parts[1] == labels
    assert single.classes_.tolist() == cut.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(
        single.decision_function(X), whole.decision_function(X), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("delay", [1, 5])
@pytest.mark.parametrize("seed", range(4))
def test_late_labels_of_some_rows_are_named_when_they_are_learned(delay, seed):
    """In one call and row by row; a row of weight 0 or without a label teaches no label."""
    rng = np.random.default_rng(seed)
    n, labels = 40, np.array(["mid", "high", "low"])
    X, y = rng.normal(size=(n, 2)), labels[rng.integers(0, 3, n)]
    learned = rng.random(n) < 0.7
    weights = learned.astype(float)
    y[learned.argmin()] = "never"

    def make():
        return OnlineKernelClassifier(
            budget=12, experts="few", delay=delay, random_state=0, max_classes=4
        )

    for targets in (y, np.where(learned, y, None)):
        single = make()
        named = make().predict_then_learn(X, targets, sample_weight=weights).tolist()
        for i in range(n):
            row = slice(i, i + 1)
            own = weights[row] if targets is y else None
            assert single.predict_then_learn(X[row], targets[row], sample_weight=own) == named[i]
        for row in range(n):
            known = y[:row][learned[:row]][: max(0, learned[:row].sum() - delay)]
            assert named[row] in (set(known) or {None})


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: OnlineKernelClassifier(random_state=0),
        lambda: FOGDClassifier(loss="logistic", random_state=0),
        lambda: DualSGDClassifier(loss="logistic", random_state=0),
    ],
    ids=["default", "one against the rest", "classes by number"],
)
def test_probabilities_are_of_labels_that_were_given(make, stream):
    y = np.array(STREAMS[stream])
    X = np.random.default_rng(1).uniform(-1, 1, size=(len(y), 2))
    whole, single = make(), make()
    labels, shares = whole.predict_then_learn(X, y, output="both")
    assert shares.shape == (len(y), len(set(y.tolist())))
    assert np.isnan(shares[0]).all()
    names = whole.classes_.tolist()
    for row in range(len(y)):
        one = single.predict_then_learn(X[[row]], y[[row]], output="probability")[0]
        if row:
            seen = [label in y[:row].tolist() for label in names]
            assert (shares[row][np.logical_not(seen)] == 0.0).all()
            assert shares[row].sum() == pytest.approx(1.0)
            own = [names.index(label) for label in single.classes_.tolist()]
            np.testing.assert_allclose(shares[row, own], one, rtol=0, atol=1e-9)
            assert shares[row].max() == pytest.approx(shares[row, names.index(labels[row])])
    assert whole.predict_proba(X).shape == shares.shape


def test_labels_that_cannot_be_kept_are_refused():
    """A class must come back as it was given, from predictions and from files."""
    X = np.random.default_rng(0).normal(size=(4, 2))
    refused = {
        "NUL .* row 2": ["a", "b", "a\0", "b"],
        "mixes text": ["a", 1, "b", 2],
        "bytes": [b"a", b"b", b"a", b"b"],
        r"2\*\*53": [1e17, 1.0, 2.0, 1.0],
    }
    for message, y in refused.items():
        for given_as in (list, lambda y: np.array(y, dtype=object)):
            with pytest.raises(ValueError, match=message):
                KernelAWVClassifier().partial_fit(X, given_as(y))
    learner = KernelAWVClassifier().partial_fit(X, [2**60, 2**60 + 1, 2**60, 3])
    assert learner.classes_.tolist() == [3, 2**60, 2**60 + 1]
    with pytest.raises(ValueError, match=r"2\*\*53"):  # they would become one number
        learner.partial_fit(X, np.array([1.0, 2.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match="labels so far are numbers"):
        learner.partial_fit(X, ["3", "3", "a", "a"])
    assert learner.classes_.tolist() == [3, 2**60, 2**60 + 1]
    with pytest.raises(ValueError, match="labels so far are text"):
        KernelAWVClassifier().partial_fit(X, list("abab")).partial_fit(X, [1, 2, 1, 2])


@two_classes
def test_the_number_of_classes_is_bounded(case):
    X = np.random.default_rng(1).uniform(-1, 1, size=(6, 2))
    learner = case.make(max_classes=3).partial_fit(X[:2], [4, 7])
    before = learner.decision_function(X)
    with pytest.raises(ValueError, match=r"max_classes=3 .* 8 at row 4"):
        learner.partial_fit(X, [4, 9, 7, 9, 8, 1])
    with pytest.raises(ValueError, match=r"max_classes=3 .* 8 at row 4"):
        learner.partial_fit(X, [4, None, 7, 9, 8, 1])  # rows without a label count too
    assert np.array_equal(learner.decision_function(X), before)
    assert learner.partial_fit(X, [4, 9, 7, 9, 4, 4]).classes_.tolist() == [4, 7, 9]
    with pytest.raises(ValueError, match="classes has 4 labels"):
        case.make(max_classes=3).partial_fit(X[:2], [4, 7], classes=[4, 5, 6, 7])
    assert case.make().get_params()["max_classes"] == 1000
    with pytest.raises(ValueError, match="max_classes"):
        case.make(max_classes=1).partial_fit(X[:2], [4, 7])
