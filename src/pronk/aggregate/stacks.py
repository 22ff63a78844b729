"""The combinations on top of the average, row by row: ridge for numbers, logistic for labels.

Of expert predictions p, (experts, outputs), their average m and its errors e some rows before (the
lagged; at the lags of `past`, none where the order of rows says nothing):

    ridge      s = m + u'(p - m) + d'e,   (u, d) = A^-1 b,   A = alpha I + sum z z',   b = sum z r
               with z = (p - m, e)/B, r = (y - m)/B, B the half-width of the targets' range
    logistic   s = tanh(f / 2),   f = c m + u'(p - m) + d'e:   P(y = 1) = (1 + s) / 2

Errors follow each other where something drifts that no column tells; d takes back of an error what
comes again. A glitch does not come again: with v the mean square of errors as they are read, over a
window of 200 rows, an error of numbers is read as at most 3 sqrt(v), v as it was before. A row
makes v at most 1.04 times as large: a stream whose errors become larger for good is followed.

What separates two classes best is not what comes closest to their +-1 in the mean square: experts
that are right by little and those that are sure count the other way round. So for labels (u, c)
follow the log loss by online Newton steps: with x = (p - m, m, e) and the probability h of the
label that did not come, h = 1 / (1 + exp(y f)),

    H <- lambda H + (1 - lambda) alpha I + mean h (1 - h) x x'
    (u, c, d) <- (u, c, d) + H^-1 mean y h x

means over the outputs, from (0, 3, 0) and alpha I; a row that would move an f by more than 2 moves
it by 2, since where all rows before were sure h (1 - h) says little about the curvature.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Errors are read as at most so many root mean squares, over a window of so many rows.
LAGGED_REACH, LAGGED_WINDOW = 3.0, 200.0
#: Regularisation of the ridge stacks towards the average, in rows of squared half-widths.
RIDGE_ALPHA = 1.0
#: The same of the logistic stacks; what the average is multiplied by at first; the longest step.
LOGIT_ALPHA, LOGIT_START, LOGIT_STEP = 0.1, 3.0, 2.0


@njit(cache=True, nogil=True, fastmath={"contract"})
def solve_positive(A: Array, b: Array, L: Array, x: Array) -> None:
    """x = A^-1 b by Cholesky; L is work space. A has a diagonal of at least some alpha's order."""
    n = b.size
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
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, n):
            total -= L[k, i] * x[k]
        x[i] = total / L[i, i]


@njit(cache=True, nogil=True)
def solve_stacks(A: Array, b: Array, out: Array) -> None:
    """The coefficients of all ridge stacks from their sums."""
    L = np.zeros(A.shape[1:])
    for s in range(len(A)):
        solve_positive(A[s], b[s], L, out[s])


@njit(cache=True, nogil=True)
def forget(A: Array, discount: float, alpha: float) -> None:
    """A <- discount A + (1 - discount) alpha I on the lower triangle."""
    for e in range(len(A)):
        for f in range(e + 1):
            A[e, f] *= discount
        A[e, e] += (1.0 - discount) * alpha


@njit(cache=True, nogil=True, fastmath={"contract"})
def stacked(weights: Array, p: Array, m: float, lagged: Array, c: float) -> float:
    """c m + u'(p - m) + d'e of one output; weights begin with u and end with d."""
    total, first = c * m, weights.size - lagged.size
    for e in range(p.size):
        total += weights[e] * (p[e] - m)
    for k in range(lagged.size):
        total += weights[first + k] * lagged[k]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def logit(weights: Array, p: Array, m: float, lagged: Array) -> float:
    """The same with weights = (u, c, d)."""
    return stacked(weights, p, m, lagged, weights[p.size])


@njit(cache=True, nogil=True, fastmath={"contract"})
def logistic_step(
    C: Array, average: Array, lagged: Array, y: Array, live: NDArray[np.bool_], discount: float,
    H: Array, weights: Array,
) -> None:  # fmt: skip
    """One row of labels +-1: predictions C (experts, outputs), their average, the errors before

    (outputs, lags); live outputs."""
    (experts, outputs), terms = C.shape, weights.size
    x, slope, step = np.empty(terms), np.zeros(terms), np.empty(terms)
    count = live.sum()
    forget(H, discount, LOGIT_ALPHA)
    for o in range(outputs):
        if not live[o]:
            continue
        miss = 1.0 / (1.0 + np.exp(y[o] * logit(weights, C[:, o], average[o], lagged[o])))
        for e in range(experts):
            x[e] = C[e, o] - average[o]
        x[experts] = average[o]
        x[experts + 1 :] = lagged[o]
        for e in range(terms):
            slope[e] += y[o] * miss * x[e] / count
            for f in range(e + 1):
                H[e, f] += miss * (1.0 - miss) * x[e] * x[f] / count
    solve_positive(H, slope, np.zeros(H.shape), step)
    longest = 0.0
    for o in range(outputs):
        if live[o]:
            longest = max(longest, abs(logit(step, C[:, o], average[o], lagged[o])))
    shrink = LOGIT_STEP / max(longest, LOGIT_STEP)
    for e in range(terms):
        weights[e] += shrink * step[e]
