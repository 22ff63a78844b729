"""Labels and their target columns, discovered as the stream goes.

A learner holds one output of ones (every row's target is 1) and one output a class (1 for its
rows, -1 for the others); two classes share one output, that of the second. A class that was not
seen before enters as minus the ones, as if all earlier rows had been negative for it, so that
nothing has to be learned again:

    one label so far       its output is the ones          (no output of its own)
    two classes a < b      output of b; that of a is its negative
    three or more          one output each

A first label in {-1, 1}, {0, 1} or {False, True} fixes that pair before its partner is seen.

For a learner that is linear in its targets the ones are one more right-hand side and cost nothing.
For others they are a second learner, so those run it only while a third class can still come: not
when the classes were given, and not for {-1, 1} and {False, True}, which stay pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from pronk.estimators.faces.inputs import NO_LABEL, check_given, check_length
from pronk.parts.missing import without_label
from pronk.parts.state import require

Array = NDArray[np.float64]


@dataclass
class Stage:
    """From row ``start`` on, the classes that a prediction may name."""

    start: int
    classes: NDArray[Any]


class Labels:
    """The classes known so far, and how they map to outputs."""

    def __init__(self, classes: Any = None, *, linear: bool = True) -> None:
        self.linear = linear
        self.fixed = classes is not None
        self.classes: NDArray[Any] = np.empty(0) if classes is None else np.unique(classes)
        self.phantom: Any = None  # the partner of a fixed pair that was not seen yet
        if self.fixed and len(self.classes) < 2:
            raise ValueError(f"classes must name at least two classes, got {classes!r}")

    @property
    def ones(self) -> int:
        """1 if the first output is the ones, else 0."""
        return int(self.linear or not (self.fixed or self._closed))

    @property
    def _closed(self) -> bool:
        """Whether the classes are {-1, 1} or {False, True}."""
        if len(self.classes) != 2:
            return False
        return self.classes.dtype.kind == "b" or self.classes.tolist() == [-1, 1]

    @property
    def outputs(self) -> int:
        """Ones, and the outputs of the classes."""
        return self.ones + _class_outputs(len(self.classes))

    def receive(self, y: Any, n: int) -> tuple[NDArray[Any], list[Stage], Labels]:
        """Check the labels of one call; the stages of its rows and the labels after it.

        Changes nothing: the caller adopts the new labels when the whole call is accepted.
        """
        values = _as_labels(y, n)
        if len(self.classes):
            places = np.searchsorted(self.classes, values)
            places[places == len(self.classes)] = 0
            unknown = self.classes[places] != values
            if not unknown.any() and (self.phantom is None or not (values == self.phantom).any()):
                return values, [Stage(0, self.classes)], self
            if self.fixed:
                row = int(np.flatnonzero(unknown)[0])
                raise ValueError(
                    f"y has the unknown label {values[row]!r} at row {row} (counting from 0); the "
                    f"classes were fixed as {self.classes.tolist()}"
                )
        _check_kind(values)
        return values, *self._discover(values)

    def _discover(self, values: NDArray[Any]) -> tuple[list[Stage], Labels]:
        """Walk the first appearances in row order; predictions of a row know the rows before it."""
        after = Labels(linear=self.linear)
        after.classes, after.phantom = self.classes, self.phantom
        stages = [Stage(0, self.classes)]
        _, firsts = np.unique(values, return_index=True)
        for row in sorted(firsts):
            label = values[row]
            before = after.classes
            after._add(label, values.dtype)
            if after.classes is not before:
                stages.append(Stage(int(row) + 1, after.classes))
        if after.ones and not self.ones and self.phantom is None:
            new = next(label for label in after.classes if label not in self.classes)
            raise ValueError(
                f"y has the label {new!r} beside the pair {self.classes.tolist()}; for more than "
                "two classes give all of them as partial_fit(X, y, classes=...) at the start"
            )
        return stages, after

    def _add(self, label: Any, dtype: Any) -> None:
        if not len(self.classes):
            self.phantom = _partner(label)
            pair = [label] if self.phantom is None else [label, self.phantom]
            self.classes = np.unique(np.array(pair, dtype=dtype))
            return
        seen = self.classes
        if self.phantom is not None:
            if label == self.phantom:
                self.phantom = None  # both seen now; the classes are the same
                return
            if label in seen:
                return
            seen = seen[seen != self.phantom]
            self.phantom = None
        if label not in seen:
            self.classes = np.union1d(seen, np.array([label], dtype=dtype))

    def matrix(self, after: Labels) -> Array:
        """M with new outputs = old outputs @ M, when the classes become those of ``after``."""
        M = np.zeros((self.outputs, after.outputs))
        if after.ones:
            M[:, 0] = self._ones_column()
        for position, label in enumerate(_with_output(after.classes)):
            M[:, after.ones + position] = self._column(label)
        return M

    def _ones_column(self) -> Array:
        """The ones as a combination of the present outputs."""
        if self.ones:
            return np.eye(self.outputs)[0]
        seen = self.classes[self.classes != self.phantom][0]
        return self._column(seen)  # a pair of which one label was seen: all rows were of it

    def _column(self, label: Any) -> Array:
        """A class's output as a combination of the present outputs."""
        column = np.zeros(self.outputs)
        if label not in self.classes:
            return -self._ones_column()
        if len(self.classes) == 1:
            return self._ones_column()
        if len(self.classes) == 2:
            column[self.ones] = 1.0 if label == self.classes[1] else -1.0
        else:
            column[self.ones + int(np.searchsorted(self.classes, label))] = 1.0
        return column

    def targets(self, values: NDArray[Any]) -> Array:
        """One row of targets a label: 1 for the ones, then +-1."""
        own = np.searchsorted(self.classes, values)
        targets = np.full((len(values), self.outputs), -1.0)
        if self.ones:
            targets[:, 0] = 1.0
        if len(self.classes) == 2:
            targets[:, self.ones] = 2.0 * own - 1.0
        elif len(self.classes) > 2:
            targets[np.arange(len(values)), self.ones + own] = 1.0
        return targets

    def decisions(self, P: Array) -> Array:
        """The margin (n,) of two classes or fewer, or (n, classes)."""
        if len(self.classes) < 2:
            return -P[:, 0]  # a lone label counts as -1
        return P[:, self.ones] if len(self.classes) == 2 else P[:, self.ones :]

    def name(self, P: Array, stages: list[Stage], dtype: Any) -> NDArray[Any]:
        """The label predicted for each row, from the classes that its stage knows."""
        if len(stages) == 1 and stages[0].classes is self.classes and len(self.classes):
            return self.name_rows(P, self.classes)
        parts = []
        ends = [stage.start for stage in stages[1:]] + [len(P)]
        for stage, end in zip(stages, ends, strict=True):
            rows = P[stage.start : end]
            if not len(stage.classes):
                parts.append(np.full(len(rows), _nothing_known(dtype)))
            elif len(rows):
                parts.append(self.name_rows(rows, stage.classes))
        return np.concatenate(parts)

    def name_rows(self, P: Array, classes: NDArray[Any]) -> NDArray[Any]:
        if len(classes) == 1:
            return np.repeat(classes, len(P))
        margins = self._margins(P, classes)
        if len(classes) == 2:
            return classes[(margins[:, 0] >= 0).astype(np.intp)]
        return classes[margins.argmax(axis=1)]

    def _margins(self, P: Array, classes: NDArray[Any]) -> Array:
        """The margin of the second of two classes, (n, 1), or one a class."""
        if len(classes) > 2:
            return np.asarray(P @ np.column_stack([self._column(label) for label in classes]))
        if classes[1] in self.classes:
            return np.asarray(P @ self._column(classes[1]))[:, None]
        return -(P @ self._column(classes[0]))[:, None]  # a partner that never came

    def share_out(
        self, P: Array, stages: list[Stage], link: Callable[[Array, slice], Array]
    ) -> Array:
        """Probabilities (n, classes) from the classes that each row's stage knows.

        ``link(margins, rows)`` is P(+1) of each margin. NaN before any label is known; a class that
        is not known yet has 0.
        """
        shares = np.zeros((len(P), len(self.classes)))
        ends = [stage.start for stage in stages[1:]] + [len(P)]
        for stage, end in zip(stages, ends, strict=True):
            rows = slice(stage.start, end)
            if end == stage.start:
                continue
            known = np.isin(self.classes, stage.classes)
            if len(stage.classes) < 2:
                shares[rows] = known if len(stage.classes) else np.nan
                continue
            positive = link(self._margins(P[rows], stage.classes), rows)
            if positive.shape[1] == 1:
                positive = np.hstack((1.0 - positive, positive))
            positive = positive / positive.sum(axis=1, keepdims=True)
            shares[rows, known] = positive[:, np.isin(stage.classes, self.classes)]
        return shares

    def to_state(self) -> dict[str, Any]:
        text = self.classes.dtype.kind in "US"
        return {
            "classes": self.classes.tolist() if text else self.classes,
            "fixed": self.fixed,
            "linear": self.linear,
            "phantom": None if self.phantom is None else self.phantom.item(),
        }

    @classmethod
    def from_state(cls, state: Any, *, linear: bool = False) -> Labels:
        """What `to_state` gave, from a file; a StateError if it is something else."""
        require(isinstance(state, dict), "labels are not a table")
        names = {"classes", "fixed", "linear", "phantom"}
        require(set(state) == names, "labels have other entries than they should")
        require(state["linear"] is linear, "labels/linear is not what the learner is")
        require(type(state["fixed"]) is bool, "labels/fixed is not true or false")
        labels = cls(linear=linear)
        labels.classes = _saved_classes(state["classes"])
        labels.fixed = state["fixed"]
        require(len(labels.classes) > 1 or not labels.fixed, "labels/classes are too few")
        phantom = state["phantom"]
        if phantom is not None:
            known = np.flatnonzero(labels.classes == phantom)
            pair = len(labels.classes) == 2 and len(known) == 1
            require(pair and not labels.fixed, "labels/phantom is none of the pair")
            labels.phantom = labels.classes[known[0]]
        return labels


