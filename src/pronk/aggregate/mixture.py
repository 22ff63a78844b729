"""The mixture: one prediction from those of all experts, by exponential weights and stacks.

Experts e predict p_e, clipped to the range [l, h] of the targets so far, half-width B. With D the
largest |p_e - y| and |q_k - y| so far, including this row, a prediction has three steps:

    average    m = sum_e w_e p_e,   w_e <- w_e exp(-(p_e - y)^2 / 2 D^2)
    stacks     ridge regression of y on the p and, where errors are correlated in time, on the last
               errors of the average; for labels logistic regression (`stacks`)
    final      sum_k v_k q_k over the candidates q = (m, the stacks), v updated like w

(p - y)^2 / 2 D^2 is exp-concave at rate 1 for |p - y| <= D, so in units of 2 D^2 <= 8 B^2 the
average loses at most log(experts) to the best expert, and the final prediction at most
log(1 + stacks) to the average and to each stack; a ridge stack competes with every fixed linear
combination of the experts. After each row both weights are mixed with the uniform distribution by
1/(t + 1) (fixed share). That costs log t, and the bound then holds against the best sequence of
experts, with log(experts t) per change. Stacks with a window are discounted as in
`newton.discounted`. Dropping experts of weight W costs the average -log(1 - W) once, against the
remaining ones. So after t rows the final prediction has lost to the best active expert at most
(`Mixture.certificate`)

    log(experts) + log(1 + stacks) + 2 log(t + 1) - sum log(1 - W)      in units of 2 D^2.

The regret against the best combination of the experts is in `certificate`.

Several outputs share the weights; losses are means over outputs. For targets +-1 only outputs count
that have been both +1 and -1 (a class that has not occurred carries no information), which also
makes the weights the same whether or not a class is known in advance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import LONGEST, live_outputs, note_labels, remapped_labels
from pronk.aggregate.certificate import (
    HIGH,
    LOW,
    Combination,
    CombinationSums,
    MixtureCertificate,
    add_to_combination,
    beyond_range,
)
from pronk.aggregate.clipping import LAGGED_REACH, clip_around, clip_errors
from pronk.aggregate.stacks import (
    LOGIT_ALPHA,
    LOGIT_START,
    RIDGE_ALPHA,
    discount_sums,
    logistic_step,
    logit,
    solve_stacks,
    stacked,
)
from pronk.core.compiling import compiled
from pronk.core.linalg import recombined
from pronk.core.state import Count, Numbers, Part, Sizes, Stateful, require

Array = NDArray[np.float64]

#: Place of the average among the candidates; the stacks follow from STACKS on.
AVERAGE, STACKS = 0, 1
#: Entry of the final prediction in the ledger; those of the experts follow from EXPERTS on.
FINAL, EXPERTS = 0, 1
#: Windows of the stacks in rows; 0: no discount.
WINDOWS = (0.0, 1000.0, 100.0)


@compiled(fastmath={"contract"})
def share(log_weights: Array, losses: Array, rate: float) -> None:
    """Update weights (n,), held as logarithms, by losses (n,), and mix them with the uniform."""
    n = losses.size
    # log w_e <- log w_e - loss_e
    best = -np.inf
    for e in range(n):
        log_weights[e] -= losses[e]
        best = max(best, log_weights[e])
    # w_e <- (1 - rate) w_e / sum w + rate / n
    total = 0.0
    for e in range(n):
        total += np.exp(log_weights[e] - best)
    for e in range(n):
        weight = np.exp(log_weights[e] - best) / total
        log_weights[e] = np.log((1.0 - rate) * weight + rate / n)


@compiled
def relative_square(error: float, worst: float) -> float:
    """Return error^2 / (2 worst^2), or 0 if all errors so far are 0."""
    return 0.5 * (error / worst) ** 2 if worst > 0.0 else 0.0


class Weights(NamedTuple):
    """Arrays that rows change.

    counter      (1,) rows so far
    gap          (1,) gap before the row that is learned (`clock`); 1 without times
    discounts    (stacks,) discount per row, 1 for none
    limits       (2, outputs) LOW and HIGH, the range of the targets
    seen_labels  (2, outputs) NEGATIVE and POSITIVE (`baselines`)
    worst        (outputs,) the largest error D
    log_w, log_v (experts,), (1 + stacks,) logarithms of w and v
    A, b         (stacks, terms, terms), (stacks, terms) sums of the ridge stacks; H and (u, c, d)
                 of the logistic ones
    stacked      (stacks, terms) coefficients of the stacks
    losses       (experts,) in half-widths squared, since experts were dropped last
    ledger       (1 + experts,) losses in units of 2 D^2: FINAL, then from EXPERTS on
    lags         (lags,) lags of the errors that the stacks read
    error_sizes  (outputs,) sizes q of the errors of the final prediction (`clipping`)
    squares      (outputs,) mean squares of recent errors of the average, as read
    errors       (LONGEST, outputs) the last errors as they are read, row t at t modulo LONGEST
    """

    counter: Array
    gap: Array
    discounts: Array
    limits: Array
    seen_labels: Array
    worst: Array
    log_w: Array
    log_v: Array
    A: Array
    b: Array
    stacked: Array
    losses: Array
    ledger: Array
    lags: NDArray[np.int64]
    error_sizes: Array
    squares: Array
    errors: Array


class Row(NamedTuple):
    """A row between `predict_row` and `learn_row`.

    clipped     (experts, outputs) clipped predictions p
    candidates  (1 + stacks, outputs) AVERAGE m, then from STACKS on the stacks
    final       (outputs,) final prediction
    lagged      (outputs, lags) lagged errors of the average
    """

    clipped: Array
    candidates: Array
    final: Array
    lagged: Array


@compiled(fastmath={"contract"})
def predict_row(p: Array, signed: bool, state: Weights, row: Row) -> None:
    """Predict from expert predictions p (experts, outputs); the parts go to ``row``."""
    experts, outputs = p.shape
    stacks = state.discounts.size
    C, Q = row.clipped, row.candidates
    low, high = state.limits[LOW], state.limits[HIGH]
    weights, shares = np.exp(state.log_w), np.exp(state.log_v)
    rows = int(state.counter[0])
    for o in range(outputs):
        # m = sum_e w_e clip(p_e, l, h)
        Q[AVERAGE, o] = 0.0
        for e in range(experts):
            C[e, o] = min(max(p[e, o], low[o]), high[o])
            Q[AVERAGE, o] += weights[e] * C[e, o]
        lagged = row.lagged[o]
        for k in range(lagged.size):
            lagged[k] = state.errors[(rows - state.lags[k]) % len(state.errors), o]
        # q_s = tanh(f / 2), or clip(m + u'(p - m) + d'e, l, h)
        for s in range(stacks):
            if signed:
                f = logit(state.stacked[s], C[:, o], Q[AVERAGE, o], lagged)
                Q[STACKS + s, o] = np.tanh(0.5 * f)
            else:
                total = stacked(state.stacked[s], C[:, o], Q[AVERAGE, o], lagged, 1.0)
                Q[STACKS + s, o] = min(max(total, low[o]), high[o])
        # final = sum_k v_k q_k
        row.final[o] = 0.0
        for k in range(1 + stacks):
            row.final[o] += shares[k] * Q[k, o]


@compiled(fastmath={"contract"})
def add_losses(y: Array, live: NDArray[np.bool_], count: int, state: Weights, row: Row) -> None:
    """Update range, largest error, losses and both weights by the targets y (outputs,).

    ``live`` (outputs,) are the outputs that count, ``count`` is their number.
    """
    C, Q = row.clipped, row.candidates
    loss_w, loss_v = np.zeros(len(C)), np.zeros(len(Q))
    for o in range(y.size):
        # B, half-width of the range with y
        state.limits[LOW, o] = min(state.limits[LOW, o], y[o])
        state.limits[HIGH, o] = max(state.limits[HIGH, o], y[o])
        half = 0.5 * (state.limits[HIGH, o] - state.limits[LOW, o])
        if not live[o] or half == 0.0:
            continue
        # D = max(D, |p_e - y|, |q_k - y|)
        for e in range(len(C)):
            state.worst[o] = max(state.worst[o], abs(C[e, o] - y[o]))
        for k in range(len(Q)):
            state.worst[o] = max(state.worst[o], abs(Q[k, o] - y[o]))
        worst = state.worst[o]
        # loss = (prediction - y)^2 / (2 D^2), mean over live outputs
        state.ledger[FINAL] += relative_square(row.final[o] - y[o], worst) / count
        for e in range(len(C)):
            loss_w[e] += relative_square(C[e, o] - y[o], worst) / count
            state.losses[e] += ((C[e, o] - y[o]) / half) ** 2 / count
        for k in range(len(Q)):
            loss_v[k] += relative_square(Q[k, o] - y[o], worst) / count
    for e in range(len(C)):
        state.ledger[EXPERTS + e] += loss_w[e]
    rate = 1.0 / (state.counter[0] + 1.0)
    share(state.log_w, loss_w, rate)
    share(state.log_v, loss_v, rate)


@compiled
def row_discount(stack: int, state: Weights) -> float:
    """Return the discount of a stack's sums before the row that is learned."""
    discount, gap = state.discounts[stack], state.gap[0]
    return discount if gap == 1.0 else discount**gap


