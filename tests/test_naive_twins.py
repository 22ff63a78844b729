"""The brute-force twins agree with each other wherever two derivations exist.

Streams are well conditioned (alpha >= 1, at most 200 rows): elsewhere the online
Newton step is chaotic and two correct programs part company.
"""

from functools import partial
from math import comb

import numpy as np
import pytest

from naive import awv, features, kernels, kors, labels, leverage, losses, ons, pros, regret

CLOSE = dict(rtol=1e-8, atol=1e-8)
GAUSSIAN = partial(kernels.gaussian, bandwidth=0.8)
MARGIN = [name for name in losses.LOSSES if losses.get(name).margin]
ALL_KERNELS = {
    "gaussian": GAUSSIAN,
    "laplacian": partial(kernels.laplacian, bandwidth=1.5),
    "matern 0.5": partial(kernels.matern, nu=0.5),
    "matern 1.5": partial(kernels.matern, nu=1.5),
    "matern 2.5": partial(kernels.matern, nu=2.5),
    "linear": kernels.linear,
    "polynomial": partial(kernels.polynomial, degree=2, offset=1.0),
}


def stream(seed, n=120, d=2, signs=False, duplicates=False):
    """X in [-1, 1]^d, y smooth plus noise in about [-1.5, 1.5] (or its sign), KORS's uniforms."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    if duplicates:
        X[1::3] = X[rng.integers(0, 6, len(X[1::3]))]
        X[5] = X[4]
    y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n)
    return X, np.where(y >= 0, 1.0, -1.0) if signs else y, rng.random(n)


# --- kernels, losses, leverage ------------------------------------------------


@pytest.mark.parametrize("name", ALL_KERNELS)
def test_kernel_matrices_are_symmetric_and_positive(name):
    X, _, _ = stream(0, n=40, d=3)
    K = ALL_KERNELS[name](X, X)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * len(K)
    np.testing.assert_allclose(ALL_KERNELS[name](X[:5], X[7:9]), K[:5, 7:9], atol=1e-14, rtol=1e-7)


def test_kernels_at_hand_computed_points():
    x, z = np.array([[1.0, 2.0]]), np.array([[4.0, 6.0]])  # |x-z|_2 = 5, |x-z|_1 = 7, x'z = 16
    assert kernels.gaussian(x, z, 5.0)[0, 0] == pytest.approx(np.exp(-0.5))
    assert kernels.laplacian(x, z, 7.0)[0, 0] == pytest.approx(np.exp(-1))
    assert kernels.matern(x, z, 5.0, 0.5)[0, 0] == pytest.approx(np.exp(-1))
    r3, r5 = np.sqrt(3), np.sqrt(5)
    assert kernels.matern(x, z, 5.0, 1.5)[0, 0] == pytest.approx((1 + r3) * np.exp(-r3))
    assert kernels.matern(x, z, 5.0, 2.5)[0, 0] == pytest.approx((1 + r5 + 5 / 3) * np.exp(-r5))
    assert kernels.linear(x, z)[0, 0] == 16
    assert kernels.polynomial(x, z, 2, 1.0)[0, 0] == 289


@pytest.mark.parametrize("name", losses.LOSSES)
def test_slope_is_the_derivative_and_stays_below_the_lipschitz_constant(name):
    loss, rng = losses.get(name), np.random.default_rng(1)
    for C in (0.4, 1.0, 2.5):
        for z in rng.uniform(-C, C, 100):
            y = np.sign(rng.uniform(-1, 1)) if loss.margin else rng.uniform(-C, C)
            numeric = (loss.value(z + 1e-6, y) - loss.value(z - 1e-6, y)) / 2e-6
            assert loss.slope(z, y) == pytest.approx(numeric, abs=1e-5)
            assert abs(loss.slope(z, y)) <= loss.lipschitz(C) + 1e-12


def _curvature_gap(loss, sigma, C):
    """Least value over a grid of l(u) - l(z) - l'(z)(u-z) - sigma/2 (l'(z)(u-z))^2."""
    grid = np.linspace(-C, C, 41)
    targets = (-1.0, 1.0) if loss.margin else np.linspace(-C, C, 9)
    gaps = []
    for y in targets:
        for z in grid:
            s = loss.slope(z, y)
            gaps += [
                loss.value(u, y) - loss.value(z, y) - s * (u - z) - sigma / 2 * (s * (u - z)) ** 2
                for u in grid
            ]
    return min(gaps)


@pytest.mark.parametrize("C", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", losses.LOSSES)
def test_sigma_is_a_valid_curvature(name, C):
    loss = losses.get(name)
    assert _curvature_gap(loss, loss.sigma(C), C) >= -1e-12


@pytest.mark.parametrize("C", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", ["squared", "squared_hinge"])
def test_sigma_is_tight_for_the_squared_losses(name, C):
    loss = losses.get(name)
    assert _curvature_gap(loss, 1.01 * loss.sigma(C), C) < -1e-6


@pytest.mark.parametrize("C", [0.5, 1.0, 3.0, 5.0])
def test_sigma_of_the_logistic_loss_could_be_exp_minus_clip(C):
    """P7's sigma is valid but 2 to 6 times too small: e^-C is valid and tight.

    Taylor: l'' >= e^C/(1+e^C)^2 and l'^2 <= e^2C/(1+e^C)^2 on [-C, C], ratio e^-C;
    both bounds are met at margin -C.
    """
    loss = losses.get("logistic")
    assert _curvature_gap(loss, np.exp(-C), C) >= -1e-12
    assert _curvature_gap(loss, 1.2 * np.exp(-C), C) < -1e-7
    assert 2 * loss.sigma(C) <= np.exp(-C) * (1 + 1e-12)


def test_auto_eta_of_logistic_and_squared_hinge_is_half_of_p7():
    assert ons.coefficient("auto", "logistic", 1, 1.0) == pytest.approx(1 / 32)
    assert ons.coefficient("auto", "logistic", 1, 4.0) == pytest.approx(np.exp(-4) / 4)
    assert ons.coefficient("auto", "squared_hinge", 1, 1.0) == pytest.approx(1 / 16)
    assert ons.coefficient("auto", "squared_hinge", 1, 2.0) == pytest.approx(5 / 192)


def test_auto_eta_of_the_squared_loss_is_one_over_sixteen_clip_squared():
    assert ons.coefficient("auto", "squared", 7, 2.0) == pytest.approx(1 / 64)
    assert ons.coefficient("auto", "hinge", 4, 2.0) == pytest.approx(1 / (2 * 2))
    assert ons.coefficient("convex", "squared", 4, 2.0) == pytest.approx(1 / (8 * 2 * 2))


def test_exact_leverage_is_the_kors_score_of_the_full_dictionary():
    """KORS with p = 1 for every earlier point and eps = 0 returns tau_{t,t} itself."""
    X, _, _ = stream(2, n=50)
    accepted, p, _ = kors.kors(X, GAUSSIAN, 0.5, 0.0, 1e9, np.zeros(50))
    assert accepted.all() and (p == 1).all()
    K = GAUSSIAN(X, X)
    tau = [
        kors.novelty_score(K[t, t], K[:t, t], K[:t, :t], np.ones(t), 0.5, 0.0) for t in range(50)
    ]
    np.testing.assert_allclose(tau, leverage.online_leverage_scores(K, 0.5), **CLOSE)


# --- KORS ---------------------------------------------------------------------


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("name", ALL_KERNELS)
def test_kors_closed_form_equals_eq6(name, duplicates):
    X, _, u = stream(3, n=100, duplicates=duplicates)
    a = kors.kors(X, ALL_KERNELS[name], 0.7, 0.5, 1.0, u)
    b = kors.kors_eq6(X, ALL_KERNELS[name], 0.7, 0.5, 1.0, u)
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_allclose(a[1], b[1], **CLOSE)
    assert a[2] == b[2] == list(np.flatnonzero(a[0]))


def test_kors_first_point_may_be_refused_and_duplicates_may_enter():
    x = np.zeros((1, 2))
    _, p, _ = kors.kors(x, GAUSSIAN, 1.0, 0.5, 1.0, [0.9])
    assert p[0] == pytest.approx(1.5 / 2)
    accepted, p, _ = kors.kors(np.zeros((5, 2)), GAUSSIAN, 1.0, 0.5, 1.0, np.zeros(5))
    assert accepted.all() and (p > 0).all() and (np.diff(p) < 0).all()


def test_kors_with_a_budget_is_kors_until_the_budget_is_full():
    X, _, u = stream(4)
    _, _, dictionary = kors.kors(X, GAUSSIAN, 0.5, 0.5, 1.0, u)
    _, _, held = kors.kors(X, GAUSSIAN, 0.5, 0.5, 1.0, u, budget=7)
    assert len(dictionary) > 7 and held == dictionary[:7]


# --- features -----------------------------------------------------------------


def test_taylor_features_approach_the_gaussian_kernel_and_have_the_binomial_number():
    X, _, _ = stream(5, n=20)
    Phi = features.taylor(X, 12, bandwidth=1.2)
    assert Phi.shape[1] == comb(12 + 2, 2)
    np.testing.assert_allclose(Phi @ Phi.T, kernels.gaussian(X, X, 1.2), atol=1e-6, rtol=1e-7)


def test_taylor_gram_matrix_is_the_truncated_series():
    """The multinomial theorem (A2): sum_{m <= M} (x'z/s^2)^m/m! exp(-(|x|^2+|z|^2)/(2 s^2))."""
    X, _, _ = stream(6, n=10, d=3)
    Phi, G = features.taylor(X, 2, 1.5), X @ X.T / 1.5**2
    norms = np.exp(-np.sum(X**2, 1) / (2 * 1.5**2))
    series = norms[:, None] * norms * (1 + G + G**2 / 2)
    np.testing.assert_allclose(Phi @ Phi.T, series, **CLOSE)


def test_fourier_features_approach_the_gaussian_kernel():
    X, _, _ = stream(7, n=20)
    Phi = features.fourier(X, 4000, random_state=3, bandwidth=0.8)
    assert Phi.shape == (20, 8000)
    # Hoeffding: 190 pairs, |cos| <= 1, failure probability 1e-6.
    assert np.abs(Phi @ Phi.T - GAUSSIAN(X, X)).max() < np.sqrt(2 * np.log(2 * 190 / 1e-6) / 4000)


def test_nystrom_features_reproduce_the_kernel_on_the_span_of_the_dictionary():
    X, _, _ = stream(8, n=30, duplicates=True)
    Phi = features.nystrom(X, X[:8], GAUSSIAN)
    K = GAUSSIAN(X, X)
    np.testing.assert_allclose(Phi[:8] @ Phi.T, K[:8], **CLOSE)
    F = features.root(K)
    np.testing.assert_allclose(
        Phi @ Phi.T, F @ features.projector(F[:8]) @ F.T, atol=1e-7, rtol=1e-7
    )


def test_nystrom_map_drops_the_directions_of_duplicates():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    E = features.nystrom_map(GAUSSIAN(X, X))
    assert E.shape == (2, 3)
    np.testing.assert_allclose(E.T @ E, np.linalg.pinv(GAUSSIAN(X, X)), **CLOSE)


# --- AWV ----------------------------------------------------------------------


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("name", ALL_KERNELS)
def test_kernel_awv_is_feature_awv_in_the_root_of_the_kernel(name, anticipate):
    X, y, _ = stream(9, n=60, duplicates=True)
    k = ALL_KERNELS[name]
    a = awv.kernel_awv(X, y, k, 1.0, anticipate)
    np.testing.assert_allclose(
        a, awv.feature_awv(features.root(k(X, X)), y, 1.0, anticipate), **CLOSE
    )
    assert a[0] == 0


def test_awv_is_ridge_divided_by_one_plus_q():
    X, y, _ = stream(10)
    q = regret.novelties(GAUSSIAN(X, X), 1.0)
    ridge = awv.kernel_awv(X, y, GAUSSIAN, 1.0, False)
    np.testing.assert_allclose(awv.kernel_awv(X, y, GAUSSIAN, 1.0, True), ridge / (1 + q), **CLOSE)


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("duplicates", [False, True])
def test_exact_nystrom_awv_least_squares_equals_projection_of_the_past(anticipate, duplicates):
    X, y, u = stream(11, n=80, duplicates=duplicates)
    accepted, _, _ = kors.kors(X, ALL_KERNELS["laplacian"], 1.0, 0.5, 1.0, u)
    args = (X, y, ALL_KERNELS["laplacian"], 1.0, anticipate, accepted)
    a, b = awv.nystrom_awv_exact(*args), awv.nystrom_awv_exact_by_projection(*args)
    np.testing.assert_allclose(a, b, **CLOSE)
    assert np.abs(a - awv.nystrom_awv_projected(*args)).max() > 1e-4


def _append_awv(X, y, kernel, alpha, anticipate, accepted):
    """Projected history in Cholesky coordinates: append alpha to A, 0 to b (1.7); no duplicates."""
    L, A, b, J, out = np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0), [], []
    for t in range(len(y)):
        if accepted[t]:
            J.append(t)
            L = np.linalg.cholesky(kernel(X[J], X[J]))
            A = np.block([[A, np.zeros((len(A), 1))], [np.zeros((1, len(A))), alpha * np.eye(1)]])
            b = np.append(b, 0.0)
        v = np.linalg.solve(L, kernel(X[J], X[t : t + 1])[:, 0]) if J else np.zeros(0)
        with_row = A + np.outer(v, v)
        out.append(v @ np.linalg.solve(with_row if anticipate else A, b))
        A, b = with_row, b + y[t] * v
    return np.array(out)


