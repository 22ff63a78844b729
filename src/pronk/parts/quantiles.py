"""Quantiles of a stream in nine numbers a column: the P2 algorithm, extended to the quartiles.

Nine markers hold heights q_0 <= .. <= q_8 at ranks n_0 < .. < n_8 of the values so far; marker i
wants the share p_i = i/8 of them. A value joins its cell, the ranks above it grow by one, and a
marker whose rank is off by one or more moves by d = +-1 to the height of the parabola through its
neighbours,

    q_i + d/(n_+ - n_-) [(n_i - n_- + d) (q_+ - q_i)/(n_+ - n_i)
                         + (n_+ - n_i - d) (q_i - q_-)/(n_i - n_-)],

or on the straight line where the parabola would leave the interval. The first nine values are kept
as they are, sorted. O(1) a value, and the same numbers however the stream is cut.

References: Jain, Chlamtac, "The P2 algorithm for dynamic calculation of quantiles and histograms
without storing observations", CACM 1985; Raatikainen, "Simultaneous estimation of several
percentiles", Simulation 1987.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Markers of a column; the quartiles are markers 2, 4 and 6.
MARKERS = 9


@njit(cache=True, fastmath={"contract"})
def _join(heights: Array, ranks: Array, seen: int, x: float) -> None:
    """One value joins the markers of its column; ``seen`` values came before it."""
    if seen < MARKERS:
        i = seen
        while i > 0 and heights[i - 1] > x:
            heights[i] = heights[i - 1]
            i -= 1
        heights[i] = x
        ranks[seen] = seen
        return
    heights[0] = min(heights[0], x)
    heights[MARKERS - 1] = max(heights[MARKERS - 1], x)
    for i in range(1, MARKERS - 1):
        if x < heights[i]:
            ranks[i] += 1.0
    ranks[MARKERS - 1] += 1.0
    for i in range(1, MARKERS - 1):
        wanted = seen * i / (MARKERS - 1)
        low, here, high = ranks[i - 1], ranks[i], ranks[i + 1]
        if wanted - here >= 1.0 and high - here > 1.0:
            d = 1.0
        elif wanted - here <= -1.0 and low - here < -1.0:
            d = -1.0
        else:
            continue
        up = (heights[i + 1] - heights[i]) / (high - here)
        down = (heights[i] - heights[i - 1]) / (here - low)
        q = heights[i] + d / (high - low) * ((here - low + d) * up + (high - here - d) * down)
        if not heights[i - 1] < q < heights[i + 1]:
            q = heights[i] + (up if d > 0.0 else -down)
        heights[i] = q
        ranks[i] = here + d


@njit(cache=True, fastmath={"contract"})
def _standing(heights: Array, seen: int, x: float) -> float:
    """(x - median) / (0.7413 (q75 - q25)), where 0.7413 makes a normal column have deviation 1.

    Where the middle half of the values is one value the whole range stands for the quartiles; 0
    where all values are one.
    """
    if seen < MARKERS:  # the exact quartiles of a few sorted values
        last = seen - 1
        low = _between(heights, 0.25 * last)
        middle = _between(heights, 0.5 * last)
        high = _between(heights, 0.75 * last)
    else:
        last = MARKERS - 1
        low, middle, high = heights[2], heights[4], heights[6]
    spread = high - low
    if spread <= 0.0:
        spread = heights[last] - heights[0]
    if spread <= 0.0:
        return 0.0
    return (x - middle) / (0.7413011092528009 * spread)


@njit(cache=True)
def _between(heights: Array, place: float) -> float:
    i = int(place)
    if place == i:
        return heights[i]
    return heights[i] + (place - i) * (heights[i + 1] - heights[i])


@njit(cache=True)
def learn_scaled(X: Array, heights: Array, ranks: Array, seen: int) -> Array:
    """The rows scaled by the quartiles of all rows up to and including themselves.

    ``heights`` and ``ranks`` are (columns, 9) and go on; ``seen`` is the number of rows before.
    """
    scaled = np.empty_like(X)
    for t in range(X.shape[0]):
        for j in range(X.shape[1]):
            _join(heights[j], ranks[j], seen + t, X[t, j])
            scaled[t, j] = _standing(heights[j], seen + t + 1, X[t, j])
    return scaled


@njit(cache=True)
def scaled_as_next(X: Array, heights: Array, ranks: Array, seen: int) -> Array:
    """Each row scaled as if it came next; the markers stay."""
    scaled = np.empty_like(X)
    q, n = np.empty(MARKERS), np.empty(MARKERS)
    for t in range(X.shape[0]):
        for j in range(X.shape[1]):
            q[:] = heights[j]
            n[:] = ranks[j]
            _join(q, n, seen, X[t, j])
            scaled[t, j] = _standing(q, seen + 1, X[t, j])
    return scaled
