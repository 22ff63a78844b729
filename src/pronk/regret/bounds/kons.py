"""The online Newton step with all points: KONS and Sketched-KONS."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pronk.parts.leverage import online_leverage_scores
from pronk.parts.threads import limited
from pronk.regret.bounds.checks import check, log_factor

Array = NDArray[np.float64]


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
    """R_G and R_D of a run: K over its rows, slopes l'(yhat_t), coefficients eta_t > 0, curvatures.

    R_G = sum_t tau_t/eta_t, tau_t the online leverage score of row t in D K D with
    D_t = l'(yhat_t) sqrt(eta_t).
    """
    g = np.asarray(slopes, dtype=np.float64)
    eta = np.broadcast_to(np.asarray(etas, dtype=np.float64), g.shape)
    if not (eta > 0).all():
        raise ValueError("etas must be positive")
    D = g * np.sqrt(eta)
    scores = online_leverage_scores(D[:, None] * K * D, alpha)
    apart = np.asarray(predictions, dtype=np.float64) - np.asarray(comparator_predictions)
    return NewtonTerms(
        float((scores / eta).sum()),
        float(((eta - np.asarray(sigmas)) * (g * apart) ** 2).sum()),
    )


def newton_bound(alpha: float, norm2: float, terms: NewtonTerms) -> float:
    """KONS, Prop. 1, the sharp form that the theorems relax:

        2 R(f) <= alpha |f|^2 + R_G + R_D,

    for KONS, for online Newton in any features, and for each epoch of PROS-N-KONS in its own space
    (all its rows, K and f those of the space). The paper prints it without the 2, which its proof
    gives: 2 g'(w_t - w) telescopes, and Assumption 2 has sigma/2.
    """
    check(positive={"alpha": alpha}, nonnegative={"norm2": norm2})
    return 0.5 * (alpha * norm2 + terms.gradients + terms.curvature)


def kons_step_bound(
    alpha: float,
    norm2: float,
    online_dimension: float,
    etas: ArrayLike,
    sigma: float,
    lipschitz: float,
    clip: float,
) -> float:
    """KONS, Thm 1, any step sizes. KONS with coefficients eta_t:

        R(f) <= alpha |f|^2 + d_onl(alpha)/min eta_t + 4 C^2 L^2 sum_t max(eta_t - sigma, 0).

    ``online_dimension`` is that of the rescaled matrix D K D, D_t = l'(yhat_t) sqrt(eta_t), where
    the text shows that of K (its bars are lost). The print has eta_T and needs eta_t >= sigma; with
    the least eta_t and the positive parts every sequence is covered. Half of it holds as well.
    """
    eta = np.asarray(etas, dtype=np.float64)
    check(
        positive={"alpha": alpha, "etas": float(eta.min(initial=np.inf)), "clip": clip},
        nonnegative={
            "norm2": norm2,
            "online_dimension": online_dimension,
            "sigma": sigma,
            "lipschitz": lipschitz,
        },
    )
    drift = 4.0 * (clip * lipschitz) ** 2 * float(np.maximum(eta - sigma, 0.0).sum())
    return alpha * norm2 + online_dimension / float(eta.min()) + drift


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
    """KONS, Thm 1, sigma > 0: KONS with eta_t = sigma (or a smaller constant ``eta``):

        R(f) <= alpha |f|^2 + (2/eta) d log(2 eta L^2 n/alpha),    d = d_eff(alpha/(eta L^2)).

    ``effective_dimension`` is d. Restored: "/alpha" in the logarithm, which the print has not and
    Eq. 3 of PROS-N-KONS has. Where eta L^2 n/alpha is below about 1.2 the logarithm is too small,
    or negative; there 1 + log(1 + .) of the proof stands for 2 log(2 .), so alpha <= sqrt(n) is
    not needed. For eta > sigma this form is silent (infinity): see `kons_step_bound`.
    """
    check(
        positive={"n": n, "alpha": alpha, "sigma": sigma, "lipschitz": lipschitz},
        nonnegative={"norm2": norm2, "effective_dimension": effective_dimension},
    )
    eta = sigma if eta is None else eta
    check(positive={"eta": eta})
    if eta > sigma * (1.0 + 1e-12):
        return math.inf
    x = eta * lipschitz**2 * (n if trace is None else trace) / alpha
    return alpha * norm2 + effective_dimension * log_factor(x) / eta


def kons_convex_bound(
    n: int,
    alpha: float,
    norm2: float,
    effective_dimension: float,
    lipschitz: float,
    clip: float,
    trace: float | None = None,
) -> float:
    """KONS, Thm 1, sigma = 0: KONS with eta_t = 1/(L C sqrt t), any convex loss:

        R(f) <= alpha |f|^2 + 4 L C sqrt(n) d log(2 L^2 n/alpha),        d = d_eff(alpha/L^2).

    Restored: the root covers n alone (the text below the theorem says so, the print does not), and
    "/alpha". The proof has eta_t <= 1, that is L C >= 1; for L C < 1 read L/C for L^2, also in
    ``effective_dimension`` = d_eff(alpha/max(L^2, L/C)). Where the logarithm is too small the
    proof's own L C sqrt(n) (d (1 + log(1 + .))/2 + 4) stands for the second term.
    """
    check(
        positive={"n": n, "alpha": alpha, "lipschitz": lipschitz, "clip": clip},
        nonnegative={"norm2": norm2, "effective_dimension": effective_dimension},
    )
    x = max(lipschitz**2, lipschitz / clip) * (n if trace is None else trace) / alpha
    printed = 4.0 * effective_dimension * math.log(2.0 * x)
    proven = 0.5 * effective_dimension * (1.0 + math.log1p(x)) + 4.0
    return alpha * norm2 + lipschitz * clip * math.sqrt(n) * max(printed, proven)


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
    """KONS, Thm 3: Sketched-KONS with eta_t = sigma (or less), with probability at least
    1 - 2 delta for beta >= `kors_beta`:

        R(f) <= alpha |f|^2 + 2 d log(2 eta L^2 n/alpha) / (eta (1 - eps) p),
        p = max(floor, min(beta tau_min, 1)),                       d = d_eff(alpha/(eta L^2)).

    tau_min = ``least_leverage``: the least online leverage score of the rescaled rows whose slope
    is not 0 (0 if it is not known: then p = floor). Restored: 1/(1 - eps) from Corollary 1, the cap
    of beta tau_min at 1 (p is a probability), "/alpha". p = 0 or eps >= 1: infinity. The second
    delta pays for a floor above KORS's own coin: the sketch is then compared with a dictionary
    drawn with the larger probability.
    """
    check(
        positive={"beta + floor": beta + floor},
        nonnegative={
            "floor": floor,
            "epsilon": epsilon,
            "beta": beta,
            "least_leverage": least_leverage,
        },
        at_most_one={"floor": floor, "least_leverage": least_leverage},
    )
    exact = kons_bound(n, alpha, norm2, effective_dimension, sigma, lipschitz, eta, trace)
    p = max(floor, min(beta * least_leverage, 1.0))
    if p == 0.0 or epsilon >= 1.0:
        return math.inf
    return alpha * norm2 + (exact - alpha * norm2) / ((1.0 - epsilon) * p)
