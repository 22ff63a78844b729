"""How large the next error will be, by what the row looks like: the width of intervals.

Errors e of y as it is given are learned on the logarithmic scale. With v the recent mean of e^2, in
which e^2 counts as at most 10^4 v, and c = log of e^2 clipped to [v / 10^4, 10^4 v],

    level   l <- l + (c - l) / 200, k <- k + (c - k) / 20  (faster while fewer rows were seen)
            l <- k where they are more than 1.5 apart      (all errors changed)
    shape   g = an AWV forecaster of c - l on features (1, p, p^2; kernel features of x)
    spread  s = exp((l + clip(g, -4, 4)) / 2)

p is the prediction itself, so that errors that grow with what is predicted are seen at once; the
kernel features are those of the first points at the typical bandwidth. 1.5 is four deviations of
k - l on a steady stream, so that the level is calm there and follows a change of all errors within
some twenty rows; the shape forgets with a window of 2000. `intervals` turns
|e| / s into intervals; what s gets wrong by a factor costs nothing there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.default.discounted import DiscountedNewton, InEpochs
from pronk.engines.default.grid import Group
from pronk.engines.default.views import View
from pronk.parts.state import Numbers, Part, Stateful, require

Array = NDArray[np.float64]

#: Points whose kernel features the spread reads, and their bandwidth in typical distances.
POINTS, FACTOR = 50, 1.0
#: Regularisation in rows: log e^2 has a variance of about 5 around its mean.
ALPHA = 5.0
#: Rows that the shape, and the level, speak of.
WINDOW, LEVEL_WINDOW, QUICK_WINDOW = 2000, 200.0, 20.0
#: The level jumps to the quick one where they are this far apart.
JUMP = 1.5
#: Squared errors count as at most so many times their mean, and as at least one part in so many.
REACH = 1e4
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
                square = min(square, REACH * running[1, o])
            running[1, o] += rate * (square - running[1, o])
            levels[t, o] = running[2, o]
            c = np.log(max(square, running[1, o] / REACH, 1e-300))
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
def spread_of(level: Array, shape: Array, out: Array) -> None:
    """The spread of each output from its level and its shape."""
    for o in range(out.size):
        out[o] = np.exp(0.5 * (level[o] + min(max(shape[o], -STEEPEST), STEEPEST)))


class Spread(Stateful):
    """The spread of each output's error as a function of row and prediction."""

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
        """The spread of each row from its features and predictions; then learn its error."""
        levels, targets = np.empty(Y.shape), np.empty(Y.shape)
        log_squares(Y - P, self._running, levels, targets)
        return _spread(levels, self._shape.learn(self._features(Phi, P), targets))

    def predict(self, Phi: Array, P: Array) -> Array:
        """The spread of rows that might come next."""
        return _spread(self._running[2], self._shape.predict(self._features(Phi, P)))

    def look(self, p: Array) -> Array:
        """The spread of one row that may come next, from its ``features``; `take` learns it."""
        read_prediction(p, self._read, self._row)
        self._shape.look(self._row, self._shaped)
        spread = np.empty(len(p))
        spread_of(self._running[2], self._shaped, spread)
        return spread

    @property
    def features(self) -> Array:
        """Where the kernel features of a row go that is looked at."""
        if len(self._row) != self._shape.size:
            self._row = np.ones(self._shape.size)
        return self._row[1 + 2 * self._read :]

    def take(self, p: Array, y: Array) -> None:
        """Learn the error of the row that was looked at last."""
        levels, targets = np.empty((2, 1, len(y)))
        log_squares((y - p)[None, :], self._running, levels, targets)
        self._shape.take(targets[0], self._shaped)

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
        require(self._shape.size == size, "spread/shape has another size than the points give")

    # A file has no span: it follows from the points (`Experts.extend_spans`).

    def mark(self) -> Any:
        return self.group.nystrom.mark(), super().mark()

    def undo(self, mark: Any) -> None:
        self.group.nystrom.undo(mark[0])
        super().undo(mark[1])


def _spread(level: Array, shape: Array) -> Array:
    shape = np.minimum(np.maximum(shape, -STEEPEST), STEEPEST)
    return np.asarray(np.exp(0.5 * (level + shape)))
