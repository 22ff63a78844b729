"""The default learner as a whole: cuts, files, drift, intervals, probabilities."""

import copy
from itertools import pairwise

import numpy as np
import pytest

import pronk
from helpers import Forecaster
from pronk import Gaussian, OnlineKernelClassifier, OnlineKernelRegressor
from pronk.aggregate import recovery
from pronk.aggregate.mixture import Mixture
from pronk.core.scales import FixedScale
from pronk.newton.engine import Newton, Squared


class WithoutForgetting(OnlineKernelRegressor):
    _forgetting = False


def regression(n=2600, seed=0, columns=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def three_classes(n=2600, seed=0):
    X, score = regression(n, seed)
    return X, np.array(["ant", "bee", "cat"])[np.digitize(score, [0.3, 1.5])]


# -- the discounted engine --------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, 50, 200])
def test_forgetting_is_a_discounted_sum(step):
    """A <- lambda A + phi phi', b <- lambda b + y phi; alpha I is filled up at block ends."""
    rng = np.random.default_rng(1)
    Phi, Y = rng.normal(size=(200, 5)), rng.normal(size=(200, 2))
    alpha, window = 0.5, 30
    engine = Forecaster(alpha, 5, 2, window)
    keep = 1 - 1 / window
    A, b, expected = alpha * np.eye(5), np.zeros((5, 2)), []
    for t, (phi, y) in enumerate(zip(Phi, Y, strict=True)):
        A = keep * A + np.outer(phi, phi)
        expected.append(phi @ np.linalg.solve(A, keep * b))
        b = keep * b + np.outer(phi, y)
        if (t + 1) % engine.block_length == 0:
            A = A + (1 - keep**engine.block_length) * alpha * np.eye(5)
    got = [engine.learn(Phi[i : i + step], Y[i : i + step]) for i in range(0, 200, step)]
    np.testing.assert_allclose(np.concatenate(got), expected, rtol=0, atol=1e-10)
    new = rng.normal(size=(1, 5))
    predicted = engine.predict(new)
    assert np.array_equal(engine.learn(new, np.zeros((1, 2))), predicted)


def test_without_a_window_it_is_the_plain_engine():
    rng = np.random.default_rng(2)
    Phi, Y = rng.normal(size=(300, 20)), rng.normal(size=(300, 1))
    plain, rows = Newton(Squared(), 1.0, 20), Forecaster(1.0, 20)
    np.testing.assert_allclose(rows.learn(Phi, Y), plain.learn(Phi, Y), rtol=0, atol=1e-10)
    np.testing.assert_allclose(rows.weights, plain.weights, rtol=0, atol=1e-10)


def test_new_coordinates_are_those_of_rows_that_are_0_there():
    rng = np.random.default_rng(3)
    Phi, Y = rng.normal(size=(300, 8)), rng.normal(size=(300, 1))
    Phi[:64, 5:] = 0.0
    whole, grown = Forecaster(0.1, 8), Forecaster(0.1, 5)
    expected = whole.learn(Phi, Y)
    first = grown.learn(Phi[:64, :5], Y[:64])
    grown.resize(8)
    got = np.concatenate((first, grown.learn(Phi[64:], Y[64:])))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)
    few = Forecaster(0.1, 5)
    few.learn(Phi[:128, :5], Y[:128])
    grown = Forecaster(0.1, 8)
    grown.learn(Phi[:128], Y[:128])
    grown.resize(5)
    expected, got = (engine.learn(Phi[128:, :5], Y[128:]) for engine in (few, grown))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize("timed", [False, True])
def test_an_expert_in_any_cut_has_the_same_bits(window, timed):
    """Predictions, sums and open rows; also one that is saved and loaded in the middle."""
    rng = np.random.default_rng(4)
    Phi, Y, gaps = rng.normal(size=(300, 20)), rng.normal(size=(300, 2)), None
    if timed:
        gaps = rng.exponential(size=300)
    whole, cut, start, got = Forecaster(0.5, 20, 2, window), Forecaster(0.5, 20, 2, window), 0, []
    expected = whole.learn(Phi, Y, gaps)
    for rows in (1, 1, 5, 57, 1, 70, 29, 129, 7):
        part = slice(start, start + rows)
        shown = cut.predict(Phi[part])
        got.append(cut.learn(Phi[part], Y[part], None if gaps is None else gaps[part]))
        assert np.array_equal(shown[0], got[-1][0])
        state = cut.to_state()
        cut = Forecaster(0.5, 20, 2, window)
        cut.restore(state)
        start += rows
    assert np.array_equal(np.concatenate(got), expected)
    np.testing.assert_equal(cut.to_state(), whole.to_state())


