"""Merge learners that were trained on different rows into the learner of all rows.

The state of a ridge or AWV learner on fixed features is two sums over its rows and the regulariser,
A = alpha I + sum phi phi' and b = sum y phi. So two learners on disjoint rows and the same features
have

    A = A_a + A_b - alpha I        b = b_a + b_b

together, and from there on predict as the learner that saw all rows, up to rounding, in any order
and with any grouping. Labels need no agreement beforehand: a class that only one learner has seen
enters the other as if all its rows had been negative for it, as in one pass.

The losses are added too, but they are those of separate passes, each of which started from nothing:
a merged certificate shows the loss and the best loss in hindsight, and no bound.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from pronk.core.kernels import get_kernel
from pronk.core.runtime import limited
from pronk.estimators.calls import own_lock
from pronk.estimators.estimator import OnlineLearner

#: Parameters that must be equal: of all learners, and of those with these features.
SETTINGS = ("kernel", "alpha", "anticipate", "features", "max_classes")
SETTINGS_OF = {"taylor": ("degree",), "fourier": ("n_features",), "nystrom": ("dictionary",)}


def merge(a: Any, b: Any, *more: Any) -> Any:
    """Return a new learner that has learned the rows of all given learners, each row once.

    The learners are `PKAWVRegressor` or `PKAWVClassifier` with Taylor features, Fourier features of
    one seed, or given points (``dictionary=points``), and the same kernel, alpha and anticipate.
    The order and the grouping change the result by rounding only. The given learners stay as they
    are; one that has not learned anything counts as no rows.

    A learner that already contains rows of another one counts them twice: merge learners of
    disjoint rows (the how-to page on merging shows federated rounds).

    Raise a ValueError that names the reason if the learners differ in a setting, or if their state
    is not a sum over rows. ``certificate()`` of the result has no bound: the losses are those of
    separate passes.

    Examples
    --------
    >>> import numpy as np
    >>> import pronk
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.sin(3 * X[:, 0]) * X[:, 1]
    >>> points = X[:50]
    >>> one, two, whole = (pronk.PKAWVRegressor(dictionary=points) for _ in range(3))
    >>> merged = pronk.merge(one.fit(X[:1500], y[:1500]), two.fit(X[1500:], y[1500:]))
    >>> difference = np.abs(merged.predict(X) - whole.fit(X, y).predict(X)).max()
    >>> print(merged.n_seen_, difference < 1e-9)
    2000 True
    """
    merged = _merged(a, b, "a", "b")
    for number, learner in enumerate(more, 3):
        merged = _merged(merged, learner, "a", f"learner {number}")
    return merged


def _merged(a: Any, b: Any, first: str, second: str) -> Any:
    """Return the learner of the rows of two, whose names in messages are given."""
    for name, learner in ((first, a), (second, b)):
        if not isinstance(learner, OnlineLearner):
            raise ValueError(
                f"{name} must be a pronk learner, got {type(learner).__name__}; where columns are "
                "scaled or encoded by earlier rows, do that in the same way for all learners "
                "beforehand"
            )
    a, b = _copy(a), _copy(b)
    for name, learner in ((first, a), (second, b)):
        reason = learner._why_not_merged()
        if reason is not None:
            raise ValueError(f"{name} cannot be merged: {type(learner).__name__}: {reason}")
    differing = _differing_setting(a, b)
    if differing is not None:
        raise ValueError(f"{first} and {second} differ in {differing}; merge learners of one kind")
    if not b.__sklearn_is_fitted__():
        return a
    if not a.__sklearn_is_fitted__():
        return b
    with limited:
        if hasattr(a, "_labels"):
            labels = a._labels.merged(b._labels, a.max_classes)
            for learner in (a, b):
                if learner._labels is not labels:
                    learner._model.remap(learner._labels.matrix(labels))
            a._labels = labels
        a._model.absorb(b._model)
    a.n_seen_ += b.n_seen_
    a._set_columns(a._columns.merged(b._columns))
    return a


def _copy(learner: Any) -> Any:
    """Return a copy of a learner, which another thread may be using, as it began to learn."""
    with own_lock(learner):
        copied = copy.deepcopy(learner)
    for name, value in copied._file_params().items():
        setattr(copied, name, value)
    copied.__dict__.pop("_first_params", None)
    return copied


def _differing_setting(a: Any, b: Any) -> str | None:
    """Return what the two learners differ in that decides on their features, or None."""
    if type(a) is not type(b):
        return f"their class, {type(a).__name__} and {type(b).__name__}"
    for name in (*SETTINGS, *SETTINGS_OF.get(a.features, ())):
        if hasattr(a, name) and not _equal(name, getattr(a, name), getattr(b, name)):
            return f"{name}, {getattr(a, name)!r} and {getattr(b, name)!r}"
    if not (a.__sklearn_is_fitted__() and b.__sklearn_is_fitted__()):
        return None
    if a.features == "fourier" and a._seed != b._seed:
        return "the seed of their features; give both the same random_state"
    differing = a._columns.why_not_merged(b._columns)
    if differing is not None:
        return str(differing)
    if getattr(a, "_flat", None) != getattr(b, "_flat", None) or (
        hasattr(a, "_flat") and a._outputs != b._outputs
    ):
        return "the number of targets"
    return None


def _equal(name: str, one: Any, other: Any) -> bool:
    """Return whether two values of a parameter mean the same."""
    if name == "kernel":
        kernels = get_kernel(one), get_kernel(other)
        same = type(kernels[0]) is type(kernels[1])
        return same and kernels[0].get_params() == kernels[1].get_params()
    if name == "dictionary":
        return np.array_equal(np.asarray(one, dtype=float), np.asarray(other, dtype=float))
    return bool(one == other)
