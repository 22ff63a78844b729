"""One row of the ridge and AWV forecasters in two steps: what it will be, then that it came.

Looking at a row writes its place in the open block, which holds nothing until the row is taken: so
a row that was just predicted is learned without computing anything of it again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.newton.certificate import account
from pronk.engines.newton.recurrence import Open, border_row, eliminate
from pronk.parts.linalg import solve_one

Array = NDArray[np.float64]


class State(NamedTuple):
    """A learner for the compiled steps."""

    factor: Array  # L in C order, whose rows are read faster
    beta: Array
    Phi: Array
    Z: Array
    block: Open


@njit(cache=True, nogil=True, fastmath={"contract"})
def look(phi: Array, root: float, t: int, anticipate: bool, state: State, out: Array) -> None:
    """Row t of the block, if it comes: its features times ``root`` and all that follows of them.

    Its prediction goes to ``out``, and f, until its target is known, to its place in ``step``.
    """
    block, z = state.block, state.Z[t]
    for i in range(phi.size):
        state.Phi[t, i] = z[i] = root * phi[i]
    solve_one(state.factor, z)
    g, f = np.empty(t + 1), block.step[t]
    border_row(z, state.Z, t, state.beta, g, f)
    block.kappa[t] = 1.0 / (1.0 + eliminate(g, t, block.upper, block.kappa, block.step, f))
    for o in range(f.size):
        out[o] = (f[o] * block.kappa[t] if anticipate else f[o]) / root


@njit(cache=True, nogil=True, fastmath={"contract"})
def take(y: Array, root: float, t: int, state: State, ledger: Array, p: Array) -> None:
    """Row t, as it was looked at and predicted p, came with the targets y."""
    block = state.block
    for o in range(y.size):
        block.target[t, o] = root * y[o]
        block.step[t, o] = (block.step[t, o] - block.target[t, o]) * block.kappa[t]
    account(p.reshape(1, -1), y.reshape(1, -1), ledger)
