"""A triangle whose diagonal panels are inverted: many rows are solved by matrix products."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.parts.linalg import solve_rows

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


class PanelledTriangle:
    """A lower triangle whose diagonal panels are inverted, so that many rows are solved by matrix
    products. Where a panel is far from orthogonal its inverse would cost digits: then by BLAS."""

    WIDTH = 32
    #: Fewest rows, and columns, for which it is worth while.
    FEWEST = 48
    #: Largest max |panel| max |inverse|.
    SAFE = 1e5

    def __init__(self, L: Array) -> None:
        self._L = np.asfortranarray(L)
        self._inverses = np.empty((len(L), self.WIDTH))
        self._safe = invert_panels(self._L.T, self._inverses) <= self.SAFE

    def solve_rows(self, rows: Array) -> Array:
        """rows L^-T, in place, for a C-contiguous block of rows."""
        if not self._safe:
            return solve_rows(self._L, rows)
        n = len(self._L)
        for start in range(0, n, self.WIDTH):
            stop = min(start + self.WIDTH, n)
            part = rows[:, start:stop]
            if start:
                part = part - rows[:, :start] @ self._L[start:stop, :start].T
            np.matmul(part, self._inverses[start:stop, : stop - start], out=rows[:, start:stop])
        return rows
