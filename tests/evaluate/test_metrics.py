"""Metrics in one pass and any cut, against scikit-learn's on all rows; drift alarms; traces."""

import json
import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import metrics as sk

import pronk
from pronk.estimators import files
from pronk.evaluate import Evaluation, RunningMajority, progressive
from pronk.evaluate.drift import DriftAlarm, ErrorAlarm
from pronk.evaluate.metrics import (
    ALL,
    BINS,
    RATIO,
    STATISTICS,
    Calibration,
    Counts,
    Ranks,
    Scores,
    bin_of,
    get_scores,
)
from pronk.evaluate.models import Forecast
from pronk.evaluate.trace import SAMPLE, SEGMENTS, Sample, SegmentSums

N, WINDOW = 3000, 400
EPS = float(np.finfo(np.float64).eps)
CUTS = (1, 2, 64, 500, 501, 1700, N)


def classes(number, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(N, number))
    shares = np.exp(2 * logits) / np.exp(2 * logits).sum(axis=1, keepdims=True)
    names = np.array(["ant", "bee", "cow", "doe"])[:number]
    y = names[(shares.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)]
    return y, Forecast(names[shares.argmax(axis=1)], shares, names)


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    y = 1e6 + rng.normal(size=N).cumsum()
    return y, Forecast(y + rng.standard_cauchy(N))


def fed(task, y, forecast, names=None):
    """Scores that saw the rows in pieces, stopped and went on once."""
    names = names or ALL[task]
    scores = Scores(get_scores(names), WINDOW)
    start = 0
    for end in CUTS:
        some = y[start:end], forecast[start:end]
        scores.add(*some)
        if end == 500:
            state = scores.to_state()
            scores = Scores(get_scores(names), WINDOW)
            scores.restore(state)
        start = end
    return scores


def expected(y, forecast):
    shares, classes = forecast.probabilities, forecast.classes
    found = {
        "error": 1 - sk.accuracy_score(y, forecast.values),
        "balanced_accuracy": sk.balanced_accuracy_score(y, forecast.values),
        "kappa": sk.cohen_kappa_score(y, forecast.values),
        "f1": sk.f1_score(y, forecast.values, average="macro"),
        "log_loss": sk.log_loss(y, shares, labels=classes),
    }
    if len(classes) == 2:
        found["auc"] = sk.roc_auc_score(y == classes[1], shares[:, 1])
    else:
        found["auc"] = sk.roc_auc_score(y, shares, multi_class="ovr")
    return found


@pytest.mark.parametrize("number", [2, 3, 4])
def test_labels_against_scikit_learn(number):
    y, forecast = classes(number)
    scores = fed("classification", y, forecast)
    given, wanted = scores.values(), expected(y, forecast)
    ranks = Ranks()
    ranks.add(y, forecast)
    # What the bins cannot tell apart counts as ties: half of the pairs in one bin at most.
    doubt = max((own * others).sum() / (2 * own.sum() * others.sum()) for others, own in ranks.sums)
    assert doubt < 1e-3
    for name, value in wanted.items():
        tolerance = doubt if name == "auc" else 1e-12
        assert given[name] == pytest.approx(value, rel=0, abs=tolerance), name
    recent = expected(y[-WINDOW:], forecast[-WINDOW:])
    for name, value in scores.recent().items():
        assert value == pytest.approx(recent[name], rel=0, abs=1e-12), name


def test_numbers_against_scikit_learn():
    y, forecast = numbers()
    scores = fed("regression", y, forecast)
    for given, rows in ((scores.values(), slice(None)), (scores.recent(), slice(-WINDOW, None))):
        truth, said = y[rows], forecast.values[rows]
        assert given["mse"] == pytest.approx(sk.mean_squared_error(truth, said), rel=1e-12)
        assert given["mae"] == pytest.approx(sk.mean_absolute_error(truth, said), rel=1e-12)
        # The spread around a mean of 1e6 keeps its digits: sums of squares would lose 12 of 16.
        assert given["r2"] == pytest.approx(sk.r2_score(truth, said), rel=1e-9)
        tolerance = (RATIO - 1) / (RATIO + 1) if rows.start is None else 1e-12
        median = sk.median_absolute_error(truth, said)
        assert given["medae"] == pytest.approx(median, rel=tolerance * (1 + 1e-9))


