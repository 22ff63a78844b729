"""Baselines: the mean or the most frequent label so far, and the last target."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Count, Sizes, Stateful, checked_count, require
from pronk.evaluate.fields import Items, LabelList, Reals, Tally

Array = NDArray[np.float64]


class Baseline(Stateful):
    """A model without points that learns while it predicts."""

    size_ = 0

    def predict_then_learn(self, X: Any, y: Any) -> Any:
        """Return the prediction of each row, made before its target was used."""
        raise NotImplementedError

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn the rows."""
        self.predict_then_learn(X, y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the prediction of the next row, for every row."""
        found = np.asarray(self._next())
        return np.broadcast_to(found, (len(X), *found.shape)).copy()

    def _next(self) -> Any:
        """Return the prediction of the next row; a label as an array of objects."""
        raise NotImplementedError


class RunningMean(Baseline):
    """Predict the mean of the targets so far; 0 for the first.

    >>> import numpy as np
    >>> from pronk.evaluate import RunningMean
    >>> print(RunningMean().predict_then_learn(np.zeros((3, 1)), np.array([4.0, 2.0, 9.0])))
    [0. 4. 3.]
    """

    def __init__(self) -> None:
        self.rows = 0
        self.total: Any = 0.0

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """Return the mean of the targets before each row."""
        y = np.asarray(y, dtype=np.float64)
        start = np.broadcast_to(np.asarray(self.total), (1, *y.shape[1:]))
        totals = np.cumsum(np.concatenate([start, y]), axis=0)
        counts = np.maximum(np.arange(self.rows, self.rows + len(y)), 1)
        self.rows += len(y)
        self.total = float(totals[-1]) if y.ndim == 1 else totals[-1]
        return np.asarray(totals[:-1] / (counts if y.ndim == 1 else counts[:, None]))

    def _next(self) -> Any:
        return np.asarray(self.total) / max(self.rows, 1)

    STATE = (Count("rows", "rows"), Reals("total", "total"))


class RunningMajority(Baseline):
    """Predict the most frequent label so far, the one seen first among equals.

    >>> import numpy as np
    >>> from pronk.evaluate import RunningMajority
    >>> y = np.array(["a", "b", "b", "b"])
    >>> print(RunningMajority().predict_then_learn(np.zeros((4, 1)), y))
    [None 'a' 'a' 'b']
    """

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.best: Any = None

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels so far, in order of appearance."""
        return np.array(list(self.counts))

    def predict_then_learn(self, X: Any, y: Any, output: str = "label") -> Any:
        """Return the most frequent label before each row; None before the first.

        ``output="both"`` also returns the shares of the labels before each row, (n, classes).
        """
        labels = np.asarray(y).tolist()
        before = dict(self.counts)
        predictions = np.empty(len(labels), dtype=object)
        for i, label in enumerate(labels):
            predictions[i] = self.best
            self.counts[label] += 1
            if self.best is None or self.counts[label] > self.counts[self.best]:
                self.best = label
        if output == "label":
            return predictions
        own = np.array(labels)[:, None] == self.classes_
        start = [before.get(label, 0) for label in self.counts]
        counts = np.cumsum(np.vstack((start, own)), axis=0)[:-1].astype(np.float64)
        totals = counts.sum(axis=1, keepdims=True)
        return predictions, counts / np.where(totals, totals, np.nan)

    def _next(self) -> Any:
        return np.array(self.best, dtype=object)

    #: Counts of the labels in order of appearance, and the index of the predicted one.
    STATE = (Tally("counts", "counts"), Items("best", "_place", out=int, back=checked_count))

    @property
    def _place(self) -> list[int]:
        return [] if self.best is None else [list(self.counts).index(self.best)]

    def _assign(self, values: dict[str, Any]) -> None:
        labels, best = list(values["counts"]), values["best"]
        good = len(best) == min(1, len(labels)) and all(place < len(labels) for place in best)
        require(good, "best is not one of the labels")
        self.counts = Counter(values["counts"])
        self.best = labels[best[0]] if best else None


class LastValue(Baseline):
    """Predict the target of the previous row; 0 for the first.

    >>> import numpy as np
    >>> from pronk.evaluate.baselines import LastValue
    >>> print(LastValue().predict_then_learn(None, np.array([4.0, 2.0, 9.0])))
    [0. 4. 2.]
    """

    def __init__(self) -> None:
        self.last: Any = 0.0

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """Return the target before each row."""
        y = np.asarray(y, dtype=np.float64)
        start = np.broadcast_to(np.asarray(self.last), (1, *y.shape[1:]))
        if len(y):
            self.last = float(y[-1]) if y.ndim == 1 else y[-1].copy()
        return np.concatenate([start, y])[:-1]

    def _next(self) -> Any:
        return self.last

    STATE = (Reals("last", "last"),)


class LastLabel(Baseline):
    """Predict the label of the previous row; None for the first.

    >>> import numpy as np
    >>> from pronk.evaluate.baselines import LastLabel
    >>> print(LastLabel().predict_then_learn(None, np.array(["a", "b", "b"])))
    [None 'a' 'b']
    """

    def __init__(self) -> None:
        self._held: list[Any] = []

    def predict_then_learn(self, X: Any, y: Any) -> NDArray[Any]:
        """Return the label before each row."""
        y = np.asarray(y)
        predictions = np.empty(len(y), dtype=object)
        predictions[:1] = self._held or [None]
        predictions[1:] = y[:-1]
        self._held = y[-1:].tolist() or self._held
        return predictions

    def _next(self) -> Any:
        return np.array((self._held or [None])[0], dtype=object)

    STATE = (LabelList("last", "_held"),)

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["labels"] <= 1, "last is more than one label")


