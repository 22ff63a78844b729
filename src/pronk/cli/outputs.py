"""Output files: checks before a run, files that grow during it, and safe CSV and NDJSON."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import FileIO
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from pronk.cli.screen import CommandError, writing
from pronk.data.opening import NDJSON, Origins
from pronk.data.stream import BadRow
from pronk.estimators.atomic import regular_or_new
from pronk.evaluate import Record
from pronk.evaluate.formatting import finite
from pronk.evaluate.study import Store


def check_file(option: str, path: Path) -> None:
    """Raise if a file cannot be written."""
    where = f"{option}: {str(path)!r}"
    if path.is_dir():
        raise CommandError(f"{where} is a directory; give a file name")
    check_regular(path, where)
    if not path.parent.is_dir():
        raise CommandError(f"{where}: there is no directory {str(path.parent)!r}; create it first")
    with writing(option, path, 2):
        if path.is_file():
            path.open("ab").close()
        else:
            with tempfile.TemporaryFile(dir=path.parent):
                pass


def check_regular(path: Path, where: str) -> None:
    """Raise for devices, pipes and sockets: a rename would replace them, and a pipe may block."""
    try:
        good = regular_or_new(path)
    except OSError:  # no permission, or a loop of links: writing will fail with a reason
        return
    if not good:
        raise CommandError(f"{where} is a device, a pipe or a socket; give the name of a file")


@contextmanager
def results_folder(directory: Path) -> Iterator[None]:
    """Create the folder of --output; turn a failure to write into one line."""
    with writing("--output", directory, 2):
        directory.mkdir(parents=True, exist_ok=True)
        yield


def open_store(path: Path, fresh: bool) -> Store:
    """Open the records of a study, after a first write to their file."""
    check_regular(path, f"--output: {str(path)!r}")
    if fresh:
        path.unlink(missing_ok=True)
    path.open("ab").close()
    return Store(path)


# -- outputs must not replace inputs or each other -------------------------------------------------


def check_outputs(outputs: Mapping[str, Path | None], file: str, query: str | None = None) -> None:
    """Raise unless every output is writable, has a file of its own, and is not an input.

    Called before any file is opened for writing. ``outputs`` are the files by option; "-" is
    standard output. ``file`` and ``query`` are the input.
    """
    written = {
        option: path for option, path in outputs.items() if path is not None and str(path) != "-"
    }
    read = Origins(file, query)
    for option, path in written.items():
        refuse_input(option, path, read)
    for (one, path), (other, place) in combinations(written.items(), 2):
        both = path.exists() and place.exists()
        if path.samefile(place) if both else path.resolve() == place.resolve():
            raise CommandError(f"{one} and {other} name the same file, {str(path)!r}")
    for option, path in written.items():
        check_file(option, path)


def refuse_input(option: str, path: Path, read: Origins) -> None:
    """Raise if a file is an input, or would be an input of the same command the next time."""
    where = f"{option}: {str(path)!r}"
    if read.holds(path):
        raise CommandError(f"{where} is an input file; choose another name")
    if not path.exists() and read.would_hold(path):
        raise CommandError(
            f"{where} would be an input file the next time; choose another folder or name"
        )


# -- files that grow during a run ------------------------------------------------------------------


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking if it has been replaced by a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


class AppendedFile:
    """An unbuffered file that counts its rows and bytes, and can be truncated to a snapshot.

    ``option`` is its name in messages.
    """

    def __init__(self, path: Path, option: str) -> None:
        self.path = path
        self.option = option
        self.rows = 0
        self.bytes = 0
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file, also after an error: rows written so far can be read."""
        if self._file is not None:
            self._file.close()

    def begin(self, place: Sequence[Any] | None = None) -> None:
        """Create an empty file, or continue after the rows and bytes of a snapshot."""
        rows, size = (0, 0) if place is None else place[:2]
        held = self.path.stat().st_size if size and self.path.exists() else 0
        if held < size:
            raise CommandError(
                f"{self.option}: {str(self.path)!r} has {held:,} bytes, but had {size:,} at the "
                "snapshot; give the file of that run, or remove the checkpoint"
            )
        with writing(self.option, self.path):
            # Unbuffered: what is written is in the file, and a full disk is noticed at once.
            self._file = FileIO(self.path, "r+" if size else "w", opener=_without_waiting)
            self._file.truncate(size)
            self._file.seek(size)
        self.rows, self.bytes = rows, size

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.bytes += len(data)

    def _write(self, data: bytes) -> None:
        """Append data; a failure names the option and the file."""
        with writing(self.option, self.path):
            self._append(data)

    def _write_csv(self, names: list[str], rows: Iterable[Iterable[Any]]) -> None:
        """Append rows of CSV, the first ones after a header."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(rows if self.bytes else [names, *rows])
        self._write(text.getvalue().encode("utf-8", "replace"))

    def position(self) -> list[Any]:
        """Flush everything written so far to the disk; return the rows and bytes."""
        with writing(self.option, self.path):
            os.fsync(self._file.fileno())
        return [self.rows, self.bytes]


class BadRowsFile(AppendedFile):
    """The CSV file of `--skip-bad`: row (from 0), reason, and the values as a JSON object."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "--skip-bad")

    def write(self, rows: Sequence[BadRow]) -> None:
        """Append rows."""
        cells = [[bad.row, bad.reason, json.dumps(bad.values, default=str)] for bad in rows]
        self._write_csv(["row", "reason", "values"], cells)
        self.rows += len(rows)


