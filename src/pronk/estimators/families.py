"""What families of learners share: feature spaces, losses, steps, certificates."""

from __future__ import annotations

import re
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from pronk.core.arrays import Array
from pronk.core.checks import check_finite
from pronk.core.dictionary import ALD, KORS, RULES, Dictionary, Rule
from pronk.core.features import Embedding, Fourier, Taylor
from pronk.core.kernels import Kernel, get_kernel
from pronk.core.losses import LOSSES, SQUARED, SQUARED_HINGE, Loss, get_loss
from pronk.core.one_vs_rest import OneVsRest
from pronk.core.runtime import limited
from pronk.estimators.calls import own_lock
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.estimator import OnlineLearner
from pronk.estimators.inputs import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    Interval,
    StrOptions,
    check_ordered,
    check_weights,
    parameter,
)
from pronk.estimators.regressor import OnlineRegressor
from pronk.first_order.expansion import Expansion
from pronk.first_order.support import UpdateRule
from pronk.newton.engine import OnlineNewton
from pronk.newton.spaces import FixedPoints

# -- feature spaces: fixed features, given points, or a dictionary --------------------------------


class SpaceLearner(OnlineLearner):
    """A learner in a space that its parameters choose."""

    features: str = parameter(StrOptions({"nystrom", "taylor", "fourier"}), default="nystrom")
    degree: int = parameter(Interval(Integral, 0, None, closed="left"), default=2)
    n_features: int = parameter(COUNT, default=100)
    gamma: float = parameter(POSITIVE, default=1.0)
    epsilon: float = parameter(Interval(Real, 0, 1, closed="left"), default=0.5)
    beta: float = parameter(POSITIVE, default=1.0)
    dictionary: Any = parameter(StrOptions(set(RULES)), Rule, "array-like", None, default=None)
    budget: int | None = parameter(COUNT, None, default=None)

    @property
    def _dictionary_grows(self) -> bool:
        return rule_of(self) is not None


def rule_of(learner: Any) -> Rule | None:
    """Return the rule that samples a learner's dictionary; None for fixed features or points.

    "kors", the same as None, has the learner's gamma, epsilon and beta, and "ald" the learner's nu
    if it has one; the other names stand for a rule with its defaults.
    """
    chosen = learner.dictionary
    if learner.features != "nystrom":
        return None
    if chosen is None or (isinstance(chosen, str) and chosen == KORS.name):
        return KORS(learner.gamma, learner.epsilon, learner.beta)
    if isinstance(chosen, str) and chosen == ALD.name and hasattr(learner, "nu"):
        return ALD(learner.nu)
    if isinstance(chosen, str):
        return RULES[chosen]()
    return chosen if isinstance(chosen, Rule) else None


def growing_dictionary(learner: Any, kernel: Kernel, columns: int) -> Dictionary | None:
    """Return an empty dictionary with the learner's rule and budget; None without a rule."""
    rule = rule_of(learner)
    if rule is None:
        return None
    rule.check()
    if learner.budget is None and rule.needs_budget:
        raise ValueError(f"dictionary={rule.name!r} needs a budget: without one every row enters")
    return Dictionary(kernel, columns, rule, learner._seed, learner.budget)


