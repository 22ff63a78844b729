"""Open the source of a file by the ending of its name, and find all files of an input.

An input is a file, a pipe, a database, or several files: those of a directory or a pattern
(`FilesSource`). `Origins` finds the files that an input is read from, so that no output is ever
written over one of them.
"""

from __future__ import annotations

import codecs
import fnmatch
import glob
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pronk.core.checks import did_you_mean
from pronk.data.csv import CSVSource
from pronk.data.dialect import Dialect, charset_note, charset_of, dialect_of
from pronk.data.errors import StreamError, argument
from pronk.data.formats import (
    ArrowSource,
    JSONArray,
    LIBSVMSource,
    NDJSONSource,
    ParquetSource,
    SQLSource,
)
from pronk.data.schema import Reading
from pronk.data.source import (
    COMPRESSED,
    FileSource,
    Pipe,
    Remote,
    Text,
    TextFile,
    has_pattern,
    is_url,
    local_name,
    located,
    marked,
)


class FilesSource(FileSource):
    """Read several files one after the other, with the columns of the first."""

    _rows = _done = 0

    def schema(self) -> pa.Schema:
        if not isinstance(self._parts[0], LIBSVMSource):
            return super().schema()
        sparse = [source for source in self._parts if isinstance(source, LIBSVMSource)]
        widest = max((source.schema() for source in sparse), key=len)  # the widest file counts
        for source in sparse:
            source.columns = len(widest) - 1
        return widest

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows = self._done = 0
        for source in self._parts:
            for batch in source.batches(types):
                self._rows += batch.num_rows
                yield batch
            self._done += 1

    def total(self) -> float | None:
        return self._rows / max(self._done, 0.5) * len(self._parts) if self._rows else None


_CSV = (".csv", ".tsv", ".txt", ".dat")
NDJSON = (".ndjson", ".jsonl")
_JSON = ".json"
_LIBSVM = (".libsvm", ".svmlight", ".svm")
_ARROW = (".arrow", ".feather", ".ipc")
PARQUET = (".parquet", ".pq")
#: Between the names of several files.
SEVERAL = "\n"
#: Spellings of a tab on the command line.
_TABS = {"\\t": "\t", "tab": "\t"}
_KNOWN = (*_CSV, *NDJSON, _JSON, *_LIBSVM, *_ARROW, *PARQUET)


def open_source(reading: Reading) -> FileSource:
    """Open the source of a file, pipe ("-": standard input), directory, pattern or database."""
    source = _open(reading)
    if not reading.header and not source.untyped:
        raise StreamError(
            f"{argument('header', 'False')}: {reading.file} is not a CSV file; its columns have "
            "names"
        )
    for name in ("decimal", "na", "delimiter"):
        if getattr(reading, name) and not source.untyped:
            raise StreamError(f"{reading.file} is not a CSV file", argument=name)
    return source


def _open(reading: Reading) -> FileSource:
    if reading.query is not None:
        return SQLSource(reading.file, reading.query)
    if reading.file == "-":
        return _open_pipe(Pipe(None, reading.charset), reading)
    if SEVERAL in reading.file:
        return FilesSource(*(_open_file(file, reading) for file in files_in_order(reading.file)))
    path = located(reading.file)
    if path.is_fifo():
        if path.name.lower().endswith((*_LIBSVM, *_ARROW, *PARQUET, *COMPRESSED)):
            raise StreamError(f"{path} is a pipe; only plain CSV or NDJSON can be read from pipes")
        return _open_pipe(Pipe(path, reading.charset), reading)
    if path.is_dir() or (not path.exists() and has_pattern(path)):
        return FilesSource(*(_open_file(file, reading) for file in files_in_order(path)))
    if not path.exists():
        if isinstance(path, Remote):
            raise StreamError(f"file {str(path)!r} does not exist")
        siblings: list[str] = []
        with suppress(OSError):
            siblings = os.listdir(path.parent)
        hint = did_you_mean(path.name, siblings, cutoff=0.75)
        raise StreamError(f"file {str(path)!r} does not exist{hint}")
    return _open_file(path, reading)


def reads_once(path: str | Path) -> bool:
    """Return whether an input is a pipe, which can be read only once."""
    name = str(path)
    return name == "-" or (not (is_url(name) or SEVERAL in name) and Path(path).is_fifo())


def files_in_order(path: Any) -> list[Any]:
    """Return the files of known kinds in a directory, or those of a pattern, sorted by name.

    Numbers in names are compared as numbers: part-2 comes before part-10. Several names, one per
    line, stay in their order, unless it is that of a shell, in which part-10 comes first.
    """
    found: list[Any]
    if isinstance(path, str) and SEVERAL in path:
        names = path.split(SEVERAL)
        ordered = sorted(names, key=_natural) if names == sorted(names) else names
        found = [located(name) for name in ordered]
        for file in found:
            if not file.is_file():
                raise StreamError(f"file {str(file)!r} does not exist, or is not a file")
        return found
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
    """Return whether a file of a directory is read: by its ending, unless hidden."""
    return _ending(path).endswith(_KNOWN) and not path.name.startswith((".", "_"))


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in parts if p]


def _ending(path: Path | Remote) -> str:
    """Return a name without the ending of its compression."""
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return name


