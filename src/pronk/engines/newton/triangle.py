"""Many rows at once through the triangle of the open block, by BLAS and LAPACK (`recurrence` walks
row by row)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm

from pronk.engines.newton.recurrence import Open
from pronk.parts.linalg import Workspace, cholesky, solve_lower

Array = NDArray[np.float64]


def squared_block(G: Array, F: Array, Y: Array, t: int, block: Open, memory: Workspace) -> Array:
    """Append rows to a block with t open ones under squared loss; their ridge predictions.

    G (m, t + m) are the rows' products with the open rows and each other, F what the block's start
    predicts for them. c = 1 throughout, so R comes out of LAPACK: with C C' = I + G - R kappa R'
    over the older rows,

        1 + q_t = C_tt^2,  T = C diag(C)^-1,  and the errors f - y solve T (f - y) = f_old - y.
    """
    m = len(F)
    own = slice(t, t + m)
    corner = G if t == 0 else np.ascontiguousarray(G[:, t:])
    if t:
        R = through_open(G[:, :t], block.upper)
        F = F - R @ block.step[:t]
        scaled = R * block.kappa[:t]
        corner -= scaled @ R.T
        block.upper[:t, own] = scaled.T
    corner.flat[:: m + 1] += 1.0
    C = cholesky(corner, "block matrix I + G", memory.take("C", m, m).T)
    root = np.diag(C)
    errors = root[:, None] * solve_lower(C, F - Y)
    np.divide(C.T, root[:, None], out=block.upper[own, own])
    block.kappa[own] = root**-2
    block.step[own] = errors * block.kappa[own, None]
    return np.asarray(Y + errors)


def through_open(G: Array, upper: Array) -> Array:
    """R for rows whose products with the open rows are G: R T' = G."""
    t = G.shape[1]
    return np.asarray(dtrsm(1.0, upper[:t, :t].T, G.T, lower=1, diag=1)).T
