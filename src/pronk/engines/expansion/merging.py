"""BSGD's way to keep a budget: merge two points of a Gaussian kernel into one between them."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.expansion.support import (
    SIZE,
    USED,
    Support,
    UpdateRule,
    distance_row,
    remove,
    smallest,
)
from pronk.parts.elementary import exp_scalar

Array = NDArray[np.float64]


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
