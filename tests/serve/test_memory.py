"""Memory of a model whose labels contradict earlier ones, so that new learners are tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import created, opened

from pronk.serve.rows import pack
from pronk.serve.worker import Answer, Work

LIMIT = 1_500_000


def leaves(model: Any) -> int:
    """Return the bytes of the leaves of all local experts, with those that are reserved."""
    learners = [model.incumbent]
    if model.trial is not None:
        learners.append(model.trial.challenger)
    found = 0
    for learner in learners:
        local = learner.experts.local
        if local is not None:
            found += sum(part.nbytes for part in local.forest._pool if part.ndim > 1)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_memory_has_a_limit_under_contradictory_labels(tmp_path: Path, task: str) -> None:
    service = opened(tmp_path)
    parameters = {"budget": 10, "memory_limit": LIMIT}
    created(service, task=task, algorithm="online-kernel", columns=2, parameters=parameters)
    model = service.model("m")
    rng = np.random.default_rng(0)
    sizes = []
    for block in range(40):
        X = rng.normal(size=(500, 2))
        y = (1 if (block // 8) % 2 else -1) * (np.sin(2 * X[:, 0]) + X[:, 1])
        labels: list[Any] = y.tolist()
        if task == "classification":
            labels = ["up" if value > 0 else "down" for value in labels]
        packed = model.columns.pack(X.tolist())
        work = Work(model, None, packed, pack(labels), 500)
        service.writer.group([work])
        assert isinstance(work.outcome, Answer)
        sizes.append(leaves(model.inner._model))
    assert model.inner.change_counts_["trials"] >= 2
    # The incumbent has the limit and a challenger half of it. A call replaces each leaf at most
    # once and keeps the old one until it ends; memory is added by quarters.
    assert 0.5 * LIMIT < max(sizes) <= 1.5 * 2 * 1.25 * LIMIT
    service.close()
