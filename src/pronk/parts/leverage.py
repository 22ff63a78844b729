"""Ridge leverage scores and effective dimensions, exact, from a kernel matrix.

>>> import numpy as np
>>> from pronk.parts.kernels import Gaussian
>>> X = np.linspace(0, 1, 50)[:, None]
>>> print(round(effective_dimension(Gaussian(0.2)(X, X), gamma=1.0), 3))
4.505
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.parts.linalg import cholesky, solve_lower
from pronk.parts.threads import limited

Array = NDArray[np.float64]


@limited
def leverage_scores(K: Array, gamma: float) -> Array:
    """tau_i = [K (K + gamma I)^-1]_ii for a kernel matrix K of all rows.

    From 1 - gamma [(K + gamma I)^-1]_ii, the column norms of the inverse factor.
    """
    n = len(K)
    inverse = solve_lower(_ridge_factor(K, gamma), np.eye(n))
    return np.asarray(1.0 - gamma * np.einsum("ij,ij->j", inverse, inverse))


def effective_dimension(K: Array, gamma: float) -> float:
    """d_eff(gamma) = trace K (K + gamma I)^-1."""
    return float(leverage_scores(K, gamma).sum())


@limited
def online_leverage_scores(K: Array, gamma: float) -> Array:
    """tau_{t,t}: the leverage of row t among the rows up to t, for every t.

    The Schur complement of row t in K_t + gamma I is L_tt^2 = gamma / (1 - tau_{t,t}), so one
    Cholesky factor holds them all.
    """
    pivots = np.diag(_ridge_factor(K, gamma)) ** 2
    return np.asarray(1.0 - gamma / pivots)


def online_effective_dimension(K: Array, gamma: float) -> float:
    """d_onl(gamma) = sum_t tau_{t,t}."""
    return float(online_leverage_scores(K, gamma).sum())


def _ridge_factor(K: Array, gamma: float) -> Array:
    return cholesky(K + gamma * np.eye(len(K)), "kernel matrix")
