"""Labels that arrive late: parts against the rule row by row, and the laws with rows that wait."""

import copy
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

import pronk
from helpers import Forecaster, sequence
from naive import late as naive_late
from pronk.aggregate.baselines import MEAN_WINDOWS, Baselines, Past, find_lags
from pronk.aggregate.calibration import FIRST_ROWS, LEVELS, NORMAL, UNKNOWN, Quantiles
from pronk.aggregate.far import FarHead, is_anchor, next_anchor
from pronk.aggregate.late import Ring
from pronk.aggregate.local import Forest
from pronk.aggregate.mixture import Mixture
from pronk.aggregate.recovery import PARTS

DELAYS = (1, 7, 40)


def close(got, expected, tolerance=1e-8):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def pieces(n, delay, cuts):
    """Yield slices of rows, and of the targets that arrive with them."""
    edges = sorted({0, *cuts, n})
    for start, stop in pairwise(edges):
        yield slice(start, stop), slice(max(0, start - delay), max(0, stop - delay))


# -- parts against the rule ------------------------------------------------------------------------


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("window", [None, 50])
def test_an_expert_predicts_each_row_as_of_the_labels_known(delay, window):
    rng = np.random.default_rng(0)
    Phi, Y = rng.normal(size=(300, 20)), rng.normal(size=(300, 2))
    expert = Forecaster(0.5, 20, 2, window)
    keep = 1.0 if window is None else 1 - 1 / window
    twin = naive_late.LateAWV(0.5, 20, 2, keep, expert.block_length if window else None)
    expected = naive_late.late_pass(Phi, Y, delay, twin.predict, twin.learn)
    got = [
        expert.learn(Phi[old], Y[old], later=Phi[rows])
        for rows, old in pieces(300, delay, (1, 2, 5, 60, 61, 200))
    ]
    close(np.concatenate(got), expected)


def test_a_one_block_pass_of_an_expert_ends_where_row_by_row_ends():
    rng = np.random.default_rng(1)
    Phi, Y = rng.normal(size=(150, 6)), rng.normal(size=(150, 1))
    whole, single = (Forecaster(0.5, 6, 1, 30) for _ in range(2))
    P = whole.learn(Phi[:-3], Y[:-3], later=Phi)
    Q = [
        single.learn(Phi[old], Y[old], later=Phi[rows]) for rows, old in pieces(150, 3, range(150))
    ]
    assert np.array_equal(P, np.concatenate(Q))
    assert np.array_equal(whole.weights, single.weights)


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("signed", [False, True])
def test_weights_and_stacks_learn_the_predictions_that_waited(delay, signed):
    rng = np.random.default_rng(2)
    P, Y = np.tanh(rng.normal(size=(200, 4, 2))), np.sign(rng.normal(size=(200, 2)))
    Y = Y if signed else Y * rng.uniform(size=(200, 2))
    limits = np.array([[-1.0, -1.0], [1.0, 1.0]])
    late = Mixture(4, limits, signed, (0.0, 30.0), (1, 3))
    twin = naive_late.LateMixture(Mixture(4, limits, signed, (0.0, 30.0), (1, 3)))
    expected = naive_late.late_pass(P, Y, delay, twin.predict, twin.learn)
    got = [
        late.learn(P[rows], Y[old]).final[rows.start - rows.stop :]
        for rows, old in pieces(200, delay, (1, 2, 45, 46, 150))
    ]
    close(np.concatenate(got), expected)
    close(late.weights, twin.mixture.weights)
    close(late.losses, twin.mixture.losses)


def test_dropped_experts_leave_the_rows_that_wait():
    rng = np.random.default_rng(3)
    P, Y = rng.uniform(-1, 1, (60, 3, 1)), rng.uniform(-1, 1, (60, 1))
    limits = np.array([[-1.0], [1.0]])
    late = Mixture(3, limits, False)
    twin = naive_late.LateMixture(Mixture(3, limits, False))
    late.learn(P[:40], Y[:35])
    waiting = []
    for t in range(40):
        waiting.append(twin.predict(P[t])[1])
        if t >= 5:
            twin.learn(None, waiting[t - 5], Y[t - 5])
    late.keep([0, 2])
    twin.mixture.keep([0, 2])
    kept = [row._replace(clipped=row.clipped[:, [0, 2]]) for row in waiting]
    for t in range(40, 60):
        prediction, row = twin.predict(P[t, [0, 2]])
        close(late.learn(P[t : t + 1, [0, 2]], Y[t - 5 : t - 4]).final[-1], prediction)
        kept.append(row)
        twin.learn(None, kept[t - 5], Y[t - 5])