@compiled(fastmath={"contract"})
def add_to_ridges(y: Array, count: int, state: Weights, row: Row) -> None:
    """Add a row with targets y (outputs,) to the sums of the ridge stacks."""
    C, average = row.clipped, row.candidates[AVERAGE]
    z = np.empty(state.b.shape[1])
    # A <- lambda A + (1 - lambda) alpha I,  b <- lambda b
    for s in range(state.discounts.size):
        discount = row_discount(s, state)
        if discount < 1.0:
            for e in range(z.size):
                state.b[s, e] *= discount
            discount_sums(state.A[s], discount, RIDGE_ALPHA)
    for o in range(y.size):
        half = 0.5 * (state.limits[HIGH, o] - state.limits[LOW, o])
        if half == 0.0:
            continue
        # z = (p - m, e) / B,  r = (y - m) / B,  b <- b + z r / count,  A <- A + z z' / count
        for e in range(len(C)):
            z[e] = (C[e, o] - average[o]) / half
        for k in range(row.lagged.shape[1]):
            z[len(C) + k] = row.lagged[o, k] / half
        r = (y[o] - average[o]) / half
        for s in range(state.discounts.size):
            for e in range(z.size):
                state.b[s, e] += z[e] * r / count
                for f in range(e + 1):
                    state.A[s, e, f] += z[e] * z[f] / count


