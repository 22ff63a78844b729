"""Stacks: regressions on the experts' predictions, ridge for numbers and logistic for labels.

Given expert predictions p, (experts, outputs), their average m, and lagged errors e of the average
(at the lags of `baselines.find_lags`; none where errors are not correlated in time):

    ridge      s = m + u'(p - m) + d'e,   (u, d) = A^-1 b,   A = alpha I + sum z z',   b = sum z r
               with z = (p - m, e)/B, r = (y - m)/B, B the half-width of the targets' range
    logistic   s = tanh(f / 2),   f = c m + u'(p - m) + d'e:   P(y = 1) = (1 + s) / 2

Errors are correlated in time where an unobserved quantity drifts; d corrects the part of an error
that recurs. An outlier does not recur: errors of numeric targets are read as at most three root
mean squares of the errors before (`clipping`).

Labels have logistic stacks: the weights that separate two classes best are not those of the least
squared error on +-1, which ranks experts that are right by little and experts that are confident
the other way round. (u, c, d) follow the log loss by online Newton steps. With x = (p - m, m, e)
and h = 1 / (1 + exp(y f)), the probability of the other label,

    H <- lambda H + (1 - lambda) alpha I + mean h (1 - h) x x'
    (u, c, d) <- (u, c, d) + H^-1 mean y h x

means over the outputs, starting from (0, 3, 0) and alpha I. A step that would change f by more than
2 is shortened to 2: after rows with h near 0 the sum of h (1 - h) underestimates the curvature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.core.compiling import compiled

Array = NDArray[np.float64]

#: Regularisation of the ridge stacks towards the average, in rows of squared half-widths.
RIDGE_ALPHA = 1.0
#: Regularisation of the logistic stacks; initial weight c of the average; longest step in f.
LOGIT_ALPHA, LOGIT_START, LOGIT_STEP = 0.1, 3.0, 2.0


@compiled(fastmath={"contract"})
def solve_positive(A: Array, b: Array, L: Array, x: Array) -> None:
    """Write A^-1 b to x by Cholesky: A (n, n), lower triangle; b and x (n,).

    L (n, n) is a work array. A is at least alpha I up to rounding.
    """
    n = b.size
    # L L' = A,  L z = b  (z in x)
    for i in range(n):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                L[i, i] = np.sqrt(max(total, 1e-300))
            else:
                L[i, j] = total / L[j, j]
        total = b[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    # L' x = z
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, n):
            total -= L[k, i] * x[k]
        x[i] = total / L[i, i]


@compiled
def solve_stacks(A: Array, b: Array, out: Array) -> None:
    """Write A^-1 b of each ridge stack to ``out``: A (stacks, terms, terms), b (stacks, terms)."""
    L = np.zeros(A.shape[1:])
    for s in range(len(A)):
        solve_positive(A[s], b[s], L, out[s])


@compiled
def discount_sums(A: Array, discount: float, alpha: float) -> None:
    """Discount the sums A (n, n), lower triangle: A <- discount A + (1 - discount) alpha I."""
    for e in range(len(A)):
        for f in range(e + 1):
            A[e, f] *= discount
        A[e, e] += (1.0 - discount) * alpha


@compiled(fastmath={"contract"})
def stacked(weights: Array, p: Array, m: float, lagged: Array, c: float) -> float:
    """Return c m + u'(p - m) + d'e of one output: p (experts,), ``lagged`` e (lags,).

    ``weights`` (terms,) begin with u and end with d.
    """
    total, first = c * m, weights.size - lagged.size
    for e in range(p.size):
        total += weights[e] * (p[e] - m)
    for k in range(lagged.size):
        total += weights[first + k] * lagged[k]
    return total


@compiled(fastmath={"contract"})
def logit(weights: Array, p: Array, m: float, lagged: Array) -> float:
    """Return f = c m + u'(p - m) + d'e of one output; ``weights`` = (u, c, d)."""
    return stacked(weights, p, m, lagged, weights[p.size])


@compiled(fastmath={"contract"})
def logistic_step(
    C: Array, average: Array, lagged: Array, y: Array, live: NDArray[np.bool_], discount: float,
    H: Array, weights: Array,
) -> None:  # fmt: skip
    """Learn a row of labels y = +-1 by a Newton step of the log loss.

    C (experts, outputs) are the clipped predictions p, ``average`` (outputs,) their average m,
    ``lagged`` (outputs, lags) its errors e, ``live`` (outputs,) the outputs that count;
    H (terms, terms), lower triangle, and ``weights`` (terms,) = (u, c, d) are changed.
    """
    (experts, outputs), terms = C.shape, weights.size
    x, slope, step = np.empty(terms), np.zeros(terms), np.empty(terms)
    count = 0
    for o in range(outputs):
        count += live[o]
    # H <- lambda H + (1 - lambda) alpha I + mean h (1 - h) x x',  slope = mean y h x
    discount_sums(H, discount, LOGIT_ALPHA)
    for o in range(outputs):
        if not live[o]:
            continue
        miss = 1.0 / (1.0 + np.exp(y[o] * logit(weights, C[:, o], average[o], lagged[o])))
        for e in range(experts):
            x[e] = C[e, o] - average[o]
        x[experts] = average[o]
        for k in range(lagged.shape[1]):
            x[experts + 1 + k] = lagged[o, k]
        for e in range(terms):
            slope[e] += y[o] * miss * x[e] / count
            for f in range(e + 1):
                H[e, f] += miss * (1.0 - miss) * x[e] * x[f] / count
    # step = H^-1 slope, shortened so that no f changes by more than LOGIT_STEP
    solve_positive(H, slope, np.zeros(H.shape), step)
    longest = 0.0
    for o in range(outputs):
        if live[o]:
            longest = max(longest, abs(logit(step, C[:, o], average[o], lagged[o])))
    shrink = LOGIT_STEP / max(longest, LOGIT_STEP)
    for e in range(terms):
        weights[e] += shrink * step[e]
