"""How sure a prediction is, learned from the errors of the predictions before it.

Intervals: for each coverage c the half-width h follows the errors (adaptive conformal inference,
in the form of quantile tracking),

    h <- h + step (1{|y - p| > h} - (1 - c)),      step = rate * (size of recent errors)

(below 0 the interval is the prediction itself), so over any stretch of T rows the share of misses
is 1 - c up to O(1 / (rate T)), whatever the stream does. Probabilities: a margin p on targets +-1
estimates 2 P(+1) - 1; its log odds 2 artanh(p) are multiplied by a temperature that follows the log
loss by online Newton steps. It is odd in p, so the label never changes.

References: Gibbs, Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021;
Angelopoulos, Candes, Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.default.mixture import live_outputs, note_signs, remapped_signs
from pronk.parts.state import Numbers, Stateful

Array = NDArray[np.float64]

#: Coverages that are followed; others are interpolated between them.
COVERAGES = np.array([0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99])
#: Rows that the size of recent errors speaks of.
WINDOW = 1000.0
#: Step of the half-widths, as a share of the size of recent errors.
RATE = 0.05
#: Margins, which lie in [-1, 1], are multiplied by this, so that odds stay finite.
SUREST = 0.999


@njit(cache=True, fastmath={"contract"})
def follow_errors(
    P: Array, Y: Array, coverages: Array, counter: Array, squares: Array, widths: Array, used: Array
) -> None:
    """The half-widths (coverages, outputs) that each row met go to ``used``, one a row.

    ``squares`` (2, outputs) holds the discounted sums of squared errors and of ones.
    """
    keep = 1.0 - 1.0 / WINDOW
    for t in range(len(P)):
        counter[0] += 1.0
        rate = max(RATE, 1.0 / np.sqrt(counter[0]))
        for o in range(P.shape[1]):
            error = abs(Y[t, o] - P[t, o])
            squares[0, o] = keep * squares[0, o] + error * error
            squares[1, o] = keep * squares[1, o] + 1.0
            step = rate * np.sqrt(squares[0, o] / squares[1, o])
            for c in range(coverages.size):
                used[t, c, o] = max(widths[c, o], 0.0)
                missed = 1.0 if error > widths[c, o] else 0.0
                widths[c, o] += step * (missed - (1.0 - coverages[c]))


class Intervals(Stateful):
    """Half-widths for every coverage and output, and the size of recent errors."""

    def __init__(self, outputs: int) -> None:
        self._counter = np.zeros(1)
        self._squares = np.zeros((2, outputs))
        self._widths = np.zeros((len(COVERAGES), outputs))

    def learn(self, P: Array, Y: Array) -> Array:
        """Follow the errors; the half-widths each row met, (n, coverages, outputs)."""
        used = np.empty((len(P), *self._widths.shape))
        Y = np.ascontiguousarray(Y)
        follow_errors(P, Y, COVERAGES, self._counter, self._squares, self._widths, used)
        return used

    @property
    def deviation(self) -> Array:
        """Root of the mean squared error of recent predictions, one an output."""
        return np.asarray(np.sqrt(self._squares[0] / np.maximum(self._squares[1], 1.0)))

    def half_widths(self, coverage: float) -> Array:
        """The present half-width for a coverage, one an output."""
        return at_coverage(np.maximum(self._widths, 0.0)[None], coverage)[0]

    STATE = (
        Numbers("counter", (1,), low=0.0, whole="float"),
        Numbers("squares", (2, "outputs"), low=0.0),
        Numbers("widths", (len(COVERAGES), "outputs")),
    )


def at_coverage(widths: Array, coverage: float) -> Array:
    """Half-widths (n, outputs) for a coverage from those followed, (n, coverages, outputs)."""
    place = int(np.searchsorted(COVERAGES, coverage))
    if COVERAGES[place] == coverage:
        return widths[:, place]
    low, high = COVERAGES[place - 1], COVERAGES[place]
    share = (coverage - low) / (high - low)
    return np.asarray((1.0 - share) * widths[:, place - 1] + share * widths[:, place])


@njit(cache=True, fastmath={"contract"})
def follow_margins(P: Array, Y: Array, seen: Array, temperature: Array, used: Array) -> None:
    """``temperature`` is (a, H): a <- a - g / H, H <- H + h with slope and curvature of the mean

    over the live outputs of log(1 + exp(-a y l)), l = 2 artanh(p). The a that each row met goes to
    ``used``.
    """
    live = np.empty(P.shape[1], dtype=np.bool_)
    for t in range(len(P)):
        used[t] = temperature[0]
        note_signs(Y[t], seen)
        count = live_outputs(seen, True, live)
        slope = 0.0
        curvature = 0.0
        for o in range(P.shape[1]):
            if not live[o]:
                continue
            p = SUREST * P[t, o]
            odds = np.log((1.0 + p) / (1.0 - p))
            miss = 1.0 / (1.0 + np.exp(temperature[0] * Y[t, o] * odds))
            slope -= miss * Y[t, o] * odds / count
            curvature += miss * (1.0 - miss) * odds * odds / count
        temperature[1] += curvature
        temperature[0] = min(max(temperature[0] - slope / temperature[1], 0.1), 10.0)


def probabilities_at(margins: Array, factor: Any) -> Array:
    """P(+1) of each margin, its log odds multiplied by a factor."""
    return np.asarray(1.0 / (1.0 + np.exp(-2.0 * factor * np.arctanh(SUREST * margins))))


class Temperature(Stateful):
    """The factor of the log odds; starts at 1 with the weight of some twenty rows."""

    def __init__(self, outputs: int) -> None:
        self._seen = np.zeros((2, outputs))
        self._temperature = np.array([1.0, 20.0])

    def learn(self, P: Array, Y: Array) -> Array:
        """Follow the labels; the factor that each row met, (n,)."""
        used = np.empty(len(P))
        follow_margins(P, np.ascontiguousarray(Y), self._seen, self._temperature, used)
        return used

    def probabilities(self, margins: Array) -> Array:
        """P(+1) of each margin."""
        return probabilities_at(margins, self._temperature[0])

    def remap(self, matrix: Array) -> None:
        self._seen = remapped_signs(self._seen, matrix)

    STATE = (
        Numbers("seen", (2, "outputs"), low=0.0, high=1.0),
        Numbers("temperature", (2,), low=0.1),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._seen.shape[1]}
