"""KORS, kernel online row sampling, solved afresh at every row (definition 1.1)."""

from functools import partial

import numpy as np


def novelty_score(kxx, k, K, p, gamma, epsilon, power=0.5):
    """tau = (1+eps) a/(1+a), a = (k_xx - (s k)'(S K S + gamma I)^-1 (s k)) / gamma, s = p^-1/2."""
    s = p**-power
    middle = (s[:, None] * K) * s + gamma * np.eye(len(K))
    a = (kxx - (s * k) @ np.linalg.solve(middle, s * k)) / gamma
    return (1 + epsilon) * a / (1 + a)


def novelty_score_eq6(kxx, k, K, p, gamma, epsilon):
    """Eq. 6: tau = (1+eps)/gamma (k_xx - k'S(S K S + gamma I)^-1 S k) over I u {(x, weight 1)}."""
    K_plus = np.block([[K, k[:, None]], [k[None, :], np.array([[kxx]])]])
    k_plus = np.append(k, kxx)
    S = np.diag(np.append(1 / np.sqrt(p), 1.0))
    middle = S @ K_plus @ S + gamma * np.eye(len(K_plus))
    return (1 + epsilon) / gamma * (kxx - k_plus @ S @ np.linalg.solve(middle, S @ k_plus))


def _run(score, X, kernel, gamma, epsilon, beta, uniforms, budget):
    X = np.atleast_2d(X)
    accepted, probabilities = np.zeros(len(X), bool), np.zeros(len(X))
    dictionary = []
    for t in range(len(X)):
        x, points = X[t : t + 1], X[dictionary]
        kxx = kernel(x, x)[0, 0]
        k = kernel(points, x)[:, 0] if dictionary else np.zeros(0)
        K = kernel(points, points) if dictionary else np.zeros((0, 0))
        tau = score(kxx, k, K, probabilities[dictionary], gamma, epsilon)
        probabilities[t] = min(max(beta * tau, 0.0), 1.0)
        full = budget is not None and len(dictionary) >= budget
        if uniforms[t] < probabilities[t] and not full:
            accepted[t] = True
            dictionary.append(t)
    return accepted, probabilities, dictionary


def kors(X, kernel, gamma, epsilon, beta, uniforms, budget=None, power=0.5):
    """KORS by the closed form of 1.1: (accepted flags, p_t of every row, dictionary indices).

    Row t is accepted when u_t < p_t and fewer than `budget` rows were accepted before. The weights
    are p^-power: 1/2 in the paper, 1 in public programs.
    """
    return _run(
        partial(novelty_score, power=power), X, kernel, gamma, epsilon, beta, uniforms, budget
    )


def kors_eq6(X, kernel, gamma, epsilon, beta, uniforms, budget=None):
    """The same by Eq. 6 of PROS-N-KONS with the temporary dictionary."""
    return _run(novelty_score_eq6, X, kernel, gamma, epsilon, beta, uniforms, budget)


def ald(X, kernel, nu, budget=None):
    """Approximate linear dependence: rows with k_xx - k'K^-1 k > nu, the indices."""
    points = []
    for t in range(len(X)):
        K, k = kernel(X[points], X[points]), kernel(X[points], X[t : t + 1])[:, 0]
        distance = kernel(X[t : t + 1], X[t : t + 1])[0, 0] - k @ np.linalg.solve(K, k)
        if distance > max(nu, 1e-10) and (budget is None or len(points) < budget):
            points.append(t)
    return points