def test_r2_of_several_outputs():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(N, 2)) * [1, 100]
    forecast = Forecast(y + rng.normal(size=(N, 2)) * [0.5, 10])
    given = fed("regression", y, forecast, ["r2"]).values()["r2"]
    assert given == pytest.approx(sk.r2_score(y, forecast.values), rel=1e-12)


def quantiles(outputs=None, seed=0):
    """Quantiles at levels that are not in order, and the interval; unknown in the first rows."""
    rng = np.random.default_rng(seed)
    levels = np.array([0.9, 0.05, 0.5, 0.3])
    shape = (N,) if outputs is None else (N, outputs)
    y, centre = rng.normal(size=(2, *shape))
    offsets = np.array([1.2, -1.5, 0.1, -0.4])
    found = centre[..., None] + offsets
    found[:2] = np.nan
    ends = found[..., [1, 0]] * 0.9
    return y, Forecast(centre, None, None, ends, 0.8, found, levels)


@pytest.mark.parametrize("outputs", [None, 3])
def test_scores_of_quantiles_against_their_definitions(outputs):
    y, forecast = quantiles(outputs)
    names = ["pinball", "crps", "interval_score"]
    scores = fed("regression", y, forecast, names)
    for given, first in ((scores.values(), 2), (scores.recent(), N - WINDOW)):
        truth, found = y[first:], forecast.quantiles[first:]
        losses = {0.0: 0.0, 1.0: 0.0}
        for k, level in enumerate(forecast.levels):
            losses[float(level)] = sk.mean_pinball_loss(truth, found[..., k], alpha=level)
        assert given["pinball"] == pytest.approx(sum(losses.values()) / 4, rel=1e-12)
        nodes = sorted(losses)
        crps = 2 * np.trapezoid([losses[node] for node in nodes], nodes)
        assert given["crps"] == pytest.approx(crps, rel=1e-12)
        low, high = np.moveaxis(forecast.intervals[first:], -1, 0)
        outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
        assert given["interval_score"] == pytest.approx(
            np.mean(high - low + 2 / 0.2 * outside), rel=1e-9
        )


def test_the_crps_of_many_levels_is_that_of_the_distribution():
    """Of a normal distribution around 0 and y = 1: 0.6024 (Gneiting and Raftery, Eq. 21)."""
    levels = np.linspace(0.001, 0.999, 999)
    found = np.quantile(np.random.default_rng(0).normal(size=10**6), levels)[None, :]
    score = STATISTICS["crps"].running()
    score.add(np.array([1.0]), Forecast(np.zeros(1), quantiles=found, levels=levels))
    assert score.value() == pytest.approx(0.6024, abs=0.002)


def test_progressive_has_scores_of_quantiles_by_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    Y = X + rng.exponential(size=(300, 2)) * [1, 10]
    learner = pronk.OnlineKernelRegressor(budget=20, random_state=0)
    names, levels = ["pinball", "interval_score"], (0.1, 0.5, 0.9)
    *_, last = progressive(learner, (X, Y), names, quantiles=levels, predictions=True)
    found = last.forecast.quantiles
    assert found.shape == (300, 2, 3) and np.isnan(found[0]).all()
    own = [one["pinball"] for one in last.outputs]
    assert own[1] > 5 * own[0] and last.metrics["pinball"] == pytest.approx(np.mean(own))
    with pytest.raises(ValueError, match=r"'crps' needs interval=0\.9 or quantiles"):
        list(progressive(pronk.OnlineKernelRegressor(), (X, Y), ["crps"]))


