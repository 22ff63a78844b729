"""The AWV forecasters: Kernel-AWV, and PKAWV in fixed subspaces and on a growing dictionary."""

from __future__ import annotations

import math

from pronk.regret.bounds.checks import check
from pronk.regret.bounds.dimensions import log_determinant_bound


def kernel_awv_bound(
    alpha: float, norm2: float, log_determinant: float, largest_label: float
) -> float:
    """PKAWV, Prop. 1: Kernel-AWV, squared loss, |y_t| <= B, no clipping:

        R(f) <= alpha |f|^2 + B^2 log det(I + K/alpha)        for every f.

    By Prop. 2 the log det is at most `log_determinant_bound`. The sum of y_t^2 times the online
    leverage scores is a sharper second term, and `kernel_awv_penalised_regret` the exact value.
    """
    check(
        positive={"alpha": alpha},
        nonnegative={
            "norm2": norm2,
            "log_determinant": log_determinant,
            "largest_label": largest_label,
        },
    )
    return alpha * norm2 + largest_label**2 * log_determinant


def pkawv_bound(
    n: int, alpha: float, norm2: float, log_determinant: float, largest_label: float, gap: float
) -> float:
    """PKAWV, Thm 3: PKAWV in a fixed subspace (features or points chosen beforehand), for every f
    of the whole RKHS:

        R(f) <= alpha |f|^2 + B^2 log det(I + K/alpha) + B^2 (mu + alpha) n mu/alpha^2,

    mu = ``gap`` the largest eigenvalue of K - K~, K~ the kernel projected on the subspace. The last
    term is unreadable in print; it is (28) of the proof at t = n.
    """
    check(positive={"n": n}, nonnegative={"gap": gap})
    cost = largest_label**2 * (gap + alpha) * n * gap / alpha**2
    return kernel_awv_bound(alpha, norm2, log_determinant, largest_label) + cost


def pkawv_kors_bound(
    n: int,
    alpha: float,
    norm2: float,
    effective_dimension: float,
    largest_label: float,
    gap: float,
    size: int,
    largest_kernel: float = 1.0,
) -> float:
    """PKAWV, Thm 6: PKAWV on a dictionary that KORS grows, the past recomputed at each growth
    (``history="exact"``), on KORS's event:

        R(f) <= alpha |f|^2 + B^2 d_eff(alpha) log(e + e n kappa^2/alpha)
                + 2 B^2 (size + 1) n mu/alpha,                      mu = ``gap`` <= alpha.

    ``size`` is |I_n|, the final dictionary; the paper has epsilon = 1/2 and mu = gamma, in general
    mu is `kors_gap`. For mu > alpha the bound is infinity. It does not speak of
    ``history="projected"``.
    """
    check(positive={"n": n}, nonnegative={"gap": gap, "size": size})
    if gap > alpha:
        return math.inf
    log_det = log_determinant_bound(n, alpha, effective_dimension, largest_kernel)
    cost = 2.0 * largest_label**2 * (size + 1) * n * gap / alpha
    return kernel_awv_bound(alpha, norm2, log_det, largest_label) + cost


def taylor_degree(n: int, alpha: float, radius: float, bandwidth: float) -> int:
    """The degree of PKAWV, Thm 4, for rows with |x| <= R = ``radius``:

        M = ceil(max(8 R^2/sigma^2, 2 log(n/min(alpha, 1)))).

    The print has lost parts of the formula; the proof uses this.
    """
    check(positive={"n": n, "alpha": alpha, "bandwidth": bandwidth}, nonnegative={"radius": radius})
    return math.ceil(max(8.0 * radius**2 / bandwidth**2, 2.0 * math.log(n / min(alpha, 1.0))))


def taylor_gap(n: int, radius: float, bandwidth: float, degree: int) -> float:
    """n (R/sigma)^(2M+2)/(M+1)!, which bounds the largest eigenvalue of K - K~ for Taylor features
    of degree M (PKAWV, Lemma 13, summed over the rows); `pkawv_bound` takes it for any degree."""
    check(positive={"n": n, "bandwidth": bandwidth}, nonnegative={"radius": radius})
    if radius == 0.0:
        return 0.0
    powers = 2 * (degree + 1) * math.log(radius / bandwidth) - math.lgamma(degree + 2)
    return n * math.exp(powers) if powers < 700.0 else math.inf


def pkawv_taylor_bound(
    n: int,
    alpha: float,
    norm2: float,
    log_determinant: float,
    largest_label: float,
    radius: float,
    bandwidth: float,
    degree: int,
) -> float:
    """PKAWV, Thm 4: PKAWV on Taylor features of the Gaussian kernel, |x_t| <= R, |y_t| <= B:

        R(f) <= alpha |f|^2 + 3/2 B^2 log det(I + K/alpha)      for degree >= `taylor_degree`.

    Below that degree the theorem is silent (infinity); `pkawv_bound` with `taylor_gap` is not.
    """
    bound = kernel_awv_bound(alpha, norm2, 1.5 * log_determinant, largest_label)
    return bound if degree >= taylor_degree(n, alpha, radius, bandwidth) else math.inf
