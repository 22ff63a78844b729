"""`--metrics FILE`: how a run goes, one record every so many rows, for monitors and plots.

A record is flat: when it was written (UTC), the rows so far, each metric over all rows and, as
``recent_NAME``, over the window, of several targets also ``NAME_TARGET``, then time, points, bytes
and the number of drift alarms so far.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pronk.cli.appending import AppendedFile
from pronk.cli.errors import CommandError
from pronk.evaluate import Record
from pronk.evaluate.plain_json import finite
from pronk.streams.sources.opening import NDJSON


class MetricsFile(AppendedFile):
    """Records in CSV or NDJSON, appended as the stream goes."""

    def __init__(self, path: Path, targets: Sequence[str] = ()) -> None:
        check_metrics_ending(path)
        self._targets = list(targets)
        super().__init__(path, "--metrics")
        self._lines = path.suffix.lower() in NDJSON

    def write(self, record: Record, alarms: int) -> None:
        """Add a record."""
        values = finite(as_row(record, alarms, self._targets))
        try:
            self._append(self._encode(values).encode())
        except OSError as error:
            raise self._failed(error) from None
        self.rows += 1

    def _encode(self, values: dict[str, Any]) -> str:
        if self._lines:
            return json.dumps(values) + "\n"
        text = io.StringIO()
        writer = csv.DictWriter(text, list(values), lineterminator="\n")
        if not self.bytes:
            writer.writeheader()
        writer.writerow(values)
        return text.getvalue()


def as_row(record: Record, alarms: int, targets: Sequence[str] = ()) -> dict[str, Any]:
    """The columns of a record."""
    each = zip(targets, record.outputs, strict=False)
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "rows": record.rows,
        "unlabelled": record.unlabelled,
        **record.metrics,
        **{f"recent_{name}": value for name, value in record.windowed.items()},
        **{f"{name}_{target}": v for target, own in each for name, v in own.items()},
        "seconds": record.seconds,
        "microseconds_a_row": record.microseconds_a_row,
        "size": record.size,
        "memory": record.memory,
        "drift_alarms": alarms,
    }


def check_metrics_ending(path: Path) -> None:
    """Refuse a file name of no known kind."""
    if path.suffix.lower() not in (".csv", *NDJSON):
        raise CommandError(f"--metrics: {str(path)!r} must end in .csv or .ndjson")
