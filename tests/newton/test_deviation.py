"""``predict(X, return_std=True)``: the Gaussian process formulas, row by row and in blocks."""

import numpy as np
import pytest

import pronk
from helpers import blockwise
from naive import features, gp
from naive.features import projector, root
from naive.kernels import gaussian
from pronk import KernelAWVRegressor, PKAWVRegressor

POINTS = np.random.default_rng(3).uniform(-2, 2, (10, 2))
CLOSE = {"rtol": 1e-8, "atol": 0}


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)


def far_and_near(n=12):
    """Rows among the others, and some far from all of them."""
    return np.vstack((rows(n, seed=1)[0], [[30.0, 0.0], [-9.0, 8.0]]))


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_the_exact_learner_has_the_deviation_of_a_gaussian_process(anticipate, alpha):
    X, y = rows()
    learner = KernelAWVRegressor(alpha=alpha, anticipate=anticipate)
    blockwise(learner, X, y)
    P, deviation = learner.predict(far_and_near(), return_std=True)
    assert np.array_equal(P, learner.predict(far_and_near()))
    expected = gp.deviation(X, y, far_and_near(), gaussian, alpha)
    np.testing.assert_allclose(deviation, expected, **CLOSE)


def test_scikit_learns_gaussian_process_agrees():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    X, y = rows()
    learner = KernelAWVRegressor(pronk.Gaussian(0.7), alpha=0.2, anticipate=False).fit(X, y)
    s = gp.signal_variance(gaussian(X, X, 0.7), y, 0.2)
    peer = GaussianProcessRegressor(ConstantKernel(s) * RBF(0.7), alpha=0.2 * s, optimizer=None)
    P, latent = peer.fit(X, y).predict(far_and_near(), return_std=True)
    predictions, deviation = learner.predict(far_and_near(), return_std=True)
    np.testing.assert_allclose(predictions, P, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(deviation, np.sqrt(latent**2 + 0.2 * s), rtol=1e-7, atol=0)


def test_the_variance_has_the_largest_likelihood():
    X, y = rows(80)
    K = gaussian(X, X)
    best = gp.signal_variance(K, y, 0.5)
    assert best == pytest.approx(
        max(best * np.linspace(0.5, 2, 301), key=lambda s: gp.log_likelihood(K, y, 0.5, s)),
        rel=0.006,
    )
    # and it is the mean square of the errors of ridge in units of their deviations
    learner = KernelAWVRegressor(alpha=0.5, anticipate=False)
    total = 0.0
    for i in range(80):
        if i:
            deviation = gp.deviation(X[:i], y[:i], X[i : i + 1], gaussian, 0.5)[0]
            factor = deviation**2 / (0.5 * gp.signal_variance(K[:i, :i], y[:i], 0.5))
        else:
            factor = 1 + 1 / 0.5
        total += (learner.predict_then_learn(X[i : i + 1], y[i : i + 1])[0] - y[i]) ** 2 / factor
    assert total / 80 == pytest.approx(0.5 * best, rel=1e-9)


@pytest.mark.parametrize("anticipate", [True, False])
def test_given_points_are_the_projected_process(anticipate):
    X, y = rows()
    learner = PKAWVRegressor(alpha=0.3, dictionary=POINTS, anticipate=anticipate)
    blockwise(learner, X, y)
    deviation = learner.predict(far_and_near(), return_std=True)[1]
    expected = gp.projected_deviation(X, y, far_and_near(), gaussian, 0.3, POINTS)
    np.testing.assert_allclose(deviation, expected, **CLOSE)
    # far from all points: prior and noise
    s = expected[-1] ** 2 / 1.3
    assert deviation[-2] ** 2 == pytest.approx(1.3 * s, rel=1e-6)


@pytest.mark.parametrize("kind", ["taylor", "fourier"])
def test_fixed_features(kind):
    X, y = rows()
    if kind == "taylor":
        learner = PKAWVRegressor(features="taylor", degree=3, alpha=0.3)
        phi = lambda X: features.taylor(X, 3)  # noqa: E731
    else:
        learner = PKAWVRegressor(features="fourier", n_features=9, alpha=0.3, random_state=2)
        phi = lambda X: features.fourier(X, 9, random_state=2)  # noqa: E731
    blockwise(learner, X, y)
    new = far_and_near()
    expected = gp.feature_deviation(phi(X), y, phi(new), np.ones(len(new)), 0.3)
    np.testing.assert_allclose(learner.predict(new, return_std=True)[1], expected, **CLOSE)


@pytest.mark.parametrize("history", ["projected", "exact"])
def test_a_growing_dictionary(history):
    X, y = rows(120)
    learner = PKAWVRegressor(alpha=0.3, history=history, random_state=1)
    accepted = np.zeros(len(X), dtype=bool)
    for i in range(len(X)):
        before = getattr(learner, "n_seen_", 0) and learner.size_
        learner.predict_then_learn(X[i : i + 1], y[i : i + 1])
        accepted[i] = learner.size_ > before
    new = far_and_near()
    F = root(gaussian(*2 * (np.vstack((X, new)),)))
    span = projector(F[np.flatnonzero(accepted)])
    learned = F[: len(X)] @ span
    if history == "projected":
        spans = [projector(F[np.flatnonzero(accepted[: t + 1])]) for t in range(len(X))]
        learned = np.stack([span @ row for span, row in zip(spans, F[: len(X)], strict=True)])
    expected = gp.feature_deviation(learned, y, F[len(X) :] @ span, np.ones(len(new)), 0.3)
    deviation = learner.predict(new, return_std=True)[1]
    np.testing.assert_allclose(deviation, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "learner",
    [
        KernelAWVRegressor(),
        PKAWVRegressor(features="taylor"),
        PKAWVRegressor(random_state=0),
        PKAWVRegressor(pronk.Gaussian("auto"), random_state=0),
        pronk.OnlineKernelRegressor(budget=20, random_state=0),
    ],
)
def test_shapes_outputs_and_an_empty_batch(learner):
    X, y = rows(90)
    learner.fit(X, np.column_stack((y, 10 * y)))
    P, deviation = learner.predict(X[:7], return_std=True)
    assert P.shape == deviation.shape == (7, 2)
    assert (deviation > 0).all()
    if not isinstance(learner, pronk.OnlineKernelRegressor):
        np.testing.assert_allclose(deviation[:, 1], 10 * deviation[:, 0], rtol=1e-10, atol=0)
    assert learner.predict(X[:0], return_std=True)[1].shape == (0, 2)
    P, deviation = learner.fit(X, y).predict(X[:7], return_std=True)
    assert P.shape == deviation.shape == (7,)


def test_weights_count_rows_and_merged_learners_agree():
    X, y = rows()
    weights = np.random.default_rng(0).uniform(0.2, 3, len(X))
    roots = np.sqrt(weights)
    learner = KernelAWVRegressor(alpha=0.4).partial_fit(X, y, sample_weight=weights)
    new = far_and_near()
    K = roots[:, None] * gaussian(X, X) * roots
    k = roots[:, None] * gaussian(X, new)
    s = gp.signal_variance(K, roots * y, 0.4)
    explained = np.sum(k * np.linalg.solve(K + 0.4 * np.eye(len(X)), k), axis=0)
    expected = np.sqrt(s * (1 - explained) + 0.4 * s)
    np.testing.assert_allclose(learner.predict(new, return_std=True)[1], expected, **CLOSE)
    make = lambda: PKAWVRegressor(dictionary=POINTS)  # noqa: E731
    whole = make().partial_fit(X, y, sample_weight=weights)
    parts = [
        make().partial_fit(X[part], y[part], sample_weight=weights[part])
        for part in (slice(0, 130), slice(130, 200))
    ]
    merged = pronk.merge(*parts).predict(new, return_std=True)[1]
    np.testing.assert_allclose(merged, whole.predict(new, return_std=True)[1], **CLOSE)


def test_coverage_on_data_from_the_prior():
    """With data from the model itself, errors are standard normal in units of the deviation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 2))
    f = np.linalg.cholesky(gaussian(X, X) + 1e-9 * np.eye(600)) @ rng.normal(size=600)
    y = 7.0 * (f + np.sqrt(0.1) * rng.normal(size=600))
    learner = KernelAWVRegressor(alpha=0.1, anticipate=False).fit(X[:300], y[:300])
    P, deviation = learner.predict(X[300:], return_std=True)
    assert np.mean(((P - y[300:]) / deviation) ** 2) == pytest.approx(1.0, abs=0.2)
