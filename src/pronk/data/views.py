"""Views of the source of a file: its rows from the last to the first, its nested columns as flat.

Both are sources themselves, see `pronk.data.source.FileSource`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from pronk.data.errors import StreamError
from pronk.data.formats import as_type
from pronk.data.source import FileSource, own_types, without

#: Most bytes of the columns of a file that is read from its end.
_MOST_BYTES = 1 << 31
#: Rows of text by which a column of JSON objects is found, and the levels that are made flat.
_ROWS, _LEVELS = 64, 4


class Backwards(FileSource):
    """Read a file whose newest row comes first: all of it, then from the last row to the first."""

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        held, size = [], 0
        for batch in self._parts[0].batches(types):
            held.append(batch)
            size += batch.nbytes
            if size > _MOST_BYTES:
                raise StreamError(
                    "the newest row comes first, and the file is too large to be read from its "
                    "end; sort its rows by time"
                )
        held = [
            batch.take(pa.array(np.arange(batch.num_rows)[::-1].copy())) for batch in held[::-1]
        ]
        yield from without(iter(held), skip)


class Flat(FileSource):
    """Read the fields of nested columns as columns of their own, named column.field.

    Text that holds JSON objects is nested too, which ``text`` says to look for. Lists stay lists.
    """

    def __init__(self, source: FileSource, text: bool = True) -> None:
        super().__init__(source)
        self._own = source.schema()
        self._objects = self._find_objects() if text else {}
        self._nested: dict[str, pa.DataType] = {}
        self._flat = pa.schema([])
        for field in self._own:
            self._add(field)

    @property
    def changes(self) -> bool:
        """Return whether any column is nested."""
        return bool(self._nested)

    def schema(self) -> pa.Schema:
        return self._flat

    def _add(self, field: pa.Field) -> None:
        type_ = self._objects.get(field.name, field.type)
        for name, kind in _leaves(field.name, type_):
            self._flat = self._flat.append(pa.field(name, kind))
            if name != field.name:
                self._nested[name] = kind

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
        roots = {name: self._root(name) for name in own}
        wanted = {
            root: types[root] if root in types else self._own.field(root).type
            for root in dict.fromkeys(roots.values())
        }
        wanted |= {name: kind for name, kind in types.items() if name not in own}
        for batch in self._parts[0].batches(wanted, skip):
            columns = [
                self._part(batch, roots[name], name) if name in self._nested else batch.column(name)
                for name in own
            ]
            more = [name for name in types if name not in own and name in batch.schema.names]
            columns += [batch.column(name) for name in more]
            names = [*own, *more]
            yield pa.record_batch(columns, names=names)

    def _root(self, name: str) -> str:
        if name not in self._nested:
            return name
        roots = [root for root in self._own.names if name.startswith(f"{root}.")]
        return max(roots, key=len)

    def _part(self, batch: pa.RecordBatch, root: str, name: str) -> pa.Array:
        column = batch.column(root)
        if root in self._objects:
            column = _as_objects(column, self._objects[root])
        for step in _steps(name.removeprefix(f"{root}."), column.type):
            column = compute.struct_field(column, step)
        return column


def _leaves(name: str, type_: pa.DataType, level: int = 0) -> Iterator[tuple[str, pa.DataType]]:
    if not pa.types.is_struct(type_) or level == _LEVELS:
        yield name, type_
        return
    for i in range(type_.num_fields):
        field = type_.field(i)
        yield from _leaves(f"{name}.{field.name}", field.type, level + 1)


def _steps(rest: str, type_: pa.DataType) -> list[str]:
    """Return the names of the fields that lead to a leaf; a name may itself have points."""
    for i in range(type_.num_fields):
        field = type_.field(i)
        if rest == field.name:
            return [field.name]
        if rest.startswith(f"{field.name}.") and pa.types.is_struct(field.type):
            try:
                return [field.name, *_steps(rest.removeprefix(f"{field.name}."), field.type)]
            except KeyError:
                continue
    raise KeyError(rest)


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
