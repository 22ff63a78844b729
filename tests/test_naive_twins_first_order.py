"""The brute-force twins of the first-order learners: second derivations, cases done on paper.

Dual space (definition 1.8, 1.9), embeddings and kernel expansions (1.10). On paper the
kernel is linear, W = 0 makes the random features (1, 0) for every x, and numbers are
fractions of powers of two wherever they can be.
"""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from naive import dual, expansion, features, gradient, kernels, losses
from naive.randomness import stream as numbered

CLOSE = dict(rtol=1e-9, atol=1e-9)
GAUSSIAN = partial(kernels.gaussian, bandwidth=0.5)
LAPLACIAN = partial(kernels.laplacian, bandwidth=0.7)
CONSTANT = np.zeros((1, 1))  # frequencies: phi~ = (1, 0)
NEVER = 10**9  # a budget, memory or period longer than any stream here
MARGIN = [name for name in losses.LOSSES if losses.get(name).margin]


def stream(seed, n=80, signs=True, duplicates=False):
    """(X, y, uniforms): X in [-1, 1]^2, noisy signs or values."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    if duplicates:
        X[1::3] = X[rng.integers(0, 6, len(X[1::3]))]
    y = np.sin(4 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * rng.standard_normal(n)
    return X, np.where(y >= 0, 1.0, -1.0) if signs else y, rng.random(n)


def targets(seed, loss, n=80):
    X, y, u = stream(seed, n, signs=losses.get(loss).margin)
    return X, y, u


def three_classes(seed, n=90):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (np.arctan2(X[:, 1], X[:, 0]) // (2 * np.pi / 3)).astype(int) % 3


def frequencies(seed, L=15, bandwidth=0.5):
    return numbered(seed, 2).standard_normal((2, L)) / bandwidth


def cosine_kernel(W):
    """phi~(x)'phi~(z) = mean_l cos(w_l'(x - z))."""
    return lambda X, Z: np.mean(np.cos((X[:, None, :] - Z[None, :, :]) @ W), axis=2)


def column(*values):
    return np.array(values, float)[:, None]


def assert_same_dual(a, b):
    np.testing.assert_allclose(a.predictions, b.predictions, **CLOSE)
    assert list(a.coefficients) == list(b.coefficients)
    for i in a.coefficients:
        np.testing.assert_allclose(a.coefficients[i], b.coefficients[i], **CLOSE)
    np.testing.assert_allclose(a.weights, b.weights, **CLOSE)


def assert_same_expansion(a, b):
    np.testing.assert_allclose(a.predictions, b.predictions, **CLOSE)
    np.testing.assert_allclose(a.points, b.points, **CLOSE)
    np.testing.assert_allclose(a.coefficients, b.coefficients, **CLOSE)


# --- DualSGD --------------------------------------------------------------------


@pytest.mark.parametrize("budget, merge", [(0, 1), (1, 1), (8, 1), (8, 3), (8, 50), (NEVER, 1)])
@pytest.mark.parametrize("loss", losses.LOSSES)
@pytest.mark.thinned
def test_dual_sgd_equals_the_sum_in_explicit_features(loss, budget, merge):
    X, y, _ = targets(0, loss)
    args = (X, y, LAPLACIAN, frequencies(0), 0.5, budget, merge, loss)
    model = dual.dual_sgd(*args)
    assert_same_dual(model, dual.dual_sgd_explicit(*args))
    assert len(model.coefficients) <= budget


@pytest.mark.parametrize("budget, merge", [(1, 1), (8, 1), (8, 3)])
@pytest.mark.parametrize("loss", MARGIN)
def test_dual_sgd_multiclass_equals_the_sum_in_explicit_features(loss, budget, merge):
    X, labels = three_classes(1)
    args = (X, labels, 3, LAPLACIAN, frequencies(1), 0.1, budget, merge, loss)
    model = dual.dual_sgd_multiclass(*args)
    assert_same_dual(model, dual.dual_sgd_multiclass_explicit(*args))
    np.testing.assert_allclose(model.predictions.sum(axis=1), 0, atol=1e-10, rtol=1e-7)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_dual_sgd_at_its_ends_is_pegasos_in_the_kernel_and_in_the_random_features(loss):
    X, y, _ = targets(2, loss)
    W = frequencies(2)
    whole = dual.dual_sgd(X, y, GAUSSIAN, W, 0.5, NEVER, 1, loss)
    pegasos = expansion.ogd(X, y, GAUSSIAN, "pegasos", 0.5, loss)
    np.testing.assert_allclose(whole.predictions, pegasos.predictions, **CLOSE)
    np.testing.assert_allclose(list(whole.coefficients.values()), pegasos.coefficients, **CLOSE)
    nothing = dual.dual_sgd(X, y, GAUSSIAN, W, 0.5, 0, 1, loss)
    pegasos = expansion.ogd(X, y, cosine_kernel(W), "pegasos", 0.5, loss)
    np.testing.assert_allclose(nothing.predictions, pegasos.predictions, **CLOSE)
    assert nothing.coefficients == {}


def test_dual_sgd_on_paper_with_hinge_ties_moves_the_oldest():
    """t=2: r = (1, 1), row 0 moves; t=3: s = (-.25 + 1)/2, row 1 moves; t=4: margin 4/3."""
    X, y = column(1, 0.25, -1, 2), np.array([1.0, 1, -1, 1])
    model = dual.dual_sgd(X, y, kernels.linear, CONSTANT, 1.0, 1, 1, "hinge")
    np.testing.assert_allclose(model.predictions, [0, 0.25, 0.375, 4 / 3], rtol=1e-7, atol=0)
    assert model.coefficients == pytest.approx({2: -1 / 4})
    np.testing.assert_allclose(model.weights, [2 / 4, 0], rtol=1e-7, atol=0)
    np.testing.assert_allclose(
        dual.decision(model, X, kernels.linear, CONSTANT, column(0, 8)),
        [0.5, 2.5],
        rtol=1e-7,
        atol=0,
    )


def test_dual_sgd_hinge_is_first_in_first_out_on_a_long_stream():
    X, y, _ = stream(3, n=300)
    model = dual.dual_sgd(X, y, GAUSSIAN, frequencies(3), 0.3, 20, 1, "hinge")
    wrong = np.flatnonzero(y * model.predictions < 1)
    assert list(model.coefficients) == list(wrong[-20:]) and len(wrong) > 100
    three = dual.dual_sgd(X, y, GAUSSIAN, frequencies(3), 0.3, 20, 3, "hinge")
    wrong = np.flatnonzero(y * three.predictions < 1)
    assert list(three.coefficients) == list(wrong[-len(three.coefficients) :])
    assert 18 <= len(three.coefficients) <= 20


def test_dual_sgd_new_point_is_a_candidate():
    """D5: the logistic slope of the second row is smaller than the first's 1/2: it moves itself."""
    X, y = column(1, 1), np.array([1.0, 1])
    model = dual.dual_sgd(X, y, kernels.linear, CONSTANT, 1.0, 1, 1, "logistic")
    assert model.coefficients == pytest.approx({0: 0.25})
    np.testing.assert_allclose(model.weights, [0.5 / (1 + np.exp(0.5)), 0], rtol=1e-7, atol=0)


