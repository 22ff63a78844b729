"""Kernels, evaluated in blocks: ``kernel(X, Z)`` is the matrix k(x_i, z_j)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar

# -- distances of all pairs of rows, without cancellation -----------------------------------------
#
# Up to ``DIRECT_COLUMNS`` columns they are sums of squared differences in a compiled loop that
# runs along the points, so a value depends on its two points alone and not on how the stream is
# cut into blocks. Wider rows go through BLAS as |x-o|^2 + |z-o|^2 - 2 (x-o)'(z-o) with the origin
# o moved to the first point of Z, and the pairs that lost more than three digits are computed
# again from the differences.


#: Widest rows whose distances are summed directly; beyond, BLAS is faster (benchmarks/bench_parts).
DIRECT_COLUMNS = 32
#: Points handled at a time, so that one row of distances stays in the first-level cache.
_TILE = 512
#: A squared distance below this share of the two squared norms is computed again.
_CANCELLED = 1e-3


@compiled(fastmath={"contract"})
def _square_distances(X: Array, Zt: Array, out: Array) -> None:
    """Compute out[i, j] = sum_k (X[i, k] - Zt[k, j])^2; X (n, d), Zt (d, m), out (n, m)."""
    n, d = X.shape
    m = Zt.shape[1]
    for start in range(0, m, _TILE):
        stop = min(start + _TILE, m)
        for i in range(n):
            row = out[i, start:stop]
            row[:] = 0.0
            for k in range(d):
                x = X[i, k]
                z = Zt[k, start:stop]
                for j in range(stop - start):
                    step = x - z[j]
                    row[j] += step * step


@compiled(fastmath={"contract"})
def _absolute_distances(X: Array, Zt: Array, out: Array) -> None:
    """Compute out[i, j] = sum_k |X[i, k] - Zt[k, j]|; shapes as above."""
    n, d = X.shape
    m = Zt.shape[1]
    for start in range(0, m, _TILE):
        stop = min(start + _TILE, m)
        for i in range(n):
            row = out[i, start:stop]
            row[:] = 0.0
            for k in range(d):
                x = X[i, k]
                z = Zt[k, start:stop]
                for j in range(stop - start):
                    row[j] += abs(x - z[j])


@compiled(fastmath={"contract"})
def _from_products(X: Array, Z: Array, products: Array, limit: float) -> None:
    """Replace products[i, j] = x_i'z_j by |x_i - z_j|^2; cancelled pairs are summed again."""
    n, d = X.shape
    m = Z.shape[0]
    norms = np.empty(m)
    for j in range(m):
        total = 0.0
        for k in range(d):
            total += Z[j, k] * Z[j, k]
        norms[j] = total
    for i in range(n):
        norm = 0.0
        for k in range(d):
            norm += X[i, k] * X[i, k]
        for j in range(m):
            both = norm + norms[j]
            value = both - 2.0 * products[i, j]
            if value < limit * both:
                value = 0.0
                for k in range(d):
                    step = X[i, k] - Z[j, k]
                    value += step * step
            products[i, j] = value


def square_distances(
    X: Array, Z: Array, out: Array | None = None, *, direct: bool = False
) -> Array:
    """Return |x_i - z_j|^2 for all pairs, to a relative 1e-12 however close the points are.

    ``direct``: of rows of any width by differences, so that no bit depends on the other rows.
    """
    if out is None:
        out = np.empty((len(X), len(Z)))
    if direct or X.shape[1] <= DIRECT_COLUMNS:
        _square_distances(X, np.ascontiguousarray(Z.T), out)
    elif len(Z):
        X0, Z0 = X - Z[0], Z - Z[0]
        np.matmul(X0, Z0.T, out=out)
        _from_products(X0, Z0, out, _CANCELLED)
    return out


@compiled(fastmath={"contract"})
def exponential(values: Array, rate: float) -> None:
    """Replace values by exp(-rate * values), in place."""
    flat = values.ravel()
    for i in range(flat.size):
        flat[i] = exp_scalar(-rate * flat[i])


@compiled(fastmath={"contract"})
def _matern(values: Array, rate: float, nu: float) -> None:
    """Replace squared distances r^2 by the Matern profile at s = rate * r, in place."""
    flat = values.ravel()
    if nu == 0.5:
        for i in range(flat.size):
            flat[i] = exp_scalar(-rate * np.sqrt(flat[i]))
    elif nu == 1.5:
        for i in range(flat.size):
            s = rate * np.sqrt(flat[i])
            flat[i] = (1.0 + s) * exp_scalar(-s)
    else:
        for i in range(flat.size):
            s = rate * np.sqrt(flat[i])
            flat[i] = (1.0 + s + s * s / 3.0) * exp_scalar(-s)