@pytest.mark.parametrize("anticipate", [True, False])
def test_projected_nystrom_awv_appends_in_cholesky_coordinates(anticipate):
    X, y, u = stream(12)
    kernel = ALL_KERNELS["laplacian"]
    accepted, _, _ = kors.kors(X, kernel, 1.0, 0.5, 1.0, u)
    np.testing.assert_allclose(
        awv.nystrom_awv_projected(X, y, kernel, 1.0, anticipate, accepted),
        _append_awv(X, y, kernel, 1.0, anticipate, accepted),
        **CLOSE,
    )


@pytest.mark.parametrize("anticipate", [True, False])
def test_nystrom_awv_with_every_point_is_kernel_awv(anticipate):
    X, y, _ = stream(13, n=60)
    everything = np.ones(60, bool)
    kernel = ALL_KERNELS["laplacian"]
    expected = awv.kernel_awv(X, y, kernel, 1.0, anticipate)
    for twin in (awv.nystrom_awv_exact, awv.nystrom_awv_projected):
        np.testing.assert_allclose(
            twin(X, y, kernel, 1.0, anticipate, everything), expected, **CLOSE
        )
    np.testing.assert_allclose(
        awv.nystrom_awv_fixed(X, y, kernel, 1.0, anticipate, X), expected, **CLOSE
    )


