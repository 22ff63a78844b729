"""State by declaration: a class names what it holds, and saving, loading and rolling back follow.

    class Ledger(Stateful):
        STATE = (
            Numbers("sums", ("size", "outputs")),
            Numbers("places", ("size",), whole=True, low=0),
            Count("rows", attribute="rows"),
            Part("factor", sizes={"size": "size"}),
        )

gives `to_state`, `restore`, `snapshot` and `roll_back`. A state may come from a file that anybody
wrote, so everything is checked before an array reaches compiled code: the fields are those of the
table and no others; kind, dimensions and contents are what the table says; a size that two fields
name is the same in both. Sizes known beforehand (`_sizes`) are compared, others are learned from
the first field that names them. What does not fit is a `StateError` that names the field.

`snapshot` remembers the state at little cost and `roll_back` goes back to it. An array is
copied, except where the class says that it is never written in place (``kept``): then the old
array is the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

if TYPE_CHECKING:
    pass  # RELAYOUT

# ----------------------------------------------------------------------------------------
# The kinds of entries of a table of state: each knows how it is saved, checked and marked.
#
# What is checked may come from a file that anybody wrote; what does not fit is a `StateError` that
# names the field.

#: No number of a state is larger: sums of products of the largest inputs stay below.
LARGEST = 1e300
#: No target is larger: sums of their squares, weighted, stay below LARGEST for 1e10 rows.
LARGEST_TARGET = 1e140
#: No count is larger: a double still holds it exactly.
MOST = 2**53


class StateError(ValueError):
    """A state does not fit the object that is to take it; the text names the field."""


def require(good: Any, text: str) -> None:
    """Refuse a state with the text, unless it is good."""
    if not good:
        raise StateError(text)


class Sizes(dict[str, int]):
    """Named sizes: known ones are compared, others learned."""

    def agree(self, term: str | int, got: int, field: str) -> None:
        if isinstance(term, int):
            require(got == term, f"{field} has a dimension {got}, not {term}")
            return
        known = self.setdefault(term, got)
        require(got == known, f"{field} has {got} {term} where {known} are known")


class Field:
    """One entry of a table: its name in the file and the attribute that holds it."""

    def __init__(self, name: str, attribute: str | None = None) -> None:
        self.name = name
        self.attribute = "_" + name if attribute is None else attribute

    def expected(self, owner: Any, held: bool) -> bool:
        """Whether the state of a newly made owner must have the field; ``held``: it does."""
        return True

    def give(self, owner: Any) -> Any:
        """The value for the file; None where there is none."""
        raise NotImplementedError

    def take(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        """The checked value for the attribute."""
        raise NotImplementedError

    def snapshot(self, owner: Any) -> Any:
        return getattr(owner, self.attribute)

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        setattr(owner, self.attribute, snapshot)


class Numbers(Field):
    """An array. ``shape`` has names of sizes and numbers; all values lie in [low, high].

    ``whole``: of 64-bit integers, or with ``whole="float"`` doubles without a fraction.
    ``fixed``: the very array that a new owner has.
    ``marked`` False: a snapshot holds it by ``DERIVED`` attributes, or the class sees to it.
    ``structure``: "lower" (triangular, pivots above 0), "definite" (has a Cholesky factor),
    "permutation" (of 0, 1, ...), "increasing" (strictly). ``optional``: the attribute may be None.
    """

    def __init__(
        self, name: str, shape: tuple[str | int, ...], attribute: str | None = None, *,
        low: float = -LARGEST, high: float | str = LARGEST, whole: bool | str = False,
        structure: str | None = None, order: Any = "C", kept: bool = False, optional: bool = False,
        fixed: bool = False, marked: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.fixed, self.marked = fixed, marked
        self.shape, self.low, self.high, self.whole = shape, low, high, whole
        self.structure, self.order, self.kept, self.optional = structure, order, kept, optional

    def expected(self, owner: Any, held: bool) -> bool:
        return held if self.optional else True

    def give(self, owner: Any) -> Any:
        array = getattr(owner, self.attribute)
        return None if array is None else array.copy()

    def take(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        array = self.checked(value, sizes)
        if self.fixed:
            same = np.array_equal(array, getattr(owner, self.attribute))
            require(same, f"{self.name} is not what the parameters make it")
        return array

    def checked(self, value: Any, sizes: Sizes) -> NDArray[Any]:
        """A copy of the array, if it is what the table says."""
        name, dtype = self.name, np.int64 if self.whole is True else np.float64
        require(isinstance(value, np.ndarray), f"{name} is not an array")
        if value.dtype != dtype:  # the text alone would cost more than the checks
            raise StateError(f"{name} has numbers of kind {value.dtype}, not {dtype}")
        require(value.ndim == len(self.shape), f"{name} has {value.ndim} dimensions")
        for term, got in zip(self.shape, value.shape, strict=True):
            sizes.agree(term, got, name)
        array = np.array(value, order=self.order)
        self._check_values(array, sizes)
        return array

    def _check_values(self, array: NDArray[Any], sizes: Sizes) -> None:
        name = self.name
        if not array.size:
            return
        high = sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        good = array.min() >= self.low and array.max() <= high  # NaN compares as False
        require(good, f"{name} has a value outside [{self.low:g}, {high:g}]")
        if self.whole == "float":
            require((array == np.floor(array)).all(), f"{name} has a fraction")
        if self.structure == "lower":
            require(not np.triu(array, 1).any(), f"{name} is not lower triangular")
            require((np.diagonal(array) > 0.0).all(), f"{name} has a pivot that is not positive")
        elif self.structure == "definite":
            require(_has_factor(array), f"{name} is not positive definite")
        elif self.structure == "permutation":
            same = np.array_equal(np.sort(array), np.arange(len(array)))
            require(same, f"{name} is not a permutation")
        elif self.structure == "increasing":
            require((np.diff(array) > 0).all(), f"{name} is not increasing")

    def snapshot(self, owner: Any) -> Any:
        array = getattr(owner, self.attribute)
        return array if self.kept or array is None else array.copy(order="K")


class LowerTriangle(Numbers):
    """A square matrix of which the lower triangle counts; saved as its rows, one after the other.

    A leading block is a first part of that. Above the diagonal a restored matrix is 0.
    """

    def __init__(self, name: str, size: str, attribute: str | None = None, **options: Any) -> None:
        super().__init__(name, (size, size), attribute, **options)

    def give(self, owner: Any) -> Any:
        array = getattr(owner, self.attribute)
        return array[np.tri(len(array), dtype=np.bool_)]

    def checked(self, value: Any, sizes: Sizes) -> NDArray[Any]:
        name, count = self.name, value.size if isinstance(value, np.ndarray) else 0
        n = (math.isqrt(8 * count + 1) - 1) // 2
        require(isinstance(value, np.ndarray) and value.ndim == 1, f"{name} is not a triangle")
        require(value.dtype == np.float64, f"{name} has numbers of kind {value.dtype}")
        require(n * (n + 1) // 2 == count, f"{name} has {count} numbers, which make no triangle")
        sizes.agree(self.shape[0], n, name)
        array = np.zeros((n, n), order=self.order)
        array[np.tri(n, dtype=np.bool_)] = value
        self._check_values(array, sizes)
        return array


def _has_factor(array: NDArray[Any]) -> bool:
    """Whether the lower triangle has a Cholesky factor, with as much help as `cholesky` gives."""
    help_ = 1e11 * np.finfo(np.float64).eps * np.abs(np.diagonal(array)).max()
    _, info = dpotrf(array + help_ * np.eye(len(array)), lower=1, overwrite_a=1)
    return bool(info == 0)


class Rows(Numbers):
    """A `GrowingRows`. Rows are appended, so its length is the snapshot; not ``kept``: a copy.

    Where a new owner has None, the state has none.
    """

    def __init__(self, name: str, shape: tuple[str | int, str | int], *args: Any, **options: Any):
        super().__init__(name, shape, *args, **{"kept": True, **options})

    def expected(self, owner: Any, held: bool) -> bool:
        return getattr(owner, self.attribute) is not None

    def give(self, owner: Any) -> Any:
        rows = getattr(owner, self.attribute)
        return None if rows is None else rows.values.copy()

    def take(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        rows = type(getattr(owner, self.attribute))
        return rows.from_state(self.checked(value, sizes))

    def snapshot(self, owner: Any) -> Any:
        rows = getattr(owner, self.attribute)
        return rows, None if rows is None else rows.snapshot(copy=not self.kept)

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        rows, held = snapshot
        if rows is not None:
            rows.roll_back(held)
        setattr(owner, self.attribute, rows)


class Count(Field):
    """A whole number in [low, high]; a ``high`` that names a size is below it.

    ``fixed``: the number that the new owner has already, whatever its size. ``size``: the number
    is a size of that name.
    """

    def __init__(
        self, name: str, attribute: str | None = None, *, low: int = 0, high: int | str = MOST,
        fixed: bool = False, size: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.low, self.high, self.fixed, self.size = low, high, fixed, size

    def give(self, owner: Any) -> Any:
        return getattr(owner, self.attribute)

    def take(self, owner: Any, value: Any, sizes: Sizes) -> int:
        if self.fixed:
            return fixed_number(owner, self, value)
        high = sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        count = checked_count(value, self.name, self.low, high)
        if self.size:
            sizes.agree(self.size, count, self.name)
        return count


def checked_count(value: Any, name: str, low: int = 0, high: int = MOST) -> int:
    """A whole number in [low, high], and no other kind of thing."""
    require(type(value) is int, f"{name} is not a whole number")
    require(low <= value <= high, f"{name} is outside [{low}, {high}]")
    return int(value)


class Real(Field):
    """A number in [low, high]; ``fixed``: the one that the new owner has already."""

    def __init__(
        self, name: str, attribute: str | None = None, *, low: float = -LARGEST,
        high: float = LARGEST, fixed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.low, self.high, self.fixed = low, high, fixed

    def give(self, owner: Any) -> Any:
        return getattr(owner, self.attribute)

    def take(self, owner: Any, value: Any, sizes: Sizes) -> float:
        require(type(value) in (int, float), f"{self.name} is not a number")
        if self.fixed:
            return fixed_number(owner, self, value)
        require(self.low <= value <= self.high, f"{self.name} is outside its range")
        return value


def fixed_number(owner: Any, field: Field, value: Any) -> Any:
    """What the owner holds, if the state says the same."""
    held = getattr(owner, field.attribute)
    same = isinstance(value, int | float) and not isinstance(value, bool) and value == held
    require(same, f"{field.name} is not what the parameters make it")
    return held


class Places(Field):
    """A list of whole numbers in [0, high), increasing; never written in place."""

    def __init__(self, name: str, attribute: str | None = None, *, high: str) -> None:
        super().__init__(name, attribute)
        self.high = high

    def give(self, owner: Any) -> Any:
        return list(getattr(owner, self.attribute))

    def take(self, owner: Any, value: Any, sizes: Sizes) -> list[int]:
        require(isinstance(value, list), f"{self.name} is not a list")
        places = [checked_count(v, self.name, 0, sizes[self.high] - 1) for v in value]
        require(places == sorted(set(places)), f"{self.name} are not increasing")
        return places


class Part(Field):
    """A `Stateful` inside; ``sizes`` says which of its sizes are which of the owner's.

    A part that a new owner does not have is not in the state, except where ``make`` names the
    owner's method that makes an empty one.
    """

    def __init__(
        self, name: str, attribute: str | None = None, *, sizes: Mapping[str, str] | None = None,
        make: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.sizes, self.make = dict(sizes or {}), make

    def expected(self, owner: Any, held: bool) -> bool:
        return held if self.make else getattr(owner, self.attribute) is not None

    def give(self, owner: Any) -> Any:
        part = getattr(owner, self.attribute)
        return None if part is None else part.to_state()

    def take(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        part = getattr(owner, self.make)() if self.make else getattr(owner, self.attribute)
        self._take_in(part, value, sizes, self.name)
        return part

    def _take_in(self, part: Stateful, value: Any, sizes: Sizes, field: str) -> None:
        inner = take_part(part, value, field)
        for own, outer in self.sizes.items():
            sizes.agree(outer, inner[own], f"{field} ({own})")

    def snapshot(self, owner: Any) -> Any:
        part = getattr(owner, self.attribute)
        return part, None if part is None else part.snapshot()

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        part, held = snapshot
        if part is not None:
            part.roll_back(held)
        setattr(owner, self.attribute, part)


def take_part(part: Stateful, value: Any, field: str) -> Sizes:
    """Restore a part; errors name the field it stands in."""
    try:
        return part._take(value)
    except StateError as error:
        raise StateError(f"{field}/{error}") from None


class Parts(Part):
    """A list of `Stateful`, as long as that of a new owner."""

    def expected(self, owner: Any, held: bool) -> bool:
        return True

    def give(self, owner: Any) -> Any:
        return [part.to_state() for part in getattr(owner, self.attribute)]

    def take(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        parts = getattr(owner, self.attribute)
        require(isinstance(value, list), f"{self.name} is not a list")
        require(len(value) == len(parts), f"{self.name} has {len(value)} entries")
        for i, (part, saved) in enumerate(zip(parts, value, strict=True)):
            self._take_in(part, saved, sizes, f"{self.name}/{i}")
        return parts

    def snapshot(self, owner: Any) -> Any:
        parts = getattr(owner, self.attribute)
        return list(parts), [part.snapshot() for part in parts]

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        parts, held = snapshot
        for part, state in zip(parts, held, strict=True):
            part.roll_back(state)
        setattr(owner, self.attribute, parts)


#: Who has a state takes all of it from here; the kinds of entries are in `fields`.
__all__ = [
    "LARGEST",
    "LARGEST_TARGET",
    "MOST",
    "Count",
    "Field",
    "LowerTriangle",
    "Numbers",
    "Part",
    "Parts",
    "Places",
    "Real",
    "Rows",
    "Sizes",
    "StateError",
    "Stateful",
    "checked_count",
    "require",
    "take_part",
]


class Stateful:
    """An object whose state is the table ``STATE``.

    ``DERIVED`` names attributes that are no part of the saved state but change with it (a size, a
    cache); they are never written in place, and a snapshot holds them too.
    """

    STATE: ClassVar[tuple[Field, ...]] = ()
    DERIVED: ClassVar[tuple[str, ...]] = ()
    _plan: ClassVar[tuple[Any, ...]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._plan = _plan(cls)

    def _sizes(self) -> dict[str, int]:
        """The sizes that a new object knows before its state comes."""
        return {}

    def _restored(self, sizes: Sizes) -> None:
        """What is left to check or to make once the fields are in their places."""

    def to_state(self) -> dict[str, Any]:
        """The state as arrays, numbers and text."""
        values = ((field.name, field.give(self)) for field in self.STATE)
        return {name: value for name, value in values if value is not None}

    def restore(self, state: Any) -> None:
        """Take over a state of an object made with the same arguments; a StateError if it is none.

        After a StateError the object is of no use.
        """
        self._take(state)

    def _take(self, state: Any) -> Sizes:
        require(isinstance(state, dict), "the state is not a table")
        sizes = Sizes(self._sizes())
        known = {field.name for field in self.STATE}
        for name in state:
            require(name in known, f"{name} is unknown")
        taken: dict[str, Any] = {}
        for field in self.STATE:
            held = state.get(field.name) is not None
            expected = field.expected(self, held)
            require(held == expected, f"{field.name} is {'unknown' if held else 'missing'}")
            taken[field.name] = field.take(self, state[field.name], sizes) if held else None
        self._adopt(taken)
        self._restored(sizes)
        return sizes

    def _adopt(self, values: dict[str, Any]) -> None:
        """Put checked values in their places."""
        for field in self.STATE:
            setattr(self, field.attribute, values[field.name])

    def snapshot(self) -> Any:
        """The state as it is, to `roll_back` what follows."""
        kept, copied, nested = self._plan
        return (
            kept(self) if kept else (),
            [getattr(self, name).copy(order="K") for name in copied],
            [field.snapshot(self) for field in nested],
        )

    @classmethod
    def copied_names(cls) -> list[str]:
        """The attributes with arrays that are written in place."""
        return list(cls._plan[1])

    def roll_back(self, snapshot: Any) -> None:
        """Go back to the snapshot; it can be used once."""
        names = [field.attribute for field in self.STATE if _is_kept(field)]
        for name, value in zip((*names, *self.DERIVED), snapshot[0], strict=True):
            setattr(self, name, value)
        _, copied, nested = self._plan
        for name, value in zip(copied, snapshot[1], strict=True):
            setattr(self, name, value)
        for field, value in zip(nested, snapshot[2], strict=True):
            field.roll_back(self, value)


def _is_kept(field: Field) -> bool:
    """Whether the attribute itself is the snapshot: numbers, arrays never written to."""
    return isinstance(field, Count | Real) or (
        isinstance(field, Numbers) and field.kept and not isinstance(field, Rows)
    )


def _plan(cls: type[Stateful]) -> tuple[Any, ...]:
    """How to snapshot quickly: a getter of what is kept, the names of what is copied, the rest."""
    kept = (*(field.attribute for field in cls.STATE if _is_kept(field)), *cls.DERIVED)
    rest = [f for f in cls.STATE if not _is_kept(f) and getattr(f, "marked", True)]
    copied = [f.attribute for f in rest if type(f) is Numbers and not f.optional]
    nested = [f for f in rest if not (type(f) is Numbers and not f.optional)]
    getter: Any = None
    if len(kept) == 1:
        single = attrgetter(kept[0])
        getter = lambda owner: (single(owner),)  # noqa: E731
    elif kept:
        getter = attrgetter(*kept)
    return getter, copied, nested