@pytest.mark.parametrize("delay", DELAYS)
def test_lagged_targets_and_means_are_those_known(delay):
    rng = np.random.default_rng(4)
    Y = rng.normal(size=(120, 2))
    lags = [1, 2, 9]
    past, means = Past(2, [0, 1], lags, delay), Baselines(2)
    close(past.columns_of(Y), naive_late.known_targets(Y, delay, lags))
    cuts = list(pieces(120, delay, (3, 4, 50)))
    read = [past.learn(rows.stop - rows.start, Y[old]) for rows, old in cuts]
    close(np.concatenate(read), naive_late.known_targets(Y, delay, lags))
    seasonal = Baselines(2, season=9, delay=delay)
    P = [seasonal.learn(Y[old], Y[old], Y[rows]) for rows, old in cuts]
    last, ago, before = (naive_late.known_targets(Y, delay, [lag]) for lag in (1, 9, 10 + delay))
    close(np.concatenate(P)[:, 3], last + ago - before)
    known = Y[: 120 - delay]
    close(seasonal.predict(Y[:1])[0, 3], known[-1] + known[-9] - known[-10 - delay])
    P = [means.learn(Y[old], Y[old], Y[rows]) for rows, old in cuts]
    close(np.concatenate(P)[:, :, 1], naive_late.late_means(Y[:, 1], delay, MEAN_WINDOWS))


def test_linear_experts_learn_late_labels_row_by_row():
    rng = np.random.default_rng(5)
    Z, Y = rng.normal(size=(90, 3)), np.sign(rng.normal(size=(90, 1)))
    late, twin = Baselines(1, 3), Baselines(1, 3)

    def learn(z, _, y):
        twin.learn(z[None, :], y[None, :])

    expected = naive_late.late_pass(Z, Y, 4, lambda z: (twin.predict(z[None, :])[0], None), learn)
    got = [late.learn(Z[old], Y[old], Z[rows]) for rows, old in pieces(90, 4, (2, 3, 30))]
    close(np.concatenate(got), expected)


@pytest.mark.parametrize("signed", [False, True])
def test_local_experts_learn_rows_as_they_were_predicted(signed):
    rng = np.random.default_rng(6)
    Z = rng.uniform(-1, 1, (400, 2))
    Y, G = np.sin(3 * Z[:, :1]), 0.1 * rng.normal(size=(400, 1))
    Y = np.sign(Y) if signed else Y
    made = np.ones((2, 2)), np.array([[-1.0], [1.0]]), signed, 0, 10**7
    late, twin = Forest(*made), Forest(*made)

    def predict(row):
        return twin.predict(row[None, :2], row[None, 2:])[0], None

    def learn(row, _, y):
        twin.learn(row[None, :2], y[None, :], row[None, 2:])

    expected = naive_late.late_pass(np.hstack((Z, G)), Y, 11, predict, learn)
    got = [
        late.learn(Z[old], Y[old], G[old], Z[rows], G[rows])
        for rows, old in pieces(400, 11, (5, 6, 12, 333))
    ]
    np.testing.assert_array_equal(np.concatenate(got), expected)


