"""Calibration: the scale of the next error, quantiles and intervals, class probabilities.

**Error scale** (`ErrorScale`): the size of the next error as a function of the row. Errors e of y
as given, not as clipped for learning, are learned on the logarithmic scale. With v the recent mean
of e^2, in which e^2 counts as at most 10^4 v, and c = log of e^2 clipped to [v / 10^4, 10^4 v],

    level        l <- l + (c - l) / 200   (slow),   k <- k + (c - k) / 20   (quick)
                 (faster in the first rows);  l <- k where |k - l| > 1.5  (all errors have changed)
    shape        g = an AWV forecaster of c - l on features (1, p, p^2; kernel features of x)
    error scale  s = exp((l + clip(g, -4, 4)) / 2)

p is the prediction itself, so that errors that grow with the prediction are recognised at once; the
kernel features are those of the first points at the typical bandwidth. 1.5 is four standard
deviations of k - l on a stationary stream, so the level is stable there and follows a change of all
errors within about twenty rows. The shape is discounted with a window of 2000 rows. A constant
factor in s has no effect on the quantiles.

**Quantiles and intervals** (`Quantiles`): adaptive conformal inference, in the form of quantile
tracking. Errors are measured in error scales, r = (y - p) / s. The quantile of y at a level tau is
p + s q, and the interval of coverage c lies between those at (1 - c) / 2 and (1 + c) / 2. A
prediction lies in one of five groups g, between the quintiles of the last 1000 predictions, which
are computed every 64 rows:

    q_tau = max(a_tau' + b_g,tau' for all tau' from 1/2 to tau),   a minimum for tau < 1/2
    u = 1{r > q_high},   l = 1{r < q_low}          (the ends of the interval of coverage c)
    d = rate * (size of recent r) * (3/10 (u - l) +- (u + l - (1 - c)))     (+ for q_high, - q_low)
    a_tau <- a_tau + d,   b_g,tau <- b_g,tau + 3/2 d

Both ends of an interval move together, to the outside after a miss on either side, and with a
third of that speed both move to the side of the miss. Over any T rows, and over the rows of each
group, the share of misses is then 1 - c up to O(1 / (rate T)), for any stream, and those above and
below are equal up to three times as much. The maximum nests the intervals of all coverages. It
changes no long-run share: while an end has the value of one further inside, both have the same
misses, and a_tau moves away from a_tau' until it lies outside again.

With a delay (`late`) a miss is that of the quantiles that the prediction had, and the size is
replaced by half their distance in units of a normal error's, between a tenth of the size and the
size.

The size of recent r is the larger of the root mean squares over windows of 1000 and 20 rows: after
a change, steps are as large as current errors. An r counts there as at most five times the size
before it, so one outlier makes the steps half as large again for about twenty rows, and a change by
a factor of 1000 is followed within eighteen. Until eight targets have arrived the ends lie at the
largest error so far on both sides, and are NaN before the first error. The first prediction is made
before any target is known; its error is not counted.

**Probabilities** (`Temperature`): two slopes that follow the labels. A margin m on targets +-1
estimates 2 P(+1) - 1, so p = (1 + m) / 2 is a first estimate of the class's probability. Over the
classes seen so far,

    P_k  =  exp(z_k) / sum_j exp(z_j),     z_k = a log p_k + b m_k

Temperature scaling is a alone: it relies on the odds of rare classes, which squared loss estimates
badly; b uses the margins themselves. (a, b) follow the log loss by online Newton steps with a
window of 500 rows: with F_k = (log p_k, m_k), mean and covariance under P,

    H <- (1 - 1/500) H + I / 500 + Cov F,      (a, b) <- (a, b) + H^-1 (F_y - E F)

starting at (1, 0) and I. Constraints a >= 0.01 and b >= -c a, c = 0.9 s / (1 + s), s = 0.99, keep z
increasing in the margin, so the most probable class is the predicted one. A step that leaves this
set is projected in the norm of H: log p and m are nearly collinear, so a correction of one slope
must be balanced by the other. Two classes have the margins -m and m.

References: Gibbs, Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021;
Angelopoulos, Candes, Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023;
Gibbs, Cherian, Candes, "Conformal prediction with conditional guarantees", 2023 (groups).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import (
    NEGATIVE,
    POSITIVE,
    live_outputs,
    note_labels,
    remapped_labels,
)
from pronk.aggregate.settings import Group, View
from pronk.core.compiling import compiled
from pronk.core.selection import nth_smallest
from pronk.core.state import Numbers, Part, Sizes, Stateful, require
from pronk.newton.forecaster import Forecasters

Array = NDArray[np.float64]

# -- quantiles and intervals ------------------------------------------------------------------

_LOW = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
#: Levels that are tracked, symmetric around 1/2; others are interpolated.
LEVELS = np.array([*_LOW, 0.5, *(round(1.0 - level, 3) for level in _LOW[::-1])])
MIDDLE = len(_LOW)
#: Quantiles of z exp(-E log z^2 / 2) at the levels, z normal (E log z^2 = -1.27).
_NORMAL = (5.831, 4.861, 4.39, 3.698, 3.104, 2.418, 1.956, 1.588, 1.273, 0.99, 0.478)
NORMAL = np.array([*(-value for value in _NORMAL), 0.0, *_NORMAL[::-1]])
#: Windows of the size of recent errors, in rows; the larger size is used.
ERROR_WINDOWS = (1000.0, 20.0)
#: An error counts as at most this many times the size of recent errors before it.
REACH = 5.0
#: Step of the ends of an interval, as a share of the size of recent errors; its rate over the root
#: of the number of the first rows; and the part of a step that moves both ends to one side.
RATE, FIRST_RATE, SIDE = 0.03, 0.5, 0.3
#: Steps of the quantiles of a quintile, relative to those of all rows.
QUINTILE_STEP = 1.5
#: Quintiles of predictions, last predictions whose quantiles are their edges, and rows between two
#: computations of the edges (every row until then).
QUINTILES, RECENT, EDGE_ROWS = 5, 1000, 64
#: Targets that have arrived when errors begin to be measured in error scales.
FIRST_ROWS = 8
#: Edges are predictions; equal ones up to rounding lie below the edge, for any cut into blocks.
TIE = 1e-9


#: Second index of the sums ``squares`` (windows, 2, outputs).
SQUARES, ONES = 0, 1


class QuantileState(NamedTuple):
    """Arrays that rows change.

    counter   (1,) targets that have arrived
    squares   (windows, 2, outputs) discounted sums of r^2 (SQUARES) and of ones (ONES)
    offsets   (levels, outputs) a_tau
    quintiles (QUINTILES, levels, outputs) b_g,tau
    edges     (QUINTILES - 1, outputs) edges between the quintiles
    recent    (RECENT, outputs) the last predictions, row t at t modulo RECENT
    """

    counter: Array
    squares: Array
    offsets: Array
    quintiles: Array
    edges: Array
    recent: Array


@compiled
def quintile_of(p: float, edges: Array) -> int:
    """Return the quintile of a prediction: the number of edges (QUINTILES - 1,) below it."""
    quintile = 0
    for k in range(edges.size):
        quintile += p > edges[k]
    return quintile


@compiled
def track_prediction(p: float, row: int, edges: Array, recent: Array) -> None:
    """Store the prediction of one output and row 0, 1, ..; recompute the edges when due.

    ``edges`` is (QUINTILES - 1,), ``recent`` (RECENT,).
    """
    recent[row % RECENT] = p
    rows = row + 1
    if rows > EDGE_ROWS and rows % EDGE_ROWS:
        return
    held = min(rows, RECENT)
    values = recent[:held].copy()
    for k in range(edges.size):
        edge = nth_smallest(values, (k + 1) * held // QUINTILES)
        edges[k] = edge + TIE * abs(edge)


@compiled(fastmath={"contract"})
def recent_size(squares: Array) -> float:
    """Return the larger root mean square of one output from its sums (windows, 2); 0 at first."""
    size = 0.0
    for w in range(len(squares)):
        if squares[w, ONES] > 0.0:
            size = max(size, np.sqrt(squares[w, SQUARES] / squares[w, ONES]))
    return size


#: Largest r: sums of squares stay finite after constant targets.
LARGEST_ERROR = 1e100
#: In place of the quantiles of a prediction that had none in error scales.
UNKNOWN = -1e300
#: Of late errors: largest rate of the first rows, times the delay; smallest unit of a step, as a
#: share of the size of recent errors.
LATE_RATE, SMALLEST_UNIT = 2.0, 0.1


@compiled(fastmath={"contract"})
def quantiles_at(p: Array, state: QuantileState, used: Array) -> None:
    """Write the quantiles of the error at a prediction p (outputs,), in error scales, to ``used``.

    ``used`` is (levels, outputs).
    """
    middle, count = len(used) // 2, len(used)
    for o in range(p.size):
        # q_tau = max(a_tau' + b_g,tau' for tau' from 1/2 to tau), a minimum below 1/2
        own = state.quintiles[quintile_of(p[o], state.edges[:, o])]
        high = low = state.offsets[middle, o] + own[middle, o]
        used[middle, o] = high
        for k in range(middle + 1, count):
            high = max(high, state.offsets[k, o] + own[k, o])
            low = min(low, state.offsets[count - 1 - k, o] + own[count - 1 - k, o])
            used[k, o] = high
            used[count - 1 - k, o] = low


@compiled(fastmath={"contract"})
def track_error(
    r: Array, p: Array, shown: Array, delay: int, levels: Array, state: QuantileState
) -> None:
    """Track the error r (outputs,), in error scales, of a prediction p (outputs,).

    ``shown`` (levels, outputs) are the quantiles that the prediction had, in error scales. A step
    shows in the errors ``delay`` rows later: the first steps are then shorter, or quantiles would
    overshoot, and all are relative to the half-width, or the misses of a burst, in which errors are
    large, would count more than the rows between bursts.
    """
    rows = state.counter[0] - delay - FIRST_ROWS  # this one included
    fastest = LATE_RATE / delay if delay else 1.0
    rate = max(RATE, min(FIRST_RATE / np.sqrt(rows + 1.0), fastest))
    middle, count = len(levels) // 2, len(levels)
    for o in range(r.size):
        error = min(max(r[o], -LARGEST_ERROR), LARGEST_ERROR)
        # |r| <= 5 size;  squares <- (1 - 1/w) squares + r^2,  ones <- (1 - 1/w) ones + 1
        bound = REACH * recent_size(state.squares[:, :, o])
        counted = min(abs(error), bound) if bound > 0.0 else error
        for w in range(len(ERROR_WINDOWS)):
            keep = 1.0 - 1.0 / ERROR_WINDOWS[w]
            sums = state.squares[w, :, o]
            sums[SQUARES] = keep * sums[SQUARES] + counted * counted
            sums[ONES] = keep * sums[ONES] + 1.0
        size = recent_size(state.squares[:, :, o])
        own = state.quintiles[quintile_of(p[o], state.edges[:, o])]
        for k in range(middle, count):
            # u = 1{r > q_high},  l = 1{r < q_low}
            # d = rate * unit * (+-(u + l - (1 - c)) + 3/10 (u - l)),  a <- a + d,  b <- b + 3/2 d
            mirror = count - 1 - k
            above = 1.0 if error > shown[k, o] else 0.0
            below = 1.0 if error < shown[mirror, o] else 0.0
            unit = size
            if delay and k > middle:
                half = 0.5 * (shown[k, o] - shown[mirror, o])
                unit = min(max(half / NORMAL[k], SMALLEST_UNIT * size), size)
            wider, side = above + below - 2.0 * (1.0 - levels[k]), SIDE * (above - below)
            if k == middle:
                wider = 0.0
            else:
                step = rate * unit * (side - wider)
                state.offsets[mirror, o] += step
                own[mirror, o] += QUINTILE_STEP * step
            step = rate * unit * (side + wider)
            state.offsets[k, o] += step
            own[k, o] += QUINTILE_STEP * step
        track_prediction(p[o], int(rows) - 1, state.edges[:, o], state.recent[:, o])


@compiled
def largest_errors(levels: Array, state: QuantileState, out: Array) -> None:
    """Write the largest error so far, on both sides of 0, to ``out`` (levels, outputs).

    NaN before any error.
    """
    for k in range(len(levels)):
        for o in range(out.shape[1]):
            known = state.squares[0, ONES, o] > 0.0
            out[k, o] = np.sign(levels[k] - 0.5) * state.offsets[-1, o] if known else np.nan


@compiled
def count_error(r: Array, state: QuantileState) -> None:
    """Count one of the first errors r (outputs,)."""
    for o in range(r.size):
        state.squares[0, ONES, o] += 1.0
        state.offsets[-1, o] = max(state.offsets[-1, o], abs(r[o]))


@compiled
def start_tracking(state: QuantileState) -> None:
    """Start with the quantiles of a normal error whose mean log square is 0."""
    state.squares[:] = 0.0
    for k in range(len(state.offsets)):
        state.offsets[k] = NORMAL[k]


@compiled(unroll=False)
def track_rows(
    P: Array, scales: Array, Y: Array, shown: Array, delay: int, levels: Array,
    state: QuantileState, out: Array,
) -> None:  # fmt: skip
    """Predict rows; after each, track the error of the row whose targets arrive, if one does.

    P are predictions, ``scales`` their error scales and Y targets, all (rows, outputs), first of
    the rows that wait: the last n are new. The offsets of these go to ``out`` (n, levels, outputs)
    and, in error scales, to ``shown`` (rows, levels, outputs), or UNKNOWN before they are tracked.
    """
    waiting, r, now = len(P) - len(out), np.empty(P.shape[1]), np.empty(out.shape[1:])
    for t in range(len(out)):
        new = waiting + t
        if state.counter[0] >= delay + FIRST_ROWS:
            quantiles_at(P[new], state, shown[new])
            for k in range(len(levels)):
                for o in range(r.size):
                    out[t, k, o] = shown[new, k, o] * scales[new, o]
        else:
            shown[new] = UNKNOWN
            largest_errors(levels, state, out[t])
        i = new - delay
        if i < 0:
            continue
        state.counter[0] += 1.0
        for o in range(r.size):
            r[o] = (Y[i, o] - P[i, o]) / scales[i, o]
        if state.counter[0] > delay + FIRST_ROWS:
            own = shown[i]
            if own[0, 0] == UNKNOWN:
                quantiles_at(P[i], state, now)
                own = now
            track_error(r, P[i], own, delay, levels, state)
        elif state.counter[0] > delay + 1:  # the row was predicted after a target was known
            count_error(r, state)
        if state.counter[0] == delay + FIRST_ROWS:
            start_tracking(state)


class Quantiles(Stateful):
    """Quantiles of the error per level, output and quintile of the predictions, in error scales.

    Targets arrive ``delay`` rows late. What the methods return are offsets: quantiles of y minus
    the prediction.
    """

    def __init__(self, outputs: int, delay: int = 0) -> None:
        self._delay = delay
        self._counter = np.zeros(1)
        self._squares = np.zeros((len(ERROR_WINDOWS), 2, outputs))
        self._offsets = np.zeros((len(LEVELS), outputs))
        self._quintiles = np.zeros((QUINTILES, len(LEVELS), outputs))
        self._edges = np.zeros((QUINTILES - 1, outputs))
        self._recent = np.zeros((RECENT, outputs))

    def learn(
        self, P: Array, scales: Array, Y: Array, shown: Array | None = None, new: int | None = None
    ) -> Array:
        """Predict then learn the last ``new`` rows, by default all; return their offsets.

        P, ``scales`` and targets Y as given are (rows, outputs), the offsets (new, levels,
        outputs). Rows before the new ones wait for their targets, and ``shown`` (rows, levels,
        outputs) has what `track_rows` wrote for them.
        """
        shape = self._offsets.shape
        shown = np.empty((len(P), *shape)) if shown is None else shown
        out = np.empty((len(P) if new is None else new, *shape))
        rows = [np.ascontiguousarray(part) for part in (P, scales, Y)]
        track_rows(*rows, shown, self._delay, LEVELS, self._state, out)
        return out

    @property
    def _state(self) -> QuantileState:
        return QuantileState(
            self._counter, self._squares, self._offsets, self._quintiles, self._edges, self._recent
        )

    @property
    def tracked(self) -> bool:
        """Whether errors are tracked, in error scales."""
        return bool(self._counter[0] >= self._delay + FIRST_ROWS)

    def current(self, P: Array, scales: Array) -> Array:
        """Return current offsets (n, levels, outputs) at predictions P (n, outputs)."""
        out = np.empty((len(P), *self._offsets.shape))
        if not self.tracked:
            largest_errors(LEVELS, self._state, first := np.empty(self._offsets.shape))
            out[:] = first
            return out
        for o in range(P.shape[1]):
            quintiles = np.searchsorted(self._edges[:, o], P[:, o])
            own = self._offsets[:, o] + self._quintiles[quintiles, :, o]
            out[:, MIDDLE:, o] = np.maximum.accumulate(own[:, MIDDLE:], axis=1)
            out[:, MIDDLE::-1, o] = np.minimum.accumulate(own[:, MIDDLE::-1], axis=1)
        return np.asarray(out * scales[:, None])

    @property
    def deviation(self) -> Array:
        """Root mean square of recent errors, in error scales, per output."""
        if not self.tracked:
            return np.where(self._squares[0, ONES] > 0.0, self._offsets[-1], np.nan)
        sums, counts = self._squares[0, SQUARES], self._squares[0, ONES]
        return np.asarray(np.sqrt(sums / np.maximum(counts, 1.0)))

    STATE = (
        Numbers("counter", (1,), low=0.0, high=2.0**53, whole="float"),
        Numbers("squares", (len(ERROR_WINDOWS), 2, "outputs"), low=0.0),
        Numbers("offsets", (len(LEVELS), "outputs")),
        Numbers("quintiles", (QUINTILES, len(LEVELS), "outputs")),
        Numbers("edges", (QUINTILES - 1, "outputs")),
        Numbers("recent", (RECENT, "outputs")),
    )

    def _restored(self, sizes: Sizes) -> None:
        require((np.diff(self._edges, axis=0) >= 0.0).all(), "edges are not in order")


def check_coverage(coverage: float) -> None:
    """Raise if a coverage is not between those that are tracked."""
    largest = LEVELS[-1] - LEVELS[0]
    if not 0.0 < coverage <= largest:
        raise ValueError(f"coverage must lie in (0, {largest:g}], got {coverage!r}")


def ends_of(coverage: float) -> Array:
    """Return the levels of both ends of an interval; raise for a coverage that is not tracked."""
    check_coverage(coverage)
    return np.round([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage], 12)


def check_levels(quantiles: Any) -> Array:
    """Return levels (q,) as an array; raise if one is not between those that are tracked."""
    try:
        levels = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
    except (TypeError, ValueError):
        levels = np.empty(0)
    low, high = LEVELS[0], LEVELS[-1]
    if levels.ndim != 1 or not len(levels):
        raise ValueError(f"quantiles must be levels such as (0.1, 0.5, 0.9), got {quantiles!r}")
    outside = levels[~((levels >= low) & (levels <= high))]
    if len(outside):
        raise ValueError(f"quantiles must lie in [{low:g}, {high:g}], got {outside[0]:g}")
    return levels


def requested_levels(interval: float | None, quantiles: Any) -> Array | None:
    """Return the levels of an interval or of quantiles, None for neither; raise for both."""
    if interval is not None and quantiles is not None:
        raise ValueError(
            "interval and quantiles are alternatives: the interval 0.9 is quantiles=(0.05, 0.95)"
        )
    if interval is not None:
        return ends_of(interval)
    return None if quantiles is None else check_levels(quantiles)


def around(P: Array, offsets: Array, levels: Array) -> Array:
    """Return quantiles (n, outputs, q) of y at levels (q,), interpolated between those tracked.

    P (n, outputs) are predictions and ``offsets`` (n, LEVELS, outputs) those of `Quantiles`.
    """
    place = np.clip(np.searchsorted(LEVELS, levels), 1, len(LEVELS) - 1)
    share = (levels - LEVELS[place - 1]) / (LEVELS[place] - LEVELS[place - 1])
    offsets = np.moveaxis(offsets, 1, 2)
    low, high = offsets[..., place - 1], offsets[..., place]
    # Monotone in the level also after rounding, and exact at the levels that are tracked.
    between = np.minimum(low + share * (high - low), high)
    return np.asarray(P[..., None] + np.where(share == 1.0, high, between))


# -- error scale ------------------------------------------------------------------------------

#: Points whose kernel features are read, and their bandwidth in typical distances.
POINTS, FACTOR = 50, 1.0
#: Regularisation in rows: log e^2 has a variance of about 5 around its mean.
ALPHA = 5.0
#: Windows of the shape, the level and the quick level, in rows.
WINDOW, LEVEL_WINDOW, QUICK_WINDOW = 2000, 200.0, 20.0
#: The level is set to the quick one where they differ by more.
JUMP = 1.5
#: Squared errors are clipped to [v / SQUARE_REACH, SQUARE_REACH v], v their mean.
SQUARE_REACH = 1e4
#: Limit of the shape: a factor of e^2 in the error scale to either side.
STEEPEST = 4.0
#: With more outputs than this the shape does not read the predictions.
READ_OUTPUTS = 3
#: Rows of ``running`` (4, outputs): row count (in column 0), mean square v, level l, quick level k.
ROWS, MEAN_SQUARE, LEVEL, QUICK = range(4)


@compiled
def log_squares(E: Array, running: Array, levels: Array, out: Array) -> None:
    """Update ``running`` (4, outputs) by errors E (n, outputs).

    The level before each row goes to ``levels`` (n, outputs), and c - level to ``out``.
    """
    for t in range(E.shape[0]):
        running[ROWS, 0] += 1.0
        for o in range(E.shape[1]):
            square = E[t, o] * E[t, o]
            if running[ROWS, 0] == 1.0:
                running[MEAN_SQUARE, o] = square
                running[LEVEL, o] = running[QUICK, o] = np.log(max(square, 1e-300))
            # e^2 <- min(e^2, 10^4 v),  v <- v + (e^2 - v) / min(t, 200)
            rate = 1.0 / min(running[ROWS, 0], LEVEL_WINDOW)
            if running[MEAN_SQUARE, o] > 0.0:
                square = min(square, SQUARE_REACH * running[MEAN_SQUARE, o])
            running[MEAN_SQUARE, o] += rate * (square - running[MEAN_SQUARE, o])
            # c = log max(e^2, v / 10^4),  l <- l + (c - l) / min(t, 200),
            # k <- k + (c - k) / min(t, 20)
            levels[t, o] = running[LEVEL, o]
            c = np.log(max(square, running[MEAN_SQUARE, o] / SQUARE_REACH, 1e-300))
            out[t, o] = c - running[LEVEL, o]
            running[LEVEL, o] += rate * out[t, o]
            running[QUICK, o] += (c - running[QUICK, o]) / min(running[ROWS, 0], QUICK_WINDOW)
            # l <- k where |k - l| > 1.5
            if abs(running[QUICK, o] - running[LEVEL, o]) > JUMP:
                running[LEVEL, o] = running[QUICK, o]


class ErrorScale(Stateful):
    """Scale of each output's error as a function of the row and its prediction."""

    def __init__(self, view: View, outputs: int, budget: int) -> None:
        self.group = Group(view, FACTOR)
        self.group.limit = min(budget, POINTS)
        self._read = outputs if outputs <= READ_OUTPUTS else 0
        self._shape = Forecasters([ALPHA], [WINDOW], [0], outputs, size=1 + 2 * self._read)
        self._running = np.zeros((4, outputs))

    def grow(self) -> None:
        """Extend the shape to all kernel features of the span."""
        self._shape.resize([self._size])

    @property
    def _size(self) -> int:
        """Number of features of the shape."""
        return 1 + 2 * self._read + self.group.nystrom.size

    def learn(
        self, Phi: Array, P: Array, Y: Array, later_Phi: Array | None = None,
        later_P: Array | None = None,
    ) -> Array:  # fmt: skip
        """Predict the error scale of each row, then learn its error; return (n, outputs).

        Phi (m, r or more) are kernel features, P predictions and Y targets as given, both
        (m, outputs).
        With later rows (n) those are predicted: the last m of them just before an error is learned.
        """
        before, started = self._running[LEVEL].copy(), self._running[ROWS, 0] > 0.0
        levels, targets = np.empty(Y.shape), np.empty(Y.shape)
        log_squares(Y - P, self._running, levels, targets)
        later = None
        if later_Phi is not None and later_P is not None:
            if not started:
                levels[:1] = before  # the first level of `log_squares` is of its own row
            levels = np.vstack((np.tile(before, (len(later_P) - len(P), 1)), levels))
            later = self._features(later_Phi, later_P)
        shape = self._shape.learn(self._features(Phi, P), targets, later=later)
        return _error_scale(levels, shape[:, 0])

    def predict(self, Phi: Array, P: Array) -> Array:
        """Predict the error scales (n, outputs) of rows that may come next."""
        shape = self._shape.predict(self._features(Phi, P))
        return _error_scale(self._running[LEVEL], shape[:, 0])

    def _features(self, Phi: Array, P: Array) -> Array:
        read, own = P[:, : self._read], Phi[:, : self.group.nystrom.size]
        return np.hstack((np.ones((len(P), 1)), read, np.minimum(read * read, 9.0), own))[None]

    STATE = (
        Part("shape"),
        Numbers("running", (4, "outputs")),
        # The span is not saved: it is computed from the points (`Experts.extend_spans`).
        Part("group", "group", saved=False),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._running.shape[1]}

    def require_size(self) -> None:
        """Raise if a restored shape does not have the size of the span."""
        fits = self._shape.sizes == [self._size]
        require(fits, "error_scale/shape has another size than the points give")