@compiled(fastmath={"contract"})
def store_errors(y: Array, signed: bool, state: Weights, row: Row) -> None:
    """Store the errors y - m of the average, clipped for numeric targets (`stacks`)."""
    rows = state.counter[0]
    stored = state.errors[(int(rows) - 1) % len(state.errors)]
    for o in range(y.size):
        stored[o] = y[o] - row.candidates[AVERAGE, o]
    if not signed:
        clip_errors(stored, LAGGED_REACH, rows, state.squares)


@compiled(fastmath={"contract"})
def learn_row(given: Array, signed: bool, state: Weights, sums: CombinationSums, row: Row) -> None:
    """Learn the targets ``given`` (outputs,) of a row that `predict_row` has filled.

    Numeric targets are clipped around the final prediction.
    """
    state.counter[0] += 1.0
    y = given
    if not signed:
        y = np.empty(given.size)
        clip_around(given, row.final, state.counter[0], state.error_sizes, y)
    live = np.empty(y.size, dtype=np.bool_)
    note_labels(y, state.seen_labels)
    count = live_outputs(state.seen_labels, signed, live)
    beyond = np.empty(y.size)
    beyond_range(y, state.limits, beyond)
    add_losses(y, live, count, state, row)
    add_to_combination(
        y, live, count, state.limits, state.worst, beyond, row.clipped, row.candidates[AVERAGE],
        row.final, sums,
    )  # fmt: skip
    if signed:
        for s in range(state.discounts.size):
            logistic_step(
                row.clipped, row.candidates[AVERAGE], row.lagged, y, live, row_discount(s, state),
                state.A[s], state.b[s],
            )  # fmt: skip
    else:
        add_to_ridges(y, count, state, row)
        solve_stacks(state.A, state.b, state.stacked)
    store_errors(y, signed, state, row)


