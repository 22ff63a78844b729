"""Parquet and Arrow files: columns with types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

from pronk.streams.sources.base import BATCH_ROWS, Dense, own_types, without
from pronk.streams.sources.remote import Remote, opened


class ParquetSource(Dense):
    """A Parquet file."""

    def __init__(self, path: Path | Remote) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        with self._open() as file:
            return file.schema_arrow

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        # A buffer makes column chunks stream; without it a row group is read whole.
        with self._open(buffer_size=1 << 20, pre_buffer=False) as file:
            groups = list(range(file.num_row_groups))
            while groups and skip >= (rows := file.metadata.row_group(groups[0]).num_rows):
                skip -= rows
                del groups[0]
            if not groups:
                return
            batches = file.iter_batches(
                batch_size=BATCH_ROWS,
                row_groups=groups,
                columns=list(own_types(types)),
                use_threads=False,
            )
            yield from without(batches, skip)

    def total(self) -> float | None:
        with self._open() as file:
            return float(file.metadata.num_rows)

    def _open(self, **options: Any) -> parquet.ParquetFile:
        source = self.path.open() if isinstance(self.path, Remote) else self.path
        return parquet.ParquetFile(source, **options)


class ArrowSource(Dense):
    """An Arrow IPC file or stream (also Feather), mapped into memory."""

    def __init__(self, path: Path | Remote) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        with self._open() as reader:
            return reader.schema

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        with self._open() as reader:
            if hasattr(reader, "num_record_batches"):
                whole = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                whole = iter(reader)
            yield from without((batch.select(list(own_types(types))) for batch in whole), skip)

    def total(self) -> float | None:
        return None

    @contextmanager
    def _open(self) -> Iterator[Any]:
        remote = isinstance(self.path, Remote)
        with opened(self.path) if remote else pa.memory_map(str(self.path)) as file:
            try:
                reader = ipc.open_file(file)
            except pa.ArrowInvalid:
                file.seek(0)
                reader = ipc.open_stream(file)
            with reader:
                yield reader