@pytest.mark.parametrize("delay", [1, 9, 70])
def test_quantiles_learn_from_the_misses_that_were_shown(delay):
    rng = np.random.default_rng(7)
    P, Y, scales = rng.normal(size=(3, 400, 1))
    Y[200:] *= 3
    scales = np.exp(0.3 * scales)
    twin = naive_late.LateIntervals(LEVELS, NORMAL, delay)
    R = (Y - P) / scales
    expected = naive_late.late_pass(P[:, 0], R[:, 0], delay, twin.predict, twin.learn)
    late, ring = Quantiles(1, delay), Ring(PARTS, {"outputs": 1, "levels": len(LEVELS)})
    first = delay + FIRST_ROWS  # rows whose targets are not tracked
    rows, got = [np.vstack((np.ones((first, 1)), part)) for part in (P, scales, Y)], []
    for start, stop in pairwise((0, 5, first + delay, first + delay + 1, first + 99, first + 400)):
        parts = ring.extend(stop - start)
        for part, values in zip(parts, rows, strict=False):
            part[len(part) - (stop - start) :] = values[start:stop]
        late.learn(*parts, stop - start)
        got.append(parts[-1][len(parts[-1]) - (stop - start) :].copy())
        ring.drop(max(0, ring.rows - delay))
        if stop == first + delay:
            ring.parts[-1][:] = NORMAL[:, None]
    close(np.concatenate(got)[first + delay :, :, 0], expected[delay:])


def test_late_quantiles_that_were_not_known_count_as_the_present_ones():
    late, twin = Quantiles(1, 1), Quantiles(1, 1)
    rows = FIRST_ROWS + 2  # the last one waits
    one, shown = np.ones((rows, 1)), np.empty((rows, len(LEVELS), 1))
    for quantiles in (late, twin):
        quantiles.learn(0 * one, one, 0 * one, shown)
    assert late.tracked and (shown == UNKNOWN).all()
    two, own = np.ones((2, 1)), np.full((2, len(LEVELS), 1), UNKNOWN)
    late.learn(0 * two, two, 1.5 * two, own, 1)
    own[0] = NORMAL[:, None]
    twin.learn(0 * two, two, 1.5 * two, own, 1)
    close(late.current(0 * one, one), twin.current(0 * one, one))


@pytest.mark.parametrize(("delay", "expected"), [(0, [1, 2, 12]), (5, [1, 2, 7]), (11, [1, 2, 13])])
def test_lags_are_found_among_those_that_are_known(delay, expected):
    rng = np.random.default_rng(8)
    y = np.sin(2 * np.pi * np.arange(600) / 12) + 0.1 * rng.normal(size=600)
    assert find_lags(y[:, None], [0], delay=delay) == expected
    assert find_lags(rng.normal(size=(600, 1)), [0], delay=delay) == []
    assert find_lags(y[:60, None], [0], delay=200) == []


# -- the learner -----------------------------------------------------------------------------------


def make(labels=False, delay=5, **options):
    kind = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    return kind(random_state=0, delay=delay, **options)


@pytest.mark.parametrize("labels", [pytest.param(False, marks=pytest.mark.matrix), True])
def test_the_last_labels_change_nothing_before_they_are_due(labels):
    """Labels of rows after t - 1 - delay do not change the prediction of row t, at any stage."""
    X, y = sequence(2700, labels)
    delay, at = 25, (9, 40, 41, 300, 2080, 2600)
    expected = make(labels, delay).predict_then_learn(X, y)
    for t in at:
        other = y[: t + 1].copy()
        other[max(0, t - delay) :] = "mid" if labels else 1e3
        got = make(labels, delay).predict_then_learn(X[: t + 1], other)
        if labels:
            assert got[: t + 1].tolist() == expected[: t + 1].tolist()
        else:
            close(got, expected[: t + 1], 1e-6)


