"""Online scaling: from earlier rows and the row itself, for every cut, saved and restored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from pronk.data import MinMax, Prepared, Robust, Standard, make_scaler
from pronk.estimators import files

SCALERS = [MinMax, Standard, Robust]


def rows(n=200, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * [1.0, 1e3, 1e-3] + [0, 5e4, 1]


@pytest.mark.parametrize("scaler", SCALERS)
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 199), max_size=6, unique=True))
def test_any_cut_gives_the_same_bits(scaler, cuts):
    X = rows()
    whole, parts = scaler(), scaler()
    expected = whole.learn_transform(X)
    pieces = np.split(X, sorted(cuts))
    np.testing.assert_array_equal(
        np.concatenate([parts.learn_transform(piece) for piece in pieces]), expected
    )
    for key, value in whole.to_state().items():
        np.testing.assert_array_equal(parts.to_state()[key], value)


def test_minmax_is_the_range_so_far():
    X = rows()
    scaled = MinMax().learn_transform(X)
    for t in (1, 17, 199):
        low, high = X[: t + 1].min(axis=0), X[: t + 1].max(axis=0)
        np.testing.assert_allclose(
            scaled[t], (X[t] - low) / (high - low) - 0.5, atol=1e-15, rtol=1e-7
        )
    assert np.abs(scaled).max() <= 0.5


def test_standard_is_mean_and_deviation_so_far():
    X = rows()
    scaled = Standard().learn_transform(X)
    for t in (2, 17, 199):
        past = X[: t + 1]
        np.testing.assert_allclose(
            scaled[t], (X[t] - past.mean(axis=0)) / past.std(axis=0), atol=1e-9, rtol=1e-7
        )


@pytest.mark.parametrize("scaler", SCALERS)
def test_transform_is_what_would_come_next_and_changes_nothing(scaler):
    X, more = rows(), rows(5, seed=1) * 3
    fitted = scaler()
    assert not fitted.transform(X).any()  # nothing known: nothing told
    fitted.learn_transform(X)
    before = {key: np.copy(value) for key, value in fitted.to_state().items()}
    given = fitted.transform(more)
    for key, value in fitted.to_state().items():
        np.testing.assert_array_equal(value, before[key])
    for i in range(len(more)):
        again = scaler()
        again.restore(fitted.to_state())
        np.testing.assert_allclose(
            again.learn_transform(more[i : i + 1])[0], given[i], atol=1e-12, rtol=1e-7
        )


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("value", [0.0, 0.1, -1e10])
def test_a_constant_column_is_zero(scaler, value):
    X = np.full((50, 1), value)
    assert not scaler().learn_transform(X).any()


def test_an_unknown_scaler_is_named():
    with pytest.raises(ValueError, match=r"minmax, standard, robust, none; got 'log'"):
        make_scaler("log")


# -- a scaler before a learner -------------------------------------------------------------------


def learner(name="pkawv-nystrom", task="regression"):
    return pronk.make(name, task, random_state=0)


def scaled(learner, scaler="minmax"):
    return Prepared(learner, scale=scaler, scale_target="none")


@pytest.mark.parametrize("scaler", SCALERS)
def test_scaled_is_the_learner_on_scaled_rows(scaler):
    X = rows()
    y = np.sin(X[:, 0])
    model, plain = scaled(learner(), scaler.name), learner()
    expected = plain.predict_then_learn(scaler().learn_transform(X), y)
    np.testing.assert_array_equal(model.predict_then_learn(X, y), expected)
    assert model.n_seen_ == 200 and model.size_ == plain.size_ and model.n_features_in_ == 3
    np.testing.assert_array_equal(model.dictionary_, plain.dictionary_)


@pytest.mark.parametrize("scaler", ["minmax", "standard", "robust"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_one_file_holds_both_and_resumes_to_the_last_bit(tmp_path, scaler, task):
    X = rows()
    y = np.sin(X[:, 0])
    y = np.where(y > 0, "up", "down") if task == "classification" else y
    model = scaled(learner(task=task), scaler)
    model.predict_then_learn(X[:120], y[:120])
    model.save(tmp_path / "model.pronk")
    again = files.load(tmp_path / "model.pronk")
    assert repr(again) == repr(model)
    np.testing.assert_array_equal(again.predict(X[120:]), model.predict(X[120:]))
    np.testing.assert_array_equal(
        again.predict_then_learn(X[120:], y[120:]), model.predict_then_learn(X[120:], y[120:])
    )
    if task == "classification":
        assert again.classes_.tolist() == ["down", "up"]
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_refused_call_changes_neither_scaler_nor_learner():
    X = rows()
    y = np.sin(X[:, 0])
    model, twin = scaled(learner()), scaled(learner())
    for each in (model, twin):
        each.predict_then_learn(X[:100], y[:100])
    bad = X[100:].copy()
    bad[3, 1] = np.inf
    for wrong_X, wrong_y in [(bad, y[100:]), (10 * X, y[:7]), (X[:, :2], y), (X[:0], y[:1])]:
        with pytest.raises(ValueError, match=r"X|y"):
            model.predict_then_learn(wrong_X, wrong_y)
    np.testing.assert_array_equal(
        model.predict_then_learn(X[100:], y[100:]), twin.predict_then_learn(X[100:], y[100:])
    )


def test_predict_is_what_comes_next():
    X = rows()
    y = np.sin(X[:, 0])
    model = scaled(pronk.make("pkrr-taylor"))
    model.predict_then_learn(X[:100], y[:100])
    given = model.predict(X[100:101])
    np.testing.assert_allclose(
        model.predict_then_learn(X[100:101], y[100:101]), given, atol=1e-10, rtol=1e-7
    )


def test_frames_keep_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows(), columns=["a", "b", "c"])
    y = np.sin(frame["a"])
    model = scaled(learner()).partial_fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.to_numpy()))
