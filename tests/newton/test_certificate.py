"""Certificates equal a recomputation from all rows, and the bound holds."""

import numpy as np
import pytest

import pronk
from naive import certificates, features, losses, regret
from naive.kernels import gaussian
from pronk import (
    FOGDRegressor,
    Gaussian,
    KernelAWVRegressor,
    PKAWVClassifier,
    PKAWVRegressor,
    ProsNKONSClassifier,
    ProsNKONSRegressor,
)


def random_stream(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=n)


def noise(n=400):
    X, _ = random_stream(n)
    return X, np.sign(np.random.default_rng(9).normal(size=n))


def same_point(n=400):
    """The same point with alternating labels."""
    return np.ones((n, 2)), np.where(np.arange(n) % 2, 1.0, -1.0)


STREAMS = [random_stream, noise, same_point]


def check_against_rows(certificate, Phi, y, predictions, alpha):
    """Everything recomputed from the features of all rows."""
    A = alpha * np.eye(Phi.shape[1]) + Phi.T @ Phi
    w = np.linalg.solve(A, Phi.T @ y)
    assert certificate.rows == len(y)
    assert certificate.loss == pytest.approx(np.sum((predictions - y) ** 2), rel=1e-10)
    assert certificate.best_loss == pytest.approx(np.sum((Phi @ w - y) ** 2), rel=1e-8)
    assert certificate.penalty == pytest.approx(alpha * w @ w, rel=1e-8)
    gap = certificate.loss - certificate.best_loss - certificate.penalty
    assert certificate.regret == pytest.approx(gap, rel=1e-12)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("step", [1, 37, 400])
def test_fixed_features(stream, anticipate, step):
    X, y = stream()
    learner = PKAWVRegressor(
        Gaussian(1.5), features="taylor", degree=3, alpha=0.5, anticipate=anticipate
    )
    predictions = []
    for i in range(0, 400, step):
        predictions.append(learner.predict_then_learn(X[i : i + step], y[i : i + step]))
        certificate = learner.certificate()
        assert certificate.regret <= certificate.bound
    Phi = features.taylor(X, 3, 1.5)
    check_against_rows(certificate, Phi, y, np.concatenate(predictions), 0.5)
    A = np.eye(Phi.shape[1]) + Phi.T @ Phi / 0.5
    scale = np.abs(y).max() if anticipate else np.abs(y - np.concatenate(predictions)).max()
    assert certificate.bound == pytest.approx(scale**2 * np.linalg.slogdet(A)[1], rel=1e-8)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("anticipate", [True, False])
def test_the_whole_rkhs(stream, anticipate):
    X, y = stream(150)
    learner = KernelAWVRegressor(Gaussian(0.8), anticipate=anticipate)
    predictions = learner.predict_then_learn(X, y)
    certificate = learner.certificate()
    assert certificate.regret <= certificate.bound

    def kernel(A, B):
        return gaussian(A, B, 0.8)

    expected = regret.regret_supremum(X, y, kernel, 1.0, predictions)
    assert certificate.regret == pytest.approx(expected, rel=1e-7, abs=1e-8)
    if anticipate:
        closed = regret.regret_supremum_closed_form(X, y, kernel, 1.0)
        assert certificate.regret == pytest.approx(closed, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("anticipate", [True, False])
def test_carried_over_dictionaries_describe_projected_rows(stream, anticipate):
    X, y = stream()
    learner = PKAWVRegressor(Gaussian(0.8), anticipate=anticipate, random_state=0)
    for i in range(0, 400, 50):
        learner.partial_fit(X[i : i + 50], y[i : i + 50])
        certificate = learner.certificate()
        assert certificate.regret <= certificate.bound
    exact = PKAWVRegressor(history="exact", random_state=0).fit(X, y).certificate()
    assert exact.bound is None and exact.rows == 400


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("restart", [True, False])
def test_online_newton_on_squared_loss(stream, restart):
    X, y = stream()
    C = np.abs(y).max()
    learner = ProsNKONSRegressor(
        Gaussian(0.8), restart=restart, clip=C, track_regret=True, random_state=0
    )
    predictions = learner.predict_then_learn(X, y)
    certificate = learner.certificate()
    assert certificate.loss == pytest.approx(np.sum((predictions - y) ** 2))
    assert certificate.rows == 400 and certificate.exact
    assert certificate.regret <= certificate.bound
    assert certificate.epochs == (learner.size_ + 1 if restart else 1)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "squared"])
