"""The default learner with times: parts against their twins, and the laws."""

import copy
import pickle
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import pronk
from helpers import Forecaster
from naive import default as naive
from naive import late as naive_late
from pronk import OnlineKernelClassifier, OnlineKernelRegressor
from pronk.aggregate.clock import Clock
from pronk.aggregate.experts import Experts
from pronk.aggregate.mixture import Mixture
from pronk.estimators import files
from pronk.newton.forecaster import LEAST_SHARE

DELAYS = (0, 1, 7, 40)
#: Rows of the streams: a trial, a swap for numbers, a new class, and local experts.
ROWS = 2600


def close(got, expected, tolerance=1e-8):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def some_times(n, seed=0):
    """Bursts, equal times, and two long pauses."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(60.0, n) * rng.choice([0.0, 0.2, 1.0, 6.0], n)
    gaps[[n // 3, n // 2]] = 1e6
    return 1e9 + np.cumsum(gaps)


@cache
def stream(kind):
    """Rows, targets and times; the function changes at row 900, and a class is new at row 1300."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (ROWS, 2))
    late = np.arange(ROWS) >= 900
    y = np.where(late, -1.0, 1.0) * (np.sin(3 * X[:, 0]) + X[:, 1])
    y = y + 0.05 * rng.normal(size=ROWS)
    if kind == "labels":
        y = np.array(["a", "b", "c"])[(y > 0).astype(int) + ((y > 1) & (np.arange(ROWS) > 1300))]
    return X, y, some_times(ROWS)


def model_of(kind, **options):
    made = {"random_state": 0, "budget": 24, "experts": "few", **options}
    return OnlineKernelClassifier(**made) if kind == "labels" else OnlineKernelRegressor(**made)


def walk(model, kind, edges, between=lambda model: model):
    """Learn rows in calls that end at ``edges``; return the model and all predictions."""
    X, y, times = stream(kind)
    options = {"output": "probability"} if kind == "labels" else {}
    parts = []
    for i, j in pairwise(edges):
        model = between(model)
        P = model.predict_then_learn(X[i:j], y[i:j], times=times[i:j], **options).reshape(j - i, -1)
        parts.append(np.hstack((np.nan_to_num(P), np.zeros((j - i, 3 - P.shape[1])))))
    return model, np.concatenate(parts)


@cache
def in_one_call(kind, delay=0):
    return walk(model_of(kind, delay=delay), kind, [0, ROWS])


# -- parts against their twins -------------------------------------------------------------------


def test_gaps_are_the_twins():
    times = some_times(30_000)
    clock = Clock()
    assert clock.time is None
    cut = [clock.count(times[i:j]) for i, j in pairwise([0, 1, 2, 3, 700, 30_000])]
    gaps = np.concatenate(cut)
    close(gaps, naive.clock_gaps(times), 1e-9)
    assert gaps.max() == 300.0 and 0.5 < gaps[1000:].mean() < 1.5
    assert clock.time == times[-1] and clock.mean_gap == pytest.approx(110.0, rel=0.2)
    even = Clock().count(1e9 + 60.0 * np.arange(500))
    assert (even == 1.0).all()
    assert not Clock().count(np.full(5, 7.0))[1:].any()  # rows of one time do not fade each other


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize(("size", "anticipate"), [(20, True), (6, True), (20, False)])
def test_an_expert_is_the_definition(size, anticipate, window, delay):
    """In blocks of 1 to 190 rows and across the ends of blocks; some blocks forget the most."""
    rng = np.random.default_rng(0)
    Phi, Y = rng.normal(size=(300, size)), rng.normal(size=(300, 2))
    gaps = naive.clock_gaps(some_times(300))
    expert = Forecaster(0.5, size, 2, window, anticipate)
    keep = 1.0 if window is None else 1 - 1 / window
    block = expert.block_length if window else None
    twin = naive_late.LateAWV(0.5, size, 2, keep, block, gaps[delay:], LEAST_SHARE, anticipate)
    expected = naive_late.late_pass(Phi, Y, delay, twin.predict, twin.learn)
    # Some calls have only the row that closes a block, of 32 or 64 rows.
    got, edges = (
        [],
        [0, 1, 2, 5, *(delay + row for row in (31, 32, 60, 61, 63, 64, 110, 127, 128)), 300],
    )
    for i, j in pairwise(edges):
        old = slice(max(0, i - delay), max(0, j - delay))
        # The gap of a row that is learned is that before its target arrives.
        own = gaps[delay + old.start : delay + old.stop]
        if delay:
            got.append(expert.learn(Phi[old], Y[old], own, Phi[i:j]))
        else:
            before = expert.predict(Phi[i : i + 1])
            got.append(expert.learn(Phi[i:j], Y[i:j], own))
            assert np.array_equal(got[-1][:1], before)
    close(np.concatenate(got), expected)
    if window and not delay:
        kept = np.multiply.reduceat(keep**gaps, np.arange(0, 300, block))
        assert (kept < LEAST_SHARE).any() and (kept > LEAST_SHARE).any()


