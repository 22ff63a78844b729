"""The compiled loop of the second-order learners: rows of one block, predicted then learned.

`newton_rows` is the loop of PROS-N-KONS, CON-KONS, B-KONS, NONS-ALD and KONS (online Newton step,
`newton_row`) and of AIOLI (`aioli_row`), `squared_rows` that of PKAWV and PKRR (AWV and ridge
forecasters), `sketched_rows` that of Sketched-KONS. All share one recurrence over
scalars and rows of a small triangle. With the features phi_t (r,) of row t,
A_t = A_{t-1} + c_t phi_t phi_t' and b_t = b_{t-1} + e_t phi_t,

    q_t     = phi_t' A_{t-1}^-1 phi_t                            leverage
    kappa_t = c_t / (1 + c_t q_t)                                from A_t^-1 by Sherman-Morrison
    R[t, s] = G[t, s] - sum_{i<s} kappa_i R[t, i] R[s, i]        R[t, t] = q_t
    f_t     = f0_t    - sum_{s<t} step_s R[t, s]                 prediction before row t

where G[t, s] = phi_t' A_0^-1 phi_s and f0_t = phi_t' A_0^-1 b_0 are of the state at the start of
the block: with A_0 = L L', z = L^-1 phi and beta = L^-1 b_0 they are z_t'z_s and z_t'beta.
``upper`` holds T' with T[t, s] = kappa_s R[t, s], so that both sums run along its rows.

Throughout, r is the number of features, B the length of a block, t the number of rows in the open
block, m the number of rows of a call and o an output. Arrays are float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pronk.core import losses
from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar

#: How eta is chosen: a given number, sigma/2 of the loss, 1 / (L C sqrt t), as AIOLI does, or
#: 1 / (4 C^2 + 4) as NONS-ALD does.
ETA_GIVEN, ETA_CURVATURE, ETA_CONVEX, ETA_AIOLI, ETA_UNIT = 0, 1, 2, 3, 4

#: Entries of ``rule`` (5,): loss, its parameter, how eta is chosen, a given eta, 1 if C grows.
#: Under AIOLI the entry ETA holds the radius, and LOSS, PARAMETER and CLIP_GROWS are not read.
LOSS, PARAMETER, ETA_MODE, ETA, CLIP_GROWS = 0, 1, 2, 3, 4
#: Entries of ``running`` (3,): clip C, rows seen, and sum of g_t' A_t^-1 g_t for the certificate.
CLIP, ROWS, GRADIENT_TERMS = 0, 1, 2
#: Entries of ``running`` under AIOLI: cumulative loss, the regret's bound, and how far below it is.
LOGISTIC_LOSS, BOUND, SLACK = 0, 1, 2
#: Entries of ``coins`` (4,) of Sketched-KONS.
FLOOR, EPSILON, BETA, ALPHA = 0, 1, 2, 3


class Open(NamedTuple):
    """The open block: entry or row t of every array belongs to row t."""

    upper: Array  # (B, B), T' above the diagonal
    kappa: Array  # (B,)
    step: Array  # (B, outputs)
    curvature: Array  # (B,), c
    target: Array  # (B, outputs), e


class Batch(NamedTuple):
    """The rows of a call: targets, weights, and the array for their predictions."""

    Y: Array  # (m, outputs)
    weights: Array  # (m,)
    out: Array  # (m, outputs)


# -- steps of one row --------------------------------------------------------------------------


# Sums of products may be taken in any order ("reassoc"), or they would not vectorise.
@compiled(fastmath={"contract", "reassoc"})
def border_row(z: Array, Z: Array, t: int, beta: Array, g: Array, f: Array) -> None:
    """Compute row t of G into g (at least t + 1,) and f0_t into f (outputs,).

    z is row t of Z (B, r), and beta is (r, outputs).
    """
    # G[t, s] = z_s'z
    for s in range(t):
        total = 0.0
        for i in range(z.size):
            total += Z[s, i] * z[i]
        g[s] = total
    # G[t, t] = z'z
    total = 0.0
    for i in range(z.size):
        total += z[i] * z[i]
    g[t] = total
    # f0_t = beta'z
    for o in range(f.size):
        total = 0.0
        for i in range(z.size):
            total += beta[i, o] * z[i]
        f[o] = total


@compiled(fastmath={"contract"})
def eliminate(g: Array, t: int, upper: Array, kappa: Array, step: Array, f: Array) -> float:
    """Turn row t of G (in g) into row t of R, and f0_t (in f) into f_t; return q_t >= 0.

    Writes column t of ``upper``. Shapes as in `Open`; g has t + 1 entries or more, f (outputs,).
    Four open rows at a time, so that g is read and written once for four of them.
    """
    # R[t, s] = G[t, s] - sum_{i<s} T[s, i] R[t, i], with T[s, i] = upper[i, s]
    whole = t - t % 4
    for i in range(0, whole, 4):
        a, b, c, d = upper[i], upper[i + 1], upper[i + 2], upper[i + 3]
        u = g[i]
        g[i + 1] = v = g[i + 1] - a[i + 1] * u
        g[i + 2] = w = g[i + 2] - a[i + 2] * u - b[i + 2] * v
        g[i + 3] = x = g[i + 3] - a[i + 3] * u - b[i + 3] * v - c[i + 3] * w
        for s in range(i + 4, t):
            g[s] -= a[s] * u + b[s] * v + c[s] * w + d[s] * x
    for i in range(whole, t):
        for s in range(i + 1, t):
            g[s] -= upper[i, s] * g[i]
    # q_t = G[t, t] - sum_i kappa_i R[t, i]^2;  T[t, i] = kappa_i R[t, i];  f_t -= step_i R[t, i]
    q = g[t]
    for i in range(t):
        scaled = kappa[i] * g[i]
        q -= scaled * g[i]
        upper[i, t] = scaled
        for o in range(f.size):
            f[o] -= step[i, o] * g[i]
    return max(q, 0.0)


@compiled(fastmath={"contract"})
def squared_row(
    q: float, f: Array, y: Array, t: int, anticipate: bool, kappa: Array, step: Array, out: Array
) -> None:
    """Learn row t by the ridge forecaster, or with ``anticipate`` by the AWV forecaster.

    f, y and out are (outputs,); kappa and step as in `Open`.
    """
    # c = 1:  kappa = 1 / (1 + q),  step = (f - y) / (1 + q),  p = f (ridge) or f / (1 + q) (AWV)
    kappa[t] = 1.0 / (1.0 + q)
    for o in range(f.size):
        step[t, o] = (f[o] - y[o]) * kappa[t]
        out[o] = f[o] * kappa[t] if anticipate else f[o]


@compiled(fastmath={"contract"})
def squared_rows(G: Array, F: Array, batch: Batch, t: int, anticipate: bool, block: Open) -> None:
    """Predict then learn rows t, t + 1, ... of the block by the ridge or AWV forecaster.

    G (m, t + m) and F (m, outputs) hold their rows of G and their f0, and are overwritten.
    """
    for i in range(len(F)):
        q = eliminate(G[i], t + i, block.upper, block.kappa, block.step, F[i])
        squared_row(q, F[i], batch.Y[i], t + i, anticipate, block.kappa, block.step, batch.out[i])


@compiled(fastmath={"contract"})
def choose_eta(
    mode: int, given: float, code: int, parameter: float, clip: float, t: float
) -> float:
    """Return eta_t, the coefficient of g g' in A, for clip C and t rows seen."""
    if mode == ETA_GIVEN:
        return given
    if mode == ETA_CURVATURE:
        return 0.5 * losses.curvature(code, parameter, clip)
    if mode == ETA_UNIT:
        return 1.0 / (4.0 * clip * clip + 4.0)
    return 1.0 / (losses.lipschitz(code, parameter, clip) * clip * np.sqrt(t))