@pytest.mark.parametrize("anticipate", [True, False])
def test_fixed_nystrom_awv_is_feature_awv_of_the_nystrom_map(anticipate):
    X, y, _ = stream(14)
    points = X[[3, 50, 7, 7, 90]]
    np.testing.assert_allclose(
        awv.nystrom_awv_fixed(X, y, GAUSSIAN, 1.0, anticipate, points),
        awv.feature_awv(features.nystrom(X, points, GAUSSIAN), y, 1.0, anticipate),
        **CLOSE,
    )


def test_columns_of_targets_are_independent_streams():
    X, y, u = stream(15, n=50)
    accepted = u < 0.2
    Y = np.column_stack([y, y[::-1], -y])
    for twin in (
        lambda Y: awv.kernel_awv(X, Y, GAUSSIAN, 1.0, True),
        lambda Y: awv.nystrom_awv_exact(X, Y, GAUSSIAN, 1.0, True, accepted),
        lambda Y: awv.nystrom_awv_exact_by_projection(X, Y, GAUSSIAN, 1.0, True, accepted),
        lambda Y: awv.nystrom_awv_projected(X, Y, GAUSSIAN, 1.0, True, accepted),
        lambda Y: awv.nystrom_awv_fixed(X, Y, GAUSSIAN, 1.0, True, X[:5]),
    ):
        together = twin(Y)
        assert together.shape == Y.shape
        for j in range(3):
            np.testing.assert_allclose(together[:, j], twin(Y[:, j]), **CLOSE)


