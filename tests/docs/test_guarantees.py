"""Measure the bounds that the pages of the first-order learners state."""

import numpy as np
import pytest

import pronk
from naive.randomness import stream as numbered
from pronk.core.losses import get_loss
from pronk.regret import best_in_hindsight, best_with_features


def stream(seed, n=400, d=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def losses_of(name, predictions, y):
    loss = get_loss(name)
    return loss.value(predictions, y).sum(), (loss.slope(predictions, y) ** 2)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
@pytest.mark.parametrize("eta", [0.02, 0.2])
def test_gradient_descent_in_the_rkhs(loss, eta):
    X, y = stream(1)
    kernel = pronk.Gaussian(0.5)
    learner = pronk.KernelOGDRegressor(kernel, eta=eta, alpha=0.0, loss=loss)
    total, squares = losses_of(loss, learner.predict_then_learn(X, y), y)
    for alpha in (0.1, 1.0, 10.0):
        best = best_in_hindsight(X, y, kernel, loss, alpha)
        bound = best.norm2 / (2 * eta) + eta / 2 * squares.sum()
        assert total - get_loss(loss).value(best.predictions, y).sum() <= bound


@pytest.mark.parametrize("eta", [0.02, 0.2])
def test_gradient_descent_in_random_features(eta):
    X, y = stream(2)
    learner = pronk.FOGDRegressor(pronk.Gaussian(0.5), n_features=50, eta=eta, random_state=1)
    total, squares = losses_of("squared", learner.predict_then_learn(X, y), y)
    W = numbered(1, 2).standard_normal((2, 50)) / 0.5
    Z = np.hstack((np.cos(X @ W), np.sin(X @ W))) / np.sqrt(50)
    np.testing.assert_allclose(np.sum(Z**2, axis=1), 1.0, rtol=1e-7, atol=0)
    for alpha in (0.1, 1.0, 10.0):
        best = best_with_features(Z, y, "squared", alpha)
        bound = best.norm2 / (2 * eta) + eta / 2 * squares.sum()
        assert total - np.sum((best.predictions - y) ** 2) <= bound


def test_steps_of_pegasos():
    X, y = stream(3, d=3)
    y, alpha = np.sign(y), 0.05
    learner = pronk.KernelOGDClassifier("linear", eta="pegasos", alpha=alpha, loss="hinge")
    W, margins = np.zeros((len(y), 3)), np.zeros(len(y))
    for t in range(len(y)):
        if t:
            W[t], margins[t] = (
                learner.decision_function(np.eye(3)),
                learner.decision_function(X[t : t + 1])[0],
            )
        learner.partial_fit(X[t : t + 1], y[t : t + 1])
    slopes = get_loss("hinge").slope(margins, y)
    largest = np.linalg.norm(alpha * W + slopes[:, None] * X, axis=1).max()

    def objective(w, scores):
        return np.sum(alpha / 2 * np.sum(w**2, axis=-1) + get_loss("hinge").value(scores, y))

    total = objective(W, margins)
    bound = largest**2 * (1 + np.log(len(y))) / (2 * alpha)
    for w in [W[-1], np.zeros(3), *np.random.default_rng(4).standard_normal((20, 3))]:
        assert total - objective(np.tile(w, (len(y), 1)), X @ w) <= bound


def test_mistakes_of_the_perceptron_on_rows_with_a_margin():
    rng = np.random.default_rng(5)
    kernel, centres = pronk.Gaussian(0.6), rng.uniform(-1, 1, (6, 2))
    coefficients = rng.standard_normal(6)
    X = rng.uniform(-1, 1, (5000, 2))
    f = kernel(X, centres) @ coefficients
    clear = np.abs(f) >= 0.2
    X, y = X[clear], np.sign(f[clear])
    norm2 = coefficients @ kernel(centres, centres) @ coefficients / 0.2**2
    margins = pronk.KernelPerceptron(kernel).predict_then_learn(X, y, output="decision")
    mistakes = np.sum(y * margins <= 0)
    assert len(y) > 3000 and 0 < mistakes <= norm2