@pytest.mark.parametrize("labels", [pytest.param(False, marks=pytest.mark.matrix), True])
def test_any_cut_gives_the_same_predictions_with_rows_that_wait(labels):
    X, y = sequence(2600, labels)
    whole, cut = make(labels), make(labels)
    output = {"output": "probability"} if labels else {"interval": 0.9}
    expected = whole.predict_then_learn(X, y, **output)
    expected = expected if labels else np.column_stack((expected[0], expected[1]))
    edges = [0, 1, 2, 7, 8, 13, 14, 100, 531, 532, 2047, 2053, 2054, 2300, 2600]
    got = []
    if labels:
        cut.partial_fit(X[:0], y[:0], classes=["high", "low", "mid"])
    for start, stop in pairwise(edges):
        part = cut.predict_then_learn(X[start:stop], y[start:stop], **output)
        got.append(part if labels else np.column_stack((part[0], part[1])))
    widest = max(len(part[0]) for part in got)
    for start, part in zip(edges, got, strict=False):
        if part.shape[1] == widest:
            np.testing.assert_allclose(
                part, expected[start : start + len(part)], rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("rows", [3, 20, 700, 2500])
def test_a_saved_model_has_the_rows_that_wait(tmp_path, labels, rows):
    X, y = sequence(2600, labels)
    model = make(labels)
    model.predict_then_learn(X[:rows], y[:rows])
    model.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    expected = model.predict_then_learn(X[rows : rows + 60], y[rows : rows + 60])
    got = again.predict_then_learn(X[rows : rows + 60], y[rows : rows + 60])
    np.testing.assert_array_equal(got, expected)
    assert again.delay == 5


@pytest.mark.parametrize("rows", [3, 30, 700, 2052])
def test_a_call_that_raises_leaves_the_rows_that_wait(monkeypatch, rows):
    X, y = sequence(2200)
    model, twin = make(), make()
    model.predict_then_learn(X[:rows], y[:rows])
    twin.predict_then_learn(X[:rows], y[:rows])

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(model), "_check_result", stopped)
        with pytest.raises(KeyboardInterrupt):
            model.predict_then_learn(X[rows : rows + 20], y[rows : rows + 20])
    more = slice(rows, rows + 80)
    np.testing.assert_array_equal(
        model.predict_then_learn(X[more], y[more]), twin.predict_then_learn(X[more], y[more])
    )


def test_a_new_class_may_wait():
    X, y = sequence(900, labels=True)
    y = y.astype("<U5")
    y[450:] = np.where(y[450:] != "low", "other", y[450:])
    first = 450 + int(np.argmax(y[450:] == "other"))
    whole = make(True, 30).predict_then_learn(X, y)
    assert "other" not in whole[: first + 31].tolist()
    assert "other" in whole.tolist()
    model = make(True, 30)
    edges = [0, 1, 2, 20, 35, first + 1, first + 10, first + 31, first + 40, 900]
    parts = [model.predict_then_learn(X[a:b], y[a:b]) for a, b in pairwise(edges)]
    assert np.concatenate([part.astype(object) for part in parts]).tolist() == whole.tolist()
    copied = copy.deepcopy(model)
    assert copied.predict(X[:5]).tolist() == model.predict(X[:5]).tolist()


def test_a_prediction_is_that_of_the_next_row():
    X, y = sequence(900)
    model = make(delay=12)
    model.predict_then_learn(X[:850], y[:850])
    for t in range(850, 880):
        expected = model.predict(X[t : t + 1])
        close(model.predict_then_learn(X[t : t + 1], y[t : t + 1]), expected)


@pytest.mark.slow
def test_late_labels_cost_accuracy_and_keep_coverage():
    X, y = sequence(4000)
    errors = []
    for delay in (0, 1, 24):
        P, ends = make(delay=delay).predict_then_learn(X, y, interval=0.9)
        inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
        assert 0.87 < inside[1000:].mean() < 0.93
        errors.append(np.mean((P - y)[1000:] ** 2))
    assert errors == sorted(errors)
    assert errors[-1] < np.var(y[1000:])


# -- the second head: rows far ahead ---------------------------------------------------------------


def test_weights_are_copied_at_powers_of_two_and_then_every_2048_rows():
    rows = [n for n in range(10_000) if is_anchor(n)]
    assert rows == [256, 512, 1024, 2048, 4096, 6144, 8192]
    for n in (0, 255, 256, 257, 2047, 2048, 2049, 4095, 6144, 7000):
        assert next_anchor(n) == min(row for row in rows if row > n)


