"""Merging: equal to one pass over all rows, associative, commutative, refused with a reason."""

import copy
import pickle
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from naive import features
from naive.awv import merged_awv
from naive.kernels import gaussian
from pronk.regret import best_in_hindsight, bound_for

POINTS = np.random.default_rng(3).uniform(-1.5, 1.5, (12, 2))

#: Parameters of the learners, and their features from the definition.
KINDS = {
    "taylor": (
        {"features": "taylor", "degree": 3, "alpha": 0.5},
        lambda X: features.taylor(X, 3),
    ),
    "fourier": (
        {"features": "fourier", "n_features": 15, "random_state": 4},
        lambda X: features.fourier(X, 15, random_state=4),
    ),
    "points": (
        {"dictionary": POINTS, "alpha": 2.0, "anticipate": False},
        lambda X: features.nystrom(X, POINTS, gaussian),
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@kinds
def test_a_merged_learner_predicts_from_the_sums(kind):
    params, phi = KINDS[kind]
    X, y = rows()
    learners = [pronk.PKAWVRegressor(**params) for _ in range(3)]
    parts = [slice(0, 50), slice(50, 297), slice(297, 300)]
    for learner, part in zip(learners, parts, strict=True):
        learner.partial_fit(X[part], y[part])
    merged = pronk.merge(*learners)
    sums = [(phi(X[part]), y[part]) for part in parts]
    new = rows(20, seed=1)[0]
    alpha, anticipate = merged.alpha, merged.anticipate
    expected = [merged_awv(sums, row, alpha, anticipate) for row in phi(new)]
    np.testing.assert_allclose(merged.predict(new), expected, rtol=0, atol=1e-8)


@kinds
@settings(deadline=None, max_examples=8)
@given(cuts=st.lists(st.integers(1, 299), min_size=1, max_size=5, unique=True).map(sorted))
def test_merging_is_one_pass_in_any_order_and_grouping(kind, cuts):
    X, y = rows()
    make = lambda: pronk.PKAWVRegressor(**KINDS[kind][0])  # noqa: E731
    parts = zip(np.split(X, cuts), np.split(y, cuts), strict=True)
    learners = [make().partial_fit(*part) for part in parts]
    left = reduce(pronk.merge, learners)
    right = reduce(lambda merged, learner: pronk.merge(learner, merged), reversed(learners))
    whole = make().partial_fit(X, y)
    new, targets = rows(150, seed=1)
    for merged in (left, right, pronk.merge(*learners[::-1])):
        assert merged.n_seen_ == whole.n_seen_ == len(X)
        close(merged.predict(new), whole.predict(new))
        further = copy.deepcopy(whole).predict_then_learn(new, targets)
        close(merged.predict_then_learn(new, targets), further)


@kinds
def test_the_given_learners_stay_as_they_are_and_a_new_one_adds_nothing(kind):
    X, y = rows()
    make = lambda: pronk.PKAWVRegressor(**KINDS[kind][0])  # noqa: E731
    one, two, blank = make().fit(X[:77], y[:77]), make().fit(X[77:], y[77:]), make()
    before = [pickle.dumps(learner._fitted_state()) for learner in (one, two)]
    merged = pronk.merge(one, two)
    merged.partial_fit(X, y)
    assert [pickle.dumps(learner._fitted_state()) for learner in (one, two)] == before
    for same in (pronk.merge(one, blank), pronk.merge(blank, one)):
        assert same is not one
        close(same.predict(X), one.predict(X))
    assert not pronk.merge(blank, make()).__sklearn_is_fitted__()


def test_weights_and_outputs():
    X, y = rows(1500)
    Y, weights = np.column_stack((y, X[:, 0] ** 2)), np.random.default_rng(0).uniform(0, 3, 1500)
    make = lambda **more: pronk.PKAWVRegressor(features="taylor", degree=4, **more)  # noqa: E731
    one = make().partial_fit(X[:400], Y[:400], sample_weight=weights[:400])
    two = make().partial_fit(X[400:800], Y[400:800], sample_weight=weights[400:800])
    merged = pronk.merge(two, one).partial_fit(X[800:], Y[800:])
    whole = make().partial_fit(X[:800], Y[:800], sample_weight=weights[:800])
    close(merged.predict(X[:50]), whole.partial_fit(X[800:], Y[800:]).predict(X[:50]))


@pytest.mark.parametrize(
    "first, second",
    [
        ([0, 1], [0, 1]),
        ([0], [1]),
        ([1], [0]),
        ([-1], [1]),
        ([0, 1, 2], [1, 3]),
        ([2], [0, 1]),
        (["ant"], ["bee", "cat"]),
        (["cat", "bee"], ["ant", "bee"]),
    ],
)
def test_classes_that_only_one_learner_has_seen(first, second):
    X, score = rows(200)
    place = np.where(score > 0, 1, 0)
    y = np.concatenate(
        [np.resize(first, len(first))[place[:120] % len(first)],
         np.resize(second, len(second))[place[120:] % len(second)]]
    )  # fmt: skip
    if len(second) > 2 or len(first) > 2:
        y[::3] = first[-1]
    params = {"features": "taylor", "degree": 3}
    one = pronk.PKAWVClassifier(**params).partial_fit(X[:120], y[:120])
    two = pronk.PKAWVClassifier(**params).partial_fit(X[120:], y[120:])
    whole = pronk.PKAWVClassifier(**params).partial_fit(X, y)
    for merged in (pronk.merge(one, two), pronk.merge(two, one)):
        assert merged.classes_.tolist() == whole.classes_.tolist()
        close(merged.decision_function(X), whole.decision_function(X))
        assert np.array_equal(merged.predict(X), whole.predict(X))


def test_fixed_classes_must_agree():
    X, _ = rows(30)
    labels = np.resize(["a", "b"], 30)
    fixed = pronk.PKAWVClassifier(features="taylor").partial_fit(X, labels, classes=["a", "b", "c"])
    free = pronk.PKAWVClassifier(features="taylor").partial_fit(X, labels)
    other = pronk.PKAWVClassifier(features="taylor").partial_fit(X, np.resize(["a", "d"], 30))
    for merged in (pronk.merge(fixed, free), pronk.merge(free, fixed)):
        assert merged.classes_.tolist() == ["a", "b", "c"]
    for pair in ((fixed, other), (other, fixed)):
        with pytest.raises(ValueError, match="classes differ"):
            pronk.merge(*pair)
    numbers = pronk.PKAWVClassifier(features="taylor").partial_fit(X, np.resize([0, 1], 30))
    with pytest.raises(ValueError, match="text"):
        pronk.merge(numbers, free)
    few = [pronk.PKAWVClassifier(features="taylor", max_classes=2) for _ in range(2)]
    with pytest.raises(ValueError, match="max_classes=2"):
        pronk.merge(few[0].fit(X, labels), few[1].fit(X, np.resize(["c", "d"], 30)))


def test_a_merged_learner_is_saved_and_has_no_bound(tmp_path):
    X, y = rows()
    one, two = (pronk.PKAWVRegressor(features="taylor") for _ in range(2))
    P = [one.predict_then_learn(X[:90], y[:90]), two.predict_then_learn(X[90:], y[90:])]
    merged = pronk.merge(one, two)
    merged.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    assert np.array_equal(again.predict(X), merged.predict(X))
    assert one.certificate().bound is not None
    whole = pronk.PKAWVRegressor(features="taylor").fit(X, y).certificate()
    for certificate in (merged.certificate(), again.certificate()):
        assert certificate.bound is None
        assert certificate.rows == 300
        assert certificate.loss == pytest.approx(np.sum((np.concatenate(P) - y) ** 2), rel=1e-10)
        assert certificate.best_loss == pytest.approx(whole.best_loss, rel=1e-9)
        assert certificate.penalty == pytest.approx(whole.penalty, rel=1e-9)
    with pytest.raises(ValueError, match="theorems"):
        bound_for(merged, X, y, best_in_hindsight(X, y))


TAYLOR = {"features": "taylor"}


@pytest.mark.parametrize(
    "one, other, word",
    [
        (pronk.PKAWVRegressor(**TAYLOR), pronk.PKAWVClassifier(**TAYLOR), "class"),
        (pronk.PKAWVRegressor(**TAYLOR), pronk.PKAWVRegressor(alpha=2.0, **TAYLOR), "alpha"),
        (pronk.PKAWVRegressor(**TAYLOR), pronk.PKAWVRegressor(degree=3, **TAYLOR), "degree"),
        (
            pronk.PKAWVRegressor(**TAYLOR),
            pronk.PKAWVRegressor(anticipate=False, **TAYLOR),
            "anticipate",
        ),
        (pronk.PKAWVRegressor(**TAYLOR), pronk.PKAWVRegressor(features="fourier"), "features"),
        (
            pronk.PKAWVRegressor(**TAYLOR),
            pronk.PKAWVRegressor(pronk.Gaussian(2.0), **TAYLOR),
            "kernel",
        ),
        (
            pronk.PKAWVRegressor(dictionary=POINTS),
            pronk.PKAWVRegressor(dictionary=POINTS[:5]),
            "dictionary",
        ),
        (
            pronk.PKAWVRegressor(features="fourier", random_state=0),
            pronk.PKAWVRegressor(features="fourier", random_state=1),
            "random_state",
        ),
        (
            pronk.PKAWVRegressor(features="fourier"),
            pronk.PKAWVRegressor(features="fourier"),
            "random_state",
        ),
        (pronk.PKAWVRegressor(), pronk.PKAWVRegressor(), "dictionary=points"),
        (
            pronk.PKAWVRegressor(pronk.Gaussian("auto"), **TAYLOR),
            pronk.PKAWVRegressor(**TAYLOR),
            "bandwidth",
        ),
        (pronk.KernelAWVRegressor(), pronk.KernelAWVRegressor(), "stores all its rows"),
        (pronk.OnlineKernelRegressor(), pronk.OnlineKernelRegressor(), "order of its rows"),
        (pronk.FOGDRegressor(), pronk.FOGDRegressor(), "order of its rows"),
        (pronk.make("con-kons"), pronk.make("con-kons"), "order of its rows"),
        (pronk.Prepared(pronk.PKAWVRegressor()), pronk.PKAWVRegressor(), "pronk learner"),
    ],
)
def test_other_learners_are_refused_with_the_reason(one, other, word):
    X, y = rows(20)
    for learner in (one, other):
        labels = isinstance(learner, pronk.PKAWVClassifier)
        learner.partial_fit(X, np.where(y > 0, 1, 0) if labels else y)
    with pytest.raises(ValueError, match=word):
        pronk.merge(one, other)


def test_other_columns_are_refused():
    X, y = rows(20)
    make = lambda: pronk.PKAWVRegressor(**TAYLOR)  # noqa: E731
    one = make().partial_fit(X, y)
    with pytest.raises(ValueError, match="columns, 2 and 1"):
        pronk.merge(one, make().partial_fit(X[:, :1], y))
    with pytest.raises(ValueError, match="targets"):
        pronk.merge(one, make().partial_fit(X, np.column_stack((y, y))))
    named = make().learn_one({"a": 1.0, "b": 0.5}, 1.0)
    with pytest.raises(ValueError, match="order of their columns"):
        pronk.merge(named, make().learn_one({"b": 1.0, "a": 0.5}, 1.0))
    assert pronk.merge(one, named).predict_one({"b": 0.5, "a": 1.0}) == pytest.approx(
        pronk.merge(named, one).predict([[1.0, 0.5]])[0]
    )


def test_features_are_those_of_the_first_row_and_not_of_later_parameters():
    X, y = rows()
    a, b = (pronk.PKAWVRegressor(dictionary=points).fit(X, y) for points in (X[:20], X[20:40]))
    b.set_params(dictionary=X[:20])
    with pytest.raises(ValueError, match="a and b differ in dictionary"):
        pronk.merge(a, b)
    a.set_params(dictionary=X[20:40], alpha=7.0)
    merged = pronk.merge(a, pronk.PKAWVRegressor(dictionary=X[:20]).fit(X, y))
    np.testing.assert_array_equal(merged.dictionary, X[:20])
    assert merged.n_seen_ == 2 * len(X) and merged.alpha == 1.0 and a.alpha == 7.0
