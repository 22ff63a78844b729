"""The algorithms by name: what `pronk.make` builds and `pronk.algorithms` lists."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass, field
from typing import Any

PKAWV = "Jezequel, Gaillard, Rudi 2019 (PKAWV)"


@dataclass(frozen=True)
class Algorithm:
    """One name of the tables: its classes, the paper's choices, and what a row costs."""

    name: str
    paper: str
    time: str
    memory: str
    bounded: bool
    family: str
    tasks: tuple[str, ...] = ("regression", "classification")
    params: dict[str, Any] = field(default_factory=dict)

    def learner_class(self, task: str) -> Any:
        """The learner class for a task, imported when asked for."""
        if task not in ("regression", "classification"):
            raise ValueError(f"task must be 'regression' or 'classification', got {task!r}")
        if task not in self.tasks:
            raise ValueError(f"{self.name} does {' and '.join(self.tasks)} only, not {task}")
        suffix = "Regressor" if task == "regression" else "Classifier"
        package = importlib.import_module("pronk")
        return getattr(package, self.family + suffix)


ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("kernel-awv", PKAWV, "t^2 + t d", "t^2 + t d", False, "KernelAWV"),
        Algorithm(
            "kernel-ridge", "Zhdanov, Kalnishkan 2010; " + PKAWV, "t^2 + t d", "t^2 + t d", False,
            "KernelAWV", params={"anticipate": False},
        ),
        Algorithm(
            "pkawv-taylor", PKAWV, "r^2, r = C(M+d, d)", "r^2", True, "PKAWV",
            params={"features": "taylor"},
        ),
        Algorithm(
            "pkawv-nystrom", PKAWV, "j^2 + j d (t j at growth)", "j^2 + t (j + d)", False, "PKAWV",
            params={"features": "nystrom", "history": "exact"},
        ),
        Algorithm(
            "pkrr-taylor", PKAWV, "r^2, r = C(M+d, d)", "r^2", True, "PKAWV",
            params={"features": "taylor", "anticipate": False},
        ),
        Algorithm(
            "pkrr-nystrom", PKAWV, "j^2 + j d (t j at growth)", "j^2 + t (j + d)", False, "PKAWV",
            params={"features": "nystrom", "history": "exact", "anticipate": False},
        ),
    )
}  # fmt: skip


def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name, with paper, cost a row in time and memory, and boundedness.

    >>> import pronk
    >>> print(pronk.algorithms()["pkawv-taylor"].memory)
    r^2
    """
    return dict(ALGORITHMS)


def find(name: str) -> Algorithm:
    """The algorithm of that name, or a ValueError that suggests the nearest one."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    near = difflib.get_close_matches(str(name), ALGORITHMS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(ALGORITHMS)}"
    raise ValueError(f"algorithm {name!r} is not known{hint}")


def make(name: str, task: str = "regression", **params: Any) -> Any:
    """A learner by its short name, with the paper's choices; ``params`` override them.

    >>> import pronk
    >>> pronk.make("pkrr-taylor", degree=3)
    PKAWVRegressor(anticipate=False, degree=3, features='taylor')
    """
    algorithm = find(name)
    return algorithm.learner_class(task)(**{**algorithm.params, **params})
