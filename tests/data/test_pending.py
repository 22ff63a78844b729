"""`Pending`: rows that are predicted now and learned when their labels arrive."""

import copy
import pickle
import threading

import numpy as np
import pandas as pd
import pytest

import pronk
from laws.interrupts import Lines, state_of
from pronk import Pending
from pronk.estimators import files

ROWS = 120
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 3)) * [1, 100, 1]
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    city=rng.choice(["Rome", "Oslo", "Lima"], ROWS),
    time=pd.date_range("2024-01-01", periods=ROWS, freq="h"),
)
Y = np.sin(X[:, 0]) + (FRAME["city"] == "Rome").to_numpy()
LABELS = np.where(Y > 0.5, "high", "low")
IDS = [f"order {i}" for i in range(ROWS)]
LEARNERS = {
    "plain": lambda: pronk.FOGDRegressor(random_state=0),
    "labels": lambda: pronk.PKAWVClassifier(random_state=0),
    "default": lambda: pronk.Prepared(pronk.OnlineKernelRegressor(budget=20, random_state=0)),
    "scaled": lambda: pronk.Prepared(pronk.make("ogd", random_state=0)),
}
every = pytest.mark.parametrize("case", LEARNERS)


def rows_of(case):
    return FRAME if case in ("default", "scaled") else X


def labels_of(case):
    return LABELS if case == "labels" else Y


def test_limits_and_ids_that_are_refused():
    for limit in (0, 2.5, True, "x"):
        with pytest.raises(ValueError, match="limit must be a whole number, at least 1"):
            Pending(LEARNERS["plain"](), limit=limit)
    with pytest.raises(ValueError, match="id 99999 is given twice"):  # in no time
        Pending(LEARNERS["plain"]()).learn([*range(100_000), 99_999], np.zeros(100_001))


@every
def test_it_is_the_model_that_learns_the_rows_as_their_labels_come(case):
    """The same as predict and partial_fit by hand, in batches of any size and order of labels.

    The default learner was not fitted when the rows were predicted: it has read nothing.
    """
    rows, labels = rows_of(case), labels_of(case)
    pending, twin = Pending(LEARNERS[case]()), LEARNERS[case]()
    order = np.random.default_rng(1).permutation(100)
    first = pending.predict(rows[:100], IDS[:100])
    assert first.tolist() == [None if case == "labels" else 0.0] * 100
    for cut in np.split(order, [1, 2, 30, 31, 77]):
        assert pending.learn([IDS[i] for i in cut], labels[cut]) == len(cut)
        twin.partial_fit(rows.iloc[cut] if rows is FRAME else rows[cut], labels[cut])
        found = pending.predict(rows[100:], [f"{cut[0]}-{i}" for i in range(ROWS - 100)])
        np.testing.assert_array_equal(found, twin.predict(rows[100:]))
    assert pending.model.n_seen_ == 100 and not any(name in pending for name in IDS)
    if rows is FRAME:
        assert state_of(pending.model) == state_of(twin)


def test_one_row_after_the_other():
    pending, twin = Pending(LEARNERS["scaled"]()), LEARNERS["scaled"]()
    plain = Pending(pronk.FOGDRegressor(random_state=0))
    for i, row in enumerate(FRAME.to_dict("records")):
        expected = twin.predict_one(row)
        assert pending.predict_one(row, i) == pytest.approx(expected, rel=1e-9)
        assert pending.learn_one(i, Y[i]) == 1
        twin.learn_one(row, Y[i])
        numbers = {name: row[name] for name in ("abc" if i % 2 else "cba")}
        assert isinstance(plain.predict_one(numbers, i), float)
        plain.learn_one(i, Y[i])
    ordered = pronk.FOGDRegressor(random_state=0).fit(X[:, ::-1], Y)  # as the keys of the first
    found, expected = (one.predict(X[:, ::-1]) for one in (plain.model, ordered))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_ids_that_do_not_wait_and_labels_that_are_missing():
    pending = Pending(LEARNERS["plain"]())
    pending.predict(X[:10], np.arange(10))
    with pytest.raises(ValueError, match="id 3 is already pending"):
        pending.predict(X[10:12], [10, 3])
    with pytest.raises(ValueError, match="id 7 is given twice"):
        pending.predict(X[:2], [7, 7])
    with pytest.raises(ValueError, match="3 ids for 2 rows"):
        pending.predict(X[:2], [20, 21, 22])
    with pytest.raises(ValueError, match=r"text or whole numbers, got 0\.5"):
        pending.predict(X[:1], [0.5])
    with pytest.raises(ValueError, match="inf at row 0"):
        pending.predict(np.full((1, 3), np.inf), [30])
    with pytest.raises(ValueError, match=r"id 99 is not pending: .* unknown='skip'"):
        pending.learn([1, 99], [0.5, 0.5])
    with pytest.raises(ValueError, match="inf"):
        pending.learn([1, 2], [0.5, np.inf])
    assert pending.ids == list(range(10)) and not pending.model.__sklearn_is_fitted__()
    assert pending.learn([1, 99, 2, 3], [0.5, 0.5, None, 0.25], unknown="skip") == 2
    assert pending.ids == [0, 2, 4, 5, 6, 7, 8, 9] and pending.model.n_seen_ == 2
    assert pending.discard([0, 2, 77]) == 2 and len(pending) == 6
    assert pending.predict(X[:0], []).shape == (0,) and pending.learn([], []) == 0


