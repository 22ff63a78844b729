"""The support set of a kernel expansion, and the ways to keep it within a budget, compiled.

f(x) = scale * sum_i raw_i k(x_i, x). Shrinking f is one multiplication of the scale, whatever the
number of points. Points lie in slots; ``order`` lists the slots by age, oldest first, then the free
ones. A free slot below ``USED`` has the coefficient 0, so evaluations need not know about it.

    random     drop the point number floor(u size), numbered by age       (RBP, BOGD)
    forget     shrink as much as the budget of mistakes asks, drop the oldest      (Forgetron)
    smallest   drop the smallest a^2 k(x, x), the oldest of equals        (BSGD)
    merge      replace that point and its best partner by one point       (BSGD, Gaussian kernel)
    project    put the new point into the span of the old ones            (Projectron)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.parts.elementary import exp_scalar
from pronk.parts.embeddings import DEPENDENT

Array = NDArray[np.float64]

NONE, RANDOM, FORGET, SMALLEST, MERGE, PROJECT = range(6)
#: Positions in ``Support.running``: points held, slots in use, the product of all shrinking, rows
#: seen, and the Forgetron's mistakes M and spent budget Q.
SIZE, USED, SHRINK, SEEN, MISTAKES, SPENT = range(6)

#: Slots evaluated at a time, so that their distances stay in the first-level cache.
_TILE = 512
#: The scale is kept within these bounds, so that neither it nor raw^2 leaves the range of numbers.
_LEAST_SHRINK, _MOST_SHRINK = 1e-40, 1e40
#: The Forgetron's share of a mistake that shrinking and removing may spend.
_FORGETRON_SHARE = 15.0 / 32.0


class Rule(NamedTuple):
    """What is learned from a row and how the budget is kept; scalars only."""

    loss: int  # code of the loss, or PERCEPTRON
    parameter: float  # of the loss
    eta: float  # step size; with pegasos 1, the step being counted in 1 / (alpha t)
    alpha: float
    pegasos: bool
    strategy: int
    budget: int
    threshold: float  # of the Projectron, on |delta|
    aggressive: bool  # Projectron++: learn from margin errors too
    rate: float  # 1 / (2 bandwidth^2) of a Gaussian kernel, else 0


class Support(NamedTuple):
    """The support set; all arrays have room for the same number of slots."""

    points: Array  # (columns, slots)
    raw: Array  # coefficients without the scale
    norms: Array  # k(x, x)
    order: NDArray[np.int64]
    square: Array  # Forgetron: kernel values; Projectron: inverse factor of K; else empty
    running: Array


class Rows(NamedTuple):
    """A block of rows. ``K`` and ``own`` are empty where the kernel is evaluated row by row."""

    X: Array
    y: Array
    norms: Array  # k(x, x)
    uniforms: Array
    K: Array  # (rows, slots): values with the points; a column is filled in when its slot is taken
    own: Array  # (rows, rows): values among the rows


# -- kernel values and the model ------------------------------------------------------------------


@njit(cache=True, fastmath={"contract"})
def distance_row(x: Array, points: Array, used: int, out: Array) -> None:
    """out[j] = sum_k (x_k - points[k, j])^2 for j < used; four columns at a time."""
    d = x.size
    for start in range(0, used, _TILE):
        stop = min(start + _TILE, used)
        row = out[start:stop]
        for j in range(stop - start):
            row[j] = 0.0
        for k in range(0, d - 3, 4):
            x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
            z0, z1 = points[k, start:stop], points[k + 1, start:stop]
            z2, z3 = points[k + 2, start:stop], points[k + 3, start:stop]
            for j in range(stop - start):
                s0, s1, s2, s3 = x0 - z0[j], x1 - z1[j], x2 - z2[j], x3 - z3[j]
                row[j] += (s0 * s0 + s1 * s1) + (s2 * s2 + s3 * s3)
        for k in range(d - d % 4, d):
            x0 = x[k]
            z0 = points[k, start:stop]
            for j in range(stop - start):
                s0 = x0 - z0[j]
                row[j] += s0 * s0


@njit(cache=True, fastmath={"contract"})
def kernel_row(rule: Rule, support: Support, rows: Rows, i: int, memory: Array) -> Array:
    """k(x_i, .) for all slots in use: from the block's matrix, or evaluated into ``memory``."""
    if rows.K.shape[0] > 0:
        return rows.K[i]
    used = int(support.running[USED])
    distance_row(rows.X[i], support.points, used, memory)
    for j in range(used):
        memory[j] = exp_scalar(-rule.rate * memory[j])
    return memory


