"""A file of predictions, written as the stream goes: row, y, prediction."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from pronk.cli.errors import CommandError


class PredictionsFile:
    """Rows are counted from 0; an empty prediction is one made before any label was known."""

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in (".csv", ".parquet", ".pq"):
            raise CommandError(f"--predictions: {str(path)!r} must end in .csv or .parquet")
        self.path = path
        self.rows = 0
        self._file: Any = None
        self._writer: Any = None

    def __enter__(self) -> Self:
        try:
            self._file = self.path.open("wb")
        except OSError as error:
            raise CommandError(
                f"--predictions: {str(self.path)!r} cannot be written: {error.strerror}"
            ) from None
        return self

    def write(self, targets: NDArray[Any], predictions: NDArray[Any]) -> None:
        """Add the next rows."""
        kind = pa.array(targets[:1]).type
        if predictions.dtype.kind == "U":
            unknown = predictions == ""
            predictions = predictions.astype(object)
            predictions[unknown] = None
        batch = pa.record_batch(
            {
                "row": np.arange(self.rows, self.rows + len(targets)),
                "y": pa.array(targets, type=kind),
                "prediction": pa.array(predictions.tolist(), type=kind)
                if predictions.dtype == object
                else pa.array(predictions).cast(kind),
            }
        )
        if self._writer is None:
            csv = self.path.suffix.lower() == ".csv"
            make = arrow_csv.CSVWriter if csv else parquet.ParquetWriter
            self._writer = make(self._file, batch.schema)
        self._writer.write_batch(batch)
        self.rows += len(targets)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file, also after an error: what was written until then can be read."""
        if self._writer is not None:
            self._writer.close()
        self._file.close()