def test_dual_sgd_hinge_slope_is_zero_at_margin_one():
    X, y = column(1, 1), np.array([1.0, 1])
    model = dual.dual_sgd(X, y, kernels.linear, CONSTANT, 1.0, NEVER, 1, "hinge")
    np.testing.assert_array_equal(model.predictions, [0, 1])
    assert model.coefficients == {0: 0.5}


def test_dual_sgd_multiclass_on_paper():
    """Row 0: all scores 0, the lowest other class is 0. Row 1: scores (-1, 1, 0)/1, the best
    other class of 2 is 1, margin -1. Row 2: scores of x = 1 are (-1, 1-2, 0+2)/2, label 1,
    margin -3/2 against class 2."""
    X, labels = column(1, 1, 1), [1, 2, 1]
    model = dual.dual_sgd_multiclass(X, labels, 3, kernels.linear, CONSTANT, 1.0, 9, 1, "hinge")
    np.testing.assert_allclose(
        model.predictions, [[0, 0, 0], [-1, 1, 0], [-0.5, 0, 0.5]], rtol=1e-7, atol=0
    )
    np.testing.assert_allclose(model.coefficients[0], [-1 / 3, 1 / 3, 0], rtol=1e-7, atol=0)
    np.testing.assert_allclose(model.coefficients[1], [0, -1 / 3, 1 / 3], rtol=1e-7, atol=0)
    np.testing.assert_allclose(model.coefficients[2], [0, 1 / 3, -1 / 3], rtol=1e-7, atol=0)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "smooth_hinge"])
def test_two_classes_are_the_binary_rule_with_half_the_alpha(loss):
    """s_1 = -s_0, so the margin moves by twice the slope: alpha/2, and 2 eta for DualSVRG."""
    X, y, _ = stream(4)
    labels, W = (y > 0).astype(int), frequencies(4)
    two = dual.dual_sgd_multiclass(X, labels, 2, LAPLACIAN, W, 0.4, 7, 2, loss)
    one = dual.dual_sgd(X, y, LAPLACIAN, W, 0.2, 7, 2, loss)
    np.testing.assert_allclose(two.predictions @ [-1, 1], one.predictions, **CLOSE)
    two = dual.dual_svrg_multiclass(
        X, labels, 2, LAPLACIAN, W, 0.4, 0.05, "budget", 7, None, 9, 11, loss
    )
    one = dual.dual_svrg(X, y, LAPLACIAN, W, 0.2, 0.1, "budget", 7, None, 9, 11, loss)
    np.testing.assert_allclose(two.predictions @ [-1, 1], one.predictions, **CLOSE)


# --- DualSVRG -------------------------------------------------------------------

ORACLES = [
    ("budget", 10, None),
    ("budget", 1, None),
    ("coverage", None, 0.5),
    ("always-move", None, None),
]


@pytest.mark.parametrize("memory, period", [(10, 25), (1, 10), (NEVER, 7), (10, 1), (4, NEVER)])
@pytest.mark.parametrize("oracle", ORACLES)
def test_dual_svrg_equals_svrg_in_explicit_features(oracle, memory, period):
    for loss in ("smooth_hinge", "logistic", "squared", "hinge"):
        X, y, _ = targets(5, loss, n=80)
        # A step at which no margin of the hinge loss comes within rounding of its kink.
        args = (X, y, LAPLACIAN, frequencies(5), 0.2, 0.17, *oracle, memory, period, loss)
        model = dual.dual_svrg(*args)
        predictions, last = dual.dual_svrg_explicit(*args)
        np.testing.assert_allclose(model.predictions, predictions, **CLOSE)
        np.testing.assert_allclose(
            dual.decision(model, X, LAPLACIAN, frequencies(5), X), last, **CLOSE
        )
        kept = np.flatnonzero(~dual.moved_rows(X, *oracle))
        assert list(model.coefficients) == list(kept)


@pytest.mark.parametrize("oracle", ORACLES)
def test_dual_svrg_multiclass_equals_svrg_in_explicit_features(oracle):
    X, labels = three_classes(6, n=70)
    for loss in ("smooth_hinge", "logistic"):
        args = (X, labels, 3, LAPLACIAN, frequencies(6), 0.1, 0.21, *oracle, 12, 15, loss)
        model = dual.dual_svrg_multiclass(*args)
        predictions, last = dual.dual_svrg_multiclass_explicit(*args)
        np.testing.assert_allclose(model.predictions, predictions, **CLOSE)
        np.testing.assert_allclose(
            dual.decision(model, X, LAPLACIAN, frequencies(6), X), last, **CLOSE
        )


