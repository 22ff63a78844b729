"""The gradient engine: first-order learning in R^r, row by row.

With features z(x) and one weight vector an output, every row is

    f = w'z,   g = l'(f, y),   w <- w - eta g z

and nothing else: 4 r multiply-adds a row and output, 2 r where the slope is 0. The features of a
chunk come from a compiled map or from BLAS, small enough a chunk to stay in the cache, and the
rows follow in one compiled loop.

`Gradient` runs in features given beforehand (FOGD). `NystromGradient` first is kernel gradient
descent on a growing set of points and goes on in their span when the set is full (NOGD).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import eigh

from pronk.core.features import Embedding, chunks
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingRows, recombined
from pronk.core.losses import Loss, slope
from pronk.core.state import Numbers, Rows, Sizes, Stateful, require

Array = NDArray[np.float64]

#: Rows whose features are held at a time: 400 numbers each stay in a second-level cache.
CHUNK = 64

#: Eigenvalues below this share of the largest are rounding (duplicate points) and are cut.
SMALLEST_EIGENVALUE = 1e-10


@njit(cache=True, fastmath={"contract", "reassoc"})
def dot(a: Array, b: Array) -> float:
    """a'b over the length of b."""
    total = 0.0
    for j in range(b.size):
        total += a[j] * b[j]
    return total


@njit(cache=True, fastmath={"contract"})
def add_multiple(a: Array, factor: float, b: Array) -> None:
    """a += factor b."""
    for j in range(b.size):
        a[j] += factor * b[j]


@njit(cache=True, fastmath={"contract"})
def gradient_rows(
    Z: Array, Y: Array, steps: Array, code: int, parameter: float, W: Array, out: Array
) -> None:
    """f = w'z, w -= eta l'(f, y) z for every output of every row; the f go to ``out``.

    ``steps`` has eta for every row, times its weight.
    """
    for t in range(Z.shape[0]):
        z = Z[t]
        for o in range(W.shape[0]):
            w = W[o]
            f = dot(w, z)
            out[t, o] = f
            g = slope(code, parameter, f, Y[t, o])
            if g != 0.0:
                add_multiple(w, -steps[t] * g, z)


@njit(cache=True, fastmath={"contract"})
def expansion_rows(
    F: Array, G: Array, y: Array, steps: Array, code: int, parameter: float, room: int, a: Array
) -> int:
    """Kernel gradient descent, f <- f - eta l'(f(x), y) k(x, .), until ``room`` points are added.

    F holds what the points held before give to each row and becomes f; G is the kernel between the
    rows; a becomes the rows' coefficients, 0 where the slope is 0. Returns the rows walked.
    """
    t = 0
    while t < F.size and room > 0:
        F[t] += dot(G[t], a[:t])
        g = slope(code, parameter, F[t], y[t])
        if g != 0.0:
            a[t] = -steps[t] * g
            room -= 1
        t += 1
    return t


