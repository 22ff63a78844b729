"""Scale columns online, by the rows so far.

A row joins the statistics first and is then scaled by them: its x is known before its label, so no
information is used that a forecaster does not have. Cutting the stream into blocks differently
gives the same scaled rows to the last bit, because the running statistics are accumulated row by
row in both cases.

    min-max    x -> (x - min_t) / (max_t - min_t) - 1/2       in [-1/2, 1/2]
    standard   x -> (x - mean_t) / deviation_t
    robust     x -> (x - median_t) / (0.7413 (upper quartile_t - lower quartile_t))

A column that was constant so far is 0. The range of min-max is centred at 0: for kernels of
distances it is equivalent to [0, 1], and Taylor features expand around 0.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pronk.core.arrays import Array
from pronk.core.scales import HELD, learn_scaled, scaled_as_next, stride_after, thin
from pronk.core.state import Count, Numbers, Sizes, Stateful, Unsaved, require


class MinMax(Stateful):
    """Scale each column to [-1/2, 1/2], by its least and largest value so far.

    >>> import numpy as np
    >>> from pronk.data import MinMax
    >>> print(MinMax().learn_transform(np.array([[10.0], [30.0], [20.0], [50.0]]))[:, 0])
    [0.  0.5 0.  0.5]
    """

    name: ClassVar[str] = "minmax"

    def __init__(self) -> None:
        self.least: Array | None = None
        self.largest: Array | None = None

    def learn_transform(self, X: Array) -> Array:
        """Learn the rows and return them, each scaled by the rows up to and including itself."""
        if self.least is None or self.largest is None:
            self.least, self.largest = X[0].copy(), X[0].copy()
        least = np.minimum(np.minimum.accumulate(X), self.least)
        largest = np.maximum(np.maximum.accumulate(X), self.largest)
        self.least, self.largest = least[-1].copy(), largest[-1].copy()
        return _between(X, least, largest)

    def transform(self, X: Array) -> Array:
        """Return each row as it would be scaled if it came next; changes nothing."""
        if self.least is None or self.largest is None:
            return np.zeros_like(X)
        return _between(X, np.minimum(X, self.least), np.maximum(X, self.largest))

    STATE = (
        Numbers("least", ("columns",), "least", optional=True, written="replaced"),
        Numbers("largest", ("columns",), "largest", optional=True, written="replaced"),
    )

    def to_state(self) -> dict[str, Any]:
        return {"least": self.least, "largest": self.largest}

    def _restored(self, sizes: Sizes) -> None:
        started = self.least is not None
        both = started == (self.largest is not None)
        require(both, "least and largest must both be given, or neither")
        if self.least is not None and self.largest is not None:
            require((self.least <= self.largest).all(), "least is above largest")


def _between(X: Array, least: Array, largest: Array) -> Array:
    width = largest - least
    return np.divide(X - least, width, out=np.full_like(X, 0.5), where=width > 0) - 0.5


class Standard(Stateful):
    """Scale each column to mean 0 and standard deviation 1, by the rows so far.

    The sums are of x minus the first row, to avoid cancellation under a large common offset.

    >>> import numpy as np
    >>> from pronk.data import Standard
    >>> print(Standard().learn_transform(np.array([[10.0], [30.0], [20.0]]))[:, 0])
    [0. 1. 0.]
    """

    name: ClassVar[str] = "standard"

    def __init__(self) -> None:
        self.rows = 0
        self.origin: Array | None = None
        self.sums: Array | None = None  # of x - origin and of its square, (2, columns)

    def learn_transform(self, X: Array) -> Array:
        """Learn the rows and return them, each scaled by the rows up to and including itself."""
        if self.origin is None or self.sums is None:
            self.origin, self.sums = X[0].copy(), np.zeros((2, X.shape[1]))
        D = X - self.origin
        # The carried sums are the first term, so that any cut adds in the same order.
        first = np.cumsum(np.concatenate([self.sums[:1], D]), axis=0)[1:]
        second = np.cumsum(np.concatenate([self.sums[1:], D * D]), axis=0)[1:]
        counts = np.arange(self.rows + 1.0, self.rows + len(X) + 1.0)[:, None]
        self.rows += len(X)
        self.sums = np.stack([first[-1], second[-1]])
        return _standardised(D, first, second, counts)

    def transform(self, X: Array) -> Array:
        """Return each row as it would be scaled if it came next; changes nothing."""
        if self.origin is None or self.sums is None:
            return np.zeros_like(X)
        D = X - self.origin
        return _standardised(D, self.sums[0] + D, self.sums[1] + D * D, self.rows + 1.0)

    STATE = (
        Count("rows", "rows"),
        Numbers("origin", ("columns",), "origin", optional=True, written="replaced"),
        Numbers("sums", (2, "columns"), "sums", optional=True, written="replaced"),
    )

    def to_state(self) -> dict[str, Any]:
        return {"rows": self.rows, "origin": self.origin, "sums": self.sums}

    def _restored(self, sizes: Sizes) -> None:
        for name in ("origin", "sums"):
            there = getattr(self, name) is not None
            require(there == (self.rows > 0), f"{name} must be given if, and only if, rows > 0")


def _standardised(D: Array, first: Array, second: Array, counts: Any) -> Array:
    mean, square = first / counts, second / counts
    variance = square - mean * mean
    # After cancellation, the variance of a constant column is only rounding.
    varies = variance > 1e-12 * square
    deviation = np.sqrt(np.where(varies, variance, 1.0))
    return np.where(varies, (D - mean) / deviation, 0.0)


class Robust(Stateful):
    """Scale each column by its median and quartiles so far, which outliers do not move.

    The quartiles are those of at most 512 values per column, evenly spaced over all rows so far:
    exact up to 512 rows, later within two to three percent in rank. 0.7413 times their distance is
    the standard deviation of a normal column. If the middle half of a column is one value (rare
    events), its whole range replaces the quartiles.

    >>> import numpy as np
    >>> from pronk.data import Robust
    >>> X = np.random.default_rng(0).normal(50, 10, (5000, 1))
    >>> X[::100] = 1e6
    >>> print(f"{Robust().learn_transform(X)[-1, 0]:.1f} {(X[-1, 0] - 50) / 10:.1f}")
    -1.8 -1.9
    """

    name: ClassVar[str] = "robust"

    def __init__(self) -> None:
        self.rows = 0
        self.values: Array | None = None  # (columns, 512), in the order of the rows
        self.ordered: Array | None = None  # the same sorted

    @property
    def _stride(self) -> int:
        return stride_after(self.rows)

    @property
    def _size(self) -> int:
        return -(-self.rows // self._stride)

    def learn_transform(self, X: Array) -> Array:
        """Learn the rows and return them, each scaled by the held rows up to itself."""
        if self.values is None or self.ordered is None:
            self.values = np.zeros((X.shape[1], HELD))
            self.ordered = np.zeros((X.shape[1], HELD))
        values, ordered = self.values.copy(), self.ordered.copy()
        scaled: Array = learn_scaled(
            np.ascontiguousarray(X), values, ordered, self.rows, self._stride
        )
        self.rows, self.values, self.ordered = self.rows + len(X), values, ordered
        return scaled

    def transform(self, X: Array) -> Array:
        """Return each row as it would be scaled if it came next; changes nothing."""
        if self.values is None or self.ordered is None:
            return np.zeros_like(X)
        size, ordered = self._size, self.ordered
        joins = self.rows % self._stride == 0
        if joins and size == HELD:
            ordered = ordered.copy()
            thin(self.values.copy(), ordered)
            size //= 2
        scaled: Array = scaled_as_next(np.ascontiguousarray(X), ordered, size, joins)
        return scaled

    def to_state(self) -> dict[str, Any]:
        if self.values is None:
            return {"rows": 0, "values": None}
        return {"rows": self.rows, "values": self.values[:, : self._size].copy()}

    STATE = (
        Count("rows", "rows"),
        Numbers("values", ("columns", "held"), "values", optional=True, written="replaced"),
        Unsaved("ordered"),
    )

    def _restored(self, sizes: Sizes) -> None:
        self.ordered = None
        held = self.values
        given = held is not None
        require(given == (self.rows > 0), "values must be given if, and only if, rows > 0")
        if held is None:
            return
        columns, size = held.shape
        require(size == self._size <= HELD, f"values has {size} rows, not the {self._size} of rows")
        self.values, self.ordered = np.zeros((columns, HELD)), np.zeros((columns, HELD))
        self.values[:, :size] = held
        self.ordered[:, :size] = np.sort(held, axis=1)


class Unscaled(Stateful):
    """Leave columns unchanged."""

    name: ClassVar[str] = "none"

    def learn_transform(self, X: Array) -> Array:
        """Return the rows."""
        return X

    def transform(self, X: Array) -> Array:
        """Return the rows."""
        return X


SCALERS: dict[str, type[Any]] = {
    "minmax": MinMax,
    "standard": Standard,
    "robust": Robust,
    "none": Unscaled,
}


def make_scaler(name: str) -> Any:
    """Return a new scaler by name."""
    if name not in SCALERS:
        raise ValueError(f"scaler must be one of {', '.join(SCALERS)}; got {name!r}")
    return SCALERS[name]()