@pytest.mark.parametrize("name", [n for n in STATISTICS if n not in ("r2", "log_loss")])
def test_any_cut_gives_the_same_bits(name):
    y, forecast = numbers() if name == "medae" else classes(3)
    if STATISTICS[name].levels:
        y, forecast = quantiles()
    whole = STATISTICS[name].running()
    whole.add(y, forecast)
    cut = STATISTICS[name].running()
    for start, end in zip((0, *CUTS), CUTS, strict=False):
        cut.add(y[start:end], forecast[start:end])
    assert cut.value() == whole.value()


def test_labels_that_come_late():
    y = np.array(["b", "a", "b", "c", "a", "c", "b"])
    values = np.array([None, "b", "a", "b", "a", "c", "b"], dtype=object)
    known = np.array(["a", "b"])
    early = Forecast(values[:4], np.array([[np.nan] * 2, [0, 1], [0.3, 0.7], [0.4, 0.6]]), known)
    late = np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1]])
    later = Forecast(values[4:], late, np.array(["a", "b", "c"]))
    scores = Scores(get_scores(ALL["classification"]), None)
    for some in ((y[:4], early), (y[4:], later)):
        scores.add(*some)
    given = scores.values()
    # Rows 1 and 3 had a label of probability 0: no row before them had it.
    assert given["log_loss"] == pytest.approx(-np.mean(np.log([0.7, 0.5, 0.8, 0.7])), rel=1e-12)
    shares = np.array([[0, 1, 0], [0.3, 0.7, 0], [0.4, 0.6, 0], *late])
    wanted = np.mean([sk.roc_auc_score(y[1:] == c, shares[:, i]) for i, c in enumerate("abc")])
    assert given["auc"] == pytest.approx(wanted, abs=1e-12)
    named = np.where(values == None, "none", values).astype(str)  # noqa: E711
    labels = ["a", "b", "c"]
    assert given["f1"] == pytest.approx(sk.f1_score(y, named, labels=labels, average="macro"))
    assert given["error"] == 4 / 7


def test_confident_mistakes_cost_as_in_scikit_learn():
    rng = np.random.default_rng(4)
    y = np.array(["a", "b", "c", *rng.choice(["a", "b", "c"], 300)])
    shares = np.eye(3)[rng.integers(0, 3, len(y))]  # always sure, mostly wrong
    shares[:3] = 1 / 3
    forecast = Forecast(np.array(["a"] * len(y)), shares, np.array(["a", "b", "c"]))
    scores = Scores(get_scores(["log_loss"]), WINDOW)
    for rows in (slice(0, 100), slice(100, None)):
        scores.add(y[rows], forecast[rows])
    # Clipped by the eps of the float type: 36.04 for a label that had no probability.
    assert scores.values()["log_loss"] == pytest.approx(sk.log_loss(y, shares), rel=1e-12)
    recent = sk.log_loss(y[-WINDOW:], shares[-WINDOW:], labels=["a", "b", "c"])
    assert scores.recent()["log_loss"] == pytest.approx(recent, rel=1e-12)


def test_only_the_row_that_brings_a_label_is_left_out_of_the_log_loss():
    y = np.array(["a", "a", "b", "b", "c", "a"])
    known = np.array([[np.nan] * 2, [1, 0], [1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5]])
    wanted = {6: [1.0, EPS, 0.5], 3: [EPS, 0.5], 2: [0.5]}  # by rows of the window
    for window, shares in wanted.items():
        scores = Scores(get_scores(["log_loss"]), window)
        for rows in (slice(0, 2), slice(2, 3), slice(3, 6)):
            scores.add(y[rows], Forecast(y[rows], known[rows], np.array(["a", "b"])))
            state = scores.to_state()
            scores = Scores(get_scores(["log_loss"]), window)
            scores.restore(state)
        assert scores.recent()["log_loss"] == pytest.approx(-np.mean(np.log(shares)), rel=1e-12)
        assert scores.values()["log_loss"] == pytest.approx(-np.mean(np.log(wanted[6])), rel=1e-12)


