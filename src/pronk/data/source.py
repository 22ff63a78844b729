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
import os
import posixpath
import re
import select
import stat
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from pronk.data.errors import Argument, Message, StreamError, without_secret

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
    notes: tuple[Message, ...] = ()
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

    def at(self, row: int) -> FileSource:
        """Return a source of the same rows for another process, which reads from a row on.

        It begins at that row if its place in the file is known.
        """
        return self

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

    def unmatched(self) -> list[str]:
        """Return the words for missing values that have not been found so far."""
        words = [part.unmatched() for part in self._parts]
        return [word for word in words[0] if all(word in own for own in words)] if words else []


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
        self._charset = charset
        self.share: float | None = None  # of the file's bytes read so far
        self.cleaner: Cleaner | None = None

    def set_charset(self, charset: str) -> None:
        self._charset = charset

    def _decoded(self, stream: Any, marked: str | None) -> Any:
        """Return a stream of clean UTF-8."""
        charset = self._charset or marked
        text = stream if charset is None else _Decoded(stream, charset, str(self))
        return text if self.cleaner is None else _Cleaned(text, self.cleaner())


class TextFile(EncodedText):
    """Read a text file, plain or compressed."""

    def __init__(self, path: Path | Remote, charset: str | None = None) -> None:
        super().__init__(charset)
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def start(self) -> bytes:
        """Return the start of the text, in its own encoding."""
        with opened(self.path) as file, self._decompressed(file) as stream:
            return bytes(stream.read(_TEXT_BYTES))

    @property
    def seekable(self) -> bool:
        """Return whether pieces are bytes of the file, so that reading may begin at any row."""
        plain = self.path.suffix.lower() not in COMPRESSED and self.cleaner is None
        return plain and self._charset is None and self._marked() is None

    def pieces(self, ending: Ending = line_ending, start: int = 0) -> Iterator[bytes]:
        """Yield some whole rows at a time; from the byte ``start`` on if seekable."""
        with opened(self.path) as file, self._decompressed(file) as stream:
            size = file.size()
            if start:
                file.seek(start)
            read = self._decoded(stream, None if start or self._charset else self._marked())
            for piece, ahead in _cut(read, str(self), ending):
                self.share = max(1, file.tell() - ahead * (file is read)) / max(1, size)
                yield piece

    def _marked(self) -> str | None:
        """Return UTF-16 if the text begins with its byte order mark."""
        with opened(self.path) as file, self._decompressed(file) as stream:
            return marked(stream.read(2))

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
        self._kept = bytearray()
        self._ends: list[int] = []  # of the chunks that are kept
        self._dropped = False
        self._over = False

    def __str__(self) -> str:
        return "standard input" if self._path is None else str(self._path)

    seekable = False

    def start(self) -> bytes:
        """Return the start of the text that has arrived, in its own encoding."""
        return _Replayed(self).read(_TEXT_BYTES)

    def pieces(self, ending: Ending = line_ending, start: int = 0) -> Iterator[bytes]:
        """Yield the whole rows that have arrived, from the start."""
        if self._dropped:
            raise StreamError(f"{self} can be read only once; write it to a file first")
        reader, rest, enough, size = self._reader(), b"", 0, _TEXT_BYTES
        while data := reader.read(size):
            rest += data
            # A row ends with a line. A long row is searched a few times only.
            if b"\n" in data and len(rest) >= enough and (end := ending(rest, False)):
                yield rest[:end]
                size = _next_size(rest, end, size)
                rest, enough = rest[end:], 0
            elif len(rest) > _ROW_BYTES:
                raise _too_long(str(self))
            elif len(rest) >= max(enough, _TEXT_BYTES):
                enough = 2 * len(rest)
        if rest and (end := ending(rest, True)):
            yield rest[:end]

    def _reader(self) -> Any:
        first = b"" if self._charset else _Replayed(self).read(2)
        return self._decoded(_Replayed(self), marked(first))

    def first_byte(self) -> bytes:
        """Return the first byte that is not a space."""
        reader = self._reader()
        while data := reader.read(1):
            if not data.isspace():
                return data
        return b""

    def fetch(self, place: int, size: int) -> bytes:
        """Return bytes at a position: kept ones, then new ones, which are kept up to a limit."""
        if self._dropped:
            return self._read(size)
        if place == len(self._kept):
            self._kept += self._read(max(size, _TEXT_BYTES))
            self._ends.append(len(self._kept))
        end = self._ends[min(bisect_right(self._ends, place), len(self._ends) - 1)]
        data = bytes(self._kept[place : min(end, place + size)])
        if len(self._kept) > _KEPT_BYTES and place + len(data) == len(self._kept):
            self._kept.clear()
            self._dropped = True
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
        end = monotonic() + (_FIRST_WAIT if len(self._ends) < _FIRST else _WAIT)
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


