"""The algorithms by name, and the one function that configures a learner: `make`.

The library, the command line (``--algorithm``, ``--param``), the service (``algorithm``,
``parameters``) and `pronk.Keyed` all call `make`, so the same words build the same learner
everywhere. A parameter that is not given has the paper's value. Where the paper leaves a parameter
open, or its value suits few streams, the parameter has one of these defaults:

    bandwidth   "auto": the median distance of the first rows, after scaling
    budget      500 points for a dictionary that would grow without limit, 30 for a learner that
                restarts at every new point; none for a learner that holds all rows
    steps       of a few learners whose papers derive them from a bound or search for them (`STEPS`)

A kernel object, as ``kernel=Gaussian(0.5)``, configures the learner in the paper's terms: then none
of these defaults applies. A learner of one key (`make_for_key`) has further defaults (`PER_KEY`);
`make_as_in_paper` has none.

Each algorithm is described in its own file of `pronk.estimators.algorithms`, by a literal ENTRY:

    classes      its public classes, the regressor first
    names        short names, each with use (when to choose it), time and memory per row, bounded
                 (whether these are), paper and, where needed, tasks, params (the paper's values)
    time, ..     what all its names have in common, or those that do not say otherwise
    place        its position in lists
    bounds       functions of `pronk.regret` with its bound; or guarantee, a text; or guaranteed_by,
                 a module whose docstring states the guarantee

The registry, the public names of `pronk`, the documentation and the laws read the entries. Only the
syntax of a file is parsed, so listing the algorithms imports neither scikit-learn nor Numba.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pronk._hints import did_you_mean

PACKAGE = "pronk.estimators.algorithms"
#: The algorithm where none is named. It scales its columns itself.
DEFAULT_ALGORITHM = "online-kernel"


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: its name, its classes, the paper's parameters, and its cost per row."""

    name: str
    use: str
    paper: str
    time: str
    memory: str
    bounded: bool
    module: str
    classes: tuple[str, ...]
    tasks: tuple[str, ...] = ("regression", "classification")
    params: dict[str, Any] = field(default_factory=dict)

    def learner_class(self, task: str) -> Any:
        """Import and return the class of the learner for a task."""
        if task not in ("regression", "classification"):
            raise ValueError(f"task must be 'regression' or 'classification', got {task!r}")
        if task not in self.tasks:
            raise ValueError(f"{self.name} does {' and '.join(self.tasks)} only, not {task}")
        (name,) = [name for name in self.classes if task_of(name) == task]
        return getattr(importlib.import_module("pronk"), name)


def task_of(name: str) -> str:
    """Return the task of a class by its name: all but regressors are classifiers."""
    return "regression" if name.endswith("Regressor") else "classification"


@lru_cache(maxsize=1)
def entries() -> dict[str, dict[str, Any]]:
    """Return the entries of all files by the file's name, in the order of their places."""
    package = importlib.import_module(PACKAGE)
    found = {info.name: _entry(info) for info in pkgutil.iter_modules(package.__path__)}
    return dict(sorted(found.items(), key=lambda item: (item[1].get("place", 1000), item[0])))


def _entry(info: pkgutil.ModuleInfo) -> dict[str, Any]:
    """Read the ENTRY of a file without importing the file."""
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
    raise ImportError(f"{name} has no ENTRY, which describes the algorithm (see CONTRIBUTING)")


def algorithms() -> dict[str, Algorithm]:
    """Return all algorithms by name, with paper, time and memory per row, and whether bounded.

    >>> import pronk
    >>> print(pronk.algorithms()["pkawv-taylor"].memory)
    r^2
    """
    return dict(_algorithms())


@lru_cache(maxsize=1)
def _algorithms() -> dict[str, Algorithm]:
    found = {}
    for module, entry in entries().items():
        classes = tuple(entry["classes"])
        tasks = sorted({task_of(name) for name in classes}, reverse=True)
        for name, own in entry["names"].items():
            facts = {"paper": "", "tasks": tasks, "params": {}, **entry, **own}
            found[name] = Algorithm(
                name, facts["use"], facts["paper"], facts["time"], facts["memory"],
                facts["bounded"], module, classes, tuple(facts["tasks"]), facts["params"],
            )  # fmt: skip
    return found


def class_modules() -> dict[str, str]:
    """Return the module of every public class by the name of the class."""
    return {
        name: f"{PACKAGE}.{module}"
        for module, entry in entries().items()
        for name in entry["classes"]
    }


#: Largest size of a dictionary, and of one whose learner restarts at every new point.
BUDGET, RESTART_BUDGET = 500, 30
#: Steps by class, for targets of about size one; chosen with `benchmarks/bench_names.py`.
STEPS: dict[str, dict[str, float]] = {
    "AIOLIClassifier": {"alpha": 0.03},
    "DualSVRGRegressor": {"eta": 0.1},
    "DualSVRGClassifier": {"eta": 0.5},
    "SketchedKONSRegressor": {"alpha": 3.0},
}
RESTART_STEPS, PA_STEPS = {"alpha": 10.0}, {"C": 0.3}
#: Parameters of the learner of one key among thousands: few points and few experts.
PER_KEY: dict[str, dict[str, Any]] = {DEFAULT_ALGORITHM: {"budget": 32, "experts": "few"}}