def test_counts_are_the_confusion_matrix():
    y, forecast = classes(4)
    counts = Counts()
    for start, end in zip((0, *CUTS), CUTS, strict=False):
        counts.add(y[start:end], forecast[start:end])
    np.testing.assert_array_equal(counts.matrix, sk.confusion_matrix(y, forecast.values))
    assert counts.labels == sorted(set(y.tolist()))


def test_bins_of_probabilities_are_in_order():
    shares = np.array([0.0, 1e-9, 1e-7, 0.3, 0.5, 0.51, 0.99, 1 - 1e-9, 1.0])
    places = bin_of(shares)
    assert (np.diff(places) >= 0).all() and places[0] == 0 and places[-1] == BINS - 1


def test_a_metric_that_needs_probabilities_raises_without():
    X, y = np.zeros((10, 1)), np.arange(10) % 2
    with pytest.raises(ValueError, match="'auc' needs probabilities"):
        list(progressive(pronk.make("rbp", "classification"), (X, y), "auc"))
    with pytest.raises(ValueError, match="did you mean 'kappa'"):
        get_scores("kapa")


def test_the_majority_baseline_predicts_shares():
    y = np.array(["a", "b", "b", "c"])
    values, shares = RunningMajority().predict_then_learn(None, y, output="both")
    assert values.tolist() == [None, "a", "a", "b"]
    wanted = [[np.nan] * 3, [1, 0, 0], [0.5, 0.5, 0], [1 / 3, 2 / 3, 0]]
    np.testing.assert_allclose(shares, wanted, rtol=1e-15, atol=0)


# -- drift ---------------------------------------------------------------------------------------


def stationary(seed, rows=20_000, share=0.2):
    return (np.random.default_rng(seed).random(rows) < share).astype(float)


def as_in_a_file(state):
    arrays = {}
    text = json.dumps(files.pack(state, "state", arrays))
    return files.unpack(json.loads(text), arrays)


def test_an_alarm_after_a_jump_in_any_cut():
    losses = np.concatenate((stationary(0, 5000, 0.1), stationary(1, 5000, 0.3)))
    whole = DriftAlarm()
    whole.add(losses)
    (alarm,) = whole.alarms
    assert 5000 <= alarm.row < 5400 and abs(alarm.since - 5000) <= 128
    assert alarm.before == pytest.approx(0.1, abs=0.02) and alarm.after > 0.2
    cut = DriftAlarm()
    for piece in np.array_split(losses, 313):
        cut.add(piece)
        state = as_in_a_file(cut.to_state())
        cut = DriftAlarm()
        cut.restore(state)
    assert cut.alarms == whole.alarms


def test_no_alarm_without_a_rise():
    for seed in range(10):
        alarm = DriftAlarm()
        alarm.add(stationary(seed))
        assert not alarm.alarms
    falling = DriftAlarm()
    falling.add(np.concatenate((stationary(0, 5000, 0.5), stationary(1, 5000, 0.1))))
    assert not falling.alarms
    assert sum(rows for rows, *_ in falling.window._buckets) < 6000  # it forgot what was before


def test_errors_of_any_size_make_alarms():
    rng = np.random.default_rng(0)
    errors = np.abs(rng.standard_t(2, 8000)) * np.where(np.arange(8000) < 4000, 1e-6, 3e-6)
    alarm, whole = ErrorAlarm(), ErrorAlarm()
    whole.add(errors)
    for piece in np.array_split(errors, 57):
        alarm.add(piece)
        state = as_in_a_file(alarm.to_state())
        alarm = ErrorAlarm()
        alarm.restore(state)
    assert alarm.alarms == whole.alarms
    assert len(alarm.alarms) == 1 and 4000 <= alarm.alarms[0].row < 4400
    # Errors that fall as a learner learns, then stay, are no alarm.
    for seed in range(8):
        rng = np.random.default_rng(seed)
        still = ErrorAlarm()
        still.add(np.abs(rng.standard_t(2, 20_000)) * (1 + 100 / (1 + np.arange(20_000) / 50)))
        assert not still.alarms