# --- regret -------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_regret_supremum_of_kernel_awv_has_the_closed_form_b4(alpha):
    X, y, _ = stream(16)
    value = regret.regret_supremum(X, y, GAUSSIAN, alpha)
    assert value == pytest.approx(regret.regret_supremum_closed_form(X, y, GAUSSIAN, alpha))
    predictions = awv.kernel_awv(X, y, GAUSSIAN, alpha, True)
    best = regret.best_regularised_loss(GAUSSIAN(X, X), y, alpha)
    assert value == pytest.approx(np.sum((y - predictions) ** 2) - best)
    assert value <= np.max(y**2) * leverage.online_effective_dimension(GAUSSIAN(X, X), alpha)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("name", ["gaussian", "laplacian", "linear"])
def test_online_dimension_log_det_and_effective_dimension_are_in_order(name, alpha):
    X, _, _ = stream(17)
    low, middle, high = regret.log_det_chain(ALL_KERNELS[name](X, X), alpha)
    assert low <= middle <= high


def test_log_det_is_the_sum_of_log_one_plus_q():
    X, _, _ = stream(18)
    K = GAUSSIAN(X, X)
    assert regret.log_det(K, 1.0) == pytest.approx(np.log1p(regret.novelties(K, 1.0)).sum())


# --- ONS, KONS, Sketched-KONS -------------------------------------------------


