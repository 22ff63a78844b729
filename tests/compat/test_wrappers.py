"""`pronk.Intervals` and `pronk.Calibrated` around models of scikit-learn, river and pronk."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPRegressor

import pronk
from helpers import Forecaster
from naive import wrappers as naive
from naive.default import slopes
from naive.kernels import gaussian
from pronk.compat.intervals import STAGES, ErrorTracker
from pronk.core.scales import FixedScale
from pronk.keyed.keys import encode_key, with_own_seeds

river = pytest.importorskip("river")
from river import forest, linear_model, naive_bayes, preprocessing  # noqa: E402


def rows(n=700, seed=0):
    """Rows whose noise grows with the second column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, 3 * X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng.normal(size=n)


def labels(n=700, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    score = 2 * X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n)
    return X, np.array(["ant", "bee", "cat"])[np.digitize(score, [0.0, 1.0][: classes - 1])]


def river_regressor():
    return preprocessing.StandardScaler() | linear_model.LinearRegression()


REGRESSORS = {
    "scikit-learn": lambda: SGDRegressor(eta0=0.1, random_state=0),
    "river": river_regressor,
    "pronk": lambda: pronk.PKAWVRegressor(budget=30, random_state=0),
    "prepared": lambda: pronk.Prepared(pronk.FOGDRegressor(n_features=10, random_state=0)),
}
CLASSIFIERS = {
    "probabilities": lambda: GaussianNB(),
    "decisions": lambda: SGDClassifier(random_state=0),
    "river": lambda: naive_bayes.GaussianNB(),
    "pronk": lambda: pronk.PKAWVClassifier(features="taylor"),
    "pronk-logistic": lambda: pronk.FOGDClassifier(n_features=10, loss="logistic", random_state=0),
}
regressors = pytest.mark.parametrize("kind", REGRESSORS)
classifiers = pytest.mark.parametrize("kind", CLASSIFIERS)


# -- twins ---------------------------------------------------------------------------------------


class Given(RegressorMixin, BaseEstimator):
    """A model whose predictions are the first column."""

    def partial_fit(self, X, y):
        return self

    def predict(self, X):
        return X[:, 0]


