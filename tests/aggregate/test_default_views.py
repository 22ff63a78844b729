"""What the default learner's experts read: relevance, lagged targets; baselines."""

import copy
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import pronk
from pronk.aggregate import representation
from pronk.aggregate.baselines import (
    Baselines,
    Past,
    autocorrelation,
    depends_on_last,
    find_lags,
    informative_outputs,
)
from pronk.aggregate.representation import relevance
from pronk.aggregate.settings import PAST, RELEVANCE, make_views
from pronk.columns.frames import Layout
from pronk.columns.model import Columns
from pronk.core import scales


def close(got, expected, atol=1e-10):
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol)


def test_baselines_are_the_last_target_and_means():
    Y = np.random.default_rng(0).normal(size=(40, 2))
    baselines = Baselines(2)
    got = np.concatenate([baselines.learn(Y[:7], Y[:7]), baselines.learn(Y[7:], Y[7:])])
    close(got[1:, 0], Y[:-1])
    close(got[1:, 2], np.cumsum(Y, axis=0)[:-1] / np.arange(1, 40)[:, None])
    mean = Y[:10].mean(axis=0)  # the first ten count alike
    for t in range(10, 40):
        close(got[t, 1], mean)
        mean = 0.9 * mean + 0.1 * Y[t]
    close(baselines.predict(Y[:1])[0, 0], Y[-1])
    baselines.remap(np.array([[0.0, 1.0], [-1.0, 0.0]]))
    close(baselines.predict(Y[:1])[0, 0], [-Y[-1, 1], Y[-1, 0]])


def test_the_seasonal_baseline_adds_the_change_one_season_ago():
    Y, season = np.random.default_rng(0).normal(size=(40, 2)), 7
    baselines, cuts = Baselines(2, season=season), (0, 1, 5, 23, 40)
    assert baselines.names.index("last target, seasonal") == 3 == baselines.count - 1
    got = np.concatenate([baselines.learn(Y[a:b], Y[a:b]) for a, b in pairwise(cuts)])
    for t in range(season + 1, 40):
        close(got[t, 3], Y[t - 1] + Y[t - season] - Y[t - season - 1])
    loaded = Baselines(2)
    loaded.restore(baselines.to_state())
    expected = Y[39] + Y[40 - season] - Y[39 - season]
    close(loaded.predict(Y[:2])[:, 3], [expected, expected])
    baselines.remap(np.array([[0.0, 1.0], [-1.0, 0.0]]))
    close(baselines.predict(Y[:1])[0, 3], [-expected[1], expected[0]])


def test_numbers_with_a_season_have_the_seasonal_baseline_and_labels_do_not():
    rng, t = np.random.default_rng(1), np.arange(600)
    y = np.sin(2 * np.pi * t / 24) + np.cumsum(rng.normal(size=600)) * 0.05
    X = rng.normal(size=(600, 2))
    for model, targets, seasonal in (
        (pronk.OnlineKernelRegressor(random_state=0), y, True),
        (pronk.OnlineKernelRegressor(random_state=0), X[:, 0] ** 2, False),
        (pronk.OnlineKernelClassifier(random_state=0), y > 0, False),
    ):
        model.partial_fit(X, targets)
        assert ("last target, seasonal" in [e["view"] for e in model.experts_]) == seasonal


def test_irrelevant_columns_have_small_weights():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(600, 5))
    Z[:, 4] = 3.0
    Y = np.sin(2 * Z[:, :1]) + 0.3 * Z[:, 1:2]
    weights = relevance(Z, Y, 0)
    assert weights[0] == 1.0 > weights[1] > 2 * weights[2:4].max()
    assert weights[4] == 1.0  # constant so far: it may matter later
    assert np.array_equal(relevance(Z[:20], Y[:20], 0), np.ones(5))
    assert np.array_equal(relevance(Z, np.zeros((600, 1)), 0), np.ones(5))


def test_wide_rows_have_a_relevance_as_soon_as_they_are_as_many_as_columns():
    """One-hot categories: of 80 columns three are relevant, and 80 rows suffice to find them."""
    rng = np.random.default_rng(3)
    Z = (rng.random((80, 80)) < 0.3).astype(float)
    Y = np.where(Z[:, :1] + Z[:, 1:2] * Z[:, 2:3] > 0.5, 1.0, -1.0)
    weights = relevance(Z, Y, 0)
    assert weights[0] == 1.0
    assert weights[:3].min() > np.median(weights[3:])
    assert np.array_equal(relevance(Z[:79], Y[:79], 0), np.ones(80))


