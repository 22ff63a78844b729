"""Missing values and categories, before scaling: what makes rows of a table rows of numbers.

    missing      a NaN becomes the mean of its column so far, 0 before the first value
    categories   a category becomes one of a fixed number of slots; its slot is 1/sqrt(2) and the
                 others are 0, so that two different categories are at distance 1, as the two ends
                 of a column under min-max scaling. A missing category has no slot: all are 0.

"hash" takes the slot from the category's number (see `pronk.streams.values`); different categories
may share a slot, and nothing needs to be kept. "onehot" gives slots in the order in which
categories come and keeps them; when all slots but one are given, the rest share the last one.

As everywhere, a row joins the statistics first and is then treated by them, and cutting the stream
differently changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.streams.scaling import Scaler

Array = NDArray[np.float64]

ENCODINGS = ("hash", "onehot")
_HEIGHT = np.sqrt(0.5)


class Means:
    """NaN becomes the mean of its column so far.

    >>> import numpy as np
    >>> from pronk.streams.preparing import Means
    >>> print(Means().learn_transform(np.array([[np.nan], [4.0], [6.0], [np.nan]]))[:, 0])
    [0. 4. 6. 5.]
    """

    def __init__(self) -> None:
        self.sums: Array | None = None  # of the values, and how many, (2, columns)

    def learn_transform(self, X: Array) -> Array:
        """The rows filled in, each by the rows up to itself, which it learns."""
        if self.sums is None:
            self.sums = np.zeros((2, X.shape[1]))
        known = ~np.isnan(X)
        # The carried sums are the first term, so that any cut adds in the same order.
        values = np.cumsum(np.concatenate([self.sums[:1], np.where(known, X, 0.0)]), axis=0)[1:]
        counts = self.sums[1] + np.cumsum(known, axis=0)
        self.sums = np.stack([values[-1], counts[-1]])
        return np.where(known, X, values / np.maximum(counts, 1.0))

    def transform(self, X: Array) -> Array:
        """The rows filled in; changes nothing."""
        sums = np.zeros((2, X.shape[1])) if self.sums is None else self.sums
        return np.where(np.isnan(X), sums[0] / np.maximum(sums[1], 1.0), X)


class Categories:
    """One column of numbers that stand for categories, as ``slots`` columns.

    >>> import numpy as np
    >>> from pronk.streams.preparing import Categories
    >>> print(
    ...     Categories(3, "onehot").learn_transform(np.array([8.0, 5.0, 8.0, 7.0, 6.0])).argmax(1)
    ... )
    [0 1 0 2 2]
    """

    def __init__(self, slots: int, encoding: str = "hash") -> None:
        if encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}; got {encoding!r}")
        if slots < 2:
            raise ValueError(f"slots must be at least 2, got {slots}")
        self.slots = slots
        self.encoding = encoding
        self.known: dict[float, int] = {}  # with "onehot" the slots given so far

    def learn_transform(self, codes: Array) -> Array:
        """The rows; new categories get slots."""
        if self.encoding == "onehot":
            new = [c for c in dict.fromkeys(codes.tolist()) if c == c and c not in self.known]
            new = new[: max(0, self.slots - 1 - len(self.known))]
            if new:  # a new dict: a copy of this object keeps the old one
                self.known = {**self.known, **{c: len(self.known) + i for i, c in enumerate(new)}}
        return self.transform(codes)

    def transform(self, codes: Array) -> Array:
        """The rows as if each came next; changes nothing."""
        filled = np.zeros((len(codes), self.slots))
        rows = np.flatnonzero(~np.isnan(codes))
        if self.encoding == "hash":
            places = np.mod(codes[rows], self.slots).astype(np.int64)
        else:
            free = min(len(self.known), self.slots - 1)
            places = np.array([self.known.get(c, free) for c in codes[rows].tolist()], np.int64)
        filled[rows, places] = _HEIGHT
        return filled


class Preparation:
    """Fill in, scale, and append the slots of the categories; in place of a scaler.

    Parameters
    ----------
    scaler : Scaler
        Of the columns that are numbers.
    missing : "error" or "mean"
    categorical : column numbers
    slots, encoding : for each categorical column
    """

    def __init__(
        self,
        scaler: Scaler,
        missing: str = "error",
        categorical: Sequence[int] = (),
        slots: int = 32,
        encoding: str = "hash",
    ) -> None:
        self.scaler = scaler
        self.means = Means() if missing == "mean" else None
        self.categorical = list(categorical)
        self.encoders = [Categories(slots, encoding) for _ in self.categorical]
        self.name = scaler.name

    def learn_transform(self, X: Array) -> Array:
        """The rows of the learner; learns on the way."""
        numbers = self._numbers(X)
        if self.means is not None and numbers.shape[1]:
            numbers = self.means.learn_transform(numbers)
        if numbers.shape[1]:
            numbers = self.scaler.learn_transform(numbers)
        codes = X[:, self.categorical]
        encoded = [e.learn_transform(codes[:, j]) for j, e in enumerate(self.encoders)]
        return np.ascontiguousarray(np.hstack([numbers, *encoded]))

    def transform(self, X: Array) -> Array:
        """The rows of the learner as if each came next; changes nothing."""
        numbers = self._numbers(X)
        if self.means is not None and numbers.shape[1]:
            numbers = self.means.transform(numbers)
        if numbers.shape[1]:
            numbers = self.scaler.transform(numbers)
        codes = X[:, self.categorical]
        encoded = [e.transform(codes[:, j]) for j, e in enumerate(self.encoders)]
        return np.ascontiguousarray(np.hstack([numbers, *encoded]))

    def _numbers(self, X: Array) -> Array:
        return np.delete(X, self.categorical, axis=1) if self.categorical else X

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the learner's columns, from those of the rows."""
        numbers = [name for i, name in enumerate(names) if i not in self.categorical]
        slots = [
            f"{names[i]}#{slot}"
            for i, encoder in zip(self.categorical, self.encoders, strict=True)
            for slot in range(encoder.slots)
        ]
        return numbers + slots

    def __copy__(self) -> Self:
        """Parts replace their arrays and never write into them, so a copy of each is enough."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.scaler, twin.means = copy.copy(self.scaler), copy.copy(self.means)
        twin.encoders = [copy.copy(encoder) for encoder in self.encoders]
        return twin

    def to_state(self) -> dict[str, Any]:
        return {
            "scaler": self.scaler.to_state(),
            "means": None if self.means is None else self.means.sums,
            "categories": [np.array(list(encoder.known)) for encoder in self.encoders],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.scaler.restore(state["scaler"])
        if self.means is not None:
            self.means.sums = state["means"]
        for encoder, known in zip(self.encoders, state["categories"], strict=True):
            encoder.known = {value: i for i, value in enumerate(known.tolist())}