def test_the_oldest_expire_and_are_counted():
    pending = Pending(LEARNERS["plain"](), limit=50)
    for start in range(0, ROWS, 20):
        pending.predict(X[start : start + 20], range(start, start + 20))
    assert pending.ids == list(range(70, ROWS)) and pending.expired == 70
    with pytest.raises(ValueError, match="has expired"):
        pending.learn([69], [1.0])
    with pytest.raises(ValueError, match="limit must be a whole number"):
        Pending(LEARNERS["plain"](), limit=0)


@every
@pytest.mark.parametrize("learned", [0, 60])
@pytest.mark.parametrize("way", ["save", "pickle", "deepcopy"])
def test_what_waits_is_saved_with_the_model(tmp_path, case, learned, way):
    rows, labels = rows_of(case), labels_of(case)
    pending = Pending(LEARNERS[case](), limit=90)
    pending.predict(rows[:100], IDS[:100])
    if learned:
        pending.learn(IDS[10:70], labels[10:70])
    if way == "save":
        pending.save(tmp_path / "pending.pronk")
        again = pronk.load(tmp_path / "pending.pronk")
    else:
        again = pickle.loads(pickle.dumps(pending)) if way == "pickle" else copy.deepcopy(pending)
    assert again.ids == pending.ids and (again.limit, again.expired) == (90, 10)
    for one in (pending, again):
        one.learn(IDS[70:100], labels[70:100])
    np.testing.assert_array_equal(
        again.predict(rows[100:], IDS[100:]), pending.predict(rows[100:], IDS[100:])
    )


