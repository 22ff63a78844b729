"""Minimise sum_t l(f(x_t), y_t) + alpha |f|^2 over a space of functions, with a certificate.

Losses with a derivative are minimised by Newton iterations, damped by halving. The objective is
strongly convex in the norm of the space, so the gradient bounds the gap to the minimum:

    F(f) - min F <= |grad F(f)|^2 / (4 alpha).

For losses with kinks (hinge, absolute, epsilon-insensitive) a primal-dual interior-point method
solves the dual problem

    max  p'v - a'K a/(4 alpha),   a = M v,   0 <= v <= 1

with one Cholesky factor per iteration. f = sum a_t k(x_t, .)/(2 alpha), and the difference of the
two objectives bounds the gap. (A smoothed loss would be another problem with another minimiser.)

A function is a vector of coefficients in one of two spaces, spanned by kernel terms or by explicit
features. No inverse and no pseudo-inverse is formed: factors are applied.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from pronk.core.arrays import Array
from pronk.core.linalg import cholesky, solve_lower
from pronk.core.losses import (
    ABSOLUTE,
    EPSILON_INSENSITIVE,
    HINGE,
    HUBER,
    LOGISTIC,
    SMOOTH_HINGE,
    SQUARED,
    Loss,
)

# -- spaces of functions --------------------------------------------------------------------------


class KernelSpace:
    """All functions sum_i c_i k(x_i, .) of the rows; the coefficients are c."""

    def __init__(self, K: Array, alpha: float) -> None:
        self.K, self.alpha = K, alpha
        self.rows = self.size = len(K)

    def values(self, f: Array) -> Array:
        """Return f at the rows."""
        return np.asarray(self.K @ f)

    def square_norm(self, f: Array) -> float:
        """Return |f|^2."""
        return max(float(f @ self.K @ f), 0.0)

    def newton_step(self, f: Array, z: Array, slopes: Array, seconds: Array) -> Array:
        """Return the minimiser of the quadratic model of the losses plus alpha |f|^2.

        That is c with slopes + seconds (K c - z) + 2 alpha c = 0.

        Rows without curvature have c = -slope/(2 alpha). The other rows solve
        (K + 2 alpha diag(1/seconds)) c = z - slopes/seconds - (part of the rows without curvature),
        which avoids cancellation. For the squared loss this is (K + alpha I) c = y.
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
        """Return (diag(D) + K/(2 alpha))^-1 b, K the rows' kernel matrix."""
        # The interior-point method measures its own error, so a slightly perturbed system does no
        # harm; a system without a factor, because of rounding, would.
        return _solve_ridge(self.K / (2.0 * self.alpha), D, b, 4.0 * self.rows)

    def kernel_times(self, a: Array) -> Array:
        """Return K a."""
        return np.asarray(self.K @ a)

    def from_dual(self, a: Array) -> Array:
        """Return the f of dual variables a: f = sum_t a_t k(x_t, .)/(2 alpha)."""
        return np.asarray(a / (2.0 * self.alpha))

    def gradient_norm(self, f: Array, slopes: Array) -> float:
        """Return |sum_t g_t k(x_t, .) + 2 alpha f|^2, the squared norm of the gradient."""
        gradient = slopes + 2.0 * self.alpha * f
        return max(float(gradient @ self.K @ gradient), 0.0)