def test_intervals_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    n = 600
    X = rng.uniform(-1, 1, (n, 2))
    y = X[:, 0] + (0.2 + X[:, 1] ** 2) * rng.normal(size=n)

    def scaled(first):
        return FixedScale(first).transform

    def features(first, points, Z):
        distances = [np.linalg.norm(a - b) for i, a in enumerate(first[:256]) for b in first[:i]]
        if len(first) > 256:
            some = first[:: len(first) // 256]
            distances = [np.linalg.norm(a - b) for i, a in enumerate(some) for b in some[:i]]
        unit = np.median(distances)
        L = np.linalg.cholesky(gaussian(points, points, unit))
        return np.linalg.solve(L, gaussian(points, Z, unit)).T

    def block(r):
        return Forecaster(1.0, r).block_length

    expected = naive.intervals(X, X[:, 0], y, scaled, features, block)
    model = pronk.Intervals(Given())
    got = [
        model.predict_then_learn(X[i:j], y[i:j], quantiles=naive.LEVELS)[1]
        for i, j in pairwise([0, 1, 2, 5, 8, 9, 40, 127, 130, 400, n])
    ]
    offsets = np.concatenate(got) - X[:, :1]
    np.testing.assert_allclose(offsets, expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(offsets[:2]).all()


@classifiers
@pytest.mark.parametrize("classes", [2, 3])
def test_slopes_are_those_of_the_definition(kind, classes):
    X, y = labels(200, classes)
    names = np.unique(y).tolist()
    model = pronk.Calibrated(CLASSIFIERS[kind]()).partial_fit(X[:20], y[:20], classes=names)
    before = copy.deepcopy(model)
    # The scores of the model itself, made before each row was learned.
    found, inner = [], copy.deepcopy(model.model_)
    for i in range(20, 200):
        if kind == "river":
            row = dict(enumerate(X[i].tolist()))
            shares = inner.predict_proba_one(row)
            found.append([shares.get(name, 0.0) for name in names])
            inner.learn_one(row, str(y[i]))
        else:
            method = "predict_proba" if hasattr(inner, "predict_proba") else "decision_function"
            scores = getattr(inner, method)(X[i : i + 1])[0]
            found.append([-scores, scores] if np.ndim(scores) == 0 else scores)
            inner.partial_fit(X[i : i + 1], y[i : i + 1])
    probability = hasattr(inner, "predict_proba") or kind == "river"
    model.partial_fit(X[20:], y[20:])
    kind = "probability" if probability else "decision"
    M = naive.margins(np.array(found), kind, *before._decisions)
    own = np.searchsorted(names, y[20:])
    # From the slopes and H before these rows, step by step.
    theta, H = before._slopes.to_state()["slopes"], before._slopes.to_state()["H"]
    np.testing.assert_allclose(
        model._slopes.current, slopes(M, own, start=theta, H=H), rtol=1e-6, atol=1e-9
    )


def test_decisions_become_margins_in_their_usual_size():
    X, y = labels(150)
    model = pronk.Calibrated(pronk.PKAWVClassifier(features="taylor"))
    P = [
        model.predict_then_learn(X[i:j], y[i:j], output="decision")
        for i, j in pairwise([0, 1, 4, 90, 150])
    ]
    plain = pronk.PKAWVClassifier(features="taylor").predict_then_learn(X, y, output="decision")
    known = int(np.argmax(y != y[0])) + 1  # from here on both classes are known
    expected = naive.margins(np.column_stack((-plain, plain)), "decision")[:, 1]
    np.testing.assert_allclose(np.concatenate(P)[known:], expected[known:], rtol=0, atol=1e-9)
    assert np.abs(np.concatenate(P)).max() < 1


# -- the contract of all learners ------------------------------------------------------------------


@regressors
def test_cutting_the_stream_changes_nothing(kind):
    X, y = rows(STAGES[-1] + 100)
    whole, cut = (pronk.Intervals(REGRESSORS[kind]()) for _ in range(2))
    P, ends = whole.predict_then_learn(X, y, interval=0.8)
    edges = sorted({0, len(X), *(s + d for s in STAGES for d in (-1, 0, 1))})
    parts = [cut.predict_then_learn(X[i:j], y[i:j], interval=0.8) for i, j in pairwise(edges)]
    np.testing.assert_allclose(np.concatenate([p for p, _ in parts]), P, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.concatenate([e for _, e in parts]), ends, rtol=0, atol=1e-6)
    assert cut.n_seen_ == whole.n_seen_ == len(X)
    for coverage in (0.5, 0.87):
        np.testing.assert_allclose(
            cut.predict_interval(X[:9], coverage), whole.predict_interval(X[:9], coverage),
            rtol=0, atol=1e-6,
        )  # fmt: skip
    # the next row has the interval that predict_interval announced
    expected = cut.predict_interval(X[:1], 0.8)
    got = cut.predict_then_learn(X[:1], y[:1], interval=0.8)[1]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)


@classifiers
@pytest.mark.parametrize("classes", [2, 3])
def test_cutting_a_stream_of_labels_changes_nothing(kind, classes):
    X, y = labels(300, classes)
    names = np.unique(y).tolist()
    whole, cut = (pronk.Calibrated(CLASSIFIERS[kind]()) for _ in range(2))
    sklearn = kind in ("probabilities", "decisions")
    for model in (whole, cut):
        model.partial_fit(X[:1], y[:1], classes=names if sklearn else None)
    named, shares = whole.predict_then_learn(X[1:], y[1:], output="both")
    edges = [1, 2, 9, 50, 51, 300]
    parts = [cut.predict_then_learn(X[i:j], y[i:j], output="label") for i, j in pairwise(edges)]
    assert np.array_equal(np.concatenate(parts), named)
    np.testing.assert_allclose(cut.predict_proba(X), whole.predict_proba(X), rtol=0, atol=1e-7)
    assert whole.classes_.tolist() == names
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    late = slice(50, None)
    assert np.array_equal(whole.classes_[shares[late].argmax(axis=1)], named[late])
    assert np.array_equal(whole.predict(X), whole.classes_[whole.predict_proba(X).argmax(axis=1)])
    assert whole.decision_function(X).shape == ((300,) if classes == 2 else (300, 3))


@regressors
def test_predictions_are_those_of_the_model(kind):
    X, y = rows(200)
    model = pronk.Intervals(REGRESSORS[kind]())
    P = model.predict_then_learn(X, y)
    inner = REGRESSORS[kind]()
    if kind == "river":
        for x, target, p in zip(X.tolist(), y.tolist(), P, strict=True):
            x = dict(enumerate(x))
            assert inner.predict_one(x) == p
            inner.learn_one(x, target)
    elif kind == "scikit-learn":
        for i in range(1, 200):
            inner.partial_fit(X[i - 1 : i], y[i - 1 : i])
            assert inner.predict(X[i : i + 1]) == P[i]
    else:
        assert np.array_equal(inner.predict_then_learn(X, y), P)


@regressors
@pytest.mark.parametrize("way", ["pickle", "deepcopy", "save"])
def test_stopping_and_resuming(kind, way, tmp_path):
    X, y = rows(150)
    model = pronk.Intervals(REGRESSORS[kind]()).partial_fit(X[:77], y[:77])
    if way == "save":
        if kind in ("scikit-learn", "river"):
            with pytest.raises(ValueError, match="pickle"):
                model.save(tmp_path / "model.pronk")
            return
        model.save(tmp_path / "model.pronk")
        other = pronk.load(tmp_path / "model.pronk")
    else:
        other = pickle.loads(pickle.dumps(model)) if way == "pickle" else copy.deepcopy(model)
    for i, j in [(77, 78), (78, 150)]:
        expected = model.predict_then_learn(X[i:j], y[i:j], interval=0.9)
        got = other.predict_then_learn(X[i:j], y[i:j], interval=0.9)
        assert all(np.array_equal(one, two) for one, two in zip(expected, got, strict=True))
    assert np.array_equal(other.predict_interval(X), model.predict_interval(X))
    assert other.n_seen_ == 150


@classifiers
@pytest.mark.parametrize("way", ["pickle", "save"])
def test_stopping_and_resuming_labels(kind, way, tmp_path):
    X, y = labels(150, 3)
    model = pronk.Calibrated(CLASSIFIERS[kind]()).partial_fit(X[:77], y[:77])
    if way == "save" and not kind.startswith("pronk"):
        with pytest.raises(ValueError, match="pickle"):
            model.save(tmp_path / "model.pronk")
        return
    if way == "save":
        model.save(tmp_path / "model.pronk")
        other = pronk.load(tmp_path / "model.pronk")
    else:
        other = pickle.loads(pickle.dumps(model))
    expected = model.predict_then_learn(X[77:], y[77:], output="probability")
    assert np.array_equal(other.predict_then_learn(X[77:], y[77:], output="probability"), expected)
    assert np.array_equal(other.predict_proba(X), model.predict_proba(X))


def test_as_estimators_of_scikit_learn():
    wrapped, labelled = pronk.Intervals(SGDRegressor()), pronk.Calibrated(SGDClassifier())
    assert is_regressor(wrapped)
    assert is_classifier(labelled)
    assert wrapped.get_params()["model__alpha"] == 0.0001
    wrapped.set_params(model__alpha=0.5)
    other = clone(wrapped)
    assert other.model.alpha == 0.5
    assert other.model is not wrapped.model
    X, y = rows(60)
    assert not hasattr(other.fit(X, y), "_given_classes")
    assert wrapped.model is not other.model_
    assert not hasattr(wrapped, "model_")
    first = other.predict(X)
    other.fit(X, y)  # forgets
    np.testing.assert_allclose(other.predict(X), first, rtol=0, atol=1e-12)
    assert other.score(X, y) > 0
    clone(pronk.Intervals(river_regressor())).fit(X, y)
    search = GridSearchCV(labelled, {"model__alpha": [1e-4, 1e-2]}, cv=2).fit(X, y > 0)
    assert search.best_score_ > 0.7
    # what was learned is replaced whole: no keys of the rows before
    named = pronk.Intervals(SGDRegressor()).learn_one({"b": 1.0, "a": 2.0}, 1.0).fit(X, y)
    assert not hasattr(named, "_keys")


def test_one_row_at_a_time():
    X, y = rows(60)
    model, block = pronk.Intervals(river_regressor()), pronk.Intervals(river_regressor())
    assert model.predict_one({"a": 1.0, "b": 2.0}) == 0.0
    assert np.isnan(model.predict_interval_one({"a": 1.0, "b": 2.0})).all()
    named = [dict(zip("ab", x, strict=True)) for x in X.tolist()]
    for x, target in zip(named, y.tolist(), strict=True):
        model.learn_one(x, target)
    block.partial_fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert model.predict_one(named[3]) == block.predict_one(named[3])
    low, high = model.predict_interval_one(named[3], 0.8)
    np.testing.assert_allclose(
        [[low, high]], block.predict_interval([named[3]], 0.8), rtol=1e-9, atol=0
    )
    for inner in (SGDRegressor(), pronk.PKAWVRegressor(features="taylor")):
        model = pronk.Intervals(inner)
        for x, target in zip(named, y.tolist(), strict=True):
            model.learn_one(x, target)
        swapped = {"b": named[3]["b"], "a": named[3]["a"]}
        assert model.predict_one(swapped) == pytest.approx(model.predict(X[3:4])[0])
    classifier = pronk.Calibrated(naive_bayes.GaussianNB())
    assert classifier.predict_one(named[0]) is None
    assert classifier.predict_proba_one(named[0]) == {}
    for x, target in zip(named, y.tolist(), strict=True):
        classifier.learn_one(x, "up" if target > 0 else "down")
    shares = classifier.predict_proba_one(named[3])
    assert sum(shares.values()) == pytest.approx(1.0)
    assert classifier.predict_one(named[3]) == max(shares, key=shares.get)


def test_text_and_missing_values_are_left_to_the_model():
    X, y = rows(60)
    mixed = [
        {"a": a, "city": "Rome" if b > 0 else "Oslo", "c": None if i % 7 == 0 else b}
        for i, (a, b) in enumerate(X.tolist())
    ]
    from river import compose

    model = pronk.Intervals(compose.Select("a") | linear_model.LinearRegression())
    _, ends = model.predict_then_learn(mixed, y, interval=0.9)
    assert np.isfinite(ends[2:]).all()
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(city="Rome")
    model = pronk.Intervals(pronk.Prepared(pronk.OnlineKernelRegressor(random_state=0)))
    assert np.isfinite(model.predict_then_learn(frame, y, interval=0.9)[1][2:]).all()
    assert model.predict_interval(frame[:3]).shape == (3, 2)


def test_several_outputs():
    X, y = rows(100)
    Y = np.column_stack((y, -2 * y))
    for inner in (
        MLPRegressor(hidden_layer_sizes=5, random_state=0),
        pronk.PKAWVRegressor(random_state=0),
    ):
        model = pronk.Intervals(inner)
        P, ends = model.predict_then_learn(X, Y, interval=0.9)
        assert (P.shape, ends.shape) == ((100, 2), (100, 2, 2))
        assert model.predict(X[:3]).shape == (3, 2)
        assert model.predict_interval(X[:3]).shape == (3, 2, 2)
        with pytest.raises(ValueError, match="columns"):
            model.partial_fit(X, y)
    with pytest.raises(ValueError, match="one output"):
        pronk.Intervals(river_regressor()).partial_fit(X, Y)


def test_an_empty_batch_and_refused_calls_change_nothing():
    X, y = rows(40)
    for make in REGRESSORS.values():
        model = pronk.Intervals(make())
        for started in (False, True):
            if started:
                model.partial_fit(X, y)
            before = pickle.dumps(model)
            assert model.predict_then_learn(X[:0], y[:0], interval=0.9)[1].shape == (0, 2)
            with pytest.raises(ValueError, match="y has 39 rows"):
                model.partial_fit(X, y[:-1])
            with pytest.raises(ValueError, match="row 5"):
                model.partial_fit(X, np.where(np.arange(40) == 5, np.inf, y))
            with pytest.raises(ValueError, match="coverage"):
                model.predict_then_learn(X, y, interval=1.5)
            with pytest.raises(ValueError, match="0 rows"):
                model.fit(X[:0], y[:0])
            assert pickle.dumps(model) == before
    X, y = labels(40)
    for make in CLASSIFIERS.values():
        model = pronk.Calibrated(make()).partial_fit(X, y)
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match="y has 39 rows"):
            model.partial_fit(X, y[:-1])
        with pytest.raises(ValueError, match="text"):
            model.partial_fit(X, np.zeros(40, dtype=int))
        assert pickle.dumps(model) == before
        assert model.predict_then_learn(X[:0], y[:0]).shape == (0,)
        assert model.predict_proba(X[:0]).shape == (0, 2)


