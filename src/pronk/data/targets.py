"""Targets around 0, of about size one: what regressors that do not see to it themselves expect.

A regulariser draws to 0, and a step of fixed length or a largest coefficient suits numbers of size
1; prices of houses are neither. So the learner is given (y - centre) / size and its predictions are
turned back, with the mean and the deviation of the first rows. These are known only when the rows
have come: the learner begins anew after row 1, 2, 4, .., 256 with all rows so far and the centre
and size of these rows, and goes on with the last ones. Every prediction is made by rows before it,
and cutting the stream into calls differently changes nothing.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pronk.core.state import checked_count, require
from pronk.estimators.inputs import check_targets, check_weights

Array = NDArray[np.float64]

#: What a target becomes.
TARGETS = ("auto", "standard", "none")
#: Rows after which centre and size are taken anew.
MARKS = tuple(2**i for i in range(9))
FIRST = MARKS[-1]


def scales_targets(learner: Any, target: str) -> bool:
    """Whether the targets of a learner are scaled; "auto": unless it does that itself."""
    if target not in TARGETS:
        raise ValueError(f"scale_target must be one of {', '.join(TARGETS)}; got {target!r}")
    labels = learner.__sklearn_tags__().estimator_type == "classifier"
    if labels and target == "standard":
        raise ValueError("scale_target='standard': labels have no size; leave it out")
    itself = getattr(learner, "_scales_itself", False)
    return not labels and (target == "standard" or (target == "auto" and not itself))


class Targets:
    """Centre and size by the first rows, which are held until they are final.

    Nothing is written in place: a shallow copy keeps what it has.
    """

    def __init__(self) -> None:
        self.rows = 0  # learned, up to FIRST
        self.centre: Any = 0.0
        self.size: Any = 1.0
        self._held: tuple[tuple[Array, Array, Array], ...] = ()  # X, y, weights

    def there(self, y: Array) -> Array:
        """Targets as the learner gets them."""
        return np.asarray((y - self.centre) / self.size)

    def back(self, predictions: Array) -> Array:
        """Predictions of the learner in the unit of y."""
        return np.asarray(self.centre + self.size * predictions)

    def ends_back(self, ends: Array) -> Array:
        """Intervals (.., 2) of the learner in the unit of y."""
        several = np.ndim(self.centre) > 0
        centre, size = (np.asarray(v)[:, None] if several else v for v in (self.centre, self.size))
        return np.asarray(centre + size * ends)

    def all_back(self, answer: Any) -> Any:
        """An answer of the learner, predictions or their pair with intervals, in the unit of y."""
        if isinstance(answer, tuple):
            return self.back(answer[0]), self.ends_back(answer[1])
        return self.back(answer)

    def learn(
        self, blank: Any, learner: Any, X: Array, y: Any, options: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Predict then learn; the learner from here on, and its answer in the unit of y.

        ``learner`` itself is changed only where the first rows are over: a call that raises leaves
        it as it was.
        """
        Y = check_targets(y, len(X))
        if self.rows >= FIRST:
            return learner, self.all_back(learner.predict_then_learn(X, self.there(Y), **options))
        others = dict(options)
        weights = check_weights(others.pop("sample_weight", None), len(X))
        learner, answers = copy.deepcopy(learner), []
        for start, stop in pairwise(self._cuts(len(X), weights)):
            part = slice(start, stop)
            own = others if weights is None else {**others, "sample_weight": weights[part]}
            scaled = learner.predict_then_learn(X[part], self.there(Y[part]), **own)
            answers.append(self.all_back(scaled))
            if self.rows == FIRST:
                continue
            before = self.rows
            self._hold(X[part], Y[part], None if weights is None else weights[part])
            if self.rows in MARKS and self.rows > before:
                learner = self._anew(blank, weights is not None)
        return learner, joined(answers)

    def _cuts(self, n: int, weights: Array | None) -> list[int]:
        """The ends of pieces: where the rows learned are as many as a mark."""
        learned = np.ones(n) if weights is None else weights > 0.0
        counts = self.rows + np.cumsum(learned)
        marks = [mark for mark in MARKS if self.rows < mark <= counts[-1]]
        return sorted({0, *(int(np.searchsorted(counts, mark)) + 1 for mark in marks), n})

    def _hold(self, X: Array, Y: Array, weights: Array | None) -> None:
        own = np.ones(len(X)) if weights is None else weights
        kept = own > 0.0
        self.rows = min(FIRST, self.rows + int(kept.sum()))
        if kept.any():
            self._held = (*self._held, (X[kept], Y[kept], own[kept]))

    def _anew(self, blank: Any, weighted: bool) -> Any:
        """A learner of the rows held, with their centre and size."""
        X, Y, weights = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        self.centre, self.size = Y.mean(axis=0), Y.std(axis=0)
        self.size = np.where(self.size > 1e-12 * np.abs(self.centre), self.size, 1.0)
        learner = clone(blank)
        more = {"sample_weight": weights} if weighted or (weights != 1.0).any() else {}
        learner.partial_fit(X, self.there(Y), **more)
        # Once the marks are over nothing is needed any more.
        self._held = () if self.rows == FIRST else ((X, Y, weights),)
        return learner

    # -- saving ----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """What is held, as arrays."""
        state: dict[str, Any] = {
            "rows": self.rows,
            "centre": np.atleast_1d(np.asarray(self.centre, dtype=np.float64)),
            "size": np.atleast_1d(np.asarray(self.size, dtype=np.float64)),
            "flat": np.ndim(self.centre) == 0,
        }
        for i, name in enumerate(("X", "y", "weights")):
            parts = [held[i] for held in self._held]
            state[name] = np.concatenate(parts) if parts else None
        return state

    def restore(self, state: Any, columns: int) -> None:
        """Take over what `to_state` gave, from a file that anybody may have written."""
        names = {"rows", "centre", "size", "flat", "X", "y", "weights"}
        require(isinstance(state, dict) and set(state) == names, "targets are not a table")
        self.rows = checked_count(state["rows"], "targets/rows", 0, FIRST)
        require(type(state["flat"]) is bool, "targets/flat is not true or false")
        centre = _numbers(state["centre"], "centre", 1)
        size = _numbers(state["size"], "size", 1)
        require(len(centre) == len(size) and bool((size > 0).all()), "targets/size does not fit")
        require(not state["flat"] or len(centre) == 1, "targets/centre is of several outputs")
        flat = state["flat"]
        self.centre, self.size = (centre[0], size[0]) if flat else (centre, size)
        over = self.rows in (0, FIRST)
        if over:
            require(state["X"] is state["y"] is state["weights"] is None, "targets/X is too much")
            self._held = ()
            return
        X, weights = _numbers(state["X"], "X", 2), _numbers(state["weights"], "weights", 1)
        Y = _numbers(state["y"], "y", 1 if flat else 2)
        require(len(X) == len(Y) == len(weights) == self.rows, "targets/rows are not those held")
        require(X.shape[1] == columns, "targets/X has other columns")
        require(bool((weights > 0).all()), "targets/weights are not positive")
        require(flat or Y.shape[1] == len(centre), "targets/y has other outputs")
        self._held = ((X, Y, weights),)


def joined(answers: list[Any]) -> Any:
    """The answers of several calls as that of one: arrays, or pairs of arrays."""
    if isinstance(answers[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))
    return np.concatenate(answers)


def _numbers(value: Any, name: str, dimensions: int) -> Array:
    good = isinstance(value, np.ndarray) and value.dtype == np.float64
    require(good and value.ndim == dimensions, f"targets/{name} is not an array of numbers")
    require(bool(np.isfinite(value).all()), f"targets/{name} holds NaN or infinity")
    return np.ascontiguousarray(value)