# -- what a run looked like ------------------------------------------------------------------------


def test_the_open_segment_of_a_curve_is_joined_to_the_one_before():
    """A mean of a few rows beside means of many would look like a jump."""
    for rows, most in product((1, 31, 32, 33, 64, 100, 5000), (2, 7, SEGMENTS)):
        course, values = SegmentSums(1), np.arange(rows, dtype=float)[:, None]
        course.add(values)
        ends, means, length = course.curve(most)
        starts = [0, *ends[:-1]]
        expected = [values[start:end].mean() for start, end in zip(starts, ends, strict=True)]
        assert_allclose(means[:, 0], expected, rtol=1e-12, atol=0)
        assert ends[-1] == rows and len(ends) <= most
        assert len(ends) == 1 or np.diff([0, *ends]).min() >= length
    ends, means, _ = SegmentSums(2).curve()
    assert len(ends) == 0 and means.shape == (0, 2)


def test_a_course_is_the_mean_of_its_segments():
    values = np.random.default_rng(0).normal(size=(30_000, 2))
    course = SegmentSums(2)
    for piece in np.split(values, [1, 2, 33, 500, 501, 20_000]):
        course.add(piece)
    assert len(course.sums) <= SEGMENTS and course.rows == 30_000
    starts = [0, *course.ends[:-1]]
    for start, end, mean in zip(starts, course.ends, course.means, strict=True):
        np.testing.assert_allclose(mean, values[start:end].mean(axis=0), rtol=1e-9, atol=1e-12)
    sample = Sample(2)
    for piece in np.split(values, [1, 2, 33, 500, 501, 20_000]):
        sample.add(piece)
    rows = sample.held[:, 0].astype(int)
    assert SAMPLE // 2 <= len(rows) <= SAMPLE and (np.diff(rows) == sample.stride).all()
    np.testing.assert_array_equal(sample.held[:, 1:], values[rows])


