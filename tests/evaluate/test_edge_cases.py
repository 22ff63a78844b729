"""Edge cases of evaluations: many records, many labels, empty streams, errors."""

import numpy as np
import pytest

import pronk
from pronk.core.state import StateError
from pronk.evaluate import Evaluation, RunningMajority, RunningMean
from pronk.evaluate.evaluation import pieces
from pronk.evaluate.fields import checked_column, figure
from pronk.evaluate.metrics import Counts, get_metrics
from pronk.evaluate.models import Forecast
from pronk.evaluate.pictures import LABELS, pictures
from pronk.evaluate.trace import SEGMENTS, SHORTEST, ModelHistory


def test_record_rows_are_the_last_of_each_length():
    """However many come there are at most SEGMENTS, each the last within a length of rows."""
    history = ModelHistory()
    given = np.cumsum(np.random.default_rng(0).integers(1, 3 * SHORTEST, size=3000)).tolist()
    for rows in given:
        if history.due(rows):
            history.add(rows, {"size": float(rows)})
    assert SEGMENTS / 4 < len(history.entries) <= SEGMENTS
    assert history.length > SHORTEST and history.length % SHORTEST == 0
    places = [rows // history.length for rows, _ in history.entries]
    assert places == sorted(set(places)) and history.entries[-1][0] // history.length == places[-1]
    assert all(values == {"size": float(rows)} for rows, values in history.entries)


def test_many_labels_are_drawn_by_the_most_frequent():
    rng = np.random.default_rng(1)
    y = np.array([f"l{k}" for k in rng.geometric(0.1, 2000)])
    evaluation = Evaluation(RunningMajority())
    evaluation.feed(np.zeros((2000, 1)), y)
    (picture,) = [one for one in pictures(evaluation.trace) if one.name == "confusion"]
    labels, matrix = picture.counts
    names, counts = np.unique(y[1:], return_counts=True)
    assert len(names) > LABELS == len(labels) and matrix.shape == (LABELS, LABELS)
    frequent = sorted(counts)[-LABELS]
    assert all(counts[names == label][0] >= frequent for label in labels)
    assert f"The {LABELS} most frequent labels." in picture.caption


def test_pictures_of_numbers_have_points_and_a_scale():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 1))
    y = np.exp(-np.arange(3000) / 200) * 1e3 * np.sign(X[:, 0]) + 1e-3 * rng.normal(size=3000)
    evaluation = Evaluation(RunningMean())
    assert "no row was scored yet" in evaluation._repr_html_()
    with pytest.raises(ValueError, match="nothing to plot"):
        evaluation.plot()
    evaluation.feed(X, y)
    shown = {picture.title: picture for picture in evaluation.plot().pictures}
    points = shown["Residuals"].curves[0]
    assert points.points and len(points.x) > 100
    assert {picture.log_y for picture in shown.values()} == {False, True}


def test_what_is_refused():
    class OneByOne:
        def predict_one(self, x):
            return 0.0

        def learn_one(self, x, y):
            pass

    with pytest.raises(ValueError, match="not supported by a model with predict_one"):
        Evaluation(OneByOne()).feed(np.zeros((2, 1)), np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match="'r2' is not a mean of losses per row"):
        get_metrics(["mse", "r2"])
    with pytest.raises(ValueError, match="y has 9 rows but X has 8"):
        list(pieces(np.zeros((8, 1)), np.zeros(9), length=4))
    with pytest.raises(StateError, match="labels are not labels or numbers"):
        checked_column([1, 2**200, 1.5, "x" * 3], "labels")
    with pytest.raises(StateError, match="seconds is out of range"):
        figure(10**400, "seconds")


def test_small_things():
    assert np.isnan(Counts().kappa)
    wide = Forecast(np.zeros(2), intervals=np.array([[0.0, 1.0], [2.0, 3.0]])).widened(3)
    assert wide.values.shape == (2, 3) and wide.intervals.shape == (2, 3, 2)
    assert wide.intervals[1, 2].tolist() == [2.0, 3.0]
    X = np.zeros((3, 1))
    assert RunningMean().partial_fit(X, np.array([1.0, 2.0, 6.0])).predict(X[:1])[0] == 3.0
    assert RunningMajority().partial_fit(X, np.array(["a", "b", "b"])).predict(X[:1])[0] == "b"


def test_a_prepared_learner_with_intervals():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = X[:, 0]
    model = pronk.Prepared(pronk.OnlineKernelRegressor(random_state=0), scale="none")
    other = pronk.OnlineKernelRegressor(random_state=0)
    got = model.predict_then_learn(X, y, interval=0.8)[1]
    expected = other.predict_then_learn(X, y, interval=0.8)[1]
    for one, two in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)
