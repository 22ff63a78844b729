"""What a model says of some rows before it knows their labels: values, probabilities, intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Field, Numbers, Sizes, StateError, require

# ----------------------------------------------------------------------------------------
# Fields of the state of metrics, baselines and pictures, for the tables of `parts.state`.
#
# A snapshot may have been cut or edited, so what comes from it is checked as the state of a
# learner is. Losses may be infinite or missing; kinds, shapes, counts and their order may not be
# wrong.


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
    """A list; ``out`` makes the state of one thing, ``back`` the thing of its state, checked."""

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
    """A list of labels, each once; their number is a size of the name ``labels``."""

    def dump(self, owner: Any) -> Any:
        return list(getattr(owner, self.attribute))

    def load(self, owner: Any, value: Any, sizes: Sizes) -> list[Any]:
        labels = checked_labels(value, self.name)
        sizes.agree("labels", len(labels), self.name)
        return labels


def checked_labels(value: Any, name: str) -> list[Any]:
    """Labels that can be compared with each other, each once."""
    require(isinstance(value, list), f"{name} is not a list")
    text = all(type(label) is str for label in value)
    numbers = all(type(label) in (bool, int, float) for label in value)
    require(text or numbers, f"{name} are not labels of one kind")
    require(len(set(value)) == len(value), f"{name} are there twice")
    return list(value)


def checked_column(value: Any, name: str) -> NDArray[Any]:
    """Labels or numbers of some rows, from a list; None stands for a label that is not known."""
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
    """A double."""
    require(type(value) in (int, float), f"{name} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise StateError(f"{name} is out of range") from None


def doubles(value: Any, name: str, *, most: int, least: int = 0) -> NDArray[np.float64]:
    """An array of doubles with so many dimensions."""
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
        """For so many outputs a row what a model that knows nothing yet says of one."""
        if outputs is None or self.values.ndim == 2:
            return self
        values = np.repeat(self.values[:, None], outputs, axis=1)
        ends = self.intervals
        if ends is not None:
            ends = np.repeat(ends[:, None, :], outputs, axis=1)
        return Forecast(values, intervals=ends)

    def share_of(self, classes: NDArray[Any]) -> Array:
        """Probabilities of other classes: 0 for one that was not known."""
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
        """For a checkpoint: the rows that wait for their labels."""
        values, classes = self.values, self.classes
        return {
            "values": values.tolist() if values.dtype.kind in "USO" else values,
            "probabilities": self.probabilities,
            "classes": None if classes is None else classes.tolist(),
            "intervals": self.intervals,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Forecast:
        """What `to_state` gave, from a file; a StateError if it is something else."""
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
    """Predictions or targets that came one by one, as an array; some labels may be None."""
    if any(value is None for value in values):
        held = np.empty(len(values), dtype=object)
        held[:] = values
        return held
    return np.array(values)


def joined(parts: Sequence[Forecast]) -> Forecast:
    """Forecasts one after the other; the classes are those of all."""
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
