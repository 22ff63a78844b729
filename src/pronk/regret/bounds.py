"""The papers' regret bounds as functions of plain numbers, one function per theorem.

All functions use the same symbols:

    n           rows                       norm2       |f|^2 of the comparator f
    alpha       penalty of the learner     lipschitz   L, |l'| <= L on [-clip, clip]
    gamma       KORS's regulariser         sigma       curvature of Assumption 2 on [-clip, clip]
    epsilon     KORS's accuracy            clip        C, the range of predictions
    eta         coefficient of g g' in A   largest_label   B, |y_t| <= B

Compute effective dimensions and log determinants of the rows' kernel matrix with
`effective_dimension(K, alpha)` and `log_determinant(K, alpha)`. The online Newton theorems assume
k(x, x) <= 1; without this assumption give ``trace``, the trace of K, which replaces n. Comparators
of these theorems must stay in [-clip, clip] on all rows (`Best.within` scales one), and so must the
labels of the squared loss.

If a premise of the theorem fails, the bound is infinity. Invalid arguments (negative, not finite,
out of range) raise a ValueError. Where a theorem is printed otherwise than it is proven, the bound
is the proven one, and the errata of the papers (`docs/errata.md`) name the difference.

The papers are named by their algorithm:

    PROS-N-KONS   Calandriello, Lazaric, Valko, "Efficient second-order online kernel learning with
                  adaptive embedding", NeurIPS 2017
    PKAWV         Jezequel, Gaillard, Rudi, "Efficient online learning with kernels for adversarial
                  large scale problems", NeurIPS 2019
    KONS          Calandriello, Lazaric, Valko, "Second-order kernel online convex optimization
                  with adaptive sketching", ICML 2017
    NONS-ALD      Li, Liao, "Nearly optimal algorithms with sublinear computational complexity for
                  online kernel regression", ICML 2023
    AIOLI         Jezequel, Gaillard, Rudi, "Efficient improper learning for online logistic
                  regression", COLT 2020
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from pronk.core.arrays import Array
from pronk.core.checks import check_positive
from pronk.core.dictionary import (
    effective_dimension,
    online_effective_dimension,
    online_leverage_scores,
)
from pronk.core.linalg import cholesky
from pronk.core.runtime import limited

# -- shared by the bounds -------------------------------------------------------------------------


def log_factor(x: float) -> float:
    """Return 2 log(2x) of the theorems, or 1 + log(1 + x) of their proofs if that is larger."""
    printed = 2.0 * math.log(2.0 * x) if x > 0.0 else -math.inf
    return max(printed, 1.0 + math.log1p(x))


#: Symbols of numbers above 0, of numbers that may be 0, and of those at most 1.
POSITIVE = {
    "n", "alpha", "gamma", "delta", "discount", "sigma", "eta", "lipschitz", "clip", "bandwidth",
    "largest_kernel", "C", "largest",
}  # fmt: skip
NOT_NEGATIVE = {
    "norm2", "effective_dimension", "online_dimension", "log_determinant", "largest_label",
    "epsilon", "beta", "gap", "size", "radius", "restarts", "rows_before", "floor",
    "least_leverage", "nu", "loss", "squares",
}  # fmt: skip
AT_MOST_ONE = {"delta", "discount", "floor", "least_leverage"}

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def checked(*zero: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a bound raise a ValueError for an argument outside the range of its symbol.

    ``zero`` are symbols that may be 0 in this bound. NaN is outside every range.
    """

    def decorate(bound: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        signature = inspect.signature(bound)

        @wraps(bound)
        def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
            for name, value in signature.bind(*args, **options).arguments.items():
                if value is not None and name in POSITIVE | NOT_NEGATIVE:
                    check_positive(name, value, zero=name in zero or name in NOT_NEGATIVE)
                if name in AT_MOST_ONE and value > 1.0:
                    raise ValueError(f"{name} must be at most 1, got {value!r}")
            return bound(*args, **options)

        return call

    return decorate


# -- effective dimensions and log determinants ----------------------------------------------------


@limited
@checked()
def log_determinant(K: Array, alpha: float) -> float:
    """Return log det(I + K/alpha), from a Cholesky factor."""
    L = cholesky(K / alpha + np.eye(len(K)), "kernel matrix")
    return 2.0 * float(np.log(np.diag(L)).sum())


class Chain(NamedTuple):
    """Three quantities, d_onl <= log det(I + K/alpha) <= d_eff (1 + log(|K|/alpha + 1))."""

    online_dimension: float
    log_determinant: float
    from_effective_dimension: float


@limited
@checked()
def dimension_chain(K: Array, alpha: float) -> Chain:
    """Return the three quantities of KONS, Lemma 3, used in the bounds, in increasing order.

    For the online Newton bounds K is the rescaled matrix D K D with D_t = l'(yhat_t) sqrt(eta_t);
    its dimensions never exceed those of eta L^2 K.
    """
    largest = float(np.linalg.eigvalsh(K)[-1]) if len(K) else 0.0
    return Chain(
        online_effective_dimension(K, alpha),
        log_determinant(K, alpha),
        effective_dimension(K, alpha) * (1.0 + math.log1p(max(largest, 0.0) / alpha)),
    )


@checked()
def log_determinant_bound(
    n: int, alpha: float, effective_dimension: float, largest_kernel: float = 1.0
) -> float:
    """Return the bound of PKAWV, Prop. 2, on the log determinant:

        log det(I + K/alpha) <= log(e + e n kappa^2/alpha) d_eff(alpha),

    with kappa^2 = ``largest_kernel`` >= k(x, x).
    """
    return effective_dimension * (1.0 + math.log1p(n * largest_kernel / alpha))


# -- the dictionary of KORS: its gap to the whole space, and its size -----------------------------


@checked()
def kors_beta(n: int, epsilon: float, delta: float) -> float:
    """Return 3 log(n/delta)/epsilon^2, the oversampling from which KORS's guarantee holds.

    This is PROS-N-KONS, Prop. 1. Bounds that involve KORS hold on an event, "KORS's event", whose
    probability is at least 1 - delta for such a beta.
    """
    check_positive("epsilon", epsilon)
    return 3.0 * math.log(n / delta) / epsilon**2


@checked()
def kors_gap(gamma: float, epsilon: float) -> float:
    """Return gamma epsilon/(1 - epsilon), the bound of PROS-N-KONS, Prop. 1, on the gap.

    On KORS's event it bounds the largest eigenvalue of K - K~, where K~ is the kernel projected on
    the span of the dictionary. It is infinity for epsilon >= 1.
    """
    return gamma * epsilon / (1.0 - epsilon) if epsilon < 1.0 else math.inf


@checked()
def kors_size_bound(
    n: int, effective_dimension: float, epsilon: float, beta: float, delta: float
) -> float:
    """Return the bound of PROS-N-KONS, Prop. 1, on the points of KORS's dictionary after n rows:

        J <= (1+eps)/(1-eps) 3 beta d_eff(gamma) log(2 n/delta).

    It is infinity for epsilon >= 1.
    """
    if epsilon >= 1.0:
        return math.inf
    ratio = (1.0 + epsilon) / (1.0 - epsilon)
    return ratio * 3.0 * beta * effective_dimension * math.log(2.0 * n / delta)


# -- AWV forecasters: Kernel-AWV, and PKAWV in fixed subspaces and on a growing dictionary --------


@checked()
def kernel_awv_bound(
    alpha: float, norm2: float, log_determinant: float, largest_label: float
) -> float:
    """Return the bound of PKAWV, Prop. 1, on Kernel-AWV: squared loss, |y_t| <= B, no clipping:

        R(f) <= alpha |f|^2 + B^2 log det(I + K/alpha)        for every f.

    By Prop. 2 the log det is at most `log_determinant_bound`. The sum of y_t^2 times the online
    leverage scores is a sharper second term, and `kernel_awv_penalised_regret` the exact value.
    """
    return alpha * norm2 + largest_label**2 * log_determinant


@checked()
def pkawv_bound(
    n: int, alpha: float, norm2: float, log_determinant: float, largest_label: float, gap: float
) -> float:
    """Return the bound of PKAWV, Thm 3, on PKAWV in a fixed subspace, for every f of the RKHS:

        R(f) <= alpha |f|^2 + B^2 log det(I + K/alpha) + B^2 (mu + alpha) n mu/alpha^2.

    The subspace is that of features or points chosen beforehand; mu = ``gap`` is the largest
    eigenvalue of K - K~, with K~ the kernel projected on the subspace.
    """
    cost = largest_label**2 * (gap + alpha) * n * gap / alpha**2
    return kernel_awv_bound(alpha, norm2, log_determinant, largest_label) + cost


@checked()
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
    """Return the bound of PKAWV, Thm 6, on PKAWV with a dictionary of KORS, on KORS's event:

        R(f) <= alpha |f|^2 + B^2 d_eff(alpha) log(e + e n kappa^2/alpha)
                + 2 B^2 (size + 1) n mu/alpha,                      mu = ``gap`` <= alpha.

    The past must be recomputed at each new point (``history="exact"``); ``history="projected"`` is
    not covered. ``size`` is |I_n|, the points of the final dictionary; the paper has epsilon = 1/2
    and mu = gamma, in general mu is `kors_gap`. For mu > alpha the bound is infinity.
    """
    if gap > alpha:
        return math.inf
    log_det = log_determinant_bound(n, alpha, effective_dimension, largest_kernel)
    cost = 2.0 * largest_label**2 * (size + 1) * n * gap / alpha
    return kernel_awv_bound(alpha, norm2, log_det, largest_label) + cost


@checked()
def taylor_degree(n: int, alpha: float, radius: float, bandwidth: float) -> int:
    """Return the degree of PKAWV, Thm 4, for rows with |x| <= R = ``radius``:

        M = ceil(max(8 R^2/sigma^2, 2 log(n/min(alpha, 1)))).

    Parts of the formula are missing in print; this is the form used in the proof.
    """
    return math.ceil(max(8.0 * radius**2 / bandwidth**2, 2.0 * math.log(n / min(alpha, 1.0))))


@checked()
def taylor_gap(n: int, radius: float, bandwidth: float, degree: int) -> float:
    """Return n (R/sigma)^(2M+2)/(M+1)!, a ``gap`` for `pkawv_bound` with Taylor features.

    It bounds the largest eigenvalue of K - K~ for any degree M (PKAWV, Lemma 13, summed over the
    rows).
    """
    if radius == 0.0:
        return 0.0
    powers = 2 * (degree + 1) * math.log(radius / bandwidth) - math.lgamma(degree + 2)
    return n * math.exp(powers) if powers < 700.0 else math.inf


@checked()
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
    """Return the bound of PKAWV, Thm 4, on PKAWV with Taylor features, |x_t| <= R, |y_t| <= B:

        R(f) <= alpha |f|^2 + 3/2 B^2 log det(I + K/alpha)      for degree >= `taylor_degree`.

    The kernel is Gaussian. The theorem does not cover lower degrees (infinity); `pkawv_bound` with
    `taylor_gap` does.
    """
    bound = kernel_awv_bound(alpha, norm2, 1.5 * log_determinant, largest_label)
    return bound if degree >= taylor_degree(n, alpha, radius, bandwidth) else math.inf


@checked("largest_kernel")
def discounted_awv_bound(
    n: int,
    alpha: float,
    discount: float,
    norms2: ArrayLike,
    variation: float,
    largest_label: float,
    size: int,
    largest_kernel: float = 1.0,
) -> float:
    """Return the bound on PKAWV with a discount against a sequence of functions u_1, .., u_n:

        R(u) <= alpha |u_n|^2 + (1 - g) alpha sum_{t<n} |u_t|^2 + g V + sum_t c_t y_t^2,
        sum_t c_t y_t^2 <= B^2/(2 - 1/g) r (log(1 + N k/(alpha r)) + n log(1/g)),

    g = ``discount`` > 1/2 (else infinity), r = ``size`` features, k = ``largest_kernel`` >= k(x, x)
    and N = (1 - g^n)/(1 - g). ``norms2`` (n,) are |u_t|^2, and ``variation`` is V, what the changes
    of u cost on the past (`discounted_variation`):

        V = sum_{t<n} F_t(u_{t+1}) - F_t(u_t),    F_t(u) = sum_{s<=t} g^(t-s) (y_s - u(x_s))^2.

    The form is that of the discounted AWV forecaster of Jacobsen, Cutkosky (ICML 2024), whose
    regulariser fades; here alpha I does not, which adds the sum of |u_t|^2. Proof: by the
    certificate's inequality (`pronk.newton.discounted`), (y - p)^2 <= V_t - g V_{t-1} + c y^2. The
    sum over t is V_n + (1 - g) sum_{t<n} V_t, V_t <= F_t(u_t) + alpha |u_t|^2, and
    (y_t - u_t(x_t))^2 = F_t(u_t) - g F_{t-1}(u_t). With s = 2 - 1/g, c = q/(q + s) is at most
    log(1 + q)/s, and det A_t >= g^r (1 + q_t) det A_{t-1}. For features of a growing dictionary u
    is in its final span and rows are their projections. Nothing is claimed about the best discount.
    """
    squares = np.atleast_1d(np.asarray(norms2, dtype=np.float64))
    check_positive("norms2", float(squares.min(initial=0.0)), zero=True)
    if len(squares) != n:
        raise ValueError(f"norms2 must have one entry per row, {n}, got {len(squares)}")
    if discount <= 0.5:
        return math.inf
    penalty = alpha * float(squares[-1] + (1.0 - discount) * squares[:-1].sum())
    rows = n if discount == 1.0 else (1.0 - discount**n) / (1.0 - discount)
    logs = math.log1p(rows * largest_kernel / (alpha * size)) if size else 0.0
    growth = size * (logs - n * math.log(discount))
    return penalty + discount * variation + largest_label**2 / (2.0 - 1.0 / discount) * growth


# -- the online Newton step with all points: KONS and Sketched-KONS -------------------------------


class NewtonTerms(NamedTuple):
    """The two sums of KONS, Prop. 1."""

    gradients: float  # R_G = sum_t g_t'A_t^-1 g_t
    curvature: float  # R_D = sum_t (eta_t - sigma_t) (l'(yhat_t) (yhat_t - f(x_t)))^2


@limited
def newton_terms(
    K: Array,
    alpha: float,
    slopes: ArrayLike,
    etas: ArrayLike | float,
    sigmas: ArrayLike | float = 0.0,
    predictions: ArrayLike = 0.0,
    comparator_predictions: ArrayLike = 0.0,
) -> NewtonTerms:
    """Return R_G and R_D of a run.

    K (n, n) is the kernel matrix of its rows, ``slopes`` are l'(yhat_t), ``etas`` the coefficients
    eta_t > 0 and ``sigmas`` the curvatures. R_G = sum_t tau_t/eta_t, with tau_t the online leverage
    score of row t in D K D, D_t = l'(yhat_t) sqrt(eta_t).
    """
    g = np.asarray(slopes, dtype=np.float64)
    eta = np.broadcast_to(np.asarray(etas, dtype=np.float64), g.shape)
    if not (eta > 0).all():
        raise ValueError("etas must be positive")
    D = g * np.sqrt(eta)
    scores = online_leverage_scores(D[:, None] * K * D, alpha)
    difference = np.asarray(predictions, dtype=np.float64) - np.asarray(comparator_predictions)
    return NewtonTerms(
        float((scores / eta).sum()),
        float(((eta - np.asarray(sigmas)) * (g * difference) ** 2).sum()),
    )


@checked()
def newton_bound(alpha: float, norm2: float, terms: NewtonTerms) -> float:
    """Return the bound of KONS, Prop. 1, the sharp form from which the theorems follow:

        2 R(f) <= alpha |f|^2 + R_G + R_D.

    It holds for KONS, for online Newton in any features, and for each epoch of PROS-N-KONS in its
    own space (over the rows of the epoch, with K and f of that space).
    """
    return 0.5 * (alpha * norm2 + terms.gradients + terms.curvature)


@checked("sigma", "lipschitz")
def kons_step_bound(
    alpha: float,
    norm2: float,
    online_dimension: float,
    etas: ArrayLike,
    sigma: float,
    lipschitz: float,
    clip: float,
) -> float:
    """Return the bound of KONS, Thm 1, on KONS with any coefficients eta_t:

        R(f) <= alpha |f|^2 + d_onl(alpha)/min eta_t + 4 C^2 L^2 sum_t max(eta_t - sigma, 0).

    ``online_dimension`` is that of the rescaled matrix D K D, D_t = l'(yhat_t) sqrt(eta_t). The
    print has eta_T and needs eta_t >= sigma; with the least eta_t and the positive parts every
    sequence is covered. Half of the bound holds as well.
    """
    eta = np.asarray(etas, dtype=np.float64)
    check_positive("etas", float(eta.min(initial=np.inf)))
    drift = 4.0 * (clip * lipschitz) ** 2 * float(np.maximum(eta - sigma, 0.0).sum())
    return alpha * norm2 + online_dimension / float(eta.min()) + drift


@checked()
def kons_bound(
    n: int,
    alpha: float,
    norm2: float,
    effective_dimension: float,
    sigma: float,
    lipschitz: float,
    eta: float | None = None,
    trace: float | None = None,
) -> float:
    """Return the bound of KONS, Thm 1, on KONS with eta_t = sigma > 0, or a smaller ``eta``:

        R(f) <= alpha |f|^2 + (2/eta) d log(2 eta L^2 n/alpha),    d = d_eff(alpha/(eta L^2)).

    ``effective_dimension`` is d. Where eta L^2 n/alpha is below about 1.2 the logarithm is too
    small or negative; there 1 + log(1 + .) of the proof replaces 2 log(2 .), so alpha <= sqrt(n) is
    not needed. This form does not cover eta > sigma (infinity): see `kons_step_bound`.
    """
    eta = sigma if eta is None else eta
    if eta > sigma * (1.0 + 1e-12):
        return math.inf
    x = eta * lipschitz**2 * (n if trace is None else trace) / alpha
    return alpha * norm2 + effective_dimension * log_factor(x) / eta


@checked()
def kons_convex_bound(
    n: int,
    alpha: float,
    norm2: float,
    effective_dimension: float,
    lipschitz: float,
    clip: float,
    trace: float | None = None,
) -> float:
    """Return the bound of KONS, Thm 1, on KONS with eta_t = 1/(L C sqrt t) and any convex loss:

        R(f) <= alpha |f|^2 + 4 L C sqrt(n) d log(2 L^2 n/alpha),        d = d_eff(alpha/L^2).

    Here sigma = 0. The proof has eta_t <= 1, that is L C >= 1; for L C < 1 replace L^2 by L/C, also
    in ``effective_dimension`` = d_eff(alpha/max(L^2, L/C)). Where the logarithm is too small,
    L C sqrt(n) (d (1 + log(1 + .))/2 + 4) of the proof replaces the second term.
    """
    x = max(lipschitz**2, lipschitz / clip) * (n if trace is None else trace) / alpha
    printed = 4.0 * effective_dimension * math.log(2.0 * x)
    proven = 0.5 * effective_dimension * (1.0 + math.log1p(x)) + 4.0
    return alpha * norm2 + lipschitz * clip * math.sqrt(n) * max(printed, proven)


@checked()
def sketched_kons_bound(
    n: int,
    alpha: float,
    norm2: float,
    effective_dimension: float,
    sigma: float,
    lipschitz: float,
    floor: float,
    epsilon: float,
    beta: float = 0.0,
    least_leverage: float = 0.0,
    eta: float | None = None,
    trace: float | None = None,
) -> float:
    """Return the bound of KONS, Thm 3, on Sketched-KONS with eta_t = sigma, or less:

        R(f) <= alpha |f|^2 + 2 d log(2 eta L^2 n/alpha) / (eta (1 - eps) p),
        p = max(floor, min(beta tau_min, 1)),                       d = d_eff(alpha/(eta L^2)).

    It holds with probability at least 1 - 2 delta for beta >= `kors_beta`. tau_min =
    ``least_leverage`` is the least online leverage score of the rescaled rows whose slope is not 0
    (0 if it is unknown: then p = floor). The bound is infinity for p = 0 or eps >= 1. The second
    delta is for a floor above the probability of KORS: the sketch is then compared with a
    dictionary drawn with the larger probability.
    """
    check_positive("beta + floor", beta + floor)
    exact = kons_bound(n, alpha, norm2, effective_dimension, sigma, lipschitz, eta, trace)
    p = max(floor, min(beta * least_leverage, 1.0))
    if p == 0.0 or epsilon >= 1.0:
        return math.inf
    return alpha * norm2 + (exact - alpha * norm2) / ((1.0 - epsilon) * p)


# -- the online Newton step in the span of a dictionary, with restarts: PROS-N-KONS ---------------


@checked()
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
    """Return the bound of PROS-N-KONS, Thm 1: loss with curvature, eta_t = sigma/2, KORS's event:

        R(f) <= J (alpha |f|^2 + (4/sigma) d log(2 sigma L^2 n/alpha))
                + (L^2/alpha) (n gamma eps/(4 (1-eps)) + J) + 2 J L C + L C rows_before,

    Here d = d_eff(alpha/(sigma L^2)) = ``effective_dimension``, and J = ``restarts`` is the number
    of epochs (at most `kors_size_bound`). gamma <= alpha is needed (else infinity).
    ``rows_before`` counts the rows before the first epoch, which the theorem leaves out: they are
    predicted 0 and cost at most L C each. The 2 L C per epoch are for its last row, which was added
    to the dictionary and is not in the space of that epoch.

    The proof applies Assumption 2 to the regularised minimisers of each epoch without the condition
    that they stay in [-C, C]; the theorem is used as stated.
    """
    gap = kors_gap(gamma, epsilon)
    if gamma > alpha or math.isinf(gap):
        return math.inf
    x = sigma * lipschitz**2 * (n if trace is None else trace) / alpha
    epoch = alpha * norm2 + 2.0 * effective_dimension * log_factor(x) / sigma
    spaces = lipschitz**2 / alpha * (n * gap / 4.0 + restarts)
    ends = lipschitz * clip * (2.0 * restarts + rows_before)
    return restarts * epoch + spaces + ends


@checked()
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
    """Return the bound of PROS-N-KONS, Thm 2: squared loss, on KORS's event:

        R(f) <= sum_j [(4/sigma) d_j log(2 sigma L^2 Tr(K_j)/alpha) + eps' L_j]
                + J (L C + L^2/alpha + alpha |f|^2) + L C rows_before,
        eps' = alpha/(alpha - gamma eps/(1-eps)) - 1.

    Here L = 4C, sigma = 1/(8 C^2) and eta_t = sigma/2. The arrays have one entry per epoch
    j = 1..J: d_j = d_eff(alpha/(sigma L^2)) and Tr(K_j) of its rows, and L_j, the least value of
    sum (f(x_t) - y_t)^2 + alpha |f|^2 on them. gamma eps/(1-eps) < alpha is needed (else infinity).
    """
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


# -- the online Newton step in the span of an ALD dictionary, carried over: NONS-ALD --------------


@checked()
def nons_ald_bound(
    n: int,
    alpha: float,
    norm2: float,
    size: int,
    eta: float,
    clip: float,
    largest_label: float,
    nu: float,
    trace: float | None = None,
) -> float:
    """Return the bound on NONS-ALD: squared loss, |y_t| <= B, a dictionary of J = ``size`` points:

        R(f) <= alpha/2 |f|^2 + J/(2 eta) log(1 + eta L^2 n/(alpha J)) + L n |f| sqrt(nu),
        L = 2 (C + B),

    for f with |f(x_t)| + |f| sqrt(nu) <= C on all rows and eta <= 1/(2 (C + B)^2) (else infinity);
    1/(4 C^2 + 4), ``eta="unit"``, is below that for B <= 1. ``trace`` is the sum of k(x_t, x_t),
    which replaces n in the logarithm where k(x, x) is not 1.

    The learner is the online Newton step on the rows projected on the span of their own times, and
    (u - y)^2 = (p - y)^2 + g (u - p) + g^2 (u - p)^2/(4 (p - y)^2), so `newton_bound` holds for
    these rows with R_D <= 0. R_G <= log det(A/alpha)/eta, and A has J eigenvalues. A projected row
    is within sqrt(nu) of the row itself, which changes a loss of f by at most L |f| sqrt(nu).
    The bound is of the order d_eff log n where J is of the order d_eff at nu of the order 1/n^2.
    """
    slope = 2.0 * (clip + largest_label)
    if eta * slope**2 > 2.0 * (1.0 + 1e-12):
        return math.inf
    total = n if trace is None else trace
    logs = size * math.log1p(eta * slope**2 * total / (alpha * size)) if size else 0.0
    return 0.5 * (alpha * norm2 + logs / eta) + slope * n * math.sqrt(norm2 * nu)


# -- AIOLI ----------------------------------------------------------------------------------------


@checked()
def aioli_bound(alpha: float, norm2: float, log_determinant: float, radius: float) -> float:
    """Return the bound on AIOLI in fixed features, logistic loss, for f with |f(x_t)| <= BR:

        R(f) <= alpha |f|^2 + (1 + BR) log det(I + K/(8 alpha (1 + BR))),    BR = ``radius``.

    K is the kernel matrix of the features. A row's loss is above its quadratic at the prediction,
    of curvature c = l''/(1 + BR), wherever |f| <= BR. The regret on the quadratics is at most
    (1 + BR) log det(A/(2 alpha)), A = 2 alpha I + sum c phi phi', because a row adds at most
    (1 + BR) c q/(1 + c q) (`pronk.newton.recurrence.aioli_row`), and c <= 1/(4 (1 + BR)). The
    learner's `certificate` has log det(A/(2 alpha)) itself.
    """
    return alpha * norm2 + (1.0 + radius) * log_determinant


# -- Passive-Aggressive learners without a budget -------------------------------------------------
#
# Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, "Online passive-aggressive algorithms", JMLR 7,
# 2006. ``largest`` is R^2, the largest k(x, x), and f is any function of the RKHS.


@checked()
def pa_mistake_bound(C: float, norm2: float, loss: float, largest: float = 1.0) -> float:
    """Return the bound of Thm 4 on the mistakes of PA-I on labels:

        M <= max(R^2, 1/C) (|f|^2 + 2 C sum_t l_t(f)),

    where ``loss`` is the sum of f's hinge losses.
    """
    return max(largest, 1.0 / C) * (norm2 + 2.0 * C * loss)


@checked()
def pa_squared_loss_bound(C: float, norm2: float, squares: float, largest: float = 1.0) -> float:
    """Return the bound of Thm 5 (Section 5 for numbers) on the sum of PA-II's squared losses:

        sum_t l_t^2 <= (R^2 + 1/(2C)) (|f|^2 + 2 C sum_t l_t(f)^2),

    where ``squares`` is the sum of f's squared losses: the hinge loss of labels, the
    epsilon-insensitive loss of numbers.
    """
    return (largest + 0.5 / C) * (norm2 + 2.0 * C * squares)
