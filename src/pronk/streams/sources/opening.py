"""Which source reads a file: by the ending of its name, or by what it is."""

from __future__ import annotations

import difflib
import glob
import re
from pathlib import Path

from pronk.streams.errors import StreamError
from pronk.streams.sources.base import Source
from pronk.streams.sources.columnar import ArrowSource, ParquetSource
from pronk.streams.sources.csv import CSVSource
from pronk.streams.sources.libsvm import LIBSVMSource
from pronk.streams.sources.ndjson import NDJSONSource
from pronk.streams.sources.several import FilesSource
from pronk.streams.sources.sql import SQLSource
from pronk.streams.sources.text import COMPRESSED, Pipe, TextFile

_CSV = (".csv", ".tsv", ".txt")
_NDJSON = (".ndjson", ".jsonl")
_LIBSVM = (".libsvm", ".svmlight", ".svm")
_ARROW = (".arrow", ".feather", ".ipc")
_PARQUET = (".parquet", ".pq")
_KNOWN = (*_CSV, *_NDJSON, *_LIBSVM, *_ARROW, *_PARQUET)


def open_source(
    path: str | Path,
    delimiter: str | None = None,
    query: str | None = None,
    header: bool = True,
) -> Source:
    """The source for a file, a pipe ("-" is standard input), a directory, a pattern, a database.

    ``delimiter`` and ``header`` are those of CSV files.
    """
    source = _open(path, delimiter, query, header)
    if not header and not source.untyped:
        raise StreamError(f"--no-header: {path} is no CSV file; its columns have names")
    return source


def _open(path: str | Path, delimiter: str | None, query: str | None, header: bool) -> Source:
    if query is not None:
        return SQLSource(str(path), query)
    if str(path) == "-":
        return _open_pipe(Pipe(), delimiter or ",", header)
    path = Path(path)
    if path.is_fifo():
        if path.name.lower().endswith((*_LIBSVM, *_ARROW, *_PARQUET, *COMPRESSED)):
            raise StreamError(f"{path} is a pipe, which can bring only plain CSV or NDJSON")
        return _open_pipe(Pipe(path), _delimiter(path, delimiter), header)
    if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
        return FilesSource([_open_file(file, delimiter, header) for file in files_in_order(path)])
    if not path.exists():
        near = difflib.get_close_matches(path.name, _siblings(path), n=1, cutoff=0.75)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise StreamError(f"file {str(path)!r} does not exist{hint}")
    return _open_file(path, delimiter, header)


def reads_once(path: str | Path) -> bool:
    """Whether a file is a pipe, of which nothing can be known before it is read."""
    return str(path) == "-" or Path(path).is_fifo()


def files_in_order(path: Path) -> list[Path]:
    """The files of a directory that are of a known kind, or those of a pattern, by name.

    Numbers in names count as numbers: part-2 comes before part-10.
    """
    if path.is_dir():
        found = [file for file in path.iterdir() if reads_as_known(file)]
    else:
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
    found = [file for file in found if file.is_file()]
    if not found:
        what = "directory" if path.is_dir() else "pattern"
        raise StreamError(f"{what} {str(path)!r} has no file that ends in {', '.join(_KNOWN)}")
    return sorted(found, key=lambda file: (_natural(str(file)), str(file)))


def reads_as_known(path: Path) -> bool:
    """Whether a file of a directory is read with the others: by its ending, unless hidden."""
    return _ending(path).endswith(_KNOWN) and not path.name.startswith((".", "_"))


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts if p]


def _ending(path: Path) -> str:
    """A name without the ending of its compression."""
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return name


def _delimiter(path: Path, given: str | None) -> str:
    return given or ("\t" if _ending(path).endswith(".tsv") else ",")


def _open_pipe(pipe: Pipe, delimiter: str, header: bool) -> Source:
    """CSV or NDJSON, by the first character."""
    if pipe.first_byte() == b"{":
        return NDJSONSource(pipe)
    return CSVSource(pipe, delimiter, header)


def _open_file(path: Path, delimiter: str | None, header: bool) -> Source:
    name = _ending(path)
    if name.endswith(_CSV):
        return CSVSource(TextFile(path), _delimiter(path, delimiter), header)
    if name.endswith(_NDJSON):
        return NDJSONSource(TextFile(path))
    if name.endswith(_LIBSVM):
        return LIBSVMSource(TextFile(path))
    if path.suffix.lower() in _PARQUET:
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
