"""Representation: what the experts and the forest read of a row, found from the first rows.

All of it follows from fits of the targets on some of the rows and from their gradients: kernel
ridge regression in exp(-d(x, z) / h), h half the median distance, in a metric that the gradients of
the fit before have changed. With g_t the gradients at the rows, the mean of g g' is the average
gradient outer product.

**Relevance** of a column is the root of its entry on the diagonal, the root mean square of the
derivative along it. Columns are multiplied by their relevance, so that an irrelevant column has
little effect on distances.

**The metric of the local experts** (`local`) is found in the same way, with their kernel, the
Laplace kernel of sums of absolute differences: regions are cut and leaves are fitted in it, so it
matters more there.

**Columns with heavy tails** are compressed (`column_scale`) where that lowers the leave-one-out
error of a fit.

**Directions** (`full_metric`) are combinations of columns along which a fit changes: the root of
the full average gradient outer product. A smooth function of few directions is a problem of few
dimensions in them, whatever the number of columns.

References: Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism for feature learning in neural
networks and backpropagation-free machine learning models", Science 2024; Beaglehole et al.,
"xRFM", 2025.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from pronk.core.compiling import compiled
from pronk.core.kernels import Gaussian, Kernel, Laplacian
from pronk.core.linalg import cholesky, solve_lower
from pronk.core.randomness import generator
from pronk.core.scales import FixedScale, without_outliers
from pronk.core.state import Numbers, Part, Stateful

Array = NDArray[np.float64]

# -- fits and their gradients -----------------------------------------------------------------

#: Rows of a fit; its regularisation; most combinations of outputs that are fitted.
FIT_ROWS, FIT_ALPHA, FIT_OUTPUTS = 768, 0.03, 4
#: Random stream of the combinations.
COMBINATIONS = 6
#: Most rows whose distances a median is taken of.
MEDIAN_ROWS = 256


def fitted_rows(Z: Array, Y: Array, seed: int, rows: int, outputs: int) -> tuple[Array, Array]:
    """Return at most ``rows`` rows, and their targets or some combinations of these.

    Many outputs are combined with random signs, which leaves the expected squares unchanged.
    """
    Z, Y = (values[:: max(1, len(values) // rows)][:rows] for values in (Z, Y))
    if Y.shape[1] > outputs:
        Y = Y @ generator(seed, COMBINATIONS).choice([-1.0, 1.0], (Y.shape[1], outputs))
    return Z, np.ascontiguousarray(Y)


def fit_gradients(Q: Array, Y: Array) -> tuple[list[Array], Array]:
    """Fit Y (n, outputs) on rows Q (n, columns).

    Return the gradients (n, columns) of the fit of each output, and the factor L of K + alpha I.
    """
    distances = np.sqrt(Gaussian().distances(Q, Q))
    h = half_median(distances)
    K = Laplacian(h).from_distances(distances.copy())
    L = cholesky(K + FIT_ALPHA * np.eye(len(K)), "metric")
    W = np.divide(K, h * distances, out=np.zeros_like(K), where=distances > 0.0)
    return gradients(Q, W, fitted(L, Y)), L


def fitted(L: Array, Y: Array) -> Array:
    """Return a = (K + alpha I)^-1 Y (n, outputs), L L' = K + alpha I."""
    return solve_lower(L, solve_lower(L, Y), transposed=True)


def left_out_errors(L: Array, Y: Array) -> Array:
    """Return the errors (n, outputs) of rows that are left out of the fit, L L' = K + alpha I.

    That of row i is a_i / ((K + alpha I)^-1)_ii.
    """
    inverse = dtrtri(L, lower=1)[0]  # of L: the squares of its columns sum to the diagonal
    return np.asarray(fitted(L, Y) / np.einsum("ij,ij->j", inverse, inverse)[:, None])


