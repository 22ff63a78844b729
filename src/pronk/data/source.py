"""The interface of file sources, and the files and pipes that they read.

`FileSource` is the interface of a kind of file. `Remote` is a file behind a URL: s3://, gs://,
hdfs://, file:// and others that PyArrow's file systems know; it has a name and a size and can be
opened like a path, so that workers of a cluster read it by themselves. `TextFile` and `Pipe` read
text in pieces of whole rows. Each piece is parsed by itself, because a streaming reader would run
far ahead of the rows that are used; rows of a pipe come as they are written.
"""

from __future__ import annotations

import codecs
import fnmatch
import glob
import itertools
import os
import posixpath
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from pronk.data.errors import StreamError, argument, without_secret

#: Rows of a batch that a source makes itself.
BATCH_ROWS = 4096


#: The column with the reason why a row is bad; null for a good one. No file has this name.
BAD = "\x00why"
#: The start of a reason that is no fault: the line is not a row of data, and is always left out.
NOT_DATA = "not a row of data: "


def own_types(types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the requested columns without the column of reasons."""
    return {name: kind for name, kind in types.items() if name != BAD}


class FileSource:
    """Read one kind of file, or be a view of other sources, its parts."""

    #: Whether values are text that reads as any type.
    untyped = False
    #: Whether dates and times are text in the file.
    times_in_text = False
    #: The column of the labels, if the kind of file defines one.
    label: str | None = None
    #: What was found in the file that a user may want to know.
    notes: tuple[str, ...] = ()
    _parts: tuple[FileSource, ...] = ()

    def __init__(self, *parts: FileSource) -> None:
        """Be a view of some sources; what is not said otherwise is as in the first of them."""
        self._parts, first = parts, parts[0]
        self.untyped, self.times_in_text = first.untyped, first.times_in_text
        self.label, self.notes = first.label, first.notes

    def schema(self) -> pa.Schema:
        """Return names and types of the columns; types inferred from the start if it has none."""
        return self._parts[0].schema()

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the columns named in ``types`` as those types, after the first ``skip`` rows."""
        return without(self._all(types), skip)

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield all rows, where a kind of file has no faster way to its middle."""
        raise NotImplementedError

    def total(self) -> float | None:
        """Return the number of rows, exact or estimated from what was read; None if unknown."""
        return self._parts[0].total() if self._parts else None

    def widen(self, columns: Sequence[str]) -> None:
        """Declare columns that will be requested; a sparse file may not contain all of them."""
        for part in self._parts:
            part.widen(columns)

    def require(self, columns: Iterable[str]) -> None:
        """Declare columns in which a word among numbers is a bad row, not a missing value."""
        names = set(columns)
        for part in self._parts:
            part.require(names)

    def unread_words(self) -> dict[str, dict[str, Any]]:
        """Return, by column, the number of words among its numbers so far, and the first."""
        found: dict[str, dict[str, Any]] = {}
        for part in self._parts:
            for name, one in part.unread_words().items():
                found.setdefault(name, {**one, "rows": 0})["rows"] += one["rows"]
        return found


def count(
    counts: dict[str, dict[str, Any]], name: str, row: int, value: Any, rows: int = 1
) -> None:
    """Add rows of a column to the counts, which also have the number and value of the first."""
    counts.setdefault(name, {"rows": 0, "first": row, "value": value})["rows"] += rows


def without(batches: Iterator[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """Yield batches without their first ``skip`` rows."""
    for batch in batches:
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


# -- URLs ----------------------------------------------------------------------------------------

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Remote:
    """A file or directory in a file system of PyArrow."""

    def __init__(self, url: str, system: Any, place: str) -> None:
        self.url, self.system, self.place = url, system, place

    @classmethod
    def of(cls, url: str) -> Remote:
        from pyarrow import fs

        try:
            system, place = fs.FileSystem.from_uri(url)
        except (pa.ArrowException, OSError, ValueError) as error:
            text = str(error).strip().splitlines()[0]
            raise StreamError(f"{without_secret(url)!r} cannot be opened: {text}") from None
        return cls(url, system, place)

    def __str__(self) -> str:
        """Return the URL without secrets, for messages; ``url`` opens the file again."""
        return without_secret(self.url)

    @property
    def name(self) -> str:
        return posixpath.basename(self.place.rstrip("/"))

    @property
    def suffix(self) -> str:
        return posixpath.splitext(self.name)[1]

    @property
    def _info(self) -> Any:
        try:
            return self.system.get_file_info(self.place)
        except (pa.ArrowException, OSError) as error:
            text = str(error).strip().splitlines()[0]
            raise StreamError(f"{str(self)!r} cannot be read: {text}") from None

    def is_file(self) -> bool:
        return bool(self._info.is_file)

    def is_dir(self) -> bool:
        return not self.is_file() and self._info.type.name == "Directory"

    def is_fifo(self) -> bool:
        return False

    def exists(self) -> bool:
        return self._info.type.name != "NotFound"

    def stat(self) -> Any:
        """Return the size in bytes, as ``st_size``."""
        return SimpleNamespace(st_size=self._info.size)

    def open(self, mode: str = "rb") -> Any:
        """Open the file for reading at any position."""
        return self.system.open_input_file(self.place)

    def inside(self) -> list[Remote]:
        """Return the files of a directory, or those that match a pattern in the last part."""
        from pyarrow import fs

        folder, pattern = self.place.rstrip("/"), "*"
        if not self.is_dir():
            folder, pattern = posixpath.split(folder)
        found = self.system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        start, _, end = self.url.partition(self.place)  # the rest of the URL stays
        return [
            Remote(start + info.path + end.removeprefix("/"), self.system, info.path)
            for info in found
            if info.is_file and fnmatch.fnmatchcase(info.base_name, pattern)
        ]


def has_pattern(path: Any) -> bool:
    """Return whether a name is a pattern; the query after ? in a URL is not."""
    return glob.has_magic(path.place if isinstance(path, Remote) else str(path))


def is_url(file: str) -> bool:
    return _URL.match(file) is not None


def local_name(file: str) -> str:
    """Return the path of a file:// URL; other names unchanged."""
    return Remote.of(file).place if file.startswith("file://") else file


def located(file: str) -> Any:
    """Return a file as a path, or as `Remote` for a URL."""
    return Remote.of(file) if is_url(file) else Path(file)


def opened(path: Any) -> Any:
    """Open a path or `Remote` as an Arrow file."""
    return path.open() if isinstance(path, Remote) else pa.OSFile(str(path))


# -- text in pieces of whole rows ----------------------------------------------------------------

#: Bytes per read; types are inferred from the first piece. Bytes of the longest row.
_TEXT_BYTES = 1 << 20
_ROW_BYTES = 1 << 26
#: Minimum number of lines per piece, unless the piece would be larger than this.
_LINES, _WIDE_BYTES = 256, 1 << 24
#: Seconds to wait for more bytes of a pipe after the first byte of a piece; longer for the first
#: pieces, which decide types and task.
_WAIT, _FIRST_WAIT, _FIRST = 0.05, 1.0, 2
#: Bytes of a pipe that are kept, so that its start can be inspected before it is read.
_KEPT_BYTES = 1 << 26

#: The byte order marks of UTF-16.
_UTF16, _BYTE_ORDER_MARKS = "utf-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

#: A function that returns where the whole rows at the start of some text end, 0 if there is none;
#: its second argument is whether the text is the last.
Ending = Callable[[bytes, bool], int]
#: A function that reads bytes, at most the given number, as `read` of a file.
Read = Callable[[int], bytes]
#: A function that begins to clean a text, and returns a function that cleans some whole lines.
Cleaner = Callable[[], Callable[[bytes], bytes]]


def marked(start: bytes) -> str | None:
    """Return UTF-16 if a text begins with its byte order mark."""
    return _UTF16 if start[:2] in _BYTE_ORDER_MARKS else None


def line_ending(text: bytes, last: bool) -> int:
    """Return where the whole lines end, if each row is a line."""
    return len(text) if last else text.rfind(b"\n") + 1


class EncodedText:
    """Base class of text: ``charset`` is its encoding, if it is known."""

    def __init__(self, charset: str | None = None) -> None:
        self.charset = charset
        self.share: float | None = None  # of the file's bytes read so far
        self.cleaner: Cleaner | None = None

    def _decoded(self, read: Read, start: bytes) -> Read:
        """Return a function that reads clean UTF-8; ``start`` is that of the text."""
        charset = self.charset or marked(start)
        text = read if charset is None else _decoded(read, charset, str(self))
        return text if self.cleaner is None else _cleaned(text, self.cleaner())


class TextFile(EncodedText):
    """Read a text file, plain or compressed."""

    def __init__(self, path: Path | Remote, charset: str | None = None) -> None:
        super().__init__(charset)
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def start(self, size: int = _TEXT_BYTES) -> bytes:
        """Return the start of the text, in its own encoding."""
        with opened(self.path) as file, self._decompressed(file) as stream:
            return bytes(stream.read(size))

    def pieces(self, ending: Ending = line_ending) -> Iterator[bytes]:
        """Yield some whole rows at a time."""
        with opened(self.path) as file, self._decompressed(file) as stream:
            size = file.size()
            read = self._decoded(stream.read, self.start(2))
            plain = read == file.read
            for piece, ahead in _cut(read, str(self), ending):
                self.share = max(1, file.tell() - ahead * plain) / max(1, size)
                yield piece

    def _decompressed(self, file: Any) -> Any:
        codec = COMPRESSED.get(self.path.suffix.lower())
        return file if codec is None else pa.CompressedInputStream(file, codec)


class Pipe(EncodedText):
    """Read standard input or a named pipe; keep its start, so that it can be read again.

    A chunk is what arrives within a moment; on the second reading the chunks are the same.
    """

    def __init__(self, path: Path | None = None, charset: str | None = None) -> None:
        super().__init__(charset)
        self._path = path
        self._stream: Any = None
        self._kept: list[bytes] = []  # chunks
        self._left = _KEPT_BYTES  # bytes that may still be kept; below 0 none are
        self._over = False

    def __str__(self) -> str:
        return "standard input" if self._path is None else str(self._path)

    def start(self) -> bytes:
        """Return the start of the text that has arrived, in its own encoding."""
        return self._replayed()(_TEXT_BYTES)

    def pieces(self, ending: Ending = line_ending) -> Iterator[bytes]:
        """Yield the whole rows that have arrived, from the start."""
        if self._left < 0:
            raise StreamError(f"{self} can be read only once; write it to a file first")
        for piece, _ in _cut(self._reader(), str(self), ending, live=True):
            yield piece

    def _reader(self) -> Read:
        return self._decoded(self._replayed(), b"" if self.charset else self.start())

    def _replayed(self) -> Read:
        """Return a function that reads the pipe from its start."""
        numbers = itertools.count()
        return lambda size: self._chunk(next(numbers), size)

    def first_byte(self) -> bytes:
        """Return the first byte that is not a space."""
        read = self._reader()
        while (data := read(1)).isspace():
            pass
        return data.lstrip()[:1]

    def _chunk(self, number: int, size: int) -> bytes:
        """Return a chunk: one that is kept, or a new one, which is kept up to the limit."""
        if number < len(self._kept):
            return self._kept[number]
        data = self._read(max(size, _TEXT_BYTES))
        if self._left >= 0:
            self._kept.append(data)
            self._left -= len(data)
            if self._left < 0:
                self._kept.clear()
        return data

    def _read(self, size: int) -> bytes:
        if self._over:
            return b""
        if self._stream is None:
            self._stream = sys.stdin.buffer if self._path is None else self._path.open("rb")
        handle = _waits(self._stream)
        data = self._stream.read(size) if handle is None else self._gather(handle, size)
        if not data:
            self._over = True
            if self._path is not None:
                self._stream.close()
        return bytes(data)

    def _gather(self, handle: int, size: int) -> bytes:
        """Read what arrives within a moment after the first byte."""
        data = os.read(handle, size)
        end = monotonic() + (_FIRST_WAIT if self._left >= 0 and len(self._kept) < _FIRST else _WAIT)
        ready = select.poll()
        ready.register(handle, select.POLLIN)
        while data and len(data) < size:
            left = end - monotonic()
            if left <= 0 or not ready.poll(1000 * left):
                break
            more = os.read(handle, size - len(data))
            if not more:
                break
            data += more
        return data


def _waits(stream: Any) -> int | None:
    """Return the descriptor of a pipe or terminal; None for a regular file or an object."""
    try:
        handle: int = stream.fileno()
        regular = stat.S_ISREG(os.fstat(handle).st_mode)
    except (OSError, ValueError, AttributeError):
        return None
    return handle if hasattr(select, "poll") and not regular else None


def _cleaned(read: Read, clean: Callable[[bytes], bytes]) -> Read:
    """Return a function that reads text whose whole lines are passed through a function."""
    rest = b""

    def cleaned(size: int) -> bytes:
        nonlocal rest
        while data := read(size):
            data = rest + data
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            rest = data[end:]
            if end and (text := clean(data[:end])):
                return text
        last, rest = rest, b""
        return clean(last) if last else b""

    return cleaned


def _decoded(read: Read, charset: str, name: str) -> Read:
    """Return a function that reads text in some encoding as UTF-8."""
    decoder = codecs.getincrementaldecoder(charset)()

    def decoded(size: int) -> bytes:
        while True:
            data = read(size)
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeError as error:
                reason = getattr(error, "reason", str(error))
                raise StreamError(
                    f"{name} is not {charset} text: {reason}",
                    hint=f"give another {argument('charset')}",
                ) from None
            if text or not data:
                return text.encode()

    return decoded


def not_text(name: str) -> StreamError:
    """Return the error for bytes that are not UTF-8."""
    hint = f"give its encoding, as in {argument('charset', 'latin-1')}"
    return StreamError(f"{name} is not UTF-8 text", hint=hint)


def _cut(read: Read, name: str, ending: Ending, live: bool = False) -> Iterator[tuple[bytes, int]]:
    """Yield pieces of whole rows, and the number of bytes already read beyond each.

    Rows of a ``live`` text are used as they arrive: nothing is read beyond them.
    """
    rest, enough, size = b"", 0, _TEXT_BYTES
    data = read(size)
    while data:
        rest += data
        ahead = b"" if live else read(size)
        last = not (live or ahead)
        # A row that arrives ends with a line. A long row is searched a few times only.
        search = last or (len(rest) >= enough and (not live or b"\n" in data))
        if search and (end := ending(rest, last)):
            yield rest[:end], len(ahead)
            size = _next_size(rest, end, size)
            rest, enough = rest[end:], 0
        elif len(rest) > _ROW_BYTES:
            raise StreamError(f"{name} has a line or quoted value of more than {_ROW_BYTES} bytes")
        elif len(rest) >= max(enough, _TEXT_BYTES):
            enough = 2 * len(rest)
        data = read(size) if live else ahead
    if rest and (end := ending(rest, True)):
        yield rest[:end], 0


def _next_size(text: bytes, end: int, size: int) -> int:
    """Return the bytes to read next: more for wide rows, as parsers work per column and piece."""
    lines = max(1, text.count(b"\n", 0, end)) * _TEXT_BYTES // size
    wanted = _TEXT_BYTES * _LINES // max(1, lines)
    return max(_TEXT_BYTES, min(wanted, _WIDE_BYTES, _ROW_BYTES // 4))


Text = TextFile | Pipe


class TextSource(FileSource):
    """Base class for kinds of text."""

    def __init__(self, file: Text) -> None:
        self.file = file
        self._rows = 0

    def total(self) -> float | None:
        return self._rows / self.file.share if self.file.share else None


def as_types(batch: pa.RecordBatch, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch with the given columns and types, which a later file may lack."""
    columns, known = [], set(batch.schema.names)
    for name, kind in types.items():
        if name not in known and name != BAD:
            raise StreamError(f"a file has no column {name!r}, as the files before it")
        column = batch.column(name) if name in known else pa.nulls(batch.num_rows, kind)
        if column.type != kind:
            column = column.cast(kind, safe=kind != pa.float64())
        columns.append(column)
    return pa.record_batch(columns, names=list(types))
