"""Contributions of columns to single predictions, against Shapley values by their definition."""

import math
from itertools import combinations

import numpy as np
import pytest

import pronk
from pronk.estimators.explanation import BACKGROUND, explain_rows

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def shapley(predict, x, background):
    """Return the Shapley values of the columns of x: the sum over all sets of other columns."""
    d = len(x)
    values = {}
    for size in range(d + 1):
        for own in combinations(range(d), size):
            mixed = background.copy()
            mixed[:, own] = x[list(own)]
            values[own] = predict(mixed).mean(axis=0)
    found = []
    for column in range(d):
        others = [i for i in range(d) if i != column]
        total = 0.0
        for size in range(d):
            weight = math.factorial(size) * math.factorial(d - 1 - size) / math.factorial(d)
            for own in combinations(others, size):
                total = total + weight * (values[tuple(sorted((*own, column)))] - values[own])
        found.append(total)
    return np.array(found)


def stream(columns, rows=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    return X, 3 * X[:, 0] + np.sin(3 * X[:, 1]) * X[:, 2]


@pytest.fixture(scope="module")
def fitted():
    X, y = stream(4)
    return pronk.OnlineKernelRegressor(random_state=0).fit(X, y), X, y


def test_up_to_four_columns_they_are_shapley_values(fitted):
    model, X, _ = fitted
    found = model.explain(X[:3], background=X[100:120])
    assert found.columns == ("x0", "x1", "x2", "x3") and found.classes is None
    for row, own in zip(X[:3], found.contributions, strict=True):
        expected = shapley(lambda Z: model.predict(Z, ahead=False), row, X[100:120])
        np.testing.assert_allclose(own, expected, **CLOSE)
    np.testing.assert_allclose(found.predictions, model.predict(X[:3], ahead=False), **CLOSE)


def test_sampled_orders_are_near_and_add_up_exactly():
    X = np.random.default_rng(0).normal(size=(200, 8))

    def predict(Z):  # two columns at a time: exact for any order and its reverse
        return np.column_stack((Z[:, 0] * Z[:, 1] - 2 * Z[:, 2], np.tanh(Z).prod(axis=1)))

    found = explain_rows(predict, X[:5], X[50:], list("abcdefgh"))
    picked = X[50:][np.round(np.linspace(0, 149, BACKGROUND)).astype(int)]
    expected = np.array([shapley(predict, x, picked) for x in X[:5]])
    np.testing.assert_allclose(found.contributions[..., 0], expected[..., 0], **CLOSE)
    np.testing.assert_allclose(found.contributions, expected, rtol=0, atol=0.01)
    sums = found.base + found.contributions.sum(axis=1)
    np.testing.assert_allclose(sums, predict(X[:5]), **CLOSE)
    again = explain_rows(predict, X[:5], X[50:], list("abcdefgh"))
    np.testing.assert_array_equal(found.contributions, again.contributions)


def test_columns_that_matter_are_those_of_permuted_columns():
    """On ten rows, mean sizes of contributions rank columns as permuted columns do."""
    X, y = stream(6)
    model = pronk.OnlineKernelRegressor(random_state=0).fit(X[:500], y[:500])
    rows = X[500:510]
    found = model.explain(rows, background=X[:500])
    sizes = np.abs(found.contributions).mean(axis=0)
    before = model.predict(rows, ahead=False)
    effects = np.zeros(6)
    for column in range(6):
        for shift in range(1, 10):  # every other row's value once
            permuted = rows.copy()
            permuted[:, column] = np.roll(rows[:, column], shift)
            effects[column] += np.abs(model.predict(permuted, ahead=False) - before).mean() / 9
    assert np.argmax(sizes) == np.argmax(effects) == 0
    assert set(np.argsort(-sizes)[:3]) == set(np.argsort(-effects)[:3]) == {0, 1, 2}
    assert sizes[3:].max() < 0.1 * sizes[0]
    np.testing.assert_allclose(found.base + found.contributions.sum(axis=1), before, **CLOSE)


def test_a_text_and_a_date_are_one_column_each():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.uniform(-1, 1, 500),
            "city": rng.choice(["Oslo", "Rome", "Bern"], 500),
            "day": pd.date_range("2024-01-01", periods=500, freq="h"),
        }
    )
    y = frame["size"] + 4 * (frame["city"] == "Rome")
    model = pronk.OnlineKernelRegressor(random_state=0).fit(frame, y)
    row = frame[frame["city"] == "Rome"].iloc[-1:]
    found = model.explain(row, background=frame.iloc[-100:])
    assert set(found.columns) == {"size", "city", "day"} and found.ranked()[0][0] == "city"
    assert found.ranked()[0][1] == pytest.approx(8 / 3, abs=0.6)
    assert found.base + found.contributions.sum() == pytest.approx(model.predict(row)[0])


def test_labels_have_contributions_to_each_probability():
    X, y = stream(3)
    labels = np.where(y > 1, "high", np.where(y < -1, "low", "mid"))
    model = pronk.OnlineKernelClassifier(random_state=0).fit(X, labels)
    found = model.explain(X[:4], background=X[:30])
    assert found.contributions.shape == (4, 3, 3) and found.classes.tolist() == [
        "high",
        "low",
        "mid",
    ]
    shares = model.predict_proba(X[:4], ahead=False)
    np.testing.assert_allclose(found.base + found.contributions.sum(axis=1), shares, **CLOSE)
    np.testing.assert_allclose(found.contributions.sum(axis=2), 0, **CLOSE)


def test_it_changes_nothing_and_asks_for_a_background(fitted):
    model, X, y = fitted
    before = model.predict(X[:20])
    itself = model.explain(X[:5])
    np.testing.assert_array_equal(itself.contributions, model.explain(X[:5], X[:5]).contributions)
    np.testing.assert_array_equal(model.predict(X[:20]), before)
    with pytest.raises(ValueError, match="background is missing"):
        model.explain(X[:1])
    with pytest.raises(ValueError, match="background has no rows"):
        model.explain(X[:1], X[:0])
    several = pronk.OnlineKernelRegressor(random_state=0)
    several.fit(X[:200], np.column_stack((y, -y))[:200])
    found = several.explain(X[:2], X[:9])
    assert found.contributions.shape == (2, 4, 2) and found.base.shape == (2,)
    one = pronk.OnlineKernelRegressor(random_state=0).fit(X[:200, :1], y[:200])
    found = one.explain(X[:2, :1], X[:9, :1])
    np.testing.assert_allclose(found.contributions[:, 0], found.predictions - found.base, **CLOSE)
