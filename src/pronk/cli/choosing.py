"""What the command line chooses where nothing is said: bandwidth, budget and steps, and it says so.

A bandwidth of 1 suits no data in particular, and a dictionary without a limit makes rows slower and
slower. So, unless --param says otherwise, a kernel's bandwidth is the median distance of the first
256 rows as the learner will see them (``bandwidth=auto``), and a dictionary that would grow for
ever holds at most 500 points (``budget=none`` lifts that); 30 where a learner starts anew at every
new point, for it forgets each time. A few learners, whose papers choose steps for guarantees or by
a search, get steps that are fair on most streams (`STEPS`). The default learner chooses for itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.views import typical_distance
from pronk.parts.kernels import KERNELS, Kernel

#: Rows whose distances tell the bandwidth, and points of a dictionary.
ROWS, BUDGET = 256, 500
#: Points of a learner that starts anew whenever one enters.
ANEW_BUDGET = 30
#: Steps by class, chosen with `benchmarks/bench_names.py`.
STEPS: dict[str, dict[str, float]] = {
    "DualSVRGRegressor": {"eta": 0.1},
    "DualSVRGClassifier": {"eta": 0.5},
    "SketchedKONSRegressor": {"alpha": 3.0},
}
#: Those of a learner that starts anew, and of PA-I: numbers of about size one (`streams.targets`).
ANEW_STEPS, PA_STEPS = {"alpha": 10.0}, {"C": 0.3}
AUTO = "auto"


def wants_bandwidth(learner: Any, given: dict[str, Any]) -> bool:
    """Whether the bandwidth of a learner is to be chosen."""
    if hasattr(learner, "experts_") or type(learner).__name__.startswith("OnlineKernel"):
        return False
    kernel = _kernel(learner)
    if kernel is None or not hasattr(kernel, "bandwidth"):
        return False
    return given.get("bandwidth", given.get("kernel__bandwidth", AUTO)) == AUTO


def bandwidth_of(learner: Any, rows: NDArray[np.float64]) -> float:
    """The median distance of rows, in the unit of the learner's kernel."""
    kernel = _kernel(learner)
    assert kernel is not None
    return float(f"{typical_distance(kernel, rows):.4g}")


def budget_for(learner: Any, given: Collection[str]) -> int | None:
    """The points of a dictionary where nothing was said about it; None: as it is."""
    if "budget" in given:
        return None
    if getattr(learner, "restart", False):
        return ANEW_BUDGET
    # A budget of an expansion needs a rule for what goes, which makes it another algorithm.
    grows = not hasattr(learner, "maintenance") and getattr(learner, "features", "") == "nystrom"
    return BUDGET if grows and getattr(learner, "budget", 0) is None else None


def steps_for(learner: Any) -> dict[str, float]:
    """Steps that the command line takes where none are given."""
    name = type(learner).__name__
    if name == "ProsNKONSRegressor" and learner.restart:
        return ANEW_STEPS
    if name == "KernelPARegressor" and learner.variant == "pa-1":
        return PA_STEPS
    return STEPS.get(name, {})


def choose(learner: Any, given: dict[str, Any], rows: NDArray[np.float64]) -> dict[str, Any]:
    """Set what was not said; what was chosen, by name."""
    chosen: dict[str, Any] = {}
    if wants_bandwidth(learner, given) and len(rows) > 1:
        chosen["bandwidth"] = bandwidth_of(learner, rows)
        learner.set_params(kernel__bandwidth=chosen["bandwidth"])
    others: dict[str, Any] = {k: v for k, v in steps_for(learner).items() if k not in given}
    budget = budget_for(learner, given)
    if budget is not None:
        others["budget"] = budget
    learner.set_params(**others)
    return {**chosen, **others}


def in_words(chosen: dict[str, Any]) -> str:
    """What was chosen, and how to choose otherwise."""
    told = []
    if "bandwidth" in chosen:
        told.append(f"bandwidth={chosen['bandwidth']:g}, the median distance of the first rows")
    if "budget" in chosen:
        told.append(f"budget={chosen['budget']} (-p budget=none lifts it)")
    told += [f"{k}={v:g}" for k, v in chosen.items() if k not in ("bandwidth", "budget")]
    return "; ".join(told)


def _kernel(learner: Any) -> Kernel | None:
    kernel = getattr(learner, "kernel", None)
    if isinstance(kernel, str):
        return KERNELS[kernel]() if kernel in KERNELS else None
    return kernel if isinstance(kernel, Kernel) else None
