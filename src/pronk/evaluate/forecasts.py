"""What a model says of some rows before it knows their labels: values, probabilities, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.state import checked_column, checked_labels, doubles
from pronk.parts.state import require

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
