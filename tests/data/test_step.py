"""`dumps`, `loads` and `step`: models as bytes, one step at a time, in any process."""

import pickle
import subprocess
import sys
import threading
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDRegressor

import pronk
from pronk.data.step import CACHE, Cache, step

#: Past the last stage of the default learner's first rows, and past a change of the stream.
ROWS = 2300
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (ROWS, 3))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1]
Y[1200:] = 5.0 - Y[1200:]
LABELS = np.where(Y > 0.5, "high", "low").astype(object)
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    city=rng.choice(["Rome", "Oslo", "Lima"], ROWS),
    time=pd.date_range("2024-01-01", periods=ROWS, freq="h").astype(str),
)
FRAME.loc[1::7, "b"] = np.nan
FRAME.loc[5::9, "city"] = None
UNLABELLED = slice(0, None, 11)  # the first row too
FEW = {"experts": "few", "budget": 16, "random_state": 0}


def missing(y):
    y = y.copy()
    y[UNLABELLED] = None if y.dtype == object else np.nan
    return y


def pkawv():
    return pronk.PKAWVRegressor(budget=16, random_state=0)


#: The model of a new key, its rows and its labels.
CASES = {
    "default": (pronk.OnlineKernelRegressor(**FEW), X, missing(Y)),
    "default frame": (pronk.OnlineKernelRegressor(**FEW), FRAME, missing(Y)),
    "default labels": (pronk.OnlineKernelClassifier(**FEW), FRAME, missing(LABELS)),
    "pkawv": (pkawv(), X, missing(Y)),
    "pkawv frame": (pkawv(), FRAME, missing(Y)),
    "two outputs": (pkawv(), X, np.column_stack((Y, -Y))),
    "fogd": (pronk.FOGDRegressor(random_state=0), X, missing(Y)),
    "fogd labels": (pronk.FOGDClassifier(random_state=0), FRAME, missing(LABELS)),
    "prepared": (pronk.Prepared(pronk.make("ogd", random_state=0)), FRAME, missing(Y)),
    "prepared default": (pronk.Prepared(pronk.OnlineKernelRegressor(**FEW)), FRAME, missing(Y)),
    "intervals": (pronk.Intervals(pkawv()), X, Y),
    "calibrated": (pronk.Calibrated(pronk.FOGDClassifier(random_state=0)), X, LABELS),
}
QUICK = ("pkawv frame", "fogd labels", "intervals", "calibrated")
every = pytest.mark.parametrize("case", CASES)
quick = pytest.mark.parametrize("case", QUICK)


@pytest.fixture(autouse=True)
def empty_cache():
    CACHE.clear()


def part(rows, cut):
    """Return rows of a frame or a copy of those of an array."""
    return rows.iloc[cut] if isinstance(rows, pd.DataFrame) else rows[cut].copy()


def cuts(seed, rows=ROWS, calls=25):
    ends = np.random.default_rng(seed).choice(np.arange(3, rows), calls, replace=False)
    return [slice(a, b) for a, b in pairwise([0, 1, 2, *np.sort(ends).tolist(), rows])]


def spoil(*arrays):
    """Overwrite arrays: a model in the cache must not share them."""
    for array in arrays:
        if isinstance(array, np.ndarray):
            array[...] = "spoiled" if array.dtype == object else 1e9


# -- the law -----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("seed", [1, 2])
def test_steps_are_one_model_that_never_stopped(case, seed):
    """Any cut, with the cache, without it, and with restarts: the same predictions and bytes."""
    new, rows, y = CASES[case]
    model, states = clone(new), [None, None, None]
    before = pickle.dumps(new)
    for number, cut in enumerate(cuts(seed)):
        expected = model.predict_then_learn(part(rows, cut), y[cut])
        for way in range(3):
            if way == 1 or (way == 2 and number % 3 == 0):
                CACHE.clear()
            given, labels = part(rows, cut), y[cut].copy()
            states[way], found = step(states[way], given, labels, new=new)
            np.testing.assert_array_equal(found, expected)
            spoil(given, labels, found)
        data = pronk.dumps(model) if number % 5 == 0 else states[0]
        assert states == [data] * 3
    assert states[0] == pronk.dumps(model) and pickle.dumps(new) == before


