"""Every learner there is, small enough to be tried a thousand times.

A new name in the registry gets all the laws by itself, with the small settings of its ENTRY; other
forms of it are added here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pronk
from pronk.estimators.registry import make_as_in_paper

#: Further forms of the classes: (name of the form, algorithm, parameters).
FORMS: list[tuple[str, str, dict[str, Any]]] = [
    ("online-kernel-few", "online-kernel", {"budget": 20, "experts": "few"}),
    ("pkawv-projected", "pkawv-nystrom", {"history": "projected"}),
    ("pkawv-budget", "pkawv-nystrom", {"history": "projected", "budget": 7}),
    ("pkawv-fourier", "pkawv-taylor", {"features": "fourier", "n_features": 12}),
    ("pkawv-points", "pkawv-nystrom", {"dictionary": [[0.0, 0.0], [1.0, -1.0], [0.5, 0.5]]}),
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


@dataclass(frozen=True)
class Case:
    """A learner to try the laws on."""

    id: str
    algorithm: str
    task: str
    params: dict[str, Any] = field(default_factory=dict)
    classes: int = 2

    def make(self, **params: Any) -> Any:
        settings = {"random_state": 5, **self.params, **params}
        return make_as_in_paper(self.algorithm, self.task, **settings)

    @property
    def bounded(self) -> bool:
        return self.make().__dict__.get("budget") is not None or (
            pronk.algorithms()[self.algorithm].bounded
        )

    def stream(self, n: int = 150, seed: int = 0) -> tuple[Any, Any]:
        """Rows and targets: well-conditioned, with a repeated row, no score near a threshold."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.5, 1.5, size=(n, 2))
        X[n // 2] = X[0]
        score = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
        if self.task == "regression":
            return X, score
        if self.classes == 2:
            return X, np.where(score > 0, 1, -1)
        return X, np.array(["ant", "bee", "cat"])[np.digitize(score, [-0.6, 0.6])]


def all_cases() -> list[Case]:
    cases = []
    forms = [
        (name, name, algorithm.small) for name, algorithm in pronk.algorithms().items()
    ] + FORMS
    for name, algorithm, params in forms:
        for task in pronk.algorithms()[algorithm].tasks:
            cases.append(Case(f"{name}-{task}", algorithm, task, params))
            if task == "classification":
                cases.append(Case(f"{name}-three-classes", algorithm, task, params, classes=3))
    return cases


CASES = all_cases()