# -- the mixture ------------------------------------------------------------------------------


def some_experts(n=400, seed=4):
    rng = np.random.default_rng(seed)
    y = np.sin(np.arange(n) / 20)[:, None] + 0.1 * rng.normal(size=(n, 1))
    P = y[:, None] * np.array([1.0, 0.5, -0.3, 0.0])[:, None]
    return P + np.array([0.5, 0.2, 0.3, 0.4])[:, None] * rng.normal(size=P.shape), y


@pytest.mark.parametrize("seed", range(5))
def test_the_mixture_keeps_its_bound(seed):
    """In units of 2 D^2 the average loses log(experts) + log t (fixed share) at most."""
    P, y = some_experts(1000, seed)
    limits = np.array([[y.min()], [y.max()]])
    average = Mixture(4, limits, signed=False, windows=())
    out = average.learn(P, y).final
    clipped = np.clip(P[:, :, 0], *limits[:, 0])
    largest = np.maximum.accumulate(np.abs(clipped - y).max(axis=1)) ** 2  # the mean's is less
    losses = ((clipped - y) ** 2 / (2 * largest[:, None])).sum(axis=0)
    own = ((out - y)[:, 0] ** 2 / (2 * largest)).sum()
    assert own <= losses.min() + np.log(4) + np.log(len(y) + 1)


def test_dropping_an_expert_is_never_having_had_its_coordinate():
    P, y = some_experts()
    mixture = Mixture(4, np.array([[-2.0], [2.0]]), signed=False)
    mixture.learn(P, y)
    weights = mixture.weights
    mixture.keep([0, 2])
    np.testing.assert_allclose(
        mixture.weights, weights[[0, 2]] / weights[[0, 2]].sum(), rtol=1e-12, atol=0
    )
    assert mixture.learn(P[:5, [0, 2]], y[:5]).final.shape == (5, 1)


# -- scales -----------------------------------------------------------------------------------


def test_scales_do_not_depend_on_the_unit_of_a_column():
    X = np.random.default_rng(5).normal(size=(100, 3))
    scale, other = FixedScale(X), FixedScale(X * [1, 1000, 1e-9] + [0, 7, 0])
    np.testing.assert_allclose(
        scale.transform(X), other.transform(X * [1, 1000, 1e-9] + [0, 7, 0]), rtol=0, atol=1e-09
    )


def test_a_column_that_was_constant_gets_its_unit_when_it_changes():
    X = np.full((50, 2), 3.0)
    X[:, 0] = np.arange(50)
    scale = FixedScale(X)
    assert not scale.transform(X)[:, 1].any()
    new = np.array([[1.0, 3.0], [1.0, 3.5], [1.0, 2.5], [1.0, 90.0]])
    assert scale.transform(new[:2])[:, 1].tolist() == [0.0, 1.0]
    # One and a half first steps, then half a step times log(1 + excess in half steps).
    far = 1.5 + 0.5 * np.log1p((90.0 - 3.75) / 0.25)
    assert scale.learn_transform(new)[:, 1] == pytest.approx([0.0, 1.0, -1.0, far], rel=1e-12)


# -- the learner ------------------------------------------------------------------------------


@pytest.mark.thinned
@pytest.mark.parametrize("cuts", [[1, 7, 8, 9, 500, 2048], [31, 33, 128, 2047, 2300], [1000]])
@pytest.mark.parametrize("task", ["regression", "classes"])
def test_cuts_change_nothing_through_all_stages(task, cuts):
    if task == "regression":
        X, y = regression()
        whole, cut = (OnlineKernelRegressor(budget=40, random_state=1) for _ in range(2))
        expected, read = whole.predict_then_learn(X, y), lambda m, a, b: m.predict_then_learn(a, b)
    else:
        X, y = three_classes()
        whole, cut = (OnlineKernelClassifier(budget=40, random_state=1) for _ in range(2))
        whole.partial_fit(X[:1], y[:1])  # the others are discovered, one call with all of them
        cut.partial_fit(X[:1], y[:1])
        X, y = X[1:], y[1:]
        expected = whole.predict_then_learn(X, y)

        def read(model, rows, labels):
            return model.predict_then_learn(rows, labels)

    edges = [0, *cuts, len(X)]
    got = [read(cut, X[i:j], y[i:j]) for i, j in pairwise(edges)]
    if task == "regression":
        np.testing.assert_allclose(np.concatenate(got), expected, rtol=0, atol=1e-07)
        np.testing.assert_allclose(cut.predict(X[:50]), whole.predict(X[:50]), rtol=0, atol=1e-07)
    else:
        assert np.mean(np.concatenate(got) != expected) < 0.002
        ours, theirs = cut.decision_function(X[:50]), whole.decision_function(X[:50])
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-07)
    assert np.array_equal(cut.dictionary_, whole.dictionary_)