@pytest.mark.parametrize("case", ["default", "prepared default", "intervals"])
def test_intervals_are_those_of_one_model(case):
    new, rows, y = CASES[case]
    model, state = clone(new), None
    for cut in cuts(3, 700, 8):
        expected = model.predict_then_learn(part(rows, cut), y[cut], interval=0.8)
        state, found = step(state, part(rows, cut), y[cut], new=new, interval=0.8)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert state == pronk.dumps(model)


OTHER_PROCESS = """
import pickle, sys
import pronk
new, state, calls = pickle.load(sys.stdin.buffer)
found = []
for rows, y in calls:
    state, predictions = pronk.step(state, rows, y, new=new)
    found.append(predictions)
pickle.dump((state, found), sys.stdout.buffer)
"""


def test_another_process_goes_on():
    given, expected = [], []
    for case in ("default frame", "pkawv", "fogd labels", "prepared"):
        new, rows, y = CASES[case]
        state, _ = step(None, part(rows, slice(0, 300)), y[:300], new=new)
        calls = [(part(rows, cut), y[cut]) for cut in (slice(300, 301), slice(301, 600))]
        given.append((new, state, calls))
        found = []
        for rows_of_call, labels in calls:
            state, predictions = step(state, rows_of_call, labels, new=new)
            found.append(predictions)
        expected.append((state, found))
    for one, (state, found) in zip(given, expected, strict=True):
        run = subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS], input=pickle.dumps(one), capture_output=True,
            check=True,
        )  # fmt: skip
        again, others = pickle.loads(run.stdout)
        assert again == state
        for a, b in zip(others, found, strict=True):
            np.testing.assert_array_equal(a, b)


# -- pure and repeatable -------------------------------------------------------------------------


@quick
def test_a_step_can_be_repeated_and_one_state_can_go_two_ways(case):
    new, rows, y = CASES[case]
    first, _ = step(None, part(rows, slice(0, 40)), y[:40], new=new)
    ways = [slice(40, 60), slice(60, 90)]
    expected = []
    for cut in ways:
        model = pronk.loads(first)
        found = model.predict_then_learn(part(rows, cut), y[cut])
        expected.append((pronk.dumps(model), found))
    for _ in range(3):
        for cut, (data, predictions) in zip(ways, expected, strict=True):
            state, found = step(first, part(rows, cut), y[cut], new=new)
            assert state == data
            np.testing.assert_array_equal(found, predictions)
            state, _ = step(state, part(rows, cut), new=new)
            assert state == data


@every
def test_without_labels_nothing_is_learned(case):
    new, rows, y = CASES[case]
    state, found = step(None, part(rows, slice(0, 4)), new=new)
    classifies = new.__sklearn_tags__().estimator_type == "classifier"
    assert state is None and found.tolist() == [None if classifies else 0.0] * 4
    state, _ = step(None, part(rows, slice(0, 300)), y[:300], new=new)
    for cut in (slice(300, 301), slice(300, 320)):
        same, found = step(state, part(rows, cut), new=new)
        assert same == state and len(CACHE) == 1
        alone = [step(state, part(rows, slice(i, i + 1)), new=new)[1][0] for i in range(300, 302)]
        if classifies:
            np.testing.assert_array_equal(found[:2], alone[: len(found)])
        else:
            np.testing.assert_allclose(found[:2], alone[: len(found)], rtol=1e-9, atol=1e-9)
        if case not in ("intervals", "calibrated", "two outputs"):
            none = np.full(len(found), None if classifies else np.nan)
            model = pronk.loads(state)
            expected = model.predict_then_learn(part(rows, cut), none)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("two outputs",)])
