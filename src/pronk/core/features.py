"""Embeddings x -> phi(x) in R^r whose inner products equal or approximate the kernel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.elementary import cos_sin, exp_scalar
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingCholesky, Workspace, solve_each
from pronk.core.randomness import FREQUENCIES, generator
from pronk.core.state import Count, Numbers, Part, Stateful

#: With more Taylor features the r x r matrix of a second-order learner would be too large.
MOST_TAYLOR_FEATURES = 20_000

#: A point whose squared distance to the span of the earlier ones is below this share of k(x, x)
#: adds nothing but rounding. Coordinates on a direction of squared length s are known to
#: eps / sqrt(s), hence later squared distances to 2 eps / sqrt(s): at s = 1e-10 that is 4e-11, just
#: below s; for a smaller s it would be above, and rounding would decide whether a point is kept.
DEPENDENT = 1e-10


class Embedding(Protocol):
    """Fixed features: a number of coordinates, a map, and k(x, x) of their kernel."""

    size: int

    def transform(self, X: Array) -> Array: ...
    def diagonal(self, X: Array) -> Array: ...


def in_chunks(rows: int, function: Callable[..., Array], X: Array, *others: Array | None) -> Array:
    """Return what a function returns for chunks of ``rows`` of some arrays, one below the other.

    Features or kernel values of all rows would not fit in the caches. None stays None.
    """
    parts = [
        function(*(None if array is None else array[i : i + rows] for array in (X, *others)))
        for i in range(0, max(len(X), 1), rows)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@compiled(fastmath={"contract"})
def _taylor(X: Array, scale: float, starts: NDArray[np.int64], weights: Array, out: Array) -> None:
    """Compute the Taylor features of rows X (n, d) into out (n, features).

    Monomials of degree k are x_i times those of degree k-1 that begin with a variable >= i. In the
    lexicographic order of non-decreasing variable lists the latter are the tail that begins at
    starts[k-1, i] and ends where degree k begins, starts[k, 0].
    """
    n, d = X.shape
    degree = starts.shape[0] - 1
    for t in range(n):
        row = out[t]
        square = 0.0
        for i in range(d):
            x = X[t, i] * scale
            square += x * x
        row[0] = exp_scalar(-0.5 * square)
        end = 1
        for k in range(1, degree + 1):
            stop = end
            for i in range(d):
                x = X[t, i] * scale
                first = starts[k - 1, i]
                length = stop - first
                source = row[first:stop]
                target = row[end : end + length]
                for j in range(length):
                    target[j] = x * source[j]
                end += length
        for j in range(row.size):
            row[j] *= weights[j]


class Taylor:
    """The Gaussian kernel's Taylor features up to a degree, without duplicate multi-indices:

        g_k(x) = prod_i (x_i / sigma)^k_i / sqrt(k_i!) exp(-|x|^2 / (2 sigma^2)),  |k| <= degree,

    C(degree + d, d) of them. The paper's listing has all d^k ordered monomials, which span the same
    space isometrically.
    """

    def __init__(self, columns: int, bandwidth: float, degree: int) -> None:
        # Each alone makes as many features; their binomial could take too long to compute.
        large = max(degree, columns) > MOST_TAYLOR_FEATURES
        self.size = MOST_TAYLOR_FEATURES + 1 if large else comb(degree + columns, columns)
        if self.size > MOST_TAYLOR_FEATURES:
            how_many = f"more than {MOST_TAYLOR_FEATURES}" if large else self.size
            raise ValueError(
                f"degree={degree} on {columns} columns makes {how_many} Taylor features; lower "
                "the degree or use features='nystrom'"
            )
        self.bandwidth = bandwidth
        starts = np.zeros((degree + 1, columns), dtype=np.int64)
        weights = [1.0]
        for k in range(1, degree + 1):
            lists = list(combinations_with_replacement(range(columns), k))
            for i in range(columns):
                starts[k, i] = len(weights) + next(n for n, v in enumerate(lists) if v[0] == i)
            for variables in lists:
                counts = (variables.count(i) for i in set(variables))
                weights.append(prod(factorial(c) for c in counts) ** -0.5)
        self._starts, self._weights = starts, np.array(weights)
        self._memory = Workspace()

    def transform(self, X: Array) -> Array:
        """Return the features of a block, valid until the next call."""
        out = self._memory.allocate("features", len(X), self.size)
        _taylor(X, 1.0 / self.bandwidth, self._starts, self._weights, out)
        return out

    def diagonal(self, X: Array) -> Array:
        return np.ones(len(X))


class Fourier:
    """Random Fourier features [cos(X W), sin(X W)] / sqrt(L): E phi(x)'phi(z) = k(x, z).

    The columns of W are drawn from the kernel's spectral measure: normal for the Gaussian, Cauchy
    by coordinate for the Laplacian, Student t with 2 nu degrees of freedom for the Matern. Pairs of
    sine and cosine have a smaller variance than shifted cosines, and phi(x)'phi(x) = 1 exactly.

    With ``orthogonal`` the columns are orthogonal in blocks of d, their lengths still those of
    normal vectors (chi with d degrees of freedom): each column has the same distribution and they
    spread more evenly, which lowers the variance. The normal numbers drawn are the same.
    """

    def __init__(
        self, kernel: Kernel, columns: int, frequencies: int, seed: int, orthogonal: bool = False
    ) -> None:
        self.size = 2 * frequencies
        rng = generator(seed, FREQUENCIES)
        self.frequencies = kernel.spectral_sample(rng, columns, frequencies, orthogonal)
        self._memory = Workspace()

    def transform(self, X: Array) -> Array:
        """Return the features of a block, valid until the next call."""
        angles = self._memory.allocate("angles", len(X), self.size // 2)
        out = self._memory.allocate("features", len(X), self.size)
        np.matmul(X, self.frequencies, out=angles)
        cos_sin(angles, (self.size // 2) ** -0.5, out)
        return out

    def diagonal(self, X: Array) -> Array:
        return np.ones(len(X))


# Sums of products may be taken in any order ("reassoc"), or they would not vectorise.
@compiled(fastmath={"contract", "reassoc"})
def enter_points(
    S: Array, diagonal: Array, uniforms: Array, gamma: float, most: int, limit: int,
    entered: NDArray[np.bool_], kept: NDArray[np.int64], columns: Array,
) -> int:  # fmt: skip
    """Determine which rows become points, in order, and which of those get a coordinate.

    S (n, n) are the rows' products outside the span so far, so that the squared distance of row i
    to the growing span is S_ii less the squares of its new coordinates, row i of ``columns``
    (n, n). With ``uniforms`` (n,) a row enters if u (rho + gamma) < rho; without (0,), each does.
    At most ``most`` rows enter and ``limit`` get a coordinate. Fills ``entered`` (n,), ``kept``
    (n,) and ``columns``; returns the number of coordinates.
    """
    count = points = 0
    for i in range(len(S)):
        if points == most or count == limit:
            break
        rho = S[i, i]
        for k in range(count):
            rho -= columns[i, k] * columns[i, k]
        if uniforms.size and not uniforms[i] * (rho + gamma) < rho:
            continue
        entered[i] = True
        points += 1
        if rho <= DEPENDENT * diagonal[i]:
            continue
        pivot = np.sqrt(rho)
        kept[count] = i
        columns[i, count] = pivot
        for j in range(i + 1, len(S)):
            total = 0.0
            for k in range(count):
                total += columns[j, k] * columns[i, k]
            columns[j, count] = (S[i, j] - total) / pivot
        count += 1
    return count


class Nystrom(Stateful):
    """The span of a growing set of points, in Cholesky coordinates.

    phi(x) = L^-1 k_I(x) with L L' = K_II, so phi(x)'phi(z) is the kernel projected on the span.

    A new point adds one coordinate and leaves the others as they are. Points that depend on the
    earlier ones in rounding (exact duplicates too) add no coordinate.
    """

    def __init__(self) -> None:
        self._factor = GrowingCholesky()
        self.used = np.zeros(0, dtype=np.int64)  # which of the points have a coordinate
        self.points = 0  # points offered so far
        self._memory = Workspace()

    @property
    def size(self) -> int:
        return self._factor.size

    def transform(self, K: Array) -> Array:
        """Return coordinates of rows from their kernel values with all points offered so far.

        The result is valid until the next call.
        """
        out = self._memory.allocate("features", len(K), self.size)
        out[:] = self._values(K)
        return self._factor.solve_rows(out)

    def _values(self, K: Array) -> Array:
        """Return the kernel values with the points that have a coordinate."""
        return K[:, : self.points] if self.size == self.points else K[:, self.used]

    @property
    def factor(self) -> Array:
        """The lower factor of K over the points that have a coordinate, with unused rows."""
        return self._factor.storage

    def transform_each(self, K: Array) -> Array:
        """Return coordinates of rows; no bit depends on the other rows."""
        Phi = np.array(self._values(K), order="C")
        solve_each(self.factor, Phi)
        return Phi

    def grow(self, phi: Array, diagonal: float) -> float | None:
        """Add a point with the present coordinates phi and k(x, x) = diagonal.

        Return its pivot, by which `extend` divides, or None if it depends on the others.
        """
        self.points += 1
        distance = diagonal - phi @ phi
        if distance <= DEPENDENT * diagonal:
            return None
        self.used = np.append(self.used, self.points - 1)
        return float(self._factor.append(phi[:, None], np.array([[diagonal]]))[0, 0])

    def offer(
        self, K: Array, corner: Array, most: int, limit: int, uniforms: Array | None = None,
        gamma: float = 0.0,
    ) -> NDArray[np.intp]:  # fmt: skip
        """Offer rows as points, in order; return the numbers of those that become points.

        Their kernel values with the present points are K (n, points), with each other ``corner``.
        With ``uniforms``, rows enter if u (rho + gamma) < rho, rho the squared distance to the span
        at their turn, and nothing is changed; without, each enters. At most ``most`` rows enter;
        rows after the one that brings the span to ``limit`` coordinates are not points.
        """
        n = len(K)
        Phi = self.transform(K)
        entered, kept = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.int64)
        columns = np.zeros((n, n))
        coins = np.zeros(0) if uniforms is None else np.ascontiguousarray(uniforms)
        count = enter_points(
            corner - Phi @ Phi.T, np.diagonal(corner).copy(), coins, gamma, most,
            limit - self.size, entered, kept, columns,
        )  # fmt: skip
        if uniforms is not None:
            return np.flatnonzero(entered)
        rows = kept[:count]
        self._factor.append_rows(Phi[rows], columns[rows, :count])
        self.used = np.append(self.used, self.points + np.cumsum(entered)[rows] - 1)
        self.points += int(entered.sum())
        return np.flatnonzero(entered)

    STATE = (
        Count("points", "points", size="points"),
        Part("factor", sizes={"size": "size"}),
        Numbers(
            "used", ("size",), "used", whole=True, low=0, high="points", structure="increasing",
            written="replaced",
        ),
    )  # fmt: skip

    def require_of(self, kernel: Kernel, points: Array) -> None:
        """Raise a StateError if a map from a file is not that of the points."""
        X = np.ascontiguousarray(points[self.used])
        self._factor.require_of(lambda rows: kernel(X[rows], X))


def extend(Phi: Array, column: Array, phi: Array, pivot: float) -> Array:
    """Return the new coordinate of rows Phi with kernel values ``column`` with a new point phi."""
    return np.asarray((column - Phi @ phi) / pivot)