def test_dual_svrg_on_paper():
    """eta = alpha = 1, memory 2, period 2, first row kept, others moved.

    t=1: v_0 = -1, w = {0: 1/2}.   t=2: s = 1, slope 0; u = 0 gives -1/2 to both rows and row 1
    gets 0 - (-1) more: v = (-1/2, 1/2); w = {0: (1/2 + 1/2)/2}, weights -1/4; u = the mean
    ({0: 1/2}, -1/8), which is also the new w.   t=3: s = -1/2 - 1/8 = <u, x>, margin 5/8;
    u(x_1) = 7/8; rows 1, 2 get -1/2, +1/2, both moved, and cancel.
    """
    X, y = column(1, 2, -1), np.array([1.0, 1, -1])
    args = (kernels.linear, CONSTANT, 1.0, 1.0, "budget", 1, None, 2, 2, "hinge")
    model = dual.dual_svrg(X, y, *args)
    np.testing.assert_array_equal(model.predictions, [0, 1, -0.625])
    assert model.coefficients == {0: 0.25}
    np.testing.assert_array_equal(model.weights, [-0.0625, 0])
    after_two = dual.dual_svrg(X[:2], y[:2], *args)
    assert after_two.coefficients == {0: 0.5} and after_two.weights[0] == -0.125


def test_dual_svrg_average_counts_a_late_point_as_zero_and_rewrites_every_coefficient():
    """D10, squared loss on orthogonal points, memory 1: each step is (w - 2 eta (f - y) k)/(1+eta).

    eta = alpha = 1: w_1 = {0: 2/2}, w_2 = {0: 1/2, 1: 1}, mean {0: 3/4, 1: 1/2}.
    """
    X, y = np.eye(3), np.array([1.0, 1, 0])
    args = (kernels.linear, np.zeros((3, 1)), 1.0, 1.0, "budget", NEVER, None, 1, 2, "squared")
    model = dual.dual_svrg(X[:2], y[:2], *args)
    assert model.coefficients == {0: 0.75, 1: 0.5}
    assert dual.dual_svrg(X, y, *args).coefficients == {0: 0.375, 1: 0.25, 2: 0.0}


@pytest.mark.parametrize("loss", ["logistic", "squared", "smooth_hinge"])
def test_dual_svrg_with_a_memory_of_one_and_no_snapshot_is_ogd(loss):
    """(f - e g)/(1 + e a) = (1 - e' a) f - e' g for e' = e/(1 + e a)."""
    X, y, _ = targets(7, loss)
    args = (GAUSSIAN, frequencies(7), 0.3, 0.4, "budget", NEVER, None, 1, NEVER, loss)
    model = dual.dual_svrg(X, y, *args)
    ogd = expansion.ogd(X, y, GAUSSIAN, 0.4 / (1 + 0.4 * 0.3), 0.3, loss)
    np.testing.assert_allclose(model.predictions, ogd.predictions, **CLOSE)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_dual_svrg_with_period_one_is_proximal_gradient_descent_on_the_past(loss):
    X, y, _ = targets(8, loss, n=60)
    loss_ = losses.get(loss)
    args = (GAUSSIAN, frequencies(8), 0.3, 0.4, "budget", NEVER, None, NEVER, 1, loss)
    model = dual.dual_svrg(X, y, *args)
    K, a, predictions = GAUSSIAN(X, X), np.zeros(60), []
    for t in range(1, 61):
        predictions.append(K[t - 1] @ a)
        g = [loss_.slope(K[i] @ a, y[i]) / t for i in range(t)]
        a = (a - 0.4 * np.pad(g, (0, 60 - t))) / (1 + 0.4 * 0.3)
    np.testing.assert_allclose(model.predictions, predictions, **CLOSE)
    np.testing.assert_allclose(list(model.coefficients.values()), a, **CLOSE)


def test_always_move_is_dual_svrg_in_the_kernel_of_the_random_features():
    X, y, _ = stream(9)
    W = frequencies(9)
    moved = dual.dual_svrg(
        X, y, GAUSSIAN, W, 0.1, 0.2, "always-move", None, None, 10, 20, "logistic"
    )
    kept = dual.dual_svrg(
        X, y, cosine_kernel(W), W, 0.1, 0.2, "budget", NEVER, None, 10, 20, "logistic"
    )
    np.testing.assert_allclose(moved.predictions, kept.predictions, **CLOSE)
    assert moved.coefficients == {} and np.all(kept.weights == 0)


def test_coverage_radius_zero_moves_copies_only_and_infinity_all_but_the_first():
    X, _, _ = stream(10, duplicates=True)
    zero = dual.moved_rows(X, "coverage", radius=0.0)
    seen = [any(np.array_equal(x, z) for z in X[:t]) for t, x in enumerate(X)]
    np.testing.assert_array_equal(zero, seen)
    assert zero.any() and not zero.all()
    infinity = dual.moved_rows(X, "coverage", radius=np.inf)
    np.testing.assert_array_equal(infinity, dual.moved_rows(X, "budget", budget=1))
    assert not infinity[0] and infinity[1:].all()


def test_coverage_moves_at_equality_and_counts_the_core_only():
    """D6. 0 joins; 1 is moved (distance 1 = radius); 2 is 1 away from the moved 1 but joins."""
    moved = dual.moved_rows(column(0, 1, 2, 2.5, 4), "coverage", radius=1.0)
    np.testing.assert_array_equal(moved, [False, True, False, True, False])


def test_budget_oracle_keeps_the_first_points_whatever_their_coefficient():
    """D8: y = 0 under the squared loss gives row 0 a coefficient of 0, yet it fills the budget."""
    X, y = column(1, 1), np.array([0.0, 1.0])
    args = (kernels.linear, CONSTANT, 1.0, 1.0, "budget", 1, None, 1, 9, "squared")
    model = dual.dual_svrg(X, y, *args)
    assert model.coefficients == {0: 0.0}
    np.testing.assert_array_equal(model.weights, [1.0, 0])


@pytest.mark.parametrize("memory", [50, 51, NEVER])
def test_a_memory_as_long_as_the_stream_is_a_memory_of_everything(memory):
    X, y, _ = stream(11, n=50)
    args = (X, y, GAUSSIAN, frequencies(11), 0.1, 0.2, "budget", 9, None)
    np.testing.assert_array_equal(
        dual.dual_svrg(*args, memory, 8, "logistic").predictions,
        dual.dual_svrg(*args, 50, 8, "logistic").predictions,
    )
    short = dual.dual_svrg(*args, 20, 8, "logistic").predictions
    assert np.abs(short - dual.dual_svrg(*args, 50, 8, "logistic").predictions).max() > 1e-4