class Kernel(BaseEstimator):
    """A kernel: callable on two blocks of rows, with its diagonal and its parameters.

    ``distances`` and ``from_distances`` split the work so that several bandwidths can share one
    matrix of distances; ``kernel(X, Z)`` is the one after the other. Class attributes describe
    what else a kernel has; other code reads them and does not test for a class.
    """

    name: str = ""
    #: k(x, x) = 1 for every x.
    normalised: ClassVar[bool] = False
    #: k(x, x) grows with x without limit, and may overflow.
    unlimited: ClassVar[bool] = False
    #: ``distances`` are the squares of what the bandwidth measures.
    squares: ClassVar[bool] = True
    #: A function that pronk does not know: it may raise, and no file holds it.
    foreign: ClassVar[bool] = False

    @property
    def exponent(self) -> float | None:
        """The r of a kernel that is exp(-r * distance) of its ``distances``; None for others."""
        return None

    @property
    def rate(self) -> float | None:
        """The r of a kernel that is exp(-r |x - z|^2); None for all others."""
        return self.exponent if self.squares else None

    def spectral_sample(
        self, rng: np.random.Generator, columns: int, n: int, orthogonal: bool = False
    ) -> Array:
        """Draw n frequencies (columns, n) of random Fourier features from the spectral measure.

        With ``orthogonal`` they are orthogonal in blocks.
        """
        known = [name for name, kernel in KERNELS.items() if kernel.normalised]
        names = f"{', '.join(known[:-1])} or {known[-1]}"
        raise ValueError(f"kernel must be {names} for random Fourier features, got {self.name!r}")

    def distances(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """Return what the kernel is a function of: distances or inner products of all pairs."""
        raise NotImplementedError

    def from_distances(self, values: Array) -> Array:
        """Return the kernel values from ``distances``; may overwrite its argument."""
        exponential(values, self.exponent)
        return values

    def distances_of_each(self, X: Array, Z: Array, out: Array) -> Array:
        """Return ``distances`` of which no bit depends on the other rows of X."""
        for i in range(len(X)):
            out[i] = self.distances(X[i : i + 1], Z)[0]
        return out

    def __call__(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        """Return k(x_i, z_j) for all pairs; the result may or may not be ``out``."""
        return self.from_distances(self.distances(X, Z, out))

    def diagonal(self, X: Array) -> Array:
        """Return k(x, x) for every row."""
        return np.ones(len(X))

    def check(self) -> None:
        """Raise a ValueError that names the parameter if one is out of range."""
        bandwidth = getattr(self, "bandwidth", 1.0)
        if not _positive(bandwidth):
            raise ValueError(
                f"kernel bandwidth must be a positive finite number, got {bandwidth!r}"
            )


def _positive(value: Any) -> bool:
    try:
        return bool(np.isfinite(value) and value > 0)
    except TypeError:
        return False


def _orthogonal(normal: Array, rng: np.random.Generator) -> Array:
    """Return columns orthogonal in blocks of d, with the lengths of normal vectors."""
    d, n = normal.shape
    directions = []
    for first in range(0, n, d):
        Q, R = np.linalg.qr(normal[:, first : first + d])
        directions.append(Q * np.sign(np.diag(R)))  # the sign makes Q uniform
    return np.asarray(np.hstack(directions) * np.sqrt(rng.chisquare(d, n)))


class Gaussian(Kernel):
    """exp(-|x - z|^2 / (2 bandwidth^2)).

    In a learner, ``bandwidth="auto"`` (also of the Laplacian and Matern kernels) is the median
    distance of its first rows, at most 256; `Prepared` scales the columns before.

    >>> import numpy as np
    >>> print(Gaussian(bandwidth=2.0)(np.zeros((1, 3)), np.ones((1, 3)) * 2).round(6))
    [[0.22313]]
    """

    name = "gaussian"
    normalised = True

    def __init__(self, bandwidth: Any = 1.0) -> None:
        self.bandwidth = bandwidth

    def spectral_sample(
        self, rng: np.random.Generator, columns: int, n: int, orthogonal: bool = False
    ) -> Array:
        """Draw normal frequencies."""
        normal = rng.standard_normal((columns, n))
        return (_orthogonal(normal, rng) if orthogonal else normal) / self.bandwidth

    def distances(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        return square_distances(X, Z, out)

    def distances_of_each(self, X: Array, Z: Array, out: Array) -> Array:
        return square_distances(X, Z, out, direct=True)

    @property
    def exponent(self) -> float:
        return 0.5 / float(self.bandwidth) ** 2


class Laplacian(Kernel):
    """exp(-|x - z|_1 / bandwidth)."""

    name = "laplacian"
    normalised = True
    squares = False

    def __init__(self, bandwidth: Any = 1.0) -> None:
        self.bandwidth = bandwidth

    def spectral_sample(
        self, rng: np.random.Generator, columns: int, n: int, orthogonal: bool = False
    ) -> Array:
        """Draw Cauchy coordinates, which have no orthogonal form."""
        if orthogonal:
            raise ValueError("kernel must be gaussian or matern for orthogonal random features")
        return rng.standard_cauchy((columns, n)) / self.bandwidth

    def distances(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        if out is None:
            out = np.empty((len(X), len(Z)))
        _absolute_distances(X, np.ascontiguousarray(Z.T), out)
        return out

    distances_of_each = distances

    @property
    def exponent(self) -> float:
        return 1.0 / float(self.bandwidth)


class Matern(Kernel):
    """The Matern kernel of order nu = 1/2, 3/2 or 5/2 at s = sqrt(2 nu) |x - z| / bandwidth:
    exp(-s), (1 + s) exp(-s) or (1 + s + s^2/3) exp(-s)."""

    name = "matern"
    normalised = True

    def __init__(self, bandwidth: Any = 1.0, nu: float = 1.5) -> None:
        self.bandwidth = bandwidth
        self.nu = nu

    def spectral_sample(
        self, rng: np.random.Generator, columns: int, n: int, orthogonal: bool = False
    ) -> Array:
        """Draw from Student's t with 2 nu degrees of freedom."""
        normal = rng.standard_normal((columns, n))
        freedom = 2.0 * self.nu
        scales = np.sqrt(rng.chisquare(freedom, n) / freedom)
        return (_orthogonal(normal, rng) if orthogonal else normal) / scales / self.bandwidth

    def check(self) -> None:
        super().check()
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"kernel nu must be 0.5, 1.5 or 2.5, got {self.nu!r}")

    def distances(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        return square_distances(X, Z, out)

    def from_distances(self, values: Array) -> Array:
        _matern(values, np.sqrt(2.0 * self.nu) / self.bandwidth, float(self.nu))
        return values


class Linear(Kernel):
    """x'z."""

    name = "linear"
    unlimited = True

    def distances(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        return np.matmul(X, Z.T, out=out)

    def from_distances(self, values: Array) -> Array:
        return values

    def diagonal(self, X: Array) -> Array:
        return np.einsum("ij,ij->i", X, X)


class Polynomial(Linear):
    """(x'z + offset)^degree with a whole degree and offset >= 0."""

    name = "polynomial"

    def __init__(self, degree: int = 2, offset: float = 1.0) -> None:
        self.degree = degree
        self.offset = offset

    def check(self) -> None:
        if not _positive(self.degree) or self.degree != int(self.degree):
            raise ValueError(f"kernel degree must be a whole number >= 1, got {self.degree!r}")
        if self.offset != 0 and not _positive(self.offset):
            raise ValueError(f"kernel offset must be a finite number >= 0, got {self.offset!r}")

    def from_distances(self, values: Array) -> Array:
        values += self.offset
        return np.power(values, self.degree, out=values)

    def diagonal(self, X: Array) -> Array:
        return np.asarray((super().diagonal(X) + self.offset) ** self.degree)


class UserKernel(Kernel):
    """A user's function ``k(X, Z) -> matrix``, whose results are checked."""

    name = "user"
    foreign = True

    def __init__(self, function: Callable[[Array, Array], Any]) -> None:
        self.function = function

    def __call__(self, X: Array, Z: Array, out: Array | None = None) -> Array:
        values = np.ascontiguousarray(self.function(X, Z), dtype=np.float64)
        if values.shape != (len(X), len(Z)):
            raise ValueError(
                f"kernel function returned shape {values.shape}, expected {(len(X), len(Z))}"
            )
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise ValueError(f"kernel function returned a value that is not finite at row {row}")
        return values

    def diagonal(self, X: Array) -> Array:
        # A user's function gives blocks only; small ones keep the wasted values few.
        parts = [np.diag(self(X[i : i + 16], X[i : i + 16])) for i in range(0, len(X), 16)]
        return np.concatenate(parts) if parts else np.empty(0)


KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Gaussian, Laplacian, Matern, Linear, Polynomial)
}


def is_automatic(kernel: Any) -> bool:
    """Return whether the bandwidth of a kernel is "auto", measured from the first rows."""
    bandwidth = getattr(kernel, "bandwidth", None)
    return isinstance(bandwidth, str) and bandwidth == "auto"


def with_bandwidth(kernel: Kernel, bandwidth: float) -> Kernel:
    """Return the same kernel with another bandwidth."""
    new = copy.copy(kernel)
    new.bandwidth = bandwidth
    return new


def get_kernel(
    kernel: str | Kernel | Callable[[Array, Array], Any], *, auto: bool = False
) -> Kernel:
    """Return the checked kernel object of a name, an instance or a user's function.

    With ``auto``, a bandwidth of "auto" is accepted and counts as 1.
    """
    if is_automatic(kernel):
        if not auto:
            raise ValueError(
                "kernel bandwidth='auto' is chosen by a learner from its first rows; give a number"
            )
        kernel = with_bandwidth(kernel, 1.0)  # type: ignore[arg-type]
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}; got {kernel!r}")
        return KERNELS[kernel]()
    if isinstance(kernel, Kernel):
        kernel.check()
        return kernel
    if callable(kernel):
        return UserKernel(kernel)
    raise ValueError(f"kernel must be a name, a pronk kernel or a function k(X, Z), got {kernel!r}")
