"""The algorithms by name: what `pronk.make` builds and `pronk.algorithms` lists."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass, field
from typing import Any

PKAWV = "Jezequel, Gaillard, Rudi 2019 (PKAWV)"
DUAL_SGD = "Le, Nguyen, Nguyen, Phung 2016 (DualSGD)"
DUAL_SVRG = "Le, Nguyen, Phung 2022 (DualSVRG)"
LARGE_SCALE = "Lu, Hoi, Wang, Zhao, Liu 2016 (FOGD, NOGD)"
PROJECTRON = "Orabona, Keshet, Caputo 2009 (Projectron)"
PASSIVE = "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer 2006 (PA)"
BSGD = "Wang, Crammer, Vucetic 2012 (BSGD)"

CLASSIFICATION = ("classification",)


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
        # A family of one task may be a class of its own, as KernelPerceptron is.
        name = self.family if self.family in package.__all__ else self.family + suffix
        return getattr(package, name)


KONS = "Calandriello, Lazaric, Valko 2017 (KONS)"
PROS_N_KONS = "Calandriello, Lazaric, Valko 2017 (PROS-N-KONS)"

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "online-kernel", "the default: a grid of " + PKAWV + " under expert advice",
            "3 j^2 + j d, j the budget", "3 j^2 + j d", True, "OnlineKernel",
        ),
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
        Algorithm("kons", KONS, "t^2 + t d", "t^2 + t d", False, "KONS"),
        Algorithm(
            "sketched-kons", KONS, "t d + B^2, B points in the sketch", "t d + B^2", False,
            "SketchedKONS",
        ),
        Algorithm("pros-n-kons", PROS_N_KONS, "j^2 + j d", "j^2 + j d", False, "ProsNKONS"),
        Algorithm(
            "con-kons", PROS_N_KONS, "j^2 + j d", "j^2 + j d", False, "ProsNKONS",
            params={"restart": False},
        ),
        Algorithm(
            "b-kons", PROS_N_KONS, "J^2 + J d, J the budget", "J^2 + J d", True, "ProsNKONS",
            params={"budget": 100},
        ),
        Algorithm("dual-sgd", DUAL_SGD, "(B + L) d", "B (L + d) + L d", True, "DualSGD"),
        Algorithm(
            "dual-svrg-b", DUAL_SVRG, "(1 + m/n) (B + L) d", "B d + m (L + d) + L d", True,
            "DualSVRG", params={"oracle": "budget"},
        ),
        Algorithm(
            "dual-svrg-c", DUAL_SVRG, "(1 + m/n) (N + L) d, N the covering number",
            "N d + m (L + d) + L d", False, "DualSVRG", params={"oracle": "coverage"},
        ),
        Algorithm(
            "dual-svrg-am", DUAL_SVRG, "L d + (1 + m/n) L", "m L + L d", True, "DualSVRG",
            params={"oracle": "always-move"},
        ),
        Algorithm("fogd", LARGE_SCALE, "L d", "L d", True, "FOGD"),
        Algorithm("nogd", LARGE_SCALE, "B d + B r", "B d + B r", True, "NOGD"),
        Algorithm(
            "perceptron", "Rosenblatt 1958; Freund, Schapire 1999 (Perceptron)", "s d", "s d",
            False, "KernelPerceptron", CLASSIFICATION,
        ),
        Algorithm(
            "rbp", "Cavallanti, Cesa-Bianchi, Gentile 2007 (RBP)", "B d", "B d", True,
            "KernelPerceptron", CLASSIFICATION, {"budget": 100, "maintenance": "random"},
        ),
        Algorithm(
            "forgetron", "Dekel, Shalev-Shwartz, Singer 2008 (Forgetron)", "B d", "B d + B^2",
            True, "KernelPerceptron", CLASSIFICATION, {"budget": 100, "maintenance": "forget"},
        ),
        Algorithm(
            "projectron", PROJECTRON, "s d (+ s^2 at a mistake)", "s d + s^2, s finite for eta > 0",
            True, "KernelPerceptron", CLASSIFICATION, {"maintenance": "project"},
        ),
        Algorithm(
            "projectron++", PROJECTRON, "s d (+ s^2 below margin 1)",
            "s d + s^2, s finite for eta > 0", True, "KernelPerceptron", CLASSIFICATION,
            {"maintenance": "project", "aggressive": True},
        ),
        Algorithm(
            "ogd", "Kivinen, Smola, Williamson 2004 (NORMA)", "s d", "s d", False, "KernelOGD"
        ),
        Algorithm(
            "bogd", "Zhao, Wang, Wu, Jin, Hoi 2012 (BOGD)", "B d", "B d", True, "KernelOGD",
            CLASSIFICATION, {"alpha": 0.001, "budget": 100, "maintenance": "random"},
        ),
        Algorithm(
            "bsgd-r", BSGD, "B d", "B d", True, "KernelOGD", CLASSIFICATION,
            {"eta": "pegasos", "alpha": 0.001, "budget": 100, "maintenance": "smallest"},
        ),
        Algorithm(
            "bsgd-m", BSGD, "B d", "B d", True, "KernelOGD", CLASSIFICATION,
            {"eta": "pegasos", "alpha": 0.001, "budget": 100, "maintenance": "merge"},
        ),
        Algorithm("pa-1", PASSIVE, "s d", "s d", False, "KernelPA", params={"variant": "pa-1"}),
        Algorithm("pa-2", PASSIVE, "s d", "s d", False, "KernelPA", params={"variant": "pa-2"}),
        Algorithm(
            "krls", "Engel, Mannor, Meir 2004 (KRLS)", "m d + m^2",
            "m d + m^2, m finite for nu > 0", True, "KRLS", ("regression",),
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


#: Other spellings that `find` and `make` take.
ALIASES = {"default": "online-kernel"}


def find(name: str) -> Algorithm:
    """The algorithm of that name, or a ValueError that suggests the nearest one."""
    name = ALIASES.get(name, name)
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
