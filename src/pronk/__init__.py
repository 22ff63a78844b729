"""pronk: online kernel learning. Predict, then learn, in bounded time and memory per row.

>>> import numpy as np
>>> import pronk
>>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
>>> y = X[:, 0] * X[:, 1]
>>> learner = pronk.PKAWVRegressor(random_state=1)
>>> predictions = learner.predict_then_learn(X, y)
>>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}")
mean squared error 0.0086
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from pronk._interrupts import deferred_interrupts as _deferred_interrupts
from pronk._version import __version__ as __version__

# Where each public name lives; the learners' classes are named by their own files
# (`pronk.estimators.registry`). Nothing is imported until it is asked for, so that a bare
# `import pronk` loads neither scikit-learn nor a compiler.
_HOMES = {
    "pronk.core.kernels": ("Gaussian", "Laplacian", "Linear", "Matern", "Polynomial"),
    "pronk.core.dictionary": ("ALD", "KORS", "FirstRows", "Rule", "UniformRows"),
    "pronk.core.runtime": ("set_threads",),
    "pronk.estimators.registry": ("algorithms", "make", "warmup"),
    "pronk.estimators.files": ("ModelFileError", "dumps", "load", "loads"),
    "pronk.estimators.merging": ("merge",),
    "pronk.compat.calibrated": ("Calibrated",),
    "pronk.compat.intervals": ("Intervals",),
    "pronk.keyed.learner": ("Keyed",),
    "pronk.data.pending": ("Pending",),
    "pronk.data.step": ("step",),
    "pronk.estimators.prepared": ("Prepared",),
}
_NAMES = {name: module for module, names in _HOMES.items() for name in names}


def _names() -> dict[str, str]:
    """The module of every public name."""
    with _deferred_interrupts(patient=True):
        registry = _import_module("pronk.estimators.registry")
    return {**_NAMES, **registry.class_modules()}


def __getattr__(name: str) -> _Any:
    if name == "__all__":
        return ["__version__", *sorted(_names())]
    home = None if name.startswith("_") else _NAMES.get(name) or _names().get(name)
    if home is None:
        raise AttributeError(f"module 'pronk' has no attribute {name!r}")
    with _deferred_interrupts(patient=True):
        value = getattr(_import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return ["__version__", *sorted(_names())]
