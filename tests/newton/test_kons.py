"""The KONS family against two derivations of each algorithm, in uneven blocks."""

from itertools import pairwise

import numpy as np
import pytest

from naive import features, ons, pros
from naive.kernels import gaussian, laplacian
from naive.randomness import stream as numbered
from pronk import (
    Gaussian,
    KONSClassifier,
    KONSRegressor,
    Laplacian,
    ProsNKONSClassifier,
    ProsNKONSRegressor,
    SketchedKONSClassifier,
    SketchedKONSRegressor,
)

CUTS = [0, 1, 2, 9, 10, 75, 140, 141, 200]
REGRESSION = ["squared", "absolute", "epsilon_insensitive", "huber"]
CLASSIFICATION = ["squared_hinge", "logistic", "hinge", "smooth_hinge", "squared"]
LOSSES = [("regression", loss) for loss in REGRESSION] + [
    ("classification", loss) for loss in CLASSIFICATION
]


def in_blocks(learner, X, y):
    options = {"output": "decision"} if hasattr(learner, "decision_function") else {}
    return np.concatenate(
        [learner.predict_then_learn(X[i:j], y[i:j], **options) for i, j in pairwise(CUTS)]
    )


def stream(task, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(200, 2))
    X[120:125] = X[20:25]
    score = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=200)
    return (X, score) if task == "regression" else (X, np.where(score > 0, 1.0, -1.0))


def twin_kernel(X, Z):
    return laplacian(X, Z, 1.5)


def clip_of(task, clip, loss):
    """The twins take the loss for the task; a squared-loss classifier clips at 1."""
    return 1.0 if clip == "auto" and task == "classification" else clip


@pytest.mark.parametrize("task, loss", LOSSES)
@pytest.mark.parametrize("eta, clip", [("auto", "auto"), ("convex", 0.7), (0.05, 2.0)])
@pytest.mark.thinned
def test_kons(task, loss, eta, clip):
    X, y = stream(task)
    cls = KONSRegressor if task == "regression" else KONSClassifier
    fast = in_blocks(cls(Laplacian(1.5), eta=eta, clip=clip, loss=loss), X, y)
    for twin in (ons.kons, ons.kons_explicit):
        slow = twin(X, y, twin_kernel, 1.0, loss, eta, clip_of(task, clip, loss))
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-08)


@pytest.mark.parametrize("task, loss", LOSSES)
@pytest.mark.parametrize("floor, beta", [(0.0, 1.0), (0.2, 0.5), (1.0, 1.0)])
@pytest.mark.thinned
def test_sketched_kons(task, loss, floor, beta):
    X, y = stream(task)
    cls = SketchedKONSRegressor if task == "regression" else SketchedKONSClassifier
    learner = cls(Laplacian(1.5), loss=loss, floor=floor, beta=beta, random_state=3)
    fast = in_blocks(learner, X, y)
    uniforms = numbered(3, 0).random(200)
    clip = clip_of(task, "auto", loss)
    for twin in (ons.sketched_kons, ons.sketched_kons_explicit):
        slow, sketched, kept = twin(
            X, y, twin_kernel, 1.0, floor, 0.5, beta, uniforms, loss, "auto", clip
        )
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-08)
    (engine,) = learner._model.models
    has_curvature = np.isin(np.flatnonzero(sketched), engine.sketch)
    assert set(engine.sketch) <= set(np.flatnonzero(sketched))
    assert has_curvature.mean() > 0.5  # rows of zero slope are in the sketch with nothing to add
    assert np.array_equal(engine.kors.points, X[kept])
    if floor == 1.0:
        whole = {"regression": KONSRegressor, "classification": KONSClassifier}[task]
        exact = in_blocks(whole(Laplacian(1.5), loss=loss), X, y)
        np.testing.assert_allclose(fast, exact, rtol=0, atol=1e-08)


@pytest.mark.parametrize("task, loss", LOSSES)
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("budget", [None, 8])
@pytest.mark.thinned
def test_pros_n_kons(task, loss, restart, budget):
    X, y = stream(task)
    cls = ProsNKONSRegressor if task == "regression" else ProsNKONSClassifier
    learner = cls(Laplacian(1.5), loss=loss, restart=restart, budget=budget, random_state=7)
    fast = in_blocks(learner, X, y)
    uniforms = numbered(7, 0).random(200)
    clip = clip_of(task, "auto", loss)
    for twin in (pros.pros_n_kons, pros.pros_n_kons_explicit):
        slow, accepted = twin(
            X, y, twin_kernel, 1.0, 1.0, 0.5, 1.0, uniforms, loss, "auto", clip, restart, budget
        )
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-08)
    assert np.array_equal(learner.dictionary_, X[np.flatnonzero(accepted)])
    assert np.abs(fast).max() <= (np.abs(y).max() if task == "regression" else 1.0)


