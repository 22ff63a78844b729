"""Least squares in the span of a dictionary chosen by approximate linear dependence (KRLS-ALD).

With a(x) = K^-1 k(x) over the dictionary the prediction is k(x)'w = a(x)'theta, theta = K w, and
theta minimises the sum of squares over the rows a_t: plain recursive least squares. A row whose
squared distance to the span

    delta = k(x, x) - k(x)'K^-1 k(x)

exceeds nu enters the dictionary: its row is a unit vector in a new coordinate, in which all earlier
rows are 0. So growing adds 1 to the diagonal of A = sum a a' and y to b = sum y a, and A never
needs a regulariser. With a full budget such a row is learned as its projection on the span.
"""

from __future__ import annotations

import numpy as np

from pronk.core.arrays import Array
from pronk.core.dictionary import ALD, Dictionary, Scan
from pronk.core.features import in_chunks
from pronk.core.kernels import Kernel
from pronk.core.state import Part
from pronk.newton.engine import Newton, Squared

#: Rows per chunk, whose kernel values are in memory at a time.
CHUNK = 256


class LeastSquares(Newton):
    """Least squares without a regulariser, as every coordinate begins with a unit row."""

    def __init__(self, outputs: int) -> None:
        super().__init__(Squared(anticipate=False), 1.0, 0, outputs)

    def grow_with_row(self, targets: Array, weight: float) -> None:
        """Add a coordinate and the row that is 1 in it and 0 elsewhere."""
        self.grow(weight)
        self._b[-1] = weight * targets
        self._beta[-1] = np.sqrt(weight) * targets


class KRLS(Dictionary):
    """A dictionary, with the factor L L' = K, and least squares in the coordinates K^-1 k."""

    def __init__(
        self, kernel: Kernel, nu: float, columns: int, outputs: int = 1, budget: int | None = None
    ) -> None:
        super().__init__(kernel, columns, ALD(nu), budget=budget)
        self.learner = LeastSquares(outputs)

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        weights = np.ones(len(X)) if weights is None else weights
        return in_chunks(CHUNK, self._learn_chunk, X, Y, weights)

    def _learn_chunk(self, X: Array, Y: Array, weights: Array) -> Array:
        out = np.empty(Y.shape)
        reading = Scan(self, X, self.kernel(X, self.points))
        while True:
            start, new = reading.start, reading.next_row()
            stop = len(X) if new is None else new
            A = self.solve_transposed(reading.coordinates(start, stop))
            out[start:stop] = self.learner.learn(A, Y[start:stop], weights[start:stop])
            if new is None:
                return out
            own = self.solve_transposed(reading.coordinates(new, new + 1))
            out[new] = self.learner.predict(own)[0]
            reading.accept(new)
            self.learner.grow_with_row(Y[new], float(weights[new]))

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row if it came next; changes nothing."""
        return in_chunks(CHUNK, self._predict_chunk, X)

    def _predict_chunk(self, X: Array) -> Array:
        W = self.coordinates(self.kernel(X, self.points))
        return self.learner.predict(self.solve_transposed(W))

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by linear combinations of them."""
        self.learner.remap(matrix)

    STATE = (*Dictionary.STATE, Part("learner", "learner", sizes={"size": "points"}))
