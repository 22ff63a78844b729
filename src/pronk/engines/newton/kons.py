"""KONS and Sketched-KONS: the online Newton step in the span of all points, by kernel values only.

The state is all points with their coefficients c in b = sum c_i phi_i, and over the rows R whose
curvature entered A the numbers d_i (d_i^2 is the curvature) with a growing factor
L L' = D K_RR D + alpha I. By the matrix inversion lemma, for rows with kernel values k,

    V = L^-1 D k_R            u = L^-1 D (K c)_R
    phi_t' A^-1 phi_s = (k_ts - V_t'V_s) / alpha         phi_t' A^-1 b = (k_t'c - V_t'u) / alpha

so a block needs one triangular solve, and then runs the same recurrence as the embedded learners.
KONS takes every row into R: O(t^2) a row. Sketched-KONS takes a row by a coin whose probability
is its estimated leverage, at least ``floor``: O(t + |R|^2) a row.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton import recurrence
from pronk.engines.newton.curvature import OnlineNewton
from pronk.parts.dictionaries import Dictionary
from pronk.parts.kernels import Kernel
from pronk.parts.linalg import GrowingCholesky, GrowingRows
from pronk.parts.rules import KORS
from pronk.parts.state import Field, Numbers, Part, Rows, Sizes, Stateful, require

Array = NDArray[np.float64]

#: Rows taken at a time.
BLOCK = 64


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
        w = np.ones(len(X)) if weights is None else weights
        blocks = [slice(i, i + BLOCK) for i in range(0, len(X), BLOCK)]
        return np.concatenate([self._learn_block(X[rows], Y[rows], w[rows]) for rows in blocks])

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        blocks = [slice(i, i + BLOCK) for i in range(0, len(X), BLOCK)]
        raw = np.concatenate([self._raw(self.kernel(X[b], self.points))[1] for b in blocks])
        return np.clip(raw, -self._running[0], self._running[0])[:, None]

    def _raw(self, K: Array) -> tuple[Array, Array]:
        """V (|R|, m) and the unclipped predictions of rows with kernel values K (m, t)."""
        _, d, values = self._members.values.T
        V = self._factor.solve(d[:, None] * K[:, self.sketch].T)
        u = self._factor.solve(d * values)
        return V, (K @ self._coefficients.values[:, 0] - u @ V) / self.alpha

    def _learn_block(self, X: Array, Y: Array, weights: Array) -> Array:
        K, own = self.kernel(X, self.points), self.kernel(X, X)
        V, F = self._raw(K)
        block = KonsBlock(weights)
        block.G = (own - V.T @ V) / self.alpha
        block.F = F[:, None].copy()
        out = self._walk(X, Y, K, own, block)
        c = block.target[:, 0]
        self._take_in(K, own, V, c, np.sqrt(block.curvature))
        self._points.append(X)
        self._coefficients.append(block.target)
        return out

    def _walk(self, X: Array, Y: Array, K: Array, own: Array, block: KonsBlock) -> Array:
        """The recurrence over the block; every row's curvature enters."""
        out = np.empty((len(X), 1))
        batch = recurrence.Batch(Y, block.weights, out)
        recurrence.newton_rows(block.G, block.F, batch, 0, self._rule, self._running, block.open)
        return out

    def _take_in(self, K: Array, own: Array, V: Array, c: Array, d: Array) -> None:
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

    def negate(self) -> None:
        """As if all targets had had the other sign."""
        self._coefficients.remap(-np.eye(1))
        self._members.values[:, 2] *= -1.0

    STATE: ClassVar[tuple[Field, ...]] = (
        Rows("points", ("points", "columns")),
        Rows("coefficients", ("points", 1)),
        Rows("members", ("members", 3), kept=False),  # (K c) there changes with every row
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


class KonsBlock:
    """The arrays of one block's recurrence."""

    G: Array
    F: Array

    def __init__(self, weights: Array) -> None:
        m = len(weights)
        self.weights = weights
        self.curvature, self.target = np.zeros(m), np.zeros((m, 1))
        self.open = recurrence.Open(
            np.zeros((m, m)), np.zeros(m), np.zeros((m, 1)), self.curvature, self.target
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

    def _walk(self, X: Array, Y: Array, K: Array, own: Array, block: KonsBlock) -> Array:
        """As far as KORS keeps no point; then its scores of the later rows change."""
        out = np.empty((len(X), 1))
        batch = recurrence.Batch(Y, block.weights, out)
        reading = self.kors.read(X, self.kernel(X, self.kors.points))
        row = 0
        while row < len(X):
            row, p = recurrence.sketched_rows(
                block.G, block.F, batch, row, self._rule, self._running, self._coins,
                reading.rho, reading.uniforms, block.open,
            )  # fmt: skip
            if p > 0.0:  # KORS keeps the row before this one
                kept = row - 1
                reading.take(kept, np.sqrt(block.curvature[kept] / p), own[kept, kept:])
        return out

    STATE = (*KONS.STATE, Part("kors", "kors"))
