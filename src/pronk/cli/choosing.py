"""What the command line chooses where nothing is said: a bandwidth and a budget, and it says so.

A bandwidth of 1 suits no data in particular, and a dictionary without a limit makes rows slower and
slower. So, unless --param says otherwise, a kernel's bandwidth is the median distance of the first
256 rows as the learner will see them (``bandwidth=auto``), and a dictionary that would grow for
ever holds at most 500 points (``budget=none`` lifts that). The default learner chooses for itself.
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


def wants_budget(learner: Any, given: Collection[str]) -> bool:
    """Whether a dictionary would grow for ever, and nothing was said about it."""
    if "budget" in given or getattr(learner, "budget", 0) is not None:
        return False
    # A budget of an expansion needs a rule for what goes, which makes it another algorithm.
    return not hasattr(learner, "maintenance") and getattr(learner, "features", "") == "nystrom"


def choose(learner: Any, given: dict[str, Any], rows: NDArray[np.float64]) -> dict[str, Any]:
    """Set what was not said; what was chosen, by name."""
    chosen: dict[str, Any] = {}
    if wants_bandwidth(learner, given) and len(rows) > 1:
        chosen["bandwidth"] = bandwidth_of(learner, rows)
        learner.set_params(kernel__bandwidth=chosen["bandwidth"])
    if wants_budget(learner, given):
        chosen["budget"] = BUDGET
        learner.set_params(budget=BUDGET)
    return chosen


def in_words(chosen: dict[str, Any]) -> str:
    """What was chosen, and how to choose otherwise."""
    told = []
    if "bandwidth" in chosen:
        told.append(f"bandwidth={chosen['bandwidth']:g}, the median distance of the first rows")
    if "budget" in chosen:
        told.append(f"budget={chosen['budget']} (-p budget=none lifts it)")
    return "; ".join(told)


def _kernel(learner: Any) -> Kernel | None:
    kernel = getattr(learner, "kernel", None)
    if isinstance(kernel, str):
        return KERNELS[kernel]() if kernel in KERNELS else None
    return kernel if isinstance(kernel, Kernel) else None
