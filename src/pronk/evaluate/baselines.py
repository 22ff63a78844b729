"""What a learner must beat: the mean, or the most frequent label, of the rows so far."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.state import Items, Reals, checked_labels
from pronk.parts.state import Count, Stateful, checked_count, require

Array = NDArray[np.float64]


class RunningMean(Stateful):
    """Predict the mean of the targets so far; 0 for the first.

    >>> import numpy as np
    >>> from pronk.evaluate import RunningMean
    >>> print(RunningMean().predict_then_learn(np.zeros((3, 1)), np.array([4.0, 2.0, 9.0])))
    [0. 4. 3.]
    """

    size_ = 0

    def __init__(self) -> None:
        self.rows = 0
        self.total: Any = 0.0

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """The mean of the targets before each row."""
        y = np.asarray(y, dtype=np.float64)
        start = np.broadcast_to(np.asarray(self.total), (1, *y.shape[1:]))
        totals = np.cumsum(np.concatenate([start, y]), axis=0)
        counts = np.maximum(np.arange(self.rows, self.rows + len(y)), 1)
        self.rows += len(y)
        self.total = float(totals[-1]) if y.ndim == 1 else totals[-1]
        return np.asarray(totals[:-1] / (counts if y.ndim == 1 else counts[:, None]))

    def partial_fit(self, X: Any, y: Any) -> RunningMean:
        """Learn the rows."""
        self.predict_then_learn(X, y)
        return self

    def predict(self, X: Any) -> Array:
        """The mean so far."""
        mean = np.asarray(self.total) / max(self.rows, 1)
        return np.broadcast_to(mean, (len(X), *mean.shape)).copy()

    STATE = (Count("rows", "rows"), Reals("total", "total"))


class RunningMajority(Stateful):
    """Predict the most frequent label so far, the one seen first among equals.

    >>> import numpy as np
    >>> from pronk.evaluate import RunningMajority
    >>> y = np.array(["a", "b", "b", "b"])
    >>> print(RunningMajority().predict_then_learn(np.zeros((4, 1)), y))
    [None 'a' 'a' 'b']
    """

    size_ = 0

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.best: Any = None

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels so far, in the order they came."""
        return np.array(list(self.counts))

    def predict_then_learn(self, X: Any, y: Any, output: str = "label") -> Any:
        """The most frequent label before each row; None before the first.

        ``output="both"`` gives also the shares of the labels before each row, (n, classes).
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

    def partial_fit(self, X: Any, y: Any) -> RunningMajority:
        """Learn the rows."""
        self.predict_then_learn(X, y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most frequent label so far."""
        return np.full(len(X), self.best, dtype=object)

    #: Labels in the order they came, how often, and the place of the one that is predicted.
    STATE = (
        Items("labels", "_labels", out=lambda label: label, back=lambda label, name: label),
        Items("counts", "_times", out=int, back=checked_count),
        Items("best", "_place", out=int, back=checked_count),
    )

    @property
    def _labels(self) -> list[Any]:
        return list(self.counts)

    @property
    def _times(self) -> list[int]:
        return list(self.counts.values())

    @property
    def _place(self) -> list[int]:
        return [] if self.best is None else [list(self.counts).index(self.best)]

    def _adopt(self, values: dict[str, Any]) -> None:
        labels, counts = checked_labels(values["labels"], "labels"), values["counts"]
        require(len(counts) == len(labels), "counts are not those of the labels")
        best = values["best"]
        require(len(best) == min(1, len(labels)), "best is not one of the labels")
        require(all(place < len(labels) for place in best), "best is not one of the labels")
        self.counts = Counter(dict(zip(labels, counts, strict=True)))
        self.best = labels[best[0]] if best else None
