"""Losses l(z, y) of a prediction z for a label y, with the constants that step sizes need.

    squared              (z - y)^2
    logistic             log(1 + exp(-a))                               a = y z, y = -1 or 1
    squared_hinge        max(0, 1 - a)^2
    hinge                max(0, 1 - a)
    smooth_hinge         0 for a >= 1, (1 - a)^2/(2 tau) down to a = 1 - tau, 1 - a - tau/2 below
    absolute             |r|                                            r = z - y
    epsilon_insensitive  max(0, |r| - epsilon)
    huber                r^2/2 for |r| <= delta, delta (|r| - delta/2) beyond

Each formula is written once, in the compiled functions ``value``, ``slope``, ``curvature``
and ``lipschitz`` over (code, parameter); the engines call these row by row and the methods
of ``Loss`` run them over arrays. The slope with y = 1 is the derivative by the margin a.

>>> from pronk.core.losses import get_loss
>>> get_loss("squared_hinge").slope([0.0, 0.5, 2.0], [1.0, -1.0, 1.0])
array([-2.,  3.,  0.])
>>> get_loss("squared").curvature(1.0) / 2
0.0625
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pronk.core.arrays import Array
from pronk.core.checks import check_positive, did_you_mean
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar

Task = Literal["regression", "classification", "both"]

SQUARED = 0
LOGISTIC = 1
SQUARED_HINGE = 2
HINGE = 3
SMOOTH_HINGE = 4
ABSOLUTE = 5
EPSILON_INSENSITIVE = 6
HUBER = 7


@compiled
def value(code: int, parameter: float, z: float, y: float) -> float:
    """Return l(z, y); NaN where an argument is NaN."""
    r = z - y
    a = y * z
    if code == SQUARED:
        return r * r
    if code == LOGISTIC:
        # exp of a negative number only: no overflow, and log1p keeps small losses exact.
        return math.log1p(exp_scalar(-abs(a))) + (0.0 if a >= 0.0 else -a)
    if code == SQUARED_HINGE:
        return 0.0 if a >= 1.0 else (1.0 - a) * (1.0 - a)
    if code == HINGE:
        return 0.0 if a >= 1.0 else 1.0 - a
    if code == SMOOTH_HINGE:
        if a >= 1.0:
            return 0.0
        if a <= 1.0 - parameter:
            return 1.0 - a - 0.5 * parameter
        return 0.5 * (1.0 - a) * (1.0 - a) / parameter
    if code == ABSOLUTE:
        return abs(r)
    if code == EPSILON_INSENSITIVE:
        return 0.0 if abs(r) <= parameter else abs(r) - parameter
    if abs(r) <= parameter:
        return 0.5 * r * r
    return parameter * (abs(r) - 0.5 * parameter)


@compiled
def slope(code: int, parameter: float, z: float, y: float) -> float:
    """Return dl/dz; at a kink the subgradient is exactly 0.

    With the hinge loss and clip 1 the kink is the clipping level, so it occurs often.
    """
    r = z - y
    a = y * z
    if code == SQUARED:
        return 2.0 * r
    if code == LOGISTIC:
        # -y/(1 + exp(a)) without overflow
        e = exp_scalar(-abs(a))
        return -y * (e if a >= 0.0 else 1.0) / (1.0 + e)
    if code == SQUARED_HINGE:
        return 0.0 if a >= 1.0 else -2.0 * y * (1.0 - a)
    if code == HINGE:
        return 0.0 if a >= 1.0 else -y
    if code == SMOOTH_HINGE:
        if a >= 1.0:
            return 0.0
        return -y if a <= 1.0 - parameter else -y * (1.0 - a) / parameter
    border = 0.0 if code == ABSOLUTE else parameter
    if abs(r) <= border:
        return r if code == HUBER else 0.0
    size = parameter if code == HUBER else 1.0
    return size if r > 0.0 else -size


@compiled
def _squared_hinge_curvature(clip: float) -> float:
    """Return 1/(2 (1+C)^2) for C <= 1 and (3C-1)/(8 C^2 (1+C)) beyond.

    The worst u is -C. Beyond 1 the worst w is C, where l is 0 while the quadratic rises again.
    """
    if clip <= 1.0:
        return 1.0 / (2.0 * (1.0 + clip) * (1.0 + clip))
    return (3.0 - 1.0 / clip) / (8.0 * clip * (1.0 + clip))


@compiled
def curvature(code: int, parameter: float, clip: float) -> float:
    """Return sigma >= 0 with, for all |u|, |w|, |y| <= C (y = -1 or 1 for margin losses),

        l(w) >= l(u) + l'(u) (w - u) + sigma/2 (l'(u) (w - u))^2.

    This is Assumption 2 of the online Newton papers; sigma/2 is the step coefficient that
    ``eta="auto"`` uses. It is the largest possible sigma for all losses but the logistic,
    whose min(1/(8C), exp(-C))/2 is two to six times smaller than the largest.

    A loss that is linear somewhere on [-C, C] has none (0): the hinge, absolute and
    epsilon-insensitive losses always, the smooth hinge for C > tau - 1, the Huber loss for
    2C > delta. Below that the last two are multiples c of the squared hinge and of the squared
    loss, and sigma(c l) = sigma(l)/c. For clip = 0 it may be infinite.
    """
    if code == SQUARED:
        return 1.0 / (8.0 * clip * clip)
    if code == LOGISTIC:
        return 0.5 * min(1.0 / (8.0 * clip), exp_scalar(-clip))
    if code == SQUARED_HINGE:
        return _squared_hinge_curvature(clip)
    if code == SMOOTH_HINGE and clip <= parameter - 1.0:
        return 2.0 * parameter * _squared_hinge_curvature(clip)
    if code == HUBER and 2.0 * clip <= parameter:
        return 1.0 / (4.0 * clip * clip)
    return 0.0


@compiled
def lipschitz(code: int, parameter: float, clip: float) -> float:
    """Return L >= |l'(z)| for |z| <= C and |y| <= C (y = -1 or 1 for margin losses).

    It is the least such number, except for the logistic loss (1 for every C) and for an
    epsilon-insensitive tube as wide as the range, where the slope is 0.
    """
    if code == SQUARED:
        return 4.0 * clip
    if code == SQUARED_HINGE:
        return 2.0 * (1.0 + clip)
    if code == SMOOTH_HINGE:
        return min(1.0, (1.0 + clip) / parameter)
    if code == HUBER:
        return min(parameter, 2.0 * clip)
    return 1.0


@compiled
def _values(code: int, parameter: float, z: Array, y: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = value(code, parameter, z[i], y[i])


@compiled
def _slopes(code: int, parameter: float, z: Array, y: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = slope(code, parameter, z[i], y[i])


def _over_arrays(loop: Any, loss: Loss, z: ArrayLike, y: ArrayLike) -> Any:
    """Run a compiled loop over z and y broadcast against each other; a float for two numbers."""
    z, y = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64))
    out = np.empty(z.shape)
    loop(loss.code, loss.parameter, z.ravel(), y.ravel(), out.reshape(-1))
    return out if out.ndim else float(out)


@dataclass(frozen=True)
class Loss:
    """A loss with its parameter fixed: tau, epsilon, delta, or 0.0 where there is none.

    ``code`` and ``parameter`` are arguments of the compiled functions of this module. ``task``
    is the kind of labels: any number, -1 and 1, or both.
    """

    name: str
    code: int
    parameter: float
    task: Task

    def value(self, z: ArrayLike, y: ArrayLike) -> Any:
        """Return l(z, y), an array of the broadcast shape or a float."""
        return _over_arrays(_values, self, z, y)

    def slope(self, z: ArrayLike, y: ArrayLike) -> Any:
        """Return dl/dz at (z, y), an array of the broadcast shape or a float; 0 at a kink."""
        return _over_arrays(_slopes, self, z, y)

    def curvature(self, clip: float) -> float:
        """Return sigma of Assumption 2 on [-clip, clip], 0 if there is none (see `curvature`)."""
        return float(curvature(self.code, self.parameter, float(clip)))

    def lipschitz(self, clip: float) -> float:
        """Return the largest |slope| on [-clip, clip]."""
        return float(lipschitz(self.code, self.parameter, float(clip)))

    @property
    def curved(self) -> bool:
        """Whether the curvature is positive for every clip."""
        return self.code in (SQUARED, LOGISTIC, SQUARED_HINGE)

    def smoothness(self) -> float:
        """Return M, the largest second derivative; infinity for a loss with a kink."""
        if self.code == SMOOTH_HINGE:
            return 1.0 / self.parameter
        return {SQUARED: 2.0, LOGISTIC: 0.25, SQUARED_HINGE: 2.0, HUBER: 1.0}.get(
            self.code, math.inf
        )


#: Every loss by name, with the default parameter.
LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("squared", SQUARED, 0.0, "both"),
        Loss("logistic", LOGISTIC, 0.0, "classification"),
        Loss("squared_hinge", SQUARED_HINGE, 0.0, "classification"),
        Loss("hinge", HINGE, 0.0, "classification"),
        Loss("smooth_hinge", SMOOTH_HINGE, 0.5, "classification"),
        Loss("absolute", ABSOLUTE, 0.0, "regression"),
        Loss("epsilon_insensitive", EPSILON_INSENSITIVE, 0.1, "regression"),
        Loss("huber", HUBER, 1.0, "regression"),
    )
}


def get_loss(
    name: str | Loss, *, tau: float = 0.5, epsilon: float = 0.1, delta: float = 1.0
) -> Loss:
    """Return the loss of that name, or a `Loss` itself; ignore parameters of other losses."""
    if isinstance(name, Loss):
        return name
    if name not in LOSSES:
        hint = did_you_mean(name, LOSSES)
        raise ValueError(f"unknown loss {name!r}{hint}; the losses are {', '.join(LOSSES)}")
    given = {
        "smooth_hinge": ("tau", tau), "epsilon_insensitive": ("epsilon", epsilon),
        "huber": ("delta", delta),
    }.get(name)  # fmt: skip
    if given is None:
        return LOSSES[name]
    check_positive(*given, zero=name == "epsilon_insensitive")
    return replace(LOSSES[name], parameter=float(given[1]))