class _Replayed:
    """Read a pipe from its start."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._place = 0

    def read(self, size: int) -> bytes:
        data = self._pipe.fetch(self._place, size)
        self._place += len(data)
        return data


class _Cleaned:
    """Read text whose whole lines are passed through a function."""

    def __init__(self, stream: Any, clean: Callable[[bytes], bytes]) -> None:
        self._stream = stream
        self._clean = clean
        self._rest = b""

    def read(self, size: int) -> bytes:
        while data := self._stream.read(size):
            data = self._rest + data
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            self._rest = data[end:]
            if end and (text := self._clean(data[:end])):
                return text
        last, self._rest = self._rest, b""
        return self._clean(last) if last else b""


class _Decoded:
    """Read text in some encoding and return UTF-8."""

    def __init__(self, stream: Any, charset: str, name: str) -> None:
        self._stream = stream
        self._name = name
        self._charset = charset
        self._decoder = codecs.getincrementaldecoder(charset)()

    def read(self, size: int) -> bytes:
        while True:
            data = self._stream.read(size)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeError as error:
                reason = getattr(error, "reason", str(error))
                raise StreamError(
                    f"{self._name} is not {self._charset} text: {reason}",
                    hint=("give another ", Argument("charset")),
                ) from None
            if text or not data:
                return text.encode()


def not_text(name: str) -> StreamError:
    """Return the error for bytes that are not UTF-8."""
    hint = ("give its encoding, as in ", Argument("charset", "latin-1"))
    return StreamError(f"{name} is not UTF-8 text", hint=hint)


def _cut(stream: Any, name: str, ending: Ending) -> Iterator[tuple[bytes, int]]:
    """Yield pieces of whole rows, and the number of bytes already read beyond each."""
    rest, enough, size = b"", 0, _TEXT_BYTES
    data = stream.read(size)
    while data:
        following = stream.read(size)
        rest += data
        last = not following
        end = ending(rest, last) if last or len(rest) >= enough else 0
        if end:
            yield rest[:end], len(following)
            size = _next_size(rest, end, size)
            rest, enough = rest[end:], 0
        elif len(rest) > _ROW_BYTES:
            raise _too_long(name)
        elif len(rest) >= enough:
            enough = 2 * len(rest)  # so that a long row is searched a few times only
        data = following


def _next_size(text: bytes, end: int, size: int) -> int:
    """Return the bytes to read next: more for wide rows, as parsers work per column and piece."""
    lines = max(1, text.count(b"\n", 0, end)) * _TEXT_BYTES // size
    wanted = _TEXT_BYTES * _LINES // max(1, lines)
    return max(_TEXT_BYTES, min(wanted, _WIDE_BYTES, _ROW_BYTES // 4))


def _too_long(name: str) -> StreamError:
    return StreamError(f"{name} has a line or quoted value of more than {_ROW_BYTES} bytes")


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
    if batch.schema.names == list(types) and batch.schema.types == list(types.values()):
        return batch
    columns = []
    for name, kind in types.items():
        if name == BAD and batch.schema.get_field_index(name) < 0:
            columns.append(pa.nulls(batch.num_rows, kind))
            continue
        if batch.schema.get_field_index(name) < 0:
            raise StreamError(f"a file has no column {name!r}, as the files before it")
        column = batch.column(name)
        if kind == pa.float64() and column.type != kind:
            column = column.cast(kind, safe=False)
        columns.append(column if column.type == kind else column.cast(kind))
    return pa.record_batch(columns, names=list(types))