def test_a_refused_call_with_missing_labels_changes_nothing():
    """Rows with a label between rows without one are learned in runs, which are all rolled back."""
    X, y = rows(80)
    gaps, weights = y.copy(), np.ones(80)
    gaps[[1, -2]], weights[[1, -2]] = np.nan, 0.0
    bad = np.where(np.arange(160).reshape(80, 2) == 159, 1e300, X)
    for started in (False, True):
        model = pronk.Intervals(pronk.PKAWVRegressor(budget=10, random_state=0))
        classifier = pronk.Calibrated(pronk.PKAWVClassifier(random_state=0, max_classes=2))
        if started:
            model.partial_fit(X, y)
            classifier.partial_fit(X, np.where(y > 0, "a", "b"))
        before = pickle.dumps((model, classifier))
        with pytest.raises(ValueError, match=r"1e.300 at row 79, column 1"):
            model.partial_fit(bad, gaps)
        with pytest.raises(ValueError, match=r"1e.300 at row 79, column 1"):
            model.partial_fit(bad, y, sample_weight=weights)
        gaps[-1] = np.inf
        with pytest.raises(ValueError, match="y has inf at row 79"):
            model.partial_fit(X, gaps)
        gaps[-1] = y[-1]
        names = np.where(np.isnan(gaps), None, np.where(y > 0, "a", "b"))
        names[-1] = "c"
        with pytest.raises(ValueError, match="max_classes"):
            classifier.partial_fit(X, names, classes=None)
        assert pickle.dumps((model, classifier)) == before