def test_autocorrelation_is_its_definition():
    y = np.random.default_rng(3).normal(size=50).cumsum()
    centred = y - y.mean()
    expected = [centred[k:] @ centred[: 50 - k] / (centred @ centred) for k in range(11)]
    close(autocorrelation(y, 10), expected)
    assert not autocorrelation(np.ones(9), 3).any()


def test_lags_are_found_only_where_targets_are_correlated():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(512, 1))
    season = np.sin(2 * np.pi * np.arange(512) / 24)[:, None] + 0.3 * noise
    assert find_lags(noise, [0]) == []
    assert find_lags(season, [0]) == [1, 2, 24]
    assert find_lags(noise.cumsum(axis=0), [0])[:2] == [1, 2]
    assert find_lags(season[:20], [0]) == [] and find_lags(season, []) == []
    assert find_lags(np.tile(season, (1, 4)), [0, 1, 2, 3]) == []


def test_a_row_reads_targets_that_came_before_it():
    Y = np.arange(1.0, 21.0)[:, None] * [1.0, 100.0]
    past = Past(2, [1], [1, 2, 5])
    got = np.concatenate([past.learn(len(part), part) for part in (Y[:1], Y[1:9], Y[9:])])
    for t in range(20):
        assert got[t].tolist() == [100.0 * max(t + 1 - lag, 0) for lag in (1, 2, 5)]
    assert past.predict(2).tolist() == [[2000.0, 1900.0, 1600.0]] * 2
    fresh = Past(2, [1], [1, 2, 5])
    close(fresh.columns_of(Y), got)
    past.remap(np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 1.0]]))  # the last of the two
    assert past.predict(1).tolist() == [[2000.0, 1900.0, 1600.0]]
    past.remap(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, -1.0]]))
    assert past.predict(1).tolist() == [[2000.0, 1900.0, 1600.0]]