@compiled(fastmath={"contract"})
def newton_row(
    q: float, f: float, y: float, weight: float, t: int, rule: Array, running: Array, block: Open
) -> float:
    """Learn row t by the online Newton step and return its prediction p.

    The step is the generalised projection of Newton's step on predictions within the clip C:

        p = clip(f, -C, C)      g = w l'(p, y)      c = eta g^2 / w      projection = (f - p) / q

    for a row of weight w, which counts w times in slope and curvature. Without clipping there is no
    projection, and q may be 0. Entries of ``rule`` and ``running`` are named above.
    """
    code, parameter = int(rule[LOSS]), rule[PARAMETER]
    running[ROWS] += 1.0
    # p = clip(f, -C, C); then C = max(C, |y|) if the clip follows the targets
    p = min(max(f, -running[CLIP]), running[CLIP])
    if rule[CLIP_GROWS] != 0.0:
        running[CLIP] = max(running[CLIP], abs(y))
    block.kappa[t] = 0.0
    block.step[t, 0] = 0.0
    block.curvature[t] = 0.0
    block.target[t, 0] = 0.0
    if running[CLIP] == 0.0:  # only labels 0 so far: there is no scale to learn on
        return p
    # g = w l'(p, y),  c = eta g^2 / w
    slope = weight * losses.slope(code, parameter, p, y)
    eta = choose_eta(int(rule[ETA_MODE]), rule[ETA], code, parameter, running[CLIP], running[ROWS])
    c = eta * slope * slope / weight
    projection = (f - p) / q if f != p and q > 0.0 else 0.0
    # kappa = c / (1 + c q),  step = projection + g / (1 + c q)
    block.kappa[t] = c / (1.0 + c * q)
    block.step[t, 0] = projection + slope / (1.0 + c * q)
    # e = c p - g - projection, the row's coefficient in b
    block.curvature[t] = c
    block.target[t, 0] = c * p - slope - projection
    # g' A_t^-1 g = g^2 q / (1 + c q)
    running[GRADIENT_TERMS] += slope * slope * q / (1.0 + c * q)
    return p


