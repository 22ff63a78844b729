"""The Forgetron's way to keep a budget: shrink, then drop the oldest point."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.core.elementary import exp_scalar
from pronk.core.features import DEPENDENT
from pronk.first_order.support import (
    MISTAKES,
    SHRINK,
    SIZE,
    SPENT,
    USED,
    RowBlock,
    Support,
    UpdateRule,
    add,
    distance_row,
    dot_of_first,
    remove,
    shrink,
    smallest,
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


# ----------------------------------------------------------------------------------------
# BSGD's way to keep a budget: merge two points of a Gaussian kernel into one between them.


@njit(cache=True, error_model="numpy")
def merge_weight(ratio: float, distance: float) -> float:
    """The weight g >= 1/2 of the heavier point in z = g x_heavy + (1 - g) x_light.

    With rho = |a_heavy / a_light| >= 1 and D = -log k it maximises

        s(g) = rho exp(-D (1 - g)^2) + exp(-D g^2).

    In u = log(g / (1 - g)) the condition s' = 0 reads log rho + D tanh(u/2) - u = 0. The left side
    is concave for u > 0 and negative at log rho + D, so Newton's method comes down from there to
    the largest root without overshooting, and that root is the only maximum with g >= 1/2.
    """
    start = math.log(ratio)
    u = start + distance
    for _ in range(60):
        e = exp_scalar(-u)
        tanh = (1.0 - e) / (1.0 + e)
        step = (start + distance * tanh - u) / (0.5 * distance * (1.0 - tanh * tanh) - 1.0)
        u = max(u - step, 0.0)
        if not step > 1e-15 * u:
            break
    return 1.0 / (1.0 + exp_scalar(-u))


@njit(cache=True)
def merged(light: float, heavy: float, distance: float) -> tuple[float, float, float]:
    """(weight of the heavier point, coefficient, loss) of merging two coefficients of one sign.

    a_z = a_light k^(g^2) + a_heavy k^((1 - g)^2),
    loss = a_light^2 + a_heavy^2 + 2 a_light a_heavy k - a_z^2.
    """
    g = merge_weight(min(heavy / light, 1e300), distance)  # a coefficient may be next to nothing
    a = light * exp_scalar(-distance * g * g) + heavy * exp_scalar(-distance * (1.0 - g) ** 2)
    both = light * light + heavy * heavy + 2.0 * light * heavy * exp_scalar(-distance)
    return g, a, both - a * a


@njit(cache=True)
def best_partner(support: Support, rank: int, distances: Array) -> int:
    """The age of the point of the same sign that merging with loses least, or -1.

    The loss grows with the distance and with the partner's coefficient, so partners that are
    farther and heavier than the nearest, or than the best one so far, need not be looked at.
    """
    light = support.raw[support.order[rank]]
    size = int(support.running[SIZE])
    found, near, heavy = -1, np.inf, np.inf
    for r in range(size):  # the nearest one rules out all that are as heavy
        slot = support.order[r]
        if r != rank and support.raw[slot] * light > 0.0 and distances[slot] < near:
            found, near, heavy = r, distances[slot], abs(support.raw[slot])
    if found < 0:
        return found
    limit = heavy
    best = merged(abs(light), heavy, near)[2]
    for r in range(size):
        slot = support.order[r]
        other, distance = abs(support.raw[slot]), distances[slot]
        if other >= limit or r == rank or support.raw[slot] * light <= 0.0:
            continue
        if other >= heavy and distance >= near:
            continue
        loss = merged(abs(light), other, distance)[2]
        if loss < best:
            best, found, near, heavy = loss, r, distance, other
    return found


@njit(cache=True)
def merge(rule: UpdateRule, support: Support, memory: Array) -> None:
    """Merge the smallest point into its best partner, which keeps its age; without one, drop it."""
    rank = smallest(support)
    slot = support.order[rank]
    d = support.points.shape[0]
    x = np.empty(d)
    for k in range(d):
        x[k] = support.points[k, slot]
    used = int(support.running[USED])
    distances = memory[0]
    distance_row(x, support.points, used, distances)
    for j in range(used):
        distances[j] *= rule.rate
    partner = best_partner(support, rank, distances) if support.raw[slot] != 0.0 else -1
    if partner < 0:
        remove(support, rank)
        return
    other = support.order[partner]
    light, heavy = support.raw[slot], support.raw[other]
    g, a, _ = merged(abs(light), abs(heavy), distances[other])
    for k in range(d):
        support.points[k, other] = g * support.points[k, other] + (1.0 - g) * x[k]
    support.raw[other] = math.copysign(a, light)
    remove(support, rank)


# ----------------------------------------------------------------------------------------
# The Projectron's way to keep a budget: put a new point into the span of the old ones.
#
# Points never leave, so slots are in order of age: slot r is the r-th point.


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
