"""Checked fields of the state of metrics, baselines and traces.

A saved evaluation may have been truncated or edited, so its state is checked as that of a learner
is. Losses may be infinite or missing; types, shapes, counts and their order must be right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Field, Numbers, Sizes, StateError, checked_count, require


class Values(Numbers):
    """An array of any doubles, also infinite ones and NaN."""

    def _check_values(self, array: NDArray[Any], sizes: Sizes) -> None:
        pass


class AnyReal(Field):
    """A double of any value."""

    def dump(self, owner: Any) -> Any:
        return float(getattr(owner, self.attribute))

    def load(self, owner: Any, value: Any, sizes: Sizes) -> float:
        return figure(value, self.name)


class Reals(Field):
    """A double, or one for each of several outputs."""

    def dump(self, owner: Any) -> Any:
        held = np.array(getattr(owner, self.attribute), dtype=np.float64)
        return held if held.ndim else float(held)  # a file makes one dimension of none

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        if isinstance(value, np.ndarray):
            return doubles(value, self.name, least=1, most=1)
        return figure(value, self.name)


class Items(Field):
    """A list; ``out`` converts an item to its state, ``back`` a state to an item, with checks."""

    def __init__(
        self, name: str, attribute: str, *, out: Callable[[Any], Any],
        back: Callable[[Any, str], Any], kind: Callable[[list[Any]], Any] = list,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.out, self.back, self.kind = out, back, kind

    def dump(self, owner: Any) -> Any:
        return [self.out(item) for item in getattr(owner, self.attribute)]

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        require(isinstance(value, list), f"{self.name} is not a list")
        return self.kind([self.back(item, f"{self.name}/{i}") for i, item in enumerate(value)])


class LabelList(Field):
    """A list of distinct labels; their number is the size ``labels``."""

    def dump(self, owner: Any) -> Any:
        return list(getattr(owner, self.attribute))

    def load(self, owner: Any, value: Any, sizes: Sizes) -> list[Any]:
        labels = checked_labels(value, self.name)
        sizes.agree("labels", len(labels), self.name)
        return labels


class Tally(Field):
    """A dict of whole numbers of at least 0, by distinct labels; their number is ``labels``."""

    def dump(self, owner: Any) -> Any:
        held = getattr(owner, self.attribute)
        return [list(held), list(held.values())]

    def load(self, owner: Any, value: Any, sizes: Sizes) -> dict[Any, int]:
        good = isinstance(value, list) and len(value) == 2 and isinstance(value[1], list)
        require(good, f"{self.name} is not a list of labels and one of counts")
        labels, counts = checked_labels(value[0], self.name), value[1]
        require(len(counts) == len(labels), f"{self.name} does not have one count per label")
        sizes.agree("labels", len(labels), self.name)
        known = [checked_count(count, self.name) for count in counts]
        return dict(zip(labels, known, strict=True))


def checked_labels(value: Any, name: str) -> list[Any]:
    """Check distinct labels of one type."""
    require(isinstance(value, list), f"{name} is not a list")
    text = all(type(label) is str for label in value)
    numbers = all(type(label) in (bool, int, float) for label in value)
    require(text or numbers, f"{name} are not labels of one type")
    require(len(set(value)) == len(value), f"{name} are not distinct")
    return list(value)


class Targets(Field):
    """A list of numbers or labels of some rows."""

    def dump(self, owner: Any) -> Any:
        return list(getattr(owner, self.attribute))

    def load(self, owner: Any, value: Any, sizes: Sizes) -> list[Any]:
        return list(checked_column(value, self.name).tolist())


def checked_column(value: Any, name: str) -> NDArray[Any]:
    """Read labels or numbers of some rows from a list; None is an unknown label."""
    require(isinstance(value, list), f"{name} is not a list")
    simple = all(isinstance(entry, str | int | float | None) for entry in value)
    table = all(isinstance(entry, list) for entry in value)
    if table:
        simple = all(type(number) is float for entry in value for number in entry)
        simple = simple and len({len(entry) for entry in value}) <= 1
    require(simple, f"{name} are not labels or numbers")
    unknown = any(entry is None for entry in value)
    try:
        column = np.array(value, dtype=object if unknown else None)
    except (ValueError, OverflowError):
        raise StateError(f"{name} are not labels or numbers") from None
    require(unknown or column.dtype.kind in "biufU", f"{name} are not labels or numbers")
    return column


def figure(value: Any, name: str) -> float:
    """Check a double."""
    require(type(value) in (int, float), f"{name} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise StateError(f"{name} is out of range") from None


def doubles(value: Any, name: str, *, most: int, least: int = 0) -> NDArray[np.float64]:
    """Check an array of doubles with ``least`` to ``most`` dimensions."""
    require(isinstance(value, np.ndarray), f"{name} is not an array")
    require(value.dtype == np.float64, f"{name} has numbers of kind {value.dtype}, not float64")
    require(least <= value.ndim <= most, f"{name} has {value.ndim} dimensions")
    return np.array(value)
