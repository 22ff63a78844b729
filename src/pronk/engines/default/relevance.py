"""How much each column matters: root mean squares of the derivatives of a fit on the first rows.

Kernel ridge regression on some of the rows as points, with the Gaussian kernel at the median
distance; its derivative along a column, squared and averaged over rows and outputs, is a diagonal
entry of the average gradient outer product. Columns are multiplied by the root and the fit is made
once more (two rounds), so that a column that says nothing hardly counts in distances.

References: Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism for feature learning in neural
networks and backpropagation-free machine learning models", Science 2024; Beaglehole et al., "xRFM",
2025.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.parts.kernels import Gaussian
from pronk.parts.linalg import cholesky, solve_lower

Array = NDArray[np.float64]

#: Rounds, most points and rows of a fit, and its regularisation in rows.
ROUNDS, POINTS, ROWS, ALPHA = 2, 256, 1024, 1.0
#: Fewer rows than this many a column say too little about relevance: that of wide rows (categories
#: as zeros and ones) pays as soon as there are as many rows as columns.
ROWS_A_COLUMN = 1
#: Weights below this share of the largest count as this share.
SMALLEST = 0.02


def relevance(Z: Array, Y: Array, unit: float) -> Array:
    """Weights of the columns, the largest 1; all 1 where rows are too few.

    ``unit`` is the typical distance of the rows as they are.
    """
    weights = np.ones(Z.shape[1])
    squares = Z.var(axis=0)
    varied = squares > 0.0
    if len(Z) < max(64, ROWS_A_COLUMN * int(varied.sum())) or not Y.shape[1]:
        return weights
    Z, Y = Z[-ROWS:], Y[-ROWS:]
    points = Z[:: max(1, len(Z) // POINTS)][:POINTS]
    for _ in range(ROUNDS):
        slopes = derivative_sizes(Z * weights, Y, points * weights, unit)
        slopes = slopes * weights  # along the columns as they are
        if not slopes.max() > 0.0:
            return np.ones(Z.shape[1])
        before = squares @ weights**2
        # A column that was constant so far may matter when it changes.
        weights = np.where(varied, np.maximum(slopes / slopes.max(), SMALLEST), 1.0)
        unit *= float(np.sqrt(squares @ weights**2 / before))
    return weights


def derivative_sizes(Z: Array, Y: Array, points: Array, unit: float) -> Array:
    """Root mean square of the fit's derivative along each column, over rows and outputs."""
    kernel = Gaussian(unit)
    K, KP = kernel(Z, points), kernel(points, points)
    A = K.T @ K + ALPHA * KP + 1e-6 * np.eye(len(points))
    L = cholesky(A, "relevance matrix")
    coefficients = solve_lower(L, solve_lower(L, K.T @ Y), transposed=True)
    squares = np.zeros(Z.shape[1])
    for a in coefficients.T:
        W = K * a
        slopes = (W @ points - W.sum(axis=1)[:, None] * Z) / unit**2
        squares += np.mean(slopes * slopes, axis=0)
    return np.asarray(np.sqrt(squares / Y.shape[1]))