@pytest.mark.parametrize("eta", ["auto", "convex", 0.1])
@pytest.mark.parametrize("restart", [True, False])
def test_pros_n_kons_with_a_gaussian_and_other_steps(eta, restart):
    X, y = stream("regression", seed=1)
    learner = ProsNKONSRegressor(
        Gaussian(0.6), alpha=2.0, gamma=1.5, beta=1.3, epsilon=0.3, eta=eta, clip=1.2,
        restart=restart, random_state=1,
    )  # fmt: skip
    uniforms = numbered(1, 0).random(200)
    slow, _ = pros.pros_n_kons(
        X, y, lambda A, B: gaussian(A, B, 0.6), 2.0, 1.5, 0.3, 1.3, uniforms, "squared", eta, 1.2,
        restart,
    )  # fmt: skip
    np.testing.assert_allclose(in_blocks(learner, X, y), slow, rtol=0, atol=1e-08)


@pytest.mark.parametrize("task, loss", LOSSES)
def test_online_newton_on_fixed_features(task, loss):
    X, y = stream(task)
    cls = ProsNKONSRegressor if task == "regression" else ProsNKONSClassifier
    clip = clip_of(task, "auto", loss)
    taylor = cls(Gaussian(1.5), features="taylor", degree=3, loss=loss)
    slow = ons.ons(features.taylor(X, 3, 1.5), y, 1.0, loss, "auto", clip)
    np.testing.assert_allclose(in_blocks(taylor, X, y), slow, rtol=0, atol=1e-08)
    fourier = cls(Gaussian(0.8), features="fourier", n_features=15, loss=loss, random_state=2)
    slow = ons.ons(features.fourier(X, 15, 2, 0.8), y, 1.0, loss, "auto", clip)
    np.testing.assert_allclose(in_blocks(fourier, X, y), slow, rtol=0, atol=1e-08)


@pytest.mark.parametrize("make", [
    lambda: KONSClassifier(Laplacian(1.5)),
    lambda: SketchedKONSClassifier(Laplacian(1.5), random_state=0),
    lambda: ProsNKONSClassifier(Laplacian(1.5), random_state=0),
    lambda: ProsNKONSClassifier(Laplacian(1.5), restart=False, loss="logistic", random_state=0),
])  # fmt: skip
def test_classes_are_one_against_the_rest(make):
    """Each column is the two-class learner on +-1 with the same draws."""
    X, _ = stream("regression")
    labels = np.digitize(X[:, 0], [-0.7, 0.7]) + 5
    margins = make().predict_then_learn(X, labels, output="decision")
    cut = make()
    for i in range(30):
        cut.predict_then_learn(X[i : i + 1], labels[i : i + 1])
    rest = cut.predict_then_learn(X[30:], labels[30:], output="decision")
    np.testing.assert_allclose(rest, margins[30:], rtol=0, atol=1e-08)
    for c in range(3):
        alone = make().predict_then_learn(X, np.where(labels == c + 5, 1, -1), output="decision")
        np.testing.assert_allclose(margins[:, c], alone, rtol=0, atol=1e-08)


HARD = {
    "exact duplicates": lambda rng: np.repeat(rng.normal(size=(5, 2)), 60, axis=0),
    "1e-9 apart": lambda rng: (
        np.repeat(rng.normal(size=(5, 2)), 60, axis=0) + 1e-9 * rng.normal(size=(300, 2))
    ),
    "rank one": lambda rng: 1e-6 * rng.normal(size=(300, 2)),
    "spread": lambda rng: 3.0 * rng.normal(size=(300, 2)),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("alpha", [1e-4, 1.0])
@pytest.mark.parametrize("loss, clip", [("hinge", 1.0), ("squared_hinge", 0.01), ("logistic", 1.0)])
def test_hard_cases_give_no_nan_and_stay_in_the_clip(case, alpha, loss, clip):
    """clip 0.01 is active at every step; hinge with clip 1 has its kink on the clipping level."""
    rng = np.random.default_rng(0)
    X = HARD[case](rng)
    y = np.where(rng.random(300) < 0.5, 1, -1)
    for learner in (
        ProsNKONSClassifier(alpha=alpha, gamma=alpha, loss=loss, clip=clip, random_state=0),
        ProsNKONSClassifier(
            alpha=alpha, gamma=alpha, loss=loss, clip=clip, restart=False, random_state=0
        ),
        KONSClassifier(alpha=alpha, loss=loss, clip=clip),
        SketchedKONSClassifier(alpha=alpha, loss=loss, clip=clip, random_state=0),
    ):
        margins = learner.predict_then_learn(X, y, output="decision")
        assert np.isfinite(margins).all()
        assert np.abs(margins).max() <= clip
        assert np.abs(learner.decision_function(X)).max() <= clip


def test_a_gradient_of_exactly_zero_learns_nothing():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for learner in (KONSRegressor(), ProsNKONSRegressor(random_state=0)):
        assert np.array_equal(learner.predict_then_learn(X, np.zeros(50)), np.zeros(50))


def test_probabilities_come_with_the_logistic_loss():
    X, y = stream("classification")
    learner = ProsNKONSClassifier(loss="logistic", clip=5.0, random_state=0).fit(X, y)
    p = learner.predict_proba(X)
    assert p.shape == (200, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12, atol=0)
    assert np.array_equal(p[:, 1] >= 0.5, learner.predict(X) == 1)
    assert not hasattr(ProsNKONSClassifier(), "predict_proba")