#: Names of the baselines.
BASELINES = {
    "regression": ("running mean", "last value"),
    "classification": ("most frequent label", "last label"),
}


def make_baselines(task: str) -> tuple[Any, Any]:
    """Return both baselines of a task, new."""
    if task == "classification":
        return RunningMajority(), LastLabel()
    return RunningMean(), LastValue()


#: Metrics for which larger is better.
_LARGER = ("r2", "balanced_accuracy", "kappa", "f1", "auc", "accuracy")


class Lead(NamedTuple):
    """A metric in which a baseline is better than the learner."""

    metric: str
    value: float
    """Value of the learner."""
    baseline: str
    """Name of the baseline."""
    of_baseline: float
    """Value of the baseline."""


def leads(metrics: Mapping[str, float], baselines: Mapping[str, Mapping[str, float]]) -> list[Lead]:
    """Return the metrics in which a baseline is better than a learner.

    Metrics that a baseline does not have are skipped, and so is R2 of one target, which is
    equivalent to the mean squared error.
    """
    found = [
        Lead(name, value, label, theirs[name])
        for label, theirs in baselines.items()
        for name, value in metrics.items()
        if name in theirs and (theirs[name] > value if name in _LARGER else theirs[name] < value)
    ]
    squared = {one.baseline for one in found if one.metric == "mse"}
    return [one for one in found if one.metric != "r2" or one.baseline not in squared]


#: Above this share of a learner's gain past labels carry the score.
MOST_OF_GAIN = 0.5


def describe_repeating(
    metric: str, metrics: Mapping[str, float], baselines: Mapping[str, Mapping[str, float]],
    late: str = "",
) -> str:  # fmt: skip
    """Return a sentence if the last label reaches most of the gain over the first baseline; or "".

    The second baseline repeats the last label; ``late`` says how late that label is known.

    >>> means = {"running mean": {"mse": 10.0}, "last value": {"mse": 4.0}}
    >>> describe_repeating("mse", {"mse": 2.0}, means)
    'past labels carry the score: the last value reaches 75% of the gain over the running mean'
    """
    if len(baselines) < 2 or metric not in metrics:
        return ""
    first, last = baselines
    mean, repeated = (own.get(metric, math.nan) for own in baselines.values())
    gain = mean - metrics[metric]
    share = 0.0 if gain <= 0.0 else (mean - repeated) / gain
    if not share > MOST_OF_GAIN:
        return ""
    return (
        f"past labels carry the score: the {last}{late} reaches {min(share, 1.0):.0%} of the gain "
        f"over the {first}"
    )