@compiled(unroll=False)
def mix_rows(
    P: Array, Y: Array, gaps: Array, signed: bool, state: Weights, sums: CombinationSums, row: Row,
    out: Array,
) -> None:  # fmt: skip
    """Predict then learn rows: P (n, experts, outputs), Y and ``out`` (n, outputs), gaps (n,)."""
    for t in range(len(P)):
        predict_row(P[t], signed, state, row)
        for o in range(row.final.size):
            out[t, o] = row.final[o]
        state.gap[0] = gaps[t]
        learn_row(Y[t], signed, state, sums, row)


@compiled
def mix_late_rows(
    P: Array, Y: Array, gaps: Array, predicted: int, signed: bool, state: Weights,
    sums: CombinationSums, waiting: Row, out: Array,
) -> None:  # fmt: skip
    """Predict rows; after each, learn the row whose target arrives.

    P is (n, experts, outputs), ``out`` (n, outputs), Y (arriving, outputs) and the gaps before
    these rows (arriving,). ``waiting`` has the
    rows that wait (`LateRows`), row t at t modulo their number; ``predicted`` counts rows before.
    """
    places, arrived = len(waiting.final), 0
    for t in range(len(P)):
        place = (predicted + t) % places
        row = Row(
            waiting.clipped[place], waiting.candidates[place], waiting.final[place],
            waiting.lagged[place],
        )  # fmt: skip
        predict_row(P[t], signed, state, row)
        for o in range(row.final.size):
            out[t, o] = row.final[o]
        if predicted + t + 1 < places:
            continue
        # The oldest of delay + 1 rows.
        place = (predicted + t + 1) % places
        row = Row(
            waiting.clipped[place], waiting.candidates[place], waiting.final[place],
            waiting.lagged[place],
        )  # fmt: skip
        state.gap[0] = gaps[arrived]
        learn_row(Y[arrived], signed, state, sums, row)
        arrived += 1


@compiled
def mix_recorded_rows(
    P: Array, Y: Array, gaps: Array, known: NDArray[np.bool_], signed: bool, state: Weights,
    sums: CombinationSums, recorded: Row, learns: bool,
) -> None:  # fmt: skip
    """Learn rows as ``recorded`` where ``known`` (n,); predict the others there, then learn them.

    P is (n, experts, outputs), Y (n, outputs), gaps (n,); the fields of ``recorded`` are those of
    `Row` for n rows. Without ``learns`` rows are only predicted, as ones that may come next.
    """
    for t in range(len(P)):
        row = Row(
            recorded.clipped[t], recorded.candidates[t], recorded.final[t], recorded.lagged[t]
        )
        if not known[t]:
            predict_row(P[t], signed, state, row)
        if learns:
            state.gap[0] = gaps[t]
            learn_row(Y[t], signed, state, sums, row)


@compiled(unroll=False)
def predict_rows(P: Array, signed: bool, state: Weights, row: Row, out: Array) -> None:
    """Predict rows that may come next: P (n, experts, outputs), ``out`` (n, outputs)."""
    for t in range(len(P)):
        predict_row(P[t], signed, state, row)
        for o in range(row.final.size):
            out[t, o] = row.final[o]