class FeatureSpace:
    """The functions phi(x)'w of rows phi(x_t) = Phi[t]; the coefficients are w.

    The methods return what those of `KernelSpace` return.
    """

    def __init__(self, Phi: Array, alpha: float) -> None:
        self.Phi, self.alpha = Phi, alpha
        self.rows, self.size = Phi.shape

    def values(self, f: Array) -> Array:
        return np.asarray(self.Phi @ f)

    def square_norm(self, f: Array) -> float:
        return float(f @ f)

    def newton_step(self, f: Array, z: Array, slopes: Array, seconds: Array) -> Array:
        """Return w - (Phi'H Phi + 2 alpha I)^-1 (Phi'slopes + 2 alpha w), from a QR factor.

        The factor of [sqrt(H) Phi; sqrt(2 alpha) I] does not square the condition number, and each
        step computes the gradient again, so that further steps refine the solution.
        """
        root = np.sqrt(2.0 * self.alpha) * np.eye(self.size)
        stacked = np.vstack([np.sqrt(seconds)[:, None] * self.Phi, root])
        R = np.linalg.qr(stacked, mode="r")
        gradient = self.Phi.T @ slopes + 2.0 * self.alpha * f
        L = np.asfortranarray(np.asarray(R).T)
        step = solve_lower(L, solve_lower(L, gradient[:, None]), transposed=True)[:, 0]
        return np.asarray(f - step)

    def solve(self, D: Array, b: Array) -> Array:
        """Return the solution by Woodbury's formula, refined because it cancels where D is small:

        D^-1 b - D^-1 Phi (2 alpha I + Phi'D^-1 Phi)^-1 Phi'D^-1 b.
        """
        scaled = self.Phi / np.sqrt(D)[:, None]
        middle = scaled.T @ scaled
        # As above: a perturbation of a few roundings, which the refinement removes.
        jitter = 4.0 * self.size * np.finfo(np.float64).eps * float(np.trace(middle))
        middle += (2.0 * self.alpha + jitter) * np.eye(self.size)
        L = cholesky(middle, "matrix of the best function in hindsight")
        x = np.zeros(self.rows)
        for _ in range(3):
            residual = (b - D * x - self.kernel_times(x) / (2.0 * self.alpha)) / np.sqrt(D)
            half = solve_lower(L, (scaled.T @ residual)[:, None])
            inner = solve_lower(L, half, transposed=True)[:, 0]
            x += (residual - scaled @ inner) / np.sqrt(D)
        return x

    def kernel_times(self, a: Array) -> Array:
        return np.asarray(self.Phi @ (self.Phi.T @ a))

    def from_dual(self, a: Array) -> Array:
        return np.asarray(self.Phi.T @ a / (2.0 * self.alpha))

    def gradient_norm(self, f: Array, slopes: Array) -> float:
        gradient = self.Phi.T @ slopes + 2.0 * self.alpha * f
        return float(gradient @ gradient)


Space = KernelSpace | FeatureSpace


def _solve_ridge(K: Array, D: Array, b: Array, ulps: float = 0.0) -> Array:
    """Return (K + diag(D))^-1 b from a Cholesky factor of the matrix scaled to a unit diagonal.

    The scaling matters where D spans many orders of magnitude. ``ulps`` roundings are added to the
    unit diagonal.
    """
    scale = 1.0 / np.sqrt(np.diag(K) + D)
    A = K * scale[:, None] * scale
    A[np.diag_indices_from(A)] = 1.0 + ulps * np.finfo(np.float64).eps
    L = cholesky(A, "matrix of the best function in hindsight")
    half = solve_lower(L, (b * scale)[:, None])
    return np.asarray(solve_lower(L, half, transposed=True)[:, 0] * scale)


# -- solvers --------------------------------------------------------------------------------------

#: The gap to the minimum at which a solver stops, as a share of the objective at f = 0.
TOLERANCE = 1e-10
#: A larger share prints a warning.
_POOR = 1e-6
_MOST_STEPS = 200
_KINKED = (HINGE, ABSOLUTE, EPSILON_INSENSITIVE)


class Solution(NamedTuple):
    """Coefficients, values at the rows, and a bound on objective - minimum."""

    coefficients: Array
    values: Array
    gap: float


def minimise(space: Space, y: Array, loss: Loss) -> Solution:
    """Minimise sum_t l(f(x_t), y_t) + alpha |f|^2 over the space."""
    if not space.rows or not space.size:
        zeros = np.zeros(space.size)
        return Solution(zeros, np.zeros(space.rows), 0.0)
    solve = _interior_point if loss.code in _KINKED else _newton
    solution = solve(space, y, loss)
    scale = float(loss.value(np.zeros(len(y)), y).sum())
    if solution.gap > _POOR * scale:
        warnings.warn(
            f"the best function in hindsight was found only up to {solution.gap:.1e} in the "
            f"objective (its value at 0 is {scale:.1e}); a larger alpha helps",
            UserWarning,
            stacklevel=3,
        )
    return solution


def second_derivative(loss: Loss, z: Array, y: Array) -> Array:
    """Return d^2 l/dz^2, one-sided where it jumps (squared hinge, smooth hinge, Huber)."""
    a = y * z
    if loss.code == SQUARED:
        return np.full(len(z), 2.0)
    if loss.code == LOGISTIC:
        e = np.exp(-np.abs(a))
        return np.asarray(y**2 * e / (1.0 + e) ** 2)
    if loss.code == SMOOTH_HINGE:
        inside = (a < 1.0) & (a > 1.0 - loss.parameter)
        return np.where(inside, y**2 / loss.parameter, 0.0)
    if loss.code == HUBER:
        return np.where(np.abs(z - y) <= loss.parameter, 1.0, 0.0)
    return np.where(a < 1.0, 2.0 * y**2, 0.0)  # squared hinge


