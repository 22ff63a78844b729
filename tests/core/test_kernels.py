"""Kernels against their definitions, close points far away, and cuts of the stream."""

import numpy as np
import pytest

from naive import kernels as naive
from pronk.core.kernels import (
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    get_kernel,
    square_distances,
)

PAIRS = [
    (Gaussian(0.7), lambda X, Z: naive.gaussian(X, Z, 0.7)),
    (Laplacian(1.3), lambda X, Z: naive.laplacian(X, Z, 1.3)),
    (Matern(0.9, 0.5), lambda X, Z: naive.matern(X, Z, 0.9, 0.5)),
    (Matern(0.9, 1.5), lambda X, Z: naive.matern(X, Z, 0.9, 1.5)),
    (Matern(0.9, 2.5), lambda X, Z: naive.matern(X, Z, 0.9, 2.5)),
    (Linear(), naive.linear),
    (Polynomial(3, 0.5), lambda X, Z: naive.polynomial(X, Z, 3, 0.5)),
]


@pytest.mark.parametrize("kernel, reference", PAIRS, ids=lambda p: getattr(p, "name", ""))
@pytest.mark.parametrize("columns", [1, 7, 50])
def test_values_are_those_of_the_definition(kernel, reference, columns):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(23, columns)), rng.normal(size=(600, columns))
    expected = reference(X, Z)
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(reference(X, X)), rtol=1e-14, atol=0)
    assert kernel(X, Z[:0]).shape == (23, 0)


@pytest.mark.parametrize("columns", [3, 50], ids=["direct", "through BLAS"])
def test_nearly_identical_points_far_from_the_origin_keep_their_distance(columns):
    """|x|^2 + |z|^2 - 2 x'z would lose all digits here: 1e14 against 1e-10."""
    rng = np.random.default_rng(1)
    X = 1e7 + rng.integers(0, 4, size=(40, columns)).astype(float)
    Z = X + 1e-5 * rng.integers(1, 9, size=X.shape)
    exact = ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)
    np.testing.assert_allclose(square_distances(X, Z), exact, rtol=1e-12, atol=0)
    assert np.array_equal(np.diag(Matern(1.0, 0.5)(X, X)), np.ones(40))


def test_distances_of_every_size_are_exact_to_rounding():
    """Pairs from 1e-7 to 1 of the size of their rows: the guard against cancellation decides each.

    BLAS is wrong by about 50 eps of |x|^2 + |z|^2, so a pair that is not computed again,
    above a share of 1e-3, is wrong by at most 50 eps / 1e-3 = 1e-11 of its own size.
    """
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 50))
    steps = rng.normal(size=(30, 50)) * np.geomspace(1e-7, 1.0, 30)[:, None]
    Z = np.concatenate((np.zeros((1, 50)), X + steps))
    exact = ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)
    np.testing.assert_allclose(square_distances(X, Z), exact, rtol=1e-11, atol=0)


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Laplacian(0.5), Matern(0.5, 1.5)])
def test_a_value_does_not_depend_on_the_block_it_is_computed_in(kernel):
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(37, 11)), rng.normal(size=(41, 11))
    whole = kernel(X, Z)
    for i in range(0, 37, 5):
        assert np.array_equal(kernel(X[i : i + 5], Z), whole[i : i + 5])
    assert np.array_equal(kernel(X, Z[:13]), whole[:, :13])


def test_a_user_function_is_checked():
    kernel = get_kernel(lambda X, Z: X @ Z.T)
    X = np.ones((20, 2))
    assert np.array_equal(kernel(X, X[:3]), np.full((20, 3), 2.0))
    assert np.array_equal(kernel.diagonal(X), np.full(20, 2.0))
    with pytest.raises(ValueError, match="shape"):
        get_kernel(lambda X, Z: np.ones(3))(X, X)
    with pytest.raises(ValueError, match="row 0"):
        get_kernel(lambda X, Z: np.full((len(X), len(Z)), np.nan))(X, X)


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(0.0), Gaussian(-1.0), Gaussian(np.nan), Gaussian("a"), Laplacian(np.inf),
     Matern(1.0, 2.0), Polynomial(0), Polynomial(2, -1.0), "gausian", 3],
)  # fmt: skip
def test_bad_parameters_are_named(kernel):
    with pytest.raises(ValueError, match="kernel"):
        get_kernel(kernel)