def test_classes_known_in_advance_change_nothing():
    X, y = three_classes(700)
    told = OnlineKernelClassifier(budget=30, random_state=0)
    told.partial_fit(X[:1], y[:1], classes=["ant", "bee", "cat"]).partial_fit(X[1:], y[1:])
    found = OnlineKernelClassifier(budget=30, random_state=0)
    for i in range(0, 700, 50):
        found.partial_fit(X[i : i + 50], y[i : i + 50])
    ours, theirs = found.decision_function(X[:40]), told.decision_function(X[:40])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-08)
    np.testing.assert_allclose(
        found.predict_proba(X[:40]), told.predict_proba(X[:40]), rtol=0, atol=1e-08
    )


@pytest.mark.parametrize(
    "stop", [5, *(pytest.param(at, marks=pytest.mark.matrix) for at in (100, 600, 2048)), 2300]
)
def test_saving_and_resuming_changes_nothing(stop, tmp_path):
    X, y = regression()
    learner = OnlineKernelRegressor(budget=40, random_state=0).partial_fit(X[:stop], y[:stop])
    learner.save(tmp_path / "model.pronk")
    other = pronk.load(tmp_path / "model.pronk")
    ours = learner.predict_then_learn(X[stop:], y[stop:], interval=0.9)[1]
    assert np.array_equal(other.predict_then_learn(X[stop:], y[stop:], interval=0.9)[1], ours)
    assert other.experts_ == learner.experts_
    for own, theirs in zip(learner.predict(X, True), other.predict(X, True), strict=True):
        assert np.array_equal(own, theirs)


@pytest.mark.parametrize(
    "stop", [150, *(pytest.param(at, marks=pytest.mark.matrix) for at in (700, 1290)), 2500]
)
def test_a_file_has_the_calls_of_the_open_rows(stop, tmp_path):
    """One row and many rows per call round differently; a loaded model has the same bits."""
    X, y = regression()
    learner = OnlineKernelRegressor(budget=70, random_state=0).partial_fit(X[:64], y[:64])
    rng, start = np.random.default_rng(stop), 64
    while start < stop:
        rows = slice(start, min(stop, start + int(rng.choice([1, 1, 1, 3, 17, 90]))))
        learner.predict(X[:2])
        learner.partial_fit(X[rows], y[rows])
        start = rows.stop
    learner.save(tmp_path / "model.pronk")
    other = pronk.load(tmp_path / "model.pronk")
    other.save(tmp_path / "again.pronk")
    assert (tmp_path / "model.pronk").read_bytes() == (tmp_path / "again.pronk").read_bytes()
    for rows in (slice(stop, stop + 1), slice(stop + 1, stop + 400)):
        ours = learner.predict_then_learn(X[rows], y[rows], interval=0.9)[1]
        assert np.array_equal(other.predict_then_learn(X[rows], y[rows], interval=0.9)[1], ours)
    assert np.array_equal(other.predict(X, True), learner.predict(X, True))


