"""The papers' bounds: their formulas, their premises, and that measured regret stays below.

The theorems are loose at these sizes; the sharp checks are 2R <= alpha |w|^2 + R_G + R_D (Prop. 1
of the KONS paper with its factor 2), for every run and every epoch, and Kernel-AWV's closed form.
"""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import pronk
from naive import awv, features, kors, leverage, losses, ons, pros, regret
from pronk import Gaussian, Laplacian
from pronk.core.losses import LOSSES, get_loss
from pronk.regret import (
    NewtonTerms,
    best_in_hindsight,
    best_in_span,
    best_with_features,
    bound_for,
    cumulative_regret,
    dimension_chain,
    effective_dimension,
    kernel_awv_bound,
    kons_bound,
    kons_convex_bound,
    kons_step_bound,
    kors_beta,
    kors_gap,
    kors_size_bound,
    log_determinant,
    log_determinant_bound,
    newton_bound,
    newton_terms,
    penalised_regret,
    pkawv_bound,
    pkawv_kors_bound,
    pkawv_taylor_bound,
    pros_n_kons_bound,
    pros_n_kons_squared_bound,
    regret_against_best,
    sketched_kons_bound,
    taylor_degree,
    taylor_gap,
)

CURVED = ["squared", "logistic", "squared_hinge"]
MARGIN = [name for name in LOSSES if LOSSES[name].task == "classification"]
KERNEL = Gaussian(0.7)


