"""What the engines of dual space share: the slopes of a loss on one output or on classes.

A model is f(x) = sum_i c_i k(x_i, x) + w'phi(x) with Fourier features phi'phi ~ k, so that a term
of the first kind can become one of the second, c_i k(x_i, .) -> c_i phi(x_i), at little loss.
`dual_sgd` moves the smallest terms when there are too many; `dual_svrg` asks an oracle once, when a
point arrives, and reduces the variance of its steps with a memory.

Several outputs are the classes of one problem: the margin of a row is a = s_y - max_{c != y} s_c
(lowest number on ties) and its gradient l'(a) (e_y - e_z). One output is a number or a class -1, 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.parts.losses import slope

Array = NDArray[np.float64]

#: Rows whose features and kernel values are held at a time.
CHUNK = 64


@njit(cache=True)
def slopes(code: int, parameter: float, scores: Array, y: float, out: Array) -> None:
    """out_c = dl/ds_c: the loss's slope at (s, y), or l'(a) (e_y - e_z) for several classes."""
    if scores.size == 1:
        out[0] = slope(code, parameter, scores[0], y)
        return
    own = int(y)
    rival = 1 if own == 0 else 0
    for c in range(rival + 1, scores.size):
        if c != own and scores[c] > scores[rival]:
            rival = c
    g = slope(code, parameter, scores[own] - scores[rival], 1.0)
    out[:] = 0.0
    out[own] = g
    out[rival] = -g


def class_numbers(targets: Array, matrix: Array) -> Array:
    """Targets (-1 and 1, or numbers of classes) when the outputs become outputs @ matrix."""
    if matrix.shape == (1, 1):
        return np.asarray(targets * matrix[0, 0])
    if matrix.shape[0] == 1:  # one output s becomes -s/2 and s/2 among three
        places = np.array([matrix[0].argmin(), matrix[0].argmax()], dtype=np.float64)
        return places[(targets > 0).astype(np.intp)]
    return matrix.argmax(axis=1).astype(np.float64)[targets.astype(np.intp)]
