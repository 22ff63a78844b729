"""The Newton engine against its definition, in any cut, also on ill-conditioned rows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.awv import feature_awv
from naive.ons import ons
from pronk.core.losses import get_loss
from pronk.core.state import StateError
from pronk.newton.engine import Newton, OnlineNewton, Squared

cuts_of_200 = st.lists(st.integers(1, 199), max_size=8, unique=True).map(sorted)


def in_blocks(engine, Phi, Y, cuts):
    edges = [0, *cuts, len(Phi)]
    return np.concatenate([engine.learn(Phi[i:j], Y[i:j]) for i, j in pairwise(edges)])


@settings(deadline=None, max_examples=20)
@given(
    cuts=cuts_of_200,
    size=st.sampled_from([0, 1, 7, 30, 70]),
    alpha=st.sampled_from([0.1, 1.0, 100.0]),
    anticipate=st.booleans(),
)
def test_ridge_and_awv_are_their_definitions_in_any_cut(cuts, size, alpha, anticipate):
    rng = np.random.default_rng(size)
    Phi, Y = rng.normal(size=(200, size)), rng.normal(size=(200, 2))
    expected = feature_awv(Phi, Y, alpha, anticipate)
    engine = Newton(Squared(anticipate), alpha, size, 2)
    np.testing.assert_allclose(in_blocks(engine, Phi, Y, cuts), expected, rtol=0, atol=1e-10)
    A = alpha * np.eye(size) + Phi.T @ Phi
    np.testing.assert_allclose(engine.weights, np.linalg.solve(A, Phi.T @ Y), rtol=0, atol=1e-10)
    q = np.einsum("ij,ij->i", Phi[:5], np.linalg.solve(A, Phi[:5].T).T)
    np.testing.assert_allclose(engine.leverage(Phi[:5]), q, rtol=0, atol=1e-12)
    f = Phi[:5] @ engine.weights
    expected_next = f / (1 + q[:, None]) if anticipate else f
    np.testing.assert_allclose(engine.predict(Phi[:5]), expected_next, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    cuts=cuts_of_200,
    size=st.sampled_from([1, 7, 30]),
    loss=st.sampled_from(["squared", "logistic", "squared_hinge", "hinge"]),
    eta=st.sampled_from(["auto", "convex", 0.1]),
    clip=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_online_newton_is_its_definition_in_any_cut(cuts, size, loss, eta, clip):
    rng = np.random.default_rng(size)
    Phi = rng.normal(size=(200, size)) / np.sqrt(size)
    y = np.sign(Phi[:, 0] + 0.3 * rng.normal(size=200))
    expected = ons(Phi, y, 1.0, loss, eta, clip)
    engine = Newton(OnlineNewton(get_loss(loss), eta, clip), 1.0, size)
    predictions = in_blocks(engine, Phi, y[:, None], cuts)[:, 0]
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-08)
    assert np.abs(predictions).max() <= clip


@pytest.mark.parametrize("step", [1, 9, 300])
def test_the_clip_grows_with_the_labels_seen(step):
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(300, 5))
    y = 3.0 * np.tanh(Phi[:, 0])
    y[:4] = 0.0
    expected = ons(Phi, y, 1.0, "squared", "auto", "auto")
    engine = Newton(OnlineNewton(get_loss("squared"), "auto", None), 1.0, 5)
    predictions = in_blocks(engine, Phi, y[:, None], range(step, 300, step))[:, 0]
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-08)


def test_growth_keeps_the_open_block_and_the_past_is_zero_in_the_new_coordinate():
    rng = np.random.default_rng(2)
    Phi, Y = rng.normal(size=(150, 6)), rng.normal(size=(150, 1))
    Phi[:70, 4:] = 0.0
    Phi[:100, 5] = 0.0
    whole = Newton(Squared(), 0.5, 6).learn(Phi, Y)
    engine = Newton(Squared(), 0.5, 4)
    parts = [engine.learn(Phi[:70, :4], Y[:70])]
    engine.grow()
    parts.append(engine.learn(Phi[70:100, :5], Y[70:100]))
    engine.grow()
    parts.append(engine.learn(Phi[100:], Y[100:]))
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-12)


def test_growth_with_history_is_as_if_the_coordinate_had_been_there():
    rng = np.random.default_rng(3)
    Phi, Y = rng.normal(size=(150, 6)), rng.normal(size=(150, 2))
    whole = Newton(Squared(), 0.5, 6, 2)
    expected = whole.learn(Phi, Y)
    engine = Newton(Squared(), 0.5, 5, 2)
    engine.learn(Phi[:77, :5], Y[:77])
    engine.grow_with_history(Phi[:77, :5], Phi[:77, 5], Y[:77])
    np.testing.assert_allclose(engine.learn(Phi[77:], Y[77:]), expected[77:], rtol=0, atol=1e-12)


def test_new_outputs_are_multiples_of_old_ones():
    rng = np.random.default_rng(4)
    Phi, Y = rng.normal(size=(90, 5)), rng.normal(size=(90, 2))
    M = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 2.0]])
    engine = Newton(Squared(), 1.0, 5, 2)
    engine.learn(Phi[:50], Y[:50])
    engine.remap(M)
    straight = Newton(Squared(), 1.0, 5, 3).learn(Phi, Y @ M)
    np.testing.assert_allclose(
        engine.learn(Phi[50:], Y[50:] @ M), straight[50:], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("rule", [Squared(True), Squared(False), "newton"])
def test_it_survives_rank_one_repeated_rows_and_any_alpha(alpha, rule):
    rng = np.random.default_rng(5)
    if rule == "newton":
        rule = OnlineNewton(get_loss("squared"), "auto", 1.0)
    Phi = np.repeat(rng.normal(size=(1, 30)), 600, axis=0)
    Phi[300:] += 1e-9 * rng.normal(size=(300, 30))
    y = np.sign(rng.normal(size=(600, 1)))
    engine = Newton(rule, alpha, 30)
    predictions = engine.learn(Phi, y)
    assert np.isfinite(predictions).all()
    assert np.isfinite(engine.weights).all()
    # All rows are one direction: the ridge fit is near the running mean of y.
    if isinstance(rule, Squared):
        means = np.cumsum(y[:-1, 0]) / np.arange(1, 600)
        square = Phi[0] @ Phi[0]
        shrink = np.arange(1, 600) / (np.arange(1, 600) + rule.anticipate + alpha / square)
        np.testing.assert_allclose(
            predictions[1:300, 0], (means * shrink)[:299], rtol=0, atol=1e-05
        )


def test_the_state_of_a_long_stream_is_the_sum_over_its_rows():
    """200,000 rows: A and b stay plain sums, so their error is that of summation."""
    rng = np.random.default_rng(6)
    Phi, y = rng.normal(size=(2000, 8)), rng.normal(size=(2000, 1))
    engine = Newton(Squared(), 1e-3, 8)
    for _ in range(100):
        engine.learn(Phi, y)
    A = 1e-3 * np.eye(8) + 100 * Phi.T @ Phi
    np.testing.assert_allclose(
        engine.weights, np.linalg.solve(A, 100 * Phi.T @ y), rtol=1e-09, atol=1e-12
    )


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("kappa", [0.2, 1.5])
def test_a_state_whose_kappa_does_not_fit_its_rows_is_refused(size, kappa):
    rng = np.random.default_rng(4)
    engine = Newton(Squared(True), 1.0, size)
    engine.learn(rng.normal(size=(5, size)), rng.normal(size=(5, 1)))
    state = engine.to_state()
    Newton(Squared(True), 1.0, size).restore(state)
    state["kappa"][2] = kappa if kappa > 1.0 else kappa * state["kappa"][2]
    with pytest.raises(StateError, match=r"kappa|upper"):
        Newton(Squared(True), 1.0, size).restore(state)