class LateRows(Stateful):
    """Rows of a mixture whose targets arrive ``delay`` rows late, as they were predicted.

    The fields are those of `Row`, for delay + 1 rows; row t of the stream is at t modulo delay + 1.
    """

    def __init__(self, delay: int, experts: int, stacks: int, outputs: int, lags: int) -> None:
        self._predicted = 0
        self._clipped = np.zeros((delay + 1, experts, outputs))
        self._candidates = np.zeros((delay + 1, 1 + stacks, outputs))
        self._final = np.zeros((delay + 1, outputs))
        self._lagged = np.zeros((delay + 1, outputs, lags))

    @property
    def rows(self) -> Row:
        """Arrays that rows change."""
        return Row(self._clipped, self._candidates, self._final, self._lagged)

    @property
    def predicted(self) -> int:
        """Number of rows predicted so far."""
        return self._predicted

    def count(self, rows: int) -> None:
        """Add to the number of rows predicted."""
        self._predicted += rows

    def keep(self, chosen: NDArray[np.int64]) -> None:
        """Drop the predictions of the other experts."""
        self._clipped = np.ascontiguousarray(self._clipped[:, chosen])

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self._clipped = recombined(self._clipped, matrix)
        self._candidates = recombined(self._candidates, matrix)
        self._final = recombined(self._final, matrix)
        self._lagged = recombined(self._lagged, matrix, axis=-2)

    STATE = (
        Count("predicted"),
        Numbers("clipped", ("places", "experts", "outputs")),
        Numbers("candidates", ("places", "candidates", "outputs")),
        Numbers("final", ("places", "outputs")),
        Numbers("lagged", ("places", "outputs", "lags")),
    )

    def _sizes(self) -> dict[str, int]:
        return {"places": len(self._final), "outputs": self._final.shape[1]}