@pytest.mark.parametrize(
    "around", [pronk.Calibrated, lambda model: pronk.Prepared(pronk.Calibrated(model))]
)
def test_classes_are_given_to_a_pronk_learner_inside(around):
    """Also those that no row has had: in any cut, and in a file."""
    X, y = rows(60)
    labels = np.where(y > 0, "high", "low")
    classes = ["high", "low", "never"]
    make = lambda: around(pronk.make("fogd", "classification", random_state=0))  # noqa: E731
    whole, single = make(), make()
    whole.partial_fit(X, labels, classes=classes)
    for i in range(60):
        single.partial_fit(X[i : i + 1], labels[i : i + 1], classes=classes)
    for model in (whole, single):
        again = pronk.loads(pronk.dumps(model))
        assert again.classes_.tolist() == classes
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(single.predict_proba(X), whole.predict_proba(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "inside", [SGDClassifier(random_state=0), pronk.make("fogd", "classification", random_state=0)]
)
def test_classes_of_a_call_that_learns_no_row_are_kept(inside):
    X, y = rows(60)
    labels = np.where(y > 0, "high", "low")
    model, twin = pronk.Calibrated(inside), pronk.Calibrated(inside)
    for weights in ({"sample_weight": [0.0, 0.0]}, {}):
        given = labels[:2] if weights else [None, None]
        model.partial_fit(X[:2], given, classes=["high", "low", "mid"], **weights)
        assert model.classes_.tolist() == ["high", "low", "mid"] and model.n_seen_ == 0
    with pytest.raises(ValueError, match="unknown label 'other'"):
        model.partial_fit(X[:2], ["other", "low"])
    if hasattr(inside, "encode"):
        pronk.loads(pronk.dumps(model)).partial_fit(X, labels)
    model.partial_fit(X, labels)
    twin.partial_fit(X, labels, classes=["high", "low", "mid"])
    np.testing.assert_allclose(model.predict_proba(X), twin.predict_proba(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [["high", "low"], ["high", "low", "mid"]])
def test_decisions_are_calibrated_alike_in_any_cut(classes):
    X, y = rows(60)
    labels = np.where(y > 0.5, "high", np.where(y > -0.5, classes[-1], "low"))
    whole, single = (pronk.Calibrated(SGDClassifier(random_state=0)) for _ in range(2))
    whole.partial_fit(X, labels, classes=classes)
    for i in range(60):
        single.partial_fit(X[i : i + 1], labels[i : i + 1], classes=classes)
    np.testing.assert_allclose(single.predict_proba(X), whole.predict_proba(X), rtol=0, atol=1e-9)


def test_several_outputs_inside_prepared_are_saved():
    X, y = rows(60)
    inside = pronk.Intervals(pronk.make("fogd", "regression", random_state=0))
    model = pronk.Prepared(inside).partial_fit(X, np.column_stack((y, X[:, 0])))
    again = pronk.loads(pronk.dumps(model))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


def test_a_model_that_raises_has_learned_the_rows_before():
    class Fragile(Given):
        def partial_fit(self, X, y):
            if X[0, 1] > 0.99:
                raise RuntimeError("too much")
            return super().partial_fit(X, y)

    X, y = rows(60)
    X[:, 1] *= 0.9
    X[40, 1] = 1.0
    model = pronk.Intervals(Fragile())
    with pytest.raises(RuntimeError, match="too much"):
        model.partial_fit(X, y)
    assert model.n_seen_ == 40
    other = pronk.Intervals(Given()).partial_fit(X[:40], y[:40])
    np.testing.assert_allclose(
        model.predict_interval(X[:5]), other.predict_interval(X[:5]), rtol=1e-12, atol=0
    )
    X[50, 0] = np.inf
    model = pronk.Intervals(Given())
    with pytest.raises(ValueError, match=r"row 50 .* not finite"):
        model.partial_fit(X, y)
    assert model.n_seen_ == 50


def test_models_that_do_not_fit_are_refused():
    X, y = rows(20)
    for model, word in [
        (pronk.Intervals(SGDClassifier()), "Calibrated"),
        (pronk.Intervals(naive_bayes.GaussianNB()), "Calibrated"),
        (pronk.Calibrated(SGDRegressor()), "Intervals"),
        (pronk.Calibrated(river_regressor()), "Intervals"),
    ]:
        with pytest.raises(ValueError, match=word):
            model.partial_fit(X, np.where(y > 0, 1, 0))
        assert not model.__sklearn_is_fitted__()
    scaled = preprocessing.MinMaxScaler() | linear_model.LinearRegression()
    assert pronk.Intervals(scaled).predict_then_learn(X, y)[0] == 0.0  # NaN by river itself
    with pytest.raises(TypeError, match="learn_one"):
        pronk.Intervals(object()).partial_fit(X, y)


# -- what they are for -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scikit-learn", "river"])
def test_coverage_under_drift_and_wider_where_errors_are_larger(kind):
    X, y = rows(4000)
    y[2000:] = 5 - 4 * y[2000:]
    model = pronk.Intervals(REGRESSORS[kind]())
    _, ends = model.predict_then_learn(X, y, interval=0.9)
    covered = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert covered[300:].mean() == pytest.approx(0.9, abs=0.02)
    assert covered[3000:].mean() == pytest.approx(0.9, abs=0.03)
    widths = np.diff(ends)[:, 0]
    assert np.corrcoef(widths[500:2000], np.abs(X[500:2000, 1]))[0, 1] > 0.7


@pytest.mark.slow
def test_overconfident_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 1500)
    y = np.where(rng.uniform(size=1500) < 0.25, 1 - x, x)
    X = np.column_stack([x] * 5)
    for inner in (BernoulliNB(), Perceptron(), forest.AMFClassifier(3, seed=0)):
        model = pronk.Calibrated(inner).partial_fit(X[:1], y[:1], classes=[0, 1])
        shares = model.predict_then_learn(X[1:], y[1:], output="probability")[500:]
        right = shares[np.arange(len(shares)), y[501:]]
        assert -np.log(right).mean() < (0.7 if isinstance(inner, Perceptron) else 0.6)
        assert (shares > 0).all()
        sure = shares.max(axis=1)
        hit = shares.argmax(axis=1) == y[501:]
        assert sure.mean() == pytest.approx(hit.mean(), abs=0.04)


class BelowZero(GaussianNB):
    """Probabilities that sum to 1, of which some are below 0 and some above 1."""

    def predict_proba(self, X):
        P = super().predict_proba(X)
        return 1.5 * P - 0.5 / P.shape[1]


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_outside_0_and_1_are_calibrated(classes):
    X, y = labels(400, classes)
    model = pronk.Calibrated(BelowZero()).partial_fit(X, y, classes=np.unique(y))
    assert model.model_.predict_proba(X).min() < 0.0
    P = model.predict_proba(X)
    assert ((P >= 0.0) & (P <= 1.0)).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (np.abs(model.decision_function(X)) <= 1.0).all()


def table(n=120):
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"x": rng.normal(size=n), "c": rng.choice(list("abc"), n)})
    return X, X.x.to_numpy() + (X.c == "a")


