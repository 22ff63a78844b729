"""Embeddings against what they approximate, with errors that follow from theory."""

from math import comb, exp, factorial

import numpy as np
import pytest

from naive import features as naive
from naive import kernels, leverage
from pronk.core import dictionary
from pronk.core.features import Fourier, Nystrom, Taylor, extend
from pronk.core.kernels import Gaussian, Laplacian, Linear, Matern
from pronk.newton.spaces import FixedPoints


@pytest.mark.parametrize("columns, degree", [(1, 0), (1, 5), (3, 2), (5, 3)])
def test_taylor_features_are_those_of_the_definition(columns, degree):
    X = np.random.default_rng(0).normal(size=(12, columns))
    features = Taylor(columns, 1.7, degree).transform(X)
    assert features.shape == (12, comb(degree + columns, columns))
    expected = naive.taylor(X, degree, 1.7)
    key = np.lexsort(features)  # the order of the multi-indices is free
    other = np.lexsort(expected)
    np.testing.assert_allclose(features[:, key], expected[:, other], rtol=1e-12, atol=1e-300)


def test_taylor_features_of_many_columns_are_the_truncated_series():
    """By the multinomial theorem phi'phi = e^-(|x|^2+|z|^2)/2s^2 sum_{k<=M} (x'z/s^2)^k / k!."""
    X = np.random.default_rng(7).normal(size=(20, 18))
    phi = Taylor(18, 4.0, 2).transform(X)
    assert phi.shape == (20, 190)
    half = np.einsum("ij,ij->i", X, X) / 32
    products = X @ X.T / 16
    series = np.exp(-half[:, None] - half) * (1 + products + products**2 / 2)
    np.testing.assert_allclose(phi @ phi.T, series, rtol=1e-12, atol=0)


@pytest.mark.parametrize("degree", [2, 4, 8])
def test_taylor_features_miss_the_kernel_by_the_remainder_of_the_series(degree):
    """|k(x,z) - phi'phi| <= e^-(|x|^2+|z|^2)/2s^2 e^{|x||z|/s^2} (|x||z|/s^2)^(M+1)/(M+1)!."""
    X = np.random.default_rng(1).uniform(-1, 1, size=(30, 3))
    phi = Taylor(3, 1.5, degree).transform(X).copy()
    gap = np.abs(phi @ phi.T - Gaussian(1.5)(X, X)).max()
    radius = 3.0 / 1.5**2
    assert gap <= radius ** (degree + 1) / factorial(degree + 1) * exp(radius)
    assert gap > 1e-17 or degree == 8


def test_too_many_taylor_features_are_refused():
    with pytest.raises(ValueError, match="degree"):
        Taylor(50, 1.0, 5)


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.8), Laplacian(2.0), Matern(1.2, 0.5), Matern(1.2, 1.5), Matern(1.2, 2.5)]
)
def test_fourier_features_approach_the_kernel(kernel):
    """The mean of L cosines in [-1, 1]: by Hoeffding all 435 pairs are within
    sqrt(2 log(2 * 435 / 1e-6) / L) but with probability 1e-6."""
    X = np.random.default_rng(2).normal(size=(30, 3))
    frequencies = 20_000
    phi = Fourier(kernel, 3, frequencies, seed=0).transform(X)
    bound = np.sqrt(2 * np.log(2 * 435 / 1e-6) / frequencies)
    assert np.abs(phi @ phi.T - kernel(X, X)).max() < bound
    np.testing.assert_allclose(np.einsum("ij,ij->i", phi, phi), 1.0, rtol=1e-13, atol=0)


def test_fourier_features_replay_from_the_seed():
    X = np.random.default_rng(3).normal(size=(9, 4))
    phi = Fourier(Gaussian(0.5), 4, 20, seed=17).transform(X)
    np.testing.assert_allclose(phi, naive.fourier(X, 20, 17, 0.5), rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="Fourier"):
        Fourier(Linear(), 4, 20, seed=0)


