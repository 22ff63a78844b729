"""Views of the source of a file: its rows from the last to the first, its nested columns as flat.

Both are sources themselves, see `pronk.data.source.FileSource`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pronk.data.errors import StreamError
from pronk.data.formats import as_type
from pronk.data.source import FileSource, own_types

#: Most bytes of the columns of a file that is read from its end.
_MOST_BYTES = 1 << 31
#: Rows of text by which a column of JSON objects is found, and the levels that are made flat.
_ROWS, _LEVELS = 64, 4


class Backwards(FileSource):
    """Read a file whose newest row comes first: all of it, then from the last row to the first."""

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        held, size = [], 0
        for batch in self._parts[0].batches(types):
            held.append(batch)
            size += batch.nbytes
            if size > _MOST_BYTES:
                raise StreamError(
                    "the newest row comes first, and the file is too large to be read from its "
                    "end; sort its rows by time"
                )
        for batch in held[::-1]:
            yield batch.take(pa.array(np.arange(batch.num_rows)[::-1].copy()))


class Flat(FileSource):
    """Read the fields of nested columns as columns of their own, named column.field.

    Text that holds JSON objects is nested too, which ``text`` says to look for. Lists stay lists.
    """

    def __init__(self, source: FileSource, text: bool = True) -> None:
        super().__init__(source)
        self._own = source.schema()
        self._objects = self._find_objects() if text else {}
        self._flat = pa.schema([])
        self._roots: dict[str, str] = {}  # the own column of each flat one
        for field in self._own:
            own = pa.schema([field.with_type(self._objects.get(field.name, field.type))])
            for leaf in _flattened(own.empty_table()).schema:
                self._flat = self._flat.append(leaf)
                self._roots[leaf.name] = field.name

    @property
    def changes(self) -> bool:
        """Return whether any column is nested."""
        return any(name != root for name, root in self._roots.items())

    def schema(self) -> pa.Schema:
        return self._flat

    def _find_objects(self) -> dict[str, pa.DataType]:
        """Return the types of columns of text that hold JSON objects, by the first rows."""
        text = {f.name: f.type for f in self._own if pa.types.is_string(f.type)}
        found: dict[str, pa.DataType] = {}
        if not text:
            return found
        start = next(iter(self._parts[0].batches(text)), pa.record_batch([], names=[]))
        for name in text if start.num_columns else ():
            words = start.column(name).slice(0, _ROWS).drop_null().to_pylist()
            if words and all(word.lstrip().startswith("{") for word in words):
                values = [_object(word) for word in start.column(name).to_pylist()]
                try:
                    type_ = pa.array(values).type
                except pa.ArrowException:
                    continue
                if pa.types.is_struct(type_):
                    found[name] = type_
        return found

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        own = own_types(types)
        wanted = {
            root: types[root] if root in types else self._own.field(root).type
            for root in dict.fromkeys(self._roots.get(name, name) for name in own)
        }
        wanted |= {name: kind for name, kind in types.items() if name not in own}
        for batch in self._parts[0].batches(wanted, skip):
            rows = pa.Table.from_batches([batch])
            for place, name in enumerate(rows.column_names):
                if name in self._objects and name not in types:
                    objects = _as_objects(batch.column(name), self._objects[name])
                    rows = rows.set_column(place, name, objects)
            rows = _flattened(rows)
            found = [name for name in types if name in rows.column_names]
            yield from rows.select(found).to_batches()


def _flattened(rows: pa.Table) -> pa.Table:
    """Return a table with the fields of nested columns as columns."""
    for _ in range(_LEVELS):
        rows = rows.flatten()
    return rows


def _object(word: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(word or "null")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _as_objects(column: pa.Array, type_: pa.StructType) -> pa.Array:
    """Convert text to objects of a type; a value that does not fit is missing."""
    values = [_object(word) for word in column.to_pylist()]
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError):
        return pa.array([as_type(value, type_) for value in values], type_)