def test_crammer_singer_gradient_takes_the_lowest_of_tied_rivals():
    g = dual.crammer_singer("smooth_hinge")
    np.testing.assert_array_equal(g(np.array([0.0, 0.0, 0.0]), 0), [-1, 1, 0])
    np.testing.assert_array_equal(g(np.array([0.0, 0.5, 0.5]), 0), [-1, 1, 0])
    np.testing.assert_array_equal(g(np.array([0.25, 1.0, 0.25]), 1), [0.5, -0.5, 0])
    np.testing.assert_array_equal(g(np.array([0.0, 1.0, 0.0]), 1), [0, 0, 0])


# --- FOGD, NOGD -----------------------------------------------------------------


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_fogd_is_ogd_in_the_cosine_kernel(loss):
    X, y, _ = targets(12, loss)
    W = frequencies(12)
    predictions, w = gradient.fogd(X, y, W, 0.3, loss)
    ogd = expansion.ogd(X, y, cosine_kernel(W), 0.3, 0.0, loss)
    np.testing.assert_allclose(predictions, ogd.predictions, **CLOSE)
    np.testing.assert_allclose(
        dual.random_features(X, W) @ w, expansion.decision(ogd, cosine_kernel(W), X), **CLOSE
    )


def test_fogd_without_normalisation_takes_a_step_smaller_by_the_number_of_frequencies():
    X, y, _ = stream(13)
    W, loss, w = frequencies(13, L=20), losses.get("hinge"), np.zeros(40)
    expected, _ = gradient.fogd(X, y, W, 0.25 * 20, "hinge")
    for t in range(len(X)):
        z = np.hstack([np.cos(X[t] @ W), np.sin(X[t] @ W)])
        assert w @ z == pytest.approx(expected[t], rel=1e-9, abs=1e-9)
        w = w - 0.25 * loss.slope(w @ z, y[t]) * z


@pytest.mark.parametrize("budget, rank", [(1, 1), (10, 4), (10, 10), (30, 6), (NEVER, 5)])
@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
def test_nogd_equals_projected_descent_in_explicit_features(loss, budget, rank):
    X, y, _ = targets(14, loss)
    predictions, S, c = gradient.nogd(X, y, LAPLACIAN, budget, rank, 0.23, loss)
    explicit, w = gradient.nogd_explicit(X, y, LAPLACIAN, budget, rank, 0.23, loss)
    np.testing.assert_allclose(predictions, explicit, **CLOSE)
    np.testing.assert_allclose(LAPLACIAN(X, X[S]) @ c, features.root(LAPLACIAN(X, X)) @ w, **CLOSE)
    assert len(S) <= budget


def test_nogd_is_kernel_ogd_up_to_the_budget_and_changes_space_at_once():
    X, y, _ = stream(15)
    predictions, S, _ = gradient.nogd(X, y, GAUSSIAN, 20, 2, 0.2, "hinge")
    ogd = expansion.ogd(X, y, GAUSSIAN, 0.2, 0.0, "hinge")
    last = S[-1]
    np.testing.assert_allclose(predictions[: last + 1], ogd.predictions[: last + 1], **CLOSE)
    assert abs(predictions[last + 1] - ogd.predictions[last + 1]) > 1e-4
    short, held, a = gradient.nogd(X[:30], y[:30], GAUSSIAN, NEVER, 2, 0.2, "hinge")
    np.testing.assert_array_equal(
        X[held], expansion.ogd(X[:30], y[:30], GAUSSIAN, 0.2, 0, "hinge")[1]
    )
    assert len(short) == 30 and set(np.abs(a)) == {0.2}


def test_nogd_on_paper():
    """Orthogonal points with k(x,x) = 4 and 1, budget 2, rank 1: the second is forgotten.

    After row 1 f = k_0/2 + k_1/2 with eta 1/2; only k_0 survives. Row 2 = x_1: 0. Row 3 = x_0: 2.
    """
    X = np.array([[2.0, 0], [0, 1], [0, 1], [2, 0]])
    predictions, S, c = gradient.nogd(X, np.ones(4), kernels.linear, 2, 1, 0.5, "hinge")
    np.testing.assert_allclose(predictions, [0, 0, 0, 2], atol=1e-15, rtol=1e-7)
    assert S == [0, 1]
    np.testing.assert_allclose(c, [0.5, 0], atol=1e-15, rtol=1e-7)


def test_nogd_with_copies_in_the_dictionary_drops_the_null_directions():
    X, y = column(1, 1, 1), np.array([3.0, 3, 3])
    predictions, S, c = gradient.nogd(X, y, kernels.linear, 2, 2, 0.25, "squared")
    np.testing.assert_allclose(predictions, [0, 1.5, 2.25], rtol=1e-7, atol=0)
    assert S == [0, 1] and c.sum() == pytest.approx(2.625)


# --- Perceptrons ----------------------------------------------------------------


def explicit_perceptron(X, y, kernel):
    F = features.root(kernel(X, X))
    w, predictions = np.zeros(len(F)), []
    for phi, label in zip(F, y, strict=True):
        predictions.append(phi @ w)
        if label * predictions[-1] <= 1e-12:
            w = w + label * phi
    return predictions


@pytest.mark.parametrize("duplicates", [False, True])
def test_perceptron_in_explicit_features(duplicates):
    X, y, _ = stream(16, duplicates=duplicates)
    model = expansion.perceptron(X, y, GAUSSIAN)
    np.testing.assert_allclose(model.predictions, explicit_perceptron(X, y, GAUSSIAN), **CLOSE)
    wrong = y * model.predictions <= 0
    np.testing.assert_array_equal(model.points, X[wrong])
    np.testing.assert_array_equal(model.coefficients, y[wrong])


