"""The two shapes of a space of functions: spanned by kernel terms, or by explicit features.

A function is a vector of coefficients. Both shapes offer what the solvers of `pronk.regret.solvers`
ask for, with the penalty alpha |f|^2 inside:

    values, square_norm    f at the rows, |f|^2
    newton_step            argmin of the quadratic model of the losses plus alpha |f|^2
    solve                  (diag(D) + K/(2 alpha))^-1 b, K the rows' kernel matrix
    from_dual              the f whose dual variables are a: f = sum_t a_t k(x_t, .)/(2 alpha)
    gradient_norm          |sum_t g_t k(x_t, .) + 2 alpha f|^2, what is left of the gradient

No inverse and no pseudo-inverse is formed: factors are applied.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pronk.parts.linalg import cholesky, solve_lower

Array = NDArray[np.float64]


class Space(Protocol):
    """What a solver needs of a space."""

    alpha: float
    rows: int
    size: int

    def values(self, f: Array) -> Array: ...
    def square_norm(self, f: Array) -> float: ...
    def newton_step(self, f: Array, z: Array, slopes: Array, seconds: Array) -> Array: ...
    def solve(self, D: Array, b: Array) -> Array: ...
    def kernel_times(self, a: Array) -> Array: ...
    def from_dual(self, a: Array) -> Array: ...
    def gradient_norm(self, f: Array, slopes: Array) -> float: ...


class KernelSpace:
    """All functions sum_i c_i k(x_i, .) of the rows; the coefficients are c."""

    def __init__(self, K: Array, alpha: float) -> None:
        self.K, self.alpha = K, alpha
        self.rows = self.size = len(K)

    def values(self, f: Array) -> Array:
        return np.asarray(self.K @ f)

    def square_norm(self, f: Array) -> float:
        return max(float(f @ self.K @ f), 0.0)

    def newton_step(self, f: Array, z: Array, slopes: Array, seconds: Array) -> Array:
        """c with slopes + seconds (K c - z) + 2 alpha c = 0.

        Rows without curvature have c = -slope/(2 alpha) at once; the others solve
        (K + 2 alpha diag(1/seconds)) c = z - slopes/seconds - (the first rows' part), which loses
        nothing to cancellation. For the squared loss that is (K + alpha I) c = y.
        """
        alpha = self.alpha
        new = -slopes / (2.0 * alpha)
        curved = np.flatnonzero(seconds > 0.0)
        flat = np.flatnonzero(seconds <= 0.0)
        if len(curved):
            h, K = seconds[curved], self.K[np.ix_(curved, curved)]
            right = z[curved] - slopes[curved] / h
            right -= self.K[np.ix_(curved, flat)] @ new[flat]
            new[curved] = _solve_ridge(K, 2.0 * alpha / h, right)
        return new

    def solve(self, D: Array, b: Array) -> Array:
        # The interior-point method measures its own error, so a slightly perturbed system is no
        # harm there; one that has no factor in rounding would be.
        return _solve_ridge(self.K / (2.0 * self.alpha), D, b, 4.0 * self.rows)

    def kernel_times(self, a: Array) -> Array:
        return np.asarray(self.K @ a)

    def from_dual(self, a: Array) -> Array:
        return np.asarray(a / (2.0 * self.alpha))

    def gradient_norm(self, f: Array, slopes: Array) -> float:
        left = slopes + 2.0 * self.alpha * f
        return max(float(left @ self.K @ left), 0.0)


class FeatureSpace:
    """The functions phi(x)'w of rows phi(x_t) = Phi[t]; the coefficients are w."""

    def __init__(self, Phi: Array, alpha: float) -> None:
        self.Phi, self.alpha = Phi, alpha
        self.rows, self.size = Phi.shape

    def values(self, f: Array) -> Array:
        return np.asarray(self.Phi @ f)

    def square_norm(self, f: Array) -> float:
        return float(f @ f)

    def newton_step(self, f: Array, z: Array, slopes: Array, seconds: Array) -> Array:
        """w - (Phi'H Phi + 2 alpha I)^-1 (Phi'slopes + 2 alpha w), from a QR factor.

        The factor of [sqrt(H) Phi; sqrt(2 alpha) I] never squares the condition number, and the
        gradient is computed afresh, so that further steps refine the solution.
        """
        root = np.sqrt(2.0 * self.alpha) * np.eye(self.size)
        stacked = np.vstack([np.sqrt(seconds)[:, None] * self.Phi, root])
        R = np.linalg.qr(stacked, mode="r")
        gradient = self.Phi.T @ slopes + 2.0 * self.alpha * f
        L = np.asfortranarray(np.asarray(R).T)
        step = solve_lower(L, solve_lower(L, gradient[:, None]), transposed=True)[:, 0]
        return np.asarray(f - step)

    def solve(self, D: Array, b: Array) -> Array:
        """By Woodbury, D^-1 b - D^-1 Phi (2 alpha I + Phi'D^-1 Phi)^-1 Phi'D^-1 b, and refined:
        the formula cancels where D is small."""
        scaled = self.Phi / np.sqrt(D)[:, None]
        middle = scaled.T @ scaled
        # As above: a perturbation of some roundings, which the refinement takes out again.
        jitter = 4.0 * self.size * np.finfo(np.float64).eps * float(np.trace(middle))
        middle += (2.0 * self.alpha + jitter) * np.eye(self.size)
        L = cholesky(middle, "matrix of the best function in hindsight")
        x = np.zeros(self.rows)
        for _ in range(3):
            left = (b - D * x - self.kernel_times(x) / (2.0 * self.alpha)) / np.sqrt(D)
            half = solve_lower(L, (scaled.T @ left)[:, None])
            inner = solve_lower(L, half, transposed=True)[:, 0]
            x += (left - scaled @ inner) / np.sqrt(D)
        return x

    def kernel_times(self, a: Array) -> Array:
        return np.asarray(self.Phi @ (self.Phi.T @ a))

    def from_dual(self, a: Array) -> Array:
        return np.asarray(self.Phi.T @ a / (2.0 * self.alpha))

    def gradient_norm(self, f: Array, slopes: Array) -> float:
        left = self.Phi.T @ slopes + 2.0 * self.alpha * f
        return float(left @ left)


def _solve_ridge(K: Array, D: Array, b: Array, ulps: float = 0.0) -> Array:
    """(K + diag(D))^-1 b through a Cholesky factor of the matrix scaled to a unit diagonal.

    The scaling matters where D runs over many orders of magnitude. ``ulps`` roundings are added to
    the unit diagonal.
    """
    if not len(b):
        return b.copy()
    scale = 1.0 / np.sqrt(np.diag(K) + D)
    A = K * scale[:, None] * scale
    A[np.diag_indices_from(A)] = 1.0 + ulps * np.finfo(np.float64).eps
    L = cholesky(A, "matrix of the best function in hindsight")
    half = solve_lower(L, (b * scale)[:, None])
    return np.asarray(solve_lower(L, half, transposed=True)[:, 0] * scale)