def _saved_classes(value: Any) -> NDArray[Any]:
    """Classes from a file: numbers, or a list of text; at least one, sorted, each once."""
    if isinstance(value, list):
        require(all(type(name) is str for name in value), "labels/classes are not all text")
    else:
        good = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf"
        require(good, "labels/classes are neither numbers nor text")
    classes = np.array(value)
    ordered = bool((classes[1:] > classes[:-1]).all())  # also false where one is NaN
    finite = classes.dtype.kind != "f" or bool(np.isfinite(classes).all())
    require(len(classes) and ordered and finite, "labels/classes are not sorted, each once")
    return classes


def _class_outputs(classes: int) -> int:
    return 0 if classes < 2 else 1 if classes == 2 else classes


def _with_output(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes that have an output of their own."""
    return classes[len(classes) :] if len(classes) < 2 else classes[len(classes) == 2 :]


def _partner(label: Any) -> Any:
    """The other label of {False, True}, {-1, 1} or {0, 1}; None for any other label.

    1 alone does not tell -1 from 0: -1 stands in (0 for unsigned numbers) until a 0 comes.
    """
    kind = label.dtype.kind
    if kind == "b":
        return ~label
    if kind in "iuf" and label in (-1, 0, 1):
        if label == 1:
            return label.dtype.type(0 if kind == "u" else -1)
        return label.dtype.type(1)
    return None


def _nothing_known(dtype: Any) -> Any:
    """A prediction before any label: score 0 is the positive class of a pair, or no text."""
    return {"b": True, "U": "", "S": b"", "O": None}.get(dtype.kind, dtype.type(1))


def _as_labels(y: Any, n: int) -> NDArray[Any]:
    check_given(y)
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        import warnings

        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected",
            DataConversionWarning,
            stacklevel=4,
        )
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"y must be one label a row, got shape {values.shape}")
    check_length(values, n)
    if values.dtype == object:
        values = _plain(values)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        what = "NaN" if np.isnan(values[row]) else "inf"
        advice = NO_LABEL if what == "NaN" else "drop the row"
        raise ValueError(f"y has {what} at row {row} (counting from 0); {advice}")
    if values.dtype.kind not in "biufUS":
        raise ValueError(f"y must hold numbers, booleans or text, got {values.dtype}")
    return values


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """An object array of one kind of label as a plain array."""
    kinds = {type(v) for v in values}
    missing = without_label(values)
    if missing is not None:
        row = int(np.argmax(missing))
        raise ValueError(f"y has no label (None or NaN) at row {row} (counting from 0); {NO_LABEL}")
    if any(issubclass(k, str) for k in kinds) and not all(issubclass(k, str) for k in kinds):
        raise ValueError(f"y mixes text and other labels: {sorted(k.__name__ for k in kinds)}")
    return np.array(values.tolist())


def _check_kind(values: NDArray[Any]) -> None:
    """Refuse continuous targets, with scikit-learn's message."""
    if values.dtype.kind == "f":
        check_classification_targets(values)
