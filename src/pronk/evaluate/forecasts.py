"""Forecasts: predictions of some rows, with probabilities or intervals; checked fields of states.

A saved evaluation may have been truncated or edited, so its state is checked as that of a learner
is. Losses may be infinite or missing; types, shapes, counts and their order must be right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Field, Numbers, Sizes, StateError, require

# -- fields of the state of metrics, baselines and traces ------------------------------------------


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


def checked_labels(value: Any, name: str) -> list[Any]:
    """Check distinct labels of one type."""
    require(isinstance(value, list), f"{name} is not a list")
    text = all(type(label) is str for label in value)
    numbers = all(type(label) in (bool, int, float) for label in value)
    require(text or numbers, f"{name} are not labels of one type")
    require(len(set(value)) == len(value), f"{name} are not distinct")
    return list(value)


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


Array = NDArray[np.float64]

_FIELDS = ("values", "probabilities", "classes", "intervals")


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predictions of some rows, in order."""

    values: NDArray[Any]
    """Labels or numbers."""
    probabilities: Array | None = None
    """(n, classes); NaN before any label was known."""
    classes: NDArray[Any] | None = None
    """Whose probabilities they are."""
    intervals: Array | None = None
    """(n, 2), or (n, outputs, 2)."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> Forecast:
        return Forecast(
            self.values[rows],
            None if self.probabilities is None else self.probabilities[rows],
            self.classes,
            None if self.intervals is None else self.intervals[rows],
        )

    def widened(self, outputs: int | None) -> Forecast:
        """Repeat the forecast of a model that has learned nothing for several outputs."""
        if outputs is None or self.values.ndim == 2:
            return self
        values = np.repeat(self.values[:, None], outputs, axis=1)
        ends = self.intervals
        if ends is not None:
            ends = np.repeat(ends[:, None, :], outputs, axis=1)
        return Forecast(values, intervals=ends)

    def share_of(self, classes: NDArray[Any]) -> Array:
        """Return the probabilities of other classes; 0 for unknown ones."""
        assert self.probabilities is not None and self.classes is not None
        if self.classes is classes or np.array_equal(self.classes, classes):
            return self.probabilities
        shares = np.zeros((len(self), len(classes)))
        for i, label in enumerate(classes.tolist()):
            place = np.flatnonzero(self.classes == label)
            if len(place):
                shares[:, i] = self.probabilities[:, place[0]]
        if len(self.classes):
            shares[np.isnan(self.probabilities).any(axis=1)] = np.nan
        else:
            shares[:] = np.nan
        return shares

    def to_state(self) -> dict[str, Any]:
        """Return the forecast for a checkpoint."""
        values, classes = self.values, self.classes
        return {
            "values": values.tolist() if values.dtype.kind in "USO" else values,
            "probabilities": self.probabilities,
            "classes": None if classes is None else classes.tolist(),
            "intervals": self.intervals,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Forecast:
        """Read the result of `to_state` from a file; raise a StateError if it is damaged."""
        require(
            isinstance(state, dict) and set(state) == set(_FIELDS), "a forecast has other fields"
        )
        values, shares, classes, ends = (state[name] for name in _FIELDS)
        if isinstance(values, list):
            values = checked_column(values, "values")
        good = isinstance(values, np.ndarray) and values.ndim > 0 and values.dtype.kind in "biufUO"
        require(good, "values of a forecast are not labels or numbers")
        rows = len(values)
        require((shares is None) == (classes is None), "probabilities of a forecast lack classes")
        if shares is not None:
            classes = np.asarray(checked_labels(classes, "classes"))
            shares = doubles(shares, "probabilities", least=2, most=2)
            require(shares.shape == (rows, len(classes)), "probabilities are of other rows")
        if ends is not None:
            ends = doubles(ends, "intervals", least=2, most=3)
            require(ends.shape[0] == rows and ends.shape[-1] == 2, "intervals are of other rows")
        return cls(values, shares, classes, ends)


def column(values: Sequence[Any]) -> NDArray[Any]:
    """Return predictions or targets of single rows as an array; labels may be None."""
    if any(value is None for value in values):
        held = np.empty(len(values), dtype=object)
        held[:] = values
        return held
    return np.array(values)


def joined(parts: Sequence[Forecast]) -> Forecast:
    """Concatenate forecasts, with the classes of all of them."""
    if len(parts) == 1:
        return parts[0]
    kinds = {part.values.dtype.kind for part in parts}
    held = [part.values.astype(object) if "O" in kinds else part.values for part in parts]
    values = np.concatenate(held)
    classes, shares, intervals = None, None, None
    if all(part.probabilities is not None for part in parts):
        known = [part.classes for part in parts if part.classes is not None and len(part.classes)]
        classes = np.unique(np.concatenate(known)) if known else np.empty(0)
        shares = np.concatenate([part.share_of(classes) for part in parts])
    if all(part.intervals is not None for part in parts):
        intervals = np.concatenate([part.intervals for part in parts if part.intervals is not None])
    return Forecast(values, shares, classes, intervals)