class MetricsFile(AppendedFile):
    """The file of `--metrics`: a record every N rows, in CSV or NDJSON.

    A record is flat: when it was written (UTC), the rows so far, how many of them had no label, how
    many came before the first learned label and are not scored, each metric over all rows and, as
    ``recent_NAME``, over the window, for several targets also ``NAME_TARGET``, then time, points,
    bytes, the number of drift alarms so far, and how often a new learner has replaced the old one
    after a change.
    """

    def __init__(self, path: Path, targets: Sequence[str] = ()) -> None:
        self._targets = list(targets)
        super().__init__(path, "--metrics")
        self._lines = path.suffix.lower() in NDJSON

    def write(self, record: Record, alarms: int, swaps: int) -> None:
        """Append a record."""
        values = finite(as_row(record, alarms, swaps, self._targets))
        if self._lines:
            self._write(json.dumps(values).encode() + b"\n")
        else:
            self._write_csv(list(values), [values.values()])
        self.rows += 1


def as_row(record: Record, alarms: int, swaps: int, targets: Sequence[str] = ()) -> dict[str, Any]:
    """Return the columns of a record."""
    each = zip(targets, record.outputs, strict=False)
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "rows": record.rows,
        "unlabelled": record.unlabelled,
        "unpredicted": record.unpredicted,
        **record.metrics,
        **{f"recent_{name}": value for name, value in record.windowed.items()},
        **{f"{name}_{target}": v for target, own in each for name, v in own.items()},
        "seconds": record.seconds,
        "microseconds_per_row": record.microseconds_per_row,
        "size": record.size,
        "memory": record.memory,
        "drift_alarms": alarms,
        "swaps": swaps,
    }


def check_metrics_ending(path: Path) -> None:
    """Raise if the extension is not known."""
    if path.suffix.lower() not in (".csv", *NDJSON):
        raise CommandError(f"--metrics: {str(path)!r} must end in .csv or .ndjson")


# -- CSV and NDJSON that are safe to open and to print ---------------------------------------------
#
# A spreadsheet takes a cell that begins with = + - @ for a formula and runs it, and a terminal
# obeys control characters. So in CSV a text that can do something as a formula gets an apostrophe
# in front, which spreadsheets hide: one that begins with =, or with + - @ and calls a function,
# another program or another file, which needs one of ( | ! [. Labels such as "+", "--" or "-inf"
# stay as they are. Control characters become U+FFFD; line ends and tabs stay, in quotes. NDJSON
# escapes them by its own rules and changes nothing.

#: Text that a spreadsheet would run; it ignores a tab or line break before a formula.
_FORMULA = r"(?s)^[\t\r]|^=.*[^=+\-@]|^[+\-@].*[(|!\[]"
#: Control characters that no cell needs.
_CONTROL = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]"


def csv_lines(batch: pa.RecordBatch, header: bool) -> bytes:
    """Encode rows as CSV."""
    columns = [_harmless(column) for column in batch.columns]
    names = [harmless_text(name) for name in batch.schema.names]
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(
        pa.record_batch(columns, names=names), sink, arrow_csv.WriteOptions(include_header=header)
    )
    return bytes(sink.getvalue().to_pybytes())


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Encode rows as one JSON object per line; dates as text."""
    lines = (json.dumps(finite(row), default=str) for row in batch.to_pylist())
    return b"".join(line.encode() + b"\n" for line in lines)


def harmless_text(text: str) -> str:
    """Return the text of a cell without formulas and control characters."""
    text = re.sub(_CONTROL, "\ufffd", text)
    if re.match(_FORMULA, text):
        return "'" + text
    return text


def _harmless(column: pa.Array) -> pa.Array:
    """Return a column of safe cells; only text can be unsafe."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    plain = pc.match_substring_regex(column, "[^\\x20-\\x7e\\n\\r\\t\\x{a0}-\\x{10ffff}]")
    risky = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(pc.or_(plain, risky)).as_py():
        return column
    cells: list[Any] = column.to_pylist()
    return pa.array([None if c is None else harmless_text(c) for c in cells], type=column.type)
