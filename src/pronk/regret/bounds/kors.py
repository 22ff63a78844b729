"""What KORS guarantees of its dictionary: the gap to the whole space, and its size."""

from __future__ import annotations

import math

from pronk.regret.bounds.checks import check


def kors_beta(n: int, epsilon: float, delta: float) -> float:
    """The oversampling 3 log(n/delta)/epsilon^2 from which KORS's guarantee holds.

    PROS-N-KONS, Prop. 1. The bounds that speak of KORS hold on its event, of probability at
    least 1 - delta for such a beta.
    """
    check(positive={"n": n, "epsilon": epsilon, "delta": delta}, at_most_one={"delta": delta})
    return 3.0 * math.log(n / delta) / epsilon**2


def kors_gap(gamma: float, epsilon: float) -> float:
    """gamma epsilon/(1 - epsilon), which on KORS's event bounds the largest eigenvalue of
    K - K~, K~ the kernel projected on the dictionary's span (PROS-N-KONS, Prop. 1); infinity for
    epsilon >= 1."""
    check(positive={"gamma": gamma}, nonnegative={"epsilon": epsilon})
    return gamma * epsilon / (1.0 - epsilon) if epsilon < 1.0 else math.inf


def kors_size_bound(
    n: int, effective_dimension: float, epsilon: float, beta: float, delta: float
) -> float:
    """Points that KORS holds after n rows, at most (PROS-N-KONS, Prop. 1):

        J <= (1+eps)/(1-eps) 3 beta d_eff(gamma) log(2 n/delta).

    Its Thm 1 drops the first fraction and delta, and Prop. 5 of PKAWV prints
    9 d_eff log(2n/delta)^2, which its own eps = 1/2 and beta = 12 log(n/delta) do not give; this is
    the proven form.
    """
    check(
        positive={"n": n, "beta": beta, "delta": delta},
        nonnegative={"effective_dimension": effective_dimension, "epsilon": epsilon},
        at_most_one={"delta": delta},
    )
    if epsilon >= 1.0:
        return math.inf
    ratio = (1.0 + epsilon) / (1.0 - epsilon)
    return ratio * 3.0 * beta * effective_dimension * math.log(2.0 * n / delta)
