"""Models whose files have more parts than those of a short stream.

The default learner within a trial, with local experts and with the second head for rows far ahead;
`Pending` around several learners, with rows that were predicted at several stages, under ids of
both types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import pronk


def sequence(n: int, labels: bool = False) -> Any:
    """Return rows (n, 2), and targets or labels that follow their past."""
    rng = np.random.default_rng(6)
    X, hidden = rng.uniform(-1, 1, (n, 2)), np.zeros(n)
    for t in range(1, n):
        hidden[t] = 0.98 * hidden[t - 1] + 0.2 * rng.normal()
    y = np.sin(3 * X[:, 0]) + hidden
    return X, np.digitize(y, [-0.5, 0.5]) if labels else y


def change(n: int, at: int, labels: bool = False) -> Any:
    """Return rows (n, 2), and targets or labels that change at a row."""
    rng = np.random.default_rng(5)
    X, t = rng.uniform(-1, 1, (n, 2)), np.arange(n)
    y = np.where(t < at, np.sin(3 * X[:, 0]) + X[:, 1], -2 * np.cos(5 * X[:, 1]) - X[:, 0])
    y += np.where(t < at, 0.1, 0.5) * rng.normal(size=n)
    return X, np.where(y > 0.0, "high", "low") if labels else y


def default(labels: bool = False, **options: Any) -> Any:
    """Return a small default learner."""
    make = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    return make(**{"random_state": 0, "budget": 20, "experts": "few", **options})


def models() -> dict[str, Callable[[], Any]]:
    """Return functions that make models, by name."""
    found: dict[str, Callable[[], Any]] = {}
    for labels in (False, True):
        kind = "labels" if labels else "numbers"
        for make in (_trial, _forest, _far, _far_forest, _pending):
            name = make.__name__.strip("_").replace("_", "-")
            found[f"{name}-{kind}"] = partial(make, labels)
    found["pending-trial"] = _pending_in_a_trial
    found["pending-classes"] = _pending_with_new_classes
    fogd = partial(pronk.FOGDRegressor, n_features=10, random_state=0)
    found["pending-other"] = lambda: _pending_around(fogd(), 9)
    found["pending-blank"] = lambda: _pending_around(pronk.PKAWVClassifier(random_state=0), 0)
    found["pending-frame"] = partial(_pending_frame, 40)
    found["pending-blank-frame"] = partial(_pending_frame, 0)
    return found


def _trial(labels: bool) -> Any:
    X, y = change(1100, 600, labels)
    trial = default(labels).partial_fit(X, y)
    assert trial._model.trial is not None
    return trial


def _forest(labels: bool) -> Any:
    X, y = change(2060, 4000, labels)
    forest = default(labels, memory_limit=10**6).partial_fit(X, y)
    assert forest._model.experts.local is not None
    return forest


def _far(labels: bool) -> Any:
    X, y = sequence(700, labels)
    return default(labels, delay=3 * labels).partial_fit(X, y)


def _far_forest(labels: bool) -> Any:
    X, y = sequence(2070, labels)
    both = default(labels, memory_limit=10**6).partial_fit(X, y)
    assert both._model.experts.far.forest is not None
    return both


def _pending(labels: bool) -> pronk.Pending:
    """Return rows that were predicted at three stages, with ids of both types."""
    X, y = sequence(330, labels)
    pending = pronk.Pending(default(labels), limit=500)
    for start, stop in ((0, 20), (20, 100), (100, 300), (300, 330)):
        ids: list[Any] = [i if i % 2 else f"row {i}" for i in range(start, stop)]
        pending.predict(X[start:stop], ids)
        pending.learn(ids[:-8], y[start : stop - 8])
    return pending


def _pending_in_a_trial() -> pronk.Pending:
    X, y = change(1120, 600)
    pending = pronk.Pending(default().partial_fit(X[:1090], y[:1090]))
    pending.predict(X[1090:1100], range(1090, 1100))
    pending.predict(X[1100:], [f"é {i}" for i in range(1100, 1120)])
    return pending


def _pending_with_new_classes() -> pronk.Pending:
    """Return rows that were predicted with one, two and three labels known."""
    X, _ = sequence(60)
    named = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    pending = pronk.Pending(default(labels=True))
    for start, names in ((0, "a"), (20, "ab"), (40, "abc")):
        pending.predict(X[start : start + 20], range(start, start + 20))
        rows = [i for i in range(start, start + 20) if named[i] in names]
        pending.learn(rows, named[rows])
    pending.predict(X[:4], ["a", "b", "c", "d"])
    return pending


def _pending_around(learner: Any, learned: int) -> pronk.Pending:
    X, y = sequence(20, labels=hasattr(learner, "predict_proba"))
    pending = pronk.Pending(learner)
    pending.predict(X, range(20))
    pending.learn(range(learned), y[:learned])
    return pending


def _pending_frame(learned: int) -> pronk.Pending:
    X, y = sequence(60)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(
        city=np.where(X[:, 0] > 0, "Rome", "Oslo"),
        time=pd.date_range("2024-01-01", periods=60, freq="h"),
    )
    frame.loc[5, "b"] = np.nan
    pending = pronk.Pending(pronk.Prepared(default(), missing="mean", slots=4))
    pending.predict(frame, [f"row {i}" for i in range(60)])
    pending.learn([f"row {i}" for i in range(learned)], y[:learned])
    if learned:
        pending.predict(frame, range(60))
    return pending
