"""Clipping of targets and errors, to limit the effect of outliers.

An outlier (9999 among values near 1) would change every sum it enters.

**Targets.** With c the median of the first rows and q the size that one target in two hundred
exceeds,

    y  ->  c + clip(y - c, -3 q, 3 q)
    log q  <-  log q + 0.05 (1{|y - c| > q} - 0.005)

(quantile tracking of log q, which is free of units). So a target counts as at most 3 q and changes
q by five per cent. A few outliers per thousand rows leave q unchanged; a permanent change is
followed, by a factor of 150 within a hundred rows. For normal targets 3 q is 8.4 standard
deviations, for exponential ones 16 means: without outliers nothing is clipped. At a stage q starts
from the first n rows without the sqrt(n) / 4 largest, times 1 + 8 / sqrt(n).

**Errors.** A target that is usual among all targets may still be far from its prediction p. Where p
is known before the target is used, its error is clipped in the same way, at 1.5 q around p, with
steps of 0.5 of log q: q follows the errors within some hundred rows, and a change of all errors by
a factor of 1000 within fourteen. The first 32 errors are not clipped, and q starts as the largest
of them. For normal errors 1.5 q is 4.2 standard deviations. Errors of more than one row in two
hundred are no outliers: q grows until it contains them. The mixture learns targets clipped in this
way, and rows that are learned again at a stage have targets that were clipped when the row came.
(The experts learn blocks of rows before the predictions of these rows are known, so their targets
are only clipped around c.)

**Root mean squares.** Errors in the leaves of the local experts and lagged errors that the stacks
read are clipped to a multiple, 5 and 3, of their root mean square over the last 200 rows, as
clipped:

    e  ->  clip(e, -reach sqrt(v), reach sqrt(v)),     v  <-  v + (e^2 - v) / min(t, 200)

With a reach of 5 a row increases sqrt(v) by at most six per cent, so larger errors that persist
are followed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.core.compiling import compiled
from pronk.core.state import LARGEST, Numbers, Stateful

Array = NDArray[np.float64]

#: Share of targets or errors beyond q.
BEYOND = 0.005
#: Targets and errors are clipped at this many q; steps of log q.
TARGET_REACH, TARGET_STEP = 3.0, 0.05
ERROR_REACH, ERROR_STEP = 1.5, 0.5
#: Rows whose errors are not clipped; q is the largest of them.
FIRST_ERRORS = 32
#: Errors in leaves and lagged errors are clipped at this many root mean squares over a window of so
#: many rows.
LEAF_REACH, LAGGED_REACH, WINDOW = 5.0, 3.0, 200.0


@compiled
def clip_row(y: Array, centre: Array, size: Array, reach: float, step: float, out: Array) -> None:
    """Clip the targets y of a row around ``centre`` c into ``out`` and update ``size`` q.

    All are (outputs,). Where q is 0 nothing is clipped, and q becomes |y - c|.
    """
    for o in range(y.size):
        offset, limit = abs(y[o] - centre[o]), reach * size[o]
        out[o] = y[o]
        if size[o] == 0.0:
            size[o] = offset
            continue
        # y -> c + clip(y - c, -reach q, reach q),  log q <- log q + step (1{|y - c| > q} - 0.005)
        out[o] = min(max(y[o], centre[o] - limit), centre[o] + limit)
        size[o] *= np.exp(step * ((1.0 if offset > size[o] else 0.0) - BEYOND))


# -- targets ----------------------------------------------------------------------------------


@compiled
def clip_targets(Y: Array, centre: Array, size: Array, out: Array) -> None:
    """Clip targets Y (n, outputs) into ``out`` row by row; ``centre`` and ``size`` (outputs,)."""
    for t in range(len(Y)):
        clip_row(Y[t], centre, size, TARGET_REACH, TARGET_STEP, out[t])


class TargetClipping(Stateful):
    """Range of the targets, centre and size per output; unbounded before `start`."""

    def __init__(self, outputs: int) -> None:
        self.centre = np.zeros(outputs)
        self.size = np.full(outputs, LARGEST)

    def learn(self, Y: Array) -> Array:
        """Return the targets Y (n, outputs) clipped; update the size."""
        out = np.empty(Y.shape)
        clip_targets(np.ascontiguousarray(Y), self.centre, self.size, out)
        return out

    def start(self, Y: Array) -> Array:
        """Set centre and size from first targets Y (n, outputs) and return them clipped."""
        self.centre = np.median(Y, axis=0)
        offsets = np.sort(np.abs(Y - self.centre), axis=0)
        left_out = int(np.ceil(0.25 * np.sqrt(len(Y))))
        self.size = offsets[-1 - left_out] * (1.0 + 8.0 / np.sqrt(len(Y)))
        # If nearly all targets are equal, the size is that of the largest deviation.
        self.size = np.where(self.size > 0.0, self.size, offsets[-1])
        self.size = np.where(self.size > 0.0, self.size, LARGEST)
        reach = TARGET_REACH * self.size
        return np.clip(Y, self.centre - reach, self.centre + reach)

    STATE = (
        Numbers("centre", ("outputs",), "centre", written="replaced"),
        Numbers("size", ("outputs",), "size", low=0.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": len(self.centre)}


# -- errors -----------------------------------------------------------------------------------


@compiled
def clip_errors(errors: Array, reach: float, rows: float, squares: Array) -> None:
    """Clip errors (n,) of one row in place and update their mean squares v (n,).

    ``rows`` is the number of rows so far, this one included.
    """
    for o in range(errors.size):
        # e -> clip(e, -reach sqrt(v), reach sqrt(v)),  v <- v + (e^2 - v) / min(t, 200)
        bound = reach * np.sqrt(squares[o])
        if bound > 0.0:
            errors[o] = min(max(errors[o], -bound), bound)
        squares[o] += (errors[o] * errors[o] - squares[o]) / min(rows, WINDOW)


@compiled
def clip_around(y: Array, p: Array, rows: float, size: Array, out: Array) -> None:
    """Clip the targets y of a row around predictions p into ``out`` and update ``size`` q.

    All are (outputs,); ``rows`` is the number of errors so far, this one included.
    """
    if rows > FIRST_ERRORS:
        clip_row(y, p, size, ERROR_REACH, ERROR_STEP, out)
        return
    for o in range(y.size):
        size[o] = max(size[o], abs(y[o] - p[o]))
        out[o] = y[o]


@compiled
def clip_rows_around(Y: Array, P: Array, counter: Array, size: Array, out: Array) -> None:
    """Clip targets Y around predictions P (n, outputs) row by row; ``counter`` (1,) has rows."""
    for t in range(len(Y)):
        counter[0] += 1.0
        clip_around(Y[t], P[t], counter[0], size, out[t])


class ErrorClipping(Stateful):
    """Number of errors so far, and their size per output."""

    def __init__(self, outputs: int) -> None:
        self._counter, self._size = np.zeros(1), np.zeros(outputs)

    def learn(self, P: Array, Y: Array) -> Array:
        """Return targets Y (n, outputs) clipped around predictions P made before them."""
        out = np.empty(Y.shape)
        P, Y = np.ascontiguousarray(P), np.ascontiguousarray(Y)
        clip_rows_around(Y, P, self._counter, self._size, out)
        return out

    STATE = (
        Numbers("counter", (1,), low=0.0, high=2.0**53, whole="float"),
        Numbers("size", ("outputs",), low=0.0),
    )
