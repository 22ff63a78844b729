"""The recurrence inside a block, compiled: scalars and rows of a small triangle, nothing of size r.

With q_t = phi_t' A_{t-1}^-1 phi_t, curvature c_t and kappa_t = c_t / (1 + c_t q_t),

    R[t, s] = G[t, s] - sum_{i<s} kappa_i R[t, i] R[s, i]        q_t = R[t, t]
    f_t     = f0_t    - sum_{s<t} step_s R[t, s]

where G[t, s] = phi_t' A_0^-1 phi_s and f0_t = phi_t' A_0^-1 b_0 speak of the state at the block's
start. ``upper`` keeps T' with T[t, s] = kappa_s R[t, s], so that both sums run along its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.core import losses
from pronk.core.linalg import solve_one
from pronk.newton.certificate import account

Array = NDArray[np.float64]

#: How eta is chosen: a given number, sigma/2 of the loss, or 1 / (L C sqrt t).
ETA_GIVEN, ETA_CURVATURE, ETA_CONVEX = 0, 1, 2


class Open(NamedTuple):
    """The open block, a row a row of it."""

    upper: Array  # T'
    kappa: Array
    step: Array
    curvature: Array  # c
    target: Array  # e, the row's coefficient in b


class Batch(NamedTuple):
    """Rows that come: their targets and weights, and where their predictions go."""

    Y: Array
    weights: Array
    out: Array


@njit(cache=True, nogil=True, fastmath={"contract"})
def solve_row(upper: Array, z: Array) -> None:
    """z becomes L^-1 z, in place; ``upper`` is L' (its rows are the columns of L).

    Eight columns at a time, so that z is read and written once for eight of them.
    """
    n = z.size
    whole = n - n % 8
    for i in range(0, whole, 8):
        for k in range(i, i + 8):
            z[k] /= upper[k, k]
            for j in range(k + 1, i + 8):
                z[j] -= upper[k, j] * z[k]
        a, b, c, d = upper[i], upper[i + 1], upper[i + 2], upper[i + 3]
        e, f, g, h = upper[i + 4], upper[i + 5], upper[i + 6], upper[i + 7]
        s, t, u, v = z[i], z[i + 1], z[i + 2], z[i + 3]
        w, x, y, last = z[i + 4], z[i + 5], z[i + 6], z[i + 7]
        for j in range(i + 8, n):
            first = a[j] * s + b[j] * t + c[j] * u + d[j] * v
            z[j] -= first + (e[j] * w + f[j] * x + g[j] * y + h[j] * last)
    for i in range(whole, n):
        z[i] /= upper[i, i]
        for j in range(i + 1, n):
            z[j] -= upper[i, j] * z[i]


# Sums of products may be taken in any order ("reassoc"), or they would not vectorise.
@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def border_row(z: Array, Z: Array, t: int, weights: Array, g: Array, f: Array) -> None:
    """g[s] = z_s'z for s < t, g[t] = z'z, and f = weights'z: one row of G and of f0."""
    for s in range(t):
        total = 0.0
        for i in range(z.size):
            total += Z[s, i] * z[i]
        g[s] = total
    total = 0.0
    for i in range(z.size):
        total += z[i] * z[i]
    g[t] = total
    for o in range(f.size):
        total = 0.0
        for i in range(z.size):
            total += weights[i, o] * z[i]
        f[o] = total


@njit(cache=True, nogil=True, fastmath={"contract"})
def eliminate(g: Array, t: int, upper: Array, kappa: Array, step: Array, f: Array) -> float:
    """Row t of R from row t of G (in place), f_t from f0_t (in place); returns q_t >= 0.

    Four open rows at a time, so that g is read and written once for four of them.
    """
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
    q = g[t]
    for i in range(t):
        scaled = kappa[i] * g[i]
        q -= scaled * g[i]
        upper[i, t] = scaled
        for o in range(f.size):
            f[o] -= step[i, o] * g[i]
    return max(q, 0.0)


