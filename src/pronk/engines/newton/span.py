"""The exact engine in the span of all points: kernel ridge and Kernel-AWV forecasters.

It holds every row and a growing factor L L' = K + alpha I with U = L^-1 Y. For a row with
l = L^-1 k(x) and pivot d^2 = k(x, x) + alpha - |l|^2,

    ridge   f = l'U            AWV   f / (1 + q),   1 + q = d^2 / alpha

and the row appends (l, d) to L and (y - f) / d to U. For weighted rows K is S K S, S the roots of
the weights. A block of m rows is one triangular solve and
one Cholesky factor of m x m. Time O(t^2) a row, memory O(t^2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton.certificate import Certificate, account, new_ledger, squared_certificate
from pronk.parts.kernels import Kernel
from pronk.parts.linalg import GrowingCholesky, GrowingRows, recombined, solve_lower
from pronk.parts.state import Numbers, Part, Rows, Sizes, Stateful

Array = NDArray[np.float64]

#: Rows taken at a time: enough for matrix products, little kernel memory beside L.
BLOCK = 128


class ExactSpan(Stateful):
    """All points, the factor of K + alpha I, and U; any number of outputs."""

    def __init__(
        self, kernel: Kernel, alpha: float, anticipate: bool, columns: int, outputs: int = 1
    ) -> None:
        self.kernel, self.alpha, self.anticipate = kernel, alpha, anticipate
        self._points = GrowingRows(columns)
        self._factor = GrowingCholesky(floor=alpha)
        self._U = GrowingRows(outputs)
        self._ledger = new_ledger(outputs)
        self._coefficients: Array | None = None
        self._roots: Array | None = None  # of the rows' weights; all 1 until the first one comes

    @property
    def points(self) -> Array:
        return self._points.values

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        blocks = [slice(i, i + BLOCK) for i in range(0, len(X), BLOCK)]
        if weights is None and self._roots is None:
            return np.concatenate([self._learn_block(X[rows], Y[rows]) for rows in blocks])
        if self._roots is None:
            self._roots = np.ones(self._points.size)
        roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
        parts = [self._learn_block(X[rows], Y[rows], roots[rows]) for rows in blocks]
        return np.asarray(np.concatenate(parts))

    def _learn_block(self, X: Array, Y: Array, roots: Array | None = None) -> Array:
        """A row of weight w is sqrt(w) k(x, .) with sqrt(w) times the target and prediction."""
        if roots is None:
            return self._learn_values(X, self.kernel(self.points, X), self.kernel(X, X), Y)
        K = self._roots[:, None] * self.kernel(self.points, X) * roots  # type: ignore[index]
        own = roots[:, None] * self.kernel(X, X) * roots
        P = self._learn_values(X, K, own, Y * roots[:, None])
        self._roots = np.concatenate((self._roots, roots))  # type: ignore[arg-type]
        return np.asarray(P / roots[:, None])

    def _learn_values(self, X: Array, K: Array, own: Array, Y: Array) -> Array:
        V = self._factor.solve(K)
        F = V.T @ self._U.values
        corner = own + self.alpha * np.eye(len(X))
        block = self._factor.append(V, corner)
        pivots = np.diag(block)[:, None]
        U = solve_lower(block, Y - F)
        self._U.append(U)
        self._points.append(X)
        self._coefficients = None
        F = Y - pivots * U
        P = F * (self.alpha / pivots**2) if self.anticipate else F
        account(P, Y, self._ledger)
        return P

    @property
    def coefficients(self) -> Array:
        """(K + alpha I)^-1 Y."""
        if self._coefficients is None:
            self._coefficients = self._factor.solve_transposed(self._U.values)
        return self._coefficients

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        blocks = [slice(i, i + BLOCK) for i in range(0, len(X), BLOCK)]
        return np.concatenate([self._predict_block(X[rows]) for rows in blocks])

    def _predict_block(self, X: Array) -> Array:
        K = self.kernel(X, self.points)
        if self._roots is not None:
            K = K * self._roots
        F = K @ self.coefficients
        if not self.anticipate:
            return F
        V = self._factor.solve(np.ascontiguousarray(K.T))
        rest = np.maximum(self.kernel.diagonal(X) - np.einsum("ij,ij->j", V, V), 0.0)
        return np.asarray(F / (1.0 + rest / self.alpha)[:, None])

    def remap(self, matrix: Array) -> None:
        """New outputs as linear combinations of the old."""
        self._U.remap(matrix)
        self._ledger = recombined(self._ledger, matrix, absolute=True)
        self._coefficients = None

    def certificate(self, output: int = 0) -> Certificate:
        """Regret so far against the best function of the whole RKHS.

        min_f sum (y - f)^2 + alpha |f|^2 = alpha |U|^2, and |f|^2 = c'y - alpha |c|^2.
        """
        U, c = self._U.values[:, output], self.coefficients[:, output]
        least = self.alpha * float(U @ U)
        loss = self.alpha**2 * float(c @ c)  # the residuals of the fit are alpha c
        determinant = self._factor.log_determinant() - len(U) * np.log(self.alpha)
        return squared_certificate(
            self._ledger[:, output], loss, max(least - loss, 0.0), determinant, self.anticipate
        )

    STATE = (
        Rows("points", ("points", "columns")),
        Part("factor", sizes={"size": "points"}),
        Rows("U", ("points", "outputs")),
        Numbers("ledger", (5, "outputs"), low=0.0),
        Numbers("roots", ("points",), low=0.0, kept=True, optional=True),
    )
    DERIVED = ("_coefficients",)

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._points.columns, "outputs": self._U.columns}

    def _restored(self, sizes: Sizes) -> None:
        self._coefficients = None
        if not self.kernel.foreign:
            X = self.points
            roots = np.ones(len(X)) if self._roots is None else self._roots
            self._factor.require_of(
                lambda rows: roots[rows, None] * self.kernel(X[rows], X) * roots, self.alpha
            )