def _csv(file: Text, name: str, reading: Reading) -> FileSource:
    delimiter = _TABS.get(reading.delimiter or "", reading.delimiter)
    delimiter = delimiter or ("\t" if name.endswith(".tsv") else None)
    if delimiter and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        what = "must be one ASCII character, not a quote"
        raise StreamError(f"{argument('delimiter')} {what}; got {delimiter!r}")
    notes: list[str] = []
    if reading.strict:
        usual = ";" if reading.decimal == "," else ","
        dialect = Dialect(delimiter or usual, reading.decimal or ".")
    else:
        start = _start(file, reading, notes)
        dialect = dialect_of(start, delimiter, reading.decimal, header=reading.header)
        file.cleaner = dialect.cleaner()
        given = replace(dialect, delimiter=",") if delimiter else dialect
        notes += (replace(given, decimal=".") if reading.decimal else given).notes()
    source = CSVSource(
        file, dialect.delimiter, reading.header, dialect.decimal, reading.na,
        lenient=reading.skip_bad, loose=not reading.strict,
    )  # fmt: skip
    source.notes = tuple(notes)
    return source


def _start(file: Text, reading: Reading, notes: list[str]) -> bytes:
    """Return the start of a text in UTF-8; find its encoding if it is not given."""
    try:
        start = file.start()
    except OSError:
        return b""  # reading it raises the error
    charset = reading.charset or marked(start)
    if charset is None and (charset := charset_of(start)) is not None:
        file.charset = charset
        notes.append(charset_note(charset))
    if charset is None:
        return start
    try:
        return codecs.getincrementaldecoder(charset)().decode(start).encode()
    except UnicodeError:
        return b""  # reading it raises the error


def _open_pipe(pipe: Pipe, reading: Reading) -> FileSource:
    """Open a pipe as CSV or NDJSON, by its first character."""
    if pipe.first_byte() == b"{":
        return NDJSONSource(pipe, loose=not reading.strict)
    return _csv(pipe, reading.file.lower(), reading)


def _open_file(path: Path | Remote, reading: Reading) -> FileSource:
    name = _ending(path)
    if name.endswith(_CSV):
        return _csv(TextFile(path, reading.charset), name, reading)
    if name.endswith((*NDJSON, _JSON)):
        text = TextFile(path, reading.charset)
        array = name.endswith(_JSON) and _start(text, reading, []).lstrip().startswith(b"[")
        return NDJSONSource(JSONArray(text) if array else text, loose=not reading.strict)
    if name.endswith(_LIBSVM):
        return LIBSVMSource(TextFile(path, reading.charset))
    if path.suffix.lower() in PARQUET:
        return ParquetSource(path)
    if path.suffix.lower() in _ARROW:
        return ArrowSource(path)
    raise StreamError(
        f"file {str(path)!r} is of unknown kind; its name must end in {', '.join(_KNOWN)} "
        f"(text also {', '.join(COMPRESSED)})"
    )


#: Endings of the files that databases keep beside their own.
_BESIDE = ("", ".wal", "-wal", "-shm", "-journal")


class Origins:
    """Find the files of one input.

    Those of a directory or a pattern are all its files, and files that would match it; that of
    standard input is the file it was redirected from; those of a query are its database and the
    files whose names are quoted in its text, not those of views and of names that it computes.

    Parameters
    ----------
    name : the input: a file, "-", a directory, a pattern, or with ``query`` a database
    query : SQL
    """

    def __init__(self, name: str, query: str | None = None) -> None:
        # Outputs are local files: only a file:// URL can be one of them.
        self._name = local_name(name) if query is None else name
        self._query = query
        if name == "-" and query is None:
            self._read = _redirected()
            return
        self._read = []
        for file in self._files():
            with suppress(OSError):  # reading it raises the error
                self._read.append(file.stat())

    def holds(self, path: Path) -> bool:
        """Return whether a file is one of them, by any name or link."""
        with suppress(OSError):
            found = path.stat()
            return any(os.path.samestat(found, one) for one in self._read)
        return False

    def would_hold(self, path: Path) -> bool:
        """Return whether a file that does not exist yet would be read in the next run."""
        if self._query is not None or SEVERAL in self._name:
            return False
        source = Path(self._name)
        if source.is_dir():
            return path.resolve().parent == source.resolve() and reads_as_known(path)
        return not source.exists() and glob.has_magic(self._name) and _matches(path, self._name)

    def _files(self) -> Iterator[Path]:
        if self._query is None and SEVERAL in self._name:
            yield from map(Path, self._name.split(SEVERAL))
            return
        if self._query is None:
            path = Path(self._name)
            several = path.is_dir() or (not path.exists() and glob.has_magic(self._name))
            with suppress(StreamError):  # reading it raises the error
                yield from files_in_order(path) if several else [path]
            return
        place = self._name
        if place.startswith("adbc:"):
            place = place.split(":", 2)[-1].removeprefix("file:").partition("?")[0]
        yield from (Path(place + ending) for ending in _BESIDE)
        # DuckDB reads files by their names between quotes.
        for one, other in re.findall(r"'([^']+)'|\"([^\"]+)\"", self._query):
            yield Path(one or other)
            if glob.has_magic(one or other):
                yield from map(Path, glob.glob(one or other, recursive=True))


def _redirected() -> list[os.stat_result]:
    """Return the file that standard input is redirected from, if there is one."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return []
    return [found] if stat.S_ISREG(found.st_mode) else []


def _matches(path: Path, pattern: str) -> bool:
    """Return whether a pattern matches a file."""
    place = Path(os.path.realpath(path.parent)) / path.name
    steps = Path(os.path.abspath(pattern)).parts
    still = next((i for i, step in enumerate(steps) if glob.has_magic(step)), len(steps))
    fixed = Path(os.path.realpath(Path(*steps[:still]))).parts
    return _fits(place.parts, (*fixed, *steps[still:]))


def _fits(names: Sequence[str], steps: Sequence[str]) -> bool:
    if not steps:
        return not names
    if steps[0] == "**":
        return any(_fits(names[i:], steps[1:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], steps[0]) and _fits(names[1:], steps[1:])