def gradients(Q: Array, W: Array, a: Array) -> list[Array]:
    """Return the gradients g_t at all rows, (n, columns), of the fit of each output.

    f(q) = sum_i a_i exp(-|q - q_i| / h) has g_t = sum_i a_i W_ti (q_i - q_t), with
    W_ti = exp(-|q_t - q_i| / h) / (h |q_t - q_i|) and W_tt = 0. Q is (n, columns), a (n, outputs).
    """
    parts = [W * own for own in a.T]
    return [V @ Q - V.sum(axis=1)[:, None] * Q for V in parts]


# -- relevance --------------------------------------------------------------------------------

#: Rounds; last rows that are read; fewest rows, and fewest rows per column: for wide rows (one-hot
#: categories) relevance helps as soon as there are as many rows as columns.
ROUNDS, LAST_ROWS, LEAST_ROWS, ROWS_PER_COLUMN = 4, 1024, 64, 1
#: Smallest weight, as a share of the largest.
SMALLEST = 0.02


def relevance(Z: Array, Y: Array, seed: int) -> Array:
    """Return weights (columns,) of the columns, the largest 1; all 1 if there are too few rows.

    Z (n, columns) are first rows, Y (n, outputs) their targets.
    """
    weights, varied = np.ones(Z.shape[1]), Z.var(axis=0) > 0.0
    if len(Z) < max(LEAST_ROWS, ROWS_PER_COLUMN * int(varied.sum())) or not Y.shape[1]:
        return weights
    Z, Y = fitted_rows(Z[-LAST_ROWS:], Y[-LAST_ROWS:], seed, FIT_ROWS, FIT_OUTPUTS)
    for _ in range(ROUNDS):
        own, _ = fit_gradients(np.ascontiguousarray(Z * weights), Y)
        squares = sum((g * g).sum(axis=0) for g in own)
        slopes = np.sqrt(squares) * weights  # along the columns as they are
        if not slopes.max() > 0.0:
            return np.ones(Z.shape[1])
        weights = np.maximum(slopes / slopes.max(), SMALLEST)
    # A column that was constant so far may matter when it changes.
    return np.where(varied, weights, 1.0)


# -- the learned metric of the local experts -----------------------------------------------------

#: Rounds; rows of a fit; its regularisation; most combinations of outputs that are fitted.
METRIC_ROUNDS, METRIC_ROWS, METRIC_ALPHA, METRIC_OUTPUTS = 3, 1024, 0.03, 8


@compiled(fastmath=True)
def add_squared_slopes(Q: NDArray[np.float32], W: NDArray[np.float32], squares: Array) -> None:
    """Add the sum over rows of (sum_i W_ti sign(Q_jt - Q_ji))^2 to ``squares`` (columns,).

    Q (columns, n) are the rows, W (n, n).
    """
    zero, one = np.float32(0.0), np.float32(1.0)
    for j in range(len(Q)):
        column = Q[j]
        for t in range(column.size):
            here, weights, slope = column[t], W[t], zero
            for i in range(column.size):
                up = one if here > column[i] else zero
                down = one if here < column[i] else zero
                slope += weights[i] * (up - down)
            squares[j] += np.float64(slope) * np.float64(slope)


def gradient_metric(Z: Array, Y: Array, seed: int, weights: Array | None = None) -> Array:
    """Return factors (columns,), the largest 1: how much a fit of Y changes along each column.

    Z (n, columns) are first rows, Y (n, outputs) their targets. The fit is a kernel ridge
    regression with the Laplace kernel of the local experts, and a factor is the root mean square of
    its derivative; three rounds, each in the metric of the one before, the first in the root of
    the `relevance`, which is ``weights`` if it is known. Columns that are constant so far have the
    smallest factor: their scale is that of their first change, which says little.
    """
    factors = np.sqrt(relevance(Z, Y, seed) if weights is None else weights)
    if not Y.shape[1]:
        return factors
    Z, Y = fitted_rows(Z, Y, seed, METRIC_ROWS, METRIC_OUTPUTS)
    for _ in range(METRIC_ROUNDS):
        Q = np.ascontiguousarray(Z * factors)
        distances = Laplacian().distances(Q, Q)
        # a = (K + alpha I)^-1 Y
        K = Laplacian(half_median(distances)).from_distances(distances)
        L = cholesky(K + METRIC_ALPHA * np.eye(len(K)), "metric")
        coefficients = fitted(L, Y)
        # df/dz_tj = -factor_j / h sum_i a_i k(z_t, z_i) sign(z_tj - z_ij)
        columns, squares = np.ascontiguousarray(Q.T, dtype=np.float32), np.zeros(Z.shape[1])
        for a in coefficients.T:
            add_squared_slopes(columns, (K * a).astype(np.float32), squares)
        slopes = np.sqrt(squares) * factors
        if not slopes.max() > 0.0:
            return factors
        factors = np.maximum(slopes / slopes.max(), SMALLEST)
    return np.asarray(factors)