def regressor():
    return pronk.PKAWVRegressor(random_state=0)


AROUND = {
    "intervals": lambda: pronk.Intervals(regressor()),
    "two intervals": lambda: pronk.Intervals(pronk.Intervals(regressor())),
    "around prepared": lambda: pronk.Intervals(pronk.Prepared(regressor())),
    "in prepared": lambda: pronk.Prepared(pronk.Intervals(regressor())),
    "calibrated": lambda: pronk.Calibrated(pronk.PKAWVClassifier(random_state=0)),
}


@pytest.mark.parametrize("name", AROUND)
def test_rows_wait_for_labels_with_a_wrapper(name, tmp_path):
    """Also before the first label, through a file, and with columns in another order."""
    X, y = table()
    y = np.where(y > 0, "a", "b") if name == "calibrated" else y
    pending, plain = pronk.Pending(AROUND[name]()), AROUND[name]()
    pending.predict(X[:60], range(60))
    pending.save(tmp_path / "model")
    pending = pronk.load(tmp_path / "model")
    pending.learn(range(60), y[:60])
    plain.partial_fit(X[:60], y[:60])
    answers = pending.predict(X[60:][["c", "x"]], range(60, 120))
    np.testing.assert_array_equal(answers, plain.predict(X[60:]))
    pending.save(tmp_path / "model")
    again = pronk.load(tmp_path / "model")
    assert again.learn(range(60, 120), y[60:]) == 60
    plain.partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(again.model.predict(X), plain.predict(X))


