"""Which signs an output of labels has had: only one that has had both says anything."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.parts.linalg import signed_columns

Array = NDArray[np.float64]


@njit(cache=True, nogil=True)
def note_signs(y: Array, seen: Array) -> None:
    """seen[0, o] and seen[1, o]: whether output o has been negative, positive."""
    for o in range(y.size):
        seen[0 if y[o] < 0.0 else 1, o] = 1.0


@njit(cache=True, nogil=True)
def live_outputs(seen: Array, signed: bool, live: NDArray[np.bool_]) -> int:
    """Which outputs count, and how many; before two classes came it is the first, the ones."""
    count = 0
    for o in range(live.size):
        live[o] = not signed or (seen[0, o] > 0.0 and seen[1, o] > 0.0)
        count += live[o]
    if count == 0:
        live[0] = True
        count = 1
    return count


def remapped_signs(seen: Array, matrix: Array) -> Array:
    """The signs that new outputs have had, each plus or minus one old output."""
    sources, signs = signed_columns(matrix)
    return np.where(signs > 0.0, seen[:, sources], seen[::-1, sources])
