"""Split one pass over the workers of a pool, with the predictions of the sequential pass."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from pronk.aggregate.recovery import RecoveringKernel
from pronk.newton.spaces import FixedFeatures, GrowingFeatures
from pronk.parallel import newton
from pronk.parallel.pipeline import Pool

Array = NDArray[np.float64]

#: Advice where a pass cannot be split over several workers.
ADVICE = (
    "learners that can: PKAWVRegressor and PKAWVClassifier with fixed features or "
    'history="projected"; others gain from keyed models (pronk.Keyed) and from comparisons in '
    "parallel"
)


def why_sequential(engine: Any) -> str | None:
    """Return why the pass of an engine cannot be split, or None if it can."""
    if isinstance(engine, FixedFeatures | GrowingFeatures):
        return newton.why_sequential(engine)
    if isinstance(engine, RecoveringKernel):
        return "its experts, leaves and weights follow every row"
    return "its updates depend on its predictions"


def learn(engine: Any, X: Array, Y: Array, pool: Pool) -> Array:
    """Return ``engine.learn(X, Y)``, up to rounding; the number of workers changes no bit."""
    return newton.learn(engine, X, Y, pool)


def learn_on_workers(engine: Any, X: Array, Y: Array, jobs: int | None) -> Array:
    """Run `learn` on ``jobs`` threads; each has one BLAS thread."""
    with ThreadPoolExecutor(effective_n_jobs(jobs)) as pool:
        return learn(engine, X, Y, pool)
