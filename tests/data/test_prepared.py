"""`Prepared`: messy tables, the same results for every cut, and scikit-learn's interface."""

import contextlib
import copy
import datetime
import signal
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score

import pronk
from laws.interrupts import Lines, state_of
from pronk.columns.frames import layout_of
from pronk.columns.preparation import Times
from pronk.data import FileStream, Prepared

ROWS = 260


@pytest.fixture(scope="module")
def frame():
    """Numbers on odd scales, text, whole numbers as categories, booleans, times, dates."""
    rng = np.random.default_rng(0)
    time = pd.Timestamp("2024-02-27 21:30") + pd.to_timedelta(np.arange(ROWS) * 3457, unit="s")
    return pd.DataFrame(
        {
            "a": rng.normal(1e3, 50, ROWS),
            "city": rng.choice(["Rome", "Oslo", "Lima"], ROWS),
            "good": rng.integers(0, 2, ROWS).astype(bool),
            "time": time,
            "day": pd.Series(time.date),
            "b": rng.integers(0, 9, ROWS),
        }
    )


@pytest.fixture(scope="module")
def y(frame):
    turn = 2 * np.pi * frame["time"].dt.hour / 24
    return (np.sin(turn) + (frame["city"] == "Rome") + frame["a"] / 500).to_numpy()


def model(task="regression", **choices):
    return Prepared(pronk.make("fogd", task, random_state=0), **choices)


def test_columns_become_what_they_are(frame, y):
    fitted = model(slots=4).fit(frame, y)
    assert fitted.kinds_ == ["number", "category", "boolean", "time", "date", "number"]
    names = list(fitted.get_feature_names_out())
    assert names[:5] == ["a", "good", "b", "time#days", "day#days"]
    assert names[5:9] == ["city#0", "city#1", "city#2", "city#3"]
    assert len(names) == 5 + 4 + 6 + 4 == fitted.learner_.n_features_in_
    seen = fitted.transform(frame)
    assert seen.shape == (ROWS, len(names)) and np.abs(seen).max() <= 1.0
    assert fitted.n_seen_ == ROWS and fitted.n_features_in_ == 6


