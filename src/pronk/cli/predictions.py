"""Predictions, written to a file or to standard output during a run.

    row, the columns of --keep, y, prediction, low, high, q0.1, .., p_CLASS, ..

Column y exists if the stream has a target, low and high with --interval, a column qLEVEL per level
of --quantiles, and a column p_CLASS per class if the learner has probabilities. Several targets
have their own columns, y_NAME, prediction_NAME, ..

CSV and NDJSON files grow, so a resumed run truncates them to the position in its snapshot. A
Parquet file cannot grow: a run with checkpoints does not write one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from pronk.aggregate.calibration import check_coverage, check_levels
from pronk.cli.outputs import AppendedFile, csv_lines, json_lines
from pronk.cli.screen import CommandError, blaming, writing
from pronk.core.state import require
from pronk.data.opening import NDJSON, PARQUET
from pronk.evaluate.fields import checked_labels
from pronk.evaluate.models import Forecast, can

ENDINGS = (".csv", *NDJSON, *PARQUET)
#: The file name of standard output.
STANDARD_OUTPUT = "-"
#: Names that a column of --keep may not have.
_OWN = ("row", "y", "prediction", "low", "high")


class PredictionColumns:
    """The columns of the predictions.

    ``kind`` is the Arrow type of targets and predictions; ``kept`` has names and types of the
    columns of --keep, ``names`` those of several targets. ``classes`` are those with a column of
    probabilities; None for those known after the first block.
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
        self.kept = {
            name: kind.value_type if pa.types.is_dictionary(kind) else kind
            for name, kind in (kept or {}).items()
        }
        #: Labels that occurred after the header was written.
        self.late: set[str] = set()
        for name in self.kept:
            if name in self._own or (probabilities and name.startswith("p_")):
                raise CommandError(
                    f"--keep: {name!r} is a column name of the predictions; rename the column"
                )

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
        columns: dict[str, Any] = {"row": np.arange(start, start + len(forecast))}
        for name, kind in self.kept.items():
            column = kept.column(name).cast(kind)
            chunked = isinstance(column, pa.ChunkedArray)
            columns[name] = column.combine_chunks() if chunked else column

        labels = {"y": targets} if self.targets else {}
        for name, values in {**labels, "prediction": forecast.values}.items():
            assert values is not None
            for column, one in zip(self._columns(name), np.atleast_2d(values.T), strict=True):
                columns[column] = _column(one, self.kind)
        numbers = [(["low", "high"], forecast.intervals)] if self.intervals else []
        numbers += [(self.quantiles, forecast.quantiles)] if self.quantiles else []
        for names, found in numbers:  # for each target; NaN is empty
            assert found is not None
            each = zip(*map(self._columns, names), strict=True)
            flat = found.reshape(len(forecast), -1).T
            for column, one in zip([name for own in each for name in own], flat, strict=True):
                columns[column] = pa.array(one, from_pandas=True)
        if self.probabilities:
            assert forecast.classes is not None
            if self.classes is None:
                self.classes = forecast.classes
            late = set(forecast.classes.tolist()) - set(self.classes.tolist())
            self.late |= {_word(label) for label in late}
            for label, share in zip(
                self.classes.tolist(), forecast.share_of(self.classes).T, strict=True
            ):
                columns[f"p_{_word(label)}"] = pa.array(share, from_pandas=True)
        return pa.record_batch(columns)


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


