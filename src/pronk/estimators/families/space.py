"""The space that a learner's parameters name: fixed features, given points, or a dictionary."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton.embedded import FixedPoints
from pronk.estimators.faces.constraints import Interval, StrOptions
from pronk.estimators.faces.inputs import check_finite
from pronk.parts.dictionaries import Dictionary
from pronk.parts.embeddings import Embedding, Fourier, Taylor
from pronk.parts.kernels import Kernel
from pronk.parts.rules import KORS, RULES, Rule

Array = NDArray[np.float64]

#: Constraints of the parameters that choose the space.
SPACE: dict[str, list[Any]] = {
    "features": [StrOptions({"nystrom", "taylor", "fourier"})],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "n_features": [Interval(Integral, 1, None, closed="left")],
    "gamma": [Interval(Real, 0, None, closed="neither")],
    "epsilon": [Interval(Real, 0, 1, closed="left")],
    "beta": [Interval(Real, 0, None, closed="neither")],
    "dictionary": [StrOptions(set(RULES)), Rule, "array-like", None],
    "budget": [Interval(Integral, 1, None, closed="left"), None],
}


def rule_of(learner: Any) -> Rule | None:
    """The rule that samples a learner's dictionary; None for fixed features and points given.

    "kors", which is also meant by None, takes the learner's gamma, epsilon and beta; the other
    names stand for a rule with its defaults.
    """
    chosen = learner.dictionary
    if learner.features != "nystrom":
        return None
    if chosen is None or (isinstance(chosen, str) and chosen == KORS.name):
        return KORS(learner.gamma, learner.epsilon, learner.beta)
    if isinstance(chosen, str):
        return RULES[chosen]()
    return chosen if isinstance(chosen, Rule) else None


def growing_dictionary(learner: Any, kernel: Kernel, columns: int) -> Dictionary | None:
    """An empty dictionary with the learner's rule and budget; None where nothing grows."""
    rule = rule_of(learner)
    if rule is None:
        return None
    rule.check()
    if learner.budget is None and rule.needs_budget:
        raise ValueError(f"dictionary={rule.name!r} needs a budget: without one every row enters")
    return Dictionary(kernel, columns, rule, learner._seed, learner.budget)


def fixed_embedding(learner: Any, kernel: Kernel, columns: int) -> Embedding:
    """Points given, Taylor features of ``degree``, or ``n_features`` random frequencies."""
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
