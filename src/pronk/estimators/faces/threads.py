"""``n_jobs``: the pass of a learner on several threads of this machine, where it can be split."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from pronk.engines import splitting

Array = NDArray[np.float64]

#: What can be done instead.
ADVICE = (
    "learners that can: OnlineKernelRegressor and OnlineKernelClassifier (the default), "
    "PKAWVRegressor and PKAWVClassifier with fixed features or "
    'history="projected"; others gain from keyed models (pronk.Keyed) and from comparisons in '
    "parallel"
)


def check_splits(learner: Any, engine: Any) -> None:
    """Refuse ``n_jobs`` where the learner's pass is sequential by nature."""
    reason = splitting.why_not(engine)
    if reason is not None:
        raise ValueError(
            f"n_jobs={learner.n_jobs}: the pass of {type(learner).__name__} cannot be split: "
            f"{reason}; {ADVICE}"
        )


def learn_on_threads(engine: Any, X: Array, Y: Array, jobs: int) -> Array:
    """The engine's pass. Inside a learner's call BLAS has one thread in each of ours."""
    with ThreadPoolExecutor(effective_n_jobs(jobs)) as pool:
        return splitting.learn(engine, X, Y, pool)
