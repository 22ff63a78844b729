"""The file of `--skip-bad`: rows that could not be used, with the reason."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from pronk.cli.appending import AppendedFile
from pronk.streams.files import BadRow


class BadRowsFile(AppendedFile):
    """A CSV file: row (counted from 0), reason, and the values as a JSON object."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "--skip-bad")

    def write(self, rows: Sequence[BadRow]) -> None:
        """Add rows."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.bytes:
            writer.writerow(["row", "reason", "values"])
        for bad in rows:
            writer.writerow([bad.row, bad.reason, json.dumps(bad.values, default=str)])
        try:
            self._append(text.getvalue().encode("utf-8", "replace"))
        except OSError as error:
            raise self._failed(error) from None
        self.rows += len(rows)