def test_a_zero_score_is_a_mistake_whatever_the_label():
    """X1: both first rows have score 0; so has any point orthogonal to the others."""
    for sign in (1.0, -1.0):
        for rule in (
            lambda y: expansion.perceptron(np.eye(3), y, kernels.linear),
            lambda y: expansion.rbp(np.eye(3), y, kernels.linear, 5, np.zeros(3)),
            lambda y: expansion.forgetron(np.eye(3), y, kernels.linear, 5),
            lambda y: expansion.projectron(np.eye(3), y, kernels.linear, 0.1),
            lambda y: expansion.projectron_plus_plus(np.eye(3), y, kernels.linear, 0.1),
        ):
            model = rule(sign * np.ones(3))
            np.testing.assert_array_equal(model.predictions, 0)
            np.testing.assert_array_equal(model.points, np.eye(3))
            np.testing.assert_array_equal(model.coefficients, sign)


def test_rbp_on_paper_numbers_the_points_by_age():
    """Budget 2, orthogonal points: row 2 drops number floor(.5*2) = 1, row 3 number 0."""
    X, y = np.eye(4), np.array([1.0, -1, 1, -1])
    model = expansion.rbp(X, y, kernels.linear, 2, [0.9, 0.9, 0.5, 0.49])
    np.testing.assert_array_equal(model.points, X[[2, 3]])
    np.testing.assert_array_equal(model.coefficients, [1, -1])
    one = expansion.rbp(X, y, kernels.linear, 1, [0.9] * 4)
    np.testing.assert_array_equal(one.points, X[[3]])


def test_rbp_below_its_budget_is_the_perceptron_and_never_exceeds_it():
    X, y, u = stream(17)
    assert_same_expansion(
        expansion.rbp(X, y, GAUSSIAN, NEVER, u), expansion.perceptron(X, y, GAUSSIAN)
    )
    first = expansion.rbp(X, y, GAUSSIAN, 6, np.zeros(len(X)))  # u = 0: the oldest goes
    wrong = y * first.predictions <= 0
    assert wrong.sum() > 12
    np.testing.assert_array_equal(first.points, X[wrong][-6:])


def test_forgetron_on_paper():
    """Budget 1, orthogonal points. Row 1: s = m = 1, Psi = 2c - c^2 <= 15/16: c = 3/4, Q = 15/16.
    Row 2: s = m = 3/4, 3c/2 - 9c^2/16 <= 45/32 - 15/16: 6c^2 - 16c + 5 = 0."""
    X, y = np.eye(3), np.array([1.0, 1, -1])
    two = expansion.forgetron(X[:2], y[:2], kernels.linear, 1)
    np.testing.assert_array_equal(two.points, X[[1]])
    assert two.coefficients == pytest.approx([0.75])
    three = expansion.forgetron(X, y, kernels.linear, 1)
    np.testing.assert_array_equal(three.points, X[[2]])
    assert three.coefficients == pytest.approx([-(8 - np.sqrt(34)) / 6])


@pytest.mark.parametrize("budget", [1, 4, 15, NEVER])
def test_forgetron_with_the_shrinkage_by_bisection(budget):
    X, y, _ = stream(18, n=200)
    closed = expansion.forgetron(X, y, GAUSSIAN, budget)
    bisected = expansion.forgetron(X, y, GAUSSIAN, budget, expansion.forgetron_shrink_by_bisection)
    assert_same_expansion(closed, bisected)
    assert len(closed.points) <= budget
    if budget == NEVER:
        assert_same_expansion(closed, expansion.perceptron(X, y, GAUSSIAN))


def test_forgetron_shrinkage_is_the_largest_that_fits():
    rng = np.random.default_rng(19)
    cases = list(rng.uniform([0.01, -2, 0.01], [1, 3, 3], (200, 3)))  # s, m, room
    cases += [(1.0, 0.5, 15 / 32), (1.0, 0.5, 2.0), (0.5, 3.0, 0.01), (1.0, 2.0, 0.2)]
    grid = np.linspace(0, 1, 20001)[1:]
    for s, m, room in cases:
        c = expansion.forgetron_shrink(s, m, room)
        assert c == pytest.approx(expansion.forgetron_shrink_by_bisection(s, m, room), abs=1e-12)
        fitting = grid[expansion.forgetron_damage(s, m, grid) <= room]
        assert fitting.max(initial=0.0) == pytest.approx(c, abs=1e-4)


def test_forgetron_damage_stays_within_its_allowance():
    """Q <= 15/32 M after every row, hence the next room is positive."""
    rooms = []

    def shrink(s, m, room):
        c = expansion.forgetron_shrink(s, m, room)
        rooms.append(room - expansion.forgetron_damage(s, m, c))
        return c

    X, y, _ = stream(20, n=300)
    expansion.forgetron(X, y, GAUSSIAN, 5, shrink)
    assert len(rooms) > 50 and min(rooms) > -1e-12


def explicit_projectron(X, y, kernel, eta, budget, aggressive):
    """w in R^n; the projection on the span of the rows held, by pinv."""
    F = features.root(kernel(X, X))
    w, S, predictions = np.zeros(len(F)), [], []
    for t, (phi, label) in enumerate(zip(F, y, strict=True)):
        predictions.append(phi @ w)
        margin = label * predictions[-1]
        Pphi = features.projector(F[S]) @ phi if S else 0 * phi
        delta = np.linalg.norm(phi - Pphi)
        if margin <= 0:
            if delta <= eta or len(S) == budget:
                w = w + label * Pphi
            else:
                S.append(t)
                w = w + label * phi
        elif margin < 1 and aggressive and 1 - margin >= delta / eta:
            loss, P = 1 - margin, Pphi @ Pphi
            w = w + label * min(loss / P, 2 * (loss - delta / eta) / P, 1) * Pphi
    return np.array(predictions), S, F @ w


@pytest.mark.parametrize("aggressive", [False, True])
@pytest.mark.parametrize("eta, budget", [(0.1, None), (0.4, None), (0.1, 5), (0.1, 1), (0.9, 8)])
def test_projectron_equals_projection_in_explicit_features(eta, budget, aggressive):
    X, y, _ = stream(21, duplicates=True)
    rule = expansion.projectron_plus_plus if aggressive else expansion.projectron
    model = rule(X, y, LAPLACIAN, eta, budget)
    predictions, S, last = explicit_projectron(X, y, LAPLACIAN, eta, budget, aggressive)
    np.testing.assert_allclose(model.predictions, predictions, **CLOSE)
    np.testing.assert_array_equal(model.points, X[S])
    np.testing.assert_allclose(expansion.decision(model, LAPLACIAN, X), last, **CLOSE)
    assert len(S) <= (budget or NEVER)


