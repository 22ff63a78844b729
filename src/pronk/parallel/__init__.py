"""Split one pass over the workers of a pool, with the predictions of the sequential pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.learner import OnlineKernel
from pronk.newton.spaces import FixedFeatures, GrowingFeatures
from pronk.parallel import aggregate, newton
from pronk.parallel.pipeline import Pool

Array = NDArray[np.float64]


def why_sequential(engine: Any) -> str | None:
    """Return why the pass of an engine cannot be split, or None if it can."""
    if isinstance(engine, FixedFeatures | GrowingFeatures):
        return newton.why_sequential(engine)
    if isinstance(engine, OnlineKernel):
        return None
    return "its updates depend on its predictions"


def learn(engine: Any, X: Array, Y: Array, pool: Pool) -> Array:
    """Return ``engine.learn(X, Y)``, up to rounding; the number of workers changes no bit."""
    adapter = aggregate if isinstance(engine, OnlineKernel) else newton
    return adapter.learn(engine, X, Y, pool)
