"""What one row can do: targets are drawn to a range that the rows before them vouch for.

A glitch (a sensor's 9999 among ones) would move every sum it enters. With c the median of the first
rows and q the size that one target in two hundred exceeds,

    y  ->  c + clip(y - c, -3 q, 3 q)
    log q  <-  log q + 0.05 (1{|y - c| > q} - 0.005)

(quantile tracking, in logarithms: it has no unit). So a row counts as at most 3 q, and moves q by
five per cent. A few glitches in a thousand rows leave q where it is; a stream that moves for good
is followed, by a factor of 150 in a hundred rows. For normal targets 3 q is 8.4 deviations, for
exponential ones 16 means: without glitches nothing is clipped. At a stage q starts from the first
n rows, the sqrt(n) / 4 largest left out, times 1 + 8 / sqrt(n).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.parts.state import LARGEST, Numbers, Stateful

Array = NDArray[np.float64]

#: The share of targets that lie beyond q.
BEYOND = 0.005
#: How far a target may go, in q.
REACH = 3.0
#: How fast log q follows.
STEP = 0.05


@njit(cache=True, nogil=True)
def clip_rows(Y: Array, centre: Array, size: Array, out: Array) -> None:
    """Each row's targets drawn to the range the rows before it gave; the sizes follow."""
    up, down = np.exp(STEP * (1.0 - BEYOND)), np.exp(-STEP * BEYOND)
    for t in range(Y.shape[0]):
        for o in range(Y.shape[1]):
            offset = Y[t, o] - centre[o]
            limit = REACH * size[o]
            out[t, o] = min(max(Y[t, o], centre[o] - limit), centre[o] + limit)
            size[o] *= up if abs(offset) > size[o] else down


class Guard(Stateful):
    """The range of targets: centre and size, one an output; before its first rows it is open."""

    def __init__(self, outputs: int) -> None:
        self.centre = np.zeros(outputs)
        self.size = np.full(outputs, LARGEST)

    def learn(self, Y: Array) -> Array:
        """The targets as they may be learned."""
        out = np.empty(Y.shape)
        clip_rows(np.ascontiguousarray(Y), self.centre, self.size, out)
        return out

    def start(self, Y: Array) -> Array:
        """Centre and size from first rows; those rows as they may be learned."""
        self.centre = np.median(Y, axis=0)
        offsets = np.sort(np.abs(Y - self.centre), axis=0)
        left_out = int(np.ceil(0.25 * np.sqrt(len(Y))))
        self.size = offsets[-1 - left_out] * (1.0 + 8.0 / np.sqrt(len(Y)))
        # Where nearly all targets are one number, the others vouch for each other.
        self.size = np.where(self.size > 0.0, self.size, offsets[-1])
        self.size = np.where(self.size > 0.0, self.size, LARGEST)
        reach = REACH * self.size
        return np.clip(Y, self.centre - reach, self.centre + reach)

    STATE = (
        Numbers("centre", ("outputs",), "centre", kept=True),
        Numbers("size", ("outputs",), "size", low=0.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": len(self.centre)}
