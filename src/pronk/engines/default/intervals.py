"""Intervals around predictions, learned from the errors of the predictions before.

Errors of y as it is given, not as it is learned (`guard`), are measured in spreads,
r = |y - p| / s, s the size that `spread` expects of the row's error. For each coverage c the
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

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.parts.state import Numbers, Sizes, Stateful, require

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


class Followed(NamedTuple):
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
def level_of(p: float, edges: Array) -> int:
    """How many edges lie below a prediction."""
    level = 0
    for k in range(edges.size):
        level += p > edges[k]
    return level


@njit(cache=True, nogil=True)
def follow_predictions(p: float, row: int, edges: Array, recent: Array) -> None:
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
def follow_errors(R: Array, P: Array, coverages: Array, state: Followed, used: Array) -> None:
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
            own = state.levels[level_of(P[t, o], state.edges[:, o])]
            for c in range(coverages.size):
                width = max(width, state.widths[c, o] + own[c, o])
                used[t, c, o] = width
                missed = 1.0 if r > width else 0.0
                step = rate * size * (missed - (1.0 - coverages[c]))
                state.widths[c, o] += step
                own[c, o] += OWN * step
            row = int(state.counter[0]) - 2  # of those that are followed
            follow_predictions(P[t, o], row, state.edges[:, o], state.recent[:, o])


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

    def learn(self, P: Array, spread: Array, Y: Array) -> Array:
        """Follow the errors of Y as given; the half-widths rows met, (n, coverages, outputs)."""
        R = np.abs(Y - P) / spread
        used = np.empty((len(P), *self._widths.shape))
        if self._counter[0] == 0.0:
            # Before the first stage the counts of the first window count the errors.
            known = self._squares[0, 1] + np.arange(len(P))[:, None]
            largest = np.maximum.accumulate(np.vstack((self._widths[:1], R)))
            used[:] = np.where(known > 0.0, largest[:-1], np.nan)[:, None]
            self._widths[:] = largest[-1]
            self._squares[0, 1] += len(P)
        else:
            followed = Followed(
                self._counter, self._squares, self._widths, self._levels, self._edges, self._recent
            )
            follow_errors(R, np.ascontiguousarray(P), COVERAGES, followed, used)
            used *= spread[:, None]
        return used

    @property
    def deviation(self) -> Array:
        """Root mean square of recent errors, in spreads, one an output."""
        if self._counter[0] == 0.0:
            return self._widest_so_far()
        sums, counts = self._squares[0]
        return np.asarray(np.sqrt(sums / np.maximum(counts, 1.0)))

    def half_widths(self, P: Array, spread: Array, coverage: float) -> Array:
        """The present half-widths of rows with these predictions and spreads, (n, outputs)."""
        if self._counter[0] == 0.0:
            return np.tile(self._widest_so_far(), (len(P), 1))
        out = np.empty(P.shape)
        for o in range(P.shape[1]):
            levels = np.searchsorted(self._edges[:, o], P[:, o])
            widths = self._widths[:, o] + self._levels[levels, :, o]
            widths = np.maximum.accumulate(np.maximum(widths, 0.0), axis=1)
            out[:, o] = at_coverage(widths[:, :, None], coverage)[:, 0]
        return out * spread

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