@pytest.mark.parametrize(
    "entry, value",
    [
        ("ids", ["a"]),
        ("ids", "abc"),
        ("ids", [1.5] * 5),
        ("ids", ["a"] * 5),
        ("rows", None),
        ("rows", np.zeros((5, 9))),
        ("rows", np.full((5, 3), np.inf)),
        ("expired", -1),
        ("model", {}),
        ("model", None),
        ("layout", {"names": None, "kinds": ["number"] * 3}),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, entry, value):
    pending = Pending(LEARNERS["plain"]())
    pending.predict(X[:10], IDS[:10])
    pending.learn(IDS[:5], Y[:5])
    state = pending._fitted_state()
    pending._fitted_state = lambda: {**state, entry: value}
    (tmp_path / "edited.pronk").write_bytes(files.to_bytes(pending))
    with pytest.raises(pronk.ModelFileError):
        pronk.load(tmp_path / "edited.pronk")


def test_a_column_whose_name_is_no_text_is_refused():
    pending = Pending(pronk.Prepared(LEARNERS["plain"]()))
    pending.predict(pd.DataFrame(X[:5], columns=["a", "b", "c"]), IDS[:5])
    state = pending._fitted_state()
    state["model"]["state"]["layout"]["names"] = ["a", True, "c"]
    with pytest.raises(ValueError, match="names must be text"):
        Pending(None)._restore(state)


@pytest.mark.parametrize(
    "entry, change",
    [
        ("places", lambda old: old[:-1]),
        ("places", lambda old: [7, *old[1:]]),
        ("places", lambda old: [-1, *old[1:]]),
        ("records", lambda old: []),
        ("records", lambda old: [old[0][:, :-1]]),
        ("records", lambda old: [np.full_like(old[0], np.nan)]),
        ("records", lambda old: [old[0].astype(np.float32)]),
        ("meanings", lambda old: [[old[0][0], [["a", "b", "c"], False]]]),
        ("meanings", lambda old: [[[2, *old[0][0][1:]], None]]),
        ("meanings", lambda old: [None]),
    ],
)
def test_a_file_with_damaged_records_is_refused(tmp_path, entry, change):
    pending = Pending(LEARNERS["default"]())
    pending.model.partial_fit(FRAME[:60], Y[:60])
    pending.predict(FRAME[60:80], IDS[60:80])
    state = pending._fitted_state()
    assert [len(values) for values in state["records"]] == [20] and set(state["places"]) == {0}
    pending._fitted_state = lambda: {**state, entry: change(state[entry])}
    (tmp_path / "edited.pronk").write_bytes(files.to_bytes(pending))
    with pytest.raises(pronk.ModelFileError):
        pronk.load(tmp_path / "edited.pronk")


@pytest.mark.parametrize("labels", [False, True])
def test_records_that_no_prediction_can_have_made_are_not_used(labels):
    """Each number of a record in turn; the row is then read as the next one."""
    learner = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    pending = Pending(learner(budget=10, experts="few", random_state=0))
    pending.model.partial_fit(X[:60], LABELS[:60] if labels else Y[:60])
    pending.predict(X[60:70], IDS[60:70])
    state = pending._fitted_state()
    for column in range(state["records"][0].shape[1]):
        for value in (1e12, -1e300):
            edited = [values.copy() for values in state["records"]]
            edited[0][:, column] = value
            again = Pending(None)
            again._restore({**state, "records": edited})
            again.learn(IDS[60:70], LABELS[60:70] if labels else Y[60:70])
            found = files.from_bytes(files.to_bytes(again), "the file").model.predict(X[70:80])
            np.testing.assert_array_equal(found, again.model.predict(X[70:80]))


def test_a_call_that_is_interrupted_has_learned_its_rows_or_keeps_them():
    start = Pending(LEARNERS["scaled"]())
    start.predict(FRAME, IDS)
    start.learn(IDS[:20], Y[:20])
    lines, done = Lines(), copy.deepcopy(start)
    lines.run(lambda: done.learn(IDS[20:60], Y[20:60]))
    for at in np.linspace(1, lines.count, 25).astype(int):
        stopped = copy.deepcopy(start)
        Lines(int(at)).run(lambda stopped=stopped: stopped.learn(IDS[20:60], Y[20:60]))
        learned = stopped.model.n_seen_ == 60
        assert len(stopped) == (60 if learned else 100)
        assert state_of(stopped.model) == state_of(done.model if learned else start.model)


def test_threads_wait_for_each_other():
    pending = Pending(LEARNERS["plain"]())

    def work(part):
        for i in range(part, ROWS, 4):
            pending.predict(X[i : i + 1], [i])
            pending.learn([i], Y[i : i + 1])

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pending.model.n_seen_ == ROWS and len(pending) == 0


def test_intervals_and_probabilities_of_rows_that_wait():
    learner = pronk.OnlineKernelRegressor(experts="few", budget=12, random_state=0)
    pending = Pending(learner)
    P, ends = pending.predict(X[:5], range(5), interval=0.8)
    assert (P == 0.0).all() and np.isnan(ends).all() and ends.shape == (5, 2)
    pending.learn(range(5), Y[:5])
    ids = range(5, 60)
    pending.predict(X[5:60], ids)
    pending.learn(ids, Y[5:60])
    P, ends = pending.predict(X[60:70], range(60, 70), interval=0.8)
    np.testing.assert_array_equal(P, learner.predict(X[60:70], ahead=False))
    np.testing.assert_array_equal(ends, learner.predict_interval(X[60:70], 0.8, ahead=False))
    with pytest.raises(ValueError, match="output: OnlineKernelRegressor has no predict_proba"):
        pending.predict(X[70:71], [70], output="probability")
    assert 70 not in pending
    classifier = pronk.OnlineKernelClassifier(experts="few", budget=12, random_state=0)
    waiting = Pending(pronk.Prepared(classifier))
    labels = np.where(Y > 0, "up", "down")
    waiting.predict(X[:50], range(50))
    waiting.learn(range(50), labels[:50])
    named, shares = waiting.predict(X[50:60], range(50, 60), output="both")
    np.testing.assert_array_equal(shares.argmax(axis=1), np.searchsorted(["down", "up"], named))
    with pytest.raises(ValueError, match="interval: Prepared is a classifier"):
        waiting.predict(X[60:61], [60], interval=0.8)