def test_times_are_the_hands_of_clocks_from_the_definition():
    moments = [datetime.datetime(2023, 12, 31, 18), datetime.datetime(2024, 3, 1, 6, 30)]
    epoch = datetime.datetime(1970, 1, 1)
    seconds = np.array([[(moment - epoch).total_seconds()] for moment in moments])
    days, circles = Times(["time"]).learn_transform(seconds)
    apart = (moments[1] - moments[0]).total_seconds() / 86400
    np.testing.assert_allclose(days[:, 0], [0, apart], rtol=1e-12, atol=0)
    for row, moment in enumerate(moments):
        hour = (moment.hour + moment.minute / 60) / 24
        week = (moment.weekday() + hour) / 7
        year = (moment.timetuple().tm_yday - 1 + hour) / 365.2425
        for place, turns in enumerate((hour, week, year)):
            angle = 2 * np.pi * turns
            expected = [0.5 * np.sin(angle), 0.5 * np.cos(angle)]
            np.testing.assert_allclose(circles[row, 2 * place :][:2], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", ["minmax", "standard", "robust", "none"])
def test_any_cut_gives_the_same(frame, y, scale):
    holes = frame.copy()
    holes.loc[::7, "a"] = np.nan
    holes.loc[3::11, "city"] = None
    holes.loc[:4, "time"] = pd.NaT
    choices = {"scale": scale, "missing": "mean", "encoding": "onehot", "slots": 3}
    whole = model(**choices)
    expected = whole.predict_then_learn(holes, y)
    cut, parts, start = model(**choices), [], 0
    for size in (1, 1, 5, 40, 13, 200):
        rows = slice(start, start + size)
        parts.append(cut.predict_then_learn(holes.iloc[rows], y[rows]))
        start += size
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(cut.predict(holes), whole.predict(holes), rtol=1e-10, atol=1e-10)


def test_frames_of_all_libraries_are_one(frame, y):
    polars = pytest.importorskip("polars")
    expected = model().fit(frame, y).predict(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for other in (table, table.to_batches()[0], polars.from_arrow(table)):
        fitted = model().fit(other, y)
        assert fitted.kinds_ == ["number", "category", "boolean", "time", "date", "number"]
        assert np.array_equal(fitted.predict(frame), expected)
    objects = frame.drop(columns=["time", "day"]).to_numpy()
    assert objects.dtype == object
    plain = model().fit(frame.drop(columns=["time", "day"]), y)
    assert np.array_equal(model().fit(objects, y).predict(objects), plain.predict(frame))


def test_columns_are_found_by_name(frame, y):
    fitted = model(missing="error").fit(frame, y)
    expected = fitted.predict(frame)
    moved = frame[list(reversed(frame.columns))].assign(more="text")
    assert np.array_equal(fitted.predict(moved), expected)
    with pytest.raises(ValueError, match="X has no column 'city'; did you mean 'cty'"):
        fitted.predict(frame.rename(columns={"city": "cty"}))
    with pytest.raises(ValueError, match=r"column 'a' has 'much' at row 2 .* not a number"):
        fitted.predict(frame.assign(a=[*"12", "much"] + ["3"] * (ROWS - 3)))
    with pytest.raises(ValueError, match=r"column 'a' is missing or NaN at row 5 .*missing='mean'"):
        fitted.predict(frame.assign(a=frame["a"].where(frame.index != 5)))


def test_a_refused_call_changes_nothing(frame, y):
    fitted = model().fit(frame, y)
    before = fitted.predict(frame)
    bad = y.copy()
    bad[-1] = np.inf
    with pytest.raises(ValueError, match="inf"):
        fitted.partial_fit(frame.assign(a=frame["a"] * 100), bad)
    assert np.array_equal(fitted.predict(frame), before) and fitted.n_seen_ == ROWS
    fresh = model()
    with pytest.raises(ValueError, match="inf"):
        fresh.partial_fit(frame, bad)
    assert not hasattr(fresh, "learner_") and not fresh.__sklearn_is_fitted__()


def test_a_fit_that_is_refused_leaves_the_old_model(frame, y):
    fitted = model().fit(frame, y)
    state = state_of(fitted)
    bad = np.where(np.arange(ROWS) == 200, np.inf, y)
    for X, labels in [
        (frame, bad),
        (frame.rename(columns={"a": "c"}), bad),
        (frame, y[:7]),
        (frame[:0], y[:0]),
        (frame, np.full(ROWS, np.nan)),
    ]:
        with pytest.raises(ValueError, match=r"X|y|label"):
            fitted.fit(X, labels)
        assert state_of(fitted) == state
    assert fitted.fit(frame[["a", "b"]], y).kinds_ == ["number", "number"]


@pytest.mark.thinned
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
@pytest.mark.parametrize("first", [40, 250])
def test_a_call_that_is_interrupted_leaves_the_state_of_before_or_after(frame, y, verb, first):
    """At lines spread over the whole call; the labels of some rows are missing."""
    later = np.where(np.arange(ROWS) % 3 == 0, np.nan, y)
    start = model().partial_fit(frame[:first], y[:first])
    before, done, lines = state_of(start), copy.deepcopy(start), Lines()
    lines.run(lambda: getattr(done, verb)(frame, later))
    after = state_of(done)
    assert after != before
    found = set()
    for at in np.linspace(1, lines.count, 15).astype(int):
        stopped = copy.deepcopy(start)
        Lines(int(at)).run(lambda stopped=stopped: getattr(stopped, verb)(frame, later))
        assert state_of(stopped) in (before, after)
        found.add(state_of(stopped) == before)
    assert True in found


def test_an_interrupt_in_the_conversion_of_a_frame_is_not_lost(frame, monkeypatch):
    """As NumPy does it where dtypes are compared, which pandas does for each attribute."""
    usual = pd.Series.__getattr__

    def compared(series, name):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return usual(series, name)

    monkeypatch.setattr(pd.Series, "__getattr__", compared)
    with pytest.raises(KeyboardInterrupt):
        layout_of(frame)


GAPS = np.isin(np.arange(ROWS), [0, 1, 7, *range(100, 150), ROWS - 1])


def words(y):
    return np.where(y > 2, "high", "low")


def with_gaps(labels):
    if labels.dtype.kind == "f":
        return np.where(GAPS, np.nan, labels)
    return [None if gap else label for gap, label in zip(GAPS, labels.tolist(), strict=True)]


LEARNERS = {
    "numbers": pronk.make("fogd", random_state=0),
    "default": pronk.OnlineKernelRegressor(budget=20, random_state=0),
    "text": pronk.make("ogd", "classification", random_state=0),
}


@pytest.mark.parametrize("case", LEARNERS)
def test_rows_without_a_label_are_predicted_and_not_learned(frame, y, case):
    learner, labels = LEARNERS[case], words(y) if case == "text" else y
    model, twin, gaps, expected = Prepared(learner), Prepared(learner), with_gaps(labels), []
    found = model.predict_then_learn(frame, gaps)
    for row in range(ROWS):
        one = frame[row : row + 1]
        if not GAPS[row]:
            expected.append(twin.predict_then_learn(one, labels[row : row + 1])[0])
        elif row < 2:
            expected.append(None if case == "text" else 0.0)
        else:
            expected.append(twin.predict(one)[0])
    if case == "text":
        assert found.tolist() == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert model.n_seen_ == twin.n_seen_ == ROWS - GAPS.sum()
    np.testing.assert_array_equal(model.transform(frame), twin.transform(frame))
    pieces = Prepared(learner)
    for start in range(0, ROWS, 13):
        pieces.partial_fit(frame[start : start + 13], gaps[start : start + 13])
    assert pieces.n_seen_ == model.n_seen_
    kept = Prepared(learner).fit(frame[~GAPS], labels[~GAPS])
    assert np.array_equal(kept.predict(frame), Prepared(learner).fit(frame, gaps).predict(frame))


def test_rows_without_a_label_have_intervals_and_probabilities(frame, y):
    regressor = Prepared(pronk.OnlineKernelRegressor(budget=20, random_state=0))
    values, ends = regressor.predict_then_learn(frame, with_gaps(y), interval=0.9)
    assert ends.shape == (ROWS, 2) and np.isnan(ends[:2]).all() and np.isfinite(ends[10:]).all()
    assert (ends[100:150, 0] < values[100:150]).all()
    labels = with_gaps(frame["city"].to_numpy())
    classifier = Prepared(pronk.OnlineKernelClassifier(budget=20, random_state=0))
    rest = frame.drop(columns="city")
    named, shares = classifier.predict_then_learn(rest, labels, output="both")
    assert shares.shape == (ROWS, 3) and np.isnan(shares[:2]).all()
    np.testing.assert_allclose(shares[10:].sum(axis=1), 1.0, rtol=0, atol=1e-12)
    known = classifier.classes_[shares[100:150].argmax(axis=1)]
    assert known.tolist() == named[100:150].tolist()
    with pytest.raises(ValueError, match=r"no label .* at row 0 .* output='decision'"):
        classifier.predict_then_learn(rest, labels, output="decision")


def test_scikit_learn_works_through_it(frame, y):
    label = np.where(y > np.median(y), "up", "down")
    for task, target in (("regression", y), ("classification", label)):
        estimator = model(task)
        assert is_classifier(estimator) == (task == "classification") != is_regressor(estimator)
        scores = cross_val_score(estimator, frame, target, cv=3)
        assert len(scores) == 3 and np.isfinite(scores).all()
        search = GridSearchCV(estimator, {"learner__eta": [0.01, 0.3], "slots": [4]}, cv=2)
        best = search.fit(frame, target).best_estimator_
        assert best.slots == 4 and best.score(frame, target) == search.score(frame, target)
        twin = clone(best)
        assert twin.get_params()["learner__eta"] == best.learner.eta
        assert not hasattr(twin, "learner_")


def test_it_is_never_poorer_than_what_it_wraps(frame, y):
    label = np.where(y > np.median(y), "up", "down")
    numbers = Prepared(pronk.OnlineKernelRegressor(random_state=0)).fit(frame, y)
    assert numbers.scaling_ == "none"
    assert numbers.predict_interval(frame, coverage=0.8).shape == (ROWS, 2)
    assert len(numbers.predict(frame, return_std=True)) == 2
    classes = Prepared(pronk.OnlineKernelClassifier(random_state=0)).fit(frame, label)
    assert classes.predict_proba(frame).shape == (ROWS, 2)
    assert classes.classes_.tolist() == ["down", "up"] and classes.size_ >= 0
    plain = model("classification")
    assert not hasattr(plain, "predict_proba") and not hasattr(numbers, "predict_proba")
    assert hasattr(plain, "decision_function") and not hasattr(plain, "predict_interval")


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_save_load_and_resume_equals_never_stopping(tmp_path, frame, y, task):
    target = y if task == "regression" else np.where(y > np.median(y), "up", "down")
    choices = {"missing": "mean", "encoding": "onehot", "slots": 5, "categorical": ("city", "b")}
    one = model(task, **choices).fit(frame[:150], target[:150])
    one.save(tmp_path / "m.pronk")
    other = pronk.load(tmp_path / "m.pronk")
    assert (
        type(other) is Prepared and other.get_params(False).keys() == one.get_params(False).keys()
    )
    assert other.kinds_ == one.kinds_ and repr(other) == repr(one)
    for rows in (slice(150, 160), slice(160, ROWS)):
        expected = one.predict_then_learn(frame[rows], target[rows])
        assert np.array_equal(other.predict_then_learn(frame[rows], target[rows]), expected)
    twin = copy.deepcopy(one)
    assert np.array_equal(twin.predict(frame), one.predict(frame))


def test_a_file_and_its_frame_are_the_same(tmp_path, frame, y):
    table = frame.assign(y=y, day=frame["day"].astype(str))
    table.to_csv(tmp_path / "d.csv", index=False)
    stream = FileStream(tmp_path / "d.csv", "y", categorical=["city"])
    assert stream.kinds == ["number", "category", "boolean", "time", "date", "number"]
    from_file = model(categorical=("city",)).with_columns(stream.columns, stream.kinds)
    for X, target in stream:
        from_file.partial_fit(X, target)
    from_frame = model(categorical=("city",)).fit(frame, y)
    told = from_frame.predict(frame)
    np.testing.assert_allclose(from_file.predict(frame), told, rtol=1e-9, atol=0)
    # The frame with its target and a text column that nobody needs is taken as it is.
    assert len(from_file.predict(table)) == ROWS


def test_what_cannot_be_a_column_is_refused(frame, y):
    with pytest.raises(ValueError, match="no column 'town'"):
        model(categorical=["town"]).fit(frame, y)
    with pytest.raises(ValueError, match="'city' is text; name it in categorical"):
        model(categorical=["b"]).fit(frame, y)
    with pytest.raises(ValueError, match="'c' is of type list"):
        model().fit(pa.table({"c": [[1], [2]]}), [1.0, 2.0])
    with pytest.raises(ValueError, match="missing must be one of"):
        model(missing="zero").fit(frame, y)


# -- one row at a time -----------------------------------------------------------------------------


def test_one_row_is_the_same_from_every_container(frame):
    """A frame of one row is read cell by cell, to the bits of the table it is part of."""
    polars = pytest.importorskip("polars")
    tall = frame.assign(
        clock=[datetime.time(i % 24, 3, 7, 11) for i in range(ROWS)],
        micro=frame["time"].astype("datetime64[us]"),
        group=frame["city"].astype("category"),
        whole=frame["b"].astype("Int64").where(frame.index % 5 > 0),
        gap=frame["a"].where(frame.index % 7 > 0),
    )
    layout = layout_of(tall)
    expected = layout.rows(tall)
    lazy = polars.from_pandas(tall)
    mixed = tall[list(reversed(tall.columns))].assign(more=1)
    records = [
        {name: None if value != value or value is pd.NA else value for name, value in row.items()}
        for row in tall.to_dict("records")
    ]
    for i in range(0, ROWS, 9):
        rows = slice(i, i + 1)
        for X in (tall[rows], lazy[rows], mixed[rows], pa.Table.from_pandas(tall[rows])):
            np.testing.assert_array_equal(layout.rows(X), expected[rows])
        np.testing.assert_array_equal(layout.rows(layout.row(records[i])), expected[rows])


@pytest.mark.parametrize("year", ["0001", "1600", "2300", "9999"])
def test_a_year_that_nanoseconds_do_not_reach(year):
    moments = np.array([f"{year}-01-02T03:00", f"{year}-02-03T04:00"], "datetime64[us]")
    both = pd.DataFrame({"time": moments, "a": [1.0, 2.0]})
    model = pronk.Prepared(pronk.FOGDRegressor(random_state=0)).partial_fit(both, [1.0, 2.0])
    single = [model.predict(both[i : i + 1])[0] for i in (0, 1)]
    np.testing.assert_allclose(single, model.predict(both), rtol=1e-12, atol=0)


def test_a_time_beyond_any_calendar_is_refused():
    model = pronk.Prepared(pronk.FOGDRegressor(random_state=0)).with_columns(None, ["time"])
    with pytest.raises(ValueError, match=r"column 0 has the time 1e\+30 at row 1 .*since 1970"):
        model.partial_fit([[0.0], [1e30]], [1.0, 2.0])
    assert not model.__sklearn_is_fitted__()


def test_one_row_that_is_odd_is_named_as_in_a_longer_frame(frame, y):
    fitted = model(missing="error").fit(frame, y)
    for name, value, words in [
        ("a", "x", "'a' has 'x' at row 0"),
        ("a", None, "'a' is missing or NaN at row 0"),
        ("a", np.inf, "inf at row 0"),
        ("time", True, "'time' has True"),
        ("a", 10**30, "too large"),
    ]:
        one = frame[:1].astype(object).assign(**{name: [value]})
        with pytest.raises(ValueError, match=words):
            fitted.predict(one)
    with pytest.raises(ValueError, match="no column 'city'"):
        fitted.predict(frame[:1].drop(columns="city"))
    row = frame[:1].to_dict("records")[0]
    with pytest.raises(ValueError, match="'a' is missing"):
        fitted.predict_one({**row, "a": None})
    with pytest.raises(ValueError, match="none of the columns"):
        fitted.predict_one({"nothing": 1})
    with pytest.raises(ValueError, match="no names: give a vector"):
        model().fit(frame[["a", "b"]].to_numpy(), y).predict_one({"a": 1.0})


def test_a_loop_makes_no_arrow_table(frame, y, monkeypatch):
    """It would cost several times what the learner does."""
    polars = pytest.importorskip("polars")
    fitted, ones = model().fit(frame, y), (frame[5:6], polars.from_pandas(frame)[5:6])

    def table(X):
        assert isinstance(X, np.ndarray), "a table would be made"

    monkeypatch.setattr("pronk.columns.frames.as_table", table)
    monkeypatch.setattr("pyarrow.table", table)
    for one in ones:
        fitted.predict(one)
        fitted.partial_fit(one, y[5:6])
    fitted.predict_one(frame.to_dict("records")[6])


def test_threads_wait_for_each_other(frame, y):
    fitted = model()

    def work(part):
        for i in range(part, ROWS, 4):
            if i:
                fitted.predict_one(rows[i])
            fitted.learn_one(rows[i], y[i])

    rows = frame.to_dict("records")
    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fitted.n_seen_ == ROWS
    a = fitted._columns.preparation.scaler
    assert a.least[0] == frame["a"].min() and a.largest[0] == frame["a"].max()


def test_a_stream_of_batches_is_read_once(frame, y):
    table = pa.Table.from_pandas(frame)
    streamed = model().partial_fit(table.to_reader(max_chunksize=50), y)
    assert state_of(streamed) == state_of(model().partial_fit(table, y))


@pytest.mark.parametrize("case", LEARNERS)
def test_a_loop_over_dicts_is_one_call(frame, y, case):
    labels = words(y) if case == "text" else y
    loop, once = Prepared(LEARNERS[case]), Prepared(LEARNERS[case])
    assert loop.predict_one({"a": 1.0}) == (None if case == "text" else 0.0)  # as a plain learner
    found = []
    for row, label in zip(frame.to_dict("records"), labels, strict=True):
        found.append(loop.predict_one(row))
        assert loop.learn_one(row, label) is loop
    expected = once.predict_then_learn(frame, labels)
    if case == "text":
        assert found[1:] == expected[1:].tolist()
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(loop.transform(frame), once.transform(frame))
    loop.learn_one(frame.to_dict("records")[0], None)  # no label: nothing to learn
    assert loop.n_seen_ == ROWS
    vector = Prepared(LEARNERS[case]).learn_one([1.0, 2.0], labels[0])
    assert vector.predict_one(np.array([1.0, 2.0])) == vector.predict([[1.0, 2.0]])[0]


def test_probabilities_of_one_row(frame, y):
    model = Prepared(pronk.OnlineKernelClassifier(budget=20, random_state=0))
    rows = frame.to_dict("records")
    assert model.predict_proba_one(rows[0]) == {}
    for row, label in zip(rows[:60], words(y), strict=False):
        model.learn_one(row, label)
    shares = model.predict_proba_one(rows[60])
    assert set(shares) == {"high", "low"} and sum(shares.values()) == pytest.approx(1.0)
    assert not hasattr(Prepared(pronk.KernelPerceptron()), "predict_proba_one")


@pytest.mark.parametrize("scale", ["minmax", "standard", "robust", "none"])
def test_what_predict_saw_of_a_row_is_what_learning_it_sees(frame, y, scale):
    """To the last bit, so that nothing of a row that is predicted and then learned is redone."""
    one, twin = model(scale=scale, missing="mean"), model(scale=scale, missing="mean")
    for i in range(100):
        row = frame[i : i + 1]
        if i:
            one.predict(row)
            one.transform(row)[:] = 7.0  # a copy
        one.partial_fit(row, y[i : i + 1])
        twin.partial_fit(row, y[i : i + 1])
    assert state_of(one) == state_of(twin)
    bulk = one._columns.transform(one._columns.encode(frame[100:150]))
    singles = [one.transform(frame[i : i + 1])[0] for i in range(100, 150)]
    np.testing.assert_array_equal(bulk, singles)


# -- frames of other kinds -------------------------------------------------------------------------


def test_an_empty_frame_has_an_empty_answer(frame, y):
    fresh = model()
    assert fresh.predict_then_learn(frame[:0], y[:0]).shape == (0,)
    assert not hasattr(fresh, "learner_") and fresh.partial_fit(frame[:0], []) is fresh
    fitted = model().fit(frame, y)
    state = state_of(fitted)
    assert fitted.predict(frame[:0]).shape == (0,)
    assert fitted.predict_then_learn(frame[:0], y[:0]).shape == (0,)
    with pytest.raises(ValueError, match="no column 'a'"):
        fitted.partial_fit(frame[:0].drop(columns="a"), [])
    with pytest.raises(ValueError, match="y has 1 rows but X has 0"):
        fitted.partial_fit(frame[:0], [1.0])
    assert state_of(fitted) == state
    classifier = Prepared(pronk.OnlineKernelClassifier(budget=20, random_state=0))
    named, shares = classifier.predict_then_learn(frame[:0], [], output="both")
    assert named.shape == (0,) and shares.shape == (0, 0)


def test_a_lazy_frame_is_refused_with_what_to_do(frame, y):
    polars = pytest.importorskip("polars")
    lazy = polars.from_pandas(frame[["a", "b"]]).lazy()
    for learner in (model(), pronk.FOGDRegressor(random_state=0)):
        with pytest.raises(ValueError, match=r"LazyFrame.*X.collect\(\)"):
            learner.fit(lazy, y)


def test_periods_are_the_dates_and_times_they_begin_with(y):
    hours = pd.date_range("2023-11-01", periods=ROWS, freq="h")
    for freq, kind in [("h", "time"), ("D", "date"), ("M", "date"), ("min", "time")]:
        frame = pd.DataFrame({"p": hours.to_period(freq)})
        begins = frame.assign(p=frame["p"].dt.to_timestamp())
        begins = begins.assign(p=begins["p"].dt.date) if kind == "date" else begins
        fitted, twin = model().fit(frame, y), model().fit(begins, y)
        assert fitted.kinds_ == [kind]
        for rows in (slice(0, 50), slice(7, 8)):
            assert np.array_equal(fitted.predict(frame[rows]), twin.predict(begins[rows]))


def test_a_column_without_a_value_in_the_first_rows(frame, y):
    rows = frame.to_dict("records")
    first = {**rows[0], "city": None}
    with pytest.warns(UserWarning, match="'city' has no value .* name it in categorical"):
        numbers = model(missing="mean").learn_one(first, y[0])
    with pytest.raises(ValueError, match="'city' has"):
        numbers.learn_one(rows[1], y[1])
    named = (
        model(categorical=["city"], missing="mean").learn_one(first, y[0]).learn_one(rows[1], y[1])
    )
    assert named.kinds_[1] == "category" and named.n_seen_ == 2
    polars = pytest.importorskip("polars")  # whose columns have a type without a value
    typed = polars.from_pandas(frame)[:2].with_columns(city=polars.Series([None, "Rome"]))
    fitted = model(missing="mean").partial_fit(typed[:1], y[:1]).partial_fit(typed[1:], y[1:2])
    assert fitted.kinds_[1] == "category"


@pytest.mark.parametrize("kind", [float, object])
def test_a_wild_label_after_a_missing_one_is_named_by_its_row_in_the_call(kind):
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.linspace(0.0, 1.0, 20).astype(kind)
    y[3], y[11] = (np.nan if kind is float else None), 1e300
    with pytest.raises(ValueError, match=r"y has 1e\+300 at row 11 "):
        pronk.Prepared(pronk.OnlineKernelRegressor()).partial_fit(X, y)


def test_lists_of_rows_and_of_dicts_are_read_as_frames(frame, y):
    expected = model().fit(frame, y)
    dicts = frame.to_dict("records")
    by_name = model().fit(dicts, y)
    assert by_name.kinds_ == expected.kinds_
    np.testing.assert_array_equal(by_name.predict(dicts), expected.predict(frame))
    moved = [dict(reversed(row.items())) for row in dicts]
    np.testing.assert_array_equal(by_name.predict(moved), expected.predict(frame))
    mixed = [[0.5 * i, "ab"[i % 2]] for i in range(40)]
    assert model().fit(mixed, y[:40]).kinds_ == ["number", "category"]


def test_amounts_in_a_frame_are_numbers(y):
    prices = pd.DataFrame({"price": [f"${1000 + i:,.2f}" for i in range(50)]})
    fitted = model().fit(prices, y[:50])
    assert fitted.kinds_ == ["number"]
    numbers = pd.DataFrame({"price": [1000.0 + i for i in range(50)]})
    np.testing.assert_array_equal(fitted.predict(prices), fitted.predict(numbers))
    with pytest.raises(ValueError, match=r"'price' has 'much' at row 0 .* not a number"):
        fitted.predict(pd.DataFrame({"price": ["much"]}))