class PredictionsFile(AppendedFile):
    """A file of predictions. Rows count from 0; before the first label a prediction is empty."""

    def __init__(
        self, path: Path, layout: PredictionColumns, option: str = "--predictions"
    ) -> None:
        super().__init__(path, option)
        self.layout = layout
        for name, kind in layout.kept.items():
            if path.suffix.lower() == ".csv" and pa.types.is_nested(kind):
                raise CommandError(
                    f"--keep: {name!r} is of type {kind}, which CSV cannot hold; use .ndjson or "
                    ".parquet"
                )
        self.kept = Kept()
        self._writer: Any = None

    def begin(self, place: Sequence[Any] | None = None) -> None:
        """Create an empty file, or continue with the classes and rows of a snapshot."""
        if place is not None:
            *_, classes, kept = place
            labels = None if classes is None else checked_labels(classes, "classes")
            self.layout.classes = None if labels is None else np.asarray(labels)
            self.kept.restore(kept, list(self.layout.kept))
        super().begin(place)

    def position(self) -> list[Any]:
        """Flush everything written so far; return rows, bytes, classes and the waiting rows."""
        classes = self.layout.classes
        labels = None if classes is None else classes.tolist()
        return [*super().position(), labels, self.kept.to_state()]

    def write(self, targets: NDArray[Any] | None, forecast: Forecast, kept: Any = None) -> None:
        """Add the next rows."""
        batch = self.layout.batch(self.rows, targets, forecast, kept)
        ending = self.path.suffix.lower()
        if ending in PARQUET:
            with writing(self.option, self.path):
                if self._writer is None:
                    self._writer = parquet.ParquetWriter(self._file, batch.schema)
                self._writer.write_batch(batch)
        elif ending in NDJSON:
            self._write(json_lines(batch))
        else:
            self._write(csv_lines(batch, header=not self.bytes))
        self.rows += len(forecast)

    def __exit__(self, *error: object) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            super().__exit__(*error)


class StandardOutput(PredictionsFile):
    """Predictions on standard output, as CSV or (``lines``) NDJSON."""

    def __init__(self, layout: PredictionColumns, lines: bool) -> None:
        super().__init__(Path("-.ndjson" if lines else "-.csv"), layout)
        self._lines = lines

    def __exit__(self, *error: object) -> None:
        sys.stdout.flush()

    def begin(self, place: Any = None) -> None:
        """Do nothing."""

    def write(self, targets: NDArray[Any] | None, forecast: Forecast, kept: Any = None) -> None:
        """Print the next rows."""
        if self._lines:
            self.layout.classes = forecast.classes  # objects need not have the same keys
        super().write(targets, forecast, kept)

    def _write(self, data: bytes) -> None:
        sys.stdout.write(data.decode())
        sys.stdout.flush()  # a reader may wait for each block
        self.bytes += len(data)


def check_quantiles(
    interval: float | None, quantiles: Sequence[float] | None, task: str, model: Any
) -> None:
    """Raise if a model has no interval of this coverage, or no quantiles at these levels."""
    checks: tuple[tuple[str, Any, Callable[[Any], Any]], ...] = (
        ("interval", interval, check_coverage),
        ("quantiles", quantiles, check_levels),
    )
    for name, given, check in checks:
        if given is None:
            continue
        with blaming(f"--{name}"):
            check(given)
        if name == "quantiles" and len(set(given)) < len(given):
            raise CommandError("--quantiles: a level occurs twice; give each once")
        if task == "classification":
            raise CommandError(f"--{name} is for regression; a classifier returns probabilities")
        if not can(model, "predict_quantiles"):
            learner = type(getattr(model, "learner", model)).__name__
            what = f"{name.removesuffix('s')}s"
            raise CommandError(f"--{name}: {learner} has no {what}; the default learner has")


def check_ending(path: Path, option: str) -> None:
    """Raise if the extension is not known."""
    if path.suffix.lower() not in ENDINGS:
        raise CommandError(
            f"{option}: {str(path)!r} must end in .csv, .ndjson or .parquet; - is standard output"
        )


def _word(label: Any) -> str:
    """Return a label as part of a column name."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def _column(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Convert values to Arrow; NaN and None are missing."""
    if values.dtype == object:
        return pa.array(values.tolist(), type=kind)
    column = pa.array(values, from_pandas=True)
    return column if column.type == kind else column.cast(kind)