def test_gaps_of_one_are_the_engine_without_times():
    rng = np.random.default_rng(2)
    Phi, Y = rng.normal(size=(300, 20)), rng.normal(size=(300, 1))
    timed, plain = (Forecaster(0.5, 20, 1, 40) for _ in range(2))
    assert np.array_equal(timed.learn(Phi, Y, np.ones(300)), plain.learn(Phi, Y))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("delay", DELAYS)
def test_stacks_are_the_twins(signed, delay):
    rng = np.random.default_rng(4)
    P, Y = np.tanh(rng.normal(size=(200, 4, 2))), np.sign(rng.normal(size=(200, 2)))
    Y = Y if signed else Y * rng.uniform(size=(200, 2))
    limits, windows = np.array([[-1.0, -1.0], [1.0, 1.0]]), (0.0, 30.0)
    gaps = naive.clock_gaps(some_times(200))
    mixture = Mixture(4, limits, signed, windows, (1, 3))
    if not delay:
        parts = [
            mixture.learn(P[i:j], Y[i:j], gaps[i:j]).final
            for i, j in [(0, 45), (45, 46), (46, 200)]
        ]
        expected, *_ = naive.mixture(P, Y, limits, windows, signed, lags=(1, 3), gaps=gaps)
        close(np.concatenate(parts), expected)
        return
    left = iter(gaps[delay:])
    twin = naive_late.LateMixture(Mixture(4, limits, signed, windows, (1, 3)))
    expected = naive_late.late_pass(
        P, Y, delay, twin.predict, lambda _, row, y: twin.learn(_, row, y, next(left))
    )
    parts = [
        mixture.learn(
            P[i:j], Y[max(0, i - delay) : max(0, j - delay)], gaps[max(delay, i) : j]
        ).final[i - j :]
        for i, j in pairwise([0, 1, 2, 45, 46, 200])
    ]
    close(np.concatenate(parts), expected)


def test_first_rows_are_learned_again_with_their_gaps(monkeypatch):
    X, y, times = stream("numbers")
    learn, again = Experts.learn, []

    def recorded(self, Z, Y, given, gaps=None, **options):
        again.extend([gaps] if options.get("fixed") else [])
        return learn(self, Z, Y, given, gaps, **options)

    monkeypatch.setattr(Experts, "learn", recorded)
    model_of("numbers").fit(X[:600], y[:600], times=times[:600])
    assert [len(gaps) for gaps in again] == [8, 32, 128, 256, 512]
    for gaps in again:
        close(gaps, naive.clock_gaps(times[: len(gaps)]), 1e-9)


# -- laws ----------------------------------------------------------------------------------------

CUTS = [0, 1, 2, 3, 40, 41, 300, 513, 1290, 1301, 1302, 1303, 2040, 2049, 2050, ROWS]


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_evenly_spaced_rows_need_no_times(kind):
    X, y, _ = stream(kind)
    times = np.datetime64("2026-03-01") + np.arange(ROWS) * np.timedelta64(15, "m")
    options = {"output": "probability"} if kind == "labels" else {}
    timed, plain = model_of(kind), model_of(kind)
    found = timed.predict_then_learn(X, y, times=times, **options)
    close(found, plain.predict_then_learn(X, y, **options))
    assert timed.time_unit_ == 900.0 and plain.time_unit_ is None


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["numbers", "labels"])
@pytest.mark.parametrize("delay", [0, 5])
def test_the_cut_changes_nothing(kind, delay):
    model, expected = in_one_call(kind, delay)
    assert model.changes_[0]["outcome"] in ("on trial", "swap")
    plain = model_of(kind, delay=delay).predict_then_learn(*stream(kind)[:2])
    assert kind == "labels" or np.abs(expected[:, 0] - plain).max() > 1e-3
    close(walk(model_of(kind, delay=delay), kind, CUTS)[1], expected, 1e-7)


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_one_row_at_a_time_is_the_same_too(kind):
    edges = [0, 500, *range(900, 1000), 1290, *range(1300, 1340), 2040, *range(2041, 2070)]
    close(walk(model_of(kind), kind, edges)[1], in_one_call(kind)[1][:2069], 1e-7)