class Mixture(Stateful):
    """Weights and stacks over experts; ``limits`` (2, outputs) is the first range of targets.

    With a ``delay`` targets arrive so many rows after the prediction: `learn` gets the targets that
    arrive, and weights and stacks learn from the predictions that were made at that time.
    """

    def __init__(
        self, experts: int, limits: Array, signed: bool, windows: tuple[float, ...] = WINDOWS,
        lags: tuple[int, ...] = (), delay: int = 0,
    ) -> None:  # fmt: skip
        self.signed = signed
        outputs = limits.shape[1]
        stacks = len(windows)
        self._discounts = np.array([1.0 - 1.0 / w if w else 1.0 for w in windows])
        self.limits = limits.copy()
        self._seen_labels = np.zeros((2, outputs))
        self._worst = np.zeros(outputs)  # D
        self._ledger = np.zeros(1 + experts)
        self.combination = Combination(experts, outputs)
        self._cost = np.array([np.log(experts) + np.log(1 + stacks)])
        self._counter, self._gap = np.zeros(1), np.ones(1)
        self._log_w = np.full(experts, -np.log(experts))
        self._log_v = np.full(1 + stacks, -np.log(1 + stacks))
        self._lags = np.array(lags, dtype=np.int64)
        self._error_sizes, self._squares = np.zeros((2, outputs))
        self._errors = np.zeros((LONGEST, outputs))
        terms = experts + signed + len(lags)
        self._alpha = LOGIT_ALPHA if signed else RIDGE_ALPHA
        self._A = np.tile(self._alpha * np.eye(terms), (stacks, 1, 1))
        self._b = np.zeros((stacks, terms))
        self._b[:, experts : experts + signed] = LOGIT_START
        self.losses = np.zeros(experts)
        self.late: LateRows | None = None
        self.hold_back(delay)
        self.solve()

    def hold_back(self, delay: int) -> None:
        """Let targets arrive so many rows late from now on."""
        shape = len(self._log_w), len(self._discounts), self.limits.shape[1], len(self._lags)
        self.late = LateRows(delay, *shape) if delay else None

    def release(self) -> Row:
        """Let targets arrive at once from now on; return the rows that wait, the oldest first."""
        assert self.late is not None
        last, places = self.late.predicted, len(self.late.rows.final)
        waiting = np.arange(max(0, last - places + 1), last) % places
        rows, self.late = (
            Row(*(np.ascontiguousarray(part[waiting]) for part in self.late.rows)),
            None,
        )
        return rows

    @property
    def lags(self) -> tuple[int, ...]:
        """Lags of the errors that the stacks read."""
        return tuple(int(lag) for lag in self._lags)

    def solve(self) -> None:
        """Compute the coefficients of the ridge stacks; those of logistic stacks are state."""
        self._stacked = self._b
        if not self.signed:
            self._stacked = np.empty(self._b.shape)
            solve_stacks(self._A, self._b, self._stacked)

    @property
    def _state(self) -> Weights:
        return Weights(
            self._counter, self._gap, self._discounts, self.limits, self._seen_labels, self._worst,
            self._log_w, self._log_v, self._A, self._b, self._stacked, self.losses, self._ledger,
            self._lags, self._error_sizes, self._squares, self._errors,
        )  # fmt: skip

    def learn(self, P: Array, Y: Array, gaps: Array | None = None) -> Array:
        """Predict then learn rows P (n, experts, outputs); return the predictions (n, outputs).

        Y (n, outputs) are their targets; with a delay those that arrive. ``gaps`` (n,) are the gaps
        before the rows that are learned; None: 1.
        """
        out = np.empty((len(P), Y.shape[1]))
        Y, gaps = np.ascontiguousarray(Y), np.ones(len(Y)) if gaps is None else gaps
        state, sums = self._state, self.combination.sums
        if self.late is None:
            mix_rows(P, Y, gaps, self.signed, state, sums, self.new_row(), out)
        else:
            mix_late_rows(
                P, Y, gaps, self.late.predicted, self.signed, state, sums, self.late.rows, out
            )
            self.late.count(len(P))
        return out

    def predict(self, P: Array) -> Array:
        """Predict rows P (n, experts, outputs) that may come next."""
        out = np.empty((len(P), P.shape[2]))
        predict_rows(P, self.signed, self._state, self.new_row(), out)
        return out

    def read(self, P: Array) -> Row:
        """Predict rows P that may come next; return all parts, fields of `Row` for n rows."""
        n, experts, outputs = P.shape
        rows = Row(*(np.empty((n, *shape)) for shape in self.row_shapes(experts, outputs)))
        none = np.zeros(n, dtype=np.bool_)
        self._mix_recorded(P, np.empty((n, outputs)), none, rows, None, False)
        return rows

    def learn_recorded(
        self, P: Array, Y: Array, known: NDArray[np.bool_], rows: Row, gaps: Array | None = None
    ) -> Array:
        """Learn rows with targets Y as they were predicted, ``rows``, where ``known``.

        The others are predicted from P and then learned, as `learn` does. Return the predictions.
        """
        self._mix_recorded(P, np.ascontiguousarray(Y), known, rows, gaps, True)
        return rows.final

    def _mix_recorded(
        self, P: Array, Y: Array, known: NDArray[np.bool_], rows: Row, gaps: Array | None,
        learns: bool,
    ) -> None:  # fmt: skip
        gaps, sums = np.ones(len(P)) if gaps is None else gaps, self.combination.sums
        mix_recorded_rows(P, Y, gaps, known, self.signed, self._state, sums, rows, learns)

    def row_shapes(self, experts: int, outputs: int) -> list[tuple[int, ...]]:
        """Return the shapes of the fields of a `Row` of so many experts and outputs."""
        candidates = 1 + len(self._discounts)
        return [
            (experts, outputs), (candidates, outputs), (outputs,), (outputs, len(self._lags)),
        ]  # fmt: skip

    def new_row(self) -> Row:
        """Allocate the row that `peek` fills."""
        shapes = self.row_shapes(len(self._log_w), self.limits.shape[1])
        return Row(*(np.empty(shape) for shape in shapes))

    def certificate(self) -> MixtureCertificate:
        """Return the regret against the best expert, in units of 2 D^2, and its bound."""
        rows, loss = float(self._counter[0]), float(self._ledger[FINAL])
        best = float(self._ledger[EXPERTS:].min())
        bound = float(self._cost[0] + 2.0 * np.log(rows + 1.0))
        bounded = not self.signed and len(self._worst) == 1 and 1.0 in self._discounts[:1]
        combination = self.combination.certificate(int(rows), self._A, bounded)
        return MixtureCertificate(
            int(rows), loss, best, 0.0, loss - best, bound, combination=combination
        )

    @property
    def weights(self) -> Array:
        """Exponential weights w of the experts."""
        return np.asarray(np.exp(self._log_w))

    @property
    def coefficients(self) -> Array:
        """Coefficient of each expert in the final prediction.

        Exact where nothing is clipped and, for labels, in the limit of small margins.
        """
        w, v = self.weights, np.exp(self._log_v)
        slope = 0.5 if self.signed else 1.0
        stacked = [slope * (w * (c - u.sum()) + u) for u, c in self._stack_weights()]
        return np.asarray(v[AVERAGE] * w + v[STACKS:] @ np.array(stacked).reshape(-1, len(w)))

    @property
    def errors(self) -> Array:
        """Last errors of the average as the stacks read them, oldest first."""
        rows = int(self._counter[0])
        if rows < LONGEST:
            return self._errors[:rows]
        return np.roll(self._errors, -(rows % LONGEST), axis=0)

    @property
    def stack_shares(self) -> Array:
        """Weights v of the average and of each stack in the final prediction."""
        return np.asarray(np.exp(self._log_v))

    def _stack_weights(self) -> list[tuple[Array, float]]:
        """Return (u, c) of each stack; c = 1 for numeric targets."""
        n = len(self._log_w)
        return [(u[:n], float(u[n]) if self.signed else 1.0) for u in self._stacked]

    def keep(self, chosen: list[int]) -> None:
        """Drop the other experts and reset the losses."""
        rows, old = np.array(chosen), len(self._log_w)
        weights = self.weights[rows]
        self._cost -= np.log(weights.sum())
        self._ledger = np.ascontiguousarray(self._ledger[[FINAL, *(EXPERTS + rows)]])
        self._log_w = np.log(weights / weights.sum())
        terms = np.append(rows, np.arange(old, self._b.shape[1]))
        whole, self._A = self._A, np.ascontiguousarray(self._A[:, terms][:, :, terms])
        self.combination.keep(rows, whole[:1], self._A[:1])
        self._b = np.ascontiguousarray(self._b[:, terms])
        self.losses = np.zeros(len(rows))
        if self.late is not None:
            self.late.keep(rows)
        self.solve()

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.limits = np.tile(self.limits[:, :1], (1, matrix.shape[1]))
        self._seen_labels = remapped_labels(self._seen_labels, matrix)
        self._worst = recombined(self._worst, matrix, absolute=True)
        self._error_sizes = recombined(self._error_sizes, matrix, absolute=True)
        self._squares = recombined(self._squares, matrix, absolute=True)
        self._errors = recombined(self._errors, matrix)
        self.combination.remap(matrix)
        if self.late is not None:
            self.late.remap(matrix)

    STATE = (
        Numbers("discounts", ("stacks",), fixed=True, written="replaced"),
        Numbers("seen_labels", (2, "outputs"), low=0.0, high=1.0),
        Numbers("worst", ("outputs",), low=0.0),
        Numbers("ledger", ("ledger",), low=0.0),
        Numbers("cost", (1,), low=0.0),
        Numbers("counter", (1,), low=0.0, high=2.0**53, whole="float"),
        Numbers("log_w", ("experts",), high=1e-6),
        Numbers("log_v", ("candidates",), high=1e-6),
        Numbers("A", ("stacks", "terms", "terms")),
        Numbers("b", ("stacks", "terms")),
        Numbers("limits", (2, "outputs"), "limits"),
        Numbers("losses", ("experts",), "losses", low=0.0),
        Part("combination", "combination", sizes={"places": "ledger"}),
        Numbers("lags", ("lags",), whole=True, low=1, high=LONGEST, written="replaced"),
        Numbers("error_sizes", ("outputs",), low=0.0),
        Numbers("squares", ("outputs",), low=0.0),
        Numbers("errors", (LONGEST, "outputs")),
        Part("late", "late", sizes={"experts": "experts", "lags": "lags"}),
    )

    def _sizes(self) -> dict[str, int]:
        stacks = len(self._discounts)
        return {"stacks": stacks, "candidates": 1 + stacks, "outputs": self.limits.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["ledger"] == 1 + sizes["experts"], "ledger has other experts")
        terms = sizes["experts"] + self.signed + sizes["lags"]
        require(sizes["terms"] == terms, "A has other experts")
        require((self.limits[LOW] <= self.limits[HIGH]).all(), "limits are in the wrong order")
        for name in ("log_w", "log_v"):
            total = np.exp(getattr(self, "_" + name)).sum()
            require(abs(total - 1.0) < 1e-6, f"{name} are not the logarithms of weights")
        for A in self._A:
            least = np.linalg.eigvalsh(A).min(initial=1.0)
            require(least > 0.5 * self._alpha, "A is smaller than its regulariser")

    def _update_derived(self) -> None:
        self.solve()
