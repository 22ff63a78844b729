"""Rows on their way in: from JSON to what is kept and what is learned.

A row is a list in the order of the columns or an object with their names. What is kept in the
journal is what came: float64 numbers where all columns are numbers, msgpack where some are
categories.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pronk.serve import floats
from pronk.serve.errors import Refused
from pronk.serve.spec import Spec
from pronk.streams.dates import CLOCK, ISO
from pronk.streams.values import BOOLEAN, CATEGORY, NUMBER, as_number

Array = NDArray[np.float64]

#: As the learners have it: larger values overflow when they are squared.
LARGEST = 1e150
_unpack = msgspec.msgpack.decode


class Columns:
    """The columns of a model: checks rows, packs them for the journal, makes matrices of them."""

    def __init__(self, spec: Spec) -> None:
        columns = spec.column_list()
        self.names = [column.name for column in columns]
        self.places = {name: place for place, name in enumerate(self.names)}
        self.kinds = [column.kind for column in columns]
        self.orders = [column.dates for column in columns]
        self.plain = set(self.kinds) == {NUMBER}
        self.fills = spec.missing == "mean"
        number = float | None if self.fills else float
        self.key = spec.key
        mixed = self.key is not None or not self.plain
        value: Any = int | float | str | bool | None if mixed else number
        #: What msgspec checks a row against.
        self.row_type: Any = list[value] | dict[str, value]

    def pack(self, rows: Sequence[Any]) -> bytes:
        """Rows as the journal keeps them; what cannot be learned is refused with row and column."""
        if self.key is not None:
            return self._pack_keyed(rows)
        if isinstance(rows, np.ndarray):
            return self.pack_array(rows)
        if len(rows) == 1 and self.plain:
            packed = self._pack_one(rows[0])
            if packed is not None:
                return packed
        if not rows:
            raise Refused(422, "rows: there must be at least one")
        if not self.plain:
            return self._pack_mixed([self._ordered(row, i) for i, row in enumerate(rows)])
        return self.pack_array(self._array(rows))

    def _pack_keyed(self, rows: Sequence[Any]) -> bytes:
        """The keys, and the rows without them."""
        if not len(rows) or isinstance(rows, np.ndarray):
            raise Refused(422, f"rows: there must be at least one, with its {self.key!r}")
        parts = [self._split(row, number) for number, row in enumerate(rows)]
        rest = [self._ordered(row, number) for number, (_, row) in enumerate(parts)]
        packed = self._pack_mixed(rest)
        if self.plain:
            packed = self.pack_array(np.array(rest, dtype=np.float64))
        return floats.encode([[key for key, _ in parts], packed])

    def _split(self, row: Any, number: int) -> tuple[Any, Any]:
        """The key of a row, and the rest."""
        if isinstance(row, dict):
            if self.key not in row:
                raise Refused(422, f"row {number} has no {self.key!r}, which is its key")
            key = row[self.key]
            rest: Any = {name: value for name, value in row.items() if name != self.key}
        else:
            key, rest = (row[0] if row else None), list(row[1:])
        if isinstance(key, float) and key.is_integer() and abs(key) < 2**53:
            key = int(key)
        if isinstance(key, bool) or not isinstance(key, str | int) or len(str(key)) > 200:
            raise Refused(422, f"row {number}, {self.key!r}: a key is short text or a whole number")
        return key, rest

    def keys(self, packed: bytes) -> list[Any]:
        """The keys of packed rows of a keyed model."""
        found: list[Any] = _unpack(packed)[0]
        return found

    def _pack_one(self, row: Any) -> bytes | None:
        """One row of numbers without a detour through NumPy; None if it must take it."""
        if not isinstance(row, list) or len(row) != len(self.names) or None in row:
            return None
        if not (max(row) <= LARGEST and min(row) >= -LARGEST):
            return None
        return array("d", row).tobytes()

    def _array(self, rows: Sequence[Any]) -> Array:
        found = floats.table(rows, len(self.names))
        if found is not None:
            return found
        try:
            values = np.array(rows, dtype=np.float64)  # None becomes NaN
        except (TypeError, ValueError):  # objects among them, or other lengths
            values = np.empty(0)
        if values.ndim == 2 and values.shape[1] == len(self.names):
            return values
        return np.array([self._ordered(row, i) for i, row in enumerate(rows)], dtype=np.float64)

    def pack_array(self, values: Array) -> bytes:
        """Rows of numbers that are an array already."""
        bad = ~(np.abs(values) <= LARGEST)
        if self.fills:
            bad &= ~np.isnan(values)
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            self._complain(row, column, float(values[row, column]))
        return values.tobytes()

    def _ordered(self, row: Any, number: int) -> list[Any]:
        if isinstance(row, dict):
            if row.keys() != self.places.keys():
                raise Refused(422, self._names_differ(row, number))
            return [row[name] for name in self.names]
        if len(row) != len(self.names):
            raise Refused(
                422, f"row {number} has {len(row)} values; the model has {len(self.names)} columns"
            )
        return list(row)

    def _names_differ(self, row: dict[str, Any], number: int) -> str:
        missing = [name for name in self.names if name not in row]
        if missing:
            return f"row {number} has no column {missing[0]!r} (null is a missing value)"
        unknown = next(name for name in row if name not in self.places)
        return f"row {number} has the unknown column {unknown[:100]!r}"

    def _pack_mixed(self, rows: list[list[Any]]) -> bytes:
        for number, row in enumerate(rows):
            for place, value in enumerate(row):
                self._check_value(number, place, value)
                if isinstance(value, int) and not -(2**63) <= value < 2**64:  # no msgpack
                    row[place] = str(value) if self.kinds[place] == CATEGORY else float(value)
        return floats.encode(rows)

    def _check_value(self, row: int, place: int, value: Any) -> None:
        """One value against the kind of its column."""
        kind = self.kinds[place]
        if value is None:
            if kind != CATEGORY and not self.fills:
                self._complain(row, place, math.nan)
        elif kind == CATEGORY:
            if not isinstance(value, str | bool | int | float):
                self._wrong_kind(row, place, "text", value)
        elif kind == BOOLEAN:
            if not isinstance(value, str | bool | int | float) or as_number(value, kind) not in (
                0.0,
                1.0,
            ):
                self._wrong_kind(row, place, "true or false", value)
        elif kind != NUMBER and isinstance(value, str):
            if math.isnan(as_number(value, kind, self.orders[place])):
                name, year = self.names[place], ""
                if self.orders[place] == ISO and kind != CLOCK:
                    year = ", with the year first (see dates)"
                raise Refused(422, f"row {row}, column {name!r}: not a {kind}{year}")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong_kind(row, place, "a number" if kind == NUMBER else f"a {kind}", value)
        elif not abs(value) <= LARGEST:
            self._complain(row, place, value)

    def _complain(self, row: int, column: int, value: float) -> None:
        name = self.names[column]
        if value != value:
            raise Refused(
                422,
                f"row {row}, column {name!r}: the value is missing; create the model with "
                "missing=mean to have it filled in",
            )
        raise Refused(422, f"row {row}, column {name!r}: the number is too large; rescale it")

    def _wrong_kind(self, row: int, column: int, wanted: str, value: Any) -> None:
        got = type(value).__name__
        name = self.names[column]
        raise Refused(422, f"row {row}, column {name!r}: expected {wanted}, got {got}")

    def matrix(self, packed: bytes) -> Array:
        """Packed rows as the learner takes them, without their keys."""
        if self.key is not None:
            packed = _unpack(packed)[1]
        if self.plain:
            return np.frombuffer(packed).reshape(-1, len(self.names)).copy()
        rows = _unpack(packed)
        out = np.empty((len(rows), len(self.names)))
        for place, (kind, order) in enumerate(zip(self.kinds, self.orders, strict=True)):
            out[:, place] = [as_number(row[place], kind, order) for row in rows]
        return out

    def values(self, packed: bytes) -> list[list[Any]]:
        """Packed rows as they came, without their keys."""
        if self.key is not None and not self.plain:
            packed = _unpack(packed)[1]
        found: list[list[Any]] = self.matrix(packed).tolist() if self.plain else _unpack(packed)
        return found

    def explain(self, rows: Any) -> None:
        """Say which row and column of a body that msgspec refused is wrong, if one is."""
        if not isinstance(rows, list):
            raise Refused(422, "rows must be a list of rows")
        for number, row in enumerate(rows):
            if not isinstance(row, list | dict):
                raise Refused(422, f"row {number} must be a list of values or an object")
            if self.key is not None:
                row = self._split(row, number)[1]
            for place, value in enumerate(self._ordered(row, number)):
                self._check_value(number, place, value)