@pytest.mark.parametrize("new", [300, 511, 512, 600])
def test_a_file_of_an_epoch_with_a_new_class(new, tmp_path):
    X, y = three_classes(900)
    y[:new] = np.where(y[:new] == "cat", "bee", y[:new])
    learner = OnlineKernelClassifier(budget=40, random_state=0)
    for i in range(0, 620, 31):
        learner.partial_fit(X[i : i + 31], y[i : i + 31])
    learner.save(tmp_path / "model.pronk")
    other = pronk.load(tmp_path / "model.pronk")
    for rows in (slice(620, 621), slice(621, 900)):
        ours = learner.predict_then_learn(X[rows], y[rows], output="probability")
        theirs = other.predict_then_learn(X[rows], y[rows], output="probability")
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("rows", "columns", "most"), [(1500, 4, 4e6), (2000, 4, 5e6), (2000, 10, 5e6), (4090, 4, 6e6)]
)
def test_files_are_small(rows, columns, most, tmp_path):
    X, y = regression(rows, columns=columns)
    OnlineKernelRegressor(random_state=0).fit(X, y).save(tmp_path / "model.pronk")
    assert (tmp_path / "model.pronk").stat().st_size < most


def test_units_of_columns_and_targets_change_nothing():
    X, y = regression()
    plain = OnlineKernelRegressor(budget=60, random_state=0).predict_then_learn(X, y)
    other = OnlineKernelRegressor(budget=60, random_state=0)
    scaled = other.predict_then_learn(X * [1000, 1, 1e-6] + [0, 5, 0], 1e6 * y + 3e6)
    np.testing.assert_allclose(
        (scaled[1:] - 3e6) / 1e6, plain[1:], rtol=0, atol=1e-05
    )  # the first is 0


def test_constant_columns_are_harmless():
    X, y = regression(800)
    plain = OnlineKernelRegressor(budget=40, random_state=0).predict_then_learn(X, y)
    padded = np.column_stack((X, np.full(800, 7.0), np.zeros(800)))
    other = OnlineKernelRegressor(budget=40, random_state=0).predict_then_learn(padded, y)
    np.testing.assert_allclose(other, plain, rtol=0, atol=1e-09)
    only = OnlineKernelRegressor(random_state=0)
    mean = only.predict_then_learn(np.zeros((300, 2)), y[:300])
    assert np.isfinite(mean).all()
    flat = OnlineKernelRegressor(random_state=0).predict_then_learn(X[:300], np.full(300, 4.0))
    np.testing.assert_allclose(flat[1:], 4.0, rtol=1e-12, atol=0)


@pytest.mark.slow
def test_drift_is_followed(monkeypatch):
    """By discounted experts alone, without a challenger."""
    monkeypatch.setattr(recovery, "LEAST_ROWS", 10**9)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (8000, 3))
    y = np.where(
        np.arange(8000) < 4000, np.sin(3 * X[:, 0]) + X[:, 1], np.cos(3 * X[:, 0]) - X[:, 1]
    )
    y = y + 0.1 * rng.normal(size=8000)
    learner = OnlineKernelRegressor(budget=100, random_state=0)
    intervals = learner.predict_then_learn(X, y, interval=0.9)[1]
    stubborn = WithoutForgetting(budget=100, random_state=0).predict_then_learn(X, y)
    after = slice(4000, None)
    own = np.mean((intervals.mean(axis=1) - y)[after] ** 2)
    assert own < 0.25 * np.mean((stubborn - y)[after] ** 2)
    covered = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
    assert 0.88 < covered.mean() < 0.92
    assert 0.87 < covered[after].mean() < 0.93
    steady = OnlineKernelRegressor(budget=100, random_state=0).partial_fit(X[:4000], y[:4000])
    for model, discounted in ((learner, True), (steady, False)):  # the leading kernel expert
        leader = next(row for row in model.experts_ if row["factor"] is not None)
        assert (leader["window"] is not None) == discounted


@pytest.mark.slow
@pytest.mark.parametrize(
    "coverage",
    [*(pytest.param(low, marks=pytest.mark.matrix) for low in (0.5, 0.65)), 0.9, 0.99],
)
def test_coverage_of_intervals(coverage):
    found = []
    for seed in range(3):
        X, y = regression(5000, seed=20 + seed)
        fresh, answers = X[4000:], y[4000:]
        learner = OnlineKernelRegressor(budget=40, random_state=seed)
        low, high = learner.predict_then_learn(X[:3000], y[:3000], interval=coverage)[1].T
        assert abs(np.mean((low <= y[:3000]) & (y[:3000] <= high)) - coverage) < 0.02
        for start in range(3000, 4000, 200):  # the width of a moment scatters
            learner.partial_fit(X[start : start + 200], y[start : start + 200])
            low, high = learner.predict_interval(fresh, coverage=coverage).T
            found.append(np.mean((low <= answers) & (answers <= high)))
    assert abs(np.mean(found) - coverage) < 0.05


