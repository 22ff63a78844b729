"""What the papers print, next to what is right, where no other test sets the two side by side.

`docs/errata.md` cites these tests. Naive twins are used, so that nothing depends on fast code.
"""

import itertools
import math
import os

import numpy as np
import pytest

import pronk
from naive import features, kernels, kors, losses, ons, pros
from papers import datasets, pros_n_kons_2
from papers.experiment import Job, as_view, view
from papers.work import dictionary_size
from pronk.core.features import Taylor
from pronk.regret import kors_beta, kors_size_bound


def gaussian(A, B):
    return kernels.gaussian(A, B, 0.7)


def stream(seed, n=120, d=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) + 0.4 * rng.standard_normal(n), rng.random(n)


# -- KORS ------------------------------------------------------------------------------------------


def test_weights_of_one_over_p_make_dictionaries_two_to_three_times_smaller():
    """S = diag(1/p) on both sides is p^2 in place of p."""

    def printed(kxx, k, K, p, gamma, epsilon):
        return kors.novelty_score(kxx, k, K, p**2, gamma, epsilon)

    X, _, u = stream(1, n=2000, d=8)
    X = 0.5 * (X + 1)  # columns in [0, 1] and the bandwidth 8, as in Table 1 of PROS-N-KONS

    def wide(A, B):
        return kernels.gaussian(A, B, 8.0)

    accepted, _, _ = kors.kors(X, wide, 1.0, 0.5, 1.0, u)
    smaller, _, _ = kors._run(printed, X, wide, 1.0, 0.5, 1.0, u, None)
    assert 2 < accepted.sum() / smaller.sum() < 3.5


def test_the_size_bound_of_pkawv_lacks_a_factor_of_twelve():
    """Prop. 5 sets epsilon = 1/2 and beta = 12 log(n/delta) in Prop. 1 of PROS-N-KONS."""
    n, d, delta = 10_000, 7.0, 0.1
    beta = kors_beta(n, 0.5, delta)
    assert beta == pytest.approx(12 * math.log(n / delta))
    proven = kors_size_bound(n, d, 0.5, beta, delta)
    assert proven == pytest.approx(108 * d * math.log(n / delta) * math.log(2 * n / delta))
    assert proven > 11 * (9 * d * math.log(2 * n / delta) ** 2)


# -- KONS ------------------------------------------------------------------------------------------


def test_algorithm_1_and_lemma_2_of_kons_as_printed_are_not_the_recursion():
    """c_i = d_i b_i with the roots of eta where Lemma 1 has them, and where the print has none."""
    X, y, _ = stream(2, n=80)
    K, eta, alpha, clip = gaussian(X, X), 0.2, 1.0, 1.5

    def predictions(coefficient):
        c, d, out = np.zeros((3, len(y)))
        for t in range(len(y)):
            raw, q = ons._raw_prediction(K, t, c, d, np.arange(t), alpha)
            out[t] = ons.clipped(raw, clip)
            g = 2 * (out[t] - y[t])
            c[t], d[t] = coefficient(g, out[t], ons.excess(raw, clip) / q), g * np.sqrt(eta)
        return out

    expected = ons.kons_explicit(X, y, gaussian, alpha, "squared", eta, clip)
    lemma_1 = predictions(lambda g, p, h: eta * g**2 * p - g - h)
    np.testing.assert_allclose(lemma_1, expected, rtol=1e-8, atol=1e-8)
    algorithm_1 = predictions(lambda g, p, h: (eta * g**2 * p - g - h) / np.sqrt(eta))
    lemma_2 = predictions(lambda g, p, h: eta * g**2 * p - g / np.sqrt(eta) - h)
    for printed in (algorithm_1, lemma_2):
        assert np.abs(printed - expected).max() > 0.1


def test_slopes_are_bounded_for_small_predictions_not_for_all_below_the_clip():
    loss, C = losses.get("squared"), 1.0
    for z in np.linspace(-C, C, 21):
        assert abs(loss.slope(z, C)) <= loss.lipschitz(C)
    assert abs(loss.slope(-10.0, C)) > loss.lipschitz(C)  # -10 <= C


