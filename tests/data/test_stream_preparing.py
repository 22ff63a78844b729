"""Missing values, categories and the robust scaler: from earlier rows only, for every cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from naive import scaling as naive
from pronk.columns.preparation import Categories, Means, Preparation
from pronk.columns.scaling import make_scaler
from pronk.core.scales import HELD, NORMAL, stride_after
from pronk.data import Prepared, Robust


def rows(n=300, seed=0):
    """Two columns of numbers with gaps, two of categories with gaps."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(5, 2, n),
            rng.exponential(1.0, n),
            rng.integers(0, 9, n) * 1e6,
            rng.integers(0, 3, n),
        ]
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def preparation(scaler="robust", encoding="onehot", slots=5):
    kinds = ["number", "number", "category", "category"]
    return Preparation(make_scaler(scaler), kinds, "mean", slots, encoding)


@settings(deadline=None, max_examples=40)
@given(
    cuts=st.lists(st.integers(1, 299), max_size=6),
    scaler=st.sampled_from(["minmax", "standard", "robust", "none"]),
    encoding=st.sampled_from(["hash", "onehot"]),
)
def test_any_cut_gives_the_same_rows_to_the_last_bit(cuts, scaler, encoding):
    X = rows()
    whole = preparation(scaler, encoding)
    parts = preparation(scaler, encoding)
    ends = sorted({*cuts, len(X)})
    pieces = [X[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    given_rows = np.vstack([parts.learn_transform(piece) for piece in pieces])
    np.testing.assert_array_equal(given_rows, whole.learn_transform(X))
    np.testing.assert_array_equal(parts.transform(X), whole.transform(X))


@pytest.mark.parametrize("encoding", ["hash", "onehot"])
@pytest.mark.parametrize("scaler", ["minmax", "standard", "robust"])
def test_transform_is_what_the_next_row_would_be(scaler, encoding):
    X = rows()
    for t in (0, 1, 5, 12, 200):
        model = preparation(scaler, encoding)
        if t:
            model.learn_transform(X[:t])
        before = model.transform(X[t : t + 1])
        # A gap is filled by the mean of the past in both; a value moves its own statistics.
        np.testing.assert_allclose(
            before, model.learn_transform(X[t : t + 1]), atol=1e-12, rtol=1e-7
        )


def test_means_are_of_the_values_so_far():
    X = np.array([[np.nan, 1.0], [2.0, np.nan], [4.0, 3.0], [np.nan, np.nan]])
    means = Means()
    expected = [[0.0, 1.0], [2.0, 1.0], [4.0, 3.0], [3.0, 2.0]]
    np.testing.assert_allclose(means.learn_transform(X), expected, rtol=1e-7, atol=0)
    np.testing.assert_allclose(
        means.transform(np.full((1, 2), np.nan)), [[3.0, 2.0]], rtol=1e-7, atol=0
    )


@pytest.mark.parametrize("encoding", ["hash", "onehot"])
def test_different_categories_are_at_distance_one(encoding):
    codes = np.array([0.0, 1.0, 2.0, np.nan])
    E = Categories(8, encoding).learn_transform(codes)
    for i in range(3):
        for j in range(i):
            assert np.linalg.norm(E[i] - E[j]) == pytest.approx(1.0)
    assert not E[3].any()


def test_slots_are_given_in_order_and_none_is_shared():
    categories = Categories(3)
    rows = categories.learn_transform(np.array([7.0, 9.0, 7.0, 8.0, 1.0]))
    assert rows[:4].argmax(axis=1).tolist() == [0, 1, 0, 2]
    assert list(categories.known) == [7.0, 9.0, 8.0, 1.0]
    assert np.unique(np.abs(rows[4])).tolist() == pytest.approx([np.sqrt(1 / 6)])
    with pytest.raises(ValueError, match="slots"):
        Categories(1)
    with pytest.raises(ValueError, match="encoding must be one of onehot, hash"):
        Categories(4, "ordinal")


def test_categories_beyond_the_slots_are_distinguished():
    codes = np.random.default_rng(0).permutation(2.0**40 + np.arange(1000))
    E = Categories(32).learn_transform(codes)
    G = E @ E.T
    np.testing.assert_allclose(np.diag(G), 0.5, rtol=1e-12, atol=0)
    # Inner products of random signs: mean 0, deviation 0.5 / sqrt(32); the most of 500,000 pairs
    # is below 6 deviations with probability 0.999.
    beyond = G[32:, 32:][np.triu_indices(968, 1)]
    assert abs(beyond.mean()) < 0.01 and abs(beyond).max() < 6 * 0.5 / np.sqrt(32)
    assert beyond.std() == pytest.approx(0.5 / np.sqrt(32), rel=0.02)
    late = Categories(32).transform(np.array([5.0, 6.0]))
    assert late.argmax(axis=1).tolist() == [0, 0]  # each as if it came next


def test_many_categories_are_learned():
    """With one slot for all categories beyond 31, R2 would be 0.5."""
    rng = np.random.default_rng(0)
    c, x = rng.integers(0, 100, 2500), rng.uniform(-1, 1, 2500)
    y = rng.normal(0, 1, 100)[c] + np.sin(3 * x)
    model = pronk.Prepared(pronk.OnlineKernelRegressor(random_state=0), categorical=[0])
    predictions = model.predict_then_learn(np.column_stack([c * 1e6, x]), y)[1500:]
    assert 1 - np.mean((predictions - y[1500:]) ** 2) / np.var(y[1500:]) > 0.9


# -- quartiles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 9, 511, 512, 513, 1000, 1024, 1025, 5000])
def test_the_held_rows_are_spread_evenly(n):
    x = np.random.default_rng(n).standard_cauchy(n)
    robust = Robust()
    robust.learn_transform(x[:, None])
    held = robust.to_state()["values"][0]
    stride = stride_after(n)
    assert min(n, HELD // 2) <= len(held) <= HELD
    np.testing.assert_array_equal(held, x[::stride])
    np.testing.assert_array_equal(robust.ordered[0, : len(held)], np.sort(held))


def test_the_first_rows_have_exact_quartiles():
    x = np.random.default_rng(0).exponential(1.0, 500)
    given_values = Robust().learn_transform(x[:, None])[:, 0]
    for n in (2, 3, 4, 7, 50, 500):
        low, middle, high = np.quantile(x[:n], [0.25, 0.5, 0.75])
        expected = (x[n - 1] - middle) / (NORMAL * (high - low))
        assert given_values[n - 1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [511, 512, 1023, 1024, 1100])
def test_transform_at_the_edges_of_the_sample(n):
    x = np.random.default_rng(0).normal(size=(n + 1, 2))
    robust = Robust()
    robust.learn_transform(x[:n])
    state = robust.to_state()["values"].copy()
    before = robust.transform(x[n:])
    np.testing.assert_array_equal(robust.to_state()["values"], state)
    np.testing.assert_array_equal(before, robust.learn_transform(x[n:]))


@pytest.mark.parametrize("kind", ["normal", "drifting", "rare", "ties"])
def test_robust_is_its_naive_twin_through_two_thinnings(kind):
    """The sample is thinned at rows 512 and 1024; in uneven blocks, one of them across each."""
    rng = np.random.default_rng(3)
    n = 2 * HELD + 90
    x = {
        "normal": rng.normal(size=n),
        "drifting": rng.standard_cauchy(n) + np.arange(n) / 50.0,
        "rare": 3.0 + (rng.random(n) < 0.1),
        "ties": rng.integers(0, 4, n).astype(float),
    }[kind]
    robust, parts = Robust(), []
    for block in np.split(x, [1, 8, 500, 520, 521, 1000, HELD * 2 + 1]):
        parts.append(robust.learn_transform(block[:, None])[:, 0])
    np.testing.assert_allclose(np.concatenate(parts), naive.robust(x, HELD), rtol=1e-11, atol=1e-11)


def test_wild_values_do_not_move_it():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 5000)
    wild = x.copy()
    wild[::50] = 1e9
    plain = Robust().learn_transform(x[:, None])[1000:, 0]
    robust = Robust().learn_transform(wild[:, None])[1000:, 0]
    usual = wild[1000:] < 1e8
    assert np.abs(robust[usual] - plain[usual]).max() < 0.3
    assert np.abs(plain.std() - 1) < 0.1


def test_constant_and_rare_columns():
    assert not Robust().learn_transform(np.full((50, 1), 3.0)).any()
    rare = np.zeros((200, 1))
    rare[::20] = 1.0
    scaled = Robust().learn_transform(rare)
    assert np.abs(scaled).max() <= 1.35 / 0.99


# -- in front of a learner -------------------------------------------------------------------------


def scaled(scaler="robust", **options):
    learner = pronk.PKAWVRegressor(random_state=0)
    options |= {"missing": "mean", "categorical": [2, 3], "slots": 5, "scale_target": "none"}
    return Prepared(learner, scale=scaler, **options)


@pytest.mark.parametrize("encoding", ["hash", "onehot"])
def test_a_saved_model_resumes(tmp_path, encoding):
    X = rows()
    y = np.nan_to_num(X[:, 0])
    model = scaled(encoding=encoding)
    model.predict_then_learn(X[:200], y[:200])
    model.save(tmp_path / "model")
    loaded = pronk.load(tmp_path / "model")
    assert loaded.n_features_in_ == 4
    np.testing.assert_array_equal(
        loaded.predict_then_learn(X[200:], y[200:]), model.predict_then_learn(X[200:], y[200:])
    )
    loaded.save(tmp_path / "again")
    model.save(tmp_path / "model")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_refused_call_changes_nothing():
    X = rows()
    y = np.nan_to_num(X[:, 0])
    model, twin = scaled(), scaled()
    model.predict_then_learn(X[:100], y[:100])
    twin.predict_then_learn(X[:100], y[:100])
    with pytest.raises(ValueError, match="y has"):
        model.predict_then_learn(X[100:], np.full(200, np.inf))
    infinite = X[100:].copy()
    infinite[7, 1] = np.inf
    with pytest.raises(ValueError, match="X has inf at row 7, column 1"):
        model.predict_then_learn(infinite, y[100:])
    np.testing.assert_array_equal(
        model.predict_then_learn(X[100:], y[100:]), twin.predict_then_learn(X[100:], y[100:])
    )


def test_a_missing_value_is_an_error_unless_allowed():
    model = Prepared(pronk.PKAWVRegressor(random_state=0), missing="error")
    with pytest.raises(ValueError, match="X has NaN"):
        model.predict_then_learn(rows(), np.zeros(300))
