"""Rules: which rows of a stream become points of a dictionary, and with what weight.

A rule looks at the rows' squared distances to the span of the points, rho, or at coins; the
dictionary (`parts/dictionaries.py`) keeps those numbers up to date and walks the rows. A rule of
your own is a frozen dataclass under `Rule` with `accepts`:

>>> from dataclasses import dataclass
>>> from pronk import PKAWVRegressor
>>> @dataclass(frozen=True)
... class Far(Rule):
...     least: float = 0.5
...
...     def accepts(self, rho, diagonal, uniforms):
...         return rho > self.least * diagonal
>>> X = np.random.default_rng(0).uniform(-3, 3, (500, 1))
>>> print(PKAWVRegressor(dictionary=Far()).fit(X, X[:, 0]).size_)
5
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.parts.embeddings import DEPENDENT

Array = NDArray[np.float64]


class Rule:
    """Acceptance and weight; what else a rule needs it says by its class."""

    #: The name that stands for the rule with its defaults.
    name: ClassVar[str] = ""
    #: Whether it needs rho = k(x, x) - |w|^2, w = L^-1 S k(x), L L' = S K S + ridge I.
    measures: ClassVar[bool] = True
    #: Whether every received row has a coin, a uniform of its own.
    draws: ClassVar[bool] = False
    #: Whether points have weights, the diagonal of S; without, S = I.
    weighs: ClassVar[bool] = False
    #: Whether only a budget ends it.
    needs_budget: ClassVar[bool] = False
    #: Whether a row that is refused is refused for good: more points never bring it nearer.
    final: ClassVar[bool] = False

    @property
    def published(self) -> bool:
        """Whether it is the rule that the theorems of PKAWV and PROS-N-KONS are proved for."""
        return False

    @property
    def ridge(self) -> float:
        """What is added to the diagonal of the points' matrix."""
        return 0.0

    def check(self) -> None:
        """Raise a ValueError that names the parameter if one is out of range."""

    def accepts(self, rho: Array, diagonal: Array, uniforms: Array) -> NDArray[np.bool_]:
        """Which of the rows would enter now, each as if it came next.

        ``diagonal`` is k(x, x); rho, diagonal and uniforms are empty where the rule has no use
        for them.
        """
        raise NotImplementedError

    def weight(self, rho: float) -> float:
        """The weight with which a row at this squared distance enters."""
        return 1.0


@dataclass(frozen=True)
class KORS(Rule):
    """Kernel online row sampling: rows enter with their estimated ridge leverage score.

    With s_i = p_i^(-1/2), L L' = S K S + gamma I over the dictionary and w = L^-1 S k(x),

        rho = k(x, x) - |w|^2
        tau = (1 + epsilon) rho / (rho + gamma)
        p   = min(beta tau, 1),  accepted when u < p.

    ``power`` 1/2 is the paper's weight on each side of the matrix; public programs have 1, s = 1/p,
    of which the theorems do not speak.
    """

    gamma: float = 1.0
    epsilon: float = 0.5
    beta: float = 1.0
    power: float = 0.5

    name: ClassVar[str] = "kors"
    draws: ClassVar[bool] = True
    weighs: ClassVar[bool] = True
    final: ClassVar[bool] = True

    @property
    def published(self) -> bool:
        """With the paper's weights."""
        return self.power == 0.5

    @property
    def ridge(self) -> float:
        return self.gamma

    def check(self) -> None:
        for name in ("gamma", "beta", "power"):
            value = getattr(self, name)
            _require(name, value, "a positive finite number", lambda given: given > 0.0)
        _require("epsilon", self.epsilon, "in [0, 1)", lambda given: 0.0 <= given < 1.0)

    def accepts(self, rho: Array, diagonal: Array, uniforms: Array) -> NDArray[np.bool_]:
        return np.asarray(uniforms < self.probability(rho))

    def weight(self, rho: float) -> float:
        return float(self.probability(rho) ** -self.power)

    def probability(self, rho: Any) -> Any:
        """With which probability rows at these squared distances enter."""
        rho = np.maximum(rho, 0.0)
        tau = (1.0 + self.epsilon) * rho / (rho + self.gamma)
        return np.minimum(self.beta * tau, 1.0)


@dataclass(frozen=True)
class ALD(Rule):
    """Approximate linear dependence: rows enter whose squared distance to the span exceeds nu."""

    nu: float = 0.1

    name: ClassVar[str] = "ald"
    final: ClassVar[bool] = True

    def check(self) -> None:
        _require("nu", self.nu, "a finite number >= 0", lambda given: given >= 0.0)

    def accepts(self, rho: Array, diagonal: Array, uniforms: Array) -> NDArray[np.bool_]:
        return np.asarray(rho > np.maximum(self.nu, DEPENDENT * diagonal))  # below it is rounding


@dataclass(frozen=True)
class FirstRows(Rule):
    """The first rows of the stream, as many as the budget has."""

    name: ClassVar[str] = "first"
    needs_budget: ClassVar[bool] = True
    measures: ClassVar[bool] = False

    def accepts(self, rho: Array, diagonal: Array, uniforms: Array) -> NDArray[np.bool_]:
        return np.ones(len(rho), dtype=np.bool_)


@dataclass(frozen=True)
class UniformRows(Rule):
    """Every row with the same probability ``rate``."""

    rate: float = 0.1

    name: ClassVar[str] = "uniform"
    measures: ClassVar[bool] = False
    draws: ClassVar[bool] = True

    def check(self) -> None:
        _require("rate", self.rate, "in (0, 1]", lambda given: 0.0 < given <= 1.0)

    def accepts(self, rho: Array, diagonal: Array, uniforms: Array) -> NDArray[np.bool_]:
        return np.asarray(uniforms < self.rate)


def _require(name: str, value: Any, wanted: str, good: Callable[[float], bool]) -> None:
    try:
        fine = bool(np.isfinite(value) and good(value))
    except TypeError:
        fine = False
    if not fine:
        raise ValueError(f"dictionary {name} must be {wanted}, got {value!r}")


#: The rules that have a name.
RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (KORS, ALD, FirstRows, UniformRows)}
