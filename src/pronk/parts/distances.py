"""Distances of all pairs of rows, which never cancel.

Up to ``DIRECT_COLUMNS`` columns they are sums of squared differences in a compiled loop that runs
along the points, so a value depends on its two points alone and not on how the stream is cut into
blocks. Wider rows go through BLAS as |x-o|^2 + |z-o|^2 - 2 (x-o)'(z-o) with the origin o moved to
the first point of Z, and the pairs that lost more than three digits are computed again from the
differences.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Widest rows whose distances are summed directly; beyond, BLAS is faster (benchmarks/bench_parts).
DIRECT_COLUMNS = 32
#: Points handled at a time, so that one row of distances stays in the first-level cache.
_TILE = 512
#: A squared distance below this share of the two squared norms is computed again.
_CANCELLED = 1e-3


@njit(cache=True, nogil=True, fastmath={"contract"})
def _square_distances(X: Array, Zt: Array, out: Array) -> None:
    """out[i, j] = sum_k (X[i, k] - Zt[k, j])^2."""
    n, d = X.shape
    m = Zt.shape[1]
    for start in range(0, m, _TILE):
        stop = min(start + _TILE, m)
        for i in range(n):
            row = out[i, start:stop]
            row[:] = 0.0
            for k in range(d):
                x = X[i, k]
                z = Zt[k, start:stop]
                for j in range(stop - start):
                    step = x - z[j]
                    row[j] += step * step


@njit(cache=True, nogil=True, fastmath={"contract"})
def _absolute_distances(X: Array, Zt: Array, out: Array) -> None:
    """out[i, j] = sum_k |X[i, k] - Zt[k, j]|."""
    n, d = X.shape
    m = Zt.shape[1]
    for start in range(0, m, _TILE):
        stop = min(start + _TILE, m)
        for i in range(n):
            row = out[i, start:stop]
            row[:] = 0.0
            for k in range(d):
                x = X[i, k]
                z = Zt[k, start:stop]
                for j in range(stop - start):
                    row[j] += abs(x - z[j])


@njit(cache=True, nogil=True, fastmath={"contract"})
def _from_products(X: Array, Z: Array, products: Array, limit: float) -> None:
    """products[i, j] = x_i'z_j becomes |x_i - z_j|^2; pairs that cancelled are summed again."""
    n, d = X.shape
    m = Z.shape[0]
    norms = np.empty(m)
    for j in range(m):
        total = 0.0
        for k in range(d):
            total += Z[j, k] * Z[j, k]
        norms[j] = total
    for i in range(n):
        norm = 0.0
        for k in range(d):
            norm += X[i, k] * X[i, k]
        for j in range(m):
            both = norm + norms[j]
            value = both - 2.0 * products[i, j]
            if value < limit * both:
                value = 0.0
                for k in range(d):
                    step = X[i, k] - Z[j, k]
                    value += step * step
            products[i, j] = value


def square_distances(X: Array, Z: Array, out: Array | None = None) -> Array:
    """|x_i - z_j|^2 for all pairs, accurate to a relative 1e-12 however close the points are."""
    if out is None:
        out = np.empty((len(X), len(Z)))
    if X.shape[1] <= DIRECT_COLUMNS:
        _square_distances(X, np.ascontiguousarray(Z.T), out)
    elif len(Z):
        X0, Z0 = X - Z[0], Z - Z[0]
        np.matmul(X0, Z0.T, out=out)
        _from_products(X0, Z0, out, _CANCELLED)
    return out


def absolute_distances(X: Array, Z: Array, out: Array | None = None) -> Array:
    """|x_i - z_j|_1 for all pairs."""
    if out is None:
        out = np.empty((len(X), len(Z)))
    _absolute_distances(X, np.ascontiguousarray(Z.T), out)
    return out
