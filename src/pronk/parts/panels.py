"""Diagonal panels of a triangle, inverted: `pronk.parts.linalg.PanelledTriangle` solves by them."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True, nogil=True, fastmath={"contract"})
def invert_panels(L: Array, out: Array) -> float:
    """The inverses of the diagonal panels of a lower triangle, one below the other; L is given as
    its transpose, and so are they. Returns the largest of max |panel| max |inverse|."""
    n, width = len(L), out.shape[1]
    out[:] = 0.0
    worst = 1.0
    for start in range(0, n, width):
        size = min(width, n - start)
        largest, inverse = 0.0, 0.0
        for i in range(size):  # row i of the inverse's transpose
            row = out[start + i]
            row[i] = 1.0 / L[start + i, start + i]
            for k in range(i, size):
                if k > i:
                    row[k] /= L[start + k, start + k]
                for j in range(k + 1, size):
                    row[j] -= L[start + k, start + j] * row[k]
            for k in range(i, size):
                largest = max(largest, abs(L[start + i, start + k]))
                inverse = max(inverse, abs(row[k]))
        worst = max(worst, largest * inverse)
    return worst