def test_projectron_threshold_is_on_the_norm():
    """x_1 = (.8, .6) is .6 from the span of x_0: kept for eta = .5 though .6^2 < .5 (X2)."""
    X, y = np.array([[1.0, 0], [0.8, 0.6]]), np.array([1.0, -1])
    kept = expansion.projectron(X, y, kernels.linear, 0.5)
    np.testing.assert_array_equal(kept.points, X)
    np.testing.assert_array_equal(kept.coefficients, [1, -1])
    for projected in (
        expansion.projectron(X, y, kernels.linear, 0.61),
        expansion.projectron(X, y, kernels.linear, 0.5, budget=1),
    ):
        np.testing.assert_array_equal(projected.points, X[:1])
        assert projected.coefficients == pytest.approx([0.2])


def test_projectron_projects_copies_even_for_eta_zero():
    """x, y = +, -, -: scores 0, 1, 0; two mistakes on a copy bring the coefficient to -1."""
    X, y = np.array([[0.3, 0.4]] * 3), np.array([1.0, -1, -1])
    model = expansion.projectron(X, y, GAUSSIAN, 0.0)
    np.testing.assert_allclose(model.predictions, [0, 1, 0], atol=1e-15, rtol=1e-7)
    np.testing.assert_array_equal(model.points, X[:1])
    assert model.coefficients == pytest.approx([-1])


def test_a_projectron_with_eta_of_one_never_starts_under_a_normalised_kernel():
    X, y, _ = stream(22, n=20)
    model = expansion.projectron(X, y, GAUSSIAN, 1.0)
    assert len(model.points) == 0 and not model.predictions.any()


@pytest.mark.parametrize(
    "x, eta, step",
    [
        ((0.5, 0.1), 0.5, 1.0),  # l = 1/2, P = 1/4, price 1/5: min(2, 2.4, 1)
        ((0.5, 0.1), 0.1 / 0.45, 0.4),  # price .45: min(2, 2 (.05)/.25, 1)
        ((0.5, 0.1), 0.1 / 0.55, 0.0),  # price .55 > l: nothing
        ((0.8, 0.01), 0.2, 0.3125),  # l = 1/5, P = .64, price 1/20: min(.3125, .469, 1)
    ],
)
def test_projectron_plus_plus_on_paper(x, eta, step):
    """f = k_0 with x_0 = (1, 0): f(x) = x[0], |delta| = x[1], P = x[0]^2."""
    X, y = np.array([[1.0, 0], x]), np.ones(2)
    model = expansion.projectron_plus_plus(X, y, kernels.linear, eta)
    np.testing.assert_array_equal(model.points, X[:1])
    assert model.coefficients == pytest.approx([1 + step * x[0]])
    assert expansion.projectron(X, y, kernels.linear, eta).coefficients == [1]


# --- OGD, Pegasos, BOGD -----------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("loss", losses.LOSSES)
def test_ogd_is_the_unrolled_sum(loss, alpha):
    """f_t = -eta sum_{i<t} (1 - eta alpha)^(t-1-i) l'_i k_i."""
    X, y, _ = targets(23, loss)
    model = expansion.ogd(X, y, GAUSSIAN, 0.2, alpha, loss)
    slopes = [
        losses.get(loss).slope(z, target) for z, target in zip(model.predictions, y, strict=True)
    ]
    K, shrink = GAUSSIAN(X, X), 1 - 0.2 * alpha
    for t in range(len(X)):
        unrolled = sum(-0.2 * shrink ** (t - 1 - i) * slopes[i] * K[i, t] for i in range(t))
        assert model.predictions[t] == pytest.approx(unrolled, rel=1e-9, abs=1e-9)
    np.testing.assert_array_equal(model.points, X[np.array(slopes) != 0])


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_pegasos_is_the_mean_of_the_slopes_over_alpha(loss):
    X, y, _ = targets(24, loss)
    model = expansion.ogd(X, y, GAUSSIAN, "pegasos", 0.5, loss)
    K, total = GAUSSIAN(X, X), np.zeros(len(X))
    for t in range(len(X)):
        assert model.predictions[t] == pytest.approx(
            -K[t] @ total / (0.5 * max(t, 1)), rel=1e-9, abs=1e-9
        )
        total[t] = losses.get(loss).slope(model.predictions[t], y[t])
    np.testing.assert_allclose(model.coefficients, -total[total != 0] / (0.5 * len(X)), **CLOSE)


def test_ogd_on_paper():
    """eta = 1/2, alpha = 1, hinge: row 1 scores 1/2 (added), row 2 scores 1/4 + 1/2 (added),
    row 3 scores 2 (1/8 + 1/4 + 1/2) > 1: only shrinks."""
    X, y = column(1, 1, 1, 2), np.ones(4)
    model = expansion.ogd(X, y, kernels.linear, 0.5, 1.0, "hinge")
    np.testing.assert_array_equal(model.predictions, [0, 0.5, 0.75, 1.75])
    np.testing.assert_array_equal(model.coefficients, [0.0625, 0.125, 0.25])


def test_pegasos_on_paper():
    """alpha = 1: rows score 0, 1/4, -4/2; after three steps raw/(3 alpha)."""
    X, y = column(0.5, 0.5, -4), np.ones(3)
    model = expansion.ogd(X, y, kernels.linear, "pegasos", 1.0, "hinge")
    np.testing.assert_allclose(model.predictions, [0, 0.25, -2], rtol=1e-7, atol=0)
    np.testing.assert_allclose(model.coefficients, [1 / 3] * 3, rtol=1e-7, atol=0)


