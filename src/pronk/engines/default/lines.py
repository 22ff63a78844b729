"""Two linear learners of labels +-1, a few operations a column: for edges that are straight.

A kernel learner under squared loss has to bend to a straight edge; these have it. With x = (z, 1),
z the scaled columns between -4 and 4, one of each an output:

    logistic   p = tanh(f / 2),  f = w'x;   g = y x / (1 + exp(y f)),  G <- G + g^2,
               w <- w + 0.2 g / sqrt(G)                                          (AdaGrad)
    margin     p = tanh(h / c),  h = v'x / |x|,  c = 1 / (0.9 sqrt(k)) the margin of k - 1 updates;
               where y h <= 0.1 c:  v <- v + y sqrt(2 / k) x / |x|,  v <- v / max(1, |v|),
               k <- k + 1                                                        (ALMA)

ALMA learns from rows near its edge alone and so turns with the stream; AdaGrad settles.

References: Duchi, Hazan, Singer, "Adaptive subgradient methods", JMLR 2011; Gentile, "A new
approximate maximal margin classification algorithm", JMLR 2001 (p = 2, alpha = 0.9).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Step of the logistic learner; share of ALMA's margin; most that a scaled column counts.
STEP, SHARE, FARTHEST = 0.2, 0.9, 4.0
NAMES = ("logistic", "margin")


@njit(cache=True, nogil=True, fastmath={"contract"})
def line_scores(z: Array, w: Array, v: Array) -> tuple[float, float, float]:
    """(w'x, v'x, |x|) of one output."""
    d = z.size
    f, h, square = w[d], v[d], 1.0
    for j in range(d):
        x = min(max(z[j], -FARTHEST), FARTHEST)
        f += w[j] * x
        h += v[j] * x
        square += x * x
    return f, h, np.sqrt(square)


@njit(cache=True, nogil=True, fastmath={"contract"})
def line_values(f: float, h: float, size: float, updates: float) -> tuple[float, float]:
    """Both predictions of one output by its scores."""
    return np.tanh(0.5 * f), np.tanh(SHARE * np.sqrt(updates) * h / size)


@njit(cache=True, nogil=True, fastmath={"contract"})
def line_predictions(z: Array, W: Array, V: Array, updates: Array, out: Array) -> None:
    """Both predictions of each output for one row, (2, outputs)."""
    for o in range(len(W)):
        f, h, size = line_scores(z, W[o], V[o])
        out[0, o], out[1, o] = line_values(f, h, size, updates[o])


@njit(cache=True, nogil=True, fastmath={"contract"})
def learn_lines(
    Z: Array, Y: Array, W: Array, squares: Array, V: Array, updates: Array, out: Array
) -> None:
    """Predict then learn rows; ``updates`` are ALMA's k, ``squares`` AdaGrad's G."""
    d = Z.shape[1]
    for t in range(len(Z)):
        for o in range(len(W)):
            y, w, v = Y[t, o], W[o], V[o]
            f, h, size = line_scores(Z[t], w, v)
            out[t, 0, o], out[t, 1, o] = line_values(f, h, size, updates[o])
            miss = 1.0 / (1.0 + np.exp(min(y * f, 500.0)))
            for j in range(d + 1):
                x = min(max(Z[t, j], -FARTHEST), FARTHEST) if j < d else 1.0
                g = y * miss * x
                squares[o, j] += g * g
                if squares[o, j] > 0.0:
                    w[j] += STEP * g / np.sqrt(squares[o, j])
            if SHARE * np.sqrt(updates[o]) * y * h <= (1.0 - SHARE) * size:
                rate, total = y * np.sqrt(2.0 / updates[o]) / size, 0.0
                for j in range(d + 1):
                    x = min(max(Z[t, j], -FARTHEST), FARTHEST) if j < d else 1.0
                    v[j] += rate * x
                    total += v[j] * v[j]
                shrink = 1.0 / max(1.0, np.sqrt(total))
                for j in range(d + 1):
                    v[j] *= shrink
                updates[o] += 1.0
