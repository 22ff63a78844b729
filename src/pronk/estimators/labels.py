"""Map labels, which may be discovered during the stream, to the outputs of an engine and back.

A learner has one output of ones (the target of every row is 1) and one output per class (1 for its
rows, -1 for the others); two classes share one output, that of the second class. A new class enters
as minus the ones, as if all earlier rows had been negative for it, so that no row has to be
learned again:

    one label so far       its output is the ones          (no output of its own)
    two classes a < b      output of b; that of a is its negative
    three or more          one output each

A first label in {-1, 1}, {0, 1} or {False, True} determines that pair and its sign before its
partner is seen. The partner has a place among the outputs only: `known`, predictions and
probabilities contain labels that were given.

For a learner that is linear in its targets the ones are one more right-hand side and cost nothing.
For others they are a second learner, which is run only while a third class can still come: not when
the classes were given, and not for {-1, 1} and {False, True}, which remain pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from pronk.core.arrays import Array
from pronk.core.checks import NO_LABEL, unmasked, without_gaps, without_label
from pronk.core.state import require
from pronk.estimators.inputs import check_given, check_length

Rows = NDArray[np.int64]

#: Default of ``max_classes``.
MAX_CLASSES = 1000
#: Up to here all whole numbers are different doubles.
LARGEST_EXACT = 2.0**53


class Labels:
    """The labels known so far, and how they map to outputs.

    ``classes`` have a place among the outputs: the known labels and, while one label of a pair is
    alone, its partner (``unseen_partner``).
    """

    def __init__(self, classes: Any = None, *, linear: bool = True) -> None:
        self.linear = linear
        self.fixed = classes is not None
        self.classes: NDArray[Any] = np.empty(0)
        self.unseen_partner: Any = None  # of a pair of which one label was seen
        if self.fixed:
            self.classes = np.unique(check_labels(classes, name="classes"))
            if len(self.classes) < 2:
                raise ValueError(f"classes must name at least two classes, got {classes!r}")

    @property
    def known(self) -> NDArray[Any]:
        """The labels that were given, sorted: labels of earlier rows, or those in ``classes=``."""
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
        return self.ones + len(_with_output(self.classes))

    def receive(
        self, y: Any, n: int, limit: int = MAX_CLASSES, missing: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], Rows, Labels]:
        """Check the labels of one call; return them, and the labels known after it.

        The label of a row where it is ``missing`` is any that is known then, or the first to come.

        The second result has an entry per class known after the call: the first row whose
        prediction may be that class. Raise if there are more than ``limit`` classes. Changes
        nothing: the caller stores the new labels when the call succeeds.
        """
        known = self.known
        present = np.arange(n) if missing is None else np.flatnonzero(~missing)
        if missing is None:
            values = check_labels(y, n)
        elif not len(present):
            return np.repeat(known[:1], n), np.zeros(len(known), dtype=np.int64), self
        else:
            values = check_labels(without_gaps(np.asarray(y)[present]), len(present))
        unknown = np.flatnonzero(_positions(known, values) < 0)
        if missing is None and not len(unknown):
            return values, np.zeros(len(known), dtype=np.int64), self
        new, first = np.unique(values[unknown], return_index=True)
        first = unknown[first]
        if len(unknown) and self.fixed:
            raise ValueError(
                f"y has the unknown label {values[unknown[0]].item()!r} at row "
                f"{present[unknown[0]]} (counting from 0); the classes were fixed as "
                f"{_shortened(known)}"
            )
        if len(new) and len(known) + len(new) > limit:
            row = int(np.sort(first)[max(limit - len(known), 0)])
            raise ValueError(
                f"y has more than max_classes={limit} different labels: {values[row].item()!r} at "
                f"row {present[row]} (counting from 0) is one too many; if y is a number to be "
                "predicted, use a regressor, otherwise set a larger max_classes"
            )
        after = self._with(new) if len(new) else self
        if after.ones and not self.ones and self.unseen_partner is None:
            raise ValueError(
                f"y has the label {new[0].item()!r} beside the pair {self.classes.tolist()}; for "
                "more than two classes give all of them as partial_fit(X, y, classes=...) at the "
                "start"
            )
        known_from = np.zeros(len(after.known), dtype=np.int64)
        known_from[np.searchsorted(after.known, new)] = present[first] + 1
        if missing is not None:
            given, filler = values, known[:1] if len(known) else values[:1]
            values = np.repeat(filler, n).astype(np.result_type(filler, given))
            values[present] = given
        return values, known_from, after

    def _with(self, new: NDArray[Any]) -> Self:
        """Return these labels and ``new`` ones; a single label of a pair brings its partner."""
        after = type(self)(linear=self.linear)
        joined = np.concatenate((self.known, new)) if len(self.known) else new
        _check_exact(joined, "y")
        after.classes = np.unique(joined)
        if len(after.classes) == 1:
            after.unseen_partner = _partner(after.classes[0])
            if after.unseen_partner is not None:
                after.classes = np.unique([after.classes[0], after.unseen_partner])
        if np.array_equal(after.classes, self.classes):
            after.classes = self.classes  # the partner came: the outputs are the same
        return after

    def merged(self, other: Labels, limit: int) -> Labels:
        """Return the labels of two learners; raise if fixed lists differ or they are too many."""
        known, more = self.known, other.known
        unknown = _positions(known, more) < 0
        if self.fixed or other.fixed:
            fits = not (self.fixed and unknown.any())
            fits = fits and not (other.fixed and (_positions(more, known) < 0).any())
            if not fits:
                raise ValueError(
                    f"classes differ: {_shortened(known)} and {_shortened(more)}, and were fixed; "
                    "give all learners the same classes"
                )
            return self if self.fixed else other
        if len(known) + np.count_nonzero(unknown) > limit:
            raise ValueError(
                f"the learners have more than max_classes={limit} labels together; set a larger one"
            )
        return self._with(more)

    def matrix(self, after: Labels) -> Array:
        """Return M with new outputs = old outputs @ M, for the change to ``after``."""
        M = np.zeros((self.outputs, after.outputs))
        if after.ones:
            M[:, 0] = self._ones_column()
        named = _with_output(after.classes)
        if len(self.classes) > 2:
            places = _positions(self.classes, named)
            own = np.flatnonzero(places >= 0)
            M[self.ones + places[own], after.ones + own] = 1.0
            M[:, after.ones + np.flatnonzero(places < 0)] = -self._ones_column()[:, None]
            return M
        for position, label in enumerate(named):
            M[:, after.ones + position] = self._column(label)
        return M

    def _ones_column(self) -> Array:
        """Return the ones as a combination of the present outputs."""
        if self.ones:
            return np.eye(1, self.outputs)[0]
        return self._column(self.known[0])  # a pair of which one label was seen: all rows were it

    def _column(self, label: Any) -> Array:
        """Return the output of a class as a combination of the present outputs."""
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
        """Return one row of targets per label: 1 for the ones, then +-1."""
        own = np.searchsorted(self.classes, values)
        targets = np.full((len(values), self.outputs), -1.0)
        if self.ones:
            targets[:, 0] = 1.0
        if len(self.classes) == 2:
            targets[:, self.ones] = 2.0 * own - 1.0
        elif len(self.classes) > 2:
            targets[np.arange(len(values)), self.ones + own] = 1.0
        return targets

    def places(self, targets: Array) -> NDArray[np.intp]:
        """Return the positions among ``classes`` of the labels that have these `targets`."""
        if len(self.classes) == 1:
            return np.zeros(len(targets), dtype=np.intp)
        return self._highest(targets)

    def decisions(self, P: Array) -> Array:
        """Return the margins (n,) of two classes or fewer, or (n, classes)."""
        if len(self.classes) < 2:
            return -P[:, 0]  # a lone label counts as -1
        return P[:, self.ones] if len(self.classes) == 2 else P[:, self.ones :]

    def predicted(self, P: Array, known_from: Rows | None = None) -> NDArray[Any]:
        """Predict a label per row, None (in an array of objects) where no label was known.

        ``known_from`` is what `receive` returned; without it all classes are known to all rows.
        """
        known = self.known
        if known_from is None or not known_from.any():
            if len(known) == 1:
                return np.repeat(known, len(P))
            return known[self._highest(P)]
        named = np.zeros(len(P), dtype=np.intp)
        for rows, places in _row_ranges(known_from, len(P)):
            if len(places) == 2:
                second = self._margin(P[rows], places)[:, 0] >= 0.0
                named[rows] = np.where(second, places[1], places[0])
            elif len(places) > 2:
                margins = self._margins(P[rows])
                unknown = known_from > np.arange(rows.start, rows.stop)[:, None]
                named[rows] = np.where(unknown, -np.inf, margins).argmax(axis=1)
            elif len(places):
                named[rows] = places[0]
        if known_from.min() == 0:
            return known[named]
        labels = np.empty(len(P), dtype=object)
        start = int(known_from.min())
        labels[start:] = known[named[start:]].tolist()
        return labels

    def _highest(self, P: Array) -> NDArray[np.intp]:
        """Return the position of the predicted class; of two, a zero margin is the second."""
        if len(self.classes) == 2:
            return (P[:, self.ones] >= 0.0).astype(np.intp)
        return self._margins(P).argmax(axis=1)

    def _margins(self, P: Array) -> Array:
        """Return a margin per class, for three classes or more."""
        return P[:, self.ones :]

    def _margin(self, P: Array, pair: NDArray[np.intp]) -> Array:
        """Return the margin (n, 1) of the second of two classes while no other is known."""
        return P[:, [self.ones + (pair[1] if len(self.classes) > 2 else 0)]]

    def probabilities(
        self, P: Array, known_from: Rows, link: Callable[[Array, slice], Array]
    ) -> Array:
        """Return probabilities (n, classes) of the classes known at each row (see `receive`).

        ``link(margins, rows)`` is P(+1) of each margin. Probabilities are NaN before any label is
        known, and 0 for a class that is not known yet.
        """
        shares = np.zeros((len(P), len(known_from)))
        for rows, places in _row_ranges(known_from, len(P)):
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
                unknown = known_from > np.arange(rows.start, rows.stop)[:, None]
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
        """Restore what `to_state` returned from a file; raise a StateError if it is invalid."""
        require(isinstance(state, dict), "labels are not a table")
        names = {"classes", "fixed", "linear"}
        require(set(state) == names, "labels have other entries than they should")
        require(state["linear"] is linear, "labels/linear is not what the learner is")
        require(type(state["fixed"]) is bool, "labels/fixed is not true or false")
        classes = _checked_classes(state["classes"])
        if not state["fixed"]:
            return cls(linear=linear)._with(classes)
        require(len(classes) > 1, "labels/classes are too few")
        labels = cls(linear=linear)
        labels.classes, labels.fixed = classes, True
        return labels


class MulticlassLabels(Labels):
    """The labels of a learner that learns several classes as one problem.

    Two classes share one output, with targets -1 and 1; for three or more there is one output per
    class, and targets are the numbers of the classes. A new class enters with a zero function at
    its first row. When the third class comes, the one output s of the first two becomes -s/2 and
    s/2, which keeps their margin. (A learner of one class against the rest can instead count all
    earlier rows as negative for the new class; here there is no such rest.)
    """

    @property
    def ones(self) -> int:
        return 0

    @property
    def outputs(self) -> int:
        return len(self.classes) if len(self.classes) > 2 else 1

    def steps(self, values: NDArray[Any]) -> Iterator[tuple[int, MulticlassLabels]]:
        """Return the rows whose label changes the classes, each with the labels from there on."""
        labels = self
        found, firsts = np.unique(values, return_index=True)
        new = ~np.isin(found, self.known)
        for row, label in sorted(zip(firsts[new].tolist(), found[new], strict=True)):
            after = labels._with(np.array([label]))
            if after.classes is not labels.classes:
                yield row, after
            labels = after

    def matrix(self, after: Any) -> Array:
        """Return M with new outputs = old outputs @ M, for the change to ``after``."""
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
        """Return -1 or 1, the target of one of two classes; a lone label counts as -1."""
        return 1.0 if len(self.classes) == 2 and label == self.classes[1] else -1.0

    def targets(self, values: NDArray[Any]) -> Array:
        """Return one column of targets: -1 or 1, or the number of the class."""
        numbers = np.searchsorted(self.classes, values).astype(np.float64)
        return (2.0 * numbers - 1.0 if self.outputs == 1 else numbers)[:, None]

    def decisions(self, P: Array) -> Array:
        return P[:, 0] if self.outputs == 1 else P

    def _margin(self, P: Array, pair: NDArray[np.intp]) -> Array:
        return P if self.outputs == 1 else P[:, pair[1:]] - P[:, pair[:1]]


def _row_ranges(known_from: Rows, n: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Return the rows at which 0, 1, 2 and more classes are known, with positions of the classes.

    For rows at which more are known, the positions are those of all classes.
    """
    order = np.argsort(known_from, kind="stable")
    start = 0
    for count in range(4):
        end = int(known_from[order[count]]) if count < min(3, len(order)) else n
        if end > start:
            yield slice(start, end), np.sort(order[:count] if count < 3 else order)
            start = end