@pytest.mark.parametrize("eta", ["auto", "convex", 0.1, lambda t, C: 0.3 / (C * t)])
@pytest.mark.parametrize("clip", ["auto", 0.6, 2.0])
@pytest.mark.parametrize("loss", losses.LOSSES)
@pytest.mark.thinned
def test_kons_is_ons_in_the_root_of_the_kernel(loss, clip, eta):
    X, y, _ = stream(19, n=80, signs=loss in MARGIN)
    args = (X, y, GAUSSIAN, 2.0, loss, eta, clip)
    np.testing.assert_allclose(ons.kons(*args), ons.kons_explicit(*args), **CLOSE)


@pytest.mark.parametrize("name", ALL_KERNELS)
def test_kons_is_ons_for_every_kernel(name):
    X, y, _ = stream(20, duplicates=True)
    args = (X, y, ALL_KERNELS[name], 2.0, "squared", "auto", "auto")
    np.testing.assert_allclose(ons.kons(*args), ons.kons_explicit(*args), **CLOSE)


def test_kons_with_a_linear_kernel_is_ons_on_the_inputs():
    X, y, _ = stream(21)
    np.testing.assert_allclose(
        ons.kons(X, y, kernels.linear, 1.0, "squared", "auto", "auto"),
        ons.ons(X, y, 1.0, "squared", "auto", "auto"),
        **CLOSE,
    )


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "hinge"])
def test_kons_handles_a_zero_gradient_at_a_clipped_prediction(loss):
    """N3: gd = 0 while h(yb) != 0, where the b_i of Lemma 1 would be 0/0."""
    X, _, _ = stream(22, n=60)
    y = np.where(X[:, 0] >= -0.7, 1.0, -1.0)
    wide = partial(kernels.gaussian, bandwidth=2.0)
    args = (X, y, wide, 1.0, loss, 0.05, 1.0)
    a = ons.kons(*args)
    np.testing.assert_allclose(a, ons.kons_explicit(*args), **CLOSE)
    slope = losses.get(loss).slope
    clipped = [t for t in range(60) if abs(a[t]) == 1.0]
    assert any(slope(a[t], y[t]) == 0 for t in clipped)
    # The projection must not be lost: an unclipped run that never projects differs.
    assert np.abs(a - np.clip(ons.kons(*args[:-1], 1e9), -1, 1)).max() > 1e-4


def test_no_prediction_leaves_the_clip():
    X, y, u = stream(23)
    largest = np.append(0, np.maximum.accumulate(np.abs(y))[:-1])
    for p in (
        ons.kons(X, 5 * y, GAUSSIAN, 0.1, "squared", "auto", "auto"),
        pros.pros_n_kons(
            X, 5 * y, GAUSSIAN, 0.1, 1, 0.5, 1, u, "squared", "auto", "auto", restart=False
        )[0],
    ):
        assert (np.abs(p) <= 5 * largest).all()