def test_online_newton_on_labels(loss):
    """The surrogate's regret is above the true regret against clipped comparators."""
    X, y = noise()
    learner = ProsNKONSClassifier(
        Gaussian(1.5), features="taylor", degree=2, loss=loss, clip=1.0, track_regret=True
    )
    p = learner.predict_then_learn(X, y, output="decision")
    certificate = learner.certificate()
    value = pronk.core.losses.get_loss(loss).value
    assert certificate.loss == pytest.approx(value(p, y).sum())
    assert certificate.exact == (loss == "squared")
    assert certificate.regret <= certificate.bound * (1 + 1e-9)
    Phi = features.taylor(X, 2, 1.5)
    for seed in range(20):
        w = np.random.default_rng(seed).normal(size=Phi.shape[1])
        w /= np.abs(Phi @ w).max()
        true = value(p, y).sum() - value(Phi @ w, y).sum() - 0.5 * w @ w
        assert true <= certificate.regret + 1e-9


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic"])
@pytest.mark.parametrize("step", [1, 37, 400])
def test_online_newton_as_recomputed_from_all_rows(loss, step):
    """Every number equals its formula; regret <= bound alone would let a doubled bound pass."""
    X, y = noise()
    twin, C, alpha = losses.get(loss), 1.5, 0.7
    sigma = twin.sigma(C)
    learner = ProsNKONSClassifier(
        Gaussian(1.5), features="taylor", degree=2, loss=loss, clip=C, alpha=alpha,
        track_regret=True,
    )  # fmt: skip
    blocks = [slice(i, i + step) for i in range(0, 400, step)]
    p = np.concatenate(
        [learner.predict_then_learn(X[rows], y[rows], output="decision") for rows in blocks]
    )
    Phi = features.taylor(X, 2, 1.5)
    g = np.array([twin.slope(z, t) for z, t in zip(p, y, strict=True)])
    values = np.array([twin.value(z, t) for z, t in zip(p, y, strict=True)])
    if loss == "squared":
        best, penalty = certificates.best_squared(Phi, y, alpha)
    else:
        best, penalty = certificates.best_surrogate(Phi, values, g, p, sigma, alpha)
    said = learner.certificate()
    assert said.bound == pytest.approx(
        certificates.newton_bound(Phi, g, sigma / 2, alpha), rel=1e-9
    )
    assert said.loss == pytest.approx(values.sum(), rel=1e-10)
    assert said.best_loss == pytest.approx(best, rel=1e-8)
    assert said.penalty == pytest.approx(penalty, rel=1e-8)
    assert said.regret == pytest.approx(values.sum() - best - penalty, rel=1e-8)


def test_certificates_survive_saving_and_classes(tmp_path):
    X, y = noise()
    for learner in (
        PKAWVClassifier(random_state=0),
        ProsNKONSClassifier(track_regret=True, random_state=0),
    ):
        learner.fit(X, y)
        learner.save(tmp_path / "model")
        assert pronk.load(tmp_path / "model").certificate() == learner.certificate()
        assert learner.certificate().rows == 400


def test_learners_without_one_raise():
    X, y = random_stream(20)
    with pytest.raises(ValueError, match="track_regret"):
        ProsNKONSRegressor().fit(X, y).certificate()
    with pytest.raises(ValueError, match="no certificate"):
        FOGDRegressor().fit(X, y).certificate()


def test_labels_that_are_all_zero_leave_the_certificate_finite():
    """Without a scale the curvature has no number: such rows add none."""
    X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    y = np.where(np.arange(30) < 10, 0.0, np.sin(3 * X[:, 0]))
    learner = pronk.ProsNKONSRegressor(loss="huber", clip="auto", track_regret=True, random_state=0)
    learner.partial_fit(X[:10], y[:10])
    assert np.isfinite(learner.certificate().regret)
    learner.partial_fit(X[10:], y[10:])
    assert np.isfinite(learner.certificate().regret)


def random_learner(seed):
    """A learner, rows, labels and weights, all drawn at random."""
    rng = np.random.default_rng(seed)
    labels = bool(rng.integers(2))
    kinds = (
        ["squared_hinge", "logistic", "hinge", "smooth_hinge"] if labels else ["huber", "absolute"]
    )
    space = [{"features": "taylor", "degree": 2}, {"gamma": 0.5}, {"budget": 10}][rng.integers(3)]
    learner = (ProsNKONSClassifier if labels else ProsNKONSRegressor)(
        Gaussian(0.8), loss=["squared", *kinds][rng.integers(len(kinds) + 1)],
        eta=["auto", "auto", 0.05, 5.0][rng.integers(4)], alpha=[0.01, 0.3, 10.0][rng.integers(3)],
        clip=["auto", 0.5, 1.0, 20.0][rng.integers(4)], restart=bool(rng.integers(2)),
        track_regret=True, random_state=0, **space,
    )  # fmt: skip
    X, y = random_stream(150, seed)
    y = 2.0 * y if rng.integers(2) else rng.normal(size=150)
    y = np.sign(y) if labels else y
    return learner, X, y, rng.uniform(0.2, 3.0, 150) if rng.integers(2) else np.ones(150)


def test_no_certificate_refutes_itself():
    """Losses are not negative, the regret is within the bound, and the cut changes nothing."""
    bounded = 0
    for seed in range(30):
        said = []
        for step in (7, 150):
            learner, X, y, w = random_learner(seed)
            for i in range(0, 150, step):
                rows = slice(i, i + step)
                learner.partial_fit(X[rows], y[rows], sample_weight=w[rows])
            said.append(learner.certificate())
        parts, whole = said
        assert min(whole.loss, whole.best_loss, whole.penalty) >= 0.0
        assert parts.regret == pytest.approx(whole.regret, rel=1e-6, abs=1e-6)
        assert (parts.bound is None) == (whole.bound is None)
        if whole.bound is not None:
            bounded += 1
            assert whole.regret <= whole.bound * (1.0 + 1e-9) + 1e-9
    assert bounded >= 5  # of those with curvature and a step size that the theorem allows