def test_a_trace_resumes_from_its_state(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = np.where(X[:, 0] > 0, "up", "down")
    y[600:] = rng.choice(["up", "down"], 300)  # what no learner gets used to

    def evaluation(model):
        return Evaluation(model, ALL["classification"], window=100, probabilities=True)

    whole = evaluation(pronk.make("online-kernel", "classification", random_state=0))
    whole.feed(X, y)
    first = evaluation(pronk.make("online-kernel", "classification", random_state=0))
    first.feed(X[:500], y[:500])
    tree = {"model": files.learner_tree(first.model), "evaluation": first.to_state()}
    files.save_checkpoint(tree, tmp_path / "checkpoint")
    tree = files.load_checkpoint(tmp_path / "checkpoint")
    second = evaluation(files.learner_from_tree(tree["model"], "here"))
    second.restore(tree["evaluation"])
    second.feed(X[500:], y[500:])
    for name, value in whole.metrics.items():
        assert second.metrics[name] == pytest.approx(value, rel=1e-9), name
        assert second.recent[name] == pytest.approx(whole.recent[name], rel=1e-9), name
    assert second.trace.alarms == whole.trace.alarms and whole.trace.alarms
    assert 600 <= whole.trace.alarms[0].row < 700
    np.testing.assert_allclose(
        second.trace.calibration.sums, whole.trace.calibration.sums, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_array_equal(second.trace.counts.matrix, whole.trace.counts.matrix)
    assert not math.isnan(whole.trace.baseline_scores.values()["log_loss"])


def test_every_metric_is_compared_with_its_baselines():
    class Wrong:
        def predict_then_learn(self, X, y):
            return np.full(len(y), 7.0)

    evaluation = Evaluation(Wrong())
    evaluation.feed(np.zeros((50, 1)), np.zeros(50))
    told = {(one.baseline, one.metric) for one in evaluation.worse}
    assert told == {(b, m) for b in ("running mean", "last value") for m in ("mse", "mae")}


@pytest.mark.parametrize("sticky", [False, True])
def test_probabilities_and_repetition_have_baselines_too(sticky):
    """Labels are named well, and with too much confidence; where they stick, the last one wins."""

    class Sure:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, X):
            raise NotImplementedError

        def predict_then_learn(self, X, y, output="label"):
            named = np.where(X[:, 0] > 0, "a", "b")
            return named, np.column_stack([named == "a", named == "b"]).astype(float)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = np.where((X[:, 0] > 0) != (rng.random(400) < 0.2), "a", "b")
    if sticky:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    evaluation = Evaluation(Sure(), ALL["classification"], probabilities=True)
    evaluation.feed(X, y)
    told = {(one.baseline, one.metric) for one in evaluation.worse}
    assert ("most frequent label", "log_loss") in told
    assert (("last label", "error") in told) == sticky
    assert ("most frequent label", "error") not in told
    again = Evaluation(Sure(), ALL["classification"], probabilities=True)
    again.feed(X[:150], y[:150])
    state = again.to_state()
    again = Evaluation(Sure(), ALL["classification"], probabilities=True)
    again.restore(state)
    again.feed(X[150:], y[150:])
    for one, other in zip(again.worse, evaluation.worse, strict=True):
        assert (one.metric, one.baseline) == (other.metric, other.baseline)
        values, others = (one.value, one.of_baseline), (other.value, other.of_baseline)
        assert values == pytest.approx(others, rel=1e-12)


def test_calibration_of_each_class_from_its_definition():
    rng = np.random.default_rng(3)
    odds = rng.normal(size=(400, 3)) * [1.0, 3.0, 6.0]
    shares = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    y = np.array(["a", "b", "c"])[[rng.choice(3, p=p) for p in shares]]
    forecast = Forecast(np.full(400, "a"), shares, np.array(["a", "b", "c"]))
    calibration = Calibration()
    calibration.add(y[:100], forecast[:100])
    calibration.add(y[100:], forecast[100:])
    for i, one in enumerate(calibration.table()):
        p, own = shares[:, i], y == one["label"]
        bins = np.clip(np.floor((np.log(p / (1 - p)) + 7) / 0.35), 0, 39)
        gaps = [abs((p - own)[bins == b].sum()) for b in np.unique(bins)]
        assert one["rows"] == own.sum() and one["share"] == pytest.approx(own.mean())
        assert one["probability"] == pytest.approx(p.mean())
        assert one["error"] == pytest.approx(sum(gaps) / 400, rel=1e-9)
    assert calibration.value() == pytest.approx(np.mean(calibration.errors()))


def test_shares_of_classes_that_come_late_are_of_all_rows():
    """The shares of all classes add up to 1, and any cut into blocks gives the same table."""
    y = np.array(["a", "b"] * 50 + ["c", "d", "a", "e"] * 25)
    whole = Calibration()
    values, shares = RunningMajority().predict_then_learn(y, y, output="both")
    whole.add(y, Forecast(values, shares, np.array(list("abcde"))))
    cut, majority = Calibration(), RunningMajority()
    for start in range(0, len(y), 10):
        rows = y[start : start + 10]
        values, shares = majority.predict_then_learn(rows, rows, output="both")
        cut.add(rows, Forecast(values, shares, majority.classes_))
    assert sum(one["share"] for one in cut.table()) == pytest.approx(1.0)
    assert sum(one["probability"] for one in cut.table()) == pytest.approx(1.0)
    for one, other in zip(cut.table(), whole.table(), strict=True):
        assert one == pytest.approx(other)