def half_median(distances: Array) -> float:
    """Return half the median distance between rows, of at most `MEDIAN_ROWS`; 1 if that is 0.

    ``distances`` (n, n) are those between all rows.
    """
    step = -(-len(distances) // MEDIAN_ROWS)
    distances = distances[::step, ::step]
    median = float(np.median(distances[~np.tri(len(distances), dtype=np.bool_)]))
    return 0.5 * median if median > 0.0 else 1.0


def local_metrics(Z: Array, Y: Array, seed: int, weights: Array | None = None) -> Array:
    """Return the two metrics (2, columns) of the local experts: a mild form of the learned, and it.

    The mild form, its fourth root, leaves more weight to columns that the first rows do not show to
    matter. Z (n, columns) are first rows, Y (n, outputs) their informative targets, ``weights`` the
    `relevance` of the columns if it is known.
    """
    learned = gradient_metric(Z, Y, seed, weights)
    return in_half_medians(np.array([learned**0.25, learned]), Z)


def in_half_medians(metrics: Array, Z: Array) -> Array:
    """Return metrics (m, columns), each in units of half the median distance of first rows Z."""
    Z, scaled = Z[:: max(1, len(Z) // METRIC_ROWS)][:METRIC_ROWS], []
    for factors in metrics:
        Q = np.ascontiguousarray(Z * factors)
        scaled.append(factors / max(half_median(Laplacian().distances(Q, Q)), 1e-12))
    return np.array(scaled)


# -- directions that matter ---------------------------------------------------------------------

#: Rounds of the full metric, most columns that it reads, and most directions that are kept.
FULL_ROUNDS, FULL_COLUMNS, DIRECTIONS = 3, 256, 24


class FullMetric(NamedTuple):
    """A metric of rows: columns that it reads (places), M, and the leave-one-out error of its fit.

    M is symmetric, and 0 for columns that are constant so far and, of many, for the least relevant
    ones, which are not read.
    """

    columns: NDArray[np.intp]
    M: Array
    error: float

    def directions(self, wide: int) -> Array:
        """Return a matrix (wide, m) that maps rows to the directions with the largest values."""
        values, vectors = np.linalg.eigh(self.M)
        order = np.argsort(values)[::-1][:DIRECTIONS]
        weights = np.zeros((wide, len(order)))
        weights[self.columns] = vectors[:, order] * values[order]
        return weights


def full_metric(Z: Array, Y: Array, seed: int) -> FullMetric:
    """Return the metric whose directions are those along which a fit of Y changes.

    Z (n, columns) are first rows, Y (n, outputs) their targets. The fit is kernel ridge regression
    in exp(-|M (x - z)| / h), h half the median distance. With its gradients g_t at the rows,
    M <- root of the mean of g g', for some rounds; the M with the least leave-one-out error is
    kept, the identity included.
    """
    columns = np.flatnonzero(Z.var(axis=0) > 0.0)
    if not Y.shape[1] or not len(columns):
        return FullMetric(np.arange(Z.shape[1]), np.eye(Z.shape[1]), 0.0)
    if len(columns) > FULL_COLUMNS:
        order = np.argsort(-relevance(Z, Y, seed)[columns], kind="stable")
        columns = np.sort(columns[order[:FULL_COLUMNS]])
    Z, M = Z[:, columns], np.eye(len(columns))
    best = M
    Z, Y = fitted_rows(Z, Y, seed, FIT_ROWS, FIT_OUTPUTS)
    least = np.inf
    for _ in range(FULL_ROUNDS):
        own, L = fit_gradients(np.ascontiguousarray(Z @ M), Y)
        error = float(np.mean(left_out_errors(L, Y) ** 2))
        if error < least:
            least, best = error, M
        values, vectors = np.linalg.eigh(M @ sum(g.T @ g for g in own) @ M)
        roots = np.sqrt(np.maximum(values, 0.0))
        if not roots.max() > 0.0:
            break
        M = (vectors * (roots / roots.max())) @ vectors.T
    return FullMetric(columns, best, least)


# -- the scale of the columns ---------------------------------------------------------------------

#: A column is heavy-tailed if its values, outliers left out, reach more than this many half
#: distances of its quartiles from its median.
HEAVY = 6.0
#: Fewest rows for the choice, and the ratio of errors from which on columns are compressed.
CHOICE_ROWS, GAIN = 128, 1.01


class ColumnScale(Stateful):
    """The scales of some first rows (`FixedScale`), of columns of which some are compressed.

    A compressed column is asinh((x - median) / unit), with half the distance of its quartiles as
    ``unit``, which is 0 for the other columns.
    """

    def __init__(self, rows: Array, *, compressed: bool = False) -> None:
        columns = rows.shape[1]
        self._centre, self._unit = np.zeros(columns), np.zeros(columns)
        if compressed:
            inner = without_outliers(rows)
            low, self._centre, high = np.quantile(inner, (0.25, 0.5, 0.75), axis=0)
            unit = 0.5 * (high - low)
            heavy = np.abs(inner - self._centre).max(axis=0) > HEAVY * unit
            self._unit = np.where(heavy, unit, 0.0)
        self._scale = FixedScale(self._compressed(rows))

    @property
    def compresses(self) -> bool:
        """Whether some columns are compressed."""
        return bool(self._unit.any())

    def _compressed(self, X: Array) -> Array:
        chosen = np.flatnonzero(self._unit)
        if not len(chosen):
            return X
        out = X.copy()
        out[:, chosen] = np.arcsinh((X[:, chosen] - self._centre[chosen]) / self._unit[chosen])
        return out

    def learn_transform(self, X: Array) -> Array:
        """Return the scaled rows; columns that change for the first time get their unit."""
        return self._scale.learn_transform(self._compressed(X))

    def transform(self, X: Array) -> Array:
        """Return each row as it would be scaled if it came next; changes nothing."""
        return self._scale.transform(self._compressed(X))

    STATE = (
        Numbers("centre", ("columns",), written="replaced"),
        Numbers("unit", ("columns",), low=0.0, written="replaced"),
        Part("scale", sizes={"columns": "columns"}),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": len(self._unit)}


def column_scale(X: Array, Y: Array, seed: int) -> tuple[ColumnScale, FullMetric | None]:
    """Return the scale of first rows X, the first of which have targets Y (n, outputs).

    Heavy-tailed columns are compressed if that lowers the error of the fit of `full_metric`; the
    metric in the chosen scale comes with it where it was found.
    """
    plain = ColumnScale(X)
    if len(Y) < CHOICE_ROWS or not Y.shape[1]:
        return plain, None
    other = ColumnScale(X, compressed=True)
    if not other.compresses:
        return plain, None
    scales = plain, other
    metrics = [full_metric(scale.transform(X[: len(Y)]), Y, seed) for scale in scales]
    chosen = int(GAIN * metrics[1].error < metrics[0].error)
    return scales[chosen], metrics[chosen]


# -- distances --------------------------------------------------------------------------------


def typical_distance(kernel: Kernel, Z: Array) -> float:
    """Return the median distance between first rows, in the unit of the kernel's bandwidth."""
    rows = np.unique(Z[:: max(1, len(Z) // 256)], axis=0)
    if len(rows) < 2:
        return 1.0
    values = kernel.distances(rows, rows)[np.triu_indices(len(rows), 1)]
    median = float(np.median(values))
    if not median > 0.0:
        return 1.0
    return float(np.sqrt(median)) if kernel.squares else median