@pytest.mark.thinned
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("delay", [0, 20])
def test_rows_far_ahead_are_predicted_by_the_second_head(labels, delay):
    """Experts far ahead have the weights of their last copy, and read the labels known then."""
    X, y = sequence(2700, labels)
    model = make(labels, delay)
    model.predict_then_learn(X[: 2048 + delay], y[: 2048 + delay])
    assert model.reads_past_
    experts = copy.deepcopy(model._model.incumbent.experts)
    model.predict_then_learn(X[2048 + delay : 2600], y[2048 + delay : 2600])
    far, now = model._model.incumbent.experts.far, model._model.incumbent
    Z = now._scaled(X[2048:2056])
    wide = np.hstack((Z, np.tile(experts.past.predict(1), (8, 1))))
    Phi = experts.features.of(wide)
    for e, number in enumerate(experts.active):
        close(far.weights_of(number), experts.forecasters.weights_of(e))
        assert Phi.shape[2] >= len(far.weights_of(number))
    close(far.past, experts.past.predict(1)[0])
    # Several rows by the second head, one row by the first, and the other way round.
    same = np.testing.assert_array_equal if labels else close
    same(model.predict(X[:5], ahead=False), [model.predict(row[None, :])[0] for row in X[:5]])
    second = model.predict(X[:5], ahead=True)
    same([model.predict(row[None, :], ahead=True)[0] for row in X[:5]], second)
    if labels:
        shares = model.predict_proba(X[:5], ahead=True)
        assert shares.sum(axis=1) == pytest.approx(1.0)
        assert (model.classes_[shares.argmax(axis=1)] == second).all()
    else:
        values, deviation = model.predict(X[:5], return_std=True, ahead=True)
        close(values, second)
        ends = model.predict_interval(X[:5], ahead=True)
        close(ends.mean(axis=1), second)
        size = now._size[0]
        close(deviation, size * np.sqrt(np.mean(far.errors.values**2)))


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_predictions_of_the_first_rows_are_the_first_predictions(labels, sparse):
    """`predict`: the rows follow the stream in order; X[0] is the next one, X[i] comes i later."""
    X, y = sequence(2500, labels)
    model = make(labels, 0).fit(X[:2400], y[:2400])
    assert model.reads_past_
    kinds = [model.predict_proba] if labels else [model.predict, model.predict_interval]
    if not labels:
        kinds.append(lambda X, **more: model.predict(X, return_std=True, **more)[1])
    rows = csr_array(np.tile(X[2400:], (30, 1))) if sparse else X[2400:]
    for predict in kinds:
        all_of_them = predict(rows)
        for k in (1, 2, 40):
            close(predict(rows[:k]), all_of_them[:k])
        close(all_of_them[:1], predict(rows[:1], ahead=False))
        close(all_of_them[1:], predict(rows[1:], ahead=True))


def test_errors_far_ahead_are_those_of_the_copied_mixture():
    X, y = sequence(1500)
    model = make(delay=0)
    model.predict_then_learn(X[:1024], y[:1024])
    experts = model._model.incumbent.experts
    copied = copy.deepcopy(experts)
    before = copied.far.errors.values.shape[0]
    model.predict_then_learn(X[1024:1500], y[1024:1500])
    rows = np.arange(1024, 1500, 8)
    expected = model._model.incumbent._scaled_targets(y[rows, None]) - copied.predict_far(
        model._model.incumbent._scaled(X[rows])
    )
    got = experts.far.errors.values[before : before + len(rows)]
    close(got, np.abs(expected), 1e-6)


def test_intervals_far_ahead_hold_where_those_of_the_next_row_do_not():
    X, y = sequence(9000, seed=3)
    model, near, far = make(delay=0).fit(X[:1048], y[:1048]), [], []
    for start in range(2048, 8000, 1000):
        model.partial_fit(X[start - 1000 : start], y[start - 1000 : start])
        rows = slice(start, start + 1000)
        for held, ahead in ((near, False), (far, True)):
            ends = model.predict_interval(X[rows], ahead=ahead)
            held.append(np.mean((ends[:, 0] <= y[rows]) & (y[rows] <= ends[:, 1])))
    assert np.mean(near) < 0.6
    assert 0.85 < np.mean(far) < 0.97


@pytest.mark.parametrize("cut", [1, 7])
def test_the_second_head_is_the_same_for_any_cut(cut):
    X, y = sequence(700)
    whole, parts = make(delay=0), make(delay=0)
    whole.partial_fit(X, y)
    for start in range(0, 700, cut):
        parts.partial_fit(X[start : start + cut], y[start : start + cut])
    np.testing.assert_allclose(parts.predict(X[:50]), whole.predict(X[:50]), rtol=1e-5, atol=1e-6)
    close(parts.predict_interval(X[:50]), whole.predict_interval(X[:50]), 1e-5)


