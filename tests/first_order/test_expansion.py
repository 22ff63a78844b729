"""The kernel Perceptrons and kernel OGD against their brute-force twins, and their edge cases."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import pronk
from helpers import blockwise, unweighted_checks
from naive import expansion as naive
from naive import kernels
from naive.randomness import stream as numbered
from pronk import (
    Gaussian,
    KernelOGDClassifier,
    KernelOGDRegressor,
    KernelPAClassifier,
    KernelPARegressor,
    KernelPerceptron,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
)
from pronk.first_order import budgets, expansion, support

CLOSE = dict(rtol=1e-8, atol=1e-8)
EXPECTED = {"check_requires_y_none": "y=None is refused, in words of pronk's own"}
REGRESSION = ["squared", "absolute", "epsilon_insensitive", "huber"]
CLASSIFICATION = ["hinge", "logistic", "squared_hinge", "smooth_hinge", "squared"]
GAUSSIAN = partial(kernels.gaussian, bandwidth=0.6)
KERNELS = [
    (Gaussian(0.6), GAUSSIAN),
    (Laplacian(0.8), partial(kernels.laplacian, bandwidth=0.8)),
    (Matern(0.8, nu=2.5), partial(kernels.matern, bandwidth=0.8, nu=2.5)),
    (Polynomial(2, 0.5), partial(kernels.polynomial, degree=2, offset=0.5)),
    (GAUSSIAN, GAUSSIAN),
]
BUDGET, ETA = 11, 0.3
SEED = 7

# Perceptron settings with their twins, twin(X, y, kernel, uniforms).
PERCEPTRONS = {
    "perceptron": ({}, lambda X, y, k, u: naive.perceptron(X, y, k)),
    "rbp": (
        dict(maintenance="random", budget=BUDGET),
        lambda X, y, k, u: naive.rbp(X, y, k, BUDGET, u),
    ),
    "forgetron": (
        dict(maintenance="forget", budget=BUDGET),
        lambda X, y, k, u: naive.forgetron(X, y, k, BUDGET),
    ),
    "projectron": (
        dict(maintenance="project", eta=ETA),
        lambda X, y, k, u: naive.projectron(X, y, k, ETA),
    ),
    "projectron on a budget": (
        dict(maintenance="project", eta=0.05, budget=BUDGET),
        lambda X, y, k, u: naive.projectron(X, y, k, 0.05, BUDGET),
    ),
    "projectron++": (
        dict(maintenance="project", eta=ETA, aggressive=True),
        lambda X, y, k, u: naive.projectron_plus_plus(X, y, k, ETA),
    ),
    "projectron++ on a budget": (
        dict(maintenance="project", eta=0.1, aggressive=True, budget=BUDGET),
        lambda X, y, k, u: naive.projectron_plus_plus(X, y, k, 0.1, BUDGET),
    ),
}
STEPS = [(0.2, 0.0), (0.2, 0.3), ("pegasos", 0.7)]
MAINTENANCE = [None, "random", "smallest", "merge"]


@pytest.fixture(params=["inside", "blocks"], autouse=True)
def path(request, monkeypatch):
    """Gaussian kernel values evaluated inside the loop, or handed over in blocks."""
    if request.param == "blocks":
        monkeypatch.setattr(expansion, "SMALL", -1)
        monkeypatch.setattr(expansion, "DIRECT_COLUMNS", 0)
        monkeypatch.setattr(expansion, "SHORT_CALL", 0)
        monkeypatch.setattr(expansion, "BLOCK", 20)
    return request.param


def stream(seed=0, n=220, d=3, signs=True):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    y = np.sin(4 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * rng.standard_normal(n)
    return X, np.where(y >= 0, 1.0, -1.0) if signs else y


def uniforms(n, seed=SEED):
    return numbered(seed, 3).random(n)


def weights(learner):
    return learner._model.models[-1].weights


def assert_same(learner, predictions, twin):
    np.testing.assert_allclose(predictions, twin.predictions, **CLOSE)
    np.testing.assert_allclose(learner.dictionary_, twin.points, **CLOSE)
    np.testing.assert_allclose(weights(learner), twin.coefficients, **CLOSE)


# --- agreement with the twins ------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel[0]).__name__)
@pytest.mark.parametrize("name", PERCEPTRONS)
@pytest.mark.thinned
def test_perceptrons(name, kernel):
    options, twin = PERCEPTRONS[name]
    X, y = stream()
    learner = KernelPerceptron(kernel[0], random_state=SEED, **options)
    scores = blockwise(learner, X, y, output="decision")
    expected = twin(X, y, kernel[1], uniforms(len(X)))
    if "projectron" in name and isinstance(kernel[0], Polynomial):
        np.testing.assert_allclose(scores, expected.predictions, rtol=1e-6, atol=1e-6)
    else:
        assert_same(learner, scores, expected)


@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("eta, alpha", STEPS)
@pytest.mark.parametrize("maintenance", MAINTENANCE)
@pytest.mark.thinned
def test_ogd_classification(maintenance, eta, alpha, loss):
    X, y = stream(1)
    budget = None if maintenance is None else BUDGET
    learner = KernelOGDClassifier(
        Gaussian(0.6), eta=eta, alpha=alpha, loss=loss, budget=budget,
        maintenance=maintenance, random_state=SEED,
    )  # fmt: skip
    scores = blockwise(learner, X, y, output="decision")
    expected = naive.ogd(X, y, GAUSSIAN, eta, alpha, loss, budget, maintenance, uniforms(len(X)))
    assert_same(learner, scores, expected)


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("eta, alpha", STEPS)
@pytest.mark.parametrize("maintenance", MAINTENANCE)
@pytest.mark.thinned
def test_ogd_regression(maintenance, eta, alpha, loss):
    X, y = stream(2, signs=False)
    if eta == "pegasos" and loss == "squared":
        alpha = 3.0  # below, the first steps overshoot
    budget = None if maintenance is None else BUDGET
    learner = KernelOGDRegressor(
        Gaussian(0.6), eta=eta, alpha=alpha, loss=loss, budget=budget,
        maintenance=maintenance, random_state=SEED,
    )  # fmt: skip
    predictions = blockwise(learner, X, y)
    expected = naive.ogd(X, y, GAUSSIAN, eta, alpha, loss, budget, maintenance, uniforms(len(X)))
    assert_same(learner, predictions, expected)


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=lambda kernel: type(kernel[0]).__name__)
@pytest.mark.parametrize("maintenance", ["random", "smallest"])
def test_ogd_with_other_kernels(kernel, maintenance):
    X, y = stream(3)
    learner = KernelOGDClassifier(
        kernel[0], eta=0.1, alpha=0.05, budget=BUDGET, maintenance=maintenance, random_state=SEED
    )
    scores = blockwise(learner, X, y, output="decision")
    expected = naive.ogd(X, y, kernel[1], 0.1, 0.05, "hinge", BUDGET, maintenance, uniforms(len(X)))
    assert_same(learner, scores, expected)


@pytest.mark.parametrize("variant", ["pa-1", "pa-2"])
@pytest.mark.parametrize("maintenance", MAINTENANCE)
@pytest.mark.parametrize("C", [0.3, 2.0])
@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.thinned
def test_passive_aggressive(variant, maintenance, C, signs):
    X, y = stream(5, signs=signs)
    budget = None if maintenance is None else BUDGET
    options = dict(variant=variant, C=C, budget=budget, maintenance=maintenance, random_state=SEED)
    if signs:
        learner = KernelPAClassifier(Gaussian(0.6), **options)
        predictions = blockwise(learner, X, y, output="decision")
    else:
        learner = KernelPARegressor(Gaussian(0.6), epsilon=0.05, **options)
        predictions = blockwise(learner, X, y)
    expected = naive.passive_aggressive(
        X, y, GAUSSIAN, C, variant == "pa-2", None if signs else 0.05, budget, maintenance,
        uniforms(len(X)),
    )  # fmt: skip
    assert_same(learner, predictions, expected)
    assert learner.size_ == len(expected.points)


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=lambda kernel: type(kernel[0]).__name__)
@pytest.mark.parametrize("variant", ["pa-1", "pa-2"])
def test_passive_aggressive_with_other_kernels(kernel, variant):
    X, y = stream(6, signs=False)
    learner = KernelPARegressor(kernel[0], variant=variant, C=0.7)
    expected = naive.passive_aggressive(X, y, kernel[1], 0.7, variant == "pa-2", 0.1)
    assert_same(learner, blockwise(learner, X, y), expected)


def test_a_row_of_norm_0():
    for variant in ("pa-1", "pa-2"):
        learner = KernelPAClassifier("linear", variant=variant)
        learner.fit([[0.0], [1.0], [-1.0]], [1, 1, -1])
        assert np.isfinite(learner.decision_function([[0.0], [2.0]])).all()


def test_bogd_as_its_three_cases():
    X, y = stream(4)
    learner = KernelOGDClassifier(
        Gaussian(0.6), eta=0.2, alpha=0.1, budget=BUDGET, maintenance="random", random_state=SEED
    )
    scores = blockwise(learner, X, y, output="decision")
    assert_same(learner, scores, naive.bogd(X, y, GAUSSIAN, 0.2, 0.1, BUDGET, uniforms(len(X))))


@pytest.mark.parametrize("name, rule", [("bsgd-r", "removal"), ("bsgd-m", "merging")])
def test_bsgd_never_shrunk(name, rule):
    X, y = stream(5, n=400)
    learner = pronk.make(name, "classification", kernel=Gaussian(0.6), budget=9)
    scores = blockwise(learner, X, y, output="decision")
    assert_same(learner, scores, naive.bsgd(X, y, GAUSSIAN, 0.001, 9, rule))


def test_wide_rows_through_blas():
    X, y = stream(6, n=150, d=60)
    learner = KernelPerceptron(Gaussian(5.0))
    scores = blockwise(learner, X, y, output="decision")
    twin = naive.perceptron(X, y, partial(kernels.gaussian, bandwidth=5.0))
    assert_same(learner, scores, twin)


def test_four_classes_one_vs_rest():
    X, _ = stream(8)
    y = (np.arctan2(X[:, 1], X[:, 0]) // (2 * np.pi / 3)).astype(int) + 4
    learner = KernelPerceptron(
        Gaussian(0.6), maintenance="random", budget=BUDGET, random_state=SEED
    )
    scores = np.column_stack(
        [
            naive.rbp(
                X, np.where(y == c, 1.0, -1.0), GAUSSIAN, BUDGET, uniforms(len(X))
            ).predictions
            for c in np.unique(y)
        ]
    )
    whole = clone(learner).predict_then_learn(X, y, output="decision")
    np.testing.assert_allclose(whole, scores, **CLOSE)
    # Discovered on the way, the last blocks know all classes.
    np.testing.assert_allclose(
        learner.partial_fit(X[:100], y[:100]).n_seen_, 100, rtol=1e-7, atol=0
    )
    rest = learner.predict_then_learn(X[100:], y[100:], output="decision")
    np.testing.assert_allclose(rest, scores[100:], **CLOSE)
    assert learner.size_ == len(learner.dictionary_) <= 4 * BUDGET


def test_several_outputs_of_a_regression():
    X, y = stream(9, signs=False)
    Y = np.column_stack((y, y**2))
    both = KernelOGDRegressor(Gaussian(0.6)).predict_then_learn(X, Y)
    for o in range(2):
        alone = KernelOGDRegressor(Gaussian(0.6)).predict_then_learn(X, Y[:, o])
        np.testing.assert_array_equal(both[:, o], alone)


# --- laws --------------------------------------------------------------------------

LEARNERS = {
    **{name: KernelPerceptron(Gaussian(0.6), **p[0]) for name, p in PERCEPTRONS.items()},
    "pa-2": KernelPAClassifier(
        Gaussian(0.6), variant="pa-2", budget=BUDGET, maintenance="smallest"
    ),
    "ogd": KernelOGDClassifier(Gaussian(0.6), alpha=0.1),
    "bogd": KernelOGDClassifier(
        Gaussian(0.6), alpha=0.1, loss="logistic", budget=BUDGET, maintenance="random"
    ),
    "bsgd-r": KernelOGDClassifier(
        Laplacian(0.6), eta="pegasos", alpha=0.01, budget=BUDGET, maintenance="smallest"
    ),
    "bsgd-m": KernelOGDClassifier(
        Gaussian(0.6), eta="pegasos", alpha=0.01, budget=BUDGET, maintenance="merge"
    ),
}


def fresh(name):
    return clone(LEARNERS[name]).set_params(random_state=SEED)


def state(learner):
    """The whole state as nested lists, which compare bit by bit."""

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value.tolist() if isinstance(value, np.ndarray) else value

    return plain(learner._fitted_state())


@pytest.mark.parametrize("name", LEARNERS)
@given(cuts=st.lists(st.integers(0, 120), max_size=6))
@settings(max_examples=15, deadline=None)
def test_any_cut_gives_the_same(name, cuts):
    X, y = stream(10, n=120)
    whole = fresh(name)
    expected = whole.predict_then_learn(X, y, output="decision")
    pieces, parts = fresh(name), []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 120], strict=True):
        if stop > start:
            parts.append(pieces.predict_then_learn(X[start:stop], y[start:stop], output="decision"))
    np.testing.assert_allclose(np.concatenate(parts), expected, **CLOSE)
    np.testing.assert_allclose(pieces.dictionary_, whole.dictionary_, **CLOSE)


@pytest.mark.parametrize("name", LEARNERS)
def test_saved_and_continued_to_the_last_bit(name, tmp_path):
    X, y = stream(11)
    learner = fresh(name).partial_fit(X[:130], y[:130])
    learner.save(tmp_path / "model")
    other, copied = pronk.load(tmp_path / "model"), pickle.loads(pickle.dumps(learner))
    expected = blockwise(learner, X[130:], y[130:], output="decision")
    for again in (other, copied):
        np.testing.assert_array_equal(
            blockwise(again, X[130:], y[130:], output="decision"), expected
        )
        assert state(again) == state(learner)


@pytest.mark.parametrize("name", LEARNERS)
def test_predict_changes_nothing_and_is_the_next_prediction(name):
    X, y = stream(12)
    learner = fresh(name).partial_fit(X[:150], y[:150])
    before = state(learner)
    scores = learner.decision_function(X[150:])
    assert state(learner) == before
    first = learner.predict_then_learn(X[150:151], y[150:151], output="decision")
    np.testing.assert_allclose(first, scores[:1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LEARNERS)
def test_sparse_rows(name):
    X, y = stream(13)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    dense = fresh(name).predict_then_learn(X, y, output="decision")
    csr = fresh(name).predict_then_learn(sparse.csr_matrix(X), y, output="decision")
    np.testing.assert_array_equal(csr, dense)


@pytest.mark.parametrize("name", LEARNERS)
def test_negated_labels_negate_the_scores(name):
    X, y = stream(14)
    expected = fresh(name).predict_then_learn(X, y, output="decision")
    np.testing.assert_array_equal(
        fresh(name).predict_then_learn(X, -y, output="decision"), -expected
    )
    learner = fresh(name).partial_fit(X[:100], y[:100])
    learner._model.models[0].remap(-np.eye(1))
    scores = learner.predict_then_learn(X[100:], -y[100:], output="decision")
    np.testing.assert_array_equal(scores, -expected[100:])


# --- edge cases --------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner, twin",
    [
        (
            KernelPerceptron(Gaussian(0.6), maintenance="random", budget=1),
            lambda X, y: naive.rbp(X, y, GAUSSIAN, 1, uniforms(len(X))),
        ),
        (
            KernelPerceptron(Gaussian(0.6), maintenance="forget", budget=1),
            lambda X, y: naive.forgetron(X, y, GAUSSIAN, 1),
        ),
        (
            KernelPerceptron(Gaussian(0.6), maintenance="project", budget=1),
            lambda X, y: naive.projectron(X, y, GAUSSIAN, 0.1, 1),
        ),
        *(
            (
                KernelOGDClassifier(
                    Gaussian(0.6), eta=0.2, alpha=0.1, maintenance=maintenance, budget=1
                ),
                lambda X, y, maintenance=maintenance: naive.ogd(
                    X, y, GAUSSIAN, 0.2, 0.1, "hinge", 1, maintenance, uniforms(len(X))
                ),
            )
            for maintenance in ("random", "smallest", "merge")
        ),
    ],
    ids=["rbp", "forgetron", "projectron", "bogd", "bsgd-r", "bsgd-m"],
)
def test_a_budget_of_one(learner, twin):
    X, y = stream(15)
    learner = clone(learner).set_params(random_state=SEED)
    assert_same(learner, blockwise(learner, X, y, output="decision"), twin(X, y))
    assert learner.size_ == 1


def test_merging_without_a_partner_of_the_same_sign_drops():
    X = np.array([[0.0], [0.3], [5.0]])
    y = np.array([1.0, -1.0, 1.0])
    learner = KernelOGDClassifier(eta=1.0, budget=1, maintenance="merge")
    learner.partial_fit(X[:2], y[:2])
    np.testing.assert_array_equal(learner.dictionary_, X[1:2])  # the oldest of equals is dropped
    learner.partial_fit(X[2:], y[2:])
    np.testing.assert_array_equal(learner.dictionary_, X[2:])


def test_no_slope_adds_nothing_and_the_kink_has_none():
    X = np.zeros((3, 2))
    learner = KernelOGDClassifier(eta=1.0).partial_fit(X, [1, 1, 1])
    assert learner.size_ == 1  # y f = 1 from the second row on: slope 0
    learner = KernelOGDRegressor(eta=0.5).partial_fit(X, [2.0, 2.0, 2.0])
    assert learner.size_ == 1  # the squared loss is met exactly
    learner = KernelOGDRegressor(loss="absolute").partial_fit(X, np.zeros(3))
    assert learner.size_ == 0 and learner.predict(X).tolist() == [0.0, 0.0, 0.0]


def test_equal_coefficients_are_dropped_by_age():
    X, y = stream(16, n=300)
    learner = pronk.make("bsgd-r", "classification", kernel=Gaussian(0.1), budget=20)
    scores = learner.predict_then_learn(X, y, output="decision")
    np.testing.assert_array_equal(learner.dictionary_, X[y * scores < 1][-20:])


@pytest.mark.parametrize("eta, alpha", [(0.5, 1.9), (0.5, 2.0), (1e-3, 1.0)])
def test_shrinking_far_below_the_range_of_numbers(eta, alpha):
    X, y = stream(17, n=6000, d=2)
    learner = KernelOGDClassifier(
        Gaussian(0.6), eta=eta, alpha=alpha, budget=5, maintenance="random", random_state=SEED
    )
    scores = learner.predict_then_learn(X, y, output="decision")
    expected = naive.bogd(X, y, GAUSSIAN, eta, alpha, 5, uniforms(len(X)))
    np.testing.assert_allclose(scores, expected.predictions, **CLOSE)


def test_a_point_that_is_never_replaced_shrinks_to_0():
    # One far row of the other kind; then a million rows without a loss would underflow the scale.
    learner = KernelOGDClassifier(eta=0.1, alpha=1.0, loss="hinge")
    learner.partial_fit(np.zeros((1, 1)), [1])
    engine = learner._model.models[0]
    for _ in range(10_000):
        support.shrink(engine._support, 0.9)
    assert engine.weights == 0.0
    learner.partial_fit(np.zeros((1, 1)), [1])
    assert learner.decision_function(np.zeros((1, 1))) == pytest.approx(0.1)


def test_growing_scale_of_random_removal():
    X, y = stream(18, n=4000, d=2)
    learner = KernelOGDClassifier(
        Gaussian(0.1), eta=0.1, budget=2, maintenance="random", random_state=SEED
    )
    scores = learner.predict_then_learn(X, y, output="decision")
    expected = naive.bogd(X, y, partial(kernels.gaussian, bandwidth=0.1), 0.1, 0.0, 2,
                          uniforms(len(X)))  # fmt: skip
    np.testing.assert_allclose(scores, expected.predictions, **CLOSE)


@pytest.mark.parametrize("aggressive", [False, True])
@pytest.mark.parametrize("eta", [0.0, 0.3])
def test_duplicates_are_projected(eta, aggressive):
    rng = np.random.default_rng(0)
    grid = rng.uniform(-1, 1, (12, 3))
    X = grid[rng.integers(0, 12, 300)]
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    learner = KernelPerceptron(Gaussian(0.6), maintenance="project", eta=eta, aggressive=aggressive)
    scores = blockwise(learner, X, y, output="decision")
    twin = naive.projectron_plus_plus if aggressive else naive.projectron
    assert_same(learner, scores, twin(X, y, GAUSSIAN, eta))
    assert learner.size_ <= 12


def test_duplicates_merge_into_one():
    X = np.zeros((10, 2))
    learner = KernelOGDClassifier(eta=0.01, budget=2, maintenance="merge").partial_fit(X, [1] * 10)
    assert learner.size_ == 2
    np.testing.assert_array_equal(learner.dictionary_, 0.0)
    assert learner.decision_function(X[:1]) == pytest.approx(0.1)


@pytest.mark.parametrize("ratio", [1.0, 1.001, 1.5, 4.0, 100.0])
@pytest.mark.parametrize("distance", [0.0, 1e-9, 0.1, 1.0, 1.999, 2.0, 2.001, 3.0, 8.0, 60.0])
def test_merging_two_points_is_the_best_on_their_line(ratio, distance):
    g, a, loss = budgets.merge_pair(1.0, ratio, distance)
    h = np.linspace(0.0, 1.0, 20001)
    s = np.exp(-distance * h**2) + ratio * np.exp(-distance * (1 - h) ** 2)
    assert a == pytest.approx(s.max(), rel=1e-7) and a >= s.max() * (1 - 1e-15)
    assert 0.5 <= g <= 1.0
    assert loss == pytest.approx(1 + ratio**2 + 2 * ratio * np.exp(-distance) - a * a)


def test_the_merging_loss_grows_with_distance_and_weight():
    """What lets the search for a partner pass over most candidates."""
    ratios = np.geomspace(1, 1e4, 60)
    distances = np.geomspace(1e-3, 20, 60)
    loss = np.array([[budgets.merge_pair(1.0, r, d)[2] for d in distances] for r in ratios])
    noise = 1e-14 * ratios**2
    assert (np.diff(loss, axis=0) >= -noise[1:, None]).all()
    assert (np.diff(loss, axis=1) >= -noise[:, None]).all()


def test_a_step_that_overshoots_raises_and_nothing_is_learned():
    X, y = stream(19, signs=False)
    learner = KernelOGDRegressor(Linear(), eta=0.01).partial_fit(X[:50], y[:50])
    before = state(learner)
    with pytest.raises(ValueError, match="eta"):
        learner.partial_fit(np.tile(X[:50], (40, 1)) * 100, np.tile(y[:50], 40))
    assert state(learner) == before


@pytest.mark.parametrize(
    "learner, message",
    [
        (KernelPerceptron(budget=5), "needs a strategy: give maintenance"),
        (KernelPerceptron(maintenance="random"), "needs a budget"),
        (KernelPerceptron(maintenance="forget"), "needs a budget"),
        (KernelPerceptron(aggressive=True), "aggressive"),
        (KernelPerceptron(budget=0, maintenance="random"), "budget"),
        (KernelPerceptron(eta=-1.0), "eta"),
        (KernelPerceptron(maintenance="merge", budget=5), "maintenance"),
        (KernelOGDClassifier(maintenance="merge"), "needs a budget"),
        (KernelOGDClassifier("linear", maintenance="merge", budget=5), "gaussian"),
        (KernelOGDClassifier(eta="pegasos"), "alpha"),
        (KernelOGDClassifier(eta="fast"), "eta"),
        (KernelOGDClassifier(eta=1.0, alpha=2.0), "eta \\* alpha"),
        (KernelOGDClassifier(loss="huber"), "loss"),
        (KernelOGDRegressor(loss="hinge"), "loss"),
    ],
)
def test_wrong_parameters_are_named(learner, message):
    X, y = stream(n=10)
    with pytest.raises(ValueError, match=message):
        learner.fit(X, y)


def test_the_registry_knows_the_perceptrons():
    assert isinstance(pronk.make("projectron++", "classification"), KernelPerceptron)
    with pytest.raises(ValueError, match="classification only"):
        pronk.make("rbp", "regression")


def test_labels_0_and_1_hold_one_budget():
    X, y = stream(20)
    learner = pronk.make("rbp", "classification", kernel=Gaussian(0.6), budget=BUDGET)
    learner.partial_fit(X, (y > 0).astype(int))
    assert learner.size_ == BUDGET


# --- scikit-learn ------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [
        KernelPerceptron(),
        KernelPerceptron(maintenance="project"),
        KernelPerceptron(budget=50, maintenance="random"),
        KernelPerceptron(budget=50, maintenance="forget"),
        KernelOGDClassifier(),
        KernelOGDClassifier(budget=50, maintenance="random"),
        KernelOGDRegressor(),
        KernelOGDRegressor(budget=100, maintenance="merge"),
    ],
)
def test_scikit_learn_checks(learner, path):
    if path == "inside":
        known = {**EXPECTED, **unweighted_checks(learner)}
        check_estimator(learner, expected_failed_checks=known)


def test_a_tiny_coefficient_merges_into_the_other():
    from pronk.first_order.budgets import merge_pair

    for light in (5e-324, 1e-310, 1e-200):
        weight, coefficient, loss = merge_pair(light, 1.0, 0.7)
        assert weight == 1.0 and coefficient == 1.0 and abs(loss) <= 1e-15
