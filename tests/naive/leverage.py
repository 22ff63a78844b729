"""Exact ridge leverage scores and effective dimensions (definition 1.1)."""

import numpy as np


def leverage_scores(K, gamma):
    """tau_i = [K (K + gamma I)^-1]_ii."""
    return np.diag(np.linalg.solve(K + gamma * np.eye(len(K)), K)).copy()


def effective_dimension(K, gamma):
    """d_eff = trace K (K + gamma I)^-1."""
    return leverage_scores(K, gamma).sum()


def online_leverage_scores(K, gamma):
    """tau_{t,t}: the score of the last point among the first t, for every t."""
    return np.array([leverage_scores(K[:t, :t], gamma)[-1] for t in range(1, len(K) + 1)])


def online_effective_dimension(K, gamma):
    """d_onl = sum_t tau_{t,t}."""
    return online_leverage_scores(K, gamma).sum()
