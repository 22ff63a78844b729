"""The support set of a kernel expansion, and the update rules that add points to it (compiled).

f(x) = scale * sum_i raw_i k(x_i, x). Shrinking f is one multiplication of the scale, whatever the
number of points. Points are stored in slots; ``order`` lists the slots by age, oldest first, then
the free ones. A free slot below ``USED`` has the coefficient 0, so evaluations may include it.

Strategies that keep the set within a budget:

    random     drop the point number floor(u size), numbered by age             (RBP, BOGD)
    smallest   drop the point of smallest a^2 k(x, x), the oldest of equals     (BSGD)
    merge      replace that point and its best partner by one point             (BSGD)
    forget     shrink within the Forgetron's allowance and drop the oldest      (Forgetron)
    project    project the new point on the span of the others                  (Projectron)

The first two are here, the others in `budgets`.

Update rules, the coefficient a with which a row is added, f += a k(x, .):

    mistakes   a = y where y f(x) <= 0                                          (Perceptron)
    gradient   a = -eta l'(f(x), y)                                             (OGD, NORMA, BSGD)
    passive    a = tau times the direction that lowers the loss l = l(f(x), y), with the cost C
               tau = min(C, l / k(x, x))                                        (PA-I)
               tau = l / (k(x, x) + 1 / (2 C))                                  (PA-II)

A row of weight w makes the step of the first two rules w times as long. In the third rule its cost
is w C, because there a step solves a problem in which C weights the row. To add a rule, write a
code, a function that returns its `UpdateRule`, and its case in `step`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.core import losses
from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar
from pronk.core.losses import HINGE, Loss

#: Codes of the budget strategies.
NONE, RANDOM, FORGET, SMALLEST, MERGE, PROJECT = range(6)
#: Codes of the update rules.
MISTAKES_ONLY, GRADIENT, PASSIVE_1, PASSIVE_2 = range(4)
#: Positions in ``Support.running``: points in the set, slots in use, the product of all shrinking
#: factors, rows seen, and the Forgetron's mistakes M and damage Q.
SIZE, USED, SHRINK, SEEN, MISTAKES, SPENT = range(6)
#: Rows of the scratch memory (3, slots): merging uses the first, the Projectron the first two.
DISTANCES, PROJECTION, VALUES = 0, 1, 2
COORDINATES = DISTANCES

#: Slots evaluated at a time, so that their distances stay in the first-level cache.
_TILE = 512
#: The scale stays within these bounds, so that neither the scale nor raw^2 over- or underflows.
LEAST_SHRINK, MOST_SHRINK = 1e-40, 1e40


class UpdateRule(NamedTuple):
    """The update rule and the budget strategy as scalars for compiled code."""

    update: int  # code of the update rule
    loss: int  # code of the loss
    parameter: float  # of the loss
    eta: float = 1.0  # step size or cost; 1 with pegasos, where the scale is 1 / (alpha t)
    alpha: float = 0.0  # regularisation: f shrinks by 1 - eta alpha per row
    pegasos: bool = False  # steps 1 / (alpha t)
    balanced: bool = False  # after a random removal the others are scaled up
    aggressive: bool = False  # Projectron++: learn from margin errors too
    threshold: float = 0.0  # of the Projectron, on |delta|
    strategy: int = NONE  # code of the budget strategy
    budget: int = 2**62
    rate: float = 0.0  # 1 / (2 bandwidth^2) of a Gaussian kernel, else 0


class Support(NamedTuple):
    """The support set; all arrays have the same number of slots."""

    points: Array  # (columns, slots)
    raw: Array  # (slots,) coefficients without the scale
    norms: Array  # (slots,) k(x, x)
    order: NDArray[np.int64]  # (slots,) slots by age, then the free ones
    square: Array  # (slots, slots) Forgetron: kernel values; Projectron: inverse factor of K
    running: Array  # (6,) see SIZE, USED, ...


class RowBlock(NamedTuple):
    """A block of rows; ``K`` and ``own`` are empty where the loop evaluates the kernel."""

    X: Array  # (rows, columns)
    y: Array  # (rows,)
    weights: Array  # (rows,) sample weights
    norms: Array  # (rows,) k(x, x)
    uniforms: Array  # (rows,) numbers in [0, 1) for random removal
    K: Array  # (rows, slots) values with the points; `add` fills the column of a new point
    own: Array  # (rows, rows) values between the rows


# -- kernel values and the model ------------------------------------------------------------------


@compiled(fastmath={"contract"})
def distance_row(x: Array, points: Array, used: int, out: Array) -> None:
    """Compute out[j] = sum_k (x_k - points[k, j])^2 for j < used, four columns at a time.

    x (columns,), points (columns, slots), out (slots,).
    """
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


@compiled(fastmath={"contract"})
def kernel_row(rule: UpdateRule, support: Support, rows: RowBlock, i: int, out: Array) -> Array:
    """Return k(x_i, .) for all slots in use: a row of ``rows.K``, or evaluated into ``out``."""
    if rows.K.shape[0] > 0:
        return rows.K[i]
    used = int(support.running[USED])
    # out_j = exp(-|x_i - x_j|^2 / (2 bandwidth^2))
    distance_row(rows.X[i], support.points, used, out)
    for j in range(used):
        out[j] = exp_scalar(-rule.rate * out[j])
    return out


# "reassoc" lets the compiler reorder the sum, without which it would not vectorise.
@compiled(fastmath={"contract", "reassoc"})
def dot_of_first(a: Array, b: Array, n: int) -> float:
    """Return sum_j a_j b_j over j < n."""
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total


@compiled
def scale(rule: UpdateRule, support: Support) -> float:
    """Return the factor of the raw coefficients; with pegasos it has 1 / (alpha t) after t rows."""
    running = support.running
    if rule.pegasos and running[SEEN] > 0.0:
        return running[SHRINK] / (rule.alpha * running[SEEN])
    return running[SHRINK]


@compiled
def shrink(support: Support, factor: float) -> None:
    """Multiply f by a factor; a scale far from 1 is multiplied into the coefficients."""
    running = support.running
    running[SHRINK] *= factor
    size = abs(running[SHRINK])
    if size < LEAST_SHRINK or size > MOST_SHRINK:
        # raw = scale raw,  scale = 1
        used = int(running[USED])
        for j in range(used):
            support.raw[j] *= running[SHRINK]
        running[SHRINK] = 1.0


# -- adding and removing --------------------------------------------------------------------------


@compiled
def add(support: Support, rows: RowBlock, i: int, coefficient: float) -> int:
    """Add row i as the youngest point, fill its column of ``rows.K``, and return its slot."""
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


@compiled
def remove(support: Support, rank: int) -> None:
    """Drop the point number ``rank`` by age; the next point added gets its slot."""
    size = int(support.running[SIZE])
    order = support.order
    slot = order[rank]
    for r in range(rank, size - 1):
        order[r] = order[r + 1]
    order[size - 1] = slot
    support.raw[slot] = 0.0
    support.running[SIZE] = size - 1


@compiled
def remove_random(support: Support, u: float) -> None:
    """Drop the point number floor(u size)."""
    size = int(support.running[SIZE])
    remove(support, min(int(u * size), size - 1))


@compiled
def smallest(support: Support) -> int:
    """Return the rank by age of the point with the smallest a^2 k(x, x), the oldest of equals.

    The coefficients are compared without their common scale: under the hinge loss they are then
    exactly equal, whereas scaled coefficients would differ by rounding.
    """
    best, rank = np.inf, 0
    for r in range(int(support.running[SIZE])):
        slot = support.order[r]
        value = support.raw[slot] * support.raw[slot] * support.norms[slot]
        if value < best:
            best, rank = value, r
    return rank


# -- update rules ---------------------------------------------------------------------------------


def mistakes(aggressive: bool = False, threshold: float = 0.0) -> UpdateRule:
    """Return the Perceptron; ``aggressive`` also learns from margin errors (Projectron++).

    ``threshold`` is the Projectron's eta.
    """
    return UpdateRule(
        MISTAKES_ONLY, HINGE, 0.0, aggressive=bool(aggressive), threshold=float(threshold)
    )


def descent(loss: Loss, eta: float | str, alpha: float) -> UpdateRule:
    """Return gradient descent; ``eta`` is a number or "pegasos", which needs alpha > 0."""
    pegasos = eta == "pegasos"
    size = 1.0 if pegasos else float(eta)
    return UpdateRule(
        GRADIENT, loss.code, loss.parameter, size, float(alpha), pegasos, balanced=True
    )


def passive(loss: Loss, cost: float, squared: bool) -> UpdateRule:
    """Return PA-I, or with ``squared`` PA-II, of the hinge or the epsilon-insensitive loss.

    ``cost`` is C, for the loss that remains after the step.
    """
    code = PASSIVE_2 if squared else PASSIVE_1
    return UpdateRule(code, loss.code, loss.parameter, float(cost))


@compiled
def step(rule: UpdateRule, f: float, y: float, norm: float, weight: float) -> float:
    """Return the coefficient of k(x, .), 0 where nothing is learned; ``norm`` is k(x, x).

    A mistake is y f <= 0, so a score of 0 is a mistake.
    """
    # a = w y where y f <= 0
    if rule.update == MISTAKES_ONLY:
        return 0.0 if y * f > 0.0 else weight * y
    slope = losses.slope(rule.loss, rule.parameter, f, y)
    # a = -eta w l'(f, y)
    if rule.update == GRADIENT:
        return -rule.eta * weight * slope
    if slope == 0.0:
        return 0.0
    loss = losses.value(rule.loss, rule.parameter, f, y)
    cost = rule.eta * weight
    # a = -l' min(C w, l / k(x, x))
    if rule.update == PASSIVE_1:
        return -slope * min(cost, loss / norm)
    # a = -l' l / (k(x, x) + 1 / (2 C w))
    return -slope * loss / (norm + 0.5 / cost)
