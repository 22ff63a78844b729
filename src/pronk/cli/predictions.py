"""Predictions, written to a file or to standard output during a run.

    row, the columns of --keep, y, prediction, low, high, q0.1, .., p_CLASS, ..

Column y exists if the stream has a target, low and high with --interval, a column qLEVEL per level
of --quantiles, and a column p_CLASS per class if the learner has probabilities. Several targets
have their own columns, y_NAME, prediction_NAME, ..

CSV and NDJSON files grow, so a resumed run truncates them to the position in its snapshot. A
Parquet file cannot grow: a run with checkpoints writes its rows to a spool beside it (an Arrow
stream), from which the Parquet file is written at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from pronk.aggregate.calibration import check_coverage, check_levels
from pronk.cli.outputs import AppendedFile, csv_lines, json_lines
from pronk.cli.screen import CommandError
from pronk.core.state import require
from pronk.data.opening import NDJSON, PARQUET
from pronk.evaluate.models import Forecast, has_quantiles

ENDINGS = (".csv", *NDJSON, *PARQUET)
#: The file name of standard output.
STANDARD_OUTPUT = "-"
#: Names that a column of --keep may not have.
_OWN = ("row", "y", "prediction", "low", "high")


class PredictionColumns:
    """The columns of the predictions.

    Parameters
    ----------
    kind : the Arrow type of targets and predictions
    targets : whether there is a column y
    intervals : whether there are columns low and high
    quantiles : levels with a column of quantiles
    classes : classes with a column of probabilities; None for those known after the first block
    probabilities : whether there are columns of probabilities
    kept : names and types of the columns of --keep
    names : names of the targets, if there are several
    """

    def __init__(
        self,
        kind: pa.DataType,
        *,
        targets: bool = True,
        intervals: bool = False,
        quantiles: Sequence[float] = (),
        probabilities: bool = False,
        classes: NDArray[Any] | None = None,
        kept: dict[str, pa.DataType] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.names = list(names)
        self.targets = targets
        self.intervals = intervals
        self.quantiles = [f"q{level:g}" for level in quantiles]
        self.probabilities = probabilities
        self.classes = classes
        self.kept = {name: _plain_type(kind) for name, kind in (kept or {}).items()}
        #: Labels that occurred after the header was written.
        self.late: set[str] = set()
        for name in self.kept:
            if name in self._own or (probabilities and name.startswith("p_")):
                raise CommandError(
                    f"--keep: {name!r} is a column name of the predictions; rename the column"
                )

    def schema(self) -> pa.Schema:
        """Return names and types of the columns."""
        fields: list[Any] = [("row", pa.int64()), *self.kept.items()]
        if self.targets:
            fields += [(name, self.kind) for name in self._columns("y")]
        fields += [(name, self.kind) for name in self._columns("prediction")]
        if self.intervals:
            ends = zip(self._columns("low"), self._columns("high"), strict=True)
            fields += [(name, pa.float64()) for pair in ends for name in pair]
        each = zip(*map(self._columns, self.quantiles), strict=True)
        fields += [(name, pa.float64()) for names in each for name in names]
        if self.probabilities:
            assert self.classes is not None
            fields += [(f"p_{_word(label)}", pa.float64()) for label in self.classes.tolist()]
        return pa.schema(fields)

    def _columns(self, name: str) -> list[str]:
        return [f"{name}_{one}" for one in self.names] or [name]

    @property
    def _own(self) -> set[str]:
        own = [*_OWN[1:], *self.quantiles]
        return {"row", *(name for one in own for name in self._columns(one))}

    def batch(
        self, start: int, targets: NDArray[Any] | None, forecast: Forecast, kept: Any = None
    ) -> pa.RecordBatch:
        """Return the next rows."""
        columns: list[Any] = [np.arange(start, start + len(forecast))]
        columns += [_whole(kept.column(name)).cast(kind) for name, kind in self.kept.items()]
        if self.targets:
            assert targets is not None
            columns += [_column(values, self.kind) for values in _outputs(targets)]
        columns += [_column(values, self.kind) for values in _outputs(forecast.values)]
        if self.intervals:
            assert forecast.intervals is not None
            ends = forecast.intervals.reshape(len(forecast), -1).T
            columns += [pa.array(end, from_pandas=True) for end in ends]  # NaN: no interval yet
        if self.quantiles:
            assert forecast.quantiles is not None
            found = forecast.quantiles.reshape(len(forecast), -1).T
            columns += [pa.array(one, from_pandas=True) for one in found]
        if self.probabilities:
            assert forecast.classes is not None
            if self.classes is None:
                self.classes = forecast.classes
            late = set(forecast.classes.tolist()) - set(self.classes.tolist())
            self.late |= {_word(label) for label in late}
            shares = forecast.share_of(self.classes)
            columns += [pa.array(share, from_pandas=True) for share in shares.T]
        return pa.record_batch(columns, schema=self.schema())


class PredictionsFile(AppendedFile):
    """A file of predictions. Rows count from 0; before the first label a prediction is empty."""

    def __init__(
        self,
        path: Path,
        layout: PredictionColumns,
        *,
        resumable: bool = False,
        option: str = "--predictions",
    ) -> None:
        check_ending(path, option)
        self._parquet = path.suffix.lower() in PARQUET
        self._spooled = resumable and self._parquet
        super().__init__(
            path, option, path.with_name(path.name + ".spool") if self._spooled else None
        )
        self.layout = layout
        if path.suffix.lower() == ".csv":
            check_flat(layout.kept)
        self._writer: Any = None

    def write(self, targets: NDArray[Any] | None, forecast: Forecast, kept: Any = None) -> None:
        """Add the next rows."""
        batch = self.layout.batch(self.rows, targets, forecast, kept)
        try:
            if self._parquet and not self._spooled:
                if self._writer is None:
                    self._writer = parquet.ParquetWriter(self._file, batch.schema)
                self._writer.write_batch(batch)
            else:
                self._append(self._encode(batch))
        except OSError as error:
            raise self._failed(error) from None
        self.rows += len(forecast)

    def _encode(self, batch: pa.RecordBatch) -> bytes:
        if self._spooled:
            start = b"" if self.bytes else batch.schema.serialize().to_pybytes()
            return bytes(start + batch.serialize().to_pybytes())
        if self.path.suffix.lower() in NDJSON:
            return json_lines(batch)
        return csv_lines(batch, header=not self.bytes)

    def finish(self) -> None:
        """Write the Parquet file from the spool, after all rows."""
        if not self._spooled:
            return
        temporary = self.path.with_name(self.path.name + ".part")
        try:
            with (
                self._place.open("rb") as spool,
                ipc.open_stream(spool) as reader,
                parquet.ParquetWriter(temporary, reader.schema) as writer,
            ):
                for batch in reader:
                    writer.write_batch(batch)
            os.replace(temporary, self.path)
            self._place.unlink()
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self._failed(error) from None

    def reopen(self, rows: int) -> None:
        """Recreate the spool from the first rows of a finished file, to append to it."""
        with parquet.ParquetFile(self.path) as file:
            if file.metadata.num_rows < rows:
                raise CommandError(
                    f"{self.option}: {str(self.path)!r} has {file.metadata.num_rows:,} rows, but "
                    f"had {rows:,} at the snapshot; give the file of that run, or remove the "
                    "checkpoint"
                )
            self.start()
            schema = file.schema_arrow.remove_metadata()
            self._append(schema.serialize().to_pybytes())
            for batch in file.iter_batches():
                some = batch.slice(0, rows - self.rows).replace_schema_metadata(None)
                self._append(some.serialize().to_pybytes())
                self.rows += some.num_rows

    @property
    def finished(self) -> bool:
        """Whether the spool of a finished run has been converted."""
        return self._spooled and not self._place.exists() and self.path.exists()

    def __exit__(self, *error: object) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            super().__exit__(*error)


class StandardOutput:
    """Predictions on standard output, as CSV or (``lines``) NDJSON."""

    finished = False

    def __init__(self, layout: PredictionColumns, lines: bool) -> None:
        self.layout = layout
        self.rows = 0
        self._lines = lines
        if not lines:
            check_flat(layout.kept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        sys.stdout.flush()

    def start(self) -> None:
        """Do nothing."""

    def write(self, targets: NDArray[Any] | None, forecast: Forecast, kept: Any = None) -> None:
        """Print the next rows."""
        if self._lines:
            self.layout.classes = forecast.classes  # objects need not have the same keys
        batch = self.layout.batch(self.rows, targets, forecast, kept)
        text = json_lines(batch) if self._lines else csv_lines(batch, header=not self.rows)
        sys.stdout.write(text.decode())
        sys.stdout.flush()  # a reader may wait for each block
        self.rows += len(forecast)

    def finish(self) -> None:
        """Do nothing."""


class Kept:
    """The columns of --keep, held until the predictions of their rows are known."""

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the columns of the next rows."""
        self._waiting.append(batch)

    def pop(self, rows: int) -> pa.Table:
        """Remove and return the first rows."""
        table = pa.Table.from_batches(self._waiting)
        self._waiting = table.slice(rows).combine_chunks().to_batches()
        return table.slice(0, rows).combine_chunks()

    def to_state(self) -> NDArray[np.uint8] | None:
        """Return the waiting rows as bytes."""
        if not sum(batch.num_rows for batch in self._waiting):
            return None
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, self._waiting[0].schema) as writer:
            for batch in self._waiting:
                writer.write_batch(batch)
        return np.frombuffer(sink.getvalue(), dtype=np.uint8).copy()

    def restore(self, state: NDArray[np.uint8] | None, names: list[str]) -> None:
        """Restore the result of `to_state`, for columns of these names."""
        if state is not None:
            with ipc.open_stream(pa.py_buffer(state.tobytes())) as held:
                require(held.schema.names == names, "the columns of --keep differ")
                self._waiting = list(held)
            for batch in self._waiting:
                batch.validate(full=True)


