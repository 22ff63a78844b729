"""`Columns`: what the columns of a model are, and how its next rows are prepared.

Every estimator has one from its first row on. `encode` turns whatever a row came in (an array, a
frame, a table, a list, a dict) into numbers, with NaN for what is missing; `learned` and
`transform` turn these into the columns of the learner. Arrays of finite numbers pass through
unchanged.

A `Columns` is never changed: `learned` returns the one after the rows. A call that raises therefore
leaves the old one in its place.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from pronk.columns.dates import ISO, ORDERS
from pronk.columns.frames import Layout
from pronk.columns.preparation import (
    FARTHEST,
    SLOTS,
    Preparation,
    column,
    prepare,
)
from pronk.columns.scaling import make_scaler
from pronk.columns.values import KINDS, NUMBER, NUMERIC
from pronk.core.arrays import Array
from pronk.core.checks import LARGEST_INPUT, check_finite
from pronk.core.state import checked_count, require

#: The option ``scale`` of a learner that leaves numbers as they are and has no scale for days.
TIMES_ONLY = "times"
#: Most columns of a model in a file.
MOST_COLUMNS = 2**24
#: Values of the option ``missing``.
MISSING = ("error", "mean")
#: Shares of directions that are too small to name, and of their largest weight those of columns.
SMALL_SHARE, SMALL_WEIGHT = 0.01, 0.1


@dataclass(frozen=True)
class Options:
    """How columns are prepared; see `pronk.Prepared`."""

    scale: str = "none"
    missing: str = "mean"
    slots: int = SLOTS
    encoding: str = "onehot"

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ValueError(f"missing must be one of {', '.join(MISSING)}; got {self.missing!r}")


class Columns:
    """The layout of a model's columns, and their preparation by the rows so far."""

    def __init__(self, layout: Layout, options: Options | None = None) -> None:
        self.layout = layout
        self.options = own = options or Options()
        times_only = own.scale == TIMES_ONLY
        self.preparation = Preparation(
            make_scaler("minmax" if times_only else own.scale),
            *(layout.kinds, own.missing, own.slots, own.encoding, times_only),
        )
        numeric = all(kind in NUMERIC for kind in layout.kinds)
        #: Whether rows without gaps are passed to the learner as they are.
        self.unchanged = numeric and own.scale in ("none", TIMES_ONLY)
        self.width = len(layout.kinds) if self.unchanged else len(self.names_out())

    # -- rows ------------------------------------------------------------------------------------

    def encode(self, X: Any) -> Array:
        """Return X as rows of numbers, which `transform` and `learned` take; changes nothing.

        A category is its code, a time its seconds since 1970, and a missing value NaN.
        """
        fills = self.options.missing == "mean"
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.flags.c_contiguous
        plain = plain and X.shape[1:] == (len(self.layout.kinds),)
        rows = X if plain else self.layout.rows(X, fills)
        if not fills and self.layout.names is not None:
            self._check_no_gaps(rows)
        check_finite(rows, "X", gaps=fills)
        if self.preparation.timed:
            self._check_times(rows)
        return rows

    def transform(self, rows: Array) -> Array:
        """Return encoded rows as the learner would get them next; changes nothing."""
        if self.unchanged and not has_gaps(rows):
            return rows
        return self.preparation.transform(rows)

    def takes(self, X: Any) -> bool:
        """Return whether the learner gets X as it is: an array of numbers without gaps."""
        return (
            self.unchanged
            and type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.shape[1] == self.width
            and X.size > 0
            and X.flags.c_contiguous
            and bool(X.max() <= LARGEST_INPUT and X.min() >= -LARGEST_INPUT)  # not NaN
        )

    def with_numbers(self, rows: Array) -> Self:
        """Return the columns after rows that are `unchanged` and have no gaps; see `learned`."""
        own = self.preparation
        preparation = object.__new__(type(own))
        preparation.__dict__ = {**own.__dict__, "means": own.means and own.means.plus(rows)}
        return self._with(preparation)

    def learned(self, rows: Array, weights: Array | None = None) -> tuple[Self, Array]:
        """Return the columns after these rows, and the rows as the learner gets them.

        Rows of weight 0 are transformed and not learned.
        """
        preparation = copy.copy(self.preparation)
        learned = prepare(preparation, rows, weights)
        return self._with(preparation), learned

    def _with(self, preparation: Preparation) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__ = {**self.__dict__, "preparation": preparation}
        return twin

    def _check_times(self, rows: Array) -> None:
        """Raise for a time, given as a number, that is beyond any calendar."""
        timed = self.preparation.timed
        beyond = np.abs(rows[:, timed]) > FARTHEST
        if beyond.any():
            row, place = (int(i) for i in np.argwhere(beyond)[0])
            own = timed[place]
            name = self.layout.names[own] if self.layout.names else own
            raise ValueError(
                f"X column {name!r} has the time {rows[row, own]:g} at row {row} (counting from "
                "0), beyond any calendar; give seconds since 1970"
            )

    def _check_no_gaps(self, rows: Array) -> None:
        """Raise for a missing value, with the name of its column."""
        if has_gaps(rows):
            row, own = (int(i) for i in np.argwhere(np.isnan(rows))[0])
            assert self.layout.names is not None
            raise ValueError(
                f"X column {self.layout.names[own]!r} is missing or NaN at row {row} (counting "
                "from 0); missing='mean' fills it in"
            )

    # -- description -----------------------------------------------------------------------------

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns; x0, x1, .. where they have none."""
        return self.layout.names or [f"x{i}" for i in range(len(self.layout.kinds))]

    def names_out(self) -> list[str]:
        """Return the names of the learner's columns."""
        return [f"{self.names[j]}{part}" for j, part in self.preparation.origins()]

    def with_names(self, changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a learner's ``changes_`` with the names of the columns that changed.

        Where several of the learner's columns come from one, that is named once.
        """
        owners = range(self.width) if self.unchanged else [j for j, _ in self.preparation.origins()]
        found = []
        for change in changes:
            own: dict[str, dict[str, Any]] = {}
            for one in change["details"]:
                name = str(self.names[owners[one["place"]]])
                own.setdefault(name, {**one, "column": name})
            found.append({**change, "columns": list(own), "details": list(own.values())})
        return found

    def named_directions(self, directions: Array) -> list[dict[str, Any]]:
        """Name the weights of directions (learner's columns, m), the strongest first.

        Each has a "share" of the whole change, in squares, and its "columns" with their weights,
        the largest first and positive; directions and weights that are small are left out.
        """
        names, squares = self.names_out(), (directions**2).sum(axis=0)
        found = []
        for one, square in zip(directions.T, squares, strict=True):
            share = float(square / squares.sum()) if square else 0.0
            if share < SMALL_SHARE:
                continue
            order = np.argsort(-np.abs(one))
            weights = one * np.sign(one[order[0]]) / np.sqrt(square)
            least = SMALL_WEIGHT * weights[order[0]]
            columns = {str(names[j]): float(weights[j]) for j in order if abs(weights[j]) >= least}
            found.append({"share": share, "columns": columns})
        return found

    def described(self) -> list[dict[str, Any]]:
        """Describe each column, by the rows so far; see `pronk.columns.preparation`."""
        encoders = dict(zip(self.preparation.categorical, self.preparation.encoders, strict=True))
        each = zip(self.names, self.layout.kinds, self.layout.orders, strict=True)
        return [column(*one, encoders.get(place)) for place, one in enumerate(each)]

    # -- files -----------------------------------------------------------------------------------

    def why_not_merged(self, other: Columns) -> str | None:
        """Return in what the columns of two learners differ, so that their rows do; None if not."""
        if len(self.layout.kinds) != len(other.layout.kinds):
            return f"the number of columns, {len(self.layout.kinds)} and {len(other.layout.kinds)}"
        one, two = self.layout.names, other.layout.names
        if one is not None and two is not None and one != two:
            return f"the names or the order of their columns, {list(one)} and {list(two)}"
        if (self.layout.kinds, self.options) != (other.layout.kinds, other.options):
            return "what their columns became (columns_)"
        if not self.unchanged:
            return "how text or times were prepared; prepare them in the same way beforehand"
        return None

    def merged(self, other: Columns) -> Columns:
        """Return the columns of a learner of the rows of two; see `why_not_merged`."""
        first = self if self.layout.names is not None else other
        after, own = copy.copy(first.preparation), (self.preparation.means, other.preparation.means)
        sums = [one.sums for one in own if one is not None and one.sums is not None]
        if after.means is not None and sums:
            after.means.sums = np.sum(sums, axis=0)
        return first._with(after)

    def to_state(self) -> dict[str, Any]:
        layout = self.layout
        plain = set(layout.kinds) == {NUMBER}
        return {
            "names": None if layout.names is None else list(layout.names),
            "kinds": len(layout.kinds) if plain else list(layout.kinds),
            "orders": None if plain else list(layout.orders),
            "options": asdict(self.options),
            "preparation": self.preparation.to_state(),
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Return what `to_state` described, from an untrusted file; raise a StateError."""
        require(isinstance(state, dict), "the columns are not a table")
        entries = {"names", "kinds", "orders", "options", "preparation"}
        require(set(state) == entries, "the columns have other entries than they should")
        names, kinds, orders = (state[name] for name in ("names", "kinds", "orders"))
        if orders is None:
            number = checked_count(kinds, "kinds", 1)
            require(number <= MOST_COLUMNS, "the columns are too many")
            kinds, orders = [NUMBER] * number, [ISO] * number
        text = isinstance(kinds, list) and all(kind in KINDS for kind in kinds)
        require(text and kinds, "kinds are not those of columns")
        if names is not None:
            named = isinstance(names, list) and all(type(name) is str for name in names)
            require(named and len(names) == len(kinds), "names do not fit the columns")
        text = isinstance(orders, list) and all(order in ORDERS for order in orders)
        require(text and len(orders) == len(kinds), "orders do not fit the columns")
        layout = Layout(None if names is None else tuple(names), tuple(kinds), tuple(orders))
        options = state["options"]
        known = isinstance(options, dict) and set(options) == set(asdict(Options()))
        require(known and type(options["slots"]) is int, "options are not those of columns")
        columns = cls(layout, Options(**options))
        columns.preparation.restore(state["preparation"])
        return columns


def has_gaps(rows: Array) -> bool:
    """Return whether a value is NaN; the sum of finite numbers and infinities may be NaN too."""
    return bool(rows.size) and bool(np.isnan(rows.min()))


def one_vector(x: Any) -> Any:
    """Return a vector as one row; its values may be numbers or anything else."""
    values = np.asarray(x)
    values = values if values.dtype.kind in "biuf" else np.array(x, dtype=object)
    return values.reshape(1, -1)


def table_of_dict(x: Mapping[Any, Any]) -> pa.Table:
    """Return the first row of a model, given as a dict, as a table."""
    return pa.table({str(name): [value] for name, value in x.items()})
