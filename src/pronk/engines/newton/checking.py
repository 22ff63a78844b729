"""Whether the parts of a Newton state from a file fit each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton.recurrence import Open
from pronk.parts.state import require

Array = NDArray[np.float64]


def require_solved(name: str, L: Array, solved: Array, given: Array) -> None:
    """Refuse what is not L^-1 of what was given."""
    most = (np.abs(L) @ np.abs(solved)).max(initial=0.0)
    off = np.abs(L @ solved - given).max(initial=0.0)
    require(off <= 1e-6 * most + 1e-300, f"{name} does not fit L")


def require_open_rows(block: Open, Z: Array, t: int) -> None:
    """Refuse t open rows that do not keep to the recurrence: for s < t

    kappa_s G[t, s] = T[t, s] + kappa_s sum_{i<s} T[t, i] T[s, i] / kappa_i,  0 <= kappa <= c.
    """
    kappa, c, Z = block.kappa[:t], block.curvature[:t], Z[:t]
    require((kappa <= c * (1.0 + 1e-9)).all(), "kappa is larger than the curvature")
    T = np.tril(block.upper[:t, :t].T, -1)
    inverse = np.divide(1.0, kappa, out=np.zeros(t), where=kappa > 0.0)
    expected = kappa * (Z @ Z.T)
    got = T + kappa * ((T * inverse) @ T.T)
    off = np.abs(np.tril(got - expected, -1)).max(initial=0.0)
    most = np.abs(expected).max(initial=0.0)
    require(off <= 1e-6 * most + 1e-300, "upper does not fit the open rows")
