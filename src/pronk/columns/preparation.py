"""Convert missing values, categories and times to columns of a learner.

    missing      a NaN becomes the mean of its column so far, 0 before the first value
    categories   a category becomes one of a fixed number of slots; its slot is 1/sqrt(2) and the
                 others are 0, so that two different categories are at distance 1, as the two ends
                 of a column under min-max scaling. A missing category has no slot: all are 0.
    times        a point in time becomes the hour of the day, the day of the week and the day of the
                 year, each as a point on a circle of diameter 1, so that midnight is near midnight;
                 and the days since the first row, a number like others. A date has no hour, and a
                 clock time nothing else. A missing time is at the centres of the circles.

"onehot" assigns slots in the order in which categories appear. When all slots are assigned, a
further category is a vector of random signs over all slots, of the same length, drawn from the
category's code (see `pronk.columns.values`): two such vectors have an inner product of
0 +- 1/sqrt(slots) of their squared length, so that categories beyond the slots are nearly at
distance 1 too and none coincide. "hash" derives the slot from the category's code, so that
different categories may share a slot. Both remember at most `MOST_CATEGORIES` categories.

As everywhere, a row joins the statistics first and is then transformed by them, and cutting the
stream into blocks differently changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.columns.dates import CLOCK, DATE, DAY_FIRST, ISO, MONTH_FIRST, TIME
from pronk.columns.values import BOOLEAN, CATEGORY, NUMBER, NUMERIC
from pronk.core.arrays import Array
from pronk.core.state import Numbers, Sizes, load_part, require

ENCODINGS = ("onehot", "hash")
#: Slots per categorical column, and categories per column that are remembered.
SLOTS, MOST_CATEGORIES = 32, 4096
#: Seconds since 1970 beyond any calendar.
FARTHEST = 1e15
#: Rows that are added at a time.
_BLOCK = 1024
_HEIGHT = np.sqrt(0.5)
_DAY = 86400.0


class Means:
    """Replace NaN by the mean of its column so far.

    >>> import numpy as np
    >>> from pronk.columns.preparation import Means
    >>> print(Means().learn_transform(np.array([[np.nan], [4.0], [6.0], [np.nan]]))[:, 0])
    [0. 4. 6. 5.]
    """

    def __init__(self) -> None:
        self.sums: Array | None = None  # sums and counts of the values, (2, columns)

    def learn_transform(self, X: Array) -> Array:
        """Learn the rows and return them filled in, each by the rows up to itself."""
        self.sums = self._so_far(X)
        if not np.isnan(X.min()):
            self.sums = self.plus(X).sums
            return X
        known = ~np.isnan(X)
        # The carried sums are the first term, so that any cut adds in the same order.
        values = np.cumsum(np.concatenate([self.sums[:1], np.where(known, X, 0.0)]), axis=0)[1:]
        counts = self.sums[1] + np.cumsum(known, axis=0)
        self.sums = np.stack([values[-1], counts[-1]])
        return np.where(known, X, values / np.maximum(counts, 1.0))

    def _so_far(self, X: Array) -> Array:
        return np.zeros((2, X.shape[1])) if self.sums is None else self.sums

    def plus(self, X: Array) -> Means:
        """Return the means after rows without a gap, added in the same order."""
        after = Means()
        sums = self._so_far(X)
        if len(X) == 1:
            after.sums = sums + 1.0  # the counts; the sums are replaced
            np.add(sums[:1], X, out=after.sums[:1])
            return after
        after.sums = sums = sums.copy()
        sums[1] += len(X)
        for start in range(0, len(X), _BLOCK):
            part = np.concatenate([sums[:1], X[start : start + _BLOCK]])
            sums[0] = np.cumsum(part, axis=0)[-1]
        return after

    def transform(self, X: Array) -> Array:
        """Return the rows filled in; changes nothing."""
        sums = self._so_far(X)
        return np.where(np.isnan(X), sums[0] / np.maximum(sums[1], 1.0), X)


class Categories:
    """Convert one column of category codes to ``slots`` columns.

    >>> import numpy as np
    >>> from pronk.columns.preparation import Categories
    >>> print(Categories(3).learn_transform(np.array([8.0, 5.0, 8.0, 7.0])).argmax(1))
    [0 1 0 2]
    """

    def __init__(self, slots: int, encoding: str = "onehot") -> None:
        if encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}; got {encoding!r}")
        if slots < 2:
            raise ValueError(f"slots must be at least 2, got {slots}")
        self.slots = slots
        self.encoding = encoding
        self.most = max(slots, MOST_CATEGORIES)
        self._keep(np.zeros(0))

    def _keep(self, known: Array) -> None:
        """Replace the array of known categories; a copy of this object keeps the old array."""
        self.known = known  # in the order of appearance
        self._order = np.argsort(known)
        self._sorted = known[self._order]

    def learn_transform(self, codes: Array) -> Array:
        """Learn the categories and return the rows."""
        known = codes[~np.isnan(codes)]
        new = known[self._places(known) == len(self.known)]
        if len(new) and len(self.known) < self.most:
            first = np.sort(np.unique(new, return_index=True)[1])
            self._keep(np.concatenate([self.known, new[first]])[: self.most])
        return self.transform(codes)

    def transform(self, codes: Array) -> Array:
        """Return the rows as if each came next; changes nothing."""
        filled = np.zeros((len(codes), self.slots))
        rows = np.flatnonzero(~np.isnan(codes))
        if self.encoding == "hash":
            places = np.mod(codes[rows], self.slots).astype(np.int64)
        else:
            places = self._places(codes[rows])
        own = places < self.slots
        filled[rows[own], places[own]] = _HEIGHT
        if not own.all():
            beyond = rows[~own]
            filled[beyond] = _signs(codes[beyond], self.slots) * (_HEIGHT / np.sqrt(self.slots))
        return filled

    def _places(self, codes: Array) -> NDArray[np.int64]:
        """Return how many categories appeared before each one; for an unknown one, all."""
        if not len(self.known):
            return np.zeros(len(codes), np.int64)
        at = np.minimum(np.searchsorted(self._sorted, codes), len(self.known) - 1)
        return np.where(self._sorted[at] == codes, self._order[at], len(self.known))


def _signs(codes: Array, count: int) -> Array:
    """Return random signs of each category, (rows, count), by SplitMix64's mixing function."""
    step = np.arange(1, -(-count // 64) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = np.ascontiguousarray(codes + 0.0, dtype="<f8").view("<u8")[:, None] + step
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words = (words ^ (words >> np.uint64(31))).astype("<u8")
    bits = np.unpackbits(words.view(np.uint8), axis=1)[:, :count].astype(np.float64)
    return 1.0 - 2.0 * bits


class Times:
    """Convert seconds since 1970, or since midnight, to circles and days since the first row.

    >>> import numpy as np
    >>> from pronk.columns.preparation import Times
    >>> noon = 86400.0 * np.array([[0.5], [1.5]])
    >>> days, circles = Times(["time"]).learn_transform(noon)
    >>> print(days[:, 0], circles[0, :2].round(3))
    [0. 1.] [ 0.  -0.5]
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = list(kinds)
        self.dated = [j for j, kind in enumerate(self.kinds) if kind != CLOCK]
        hands = [(j, hand) for j, kind in enumerate(self.kinds) for hand in _hands(kind)]
        self._columns = [j for j, _ in hands]
        weeks = np.array([hand == "week" for _, hand in hands], dtype=bool)
        # A hand is at (days + offset) / period turns; 1970 began on a Thursday.
        self._offsets, self._periods = np.where(weeks, 3.0, 0.0), np.where(weeks, 7.0, 1.0)
        self._years = [i for i, (_, hand) in enumerate(hands) if hand == "year"]
        self.first: Array | None = None  # the first time of each column; NaN until there is one

    def learn_transform(self, X: Array) -> tuple[Array, Array]:
        """Learn the first times; return days since the first row, and circles."""
        first = np.full(X.shape[1], np.nan) if self.first is None else self.first
        if np.isnan(first.sum()):
            for j in np.flatnonzero(np.isnan(first)):
                known = X[~np.isnan(X[:, j]), j]
                if len(known):
                    first = first.copy()  # a copy of this object keeps the old one
                    first[j] = known[0]
        self.first = first
        return self.transform(X)

    def transform(self, X: Array) -> tuple[Array, Array]:
        """Return the rows as if each came next; changes nothing."""
        first = np.full(X.shape[1], np.nan) if self.first is None else self.first
        since = (X - np.where(np.isnan(first), X, first)) / _DAY
        days = (X / _DAY)[:, self._columns]  # of each clock hand
        gaps = np.isnan(days) if np.isnan(days.sum()) else None
        days = days if gaps is None else np.where(gaps, 0.0, days)
        turns = (days + self._offsets) / self._periods
        turns[:, self._years] = _years(days[:, self._years])
        angles = 2.0 * np.pi * (turns - np.floor(turns))
        circles = np.empty((len(X), 2 * len(self._columns)))
        circles[:, ::2], circles[:, 1::2] = np.sin(angles), np.cos(angles)
        circles *= 0.5
        if gaps is not None:
            circles[np.repeat(gaps, 2, axis=1)] = 0.0
        return since[:, self.dated], circles


def _hands(kind: str) -> tuple[str, ...]:
    """Return the periods of the circles for a kind of time: clock hands."""
    return {CLOCK: ("day",), DATE: ("week", "year")}.get(kind, ("day", "week", "year"))


def _years(days: Array) -> Array:
    """Convert days since 1970 to the elapsed part of their year."""
    whole = np.floor(days).astype(np.int64).astype("datetime64[D]")
    in_year = (whole - whole.astype("datetime64[Y]")).astype(np.float64) + days % 1.0
    return np.asarray(in_year / 365.2425)


class Preparation:
    """Fill in missing values, scale, and append slots of categories and circles of times.

    The learner's columns are the numbers, in their order, the days of times, the slots of each
    category, the circles.

    Parameters
    ----------
    scaler : one of those in `pronk.columns.scaling`
        For the columns that are numbers, or with ``times_only`` for the days of times.
    kinds : kinds of the columns; see `pronk.columns.values`
    missing : "error" or "mean"
    slots, encoding : for each categorical column
    """

    def __init__(
        self,
        scaler: Any,
        kinds: Sequence[str],
        missing: str = "error",
        slots: int = SLOTS,
        encoding: str = "onehot",
        times_only: bool = False,
    ) -> None:
        self.scaler = scaler
        self.kinds = list(kinds)
        self.means = Means() if missing == "mean" else None
        self.numbers = [j for j, kind in enumerate(self.kinds) if kind in NUMERIC]
        self.categorical = [j for j, kind in enumerate(self.kinds) if kind == CATEGORY]
        self.timed = [j for j, kind in enumerate(self.kinds) if kind not in (*NUMERIC, CATEGORY)]
        self.encoders = [Categories(slots, encoding) for _ in self.categorical]
        self.times = Times([self.kinds[j] for j in self.timed]) if self.timed else None
        self._scaled_from = len(self.numbers) if times_only else 0

    def learn_transform(self, X: Array) -> Array:
        """Learn the rows and return those of the learner."""
        return self._apply("learn_transform", X)

    def transform(self, X: Array) -> Array:
        """Return the rows of the learner as if each came next; changes nothing."""
        return self._apply("transform", X)

    def _apply(self, method: str, X: Array) -> Array:
        """Call a method of each part, with the part's columns of the rows."""
        times = None if self.times is None else getattr(self.times, method)(X[:, self.timed])
        numbers = self._numbers(X, times)
        if numbers.shape[1]:
            if self.means is not None:
                numbers = getattr(self.means, method)(numbers)
            numbers = self._scaled(numbers, getattr(self.scaler, method))
        encoders = zip(self.categorical, self.encoders, strict=True)
        slots = [getattr(encoder, method)(X[:, j]) for j, encoder in encoders]
        if times is None and not slots:
            return np.ascontiguousarray(numbers)
        return np.ascontiguousarray(
            np.hstack([numbers, *slots, *(() if times is None else times[1:])])
        )

    def _scaled(self, numbers: Array, scale: Callable[[Array], Array]) -> Array:
        """Return the columns with those scaled that are to be."""
        first = self._scaled_from
        if first == 0 or numbers.shape[1] == first:
            return numbers if first else scale(numbers)
        return np.hstack([numbers[:, :first], scale(np.ascontiguousarray(numbers[:, first:]))])

    def _numbers(self, X: Array, times: tuple[Array, Array] | None) -> Array:
        """Return the columns to scale: the numbers, and the days of times."""
        numbers = X if len(self.numbers) == X.shape[1] else X[:, self.numbers]
        return numbers if times is None else np.hstack([numbers, times[0]])

    def origins(self) -> list[tuple[int, str]]:
        """Return the column that each of the learner's comes from, and what follows its name."""
        days = [] if self.times is None else [(self.timed[j], "#days") for j in self.times.dated]
        pairs = zip(self.categorical, self.encoders, strict=True)
        slots = [(j, f"#{slot}") for j, encoder in pairs for slot in range(encoder.slots)]
        circles = [
            (j, f"#{hand}-{part}")
            for j in self.timed
            for hand in _hands(self.kinds[j])
            for part in ("sin", "cos")
        ]
        return [(j, "") for j in self.numbers] + days + slots + circles

    def __copy__(self) -> Self:
        """Copy each part; parts replace their arrays and never write into them."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.scaler, twin.means = copy.copy(self.scaler), copy.copy(self.means)
        twin.encoders = [copy.copy(encoder) for encoder in self.encoders]
        twin.times = copy.copy(self.times)
        return twin

    def to_state(self) -> dict[str, Any]:
        return {
            "scaler": self.scaler.to_state(),
            "means": None if self.means is None else self.means.sums,
            "categories": [encoder.known for encoder in self.encoders],
            "first_times": None if self.times is None else self.times.first,
        }

    def restore(self, state: Any) -> None:
        """Restore what `to_state` returned, from a file; raise StateError for anything else."""
        require(isinstance(state, dict), "the preparation is not a table")
        entries = {"scaler", "means", "categories", "first_times"}
        require(set(state) == entries, "the preparation has other entries than it should")
        dated = 0 if self.times is None else len(self.times.dated)
        columns = len(self.numbers) + dated
        sizes = load_part(self.scaler, state["scaler"], "scaler")
        scaled = columns - self._scaled_from
        require(sizes.get("columns", scaled) == scaled, "scaler does not fit the columns")
        means = state["means"]
        require(means is None or self.means is not None, "means are unknown")
        if self.means is not None and means is not None:
            self.means.sums = Numbers("means", (2, columns)).checked(means, Sizes())
            require((self.means.sums[1] >= 0.0).all(), "means have a negative count")
        self._restore_categories(state["categories"])
        first = state["first_times"]
        require(first is None or self.times is not None, "first_times are unknown")
        if self.times is not None and first is not None:
            fit = isinstance(first, np.ndarray) and first.shape == (len(self.timed),)
            require(fit and first.dtype == np.float64, "first_times do not fit the columns")
            require(not (np.abs(first) > FARTHEST).any(), "first_times are out of range")
            self.times.first = np.array(first)

    def _restore_categories(self, listed: Any) -> None:
        fit = isinstance(listed, list) and len(listed) == len(self.encoders)
        require(fit, "categories do not fit the columns")
        for encoder, known in zip(self.encoders, listed, strict=True):
            values = Numbers("categories", ("known",)).checked(known, Sizes())
            good = len(np.unique(values)) == len(values) <= encoder.most
            require(good, "categories are more than can be kept, or twice")
            encoder._keep(values)


def prepare(preparation: Preparation, rows: Array, weights: Array | None) -> Array:
    """Learn the rows and return those of the learner; rows of weight 0 are only transformed."""
    if weights is None or (weights > 0.0).all():
        return preparation.learn_transform(rows)
    cuts = [0, *(np.flatnonzero(np.diff(weights > 0.0)) + 1).tolist(), len(rows)]
    return np.concatenate(
        [
            preparation.learn_transform(rows[start:stop])
            if weights[start] > 0.0
            else preparation.transform(rows[start:stop])
            for start, stop in pairwise(cuts)
        ]
    )


# -- descriptions of columns ---------------------------------------------------------------------
#
# A column is described by a dict with its name and kind. A category has the number of categories
# seen, of its slots, and of the categories beyond the slots; a date has how dates with the year
# last are read. ``unread`` counts text that is not a date and was treated as missing, ``hours``
# times of day in a column of dates, ``infinite`` infinite numbers.

#: The kind of a column that is left out.
DROPPED = "dropped"
_WORDS = {
    NUMBER: "number",
    BOOLEAN: "true or false",
    TIME: "date and time",
    DATE: "date",
    CLOCK: "time of the day",
    DROPPED: "not a feature",
}
_ORDERS = {ISO: "", DAY_FIRST: ", day first", MONTH_FIRST: ", month first"}
#: Names of a group of columns that are printed.
_NAMED = 8


def column(name: str, kind: str, order: str, encoder: Categories | None = None) -> dict[str, Any]:
    """Describe a column that is used."""
    found: dict[str, Any] = {"name": name, "kind": kind}
    if encoder is not None:
        categories = len(encoder.known)
        found |= {"categories": categories, "slots": encoder.slots}
        if encoder.encoding != "hash" and categories > encoder.slots:
            found["beyond"] = categories - encoder.slots
    elif kind in (TIME, DATE):
        found["dates"] = order
    return found


def column_in_words(found: dict[str, Any]) -> str:
    """Describe a column in words, without its name."""
    if found["kind"] == CATEGORY:
        if "categories" not in found:
            return "category"
        beyond = f", {found['beyond']:,} of them beyond the slots" if "beyond" in found else ""
        words = "1 category" if found["categories"] == 1 else f"{found['categories']:,} categories"
        return f"{words}{beyond}"
    unread = f", {found['unread']['rows']:,} not read" if "unread" in found else ""
    return f"{_WORDS[found['kind']]}{_ORDERS[found.get('dates', ISO)]}{unread}"


def columns_in_words(columns: Sequence[dict[str, Any]]) -> str:
    """Describe all columns in one line; columns with the same description are grouped."""
    groups: dict[str, list[str]] = {}
    for found in columns:
        groups.setdefault(column_in_words(found), []).append(found["name"])
    return "; ".join(f"{_listed(names)}: {words}" for words, names in groups.items())


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def notes(columns: Sequence[dict[str, Any]]) -> list[str]:
    """Return notes on columns with too many categories, unread text or unused hours."""
    found_notes = []
    for found in columns:
        column = f"column {found['name']!r}"
        if "beyond" in found:
            found_notes.append(
                f"{column} has {found['categories']:,} categories and {found['slots']} slots; the "
                f"last {found['beyond']:,} are distinguished less well"
            )
        if "unread" in found:
            rows, row, value = (found["unread"][key] for key in ("rows", "first", "value"))
            what = "number" if found["kind"] == NUMBER else "date or time"
            found_notes.append(
                f"{column} does not read as a {what} in {rows:,} rows, treated as missing: "
                f"first {value[:40]!r} at row {row} (counting from 0)"
            )
        if "infinite" in found:
            rows, row = (found["infinite"][key] for key in ("rows", "first"))
            found_notes.append(
                f"{column} is infinite in {rows:,} rows, treated as missing: first at row {row} "
                "(counting from 0)"
            )
        if "hours" in found:
            rows, row, value = (found["hours"][key] for key in ("rows", "first", "value"))
            found_notes.append(
                f"{column} began with dates without a time of day, so the hours of {rows:,} rows "
                f"are not used: first {value[:40]!r} at row {row} (counting from 0); give the "
                "first row a time (2015-01-31 00:00) to use them"
            )
    return found_notes
