"""What each algorithm says of itself in its own file, read without importing the file.

A file of `pronk.estimators.algorithms` has a literal ENTRY:

    classes      its public classes, the regressor first
    names        short names, each with time and memory per row, bounded, and where need be tasks,
                 params (the paper's choices) and paper
    paper        of all its names
    place        where it stands in lists
    bounds       functions of `pronk.regret` that speak of it; or guarantee, a text; or
                 guaranteed_by, a module whose docstring says it

The registry, the public names of `pronk`, the site and the laws read it. Only the syntax is parsed,
so asking what there is loads neither scikit-learn nor a compiler.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

PACKAGE = "pronk.estimators.algorithms"
#: What learns where no algorithm is named. It scales its columns itself.
DEFAULT_ALGORITHM = "online-kernel"


@dataclass(frozen=True)
class Algorithm:
    """One name of the tables: its classes, the paper's choices, and what a row costs."""

    name: str
    paper: str
    time: str
    memory: str
    bounded: bool
    module: str
    classes: tuple[str, ...]
    tasks: tuple[str, ...] = ("regression", "classification")
    params: dict[str, Any] = field(default_factory=dict)

    def learner_class(self, task: str) -> Any:
        """The learner class for a task, imported when asked for."""
        if task not in ("regression", "classification"):
            raise ValueError(f"task must be 'regression' or 'classification', got {task!r}")
        if task not in self.tasks:
            raise ValueError(f"{self.name} does {' and '.join(self.tasks)} only, not {task}")
        (name,) = [name for name in self.classes if task_of(name) == task]
        return getattr(importlib.import_module(f"{PACKAGE}.{self.module}"), name)


def task_of(name: str) -> str:
    """What a class learns, by its name: a class that is no regressor learns labels."""
    return "regression" if name.endswith("Regressor") else "classification"


@lru_cache(maxsize=1)
def entries() -> dict[str, dict[str, Any]]:
    """The entries of all files, by the file's name, in the order of their places."""
    package = importlib.import_module(PACKAGE)
    found = {info.name: _entry(info) for info in pkgutil.iter_modules(package.__path__)}
    return dict(sorted(found.items(), key=lambda item: (item[1].get("place", 1000), item[0])))


def _entry(info: pkgutil.ModuleInfo) -> dict[str, Any]:
    name = f"{PACKAGE}.{info.name}"
    spec = info.module_finder.find_spec(info.name, None)
    source = spec.loader.get_source(info.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:  # compiled only
        entry: dict[str, Any] = importlib.import_module(name).ENTRY
        return entry
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENTRY":
            entry = ast.literal_eval(node.value)
            return entry
    raise ImportError(f"{name} has no ENTRY, which says what it is (see CONTRIBUTING)")


@lru_cache(maxsize=1)
def all_algorithms() -> dict[str, Algorithm]:
    """Every short name with what its file says of it."""
    found = {}
    for module, entry in entries().items():
        classes = tuple(entry["classes"])
        tasks = sorted({task_of(name) for name in classes}, reverse=True)
        for name, facts in entry["names"].items():
            found[name] = Algorithm(
                name, facts.get("paper", entry.get("paper", "")), facts["time"], facts["memory"],
                facts["bounded"], module, classes, tuple(facts.get("tasks", tasks)),
                facts.get("params", {}),
            )  # fmt: skip
    return found


def homes() -> dict[str, str]:
    """The module of every public class."""
    return {
        name: f"{PACKAGE}.{module}"
        for module, entry in entries().items()
        for name in entry["classes"]
    }
