"""`predict_quantiles` and ``quantiles=`` wherever there are intervals."""

import numpy as np
import pytest

import pronk

LEVELS = (0.05, 0.5, 0.95)


def skewed(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, X[:, 0] + rng.exponential(size=n) * (1 + X[:, 1] ** 2)


def few():
    return pronk.OnlineKernelRegressor(budget=20, experts="few", random_state=0)


MODELS = {
    "default": few,
    "late": lambda: few().set_params(delay=3),
    "prepared": lambda: pronk.Prepared(few(), scale_target="standard"),
    "around": lambda: pronk.Intervals(pronk.PKAWVRegressor(budget=10, random_state=0)),
}
models = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@models
def test_intervals_are_pairs_of_quantiles(make):
    X, y = skewed()
    X2 = X[:5]
    model, twin = make(), make()
    P, found = model.predict_then_learn(X, y, quantiles=LEVELS)
    same, ends = twin.predict_then_learn(X, y, interval=0.9)
    np.testing.assert_array_equal(P, same)
    np.testing.assert_array_equal(found[:, [0, 2]], ends)
    assert found.shape == (400, 3) and (np.diff(found[10:]) >= 0).all()
    now = model.predict_quantiles(X2, LEVELS)
    np.testing.assert_array_equal(now[:, [0, 2]], model.predict_interval(X2))
    assert model.predict_quantiles(X2).shape == (5, 3)  # 0.1, 0.5, 0.9
    np.testing.assert_array_equal(model.predict_quantiles(X2, 0.5), now[:, [1]])
    np.testing.assert_array_equal(
        pronk.loads(pronk.dumps(model)).predict_quantiles(X2, LEVELS), now
    )


@models
def test_any_cut_several_outputs_and_missing_labels(make):
    X, y = skewed()
    Y = np.column_stack((y, -y))
    Y[5::7] = np.nan
    model, twin = make(), make()
    found = model.predict_then_learn(X, Y, quantiles=LEVELS)[1]
    parts = [
        twin.predict_then_learn(X[i:j], Y[i:j], quantiles=LEVELS)[1]
        for i, j in ((0, 1), (1, 9), (9, 60), (60, 61), (61, 400))
    ]
    assert found.shape == (400, 2, 3) and model.predict_quantiles(X[:0]).shape == (0, 2, 3)
    np.testing.assert_allclose(np.concatenate(parts), found, rtol=1e-6, atol=1e-6)


@models
def test_invalid_levels_raise_and_change_nothing(make):
    X, y = skewed(60)
    model = make().partial_fit(X, y)
    before = pronk.dumps(model)
    for bad in ((), "half", (0.5, 1.2), [[0.1]], (0.0005,), (float("nan"),)):
        with pytest.raises(ValueError, match="quantiles must"):
            model.predict_quantiles(X, bad)
        with pytest.raises(ValueError, match="quantiles must"):
            model.predict_then_learn(X, y, quantiles=bad)
    with pytest.raises(ValueError, match="alternatives"):
        model.predict_then_learn(X, y, interval=0.9, quantiles=LEVELS)
    with pytest.raises(ValueError, match="inf at row 1"):
        model.predict_then_learn(X[:2], [1.0, np.inf], quantiles=LEVELS)
    assert pronk.dumps(model) == before


def test_quantiles_per_key_of_steps_and_of_rows_that_wait(tmp_path):
    X, y = skewed(60)
    keyed = pronk.Keyed(few(), folder=tmp_path / "keys")
    found = keyed.predict_then_learn(X, y, ["a", "b"] * 30, quantiles=np.array(LEVELS))[1]
    expected = few()
    expected.set_params(random_state=keyed["a"].random_state)
    own = expected.predict_then_learn(X[::2], y[::2], quantiles=LEVELS)[1]
    np.testing.assert_allclose(found[::2], own, rtol=1e-9, atol=1e-9)
    assert np.isnan(keyed.predict_quantiles(X[:1], keys=["new"])).all()
    state, (_, found) = pronk.step(None, X, y, new=few(), quantiles=LEVELS)
    model = pronk.loads(state)
    np.testing.assert_array_equal(found, few().predict_then_learn(X, y, quantiles=LEVELS)[1])
    now = pronk.step(state, X[:3], new=few(), quantiles=LEVELS)[1][1]
    np.testing.assert_array_equal(now, model.predict_quantiles(X[:3], LEVELS))
    waiting = pronk.Pending(model).predict(X[:3], [1, 2, 3], quantiles=LEVELS)[1]
    np.testing.assert_array_equal(waiting, now)


def test_class_weight_is_refused_with_the_reason():
    with pytest.raises(TypeError, match="rare classes choose a threshold"):
        pronk.make("default", "classification", class_weight="balanced")


def test_wrappers_of_learners_without_quantiles_raise_a_clear_error():
    X, y, fogd = np.eye(4), np.arange(4.0), pronk.FOGDRegressor(random_state=0)
    keyed = pronk.Keyed(fogd, by="k")
    rows = [{"k": 1, "x": 2.0}] * 4
    for options in ({"interval": 0.9}, {"quantiles": (0.1, 0.9)}):
        for call in (
            lambda: pronk.Prepared(fogd).predict_then_learn(X, y, **options),  # noqa: B023
            lambda: keyed.predict_then_learn(rows, y, **options),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=r"FOGDRegressor has no quantiles; .*Intervals"):
                call()
    classifier = pronk.Prepared(pronk.OnlineKernelClassifier())
    with pytest.raises(ValueError, match="is a classifier"):
        classifier.predict_then_learn(X, list("abab"), interval=0.9)
