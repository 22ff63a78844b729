"""What a certificate of the online Newton step says, from all rows of its features.

    A_t = alpha I + sum_{s <= t} eta g_s^2 phi_s phi_s'
    bound = 1/2 sum_t g_t^2 phi_t' A_t^-1 phi_t
    regret = loss - min_w ( sum_t l_t(w'phi_t) + alpha/2 |w|^2 )

For losses other than the squared one l_t is the lower bound that its curvature sigma gives,
l(p_t) + g_t (z - p_t) + sigma/2 g_t^2 (z - p_t)^2.
"""

import numpy as np


def newton_bound(Phi, g, eta, alpha):
    """Half the sum of the squared gradients in the norms of their own A_t^-1."""
    A = alpha * np.eye(Phi.shape[1])
    total = 0.0
    for phi, slope in zip(Phi, g, strict=True):
        A = A + eta * slope**2 * np.outer(phi, phi)
        total += 0.5 * slope**2 * phi @ np.linalg.solve(A, phi)
    return total


def best_squared(Phi, y, alpha):
    """Loss and penalty of the minimiser of sum (w'phi - y)^2 + alpha/2 |w|^2."""
    w = np.linalg.solve(Phi.T @ Phi + 0.5 * alpha * np.eye(Phi.shape[1]), Phi.T @ y)
    return np.sum((Phi @ w - y) ** 2), 0.5 * alpha * w @ w


def best_surrogate(Phi, values, g, p, sigma, alpha):
    """Loss and penalty of the minimiser of the lower bounds, with alpha/2 |w|^2."""
    curved = np.sqrt(sigma) * g[:, None] * Phi
    w = np.linalg.solve(
        curved.T @ curved + alpha * np.eye(Phi.shape[1]), Phi.T @ (sigma * g**2 * p - g)
    )
    step = Phi @ w - p
    return np.sum(values + g * step + 0.5 * sigma * g**2 * step**2), 0.5 * alpha * w @ w
