"""Columns brought to a common size from the first rows of a stream, then left as they are.

Kernel features of earlier rows cannot be rescaled, so a learner that keeps them fixes its scales
once it has seen some rows. With the range w_j and the deviation s_j of column j in those rows,

    z_j = (g(x_j) - mean_j) / sqrt(w_j s_j),

g(x) = x up to half a range beyond the values in those rows, and farther out, with h = w_j / 2,

    g(high + x) = high + h log(1 + x / h),     g(low - x) = low - h log(1 + x / h).

The geometric mean of range and deviation stands between the two usual choices: the range alone
lets one outlier flatten a column, the deviation alone makes a rare indicator the longest axis. The
logarithm keeps rows near the points in a column that grows without end (a date, a counter), and
such a column still tells later rows from earlier ones; outliers of a thousand ranges lie eight
half ranges beyond the others.

Outliers among those rows do not count: with the few least and largest values of a column left out
(one in five hundred at each end, at least one), a value farther from the rest than ten times their
range is replaced by the nearest value that is not.

A column that was constant is 0. Whatever its unit, all distances so far were 0 along it, so the
unit can still be chosen when the column first changes: that first step counts as 1.
"""

from __future__ import annotations

import numpy as np

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.state import Numbers, Sizes, Stateful, require

#: A range below this share of the largest value is rounding.
_ROUNDING = 1e-12
#: Values this many ranges of the others away are outliers.
_OUTLIER = 10.0
#: How far, in first steps, a late column goes to either side without compression.
_LATE_REACH = 1.5
#: Largest x / h.
_FARTHEST = 1e300


@compiled
def _compressed(x: float, low: float, high: float, width: float) -> float:
    """Return g(x), the logarithmic compression of x beyond [low, high]."""
    half = 0.5 * width
    if x > high:
        return high + half * np.log1p(min((x - high) / half, _FARTHEST))
    if x < low:
        return low - half * np.log1p(min((low - x) / half, _FARTHEST))
    return x


