"""Kernels by explicit differences; each returns the matrix (k(x_i, z_j))_ij."""

import numpy as np


def _pairs(X, Z):
    """The arrays x_i and z_j, shaped to broadcast to (i, j, d)."""
    return np.atleast_2d(X)[:, None, :], np.atleast_2d(Z)[None, :, :]


def gaussian(X, Z, bandwidth=1.0):
    """exp(-|x-z|_2^2 / (2 bandwidth^2))  (K1)."""
    x, z = _pairs(X, Z)
    return np.exp(-np.sum((x - z) ** 2, axis=2) / (2 * bandwidth**2))


def laplacian(X, Z, bandwidth=1.0):
    """exp(-|x-z|_1 / bandwidth)  (K2)."""
    x, z = _pairs(X, Z)
    return np.exp(-np.sum(np.abs(x - z), axis=2) / bandwidth)


def matern(X, Z, bandwidth=1.0, nu=1.5):
    """Matern kernel of r = |x-z|_2 / bandwidth for nu = 0.5, 1.5, 2.5.

    nu = 0.5: exp(-r);  1.5: (1 + a) exp(-a), a = sqrt(3) r;
    2.5: (1 + a + a^2/3) exp(-a), a = sqrt(5) r.
    """
    x, z = _pairs(X, Z)
    a = np.sqrt(2 * nu) * np.sqrt(np.sum((x - z) ** 2, axis=2)) / bandwidth
    polynomial_part = {0.5: 1.0, 1.5: 1 + a, 2.5: 1 + a + a**2 / 3}[nu]
    return polynomial_part * np.exp(-a)


def linear(X, Z):
    """x'z."""
    x, z = _pairs(X, Z)
    return np.sum(x * z, axis=2)


def polynomial(X, Z, degree=3, offset=1.0):
    """(x'z + offset)^degree."""
    return (linear(X, Z) + offset) ** degree
