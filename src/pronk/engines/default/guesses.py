"""Guesses that need no x: the last target, the mean of the last ten, the mean of all.

    m_w <- m_w + (y - m_w) / min(t, w),     w = 1, 10, infinity

As experts of the mixture they keep it from being much worse than a trivial guess: persistence where
targets hang together in time, the mean (of labels +-1: the majority) where nothing can be learned.
A kind of expert that is cheap and sequential: two operations a row, walked with the mixture.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
    """The running means of the targets, one a window."""

    count = len(MEAN_WINDOWS)

    def __init__(self, outputs: int) -> None:
        self._counter = np.zeros(1)
        self._means = np.zeros((self.count, outputs))

    def learn(self, Y: Array) -> Array:
        """What each row is guessed before its target, (n, guesses, outputs)."""
        out = np.empty((len(Y), *self._means.shape))
        guess_rows(np.ascontiguousarray(Y), MEAN_WINDOWS, self._counter, self._means, out)
        return out

    def predict(self) -> Array:
        """What any next row is guessed, (guesses, outputs)."""
        return self._means

    def remap(self, matrix: Array) -> None:
        """New outputs as linear combinations of the old."""
        self._means = self._means @ matrix

    STATE = (
        Numbers("counter", (1,), low=0.0, whole="float"),
        Numbers("means", (count, "outputs")),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._means.shape[1]}