def fixed_embedding(learner: Any, kernel: Kernel, columns: int) -> Embedding:
    """Return the map to given points, Taylor features, or ``n_features`` random frequencies."""
    if learner.features == "nystrom":
        points = np.ascontiguousarray(learner.dictionary, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != columns or not len(points):
            raise ValueError(f"dictionary must have shape (points, {columns}), got {points.shape}")
        check_finite(points, "dictionary")
        return FixedPoints(kernel, points)
    if learner.features == "fourier":
        return Fourier(kernel, columns, learner.n_features, learner._seed)
    if kernel.rate is None:
        raise ValueError("kernel must be gaussian for features='taylor'")
    return Taylor(columns, kernel.bandwidth, learner.degree)


# -- first-order learners: losses, and steps that must not overflow -------------------------------


class LossLearner(OnlineLearner):
    """A learner with a choice of losses: those of its task."""

    loss: str = parameter(StrOptions(set(LOSSES)), default="squared")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        tasks = ("classification" if issubclass(cls, OnlineClassifier) else "regression", "both")
        names = {name for name, loss in LOSSES.items() if loss.task in tasks}
        cls._parameter_constraints["loss"] = [StrOptions(names)]


class FirstOrder(LossLearner):
    """A learner that makes gradient steps on a loss.

    With an unbounded slope (squared and squared hinge loss) steps above a limit overshoot more and
    more, until the weights overflow. Such a call raises and changes nothing. Where the steps are
    known to be below the limit the weights are not checked.
    """

    _linear_in_targets: ClassVar[bool] = False
    _step_parameter: ClassVar[str] = "eta"
    _fits_few_rows_poorly: ClassVar[bool] = True  # one pass of small steps over a hundred rows

    def _get_loss(self) -> Loss:
        return get_loss(self.loss)

    def _steps_are_safe(self) -> bool:
        """Return whether steps on a loss of curvature 2 cannot overshoot more and more."""
        raise NotImplementedError

    def _may_overflow(self) -> bool:
        return self._get_loss().code in (SQUARED, SQUARED_HINGE) and not self._steps_are_safe()

    def _check_result(self, P: Array) -> None:
        if not ("_learning" in self.__dict__ and self._may_overflow()):  # else `_pass` raises
            super()._check_result(P)

    def _pass(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        if not self._may_overflow():
            return super()._pass(X, Y, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            P = super()._pass(X, Y, weights)
            finite = np.isfinite(P).all(axis=1)
            models = getattr(self._model, "models", [self._model])
            if finite.all() and all(np.isfinite(model.weights).all() for model in models):
                return P
        row = int(np.argmin(finite)) if not finite.all() else len(P)
        name = self._step_parameter
        raise ValueError(
            f"{name}={getattr(self, name)!r} with loss={self.loss!r} makes steps that overshoot: "
            f"the weights overflowed before row {row} (counting from 0); choose a "
            f"{'larger' if name == 'alpha' else 'smaller'} {name}, or a loss with a bounded slope"
        )


class DualLearner(FirstOrder):
    """A first-order learner with one engine for all classes, and one per output for numbers."""

    def _make_engine(self, columns: int, outputs: int = 1) -> Any:
        """Return a new engine."""
        raise NotImplementedError

    def _make_model(self, columns: int, outputs: int) -> Any:
        if outputs == 1 or isinstance(self, OnlineClassifier):
            return self._make_engine(columns, outputs)
        return OneVsRest(partial(self._make_engine, columns), outputs)


# -- kernel expansions, perhaps within a budget ----------------------------------------------------


class ExpansionLearner(OnlineLearner):
    """A learner of support vectors, one expansion per output."""

    budget: int | None = parameter(COUNT, None, default=None)
    maintenance: Any = parameter(StrOptions({"random", "smallest", "merge"}), None, default=None)
    _linear_in_targets: ClassVar[bool] = False

    def _update(self) -> UpdateRule:
        """Return what a row changes."""
        raise NotImplementedError

    def _make_model(self, columns: int, outputs: int) -> OneVsRest:
        kernel, strategy = get_kernel(self.kernel), self.maintenance
        if self.budget is not None and strategy is None:
            raise ValueError(
                f"budget={self.budget} needs a strategy: give maintenance, as 'random'"
            )
        if self.budget is None and strategy not in (None, "project"):
            raise ValueError(f"maintenance={strategy!r} needs a budget")
        if strategy == "merge" and kernel.rate is None:
            raise ValueError("kernel must be gaussian for maintenance='merge'")
        make = partial(
            Expansion, kernel, columns, self._update(), strategy, self.budget, self._seed
        )
        return OneVsRest(make, outputs)


# -- online Newton learners: loss, curvature eta and clip -----------------------------------------


class OnlineNewtonLearner(LossLearner):
    """A learner that makes online Newton steps; ``eta`` is the coefficient of g g' in A."""

    alpha: float = parameter(POSITIVE, default=1.0)
    eta: Any = parameter(NOT_NEGATIVE, StrOptions({"auto", "convex", "unit"}), default="auto")
    clip: Any = parameter(POSITIVE, StrOptions({"auto"}), default="auto")
    _linear_in_targets: ClassVar[bool] = False
    # A Newton step on a row that is far from all others goes to 2 y: with so few rows that each is
    # alone, as in scikit-learn's checks, the fit of the training rows is poor.
    _fits_few_rows_poorly: ClassVar[bool] = True
    _weighted = True

    def _rule(self) -> OnlineNewton:
        """Return the step; clip="auto" is 1 for labels and the largest |y| so far for numbers."""
        labels = isinstance(self, OnlineClassifier)
        clip = (1.0 if labels else None) if self.clip == "auto" else float(self.clip)
        eta = self.eta if isinstance(self.eta, str) else float(self.eta)
        return OnlineNewton(get_loss(self.loss), eta, clip)


# -- ridge and AWV learners: rows that count less with age ----------------------------------------

#: Seconds of the units of a half-life.
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
#: Below it even the last row counts for nothing.
LEAST_DISCOUNT = 1e-6


def half_life_seconds(learner: Any) -> float | None:
    """Return a half-life in time, such as "90min", in seconds; None for one in rows, or none."""
    if not isinstance(learner.half_life, str):
        return None
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+)\s*", learner.half_life)
    if found is None or found[2] not in UNITS or not float(found[1]) > 0.0:
        raise ValueError(
            f"half_life={learner.half_life!r} is no time; give a number and one of "
            f"{', '.join(UNITS)}, such as '90min', or a number of rows"
        )
    return float(found[1]) * UNITS[found[2]]


def discount_of(learner: Any) -> float:
    """Return the weight that a row loses with every later one, from discount or half_life.

    NaN with a half-life in time, where each row has its own.
    """
    discount = float(learner.discount)
    if learner.half_life is not None:
        if discount != 1.0:
            raise ValueError(
                f"half_life={learner.half_life!r} and discount={discount!r} are two ways to give "
                "one number; leave one out"
            )
        if half_life_seconds(learner) is not None:
            return float("nan")
        discount = 0.5 ** (1.0 / float(learner.half_life))
    if discount < LEAST_DISCOUNT:
        raise ValueError(
            f"discount is {discount:.3g}, which forgets every row at once; give one of at least "
            f"{LEAST_DISCOUNT:g}, or a longer half_life"
        )
    return discount


class ForgettingLearner(OnlineLearner):
    """A learner with a half-life, in rows or in time; in time, each row has a time."""

    alpha: float = parameter(POSITIVE, default=1.0)
    anticipate: bool = parameter("boolean", default=True)
    _weighted = True
    discount: float = parameter(Interval(Real, 0, 1, closed="right"), default=1.0)
    half_life: float | str | None = parameter(POSITIVE, str, None, default=None)

    def _accepts_times(self) -> bool:
        return half_life_seconds(self) is not None

    def _check_weights(self, sample_weight: Any, rows: int) -> Array | None:
        if not self._accepts_times():
            return super()._check_weights(sample_weight, rows)
        weights = check_weights(sample_weight, rows)
        weights = None if weights is None else np.asarray(weights)
        if weights is None or weights.ndim == 1:
            raise ValueError(
                f"half_life={self.half_life!r} is a time; give times=, one per row, or a half_life "
                "in rows"
            )
        last = last_time(self._model) if self.__sklearn_is_fitted__() else None
        check_ordered(weights[:, 1], last)
        return weights

    def _trial_options(self, rows: int) -> dict[str, Any]:
        if not self._accepts_times():
            return {}
        return {"times": np.full(rows, last_time(self._model) or 0.0)}


def last_time(model: Any) -> float | None:
    """Return the time of the last row that an engine has learned; None where it has none."""
    while not hasattr(model, "time"):
        inner = getattr(model, "inner", None) or getattr(model, "learner", None)
        if inner is None:
            return None
        model = inner
    found: float | None = model.time
    return found


# -- ridge and AWV learners: the standard deviation of y ------------------------------------------


class PosteriorRegressor(OnlineRegressor):
    """A regressor with a standard deviation of y at every row, ``deviation`` of its engine."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the current model's predictions; change nothing.

        With ``return_std``, also return the standard deviation of y at each row, noise included:
        that of a Gaussian process with the kernel, whose ratio of noise to signal variance is
        alpha, and whose noise variance has the largest likelihood given all rows so far.
        """
        return self._predicted(X, return_std)

    def _predicted(self, X: Any, return_std: bool, ahead: bool | None = None) -> Any:
        with own_lock(self), limited:
            P = self._predict(X, ahead)
            values = P[:, 0] if self._flat else P
            if not return_std:
                return values
            if not len(P):
                return values, values.copy()
            model: Any = self._model
            parts = [model.deviation(*part) for part in self._parts(self._rows(X), ahead)]
        deviation = np.concatenate(parts)
        return values, deviation[:, 0] if self._flat else deviation
