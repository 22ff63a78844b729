"""AIOLI against direct minimisation of its definition, its certificate and its bound."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

import pronk
from naive import features
from naive.aioli import aioli, aioli_projected
from naive.kernels import gaussian, laplacian
from naive.kors import kors
from naive.randomness import stream as numbered
from pronk import AIOLIClassifier, Gaussian, Laplacian
from pronk.newton.engine import AIOLI, Newton
from pronk.newton.recurrence import anticipated_margin
from pronk.regret import aioli_bound, best_with_features, bound_for, log_determinant

CUTS = [0, 1, 2, 9, 10, 75, 140, 141, 180]


def stream(n=180):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    X[100:110] = X[20:30]
    margin = 4 * np.sin(2 * X[:, 0]) * X[:, 1]
    return X, np.where(rng.random(n) < expit(margin), 1.0, -1.0)


def in_blocks(learner, X, y, cuts=CUTS, **options):
    parts = [
        learner.predict_then_learn(X[i:j], y[i:j], output="decision", **options)
        for i, j in pairwise(cuts)
    ]
    return np.concatenate(parts)


def twin_laplacian(X, Z):
    return laplacian(X, Z, 1.5)


@pytest.mark.parametrize("radius", [0.0, 2.0])
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_taylor(alpha, radius):
    X, y = stream()
    learner = AIOLIClassifier(
        Gaussian(1.3), alpha=alpha, radius=radius, features="taylor", degree=3
    )
    expected, _ = aioli(features.taylor(X, 3, 1.3), y, alpha, radius)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-8)


def test_fourier():
    X, y = stream()
    learner = AIOLIClassifier(
        Gaussian(0.9), alpha=0.1, features="fourier", n_features=15, random_state=9
    )
    expected, _ = aioli(features.fourier(X, 15, 9, 0.9), y, 0.1, 2.0)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("budget", [None, 12])
def test_nystrom_of_a_growing_dictionary(budget):
    X, y = stream()
    learner = AIOLIClassifier(Laplacian(1.5), alpha=0.3, budget=budget, random_state=4)
    accepted, _, indices = kors(
        X, twin_laplacian, 1.0, 0.5, 1.0, numbered(4, 0).random(len(X)), budget
    )
    expected = aioli_projected(X, y, twin_laplacian, 0.3, 2.0, accepted)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-8)
    assert np.array_equal(learner.dictionary_, X[indices])


def test_points_given_beforehand_and_weights():
    X, y = stream()
    points = X[:15]
    w = np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(X))
    learner = AIOLIClassifier(Gaussian(0.8), alpha=0.2, dictionary=points)
    parts = [
        learner.predict_then_learn(X[i:j], y[i:j], output="decision", sample_weight=w[i:j])
        for i, j in pairwise(CUTS)
    ]
    Phi = features.nystrom(X, points, lambda X, Z: gaussian(X, Z, 0.8))
    expected, _ = aioli(Phi, y, 0.2, 2.0, w)
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=0, atol=1e-8)


def test_several_classes_one_against_the_rest():
    X, _ = stream()
    names = np.array(["ant", "bee", "cat"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.6, 0.6])]
    Phi = features.taylor(X, 3, 1.3)
    learner = AIOLIClassifier(Gaussian(1.3), alpha=0.2, features="taylor", degree=3)
    learner.partial_fit(X[:1], names[:1], classes=["ant", "bee", "cat"])
    margins = in_blocks(learner, X[1:], names[1:], [0, 3, 80, 179])
    for column, name in enumerate(["ant", "bee", "cat"]):
        expected, _ = aioli(Phi, np.where(names == name, 1.0, -1.0), 0.2, 2.0)
        np.testing.assert_allclose(margins[:, column], expected[1:], rtol=0, atol=1e-8)
    P = learner.predict_proba(X)
    positive = expit(learner.decision_function(X))
    np.testing.assert_allclose(
        P, positive / positive.sum(axis=1, keepdims=True), rtol=0, atol=1e-14
    )


def test_the_probability_is_the_sigmoid_of_the_margin():
    X, y = stream()
    learner, again = (AIOLIClassifier(Gaussian(0.8), random_state=0) for _ in range(2))
    for one in (learner, again):
        one.partial_fit(X[:1], y[:1], classes=[-1.0, 1.0])
    P = learner.predict_then_learn(X[1:], y[1:], output="probability")
    f = again.predict_then_learn(X[1:], y[1:], output="decision")
    np.testing.assert_array_equal(P[:, 1], expit(f))
    np.testing.assert_array_equal(learner.predict_proba(X)[:, 1], expit(again.decision_function(X)))


def test_predict_is_the_prediction_of_the_next_row():
    X, y = stream()
    learner = AIOLIClassifier(Gaussian(0.8), alpha=0.1, dictionary=X[:10]).fit(X[:100], y[:100])
    shown = learner.decision_function(X[100:101])
    assert shown == pytest.approx(
        learner.predict_then_learn(X[100:101], y[100:101], output="decision"), abs=1e-12
    )


def test_the_root_is_found_for_all_sizes():
    for f in (0.0, 1e-12, 0.3, 7.0, 1e3, 1e9):
        for q in (0.0, 1e-9, 0.5, 30.0, 1e6, 1e12):
            for sign in (1.0, -1.0):
                p = anticipated_margin(sign * f, q)
                expected = brentq(
                    lambda p, f=f, q=q: p + q * np.tanh(p / 2) - f, 0, f, xtol=1e-300, rtol=1e-14
                )
                assert p == pytest.approx(sign * expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("radius", [0.5, 2.0, 6.0])
def test_the_quadratic_is_below_the_loss_within_the_radius(radius):
    """From every prediction a, for every margin |u| <= BR."""
    a = np.linspace(-30, 30, 601)[:, None]
    u = np.linspace(-radius, radius, 401)[None, :]
    slope, curvature = -expit(-a), expit(a) * expit(-a) / (1 + radius)
    quadratic = np.logaddexp(0, -a) + slope * (u - a) + curvature / 2 * (u - a) ** 2
    assert (quadratic <= np.logaddexp(0, -u) + 1e-12).all()


def test_the_certificate_is_the_regret_on_the_quadratics():
    X, y = stream()
    Phi, alpha, radius = features.taylor(X, 3, 1.3), 0.2, 2.0
    learner = AIOLIClassifier(Gaussian(1.3), alpha=alpha, features="taylor", degree=3)
    in_blocks(learner, X, y)
    f, (g, eta, thetas) = aioli(Phi, y, alpha, radius)
    # min_theta sum of the quadratics + alpha |theta|^2
    offsets = np.einsum("ij,ij->i", g, thetas)
    H = 2 * alpha * np.eye(Phi.shape[1]) + (g.T * eta) @ g
    b = g.T @ (eta * offsets - 1)
    v = np.linalg.solve(H, b)
    losses = np.logaddexp(0, -y * f)
    lines = g @ v - offsets
    least = np.sum(losses + lines + eta / 2 * lines**2) + alpha * v @ v
    certificate = learner.certificate()
    assert certificate.rows == 180 and not certificate.exact
    assert certificate.loss == pytest.approx(losses.sum(), rel=1e-9)
    assert certificate.regret == pytest.approx(losses.sum() - least, rel=1e-8)
    assert certificate.penalty == pytest.approx(alpha * v @ v, rel=1e-8)
    log_det = np.linalg.slogdet(H / (2 * alpha))[1]
    assert certificate.bound == pytest.approx((1 + radius) * log_det, rel=1e-8)
    assert 0.05 * certificate.bound < certificate.regret <= certificate.bound


@pytest.mark.parametrize("flip", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("radius", [1.0, 2.0])
def test_the_regret_stays_below_the_bound(flip, radius):
    X, _ = stream()
    rng = np.random.default_rng(3)
    y = np.where(X[:, 0] > 0, 1.0, -1.0) * np.where(rng.random(len(X)) < flip, -1.0, 1.0)
    learner = AIOLIClassifier(Gaussian(1.3), alpha=0.1, radius=radius, features="taylor", degree=3)
    f = in_blocks(learner, X, y)
    Phi = learner._model.embedding.transform(X)
    best = best_with_features(Phi, y, "logistic", 0.1).within(radius)
    regret = np.sum(np.logaddexp(0, -y * f) - np.logaddexp(0, -y * best.predictions))
    bound = bound_for(learner, X, y, best)
    log_det = log_determinant(Phi @ Phi.T, 8 * 0.1 * (1 + radius))
    assert bound == pytest.approx(0.1 * best.norm2 + (1 + radius) * log_det)
    certificate = learner.certificate()
    assert regret <= certificate.regret + 0.1 * best.norm2
    assert certificate.bound + 0.1 * best.norm2 <= bound
    with pytest.raises(ValueError, match="leaves"):
        bound_for(learner, X, y, best_with_features(Phi, np.sign(X[:, 0]), "logistic", 1e-4))


def test_the_bound_is_for_fixed_features():
    assert aioli_bound(0.5, 4.0, 3.0, 2.0) == pytest.approx(11.0)
    X, y = stream()
    learner = AIOLIClassifier(random_state=0).fit(X, y)
    best = best_with_features(X, y, "logistic", 1.0).within(2.0)
    with pytest.raises(ValueError, match="needs fixed features"):
        bound_for(learner, X, y, best)


@pytest.mark.parametrize("alpha", [1e-8, 1e-3, 1e4])
def test_repeated_rows_and_any_alpha(alpha):
    rng = np.random.default_rng(5)
    Phi = np.repeat(rng.normal(size=(1, 30)), 600, axis=0)
    Phi[300:] += 1e-9 * rng.normal(size=(300, 30))
    for y in (np.ones((600, 1)), np.sign(rng.normal(size=(600, 1)))):
        engine = Newton(AIOLI(), alpha, 30)
        assert np.isfinite(engine.learn(Phi, y)).all()
        assert np.isfinite(engine.weights).all()
        assert engine.certificate().regret <= engine.certificate().bound


def test_a_saved_learner_goes_on_with_the_same_bits(tmp_path):
    X, y = stream()
    learner = pronk.make("aioli", "classification", bandwidth=0.8, random_state=1)
    learner.partial_fit(X[:77], y[:77])
    learner.save(tmp_path / "model.pronk")
    other = pronk.load(tmp_path / "model.pronk")
    a = learner.predict_then_learn(X[77:], y[77:], output="probability")
    b = other.predict_then_learn(X[77:], y[77:], output="probability")
    np.testing.assert_array_equal(a, b)
    assert learner.certificate() == other.certificate()
