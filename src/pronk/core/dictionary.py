"""Dictionaries: the points of a kernel expansion, and the rules that choose them from a stream.

`Dictionary.scan` returns which rows of a block are accepted. It needs no labels, so a whole block
can be scanned before the learner sees it; the kernel values are returned too, because the learner
needs the same ones. A learner that must act at every new point reads with `Scan` instead.

A rule sees the squared distances rho of rows to the span of the points, or coins. A rule of your
own is a frozen dataclass under `Rule` with `accepts`:

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

Ridge leverage scores and effective dimensions, exact, from a kernel matrix:

>>> from pronk.core.kernels import Gaussian
>>> X = np.linspace(0, 1, 50)[:, None]
>>> print(round(effective_dimension(Gaussian(0.2)(X, X), gamma=1.0), 3))
4.505
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array
from pronk.core.features import DEPENDENT
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingCholesky, GrowingRows, Workspace, cholesky, solve_lower
from pronk.core.randomness import KORS_COINS, Uniforms
from pronk.core.runtime import limited
from pronk.core.state import Field, Part, Rows, Sizes, Stateful, require


class Rule:
    """When a row becomes a point, and with what weight; class attributes list what a rule needs."""

    #: The name of the rule with its defaults, as in ``dictionary="kors"``.
    name: ClassVar[str] = ""
    #: Whether it needs rho = k(x, x) - |w|^2, w = L^-1 S k(x), L L' = S K S + ridge I.
    measures: ClassVar[bool] = True
    #: Whether every received row has a coin, a uniform of its own.
    draws: ClassVar[bool] = False
    #: Whether points have weights, the diagonal of S; without, S = I.
    weighs: ClassVar[bool] = False
    #: Whether only a budget ends it.
    needs_budget: ClassVar[bool] = False

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
        """Return which of the rows would enter now, each as if it came next.

        ``diagonal`` is k(x, x). rho, diagonal and uniforms are empty where the rule does not use
        them.
        """
        raise NotImplementedError

    def weight(self, rho: float) -> float:
        """Return the weight with which a row at this squared distance enters."""
        return 1.0


@dataclass(frozen=True)
class KORS(Rule):
    """Kernel online row sampling: rows enter with their estimated ridge leverage score.

    With s_i = p_i^(-1/2), L L' = S K S + gamma I over the dictionary and w = L^-1 S k(x),

        rho = k(x, x) - |w|^2
        tau = (1 + epsilon) rho / (rho + gamma)
        p   = min(beta tau, 1),  accepted when u < p.

    ``power`` 1/2 is the paper's weight on each side of the matrix; public programs have 1, s = 1/p,
    which the theorems do not cover.
    """

    gamma: float = 1.0
    epsilon: float = 0.5
    beta: float = 1.0
    power: float = 0.5

    name: ClassVar[str] = "kors"
    draws: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    @property
    def published(self) -> bool:
        """True for the paper's weights."""
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
        """Return the probability with which rows at these squared distances enter."""
        rho = np.maximum(rho, 0.0)
        tau = (1.0 + self.epsilon) * rho / (rho + self.gamma)
        return np.minimum(self.beta * tau, 1.0)


@dataclass(frozen=True)
class ALD(Rule):
    """Approximate linear dependence: rows enter whose squared distance to the span exceeds nu."""

    nu: float = 0.1

    name: ClassVar[str] = "ald"

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


