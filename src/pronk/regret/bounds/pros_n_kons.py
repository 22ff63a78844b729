"""The online Newton step in the span of a dictionary with restarts: PROS-N-KONS."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pronk.regret.bounds.checks import check, log_factor
from pronk.regret.bounds.kors import kors_gap


def pros_n_kons_bound(
    n: int,
    alpha: float,
    gamma: float,
    epsilon: float,
    norm2: float,
    effective_dimension: float,
    sigma: float,
    lipschitz: float,
    clip: float,
    restarts: float,
    rows_before: int = 0,
    trace: float | None = None,
) -> float:
    """PROS-N-KONS, Thm 1: any loss with curvature, eta_t = sigma/2, on KORS's event:

        R(f) <= J (alpha |f|^2 + (4/sigma) d log(2 sigma L^2 n/alpha))
                + (L^2/alpha) (n gamma eps/(4 (1-eps)) + J) + 2 J L C + L C rows_before,

    d = d_eff(alpha/(sigma L^2)) = ``effective_dimension``, J = ``restarts`` the number of epochs
    (at most `kors_size_bound`). Needs gamma <= alpha (else infinity). Restored against the print,
    from its own proof: J L^2/alpha (printed L^2/alpha), 2 J L C (printed 2 J C), |f|^2 (printed
    |f| in the proof). ``rows_before`` counts the rows before the first epoch, which the theorem
    leaves out: they are predicted 0 and cost at most L C each. 2 L C an epoch is its last row: it
    joined the dictionary, and is not covered by the space of its own time.

    The proof applies Assumption 2 to each epoch's regularised minimisers without asking that they
    stay in [-C, C]; the theorem is taken as it stands.
    """
    check(
        positive={"n": n, "alpha": alpha, "sigma": sigma, "lipschitz": lipschitz, "clip": clip},
        nonnegative={
            "norm2": norm2,
            "effective_dimension": effective_dimension,
            "restarts": restarts,
            "rows_before": rows_before,
        },
    )
    gap = kors_gap(gamma, epsilon)
    if gamma > alpha or math.isinf(gap):
        return math.inf
    x = sigma * lipschitz**2 * (n if trace is None else trace) / alpha
    epoch = alpha * norm2 + 2.0 * effective_dimension * log_factor(x) / sigma
    spaces = lipschitz**2 / alpha * (n * gap / 4.0 + restarts)
    ends = lipschitz * clip * (2.0 * restarts + rows_before)
    return restarts * epoch + spaces + ends


def pros_n_kons_squared_bound(
    alpha: float,
    gamma: float,
    epsilon: float,
    norm2: float,
    clip: float,
    effective_dimensions: ArrayLike,
    traces: ArrayLike,
    best_losses: ArrayLike,
    rows_before: int = 0,
) -> float:
    """PROS-N-KONS, Thm 2: squared loss, L = 4C, sigma = 1/(8 C^2), eta_t = sigma/2, on KORS's
    event:

        R(f) <= sum_j [(4/sigma) d_j log(2 sigma L^2 Tr(K_j)/alpha) + eps' L_j]
                + J (L C + L^2/alpha + alpha |f|^2) + L C rows_before,
        eps' = alpha/(alpha - gamma eps/(1-eps)) - 1.

    One entry an epoch j = 1..J: d_j = d_eff(alpha/(sigma L^2)) and Tr(K_j) of its rows, L_j the
    least value of sum (f(x_t) - y_t)^2 + alpha |f|^2 on them. Restored: alpha |f|^2 in the last
    bracket, where the print has eps' alpha |f|^2. The proof drops the 1 in
    (1 + eps') alpha |f|^2 when it splits (1 + eps') L_j; with eps' = 0 the print would have no
    penalty at all and contradict KONS's own bound. Needs gamma eps/(1-eps) < alpha, else infinity:
    gamma = alpha with epsilon = 1/2, the paper's own setting, has no finite eps'.
    """
    check(
        positive={"alpha": alpha, "clip": clip},
        nonnegative={"norm2": norm2, "rows_before": rows_before},
    )
    d, trace, best = (
        np.atleast_1d(np.asarray(a, float)) for a in (effective_dimensions, traces, best_losses)
    )
    if not len(d) == len(trace) == len(best):
        raise ValueError("the arrays of the epochs must have one length")
    gap = kors_gap(gamma, epsilon)
    if not gap < alpha:
        return math.inf
    lipschitz, sigma = 4.0 * clip, 1.0 / (8.0 * clip**2)
    slack = alpha / (alpha - gap) - 1.0
    logs = np.array([log_factor(sigma * lipschitz**2 * t / alpha) for t in trace])
    epochs = float((2.0 * d * logs / sigma + slack * best).sum())
    ends = len(d) * (lipschitz * clip + lipschitz**2 / alpha + alpha * norm2)
    return epochs + ends + lipschitz * clip * rows_before
