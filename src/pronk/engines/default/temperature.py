"""Probabilities of labels, from margins and two slopes that follow the outcomes.

A margin m on targets +-1 estimates 2 P(+1) - 1, so p = (1 + m) / 2 is a first guess of the class's
probability. Over the classes that have come,

    P_k  =  exp(z_k) / sum_j exp(z_j),     z_k = a log p_k + b m_k

A plain temperature is a alone: it trusts the odds of rare classes, which squared loss says little
of; b looks at the margins as they are. (a, b) follow the log loss by online Newton steps with a
window of 500 rows: with F_k = (log p_k, m_k), mean and covariance taken under P,

    H <- (1 - 1/500) H + I / 500 + Cov F,      (a, b) <- (a, b) + H^-1 (F_y - E F)

starting at (1, 0) and I. a is kept above 0.01 and b above -c a, c = 0.9 s / (1 + s), s = 0.99: that
keeps z increasing in the margin, and the most probable class is the predicted one. A step that
leads outside ends at the point inside that is nearest in the norm of H: log p and m say nearly the
same, so what is cut off one slope must come from the other. Two classes have the margins -m and m.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.default.signs import live_outputs, note_signs, remapped_signs
from pronk.parts.state import Numbers, Stateful

Array = NDArray[np.float64]

#: Margins, which lie in [-1, 1], are multiplied by this, so that no class is impossible.
SUREST = 0.99
#: Rows that the slopes speak of.
WINDOW = 500.0
SMALLEST, LARGEST = 0.01, 50.0
#: b is at least this times -a.
STEEPEST = 0.9 * SUREST / (1.0 + SUREST)


@njit(cache=True, nogil=True, fastmath={"contract"})
def draw_inside(slopes: Array, H: Array) -> None:
    """Move the slopes (a, b) to the nearest with a >= SMALLEST and b >= -STEEPEST a, in H's norm.

    Both are at most LARGEST, before and after: a cap of a alone could leave b below its bound.
    """
    a, b = min(slopes[0], LARGEST), min(slopes[1], LARGEST)
    if a < SMALLEST or b < -STEEPEST * a:
        # The nearest points of the two edges, and on each the half that is allowed.
        upper = max(b + H[0, 1] / H[1, 1] * (a - SMALLEST), -STEEPEST * SMALLEST)
        along = H[0, 0] - 2.0 * STEEPEST * H[0, 1] + STEEPEST * STEEPEST * H[1, 1]
        lower = (H[0, 0] - STEEPEST * H[0, 1]) * a + (H[0, 1] - STEEPEST * H[1, 1]) * b
        lower = max(lower / along, SMALLEST)
        u, v = SMALLEST - a, upper - b
        x, y = lower - a, -STEEPEST * lower - b
        far = H[0, 0] * u * u + 2.0 * H[0, 1] * u * v + H[1, 1] * v * v
        near = H[0, 0] * x * x + 2.0 * H[0, 1] * x * y + H[1, 1] * y * y
        if near < far:
            a, b = lower, -STEEPEST * lower
        else:
            a, b = SMALLEST, upper
    slopes[0] = min(a, LARGEST)
    slopes[1] = max(b, -STEEPEST * slopes[0])


@njit(cache=True, nogil=True, fastmath={"contract"})
def newton_step(M: Array, label: int, slopes: Array, H: Array) -> None:
    """One row: M are the margins of the classes, ``label`` the one that came."""
    classes = M.size
    logs = np.log(0.5 * (1.0 + SUREST * M))
    Z = slopes[0] * logs + slopes[1] * M
    P = np.exp(Z - Z.max())
    P /= P.sum()
    mean_log, mean = 0.0, 0.0
    for k in range(classes):
        mean_log += P[k] * logs[k]
        mean += P[k] * M[k]
    keep = 1.0 - 1.0 / WINDOW
    for i in range(2):
        for j in range(2):
            H[i, j] *= keep
        H[i, i] += 1.0 - keep
    for k in range(classes):
        u, v = logs[k] - mean_log, M[k] - mean
        H[0, 0] += P[k] * u * u
        H[1, 1] += P[k] * v * v
        H[0, 1] += P[k] * u * v
    H[1, 0] = H[0, 1]
    u, v = logs[label] - mean_log, M[label] - mean
    determinant = H[0, 0] * H[1, 1] - H[0, 1] * H[1, 0]
    slopes[0] += (H[1, 1] * u - H[0, 1] * v) / determinant
    slopes[1] += (H[0, 0] * v - H[1, 0] * u) / determinant
    draw_inside(slopes, H)


@njit(cache=True, nogil=True)
def follow_margins(P: Array, Y: Array, seen: Array, slopes: Array, H: Array, used: Array) -> None:
    """All rows, over the classes that had come by then, this row's included.

    The slopes that each row met go to ``used``.
    """
    outputs = P.shape[1]
    live = np.empty(outputs, dtype=np.bool_)
    M = np.empty(max(outputs, 2))
    for t in range(len(P)):
        used[t] = slopes
        note_signs(Y[t], seen)
        live_outputs(seen, True, live)
        count, label, last = 0, 0, 0
        for o in range(outputs):
            if live[o]:
                M[count] = P[t, o]
                label = count if Y[t, o] > 0.0 else label
                count, last = count + 1, o
        if count == 1:  # two classes: the output of one of them
            M[1], M[0] = P[t, last], -P[t, last]
            label = 1 if Y[t, last] > 0.0 else 0
            count = 2
        newton_step(M[:count], label, slopes, H)


class Temperature(Stateful):
    """The slopes (a, b) of the probabilities, and what they were learned from."""

    def __init__(self, outputs: int) -> None:
        self._seen = np.zeros((2, outputs))
        self._slopes = np.array([1.0, 0.0])
        self._H = np.eye(2)

    def learn(self, P: Array, Y: Array) -> Array:
        """Follow the labels; the slopes that each row met, (n, 2)."""
        used = np.empty((len(P), 2))
        follow_margins(P, np.ascontiguousarray(Y), self._seen, self._slopes, self._H, used)
        return used

    def shares(self, margins: Array, slopes: Array | None = None) -> Array:
        """Shares of the classes by their margins (n, classes), to be divided by their sums.

        One column is the margin of the second of two classes, and gets its probability. ``slopes``
        (n, 2) are those of each row, or None for the present ones.
        """
        a, b = self._slopes if slopes is None else slopes.T[:, :, None]
        single = margins.shape[1] == 1
        M = np.hstack((-margins, margins)) if single else margins
        Z = a * np.log(0.5 * (1.0 + SUREST * M)) + b * M
        P = np.exp(Z - Z.max(axis=1, keepdims=True))
        return np.asarray(P[:, 1:] / P.sum(axis=1, keepdims=True)) if single else P

    def remap(self, matrix: Array) -> None:
        self._seen = remapped_signs(self._seen, matrix)

    STATE = (
        Numbers("seen", (2, "outputs"), low=0.0, high=1.0),
        Numbers("slopes", (2,), low=-LARGEST, high=LARGEST),
        Numbers("H", (2, 2), structure="definite"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._seen.shape[1]}