@compiled
def gradient_terms(
    y: Array, p: Array, weights: Array, rule: Array, running: Array
) -> tuple[Array, Array, Array]:
    """Return what rows add to a certificate: g, c as in `newton_row`, and sigma on [-C, C] over w.

    y, p and weights (m,) are the rows' targets, predictions and w; ``running`` is that before them.
    """
    slope, curvature, sigma = np.zeros(y.size), np.zeros(y.size), np.zeros(y.size)
    code, parameter, clip = int(rule[LOSS]), rule[PARAMETER], running[CLIP]
    for i in range(len(y)):
        if rule[CLIP_GROWS] != 0.0:
            clip = max(clip, abs(y[i]))
        if clip > 0.0:
            slope[i] = weights[i] * losses.slope(code, parameter, p[i], y[i])
            row = running[ROWS] + i + 1.0
            eta = choose_eta(int(rule[ETA_MODE]), rule[ETA], code, parameter, clip, row)
            curvature[i] = eta * slope[i] * slope[i] / weights[i]
            sigma[i] = _curvature(code, parameter, clip, y[i]) / weights[i]
    return slope, curvature, sigma


@compiled
def _curvature(code: int, parameter: float, clip: float, y: float) -> float:
    """Return sigma on [-C, C], also for a target beyond C; y = -1 or 1 for margin losses."""
    beyond = code == losses.SQUARED or code == losses.HUBER
    return losses.curvature(code, parameter, max(clip, abs(y)) if beyond else clip)


def eta_is_certified(rule: Array, clip: float, largest: float) -> bool:
    """Return whether eta <= sigma for clip and largest |y|, and so for all smaller ones.

    It never is if sigma is 0. Steps of 1 / (L C sqrt t) are larger in the first rows.
    """
    mode, code, parameter = int(rule[ETA_MODE]), int(rule[LOSS]), rule[PARAMETER]
    if clip == 0.0:
        return True
    sigma = _curvature(code, parameter, clip, largest)
    if sigma == 0.0 or mode == ETA_CONVEX:
        return False
    return bool(choose_eta(mode, rule[ETA], code, parameter, clip, 1.0) <= sigma)


@compiled(fastmath={"contract"})
def anticipated_margin(f: float, q: float) -> float:
    """Return the root p of p + q tanh(p / 2) = f, for q >= 0.

    For f > 0 the left side is increasing and concave in p > 0, so Newton's method rises to the root
    from every point below it. tanh(p/2) <= min(p/2, 1) gives such a point:

        p >= max(f / (1 + q/2), f - q).
    """
    size = abs(f)
    p = max(size / (1.0 + 0.5 * q), size - q)
    for _ in range(100):
        slope = math.tanh(0.5 * p)
        step = (size - p - q * slope) / (1.0 + 0.5 * q * (1.0 - slope * slope))
        p += step
        if not step > 1e-15 * p:
            break
    return math.copysign(p, f)


@compiled(fastmath={"contract"})
def anticipated_margins(F: Array, q: Array, out: Array) -> None:
    """Write `anticipated_margin` of F (n, outputs) and leverages q (n,) into out."""
    for i in range(F.shape[0]):
        for o in range(F.shape[1]):
            out[i, o] = anticipated_margin(F[i, o], q[i])


