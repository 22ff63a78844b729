"""sample_weight: every learner against its weighted problem, and what weights mean for all."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import pronk
from laws.cases import CASES, parametrized
from naive import expansion, weights
from naive.features import root
from naive.kernels import gaussian, laplacian
from naive.kors import kors
from naive.randomness import stream as numbered
from pronk import Gaussian, Laplacian

CLOSE = {"rtol": 0, "atol": 1e-8}
LAPLACE = partial(laplacian, bandwidth=1.5)
GAUSS = partial(gaussian, bandwidth=0.6)


def stream(n=150, signs=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
    w = rng.choice([0.0, 0.5, 1.0, 2.0, 7.25], n)
    w[:3] = 1.5, 0.0, 0.0
    return X, np.where(y > 0, 1.0, -1.0) if signs else y, w


def blocks(learner, X, y, w, **options):
    """The stream in uneven cuts."""
    cuts = [0, 1, 2, 9, 40, 41, 100, len(X)]
    parts = [
        learner.predict_then_learn(X[a:b], y[a:b], sample_weight=w[a:b], **options)
        for a, b in pairwise(cuts)
    ]
    return np.concatenate(parts)


def fourier(X, n=12, seed=3):
    W = numbered(seed, 2).standard_normal((2, n)) / 0.6
    return np.hstack((np.cos(X @ W), np.sin(X @ W))) / np.sqrt(n)


@pytest.mark.parametrize("anticipate", [True, False])
def test_ridge_and_awv_with_all_points(anticipate):
    X, y, w = stream()
    Phi = root(LAPLACE(X, X))
    twin = weights.ridge([Phi[: t + 1] for t in range(len(X))], y, w, 0.7, anticipate)
    learner = pronk.KernelAWVRegressor(Laplacian(1.5), alpha=0.7, anticipate=anticipate)
    np.testing.assert_allclose(blocks(learner, X, y, w), twin, **CLOSE)
    best = weights.weighted_fit(Phi, y, w, 0.7)
    least = np.sum(w * (Phi @ best - y) ** 2) + 0.7 * best @ best
    certificate = learner.certificate()
    held = certificate.best_loss + certificate.penalty
    np.testing.assert_allclose(held, least, rtol=1e-9, atol=0)
    learned = np.sum(w * (twin - y) ** 2)
    np.testing.assert_allclose(certificate.loss, learned, rtol=1e-8, atol=0)
    assert certificate.regret <= certificate.bound


@pytest.mark.parametrize("anticipate", [True, False])
def test_ridge_and_awv_in_features(anticipate):
    X, y, w = stream()
    Phi = fourier(X)
    twin = weights.ridge([Phi[: t + 1] for t in range(len(X))], y, w, 0.7, anticipate)
    learner = pronk.PKAWVRegressor(
        Gaussian(0.6), alpha=0.7, anticipate=anticipate, features="fourier", n_features=12,
        random_state=3,
    )  # fmt: skip
    np.testing.assert_allclose(blocks(learner, X, y, w), twin, **CLOSE)


def test_awv_in_a_growing_span():
    """Rows of weight 0 are not received: they have no coin and no place in the dictionary."""
    X, y, w = stream()
    kept = np.flatnonzero(w)
    flags, _, _ = kors(X[kept], LAPLACE, 1.0, 0.5, 1.0, numbered(4, 0).random(len(kept)))
    entered = kept[flags]
    spaces = []
    for t in range(len(X)):
        points = X[entered[entered <= t]]
        K = LAPLACE(points, points)
        spaces.append(LAPLACE(X[: t + 1], points) @ np.linalg.inv(np.linalg.cholesky(K)).T)
    twin = weights.ridge(spaces, y, w, 1.0, True)
    learner = pronk.PKAWVRegressor(Laplacian(1.5), history="exact", random_state=4)
    np.testing.assert_allclose(blocks(learner, X, y, w), twin, **CLOSE)
    np.testing.assert_array_equal(learner.dictionary_, X[entered])
    assert learner.n_seen_ == len(kept)


@pytest.mark.parametrize("loss, signs", [("squared", False), ("squared_hinge", True)])
@pytest.mark.parametrize("kind", ["features", "points"])
def test_online_newton(loss, signs, kind):
    X, y, w = stream(signs=signs)
    Phi = fourier(X) if kind == "features" else root(LAPLACE(X, X))
    clip, eta = 1.2, 0.05
    twin = weights.online_newton(Phi, y, w, 1.0, loss, eta, clip)
    task = "Classifier" if signs else "Regressor"
    common = dict(eta=eta, clip=clip, loss=loss)
    if kind == "features":
        learner = getattr(pronk, "ProsNKONS" + task)(
            Gaussian(0.6), features="fourier", n_features=12, random_state=3, **common
        )
    else:
        learner = getattr(pronk, "KONS" + task)(Laplacian(1.5), **common)
    options = {"output": "decision"} if signs else {}
    np.testing.assert_allclose(blocks(learner, X, y, w, **options), twin, **CLOSE)


def test_the_certificate_of_weighted_online_newton():
    X, y, w = stream(signs=True)
    for loss, clip in (("squared", 4.0), ("squared_hinge", 4.0)):  # no prediction is clipped
        learner = pronk.ProsNKONSClassifier(
            Gaussian(0.6), features="fourier", n_features=12, loss=loss, clip=clip,
            track_regret=True, random_state=3,
        )  # fmt: skip
        p = blocks(learner, X, y, w, output="decision")
        values = (p - y) ** 2 if loss == "squared" else np.maximum(1 - y * p, 0) ** 2
        certificate = learner.certificate()
        np.testing.assert_allclose(certificate.loss, w @ values, rtol=1e-9, atol=0)
        assert certificate.regret <= certificate.bound + 1e-9


def test_krls():
    X, y, w = stream()
    kernel = partial(laplacian, bandwidth=1.0)
    twin = weights.krls(X, y, w, kernel, 0.3)
    learner = pronk.KRLSRegressor(Laplacian(1.0), nu=0.3)
    np.testing.assert_allclose(blocks(learner, X, y, w), twin, rtol=0, atol=1e-7)


@pytest.mark.parametrize("maintenance", [None, "random", "smallest", "merge"])
@pytest.mark.parametrize("eta, alpha", [(0.2, 0.3), ("pegasos", 0.7)])
def test_kernel_gradient_descent(maintenance, eta, alpha):
    X, y, w = stream(signs=True)
    budget = None if maintenance is None else 11
    u = numbered(7, 3).random(len(X))
    twin = expansion.ogd(X, y, GAUSS, eta, alpha, "logistic", budget, maintenance, u, w)
    learner = pronk.KernelOGDClassifier(
        Gaussian(0.6), eta=eta, alpha=alpha, loss="logistic", budget=budget,
        maintenance=maintenance, random_state=7,
    )  # fmt: skip
    decisions = blocks(learner, X, y, w, output="decision")
    np.testing.assert_allclose(decisions, twin.predictions, **CLOSE)


@pytest.mark.parametrize("variant", ["pa-1", "pa-2"])
@pytest.mark.parametrize("maintenance", [None, "random"])
def test_passive_aggressive(variant, maintenance):
    X, y, w = stream()
    budget = None if maintenance is None else 11
    u = numbered(7, 3).random(len(X))
    twin = expansion.passive_aggressive(
        X, y, GAUSS, 0.4, variant == "pa-2", 0.1, budget, maintenance, u, w
    )
    learner = pronk.KernelPARegressor(
        Gaussian(0.6), variant=variant, C=0.4, budget=budget, maintenance=maintenance,
        random_state=7,
    )  # fmt: skip
    np.testing.assert_allclose(blocks(learner, X, y, w), twin.predictions, **CLOSE)


def test_gradient_descent_in_features():
    X, y, w = stream()
    twin = weights.gradient(fourier(X), y, w, 0.1, "absolute")
    learner = pronk.FOGDRegressor(
        Gaussian(0.6), n_features=12, eta=0.1, loss="absolute", random_state=3
    )
    np.testing.assert_allclose(blocks(learner, X, y, w), twin, **CLOSE)


def test_nogd_is_kernel_gradient_descent_until_its_budget_is_full():
    X, y, w = stream()
    u = np.zeros(len(X))
    twin = expansion.ogd(X, y, GAUSS, 0.2, 0.0, "squared", weights=w, uniforms=u)
    learner = pronk.NOGDRegressor(Gaussian(0.6), budget=200, rank=20, eta=0.2)
    np.testing.assert_allclose(blocks(learner, X, y, w), twin.predictions, **CLOSE)


def test_the_perceptron():
    X, y, w = stream(signs=True)
    learner = pronk.KernelPerceptron(Gaussian(0.6))
    decisions = blocks(learner, X, y, w, output="decision")
    a = np.zeros(len(X))
    K = GAUSS(X, X)
    for t in range(len(X)):
        f = a @ K[t]
        np.testing.assert_allclose(decisions[t], f, **CLOSE)
        a[t] = w[t] * y[t] if y[t] * f <= 0 else 0.0


# --- all learners -----------------------------------------------------------------------------

WEIGHTED = [case for case in CASES if case.make()._accepts_weights()]
OTHERS = [case for case in CASES if not case.make()._accepts_weights()]


@parametrized(WEIGHTED, by_engine=True)
def test_weights_mean_the_same_for_all(case, tmp_path):
    X, y = case.stream(120)
    w = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], 120)
    form = {} if case.task == "regression" else {"output": "decision"}
    whole = case.make()
    one_call = whole.predict_then_learn(X, y, sample_weight=w, **form)
    cut = case.make()
    parts = [
        cut.predict_then_learn(X[a:b], y[a:b], sample_weight=w[a:b], **form)
        for a, b in [(0, 50), (50, 120)]
    ]
    if case.classes == 2:  # columns are the classes known at the end of a call
        np.testing.assert_allclose(np.concatenate(parts), one_call, rtol=1e-7, atol=1e-7)
    # Rows of weight 0 leave nothing behind, if their labels are known.
    only = case.make()
    only.partial_fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    ask = "predict" if case.task == "regression" else "decision_function"
    if case.task == "regression" or np.array_equal(only.classes_, whole.classes_):
        np.testing.assert_allclose(
            getattr(only, ask)(X), getattr(whole, ask)(X), rtol=1e-7, atol=1e-7
        )
    assert whole.n_seen_ == np.count_nonzero(w) == only.n_seen_
    # Saved, loaded and continued.
    cut.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    np.testing.assert_array_equal(
        again.predict_then_learn(X, y, sample_weight=w),
        cut.predict_then_learn(X, y, sample_weight=w),
    )
    # Weights of 1 are no weights.
    plain, ones = case.make(), case.make()
    np.testing.assert_array_equal(
        plain.predict_then_learn(X, y), ones.predict_then_learn(X, y, sample_weight=np.ones(120))
    )


@parametrized(OTHERS, by_engine=True)
def test_learners_without_weights_raise(case):
    X, y = case.stream(40)
    with pytest.raises(ValueError, match="sample_weight has no meaning for"):
        case.make().partial_fit(X, y, sample_weight=np.full(40, 2.0))
    learner = case.make().partial_fit(X, y, sample_weight=np.ones(40))  # says nothing
    assert learner.n_seen_ == 40


@pytest.mark.parametrize(
    "bad, message",
    [
        (np.ones(4), "sample_weight has 4 entries, X has 5 rows"),
        ([1, 1, np.nan, 1, 1], "sample_weight has NaN at row 2"),
        ([1, 1, 1, -2, 1], "sample_weight is -2 at row 3"),
        (np.ones((5, 1)), "one dimension"),
        (["a"] * 5, "must hold numbers"),
    ],
)
def test_bad_weights_raise_and_change_nothing(bad, message):
    X, y, _ = stream(40)
    learner = pronk.PKAWVRegressor(random_state=0).fit(X, y)
    before = learner.predict(X)
    with pytest.raises(ValueError, match=message):
        learner.partial_fit(X[:5], y[:5], sample_weight=bad)
    np.testing.assert_array_equal(learner.predict(X), before)
    assert learner.n_seen_ == 40


def test_a_fit_of_nothing_is_refused():
    X, y, _ = stream(20)
    with pytest.raises(ValueError, match="zero for all rows"):
        pronk.PKAWVRegressor().fit(X, y, sample_weight=np.zeros(20))


def test_scores_take_weights():
    X, y, w = stream(60)
    learner = pronk.PKAWVRegressor(random_state=0).fit(X, y, sample_weight=w)
    twice = np.repeat(np.arange(60), (2 * (w == 2.0)).astype(int))
    a = learner.score(X, y, sample_weight=1.0 * (w == 2.0))
    np.testing.assert_allclose(a, learner.score(X[twice], y[twice]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_default_learner_learns_rows_of_weight_1(task):
    X, y, _ = stream(300, signs=task == "classification")
    if task == "regression":
        y = y + 3 * np.sin(np.arange(300) / 10)  # past labels are read
    w = np.random.default_rng(2).choice([0.0, 1.0], 300)
    w[0] = 1.0
    weighted, only, one_by_one = (
        pronk.make("online-kernel", task, budget=20, random_state=0) for _ in range(3)
    )
    P = blocks(weighted, X, y, w)
    only.partial_fit(X[w > 0], y[w > 0])
    np.testing.assert_allclose(weighted.predict(X), only.predict(X), **CLOSE)
    assert weighted.n_seen_ == only.n_seen_ == np.count_nonzero(w)
    expected = []
    for t in range(300):
        expected.append(one_by_one.predict(X[t : t + 1])[0] if t else P[0])
        if w[t]:
            one_by_one.partial_fit(X[t : t + 1], y[t : t + 1])
    if task == "regression":
        np.testing.assert_allclose(P, expected, **CLOSE)
        learner = pronk.make("online-kernel", task, budget=20, random_state=0)
        (p, ends) = learner.predict_then_learn(X, y, interval=0.9, sample_weight=w)
        again = pronk.make("online-kernel", task, budget=20, random_state=0)
        again.partial_fit(X[:100], y[:100], sample_weight=w[:100])
        np.testing.assert_allclose(p, P, **CLOSE)
        row = 100 + int(np.flatnonzero(w[100:] == 0)[0])
        again.partial_fit(X[100:row], y[100:row])
        np.testing.assert_allclose(
            again.predict_interval(X[row : row + 1], 0.9)[0], ends[row], **CLOSE
        )
    else:
        assert list(P[1:]) == expected[1:]
    with pytest.raises(ValueError, match=r"except 0 and 1, got 2 at row 3"):
        weighted.partial_fit(X[:5], y[:5], sample_weight=[1, 0, 1, 2, 1])
