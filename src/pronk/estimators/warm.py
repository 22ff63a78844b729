"""Compile, or load from the cache, every compiled function: for services that answer at once."""

from __future__ import annotations

import numpy as np

from pronk.estimators.registry import algorithms


def warmup() -> None:
    """Run every algorithm on a few rows, in short and in long calls, so that all is compiled."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((64, 2))
    for algorithm in algorithms().values():
        for task in algorithm.tasks:
            y = np.sin(X[:, 0]) if task == "regression" else np.sign(X[:, 0])
            learner = algorithm.learner_class(task)(**algorithm.params)
            learner.predict_then_learn(X[:60], y[:60])
            learner.predict_then_learn(X[60:61], y[60:61])
            learner.predict(X)