def test_a_rounded_clip_flips_the_slope_at_the_kink():
    """phi'w of the projected w is 1 only in rounding, and the hinge has its kink at C = 1."""
    slope, rng = losses.get("hinge").slope, np.random.default_rng(3)
    slopes = set()
    for _ in range(200):
        phi, B = rng.standard_normal(5), rng.standard_normal((5, 5))
        v = 2 * phi / (phi @ phi)  # predicts 2
        w, exact = ons.project(v, phi, B @ B.T + np.eye(5), 1.0)
        assert exact == 1.0 and phi @ w == pytest.approx(1.0, abs=1e-12)
        assert slope(exact, 1.0) == 0.0
        slopes.add(slope(phi @ w, 1.0))
    assert slopes == {0.0, -1.0}


# -- PROS-N-KONS -----------------------------------------------------------------------------------


def test_con_kons_read_literally_leaves_the_clip():
    """No step, no projection and no clip at the row after an addition (Cholesky coordinates)."""
    X, y, u = stream(4, n=300)
    y, alpha, eta, clip = np.sign(y), 0.1, 0.1, 1.0
    accepted = kors.kors(X, gaussian, 0.5, 0.5, 1.0, u)[0]
    A, w, g, J, predictions = np.zeros((0, 0)), np.zeros(0), np.zeros(0), [], []
    for t in range(len(y)):
        new = t > 0 and accepted[t - 1]
        if new:
            J.append(t - 1)
            mapped = np.zeros((len(J), len(J)))  # M A M', with M = [I; 0]
            mapped[:-1, :-1] = A
            assert np.linalg.matrix_rank(mapped) < len(J)  # singular without alpha
            mapped[-1, -1] = alpha
            A, w = mapped, np.append(w, 0.0)
        L = np.linalg.cholesky(gaussian(X[J], X[J]))
        phi = np.linalg.solve(L, gaussian(X[J], X[t : t + 1])[:, 0])
        if new:
            prediction = phi @ w
        else:
            w, prediction = ons.project(w - np.linalg.solve(A, g), phi, A, clip)
        g = 2 * (prediction - y[t]) * phi
        A = A + eta * np.outer(g, g)
        predictions.append(prediction)
    assert np.abs(predictions).max() > 1.1 * clip
    args = (X, y, gaussian, alpha, 0.5, 0.5, 1.0, u, "squared", eta, clip, False)
    assert np.abs(pros.pros_n_kons(*args)[0]).max() <= clip


def test_the_accuracies_of_pros_n_kons_table_2_are_error_rates():
    """One label makes up 90 % of ijcnn1 and 67 % of cod-rna: no accuracy lies that low."""
    for name, share in (("ijcnn1", 90.0), ("cod-rna", 66.0)):
        for figures in pros_n_kons_2.PRINTED[name].values():
            for value, *_ in figures.values():
                assert value < 20 < share


# -- PKAWV -----------------------------------------------------------------------------------------


def test_ordered_monomials_are_the_same_kernel():
    X, _, _ = stream(5, n=12, d=3)
    bandwidth, degree = 1.3, 3
    columns = [
        np.prod(X[:, list(word)], axis=1) / (bandwidth**k * math.sqrt(math.factorial(k)))
        for k in range(degree + 1)
        for word in itertools.product(range(3), repeat=k)
    ]
    ordered = np.stack(columns, axis=1) * np.exp(-np.sum(X**2, 1) / (2 * bandwidth**2))[:, None]
    different = features.taylor(X, degree, bandwidth)
    assert ordered.shape[1] == 1 + 3 + 9 + 27 and different.shape[1] == math.comb(3 + 3, 3)
    np.testing.assert_allclose(ordered @ ordered.T, different @ different.T, rtol=1e-12, atol=0)


def test_the_border_of_the_normal_equations_has_lambda():
    """A = K'K + lambda K_II; a new point adds the column K'a + lambda b, Algorithm 2 prints + b."""
    X, _, _ = stream(6, n=40)
    points, penalty = X[[0, 3, 9, 20]], 0.3
    K, K_II = gaussian(X, points), gaussian(points, points)
    A = K.T @ K + penalty * K_II
    a, b = K[:, -1], K_II[:-1, -1]
    np.testing.assert_allclose(A[:-1, -1], K[:, :-1].T @ a + penalty * b, rtol=1e-12, atol=0)
    assert np.abs(A[:-1, -1] / (K[:, :-1].T @ a + b) - 1.0).max() > 1e-2