def test_a_model_without_labels_has_a_state(case):
    """All labels are missing so far: columns and parameters are kept, and nothing is learned."""
    new, rows, y = CASES[case]
    if case in ("intervals", "calibrated"):
        blank = pronk.loads(pronk.dumps(new))
        assert repr(blank) == repr(new) and not blank.__sklearn_is_fitted__()
        return
    model, state = clone(new), None
    none = np.full(5, None if y.dtype == object else np.nan)
    calls = [(slice(0, 5), none), (slice(5, 10), none), (slice(10, 40), y[10:40])]
    for cut, labels in calls:
        CACHE.clear()
        expected = model.predict_then_learn(part(rows, cut), labels)
        state, found = step(state, part(rows, cut), labels, new=new)
        np.testing.assert_array_equal(found, expected)
        assert state == pronk.dumps(model) == pronk.dumps(pronk.loads(state))


def test_the_names_and_kinds_of_columns_are_kept_before_the_first_label():
    new = pronk.Prepared(pronk.FOGDClassifier(random_state=0))
    state, _ = step(None, FRAME[:3], [None] * 3, new=new)
    kinds = pronk.loads(state).layout_.kinds
    assert kinds == ("number", "number", "number", "category", "time")
    with pytest.raises(ValueError, match="city"):
        step(state, FRAME[:3].drop(columns="city"), LABELS[:3], new=new)


def test_columns_may_be_declared():
    """The first row of a key has a gap where later rows have text."""
    frame = FRAME[5:25].reset_index(drop=True)
    assert pd.isna(frame["city"][0])
    kinds = ["number"] * 3 + ["category", "time"]
    for make in (pkawv, lambda: pronk.Prepared(pkawv())):
        new = make().with_columns(list(frame.columns), kinds)
        model, state = make().with_columns(list(frame.columns), kinds), None
        for i in range(20):
            expected = model.predict_then_learn(frame[i : i + 1], Y[i : i + 1])
            state, found = step(state, frame[i : i + 1], Y[i : i + 1], new=new)
            np.testing.assert_array_equal(found, expected)
        assert state == pronk.dumps(model)
        declared, _ = step(None, frame[:1], [np.nan], new=new)
        assert list(pronk.loads(declared).layout_.kinds) == kinds


@pytest.mark.parametrize("seed", [None, np.random.default_rng(3), np.random.RandomState(3)])
def test_random_numbers_are_the_same_in_every_repetition(seed):
    for new in (
        pronk.FOGDRegressor(random_state=seed),
        pronk.Prepared(pronk.FOGDRegressor(random_state=seed)),
        pronk.Intervals(pronk.FOGDRegressor(random_state=seed)),
    ):
        states = {step(None, X[:30], Y[:30], new=new)[0] for _ in range(3)}
        assert len(states) == 1
        blank, _ = step(None, X[:3], [np.nan] * 3, new=new) if hasattr(new, "encode") else (None, 0)
        assert {step(blank, X[:30], Y[:30], new=new)[0] for _ in range(2)} == states


@quick
def test_a_call_that_raises_changes_nothing(case):
    new, rows, y = CASES[case]
    state, _ = step(None, part(rows, slice(0, 40)), y[:40], new=new)
    expected = step(state, part(rows, slice(40, 60)), y[40:60], new=new)
    wrong = y[40:60].copy()
    if y.dtype != object:
        wrong[15] = np.inf
    for _ in range(2):
        for labels in (wrong[:10], wrong) if y.dtype != object else (wrong[:10],):
            with pytest.raises(ValueError, match=r"y has|rows"):
                step(state, part(rows, slice(40, 60)), labels, new=new)
        found = step(state, part(rows, slice(40, 60)), y[40:60], new=new)
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])


