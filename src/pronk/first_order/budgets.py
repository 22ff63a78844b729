"""Budget maintenance of kernel expansions: Forgetron, merging (BSGD), Projectron.

The simpler strategies, which drop one point, are in `support`; `expansion` has the loop over rows.
All functions change the support set in place. Arguments that they share:

    values    (slots,) kernel values k(x_i, .) of the row with the support vectors
    scratch   (3, slots) memory, overwritten; its rows are named in `support`
"""

from __future__ import annotations

import math

import numpy as np

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar
from pronk.core.features import DEPENDENT
from pronk.first_order.support import (
    COORDINATES,
    DISTANCES,
    MISTAKES,
    PROJECTION,
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

#: The Forgetron's damage Q from shrinking and removing stays below this share of M mistakes.
_SHARE = 15.0 / 32.0


@compiled
def forget(
    rule: UpdateRule, support: Support, rows: RowBlock, i: int, y: float, values: Array
) -> None:
    """Update the self-tuned Forgetron on a mistake.

    M += 1 and f' = f + y k(x, .). Over budget, with the oldest point r, s = |a_r| and
    m = y_r f'(x_r),

        Psi(c) = (s c)^2 + 2 s c - 2 (s c)(c m)
        c = max {c in (0, 1] : Psi(c) + Q <= 15/32 M},   Q += Psi(c),   f = c f' without r.

    Rows of ``square`` hold a point's kernel values with the points older than it, so the values of
    the oldest point are a column.
    """
    running, raw = support.running, support.raw
    # M += 1,  f' = f + y k(x, .)
    running[MISTAKES] += 1.0
    used = int(running[USED])
    slot = add(support, rows, i, y / running[SHRINK])
    for j in range(used):
        support.square[slot, j] = values[j]
    if running[SIZE] <= rule.budget:
        return
    # f'(x_r) / scale = sum_j raw_j k(x_j, x_r)
    oldest = support.order[0]
    f = raw[oldest] * support.norms[oldest]
    for r in range(1, int(running[SIZE])):
        j = support.order[r]
        f += raw[j] * support.square[j, oldest]
    # Psi(c) = q c^2 + 2 s c  with  q = s (s - 2 m)
    s = abs(raw[oldest]) * running[SHRINK]
    m = math.copysign(1.0, raw[oldest]) * f * running[SHRINK]
    q = s * (s - 2.0 * m)
    # c = 1, or the positive root of Psi(c) = 15/32 M - Q, in the form without cancellation
    allowed = _SHARE * running[MISTAKES] - running[SPENT]
    c = 1.0
    if q + 2.0 * s > allowed:
        c = min(1.0, allowed / (s + math.sqrt(max(s * s + q * allowed, 0.0))))
    # Q += Psi(c),  f = c f' without r
    running[SPENT] += q * c * c + 2.0 * s * c
    remove(support, 0)
    shrink(support, c)


# -- merging (BSGD): two points of a Gaussian kernel become one point between them -----------------


@compiled
def merge_weight(ratio: float, distance: float) -> float:
    """Return the weight g >= 1/2 of the heavier point in z = g x_heavy + (1 - g) x_light.

    With ``ratio`` rho = |a_heavy / a_light| >= 1 and ``distance`` D = -log k(x_heavy, x_light),
    g maximises

        s(g) = rho exp(-D (1 - g)^2) + exp(-D g^2).

    In u = log(g / (1 - g)) the condition s' = 0 reads log rho + D tanh(u/2) - u = 0. The left side
    is concave for u > 0 and negative at log rho + D, so Newton's method comes down from there to
    the largest root without overshooting, and that root is the only maximum with g >= 1/2.
    """
    log_ratio = math.log(ratio)
    u = log_ratio + distance
    for _ in range(60):
        # tanh(u/2) = (1 - e^-u) / (1 + e^-u)
        e = exp_scalar(-u)
        tanh = (1.0 - e) / (1.0 + e)
        # u = u - h(u) / h'(u)  with  h(u) = log rho + D tanh(u/2) - u
        step = (log_ratio + distance * tanh - u) / (0.5 * distance * (1.0 - tanh * tanh) - 1.0)
        u = max(u - step, 0.0)
        if not step > 1e-15 * u:
            break
    return 1.0 / (1.0 + exp_scalar(-u))


@compiled
def merge_pair(light: float, heavy: float, distance: float) -> tuple[float, float, float]:
    """Return the weight g, the coefficient a_z and the loss of merging two points.

    ``light`` <= ``heavy`` are the sizes of coefficients of one sign, and ``distance`` is -log k.

        a_z = a_light k^(g^2) + a_heavy k^((1 - g)^2)
        loss = a_light^2 + a_heavy^2 + 2 a_light a_heavy k - a_z^2
    """
    g = merge_weight(min(heavy / light, 1e300), distance)  # a tiny coefficient may overflow
    rest = 1.0 - g
    a = light * exp_scalar(-distance * g * g) + heavy * exp_scalar(-distance * (rest * rest))
    both = light * light + heavy * heavy + 2.0 * light * heavy * exp_scalar(-distance)
    return g, a, both - a * a


@compiled
def best_partner(support: Support, rank: int, distances: Array) -> int:
    """Return the rank by age of the partner with the smallest merging loss, or -1.

    A partner has a coefficient of the same sign. ``distances`` (slots,) holds -log k. The loss
    grows with the distance and with the partner's coefficient, so partners that are farther and
    heavier than the nearest, or than the best one so far, are skipped.
    """
    light = support.raw[support.order[rank]]
    size = int(support.running[SIZE])
    found, near, heavy = -1, np.inf, np.inf
    # The nearest partner excludes all that are as heavy or heavier.
    for r in range(size):
        slot = support.order[r]
        if r != rank and support.raw[slot] * light > 0.0 and distances[slot] < near:
            found, near, heavy = r, distances[slot], abs(support.raw[slot])
    if found < 0:
        return found
    limit = heavy
    best = merge_pair(abs(light), heavy, near)[2]
    for r in range(size):
        slot = support.order[r]
        other, distance = abs(support.raw[slot]), distances[slot]
        if other >= limit or r == rank or support.raw[slot] * light <= 0.0:
            continue
        if other >= heavy and distance >= near:
            continue
        loss = merge_pair(abs(light), other, distance)[2]
        if loss < best:
            best, found, near, heavy = loss, r, distance, other
    return found


@compiled
def merge(rule: UpdateRule, support: Support, scratch: Array) -> None:
    """Merge the smallest point into its best partner, which keeps its age; drop it without one."""
    rank = smallest(support)
    slot = support.order[rank]
    d = support.points.shape[0]
    x = np.empty(d)
    for k in range(d):
        x[k] = support.points[k, slot]
    used = int(support.running[USED])
    # distances_j = -log k(x, x_j) = rate |x - x_j|^2
    distances = scratch[DISTANCES]
    distance_row(x, support.points, used, distances)
    for j in range(used):
        distances[j] *= rule.rate
    partner = best_partner(support, rank, distances) if support.raw[slot] != 0.0 else -1
    if partner < 0:
        remove(support, rank)
        return
    other = support.order[partner]
    light, heavy = support.raw[slot], support.raw[other]
    # x_z = g x_heavy + (1 - g) x_light,  a_z with the sign of both
    g, a, _ = merge_pair(abs(light), abs(heavy), distances[other])
    for k in range(d):
        support.points[k, other] = g * support.points[k, other] + (1.0 - g) * x[k]
    support.raw[other] = math.copysign(a, light)
    remove(support, rank)


# -- projection (Projectron): the new point is projected on the span of the others -----------------
#
# Points are never dropped, so slots are in order of age: slot r is the r-th point.


@compiled
def coordinates(support: Support, values: Array, w: Array) -> float:
    """Compute w = L^-1 k with K = L L' and return |w|^2 = |P k|^2, the part inside the span.

    ``square`` holds L^-1, so both products with it run along rows, and the steps are independent.
    """
    size = int(support.running[SIZE])
    inside = 0.0
    for r in range(size):
        w[r] = dot_of_first(support.square[r], values, r + 1)
        inside += w[r] * w[r]
    return inside


@compiled(fastmath={"contract"})
def projection(support: Support, w: Array, d: Array) -> None:
    """Compute d = K^-1 k = L^-T w."""
    size = int(support.running[SIZE])
    for r in range(size):
        d[r] = 0.0
    for r in range(size):
        row = support.square[r]
        value = w[r]
        for j in range(r + 1):
            d[j] += value * row[j]


@compiled
def distance_to_span(norm: float, inside: float) -> float:
    """Return the distance |delta| to the span, or 0 where it is only rounding (a duplicate).

    ``norm`` is k(x, x).
    """
    # |delta|^2 = k(x, x) - |P k|^2
    rest = norm - inside
    return math.sqrt(rest) if rest > DEPENDENT * norm else 0.0


@compiled(fastmath={"contract"})
def project(
    rule: UpdateRule,
    support: Support,
    rows: RowBlock,
    i: int,
    y: float,
    values: Array,
    scratch: Array,
) -> None:
    """Update the Projectron on a mistake.

    With d = K^+ k: if |delta| <= eta or the budget is full, a += y d; otherwise add (x, y).
    A new point appends (-d / |delta|, 1 / |delta|) to L^-1. Points that depend on the others are
    never added, so K stays regular and K^+ = K^-1.
    """
    size = int(support.running[SIZE])
    w, d = scratch[COORDINATES], scratch[PROJECTION]
    delta = distance_to_span(rows.norms[i], coordinates(support, values, w))
    projection(support, w, d)
    if delta <= rule.threshold or delta == 0.0 or size >= rule.budget:
        # a = a + y d
        for j in range(size):
            support.raw[j] += y * d[j]
        return
    # L^-1 gets the row (-d / |delta|, 1 / |delta|)
    slot = add(support, rows, i, y)
    for j in range(size):
        support.square[slot, j] = -d[j] / delta
    support.square[slot, slot] = 1.0 / delta


@compiled(fastmath={"contract"})
def project_margin(
    rule: UpdateRule,
    support: Support,
    norm: float,
    f: float,
    y: float,
    values: Array,
    scratch: Array,
) -> None:
    """Update Projectron++ on a margin error, with the loss l = 1 - y f > 0 and p = |P k|^2.

    If l >= |delta| / eta:

        f += y tau P k(x, .)  with  tau = min{l / p, 2 (l - |delta| / eta) / p, 1}.
    """
    w, d = scratch[COORDINATES], scratch[PROJECTION]
    inside = coordinates(support, values, w)
    delta = distance_to_span(norm, inside)
    loss = 1.0 - y * f
    rest = loss if delta == 0.0 else loss - delta / rule.threshold
    if rest < 0.0 or inside == 0.0:
        return
    tau = min(min(loss / inside, 2.0 * rest / inside), 1.0)
    # a = a + y tau d
    projection(support, w, d)
    for j in range(int(support.running[SIZE])):
        support.raw[j] += y * tau * d[j]
