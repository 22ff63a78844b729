"""The Projectron's way to keep a budget: put a new point into the span of the old ones.

Points never leave, so slots are in order of age: slot r is the r-th point.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.expansion.support import SIZE, RowBlock, Support, UpdateRule, add, dot_of_first
from pronk.parts.embeddings import DEPENDENT

Array = NDArray[np.float64]


@njit(cache=True)
def coordinates(support: Support, values: Array, w: Array) -> float:
    """w = L^-1 k with K = L L'; returns |w|^2 = |P k|^2, the part inside the span.

    ``square`` holds L^-1: both products with it run along rows, and no step waits for another.
    """
    size = int(support.running[SIZE])
    inside = 0.0
    for r in range(size):
        w[r] = dot_of_first(support.square[r], values, r + 1)
        inside += w[r] * w[r]
    return inside


@njit(cache=True, fastmath={"contract"})
def projection(support: Support, w: Array, d: Array) -> None:
    """d = K^-1 k = L^-T w."""
    size = int(support.running[SIZE])
    for r in range(size):
        d[r] = 0.0
    for r in range(size):
        row = support.square[r]
        value = w[r]
        for j in range(r + 1):
            d[j] += value * row[j]


@njit(cache=True)
def outside(norm: float, inside: float) -> float:
    """|delta|, the distance to the span; 0 where it is rounding only, as for a duplicate."""
    rest = norm - inside
    return math.sqrt(rest) if rest > DEPENDENT * norm else 0.0


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def project(
    rule: UpdateRule,
    support: Support,
    rows: RowBlock,
    i: int,
    y: float,
    values: Array,
    memory: Array,
) -> None:
    """Projectron on a mistake: d = K^+ k; |delta| <= eta, or no room: a += y d; else add (x, y).

    A new point appends (-d / |delta|, 1 / |delta|) to L^-1. Points that depend on the others never
    enter, so K stays regular and K^+ = K^-1.
    """
    size = int(support.running[SIZE])
    w, d = memory[0], memory[1]
    delta = outside(rows.norms[i], coordinates(support, values, w))
    projection(support, w, d)
    if delta <= rule.threshold or delta == 0.0 or size >= rule.budget:
        for j in range(size):
            support.raw[j] += y * d[j]
        return
    slot = add(support, rows, i, y)
    for j in range(size):
        support.square[slot, j] = -d[j] / delta
    support.square[slot, slot] = 1.0 / delta


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def project_margin(
    rule: UpdateRule,
    support: Support,
    norm: float,
    f: float,
    y: float,
    values: Array,
    memory: Array,
) -> None:
    """Projectron++ on a margin error, l = 1 - y f > 0 and P = |P k|^2: if l >= |delta| / eta,

    f += y tau P k(x, .) with tau = min{l / P, 2 (l - |delta| / eta) / P, 1}.
    """
    w, d = memory[0], memory[1]
    inside = coordinates(support, values, w)
    delta = outside(norm, inside)
    margin = 1.0 - y * f
    rest = margin if delta == 0.0 else margin - delta / rule.threshold
    if rest < 0.0 or inside == 0.0:
        return
    tau = min(min(margin / inside, 2.0 * rest / inside), 1.0)
    projection(support, w, d)
    for j in range(int(support.running[SIZE])):
        support.raw[j] += y * tau * d[j]
