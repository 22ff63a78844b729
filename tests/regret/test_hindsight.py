"""The best function in hindsight against other minimisers, in every space."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from naive import features, losses, regret
from pronk import Gaussian, Laplacian
from pronk.core.losses import LOSSES
from pronk.regret import best_in_hindsight, best_in_span, best_with_features

KINKED = ["hinge", "absolute", "epsilon_insensitive"]
SMOOTH = [name for name in LOSSES if name not in KINKED]


def stream(loss, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    X[n // 2] = X[0]  # a duplicate: K is singular
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(n)
    return X, np.where(y >= 0, 1.0, -1.0) if LOSSES[loss].task == "classification" else y


def objective(loss, Phi, y, alpha):
    loss = losses.get(loss)

    def value(w):
        return sum(loss.value(z, t) for z, t in zip(Phi @ w, y, strict=True)) + alpha * w @ w

    return value


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 30.0])
def test_squared_loss_is_the_closed_form(alpha):
    X, y = stream("squared")
    K = Laplacian(1.0)(X, X)
    best = best_in_hindsight(X, y, Laplacian(1.0), alpha=alpha)
    c = np.linalg.solve(K + alpha * np.eye(len(y)), y)
    np.testing.assert_allclose(best.predictions, K @ c, atol=1e-9, rtol=1e-7)
    assert best.penalised == pytest.approx(regret.best_regularised_loss(K, y, alpha), rel=1e-9)
    assert best.norm2 == pytest.approx(c @ K @ c, rel=1e-7)
    assert best.loss == pytest.approx(np.sum((y - K @ c) ** 2), rel=1e-7)


@pytest.mark.parametrize("loss", SMOOTH)
def test_smooth_losses_against_a_quasi_newton_minimiser(loss):
    X, y = stream(loss, n=40)
    F = features.root(Gaussian(0.7)(X, X))
    best = best_in_hindsight(X, y, Gaussian(0.7), loss, alpha=0.1)
    other = minimize(objective(loss, F, y, 0.1), np.zeros(len(y)), method="BFGS")
    assert best.penalised <= other.fun + 1e-9
    assert best.penalised == pytest.approx(other.fun, rel=1e-5)
    assert best.gap <= 1e-9 * len(y)


@pytest.mark.parametrize("loss", KINKED)
def test_kinked_losses_against_a_quadratic_program(loss):
    """min sum s + alpha |w|^2 subject to s >= every linear piece of the loss, by SLSQP."""
    X, y = stream(loss, n=20)
    F, n, alpha = features.root(Gaussian(0.7)(X, X)), 20, 0.2
    if loss == "hinge":
        pieces = [(np.zeros(n), np.zeros(n)), (-y, np.ones(n))]
    else:
        eps = 0.1 if loss == "epsilon_insensitive" else 0.0
        pieces = [(np.ones(n), -y - eps), (-np.ones(n), y - eps), (np.zeros(n), np.zeros(n))]

    def slack(v):
        return np.concatenate([v[n:] - a * (F @ v[:n]) - b for a, b in pieces])

    start = np.concatenate([np.zeros(n), np.abs(y) + 1])
    other = minimize(
        lambda v: v[n:].sum() + alpha * v[:n] @ v[:n],
        start,
        jac=lambda v: np.concatenate([2 * alpha * v[:n], np.ones(n)]),
        constraints={"type": "ineq", "fun": slack},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    best = best_in_hindsight(X, y, Gaussian(0.7), loss, alpha=alpha)
    assert best.penalised == pytest.approx(other.fun, rel=1e-6)
    assert best.gap <= 1e-8 * n


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0, 100.0])
def test_the_gap_is_honest_and_small_for_every_loss_and_penalty(loss, alpha):
    X, y = stream(loss, n=150, seed=1)
    best = best_in_hindsight(X, y, Gaussian(0.5), loss, alpha=alpha)
    scale = LOSSES[loss].value(np.zeros(len(y)), y).sum()
    assert 0 <= best.gap <= 1e-8 * scale
    # Strong convexity: any other function is above by alpha |difference|^2, up to the gap.
    K = Gaussian(0.5)(X, X)
    rng = np.random.default_rng(2)
    for size in (1e-4, 1e-1):
        step = size * rng.standard_normal(len(y))
        c = best.coefficients + step
        other = LOSSES[loss].value(K @ c, y).sum() + alpha * c @ K @ c
        slack = best.gap + 2 * np.sqrt(best.gap * alpha * step @ K @ step) + 1e-9 * scale
        assert other >= best.penalised + alpha * step @ K @ step - slack


@pytest.mark.parametrize("loss", LOSSES)
def test_span_of_all_rows_and_root_features_are_the_whole_space(loss):
    X, y = stream(loss, seed=3)
    kernel = Laplacian(0.8)
    best = best_in_hindsight(X, y, kernel, loss, alpha=0.3)
    in_span = best_in_span(X, y, X, kernel, loss, alpha=0.3)
    with_root = best_with_features(features.root(kernel(X, X)), y, loss, alpha=0.3)
    for other in (in_span, with_root):
        assert other.penalised == pytest.approx(best.penalised, rel=1e-8)
        np.testing.assert_allclose(other.predictions, best.predictions, atol=2e-4, rtol=1e-7)
    Z = np.random.default_rng(4).uniform(-1, 1, (10, 2))
    np.testing.assert_allclose(best.predict(X), best.predictions, atol=1e-9, rtol=1e-7)
    np.testing.assert_allclose(in_span.predict(Z), best.predict(Z), atol=2e-4, rtol=1e-7)


def test_a_smaller_span_is_worse_and_is_ridge_on_nystrom_features():
    X, y = stream("squared", n=80, seed=5)
    points = np.vstack([X[:10], X[:2]])  # duplicates among the points
    best = best_in_span(X, y, points, Gaussian(0.6), alpha=0.5)
    Phi = features.nystrom(X, points, Gaussian(0.6))
    w = np.linalg.solve(Phi.T @ Phi + 0.5 * np.eye(Phi.shape[1]), Phi.T @ y)
    np.testing.assert_allclose(best.predictions, Phi @ w, atol=1e-7, rtol=1e-7)
    assert best.penalised > best_in_hindsight(X, y, Gaussian(0.6), alpha=0.5).penalised
    empty = best_in_span(X, y, np.zeros((0, 2)), Gaussian(0.6), alpha=0.5)
    assert empty.loss == pytest.approx(np.sum(y**2)) and empty.norm2 == 0.0
    assert not empty.predict(X).any()


def test_the_clipped_comparator_stays_in_the_clip():
    X, y = stream("squared", seed=6)
    best = best_in_hindsight(X, 3 * y, Gaussian(0.4), alpha=0.01)
    clipped = best.within(1.0)
    assert np.abs(best.predictions).max() > 1.0 and np.abs(clipped.predictions).max() == 1.0
    scale = 1.0 / np.abs(best.predictions).max()
    np.testing.assert_allclose(clipped.predictions, scale * best.predictions, rtol=1e-12, atol=0)
    np.testing.assert_allclose(clipped.predict(X), clipped.predictions, atol=1e-8, rtol=1e-7)
    assert clipped.norm2 == pytest.approx(scale**2 * best.norm2)
    assert clipped.loss == pytest.approx(np.sum((clipped.predictions - 3 * y) ** 2))
    assert best.within(100.0) is best


def test_separable_labels_with_hardly_any_penalty_give_a_warning_at_most():
    X, y = stream("logistic", n=50, seed=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        best = best_in_hindsight(X, y, Gaussian(0.1), "logistic", alpha=1e-12)
    assert np.isfinite(best.predictions).all() and best.loss < 1.0


def test_what_makes_no_sense_is_refused():
    X, y = stream("squared")
    with pytest.raises(ValueError, match="alpha"):
        best_in_hindsight(X, y, alpha=0.0)
    with pytest.raises(ValueError, match="labels -1 and 1"):
        best_in_hindsight(X, y, loss="hinge")
    with pytest.raises(ValueError, match="shapes"):
        best_in_hindsight(X, y[:-1])
    with pytest.raises(ValueError, match="finite"):
        best_in_hindsight(X, np.append(y[:-1], np.nan))
    with pytest.raises(ValueError, match="unknown loss"):
        best_in_hindsight(X, y, loss="squares")
    with pytest.raises(ValueError, match="points"):
        best_in_span(X, y, np.zeros((3, 5)))
    with pytest.raises(ValueError, match="clip"):
        best_in_hindsight(X, y).within(-1.0)
