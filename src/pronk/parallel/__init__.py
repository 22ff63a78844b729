"""Which engines' passes can be split over workers, and the pass on the threads of a pool."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.learner import OnlineKernel
from pronk.newton.spaces import FixedFeatures, GrowingFeatures
from pronk.parallel import aggregate as default
from pronk.parallel import newton
from pronk.parallel import newton as split

Array = NDArray[np.float64]


def why_not(engine: Any) -> str | None:
    """Why the pass of an engine cannot be split; None if it can."""
    if isinstance(engine, FixedFeatures | GrowingFeatures):
        return split.why_not(engine)
    if isinstance(engine, OnlineKernel):
        return None
    return "its updates depend on its predictions"


def learn(engine: Any, X: Array, Y: Array, pool: Executor) -> Array:
    """As ``engine.learn(X, Y)`` up to rounding; the number of threads changes no bit."""
    if isinstance(engine, OnlineKernel):
        return default.learn(engine, X, Y, pool)
    return newton.learn(engine, X, Y, pool)