def test_arguments_that_do_not_go_together():
    new = pkawv()
    with pytest.raises(ValueError, match="X is missing"):
        step(None, None, new=new)
    with pytest.raises(ValueError, match="X is missing"):
        step(None, None, Y[:2], new=new)
    with pytest.raises(ValueError, match="call step twice"):
        step(None, X[:2], Y[:2], ids=[1, 2], new=new)
    with pytest.raises(ValueError, match=r"has no quantiles; .* pronk\.Intervals"):
        step(None, X[:2], Y[:2], interval=0.9, new=new)
    with pytest.raises(ValueError, match="coverage"):
        step(None, X[:2], Y[:2], interval=90, new=CASES["default"][0])
    state, _ = step(None, X[:2], ids=[1, 2], new=pronk.Intervals(new))
    assert step(state, None, Y[:2], ids=[1, 2], new=pronk.Intervals(new))[0] != state
    with pytest.raises(TypeError, match="state must be bytes, got a str"):
        step("state", X[:2], Y[:2], new=new)


# -- rows that wait ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["default", "default labels", "pkawv", "prepared default"])
@pytest.mark.parametrize("cached", [True, False])
def test_rows_wait_for_their_labels_in_the_state(case, cached):
    """Predicted now, learned 20 rows later, some at once and some never: as `Pending` does it."""
    new, rows, y = CASES[case]
    pending, state = pronk.Pending(clone(new)), None
    for start in range(0, 400, 10):
        if not cached:
            CACHE.clear()
        cut, ids = slice(start, start + 10), [f"row {i}" for i in range(start, start + 10)]
        expected = pending.predict(part(rows, cut), ids)
        state, found = step(state, part(rows, cut), ids=ids, new=new)
        np.testing.assert_array_equal(found, expected)
        assert state == pronk.dumps(pending)
        if start >= 20:
            late = range(start - 12, start - 22, -1)
            late = [i for i in late if i >= 0]
            names = [f"row {i}" for i in late]
            pending.learn(names, y[late])
            same, none = step(state, None, y[late], ids=names, new=new)
            assert none is None
            state = same
        if start % 50 == 0:
            model, cut = pending.model, slice(1000 + start, 1005 + start)
            expected = model.predict_then_learn(part(rows, cut), y[cut])
            state, found = step(state, part(rows, cut), y[cut], new=new)
            np.testing.assert_array_equal(found, expected)
        assert state == pronk.dumps(pending)
    restored = pronk.loads(state)
    assert restored.ids == pending.ids and restored.model.n_seen_ == pending.model.n_seen_
    _, labels_of_known = step(state, part(rows, slice(0, 3)), new=new)
    np.testing.assert_array_equal(labels_of_known, pending._predicted(
        pending.model.encode(part(rows, slice(0, 3))))[0])  # fmt: skip


def test_ids_and_intervals():
    new = CASES["default"][0]
    state, (found, ends) = step(None, X[:2], ids=["a", "b"], interval=0.9, new=new)
    assert found.tolist() == [0.0, 0.0] and np.isnan(ends).all() and ends.shape == (2, 2)
    state, _ = step(state, X[:300], Y[:300], new=new)
    after, (found, ends) = step(state, X[300:302], ids=[1, 2], interval=0.9, new=new)
    _, (same, own) = step(state, X[300:302], interval=0.9, new=new)
    np.testing.assert_array_equal(found, same)
    np.testing.assert_array_equal(ends, own)
    assert (ends[:, 0] < found).all() and (found < ends[:, 1]).all()
    model = pronk.loads(state).model
    _, expected = model.predict_then_learn(X[300:302], [np.nan] * 2, interval=0.9)
    np.testing.assert_array_equal(ends, expected)
    assert pronk.loads(after).ids == ["a", "b", 1, 2]