@compiled(fastmath={"contract"})
def aioli_row(
    q: float, f: float, y: float, weight: float, t: int, rule: Array, running: Array, block: Open
) -> float:
    """Learn row t with its label y = -1 or 1 by AIOLI and return its margin p.

    f and q are those of the minimiser before the row. The two possible labels of the row, each with
    its weight w, move it along A^-1 phi:

        p = f - w q tanh(p/2)      g = w l'(p, y)      c = w l''(p) / (1 + BR)

    l'' = s (1 - s), s = 1 / (1 + exp(-p)), does not depend on the label. The row's regret against
    functions within the radius BR is at most its term of the certificate,

        q ((w tanh(p/2) - g)^2 / (1 + c q) - (w tanh(p/2))^2) / 2  <=  w (1 + BR) log(1 + c q).
    """
    widened = 1.0 + rule[ETA]
    p = anticipated_margin(f, weight * q)
    # g = w l'(p, y),  c = w l''(p) / (1 + BR)
    slope = weight * losses.slope(losses.LOGISTIC, 0.0, p, y)
    e = exp_scalar(-abs(p))
    c = weight * e / ((1.0 + e) * (1.0 + e) * widened)
    # kappa = c / (1 + c q),  step = (c (f - p) + g) / (1 + c q),  e = c p - g
    grown = 1.0 + c * q
    block.kappa[t] = c / grown
    block.step[t, 0] = (c * (f - p) + slope) / grown
    block.curvature[t] = c
    block.target[t, 0] = c * p - slope
    # the certificate: loss, bound, and the bound less the row's term
    pull = weight * math.tanh(0.5 * p)
    most = weight * widened * math.log1p(c * q)
    term = 0.5 * q * ((pull - slope) * (pull - slope) / grown - pull * pull)
    running[LOGISTIC_LOSS] += weight * losses.value(losses.LOGISTIC, 0.0, p, y)
    running[BOUND] += most
    running[SLACK] += max(most - term, 0.0)
    return p


@compiled(fastmath={"contract"})
def curved_row(
    q: float, f: float, y: float, weight: float, t: int, rule: Array, running: Array, block: Open
) -> float:
    """Learn row t by the rule's step, AIOLI's or the online Newton step; return its prediction."""
    if rule[ETA_MODE] == ETA_AIOLI:
        return aioli_row(q, f, y, weight, t, rule, running, block)
    return newton_row(q, f, y, weight, t, rule, running, block)


@compiled(fastmath={"contract"})
def newton_rows(
    G: Array, F: Array, batch: Batch, t: int, rule: Array, running: Array, block: Open
) -> None:
    """Predict then learn rows t, t + 1, ... of the block by the rule's step.

    G (m, t + m) and F (m, 1) hold their rows of G and their f0, and are overwritten.
    """
    for i in range(len(F)):
        q = eliminate(G[i], t + i, block.upper, block.kappa, block.step, F[i])
        batch.out[i, 0] = curved_row(
            q, F[i, 0], batch.Y[i, 0], batch.weights[i], t + i, rule, running, block
        )


@compiled(fastmath={"contract"})
def sketched_rows(
    G: Array, F: Array, batch: Batch, start: int, rule: Array, running: Array, coins: Array,
    rho: Array, uniforms: Array, block: Open,
) -> tuple[int, float]:  # fmt: skip
    """Predict then learn rows of the block from ``start`` on, until KORS keeps one or it ends.

    G is (m, m), F (m, 1), rho and uniforms (m,). With the row's curvature d^2 and its squared
    distance rho to the span of KORS's rescaled points,

        tau = (1 + epsilon) d^2 rho / (d^2 rho + alpha)      p = min(beta tau, 1)

    KORS keeps the row if u < p. If u >= max(p, floor) its curvature does not enter A: kappa is 0,
    and c p leaves its coefficient. Returns the next row, and p of the row before if KORS kept it.
    """
    floor, epsilon, beta, alpha = coins[FLOOR], coins[EPSILON], coins[BETA], coins[ALPHA]
    for t in range(start, len(F)):
        q = eliminate(G[t], t, block.upper, block.kappa, block.step, F[t])
        prediction = newton_row(
            q, F[t, 0], batch.Y[t, 0], batch.weights[t], t, rule, running, block
        )
        batch.out[t, 0] = prediction
        # p = min(beta (1 + epsilon) d^2 rho / (d^2 rho + alpha), 1)
        fresh = block.curvature[t] * max(rho[t], 0.0)
        p = min(beta * (1.0 + epsilon) * fresh / (fresh + alpha), 1.0)
        if uniforms[t] < p:
            return t + 1, p
        if uniforms[t] >= floor and block.curvature[t] > 0.0:
            # c = 0: a gradient step, step = g + projection = c p - e, and e = -step
            block.step[t, 0] = block.curvature[t] * prediction - block.target[t, 0]
            block.target[t, 0] = -block.step[t, 0]
            block.curvature[t] = 0.0
            block.kappa[t] = 0.0
    return len(F), 0.0
