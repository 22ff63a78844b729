"""The gradient engine: gradient descent in R^r, row by row.

With features z(x) and one weight vector per output, each row makes the update

    f = w'z,   g = l'(f, y),   w <- w - eta g z

in 4 r floating-point operations per output, 2 r where the slope g is 0. A compiled map or BLAS
computes the features of a chunk of rows, small enough to stay in the cache; one compiled loop then
processes the rows.

`Gradient` uses fixed features (FOGD). `NystromGradient` starts as kernel gradient descent on a
growing set of points and continues in their span when the set is full (NOGD).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.features import Embedding, in_chunks
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingRows, recombined
from pronk.core.losses import Loss, slope
from pronk.core.state import Numbers, Rows, Sizes, Stateful, require

#: Rows per chunk: 64 rows of 400 features fit in a second-level cache.
CHUNK = 64

#: Eigenvalues below this share of the largest are rounding (duplicate points) and are dropped.
SMALLEST_EIGENVALUE = 1e-10


@compiled(fastmath={"contract", "reassoc"})
def dot(a: Array, b: Array) -> float:
    """Return a'b over the length of b."""
    total = 0.0
    for j in range(b.size):
        total += a[j] * b[j]
    return total


@compiled(fastmath={"contract"})
def add_multiple(a: Array, factor: float, b: Array) -> None:
    """Compute a = a + factor b over the length of b."""
    for j in range(b.size):
        a[j] += factor * b[j]


@compiled(fastmath={"contract"})
def gradient_rows(
    Z: Array, Y: Array, steps: Array, code: int, parameter: float, W: Array, out: Array
) -> None:
    """Predict f = w'z, then update w = w - eta l'(f, y) z, for every output of every row.

    Z (rows, r) are features, Y (rows, outputs) targets, steps (rows,) eta times the row's weight,
    W (outputs, r) the weights, updated in place; the predictions f are written to ``out``.
    """
    for t in range(Z.shape[0]):
        z = Z[t]
        for o in range(W.shape[0]):
            w = W[o]
            f = dot(w, z)
            out[t, o] = f
            # w = w - eta l'(f, y) z
            g = slope(code, parameter, f, Y[t, o])
            if g != 0.0:
                add_multiple(w, -steps[t] * g, z)


@compiled(fastmath={"contract"})
def expansion_rows(
    F: Array, G: Array, y: Array, steps: Array, code: int, parameter: float, most: int, a: Array
) -> int:
    """Update f <- f - eta l'(f(x), y) k(x, .) row by row, until ``most`` points are added.

    F (rows,) contains the scores by the points before the chunk and becomes f(x_t). G (rows, rows)
    is the kernel between the rows. a (rows,) becomes the coefficients, 0 where the slope is 0.
    Return the number of rows processed.
    """
    t = 0
    while t < F.size and most > 0:
        # f(x_t) = F_t + sum_{s < t} a_s k(x_s, x_t)
        F[t] += dot(G[t], a[:t])
        # a_t = -eta l'(f(x_t), y_t)
        g = slope(code, parameter, F[t], y[t])
        if g != 0.0:
            a[t] = -steps[t] * g
            most -= 1
        t += 1
    return t


class Gradient(Stateful):
    """Online gradient descent in fixed features; any number of outputs."""

    points: Array | None = None

    def __init__(self, embedding: Embedding, loss: Loss, eta: float, outputs: int = 1) -> None:
        self.embedding, self.loss, self.eta = embedding, loss, eta
        self._W = np.zeros((outputs, embedding.size))

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict, then learn, each row; a weight w makes the step of its row w times as long."""
        steps = self.eta * (np.ones(len(X)) if weights is None else weights)
        return in_chunks(CHUNK, self._learn_chunk, X, Y, steps)

    def _learn_chunk(self, X: Array, Y: Array, steps: Array) -> Array:
        Z, out = self.embedding.transform(X), np.empty(Y.shape)
        gradient_rows(Z, Y, steps, self.loss.code, self.loss.parameter, self._W, out)
        return out

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row as if it came next; the state is unchanged."""
        return in_chunks(CHUNK, lambda rows: self.embedding.transform(rows) @ self._W.T, X)

    @property
    def weights(self) -> Array:
        """The weights (outputs, features)."""
        return self._W

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by plus or minus old ones; the losses are odd, so this is exact."""
        self._W = recombined(self._W, matrix, axis=-2)

    STATE = (Numbers("W", ("outputs", "features")),)

    def _sizes(self) -> dict[str, int]:
        return {"outputs": len(self._W), "features": self.embedding.size}


class NystromGradient(Stateful):
    """Kernel gradient descent up to ``budget`` points, then gradient descent in their span.

    With K = V D V' over the points, restricted to the ``rank`` largest eigenvalues, the features
    are z(x) = D^-1/2 V' k(x). The weights start at D^1/2 V' a, the projection of the expansion a on
    the span of the eigenvectors. One output.
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
        """Predict, then learn, each row; a weight w makes the step of its row w times as long."""
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
        """Learn rows until the budget is full and return the number of rows learned."""
        F = self.kernel(X, self.points) @ self._a
        a = np.zeros(len(X))
        learned = expansion_rows(
            F, self.kernel(X, X), np.ascontiguousarray(y), steps, self.loss.code,
            self.loss.parameter, self.budget - self._points.size, a,
        )  # fmt: skip
        out[:learned] = F[:learned]
        added = np.flatnonzero(a)
        if added.size:
            self._points.append(X[added])
            self._a = np.concatenate((self._a, a[added]))
        if self._points.size == self.budget:
            self._fix_span()
        return learned

    def _fix_span(self) -> None:
        """Compute the map to the leading eigenvectors and the weights of the expansion there."""
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
        """Return the prediction of each row as if it came next; the state is unchanged."""
        a = self._a if self._T is None else self._T @ self._w[0]
        return in_chunks(CHUNK, lambda rows: self.kernel(rows, self.points) @ a, X)[:, None]

    def remap(self, matrix: Array) -> None:
        """Replace the output by plus or minus itself; the losses are odd, so this is exact."""
        self._a, self._w = matrix[0, 0] * self._a, matrix[0, 0] * self._w

    STATE = (
        Rows("points", ("points", "columns")),
        Numbers("a", ("expanded",), written="replaced"),
        Numbers("w", (1, "span")),
        Numbers("T", ("points", "span"), written="replaced", optional=True),
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
