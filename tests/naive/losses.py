"""Losses l(z, y) of a prediction z, as scalar functions, with their constants.

``sigma`` is the curvature constant of Assumption 2 on [-C, C],

    l(u) >= l(z) + l'(z)(u - z) + sigma/2 (l'(z)(u - z))^2,

0 where the loss has a linear piece; ``lipschitz`` bounds |l'| on [-C, C] (the
global constant where there is one). Notes N6, P7, L1.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Loss(NamedTuple):
    value: Callable  # (z, y) -> float
    slope: Callable  # (z, y) -> float, derivative in z
    sigma: Callable  # C -> float
    lipschitz: Callable  # C -> float
    margin: bool  # a function of y z with y in {-1, 1}


def _none(C):
    return 0.0


def _one(C):
    return 1.0


def squared():
    """(z-y)^2; sigma = 1/(8 C^2), L = 4 C."""
    return Loss(
        lambda z, y: (z - y) ** 2,
        lambda z, y: 2 * (z - y),
        lambda C: 1 / (8 * C**2),
        lambda C: 4 * C,
        False,
    )


def logistic():
    """log(1 + exp(-yz)); sigma = min(1/(8C), e^-C)/2 (P7), L = 1."""
    return Loss(
        lambda z, y: np.logaddexp(0, -y * z),
        lambda z, y: -y / (1 + np.exp(y * z)),
        lambda C: min(1 / (8 * C), np.exp(-C)) / 2,
        _one,
        True,
    )


def squared_hinge():
    """max(0, 1-yz)^2; sigma = 1/(2(1+C)^2) if C <= 1 else (3C-1)/(8C^2(1+C)) (P7), L = 2(1+C)."""

    def sigma(C):
        return 1 / (2 * (1 + C) ** 2) if C <= 1 else (3 * C - 1) / (8 * C**2 * (1 + C))

    return Loss(
        lambda z, y: max(0.0, 1 - y * z) ** 2,
        lambda z, y: -2 * y * max(0.0, 1 - y * z),
        sigma,
        lambda C: 2 * (1 + C),
        True,
    )


def hinge():
    """max(0, 1-yz), slope 0 at yz = 1 (L1); sigma = 0, L = 1."""
    return Loss(
        lambda z, y: max(0.0, 1 - y * z),
        lambda z, y: -y if y * z < 1 else 0.0,
        _none,
        _one,
        True,
    )


def smooth_hinge(tau=0.5):
    """0 if a = yz >= 1, 1-a-tau/2 if a <= 1-tau, else (1-a)^2/(2 tau) (1.9); sigma = 0, L = 1."""

    def value(z, y):
        a = y * z
        if a >= 1:
            return 0.0
        return 1 - a - tau / 2 if a <= 1 - tau else (1 - a) ** 2 / (2 * tau)

    def slope(z, y):
        a = y * z
        if a >= 1:
            return 0.0
        return -y if a <= 1 - tau else -y * (1 - a) / tau

    return Loss(value, slope, _none, _one, True)


def absolute():
    """|z-y|, slope 0 at z = y; sigma = 0, L = 1."""
    return Loss(lambda z, y: abs(z - y), lambda z, y: np.sign(z - y), _none, _one, False)


def epsilon_insensitive(epsilon=0.1):
    """max(0, |z-y| - epsilon), slope 0 at |z-y| = epsilon; sigma = 0, L = 1."""
    return Loss(
        lambda z, y: max(0.0, abs(z - y) - epsilon),
        lambda z, y: np.sign(z - y) if abs(z - y) > epsilon else 0.0,
        _none,
        _one,
        False,
    )


def huber(delta=1.0):
    """r^2/2 for |r| = |z-y| <= delta, delta(|r| - delta/2) beyond; sigma = 0, L = delta."""
    return Loss(
        lambda z, y: (z - y) ** 2 / 2 if abs(z - y) <= delta else delta * (abs(z - y) - delta / 2),
        lambda z, y: min(max(z - y, -delta), delta),
        _none,
        lambda C: delta,
        False,
    )


LOSSES = {
    f.__name__: f
    for f in (
        squared,
        logistic,
        squared_hinge,
        hinge,
        smooth_hinge,
        absolute,
        epsilon_insensitive,
        huber,
    )
}


def get(loss):
    """A Loss from its name (default parameters) or itself."""
    return LOSSES[loss]() if isinstance(loss, str) else loss
