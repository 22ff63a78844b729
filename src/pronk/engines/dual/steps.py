"""The steps of DualSVRG, compiled, on lazily scaled vectors: a row costs what its slopes touch.

All vectors live in R^(D + N): D random features, then one coordinate a core point. A row is seen
through q = [phi(x), k(core, x)], so that a score is one product; as a term of a gradient it is
phi(x) if the oracle moves it, else the unit vector of its own core coordinate.

With h = sum over the memory of v_i (row i), |memory| = M and kappa = 1/(1 + eta alpha) a step is

    w <- kappa (w - eta (h / M + d (row t))),   v_i = l'(<u, x_i>),  d = l'(<w, x>) - l'(<u, x>).

h changes by its newest and its oldest term only. So w is kept as  scale a + pull h:

    h <- h + v (row)     with     a <- a - (pull / scale) v (row)         (w stays)
    a <- a - (eta d / scale) (row t)
    scale <- kappa scale,         pull <- kappa (pull - eta / M)

and the running sum of w as  scales a + pulls h + b  with scales, pulls the sums of the scalars:
whatever a and h change by, b changes by -(scales da + pulls dh) so that the past sum stays. A row
thus touches the coordinates of two rows and no others, and none where the slopes are 0. The
vectors are a (BASE), h (MEMORY), b (SUM) and u (SNAPSHOT).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.dual.joint import slopes
from pronk.engines.gradient import add_multiple, dot

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: The layers of the vectors.
BASE, MEMORY, SUM, SNAPSHOT = 0, 1, 2, 3
#: The scalars.
SCALE, PULL, SCALES, PULLS = 0, 1, 2, 3
#: Rows between two folds of the lazy scalars, counted from the start of the stream, ...
FOLD_ROWS = 1024
#: ... and the scale at which they are folded at once: the sum of w loses 1/scale in accuracy.
SMALLEST_SCALE = 1e-3


class ReducedRule(NamedTuple):
    """How a step is made; scalars only."""

    loss: int  # code of the loss
    parameter: float  # of the loss
    eta: float
    kappa: float  # 1 / (1 + eta alpha)
    memory: int  # rows remembered
    period: int  # rows between two snapshots


class Memory(NamedTuple):
    """The remembered rows; a row is in the slot of its number modulo the memory."""

    features: Array
    targets: Array
    places: Indices  # in the core, or -1
    terms: Array  # v_i, one column an output


@njit(cache=True, fastmath={"contract"})
def add_term(
    vectors: Array, c: int, phi: Array, place: int, in_h: float, step: float, scalars: Array
) -> None:
    """h += in_h (row), a -= step (row) beside what keeps w and its sum; place < 0: moved."""
    in_a = -(scalars[PULL] / scalars[SCALE]) * in_h - step
    in_b = -(scalars[SCALES] * in_a + scalars[PULLS] * in_h)
    if place >= 0:
        j = phi.size + place
        vectors[BASE, c, j] += in_a
        vectors[MEMORY, c, j] += in_h
        vectors[SUM, c, j] += in_b
        return
    a, h, b = vectors[BASE, c], vectors[MEMORY, c], vectors[SUM, c]
    for j in range(phi.size):
        a[j] += in_a * phi[j]
        h[j] += in_h * phi[j]
        b[j] += in_b * phi[j]


@njit(cache=True, fastmath={"contract", "reassoc"})
def three_dots(a: Array, h: Array, u: Array, q: Array) -> tuple[float, float, float]:
    """a'q, h'q and u'q."""
    in_a, in_h, in_u = 0.0, 0.0, 0.0
    for j in range(q.size):
        in_a += a[j] * q[j]
        in_h += h[j] * q[j]
        in_u += u[j] * q[j]
    return in_a, in_h, in_u


@njit(cache=True, fastmath={"contract"})
def fold(vectors: Array, scalars: Array) -> None:
    """Write w into a and its sum into b, so that the scalars start anew."""
    scale, pull, scales, pulls = scalars
    for c in range(vectors.shape[1]):
        a, h, b = vectors[BASE, c], vectors[MEMORY, c], vectors[SUM, c]
        for j in range(a.size):
            b[j] += scales * a[j] + pulls * h[j]
            a[j] = scale * a[j] + pull * h[j]
    scalars[:] = 0.0
    scalars[SCALE] = 1.0