@compiled
def _scale(
    X: Array, centre: Array, unit: Array, low: Array, high: Array, width: Array, out: Array
) -> None:
    """Scale rows X (n, columns) into out; a column without a unit becomes 0, or +-1 if changed."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if unit[j] > 0.0:
                out[i, j] = (_compressed(X[i, j], low[j], high[j], width[j]) - centre[j]) / unit[j]
            else:
                step = X[i, j] - centre[j]
                moved = abs(step) > _ROUNDING * abs(X[i, j])
                out[i, j] = np.sign(step) if moved else 0.0


@compiled
def _first_change(X: Array, centre: Array, unit: Array, first: int) -> tuple[int, int] | None:
    """Return row and column of the first change of a column without a unit, or None.

    Columns before ``first`` are left out.
    """
    for j in range(first, X.shape[1]):
        if unit[j] == 0.0:
            for i in range(X.shape[0]):
                if abs(X[i, j] - centre[j]) > _ROUNDING * abs(X[i, j]):
                    return i, j
    return None


class FixedScale(Stateful):
    """The scales of some first rows; multiplying a column by a number changes nothing."""

    def __init__(self, rows: Array) -> None:
        rows = without_outliers(rows)
        least, largest = rows.min(axis=0), rows.max(axis=0)
        width = largest - least
        varied = width > _ROUNDING * np.maximum(np.abs(least), np.abs(largest))
        self.width = np.where(varied, width, 0.0)
        divisor = np.where(varied, width, 1.0)
        shares = (rows - least) / divisor  # in [0, 1]: no square can overflow
        self.centre = np.where(varied, least + shares.mean(axis=0) * divisor, rows[0])
        self.unit = np.where(varied, width * np.sqrt(shares.std(axis=0)), 0.0)
        self.low = np.where(varied, least - 0.5 * width, rows[0])
        self.high = np.where(varied, largest + 0.5 * width, rows[0])

    def learn_transform(self, X: Array) -> Array:
        """Return the scaled rows; columns that change for the first time get their unit."""
        j = -1
        while (place := _first_change(X, self.centre, self.unit, j + 1)) is not None:
            i, j = place
            self.unit[j] = self.width[j] = unit = abs(X[i, j] - self.centre[j])
            self.low[j] = self.centre[j] - _LATE_REACH * unit
            self.high[j] = self.centre[j] + _LATE_REACH * unit
        return self.transform(X)

    def transform(self, X: Array) -> Array:
        """Return each row as it would be scaled if it came next; changes nothing."""
        Z = np.empty(X.shape)
        _scale(X, self.centre, self.unit, self.low, self.high, self.width, Z)
        return Z

    STATE = (
        Numbers("centre", ("columns",), "centre"),
        Numbers("width", ("columns",), "width", low=0.0),
        Numbers("unit", ("columns",), "unit", low=0.0),
        Numbers("low", ("columns",), "low"),
        Numbers("high", ("columns",), "high"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": len(self.centre)}

    def _restored(self, sizes: Sizes) -> None:
        require((self.low <= self.high).all(), "low is above high")
        require((self.width[self.unit > 0.0] > 0.0).all(), "width is 0 where unit is not")


def without_outliers(rows: Array) -> Array:
    """Return the rows with outliers replaced by the ends of the other values, by column."""
    trimmed = 1 + len(rows) // 500
    if len(rows) < 2 * trimmed + 3:
        return rows
    ordered = np.sort(rows, axis=0)
    low, high = ordered[trimmed], ordered[-1 - trimmed]
    reach = _OUTLIER * (high - low)
    kept = (ordered >= low - reach) & (ordered <= high + reach)
    least = np.take_along_axis(ordered, kept.argmax(axis=0)[None], axis=0)[0]
    last = len(rows) - 1 - kept[::-1].argmax(axis=0)
    largest = np.take_along_axis(ordered, last[None], axis=0)[0]
    varied = reach > 0.0  # where all but a few are one number, the few are not outliers
    return np.asarray(np.where(varied, np.clip(rows, least, largest), rows))


# -- quartiles of a stream in bounded memory: a sample evenly spread over all rows so far ----------
#
# Every stride-th row is held, the stride being 1 at first. When `HELD` rows are held, every other
# one is dropped and the stride doubles, so between HELD/2 and HELD rows represent the whole stream,
# evenly in time, without random numbers. The quartiles are those of the held values: exact up to
# HELD rows, later with the error of a sample of that size (two to three percent in rank). An
# outlier is one value of the sample, however large it is; it would shift interpolating estimators
# such as P2.
#
# Rows that are not held do not change the quartiles. If the data have a period that is a multiple
# of a power of two, the sample may contain one phase only.

#: Most values held of a column; even.
HELD = 512

#: The deviation of a normal column is this share of the distance of its quartiles.
NORMAL = 0.7413011092528009


@compiled
def _order(held: Array, x: float, place: int, i: int) -> float:
    """Return the i-th smallest of the sorted values and x, whose rank is ``place``.

    A negative ``place`` leaves x out.
    """
    if place < 0 or i < place:
        return held[i]
    return x if i == place else held[i - 1]


@compiled
def _quantile(held: Array, size: int, x: float, place: int, share: float) -> float:
    """Return a quantile by linear interpolation between the sorted values."""
    last = size - 1 if place < 0 else size
    position = share * last
    i = int(position)
    low = _order(held, x, place, i)
    if position == i:
        return low
    return low + (position - i) * (_order(held, x, place, i + 1) - low)


@compiled
def _standing(held: Array, size: int, x: float, joins: bool) -> float:
    """Return (x - median) / (0.7413 (upper - lower quartile)); x is included if it ``joins``.

    Where the quartiles are equal, the whole range replaces their distance; 0 where all values are
    equal.
    """
    place = np.searchsorted(held[:size], x, side="right") if joins else -1
    low = _quantile(held, size, x, place, 0.25)
    high = _quantile(held, size, x, place, 0.75)
    width = high - low
    if width <= 0.0:
        width = _quantile(held, size, x, place, 1.0) - _quantile(held, size, x, place, 0.0)
    if width <= 0.0:
        return 0.0
    return (x - _quantile(held, size, x, place, 0.5)) / (NORMAL * width)


@compiled
def thin(values: Array, ordered: Array) -> None:
    """Drop every other of the HELD values of each column, in order of arrival."""
    half = HELD // 2
    for j in range(values.shape[0]):
        values[j, :half] = values[j, ::2].copy()
        ordered[j, :half] = np.sort(values[j, :half])


@compiled
def learn_scaled(X: Array, values: Array, ordered: Array, rows: int, stride: int) -> Array:
    """Return the rows (n, columns) scaled by the held values, which every stride-th row joins.

    ``values`` (columns, HELD), in order of arrival, and ``ordered``, the same sorted, are updated.
    ``rows`` is the number of rows before, of which every ``stride``-th is held.
    """
    scaled = np.empty_like(X)
    size = (rows + stride - 1) // stride
    for t in range(X.shape[0]):
        joins = (rows + t) % stride == 0
        if joins and size == HELD:
            thin(values, ordered)
            size, stride = size // 2, 2 * stride
        for j in range(X.shape[1]):
            x = X[t, j]
            scaled[t, j] = _standing(ordered[j], size, x, joins)
            if joins:
                values[j, size] = x
                place = np.searchsorted(ordered[j, :size], x, side="right")
                for i in range(size, place, -1):
                    ordered[j, i] = ordered[j, i - 1]
                ordered[j, place] = x
        size += joins
    return scaled


@compiled
def scaled_as_next(X: Array, ordered: Array, size: int, joins: bool) -> Array:
    """Return each row scaled as if it came next; changes nothing."""
    scaled = np.empty_like(X)
    for t in range(X.shape[0]):
        for j in range(X.shape[1]):
            scaled[t, j] = _standing(ordered[j], size, X[t, j], joins)
    return scaled


def stride_after(rows: int) -> int:
    """Return the stride after a number of rows: every stride-th row is held."""
    stride = 1
    while (rows + stride - 1) // stride > HELD:
        stride *= 2
    return stride
