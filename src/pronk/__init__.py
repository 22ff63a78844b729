"""pronk: online kernel learning. Predict, then learn, in bounded time and memory a row.

>>> import numpy as np
>>> import pronk
>>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
>>> y = X[:, 0] * X[:, 1]
>>> learner = pronk.PKAWVRegressor(random_state=1)
>>> predictions = learner.predict_then_learn(X, y)
>>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}")
mean squared error 0.0088
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from pronk._version import __version__

# Where each public name lives. Nothing is imported until it is asked for, so that a bare
# `import pronk` loads neither scikit-learn nor a compiler.
_ALGORITHMS = "pronk.estimators.algorithms."
_HOMES = {
    "pronk.parts.kernels": ("Gaussian", "Laplacian", "Linear", "Matern", "Polynomial"),
    _ALGORITHMS + "dual_sgd": ("DualSGDClassifier", "DualSGDRegressor"),
    _ALGORITHMS + "dual_svrg": ("DualSVRGClassifier", "DualSVRGRegressor"),
    _ALGORITHMS + "fogd": ("FOGDClassifier", "FOGDRegressor"),
    _ALGORITHMS + "kernel_awv": ("KernelAWVClassifier", "KernelAWVRegressor"),
    _ALGORITHMS + "kernel_ogd": ("KernelOGDClassifier", "KernelOGDRegressor"),
    _ALGORITHMS + "kernel_pa": ("KernelPAClassifier", "KernelPARegressor"),
    _ALGORITHMS + "krls": ("KRLSRegressor",),
    _ALGORITHMS + "nogd": ("NOGDClassifier", "NOGDRegressor"),
    _ALGORITHMS + "perceptron": ("KernelPerceptron",),
    _ALGORITHMS + "kons": ("KONSClassifier", "KONSRegressor"),
    _ALGORITHMS + "sketched_kons": (
        "SketchedKONSClassifier",
        "SketchedKONSRegressor",
    ),
    _ALGORITHMS + "pros_n_kons": ("ProsNKONSClassifier", "ProsNKONSRegressor"),
    _ALGORITHMS + "online_kernel": (
        "OnlineKernelClassifier",
        "OnlineKernelRegressor",
    ),
    _ALGORITHMS + "pkawv": ("PKAWVClassifier", "PKAWVRegressor"),
    "pronk.parts.threads": ("set_threads",),
    "pronk.estimators.registry": ("algorithms", "make"),
    "pronk.estimators.storage": ("ModelFileError", "load"),
    "pronk.estimators.warm": ("warmup",),
    "pronk.keyed.learner": ("Keyed",),
    "pronk.streams.prepared": ("Prepared",),
    "pronk.streams.scaled": ("Scaled",),
}
_NAMES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_NAMES)]


def __getattr__(name: str) -> _Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'pronk' has no attribute {name!r}")
    value = getattr(_import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