@pytest.mark.parametrize("loss", [n for n in losses.LOSSES if n not in MARGIN])
def test_nothing_is_learned_while_the_clip_is_zero(loss):
    """Rows with y = 0 before the first other label leave no trace (with an eta that ignores t)."""
    X, y, _ = stream(24, n=50)
    y[:5] = 0.0
    whole = ons.kons(X, y, GAUSSIAN, 2.0, loss, 0.1, "auto")
    assert (whole[:6] == 0).all()
    rest = ons.kons(X[5:], y[5:], GAUSSIAN, 2.0, loss, 0.1, "auto")
    np.testing.assert_allclose(whole[5:], rest, **CLOSE)


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("floor", [0.0, 0.3])
@pytest.mark.parametrize("loss", losses.LOSSES)
@pytest.mark.thinned
def test_sketched_kons_is_ons_with_a_sketched_second_order_matrix(loss, floor, duplicates):
    X, y, u = stream(25, n=80, signs=loss in MARGIN, duplicates=duplicates)
    for eta, clip in (("auto", "auto"), (0.2, 0.8)):
        args = (X, y, GAUSSIAN, 2.0, floor, 0.5, 1.0, u, loss, eta, clip)
        a, b = ons.sketched_kons(*args), ons.sketched_kons_explicit(*args)
        np.testing.assert_array_equal(a[1], b[1])
        np.testing.assert_array_equal(a[2], b[2])
        np.testing.assert_allclose(a[0], b[0], **CLOSE)
        assert (a[1] >= a[2]).all()  # KORS's dictionary is inside the sketch (S2)


def test_sketched_kons_that_samples_every_row_is_kons():
    X, y, u = stream(26)
    common = (X, y, GAUSSIAN, 2.0)
    sketched, z, _ = ons.sketched_kons(*common, 1.0, 0.5, 1.0, u, "squared", "auto", "auto")
    assert z.all()
    np.testing.assert_allclose(sketched, ons.kons(*common, "squared", "auto", "auto"), **CLOSE)


def test_lemma_4_as_printed_is_not_the_recursion():
    """S1: without z in c_t = eta z gd^2 yhat - gd - h/q the predictions differ."""
    X, y, u = stream(27)
    args = (X, y, GAUSSIAN, 1.0, 0.2, 0.5, 1.0, u, "squared", 0.2, 2.0)
    right, z, _ = ons.sketched_kons(*args)
    assert 0 < z.sum() < len(z)
    K, c, d, wrong = GAUSSIAN(X, X), np.zeros(120), np.zeros(120), np.zeros(120)
    for t in range(120):
        raw, q = ons._raw_prediction(K, t, c, d, np.flatnonzero(z[:t]), 1.0)
        h, wrong[t] = ons.excess(raw, 2.0), ons.clipped(raw, 2.0)
        g = 2 * (wrong[t] - y[t])
        c[t], d[t] = 0.2 * g**2 * wrong[t] - g - h / q, g * np.sqrt(0.2)
    assert np.abs(wrong - right).max() > 0.01


# --- PROS-N-KONS, B-KONS, CON-KONS --------------------------------------------

LAPLACIAN = ALL_KERNELS["laplacian"]


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("eta, clip", [("auto", "auto"), ("convex", "auto"), (0.2, 0.7)])
@pytest.mark.parametrize("loss", losses.LOSSES)
@pytest.mark.thinned
def test_pros_n_kons_is_ons_on_projected_features(loss, eta, clip, restart):
    X, y, u = stream(28, n=100, signs=loss in MARGIN)
    args = (X, y, LAPLACIAN, 2.0, 1.0, 0.5, 1.0, u, loss, eta, clip, restart)
    a, b = pros.pros_n_kons(*args), pros.pros_n_kons_explicit(*args)
    np.testing.assert_array_equal(a[1], b[1])
    assert 3 < a[1].sum() < 80
    np.testing.assert_allclose(a[0], b[0], **CLOSE)


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("loss", losses.LOSSES)
def test_pros_n_kons_survives_duplicates_in_the_dictionary(loss, restart):
    X, y, u = stream(29, n=120, signs=loss in MARGIN, duplicates=True)
    args = (X, y, LAPLACIAN, 2.0, 0.5, 0.5, 2.0, u, loss, "auto", "auto", restart)
    a, b = pros.pros_n_kons(*args), pros.pros_n_kons_explicit(*args)
    held = X[a[1]]
    assert len(np.unique(held, axis=0)) < len(held)
    np.testing.assert_allclose(a[0], b[0], **CLOSE)