# The sum may be taken in any order ("reassoc"), or it would not vectorise.
@njit(cache=True, fastmath={"contract", "reassoc"})
def dot(a: Array, b: Array, n: int) -> float:
    """sum_j a_j b_j over j < n."""
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total


@njit(cache=True, error_model="numpy")
def scale(rule: Rule, support: Support) -> float:
    """What the raw coefficients are multiplied by; with pegasos 1 / (alpha t) after t rows."""
    running = support.running
    if rule.pegasos and running[SEEN] > 0.0:
        return running[SHRINK] / (rule.alpha * running[SEEN])
    return running[SHRINK]


@njit(cache=True)
def shrink(support: Support, factor: float) -> None:
    """f becomes factor * f. Far from 1, the scale moves into the coefficients."""
    running = support.running
    running[SHRINK] *= factor
    size = abs(running[SHRINK])
    if size < _LEAST_SHRINK or size > _MOST_SHRINK:
        used = int(running[USED])
        for j in range(used):
            support.raw[j] *= running[SHRINK]
        running[SHRINK] = 1.0


# -- adding and removing --------------------------------------------------------------------------


@njit(cache=True)
def add(support: Support, rows: Rows, i: int, coefficient: float) -> int:
    """Row i becomes the youngest point; the later rows of the block learn their values with it."""
    running = support.running
    size = int(running[SIZE])
    slot = support.order[size]
    running[SIZE] = size + 1
    running[USED] = max(running[USED], slot + 1.0)
    support.raw[slot] = coefficient
    support.norms[slot] = rows.norms[i]
    for k in range(rows.X.shape[1]):
        support.points[k, slot] = rows.X[i, k]
    if rows.K.shape[0] > 0:
        for r in range(i + 1, rows.y.size):
            rows.K[r, slot] = rows.own[i, r]
    return slot


@njit(cache=True)
def remove(support: Support, rank: int) -> None:
    """Drop the point number ``rank`` by age; its slot is the next to be taken."""
    size = int(support.running[SIZE])
    order = support.order
    slot = order[rank]
    for r in range(rank, size - 1):
        order[r] = order[r + 1]
    order[size - 1] = slot
    support.raw[slot] = 0.0
    support.running[SIZE] = size - 1


@njit(cache=True)
def remove_random(support: Support, u: float) -> None:
    """Drop the point number floor(u size)."""
    size = int(support.running[SIZE])
    remove(support, min(int(u * size), size - 1))


@njit(cache=True)
def smallest(support: Support) -> int:
    """The age of the point with the smallest a^2 k(x, x), the oldest of equals.

    The coefficients are compared without their common scale: under the hinge loss they are equal
    exactly, where rounding of the shrunk ones would decide.
    """
    best, rank = np.inf, 0
    for r in range(int(support.running[SIZE])):
        slot = support.order[r]
        value = support.raw[slot] * support.raw[slot] * support.norms[slot]
        if value < best:
            best, rank = value, r
    return rank


# -- Forgetron ------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def forget(rule: Rule, support: Support, rows: Rows, i: int, y: float, values: Array) -> None:
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
    room = _FORGETRON_SHARE * running[MISTAKES] - running[SPENT]
    c = 1.0
    if square + 2.0 * s > room:
        c = min(1.0, room / (s + math.sqrt(max(s * s + square * room, 0.0))))
    running[SPENT] += square * c * c + 2.0 * s * c
    remove(support, 0)
    shrink(support, c)


# -- Projectron -----------------------------------------------------------------------------------


@njit(cache=True)
def coordinates(support: Support, values: Array, w: Array) -> float:
    """w = L^-1 k with K = L L'; returns |w|^2 = |P k|^2, the part inside the span.

    ``square`` holds L^-1: both products with it run along rows, and no step waits for another.
    """
    size = int(support.running[SIZE])
    inside = 0.0
    for r in range(size):
        w[r] = dot(support.square[r], values, r + 1)
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
    rule: Rule, support: Support, rows: Rows, i: int, y: float, values: Array, memory: Array
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
    rule: Rule, support: Support, norm: float, f: float, y: float, values: Array, memory: Array
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


# -- merging --------------------------------------------------------------------------------------


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
    g = merge_weight(heavy / light, distance)
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
def merge(rule: Rule, support: Support, memory: Array) -> None:
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