def test_the_deviation_grows_away_from_the_rows():
    X, y = regression(3000, columns=2)
    learner = OnlineKernelRegressor(budget=100, random_state=0).partial_fit(X, y)
    mean, deviation = learner.predict(np.array([[0.0, 0.0], [4.0, -4.0]]), return_std=True)
    assert mean.shape == deviation.shape == (2,)
    assert deviation[1] > 1.1 * deviation[0] > 0
    both = OnlineKernelRegressor(budget=30, random_state=0).partial_fit(X, np.column_stack((y, -y)))
    mean, deviation = both.predict(X[:7], return_std=True)
    assert mean.shape == deviation.shape == (7, 2)
    assert both.predict_interval(X[:7]).shape == (7, 2, 2)


def test_probabilities_are_calibrated_and_agree_with_the_labels():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (6000, 2))
    truth = 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0]) - X[:, 1]))
    y = (rng.random(6000) < truth).astype(int)
    learner = OnlineKernelClassifier(budget=80, random_state=0).partial_fit(X[:5000], y[:5000])
    P = learner.predict_proba(X[5000:])
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12, atol=0)
    assert np.array_equal(learner.classes_[P.argmax(axis=1)], learner.predict(X[5000:]))
    assert np.mean(np.abs(P[:, 1] - truth[5000:])) < 0.05
    X, y = three_classes(1500)
    learner = OnlineKernelClassifier(budget=80, random_state=0).partial_fit(X, y)
    P = learner.predict_proba(X)
    assert P.shape == (1500, 3)
    assert np.array_equal(learner.classes_[P.argmax(axis=1)], learner.predict(X))


def test_experts_are_listed_and_some_are_dropped():
    X, y = regression(2600)
    learner = OnlineKernelRegressor(budget=50, random_state=0)
    assert learner.partial_fit(X[:5], y[:5]).experts_ == []
    learner.partial_fit(X[5:600], y[5:600])
    assert len(learner.experts_) == 17 and all(e["active"] for e in learner.experts_)
    assert sum(e["weight"] for e in learner.experts_) == pytest.approx(1.0, rel=1e-12)
    learner.partial_fit(X[600:], y[600:])
    active = [e for e in learner.experts_ if e["active"] and e["factor"]]  # without baselines
    assert len(active) == 5 and {e["window"] for e in active} == {None, 100}
    assert active[0]["weight"] == max(e["weight"] for e in active)
    assert all(e["points"] <= 50 for e in active)
    assert learner.shares_.sum() == pytest.approx(1.0, rel=1e-12)
    assert learner.size_ <= 50


@pytest.mark.parametrize(
    "kernel", ["laplacian", pronk.Matern(1.0, 2.5), "linear", pronk.Polynomial(2), Gaussian(2.0)]
)
def test_other_kernels_work(kernel):
    X = regression(700)[0]
    y = X[:, 0] + 0.5 * X[:, 1]
    predictions = OnlineKernelRegressor(kernel, budget=30, random_state=0).predict_then_learn(X, y)
    assert np.mean((predictions - y)[300:] ** 2) < 0.2


def test_a_kernel_function_gets_unscaled_rows():
    seen = []

    def kernel(A, B):
        seen.append(np.abs(A).max())
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2) / 100.0**2)

    X, y = regression(300)
    OnlineKernelRegressor(kernel, budget=30, random_state=0).partial_fit(100 * X, y)
    assert max(seen) == np.abs(100 * X).max()


def test_invalid_parameters_are_named_and_change_nothing():
    X, y = regression(100)
    learner = OnlineKernelRegressor(random_state=0).partial_fit(X, y)
    before = copy.deepcopy(learner._fitted_state())
    for coverage in (0.0, 1.0, -1, 2.0):
        with pytest.raises(ValueError, match="coverage"):
            learner.predict_then_learn(X, y, interval=coverage)[1]
    assert str(learner._fitted_state()) == str(before)
    with pytest.raises(ValueError, match="budget"):
        OnlineKernelRegressor(budget=0).fit(X, y)


def test_it_is_the_default():
    assert isinstance(pronk.make("default"), OnlineKernelRegressor)
    assert isinstance(pronk.make("default", "classification"), OnlineKernelClassifier)
    assert "online-kernel" in pronk.algorithms()