class Dictionary(Stateful):
    """The accepted points and the rule that accepts them; at most ``budget`` points.

    For a rule that measures, the factor L L' = S K S + ridge I over the points, S their weights,
    gives every row its coordinates w = L^-1 S k(x) and squared distance rho = k(x, x) - |w|^2. One
    triangular solve does a block. An accepted row adds one row to L and one number to every later
    w, so the rows before it are final and the rest costs O(size) each to measure again.
    """

    def __init__(
        self, kernel: Kernel, columns: int, rule: Rule, seed: int = 0, budget: int | None = None
    ) -> None:
        self.kernel, self.rule, self.budget = kernel, rule, budget
        self._points = GrowingRows(columns)
        self._uniforms = Uniforms(seed, KORS_COINS) if rule.draws else None
        self._factor: Any = GrowingCholesky(floor=rule.ridge) if rule.measures else None
        self._scales: Any = GrowingRows(1) if rule.weighs else None  # the diagonal of S
        self._memory = Workspace()

    @property
    def points(self) -> Array:
        """The accepted points, oldest first."""
        return self._points.values

    @property
    def weights(self) -> Array:
        """The weights with which the points entered, for a rule that weighs."""
        return np.asarray(self._scales.values[:, 0])

    @property
    def full(self) -> bool:
        return self.budget is not None and self._points.size >= self.budget

    def scan(self, X: Array, K: Array) -> tuple[list[int], Array]:
        """Read rows X whose kernel values with the present points are K (n, size).

        Returns the numbers of the accepted rows, and K with one more column for each of them:
        k(x, new point) from its own row on, zero before. A full dictionary measures no row.
        """
        if self.full:
            self.draw(len(X))
            return [], K
        reading = Scan(self, X, K)
        rows: list[int] = []
        columns: list[Array] = []
        while (row := reading.next_row()) is not None:
            rows.append(row)
            columns.append(reading.accept(row))
        if not rows:
            return rows, K
        n, old = K.shape
        grown = np.zeros((n, old + len(rows)))
        grown[:, :old] = K
        for i, (row, column) in enumerate(zip(rows, columns, strict=True)):
            grown[row:, old + i] = column
        return rows, grown

    def draw(self, n: int) -> Array:
        """Draw the uniforms of the next n rows, also when the budget is full."""
        return np.zeros(0) if self._uniforms is None else self._uniforms.draw(n)

    def coordinates(self, K: Array) -> Array:
        """Return w = L^-1 S k(x) for every row, valid until the next call."""
        W = self._memory.allocate("coordinates", *K.shape)
        if self.rule.weighs:
            np.multiply(K, self.weights, out=W)
        else:
            W[:] = K
        return np.asarray(self._factor.solve_rows(W))

    def solve_transposed(self, W: Array) -> Array:
        """Return w L^-1 for rows w of coordinates: rows of (S K S + ridge I)^-1 S k."""
        return np.ascontiguousarray(self._factor.solve_transposed(W.T).T)

    def append(self, x: Array) -> None:
        """Add a point, for a rule that does not measure."""
        self._points.append(x[None, :])

    def enter(
        self, x: Array, w: Array, diagonal: float, weight: float, column: Array, W: Array
    ) -> Array:
        """Add a point with coordinates w and the given weight.

        Returns the new coordinate of later rows, whose others are W and whose kernel values with
        the point are ``column``.
        """
        self._points.append(x[None, :])
        solved = weight * w
        corner = np.array([[diagonal * weight * weight + self.rule.ridge]])
        pivot = self._factor.append(solved[:, None], corner)[0, 0]
        if self.rule.weighs:
            self._scales.append(np.array([[weight]]))
        return np.asarray((weight * column - W @ solved) / pivot)

    STATE: ClassVar[tuple[Field, ...]] = (
        Rows("points", ("points", "columns")),
        Part("uniforms"),
        Part("factor", sizes={"size": "points"}),
        Rows("scales", ("points", 1), low=0.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._points.columns}

    def _restored(self, sizes: Sizes) -> None:
        fits = self.budget is None or sizes["points"] <= self.budget
        require(fits, "points are more than the budget")
        if self._factor is not None and not self.kernel.foreign:
            X = self.points
            weights = self._scales.values[:, 0] if self.rule.weighs else np.ones(len(X))

            def rows(places: NDArray[np.intp]) -> Array:
                return weights[places, None] * self.kernel(X[places], X) * weights

            self._factor.require_of(rows, self.rule.ridge)


class Scan:
    """A block of rows X that a dictionary reads in order; K are their values with its points.

    ``start`` is the first row not read yet; `coordinates` and ``rho`` belong to the rows from there
    on, in the span of the points so far.
    """

    def __init__(self, dictionary: Dictionary, X: Array, K: Array) -> None:
        self._dictionary, self._X = dictionary, X
        self._measures = dictionary.rule.measures
        self.start = 0
        self.uniforms = dictionary.draw(len(X))
        if self._measures:
            self._W = dictionary.coordinates(K)
            self.diagonal = dictionary.kernel.diagonal(X)
            self.rho = self.diagonal - np.einsum("ij,ij->i", self._W, self._W)
        else:
            self.diagonal = self.rho = np.zeros(len(X))

    def coordinates(self, start: int, stop: int) -> Array:
        """Return the coordinates of rows that are not read yet in the present span."""
        return self._W[start - self.start : stop - self.start]

    def next_row(self) -> int | None:
        """Return the first row that the rule accepts now; None if the budget is full."""
        if self._dictionary.full:
            return None
        accepted = self._dictionary.rule.accepts(
            self.rho[self.start :], self.diagonal[self.start :], self.uniforms[self.start :]
        )
        hits = np.flatnonzero(accepted)
        return self.start + int(hits[0]) if hits.size else None

    def accept(self, row: int, weight: float | None = None, column: Array | None = None) -> Array:
        """Make a row a point and return its kernel values with itself and the later rows.

        By default the weight is the rule's and the kernel values are computed.
        """
        x = self._X[row]
        if column is None:
            column = self._dictionary.kernel(self._X[row:], x[None, :])[:, 0]
        if self._measures:
            if weight is None:
                weight = self._dictionary.rule.weight(self.rho[row])
            own, later = self._W[row - self.start], self._W[row - self.start + 1 :]
            new = self._dictionary.enter(x, own, self.diagonal[row], weight, column[1:], later)
            self._W = np.column_stack((later, new))
            self.rho[row + 1 :] -= new * new
        else:
            self._dictionary.append(x)
        self.start = row + 1
        return column


# -- leverage scores ---------------------------------------------------------------------------


@limited
def leverage_scores(K: Array, gamma: float) -> Array:
    """Return tau_i = [K (K + gamma I)^-1]_ii for a kernel matrix K of all rows.

    Computed as 1 - gamma [(K + gamma I)^-1]_ii from the column norms of the inverse factor.
    """
    n = len(K)
    inverse = solve_lower(_ridge_factor(K, gamma), np.eye(n))
    return np.asarray(1.0 - gamma * np.einsum("ij,ij->j", inverse, inverse))


def effective_dimension(K: Array, gamma: float) -> float:
    """Return d_eff(gamma) = trace K (K + gamma I)^-1."""
    return float(leverage_scores(K, gamma).sum())


@limited
def online_leverage_scores(K: Array, gamma: float) -> Array:
    """Return tau_{t,t}, the leverage of row t among the rows up to t, for every t.

    The Schur complement of row t in K_t + gamma I is L_tt^2 = gamma / (1 - tau_{t,t}), so one
    Cholesky factor holds them all.
    """
    pivots = np.diag(_ridge_factor(K, gamma)) ** 2
    return np.asarray(1.0 - gamma / pivots)


def online_effective_dimension(K: Array, gamma: float) -> float:
    """Return d_onl(gamma) = sum_t tau_{t,t}."""
    return float(online_leverage_scores(K, gamma).sum())


def _ridge_factor(K: Array, gamma: float) -> Array:
    return cholesky(K + gamma * np.eye(len(K)), "kernel matrix")
