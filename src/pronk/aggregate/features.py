"""The features of a row in all groups, by one compiled step.

A group (`settings.Group`) is a view of the row, a kernel and a span of points; its features are
phi = L^-1 k, k the kernel values of the row and the points, L the factor of the span. Groups of one
view share the distances from the row to the points. Where every kernel is exp(-rate * distance),
`write_features` does all of it; other kernels compute group by group.

No bit of a row's features depends on the other rows of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.settings import FULL, PLAIN, Group, View
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar
from pronk.core.linalg import solve_one
from pronk.newton.forecaster import weighted_sums

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

#: Points per pass over the rows, so that they stay in the cache.
TILE = 512


class Reader(NamedTuple):
    """What `write_features` reads: V views with M coordinates at most, G groups, P points.

    views    (V, 5) NUMBER, READ, COORDINATES, POINTS and SQUARES of each
    weights  (V, columns, directions) of the columns that it reads
    points   (V, M, P) as it reads them
    groups   (G, 4) VIEW, SIZE, DENSE of each, and its number of points
    rates    (G,)
    used     (G, R) points with a coordinate
    factors  (G, R, R) L
    """

    views: Whole
    weights: Array
    points: Array
    groups: Whole
    rates: Array
    used: Whole
    factors: Array


#: Columns of ``views``: number of the view, first columns of a row that it reads, coordinates that
#: it has, points, whether distances are squares.
NUMBER, READ, COORDINATES, POINTS, SQUARES = range(5)
#: Columns of ``groups``: place of the view, size of the span, whether all points have a coordinate.
VIEW, SIZE, DENSE = range(3)


@compiled(fastmath={"contract"})
def write_distances(X: Array, d: int, points: Array, m: int, squares: bool, out: Array) -> None:
    """Write the distances of rows X (n, d or more) to the first m points to ``out`` (n, P).

    ``points`` is (d or more, P). A distance is sum_k (x_k - z_k)^2, or sum_k |x_k - z_k|.
    """
    for start in range(0, m, TILE):
        stop = min(start + TILE, m)
        for i in range(len(X)):
            row = out[i, start:stop]
            row[:] = 0.0
            for k in range(d):
                x, z = X[i, k], points[k, start:stop]
                if squares:
                    for j in range(row.size):
                        step = x - z[j]
                        row[j] += step * step
                else:
                    for j in range(row.size):
                        row[j] += abs(x - z[j])


@compiled
def write_coordinates(Z: Array, view: Whole, weights: Array, X: Array) -> None:
    """Write rows Z (n, columns) as a view reads them to X (n, M)."""
    read, m = view[READ], view[COORDINATES]
    if view[NUMBER] == FULL:
        weighted_sums(Z, weights[:read, :m], X)
        return
    for i in range(len(Z)):
        for k in range(m):
            X[i, k] = Z[i, k] * weights[k, 0] if view[NUMBER] != PLAIN else Z[i, k]


@compiled(unroll=False)
def write_features(Z: Array, reader: Reader, out: Array) -> None:
    """Write the features of rows Z (n, columns) to ``out`` (G, n, R)."""
    V, M, P = reader.points.shape
    X, distances = np.empty((len(Z), M)), np.empty((V, len(Z), P))
    for v in range(V):
        view = reader.views[v]
        write_coordinates(Z, view, reader.weights[v], X)
        write_distances(
            X, view[COORDINATES], reader.points[v], view[POINTS], view[SQUARES] == 1, distances[v]
        )
    for g in range(len(reader.groups)):
        v, r, dense = reader.groups[g, VIEW], reader.groups[g, SIZE], reader.groups[g, DENSE]
        rate, used = reader.rates[g], reader.used[g]
        for i in range(len(Z)):
            # k_j = exp(-rate * distance_j),  phi = L^-1 k
            phi, near = out[g, i, :r], distances[v, i]
            if dense:
                for j in range(r):
                    phi[j] = exp_scalar(-rate * near[j])
            else:
                for j in range(r):
                    phi[j] = exp_scalar(-rate * near[used[j]])
            solve_one(reader.factors[g], phi)


def new_reader(groups: Sequence[Group], points: Array) -> Reader:
    """Return the reader of groups, whose spans are those of the first of ``points`` (P, wide)."""
    views: list[View] = []
    for group in groups:
        if group.view not in views:
            views.append(group.view)
    counts = [max(g.nystrom.points for g in groups if g.view is view) for view in views]
    most, size = max(counts), max(group.nystrom.size for group in groups)
    widths = [view.weights.shape[1] if view.number == FULL else len(view.weights) for view in views]
    shape = [max(view.weights.shape[i] for view in views) for i in range(2)]
    table, weights = np.zeros((len(views), 5), dtype=np.int64), np.zeros((len(views), *shape))
    held = np.zeros((len(views), max(widths), most))
    for v, (view, count, width) in enumerate(zip(views, counts, widths, strict=True)):
        table[v] = view.number, len(view.weights), width, count, view.kernel.squares
        weights[v, : len(view.weights), : view.weights.shape[1]] = view.weights
        held[v, :width, :count] = view.rows(points[:count]).T
    kinds, rates = np.zeros((len(groups), 3), dtype=np.int64), np.empty(len(groups))
    used = np.zeros((len(groups), size), dtype=np.int64)
    factors = np.zeros((len(groups), size, size))
    for g, group in enumerate(groups):
        span = group.nystrom
        kinds[g] = views.index(group.view), span.size, span.size == span.points
        rates[g] = group.kernel.exponent
        used[g, : span.size] = span.used
        factors[g, : span.size, : span.size] = span.factor[: span.size, : span.size]
    return Reader(table, weights, held, kinds, rates, used, factors)


class Features:
    """The features of all groups on some points (P, wide)."""

    def __init__(self, groups: Sequence[Group], points: Array) -> None:
        self._groups, self._points = list(groups), points
        self._size = max(group.nystrom.size for group in groups)
        self._reader: Reader | None = None
        if all(group.kernel.exponent is not None for group in groups):
            self._reader = new_reader(groups, points)

    def of(self, Z: Array) -> Array:
        """Return the features (groups, n, R) of rows Z; of each group, the first are set."""
        out = np.empty((len(self._groups), len(Z), self._size))
        if self._reader is not None:
            write_features(np.ascontiguousarray(Z), self._reader, out)
            return out
        for group, own in zip(self._groups, out, strict=True):
            points = group.view.rows(self._points[: group.nystrom.points])
            own[:, : group.nystrom.size] = group.features(Z, points)
        return out
