"""Targets scaled by the first rows, against a loop over single rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import pronk
from helpers import blockwise
from pronk.core.first_rows import LAST_RESTART, RESTARTS
from pronk.estimators.targets import ScaledTargets

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (400, 2))
Y = 454 + 17 * np.sin(4 * X[:, 0]) + rng.normal(size=400)
TOLERANCE = {"rtol": 1e-8, "atol": 1e-8}


def prepared(name="ogd", **more):
    learner = pronk.make(name, "regression", random_state=0)
    return pronk.Prepared(learner, scale="none", **more)


def naive(learner, X, Y, weights):
    """One row after the other; at every restart a new learner of all rows so far."""
    current, centre, size, seen, predictions = clone(learner), 0.0, 1.0, [], []
    for x, y, w in zip(X, Y, weights, strict=True):
        known = 0.0 if not seen else current.predict([x])[0]
        predictions.append(centre + size * known)
        if w == 0:
            continue
        seen.append((x, y, w))
        if len(seen) in RESTARTS:
            A, b, v = (np.array(part) for part in zip(*seen, strict=True))
            centre, size = b.mean(axis=0), np.where(b.std(axis=0) > 0, b.std(axis=0), 1.0)
            current = clone(learner).fit(A, (b - centre) / size, sample_weight=v)
        else:
            current.partial_fit([x], [(y - centre) / size], sample_weight=[w])
    return np.array(predictions)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_twin_agrees_in_any_cut(weighted):
    weights = rng.integers(0, 3, 400).astype(float) if weighted else np.ones(400)
    given = {"sample_weight": weights} if weighted else {}
    expected = naive(pronk.make("ogd", "regression", random_state=0), X, Y, weights)
    whole = prepared().predict_then_learn(X, Y, **given)
    assert_allclose(whole, expected, **TOLERANCE)
    cut = prepared()
    parts = [
        cut.predict_then_learn(
            X[i : i + 7], Y[i : i + 7], **{k: v[i : i + 7] for k, v in given.items()}
        )
        for i in range(0, 400, 7)
    ]
    assert_allclose(np.concatenate(parts), whole, **TOLERANCE)


def test_several_outputs_have_a_centre_each():
    two = np.column_stack((Y, 1e-3 * X[:, 1]))
    found = prepared().predict_then_learn(X, two)
    assert_allclose(found[:, 0], prepared().predict_then_learn(X, Y), **TOLERANCE)
    assert found.shape == (400, 2)
    assert_allclose(blockwise(prepared(), X, two), found, **TOLERANCE)


@pytest.mark.parametrize("rows", [1, 100, LAST_RESTART, 300])
def test_a_saved_model_resumes_to_the_last_bit(tmp_path, rows):
    model = prepared()
    model.partial_fit(X[:rows], Y[:rows])
    model.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    expected = model.predict_then_learn(X[rows:], Y[rows:])
    np.testing.assert_array_equal(again.predict_then_learn(X[rows:], Y[rows:]), expected)
    np.testing.assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))


@pytest.mark.parametrize("rows", [0, 100, 300])
def test_a_refused_call_changes_nothing(rows):
    model, twin = prepared(), prepared()
    for one in (model, twin):
        if rows:
            one.partial_fit(X[:rows], Y[:rows])
    bad = Y[rows:].copy()
    bad[-1] = np.inf
    with pytest.raises(ValueError, match="inf"):
        model.partial_fit(X[rows:], bad)
    expected = twin.predict_then_learn(X[rows:], Y[rows:])
    np.testing.assert_array_equal(model.predict_then_learn(X[rows:], Y[rows:]), expected)


def test_an_overflow_in_a_later_piece_changes_nothing():
    model = pronk.Prepared(
        pronk.FOGDRegressor(eta=1e3, n_features=20, random_state=0), scale="none"
    )
    model.partial_fit(X[:3], Y[:3])
    before = model.predict(X[:5])
    with pytest.raises(ValueError, match="overshoot"):
        model.partial_fit(X[3:200], Y[3:200])
    np.testing.assert_array_equal(model.predict(X[:5]), before)


@pytest.mark.parametrize("outputs", [1, 2])
def test_intervals_and_deviations_are_in_the_unit_of_y(outputs):
    """As the learner's own on targets that were scaled by hand, turned back."""
    targets = Y if outputs == 1 else np.column_stack((Y, 1e-3 * Y))
    model = prepared("online-kernel", scale_target="standard")
    _, ends = model.predict_then_learn(X, targets, interval=0.8)
    twin = prepared("online-kernel", scale_target="standard")
    parts = [
        twin.predict_then_learn(X[i : i + 50], targets[i : i + 50], interval=0.8)
        for i in range(0, 400, 50)
    ]
    assert_allclose(np.concatenate([part[1] for part in parts]), ends, **TOLERANCE)
    held = (ends[..., 0] <= targets) & (targets <= ends[..., 1])
    assert held[200:].mean() > 0.6  # of scaled units none would be held
    centre, size = targets[:LAST_RESTART].mean(axis=0), targets[:LAST_RESTART].std(axis=0)
    inner = model.learner_
    assert_allclose(model.predict(X[:9]), centre + size * inner.predict(X[:9]), **TOLERANCE)
    _, deviation = model.predict(X[:9], return_std=True)
    assert_allclose(deviation, size * inner.predict(X[:9], return_std=True)[1], **TOLERANCE)
    low, high = (inner.predict_interval(X[:9])[..., i] for i in (0, 1))
    expected = np.stack((centre + size * low, centre + size * high), axis=-1)
    assert_allclose(model.predict_interval(X[:9]), expected, **TOLERANCE)
    once = prepared("online-kernel", scale_target="standard")
    assert_allclose(once.predict_then_learn(X, targets, interval=0.8)[1], ends, **TOLERANCE)


