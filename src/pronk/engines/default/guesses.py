"""Experts that cost next to nothing, walked in order with the mixture: guesses and lines.

Guesses need no x: the last target, the mean of the last ten, the mean of all,

    m_w <- m_w + (y - m_w) / min(t, w),     w = 1, 10, infinity

As experts of the mixture they keep it from being much worse than a trivial guess: persistence where
targets hang together in time, the mean (of labels +-1: the majority) where nothing can be learned.
For labels two linear learners on the scaled columns (`lines`) stand beside them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.engines.default.lines import NAMES as LINES
from pronk.engines.default.lines import learn_lines, line_predictions
from pronk.parts.linalg import recombined
from pronk.parts.state import Numbers, Stateful

Array = NDArray[np.float64]

#: Rows that each guess speaks of.
MEAN_WINDOWS = np.array([1.0, 10.0, np.inf])
NAMES = ("last target", "mean of 10", "mean")


@njit(cache=True, nogil=True)
def guess_rows(Y: Array, windows: Array, counter: Array, means: Array, out: Array) -> None:
    """The means (windows, outputs) that each row met go to ``out``."""
    for t in range(Y.shape[0]):
        counter[0] += 1.0
        for w in range(windows.size):
            rate = 1.0 / min(counter[0], windows[w])
            for o in range(Y.shape[1]):
                out[t, w, o] = means[w, o]
                means[w, o] += rate * (Y[t, o] - means[w, o])


class Guesses(Stateful):
    """The running means of the targets, one a window; with ``columns``, for labels, the lines."""

    def __init__(self, outputs: int, columns: int | None = None) -> None:
        self._counter = np.zeros(1)
        self._means = np.zeros((len(MEAN_WINDOWS), outputs))
        self._lined = columns is not None
        terms = 0 if columns is None else columns + 1
        self._logistic, self._squares = np.zeros((outputs, terms)), np.zeros((outputs, terms))
        self._margin, self._updates = np.zeros((outputs, terms)), np.ones(outputs)
        self.names = (*NAMES, *LINES) if self._lined else NAMES

    @property
    def count(self) -> int:
        return len(self.names)

    def learn(self, Z: Array, Y: Array) -> Array:
        """What each row is guessed before its target, (n, guesses, outputs); Z are its columns."""
        Y = np.ascontiguousarray(Y)
        means = np.empty((len(Y), *self._means.shape))
        guess_rows(Y, MEAN_WINDOWS, self._counter, self._means, means)
        if not self._lined:
            return means
        lines = np.empty((len(Y), len(LINES), Y.shape[1]))
        learn_lines(
            np.ascontiguousarray(Z), Y, self._logistic, self._squares, self._margin, self._updates,
            lines,
        )  # fmt: skip
        return np.concatenate((means, lines), axis=1)

    def predict(self, Z: Array) -> Array:
        """What next rows are guessed, (n, guesses, outputs)."""
        means = len(self._means)
        out = np.empty((len(Z), self.count, self._means.shape[1]))
        out[:, :means] = self._means
        if self._lined:
            for z, row in zip(np.ascontiguousarray(Z), out[:, means:], strict=True):
                line_predictions(z, self._logistic, self._margin, self._updates, row)
        return out

    def remap(self, matrix: Array) -> None:
        """New outputs, each plus or minus one old one."""
        self._means = recombined(self._means, matrix)
        self._logistic = recombined(self._logistic, matrix, axis=-2)
        self._margin = recombined(self._margin, matrix, axis=-2)
        self._squares = recombined(self._squares, matrix, axis=-2, absolute=True)
        self._updates = recombined(self._updates, matrix, absolute=True)

    STATE = (
        Numbers("counter", (1,), low=0.0, whole="float"),
        Numbers("means", (len(MEAN_WINDOWS), "outputs")),
        Numbers("logistic", ("outputs", "terms")),
        Numbers("squares", ("outputs", "terms"), low=0.0),
        Numbers("margin", ("outputs", "terms")),
        Numbers("updates", ("outputs",), low=1.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._means.shape[1], "terms": self._logistic.shape[1]}
