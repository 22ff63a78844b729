"""Dictionaries: which rows of the stream are kept as points of the kernel expansion.

A dictionary reads a block of rows with `scan` and says which of them it accepts. It needs no
labels, so a whole block can be read ahead of the learner. The kernel values it computes on the way
are handed back, because the learner needs the same ones.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.parts.kernels import Kernel
from pronk.parts.linalg import GrowingCholesky, GrowingRows, Workspace
from pronk.parts.randomness import KORS_COINS, Uniforms
from pronk.parts.state import Field, Part, Rows, Sizes, Stateful, require

Array = NDArray[np.float64]


class Dictionary(Stateful):
    """The accepted points and the rule that accepts them; at most ``budget`` points."""

    def __init__(self, kernel: Kernel, columns: int, budget: int | None = None) -> None:
        self.kernel = kernel
        self.budget = budget
        self._points = GrowingRows(columns)

    @property
    def points(self) -> Array:
        """The accepted points, oldest first."""
        return self._points.values

    @property
    def full(self) -> bool:
        return self.budget is not None and self._points.size >= self.budget

    def scan(self, X: Array, K: Array) -> tuple[list[int], Array]:
        """Read rows X whose kernel values with the present points are K (n, size).

        Returns the numbers of the accepted rows, and K with one more column for each of them:
        k(x, new point) from its own row on, zero before.
        """
        raise NotImplementedError

    def _accept(self, X: Array, row: int) -> Array:
        """Keep a row; return its kernel values with the rows from it on."""
        self._points.append(X[row : row + 1])
        return self.kernel(X[row:], X[row : row + 1])[:, 0]

    STATE: ClassVar[tuple[Field, ...]] = (Rows("points", ("points", "columns")),)

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._points.columns}

    def _restored(self, sizes: Sizes) -> None:
        room = self.budget is None or sizes["points"] <= self.budget
        require(room, "points are more than the budget")


def _with_columns(K: Array, rows: list[int], columns: list[Array]) -> Array:
    """K with columns appended that start at their own rows."""
    if not rows:
        return K
    n, old = K.shape
    grown = np.zeros((n, old + len(rows)))
    grown[:, :old] = K
    for i, (row, column) in enumerate(zip(rows, columns, strict=True)):
        grown[row:, old + i] = column
    return grown


class FirstRows(Dictionary):
    """The first ``budget`` rows of the stream."""

    def scan(self, X: Array, K: Array) -> tuple[list[int], Array]:
        room = len(X) if self.budget is None else self.budget - self._points.size
        rows = list(range(min(len(X), max(room, 0))))
        return rows, _with_columns(K, rows, [self._accept(X, row) for row in rows])


class UniformRows(Dictionary):
    """Every row with the same probability ``rate``, until the budget is full."""

    def __init__(
        self, kernel: Kernel, columns: int, rate: float, seed: int, budget: int | None = None
    ) -> None:
        super().__init__(kernel, columns, budget)
        self.rate = rate
        self._uniforms = Uniforms(seed, KORS_COINS)

    def scan(self, X: Array, K: Array) -> tuple[list[int], Array]:
        drawn = np.flatnonzero(self._uniforms.take(len(X)) < self.rate)
        if self.budget is not None:
            drawn = drawn[: max(self.budget - self._points.size, 0)]
        rows = [int(row) for row in drawn]
        return rows, _with_columns(K, rows, [self._accept(X, row) for row in rows])

    STATE = (*Dictionary.STATE, Part("uniforms"))


class KORS(Dictionary):
    """Kernel online row sampling: rows enter with their estimated ridge leverage score.

    With s_i = p_i^(-1/2), L L' = S K S + gamma I over the dictionary and w = L^-1 S k(x),

        rho = k(x, x) - |w|^2
        tau = (1 + epsilon) rho / (rho + gamma)
        p   = min(beta tau, 1),  accepted when u < p.

    One triangular solve scores a block. An accepted row adds one row to L and one number to every
    later w, so the rows before it are final and the rest costs O(size) each to score again.
    """

    def __init__(
        self,
        kernel: Kernel,
        columns: int,
        gamma: float,
        epsilon: float,
        beta: float,
        seed: int,
        budget: int | None = None,
    ) -> None:
        super().__init__(kernel, columns, budget)
        self.gamma, self.epsilon, self.beta = gamma, epsilon, beta
        self._uniforms = Uniforms(seed, KORS_COINS)
        self._factor = GrowingCholesky(floor=gamma)
        self._scales = GrowingRows(1)  # s_i
        self._memory = Workspace()

    @property
    def probabilities(self) -> Array:
        """The probability with which each point entered."""
        return self._scales.values[:, 0] ** -2

    def scan(self, X: Array, K: Array) -> tuple[list[int], Array]:
        uniforms = self.draw(len(X))  # drawn also when the budget is full
        if self.full:
            return [], K
        W = self.coordinates(K)
        diagonal = self.kernel.diagonal(X)
        rho = diagonal - np.einsum("ij,ij->i", W, W)
        rows: list[int] = []
        columns: list[Array] = []
        start = 0  # W and rho speak of the rows from here on
        while not self.full:
            p = self._probability(rho)
            hits = np.flatnonzero(uniforms[start:] < p)
            if not hits.size:
                break
            hit = int(hits[0])
            row = start + hit
            column = self.kernel(X[row:], X[row : row + 1])[:, 0]
            scale = p[hit] ** -0.5
            w_new = self.enter(X[row], W[hit], diagonal[row], scale, column[1:], W[hit + 1 :])
            rows.append(row)
            columns.append(column)
            W = np.column_stack((W[hit + 1 :], w_new))
            rho = rho[hit + 1 :] - w_new * w_new
            start = row + 1
        return rows, _with_columns(K, rows, columns)

    def score(self, X: Array) -> Array:
        """The probabilities with which the rows would enter now; changes nothing."""
        W = self.coordinates(self.kernel(X, self.points))
        return self._probability(self.kernel.diagonal(X) - np.einsum("ij,ij->i", W, W))

    def coordinates(self, K: Array) -> Array:
        """w = L^-1 S k(x) for every row."""
        W = self._memory.take("coordinates", *K.shape)
        np.multiply(K, self._scales.values[:, 0], out=W)
        return self._factor.solve_rows(W)

    def _probability(self, rho: Array) -> Array:
        rho = np.maximum(rho, 0.0)
        tau = (1.0 + self.epsilon) * rho / (rho + self.gamma)
        return np.minimum(self.beta * tau, 1.0)

    def draw(self, n: int) -> Array:
        """The uniforms of the next n rows."""
        return self._uniforms.take(n)

    def enter(
        self, x: Array, w: Array, diagonal: float, scale: float, column: Array, W: Array
    ) -> Array:
        """Take in a point with coordinates w and weight ``scale``.

        Returns the new coordinate of later rows, whose others are W and whose kernel values with
        the point are ``column``.
        """
        self._points.append(x[None, :])
        solved = scale * w
        corner = np.array([[diagonal * scale * scale + self.gamma]])
        pivot = self._factor.append(solved[:, None], corner)[0, 0]
        self._scales.append(np.array([[scale]]))
        return np.asarray((scale * column - W @ solved) / pivot)

    STATE = (
        *Dictionary.STATE,
        Part("uniforms"),
        Part("factor", sizes={"size": "points"}),
        Rows("scales", ("points", 1), low=0.0),
    )
