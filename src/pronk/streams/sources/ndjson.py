"""NDJSON: a JSON object a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.json as arrow_json

from pronk.streams.errors import StreamError
from pronk.streams.sources.base import without
from pronk.streams.sources.text import TextSource, not_text


class NDJSONSource(TextSource):
    """A JSON object a line, plain or compressed; a key that a line has not is missing there."""

    def schema(self) -> pa.Schema:
        for piece in self.file.pieces():
            if piece.strip():
                return self._read(piece, None).schema
        raise StreamError(f"{self.file} is empty")

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        return without(self._all(types), skip)

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows = 0
        for piece in self.file.pieces():
            if piece.strip():
                table = self._read(piece, pa.schema(list(types.items())))
                self._rows += len(table)
                yield from table.select(list(types)).to_batches()

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
            if "UTF8" in text or "UTF-8" in text or "encoding" in text:
                raise not_text(str(self.file)) from None
            # Arrow counts rows from the start of the piece.
            found = re.search(r" in row (\d+)", text)
            if found:
                row = self._rows + int(found[1])
                text = text.replace(found[0], f" at row {row} (counting from 0)")
            raise StreamError(f"{self.file} cannot be read: {text}") from None
