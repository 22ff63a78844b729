"""Boosted trees: the definition, scikit-learn's, any cut, files, new classes, rolling back."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import pronk
from naive import boosting as naive
from pronk.aggregate import boosting
from pronk.aggregate.boosting import LEAF_ROWS, LEAVES, RATE, Boosting, Fit, add_trees, most_bins


def rows(n, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    X[:, 3] = 1.0
    y = np.where(X[:, 0] > 0.3, 2.0, -1.0) + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=n)
    Y = np.column_stack([y * (k + 1) - k * X[:, 2] for k in range(outputs)])
    return X, Y.astype(np.float32).astype(float)


@pytest.mark.parametrize("outputs", [1, 3])
def test_trees_are_the_twins(outputs, monkeypatch):
    monkeypatch.setattr(boosting, "TREES", 4)
    X, Y = rows(400, outputs)
    fit = Fit(X, Y, False, 5, 0)
    fit.grow(4)
    bins, signs = most_bins(*X.shape), fit.signs[:4]
    trees, F = naive.boost(X, Y, signs, range(outputs), LEAVES, LEAF_ROWS, bins, RATE)
    np.testing.assert_allclose(fit._F, F, rtol=1e-6, atol=1e-6)
    new, got = rows(50, seed=1)[0], np.tile(fit.ensemble.start, (50, 1))
    add_trees(new, fit.ensemble, 0, 4, got)
    expected = [naive.predict(trees, Y.mean(axis=0), x) for x in new]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_the_error_is_that_of_scikit_learn():
    X, Y = rows(5000)
    fit = Fit(X[:4000], Y[:4000], False, 0, 0)
    fit.grow(10**9)
    out = np.tile(fit.ensemble.start, (1000, 1))
    add_trees(X[4000:], fit.ensemble, 0, fit.trees, out)
    other = HistGradientBoostingRegressor(max_iter=100, early_stopping=False, max_bins=255)
    expected = other.fit(X[:4000], Y[:4000, 0]).predict(X[4000:])
    errors = [np.mean((P - Y[4000:, 0]) ** 2) for P in (out[:, 0], expected)]
    assert errors[0] < 1.05 * errors[1]


@pytest.mark.parametrize("signed", [False, True])
def test_any_cut_has_the_same_bits(signed):
    """Saved and loaded before, during and after a fit; rolled back in each of them."""
    X, Y = rows(1700, 3)
    Y = np.sign(Y) if signed else Y
    G = 0.5 * Y
    whole = Boosting(4, 3, signed, 0)
    expected = whole.learn(X.astype(float), Y, G)
    assert not np.array_equal(expected[700:], G[700:]) and np.array_equal(expected[:640], G[:640])
    cut, start, out = Boosting(4, 3, signed, 0), 0, []
    rng = np.random.default_rng(1)
    while start < 1700:
        stop = start + int(rng.choice([1, 2, 7, 64, 300]))
        part = slice(start, stop)
        snapshot = cut.snapshot()
        cut.learn(-X[part].astype(float), -Y[part], G[part])
        cut.roll_back(snapshot)
        out.append(cut.learn(X[part].astype(float), Y[part], G[part]))
        state = cut.to_state()
        cut = Boosting(4, 3, signed, 0)
        cut.restore(state)
        start = stop
    assert np.array_equal(np.concatenate(out), expected)
    for name, values in whole.to_state().items():
        assert np.array_equal(cut.to_state()[name], values), name


def test_late_rows_are_predicted_as_of_the_rows_learned():
    X, Y = rows(1400)
    X, G = X.astype(float), 0.0 * Y
    late, usual = Boosting(4, 1, False, 0), Boosting(4, 1, False, 0)
    got = late.learn(X[:-30], Y[:-30], G, X)
    expected = usual.predict(X[:30], G[:30])
    for t in range(30, 1400):
        expected = np.concatenate((expected, usual.predict(X[t : t + 1], G[:1])))
        usual.learn(X[t - 30 : t - 29], Y[t - 30 : t - 29], G[:1])
    np.testing.assert_array_equal(got, expected)


def test_a_jump_along_a_column_is_learned():
    """Kernels blur it: without the trees the error at the end is a third larger."""
    rng = np.random.default_rng(2)
    X = np.column_stack((rng.normal(20, 5, 4000), rng.gamma(2, 3, 4000), rng.uniform(size=4000)))
    y = 3 * np.sin(X[:, 0] / 3) + 4 * np.log1p(X[:, 1]) * (X[:, 2] > 0.5) + 2 * X[:, 2]
    y += 0.5 * rng.normal(size=4000)
    model = pronk.OnlineKernelRegressor(random_state=0)
    errors = (model.predict_then_learn(X, y) - y)[-1000:] ** 2
    assert errors.mean() < 0.45  # the noise is .25; .53 without the trees
    (trees,) = [row for row in model.experts_ if row["view"] == "boosted trees"]
    assert trees["coefficient"] > 0.2


def test_wide_rows_have_boosted_trees_within_a_number_of_bins():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2500, 300)).astype(np.float32)
    Y = np.where(X[:, 17:18] > 0.2, 1.0, -1.0)
    fit = Fit(X, Y, False, 0, 0)
    assert fit.edges.shape[0] == 300 and (fit.counts + 1).sum() <= boosting.MOST_CELLS
    fit.grow(1)
    assert fit.ensemble.columns[0, 0] == 17 and abs(fit.ensemble.cuts[0, 0] - 0.2) < 0.02
    wide = Boosting(boosting.MOST_COLUMNS + 1, 1, False, 0)
    G = np.zeros((700, 1))
    assert (wide.learn(np.zeros((700, boosting.MOST_COLUMNS + 1)), G + 1.0, G) == 0.0).all()
