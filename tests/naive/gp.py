"""Gaussian process regression from its formulas, with one variance estimated by likelihood.

The prior is y = f + noise, f ~ GP(0, s k), noise variance alpha s, so y ~ N(0, s (K + alpha I)) and
s = y'(K + alpha I)^-1 y / n has the largest likelihood. Everything below is for one output.
"""

import numpy as np


def signal_variance(K, y, alpha):
    """s = y'(K + alpha I)^-1 y / n."""
    return y @ np.linalg.solve(K + alpha * np.eye(len(y)), y) / len(y)


def log_likelihood(K, y, alpha, s):
    """log N(y; 0, s (K + alpha I))."""
    C = s * (K + alpha * np.eye(len(y)))
    sign, log_det = np.linalg.slogdet(2 * np.pi * C)
    return -0.5 * (y @ np.linalg.solve(C, y) + sign * log_det)


def deviation(X, y, new, kernel, alpha):
    """sqrt(s (k(x, x) - k'(K + alpha I)^-1 k) + alpha s), noise included, at the rows ``new``."""
    K, k = kernel(X, X), kernel(X, new)
    s = signal_variance(K, y, alpha)
    explained = np.sum(k * np.linalg.solve(K + alpha * np.eye(len(y)), k), axis=0)
    return np.sqrt(s * (np.diag(kernel(new, new)) - explained) + alpha * s)


def projected_deviation(X, y, new, kernel, alpha, points):
    """Projected process on given points (Rasmussen, Williams 2006, Eq. 8.27), noise included.

    K becomes Q = K_XJ K_JJ^-1 K_JX, and the variance of f is
    s (k(x, x) - k_J'K_JJ^-1 k_J + alpha k_J'(alpha K_JJ + K_JX K_XJ)^-1 k_J).
    """
    K_JJ, K_JX, k = kernel(points, points), kernel(points, X), kernel(points, new)
    Q = K_JX.T @ np.linalg.solve(K_JJ, K_JX)
    s = signal_variance(Q, y, alpha)
    prior = np.diag(kernel(new, new)) - np.sum(k * np.linalg.solve(K_JJ, k), axis=0)
    learned = np.sum(k * np.linalg.solve(alpha * K_JJ + K_JX @ K_JX.T, k), axis=0)
    return np.sqrt(s * (prior + alpha * learned) + alpha * s)


def feature_deviation(Phi, y, phi, diagonal, alpha):
    """The same for rows Phi and new rows phi of features, with k(x, x) of the new rows.

    K = Phi Phi' for the rows learned; new rows have prior variance s k(x, x), of which their
    features explain what they can.
    """
    s = signal_variance(Phi @ Phi.T, y, alpha)
    A = alpha * np.eye(Phi.shape[1]) + Phi.T @ Phi
    learned = alpha * np.sum(phi.T * np.linalg.solve(A, phi.T), axis=0)
    prior = diagonal - np.sum(phi**2, axis=1)
    return np.sqrt(s * (prior + learned) + alpha * s)
