"""Update rules of a kernel expansion: the coefficient with which a row enters, f += a k(x, .).

    mistakes     a = y where y f(x) <= 0                                      (Perceptron)
    gradient     a = -eta slope of the loss at f(x)                           (OGD, NORMA, BSGD)
    passive      a = tau times the direction that lowers the loss l = l(f(x), y), with the cost C
                 tau = min(C, l / k(x, x))                                    (PA-I)
                 tau = l / (k(x, x) + 1 / (2 C))                              (PA-II)

A rule of its own is a frozen dataclass here that gives the numbers of `UpdateRule`, a code, and its
line in `step`. A row of weight w takes the step of the first two w times as long, and has the cost
w C in the third, whose steps solve a problem in which C weighs the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba import njit

from pronk.engines.expansion.support import UpdateRule
from pronk.parts import losses
from pronk.parts.losses import HINGE, Loss

MISTAKES_ONLY, GRADIENT, PASSIVE_1, PASSIVE_2 = range(4)


@dataclass(frozen=True)
class Mistakes:
    """The Perceptron; ``aggressive`` learns from margin errors too (Projectron++)."""

    aggressive: bool = False

    def numbers(self) -> dict[str, Any]:
        return {
            "update": MISTAKES_ONLY, "loss": HINGE, "parameter": 0.0, "eta": 1.0, "alpha": 0.0,
            "pegasos": False, "balanced": False, "aggressive": bool(self.aggressive),
        }  # fmt: skip


@dataclass(frozen=True)
class Descent:
    """Gradient descent on a loss; ``eta`` a number or "pegasos", which needs alpha > 0."""

    loss: Loss
    eta: float | str
    alpha: float

    def numbers(self) -> dict[str, Any]:
        pegasos = self.eta == "pegasos"
        return {
            "update": GRADIENT, "loss": self.loss.code, "parameter": self.loss.parameter,
            "eta": 1.0 if pegasos else float(self.eta), "alpha": float(self.alpha),
            "pegasos": pegasos, "balanced": True, "aggressive": False,
        }  # fmt: skip


@dataclass(frozen=True)
class Passive:
    """Passive-Aggressive: as far as the loss of the row asks, at a ``cost`` for what is left.

    The loss is the hinge or the epsilon-insensitive loss.
    """

    loss: Loss
    cost: float
    squared: bool

    def numbers(self) -> dict[str, Any]:
        return {
            "update": PASSIVE_2 if self.squared else PASSIVE_1, "loss": self.loss.code,
            "parameter": self.loss.parameter, "eta": float(self.cost), "alpha": 0.0,
            "pegasos": False, "balanced": False, "aggressive": False,
        }  # fmt: skip


Update = Mistakes | Descent | Passive


@njit(cache=True, error_model="numpy")
def step(rule: UpdateRule, f: float, y: float, norm: float, weight: float) -> float:
    """The coefficient of k(x, .); 0 where nothing is learned. ``norm`` is k(x, x).

    A mistake is y f <= 0: a score of 0 is one.
    """
    if rule.update == MISTAKES_ONLY:
        return 0.0 if y * f > 0.0 else weight * y
    slope = losses.slope(rule.loss, rule.parameter, f, y)
    if rule.update == GRADIENT:
        return -rule.eta * weight * slope
    if slope == 0.0:
        return 0.0
    loss = losses.value(rule.loss, rule.parameter, f, y)
    cost = rule.eta * weight
    if rule.update == PASSIVE_1:
        return -slope * min(cost, loss / norm)
    return -slope * loss / (norm + 0.5 / cost)