def stream(seed, n=120, signs=False):
    """Labels in [-1, 1], KORS's uniforms."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.clip(np.sin(3 * X[:, 0]) + 0.4 * rng.standard_normal(n), -1, 1)
    return X, np.where(y >= 0, 1.0, -1.0) if signs else y, rng.random(n)


def etas_of(eta, loss, n, clip):
    return np.array([ons.coefficient(eta, loss, t + 1, clip) for t in range(n)])


# --- the quantities -------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 1.0, 10.0])
def test_the_chain_is_the_naive_one_and_increases(alpha):
    X, _, _ = stream(0)
    for kernel in (KERNEL, Laplacian(1.0)):
        K = kernel(X, X)
        chain = dimension_chain(K, alpha)
        np.testing.assert_allclose(chain, regret.log_det_chain(K, alpha), rtol=1e-8, atol=0)
        assert chain == tuple(sorted(chain))
        assert chain.log_determinant <= log_determinant_bound(
            len(X), alpha, effective_dimension(K, alpha)
        )


def test_rescaling_rows_lowers_the_dimensions():
    """d_eff of D K D is at most that of eta L^2 K, which turns Lemma 3 into the theorems."""
    X, _, _ = stream(1)
    K, rng = KERNEL(X, X), np.random.default_rng(2)
    D = rng.uniform(-1, 1, len(X)) * np.sqrt(0.3) * 4.0
    rescaled = D[:, None] * K * D
    for alpha in (0.1, 1.0, 10.0):
        smaller, larger = rescaled, 0.3 * 16 * K
        assert effective_dimension(smaller, alpha) <= effective_dimension(K, alpha / (0.3 * 16))
        assert log_determinant(smaller, alpha) <= log_determinant(larger, alpha)


# --- formulas and premises --------------------------------------------------------


def test_formulas_at_numbers_worked_out_by_hand():
    assert kors_beta(100, 0.5, 0.1) == pytest.approx(12 * math.log(1000))
    assert kors_gap(0.3, 0.25) == pytest.approx(0.1)
    assert kors_size_bound(100, 5.0, 0.5, 2.0, 0.1) == pytest.approx(90 * math.log(2000))
    assert kernel_awv_bound(0.5, 4.0, 3.0, 2.0) == pytest.approx(14.0)
    assert pkawv_bound(10, 0.5, 4.0, 3.0, 2.0, 0.1) == pytest.approx(14 + 4 * 0.6 * 10 * 0.1 / 0.25)
    assert pkawv_kors_bound(10, 0.5, 4.0, 3.0, 2.0, 0.1, 6) == pytest.approx(
        2 + 4 * 3 * math.log(math.e * 21) + 2 * 4 * 7 * 10 * 0.1 / 0.5
    )
    assert taylor_degree(1000, 0.1, 1.0, 1.0) == math.ceil(2 * math.log(1e4))
    assert taylor_degree(10, 5.0, 2.0, 1.0) == 32
    assert taylor_gap(10, 2.0, 1.0, 3) == pytest.approx(10 * 2**8 / 24)
    assert pkawv_taylor_bound(10, 0.5, 4.0, 3.0, 2.0, 1.0, 1.0, 8) == pytest.approx(20.0)
    assert newton_bound(2.0, 3.0, NewtonTerms(5.0, -1.0)) == pytest.approx(5.0)
    assert kons_step_bound(2.0, 3.0, 5.0, [0.5, 0.25], 0.25, 2.0, 1.0) == pytest.approx(
        6 + 20 + 16 * 0.25
    )
    assert kons_bound(100, 2.0, 3.0, 5.0, 0.125, 4.0) == pytest.approx(
        6 + 2 * 5 * math.log(2 * 0.125 * 16 * 100 / 2) / 0.125
    )
    assert kons_convex_bound(100, 2.0, 3.0, 5.0, 2.0, 1.5) == pytest.approx(
        6 + 4 * 3 * 10 * 5 * math.log(2 * 4 * 100 / 2)
    )
    exact = kons_bound(100, 2.0, 3.0, 5.0, 0.125, 4.0) - 6
    assert sketched_kons_bound(
        100, 2.0, 3.0, 5.0, 0.125, 4.0, floor=0.1, epsilon=0.5
    ) == pytest.approx(6 + exact / 0.05)
    assert sketched_kons_bound(
        100, 2.0, 3.0, 5.0, 0.125, 4.0, floor=0.1, epsilon=0.5, beta=9.0, least_leverage=0.5
    ) == pytest.approx(6 + exact / 0.5)  # beta tau is a probability: at most 1
    log = math.log(2 * 0.125 * 16 * 100 / 2)
    assert pros_n_kons_bound(
        100, 2.0, 1.0, 0.5, 3.0, 5.0, 0.125, 4.0, 1.0, restarts=7, rows_before=2
    ) == pytest.approx(7 * (6 + 32 * 5 * log) + 8 * (100 / 4 + 7) + 2 * 7 * 4 + 2 * 4)
    logs = [math.log(2 * 2 * t / 2) for t in (30.0, 70.0)]
    assert pros_n_kons_squared_bound(
        2.0, 1.0, 0.5, 3.0, 1.0, [4.0, 5.0], [30.0, 70.0], [8.0, 9.0]
    ) == pytest.approx(32 * (4 * logs[0] + 5 * logs[1]) + 17.0 + 2 * (4 + 8 + 6))


def test_a_premise_that_fails_leaves_no_guarantee():
    assert kors_gap(1.0, 1.0) == math.inf
    assert kors_size_bound(100, 5.0, 1.0, 2.0, 0.1) == math.inf
    assert pkawv_kors_bound(10, 0.5, 4.0, 3.0, 2.0, gap=0.6, size=6) == math.inf
    assert pkawv_taylor_bound(10, 0.5, 4.0, 3.0, 2.0, 1.0, 1.0, degree=7) == math.inf
    assert kons_bound(100, 2.0, 3.0, 5.0, 0.125, 4.0, eta=0.2) == math.inf
    assert sketched_kons_bound(100, 2.0, 3.0, 5.0, 0.125, 4.0, 0.0, 0.5, beta=1.0) == math.inf
    assert sketched_kons_bound(100, 2.0, 3.0, 5.0, 0.125, 4.0, 0.5, 1.0) == math.inf
    assert pros_n_kons_bound(100, 1.0, 2.0, 0.5, 3.0, 5.0, 0.125, 4.0, 1.0, 7) == math.inf
    # gamma = alpha and epsilon = 1/2, the setting of the paper's experiments
    args = (3.0, 1.0, [4.0], [30.0], [8.0])
    assert pros_n_kons_squared_bound(1.0, 1.0, 0.5, *args) == math.inf
    assert pros_n_kons_squared_bound(1.0, 1.0, 0.49, *args) < math.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: kernel_awv_bound(0.0, 1.0, 1.0, 1.0),
        lambda: kernel_awv_bound(1.0, -1.0, 1.0, 1.0),
        lambda: kernel_awv_bound(1.0, math.nan, 1.0, 1.0),
        lambda: kons_bound(100, 1.0, 1.0, 1.0, 0.0, 1.0),
        lambda: kons_convex_bound(100, 1.0, 1.0, 1.0, 1.0, 0.0),
        lambda: kors_beta(100, 0.0, 0.1),
        lambda: kors_beta(100, 0.5, 1.1),
        lambda: pros_n_kons_squared_bound(1.0, 0.1, 0.5, 1.0, 1.0, [1.0], [1.0, 2.0], [1.0]),
        lambda: newton_terms(np.eye(2), 1.0, [1.0, 1.0], [0.1, 0.0]),
    ],
)
def test_arguments_that_make_no_sense_are_refused(call):
    with pytest.raises(ValueError, match=r"must|have"):
        call()


def test_the_proofs_own_terms_and_the_border_of_a_bound():
    """Found by mutants: fallbacks compared with their formula, a gap that just fits."""
    x = 0.25 * 2.0 / 3.0  # L^2 n / alpha, where the printed logarithm is negative
    assert kons_convex_bound(2, 3.0, 1.0, 5.0, 0.5, 4.0) == pytest.approx(
        3.0 + 0.5 * 4.0 * math.sqrt(2.0) * (0.5 * 5.0 * (1.0 + math.log1p(x)) + 4.0), rel=1e-12
    )
    fits = pkawv_kors_bound(100, 0.5, 3.0, 5.0, 1.0, gap=0.5, size=7)
    log_det = log_determinant_bound(100, 0.5, 5.0, 1.0)
    assert fits == pytest.approx(0.5 * 3.0 + log_det + 2.0 * 8 * 100 * 0.5 / 0.5, rel=1e-12)
    assert pkawv_kors_bound(100, 0.5, 3.0, 5.0, 1.0, gap=0.51, size=7) == math.inf
    # a clip of 3: with 1 a quotient by it would pass for a product
    log = math.log(2 * 0.125 * 16 * 100 / 2)
    assert pros_n_kons_bound(
        100, 2.0, 1.0, 0.5, 3.0, 5.0, 0.125, 4.0, 3.0, restarts=7, rows_before=2
    ) == pytest.approx(7 * (6 + 32 * 5 * log) + 8 * (100 / 4 + 7) + 12 * (2 * 7 + 2), rel=1e-12)
    logs = [math.log(2 * (144 / 72) * t / 2) for t in (30.0, 70.0)]
    assert pros_n_kons_squared_bound(
        2.0, 1.0, 0.5, 3.0, 3.0, [4.0, 5.0], [30.0, 70.0], [8.0, 9.0], rows_before=2
    ) == pytest.approx(
        288 * (4 * logs[0] + 5 * logs[1]) + 17.0 + 2 * (36 + 72 + 6) + 2 * 36, rel=1e-12
    )


def test_a_small_logarithm_falls_back_to_the_proof():
    """log(2 x) is negative below x = 1/2: the bound must not be."""
    for x in np.geomspace(1e-3, 1e3, 50):
        bound = kons_bound(1, 1.0 / x, 0.0, 1.0, 1.0, 1.0)
        assert bound >= 1 + math.log1p(x)
        if x >= 1.25:
            assert bound == pytest.approx(2 * math.log(2 * x))


# --- AWV ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_kernel_awv_stays_below_its_bound_and_not_far(seed, alpha):
    X, y, _ = stream(seed, signs=seed % 2 == 1)
    learner = pronk.KernelAWVRegressor(KERNEL, alpha=alpha)
    predictions = learner.predict_then_learn(X, y)
    supremum = penalised_regret(predictions, X, y, KERNEL, alpha)[-1]
    log_det = log_determinant(KERNEL(X, X), alpha)
    assert 0.05 * log_det < supremum <= kernel_awv_bound(alpha, 0.0, log_det, np.abs(y).max())
    measured = regret_against_best(predictions, X, y, KERNEL, alpha=alpha)
    assert measured.regret <= bound_for(learner, X, y, measured.best)


@pytest.mark.parametrize("degree", [2, 4])
def test_pkawv_on_few_features_pays_for_the_gap(degree):
    X, y, _ = stream(5)
    kernel, alpha = Gaussian(1.5), 0.5
    Phi = features.taylor(X, degree, 1.5)
    predictions = awv.feature_awv(Phi, y, alpha, True)
    K = kernel(X, X)
    gap = np.linalg.eigvalsh(K - Phi @ Phi.T)[-1]
    assert gap <= taylor_gap(len(X), np.linalg.norm(X, axis=1).max(), 1.5, degree)
    supremum = penalised_regret(predictions, X, y, kernel, alpha)[-1]
    assert supremum <= pkawv_bound(
        len(X), alpha, 0.0, log_determinant(K, alpha), np.abs(y).max(), gap
    )


def test_pkawv_learners_stay_below_their_theorems():
    X, y, _ = stream(6)
    wide = Gaussian(2.0)
    degree = taylor_degree(len(X), 1.0, np.linalg.norm(X, axis=1).max(), 2.0)
    for learner in (
        pronk.PKAWVRegressor(wide, features="taylor", degree=degree),
        pronk.PKAWVRegressor(wide, features="taylor", degree=3),
        pronk.PKAWVRegressor(wide, dictionary=X[:8]),
        pronk.PKAWVRegressor(
            wide, history="exact", gamma=0.05, beta=kors_beta(len(X), 0.5, 0.1), random_state=0
        ),
    ):
        predictions = learner.predict_then_learn(X, y)
        measured = regret_against_best(predictions, X, y, wide)
        assert measured.regret <= bound_for(learner, X, y, measured.best) < math.inf


def test_kors_event_and_size_on_a_run_with_the_proven_oversampling():
    X, _, u = stream(7, n=200)
    gamma, epsilon, delta = 0.5, 0.9, 0.1
    beta = kors_beta(len(X), epsilon, delta)
    accepted, _, _ = kors.kors(X, KERNEL, gamma, epsilon, beta, u)
    K = KERNEL(X, X)
    F = features.root(K)
    P = features.projector(F[accepted])
    assert np.linalg.eigvalsh(K - F @ P @ F.T)[-1] <= kors_gap(gamma, epsilon)
    assert accepted.sum() <= kors_size_bound(
        len(X), leverage.effective_dimension(K, gamma), epsilon, beta, delta
    )


# --- online Newton ----------------------------------------------------------------


@pytest.mark.parametrize("eta", ["auto", "convex"])
@pytest.mark.parametrize("loss", [*CURVED, "hinge", "absolute"])
@pytest.mark.parametrize("clip", [1.0, 2.0])
def test_twice_the_regret_is_below_penalty_gradients_and_curvature(loss, clip, eta):
    """Prop. 1 with its factor 2, against several comparators in the clip."""
    X, y, _ = stream(8, n=100, signs=loss in MARGIN)
    alpha, rng, K = 1.0, np.random.default_rng(9), KERNEL(X, X)
    predictions = ons.kons(X, y, KERNEL, alpha, loss, eta, clip)
    etas = etas_of(eta, loss, len(y), clip)
    slopes, sigma = get_loss(loss).slope(predictions, y), get_loss(loss).curvature(clip)
    coefficients = [best_in_hindsight(X, y, KERNEL, loss, a).coefficients for a in (0.05, 1.0)]
    if loss in CURVED:
        inside = regret.best_within_clip(K, y, loss, alpha, clip)[0]
        coefficients.append(np.linalg.lstsq(K, inside, rcond=1e-8)[0])
    coefficients += [rng.standard_normal(len(y)) for _ in range(3)] + [np.zeros(len(y))]
    for c in coefficients:
        c = c * min(1.0, clip / max(np.abs(K @ c).max(), 1e-300))
        f, norm2 = K @ c, c @ K @ c
        terms = newton_terms(K, alpha, slopes, etas, sigma, predictions, f)
        measured = cumulative_regret(predictions, y, f, loss)[-1]
        assert measured <= newton_bound(alpha, norm2, terms) + 1e-9
        d_onl = leverage.online_effective_dimension(
            (slopes**2 * etas)[:, None] ** 0.5 * K * (slopes**2 * etas) ** 0.5, alpha
        )
        L = get_loss(loss).lipschitz(clip)
        assert newton_bound(alpha, norm2, terms) <= kons_step_bound(
            alpha, norm2, d_onl, etas, sigma, L, clip
        )


def test_without_the_curvature_term_prop_1_would_fail():
    """The check can fail: with a far too large eta the first two terms alone are not enough."""
    X, y, _ = stream(10, n=100, signs=True)
    K = KERNEL(X, X)
    predictions = ons.kons(X, y, KERNEL, 1.0, "squared", 10.0, 1.0)
    best = best_in_hindsight(X, y, KERNEL, alpha=0.05).within(1.0)
    terms = newton_terms(K, 1.0, 2 * (predictions - y), 10.0, 1 / 8, predictions, best.predictions)
    measured = cumulative_regret(predictions, y, best.predictions)[-1]
    assert measured <= newton_bound(1.0, best.norm2, terms)
    assert measured > newton_bound(1.0, best.norm2, NewtonTerms(terms.gradients, 0.0))


@pytest.mark.parametrize("loss", CURVED)
@pytest.mark.parametrize("seed", range(3))
def test_kons_stays_below_theorem_1(loss, seed):
    X, y, _ = stream(11 + seed, signs=loss in MARGIN)
    regression = loss == "squared"
    make = pronk.KONSRegressor if regression else pronk.KONSClassifier
    learner = make(KERNEL, alpha=1.0, clip=1.0, loss=loss)
    output = {} if regression else {"output": "decision"}
    predictions = learner.predict_then_learn(X, y, **output)
    np.testing.assert_allclose(
        predictions, ons.kons(X, y, KERNEL, 1.0, loss, "auto", 1.0), atol=1e-7, rtol=1e-7
    )
    inside, norm2 = regret.best_within_clip(KERNEL(X, X), y, loss, 0.1, 1.0)
    best = replace(best_in_hindsight(X, y, KERNEL, loss), predictions=inside, norm2=norm2)
    measured = regret_against_best(predictions, X, y, loss=loss, best=best)
    assert 0 < measured.regret <= bound_for(learner, X, y, best) < math.inf


def test_kons_on_the_hinge_stays_below_the_convex_bound():
    X, y, _ = stream(14, signs=True)
    learner = pronk.KONSClassifier(KERNEL, clip=1.0, loss="hinge", eta="convex")
    predictions = learner.predict_then_learn(X, y, output="decision")
    measured = regret_against_best(predictions, X, y, KERNEL, "hinge", alpha=0.1, clip=1.0)
    assert measured.regret <= bound_for(learner, X, y, measured.best) < math.inf


@pytest.mark.parametrize("seed", range(3))
def test_sketched_kons_stays_below_theorem_3(seed):
    X, y, u = stream(15 + seed)
    args = (X, y, KERNEL, 1.0, 0.2, 0.5, kors_beta(len(y), 0.5, 0.1), u, "squared", "auto", 1.0)
    predictions, _, _ = ons.sketched_kons(*args)
    measured = regret_against_best(predictions, X, y, KERNEL, alpha=0.1, clip=1.0)
    K, eta = KERNEL(X, X), 1 / 16
    slopes = 2 * (predictions - y)
    D = slopes * np.sqrt(eta)
    least = leverage.online_leverage_scores(D[:, None] * K * D, 1.0)[slopes != 0].min()
    d = effective_dimension(K, 1.0 / (eta * 16))
    assert measured.regret <= sketched_kons_bound(
        len(y), 1.0, measured.best.norm2, d, 1 / 8, 4.0, 0.2, 0.5,
        beta=args[6], least_leverage=least, eta=eta,
    )  # fmt: skip


def epochs_of(accepted):
    """Slices of rows that share a dictionary: a new one begins after each accepted row."""
    starts = [0, *(np.flatnonzero(accepted) + 1), len(accepted)]
    return [slice(a, b) for a, b in pairwise(starts) if b > a]


@pytest.mark.parametrize("loss", CURVED)
@pytest.mark.parametrize("seed", range(3))
def test_every_epoch_of_pros_n_kons_obeys_prop_1(loss, seed):
    """All rows of an epoch count, the last one too: its update exists, though nobody uses it."""
    X, y, u = stream(18 + seed, n=150, signs=loss in MARGIN)
    alpha, clip = 1.0, 1.0
    predictions, accepted = pros.pros_n_kons(
        X, y, KERNEL, alpha, 1.0, 0.5, 1.0, u, loss, "auto", clip
    )
    sigma = get_loss(loss).curvature(clip)
    checked = 0
    for rows in epochs_of(accepted):
        J = np.flatnonzero(accepted[: rows.start])
        if not len(J):
            continue
        Phi = features.nystrom(X[rows], X[J], KERNEL)
        slopes = get_loss(loss).slope(predictions[rows], y[rows])
        for penalty in (0.02, 1.0):
            best = best_with_features(Phi, y[rows], loss, penalty).within(clip)
            terms = newton_terms(
                Phi @ Phi.T, alpha, slopes, sigma / 2, sigma, predictions[rows], best.predictions
            )
            measured = cumulative_regret(predictions[rows], y[rows], best.predictions, loss)[-1]
            assert measured <= newton_bound(alpha, best.norm2, terms) + 1e-9
            checked += 1
    assert checked >= 4


@pytest.mark.parametrize("seed", range(3))
def test_pros_n_kons_stays_below_theorems_1_and_2(seed):
    X, y, u = stream(21 + seed, n=150)
    alpha, gamma, epsilon = 1.0, 0.5, 0.5
    predictions, accepted = pros.pros_n_kons(
        X, y, KERNEL, alpha, gamma, epsilon, 1.0, u, "squared", "auto", 1.0
    )
    measured = regret_against_best(predictions, X, y, KERNEL, alpha=0.1, clip=1.0)
    norm2, K = measured.best.norm2, KERNEL(X, X)
    epochs = [rows for rows in epochs_of(accepted) if accepted[: rows.start].any()]
    before = epochs[0].start
    general = pros_n_kons_bound(
        len(y), alpha, gamma, epsilon, norm2, effective_dimension(K, alpha / 2), 1 / 8, 4.0, 1.0,
        len(epochs), before,
    )  # fmt: skip
    squared = pros_n_kons_squared_bound(
        alpha,
        gamma,
        epsilon,
        norm2,
        1.0,
        [effective_dimension(K[rows, rows], alpha / 2) for rows in epochs],
        [np.trace(K[rows, rows]) for rows in epochs],
        [best_in_hindsight(X[rows], y[rows], KERNEL, alpha=alpha).penalised for rows in epochs],
        before,
    )
    assert 0 < measured.regret <= min(general, squared)
    assert squared < general


def test_the_pros_n_kons_learner_has_a_bound():
    X, y, _ = stream(24, n=200)
    learner = pronk.ProsNKONSRegressor(KERNEL, gamma=0.5, clip=1.0, random_state=0)
    predictions = learner.predict_then_learn(X, y)
    measured = regret_against_best(predictions, X, y, KERNEL, alpha=0.1, clip=1.0)
    assert measured.regret <= bound_for(learner, X, y, measured.best) < math.inf
    batch = best_in_span(X, y, learner.dictionary_, KERNEL)
    assert batch.loss < np.sum((predictions - y) ** 2)


def test_bound_for_refuses_what_no_theorem_covers():
    X, y, _ = stream(25, n=40)
    best = best_in_hindsight(X, y, KERNEL)
    for learner in (
        pronk.KernelAWVRegressor(KERNEL, anticipate=False),
        pronk.PKAWVRegressor(KERNEL),
        pronk.ProsNKONSRegressor(KERNEL, clip=2.0, restart=False),
        pronk.FOGDRegressor(KERNEL),
    ):
        with pytest.raises(ValueError, match="theorem"):
            bound_for(learner.fit(X, y), X, y, best)
    with pytest.raises(ValueError, match="given beforehand"):
        bound_for(pronk.KONSRegressor(KERNEL).fit(X, y), X, y, best)
    outside = best_in_hindsight(X, 3 * y, KERNEL, alpha=0.01)
    with pytest.raises(ValueError, match="leaves"):
        bound_for(pronk.KONSRegressor(KERNEL, clip=1.0).fit(X, y), X, y, outside)
    with pytest.raises(ValueError, match="rows"):
        bound_for(pronk.KernelAWVRegressor(KERNEL).fit(X, y), X[:-1], y[:-1], best)


def test_naive_losses_have_the_constants_used_here():
    for name in CURVED:
        for clip in (0.5, 1.0, 3.0):
            assert get_loss(name).curvature(clip) == pytest.approx(losses.get(name).sigma(clip))
            assert get_loss(name).lipschitz(clip) == pytest.approx(losses.get(name).lipschitz(clip))