@njit(cache=True, nogil=True, fastmath={"contract"})
def squared_row(
    q: float, f: Array, y: Array, t: int, anticipate: bool, kappa: Array, step: Array, out: Array
) -> None:
    """Ridge and AWV forecasters: c = 1, step = (f - y) / (1 + q), p = f or f / (1 + q)."""
    kappa[t] = 1.0 / (1.0 + q)
    for o in range(f.size):
        step[t, o] = (f[o] - y[o]) * kappa[t]
        out[o] = f[o] * kappa[t] if anticipate else f[o]


@njit(cache=True, nogil=True, fastmath={"contract"})
def squared_rows_from_features(
    Phi: Array, batch: Batch, t: int, anticipate: bool, factor: Array, beta: Array, Z: Array,
    block: Open,
) -> None:  # fmt: skip
    """Rows t, t+1, .. of the block by the ridge or AWV forecaster, from their features.

    Row by row, with no BLAS call, for short calls; longer ones go through LAPACK.
    """
    g = np.empty(block.upper.shape[0])
    f = np.empty(batch.Y.shape[1])
    for i in range(len(Phi)):
        Z[t + i] = Phi[i]
        solve_row(factor, Z[t + i])
        border_row(Z[t + i], Z, t + i, beta, g, f)
        q = eliminate(g, t + i, block.upper, block.kappa, block.step, f)
        squared_row(q, f, batch.Y[i], t + i, anticipate, block.kappa, block.step, batch.out[i])


@njit(cache=True, nogil=True, fastmath={"contract"})
def choose_eta(
    mode: int, given: float, code: int, parameter: float, clip: float, t: float
) -> float:
    """The coefficient of g g' in A."""
    if mode == ETA_GIVEN:
        return given
    if mode == ETA_CURVATURE:
        return 0.5 * losses.curvature(code, parameter, clip)
    return 1.0 / (losses.lipschitz(code, parameter, clip) * clip * np.sqrt(t))


@njit(cache=True, nogil=True, fastmath={"contract"})
def newton_row(
    q: float, f: float, y: float, weight: float, t: int, rule: Array, running: Array, block: Open
) -> float:
    """Online Newton: p = clip(f), c = eta slope^2, step = (f - p)/q + slope/(1 + c q).

    A row of weight w has w times the slope, and w times the curvature.

    ``rule`` is (loss code, loss parameter, eta mode, given eta, clip grows with |y|); ``running``
    is (clip, rows seen, sum of g'A^-1 g). ``block.target`` is the row's coefficient in b,
    c p - slope - (f - p)/q.
    Where there is no clipping there is no projection, and q may be 0.
    """
    code, parameter = int(rule[0]), rule[1]
    running[1] += 1.0
    p = min(max(f, -running[0]), running[0])
    if rule[4] != 0.0:
        running[0] = max(running[0], abs(y))
    block.kappa[t] = 0.0
    block.step[t, 0] = 0.0
    block.curvature[t] = 0.0
    block.target[t, 0] = 0.0
    if running[0] == 0.0:  # only labels 0 so far: there is no scale to learn on
        return p
    slope = weight * losses.slope(code, parameter, p, y)
    eta = choose_eta(int(rule[2]), rule[3], code, parameter, running[0], running[1])
    c = eta * slope * slope / weight
    projection = (f - p) / q if f != p and q > 0.0 else 0.0
    block.kappa[t] = c / (1.0 + c * q)
    block.step[t, 0] = projection + slope / (1.0 + c * q)
    block.curvature[t] = c
    block.target[t, 0] = c * p - slope - projection
    running[2] += slope * slope * q / (1.0 + c * q)
    return p


@njit(cache=True, nogil=True, fastmath={"contract"})
def newton_rows(
    G: Array, F: Array, batch: Batch, t: int, rule: Array, running: Array, block: Open
) -> None:
    """Rows t, t+1, .. of the block by the online Newton forecaster, given their G and f0."""
    for i in range(len(F)):
        q = eliminate(G[i], t + i, block.upper, block.kappa, block.step, F[i])
        batch.out[i, 0] = newton_row(
            q, F[i, 0], batch.Y[i, 0], batch.weights[i], t + i, rule, running, block
        )


