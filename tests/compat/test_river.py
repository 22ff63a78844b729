"""river's own checks, its evaluation and its pipelines, with pronk's learners."""

import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest

river = pytest.importorskip("river")
pd = pytest.importorskip("pandas")

from river import checks, datasets, evaluate, metrics, preprocessing  # noqa: E402

import pronk  # noqa: E402
from pronk.compat.river import wrap  # noqa: E402

LEARNERS = {
    "pkawv": pronk.PKAWVRegressor(random_state=0),
    "pkawv labels": pronk.PKAWVClassifier(features="fourier", n_features=20, random_state=0),
    "con-kons": pronk.ProsNKONSRegressor(restart=False, budget=20, random_state=0),
    "pros-n-kons, logistic": pronk.ProsNKONSClassifier(loss="logistic", budget=20, random_state=0),
    "fogd": pronk.FOGDRegressor(n_features=30, random_state=0),
    "perceptron": pronk.KernelPerceptron(budget=20, maintenance="random", random_state=0),
    "ogd": pronk.KernelOGDClassifier(loss="logistic", budget=20, maintenance="smallest"),
}


#: One learner per interface of river; the others are wrapped by the same code.
FIRST = ("pkawv", "pros-n-kons, logistic")


def all_checks():
    for name, learner in LEARNERS.items():
        model, found = wrap(learner), set()
        for i, check in enumerate(checks.yield_checks(model)):
            # Each check comes once per data set; the growth of memory takes seconds.
            again = check.__name__ in found and "memory" in check.__name__
            marks = [] if name in FIRST and not again else [pytest.mark.matrix]
            found.add(check.__name__)
            yield pytest.param(model, check, id=f"{name}-{check.__name__}-{i}", marks=marks)


@pytest.mark.filterwarnings("ignore:feature .* is ignored")
@pytest.mark.parametrize("model, check", list(all_checks()))
def test_rivers_checks(model, check):
    check(model.clone())


def test_progressive_validation_is_the_learner_itself():
    rows = list(datasets.TrumpApproval().take(300))
    model = wrap(pronk.PKAWVRegressor(pronk.Gaussian(2.0), random_state=0), spare=0)
    score = evaluate.progressive_val_score(rows, model, metrics.MAE()).get()
    X = np.array([[x[name] for name in sorted(x)] for x, _ in rows], dtype=float)
    y = np.array([target for _, target in rows])
    twin = pronk.PKAWVRegressor(pronk.Gaussian(2.0), random_state=0)
    predictions = np.zeros(len(y))
    for t in range(1, len(y)):
        twin.partial_fit(X[t - 1 : t], y[t - 1 : t])
        predictions[t] = twin.predict(X[t : t + 1])[0]
    assert score == pytest.approx(np.abs(predictions - y).mean(), rel=1e-12)


def test_a_pipeline_learns():
    learner = pronk.PKAWVClassifier(pronk.Gaussian(2.0), random_state=0)
    model = preprocessing.StandardScaler() | wrap(learner)
    score = evaluate.progressive_val_score(datasets.Phishing().take(500), model, metrics.Accuracy())
    assert score.get() > 0.8


def test_probabilities_where_the_learner_has_them():
    x, y = {"a": 1.0}, "yes"
    model = wrap(LEARNERS["pros-n-kons, logistic"])
    assert model.predict_proba_one(x) == {} and model.predict_one(x) is None
    model.learn_one(x, y)
    assert model.predict_proba_one(x) == {"yes": 1.0}
    model.learn_one({"a": -1.0}, "no")
    chances = model.predict_proba_one(x)
    assert set(chances) == {"no", "yes"} and sum(chances.values()) == pytest.approx(1)
    with pytest.raises(NotImplementedError, match="no probabilities"):
        wrap(pronk.PKAWVClassifier()).predict_proba_one(x)


