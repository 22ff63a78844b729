"""Learners that were replaced and are kept, for a concept that returns.

A learner that a challenger has replaced is retired: a copy of it, as it was at the alarm, learns
the last 128 rows before the change again, and then no more. The newest two are kept (one in a small
model). Every 16 rows the mean absolute errors of the last
16 rows and of the 64 before are compared, which costs little. Where they have doubled, and within
256 rows of an alarm, every retired learner predicts the last 64 rows. With a and b the absolute
errors of the prediction and of a retired learner,

    d  =  mean over outputs of (a - b) / (a + b),   for labels of (a - b) / 2,

which lies in [-1, 1] whatever the unit. If sum(d) / sqrt(sum(d^2)) is at least 2.5, and the mean of
d at least 0.05, over the last n = 16, 32 or 64 rows, the retired learner becomes the incumbent: it
learns these n rows and continues; the incumbent is retired. A challenger starts in any case
(`recovery`), should the concept be another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.changes import RecentRows
from pronk.aggregate.learner import InnerLearner
from pronk.aggregate.trial import absolute_errors

Array = NDArray[np.float64]

#: Learners that are kept, in the default and in a small model.
MOST_RETIRED, FEW_RETIRED = 2, 1
#: Rows between two comparisons, and rows before them.
GRID, BEFORE = 16, 64
#: Factor by which errors have grown.
JUMP = 2.0
#: Last rows that a retired learner predicts, and from where on it is clearly better.
TRIED, SURE, CLEAR = (16, 32, 64), 2.5, 0.05
#: Rows before a change that a retired learner learns again.
REFRESH = 128
#: Rows after an alarm within which retired learners are tried.
AFTER_ALARM = 256


def watched(recent: RecentRows, delay: int) -> bool:
    """Return whether the rows that are compared are held."""
    return GRID + BEFORE + delay <= min(recent.rows, recent.newest)


def growth(recent: RecentRows, delay: int) -> tuple[float, float, float]:
    """Return how many times as large errors are as before, and both as losses in [0, 1]."""
    _, Y, P, _ = recent.last(GRID + BEFORE, delay)
    absolute_errors(P, Y, errors := np.empty(P.shape))
    before, now = errors[:BEFORE].mean(axis=0), errors[BEFORE:].mean(axis=0)
    usual = np.where(before > 0.0, before, 1e-300)
    ratio = float(np.minimum(now / usual, 1e6).mean())
    losses = errors / (errors + usual)
    return ratio, float(losses[:BEFORE].mean()), float(losses[BEFORE:].mean())


def best_retired(
    retired: Sequence[InnerLearner], recent: RecentRows, delay: int, signed: bool
) -> tuple[InnerLearner, int] | None:
    """Return the learner that is clearly better, and over how many rows; or None."""
    X, Y, P, _ = recent.last(TRIED[-1], delay)
    absolute_errors(P, Y, own := np.empty(P.shape))
    best, found = SURE, None
    for learner in retired:
        Q, _ = learner.predict(np.ascontiguousarray(X))
        absolute_errors(Q, Y, theirs := np.empty(Q.shape))
        total = own + theirs
        unit = np.full(total.shape, 2.0) if signed else np.where(total > 0.0, total, 1.0)
        d = ((own - theirs) / unit).mean(axis=1)
        for rows in TRIED:
            last = d[-rows:]
            score = float(last.sum() / np.sqrt((last * last).sum() + 1e-300))
            if score >= best and last.mean() >= CLEAR:
                best, found = score, (learner, rows)
    return found