def _error_scale(level: Array, shape: Array) -> Array:
    shape = np.minimum(np.maximum(shape, -STEEPEST), STEEPEST)
    return np.asarray(np.exp(0.5 * (level + shape)))


# -- probabilities ----------------------------------------------------------------------------

#: Margins, which lie in [-1, 1], are multiplied by this, so that no probability is 0.
SUREST = 0.99
#: Window of the slopes, in rows.
SLOPE_WINDOW = 500.0
SMALLEST_SLOPE, LARGEST_SLOPE = 0.01, 50.0
#: The slope b is at least -a times this.
STEEPEST_SLOPE = 0.9 * SUREST / (1.0 + SUREST)


@compiled(fastmath={"contract"})
def project_slopes(slopes: Array, H: Array) -> None:
    """Project slopes (a, b) in the norm of H (2, 2) on a >= SMALLEST_SLOPE, b >= -STEEPEST_SLOPE a.

    Both are capped at LARGEST_SLOPE before and after: capping a alone could leave b too small.
    """
    a, b = min(slopes[0], LARGEST_SLOPE), min(slopes[1], LARGEST_SLOPE)
    if a < SMALLEST_SLOPE or b < -STEEPEST_SLOPE * a:
        # The nearest point on each of the two edges, restricted to the allowed half-line.
        upper = max(b + H[0, 1] / H[1, 1] * (a - SMALLEST_SLOPE), -STEEPEST_SLOPE * SMALLEST_SLOPE)
        along = H[0, 0] - 2.0 * STEEPEST_SLOPE * H[0, 1] + STEEPEST_SLOPE * STEEPEST_SLOPE * H[1, 1]
        lower = (H[0, 0] - STEEPEST_SLOPE * H[0, 1]) * a + (H[0, 1] - STEEPEST_SLOPE * H[1, 1]) * b
        lower = max(lower / along, SMALLEST_SLOPE)
        # squared distances to both in the norm of H; the nearer one is taken
        u, v = SMALLEST_SLOPE - a, upper - b
        x, y = lower - a, -STEEPEST_SLOPE * lower - b
        far = H[0, 0] * u * u + 2.0 * H[0, 1] * u * v + H[1, 1] * v * v
        near = H[0, 0] * x * x + 2.0 * H[0, 1] * x * y + H[1, 1] * y * y
        if near < far:
            a, b = lower, -STEEPEST_SLOPE * lower
        else:
            a, b = SMALLEST_SLOPE, upper
    slopes[0] = min(a, LARGEST_SLOPE)
    slopes[1] = max(b, -STEEPEST_SLOPE * slopes[0])