def check_interval(interval: float | None, task: str, model: Any) -> None:
    """Raise if a model has no intervals, or not of this coverage."""
    if interval is None:
        return
    try:
        check_coverage(interval)
    except ValueError as error:
        raise CommandError(f"--interval: {error}") from None
    _check_regressor("--interval", "intervals", task, model)


def check_quantiles(quantiles: Sequence[float] | None, task: str, model: Any) -> None:
    """Raise if a model has no quantiles, or not at these levels."""
    if quantiles is None:
        return
    try:
        check_levels(quantiles)
    except ValueError as error:
        raise CommandError(f"--quantiles: {error}") from None
    if len(set(quantiles)) < len(quantiles):
        raise CommandError("--quantiles: a level occurs twice; give each once")
    _check_regressor("--quantiles", "quantiles", task, model)


def _check_regressor(option: str, what: str, task: str, model: Any) -> None:
    if task == "classification":
        raise CommandError(f"{option} is for regression; a classifier returns probabilities")
    if not has_quantiles(model):
        learner = getattr(model, "learner", model)
        raise CommandError(
            f"{option}: {type(learner).__name__} has no {what}; the default learner has"
        )


def check_ending(path: Path, option: str) -> None:
    """Raise if the extension is not known."""
    if path.suffix.lower() not in ENDINGS:
        raise CommandError(
            f"{option}: {str(path)!r} must end in .csv, .ndjson or .parquet; - is standard output"
        )


def check_flat(kept: dict[str, pa.DataType]) -> None:
    """Raise if a column does not fit into CSV."""
    for name, kind in kept.items():
        if pa.types.is_nested(kind):
            raise CommandError(
                f"--keep: {name!r} is of type {kind}, which CSV cannot hold; use .ndjson or "
                ".parquet"
            )


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _outputs(values: NDArray[Any]) -> list[NDArray[Any]]:
    return [values] if values.ndim == 1 else list(values.T)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _word(label: Any) -> str:
    """Return a label as part of a column name."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def _column(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Convert values to Arrow; NaN and None are missing."""
    if values.dtype == object:
        return pa.array(values.tolist(), type=kind)
    column = pa.array(values, from_pandas=True)
    return column if column.type == kind else column.cast(kind)
