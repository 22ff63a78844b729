"""Declared state: a class lists what it holds, and saving, validation and roll-back follow.

    class Ledger(Stateful):
        STATE = (
            Numbers("sums", ("size", "outputs")),
            Numbers("places", ("size",), whole=True, low=0),
            Count("rows", attribute="rows"),
            Part("factor", sizes={"size": "size"}),
        )

has `to_state` and `restore` for files, `snapshot` and `roll_back` for calls that raise.

**Validation.** A state may come from an untrusted file, so everything is checked before an
array reaches compiled code: the fields are those of the table and no others; kind, dimensions and
contents are what the table says; a size that two fields name is the same in both. Sizes known
beforehand (`_sizes`) are compared, others are learned from the first field that names them. What
does not fit raises a `StateError` that names the field.

**Snapshots.** A snapshot holds as little as possible. What it must hold depends on how the class
changes an array, which a field states in one word, ``written``:

    "in place"   any entry may change at any time          the snapshot copies the array
    "replaced"   a change assigns a new array              the snapshot shares the array
    "slots"      some entries change, announced by         the snapshot shares the array and gets
                 `_save_slots`                             the old entries before they change
    "appended"   rows are added behind the others          the snapshot shares the array and has
                 (`Rows`)                                  its length
    "computed"   the attribute is computed from others     nothing

A class that writes in place to a "replaced" array from time to time (the sums of a block engine)
calls `_writable` first, which copies the array if a snapshot shares it. Attributes that are not
saved but change with the state are in the same table (`Unsaved`); caches are dropped or recomputed
by the hook `_update_derived` after `restore` and `roll_back`.

One snapshot at a time: the next one ends the one before, which can no longer be rolled back to
once the object has changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

#: How a class changes what an attribute holds; see above.
Written = Literal["in place", "replaced", "slots", "appended", "computed"]

#: No number of a state is larger: sums of products of the largest inputs stay below.
LARGEST = 1e300
#: No target is larger: sums of their squares, weighted, stay below LARGEST for 1e10 rows.
LARGEST_TARGET = 1e140
#: No count is larger: a double still holds it exactly.
MOST = 2**53


class StateError(ValueError):
    """Raised for a state that does not fit the object to be restored; the text names the field."""


def require(good: Any, text: str) -> None:
    """Raise a StateError with the text, unless ``good``."""
    if not good:
        raise StateError(text)


class Sizes(dict[str, int]):
    """Named sizes of arrays: known ones are compared, others learned."""

    def agree(self, term: str | int, got: int, field: str) -> None:
        """Raise if a dimension of ``field`` is not the number or the known size ``term``."""
        if isinstance(term, int):
            require(got == term, f"{field} has a dimension {got}, not {term}")
            return
        known = self.setdefault(term, got)
        require(got == known, f"{field} has {got} {term} where {known} are known")


# -- fields: the entries of a table ------------------------------------------------------------


class Field:
    """One entry of a table: its name in the file and the attribute that holds it."""

    written: Written = "replaced"
    #: Whether it is part of `to_state`; what is not is only rolled back.
    saved = True

    def __init__(self, name: str, attribute: str | None = None) -> None:
        self.name = name
        self.attribute = "_" + name if attribute is None else attribute

    def expected(self, owner: Any, held: bool) -> bool:
        """Return whether the state of a new owner must have the field; ``held``: it does."""
        return True

    def dump(self, owner: Any) -> Any:
        """Return the value for the file; None where there is none."""
        return getattr(owner, self.attribute)

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        """Return the value for the attribute from that of a file, checked."""
        raise NotImplementedError

    def missing(self, owner: Any, sizes: Sizes) -> Any:
        """Return the value for the attribute where the file has none."""
        return None

    def snapshot(self, owner: Any) -> Any:
        """Return what `roll_back` needs to put the attribute back."""
        value = getattr(owner, self.attribute)
        return value.copy(order="K") if self.written == "in place" and value is not None else value

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        """Put the attribute back."""
        setattr(owner, self.attribute, snapshot)


class Unsaved(Field):
    """An attribute that changes with the state and is not in files: it follows from the rest."""

    saved = False

    def __init__(self, attribute: str, *, written: Written = "replaced") -> None:
        super().__init__(attribute, attribute)
        self.written = written


class Numbers(Field):
    """An array. ``shape`` has names of sizes and numbers; all values lie in [low, high].

    ``whole``: of 64-bit integers, or with ``whole="float"`` doubles without a fraction;
    ``single``: of single precision.
    ``structure``: "lower" (triangular, pivots above 0), "definite" (has a Cholesky factor),
    "permutation" (of 0, 1, ...), "increasing" (strictly). ``optional``: the attribute may be None.
    """

    def __init__(
        self, name: str, shape: tuple[str | int, ...], attribute: str | None = None, *,
        low: float = -LARGEST, high: float | str = LARGEST, whole: bool | str = False,
        single: bool = False, structure: str | None = None, order: Any = "C",
        optional: bool = False, written: Written = "in place",
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.shape, self.low, self.high, self.whole = shape, low, high, whole
        self.structure, self.order, self.optional = structure, order, optional
        self.written = written
        self.dtype = np.int64 if whole is True else np.float32 if single else np.float64

    def expected(self, owner: Any, held: bool) -> bool:
        return held if self.optional else True

    def dump(self, owner: Any) -> Any:
        array = getattr(owner, self.attribute)
        return None if array is None else array.copy()

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        return self.checked(value, sizes)

    def checked(self, value: Any, sizes: Sizes) -> NDArray[Any]:
        """Return a copy of the array; raise if it is not what the table says."""
        name, dtype = self.name, self.dtype
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


class LowerTriangle(Numbers):
    """A square matrix whose lower triangle counts; saved as the rows of that triangle in a line.

    A leading block is a first part of the line. Above the diagonal a restored matrix is 0.
    """

    def __init__(self, name: str, size: str, attribute: str | None = None, **options: Any) -> None:
        super().__init__(name, (size, size), attribute, **options)

    def dump(self, owner: Any) -> Any:
        array = getattr(owner, self.attribute)
        return array[_lower(len(array))]

    def checked(self, value: Any, sizes: Sizes) -> NDArray[Any]:
        name, count = self.name, value.size if isinstance(value, np.ndarray) else 0
        n = (math.isqrt(8 * count + 1) - 1) // 2
        require(isinstance(value, np.ndarray) and value.ndim == 1, f"{name} is not a triangle")
        require(value.dtype == np.float64, f"{name} has numbers of kind {value.dtype}")
        require(n * (n + 1) // 2 == count, f"{name} has {count} numbers, which make no triangle")
        sizes.agree(self.shape[0], n, name)
        array = np.zeros((n, n), order=self.order)
        array[_lower(n)] = value
        self._check_values(array, sizes)
        return array


def _lower(size: int) -> NDArray[np.bool_]:
    """Return where the lower triangle of a matrix (size, size) is."""
    return _small_lower(size) if size <= 256 else np.tri(size, dtype=np.bool_)


@lru_cache(maxsize=64)
def _small_lower(size: int) -> NDArray[np.bool_]:
    return np.tri(size, dtype=np.bool_)


def _has_factor(array: NDArray[Any]) -> bool:
    """Return whether the lower triangle has a Cholesky factor, with the jitter of `cholesky`."""
    jitter = 1e11 * np.finfo(np.float64).eps * np.abs(np.diagonal(array)).max()
    _, info = dpotrf(array + jitter * np.eye(len(array)), lower=1, overwrite_a=1)
    return bool(info == 0)


class Rows(Numbers):
    """A `GrowingRows`: written by "appended" rows, or "in place" too. None stays None."""

    def __init__(self, name: str, shape: tuple[str | int, ...], *args: Any, **options: Any):
        super().__init__(name, shape, *args, **{"written": "appended", **options})

    def expected(self, owner: Any, held: bool) -> bool:
        return getattr(owner, self.attribute) is not None

    def dump(self, owner: Any) -> Any:
        rows = getattr(owner, self.attribute)
        return None if rows is None else rows.values.copy()

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        rows = type(getattr(owner, self.attribute))
        return rows.from_state(self.checked(value, sizes))

    def snapshot(self, owner: Any) -> Any:
        rows = getattr(owner, self.attribute)
        return rows, None if rows is None else rows.snapshot(copy=self.written == "in place")

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        roll_back_part(self, owner, snapshot)


class Fixed(Field):
    """A number, or an array of a shape, that the new owner has already."""

    def __init__(
        self, name: str, attribute: str | None = None, shape: tuple[str, ...] = ()
    ) -> None:
        super().__init__(name, attribute)
        self.shape = shape

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        held = getattr(owner, self.attribute)
        kinds = (np.ndarray,) if self.shape else (int, float)
        same = type(value) in kinds and np.array_equal(value, held)
        require(same, f"{self.name} is not what the parameters make it")
        for term, got in zip(self.shape, np.shape(held), strict=True):
            sizes.agree(term, got, self.name)
        return held


class Count(Field):
    """A whole number in [low, high]; a ``high`` that names a size is below it.

    ``size``: the number is a size of that name.
    """

    def __init__(
        self, name: str, attribute: str | None = None, *, low: int = 0, high: int | str = MOST,
        size: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.low, self.high, self.size = low, high, size

    def load(self, owner: Any, value: Any, sizes: Sizes) -> int:
        high = sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        count = checked_count(value, self.name, self.low, high)
        if self.size:
            sizes.agree(self.size, count, self.name)
        return count


def checked_count(value: Any, name: str, low: int = 0, high: int = MOST) -> int:
    """Return a whole number in [low, high]; raise for anything else."""
    require(type(value) is int, f"{name} is not a whole number")
    require(low <= value <= high, f"{name} is outside [{low}, {high}]")
    return int(value)


class Real(Field):
    """A number in [low, high]."""

    def __init__(
        self, name: str, attribute: str | None = None, *, low: float = -LARGEST,
        high: float = LARGEST,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.low, self.high = low, high

    def load(self, owner: Any, value: Any, sizes: Sizes) -> float:
        require(type(value) in (int, float), f"{self.name} is not a number")
        require(self.low <= value <= self.high, f"{self.name} is outside its range")
        return value


class Places(Field):
    """A list of whole numbers in [0, high), increasing; replaced, never written in place."""

    def __init__(self, name: str, attribute: str | None = None, *, high: str) -> None:
        super().__init__(name, attribute)
        self.high = high

    def dump(self, owner: Any) -> Any:
        return list(getattr(owner, self.attribute))

    def load(self, owner: Any, value: Any, sizes: Sizes) -> list[int]:
        require(isinstance(value, list), f"{self.name} is not a list")
        places = [checked_count(v, self.name, 0, sizes[self.high] - 1) for v in value]
        require(places == sorted(set(places)), f"{self.name} are not increasing")
        return places


class Part(Field):
    """A `Stateful` inside; ``sizes`` says which of its sizes are which of the owner's.

    A part that a new owner does not have is not in the state, except where ``make`` names the
    owner's method that makes an empty one. ``saved`` False: rolled back, but not in files.
    """

    def __init__(
        self, name: str, attribute: str | None = None, *, sizes: Mapping[str, str] | None = None,
        make: str | None = None, saved: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(name, attribute)
        self.sizes, self.make, self.saved = dict(sizes or {}), make, saved

    def expected(self, owner: Any, held: bool) -> bool:
        return held if self.make else getattr(owner, self.attribute) is not None

    def dump(self, owner: Any) -> Any:
        part = getattr(owner, self.attribute)
        return None if part is None else part.to_state()

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        part = getattr(owner, self.make)() if self.make else getattr(owner, self.attribute)
        self._load_part(part, value, sizes, self.name)
        return part

    def _load_part(self, part: Stateful, value: Any, sizes: Sizes, field: str) -> None:
        inner = load_part(part, value, field)
        for own, outer in self.sizes.items():
            sizes.agree(outer, inner[own], f"{field} ({own})")

    def snapshot(self, owner: Any) -> Any:
        part = getattr(owner, self.attribute)
        return part, None if part is None else part.snapshot()

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        roll_back_part(self, owner, snapshot)


def roll_back_part(field: Field, owner: Any, snapshot: Any) -> None:
    """Put back an object that makes its own snapshots, and roll it back."""
    part, held = snapshot
    if part is not None:
        part.roll_back(held)
    setattr(owner, field.attribute, part)


def load_part(part: Stateful, value: Any, field: str) -> Sizes:
    """Restore a part and return its sizes; errors name the field that holds the part."""
    try:
        return part._load(value)
    except StateError as error:
        raise StateError(f"{field}/{error}") from None


class Parts(Part):
    """A list of `Stateful` objects, as long as that of a new owner."""

    def expected(self, owner: Any, held: bool) -> bool:
        return True

    def dump(self, owner: Any) -> Any:
        return [part.to_state() for part in getattr(owner, self.attribute)]

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        parts = getattr(owner, self.attribute)
        require(isinstance(value, list), f"{self.name} is not a list")
        require(len(value) == len(parts), f"{self.name} has {len(value)} entries")
        for i, (part, saved) in enumerate(zip(parts, value, strict=True)):
            self._load_part(part, saved, sizes, f"{self.name}/{i}")
        return parts

    def snapshot(self, owner: Any) -> Any:
        parts = getattr(owner, self.attribute)
        return list(parts), [part.snapshot() for part in parts]

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        parts, held = snapshot
        for part, state in zip(parts, held, strict=True):
            part.roll_back(state)
        setattr(owner, self.attribute, parts)


# -- slots that a call writes over -------------------------------------------------------------


class Overwritten:
    """Entries of arrays as they were before they were written over.

    A slot is an index along one axis, of several arrays together (a point, its norm, its features).
    """

    def __init__(self) -> None:
        self._saved: list[tuple[Any, list[tuple[NDArray[Any], int, NDArray[Any]]]]] = []
        self._whole: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def save_whole(self, array: NDArray[Any]) -> None:
        """Copy all entries of an array."""
        self._whole.append((array, array.copy()))

    def save(self, slots: NDArray[np.intp], arrays: Sequence[tuple[NDArray[Any], int]]) -> None:
        """Copy slots of the arrays, given with the axis of their slots; each slot once."""
        first = arrays[0][0]
        done = [known for known, entries in self._saved if entries[0][0] is first]
        if done:
            slots = np.setdiff1d(slots, np.concatenate(done))
        if len(slots):
            copies = [(array, axis, array.take(slots, axis)) for array, axis in arrays]
            self._saved.append((slots.copy(), copies))

    def put_back(self) -> None:
        """Write the old entries back."""
        for slots, entries in self._saved:
            for array, axis, values in entries:
                array[(*[slice(None)] * axis, slots)] = values
        for array, values in self._whole:
            array[...] = values


# -- objects with a state ----------------------------------------------------------------------


class Stateful:
    """An object whose state is the table ``STATE``."""

    STATE: ClassVar[tuple[Field, ...]] = ()
    _plan: ClassVar[Plan]
    #: Attributes with arrays that a snapshot shares.
    _shared: frozenset[str] = frozenset()
    #: Where the snapshot gets slots before they are written.
    _overwritten: Overwritten | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._plan = Plan(cls.STATE)

    # What a class may define:

    def _sizes(self) -> dict[str, int]:
        """Return the sizes that a new object knows before it is restored."""
        return {}

    def _restored(self, sizes: Sizes) -> None:
        """Check what the fields cannot, once all of them are in their places."""

    def _update_derived(self) -> None:
        """Recompute or drop what follows from the state, after `restore` and `roll_back`."""

    # Files:

    def to_state(self) -> dict[str, Any]:
        """Return the state as arrays, numbers and text."""
        values = ((field.name, field.dump(self)) for field in self._plan.saved)
        return {name: value for name, value in values if value is not None}

    def restore(self, state: Any) -> None:
        """Restore the state of an object made with the same arguments.

        Raises a StateError if the state does not fit; the object is then of no use.
        """
        self._load(state)

    def _load(self, state: Any) -> Sizes:
        require(isinstance(state, dict), "the state is not a table")
        sizes = Sizes(self._sizes())
        fields = self._plan.saved
        known = {field.name for field in fields}
        for name in state:
            require(name in known, f"{name} is unknown")
        values: dict[str, Any] = {}
        for field in fields:
            held = state.get(field.name) is not None
            expected = field.expected(self, held)
            require(held == expected, f"{field.name} is {'unknown' if held else 'missing'}")
            values[field.name] = (
                field.load(self, state[field.name], sizes) if held else field.missing(self, sizes)
            )
        self._assign(values)
        self._restored(sizes)
        self._update_derived()
        return sizes

    def _assign(self, values: dict[str, Any]) -> None:
        """Put checked values in their places."""
        for field in self._plan.saved:
            setattr(self, field.attribute, values[field.name])

    # Calls that raise:

    def snapshot(self) -> Any:
        """Return what `roll_back` needs to undo what follows."""
        get_shared, names, copied, others, has_slots = self._plan.snapshot
        shared, self._shared = self._shared, names
        if has_slots:
            self._overwritten = Overwritten()
        return (
            shared,
            self._overwritten,
            get_shared(self),
            [getattr(self, name).copy(order="K") for name in copied] if copied else (),
            [field.snapshot(self) for field in others] if others else (),
        )

    def roll_back(self, snapshot: Any) -> None:
        """Return to the state of a snapshot, which can be used once."""
        plan, (before, overwritten, shared, copies, others) = self._plan, snapshot
        if overwritten is not None:
            overwritten.put_back()
        for name, value in zip(plan.shared, shared, strict=True):
            setattr(self, name, value)
        for name, value in zip(plan.copied, copies, strict=True):
            setattr(self, name, value)
        for field, value in zip(plan.others, others, strict=True):
            field.roll_back(self, value)
        self._shared, self._overwritten = before, None
        self._update_derived()

    def _writable(self, name: str) -> Any:
        """Return a "replaced" array to write to: a copy if a snapshot shares it."""
        array = getattr(self, name)
        if name in self._shared:
            array = array.copy(order="K")
            self._replace(name, array)
        return array

    def _replace(self, name: str, array: Any) -> None:
        """Assign a new array, which no snapshot shares."""
        setattr(self, name, array)
        self._shared -= {name}

    def _save_slots(self, slots: Any, *arrays: tuple[NDArray[Any], int]) -> None:
        """Copy slots of arrays, each given with its axis, for a snapshot before they change."""
        if self._overwritten is not None:
            self._overwritten.save(slots, arrays)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to copy: no snapshot shares those of a copy."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_shared", "_overwritten")}


class Plan:
    """How the fields of a table are saved, and how a snapshot is made in little time."""

    def __init__(self, table: tuple[Field, ...]) -> None:
        self.saved = [field for field in table if field.saved]
        rolled_back = [field for field in table if field.written != "computed"]
        plain = [field for field in rolled_back if type(field).snapshot is Field.snapshot]
        self.shared = [f.attribute for f in plain if f.written in ("replaced", "slots")]
        self.copied = [
            f.attribute
            for f in plain
            if f.written == "in place" and not getattr(f, "optional", False)
        ]
        done = {*self.shared, *self.copied}
        self.others = [f for f in rolled_back if f not in plain or f.attribute not in done]
        has_slots = any(field.written == "slots" for field in table)
        names = frozenset(self.shared)
        self.snapshot = _getter(self.shared), names, self.copied, self.others, has_slots


def _getter(names: list[str]) -> Any:
    """Return a function that makes a tuple of the attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda owner: tuple([getattr(owner, name) for name in names])