#: Names of the bandwidth among the parameters of a learner.
_BANDWIDTHS = ("bandwidth", "kernel__bandwidth")
#: Other names that `find` and `make` accept.
ALIASES = {"default": DEFAULT_ALGORITHM}


def find(name: str) -> Algorithm:
    """Return the algorithm of that name, or raise a ValueError that suggests the nearest one."""
    name = ALIASES.get(name, name)
    registered = _algorithms()
    if name in registered:
        return registered[name]
    hint = did_you_mean(name, registered, otherwise=f"; known: {', '.join(registered)}")
    raise ValueError(f"algorithm {name!r} is not known{hint}")


def make(name: str, task: str = "regression", **params: Any) -> Any:
    """Build a learner by its short name, as the command line and the service do.

    ``params`` are parameters of the class; a parameter of the kernel may be given by its own name,
    as ``bandwidth``. The other parameters have the paper's values and the defaults described in
    `pronk.estimators.registry`; with a kernel object, the paper's values only.

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
    """Build the learner of one key: as `make`, with the smaller settings of `PER_KEY`."""
    return make(name, task, **{**PER_KEY.get(find(name).name, {}), **params})


def make_as_in_paper(name: str, task: str = "regression", **params: Any) -> Any:
    """Build a learner with the defaults of its class and the paper's values.

    >>> from pronk.estimators.registry import make_as_in_paper
    >>> make_as_in_paper("pkrr-taylor", degree=3)
    PKAWVRegressor(anticipate=False, degree=3, features='taylor')
    """
    algorithm = find(name)
    learner = algorithm.learner_class(task)(**algorithm.params)
    given = dict(params)
    if "kernel" in given:  # first, because it determines the kernel's parameters
        learner.set_params(kernel=given.pop("kernel"))
    if not given:
        return learner
    accepted = learner.get_params()
    for key in given:
        if key not in accepted and f"kernel__{key}" not in accepted:
            hint = did_you_mean(key, accepted, otherwise=f"; it has {', '.join(sorted(accepted))}")
            if key == "class_weight":
                hint = (
                    "; for rare classes choose a threshold of predict_proba (docs: sample weights)"
                )
            raise TypeError(f"{algorithm.name} has no parameter {key!r}{hint}")
    return learner.set_params(
        **{key if key in accepted else f"kernel__{key}": value for key, value in given.items()}
    )


def defaults_of(
    name: str, task: str, params: dict[str, Any], *, per_key: bool = False
) -> dict[str, Any]:
    """Return the parameters that `make`, or `make_for_key`, adds to ``params``, by name."""
    small = PER_KEY.get(find(name).name, {}) if per_key else {}
    chosen = {key: value for key, value in small.items() if key not in params}
    given = {**chosen, **params}
    chosen |= _defaults(make_as_in_paper(name, task, **given), find(name), given)
    return {key.removeprefix("kernel__"): value for key, value in chosen.items()}


def _defaults(learner: Any, algorithm: Algorithm, given: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of parameters that neither the caller nor the paper has set."""
    if not isinstance(given.get("kernel", ""), str):
        return {}
    fixed = {*given, *algorithm.params}
    chosen: dict[str, Any] = {}
    if (
        fixed.isdisjoint(_BANDWIDTHS)
        and "kernel__bandwidth" in learner.get_params()
        and not getattr(learner, "_scales_itself", False)
    ):
        chosen["kernel__bandwidth"] = "auto"
    budget = _budget(learner)
    if budget is not None and "budget" not in fixed:
        chosen["budget"] = budget
    return {**chosen, **{key: value for key, value in _steps(learner).items() if key not in fixed}}


def _budget(learner: Any) -> int | None:
    """Return the default budget of a learner; None where it has none."""
    if getattr(learner, "restart", False):
        return RESTART_BUDGET
    # A budget of an expansion needs a rule for what is removed: that is another algorithm.
    grows = not hasattr(learner, "maintenance") and getattr(learner, "features", "") == "nystrom"
    return BUDGET if grows and getattr(learner, "budget", 0) is None else None


def _steps(learner: Any) -> dict[str, float]:
    """Return the default parameters of a learner's steps."""
    name = type(learner).__name__
    if name == "ProsNKONSRegressor" and learner.restart:
        return RESTART_STEPS
    if name == "KernelPARegressor" and learner.variant == "pa-1":
        return PA_STEPS
    return STEPS.get(name, {})


def warmup() -> None:
    """Compile every compiled function, or load it from the cache, so that later calls are fast.

    Every algorithm learns a few rows, in a long and in a short call, and rows that have waited for
    their labels; so do the local experts and the trials of the default learner, which begin later.
    """
    import numpy as np

    from pronk.aggregate.local import warm_up_local
    from pronk.aggregate.trial import warm_up_trial

    warm_up_local()
    warm_up_trial()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((64, 2))
    for algorithm in algorithms().values():
        for task in algorithm.tasks:
            y = np.sin(X[:, 0]) if task == "regression" else np.sign(X[:, 0])
            learner = algorithm.learner_class(task)(**algorithm.params)
            learner.predict_then_learn(X[:60], y[:60])
            learner.predict_then_learn(X[60:61], y[60:61])
            learner.predict(X)
            _, kept = learner._predict_to_wait(X[61:])
            if kept is not None:
                learner._learn_waiting(X[61:], y[61:], kept.lines)
