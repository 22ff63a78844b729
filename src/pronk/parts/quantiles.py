"""Quartiles of a stream in bounded memory: a sample evenly spread over all rows so far.

Every stride-th row is held, the stride being 1 at first. When `HELD` rows are held, every other
one is dropped and the stride doubles, so between HELD/2 and HELD rows stand for the whole stream,
evenly in time, without random numbers. The quartiles are those of the held values: exact up to HELD
rows, later with the error of a sample of that size (two to three percent in rank). One wild value
is one value of the sample, however large it is; interpolating estimators such as P2 are dragged
along.

Rows that are not held do not move the quartiles. A period of the data that is a multiple of a power
of two may be seen at one phase only.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Most values held of a column; even.
HELD = 512

#: The deviation of a normal column is this share of the distance of its quartiles.
NORMAL = 0.7413011092528009


@njit(cache=True, nogil=True)
def _order(held: Array, size: int, x: float, place: int, i: int) -> float:
    """The i-th smallest of the ``size`` sorted values and x, which would stand at ``place``.

    A negative ``place`` leaves x out.
    """
    if place < 0 or i < place:
        return held[i]
    return x if i == place else held[i - 1]


@njit(cache=True, nogil=True)
def _quantile(held: Array, size: int, x: float, place: int, share: float) -> float:
    """The quantile by linear interpolation between the sorted values."""
    last = size - 1 if place < 0 else size
    position = share * last
    i = int(position)
    low = _order(held, size, x, place, i)
    if position == i:
        return low
    return low + (position - i) * (_order(held, size, x, place, i + 1) - low)


@njit(cache=True, nogil=True)
def _standing(held: Array, size: int, x: float, joins: bool) -> float:
    """(x - median) / (0.7413 (upper - lower quartile)); x is one of the values if it ``joins``.

    Where the middle half of the values is one value the whole range stands for the quartiles; 0
    where all values are one.
    """
    place = np.searchsorted(held[:size], x, side="right") if joins else -1
    low = _quantile(held, size, x, place, 0.25)
    high = _quantile(held, size, x, place, 0.75)
    spread = high - low
    if spread <= 0.0:
        spread = _quantile(held, size, x, place, 1.0) - _quantile(held, size, x, place, 0.0)
    if spread <= 0.0:
        return 0.0
    return (x - _quantile(held, size, x, place, 0.5)) / (NORMAL * spread)


@njit(cache=True, nogil=True)
def thin(values: Array, ordered: Array) -> None:
    """Drop every other of the HELD values of each column, in the order in which they came."""
    half = HELD // 2
    for j in range(values.shape[0]):
        values[j, :half] = values[j, ::2].copy()
        ordered[j, :half] = np.sort(values[j, :half])


@njit(cache=True, nogil=True)
def learn_scaled(X: Array, values: Array, ordered: Array, rows: int, stride: int) -> Array:
    """The rows scaled by the held values, after joining them where it is their turn.

    ``values`` (columns, HELD) in the order they came and ``ordered``, the same sorted, go on;
    ``rows`` came before, and every ``stride``-th of them is held.
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


@njit(cache=True, nogil=True)
def scaled_as_next(X: Array, ordered: Array, size: int, joins: bool) -> Array:
    """Each row scaled as if it came next; nothing changes."""
    scaled = np.empty_like(X)
    for t in range(X.shape[0]):
        for j in range(X.shape[1]):
            scaled[t, j] = _standing(ordered[j], size, X[t, j], joins)
    return scaled


def stride_after(rows: int) -> int:
    """Every how many rows one is held, after so many rows."""
    stride = 1
    while (rows + stride - 1) // stride > HELD:
        stride *= 2
    return stride
