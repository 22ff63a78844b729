"""NDJSON: a JSON object a line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json

from pronk.streams.errors import StreamError
from pronk.streams.sources.base import BAD, own_types, without
from pronk.streams.sources.text import TextSource


class NDJSONSource(TextSource):
    """A JSON object a line, plain or compressed; a key that a line has not is missing there."""

    times_in_text = True

    def schema(self) -> pa.Schema:
        for piece in self.file.pieces():
            if piece.strip():
                return self._schema_of(piece)
        raise StreamError(f"{self.file} is empty")

    def _schema_of(self, piece: bytes) -> pa.Schema:
        """Of the rows of a piece; if they do not agree, of those that are as most others are."""
        try:
            return self._read(piece, None).schema
        except StreamError:
            good = b"\n".join(_agreeing(piece.splitlines()))
            if not good:
                raise
            return self._read(good, None).schema

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        return without(self._all(types), skip)

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows = 0
        own = own_types(types)
        schema = pa.schema(list(own.items()))
        for piece in self.file.pieces():
            if piece.strip():
                try:
                    table = self._read(piece, schema).select(list(own))
                except StreamError:
                    if BAD not in types:
                        raise
                    table = self._line_by_line(piece, schema)
                self._rows += len(table)
                yield from table.to_batches()

    def _line_by_line(self, piece: bytes, schema: pa.Schema) -> pa.Table:
        """The rows of a piece that holds bad ones; those have no values but a reason."""
        tables = []
        for line in piece.splitlines():
            if not line.strip():
                continue
            try:
                row, reason = self._read(line, schema).select(schema.names), None
            except StreamError:
                row = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
                reason = f"cannot be read: {line[:200].decode('utf-8', 'replace')}"
            tables.append(row.append_column(BAD, pa.array([reason], pa.string())))
        return pa.concat_tables(tables)

    def _read(self, piece: bytes, schema: pa.Schema | None) -> pa.Table:
        try:
            return arrow_json.read_json(
                pa.py_buffer(piece),
                read_options=arrow_json.ReadOptions(block_size=len(piece) + 1, use_threads=False),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=schema,
                    unexpected_field_behavior="infer" if schema is None else "ignore",
                ),
            )
        except pa.ArrowInvalid as error:
            text = str(error).strip().splitlines()[0]
            # Arrow counts rows from the start of the piece.
            found = re.search(r" in row (\d+)", text)
            if found:
                row = self._rows + int(found[1])
                text = text.replace(found[0], f" at row {row} (counting from 0)")
            raise StreamError(f"{self.file} cannot be read: {text}") from None


def _agreeing(lines: list[bytes]) -> list[bytes]:
    """The lines that are objects whose values are of the usual kinds, column by column."""
    rows: list[tuple[bytes, dict[str, str]]] = []
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            kinds = {name: _kind(value) for name, value in row.items() if value is not None}
            rows.append((line, kinds))
            for name, kind in kinds.items():
                counts.setdefault(name, Counter())[kind] += 1
    usual = {name: found.most_common(1)[0][0] for name, found in counts.items()}
    return [line for line, kinds in rows if kinds.items() <= usual.items()]


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__