@pytest.mark.parametrize("budget", [1, 2, 10, NEVER])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_bogd_by_cases_is_ogd_with_random_removal(budget, alpha):
    X, y, u = stream(25)
    by_cases = expansion.bogd(X, y, GAUSSIAN, 0.2, alpha, budget, u)
    general = expansion.ogd(X, y, GAUSSIAN, 0.2, alpha, "hinge", budget, "random", u)
    assert_same_expansion(by_cases, general)
    assert len(by_cases.points) <= budget
    if budget == NEVER:
        assert_same_expansion(by_cases, expansion.ogd(X, y, GAUSSIAN, 0.2, alpha, "hinge"))


def test_bogd_on_paper():
    """eta = 1/2, alpha = 1, orthogonal points: row 2 drops number floor(.6 * 2) = 1 and leaves
    (1/4)(1/2)(2/1) = 1/4 on row 0."""
    X, y = np.eye(3), np.array([1.0, -1, 1])
    model = expansion.bogd(X, y, kernels.linear, 0.5, 1.0, 2, [0.0, 0.0, 0.6])
    np.testing.assert_array_equal(model.points, X[[0, 2]])
    np.testing.assert_array_equal(model.coefficients, [0.25, 0.5])
    bounded = expansion.bogd(X, y, kernels.linear, 0.5, 1.0, 2, [0.0, 0.0, 0.6], bound=0.25)
    np.testing.assert_array_equal(bounded.coefficients, [0.125, 0.25])  # all rescaled (X4)


def test_bogd_with_a_budget_of_one_holds_the_last_point_with_loss():
    X, y, u = stream(26, n=40)
    model = expansion.bogd(X, y, GAUSSIAN, 0.2, 0.1, 1, u)
    last = np.flatnonzero(y * model.predictions < 1)[-1]
    np.testing.assert_array_equal(model.points, X[[last]])


# --- BSGD -----------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 2, 12, NEVER])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "smooth_hinge", "squared"])
@pytest.mark.parametrize("removal", [True, False])
def test_bsgd_shrunk_at_every_row_equals_bsgd_never_shrunk(loss, budget, removal):
    X, y, _ = targets(27, loss)
    rule, name = ("smallest", "removal") if removal else ("merge", "merging")
    shrunk = expansion.ogd(X, y, GAUSSIAN, "pegasos", 0.1, loss, budget, rule)
    raw = expansion.bsgd(X, y, GAUSSIAN, 0.1, budget, name, loss)
    assert_same_expansion(shrunk, raw)
    assert len(raw.points) <= budget


def test_bsgd_removal_with_the_hinge_loss_is_first_in_first_out():
    """D4: all un-shrunk coefficients are +-1."""
    X, y, _ = stream(28, n=300)
    model = expansion.bsgd(X, y, GAUSSIAN, 0.05, 15, "removal")
    wrong = y * model.predictions < 1
    assert wrong.sum() > 100
    np.testing.assert_array_equal(model.points, X[wrong][-15:])
    np.testing.assert_allclose(model.coefficients, y[wrong][-15:] / (0.05 * 300), rtol=1e-7, atol=0)


def test_bsgd_removal_weighs_a_coefficient_by_the_norm_of_its_point():
    """a^2 k(x,x): the second, short point goes although the first is older."""
    X, y = np.diag([1.0, 0.5, 1.0]), np.ones(3)
    model = expansion.bsgd(X, y, kernels.linear, 1.0, 2, "removal")
    np.testing.assert_array_equal(model.points, X[[0, 2]])


def test_bsgd_removal_may_drop_the_new_point():
    X, y = column(1, 1), np.ones(2)
    model = expansion.bsgd(X, y, kernels.linear, 1.0, 1, "removal", "logistic")
    np.testing.assert_allclose(
        model.coefficients, [0.25], rtol=1e-7, atol=0
    )  # row 0: 1/2 over alpha t = 2


def test_ogd_with_a_number_as_step_compares_what_is_left_of_the_coefficients():
    """eta = 1/2, alpha = 1, squared loss on orthogonal points: 1 -> 1/4 after two shrinks, and
    the second, 1/2 -> 1/4, ties with it exactly: the oldest goes."""
    X, y = np.eye(3), np.array([1.0, 0.5, 3.0])
    model = expansion.ogd(X, y, kernels.linear, 0.5, 1.0, "squared", 2, "smallest")
    np.testing.assert_array_equal(model.points, X[[1, 2]])
    np.testing.assert_array_equal(model.coefficients, [0.25, 3.0])


# --- merging --------------------------------------------------------------------


def objective(k, m, h):
    return m * k ** ((1 - h) ** 2) + (1 - m) * k ** (h**2)