def _positions(known: NDArray[Any], values: NDArray[Any]) -> NDArray[np.intp]:
    """Return the positions of labels among the known ones, -1 for others."""
    if not len(known):
        return np.full(len(values), -1)
    if (known.dtype.kind == "U") != (values.dtype.kind == "U"):
        what, other = ("text", "numbers") if values.dtype.kind == "U" else ("numbers", "text")
        raise ValueError(f"y has {what}, but the labels so far are {other}: {_shortened(known)}")
    places = np.searchsorted(known, values)
    places[places == len(known)] = 0
    places[known[places] != values] = -1
    return places


def _shortened(classes: NDArray[Any]) -> str:
    """Return classes for a message, at most 20."""
    shown = ", ".join(repr(label) for label in classes[:20].tolist())
    return f"[{shown}]" if len(classes) <= 20 else f"[{shown}, .. {len(classes):,} in all]"


def _checked_classes(value: Any) -> NDArray[Any]:
    """Return classes from a file: numbers, or a list of text; at least one, sorted, each once."""
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
    exact = classes.dtype.kind != "f" or np.abs(classes).max() <= LARGEST_EXACT
    require(exact, "labels/classes are larger than a label may be")
    return classes


def _with_output(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes that have an output of their own."""
    return classes[len(classes) :] if len(classes) < 2 else classes[len(classes) == 2 :]


def _partner(label: Any) -> Any:
    """Return the other label of {False, True}, {-1, 1} or {0, 1}; None for any other label.

    The partner of 1 may be -1 or 0: it is -1 (0 for unsigned numbers) until a 0 comes.
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
    """Return labels as an array of numbers, booleans or text, each unchanged."""
    check_given(y)
    values = np.asarray(unmasked(y))
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
        values = _uniform_array(values, name)
    elif values.dtype.kind == "U" and given_one_by_one:
        values = _uniform_array(np.fromiter(y, dtype=object, count=len(values)), name)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        what = "NaN" if np.isnan(values[row]) else "inf"
        advice = NO_LABEL if what == "NaN" else "drop the row"
        raise ValueError(f"{name} has {what} at row {row} (counting from 0); {advice}")
    if values.dtype.kind == "S":
        raise ValueError(f"{name} holds bytes; decode them to text")
    if values.dtype.kind not in "biufU":
        got = type(values[0]).__name__ if values.dtype == object and len(values) else values.dtype
        raise ValueError(
            f"{name} must hold numbers, booleans or text, got {got}; convert its labels to text, "
            "as with y.astype(str)"
        )
    if values.dtype.kind == "f":
        if values.dtype.itemsize < 8:
            values = values.astype(np.float64)
        _check_exact(values, name)
        if (values != np.floor(values)).any():
            check_classification_targets(values)  # continuous: scikit-learn's message
        values = np.asarray(values, dtype=np.float64)
    return values


def _uniform_array(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return an object array of one kind of label as an array of that kind."""
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
    """Raise a ValueError if there are numbers that doubles cannot distinguish."""
    if values.dtype.kind == "f" and len(values) and not np.abs(values).max() <= LARGEST_EXACT:
        row = int(np.argmax(np.abs(values)))
        raise ValueError(
            f"{name} has the label {values[row].item():.17g}; numbers above 2**53 cannot be "
            "distinguished: give them as text"
        )
