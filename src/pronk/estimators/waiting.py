"""Rows that wait for their labels: what a learner keeps of their predictions.

A learner that reads past labels should learn a row as it was predicted, also if the label arrives
after those of later rows. So `OnlineLearner._predict_to_wait` returns predictions with one line of
numbers per row, and `_learn_waiting` learns rows with these lines (`pronk.aggregate.late`). Whoever
holds the rows meanwhile (`pronk.Pending`, the service) holds the numbers too and need not know what
they mean. Only the default learner keeps something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.late import Header, Record, RecordedRows
from pronk.core.arrays import Array
from pronk.core.state import LARGEST, require
from pronk.estimators.labels import Labels


class Meaning(NamedTuple):
    """What the numbers of kept rows are, and the labels that were known (None: of a regressor)."""

    header: Header
    labels: Labels | None

    def to_list(self) -> list[Any]:
        """Return numbers and text, for a file."""
        if self.labels is None:
            return [self.header.to_list(), None]
        return [self.header.to_list(), [self.labels.known.tolist(), self.labels.fixed]]

    @classmethod
    def from_list(cls, value: Any) -> Self:
        """Read what `to_list` returned from a file; raise a StateError if it is damaged."""
        require(isinstance(value, list) and len(value) == 2, "a record has another form")
        header, labels = Header.from_list(value[0]), value[1]
        if labels is None:
            return cls(header, None)
        require(isinstance(labels, list) and len(labels) == 2, "a record has other labels")
        classes, fixed = labels
        require(isinstance(classes, list), "a record has other labels")
        text = all(type(name) is str for name in classes)
        plain = text or all(type(name) in (bool, int, float) for name in classes)
        require(plain, "a record has other labels")
        state = {"classes": classes if text else np.array(classes), "fixed": fixed, "linear": True}
        known = Labels.from_state(state, linear=True)
        require(known.outputs == header.outputs, "a record has other labels than outputs")
        return cls(header, known)


class Kept(NamedTuple):
    """What is kept of some predictions: one line of ``values`` per row."""

    meaning: Meaning
    values: Array

    @property
    def lines(self) -> list[Line]:
        """What is kept of each row, copied: a view would keep the whole batch."""
        return [(self.meaning, line.copy()) for line in self.values]

    def check(self) -> None:
        """Raise a StateError if the numbers, read from a file, are not those of the meaning."""
        good = isinstance(self.values, np.ndarray) and self.values.dtype == np.float64
        width = self.meaning.header.width
        require(good and self.values.ndim == 2 and self.values.shape[1] == width, "a record is cut")
        require((np.abs(self.values) <= LARGEST).all(), "a record has numbers that are too large")


#: The line of one row and what it means; None for a row of which nothing is kept.
Line = tuple[Meaning, Array] | None


def by_meaning(lines: Sequence[Line]) -> list[tuple[NDArray[np.int64], Kept]]:
    """Return the rows that have a line, and their lines, together for each meaning.

    Labels are compared by what they are: those read from a file are other objects.
    """
    places: dict[tuple[Header, str], list[int]] = {}
    texts: dict[int, str] = {}
    for place, line in enumerate(lines):
        if line is not None:
            meaning = line[0]
            text = texts.get(id(meaning.labels))
            if text is None:
                text = texts[id(meaning.labels)] = repr(meaning.to_list()[1])
            places.setdefault((meaning.header, text), []).append(place)
    found = []
    for rows in places.values():
        own = [line for line in (lines[place] for place in rows) if line is not None]
        values = np.stack([values for _, values in own])
        found.append((np.array(rows, dtype=np.int64), Kept(own[0][0], values)))
    return found


def recorded_rows(lines: Sequence[Line], labels: Labels | None) -> list[RecordedRows]:
    """Return kept rows for an engine whose labels are now these; those of other labels are left."""
    found = []
    for rows, (meaning, values) in by_meaning(lines):
        matrix, then = None, meaning.labels
        if (then is None) != (labels is None):
            continue
        if then is not None and labels is not None:
            if not set(then.known.tolist()) <= set(labels.known.tolist()):
                continue
            if not np.array_equal(then.classes, labels.classes):
                matrix = then.matrix(labels)
        found.append(RecordedRows(rows, Record(meaning.header, values), matrix))
    return found