def test_190_features_belong_to_18_columns():
    assert Taylor(18, 4.0, 2).size == 190
    assert Taylor(22, 4.0, 2).size == 276
    assert datasets.find("susy_30k").columns == 18


# -- DualSVRG --------------------------------------------------------------------------------------


def test_frequencies_of_deviation_two_gamma_are_those_of_another_kernel():
    gamma, rng = 2.0, np.random.default_rng(7)
    normal, x = rng.standard_normal((2, 200_000)), np.array([0.4, -0.3])
    value = math.exp(-gamma * x @ x)
    assert np.cos(math.sqrt(2 * gamma) * x @ normal).mean() == pytest.approx(value, abs=0.01)
    assert abs(np.cos(2 * gamma * x @ normal).mean() - value) > 0.2


def test_the_core_of_algorithm_4_covers_and_is_separated():
    """Close points move: the core is a packing, its size below a covering number."""
    X, y, _ = stream(8, n=2000)
    model = pronk.DualSVRGClassifier(oracle="coverage", radius=0.4, n_features=10, random_state=1)
    core = model.fit(X, np.sign(y)).dictionary_
    distances = np.linalg.norm(X[:, None] - core, axis=-1)
    assert distances.min(axis=1).max() <= 0.4  # the text's reading would keep these 2,000 rows
    within = np.linalg.norm(core[:, None] - core, axis=-1)
    assert within[np.triu_indices(len(core), 1)].min() > 0.4
    side = 0.4 / math.sqrt(2)  # a square of this diagonal holds one core point at most
    assert len(core) <= math.ceil(2 / side) ** 2 < len(X)


def test_the_period_of_dual_svrg_is_too_short_for_its_theorem():
    """n >= 1/(eta lambda (1-beta)(1-12 M eta)), and lambda at most 2^16/N."""
    M, beta, n = 2.0, 0.5, 100
    eta = 1 / (76 * M)
    assert eta < beta / ((13 + 12 * beta) * M)  # the other premise holds
    least = 1 / (eta * n * (1 - beta) * (1 - 12 * M * eta))
    assert least == pytest.approx(3.61, abs=0.01)
    smallest = datasets.find("w8a").split  # rows of the smallest training part
    assert 2**16 / smallest < 1.4 < least


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("PRONK_DATA" not in os.environ, reason="PRONK_DATA is not set")
@pytest.mark.parametrize(
    "name, scale, theta, printed",
    [("w8a", None, 13.0, 131), ("cod-rna", (-1.0, 1.0), 1.0, 436)],
)
def test_theta_of_dual_svrg_is_a_diameter(name, scale, theta, printed):
    """Core sets have the printed sizes S of Table 3 if close means within theta/2."""
    if datasets.locate(datasets.find(name)) is None:
        pytest.skip("not here")
    X, y = datasets.load(as_view(view(data=name, x=scale)))

    def size(radius, seed):
        order = np.random.default_rng(seed).permutation(len(y))
        model = pronk.DualSVRGClassifier(
            oracle="coverage", radius=radius, n_features=1, memory=1, random_state=0
        )
        return model.partial_fit(X[order], y[order]).size_

    assert np.mean([size(theta / 2, seed) for seed in range(4)]) == pytest.approx(printed, rel=0.05)
    assert size(theta, 0) < printed / 10


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("PRONK_DATA" not in os.environ, reason="PRONK_DATA is not set")
@pytest.mark.parametrize("name, part, printed", [("ijcnn1", "all", 100), ("cod-rna", "test", 38)])
def test_table_2_of_pros_n_kons_has_public_weights_and_columns_in_minus_one_to_one(
    name, part, printed
):
    """KORS with gamma = beta = 1, epsilon = 0.5, bandwidth 8."""
    if datasets.locate(datasets.find(name)) is None:
        pytest.skip("not here")

    def size(scale, power, seed):
        settings = {"bandwidth": 8.0, "power": power}
        held = view(data=name, part=part, x=scale)
        return dictionary_size(Job("size", name, dictionary_size, seed, settings, held))["size"]

    public = np.mean([size((-1.0, 1.0), 1.0, seed) for seed in range(2)])
    assert public == pytest.approx(printed, rel=0.1)
    assert size((0.0, 1.0), 0.5, 0) > 1.5 * printed
    assert size((0.0, 1.0), 1.0, 0) < 0.75 * printed