def test_features_that_come_and_go():
    model = wrap(pronk.PKAWVRegressor(random_state=0), spare=1)
    model.learn_one({"b": 1.0, "a": 2.0}, 1.0)
    assert model.columns == {"a": 0, "b": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn_one({"c": 1.0}, 2.0)
    with pytest.warns(UserWarning, match=r"feature 'd' is ignored: all 3 columns are in use"):
        model.learn_one({"d": 1.0}, 2.0)
    assert model.columns == {"a": 0, "b": 1, "c": 2}
    assert model.predict_one({"a": 2.0, "d": 9.0}) == model.predict_one({"a": 2.0, "b": 0.0})
    assert model.fitted_learner.n_seen_ == 3


def test_waiting_columns_change_no_prediction():
    rng = np.random.default_rng(0)
    rows = [({"a": v[0], "b": v[1]}, float(v.sum())) for v in rng.normal(size=(200, 2))]
    few = wrap(pronk.PKAWVRegressor(random_state=0), spare=0)
    many = wrap(pronk.PKAWVRegressor(random_state=0), spare=30)
    for x, y in rows:
        assert few.predict_one(x) == pytest.approx(many.predict_one(x), abs=1e-9)
        few.learn_one(x, y)
        many.learn_one(x, y)


def test_declared_features_are_the_only_ones():
    model = wrap(pronk.PKAWVRegressor(features="taylor"), features=["a", "b"])
    model.learn_one({"b": 1.0, "c": 5.0}, 1.0)
    assert model.columns == {"a": 0, "b": 1} and model.fitted_learner.n_features_in_ == 2


def frames(n=400):
    """Frames of uneven length, whose columns come, go and change their order."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 4)), columns=list("dbca"))
    X.index = rng.permutation(n)
    y = pd.Series(np.sin(3 * X["a"]) + X["b"], index=X.index)
    cuts = [("ba", 1), ("abc", 7), ("cb", 2), ("dcba", 90), ("a", 1), ("bdac", 299)]
    start = 0
    for columns, length in cuts:
        yield X.iloc[start : start + length][list(columns)], y.iloc[start : start + length]
        start += length


def targets(model, y):
    if isinstance(model, river.base.Regressor):
        return y
    return pd.Series(np.array(["low", "middle", "high"])[np.digitize(y, [-0.4, 0.4])], y.index)


def assert_alike(first, second):
    assert len(first) == len(second)
    if isinstance(first[0], float):
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)
    else:
        assert first == second


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())
def test_a_frame_is_its_rows_one_after_the_other(learner):
    one, many = wrap(learner), wrap(learner)
    for X, y in frames():
        y, rows = targets(many, y), X.to_dict("records")
        predictions = many.predict_many(X)
        assert_alike(predictions.tolist(), [one.predict_one(x) for x in rows])
        assert list(predictions.index) == list(X.index)
        if hasattr(one.fitted_learner, "predict_proba"):
            chances = many.predict_proba_many(X)
            for x, row in zip(rows, chances.to_numpy().tolist(), strict=True):
                assert list(one.predict_proba_one(x)) == list(chances.columns)
                np.testing.assert_allclose(
                    list(one.predict_proba_one(x).values()), row, rtol=1e-9, atol=0
                )
        many.learn_many(X, y)
        for x, target in zip(rows, y.tolist(), strict=True):
            one.learn_one(x, target)
    assert one.columns == many.columns == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_a_frame_before_the_first_row():
    X = pd.DataFrame({"a": [1.0, 2.0]}, index=["u", "v"])
    assert wrap(LEARNERS["pkawv"]).predict_many(X).to_dict() == {"u": 0.0, "v": 0.0}
    model = wrap(LEARNERS["pros-n-kons, logistic"])
    assert model.predict_many(X).to_dict() == {"u": None, "v": None}
    assert model.predict_proba_many(X).shape == (2, 0)
    model.learn_many(X[:0], pd.Series([], dtype=str))  # no row, nothing learned
    assert model.columns == {} and model.predict_one({"a": 1.0}) is None
    model.learn_many(X, pd.Series(["yes", "yes"]))
    assert model.predict_proba_many(X).to_dict() == {"yes": {"u": 1.0, "v": 1.0}}
    assert len(model.predict_many(X[:0])) == len(model.predict_proba_many(X[:0])) == 0


def test_refused_rows_change_nothing():
    model = wrap(LEARNERS["pkawv"])
    model.learn_one({"a": 1.0}, 1.0)
    before = pickle.dumps(model)
    for x, y in [({"a": 1.0, "b": np.inf}, 1.0), ({"c": 1.0}, np.inf), ({"d": "text"}, 1.0)]:
        with pytest.raises(ValueError, match=r"NaN|inf|text"):
            model.learn_one(x, y)
        with pytest.raises(ValueError, match=r"NaN|inf|text"):
            model.learn_many(pd.DataFrame([x, x]), pd.Series([y, y]))
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="one label per row"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0]))
    assert pickle.dumps(model) == before


def test_text_in_a_feature_that_appears_late_names_the_remedy():
    model = wrap(LEARNERS["pkawv"])
    model.learn_one({"a": 1.0}, 1.0)
    late = {"a": 2.0, "b": "text"}
    words = r"feature 'b' has 'text'.*wrap\(pronk.Prepared\(learner, categorical=\['b'\]\), "
    words += r"features=\['a', 'b'\]\)"
    with pytest.raises(ValueError, match=words):
        model.learn_one(late, 1.0)
    for make in (pd.DataFrame, pa.Table.from_pylist):
        with pytest.raises(ValueError, match=words):
            model.learn_many(make([late]), np.ones(1))
    model = wrap(pronk.Prepared(LEARNERS["pkawv"], categorical=["b"]), features=["a", "b"])
    model.learn_one({"a": 1.0}, 1.0)
    model.learn_one(late, 1.0)


def test_a_pipeline_learns_frames():
    learner = pronk.PKAWVRegressor(random_state=0)
    model = preprocessing.StandardScaler() | wrap(learner)
    scaler, inside = preprocessing.StandardScaler(), wrap(learner)
    for X, y in frames():
        model.learn_many(X, y)
        scaler.learn_many(X)
        inside.learn_many(scaler.transform_many(X), y)
        predictions = inside.predict_many(scaler.transform_many(X))
        assert model.predict_many(X).tolist() == predictions.tolist()


def test_what_cannot_be_wrapped():
    with pytest.raises(TypeError, match="regressor or classifier"):
        wrap(object())
    with pytest.raises(ValueError, match="spare"):
        wrap(pronk.PKAWVRegressor(), spare=-1)


def test_the_wrapped_learner_stays_as_it_is():
    learner = pronk.PKAWVRegressor(random_state=0)
    model = wrap(learner)
    model.learn_one({"a": 1.0}, 1.0)
    assert not hasattr(learner, "n_seen_")
    assert model.clone().predict_one({"a": 1.0}) == 0.0


def test_a_prepared_learner_takes_rows_as_they_come():
    import datetime

    import pandas as pd

    from pronk import Prepared

    rng = np.random.default_rng(0)
    rows = [
        {
            "city": str(rng.choice(["Rome", "Oslo"])),
            "time": datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=i),
            "a": None if i % 9 == 4 else float(rng.normal()),
        }
        for i in range(120)
    ]
    y = [float(row["city"] == "Rome") + row["time"].hour / 24 for row in rows]
    learner = Prepared(pronk.make("fogd", random_state=0), missing="mean")
    single, many = wrap(learner), wrap(learner)
    predictions = []
    for row, target in zip(rows, y, strict=True):
        predictions.append(single.predict_one(row))
        single.learn_one(row, target)
    frame = pd.DataFrame(rows)
    many.learn_many(frame, pd.Series(y))
    np.testing.assert_allclose(
        many.predict_many(frame), single.predict_many(frame), rtol=1e-9, atol=1e-9
    )
    expected = Prepared(pronk.make("fogd", random_state=0), missing="mean").predict_then_learn(
        frame[sorted(frame.columns)], y
    )
    np.testing.assert_allclose(predictions, expected, rtol=1e-9, atol=1e-9)
    assert single.predict_one({"city": "Rome"}) != single.predict_one({"city": "Oslo"})
    with pytest.warns(UserWarning, match="'more' is ignored"):
        single.learn_one({**rows[0], "more": 1}, y[0])
    labels = wrap(Prepared(pronk.make("fogd", "classification", random_state=0), missing="mean"))
    for row, target in zip(rows, y, strict=True):
        labels.learn_one(row, target > 0.7)
    assert labels.predict_one(rows[0]) in (True, False)


def test_probabilities_of_a_prepared_learner_from_the_first_call_on():
    learner = pronk.Prepared(pronk.OnlineKernelClassifier(budget=20, random_state=0))
    model = wrap(learner)
    row = {"city": "Rome", "a": 1.0}
    frame = pd.DataFrame([row, row], index=["u", "v"])
    assert model.predict_proba_one(row) == {} and model.predict_one(row) is None
    assert model.predict_proba_many(frame).shape == (2, 0)
    model.learn_one(row, "yes")
    assert model.predict_proba_one(row) == {"yes": 1.0}
    model.learn_one({"city": "Oslo", "a": 3.0}, "no")
    assert set(model.predict_proba_one(row)) == {"yes", "no"}
    assert model.predict_proba_many(frame).shape == (2, 2)


@pytest.mark.parametrize("prepared", [False, True])
def test_frames_of_all_libraries(prepared):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (200, 3)), columns=list("cab"))
    if prepared:
        X["city"] = np.where(X["a"] > 0, "Rome", "Oslo")
    y = pd.Series(np.where(X["a"] * X["b"] > 0, "same", "other"))
    learner = pronk.OnlineKernelClassifier(budget=20, random_state=0)
    found = {}
    for name, frame, labels in [
        ("pandas", X, y),
        ("polars", polars.from_pandas(X), polars.Series(y.tolist())),
        ("pyarrow", pyarrow.Table.from_pandas(X), pyarrow.array(y.tolist())),
    ]:
        model = wrap(pronk.Prepared(learner) if prepared else learner)
        before = model.predict_many(frame[:3])
        assert type(before).__module__.startswith(name) and len(before) == 3
        model.learn_many(frame, labels)
        answer, shares = model.predict_many(frame), model.predict_proba_many(frame)
        assert type(answer).__module__.startswith(name)
        assert type(shares).__module__.startswith(name)
        values = answer.to_pylist() if name == "pyarrow" else list(answer)
        found[name] = values, np.column_stack([np.asarray(shares[c]) for c in ("other", "same")])
    for values, shares in found.values():
        assert values == found["pandas"][0]
        np.testing.assert_array_equal(shares, found["pandas"][1])