def test_ids_that_are_not_pending():
    new = pronk.Pending(pkawv(), limit=3)
    state, _ = step(None, X[:4], ids=range(4), new=new)
    assert pronk.loads(state).ids == [1, 2, 3] and len(new) == 0
    for ids in ([0], [9]):
        with pytest.raises(ValueError, match="is not pending"):
            step(state, None, [0.5], ids=ids, new=new)
    with pytest.raises(ValueError, match="already pending"):
        step(state, X[:1], ids=[2], new=new)
    after, _ = step(state, None, [0.5, 0.5], ids=[0, 1], unknown="skip", new=new)
    assert pronk.loads(after).ids == [2, 3] and pronk.loads(after).model.n_seen_ == 1
    assert pronk.loads(state).ids == [1, 2, 3]


# -- bytes ---------------------------------------------------------------------------------------


@every
def test_dumps_and_loads(case, tmp_path):
    new, rows, y = CASES[case]
    model = clone(new)
    model.partial_fit(part(rows, slice(0, 200)), y[:200])
    data = pronk.dumps(model)
    model.save(tmp_path / "model")
    assert data == (tmp_path / "model").read_bytes()
    for same in (data, bytearray(data), memoryview(data)):
        again = pronk.loads(same)
        assert type(again) is type(model) and pronk.dumps(again) == data
    cut = slice(200, 260)
    found = again.predict_then_learn(part(rows, cut), y[cut])
    np.testing.assert_array_equal(found, model.predict_then_learn(part(rows, cut), y[cut]))


def test_a_kernel_function_is_given_again():
    def kernel(A, B):
        return A @ B.T + 1.0

    new = pronk.KernelAWVRegressor(kernel=kernel)
    model, state = clone(new), None
    for start in (0, 10, 20):
        cut = slice(start, start + 10)
        expected = model.predict_then_learn(X[cut], Y[cut])
        state, found = step(state, X[cut], Y[cut], new=new)
        np.testing.assert_array_equal(found, expected)
        assert not len(CACHE)
    with pytest.raises(pronk.ModelFileError, match="kernel=function"):
        pronk.loads(state)
    again = pronk.loads(state, kernel=kernel)
    np.testing.assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))
    for waits in (pronk.Pending(new), pronk.Pending(model)):
        with pytest.raises(ValueError, match="kernel function"):
            pronk.dumps(waits)


class Own(pronk.FOGDRegressor):
    """A user's learner."""


def test_what_bytes_cannot_contain():
    with pytest.raises(ValueError, match=r"Keyed is a folder .* keyed\.save\(folder\)"):
        pronk.dumps(pronk.Keyed(pkawv(), by="key"))
    with pytest.raises(ValueError, match="Keyed is a folder"):
        step(None, X[:2], Y[:2], new=pronk.Keyed(pkawv(), by="key"))
    for new in (Own(), pronk.Prepared(Own()), pronk.Intervals(Own()), SGDRegressor()):
        with pytest.raises(ValueError, match="no class of pronk"):
            pronk.dumps(new)
        with pytest.raises(ValueError, match="no class of pronk"):
            step(None, X[:2], Y[:2], new=new)
    with pytest.raises(ValueError, match="no class of pronk"):
        pronk.dumps(pronk.Intervals(SGDRegressor()).partial_fit(X[:9], Y[:9]))
    with pytest.raises(TypeError, match="data must be bytes"):
        pronk.loads("model.pronk")