def _newton(space: Space, y: Array, loss: Loss) -> Solution:
    """Run damped Newton iterations from 0 until the gradient bounds the gap."""
    scale = float(loss.value(np.zeros(len(y)), y).sum())
    f, z = np.zeros(space.size), np.zeros(space.rows)
    objective, best = scale, Solution(f, z, np.inf)
    for _ in range(_MOST_STEPS):
        slopes, seconds = loss.slope(z, y), second_derivative(loss, z, y)
        gap = space.gradient_norm(f, slopes) / (4.0 * space.alpha)
        if gap < best.gap:
            best = Solution(f, z, gap)
        if gap <= TOLERANCE * scale:
            break
        direction = space.newton_step(f, z, slopes, seconds) - f
        step, moved = 1.0, False
        while step > 1e-10 and not moved:
            trial = f + step * direction
            values = space.values(trial)
            value = float(loss.value(values, y).sum()) + space.alpha * space.square_norm(trial)
            # Rounding may lift an objective that is already at its minimum.
            moved = value <= objective + 1e-13 * scale
            step *= 0.5
        if not moved:
            break
        f, z, objective = trial, values, value
    return best


def _dual(loss: Loss, y: Array) -> tuple[Array, float, Array, float]:
    """Return signs, offset, p and constant of the dual problem.

    a = offset + sum_i signs[i] v[i], and the linear term is p'v + constant.

    Hinge: a = y v, linear term sum v. Absolute: a = 2 v - 1, linear term y'a. Epsilon-insensitive:
    a = v_0 - v_1, linear term y'a - eps sum (v_0 + v_1).
    """
    ones = np.ones(len(y))
    if loss.code == HINGE:
        return y[None, :], 0.0, ones[None, :], 0.0
    if loss.code == ABSOLUTE or loss.parameter == 0.0:
        return 2.0 * ones[None, :], -1.0, 2.0 * y[None, :], -float(y.sum())
    eps = loss.parameter
    return np.array([ones, -ones]), 0.0, np.array([y - eps, -y - eps]), 0.0


def _interior_point(space: Space, y: Array, loss: Loss) -> Solution:
    """Solve the dual problem by path following; v and 1 - v are stored apart to avoid rounding."""
    signs, offset, p, constant = _dual(loss, y)
    alpha = space.alpha
    v, complement = np.full(p.shape, 0.5), np.full(p.shape, 0.5)
    z = space.kernel_times(offset + (signs * v).sum(axis=0)) / (2.0 * alpha)
    gradient = signs * z - p
    lower, upper = np.maximum(gradient, 0.0) + 1.0, np.maximum(-gradient, 0.0) + 1.0
    scale = float(loss.value(np.zeros(len(y)), y).sum())
    best = Solution(np.zeros(space.size), np.zeros(space.rows), scale)
    for _ in range(_MOST_STEPS):
        a = offset + (signs * v).sum(axis=0)
        z = space.kernel_times(a) / (2.0 * alpha)
        penalty = 0.5 * float(a @ z)  # alpha |f|^2
        primal = float(loss.value(z, y).sum()) + penalty
        gap = max(primal + penalty - float((p * v).sum()) - constant, 0.0)
        if gap < best.gap:
            f = space.from_dual(a)
            best = Solution(f, space.values(f), gap)
        if gap <= TOLERANCE * scale:
            break
        mu = 0.1 * float((lower * v + upper * complement).mean()) / 2.0
        barrier = lower / v + upper / complement
        right = p - signs * z + mu / v - mu / complement
        # (M'K M/(2 alpha) + barrier) dv = right, reduced to one n x n system in da = M dv.
        D = 1.0 / (signs**2 / barrier).sum(axis=0)
        b = D * (signs * right / barrier).sum(axis=0)
        da = space.solve(D, b)
        dv = (right - signs * (b - D * da)) / barrier
        if len(signs) == 1:
            dv = da / signs
        d_lower = mu / v - lower - lower / v * dv
        d_upper = mu / complement - upper + upper / complement * dv
        step = min(
            _largest_step(v, dv),
            _largest_step(complement, -dv),
            _largest_step(lower, d_lower),
            _largest_step(upper, d_upper),
        )
        if not 1e-12 < step < np.inf:
            break
        v, complement = v + step * dv, complement - step * dv
        lower, upper = lower + step * d_lower, upper + step * d_upper
    return best


def _largest_step(x: Array, dx: Array) -> float:
    """Return the largest step <= 1 with x + step dx well above 0."""
    down = dx < 0
    return float(min(1.0, 0.99 * (-x[down] / dx[down]).min(initial=np.inf)))