def test_of_two_labels_one_is_read():
    Y = np.array([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
    assert informative_outputs(Y, signed=True) == [2]
    assert informative_outputs(Y[:, :3], signed=False) == [1, 2]


def test_views_have_their_columns_and_units():
    rng = np.random.default_rng(5)
    Z, Y = rng.normal(size=(200, 3)), rng.normal(size=(200, 1)).cumsum(axis=0)
    past = Past(1, [0], [1, 2])
    plain, relevant, late = make_views(pronk.Gaussian(2.0), [0, RELEVANCE, PAST], Z, Y, past, 0)
    rows = np.hstack((Z, past.columns_of(Y)))
    assert plain.rows(rows).shape == relevant.rows(rows).shape == (200, 3)
    close(late.rows(rows), rows * late.weights[:, 0])
    distances = np.abs(late.rows(rows)[:, None] - late.rows(rows)).sum(axis=2)
    assert late.unit == pytest.approx(np.median(distances[np.triu_indices(200, 1)]), rel=0.2)
    assert late.weights[3, 0] == 1.0  # the last target is the most relevant


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_it_is_not_worse_than_a_baseline(task):
    """A random walk that x does not explain, and pure noise."""
    rng = np.random.default_rng(6)
    X, walk = rng.normal(size=(1500, 3)), rng.normal(size=1500).cumsum()
    noise = rng.normal(size=1500)
    for y, baseline in ((walk, np.roll(walk, 1)), (noise, np.zeros(1500))):
        learner = pronk.make("default", task, budget=30, random_state=0)
        late = slice(100, None)
        if task == "regression":
            own = np.mean((learner.predict_then_learn(X, y) - y)[late] ** 2)
            assert own < 1.1 * np.mean((baseline - y)[late] ** 2)
        else:
            truth = y > np.median(y) if y is walk else y > -1.0
            expected = np.roll(truth, 1) if y is walk else np.ones(1500, dtype=bool)
            own = np.mean((learner.predict_then_learn(X, truth) != truth)[late])
            assert own < 1.1 * np.mean((expected != truth)[late])


def test_the_last_of_many_labels_is_read_where_labels_depend_on_it():
    rng = np.random.default_rng(3)
    X, labels = rng.normal(size=(1500, 2)), np.arange(1500) % 8
    learner = pronk.OnlineKernelClassifier(budget=40, random_state=0)
    wrong = learner.predict_then_learn(X, labels) != labels
    assert wrong[-500:].mean() < 0.05
    assert learner._model.experts.past.columns == 8
    shuffled = pronk.OnlineKernelClassifier(budget=40, random_state=0).fit(
        X, rng.permutation(labels)
    )
    assert shuffled._model.experts.past.columns == 0


def test_many_labels_in_sequence_are_read_after_a_few_rounds():
    X, labels = np.random.default_rng(3).normal(size=(240, 2)), np.arange(240) % 24
    wrong = pronk.OnlineKernelClassifier(random_state=0).predict_then_learn(X, labels) != labels
    assert wrong[128:].mean() < 0.1


def test_labels_without_order_rarely_seem_to_depend_on_the_last():
    rng = np.random.default_rng(4)
    found = 0
    for classes in (4, 10, 32):
        for rows in (32, 128, 512, 2048):
            for _ in range(20):
                label = rng.choice(classes, rows, p=rng.dirichlet(np.ones(classes)))
                found += depends_on_last(np.where(label[:, None] == np.arange(classes), 1.0, -1.0))
    assert found <= 1
    sticky = np.repeat(rng.integers(4, size=40), 25)
    assert depends_on_last(np.where(sticky[:, None] == np.arange(4), 1.0, -1.0))


def test_a_row_that_is_rolled_back_leaves_the_seasonal_baseline():
    rng, t = np.random.default_rng(1), np.arange(620)
    y = np.sin(2 * np.pi * t / 24) + np.cumsum(rng.normal(size=620)) * 0.05
    X = rng.normal(size=(620, 2))
    model = pronk.OnlineKernelRegressor(random_state=0).partial_fit(X[:600], y[:600])
    straight = copy.deepcopy(model)  # row by row too: a block rounds differently
    for row in range(600, 620):
        snapshot = model._model.snapshot()
        model._model.learn(X[row : row + 1], y[row : row + 1, None])
        model._model.roll_back(snapshot)
        got = model.predict_then_learn(X[row : row + 1], y[row : row + 1])
        assert got == straight.predict_then_learn(X[row : row + 1], y[row : row + 1])


# -- directions -----------------------------------------------------------------------------------


def test_rows_that_are_left_out_have_the_errors_of_a_fit_without_them():
    rng = np.random.default_rng(0)
    Q, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    K = np.exp(-np.linalg.norm(Q[:, None] - Q, axis=2))
    A = K + representation.FIT_ALPHA * np.eye(30)
    L = np.asfortranarray(np.linalg.cholesky(A))
    a, errors = representation.fitted(L, Y), representation.left_out_errors(L, Y)
    np.testing.assert_allclose(a, np.linalg.solve(A, Y), rtol=1e-9, atol=1e-9)
    for i in range(30):
        others = np.delete(np.arange(30), i)
        fit = K[i, others] @ np.linalg.solve(A[np.ix_(others, others)], Y[others])
        np.testing.assert_allclose(errors[i], Y[i] - fit, rtol=1e-8, atol=1e-9)


def test_gradients_are_those_of_finite_differences():
    rng = np.random.default_rng(1)
    Q, a, h, step = rng.normal(size=(12, 3)), rng.normal(size=(12, 2)), 0.7, 1e-6
    expected = np.zeros((3, 3))
    for t in range(12):
        others = np.delete(np.arange(12), t)

        def f(q, others=others):
            return np.exp(-np.linalg.norm(q - Q[others], axis=1) / h) @ a[others]

        g = [(f(Q[t] + step * e) - f(Q[t] - step * e)) / (2 * step) for e in np.eye(3)]
        expected += np.array(g) @ np.array(g).T
    distances = np.linalg.norm(Q[:, None] - Q, axis=2)
    W = np.exp(-distances / h) / (h * np.where(distances > 0, distances, np.inf))
    got = sum(g.T @ g for g in representation.gradients(Q, W, a))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def test_the_direction_that_matters_is_found():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(700, 6))
    w = np.array([3.0, 4.0, 0.0, 0.0, 0.0, 0.0]) / 5
    found = representation.full_metric(Z, np.sin(2 * Z @ w)[:, None], 0).directions(6)
    sizes = np.linalg.norm(found, axis=0)
    assert abs(found[:, 0] @ w) / sizes[0] > 0.99
    assert sizes[1] < 0.4 * sizes[0]


# -- heavy-tailed columns -------------------------------------------------------------------------


def heavy(rows=400):
    """Return a log-normal, a normal, a constant and a rare column, and an order of the rows."""
    rng = np.random.default_rng(5)
    X = np.column_stack(
        (np.exp(2 * rng.normal(size=rows)), rng.normal(size=rows), np.full(rows, 3))
    )
    return np.column_stack((X, rng.uniform(size=rows) < 0.02)).astype(float)


def test_heavy_tailed_columns_are_compressed_as_defined():
    X = heavy()
    found = representation.ColumnScale(X, compressed=True)
    inner = scales.without_outliers(X)[:, 0]
    low, median, high = np.quantile(inner, (0.25, 0.5, 0.75))
    twin = X.copy()
    twin[:, 0] = np.arcsinh((X[:, 0] - median) / (0.5 * (high - low)))
    np.testing.assert_allclose(
        found.transform(X), scales.FixedScale(twin).transform(twin), rtol=1e-12, atol=1e-12
    )
    other_units = representation.ColumnScale(X * [1e6, 3, 1, 1] + [7, 0, 0, 0], compressed=True)
    np.testing.assert_allclose(
        other_units.transform(X * [1e6, 3, 1, 1] + [7, 0, 0, 0]),
        found.transform(X),
        rtol=0,
        atol=1e-9,
    )


def test_columns_are_compressed_only_where_the_fit_gains():
    X = heavy()
    logarithm = np.log(X[:, :1]) + np.sin(2 * X[:, 1:2])
    scale, metric = representation.column_scale(X, logarithm, 0)
    assert scale.compresses
    again = representation.full_metric(scale.transform(X), logarithm, 0)
    np.testing.assert_array_equal(metric.M, again.M)  # the metric comes with the scale
    others = (X, np.sin(X[:, :1])), (X[:, 1:], logarithm), (X, logarithm[:, :0])
    for rows, targets in (*others, (X[:100], logarithm[:100])):
        assert not representation.column_scale(rows, targets, 0)[0].compresses


def test_a_learner_of_compressed_columns_continues_after_a_file(tmp_path):
    X, rng = heavy(900), np.random.default_rng(6)
    y = np.log(X[:, 0]) + 0.1 * rng.normal(size=900)
    model = pronk.OnlineKernelRegressor(random_state=0).partial_fit(X[:700], y[:700])
    assert model._model.incumbent._scale.compresses
    model.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    expected = model.predict_then_learn(X[700:], y[700:])
    assert np.array_equal(again.predict_then_learn(X[700:], y[700:]), expected)


# -- directions in words --------------------------------------------------------------------------


@pytest.mark.parametrize("prepared", [False, True])
def test_directions_have_the_names_of_the_columns(prepared):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.uniform(-1, 1, (700, 3)), columns=["wind", "sun", "rain"])
    frame["city"] = rng.choice(["Rome", "Oslo"], 700)
    y = np.sin(4 * frame.wind + 3 * frame.sun) + 0.1 * (frame.city == "Oslo")
    learner = pronk.OnlineKernelRegressor(random_state=0)
    model = pronk.Prepared(learner) if prepared else learner
    model.partial_fit(frame[:6], y[:6])
    assert model.directions_ == []
    model.partial_fit(frame[6:], y[6:])
    first = model.directions_[0]
    assert list(first["columns"])[:2] == ["wind", "sun"] and first["share"] > 0.8
    assert first["columns"]["wind"] == pytest.approx(0.8, abs=0.05)
    assert first["columns"]["sun"] == pytest.approx(0.6, abs=0.05)
    assert sum(one["share"] for one in model.directions_) <= 1.0 + 1e-9


def test_learners_without_the_view_have_no_directions():
    X = np.random.default_rng(3).normal(size=(300, 2))
    model = pronk.OnlineKernelRegressor("laplacian", random_state=0).fit(X, X[:, 0])
    assert model.directions_ == []


def test_directions_of_many_columns_of_equal_weight_have_names():
    columns = Columns(Layout(None, ("number",) * 300))
    (found,) = columns.named_directions(-np.ones((300, 1)))
    assert len(found["columns"]) == 300 and min(found["columns"].values()) > 0.0
    assert columns.named_directions(np.zeros((300, 2))) == []
