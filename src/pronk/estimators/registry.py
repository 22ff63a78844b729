"""The algorithms by name: what `pronk.make` builds and `pronk.algorithms` lists.

`make` is the one place where a name, a task and parameters become a learner. The library, the
command line (``--algorithm``, ``--param``), the service (``algorithm``, ``parameters``) and
`pronk.Keyed` call it, so the same words build the same learner everywhere.

A parameter that is not given is the paper's choice; where that leaves something open, or suits few
streams, it is one of these defaults:

    bandwidth   "auto": the median distance of the first rows, as the learner sees them
    budget      500 points for a dictionary that would grow without limit, 30 for a learner that
                starts anew with every point; a learner that holds all rows has none
    steps       of a few learners whose papers derive them from a bound or search for them (`STEPS`)

A kernel object, as ``kernel=Gaussian(0.5)``, configures the learner in the paper's terms: nothing
else is chosen with it. The learner of a key (`make_for_key`) has further defaults (`PER_KEY`), and
`make_as_in_paper` has none.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

# ----------------------------------------------------------------------------------------
# What each algorithm says of itself in its own file, read without importing the file.
#
# A file of `pronk.estimators.algorithms` has a literal ENTRY:
#
#     classes      its public classes, the regressor first
#     names        short names, each with time and memory per row, bounded, and where need be tasks,
#                  params (the paper's choices) and paper
#     paper        of all its names
#     place        where it stands in lists
#     bounds       functions of `pronk.regret` that speak of it; or guarantee, a text; or
#                  guaranteed_by, a module whose docstring says it
#
# The registry, the public names of `pronk`, the site and the laws read it. Only the syntax is
# parsed, so asking what there is loads neither scikit-learn nor a compiler.

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


def class_modules() -> dict[str, str]:
    """The module of every public class."""
    return {
        name: f"{PACKAGE}.{module}"
        for module, entry in entries().items()
        for name in entry["classes"]
    }


#: Most points of a dictionary, and of one with which a learner starts anew at every point.
BUDGET, RESTART_BUDGET = 500, 30
#: Steps by class, for targets of about size one; chosen with `benchmarks/bench_names.py`.
STEPS: dict[str, dict[str, float]] = {
    "DualSVRGRegressor": {"eta": 0.1},
    "DualSVRGClassifier": {"eta": 0.5},
    "SketchedKONSRegressor": {"alpha": 3.0},
}
RESTART_STEPS, PA_STEPS = {"alpha": 10.0}, {"C": 0.3}
#: The default learner of one key among thousands: few points and few experts.
PER_KEY: dict[str, dict[str, Any]] = {DEFAULT_ALGORITHM: {"budget": 32, "experts": "few"}}


def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name, with paper, cost per row in time and memory, and boundedness.

    >>> import pronk
    >>> print(pronk.algorithms()["pkawv-taylor"].memory)
    r^2
    """
    return dict(all_algorithms())


#: The names of a kernel's bandwidth among the parameters of a learner.
_BANDWIDTHS = ("bandwidth", "kernel__bandwidth")
#: Other spellings that `find` and `make` take.
ALIASES = {"default": DEFAULT_ALGORITHM}


def find(name: str) -> Algorithm:
    """Return the algorithm of that name, or raise a ValueError that suggests the nearest one."""
    name = ALIASES.get(name, name)
    known = all_algorithms()
    if name in known:
        return known[name]
    from pronk.core.checks import did_you_mean  # help and lists need no arithmetic

    hint = did_you_mean(name, known, otherwise=f"; known: {', '.join(known)}")
    raise ValueError(f"algorithm {name!r} is not known{hint}")


def make(name: str, task: str = "regression", **params: Any) -> Any:
    """Build a learner by its short name, as the command line and the service do.

    ``params`` are those of its class; a parameter of the kernel may be given by its own name, as
    ``bandwidth``. The others are the paper's choices, with the defaults above; with a kernel object
    they are the paper's choices alone.

    >>> import pronk
    >>> pronk.make("pkrr-taylor", degree=3)
    PKAWVRegressor(anticipate=False, degree=3, features='taylor',
                   kernel=Gaussian(bandwidth='auto'))
    >>> pronk.make("con-kons", bandwidth=2.0).budget
    500
    >>> pronk.make("con-kons", kernel=pronk.Gaussian(2.0))
    ProsNKONSRegressor(kernel=Gaussian(bandwidth=2.0), restart=False)
    """
    learner = make_as_in_paper(name, task, **params)
    return learner.set_params(**_defaults(learner, find(name), params))


