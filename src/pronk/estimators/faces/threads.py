"""The pass of a learner on several threads (``n_jobs``) or elsewhere, where it can be split."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
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


_elsewhere: ContextVar[Any] = ContextVar("elsewhere", default=None)


@contextmanager
def sharing(pool: Any) -> Iterator[None]:
    """Long calls of learners inside are shared by the workers of a pool."""
    token = _elsewhere.set(pool)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def shared() -> bool:
    """Whether a pool shares the calls of this moment."""
    return _elsewhere.get() is not None


def learn_shared(engine: Any, X: Array, Y: Array, jobs: int | None) -> Array:
    """The engine's pass. Inside a learner's call BLAS has one thread in each of ours."""
    pool = _elsewhere.get()
    if pool is not None:
        return splitting.learn(engine, X, Y, pool)
    with ThreadPoolExecutor(effective_n_jobs(jobs)) as pool:
        return splitting.learn(engine, X, Y, pool)
