"""Which rows of a file cannot be used, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pronk.estimators.faces.inputs import LARGEST_INPUT, LARGEST_WEIGHT
from pronk.parts.missing import without_label
from pronk.parts.state import LARGEST_TARGET
from pronk.streams.errors import argument
from pronk.streams.sources.base import BAD

Array = NDArray[np.float64]

#: What is said of text in a column of times.
UNREAD = "does not read as a date or time"


@dataclass(frozen=True)
class Judge:
    """What the rows of a stream must be: numbers, labels, weights.

    Parameters
    ----------
    columns, targets : names, for messages
    weight : name of the column of weights, if there is one
    task : "regression" or "classification"
    gaps : whether a column may have gaps
    unlabelled : whether a row may have no label
    every : whether all bad rows are looked for, or the first of each kind
    """

    columns: list[str]
    targets: list[str]
    weight: str | None
    task: str
    gaps: bool
    unlabelled: bool
    every: bool

    def problems(
        self, X: Array, y: NDArray[Any], weights: Array | None, batch: pa.RecordBatch
    ) -> dict[int, str]:
        """Rows that cannot be used, and why; ``batch`` says what its reader found."""
        last = None if self.every else 1
        problems: list[tuple[int, str]] = []
        if self.every and batch.column(BAD).null_count < batch.num_rows:
            reasons = batch.column(BAD).to_pylist()
            problems += [(row, why) for row, why in enumerate(reasons) if why is not None]
        problems += self._features(X, batch)[:last]
        problems += self._targets(y)[:last]
        if weights is not None:
            wrong = np.flatnonzero(~((weights >= 0.0) & (weights <= LARGEST_WEIGHT)))[:last]
            problems += [
                (row, f"the weight {self.weight!r} {_wrong_weight(weights[row])}")
                for row in wrong.tolist()
            ]
        if not self.unlabelled and (without := without_label(y)) is not None:
            what = f"the target {','.join(self.targets)!r} is missing"
            problems += [(row, what) for row in np.flatnonzero(without).tolist()]
        found: dict[int, str] = {}
        for row, what in problems:
            found.setdefault(row, what)
        return found

    def _features(self, X: Array, batch: pa.RecordBatch) -> list[tuple[int, str]]:
        if np.abs(X).max(initial=0.0) <= LARGEST_INPUT:
            return []
        wrong = ~(np.abs(X) <= LARGEST_INPUT)
        if self.gaps:
            wrong &= ~np.isnan(X)
        rows = np.flatnonzero(wrong.any(axis=1))[: None if self.every else 1].tolist()
        places = [(row, int(wrong[row].argmax())) for row in rows]
        return [
            (row, f"column {self.columns[place]!r} {self._what(X, batch, row, place)}")
            for row, place in places
        ]

    def _what(self, X: Array, batch: pa.RecordBatch, row: int, place: int) -> str:
        value = batch.column(self.columns[place])[row].as_py() if np.isnan(X[row, place]) else None
        if isinstance(value, str):
            return f"has {value[:40]!r}, which {UNREAD}"
        return _wrong(X[row, place])

    def _targets(self, y: NDArray[Any]) -> list[tuple[int, str]]:
        if y.dtype.kind == "f" and (bad := ~np.isnan(y) & ~(np.abs(y) <= LARGEST_TARGET)).any():
            table, found = y.reshape(len(y), -1), np.argwhere(bad.reshape(len(y), -1))
            return [
                (row, f"the target {self.targets[place]!r} {_wrong(table[row, place])}")
                for row, place in found[: None if self.every else 1].tolist()
            ]
        if self.task == "classification" and y.dtype.kind in "fO":
            return self._fractions(y)
        return []

    def _fractions(self, y: NDArray[Any]) -> list[tuple[int, str]]:
        """Labels that are numbers with a fraction."""
        use = argument("task", "regression")
        return [
            (row, f"the target {self.targets[0]!r} is {value:g}, which is no label: use {use}")
            for row, value in enumerate(y.tolist())
            if isinstance(value, float) and value == value and value != round(value)
        ]


def _wrong_weight(value: float) -> str:
    return f"is negative ({value:.3g})" if -np.inf < value < 0 else _wrong(value)


def _wrong(value: float) -> str:
    """What is wrong with a number, and what to do."""
    if np.isnan(value):
        return "is missing or NaN"
    return "is infinite" if np.isinf(value) else f"is {value:.3g}, too large: rescale it"
