"""Contributions of the columns to single predictions: Shapley values against background rows.

A column takes part in a prediction if its value is that of the row x, and does not if its value is
that of a background row b. For an order of the columns, their values are replaced one after the
other, from b to x; the contribution of a column is the change of the prediction when its turn
comes. The changes along an order add up to f(x) - f(b), so their mean over orders and background
rows adds up to the prediction minus the base, the mean prediction of the background rows.

The mean over all orders is the Shapley value of the column. Up to `ALL_ORDERS` columns all orders
are used. With more columns each background row has `PAIRS` orders from a generator with a fixed
seed, and each with its reverse, which cancels the error of interactions between two columns. So the
contributions do not change between calls.

A text or a date is one column, whatever number of columns the learner makes of it. Columns that
depend on each other are replaced independently, so the learner may be asked for rows that do not
occur, and equal information is shared between such columns as the learner uses it.

Cost per explained row: b (d - 1) p predictions for b background rows and d columns, p = 2 `PAIRS`
or d! orders.

References: Strumbelj, Kononenko, "Explaining prediction models and individual predictions with
feature contributions", 2014 (sampled orders); Mitchell et al., "Sampling permutations for Shapley
value estimation", JMLR 2022 (reversed orders).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array

#: Most columns of which all orders are used.
ALL_ORDERS = 4
#: Orders per background row otherwise; each is also used in reverse.
PAIRS = 2
#: Most background rows that are used.
BACKGROUND = 64
#: Rows that are predicted at once.
BLOCK = 8192


@dataclass(frozen=True)
class Explanation:
    """Contributions of the columns to the predictions of n rows.

    ``base`` plus the sum of a row's contributions is its prediction.
    """

    columns: tuple[str, ...]
    """Names of the d columns."""
    contributions: Array
    """(n, d), or (n, d, outputs) for several targets and for the probabilities of classes."""
    base: Any
    """Mean prediction of the background rows: a number, or one per output."""
    predictions: Array
    """(n,) or (n, outputs)."""
    classes: NDArray[Any] | None = None
    """Classes of the outputs; None for numbers."""

    def ranked(self, row: int = 0, output: int = 0) -> list[tuple[str, float]]:
        """Return columns and contributions of one row, the largest effect first."""
        own = self.contributions[row]
        values = own if own.ndim == 1 else own[:, output]
        order = np.argsort(-np.abs(values), kind="stable")
        return [(self.columns[i], float(values[i])) for i in order]


def explain_rows(
    predict: Callable[[Array], Array], rows: Array, background: Array, columns: Sequence[str],
    classes: NDArray[Any] | None = None,
) -> Explanation:  # fmt: skip
    """Explain the predictions of rows (n, d) against background rows (b, d).

    ``predict`` takes rows and returns (n,) or (n, outputs), a row's prediction independent of the
    others. At most `BACKGROUND` background rows are used, at equal distances.
    """
    if not len(background):
        raise ValueError("background has no rows; give some rows of the stream")
    places = np.linspace(0, len(background) - 1, min(len(background), BACKGROUND))
    background = background[np.round(places).astype(np.int64)]
    orders = _orders(len(background), rows.shape[1])
    starts, values = predict(background), predict(rows)
    found = np.zeros((len(rows), rows.shape[1], *values.shape[1:]))
    for x, value, own in zip(rows, values, found, strict=True):
        own[:] = _contributions(predict, x, value, background, starts, orders)
    return Explanation(tuple(columns), found, starts.mean(axis=0), values, classes)


def _orders(background: int, columns: int) -> NDArray[np.int64]:
    """Return orders (background, p, columns) of the columns for each background row."""
    if columns <= ALL_ORDERS:
        every = np.array(list(permutations(range(columns))))
        return np.broadcast_to(every, (background, *every.shape))
    rng = np.random.default_rng(0)
    plain = np.broadcast_to(np.arange(columns), (background, PAIRS, columns))
    drawn = rng.permuted(plain, axis=2)
    return np.concatenate((drawn, drawn[:, :, ::-1]), axis=1)


def _contributions(
    predict: Callable[[Array], Array], x: Array, value: Array, background: Array, starts: Array,
    orders: NDArray[np.int64],
) -> Array:  # fmt: skip
    """Return the contributions (d, ..) to the prediction ``value`` of the row x (d,)."""
    b, p, d = orders.shape
    ranks = np.argsort(orders.reshape(b * p, d), axis=1)  # when it is the turn of a column
    owners = np.repeat(np.arange(b), p)
    total = np.zeros((d, *value.shape))
    several = max(1, BLOCK // max(1, d - 1))
    for first in range(0, b * p, several):
        part = slice(first, first + several)
        turn, owner = ranks[part], owners[part]
        # Row k of an order has x in the columns of its first k turns; k = 0 and d are known.
        mixed = np.where(
            turn[:, None, :] < np.arange(1, d)[None, :, None], x, background[owner][:, None, :]
        )
        path = np.empty((len(turn), d + 1, *value.shape))
        path[:, 0], path[:, -1] = starts[owner], value
        if d > 1:
            path[:, 1:-1] = predict(mixed.reshape(-1, d)).reshape(len(turn), d - 1, *value.shape)
        changes = np.diff(path, axis=1)
        index = turn.reshape(*turn.shape, *[1] * value.ndim)
        total += np.take_along_axis(changes, index, axis=1).sum(axis=0)
    return total / (b * p)