@njit(cache=True, fastmath={"contract"})
def take_snapshot(vectors: Array, scalars: Array, period: int) -> None:
    """u = w = the average of w over the period."""
    fold(vectors, scalars)
    share = 1.0 / period
    for c in range(vectors.shape[1]):
        a, b, u = vectors[BASE, c], vectors[SUM, c], vectors[SNAPSHOT, c]
        for j in range(a.size):
            u[j] = share * b[j]
            a[j] = u[j]
            b[j] = 0.0


@njit(cache=True, fastmath={"contract"})
def refresh_memory(
    rule: ReducedRule, memory: Memory, vectors: Array, kernels: Array, count: int
) -> None:
    """The memory's terms v_i and their sum h at the snapshot u; w must not hang on h (pull = 0)."""
    features, targets, places, terms = memory
    outputs = vectors.shape[1]
    scores = np.empty(outputs)
    size = features.shape[1]
    vectors[MEMORY] = 0.0
    for i in range(count):
        phi = features[i]
        for c in range(outputs):
            u = vectors[SNAPSHOT, c]
            scores[c] = dot(u, phi) + dot(u[size:], kernels[i])
        slopes(rule.loss, rule.parameter, scores, targets[i], terms[i])
        for c in range(outputs):
            v = terms[i, c]
            if v == 0.0:
                continue
            if places[i] >= 0:
                vectors[MEMORY, c, size + places[i]] += v
            else:
                add_multiple(vectors[MEMORY, c], v, phi)


@njit(cache=True, fastmath={"contract"})
def reduced_rows(
    rule: ReducedRule, memory: Memory, vectors: Array, scalars: Array, Q: Array, arrivals: Indices,
    y: Array, start: int, t: int, out: Array,
) -> int:  # fmt: skip
    """Walk the rows from ``start`` on, t of the stream done; stop where a period ends.

    Without core points the period's end needs nothing from outside, and the walk goes on.
    """
    features, targets, places, terms = memory
    kappa, eta = rule.kappa, rule.eta
    outputs = vectors.shape[1]
    size = features.shape[1]
    no_kernels = np.empty((features.shape[0], 0))
    at_w, at_u = np.empty(outputs), np.empty(outputs)
    scores = np.empty(outputs)
    for i in range(start, Q.shape[0]):
        q = Q[i]
        phi = q[:size]
        for c in range(outputs):
            in_a, in_h, in_u = three_dots(
                vectors[BASE, c], vectors[MEMORY, c], vectors[SNAPSHOT, c], q
            )
            out[i, c] = scalars[SCALE] * in_a + scalars[PULL] * in_h
            scores[c] = in_u
        slopes(rule.loss, rule.parameter, out[i], y[i], at_w)
        slopes(rule.loss, rule.parameter, scores, y[i], at_u)
        if rule.memory == 1:
            at_u[:] = 0.0  # h is the row's own term and cancels: exactly, so that ties stay ties
        slot = t % rule.memory
        for c in range(outputs):
            if t >= rule.memory and terms[slot, c] != 0.0:
                add_term(vectors, c, features[slot], places[slot], -terms[slot, c], 0.0, scalars)
            step = eta * (at_w[c] - at_u[c]) / scalars[SCALE]
            if at_u[c] != 0.0 or step != 0.0:
                add_term(vectors, c, phi, arrivals[i], at_u[c], step, scalars)
            terms[slot, c] = at_u[c]
        features[slot] = phi
        targets[slot], places[slot] = y[i], arrivals[i]
        t += 1
        scalars[SCALE] *= kappa
        scalars[PULL] = kappa * (scalars[PULL] - eta / min(t, rule.memory))
        scalars[SCALES] += scalars[SCALE]
        scalars[PULLS] += scalars[PULL]
        if t % rule.period == 0:
            take_snapshot(vectors, scalars, rule.period)
            if q.size > size:
                return i + 1
            if rule.memory == 1:
                continue
            refresh_memory(rule, memory, vectors, no_kernels, min(t, rule.memory))
        elif t % FOLD_ROWS == 0 or scalars[SCALE] < SMALLEST_SCALE:
            fold(vectors, scalars)
    return Q.shape[0]