@pytest.mark.parametrize("restart", [True, False])
def test_b_kons_is_pros_n_kons_while_the_budget_is_not_exceeded(restart):
    X, y, u = stream(30)
    args = (X, y, LAPLACIAN, 1.0, 1.0, 0.5, 1.0, u, "squared", "auto", "auto", restart)
    free, accepted = pros.pros_n_kons(*args)
    total = int(accepted.sum())
    same, _ = pros.pros_n_kons(*args, budget=total)
    np.testing.assert_array_equal(free, same)
    small, flags = pros.pros_n_kons(*args, budget=6)
    assert flags.sum() == 6 < total
    # The seventh addition would have been felt one row later (P1).
    seventh = np.flatnonzero(accepted)[6]
    np.testing.assert_array_equal(free[: seventh + 1], small[: seventh + 1])
    assert not np.array_equal(free, small)


def test_a_row_after_an_addition_predicts_zero_when_restarting():
    X, y, u = stream(31)
    p, accepted = pros.pros_n_kons(
        X, y, LAPLACIAN, 1.0, 1.0, 0.5, 1.0, u, "squared", "auto", "auto"
    )
    assert (p[1:][accepted[:-1]] == 0).all()
    assert (p[1:][~accepted[:-1]][20:] != 0).all()


def test_con_kons_appends_in_cholesky_coordinates():
    """1.6: with phi = L^-1 k, carrying over appends 0 to w and alpha to the diagonal of A."""
    X, y, u = stream(32)
    alpha, C, eta = 2.0, 0.8, 0.1
    args = (X, y, LAPLACIAN, alpha, 1.0, 0.5, 1.0, u, "squared", eta, C, False)
    expected, accepted = pros.pros_n_kons(*args)
    A, w, g, J, out = np.zeros((0, 0)), np.zeros(0), np.zeros(0), [], []
    for t in range(len(y)):
        w = w - np.linalg.solve(A, g)
        if t and accepted[t - 1]:
            J.append(t - 1)
            A = np.block([[A, np.zeros((len(A), 1))], [np.zeros((1, len(A))), alpha * np.eye(1)]])
            w = np.append(w, 0.0)
        L = np.linalg.cholesky(LAPLACIAN(X[J], X[J]))
        phi = np.linalg.solve(L, LAPLACIAN(X[J], X[t : t + 1])[:, 0])
        w, prediction = ons.project(w, phi, A, C)
        g = 2 * (prediction - y[t]) * phi
        A = A + eta * np.outer(g, g)
        out.append(prediction)
    np.testing.assert_allclose(expected, out, **CLOSE)


def test_con_kons_by_eigh_needs_nested_spans(monkeypatch):
    """The eigenvalue cut breaks 1.6's identity: a direction kept before may be dropped after.

    With a smooth kernel and a small gamma the cut at 1e-10 bites, the spans are not
    nested, and 1.5's map no longer gives ONS on P_j phi_t; a finer cut restores it.
    """
    X, y, u = stream(0, n=150)
    args = (X, y, GAUSSIAN, 0.1, 0.1, 0.5, 1.0, u, "squared", "auto", "auto", False)

    def gap():
        return np.abs(pros.pros_n_kons(*args)[0] - pros.pros_n_kons_explicit(*args)[0]).max()

    assert gap() > 1e-5
    monkeypatch.setattr(features, "CUTOFF", 1e-13)
    assert gap() < 1e-7


# --- labels -------------------------------------------------------------------


def _scorer(X, targets):
    return awv.kernel_awv(X, targets, GAUSSIAN, 1.0, True)


