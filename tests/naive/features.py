"""Explicit features: Taylor, random Fourier, Nystrom, and the root of a kernel matrix."""

from itertools import product
from math import factorial

import numpy as np

from naive.randomness import stream as numbered

CUTOFF = 1e-10  # eigenvalues of K_JJ up to CUTOFF * largest count as zero (K4)


def multi_indices(d, degree):
    """All k in N^d with |k| <= degree: C(degree + d, d) of them."""
    return [k for k in product(range(degree + 1), repeat=d) if sum(k) <= degree]


def taylor(X, degree, bandwidth=1.0):
    """g_k(x) = prod_i x_i^k_i / (sigma^k_i sqrt(k_i!)) exp(-|x|^2/(2 sigma^2)), |k| <= M (1.7).

    The columns follow `multi_indices`; their order means nothing to a learner.
    """
    X = np.atleast_2d(X)
    columns = []
    for k in multi_indices(X.shape[1], degree):
        column = np.exp(-np.sum(X**2, axis=1) / (2 * bandwidth**2))
        for i, power in enumerate(k):
            column = column * X[:, i] ** power / (bandwidth**power * np.sqrt(factorial(power)))
        columns.append(column)
    return np.column_stack(columns)


def fourier(X, n_features, random_state, bandwidth=1.0):
    """[cos(XW), sin(XW)]/sqrt(n), W = stream 2 of the seed, standard_normal((d, n))/sigma."""
    X = np.atleast_2d(X)
    W = numbered(random_state, 2).standard_normal((X.shape[1], n_features))
    W = W / bandwidth
    return np.hstack([np.cos(X @ W), np.sin(X @ W)]) / np.sqrt(n_features)


def nystrom_map(K_JJ):
    """E = Sigma^-1/2 U' with K_JJ = U Sigma U', so that E'E = K_JJ^+ (1.5)."""
    if len(K_JJ) == 0:
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(K_JJ)
    kept = values > CUTOFF * values.max()
    return vectors[:, kept].T / np.sqrt(values[kept])[:, None]


def nystrom(X, points, kernel):
    """Rows (E k_J(x))' for the dictionary `points`."""
    return (nystrom_map(kernel(points, points)) @ kernel(points, X)).T


def root(K):
    """Rows f_i in R^n with f_i'f_j = K_ij: coordinates of the span of all points."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


_projected = np.zeros((0, 0)), np.zeros((0, 0))


def projector(F_J):
    """Orthogonal projector on the span of the rows of F_J, by pinv (cut like `nystrom_map`).

    The last one is kept, as few rows change a dictionary.
    """
    global _projected
    if not np.array_equal(_projected[0], F_J):
        _projected = F_J.copy(), np.linalg.pinv(F_J, rcond=np.sqrt(CUTOFF)) @ F_J
    return _projected[1]