@compiled(fastmath={"contract"})
def newton_step(M: Array, label: int, slopes: Array, H: Array) -> None:
    """Learn a row: margins M (classes,), class ``label``; slopes (a, b) and H (2, 2) change."""
    classes = M.size
    # z = a log p + b m,  P = softmax(z)
    logs, P, largest, total = np.empty(classes), np.empty(classes), -np.inf, 0.0
    for k in range(classes):
        logs[k] = np.log(0.5 * (1.0 + SUREST * M[k]))
        P[k] = slopes[0] * logs[k] + slopes[1] * M[k]
        largest = max(largest, P[k])
    for k in range(classes):
        P[k] = np.exp(P[k] - largest)
        total += P[k]
    # E F, F = (log p, m)
    mean_log, mean = 0.0, 0.0
    for k in range(classes):
        P[k] /= total
        mean_log += P[k] * logs[k]
        mean += P[k] * M[k]
    # H <- (1 - 1/500) H + I / 500 + Cov F
    keep, uu, uv, vv = 1.0 - 1.0 / SLOPE_WINDOW, 0.0, 0.0, 0.0
    for k in range(classes):
        u, v = logs[k] - mean_log, M[k] - mean
        uu += P[k] * u * u
        uv += P[k] * u * v
        vv += P[k] * v * v
    H[0, 0] = keep * H[0, 0] + (1.0 - keep) + uu
    H[1, 1] = keep * H[1, 1] + (1.0 - keep) + vv
    H[0, 1] = H[1, 0] = keep * H[0, 1] + uv
    # (a, b) <- (a, b) + H^-1 (F_y - E F)
    u, v = logs[label] - mean_log, M[label] - mean
    determinant = H[0, 0] * H[1, 1] - H[0, 1] * H[1, 0]
    slopes[0] += (H[1, 1] * u - H[0, 1] * v) / determinant
    slopes[1] += (H[0, 0] * v - H[1, 0] * u) / determinant
    project_slopes(slopes, H)


@compiled
def track_margins(
    P: Array, Y: Array, seen_labels: Array, slopes: Array, H: Array, used: Array
) -> None:
    """Learn rows of margins P and labels Y = +-1, both (n, outputs).

    Each row uses the classes seen so far, its own included. The slopes before each row go to
    ``used`` (n, 2).
    """
    outputs = P.shape[1]
    live = np.empty(outputs, dtype=np.bool_)
    M = np.empty(max(outputs, 2))
    for t in range(len(P)):
        used[t, 0], used[t, 1] = slopes[0], slopes[1]
        note_labels(Y[t], seen_labels)
        live_outputs(seen_labels, True, live)
        count, label, last = 0, 0, 0
        for o in range(outputs):
            if live[o]:
                M[count] = P[t, o]
                label = count if Y[t, o] > 0.0 else label
                count, last = count + 1, o
        if count == 1:  # two classes: the output of one of them
            M[1], M[0] = P[t, last], -P[t, last]
            label = 1 if Y[t, last] > 0.0 else 0
            count = 2
        newton_step(M[:count], label, slopes, H)


class Temperature(Stateful):
    """Slopes (a, b) of the class probabilities."""

    def __init__(self, outputs: int) -> None:
        self._seen_labels = np.zeros((2, outputs))
        self._slopes = np.array([1.0, 0.0])
        self._H = np.eye(2)

    def learn(self, P: Array, Y: Array) -> Array:
        """Learn labels Y at margins P, both (n, outputs); return the slopes before each row."""
        used = np.empty((len(P), 2))
        track_margins(P, np.ascontiguousarray(Y), self._seen_labels, self._slopes, self._H, used)
        return used

    @property
    def live(self) -> NDArray[np.bool_]:
        """Which outputs have been both -1 and 1, (outputs,)."""
        return np.asarray((self._seen_labels > 0.0).all(axis=0))

    def known_classes(self, ones: int, classes: int) -> NDArray[np.bool_]:
        """Return which of the classes were learned; ``ones`` outputs come before theirs."""
        seen = self._seen_labels > 0.0
        if classes == 1:
            return np.array([seen.any()])
        own = seen[:, ones:]
        return own[[NEGATIVE, POSITIVE], 0] if classes == 2 else own[POSITIVE]

    @property
    def slopes(self) -> Array:
        """The current slopes (a, b)."""
        return self._slopes.copy()

    def shares(self, margins: Array, slopes: Array | None = None) -> Array:
        """Return class probabilities, not normalised, from margins (n, classes).

        One column is the margin of the second of two classes; its probability is returned.
        ``slopes`` (n, 2) are those of each row, or None for the current ones.
        """
        a, b = self._slopes if slopes is None else slopes.T[:, :, None]
        single = margins.shape[1] == 1
        M = np.hstack((-margins, margins)) if single else margins
        Z = a * np.log(0.5 * (1.0 + SUREST * M)) + b * M
        P = np.exp(Z - Z.max(axis=1, keepdims=True))
        return np.asarray(P[:, 1:] / P.sum(axis=1, keepdims=True)) if single else P

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Seen labels, slopes and H, which `probabilities` learns with other candidates."""
        return self._seen_labels, self._slopes, self._H

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self._seen_labels = remapped_labels(self._seen_labels, matrix)

    STATE = (
        Numbers("seen_labels", (2, "outputs"), low=0.0, high=1.0),
        Numbers("slopes", (2,), low=-LARGEST_SLOPE, high=LARGEST_SLOPE),
        Numbers("H", (2, 2), structure="definite"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._seen_labels.shape[1]}
