"""A learner whose passes are shared by threads, for the time of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pronk.estimators.faces.threads import ADVICE
from pronk.streams.prepared import Prepared


@contextmanager
def spread(model: Any, n_jobs: int | None) -> Iterator[None]:
    """``n_jobs`` of the learner inside; what it was afterwards. None leaves it alone."""
    if n_jobs is None:
        yield
        return
    before = set_jobs(model, n_jobs)
    try:
        yield
    finally:
        set_jobs(model, before)


def set_jobs(model: Any, n_jobs: int | None) -> int | None:
    """Set ``n_jobs`` of a model's learner; what it was. A learner without it is refused by name."""
    learners = [model]
    if isinstance(model, Prepared):
        learners = [model.learner, *([model.learner_] if hasattr(model, "learner_") else [])]
    for learner in learners:
        if not hasattr(learner, "n_jobs"):
            raise ValueError(
                f"n_jobs={n_jobs}: the pass of {type(learner).__name__} cannot be split: its "
                f"updates depend on its predictions; {ADVICE}"
            )
    before: int | None = learners[0].n_jobs
    for learner in learners:
        learner.n_jobs = n_jobs
    return before
