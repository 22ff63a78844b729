"""Rows through the weights of a mixture, compiled: predicted, then learned (`mixture`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.default.combination import Books, add_to_books, beyond_range
from pronk.engines.default.signs import live_outputs, note_signs
from pronk.engines.default.stacks import (
    ECHO_REACH,
    ECHO_WINDOW,
    RIDGE_ALPHA,
    forget,
    logistic_step,
    logit,
    solve_stacks,
    stacked,
)

Array = NDArray[np.float64]


@njit(cache=True, nogil=True, fastmath={"contract"})
def share(log_weights: Array, losses: Array, rate: float) -> None:
    """w_e <- (1 - rate) w_e exp(-loss_e) / sum + rate / n, as logarithms."""
    n = losses.size
    best = -np.inf
    for e in range(n):
        log_weights[e] -= losses[e]
        best = max(best, log_weights[e])
    total = 0.0
    for e in range(n):
        total += np.exp(log_weights[e] - best)
    for e in range(n):
        weight = np.exp(log_weights[e] - best) / total
        log_weights[e] = np.log((1.0 - rate) * weight + rate / n)


@njit(cache=True, nogil=True)
def relative_square(error: float, worst: float) -> float:
    """error^2 / (2 worst^2); 0 where there was no error at all."""
    return 0.5 * (error / worst) ** 2 if worst > 0.0 else 0.0


class Weights(NamedTuple):
    """What rows change: rows seen; the discounts of the stacks; the range of the targets, the signs

    and the largest error so far; logarithms of w and v; sums A, b of the stacks and what they make
    of the predictions (``stacked``); losses since the last sleep; losses in units of 2 D^2, of the
    final prediction, then of each expert; the lags of errors that the stacks read, the mean square
    of recent errors of the average, and the last of them as they are read, that of row t at place t
    modulo their number.
    """

    counter: Array
    discounts: Array
    limits: Array
    seen: Array
    worst: Array
    log_w: Array
    log_v: Array
    A: Array
    b: Array
    stacked: Array
    losses: Array
    ledger: Array
    lags: NDArray[np.int64]
    squares: Array
    errors: Array


class Row(NamedTuple):
    """One row on its way: clipped predictions (experts, outputs); the average and the stacks

    (1 + stacks, outputs); the final prediction (outputs); errors before it (outputs, lags)."""

    clipped: Array
    candidates: Array
    final: Array
    echo: Array


@njit(cache=True, nogil=True)
def new_row(experts: int, stacks: int, outputs: int, lags: int) -> Row:
    return Row(
        np.empty((experts, outputs)),
        np.empty((1 + stacks, outputs)),
        np.empty(outputs),
        np.empty((outputs, lags)),
    )


@njit(cache=True, nogil=True, fastmath={"contract"})
def predict_row(p: Array, signed: bool, state: Weights, row: Row) -> None:
    """The final prediction of a row of expert predictions p (experts, outputs), and its parts."""
    experts, outputs = p.shape
    stacks = state.discounts.size
    C, Q = row.clipped, row.candidates
    low, high = state.limits[0], state.limits[1]
    weights, shares = np.exp(state.log_w), np.exp(state.log_v)
    rows = int(state.counter[0])
    for o in range(outputs):
        Q[0, o] = 0.0
        for e in range(experts):
            C[e, o] = min(max(p[e, o], low[o]), high[o])
            Q[0, o] += weights[e] * C[e, o]
        echo = row.echo[o]
        for k in range(echo.size):
            echo[k] = state.errors[(rows - state.lags[k]) % len(state.errors), o]
        for s in range(stacks):
            if signed:
                Q[1 + s, o] = np.tanh(0.5 * logit(state.stacked[s], C[:, o], Q[0, o], echo))
            else:
                total = stacked(state.stacked[s], C[:, o], Q[0, o], echo, 1.0)
                Q[1 + s, o] = min(max(total, low[o]), high[o])
        row.final[o] = 0.0
        for k in range(1 + stacks):
            row.final[o] += shares[k] * Q[k, o]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_losses(y: Array, live: NDArray[np.bool_], count: int, state: Weights, row: Row) -> None:
    """Ranges, largest errors, losses and both weights after the row's targets."""
    C, Q = row.clipped, row.candidates
    loss_w, loss_v = np.zeros(len(C)), np.zeros(len(Q))
    for o in range(y.size):
        state.limits[0, o] = min(state.limits[0, o], y[o])
        state.limits[1, o] = max(state.limits[1, o], y[o])
        half = 0.5 * (state.limits[1, o] - state.limits[0, o])
        if not live[o] or half == 0.0:
            continue
        for e in range(len(C)):
            state.worst[o] = max(state.worst[o], abs(C[e, o] - y[o]))
        for k in range(len(Q)):
            state.worst[o] = max(state.worst[o], abs(Q[k, o] - y[o]))
        worst = state.worst[o]
        state.ledger[0] += relative_square(row.final[o] - y[o], worst) / count
        for e in range(len(C)):
            loss_w[e] += relative_square(C[e, o] - y[o], worst) / count
            state.losses[e] += ((C[e, o] - y[o]) / half) ** 2 / count
        for k in range(len(Q)):
            loss_v[k] += relative_square(Q[k, o] - y[o], worst) / count
    state.ledger[1:] += loss_w
    rate = 1.0 / (state.counter[0] + 1.0)
    share(state.log_w, loss_w, rate)
    share(state.log_v, loss_v, rate)


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_to_ridges(y: Array, count: int, state: Weights, row: Row) -> None:
    """One row in the sums of the ridge stacks, in half-widths of the targets' range."""
    C, average = row.clipped, row.candidates[0]
    z = np.empty(state.b.shape[1])
    for s in range(state.discounts.size):
        if state.discounts[s] < 1.0:
            state.b[s] *= state.discounts[s]
            forget(state.A[s], state.discounts[s], RIDGE_ALPHA)
    for o in range(y.size):
        half = 0.5 * (state.limits[1, o] - state.limits[0, o])
        if half == 0.0:
            continue
        for e in range(len(C)):
            z[e] = (C[e, o] - average[o]) / half
        z[len(C) :] = row.echo[o] / half
        r = (y[o] - average[o]) / half
        for s in range(state.discounts.size):
            for e in range(z.size):
                state.b[s, e] += z[e] * r / count
                for f in range(e + 1):
                    state.A[s, e, f] += z[e] * z[f] / count


