"""Which source reads a file: by the ending of its name, or by what it is."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Any

from pronk.parts.spelling import did_you_mean
from pronk.streams.errors import StreamError, argument
from pronk.streams.reading import Reading
from pronk.streams.sources.base import FileSource
from pronk.streams.sources.columnar import ArrowSource, ParquetSource
from pronk.streams.sources.csv import CSVSource
from pronk.streams.sources.libsvm import LIBSVMSource
from pronk.streams.sources.ndjson import NDJSONSource
from pronk.streams.sources.remote import Remote, has_pattern, is_url, located
from pronk.streams.sources.several import FilesSource
from pronk.streams.sources.sql import SQLSource
from pronk.streams.sources.text import COMPRESSED, Pipe, Text, TextFile

_CSV = (".csv", ".tsv", ".txt")
NDJSON = (".ndjson", ".jsonl")
_LIBSVM = (".libsvm", ".svmlight", ".svm")
_ARROW = (".arrow", ".feather", ".ipc")
PARQUET = (".parquet", ".pq")
#: How a tab can be written where it cannot be typed.
_TABS = {"\\t": "\t", "tab": "\t"}
_KNOWN = (*_CSV, *NDJSON, *_LIBSVM, *_ARROW, *PARQUET)


def open_source(reading: Reading) -> FileSource:
    """The source for a file, a pipe ("-" is standard input), a directory, a pattern, a database."""
    source = _open(reading)
    if not reading.header and not source.untyped:
        raise StreamError(
            f"{argument('header', 'False')}: {reading.file} is no CSV file; its columns have names"
        )
    for name, usual in (("decimal", "."), ("na", ())):
        if getattr(reading, name) != usual and not source.untyped:
            raise StreamError(f"{argument(name)}: {reading.file} is no CSV file")
    return source


def _open(reading: Reading) -> FileSource:
    if reading.query is not None:
        return SQLSource(reading.file, reading.query)
    if reading.file == "-":
        return _open_pipe(Pipe(None, reading.charset), reading)
    path = located(reading.file)
    if path.is_fifo():
        if path.name.lower().endswith((*_LIBSVM, *_ARROW, *PARQUET, *COMPRESSED)):
            raise StreamError(f"{path} is a pipe, which can bring only plain CSV or NDJSON")
        return _open_pipe(Pipe(path, reading.charset), reading)
    if path.is_dir() or (not path.exists() and has_pattern(path)):
        return FilesSource([_open_file(file, reading) for file in files_in_order(path)])
    if not path.exists():
        if isinstance(path, Remote):
            raise StreamError(f"file {str(path)!r} does not exist")
        hint = did_you_mean(path.name, _siblings(path), cutoff=0.75)
        raise StreamError(f"file {str(path)!r} does not exist{hint}")
    return _open_file(path, reading)


def reads_once(path: str | Path) -> bool:
    """Whether a file is a pipe, of which nothing can be known before it is read."""
    return str(path) == "-" or (not is_url(str(path)) and Path(path).is_fifo())


def files_in_order(path: Any) -> list[Any]:
    """The files of a directory that are of a known kind, or those of a pattern, by name.

    Numbers in names count as numbers: part-2 comes before part-10.
    """
    found: list[Any]
    if isinstance(path, Remote):
        whole = path.is_dir()
        found = [file for file in path.inside() if not whole or reads_as_known(file)]
    elif path.is_dir():
        found = [file for file in path.iterdir() if reads_as_known(file) and file.is_file()]
    else:
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
        found = [file for file in found if file.is_file()]
    if not found:
        what = "directory" if path.is_dir() else "pattern"
        raise StreamError(f"{what} {str(path)!r} has no file that ends in {', '.join(_KNOWN)}")
    return sorted(found, key=lambda file: (_natural(str(file)), str(file)))


def reads_as_known(path: Path | Remote) -> bool:
    """Whether a file of a directory is read with the others: by its ending, unless hidden."""
    return _ending(path).endswith(_KNOWN) and not path.name.startswith((".", "_"))


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in parts if p]


def _ending(path: Path | Remote) -> str:
    """A name without the ending of its compression."""
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return name


def _csv(file: Text, name: str, reading: Reading) -> FileSource:
    usual = "\t" if name.endswith(".tsv") else ";" if reading.decimal == "," else ","
    delimiter = _TABS.get(reading.delimiter or usual, reading.delimiter or usual)
    return CSVSource(file, delimiter, reading.header, reading.decimal, reading.na, reading.skip_bad)


def _open_pipe(pipe: Pipe, reading: Reading) -> FileSource:
    """CSV or NDJSON, by the first character."""
    if pipe.first_byte() == b"{":
        return NDJSONSource(pipe)
    return _csv(pipe, reading.file.lower(), reading)


def _open_file(path: Path | Remote, reading: Reading) -> FileSource:
    name = _ending(path)
    if name.endswith(_CSV):
        return _csv(TextFile(path, reading.charset), name, reading)
    if name.endswith(NDJSON):
        return NDJSONSource(TextFile(path, reading.charset))
    if name.endswith(_LIBSVM):
        return LIBSVMSource(TextFile(path, reading.charset))
    if path.suffix.lower() in PARQUET:
        return ParquetSource(path)
    if path.suffix.lower() in _ARROW:
        return ArrowSource(path)
    raise StreamError(
        f"file {str(path)!r} is of no known kind; its name must end in {', '.join(_KNOWN)} "
        f"(text also {', '.join(COMPRESSED)})"
    )


def _siblings(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []
