"""Intervals around predictions, learned from the errors of the predictions before.

Errors of y as it is given, not as it is learned (`guard`), are measured in spreads,
r = |y - p| / s, s the size that `scales` expects of the row's error. For each coverage c the
half-width is h s, and h follows the errors (adaptive conformal inference, in the form of quantile
tracking). Predictions fall into five levels g, between the quintiles of the last 1000 predictions,
taken every 64 rows:

    h_c = max(0, a_c' + b_gc' for all c' <= c)
    a_c <- a_c + d,   b_gc <- b_gc + 3/2 d,   d = rate * (size of recent r) * (1{r > h_c} - (1 - c))

so over any stretch of T rows, and over the rows of each level, the share of misses is 1 - c up to
O(1 / (rate T)), whatever the stream does. The maximum makes the intervals of all coverages nested.
It changes no long-run share: while c has the half-width of a smaller c', both have the same misses,
and a_c gains rate * size * (c - c') on a_c' with every row until it is the larger again.

The size of recent r is the larger of the root mean squares over windows of 1000 and 20 rows: after
a change steps are as large as the errors are now. An r counts there as at most five times the size
before it, so one glitch makes the steps half as large again for some twenty rows, and a change by a
factor of 1000 is followed within eighteen. Before the first stage the half-width is the largest
error so far; while there was none, it is unknown (NaN). The first prediction is made before
anything is known and has no error.

References: Gibbs, Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021;
Angelopoulos, Candes, Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023;
Gibbs, Cherian, Candes, "Conformal prediction with conditional guarantees", 2023 (levels).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.aggregate.baselines import live_outputs, note_labels, remapped_labels
from pronk.aggregate.settings import Group, View
from pronk.core.state import Numbers, Part, Sizes, Stateful, require
from pronk.newton.discounted import DiscountedNewton, InEpochs

Array = NDArray[np.float64]

#: Coverages that are followed; others are interpolated between them.
COVERAGES = np.array([0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99])
#: Quantiles of |z| exp(-E log z^2 / 2) at the coverages, z normal (E log z^2 = -1.27).
NORMAL = np.array(
    [0.0, 0.601, 1.273, 1.588, 1.956, 2.171, 2.419, 2.717, 3.104, 3.699, 4.391, 4.862]
)
#: Rows that the size of recent errors speaks of: the larger of the two counts.
ERROR_WINDOWS = (1000.0, 20.0)
#: How much larger than the size of recent errors one error counts in it, at most.
REACH = 5.0
#: Step of the half-widths, as a share of the size of recent errors.
RATE = 0.03
#: How much faster than the half-width of all rows that of a level follows.
OWN = 1.5
#: Levels, the predictions whose quantiles lie between them, and the rows from one look at those to
#: the next (every row while there are fewer).
LEVELS, HELD, LOOK = 5, 1000, 64
#: Edges are predictions; those that equal one up to rounding lie below it, however rows are cut.
TIE = 1e-9


class IntervalState(NamedTuple):
    """What is followed: rows; sums of squares and of ones (windows, 2, outputs); half-widths

    (coverages, outputs), theirs by level (levels, coverages, outputs); edges (4, outputs); the last
    predictions (held, outputs), row t at place t modulo the number held.
    """

    counter: Array
    squares: Array
    widths: Array
    levels: Array
    edges: Array
    recent: Array


@njit(cache=True, nogil=True)
def quintile_of(p: float, edges: Array) -> int:
    """How many edges lie below a prediction."""
    level = 0
    for k in range(edges.size):
        level += p > edges[k]
    return level


@njit(cache=True, nogil=True)
def track_prediction(p: float, row: int, edges: Array, recent: Array) -> None:
    """One output's prediction of row 0, 1, .. is held; from time to time the edges are set anew."""
    recent[row % HELD] = p
    rows = row + 1
    if rows > LOOK and rows % LOOK:
        return
    held = min(rows, HELD)
    ordered = np.sort(recent[:held])
    for k in range(edges.size):
        edge = ordered[(k + 1) * held // LEVELS]
        edges[k] = edge + TIE * abs(edge)


@njit(cache=True, nogil=True, fastmath={"contract"})
def recent_size(squares: Array) -> float:
    """The larger root mean square of one output, from its sums (windows, 2); 0 before a row."""
    size = 0.0
    for w in range(len(squares)):
        if squares[w, 1] > 0.0:
            size = max(size, np.sqrt(squares[w, 0] / squares[w, 1]))
    return size


#: Errors in spreads count as no more: sums of their squares stay finite after a constant target.
LARGEST_ERROR = 1e100


@njit(cache=True, nogil=True, fastmath={"contract"})
def track_errors(R: Array, P: Array, coverages: Array, state: IntervalState, used: Array) -> None:
    """The half-widths (coverages, outputs) that each row met go to ``used``, in spreads."""
    for t in range(R.shape[0]):
        state.counter[0] += 1.0
        rate = max(RATE, 1.0 / np.sqrt(state.counter[0]))
        for o in range(R.shape[1]):
            r = min(R[t, o], LARGEST_ERROR)
            bound = REACH * recent_size(state.squares[:, :, o])
            counted = min(r, bound) if bound > 0.0 else r
            for w in range(len(ERROR_WINDOWS)):
                keep = 1.0 - 1.0 / ERROR_WINDOWS[w]
                sums = state.squares[w, :, o]
                sums[0] = keep * sums[0] + counted * counted
                sums[1] = keep * sums[1] + 1.0
            size, width = recent_size(state.squares[:, :, o]), 0.0
            own = state.levels[quintile_of(P[t, o], state.edges[:, o])]
            for c in range(coverages.size):
                width = max(width, state.widths[c, o] + own[c, o])
                used[t, c, o] = width
                missed = 1.0 if r > width else 0.0
                step = rate * size * (missed - (1.0 - coverages[c]))
                state.widths[c, o] += step
                own[c, o] += OWN * step
            row = int(state.counter[0]) - 2  # of those that are followed
            track_prediction(P[t, o], row, state.edges[:, o], state.recent[:, o])


class Intervals(Stateful):
    """Half-widths for every coverage, output and level, in spreads."""

    def __init__(self, outputs: int) -> None:
        self._counter = np.zeros(1)
        self._squares = np.zeros((len(ERROR_WINDOWS), 2, outputs))
        self._widths = np.zeros((len(COVERAGES), outputs))
        self._levels = np.zeros((LEVELS, len(COVERAGES), outputs))
        self._edges = np.zeros((LEVELS - 1, outputs))
        self._recent = np.zeros((HELD, outputs))

    def start(self) -> None:
        """Begin to follow: errors as of a normal variable whose mean log square is 0."""
        self._counter[:] = 1.0
        self._squares[:] = 0.0
        self._widths[:] = NORMAL[:, None]

    def learn(self, P: Array, scales: Array, Y: Array) -> Array:
        """Follow the errors of Y as given; the half-widths rows met, (n, coverages, outputs)."""
        R = np.abs(Y - P) / scales
        used = np.empty((len(P), *self._widths.shape))
        if self._counter[0] == 0.0:
            # Before the first stage the counts of the first window count the errors.
            known = self._squares[0, 1] + np.arange(len(P))[:, None]
            largest = np.maximum.accumulate(np.vstack((self._widths[:1], R)))
            used[:] = np.where(known > 0.0, largest[:-1], np.nan)[:, None]
            self._widths[:] = largest[-1]
            self._squares[0, 1] += len(P)
        else:
            state = IntervalState(
                self._counter, self._squares, self._widths, self._levels, self._edges, self._recent
            )
            track_errors(R, np.ascontiguousarray(P), COVERAGES, state, used)
            used *= scales[:, None]
        return used

    @property
    def deviation(self) -> Array:
        """Root mean square of recent errors, in spreads, one an output."""
        if self._counter[0] == 0.0:
            return self._widest_so_far()
        sums, counts = self._squares[0]
        return np.asarray(np.sqrt(sums / np.maximum(counts, 1.0)))

    def half_widths(self, P: Array, scales: Array, coverage: float) -> Array:
        """The present half-widths of rows with these predictions and spreads, (n, outputs)."""
        if self._counter[0] == 0.0:
            return np.tile(self._widest_so_far(), (len(P), 1))
        out = np.empty(P.shape)
        for o in range(P.shape[1]):
            levels = np.searchsorted(self._edges[:, o], P[:, o])
            widths = self._widths[:, o] + self._levels[levels, :, o]
            widths = np.maximum.accumulate(np.maximum(widths, 0.0), axis=1)
            out[:, o] = at_coverage(widths[:, :, None], coverage)[:, 0]
        return out * scales

    def _widest_so_far(self) -> Array:
        """The largest error before the first stage, one an output; NaN while there was none."""
        return np.where(self._squares[0, 1] > 0.0, self._widths[0], np.nan)

    STATE = (
        Numbers("counter", (1,), low=0.0, high=2.0**53, whole="float"),
        Numbers("squares", (len(ERROR_WINDOWS), 2, "outputs"), low=0.0),
        Numbers("widths", (len(COVERAGES), "outputs")),
        Numbers("levels", (LEVELS, len(COVERAGES), "outputs")),
        Numbers("edges", (LEVELS - 1, "outputs")),
        Numbers("recent", (HELD, "outputs")),
    )

    def _restored(self, sizes: Sizes) -> None:
        require((np.diff(self._edges, axis=0) >= 0.0).all(), "edges are not in order")


def at_coverage(widths: Array, coverage: float) -> Array:
    """Half-widths (n, outputs) for a coverage from those followed, (n, coverages, outputs)."""
    place = int(np.searchsorted(COVERAGES, coverage))
    if COVERAGES[place] == coverage:
        return widths[:, place]
    low, high = COVERAGES[place - 1], COVERAGES[place]
    share = (coverage - low) / (high - low)
    return np.asarray((1.0 - share) * widths[:, place - 1] + share * widths[:, place])


# ----------------------------------------------------------------------------------------
# How large the next error will be, by what the row looks like: the width of intervals.
#
# Errors e of y as it is given are learned on the logarithmic scale. With v the recent mean of e^2,
# in which e^2 counts as at most 10^4 v, and c = log of e^2 clipped to [v / 10^4, 10^4 v],
#
#     level   l <- l + (c - l) / 200, k <- k + (c - k) / 20  (faster while fewer rows were seen)
#             l <- k where they are more than 1.5 apart      (all errors changed)
#     shape   g = an AWV forecaster of c - l on features (1, p, p^2; kernel features of x)
#     scales  s = exp((l + clip(g, -4, 4)) / 2)
#
# p is the prediction itself, so that errors that grow with what is predicted are seen at once; the
# kernel features are those of the first points at the typical bandwidth. 1.5 is four deviations of
# k - l on a steady stream, so that the level is calm there and follows a change of all errors
# within some twenty rows; the shape forgets with a window of 2000. `intervals` turns |e| / s into
# intervals; what s gets wrong by a factor costs nothing there.

#: Points whose kernel features the scales reads, and their bandwidth in typical distances.
POINTS, FACTOR = 50, 1.0
#: Regularisation in rows: log e^2 has a variance of about 5 around its mean.
ALPHA = 5.0
#: Rows that the shape, and the level, speak of.
WINDOW, LEVEL_WINDOW, QUICK_WINDOW = 2000, 200.0, 20.0
#: The level jumps to the quick one where they are this far apart.
JUMP = 1.5
#: Squared errors count as at most so many times their mean, and as at least one part in so many.
SQUARE_REACH = 1e4
#: Most that the shape adds to the level: a factor of e^2 to either side.
STEEPEST = 4.0
#: With more outputs than this the shape does not read the predictions.
READ_OUTPUTS = 3


@njit(cache=True, nogil=True)
def log_squares(E: Array, running: Array, levels: Array, out: Array) -> None:
    """``running`` is (rows, then mean square, level and quick level, one row an output): before

    each row its level goes to ``levels``, and c - level to ``out``.
    """
    for t in range(E.shape[0]):
        running[0, 0] += 1.0
        for o in range(E.shape[1]):
            square = E[t, o] * E[t, o]
            if running[0, 0] == 1.0:
                running[1, o] = square
                running[2, o] = running[3, o] = np.log(max(square, 1e-300))
            rate = 1.0 / min(running[0, 0], LEVEL_WINDOW)
            if running[1, o] > 0.0:
                square = min(square, SQUARE_REACH * running[1, o])
            running[1, o] += rate * (square - running[1, o])
            levels[t, o] = running[2, o]
            c = np.log(max(square, running[1, o] / SQUARE_REACH, 1e-300))
            out[t, o] = c - running[2, o]
            running[2, o] += rate * out[t, o]
            running[3, o] += (c - running[3, o]) / min(running[0, 0], QUICK_WINDOW)
            if abs(running[3, o] - running[2, o]) > JUMP:
                running[2, o] = running[3, o]


@njit(cache=True)
def read_prediction(p: Array, read: int, row: Array) -> None:
    """The features 1, p, p^2 of one row's first predictions."""
    row[0] = 1.0
    for o in range(read):
        row[1 + o] = p[o]
        row[1 + read + o] = min(p[o] * p[o], 9.0)


@njit(cache=True)
def error_scale_of(level: Array, shape: Array, out: Array) -> None:
    """The scales of each output from its level and its shape."""
    for o in range(out.size):
        out[o] = np.exp(0.5 * (level[o] + min(max(shape[o], -STEEPEST), STEEPEST)))


class ErrorScale(Stateful):
    """The scales of each output's error as a function of row and prediction."""

    def __init__(self, view: View, outputs: int, budget: int) -> None:
        self.group = Group(view, FACTOR)
        self.group.limit = min(budget, POINTS)
        self._read = outputs if outputs <= READ_OUTPUTS else 0
        self._shape = DiscountedNewton(InEpochs(True), ALPHA, 1 + 2 * self._read, outputs, WINDOW)
        self._running = np.zeros((4, outputs))
        self._row, self._shaped = np.zeros(0), np.zeros(outputs)  # the row looked at last

    @property
    def shape(self) -> DiscountedNewton:
        """The learner of the shape."""
        return self._shape

    def grow(self, size: int | None = None) -> None:
        """Take in the coordinates that the span has gained, or the first ``size``."""
        size = self.group.nystrom.size if size is None else size
        self._shape.grow_by(1 + 2 * self._read + size - self._shape.size)

    def learn(self, Phi: Array, P: Array, Y: Array) -> Array:
        """The scales of each row from its features and predictions; then learn its error."""
        levels, targets = np.empty(Y.shape), np.empty(Y.shape)
        log_squares(Y - P, self._running, levels, targets)
        return _error_scale(levels, self._shape.learn(self._features(Phi, P), targets))

    def predict(self, Phi: Array, P: Array) -> Array:
        """The scales of rows that might come next."""
        return _error_scale(self._running[2], self._shape.predict(self._features(Phi, P)))

    def peek(self, p: Array) -> Array:
        """The scales of one row that may come next, from its ``features``; `commit` learns it."""
        read_prediction(p, self._read, self._row)
        self._shape.peek(self._row, self._shaped)
        scales = np.empty(len(p))
        error_scale_of(self._running[2], self._shaped, scales)
        return scales

    @property
    def features(self) -> Array:
        """Where the kernel features of a row go that is looked at."""
        if len(self._row) != self._shape.size:
            self._row = np.ones(self._shape.size)
        return self._row[1 + 2 * self._read :]

    def commit(self, p: Array, y: Array) -> None:
        """Learn the error of the row that was looked at last."""
        levels, targets = np.empty((2, 1, len(y)))
        log_squares((y - p)[None, :], self._running, levels, targets)
        self._shape.commit(targets[0], self._shaped)

    def _features(self, Phi: Array, P: Array) -> Array:
        read = P[:, : self._read]
        return np.hstack((np.ones((len(P), 1)), read, np.minimum(read * read, 9.0), Phi))

    STATE = (
        Part("shape"),
        Numbers("running", (4, "outputs")),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._running.shape[1]}

    def require_size(self) -> None:
        """Refuse a shape that came from a file and is not of the span's coordinates."""
        size = 1 + 2 * self._read + self.group.nystrom.size
        require(self._shape.size == size, "scales/shape has another size than the points give")

    # A file has no span: it follows from the points (`Experts.extend_spans`).

    def snapshot(self) -> Any:
        return self.group.nystrom.snapshot(), super().snapshot()

    def roll_back(self, snapshot: Any) -> None:
        self.group.nystrom.roll_back(snapshot[0])
        super().roll_back(snapshot[1])


def _error_scale(level: Array, shape: Array) -> Array:
    shape = np.minimum(np.maximum(shape, -STEEPEST), STEEPEST)
    return np.asarray(np.exp(0.5 * (level + shape)))


# ----------------------------------------------------------------------------------------
# Probabilities of labels, from margins and two slopes that follow the outcomes.
#
# A margin m on targets +-1 estimates 2 P(+1) - 1, so p = (1 + m) / 2 is a first guess of the
# class's probability. Over the classes that have come,
#
#     P_k  =  exp(z_k) / sum_j exp(z_j),     z_k = a log p_k + b m_k
#
# A plain temperature is a alone: it trusts the odds of rare classes, which squared loss says
# little of; b looks at the margins as they are. (a, b) follow the log loss by online Newton steps
# with a window of 500 rows: with F_k = (log p_k, m_k), mean and covariance taken under P,
#
#     H <- (1 - 1/500) H + I / 500 + Cov F,      (a, b) <- (a, b) + H^-1 (F_y - E F)
#
# starting at (1, 0) and I. a is kept above 0.01 and b above -c a, c = 0.9 s / (1 + s), s = 0.99:
# that keeps z increasing in the margin, and the most probable class is the predicted one. A step
# that leads outside ends at the point inside that is nearest in the norm of H: log p and m say
# nearly the same, so what is cut off one slope must come from the other. Two classes have the
# margins -m and m.

#: Margins, which lie in [-1, 1], are multiplied by this, so that no class is impossible.
SUREST = 0.99
#: Rows that the slopes speak of.
SLOPE_WINDOW = 500.0
SMALLEST_SLOPE, LARGEST_SLOPE = 0.01, 50.0
#: b is at least this times -a.
STEEPEST_SLOPE = 0.9 * SUREST / (1.0 + SUREST)


@njit(cache=True, nogil=True, fastmath={"contract"})
def project_slopes(slopes: Array, H: Array) -> None:
    """Move the slopes (a, b) to the nearest with a >= SMALLEST and b >= -STEEPEST a, in H's norm.

    Both are at most LARGEST, before and after: a cap of a alone could leave b below its bound.
    """
    a, b = min(slopes[0], LARGEST_SLOPE), min(slopes[1], LARGEST_SLOPE)
    if a < SMALLEST_SLOPE or b < -STEEPEST_SLOPE * a:
        # The nearest points of the two edges, and on each the half that is allowed.
        upper = max(b + H[0, 1] / H[1, 1] * (a - SMALLEST_SLOPE), -STEEPEST_SLOPE * SMALLEST_SLOPE)
        along = H[0, 0] - 2.0 * STEEPEST_SLOPE * H[0, 1] + STEEPEST_SLOPE * STEEPEST_SLOPE * H[1, 1]
        lower = (H[0, 0] - STEEPEST_SLOPE * H[0, 1]) * a + (H[0, 1] - STEEPEST_SLOPE * H[1, 1]) * b
        lower = max(lower / along, SMALLEST_SLOPE)
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def newton_step(M: Array, label: int, slopes: Array, H: Array) -> None:
    """One row: M are the margins of the classes, ``label`` the one that came."""
    classes = M.size
    logs = np.log(0.5 * (1.0 + SUREST * M))
    Z = slopes[0] * logs + slopes[1] * M
    P = np.exp(Z - Z.max())
    P /= P.sum()
    mean_log, mean = 0.0, 0.0
    for k in range(classes):
        mean_log += P[k] * logs[k]
        mean += P[k] * M[k]
    keep = 1.0 - 1.0 / SLOPE_WINDOW
    for i in range(2):
        for j in range(2):
            H[i, j] *= keep
        H[i, i] += 1.0 - keep
    for k in range(classes):
        u, v = logs[k] - mean_log, M[k] - mean
        H[0, 0] += P[k] * u * u
        H[1, 1] += P[k] * v * v
        H[0, 1] += P[k] * u * v
    H[1, 0] = H[0, 1]
    u, v = logs[label] - mean_log, M[label] - mean
    determinant = H[0, 0] * H[1, 1] - H[0, 1] * H[1, 0]
    slopes[0] += (H[1, 1] * u - H[0, 1] * v) / determinant
    slopes[1] += (H[0, 0] * v - H[1, 0] * u) / determinant
    project_slopes(slopes, H)


@njit(cache=True, nogil=True)
def track_margins(
    P: Array, Y: Array, seen_labels: Array, slopes: Array, H: Array, used: Array
) -> None:
    """All rows, over the classes that had come by then, this row's included.

    The slopes that each row met go to ``used``.
    """
    outputs = P.shape[1]
    live = np.empty(outputs, dtype=np.bool_)
    M = np.empty(max(outputs, 2))
    for t in range(len(P)):
        used[t] = slopes
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
    """The slopes (a, b) of the probabilities, and what they were learned from."""

    def __init__(self, outputs: int) -> None:
        self._seen_labels = np.zeros((2, outputs))
        self._slopes = np.array([1.0, 0.0])
        self._H = np.eye(2)

    def learn(self, P: Array, Y: Array) -> Array:
        """Follow the labels; the slopes that each row met, (n, 2)."""
        used = np.empty((len(P), 2))
        track_margins(P, np.ascontiguousarray(Y), self._seen_labels, self._slopes, self._H, used)
        return used

    def shares(self, margins: Array, slopes: Array | None = None) -> Array:
        """Shares of the classes by their margins (n, classes), to be divided by their sums.

        One column is the margin of the second of two classes, and gets its probability. ``slopes``
        (n, 2) are those of each row, or None for the present ones.
        """
        a, b = self._slopes if slopes is None else slopes.T[:, :, None]
        single = margins.shape[1] == 1
        M = np.hstack((-margins, margins)) if single else margins
        Z = a * np.log(0.5 * (1.0 + SUREST * M)) + b * M
        P = np.exp(Z - Z.max(axis=1, keepdims=True))
        return np.asarray(P[:, 1:] / P.sum(axis=1, keepdims=True)) if single else P

    def remap(self, matrix: Array) -> None:
        self._seen_labels = remapped_labels(self._seen_labels, matrix)

    STATE = (
        Numbers("seen_labels", (2, "outputs"), low=0.0, high=1.0),
        Numbers("slopes", (2,), low=-LARGEST_SLOPE, high=LARGEST_SLOPE),
        Numbers("H", (2, 2), structure="definite"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._seen_labels.shape[1]}
