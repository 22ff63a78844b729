"""Engines in the span of all points: kernel ridge, Kernel-AWV, KONS and Sketched-KONS.

`ExactSpan` (kernel ridge and Kernel-AWV) holds every row and a growing factor L L' = K + alpha I
with U = L^-1 Y. For a row with l = L^-1 k(x) and pivot d^2 = k(x, x) + alpha - |l|^2,

    ridge   f = l'U            AWV   f / (1 + q),   1 + q = d^2 / alpha

and the row appends (l, d) to L and (y - f) / d to U. For weighted rows K is S K S, S the roots of
the weights. A block of m rows is one triangular solve and one Cholesky factor of m x m. Time O(t^2)
per row, memory O(t^2).

`KONS` and `SketchedKONS` are the online Newton step by kernel values only. Their state is all
points with their coefficients c in b = sum c_i phi_i, and over the rows R whose curvature entered A
the numbers d_i (d_i^2 is the curvature) with a growing factor L L' = D K_RR D + alpha I. By the
matrix inversion lemma, for rows with kernel values k,

    V = L^-1 D k_R            u = L^-1 D (K c)_R
    phi_t' A^-1 phi_s = (k_ts - V_t'V_s) / alpha         phi_t' A^-1 b = (k_t'c - V_t'u) / alpha

so a block needs one triangular solve, and then runs the recurrence of the embedded learners
(`recurrence`). KONS adds every row to R: O(t^2) per row. Sketched-KONS adds a row by a coin whose
probability is its estimated leverage, at least ``floor``: O(t + |R|^2) per row.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array
from pronk.core.dictionary import KORS, Dictionary, Scan
from pronk.core.features import in_chunks
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingCholesky, GrowingRows, recombined, solve_lower
from pronk.core.state import Field, Numbers, Part, Rows, Sizes, Stateful, require
from pronk.newton import recurrence
from pronk.newton.certificate import (
    Certificate,
    account,
    determinant_bound,
    new_ledger,
    squared_certificate,
)
from pronk.newton.engine import OnlineNewton, Roots
from pronk.newton.recurrence import Batch, Open

#: Rows per block: enough for matrix products, little kernel memory beside L.
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
        self._roots = GrowingRows(1)  # of the rows' weights

    @property
    def points(self) -> Array:
        return self._points.values

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
        return in_chunks(BLOCK, self._learn_block, X, Y, roots)

    def _learn_block(self, X: Array, Y: Array, roots: Array) -> Array:
        """Learn a block; a row of weight w is sqrt(w) k(x, .) with sqrt(w) times its target."""
        K = self._roots.values * self.kernel(self.points, X) * roots
        own = roots[:, None] * self.kernel(X, X) * roots
        Y = Y * roots[:, None]
        V = self._factor.solve(K)
        F = V.T @ self._U.values
        block = self._factor.append(V, own + self.alpha * np.eye(len(X)))
        pivots = np.diag(block)[:, None]
        U = solve_lower(block, Y - F)
        self._U.append(U)
        self._points.append(X)
        self._roots.append(roots[:, None])
        self._coefficients = None
        P = self._finish(Y - pivots * U, Y, self.alpha / pivots**2)
        return np.asarray(P / roots[:, None])

    def _finish(self, F: Array, Y: Array, kappa: Array) -> Array:
        """Return the predictions of rows with ridge predictions F and kappa = 1 / (1 + q)."""
        P = F * kappa if self.anticipate else F
        account(P, Y, self._ledger)
        return P

    @property
    def coefficients(self) -> Array:
        """(K + alpha I)^-1 Y."""
        if self._coefficients is None:
            self._coefficients = self._factor.solve_transposed(self._U.values)
        return self._coefficients

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row if it came next; changes nothing."""
        return in_chunks(BLOCK, self._predict_block, X)

    def _predict_block(self, X: Array) -> Array:
        K = self._values(X)
        F = K @ self.coefficients
        return np.asarray(F / (1.0 + self._leverage(X, K))[:, None]) if self.anticipate else F

    def _values(self, X: Array) -> Array:
        """Return kernel values (n, points), times the roots of the weights of the points."""
        return np.asarray(self.kernel(X, self.points) * self._roots.values[:, 0])

    def _leverage(self, X: Array, K: Array) -> Array:
        """Return q = (k(x, x) - |L^-1 k|^2) / alpha for rows with values K (n, points)."""
        V = self._factor.solve(np.ascontiguousarray(K.T))
        rest = np.maximum(self.kernel.diagonal(X) - np.einsum("ij,ij->j", V, V), 0.0)
        return np.asarray(rest / self.alpha)

    def noise_variance(self) -> Array:
        """Return sigma^2 = alpha |U|^2 / rows, (outputs,).

        It is the maximum likelihood estimate for a Gaussian process whose noise is alpha times its
        signal variance.
        """
        U = self._U.values
        return np.asarray(self.alpha * np.einsum("io,io->o", U, U) / len(U))

    def deviation(self, X: Array) -> Array:
        """Return the standard deviation of y (n, outputs) at rows that may come next.

        Its square is sigma^2 (1 + q).
        """
        q = in_chunks(BLOCK, lambda rows: self._leverage(rows, self._values(rows)), X)
        return np.sqrt((1.0 + q)[:, None] * self.noise_variance())

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by linear combinations of them."""
        self._U.remap(matrix)
        self._ledger = recombined(self._ledger, matrix, absolute=True)
        self._coefficients = None

    def certificate(self, output: int = 0) -> Certificate:
        """Return the regret so far against the best function of the whole RKHS.

        min_f sum (y - f)^2 + alpha |f|^2 = alpha |U|^2, and |f|^2 = c'y - alpha |c|^2.
        """
        U, c = self._U.values[:, output], self.coefficients[:, output]
        least = self.alpha * float(U @ U)
        loss = self.alpha**2 * float(c @ c)  # the residuals of the fit are alpha c
        determinant = self._factor.log_determinant() - len(U) * np.log(self.alpha)
        column = self._ledger[:, output]
        bound = determinant_bound(column, determinant, self.anticipate)
        return squared_certificate(column, loss, max(least - loss, 0.0), bound)

    STATE: ClassVar[tuple[Field, ...]] = (
        Rows("points", ("points", "columns")),
        Part("factor", sizes={"size": "points"}),
        Rows("U", ("points", "outputs")),
        Numbers("ledger", (5, "outputs"), low=0.0),
        Roots("points"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._points.columns, "outputs": self._U.columns}

    def _update_derived(self) -> None:
        self._coefficients = None

    def _restored(self, sizes: Sizes) -> None:
        if not self.kernel.foreign:
            X, roots = self.points, self._roots.values[:, 0]
            self._factor.require_of(
                lambda rows: roots[rows, None] * self.kernel(X[rows], X) * roots, self.alpha
            )


# -- KONS and Sketched-KONS --------------------------------------------------------------------

#: Rows per block of KONS.
KONS_BLOCK = 64


class KONS(Stateful):
    """The exact learner; one output."""

    def __init__(self, kernel: Kernel, alpha: float, rule: OnlineNewton, columns: int) -> None:
        self.kernel, self.alpha, self.rule = kernel, alpha, rule
        self._rule = rule.as_array()
        self._running = np.array([rule.clip or 0.0, 0.0, 0.0])
        self._points = GrowingRows(columns)
        self._coefficients = GrowingRows(1)  # c
        self._members = GrowingRows(3)  # a row of R: its number, d, and (K c) there
        self._factor = GrowingCholesky(floor=alpha)

    @property
    def points(self) -> Array:
        return self._points.values

    @property
    def sketch(self) -> NDArray[np.intp]:
        """The numbers of the rows whose curvature is in A."""
        return self._members.values[:, 0].astype(np.intp)

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        weights = np.ones(len(X)) if weights is None else weights
        return in_chunks(KONS_BLOCK, self._learn_block, X, Y, weights)

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row if it came next; changes nothing."""
        raw = in_chunks(KONS_BLOCK, lambda rows: self._raw(self.kernel(rows, self.points))[1], X)
        clip = self._running[recurrence.CLIP]
        return np.clip(raw, -clip, clip)[:, None]

    def _raw(self, K: Array) -> tuple[Array, Array]:
        """Return V (|R|, m) and the unclipped predictions of rows with kernel values K (m, t)."""
        _, d, values = self._members.values.T
        V = self._factor.solve(d[:, None] * K[:, self.sketch].T)
        u = self._factor.solve(d * values)
        return V, (K @ self._coefficients.values[:, 0] - u @ V) / self.alpha

    def _learn_block(self, X: Array, Y: Array, weights: Array) -> Array:
        K, own, m = self.kernel(X, self.points), self.kernel(X, X), len(X)
        V, F = self._raw(K)
        block = Open(np.zeros((m, m)), np.zeros(m), np.zeros((m, 1)), np.zeros(m), np.zeros((m, 1)))
        batch = Batch(Y, weights, np.empty((m, 1)))
        self._learn_rows(X, own, (own - V.T @ V) / self.alpha, F[:, None].copy(), batch, block)
        self._add_block(K, own, V, block.target[:, 0], np.sqrt(block.curvature))
        self._points.append(X)
        self._coefficients.append(block.target)
        return batch.out

    def _learn_rows(
        self, X: Array, own: Array, G: Array, F: Array, batch: Batch, block: Open
    ) -> None:
        """Run the recurrence over the block; the curvature of every row enters A."""
        recurrence.newton_rows(G, F, batch, 0, self._rule, self._running, block)

    def _add_block(self, K: Array, own: Array, V: Array, c: Array, d: Array) -> None:
        """Add the block's coefficients c to (K c)_R, and its rows with d > 0 to R."""
        rows = np.flatnonzero(d)
        first = self._points.size
        self._members.values[:, 2] += K[:, self.sketch].T @ c
        if not rows.size:
            return
        corner = d[rows, None] * own[np.ix_(rows, rows)] * d[rows]
        corner.flat[:: len(rows) + 1] += self.alpha
        self._factor.append(np.ascontiguousarray(V[:, rows] * d[rows]), corner)
        there = K[rows] @ self._coefficients.values[:, 0] + own[rows] @ c
        self._members.append(np.column_stack((first + rows, d[rows], there)))

    def remap(self, matrix: Array) -> None:
        """Replace the output by plus or minus itself."""
        self._coefficients.remap(matrix)
        self._members.values[:, 2] *= matrix[0, 0]

    STATE: ClassVar[tuple[Field, ...]] = (
        Rows("points", ("points", "columns")),
        Rows("coefficients", ("points", 1)),
        Rows("members", ("members", 3), written="in place"),  # (K c) there changes with every row
        Part("factor", sizes={"size": "members"}),
        Numbers("running", (3,), low=0.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._points.columns}

    def _restored(self, sizes: Sizes) -> None:
        numbers, d, _ = self._members.values.T
        whole = (numbers == np.floor(numbers)).all() and (numbers >= 0.0).all()
        require(whole and (numbers < sizes["points"]).all(), "members are not rows of points")
        require((d > 0.0).all(), "members have a curvature that is not positive")
        if not self.kernel.foreign:
            X = np.ascontiguousarray(self.points[self.sketch])
            self._factor.require_of(
                lambda rows: d[rows, None] * self.kernel(X[rows], X) * d, self.alpha
            )


class SketchedKONS(KONS):
    """KONS with a sketch of the curvature.

    KORS runs on the rescaled points d_t phi_t, with the learner's alpha, so its score is known once
    the label is; the same uniform decides whether it keeps the point and, with the probability
    raised to ``floor``, whether the sketch does. So every point of KORS is in the sketch.
    """

    def __init__(
        self,
        kernel: Kernel,
        alpha: float,
        rule: OnlineNewton,
        columns: int,
        floor: float,
        epsilon: float,
        beta: float,
        seed: int,
    ) -> None:
        super().__init__(kernel, alpha, rule, columns)
        self.kors = Dictionary(kernel, columns, KORS(alpha, epsilon, beta), seed)
        self._coins = np.array([floor, epsilon, beta, alpha])

    def _learn_rows(
        self, X: Array, own: Array, G: Array, F: Array, batch: Batch, block: Open
    ) -> None:
        """Run the recurrence from point to point of KORS, which change the scores of later rows."""
        reading = Scan(self.kors, X, self.kernel(X, self.kors.points))
        row = 0
        while row < len(X):
            row, p = recurrence.sketched_rows(
                G, F, batch, row, self._rule, self._running, self._coins, reading.rho,
                reading.uniforms, block,
            )  # fmt: skip
            if p > 0.0:  # KORS keeps the row before this one
                kept = row - 1
                reading.accept(kept, np.sqrt(block.curvature[kept] / p), own[kept, kept:])

    STATE = (*KONS.STATE, Part("kors", "kors"))