@njit(cache=True, nogil=True, fastmath={"contract"})
def newton_rows_from_features(
    Phi: Array, batch: Batch, t: int, rule: Array, running: Array, factor: Array, beta: Array,
    Z: Array, block: Open,
) -> None:  # fmt: skip
    """The same from the features themselves, row by row, for short calls."""
    g = np.empty(block.upper.shape[0])
    f = np.empty(1)
    for i in range(len(Phi)):
        Z[t + i] = Phi[i]
        solve_row(factor, Z[t + i])
        border_row(Z[t + i], Z, t + i, beta, g, f)
        q = eliminate(g, t + i, block.upper, block.kappa, block.step, f)
        batch.out[i, 0] = newton_row(
            q, f[0], batch.Y[i, 0], batch.weights[i], t + i, rule, running, block
        )


@njit(cache=True, nogil=True, fastmath={"contract"})
def sketched_rows(
    G: Array, F: Array, batch: Batch, start: int, rule: Array, running: Array, coins: Array,
    rho: Array, uniforms: Array, block: Open,
) -> tuple[int, float]:  # fmt: skip
    """Rows of the block from ``start`` on, until KORS keeps one or the block ends.

    ``coins`` is (floor, epsilon, beta, alpha). With the row's curvature d^2 and rho its distance to
    the span of KORS's rescaled points,

        tau = (1 + epsilon) d^2 rho / (d^2 rho + alpha)      p = min(beta tau, 1)

    KORS keeps the row if u < p. If u >= max(p, floor) its curvature does not enter A: kappa is 0,
    and c p leaves its coefficient. Returns the next row, and p of the row before if KORS kept it.
    """
    floor, epsilon, beta, alpha = coins[0], coins[1], coins[2], coins[3]
    for t in range(start, len(F)):
        q = eliminate(G[t], t, block.upper, block.kappa, block.step, F[t])
        prediction = newton_row(
            q, F[t, 0], batch.Y[t, 0], batch.weights[t], t, rule, running, block
        )
        batch.out[t, 0] = prediction
        fresh = block.curvature[t] * max(rho[t], 0.0)
        p = min(beta * (1.0 + epsilon) * fresh / (fresh + alpha), 1.0)
        if uniforms[t] < p:
            return t + 1, p
        if uniforms[t] >= floor and block.curvature[t] > 0.0:
            # Without its curvature the row is a plain gradient step, slope + projection.
            block.step[t, 0] = block.curvature[t] * prediction - block.target[t, 0]
            block.target[t, 0] = -block.step[t, 0]
            block.curvature[t] = 0.0
            block.kappa[t] = 0.0
    return len(F), 0.0


# ----------------------------------------------------------------------------------------
# One row of the ridge and AWV forecasters in two steps: what it will be, then that it came.
#
# `peek` writes the row's place in the open block, which holds nothing until `commit`: so a row
# that was just predicted is learned without computing anything of it again.


class State(NamedTuple):
    """A learner for the compiled steps."""

    factor: Array  # L in C order, whose rows are read faster
    beta: Array
    Phi: Array
    Z: Array
    block: Open


@njit(cache=True, nogil=True, fastmath={"contract"})
def peek(phi: Array, root: float, t: int, anticipate: bool, state: State, out: Array) -> None:
    """Row t of the block, if it comes: its features times ``root`` and all that follows of them.

    Its prediction goes to ``out``, and f, until its target is known, to its place in ``step``.
    """
    block, z = state.block, state.Z[t]
    for i in range(phi.size):
        state.Phi[t, i] = z[i] = root * phi[i]
    solve_one(state.factor, z)
    g, f = np.empty(t + 1), block.step[t]
    border_row(z, state.Z, t, state.beta, g, f)
    block.kappa[t] = 1.0 / (1.0 + eliminate(g, t, block.upper, block.kappa, block.step, f))
    for o in range(f.size):
        out[o] = (f[o] * block.kappa[t] if anticipate else f[o]) / root


@njit(cache=True, nogil=True, fastmath={"contract"})
def commit(y: Array, root: float, t: int, state: State, ledger: Array, p: Array) -> None:
    """Row t, as `peek` left it and predicted p, came with the targets y."""
    block = state.block
    for o in range(y.size):
        block.target[t, o] = root * y[o]
        block.step[t, o] = (block.step[t, o] - block.target[t, o]) * block.kappa[t]
    account(p.reshape(1, -1), y.reshape(1, -1), ledger)
