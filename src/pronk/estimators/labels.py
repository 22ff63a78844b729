"""Labels and their target columns, discovered as the stream goes.

A learner holds one output of ones (every row's target is 1) and one output a class (1 for its
rows, -1 for the others); two classes share one output, that of the second. A class that was not
seen before enters as minus the ones, as if all earlier rows had been negative for it, so that
nothing has to be learned again:

    one label so far       its output is the ones          (no output of its own)
    two classes a < b      output of b; that of a is its negative
    three or more          one output each

A first label in {-1, 1}, {0, 1} or {False, True} fixes that pair and its sign before its partner is
seen. The partner has its place among the outputs only: `known`, predictions and probabilities name
labels that were given.

For a learner that is linear in its targets the ones are one more right-hand side and cost nothing.
For others they are a second learner, so those run it only while a third class can still come: not
when the classes were given, and not for {-1, 1} and {False, True}, which stay pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from pronk.core.checks import without_label
from pronk.core.state import require
from pronk.estimators.inputs import NO_LABEL, check_given, check_length

Array = NDArray[np.float64]


Rows = NDArray[np.int64]

#: Classes that a learner takes where ``max_classes`` does not say otherwise.
MAX_CLASSES = 1000
#: Whole numbers up to here are different doubles.
EXACT = 2.0**53


class Labels:
    """The labels known so far, and how they map to outputs.

    ``classes`` are those with a place among the outputs: the known labels and, while one label of
    a pair is alone, its partner (``unseen_partner``).
    """

    def __init__(self, classes: Any = None, *, linear: bool = True) -> None:
        self.linear = linear
        self.fixed = classes is not None
        self.classes: NDArray[Any] = np.empty(0)
        self.unseen_partner: Any = None  # the partner of a fixed pair that was not seen yet
        if self.fixed:
            self.classes = np.unique(check_labels(classes, name="classes"))
            if len(self.classes) < 2:
                raise ValueError(f"classes must name at least two classes, got {classes!r}")

    @property
    def known(self) -> NDArray[Any]:
        """The labels that were given, sorted: those of earlier rows, or those in ``classes=``."""
        return (
            self.classes
            if self.unseen_partner is None
            else self.classes[self.classes != self.unseen_partner]
        )

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

    def receive(
        self, y: Any, n: int, limit: int = MAX_CLASSES
    ) -> tuple[NDArray[Any], Rows, Labels]:
        """Check the labels of one call; return them, and the labels known after it.

        The second result has an entry per class known after the call: the first row whose
        prediction may name it. More than ``limit`` classes are refused. Changes nothing: the
        caller adopts the new labels when the whole call is accepted.
        """
        values = check_labels(y, n)
        known = self.known
        places = _places(known, values)
        unknown = np.flatnonzero(places < 0)
        if not len(unknown):
            return values, np.zeros(len(known), dtype=np.int64), self
        if self.fixed:
            row = int(unknown[0])
            raise ValueError(
                f"y has the unknown label {values[row].item()!r} at row {row} (counting from 0); "
                f"the classes were fixed as {_some(known)}"
            )
        new, first = np.unique(values[unknown], return_index=True)
        first = unknown[first]
        if len(known) + len(new) > limit:
            row = int(np.sort(first)[max(limit - len(known), 0)])
            raise ValueError(
                f"y has more than max_classes={limit} different labels: {values[row].item()!r} at "
                f"row {row} (counting from 0) is one too many; if y is a number to be predicted, "
                "take a regressor, otherwise set a larger max_classes"
            )
        after = self._with(new)
        if after.ones and not self.ones and self.unseen_partner is None:
            raise ValueError(
                f"y has the label {new[0].item()!r} beside the pair {self.classes.tolist()}; for "
                "more than two classes give all of them as partial_fit(X, y, classes=...) at the "
                "start"
            )
        since = np.zeros(len(after.known), dtype=np.int64)
        since[np.searchsorted(after.known, new)] = first + 1
        return values, since, after

    def _with(self, new: NDArray[Any]) -> Self:
        """Labels like these that also know ``new``; a lone one of a pair brings its partner."""
        after = type(self)(linear=self.linear)
        after.classes = np.unique(_joined(self.known, new))
        if len(after.classes) == 1:
            after.unseen_partner = _partner(after.classes[0])
            if after.unseen_partner is not None:
                after.classes = np.unique([after.classes[0], after.unseen_partner])
        if np.array_equal(after.classes, self.classes):
            after.classes = self.classes  # the partner came: the outputs are the same
        return after

    def matrix(self, after: Labels) -> Array:
        """M with new outputs = old outputs @ M, when the classes become those of ``after``."""
        M = np.zeros((self.outputs, after.outputs))
        if after.ones:
            M[:, 0] = self._ones_column()
        named = _with_output(after.classes)
        if len(self.classes) > 2:
            places = _places(self.classes, named)
            own = np.flatnonzero(places >= 0)
            M[self.ones + places[own], after.ones + own] = 1.0
            M[:, after.ones + np.flatnonzero(places < 0)] = -self._ones_column()[:, None]
            return M
        for position, label in enumerate(named):
            M[:, after.ones + position] = self._column(label)
        return M

    def _ones_column(self) -> Array:
        """The ones as a combination of the present outputs."""
        if self.ones:
            return np.eye(1, self.outputs)[0]
        return self._column(self.known[0])  # a pair of which one label was seen: all rows were it

    def _column(self, label: Any) -> Array:
        """A class's output as a combination of the present outputs."""
        place = int(np.searchsorted(self.classes, label))
        if place == len(self.classes) or self.classes[place] != label:
            return -self._ones_column()
        if len(self.classes) == 1:
            return self._ones_column()
        column = np.zeros(self.outputs)
        if len(self.classes) == 2:
            column[self.ones] = 1.0 if place else -1.0
        else:
            column[self.ones + place] = 1.0
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

    def name(self, P: Array, since: Rows | None = None) -> NDArray[Any]:
        """Predict a label per row, None (in an array of objects) where no label was known.

        ``since`` is what `receive` returned; without it all classes are known to all rows.
        """
        known = self.known
        if since is None or not since.any():
            if len(known) == 1:
                return np.repeat(known, len(P))
            return known[self._highest(P)]
        named = np.zeros(len(P), dtype=np.intp)
        for rows, places in _stretches(since, len(P)):
            if len(places) == 2:
                second = self._margin(P[rows], places)[:, 0] >= 0.0
                named[rows] = np.where(second, places[1], places[0])
            elif len(places) > 2:
                margins = self._margins(P[rows])
                unknown = since > np.arange(rows.start, rows.stop)[:, None]
                named[rows] = np.where(unknown, -np.inf, margins).argmax(axis=1)
            elif len(places):
                named[rows] = places[0]
        if since.min() == 0:
            return known[named]
        labels = np.empty(len(P), dtype=object)
        start = int(since.min())
        labels[start:] = known[named[start:]].tolist()
        return labels

    def _highest(self, P: Array) -> NDArray[np.intp]:
        """The place of the predicted class, of two or more; a zero margin is the second of two."""
        if len(self.classes) == 2:
            return (P[:, self.ones] >= 0.0).astype(np.intp)
        return self._margins(P).argmax(axis=1)

    def _margins(self, P: Array) -> Array:
        """A margin per class, for three classes or more."""
        return P[:, self.ones :]

    def _margin(self, P: Array, pair: NDArray[np.intp]) -> Array:
        """The margin (n, 1) of the second of two classes while no other is known."""
        return P[:, [self.ones + (pair[1] if len(self.classes) > 2 else 0)]]

    def probabilities(self, P: Array, since: Rows, link: Callable[[Array, slice], Array]) -> Array:
        """Probabilities (n, classes) of the classes known to each row (``since``, see `receive`).

        ``link(margins, rows)`` is P(+1) of each margin. NaN before any label is known; a class that
        is not known yet has 0.
        """
        shares = np.zeros((len(P), len(since)))
        for rows, places in _stretches(since, len(P)):
            if not len(places):
                shares[rows] = np.nan
            elif len(places) == 1:
                shares[rows, places[0]] = 1.0
            elif len(places) == 2:
                positive = link(self._margin(P[rows], places), rows)
                shares[rows, places[0]] = 1.0 - positive[:, 0]
                shares[rows, places[1]] = positive[:, 0]
            else:
                positive = link(self._margins(P[rows]), rows)
                unknown = since > np.arange(rows.start, rows.stop)[:, None]
                positive = np.where(unknown, 0.0, positive)
                shares[rows] = positive / positive.sum(axis=1, keepdims=True)
        return shares

    def to_state(self) -> dict[str, Any]:
        known = self.known
        return {
            "classes": known.tolist() if known.dtype.kind == "U" else known,
            "fixed": self.fixed,
            "linear": self.linear,
        }

    @classmethod
    def from_state(cls, state: Any, *, linear: bool = False) -> Self:
        """What `to_state` gave, from a file; a StateError if it is something else."""
        require(isinstance(state, dict), "labels are not a table")
        names = {"classes", "fixed", "linear"}
        require(set(state) == names, "labels have other entries than they should")
        require(state["linear"] is linear, "labels/linear is not what the learner is")
        require(type(state["fixed"]) is bool, "labels/fixed is not true or false")
        classes = _saved_classes(state["classes"])
        if not state["fixed"]:
            return cls(linear=linear)._with(classes)
        require(len(classes) > 1, "labels/classes are too few")
        labels = cls(linear=linear)
        labels.classes, labels.fixed = classes, True
        return labels