@pytest.mark.parametrize("case", ["pkawv frame", "blank", "waiting"])
def test_hostile_bytes(case):
    """Truncated, changed or foreign bytes raise, also if the right ones are in the cache."""
    new, rows, y = CASES["pkawv frame"]
    if case == "blank":
        state, _ = step(None, FRAME[:3], [None] * 3, new=pronk.FOGDClassifier(random_state=0))
    else:
        state, _ = step(None, part(rows, slice(0, 40)), y[:40], new=new)
    if case == "waiting":
        state, _ = step(state, part(rows, slice(0, 5)), ids=range(5), new=new)
    choice = np.random.default_rng(0)
    damaged = [b"", b"{}", b"x" * 100, state[:-1], state + b"x", state[: len(state) // 2]]
    for place in choice.integers(0, len(state), 300):
        changed = bytearray(state)
        changed[place] ^= 1 << int(choice.integers(8))
        damaged.append(bytes(changed))
    for data in damaged:
        with pytest.raises(pronk.ModelFileError):
            step(data, FRAME[:2], Y[:2], new=new)
        with pytest.raises(pronk.ModelFileError):
            pronk.loads(data)
    assert len(CACHE) == 1
    assert pronk.dumps(pronk.loads(state)) == state


@pytest.mark.parametrize(
    "layout",
    [7, [], {}, {"names": 3}, {"names": None, "kinds": ["odd"]}, {"names": [1], "kinds": ["time"]},
     {"names": ["a"], "kinds": ["time", "time"]}, {"kinds": ["time"], "names": None, "more": []}],
)  # fmt: skip
def test_a_model_without_rows_from_a_hostile_file(layout):
    from pronk.estimators import files

    state = files.encode("FOGDClassifier", {"random_state": 0}, {"layout": layout})
    with pytest.raises(pronk.ModelFileError):
        pronk.loads(state)
    wrong = {"random_state": 0, "n_features": -1}
    with pytest.raises(pronk.ModelFileError, match="n_features"):
        pronk.loads(files.encode("FOGDClassifier", wrong, {"layout": None}))
    waits = {"class": "Pending", "params": {"limit": 3}, "state": {"layout": None}}
    with pytest.raises(pronk.ModelFileError):
        pronk.loads(files.encode(*waits.values()))


# -- the cache -----------------------------------------------------------------------------------


def test_the_cache_is_bounded_and_drops_the_least_recently_used():
    def state(name, size):
        return b'","sha256":"' + name.encode() * 64 + b"." * (size - 76)

    cache = Cache(models=3, size=1000)
    states = [state(name, 100) for name in "abcd"]
    for one in states:
        cache.put(one, one[:13])
    assert len(cache) == 3 and cache.take(states[0]) is None
    assert cache.take(states[1]) == states[1][:13] and cache.take(states[1]) is None
    cache.put(states[1], 1)
    cache.put(state("e", 850), 2)  # together more than 1000: all but the last two go
    assert len(cache) == 2 and cache.take(states[2]) is None and cache.take(states[1]) == 1
    cache.put(state("f", 2000), 3)  # larger than the cache
    assert len(cache) == 0 and cache._bytes == 0
    cache.put(states[0], 4)
    other = states[0][:-1] + b"!"  # the same checksum, other bytes
    assert cache.take(other) is None and len(cache) == 1
    cache.put(other, 5)
    assert len(cache) == 1 and cache.take(states[0]) is None and cache.take(other) == 5
    assert cache._bytes == 0


def test_a_hot_key_is_not_parsed(monkeypatch):
    from pronk.estimators import files

    state, _ = step(None, X[:20], Y[:20], new=pkawv())
    monkeypatch.setattr(files, "from_bytes", lambda *_, **__: pytest.fail("parsed"))
    for start in range(20, 100, 20):
        copied = bytes(bytearray(state))  # as it comes back from an engine
        state, _ = step(copied, X[start : start + 20], Y[start : start + 20], new=pkawv())
        step(state, X[:5], new=pkawv())
        assert len(CACHE) == 1


def test_threads_may_use_the_same_states():
    new = pkawv()
    start, _ = step(None, X[:30], Y[:30], new=new)
    calls = [slice(30 + 10 * i, 40 + 10 * i) for i in range(12)]

    def run():
        state, found = start, []
        for cut in calls:
            state, predictions = step(state, X[cut], Y[cut], new=new)
            found.append(predictions)
        return state, np.concatenate(found)

    expected, results = run(), []
    threads = [threading.Thread(target=lambda: results.append(run())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for state, found in results:
        assert state == expected[0]
        np.testing.assert_array_equal(found, expected[1])
