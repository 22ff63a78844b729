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

from pronk.aggregate.baselines import (
    LONGEST,
    leave_out_negative,
    live_outputs,
    note_labels,
    remapped_labels,
)
from pronk.aggregate.certificate import (
    HIGH,
    LOW,
    Combination,
    CombinationSums,
    MixtureCertificate,
    add_to_combination,
    beyond_range,
    set_first_ranges,
)
from pronk.aggregate.clipping import LAGGED_REACH, clip_around, clip_errors
from pronk.aggregate.late import Ring
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
from pronk.core.state import Fixed, Numbers, Part, Sizes, Stateful, require

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


#: Shapes of the fields.
PARTS: dict[str, tuple[str | int, ...]] = {
    "clipped": ("experts", "outputs"), "candidates": ("candidates", "outputs"),
    "final": ("outputs",), "lagged": ("outputs", "lags"),
}  # fmt: skip
SIZES = "experts", "candidates", "outputs", "lags"


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
def add_losses(
    y: Array, live: NDArray[np.bool_], counted: NDArray[np.bool_], count: int, state: Weights,
    row: Row,
) -> None:  # fmt: skip
    """Update range, largest error, losses and both weights by the targets y (outputs,).

    ``live`` (outputs,) are the outputs that have varied, ``counted`` those of them whose losses are
    added up, ``count`` is the number of these.
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
        if not counted[o]:
            continue
        # loss = (prediction - y)^2 / (2 D^2), mean over live outputs
        state.ledger[FINAL] += relative_square(row.final[o] - y[o], worst) / count
        for e in range(len(C)):
            loss_w[e] += relative_square(C[e, o] - y[o], worst) / count
            error = (C[e, o] - y[o]) / half
            state.losses[e] += error * error / count
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
    counted = live.copy()
    count = leave_out_negative(signed, counted, count)
    beyond = np.empty(y.size)
    beyond_range(y, state.limits, beyond)
    add_losses(y, live, counted, count, state, row)
    set_first_ranges(live, state.limits, sums)
    add_to_combination(
        y, counted, count, state.limits, state.worst, beyond, row.clipped, row.candidates[AVERAGE],
        row.final, sums,
    )  # fmt: skip
    if signed:
        for s in range(state.discounts.size):
            logistic_step(
                row.clipped, row.candidates[AVERAGE], row.lagged, y, counted,
                row_discount(s, state), state.A[s], state.b[s],
            )  # fmt: skip
    else:
        add_to_ridges(y, count, state, row)
        solve_stacks(state.A, state.b, state.stacked)
    store_errors(y, signed, state, row)


@compiled
def row_at(place: int, rows: Row) -> Row:
    """Return one of several rows: the fields of ``rows`` have an entry per row."""
    return Row(rows.clipped[place], rows.candidates[place], rows.final[place], rows.lagged[place])


@compiled(unroll=False)
def mix_rows(
    P: Array, Y: Array, gaps: Array, known: NDArray[np.bool_], signed: bool, state: Weights,
    sums: CombinationSums, rows: Row,
) -> None:  # fmt: skip
    """Predict rows; after each, learn the row whose target arrives, if one does.

    The fields of ``rows`` have an entry per row: first those that wait, then the new ones, of which
    P (n, experts, outputs) are the experts' predictions. Where ``known`` (n,) the entry of a new
    row has what was predicted earlier. Y (m, outputs) are the targets that arrive, of the first m
    entries, and gaps (m,) the gaps before these rows: the last of them arrives after the last row.
    """
    waiting, early = len(rows.final) - len(P), len(P) - len(Y)
    for t in range(len(P)):
        if not known[t]:
            predict_row(P[t], signed, state, row_at(waiting + t, rows))
        if t >= early:
            state.gap[0] = gaps[t - early]
            learn_row(Y[t - early], signed, state, sums, row_at(t - early, rows))


class Mixture(Stateful):
    """Weights and stacks over experts; ``limits`` (2, outputs) is the first range of targets.

    Targets may arrive later than the prediction: `learn` gets the targets that arrive, and weights
    and stacks learn from the predictions that were made at that time, which wait in ``ring``.
    """

    def __init__(
        self, experts: int, limits: Array, signed: bool, windows: tuple[float, ...] = WINDOWS,
        lags: tuple[int, ...] = (),
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
        self.ring = self._new_ring()
        self.solve()

    def _new_ring(self) -> Ring:
        sizes = {
            "experts": len(self._log_w), "candidates": len(self._log_v),
            "outputs": self.limits.shape[1], "lags": len(self._lags),
        }  # fmt: skip
        return Ring(PARTS, sizes)

    def release(self) -> Row:
        """Return the rows that wait, the oldest first; none waits from now on."""
        rows, self.ring = Row(*self.ring.parts), self._new_ring()
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

    def learn(
        self, P: Array, Y: Array, gaps: Array | None = None,
        recorded: tuple[NDArray[np.bool_], Row] | None = None,
    ) -> Row:  # fmt: skip
        """Predict then learn rows P (n, experts, outputs); return all rows, those that wait first.

        Y (m, outputs) are the targets that arrive, of the first rows returned; ``gaps`` (m,) are
        the gaps before these rows; None: 1. ``recorded``: which of the n rows (n,) were predicted
        earlier, and what was predicted, the fields of `Row` for n rows.
        """
        parts = self.ring.extend(len(P))
        rows, known = Row(*parts), np.zeros(len(P), dtype=np.bool_)
        if recorded is not None:
            known, made = recorded
            for part, values in zip(parts, made, strict=True):
                part[len(part) - len(P) :] = values
        gaps = np.ones(len(Y)) if gaps is None else gaps
        Y = np.ascontiguousarray(Y)
        mix_rows(P, Y, gaps, known, self.signed, self._state, self.combination.sums, rows)
        self.ring.drop(len(Y))
        return rows

    def predict(self, P: Array) -> Row:
        """Predict rows P (n, experts, outputs) that may come next; return the fields of `Row`."""
        rows = Row(*(np.empty((len(P), *shape)) for shape in self.row_shapes(*P.shape[1:])))
        none = np.zeros(len(P), dtype=np.bool_)
        sums, no_targets = self.combination.sums, np.empty((0, P.shape[2]))
        mix_rows(P, no_targets, np.empty(0), none, self.signed, self._state, sums, rows)
        return rows

    def row_shapes(self, experts: int, outputs: int) -> list[tuple[int, ...]]:
        """Return the shapes of the fields of a `Row` of these numbers of experts and outputs."""
        candidates = 1 + len(self._discounts)
        return [
            (experts, outputs), (candidates, outputs), (outputs,), (outputs, len(self._lags)),
        ]  # fmt: skip

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
        clipped, *others = self.ring.parts
        self.ring.replace(np.ascontiguousarray(clipped[:, rows]), *others)
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
        *parts, lagged = self.ring.parts
        mapped = [recombined(part, matrix) for part in parts]
        self.ring.replace(*mapped, recombined(lagged, matrix, axis=-2))

    STATE = (
        Fixed("discounts", shape=("stacks",)),
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
        Part("ring", "ring", sizes={name: name for name in SIZES}),
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