@njit(cache=True, nogil=True, fastmath={"contract"})
def note_errors(y: Array, signed: bool, state: Weights, row: Row) -> None:
    """Hold the errors of the average, clipped (`stacks`)."""
    rows = state.counter[0]
    held = state.errors[(int(rows) - 1) % len(state.errors)]
    for o in range(y.size):
        held[o] = y[o] - row.candidates[0, o]
        if signed:
            continue
        bound = ECHO_REACH * np.sqrt(state.squares[o])
        if bound > 0.0:
            held[o] = min(max(held[o], -bound), bound)
        state.squares[o] += (held[o] * held[o] - state.squares[o]) / min(rows, ECHO_WINDOW)


@njit(cache=True, nogil=True, fastmath={"contract"})
def learn_row(y: Array, signed: bool, state: Weights, books: Books, row: Row) -> None:
    """Learn the targets of a row as `predict_row` left it."""
    state.counter[0] += 1.0
    live = np.empty(y.size, dtype=np.bool_)
    note_signs(y, state.seen)
    count = live_outputs(state.seen, signed, live)
    beyond = np.empty(y.size)
    beyond_range(y, state.limits, beyond)
    add_losses(y, live, count, state, row)
    add_to_books(
        y, live, count, state.limits, state.worst, beyond, row.clipped, row.candidates[0],
        row.final, books,
    )  # fmt: skip
    if signed:
        for s in range(state.discounts.size):
            logistic_step(
                row.clipped, row.candidates[0], row.echo, y, live, state.discounts[s], state.A[s],
                state.b[s],
            )  # fmt: skip
    else:
        add_to_ridges(y, count, state, row)
        solve_stacks(state.A, state.b, state.stacked)
    note_errors(y, signed, state, row)


@njit(cache=True, nogil=True)
def mix_rows(P: Array, Y: Array, signed: bool, state: Weights, books: Books, out: Array) -> None:
    """Predict then learn rows of expert predictions P (n, experts, outputs)."""
    row = new_row(P.shape[1], state.discounts.size, P.shape[2], state.lags.size)
    for t in range(len(P)):
        predict_row(P[t], signed, state, row)
        out[t] = row.final
        learn_row(Y[t], signed, state, books, row)


@njit(cache=True, nogil=True)
def predict_rows(P: Array, signed: bool, state: Weights, out: Array) -> None:
    """What rows would be predicted if they came next."""
    row = new_row(P.shape[1], state.discounts.size, P.shape[2], state.lags.size)
    for t in range(len(P)):
        predict_row(P[t], signed, state, row)
        out[t] = row.final