@pytest.mark.parametrize("k", [1e-300, 1e-6, 0.05, np.exp(-2), 0.2, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("m", [0.5, 0.499, 0.3, 1e-3])
def test_merge_point_is_the_argmax_over_the_whole_segment(k, m):
    h = expansion.merge_point(k, m)
    grid = np.linspace(0, 1, 100001)
    values = objective(k, m, grid)
    assert objective(k, m, h) >= values.max() - 1e-15
    assert 0 <= h <= 0.5
    if 0.05 <= k <= 0.9 and (m, k) != (0.5, np.exp(-2)):  # elsewhere the maximum is flat
        assert grid[np.argmax(values[:50001])] == pytest.approx(h, abs=2e-5)


def test_merge_point_of_equal_coefficients():
    """k >= e^-2: the middle. Below, two maxima h and 1-h of the same value; the lower is taken."""
    assert expansion.merge_point(0.2, 0.5) == 0.5
    assert expansion.merge_point(1.0, 0.5) == 0.5
    h = expansion.merge_point(0.05, 0.5)
    assert h < 0.1 and objective(0.05, 0.5, h) > objective(0.05, 0.5, 0.5) + 0.01
    assert objective(0.05, 0.5, h) == pytest.approx(objective(0.05, 0.5, 1 - h), abs=1e-15)
    assert expansion.merge_point(0.0, 0.5) == 0.0


@pytest.mark.parametrize("distance", [0.1, 0.6, 1.1])
@pytest.mark.parametrize("a_i", [0.3, 1.0])
def test_merged_point_is_the_best_single_point_of_the_plane(a_i, distance):
    """|a_i k_i + k_j - a_z k_z|^2 minimised over a_z and z in R^2."""
    x_i, x_j = np.array([0.2, -0.1]), np.array([0.2 + 0.6 * distance, -0.1 + 0.8 * distance])
    pair, weights = np.array([x_i, x_j]), np.array([a_i, 1.0])
    K = GAUSSIAN(pair, pair)
    norm = weights @ K @ weights

    def loss_at(z):  # after the best a_z, which is <a_i k_i + a_j k_j, k_z>
        return norm - float((weights @ GAUSSIAN(pair, z[None]))[0]) ** 2

    h, a_z, loss = expansion.merged(a_i, 1.0, K[0, 1])
    z = h * x_i + (1 - h) * x_j
    assert a_z == pytest.approx(float((weights @ GAUSSIAN(pair, z[None]))[0]))
    assert loss == pytest.approx(loss_at(z), abs=1e-14)
    searched = min(minimize(loss_at, start, tol=1e-14).fun for start in (x_j, x_i, z + 0.05))
    assert loss <= searched + 1e-12


def test_merging_without_a_partner_of_the_same_sign_removes():
    X = column(0.0, 0.1, 0.2)
    model = expansion.bsgd(X[:2], np.array([1.0, -1]), GAUSSIAN, 1.0, 1, "merging")
    np.testing.assert_array_equal(model.points, X[[1]])
    assert model.coefficients == [-0.5]
    # The oldest, +1, has no partner among -1, -1 and goes, though those two could merge.
    model = expansion.bsgd(X, np.array([1.0, -1, -1]), GAUSSIAN, 1.0, 2, "merging")
    np.testing.assert_array_equal(model.points, X[[1, 2]])


def test_merging_on_paper():
    """Budget 1, two ones at distance 1/4 with bandwidth 1/2: k = e^(-1/8), z the middle,
    a_z = 2 k^(1/4), over alpha t = 2."""
    X = column(0.0, 0.25)
    model = expansion.bsgd(X, np.ones(2), GAUSSIAN, 1.0, 1, "merging")
    np.testing.assert_allclose(model.points, [[0.125]], rtol=1e-7, atol=0)
    np.testing.assert_allclose(model.coefficients, [np.exp(-1 / 32)], rtol=1e-7, atol=0)


def test_merging_takes_the_partner_that_loses_least_and_its_place():
    """Row 0 (oldest of equals) merges with row 2, the nearest of its sign, not with row 1
    (nearer, other sign): points are then row 1, the middle of 0 and 2, row 3."""
    X, y = column(0.0, 0.1, 0.3, 2.0), np.array([1.0, -1, 1, 1])
    model = expansion.ogd(X, y, GAUSSIAN, "pegasos", 1.0, "hinge", 3, "merge")
    np.testing.assert_allclose(model.points, column(0.1, 0.15, 2.0), atol=1e-12, rtol=1e-7)
    k = np.exp(-0.09 / 0.5)
    np.testing.assert_allclose(model.coefficients * 4, [-1, 2 * k**0.25, 1], rtol=1e-7, atol=0)


def test_merging_points_that_do_not_see_each_other_is_removal():
    """k underflows to 0: a_z = a_j and z = x_j, in the place of x_j."""
    X, y = 1e3 * np.random.default_rng(29).permutation(30)[:, None], np.ones(30)
    merged = expansion.bsgd(X, y, GAUSSIAN, 1.0, 4, "merging")
    assert_same_expansion(merged, expansion.bsgd(X, y, GAUSSIAN, 1.0, 4, "removal"))
    np.testing.assert_array_equal(merged.points, X[-4:])


def test_merging_with_a_number_as_step_runs_on_the_shrunk_coefficients():
    """eta = 1/2, alpha = 1: row 0 is down to 1/4 and row 1 holds 1/2 when they merge, m = 1/3."""
    X, y = column(0.0, 0.25), np.ones(2)
    model = expansion.ogd(X, y, GAUSSIAN, 0.5, 1.0, "hinge", 1, "merge")
    k = np.exp(-1 / 8)
    h = expansion.merge_point(k, 1 / 3)
    np.testing.assert_allclose(model.points, [[0.25 * (1 - h)]], rtol=1e-7, atol=0)
    np.testing.assert_allclose(
        model.coefficients, [0.25 * k ** ((1 - h) ** 2) + 0.5 * k ** (h**2)], rtol=1e-7, atol=0
    )


# --- KRLS -----------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("duplicates", [False, True])
def test_krls_least_squares_equals_engels_recursion(nu, duplicates):
    X, y, _ = stream(30, n=80, signs=False, duplicates=duplicates)
    a, b = expansion.krls(X, y, LAPLACIAN, nu), expansion.krls_recursive(X, y, LAPLACIAN, nu)
    assert_same_expansion(a, b)
    assert 3 < len(a.points) < len(X)


def test_krls_on_paper():
    """Linear kernel: x = 1 joins, w = 2; x = 2 scores 4 and is a row 2 of A: w = (2 + 2*5)/5."""
    model = expansion.krls(column(1, 2, 1), np.array([2.0, 5, 0]), kernels.linear, 0.01)
    np.testing.assert_allclose(model.predictions, [0, 4, 2.4], rtol=1e-7, atol=0)
    np.testing.assert_allclose(model.points, [[1]], rtol=1e-7, atol=0)
    np.testing.assert_allclose(model.coefficients, [(2 + 10 + 0) / 6], rtol=1e-7, atol=0)


def test_krls_that_takes_every_point_interpolates():
    X, y, _ = stream(31, n=30, signs=False)
    model = expansion.krls(X, y, LAPLACIAN, 1e-9)
    np.testing.assert_array_equal(model.points, X)
    np.testing.assert_allclose(expansion.decision(model, LAPLACIAN, X), y, **CLOSE)


def test_krls_takes_nothing_where_nu_is_the_largest_kernel_value():
    X, y, _ = stream(32, n=10, signs=False)
    model = expansion.krls(X, y, GAUSSIAN, 1.0)
    assert len(model.points) == 0 and not model.predictions.any()
