"""Rows that come before the first learned label have no prediction and are not scored."""

import numpy as np
import pytest

import pronk
from pronk.evaluate import Evaluation, progressive
from pronk.evaluate.baselines import make_baselines

N, LEVEL = 120, 288.0


def stream(labels=False):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, 2))
    y = LEVEL + 5.0 * np.sin(3 * X[:, 0])
    return X, np.where(y > LEVEL, "up", "down").astype(object) if labels else y


def evaluated(cuts=(), *, model=None, labels=False, y=None, weights=None, **options):
    """Evaluate a stream in blocks; after each block the state is written and restored."""
    X, targets = stream(labels)
    y = targets if y is None else y
    task = "classification" if labels else "regression"
    model = model or pronk.make("online-kernel", task, random_state=0)
    evaluation = Evaluation(model, predictions=True, **options)
    records = []
    for start, stop in zip((0, *cuts), (*cuts, N), strict=True):
        given = () if weights is None else (weights[start:stop],)
        records += [*evaluation.feed(X[start:stop], y[start:stop], *given), evaluation.record()]
        state = evaluation.to_state()
        evaluation = Evaluation(model, predictions=True, **options)
        evaluation.restore(state)
    records += filter(None, [evaluation.finish()])
    made = [one for one in records if one.forecast is not None]
    for one in made if weights is None or not labels else ():
        # Arrays have 0 or None where there is no prediction, and only there. (A classifier knows
        # the labels of rows of weight 0.)
        blank = missing(one.forecast.values)
        assert blank == [value in (None, 0.0) for value in one.predictions.tolist()]
    return evaluation, np.concatenate([one.forecast.values for one in made])


def missing(values):
    return [value is None or value != value for value in values.tolist()]


CASES = {
    "plain": ({}, 1, 1),
    "late": ({"delay": 20}, 21, 21),
    "gaps at the start": ({"gaps": range(5)}, 1, 6),
    "gaps and late": ({"gaps": range(5), "delay": 3}, 4, 9),
    "weight 0": ({"zeros": range(4)}, 5, 5),
    "weight 0 and late": ({"zeros": [0, 1, 3], "delay": 2}, 6, 6),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("cuts", [(), (1, 2, 3, 7), (40,)])
def test_rows_before_the_first_label_are_left_out_in_any_cut(case, labels, cuts):
    options, unpredicted, blank = CASES[case]
    y, weights = stream(labels)[1].copy(), None
    if "gaps" in options:
        y[list(options["gaps"])] = None if labels else np.nan
    if "zeros" in options:
        weights = np.ones(N)
        weights[options["zeros"]] = 0.0
    more = {"y": y, "weights": weights, "labels": labels, "delay": options.get("delay", 0)}
    evaluation, values = evaluated(cuts, **more)
    assert evaluation.unpredicted == unpredicted
    assert missing(values) == [True] * blank + [False] * (N - blank)
    name = "error" if labels else "mse"
    losses = values[blank:] != y[blank:] if labels else (values - y)[blank:] ** 2
    assert evaluation.metrics[name] == pytest.approx(np.mean(losses))
    for one in (evaluation.metrics, *evaluation.trace.baselines.values()):
        assert one[name] < (0.7 if labels else 30.0)  # 0 for row 0 alone would be 691
    assert evaluation.trace.segments.rows == evaluation.rows - unpredicted


def test_a_model_that_has_learned_before_predicts_every_row():
    X, y = stream()
    model = pronk.OnlineKernelRegressor(random_state=0).fit(X, y)
    evaluation, values = evaluated(model=model)
    assert evaluation.unpredicted == 0 and not any(missing(values))
    baselines = evaluation.trace.baselines.values()
    assert all(one["mse"] < 30.0 for one in baselines)  # without the row that they cannot predict


def test_a_learner_without_late_labels_has_no_prediction_until_one_is_learned():
    model = pronk.make("fogd", random_state=0)
    evaluation, values = evaluated((13,), model=model, delay=3)
    assert evaluation.unpredicted == 4 and missing(values) == [True] * 4 + [False] * (N - 4)


def test_the_delay_of_a_learner_in_another_model_counts():
    model = pronk.Prepared(pronk.OnlineKernelRegressor(delay=20, random_state=0))
    evaluation, values = evaluated(model=model)
    assert evaluation.unpredicted == 21 and missing(values) == [True] * 21 + [False] * (N - 21)


@pytest.mark.parametrize("delay", [0, 3])
def test_several_targets(delay):
    X, y = stream()
    Y = np.column_stack((y, -y))
    model = pronk.OnlineKernelRegressor(random_state=0)
    (record,) = progressive(model, (X, Y), delay=delay, predictions=True)
    assert record.unpredicted == delay + 1
    assert np.isnan(record.forecast.values).all(axis=1).sum() == delay + 1
    assert (record.predictions[: delay + 1] == 0.0).all()
    assert all(one["mse"] < 30.0 for one in (record.metrics, *record.outputs))


@pytest.mark.parametrize("level", [288.0, 5e15])
def test_r2_of_targets_far_from_zero(level):
    X, y = stream()
    y = y - LEVEL + level
    (record,) = progressive(pronk.OnlineKernelRegressor(random_state=0), (X, y), ["r2", "mse"])
    values = record.metrics["mse"], np.var(y[1:])
    assert record.metrics["r2"] == pytest.approx(1 - values[0] / values[1], abs=1e-6)
    assert record.metrics["r2"] > 0.3


def test_all_rows_before_the_first_label():
    (record,) = progressive(pronk.OnlineKernelRegressor(), (np.ones((2, 1)), np.ones(2)), delay=9)
    assert (record.rows, record.unpredicted) == (2, 2) and np.isnan(record.metrics["mse"])


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_baselines_are_scored_on_the_rows_of_the_learners(task):
    X, y = stream(task == "classification")
    weights = np.ones(N)
    weights[:3] = 0.0
    for model in make_baselines(task):
        evaluation = Evaluation(model)
        evaluation.feed(X, y.astype(str) if y.dtype == object else y, None, weights)
        assert evaluation.unpredicted == 4
