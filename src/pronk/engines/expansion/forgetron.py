"""The Forgetron's way to keep a budget: shrink, then drop the oldest point."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.expansion.support import (
    MISTAKES,
    SHRINK,
    SIZE,
    SPENT,
    USED,
    RowBlock,
    Support,
    UpdateRule,
    add,
    remove,
    shrink,
)

Array = NDArray[np.float64]

#: The share of a mistake that shrinking and removing may spend.
_SHARE = 15.0 / 32.0


@njit(cache=True, error_model="numpy")
def forget(
    rule: UpdateRule, support: Support, rows: RowBlock, i: int, y: float, values: Array
) -> None:
    """Self-tuned Forgetron on a mistake: M += 1, f' = f + y k(x, .); over budget, with the oldest
    point r, s = |a_r| and m = y_r f'(x_r),

        Psi(c) = (s c)^2 + 2 s c - 2 (s c)(c m)
        c = max {c in (0, 1] : Psi(c) + Q <= 15/32 M},   Q += Psi(c),   f = c f' without r.

    Rows of ``square`` hold a point's kernel values with the points older than it, so the values of
    the oldest point are a column.
    """
    running, raw = support.running, support.raw
    running[MISTAKES] += 1.0
    used = int(running[USED])
    slot = add(support, rows, i, y / running[SHRINK])
    for j in range(used):
        support.square[slot, j] = values[j]
    if running[SIZE] <= rule.budget:
        return
    oldest = support.order[0]
    f = raw[oldest] * support.norms[oldest]
    for r in range(1, int(running[SIZE])):
        j = support.order[r]
        f += raw[j] * support.square[j, oldest]
    s = abs(raw[oldest]) * running[SHRINK]
    m = math.copysign(1.0, raw[oldest]) * f * running[SHRINK]
    square = s * (s - 2.0 * m)  # Psi(c) = square c^2 + 2 s c
    room = _SHARE * running[MISTAKES] - running[SPENT]
    c = 1.0
    if square + 2.0 * s > room:
        c = min(1.0, room / (s + math.sqrt(max(s * s + square * room, 0.0))))
    running[SPENT] += square * c * c + 2.0 * s * c
    remove(support, 0)
    shrink(support, c)