@pytest.mark.parametrize("kind", ["numbers", "labels"])
@pytest.mark.parametrize("delay", [0, 5])
def test_saving_and_resuming_changes_no_bit(kind, delay):
    """Before the first stage, in a trial, in an epoch with a new class, with single rows."""
    ways = [
        lambda model: files.from_bytes(files.to_bytes(model), "a model"),
        lambda model: pickle.loads(pickle.dumps(model)),
        copy.deepcopy,
    ]
    plain, expected = walk(model_of(kind, delay=delay), kind, CUTS)
    done = []

    def between(model):
        done.append(model)
        return ways[len(done) % 3](model) if model.__sklearn_is_fitted__() else model

    again, found = walk(model_of(kind, delay=delay), kind, CUTS, between)
    np.testing.assert_array_equal(found, expected)
    assert files.to_bytes(again) == files.to_bytes(plain)


@pytest.mark.parametrize("rows", [5, 100, 1301, 2100])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_a_call_that_raises_changes_nothing(kind, rows, monkeypatch):
    X, y, times = stream(kind)
    model, _ = walk(model_of(kind), kind, [0, rows])
    before = files.to_bytes(model)
    for step in (1, 60):
        after = slice(rows, rows + step)
        early = np.concatenate((times[after][:-1], [0.0]))
        with pytest.raises(ValueError, match=rf"times decrease at row {step - 1} \("):
            model.partial_fit(X[after], y[after], times=early)
        monkeypatch.setattr(type(model), "_check_result", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[after], y[after], times=times[after])
        monkeypatch.undo()
        assert files.to_bytes(model) == before
    expected = walk(model_of(kind), kind, [0, rows, rows + 1, rows + 60])[1][rows:]
    options = {"output": "probability"} if kind == "labels" else {}
    for i, j in ((rows, rows + 1), (rows + 1, rows + 60)):
        found = model.predict_then_learn(X[i:j], y[i:j], times=times[i:j], **options)
        found = found.reshape(j - i, -1)
        np.testing.assert_array_equal(found, expected[i - rows : j - rows, : found.shape[1]])


def _interrupt(*_):
    raise KeyboardInterrupt


def test_rows_that_are_not_learned_leave_their_gap_to_the_next():
    X, y, times = (part[:700] for part in stream("numbers"))
    learned = np.arange(700) % 5 != 2
    learned[:3] = False  # windows count time from the first row that is learned
    model = model_of("numbers")
    P = model.predict_then_learn(X, y, times=times, sample_weight=learned.astype(float))
    other = model_of("numbers")
    close(P[learned], other.predict_then_learn(X[learned], y[learned], times=times[learned]))
    empty = np.where(learned, y, np.nan)
    close(pronk.Prepared(model_of("numbers")).predict_then_learn(X, empty, times=times), P)
    rows = sparse.csr_array(X)
    close(model_of("numbers").fit(rows, y, times=times).predict(X[:9]),
          model_of("numbers").fit(X, y, times=times).predict(X[:9]))  # fmt: skip


@pytest.mark.slow
def test_drift_by_the_clock_is_followed():
    """Rows in 8 hours per day, and a function that turns day and night."""
    rng = np.random.default_rng(0)
    opened = np.cumsum(rng.exponential(60.0, 3000))
    times, X = opened + 16 * 3600 * (opened // (8 * 3600)), rng.uniform(-1, 1, (3000, 3))
    turn = 2 * np.pi * times / (36 * 3600)
    y = np.sin(3 * X[:, 0] + turn) + X[:, 1] * np.cos(turn) + 0.1 * rng.normal(size=3000)
    by_rows, by_time = (
        np.mean((OnlineKernelRegressor(random_state=0).predict_then_learn(X, y, **given) - y) ** 2)
        for given in ({}, {"times": times})
    )
    assert by_time < 0.8 * by_rows


def test_messages():
    X, y, times = stream("numbers")
    X, y, times = X[:20], y[:20], times[:20]
    timed, plain = model_of("numbers"), model_of("numbers")
    timed.fit(X, y, times=times)
    plain.fit(X, y)
    with pytest.raises(ValueError, match="times: none in this call, but 20 rows were learned with"):
        timed.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"times: given in this call, .* in every call or in none"):
        plain.partial_fit(X, y, times=times)
    with pytest.raises(ValueError, match=r"times decrease at row 0 .* sort the rows by time"):
        timed.partial_fit(X, y, times=times - 1e9)
    with pytest.raises(ValueError, match="times has 3 entries, X has 20 rows"):
        timed.partial_fit(X, y, times=times[:3])
    timed.fit(X, y)  # everything is forgotten, the times too
    assert timed.time_unit_ is None