@pytest.mark.parametrize("signed", [False, True])
def test_the_second_head_has_a_forest_of_all_rows_and_one_of_the_last_copy(signed):
    rng = np.random.default_rng(4)
    Z, Y = rng.normal(size=(700, 3)), rng.normal(size=(700, 2))
    Y = np.sign(Y) if signed else Y
    metrics, limits = rng.uniform(0.5, 2.0, (2, 3)), np.array([[-3.0, -3.0], [3.0, 3.0]])
    head = FarHead([0], 1, 3, 0, limits, signed, 0, 10**7)
    head.add_forest(metrics)
    zeros, done, copied = np.zeros((50, 2)), 0, 0
    for stop in (3, 8, 9, 40, 256, 257, 300, 512, 697):
        head.add_rows(Z[done:stop], Y[done:stop], stop)
        done, learned = stop, (stop - 1) // 8 * 8  # all rows but the last one to eight
        if is_anchor(stop):
            head.copy(stop, [np.zeros((4, 2))], np.zeros((3, 2)), np.zeros(0))
            copied = learned = stop
        for forest, rows in ((head.forest, learned), (head._copied_forest, copied)):
            if forest is not None:
                twin = Forest(metrics, limits, signed, 0, 10**7 // 8, small=True)
                twin.learn(Z[:rows], Y[:rows], 0.0 * Y[:rows])
                got, expected = forest.predict(Z[:50], zeros), twin.predict(Z[:50], zeros)
                np.testing.assert_array_equal(got, expected, err_msg=f"{stop} {rows}")


@pytest.mark.parametrize("labels", [pytest.param(False, marks=pytest.mark.matrix), True])
def test_the_forest_far_ahead_is_the_same_for_any_cut_and_saved(labels, tmp_path):
    X, y = sequence(4300, labels)
    whole, parts = make(labels, 0), make(labels, 0)
    whole.partial_fit(X, y)
    for start, stop in pairwise((0, 5, 2040, 2049, 2050, 2051, 2300, 4090, 4097, 4300)):
        parts.partial_fit(X[start:stop], y[start:stop])
        if stop == 2300:
            parts.save(tmp_path / "model.pronk")
            parts = pronk.load(tmp_path / "model.pronk")
    assert whole._model.incumbent.experts.far.forest is not None
    if labels:
        assert np.array_equal(parts.predict_proba(X[:50]), whole.predict_proba(X[:50]))
    else:
        assert np.array_equal(parts.predict(X[:50]), whole.predict(X[:50]))
        assert np.array_equal(parts.predict_interval(X[:50]), whole.predict_interval(X[:50]))


def test_the_forest_far_ahead_learns_what_the_kernel_experts_do_not():
    """A product of periodic columns, which few points do not represent."""
    X, y = sequence(6000)
    more = np.random.default_rng(8).uniform(-1, 1, (6000, 2))
    X, y = np.hstack((X, more)), y + 3 * np.sin(6 * more[:, 0]) * np.sin(6 * more[:, 1])
    errors = []
    for memory in (0, 10**7):
        model = make(delay=0, budget=40, memory_limit=memory).fit(X[:5000], y[:5000])
        assert model.reads_past_
        errors.append(np.mean((model.predict(X[5000:]) - y[5000:]) ** 2))
    assert errors[1] < 0.8 * errors[0]


def test_a_stream_without_lags_has_one_head():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    model = make(delay=0).fit(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=600))
    assert not model.reads_past_
    np.testing.assert_array_equal(model.predict(X[:5]), model.predict(X[:5], ahead=True))


def test_a_saved_model_predicts_the_same_far_ahead(tmp_path):
    X, y = sequence(700)
    model = make(delay=3).fit(X, y)
    model.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    np.testing.assert_array_equal(again.predict(X[:50]), model.predict(X[:50]))
    np.testing.assert_array_equal(again.predict_interval(X[:9]), model.predict_interval(X[:9]))
