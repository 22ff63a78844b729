"""AIOLI by direct minimisation of its definition, on the features of each row.

    theta_t = argmin sum_{s<t} w_s [g_s'(theta - theta_s) + eta_s/2 (g_s'(theta - theta_s))^2]
              + w_t [log(1 + exp(-theta'phi_t)) + log(1 + exp(theta'phi_t))] + lambda |theta|^2
    g_s = -y_s phi_s / (1 + exp(y_s f_s)),   eta_s = exp(y_s f_s) / (1 + BR),  f_s = theta_s'phi_s

Weights w are 1 unless they are given.
"""

import numpy as np
from scipy.special import expit

from .features import projector, root


def minimiser(start, g, eta, thetas, w, phi, own, alpha):
    """argmin of the definition by Newton's method; long steps are halved until they descend."""
    offsets = np.einsum("ij,ij->i", g, thetas)

    def value(theta):
        lines = g @ theta - offsets
        f = phi @ theta
        both = np.logaddexp(0, -f) + np.logaddexp(0, f)
        return w @ (lines + eta / 2 * lines**2) + own * both + alpha * theta @ theta

    theta = start
    for _ in range(200):
        lines, f = g @ theta - offsets, phi @ theta
        slope = (w * (1 + eta * lines)) @ g + own * np.tanh(f / 2) * phi + 2 * alpha * theta
        curvature = (g.T * (w * eta)) @ g + 2 * own * expit(f) * expit(-f) * np.outer(phi, phi)
        step = np.linalg.solve(curvature + 2 * alpha * np.eye(len(theta)), slope)
        longest, size = np.abs(step).max(initial=0.0), 1.0
        while longest > 1e-3 and value(theta - size * step) > value(theta):
            size /= 2
        theta = theta - size * step
        if longest < 1e-12:
            break
    return theta


def aioli(Phi, y, alpha, radius, weights=None):
    """Margins f_t on rows of features, and the last minimiser's (g, eta, theta) per row."""
    n, r = Phi.shape
    w = np.ones(n) if weights is None else np.asarray(weights, float)
    g, eta, thetas, margins = np.zeros((n, r)), np.zeros(n), np.zeros((n, r)), np.zeros(n)
    for t, phi in enumerate(Phi):
        theta = minimiser(thetas[t - 1], g[:t], eta[:t], thetas[:t], w[:t], phi, w[t], alpha)
        margins[t] = phi @ theta
        thetas[t] = theta
        g[t] = -y[t] * phi / (1 + np.exp(y[t] * margins[t]))
        eta[t] = np.exp(y[t] * margins[t]) / (1 + radius)
    return margins, (g, eta, thetas)


def aioli_projected(X, y, kernel, alpha, radius, accepted, weights=None):
    """On a growing dictionary: row t is P_{I_t} phi_t, its projection at its own time."""
    F = root(kernel(X, X))
    rows = np.zeros_like(F)
    for t in range(len(F)):
        rows[t] = projector(F[np.flatnonzero(accepted[: t + 1])]) @ F[t]
    return aioli(rows, y, alpha, radius, weights)[0]
