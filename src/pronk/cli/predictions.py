"""A file of predictions, written as the stream goes: row, y, prediction.

CSV and NDJSON are appended to, so a checkpoint can name a place in them and a run that goes on cuts
them back to it. A Parquet file cannot be appended to: a run with checkpoints writes its rows into a
spool beside it (an Arrow stream, which can) and makes the Parquet file of it at the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from pronk.cli.errors import CommandError

_PARQUET = (".parquet", ".pq")
_NDJSON = (".ndjson", ".jsonl")
ENDINGS = (".csv", *_NDJSON, *_PARQUET)


class PredictionsFile:
    """Rows are counted from 0; an empty prediction is one made before any label was known.

    Parameters
    ----------
    path : file name
    kind : the Arrow type of targets and predictions
    targets : whether there is a column y
    resumable : whether `position` and `resume` are needed
    option : how messages call it
    """

    def __init__(
        self,
        path: Path,
        kind: pa.DataType,
        *,
        targets: bool = True,
        resumable: bool = False,
        option: str = "--predictions",
    ) -> None:
        check_ending(path, option)
        self.path = path
        self.rows = 0
        self.bytes = 0
        self.option = option
        names = ["row", "y", "prediction"] if targets else ["row", "prediction"]
        self._schema = pa.schema([(n, pa.int64() if n == "row" else kind) for n in names])
        self._parquet = path.suffix.lower() in _PARQUET
        self._spooled = resumable and self._parquet
        self._place = path.with_name(path.name + ".spool") if self._spooled else path
        self._file: Any = None
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Begin an empty file."""
        self._open(0)

    def resume(self, rows: int, size: int) -> None:
        """Go on after so many rows and bytes; what stands behind them is cut off."""
        held = self._place.stat().st_size if self._place.exists() else 0
        if held < size:
            raise CommandError(
                f"{self.option}: {str(self._place)!r} has {held:,} bytes, but the checkpoint says "
                f"{size:,}; give the file that belongs to it, or remove the checkpoint"
            )
        self._open(size)
        self.rows = rows

    def _open(self, size: int) -> None:
        try:
            # Unbuffered: what is written is in the file, and a full disk is noticed at once.
            self._file = self._place.open("r+b" if size else "wb", buffering=0)
            self._file.truncate(size)
            self._file.seek(size)
        except OSError as error:
            raise self._failed(error) from None
        self.bytes = size

    def write(self, targets: NDArray[Any] | None, predictions: NDArray[Any]) -> None:
        """Add the next rows."""
        columns = [np.arange(self.rows, self.rows + len(predictions))]
        for values in (targets, predictions):
            if values is not None:
                columns.append(_column(values, self._schema.field("prediction").type))
        batch = pa.record_batch(columns, schema=self._schema)
        try:
            if self._parquet and not self._spooled:
                if self._writer is None:
                    self._writer = parquet.ParquetWriter(self._file, self._schema)
                self._writer.write_batch(batch)
            else:
                self._append(self._encode(batch))
        except OSError as error:
            raise self._failed(error) from None
        self.rows += len(predictions)

    def _encode(self, batch: pa.RecordBatch) -> bytes:
        if self._spooled:
            start = b"" if self.bytes else self._schema.serialize().to_pybytes()
            return bytes(start + batch.serialize().to_pybytes())
        if self.path.suffix.lower() in _NDJSON:
            return json_lines(batch)
        return csv_lines(batch, header=not self.bytes)

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.bytes += len(data)

    def sync(self) -> None:
        """Let everything written so far reach the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from None

    def finish(self) -> None:
        """All rows were written: make the Parquet file of the spool."""
        if not self._spooled:
            return
        temporary = self.path.with_name(self.path.name + ".part")
        try:
            with (
                self._place.open("rb") as spool,
                ipc.open_stream(spool) as reader,
                parquet.ParquetWriter(temporary, self._schema) as writer,
            ):
                for batch in reader:
                    writer.write_batch(batch)
            os.replace(temporary, self.path)
            self._place.unlink()
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self._failed(error) from None

    @property
    def finished(self) -> bool:
        """Whether the spool of a finished run has become its file."""
        return self._spooled and not self._place.exists() and self.path.exists()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file, also after an error: what was written until then can be read."""
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._file is not None:
                self._file.close()

    def _failed(self, error: OSError) -> CommandError:
        reason = error.strerror or error
        return CommandError(f"{self.option}: {str(self.path)!r} cannot be written: {reason}", 1)


def check_ending(path: Path, option: str) -> None:
    """Refuse a file name of no known kind."""
    if path.suffix.lower() not in ENDINGS:
        raise CommandError(f"{option}: {str(path)!r} must end in .csv or .parquet, or .ndjson")


def text_writer(
    kind: pa.DataType, targets: bool, lines: bool
) -> Callable[[NDArray[Any] | None, NDArray[Any]], bytes]:
    """A function that makes the next rows text, CSV or (``lines``) NDJSON, for standard output."""
    names = ["row", "y", "prediction"] if targets else ["row", "prediction"]
    schema = pa.schema([(name, pa.int64() if name == "row" else kind) for name in names])
    rows = 0

    def write(y: NDArray[Any] | None, predictions: NDArray[Any]) -> bytes:
        nonlocal rows
        columns = [np.arange(rows, rows + len(predictions))]
        columns += [_column(v, kind) for v in (y, predictions) if v is not None]
        batch = pa.record_batch(columns, schema=schema)
        text = json_lines(batch) if lines else csv_lines(batch, header=rows == 0)
        rows += len(predictions)
        return text

    return write


def csv_lines(batch: pa.RecordBatch, header: bool) -> bytes:
    """Rows as CSV."""
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(batch, sink, arrow_csv.WriteOptions(include_header=header))
    return bytes(sink.getvalue().to_pybytes())


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Rows as one JSON object a line."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in batch.to_pylist())


def _column(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Values as Arrow's; NaN, None and the empty text are missing."""
    if values.dtype.kind == "U":
        unknown = values == ""
        values = values.astype(object)
        values[unknown] = None
    if values.dtype == object:
        return pa.array(values.tolist(), type=kind)
    column = pa.array(values, from_pandas=True)
    return column if column.type == kind else column.cast(kind)