def test_who_is_scaled():
    assert prepared().fit(X, Y)._targets is not None
    assert prepared(scale_target="none").fit(X, Y)._targets is None
    assert prepared("online-kernel").fit(X[:50], Y[:50])._targets is None
    labels = pronk.Prepared(pronk.make("ogd", "classification"), scale="none")
    assert labels.fit(X, Y > 454)._targets is None
    with pytest.raises(ValueError, match="labels have no size"):
        pronk.Prepared(pronk.make("ogd", "classification"), scale_target="standard").fit(X, Y > 454)
    with pytest.raises(ValueError, match="scale_target must be one of"):
        prepared(scale_target="some").fit(X, Y)


def test_a_constant_target_has_the_size_one():
    model = prepared().fit(X[:50], np.full(50, 3.0))
    assert_allclose(model.predict(X[:5]), 3.0, rtol=0, atol=1e-12)


def changed(state, name, value):
    """A copy of a state in which one entry, or one entry of its first block, is another."""
    if name in state:
        return {**state, name: value}
    return {**state, "events": [{**state["events"][0], name: value}, *state["events"][1:]]}


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("rows", 99, "rows are not those held"),
        ("rows", 256, "rows are not those held"),
        ("events", [], "rows are not those held"),
        ("events", [{"matrix": np.ones((1, 1))}], "not all blocks"),
        ("final", {"centre": 0.0, "size": 1.0}, "does not agree with rows"),
        ("Y", np.full(64, np.nan), "holds NaN"),
        ("Y", np.full(64, 1e300), "too large"),
        ("Y", np.zeros((64, 1)), "not an array"),
        ("X", None, "not an array"),
        ("X", np.zeros((64, 3)), "does not fit"),
        ("weights", np.zeros(64), "not positive"),
    ],
)
def test_a_changed_state_is_refused(name, value, message):
    model = prepared().fit(X[:100], Y[:100])
    fresh = ScaledTargets(model.learner, model.learner_)
    with pytest.raises(ValueError, match=message):
        fresh.restore(changed(model._targets.to_state(), name, value))


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("size", 0.0, "not positive"),
        ("size", [1.0], "one finite number"),
        ("centre", float("nan"), "one finite number"),
        ("centre", "0", "one finite number"),
    ],
)
def test_a_changed_unit_is_refused(name, value, message):
    model = prepared().fit(X[:300], Y[:300])
    state = model._targets.to_state()
    fresh = ScaledTargets(model.learner, model.learner_)
    fresh.restore(state)
    assert fresh.centre == model._targets.centre and fresh.size == model._targets.size
    with pytest.raises(ValueError, match=message):
        fresh.restore({**state, "final": {**state["final"], name: value}})