def test_rows_of_weight_0_are_predicted_by_a_model_of_another_library():
    X, y = np.random.default_rng(6).normal(size=(2, 60, 2))
    y, weights = y[:, 0], np.resize([1.0, 0.0, 1.0], 60)
    without = pronk.Intervals(SGDRegressor(random_state=0))
    P = pronk.Intervals(SGDRegressor(random_state=0)).predict_then_learn(
        X, y, sample_weight=weights
    )
    gaps = np.where(weights == 0.0, np.nan, y)
    np.testing.assert_array_equal(P, without.predict_then_learn(X, gaps))
    with pytest.raises(ValueError, match=r"does not turn rows into numbers"):
        pronk.Pending(without).predict(X, range(60))


@pytest.mark.parametrize("name", ["intervals", "around prepared", "in prepared", "calibrated"])
def test_a_wrapper_is_the_model_of_each_key(name, tmp_path):
    X, y = table()
    y = np.where(y > 0, "a", "b") if name == "calibrated" else y
    keyed = pronk.Keyed(AROUND[name](), by="c")
    plain = with_own_seeds(AROUND[name](), encode_key("a"))
    plain.partial_fit(X[X.c == "a"].drop(columns="c"), y[X.c == "a"])
    keyed.partial_fit(X, y).save(tmp_path / "models")
    again, row = pronk.load(tmp_path / "models"), {"c": "a", "x": 0.3}
    assert again.predict_one(row) == keyed.predict_one(row)
    if name == "intervals":
        assert plain.predict_one({"x": 0.3}) == keyed.predict_one(row)
        assert plain.predict_interval_one({"x": 0.3}) == again.predict_interval_one(row)


