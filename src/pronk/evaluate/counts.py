"""The table of labels and predictions (confusion matrix), and the figures that follow from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.forecasts import Forecast
from pronk.evaluate.state import LabelList
from pronk.parts.state import Numbers, Sizes, Stateful, require


class Counts(Stateful):
    """How often each label was predicted as each; grows with the labels, not with the rows.

    >>> import numpy as np
    >>> from pronk.evaluate.forecasts import Forecast
    >>> counts = Counts()
    >>> counts.add(np.array(["a", "b", "b"]), Forecast(np.array(["a", "a", "b"])))
    >>> print(counts.labels, counts.matrix.tolist(), round(counts.kappa, 3))
    ['a', 'b'] [[1, 0], [1, 1]] 0.4
    """

    def __init__(self) -> None:
        self._labels: list[Any] = []
        self._places: dict[Any, int] = {}
        self._table = np.zeros((1, 1), dtype=np.int64)  # the last column: no label was predicted

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        """Count some rows."""
        own = self._codes(y)
        named = self._codes(forecast.values)
        size = len(self._labels) + 1
        held = self._table
        if len(held) < size:
            self._table = np.zeros((size, size), dtype=np.int64)
            self._table[: len(held), : len(held) - 1] = held[:, :-1]
            self._table[: len(held), -1] = held[:, -1]
        place = own * size + np.where(named < 0, size - 1, named)
        self._table += np.bincount(place, minlength=size * size).reshape(size, size)

    def _codes(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The number of each label; -1 where there is none."""
        if values.dtype == object:
            several = values.tolist()
            codes = [self._code(value) for value in several]
            return np.array(codes, dtype=np.int64)
        found, place = np.unique(values, return_inverse=True)
        codes = [self._code(value) for value in found.tolist()]
        return np.array(codes, dtype=np.int64)[place]

    def _code(self, label: Any) -> int:
        if label is None:
            return -1
        if label not in self._places:
            self._places[label] = len(self._labels)
            self._labels.append(label)
        return self._places[label]

    def _order(self) -> list[int]:
        """Places of the labels that came, sorted."""
        came = [i for i in range(len(self._labels)) if self._table[i].any()]
        return sorted(came, key=lambda i: self._labels[i])

    @property
    def labels(self) -> list[Any]:
        """The labels that came, sorted."""
        return [self._labels[i] for i in self._order()]

    @property
    def matrix(self) -> NDArray[np.int64]:
        """Rows by label, columns by prediction, both in the order of `labels`.

        Rows for which nothing was predicted, or a label that never came, are in no column.
        """
        order = self._order()
        return self._table[np.ix_(order, order)]

    @property
    def _sums(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each label that came: hits, rows, times it was predicted."""
        order = self._order()
        hits = self._table.diagonal()[order]
        return hits, self._table.sum(axis=1)[order], self._table.sum(axis=0)[order]

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the labels of the share of their rows that were named."""
        hits, rows, _ = self._sums
        return float(np.mean(hits / rows)) if len(rows) else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa; NaN where one label is all there is."""
        hits, rows, named = self._sums
        total = float(rows.sum())
        if not total:
            return math.nan
        agreed, chance = hits.sum() / total, float((rows / total * (named / total)).sum())
        return float((agreed - chance) / (1.0 - chance)) if chance < 1.0 else math.nan

    @property
    def f1(self) -> float:
        """Macro F1: the mean over the labels of 2 hits / (rows + times named)."""
        hits, rows, named = self._sums
        return float(np.mean(2.0 * hits / (rows + named))) if len(rows) else math.nan

    STATE = (LabelList("labels"), Numbers("table", ("side", "side"), whole=True, low=0))

    def _restored(self, sizes: Sizes) -> None:
        # Labels that were met while a block failed may have no row yet.
        require(1 <= sizes["side"] <= sizes["labels"] + 1, "table is not that of the labels")
        self._places = {label: i for i, label in enumerate(self._labels)}
