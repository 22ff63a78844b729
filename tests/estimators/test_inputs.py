"""Rows as arrays, frames, tables and sparse matrices; errors that name argument, row and column."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

import pronk
from pronk import KernelAWVRegressor, Linear, PKAWVClassifier, PKAWVRegressor, Polynomial


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, np.sin(X[:, 0])


AROUND = {"regression": pronk.Intervals, "classification": pronk.Calibrated}
FORMS = {
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32).astype(np.float64),
    "pandas": lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b", "c"]),
    "arrow table": lambda X: pa.table({name: X[:, i] for i, name in enumerate("abc")}),
    "arrow batch": lambda X: pa.record_batch({name: X[:, i] for i, name in enumerate("abc")}),
    "csr": sparse.csr_matrix,
    "csr array": sparse.csr_array,
    "csc": sparse.csc_matrix,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_rows_gives_the_same(data, form):
    X, y = data
    convert = FORMS[form]
    dense = np.asarray(X.astype(np.float32), dtype=np.float64) if form == "float32" else X
    expected = PKAWVRegressor(random_state=0).predict_then_learn(dense, y)
    learner = PKAWVRegressor(random_state=0)
    first = learner.predict_then_learn(convert(X[:50]), pd.Series(y[:50]))
    second = learner.predict_then_learn(convert(X[50:]), list(y[50:]))
    np.testing.assert_allclose(np.concatenate((first, second)), expected, rtol=0, atol=1e-12)
    named = form in ("pandas", "polars", "arrow table", "arrow batch")
    assert hasattr(learner, "feature_names_in_") == named
    assert learner.predict(convert(X)).shape == (80,)


def test_a_long_sparse_matrix_is_densified_in_pieces(data, monkeypatch):
    X = sparse.random(5000, 40, density=0.05, random_state=np.random.default_rng(0), format="csr")
    y = np.asarray(X.sum(axis=1)).ravel()
    expected = PKAWVRegressor("linear", features="nystrom").predict_then_learn(X.toarray(), y)
    largest = []
    original = sparse.csr_matrix.toarray

    def watched(self, *args, **kwargs):
        largest.append(self.shape[0])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_matrix, "toarray", watched)
    learner = PKAWVRegressor("linear", features="nystrom", random_state=None)
    learner.random_state = 0
    got = learner.predict_then_learn(X, y)
    assert got.shape == expected.shape
    assert max(largest) <= 2048


def _without_day(rows):
    return rows.drop(columns="day") if isinstance(rows, pd.DataFrame) else rows.drop("day")


def test_text_dates_and_gaps_are_prepared(data):
    """The same rows in every container give the same bits; numbers stay as they are."""
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["city"] = np.resize(["Rome", "Oslo", "Bonn"], 80)
    frame["day"] = pd.date_range("2024-01-01", periods=80)
    frame.loc[7, "city"], frame.loc[9, "b"] = None, np.nan
    table = pa.Table.from_pandas(frame, preserve_index=False)
    learner = PKAWVRegressor(random_state=0)
    expected = clone(learner).predict_then_learn(frame, y)
    shuffled = frame[["day", "c", "city", "a", "b"]]
    for rows in (pl.from_pandas(frame), table, table.to_batches()[0], frame.to_dict("records")):
        np.testing.assert_array_equal(clone(learner).predict_then_learn(rows, y), expected)
    model = learner.partial_fit(frame[:40], y[:40])
    np.testing.assert_array_equal(model.predict(shuffled[40:]), model.predict(frame[40:]))
    kinds = {one["name"]: one["kind"] for one in model.columns_}
    assert kinds == {"a": "number", "b": "number", "c": "number", "city": "category", "day": "time"}
    with pytest.raises(ValueError, match="no column 'city'; did you mean 'cities'"):
        model.predict(frame.rename(columns={"city": "cities"}))
    with pytest.raises(ValueError, match="column 'a' has 'far' at row 0"):
        model.partial_fit(frame[:1].assign(a="far"), y[:1])
    assert model.n_seen_ == 40
    codes = model.encode(frame[40:])
    np.testing.assert_array_equal(model.predict(codes), model.predict(frame[40:]))


def test_a_gap_is_the_mean_of_its_column_so_far(data):
    X, y = data
    holes, filled = X.copy(), X.copy()
    for row, column in ((0, 1), (17, 0), (18, 0), (79, 2)):
        holes[row, column] = np.nan
        earlier = holes[:row, column]
        filled[row, column] = np.nanmean(earlier) if row else 0.0
    for learner in (PKAWVRegressor(features="taylor"), pronk.FOGDRegressor(random_state=0)):
        expected = clone(learner).predict_then_learn(filled, y)
        found = clone(learner).predict_then_learn(holes, y)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        one = clone(learner)
        single = [one.predict_then_learn(holes[i : i + 1], y[i : i + 1])[0] for i in range(80)]
        np.testing.assert_allclose(single, expected, rtol=0, atol=1e-12)
    spoiled = sparse.csr_matrix(X)
    spoiled[6, 2] = np.inf
    with pytest.raises(ValueError, match="inf at row 6, column 2"):
        PKAWVRegressor().predict_then_learn(spoiled, y)


def test_a_row_without_a_label_is_predicted_and_not_learned(data):
    X, y = data
    known = np.arange(80) % 4 != 2
    labels = np.where(y > 0, "up", "down").astype(object)
    for learner, own in (
        (PKAWVRegressor(features="taylor"), y),
        (pronk.DualSGDRegressor(random_state=0), y),
        (PKAWVClassifier(random_state=0), labels),
        (pronk.KernelPerceptron(), labels),
        (pronk.AIOLIClassifier(random_state=0), labels),
    ):
        given = np.where(known, own, np.nan if own is y else None)
        found = clone(learner).predict_then_learn(X, given)
        one, expected = clone(learner), []
        for i in range(80):
            if known[i]:
                own_type = own[i : i + 1] if own is y else own[i : i + 1].astype(str)
                expected.append(one.predict_then_learn(X[i : i + 1], own_type)[0])
            else:
                expected.append(one.predict(X[i : i + 1])[0])
        if own is y:
            np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=0, atol=1e-10)
        else:
            assert found.tolist() == expected
        weighted = clone(learner).predict_then_learn(
            X, own if own is y else own.astype(str), sample_weight=np.where(known, 1.0, 0.0)
        )
        assert (weighted[1:] == found[1:]).all()
        nothing = clone(learner).predict_then_learn(X[2:3], given[2:3])
        assert nothing[0] in (0.0, None)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3, 1.0)])
def test_rows_that_overflow_an_unbounded_kernel_are_refused(data, kernel):
    X, y = data
    X = X.copy()
    X[11] = 1e100
    learner = KernelAWVRegressor(kernel).partial_fit(X[:5], y[:5])
    with pytest.raises(ValueError, match="overflow at row 11"):
        learner.predict_then_learn(X, y)
    assert learner.n_seen_ == 5


def test_a_refused_row_leaves_no_columns_behind():
    learner = pronk.make("pkawv-nystrom", random_state=0)
    with pytest.raises(ValueError, match="inf"):
        learner.learn_one({"a": np.inf}, 1.0)
    learner.learn_one({"b": 1.0}, 1.0)
    with pytest.raises(ValueError, match="x has none of the columns b"):
        learner.learn_one({"a": 1.0}, 1.0)


def test_one_row_as_a_dict_or_a_vector():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] * X[:, 1]
    expected = PKAWVRegressor(features="taylor").predict_then_learn(X, y)
    by_dict, by_vector = PKAWVRegressor(features="taylor"), PKAWVRegressor(features="taylor")
    for i in range(60):
        row = {"a": X[i, 0], "b": X[i, 1]} if i % 2 else {"b": X[i, 1], "a": X[i, 0]}
        if i == 0:
            row = {"a": X[i, 0], "b": X[i, 1]}
        assert by_dict.predict_one(row) == pytest.approx(expected[i], abs=1e-12)
        assert by_vector.predict_one(X[i]) == pytest.approx(expected[i], abs=1e-12)
        by_dict.learn_one(row, y[i])
        by_vector.learn_one(X[i], y[i])
    filled = {"a": 1.0, "b": float(np.mean(X[:, 1]))}  # an absent key is a gap
    assert by_dict.predict_one({"a": 1.0}) == pytest.approx(by_dict.predict_one(filled), abs=1e-12)
    with pytest.raises(ValueError, match="x has no column 'b'; did you mean 'bb'"):
        by_dict.predict_one({"a": 1.0, "bb": 2.0})
    classifier = PKAWVClassifier()
    assert classifier.predict_one({"a": 1.0}) is None
    classifier.learn_one({"a": 1.0}, "yes")
    assert classifier.predict_one({"a": 1.0}) == "yes"


def test_several_outputs_and_their_number():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(50, 2)), rng.normal(size=(50, 3))
    learner = PKAWVRegressor(features="taylor")
    together = learner.predict_then_learn(X, Y)
    for o in range(3):
        alone = PKAWVRegressor(features="taylor").predict_then_learn(X, Y[:, o])
        np.testing.assert_allclose(together[:, o], alone, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="3"):
        learner.predict_then_learn(X, Y[:, :2])
    assert learner.predict(X).shape == (50, 3)


def test_names_and_registry():
    assert set(pronk.__all__) <= set(dir(pronk))
    with pytest.raises(AttributeError):
        pronk.Nonsense  # noqa: B018
    with pytest.raises(ValueError, match="pkawv-taylor"):
        pronk.make("pkawv-tailor")
    with pytest.raises(ValueError, match="task"):
        pronk.make("pkawv-taylor", "clustering")
    for name, algorithm in pronk.algorithms().items():
        for task in algorithm.tasks:
            assert pronk.make(name, task).get_params()["kernel"] is not None
        assert algorithm.paper and algorithm.time and algorithm.memory


def test_an_import_loads_neither_scikit_learn_nor_pyarrow_nor_a_compiler():
    import subprocess
    import sys

    code = (
        "import sys, pronk; pronk.__version__; "
        "print([m for m in ('sklearn', 'pyarrow', 'numba', 'scipy', 'numpy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_dictionary_that_grows_with_every_row_warns_once(monkeypatch):
    monkeypatch.setattr("pronk.estimators.estimator.MANY_POINTS", 50)
    X = 1000.0 * np.random.default_rng(1).normal(size=(200, 2))  # columns as they come
    learner = PKAWVRegressor(random_state=0).partial_fit(X[:20], X[:20, 0])
    with pytest.warns(UserWarning, match="budget="):
        learner.partial_fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.partial_fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [2.0], [3.0]], ["1", "b", "3"], "y must hold numbers, got 'b' at row 1"),
        ([[1.0, 2.0], [1.0]], [1.0, 2.0], "X has 1 values at row 1 .* and 2 at row 0"),
        (pd.Series([1.0, 2.0]), [1.0, 2.0], "X has one dimension"),
        (iter([[1.0]]), [1.0], "X must be an array, a frame or a list of rows, got list_iterator"),
        ({(1.0,), (2.0,)}, [1.0, 2.0], "X must be an array, .* got set"),
        ([[1.0], [2.0]], pd.date_range("2024", periods=2), "y has dates or durations"),
        ([[1.0], [2.0]], [np.nan, np.nan], "y has no label: there is nothing to learn"),
    ],
)
def test_errors_name_what_is_wrong_and_where(X, y, message):
    with pytest.raises(ValueError, match=message):
        pronk.FOGDRegressor().fit(X, y)


def test_a_classifier_without_labels_says_so():
    with pytest.raises(ValueError, match="y has no label: there is nothing to learn"):
        pronk.FOGDClassifier().fit([[1.0], [2.0]], [None, None])


def test_masked_values_are_missing():
    X = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], mask=[[0, 0], [0, 1], [0, 0]])
    y = [1.0, 2.0, 3.0]
    masked, filled = (
        pronk.FOGDRegressor(random_state=0).predict_then_learn(rows, y)
        for rows in (X, X.filled(np.nan))
    )
    assert np.array_equal(masked, filled)


def test_masked_labels_are_missing_and_masked_weights_are_refused():
    X = np.random.default_rng(0).normal(size=(6, 2))
    mask = np.arange(6) == 3
    kinds = {
        "regression": ([X[:, 0], np.arange(6), X[:, 0].astype(np.float32)], [np.nan]),
        "classification": ([np.array(list("ababab")), np.arange(6) % 2, X[:, 0] > 0], [None]),
    }
    for kind, (targets, (missing,)) in kinds.items():
        for y in targets:
            masked = np.ma.masked_array(y, mask=mask)
            gaps = [missing if left_out else one for one, left_out in zip(y, mask, strict=True)]
            for make in (lambda model: model, pronk.Keyed, AROUND[kind]):
                made = [make(pronk.make("fogd", kind, random_state=0)) for _ in range(2)]
                keys = {"keys": ["a"] * 6} if make is pronk.Keyed else {}
                for model, given in zip(made, (masked, gaps), strict=True):
                    model.partial_fit(X, given, **keys)
                assert [model.n_seen_ for model in made] == [5, 5]
                assert np.array_equal(*(model.predict(X, **keys) for model in made))
            pending = pronk.Pending(pronk.make("fogd", kind, random_state=0))
            pending.predict(X, range(6))
            assert pending.learn(range(6), masked) == 5 and pending.ids == [3]
    with pytest.raises(ValueError, match="sample_weight has NaN at row 3"):
        pronk.FOGDRegressor().fit(X, X[:, 0], np.ma.masked_array(np.ones(6), mask=mask))
    with pytest.raises(ValueError, match="times has NaN at row 3"):
        pronk.OnlineKernelRegressor().fit(
            X, X[:, 0], times=np.ma.masked_array(np.arange(6), mask=mask)
        )


def test_text_beside_other_labels_and_gaps_is_refused():
    X = np.zeros((3, 1))
    model = pronk.FOGDClassifier(random_state=0)
    pending = pronk.Pending(model)
    pending.predict(X, range(3))
    for y in (["a", 1, None], ["a", 1, "b"], np.array(["a", True, None], dtype=object)):
        for call in (lambda y=y: model.partial_fit(X, y), lambda y=y: pending.learn(range(3), y)):
            with pytest.raises(ValueError, match="y mixes text and other labels"):
                call()


def test_numbers_beside_text_are_categories_in_every_container():
    values = [1.0, "x", 2.0] * 9
    y = np.arange(27.0)
    frame, rows = pd.DataFrame({"a": values}), [[value] for value in values]
    made = [pronk.OnlineKernelRegressor(random_state=0, experts="few") for _ in range(2)]
    got, wanted = (
        model.predict_then_learn(X, y) for model, X in zip(made, (frame, rows), strict=True)
    )
    assert made[0].columns_[0]["kind"] == "category"
    assert np.array_equal(got, wanted)


def test_categories_of_polars_with_gaps_are_those_of_text():
    text = pl.DataFrame({"c": ["x", None, "y"] * 9})
    y = np.arange(27.0)
    got, wanted = (
        pronk.OnlineKernelRegressor(random_state=0, experts="few").predict_then_learn(X, y)
        for X in (text.cast(pl.Categorical), text)
    )
    assert np.array_equal(got, wanted)
