"""Classifiers that take several classes as one problem, not as one output against the rest.

Their engine has one output for two classes (targets -1 and 1) and one a class for three or more
(targets are the numbers of the classes). Classes are discovered as the stream goes: a new class
enters with a zero function at the row that brings it, and when the third comes the one output s of
the first two becomes -s/2 and s/2, which keeps their margin. (A learner of one output against the
rest can instead treat all earlier rows as negative for the new class; here there is no such rest.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.estimators.faces.classifier import OnlineClassifier
from pronk.estimators.faces.labels import Labels

Array = NDArray[np.float64]


class CodedLabels(Labels):
    """The classes known so far, and their numbers."""

    def __init__(self, classes: Any = None, *, linear: bool = False) -> None:
        super().__init__(classes, linear=False)

    @property
    def ones(self) -> int:
        return 0

    @property
    def outputs(self) -> int:
        return len(self.classes) if len(self.classes) > 2 else 1

    def steps(self, values: NDArray[Any]) -> Iterator[tuple[int, CodedLabels]]:
        """The rows whose label changes the classes, and the labels with it."""
        labels = self
        found, firsts = np.unique(values, return_index=True)
        new = ~np.isin(found, self.known)
        for row, label in sorted(zip(firsts[new].tolist(), found[new], strict=True)):
            after = labels._with(np.array([label]))
            if after.classes is not labels.classes:
                yield row, after
            labels = after

    def matrix(self, after: Any) -> Array:
        """M with new outputs = old outputs @ M, when the classes become those of ``after``."""
        if after.outputs == 1:
            known = [label for label in after.classes if label in self.classes]
            same = not known or self._sign(known[0]) == after._sign(known[0])
            return np.array([[1.0 if same else -1.0]])
        M = np.zeros((self.outputs, after.outputs))
        places = np.searchsorted(after.classes, self.classes)
        if self.outputs == 1:
            M[0, places] = [0.5 * self._sign(label) for label in self.classes]
        else:
            M[np.arange(len(places)), places] = 1.0
        return M

    def _sign(self, label: Any) -> float:
        """-1 or 1, the target of one of two classes; a lone label counts as -1."""
        return 1.0 if len(self.classes) == 2 and label == self.classes[1] else -1.0

    def targets(self, values: NDArray[Any]) -> Array:
        """One column: -1 or 1, or the number of the class."""
        numbers = np.searchsorted(self.classes, values).astype(np.float64)
        return (2.0 * numbers - 1.0 if self.outputs == 1 else numbers)[:, None]

    def decisions(self, P: Array) -> Array:
        return P[:, 0] if self.outputs == 1 else P

    def _margin(self, P: Array, pair: NDArray[np.intp]) -> Array:
        return P if self.outputs == 1 else P[:, pair[1:]] - P[:, pair[:1]]


class CodedClassifier(OnlineClassifier):
    """An `OnlineClassifier` whose engine takes class numbers."""

    def _learn_labels(
        self, rows: Any, values: NDArray[Any], labels: Any, after: Any, *weights: Array
    ) -> Array:
        """Learn the rows between two new classes at a time; a score per class known at the end."""
        parts: list[tuple[NDArray[Any], Array]] = []  # classes, and scores of rows under them
        start = 0
        for row, new in labels.steps(values):
            if row > start:
                Y = labels.targets(values[start:row])
                parts.append((labels.classes, self._pass(rows[start:row], Y)))
            matrix = labels.matrix(new)
            self._model.remap(matrix)
            if labels.outputs == 1:
                parts = [(new.classes, P @ matrix) for _, P in parts]
            labels, start = new, row
        last = self._pass(rows[start:], labels.targets(values[start:]))
        if not parts:
            return last
        scores = np.zeros((len(values), last.shape[1]))
        start = 0
        for classes, P in [*parts, (labels.classes, last)]:
            own = np.searchsorted(labels.classes, classes) if P.shape[1] > 1 else [0]
            scores[start : start + len(P), own] = P
            start += len(P)
        return scores

    def _known_labels(self, classes: Sequence[Any] | None) -> Any:
        if not self.__sklearn_is_fitted__():
            return CodedLabels(classes)
        return super()._known_labels(classes)

    def _saved_labels(self, state: Any) -> Labels:
        return CodedLabels.from_state(state)