def _classify(*names):
    names = list(names)
    X, _, _ = stream(33, n=len(names))
    return labels.classifier_awv(X, names, _scorer)


@pytest.mark.parametrize(
    "seen, known",
    [
        ([], []),
        ([1], [-1, 1]),
        ([-1], [-1, 1]),
        ([0], [0, 1]),
        ([1, 0], [0, 1]),
        ([1, -1], [-1, 1]),
        ([1, 2], [1, 2]),
        ([0, -1], [-1, 0]),
        ([7], [7]),
        ([7, 3], [3, 7]),
        ([True], [False, True]),
        (["b"], ["b"]),
        (["b", "a"], ["a", "b"]),
        ([1, 2, 0], [0, 1, 2]),
    ],
)
def test_coded_classes_are_the_sorted_labels_or_a_provisional_pair(seen, known):
    assert labels.coded_classes(seen) == known


@pytest.mark.parametrize("seen", [[3, 4], [True, False], ["x", "y"]])
def test_there_is_no_prediction_before_the_first_label(seen):
    predicted, _ = _classify(*seen)
    assert predicted == [None, seen[0]]


def test_a_lone_label_outside_the_pairs_is_predicted_itself():
    predicted, decision = _classify(5, 5, 5, 5)
    assert predicted == [None, 5, 5, 5]
    assert decision.shape == (4,) and (decision[1:] < 0).all() and decision[0] == 0


def test_predictions_name_only_labels_that_were_given():
    X = np.array([[0.0], [0.0], [0.0]])

    def negative(X, targets):
        return np.full((len(X), targets.shape[1]), -1.0)

    assert labels.classifier_awv(X, [1, 1, 1], negative)[0] == [None, 1, 1]
    assert labels.classifier_awv(X, [1, 0, 1], negative)[0] == [None, 1, 0]
    assert labels.classifier_awv(X, [True, True, True], negative)[0] == [None, True, True]
    assert labels.classifier_awv(X, [1, 2, 2], negative)[0] == [None, 1, 1]


def test_a_second_label_that_sorts_first_turns_the_sign():
    _, up = _classify(5, 7, 5, 7, 7)
    _, down = _classify(5, 3, 5, 3, 3)
    np.testing.assert_allclose(up, -down, **CLOSE)


def test_spelling_of_a_pair_does_not_matter():
    signs = [1, 1, -1, 1, -1, -1, 1, -1]
    _, reference = _classify(*signs)
    for low, high in ((0, 1), (False, True), ("n", "p"), (4, 9)):
        predicted, decision = _classify(*[high if s > 0 else low for s in signs])
        np.testing.assert_allclose(decision, reference, **CLOSE)
        assert predicted[3:] == [high if d >= 0 else low for d in decision[3:]]


def test_a_class_enters_as_if_all_earlier_rows_had_been_negative():
    names = ["b", "a", "b", "c", "a", "c", "b", "d"]
    X, _, _ = stream(33, n=8)
    predicted, decision = labels.classifier_awv(X, names, _scorer)
    assert decision.shape == (8, 4)
    for j, name in enumerate("abcd"):
        column = awv.kernel_awv(X, np.where(np.array(names) == name, 1.0, -1.0), GAUSSIAN, 1, True)
        np.testing.assert_allclose(decision[:, j], column, **CLOSE)
    for t in range(4, 8):  # a, b, c known; d only after the last row
        assert predicted[t] == "abc"[int(np.argmax(decision[t, :3]))]


def test_ties_between_many_classes_go_to_the_lowest():
    X = np.zeros((4, 1))
    zero = lambda X, targets: np.zeros((len(X), targets.shape[1]))  # noqa: E731
    predicted, _ = labels.classifier_awv(X, ["b", "c", "a", "a"], zero)
    assert predicted == [None, "b", "c", "a"]


def test_predictions_use_labels_of_earlier_rows_only():
    names = ["b", "a", "b", "c", "a", "c", "b", "d", "a", "b"]
    X, _, _ = stream(33, n=10)
    whole, _ = labels.classifier_awv(X, names, _scorer)
    for t in range(1, 10):
        assert labels.classifier_awv(X[:t], names[:t], _scorer)[0] == whole[:t]
