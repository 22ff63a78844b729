"""Random calls of all learners: which outcomes are allowed.

A trial is a learner and some calls. Most rows are usable; some have a wrong shape, kind or value.
`attempt` makes the calls and returns what went wrong:

- an error that is not documented (only ValueError and TypeError are),
- a refused call that changed the state,
- a prediction that is not finite,
- a twin, given the accepted rows in other blocks, that ends elsewhere.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import pronk
from laws.cases import SMALL
from pronk.estimators import files
from pronk.estimators.registry import make_as_in_paper

LEARNERS = [
    (name, task) for name, known in pronk.algorithms().items() for task in known.tasks
]  # fmt: skip
LABELS: list[list[Any]] = [
    [0, 1], [-1, 1], ["a", "b"], [1, 2, 3], [True, False], [0.5, 1.5],
]  # fmt: skip
KINDS = (
    *["plain"] * 12,
    *("bad x", "bad y", "short y", "single", "integer", "object", "text", "fortran", "list"),
    *("deep", "flat", "object y", "missing y", "wide", "strided"),
)


@dataclass(frozen=True)
class Call:
    """A block of rows: their number, seed, scale and defects."""

    rows: int
    seed: int
    kind: str
    scale: int
    labels: int
    cut: float
    """Return the row at which the second learner cuts the block."""


@dataclass(frozen=True)
class Trial:
    """A learner and its calls."""

    learner: tuple[str, str]
    seed: int
    columns: int
    mild: bool
    """Return calls with one scale and one set of labels, so that rounding errors stay small."""
    calls: tuple[Call, ...]


calls = st.builds(
    Call,
    rows=st.sampled_from([0, 1, 1, 2, 3, 7, 20, 60]),
    seed=st.integers(0, 2**20),
    kind=st.sampled_from(KINDS),
    scale=st.integers(-4, 3),
    labels=st.integers(0, len(LABELS) - 1),
    cut=st.floats(0, 1),
)
trials = st.builds(
    Trial,
    learner=st.sampled_from(LEARNERS),
    seed=st.integers(0, 99),
    columns=st.integers(1, 4),
    mild=st.booleans(),
    calls=st.lists(calls, min_size=1, max_size=12).map(tuple),
)


def rows_of(trial: Trial, call: Call) -> tuple[Any, Any]:
    """Return the rows and targets of a call."""
    rng = np.random.default_rng([call.seed, 9])
    n, width = call.rows, trial.columns
    if call.kind == "wide":
        width = int(rng.integers(0, 6))
    X: Any = rng.standard_normal((n, width))
    if trial.learner[1] == "regression":
        y: Any = rng.standard_normal(n)
    else:
        labels = np.array(LABELS[trial.calls[0].labels if trial.mild else call.labels])
        y = labels[rng.integers(len(labels), size=n)]
    if not trial.mild:
        X *= 10.0**call.scale
        if trial.learner[1] == "regression":
            y *= 10.0**-call.scale
    return _odd(call.kind, X, y, rng)


def _odd(kind: str, X: Any, y: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    n = len(X)
    bad = rng.choice([np.nan, np.inf, 1e200, -np.inf])
    if kind == "bad x" and X.size:
        X[rng.integers(n), rng.integers(X.shape[1])] = bad
    elif kind == "bad y" and n and y.dtype.kind == "f":
        y[rng.integers(n)] = bad
    elif kind == "short y":
        y = y[: n // 2]
    elif kind in ("single", "integer", "object", "text"):
        X = X.astype({"single": "f4", "integer": "i4", "object": object, "text": str}[kind])
    elif kind == "fortran":
        X = np.asfortranarray(X)
    elif kind == "strided":
        X = np.repeat(X, 2, axis=0)[::2]
    elif kind == "list":
        X = X.tolist()
    elif kind == "deep":
        X = X[:, None]
    elif kind == "flat":
        X = X.ravel()
    elif kind in ("object y", "missing y"):
        y = y.astype(object)
        if n and kind == "missing y":
            y[0] = None
    return X, y


def state_of(learner: Any) -> str | None:
    """Return a digest of everything a learner holds."""
    if not learner.__sklearn_is_fitted__():
        return None
    arrays: dict[str, Any] = {}
    text = json.dumps(files.pack(learner._fitted_state(), "", arrays), sort_keys=True)
    return files.digest(text, arrays)


def attempt(trial: Trial, counts: Counter[str]) -> str | None:
    """Make the calls; return what went wrong, or None."""
    name, task = trial.learner
    learner = _make(trial)
    accepted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in trial.calls:
            X, y = rows_of(trial, call)
            before = state_of(learner)
            try:
                predictions = learner.predict_then_learn(X, y)
            except (ValueError, TypeError):
                counts["refused"] += 1
                if state_of(learner) != before:
                    return f"{name}, {task}: a refused call changed the state"
            except Exception as error:
                return f"{name}, {task}: {type(error).__name__}: {error}"
            else:
                counts["learned"] += 1
                accepted.append((X, y, call.cut))
                if task == "regression" and not np.isfinite(predictions).all():
                    return f"{name}: a prediction is not finite"
        return _twin(trial, learner, accepted) if trial.mild and accepted else None


def _make(trial: Trial) -> Any:
    name, task = trial.learner
    return make_as_in_paper(name, task, random_state=trial.seed, **SMALL.get(name, {}))


def _twin(trial: Trial, learner: Any, accepted: list[tuple[Any, Any, float]]) -> str | None:
    """Learn the same rows in other blocks: points and predictions must be the same."""
    name, task = trial.learner
    twin = _make(trial)
    for X, y, cut in accepted:
        i = round(cut * len(y))
        for part in (slice(None, i), slice(i, None)):
            if len(y[part]):
                twin.predict_then_learn(X[part], y[part])
    if not learner.__sklearn_is_fitted__() or not learner.n_seen_:
        return None
    if (twin.n_seen_, twin.size_) != (learner.n_seen_, learner.size_):
        return f"{name}, {task}: another cut, another number of rows or points"
    rows = np.random.default_rng([1, 9]).standard_normal((5, learner.n_features_in_))
    function = "predict" if task == "regression" else "decision_function"
    ours, theirs = getattr(learner, function)(rows), getattr(twin, function)(rows)
    if np.shape(ours) != np.shape(theirs):
        return f"{name}, {task}: another cut, other classes"
    gap = np.max(np.abs(ours - theirs), initial=0.0)
    if gap > 1e-6 * max(1.0, np.max(np.abs(ours), initial=0.0)):
        return f"{name}, {task}: another cut, another function (by {gap:.1e})"
    return None