class Gradient(Stateful):
    """Online gradient descent in fixed features; any number of outputs."""

    points: Array | None = None

    def __init__(self, embedding: Embedding, loss: Loss, eta: float, outputs: int = 1) -> None:
        self.embedding, self.loss, self.eta = embedding, loss, eta
        self._W = np.zeros((outputs, embedding.size))

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row; the step of a row of weight w is w times as long."""
        out = np.empty(Y.shape)
        steps = self.eta * (np.ones(len(X)) if weights is None else weights)
        for rows in chunks(len(X), CHUNK):
            gradient_rows(
                self.embedding.transform(X[rows]), Y[rows], steps[rows], self.loss.code,
                self.loss.parameter, self._W, out[rows],
            )  # fmt: skip
        return out

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        return np.concatenate(
            [self.embedding.transform(X[rows]) @ self._W.T for rows in chunks(len(X), CHUNK)]
        )

    @property
    def weights(self) -> Array:
        """One row of weights an output."""
        return self._W

    def remap(self, matrix: Array) -> None:
        """New outputs, each plus or minus an old one: valid because the losses are odd."""
        self._W = recombined(self._W, matrix, axis=-2)

    STATE = (Numbers("W", ("outputs", "features")),)

    def _sizes(self) -> dict[str, int]:
        return {"outputs": len(self._W), "features": self.embedding.size}


class NystromGradient(Stateful):
    """Kernel gradient descent up to ``budget`` points, then gradient descent in their span.

    With K = V D V' over the points and the ``rank`` largest eigenvalues kept, z(x) = D^-1/2 V' k(x)
    and the weights start at D^1/2 V' a, the best the span has for the expansion a. One output.
    """

    def __init__(
        self, kernel: Kernel, loss: Loss, eta: float, columns: int, budget: int, rank: int
    ) -> None:
        self.kernel, self.loss, self.eta = kernel, loss, eta
        self.budget, self.rank = budget, rank
        self._points = GrowingRows(columns)
        self._a = np.zeros(0)  # coefficients, until the span is fixed
        self._T: Array | None = None  # V D^-1/2, once it is
        self._w = np.zeros((1, 0))

    @property
    def points(self) -> Array:
        return self._points.values

    @property
    def weights(self) -> Array:
        """The coefficients of the points, or the weights in their span."""
        return self._a if self._T is None else self._w

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row; the step of a row of weight w is w times as long."""
        out = np.empty(Y.shape)
        steps = self.eta * (np.ones(len(X)) if weights is None else weights)
        start = 0
        while start < len(X):
            rows = slice(start, min(start + CHUNK, len(X)))
            if self._T is None:
                start += self._expand(X[rows], Y[rows, 0], steps[rows], out[rows, 0])
            else:
                gradient_rows(
                    self.kernel(X[rows], self.points) @ self._T, Y[rows], steps[rows],
                    self.loss.code, self.loss.parameter, self._w, out[rows],
                )  # fmt: skip
                start = rows.stop
        return out

    def _expand(self, X: Array, y: Array, steps: Array, out: Array) -> int:
        """Walk rows until the budget is full; the number of rows walked."""
        F = self.kernel(X, self.points) @ self._a
        a = np.zeros(len(X))
        walked = expansion_rows(
            F, self.kernel(X, X), np.ascontiguousarray(y), steps, self.loss.code,
            self.loss.parameter, self.budget - self._points.size, a,
        )  # fmt: skip
        out[:walked] = F[:walked]
        added = np.flatnonzero(a)
        if added.size:
            self._points.append(X[added])
            self._a = np.concatenate((self._a, a[added]))
        if self._points.size == self.budget:
            self._fix_span()
        return walked

    def _fix_span(self) -> None:
        """The map into the leading eigenvectors, and the expansion there."""
        n = self._points.size
        first = max(0, n - self.rank)
        D, V = eigh(self.kernel(self.points, self.points), subset_by_index=(first, n - 1))
        least = SMALLEST_EIGENVALUE * max(D[-1], 0.0)
        kept = least < D
        D, V = D[kept], V[:, kept]
        self._T = np.ascontiguousarray(V / np.sqrt(D))
        self._w = (np.sqrt(D) * (self._a @ V))[None, :]
        self._a = np.zeros(0)

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next; changes nothing."""
        a = self._a if self._T is None else self._T @ self._w[0]
        return np.concatenate(
            [self.kernel(X[rows], self.points) @ a for rows in chunks(len(X), CHUNK)]
        )[:, None]

    def negate(self) -> None:
        """The model of the opposite targets."""
        self._a, self._w = -self._a, -self._w

    STATE = (
        Rows("points", ("points", "columns")),
        Numbers("a", ("expanded",), kept=True),
        Numbers("w", (1, "span")),
        Numbers("T", ("points", "span"), kept=True, optional=True),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._points.columns}

    def _restored(self, sizes: Sizes) -> None:
        full = self._T is not None
        require(full == (sizes["points"] >= self.budget), "points do not fit the budget")
        require(sizes["points"] <= self.budget, "points are more than the budget")
        expected = (0, sizes["span"]) if full else (sizes["points"], 0)
        require((sizes["expanded"], sizes["span"]) == expected, "a does not fit the points")
        require(sizes["span"] <= self.rank, "w is longer than the rank")
        if self._T is not None and not self.kernel.foreign:
            # T = V D^-1/2 with K = V D V'; eigenvalues of 1e-10 of the largest lose six digits.
            product = self._T.T @ self.kernel(self.points, self.points) @ self._T
            off = np.abs(product - np.eye(sizes["span"])).max(initial=0.0)
            require(off <= 1e-3, "T is not the map of the points")