def make_for_key(name: str, task: str = "regression", **params: Any) -> Any:
    """Build the learner of one key: as `make`, but small where the algorithm has small settings."""
    return make(name, task, **{**PER_KEY.get(find(name).name, {}), **params})


def make_as_in_paper(name: str, task: str = "regression", **params: Any) -> Any:
    """Build a learner with its class's defaults and the paper's choices, as tables need it.

    >>> from pronk.estimators.registry import make_as_in_paper
    >>> make_as_in_paper("pkrr-taylor", degree=3)
    PKAWVRegressor(anticipate=False, degree=3, features='taylor')
    """
    algorithm = find(name)
    learner = algorithm.learner_class(task)(**algorithm.params)
    given = dict(params)
    if "kernel" in given:  # it decides which parameters of a kernel there are
        learner.set_params(kernel=given.pop("kernel"))
    if not given:
        return learner
    known = learner.get_params()
    for key in given:
        if key not in known and f"kernel__{key}" not in known:
            from pronk.core.checks import did_you_mean

            hint = did_you_mean(key, known, otherwise=f"; it has {', '.join(sorted(known))}")
            raise TypeError(f"{algorithm.name} has no parameter {key!r}{hint}")
    return learner.set_params(
        **{key if key in known else f"kernel__{key}": value for key, value in given.items()}
    )


def defaults_of(
    name: str, task: str, params: dict[str, Any], *, per_key: bool = False
) -> dict[str, Any]:
    """Return what `make`, or `make_for_key`, chooses beside ``params``, by name."""
    small = PER_KEY.get(find(name).name, {}) if per_key else {}
    chosen = {key: value for key, value in small.items() if key not in params}
    given = {**chosen, **params}
    chosen |= _defaults(make_as_in_paper(name, task, **given), find(name), given)
    return {key.removeprefix("kernel__"): value for key, value in chosen.items()}


def _defaults(learner: Any, algorithm: Algorithm, given: dict[str, Any]) -> dict[str, Any]:
    """What neither the caller nor the paper has chosen, by parameters of the learner."""
    if not isinstance(given.get("kernel", ""), str):
        return {}
    fixed = {*given, *algorithm.params}
    chosen: dict[str, Any] = {}
    if (
        fixed.isdisjoint(_BANDWIDTHS)
        and "kernel__bandwidth" in learner.get_params()
        and not _scales_itself(learner)
    ):
        chosen["kernel__bandwidth"] = "auto"
    budget = _budget(learner)
    if budget is not None and "budget" not in fixed:
        chosen["budget"] = budget
    return {**chosen, **{key: value for key, value in _steps(learner).items() if key not in fixed}}


def _scales_itself(learner: Any) -> bool:
    """Whether a learner chooses scales and bandwidths by itself."""
    return getattr(learner, "_scales_itself", False)


def _budget(learner: Any) -> int | None:
    if getattr(learner, "restart", False):
        return RESTART_BUDGET
    # A budget of an expansion needs a rule for what goes, which makes it another algorithm.
    grows = not hasattr(learner, "maintenance") and getattr(learner, "features", "") == "nystrom"
    return BUDGET if grows and getattr(learner, "budget", 0) is None else None


def _steps(learner: Any) -> dict[str, float]:
    name = type(learner).__name__
    if name == "ProsNKONSRegressor" and learner.restart:
        return RESTART_STEPS
    if name == "KernelPARegressor" and learner.variant == "pa-1":
        return PA_STEPS
    return STEPS.get(name, {})


# ----------------------------------------------------------------------------------------
# Compile, or load from the cache, every compiled function: for services that answer at once.


def warmup() -> None:
    """Run every algorithm on a few rows, in short and in long calls, so that all is compiled."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.standard_normal((64, 2))
    for algorithm in algorithms().values():
        for task in algorithm.tasks:
            y = np.sin(X[:, 0]) if task == "regression" else np.sign(X[:, 0])
            learner = algorithm.learner_class(task)(**algorithm.params)
            learner.predict_then_learn(X[:60], y[:60])
            learner.predict_then_learn(X[60:61], y[60:61])
            learner.predict(X)
