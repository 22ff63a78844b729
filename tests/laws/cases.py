"""All learners, with parameters small enough to run the laws a thousand times.

A new name in the registry gets all laws without further code; small settings and other forms of it
are added here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pronk
from pronk.estimators.registry import make_as_in_paper

#: Parameters with which 150 rows show everything that an algorithm does; the others have none.
SMALL: dict[str, dict[str, Any]] = {
    "dual-sgd": {"n_features": 20, "budget": 10},
    "dual-svrg-b": {"n_features": 20, "budget": 10, "memory": 7, "period": 11},
    "dual-svrg-c": {"n_features": 20, "radius": 0.8, "memory": 7, "period": 11},
    "dual-svrg-am": {"n_features": 20, "memory": 7, "period": 11},
    "fogd": {"n_features": 20},
    "bogd": {"budget": 12},
    "bsgd-r": {"budget": 12},
    "bsgd-m": {"budget": 12},
    "nogd": {"budget": 15, "rank": 8},
    "online-kernel": {"budget": 20},
    "rbp": {"budget": 12},
    "forgetron": {"budget": 12},
    "projectron": {"budget": 12},
    "projectron++": {"budget": 12},
    "b-kons": {"budget": 9},
}

#: Further forms of the classes: (name of the form, algorithm, parameters).
FORMS: list[tuple[str, str, dict[str, Any]]] = [
    ("online-kernel-few", "online-kernel", {"budget": 20, "experts": "few"}),
    ("online-kernel-late", "online-kernel", {"budget": 20, "experts": "few", "delay": 7}),
    ("pkawv-projected", "pkawv-nystrom", {"history": "projected"}),
    ("pkawv-budget", "pkawv-nystrom", {"history": "projected", "budget": 7}),
    ("pkawv-fourier", "pkawv-taylor", {"features": "fourier", "n_features": 12}),
    ("pkawv-points", "pkawv-nystrom", {"dictionary": [[0.0, 0.0], [1.0, -1.0], [0.5, 0.5]]}),
    ("pkawv-discount", "pkawv-taylor", {"discount": 0.95}),
    ("pkrr-half-life", "pkrr-nystrom", {"history": "projected", "half_life": 30.0}),
    ("awv-discount", "kernel-awv", {"discount": 0.97}),
    ("aioli-fourier", "aioli", {"features": "fourier", "n_features": 12}),
    ("aioli-budget", "aioli", {"budget": 7, "alpha": 0.1}),
    ("pa-1-merge", "pa-1", {"budget": 12, "maintenance": "merge"}),
    ("pa-2-random", "pa-2", {"budget": 12, "maintenance": "random"}),
    ("pkawv-ald", "pkawv-nystrom", {"dictionary": "ald"}),
    ("pkawv-uniform", "pkawv-nystrom", {"dictionary": "uniform", "history": "projected"}),
    ("pros-n-kons-first", "pros-n-kons", {"dictionary": "first", "budget": 9}),
    (
        "con-kons-points",
        "con-kons",
        {"dictionary": [[0.0, 0.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]},
    ),
    ("fogd-auto", "fogd", {"kernel": pronk.Gaussian("auto"), "n_features": 20}),
    ("dual-svrg-auto", "dual-svrg-c", {"kernel": pronk.Gaussian("auto")}),
    ("pkawv-laplacian", "pkawv-nystrom", {"kernel": pronk.Laplacian(2.0)}),
    ("pkrr-matern", "pkrr-nystrom", {"kernel": pronk.Matern(1.0, 2.5), "history": "projected"}),
    ("awv-polynomial", "kernel-awv", {"kernel": pronk.Polynomial(2, 1.0), "alpha": 10.0}),
]

#: Names and forms that run the code of another one with other parameters. Laws of the interface
#: (inputs, labels, files, roll-back) leave them to `make testall`.
SAME_CODE = {
    "kernel-ridge", "pkrr-taylor", "pkrr-nystrom", "pros-n-kons", "b-kons", "dual-svrg-am", "rbp",
    "projectron++", "bogd", "bsgd-r", "pa-2", "online-kernel-few", "pkawv-budget", "pkawv-fourier",
    "pkawv-points", "pkawv-ald", "pkawv-uniform", "pkawv-laplacian", "pkrr-matern",
    "pkrr-half-life", "awv-polynomial", "pros-n-kons-first", "con-kons-points", "aioli-budget",
    "aioli-fourier", "dual-svrg-auto", "pa-1-merge", "pa-2-random",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A learner on which the laws are tested."""

    name: str
    algorithm: str
    task: str
    params: dict[str, Any] = field(default_factory=dict)
    classes: int = 2

    @property
    def id(self) -> str:
        return f"{self.name}-{'three-classes' if self.classes == 3 else self.task}"

    def make(self, **params: Any) -> Any:
        settings = {"random_state": 5, **self.params, **params}
        return make_as_in_paper(self.algorithm, self.task, **settings)

    @property
    def bounded(self) -> bool:
        return self.make().__dict__.get("budget") is not None or (
            pronk.algorithms()[self.algorithm].bounded
        )

    def stream(self, n: int = 150, seed: int = 0) -> tuple[Any, Any]:
        """Return well-conditioned rows, one of them repeated, and targets far from thresholds."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.5, 1.5, size=(n, 2))
        X[n // 2] = X[0]
        score = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
        if self.task == "regression":
            return X, score
        if self.classes == 2:
            return X, np.where(score > 0, 1, -1)
        return X, np.array(["ant", "bee", "cat"])[np.digitize(score, [-0.6, 0.6])]


def needs_a_formula(learner: Any) -> bool:
    """Return whether a learner raises if its kernel is a Python function.

    Taylor and Fourier features, and merged points, need a kernel with a formula.
    """
    params = learner.get_params()
    features = "n_features" in params and params.get("features") != "nystrom"
    return features or params.get("maintenance") == "merge"


def serves_its_own_row(learner: Any) -> bool:
    """Return whether a row that becomes a point changes its own prediction."""
    kinds = pronk.PKAWVRegressor | pronk.PKAWVClassifier | pronk.AIOLIClassifier
    early = isinstance(learner, kinds) or getattr(learner, "lag", 1) == 0
    return early and learner._dictionary_grows


def all_cases() -> list[Case]:
    cases = []
    forms = [(name, name, SMALL.get(name, {})) for name in pronk.algorithms()] + FORMS
    for name, algorithm, params in forms:
        for task in pronk.algorithms()[algorithm].tasks:
            cases.append(Case(name, algorithm, task, params))
            if task == "classification":
                cases.append(Case(name, algorithm, task, params, classes=3))
    return cases


CASES = all_cases()
BY_ID = {case.id: case for case in CASES}


def parametrized(cases: list[Case], *, by_engine: bool = False, most: int = 3) -> Any:
    """Return the decorator for a test of these cases.

    Cases of `SAME_CODE` are marked ``matrix`` if they have three classes, where these are those of
    the other name; with ``by_engine``, all of them. So are cases of more than ``most`` classes.
    """
    params = []
    for case in cases:
        repeats = case.name in SAME_CODE and (by_engine or case.classes == 3)
        repeats = repeats or case.classes > most
        marks = [pytest.mark.matrix] if repeats else []
        params.append(pytest.param(case, id=case.id, marks=marks))
    return pytest.mark.parametrize("case", params)


every = parametrized(CASES)
every_engine = parametrized(CASES, by_engine=True)
every_two_classes = parametrized(CASES, most=2)
two_classes = parametrized(
    [case for case in CASES if case.task == "classification" and case.classes == 2], by_engine=True
)
