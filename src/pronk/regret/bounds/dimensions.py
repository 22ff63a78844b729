"""Effective dimensions and log determinants: the quantities that the bounds are made of."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.parts.leverage import effective_dimension, online_effective_dimension
from pronk.parts.linalg import cholesky
from pronk.parts.threads import limited
from pronk.regret.bounds.checks import check

Array = NDArray[np.float64]


@limited
def log_determinant(K: Array, alpha: float) -> float:
    """log det(I + K/alpha), from a Cholesky factor."""
    check(positive={"alpha": alpha})
    L = cholesky(K / alpha + np.eye(len(K)), "kernel matrix")
    return 2.0 * float(np.log(np.diag(L)).sum())


class Chain(NamedTuple):
    """d_onl <= log det(I + K/alpha) <= d_eff (1 + log(|K|/alpha + 1))."""

    online_dimension: float
    log_determinant: float
    from_effective_dimension: float


@limited
def dimension_chain(K: Array, alpha: float) -> Chain:
    """KONS, Lemma 3: the three quantities that the bounds are made of, in increasing order.

    For the online Newton bounds K is the rescaled matrix D K D with D_t = l'(yhat_t) sqrt(eta_t);
    its dimensions never exceed those of eta L^2 K.
    """
    check(positive={"alpha": alpha})
    largest = float(np.linalg.eigvalsh(K)[-1]) if len(K) else 0.0
    return Chain(
        online_effective_dimension(K, alpha),
        log_determinant(K, alpha),
        effective_dimension(K, alpha) * (1.0 + math.log1p(max(largest, 0.0) / alpha)),
    )


def log_determinant_bound(
    n: int, alpha: float, effective_dimension: float, largest_kernel: float = 1.0
) -> float:
    """PKAWV, Prop. 2: log det(I + K/alpha) <= log(e + e n kappa^2/alpha) d_eff(alpha),
    kappa^2 = ``largest_kernel`` >= k(x, x)."""
    check(
        positive={"n": n, "alpha": alpha, "largest_kernel": largest_kernel},
        nonnegative={"effective_dimension": effective_dimension},
    )
    return effective_dimension * (1.0 + math.log1p(n * largest_kernel / alpha))