@pytest.mark.parametrize("classes", [2, 3])
def test_no_rows_have_outputs_of_the_shape_of_some_rows(classes):
    X, y = labels(100, classes)
    model = pronk.Calibrated(GaussianNB()).partial_fit(X, y)
    for output in ("label", "probability", "decision"):
        some = model.predict_then_learn(X[:2], y[:2], output=output)
        none = model.predict_then_learn(X[:0], y[:0], output=output)
        assert none.shape == (0, *some.shape[1:])


@pytest.mark.parametrize("inner", ["fogd", "prepared", "default"])
@pytest.mark.parametrize("labels", [False, True])
def test_a_call_that_is_stopped_after_the_inner_learner_has_learned_is_undone(
    monkeypatch, labels, inner
):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=700)
    y = (y > 0).astype(int) if labels else y
    kind = pronk.FOGDClassifier if labels else pronk.FOGDRegressor
    default = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    made = {
        "fogd": lambda: kind(random_state=0),
        "prepared": lambda: pronk.Prepared(kind(random_state=0)),
        "default": lambda: default(random_state=0),
    }[inner]
    wrapper, owner, name = (
        (pronk.Calibrated, pronk.Calibrated, "_calibrate")
        if labels
        else (pronk.Intervals, ErrorTracker, "learn")
    )
    model, twin = (wrapper(made()).partial_fit(X[:300], y[:300]) for _ in range(2))
    whole = getattr(owner, name)

    def stopped(*args):
        whole(*args)
        raise KeyboardInterrupt

    for rows in (slice(300, 303), slice(300, 600)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, stopped)
            with pytest.raises(KeyboardInterrupt):
                model.partial_fit(X[rows], y[rows])
        assert model.n_seen_ == model.model_.n_seen_ == 300
        assert pronk.dumps(model) == pronk.dumps(twin)
    model.partial_fit(X[300:], y[300:])
    assert pronk.dumps(model) == pronk.dumps(twin.partial_fit(X[300:], y[300:]))


@pytest.mark.parametrize("inside", [lambda learner: learner, pronk.Prepared])
def test_a_learner_with_a_delay_inside_is_refused(inside):
    """It would hold labels back that the wrapper has learned from."""
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    late = pronk.OnlineKernelRegressor(delay=4), pronk.OnlineKernelClassifier(delay=4)
    for wrapper, learner in zip((pronk.Intervals, pronk.Calibrated), late, strict=True):
        model = wrapper(inside(learner))
        with pytest.raises(ValueError, match=r"delay=4, but \w+ learns from each label at once"):
            model.predict_then_learn(X, y)
        assert not hasattr(model, "model_")