def test_nystrom_coordinates_give_the_kernel_projected_on_the_span():
    rng = np.random.default_rng(4)
    X, points = rng.normal(size=(40, 3)), rng.normal(size=(12, 3))
    kernel = Gaussian(1.0)
    phi = FixedPoints(kernel, points).transform(X).copy()
    expected = naive.nystrom(X, points, lambda A, B: kernels.gaussian(A, B, 1.0))
    np.testing.assert_allclose(phi @ phi.T, expected @ expected.T, rtol=0, atol=1e-09)


def test_a_new_point_adds_one_coordinate_and_a_dependent_one_none():
    rng = np.random.default_rng(5)
    kernel = Gaussian(1.0)
    points = rng.normal(size=(6, 2))
    points[4] = points[1]
    X = rng.normal(size=(10, 2))
    nystrom = Nystrom()
    Phi = np.zeros((10, 0))
    for i, point in enumerate(points):
        phi = nystrom.transform(kernel(point[None], points[:i]))[0].copy()
        pivot = nystrom.grow(phi, 1.0)
        assert (pivot is None) == (i == 4)
        if pivot is not None:
            column = kernel(X, points[i : i + 1])[:, 0]
            Phi = np.column_stack((Phi, extend(Phi, column, phi, pivot)))
    assert nystrom.size == 5 and nystrom.points == 6
    np.testing.assert_allclose(Phi, nystrom.transform(kernel(X, points)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 50.0])
def test_leverage_scores_and_dimensions(gamma):
    X = np.random.default_rng(6).normal(size=(60, 2))
    K = Gaussian(0.7)(X, X)
    np.testing.assert_allclose(
        dictionary.leverage_scores(K, gamma),
        leverage.leverage_scores(K, gamma),
        rtol=0,
        atol=1e-10,
    )
    np.testing.assert_allclose(
        dictionary.online_leverage_scores(K, gamma),
        leverage.online_leverage_scores(K, gamma),
        rtol=0,
        atol=1e-10,
    )
    assert dictionary.effective_dimension(K, gamma) == pytest.approx(
        leverage.effective_dimension(K, gamma)
    )
    assert dictionary.online_effective_dimension(K, gamma) == pytest.approx(
        leverage.online_effective_dimension(K, gamma)
    )


@pytest.mark.parametrize(("room", "limit"), [(99, 99), (7, 99), (99, 9)])
@pytest.mark.parametrize("draws", [False, True])
def test_rows_offered_together_enter_as_one_by_one(room, limit, draws):
    """Some are copies of others, and get no coordinate; with uniforms some do not enter."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    X[[5, 11, 12]] = X[[2, 5, 0]]
    uniforms = rng.uniform(size=30)
    kernel, gamma = Gaussian(2.0), 0.05
    together, single = Nystrom(), Nystrom()
    chosen: list[int] = []
    for i in range(30):
        if len(chosen) == room or single.size == limit:
            break
        phi = single.transform(kernel(X[i : i + 1], X[chosen]))[0].copy()
        rho = 1.0 - phi @ phi
        if not draws or uniforms[i] * (rho + gamma) < rho:
            single.grow(phi, 1.0)
            chosen.append(i)
    entered: list[int] = []
    for rows in (slice(0, 4), slice(4, 30)):
        new = X[rows]
        found = together.offer(
            kernel(new, X[entered]), kernel(new, new), room - len(entered), limit,
            uniforms[rows] if draws else None, gamma,
        )  # fmt: skip
        if draws:  # nothing has changed yet; those that would enter are offered
            chosen_rows = new[found]
            K, corner = kernel(chosen_rows, X[entered]), kernel(chosen_rows, chosen_rows)
            assert len(together.offer(K, corner, len(found), limit)) == len(found)
        entered += [rows.start + int(i) for i in found]
    assert entered == chosen
    assert together.points == single.points == len(chosen)
    assert np.array_equal(together.used, single.used)
    K = kernel(X, X[chosen])
    np.testing.assert_allclose(together.transform(K), single.transform(K), rtol=1e-7, atol=1e-9)
    alone = together.transform_each(K)
    np.testing.assert_allclose(alone, single.transform(K), rtol=1e-7, atol=1e-9)