def _stretches(since: Rows, n: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Rows that know no class, one, two, and more, each with the places of the classes they know.

    For rows that know more, the places are those of all classes.
    """
    order = np.argsort(since, kind="stable")
    start = 0
    for count in range(4):
        end = int(since[order[count]]) if count < min(3, len(order)) else n
        if end > start:
            yield slice(start, end), np.sort(order[:count] if count < 3 else order)
            start = end


def _places(known: NDArray[Any], values: NDArray[Any]) -> NDArray[np.intp]:
    """Where labels stand among the known ones, -1 for others."""
    if not len(known):
        return np.full(len(values), -1)
    if (known.dtype.kind == "U") != (values.dtype.kind == "U"):
        what, other = ("text", "numbers") if values.dtype.kind == "U" else ("numbers", "text")
        raise ValueError(f"y has {what}, but the labels so far are {other}: {_some(known)}")
    places = np.searchsorted(known, values)
    places[places == len(known)] = 0
    places[known[places] != values] = -1
    return places


def _joined(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Known labels and others, of one kind that holds them all."""
    joined = np.concatenate((known, new)) if len(known) else new
    _check_exact(joined, "y")
    return joined


def _some(classes: NDArray[Any]) -> str:
    """Classes for a message."""
    shown = ", ".join(repr(label) for label in classes[:20].tolist())
    return f"[{shown}]" if len(classes) <= 20 else f"[{shown}, .. {len(classes):,} in all]"


def _saved_classes(value: Any) -> NDArray[Any]:
    """Classes from a file: numbers, or a list of text; at least one, sorted, each once."""
    if isinstance(value, list):
        require(all(type(name) is str for name in value), "labels/classes are not all text")
    else:
        good = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf"
        good = good and (value.dtype.kind != "f" or value.dtype == np.float64)
        require(good, "labels/classes are neither numbers nor text")
    classes = np.array(value)
    ordered = bool((classes[1:] > classes[:-1]).all())  # also false where one is NaN
    finite = classes.dtype.kind != "f" or bool(np.isfinite(classes).all())
    require(len(classes) and ordered and finite, "labels/classes are not sorted, each once")
    exact = classes.dtype.kind != "f" or np.abs(classes).max() <= EXACT
    require(exact, "labels/classes are larger than a label may be")
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


def check_labels(y: Any, n: int | None = None, name: str = "y") -> NDArray[Any]:
    """Labels as an array of numbers, booleans or text that keeps every one of them as it is."""
    check_given(y)
    values = np.asarray(y)
    given_one_by_one = isinstance(y, list | tuple) and values.ndim == 1
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
        raise ValueError(f"{name} must be one label per row, got shape {values.shape}")
    if n is not None:
        check_length(values, n)
    if values.dtype == object:
        values = _plain(values, name)
    elif values.dtype.kind == "U" and given_one_by_one:
        values = _plain(np.fromiter(y, dtype=object, count=len(values)), name)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        what = "NaN" if np.isnan(values[row]) else "inf"
        advice = NO_LABEL if what == "NaN" else "drop the row"
        raise ValueError(f"{name} has {what} at row {row} (counting from 0); {advice}")
    if values.dtype.kind == "S":
        raise ValueError(f"{name} holds bytes; decode them to text")
    if values.dtype.kind not in "biufU":
        raise ValueError(f"{name} must hold numbers, booleans or text, got {values.dtype}")
    if values.dtype.kind == "f":
        if values.dtype.itemsize < 8:
            values = values.astype(np.float64)
        _check_exact(values, name)
        if (values != np.floor(values)).any():
            check_classification_targets(values)  # continuous: scikit-learn's message
        values = np.asarray(values, dtype=np.float64)
    return values


def _plain(values: NDArray[Any], name: str) -> NDArray[Any]:
    """An object array of one kind of label as a plain array."""
    several = values.tolist()
    kinds = {type(v) for v in several}
    missing = without_label(values)
    if missing is not None:
        row = int(np.argmax(missing))
        raise ValueError(
            f"{name} has no label (None or NaN) at row {row} (counting from 0); {NO_LABEL}"
        )
    text = [issubclass(kind, str) for kind in kinds]
    if any(text) and not all(text):
        raise ValueError(f"{name} mixes text and other labels: {sorted(k.__name__ for k in kinds)}")
    if any(text) and (row := next((i for i, v in enumerate(several) if v[-1:] == "\0"), -1)) >= 0:
        raise ValueError(
            f"{name} has a label that ends in a NUL character at row {row} (counting from 0), "
            "which NumPy drops; remove it"
        )
    return np.array(several)


def _check_exact(values: NDArray[Any], name: str) -> None:
    """Refuse numbers that doubles do not tell apart."""
    if values.dtype.kind == "f" and len(values) and not np.abs(values).max() <= EXACT:
        row = int(np.argmax(np.abs(values)))
        raise ValueError(
            f"{name} has the label {values[row].item():.17g}; numbers above 2**53 are not told "
            "apart here: give them as text"
        )
