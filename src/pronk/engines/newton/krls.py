"""Least squares in the span of a dictionary chosen by approximate linear dependence (KRLS-ALD).

With a(x) = K^-1 k(x) over the dictionary the prediction is k(x)'w = a(x)'theta, theta = K w, and
theta minimises the sum of squares over the rows a_t: plain recursive least squares. A row whose
squared distance to the span

    delta = k(x, x) - k(x)'K^-1 k(x)

exceeds nu enters the dictionary: its row is a unit vector in a new coordinate, in which all earlier
rows are 0. So growing adds 1 to the diagonal of A = sum a a' and y to b = sum y a, and A never
needs a regulariser.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton.learner import Newton, Squared
from pronk.parts.embeddings import DEPENDENT
from pronk.parts.kernels import Kernel
from pronk.parts.linalg import GrowingCholesky, GrowingRows
from pronk.parts.state import Part, Rows, Stateful

Array = NDArray[np.float64]

#: Rows whose kernel values are held at a time.
CHUNK = 256


class LeastSquares(Newton):
    """Least squares without a regulariser, as every coordinate begins with a unit row."""

    def __init__(self, outputs: int) -> None:
        super().__init__(Squared(anticipate=False), 1.0, 0, outputs)

    def grow_with_row(self, targets: Array) -> None:
        """One more coordinate, and the row that is 1 in it and 0 elsewhere."""
        self.grow()  # puts alpha = 1 on the diagonal of A and of its factor
        self._b[-1] = targets
        self._beta[-1] = targets


class KRLS(Stateful):
    """The dictionary, the factor L L' = K, and least squares in the coordinates K^-1 k."""

    def __init__(self, kernel: Kernel, nu: float, columns: int, outputs: int = 1) -> None:
        self.kernel, self.nu = kernel, nu
        self._points = GrowingRows(columns)
        self._factor = GrowingCholesky()
        self.learner = LeastSquares(outputs)

    @property
    def points(self) -> Array:
        """The dictionary, oldest first."""
        return self._points.values

    def learn(self, X: Array, Y: Array) -> Array:
        """Predict then learn each row."""
        out = np.empty(Y.shape)
        for start in range(0, len(X), CHUNK):
            rows = slice(start, start + CHUNK)
            self._learn_chunk(X[rows], Y[rows], out[rows])
        return out

    def _learn_chunk(self, X: Array, Y: Array, out: Array) -> None:
        V = self._factor.solve(np.ascontiguousarray(self.kernel(X, self.points).T))  # L^-1 k
        diagonal = self.kernel.diagonal(X)
        delta = diagonal - np.einsum("ij,ij->j", V, V)
        least = np.maximum(self.nu, DEPENDENT * diagonal)  # below, delta is rounding
        while len(X):
            new = np.flatnonzero(delta > least)
            stop = int(new[0]) if len(new) else len(X)
            out[:stop] = self.learner.learn(self._coordinates(V[:, :stop]), Y[:stop])
            if not len(new):
                break
            row = slice(stop, stop + 1)
            out[row] = self.learner.predict(self._coordinates(V[:, row]))
            column = self.kernel(X[stop + 1 :], X[row])[:, 0]
            v = self._enter(X[row], Y[stop], diagonal[stop], column, V[:, stop], V[:, stop + 1 :])
            X, Y, out, V = X[stop + 1 :], Y[stop + 1 :], out[stop + 1 :], v
            diagonal, least = diagonal[stop + 1 :], least[stop + 1 :]
            delta = delta[stop + 1 :] - v[-1] * v[-1]

    def _enter(
        self, x: Array, y: Array, diagonal: float, column: Array, own: Array, later: Array
    ) -> Array:
        """Take a row into the dictionary; L^-1 k of the later rows in the larger span."""
        pivot = self._factor.append(own[:, None], np.array([[diagonal]]))[0, 0]
        self._points.append(x)
        self.learner.grow_with_row(y)
        return np.vstack((later, (column - own @ later) / pivot))

    def _coordinates(self, V: Array) -> Array:
        """K^-1 k = L^-T (L^-1 k), one row a row."""
        return np.ascontiguousarray(self._factor.solve_transposed(V).T)

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        parts = []
        for start in range(0, len(X), CHUNK):
            K = self.kernel(X[start : start + CHUNK], self.points)
            V = self._factor.solve(np.ascontiguousarray(K.T))
            parts.append(self.learner.predict(self._coordinates(V)))
        return np.concatenate(parts)

    def remap(self, matrix: Array) -> None:
        """New outputs as linear combinations of the old."""
        self.learner.remap(matrix)

    STATE = (
        Rows("points", ("points", "columns")),
        Part("factor", sizes={"size": "points"}),
        Part("learner", "learner", sizes={"size": "points"}),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._points.columns}
