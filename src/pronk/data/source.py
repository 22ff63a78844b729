"""What every kind of source offers."""

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, Protocol, Self

import pyarrow as pa

from pronk.data.errors import Argument, StreamError, without_secret

#: Rows of a batch that a source makes itself.
BATCH_ROWS = 4096


#: The column that says why a row is bad; null for a good one. No file has a column of this name.
BAD = "\x00why"


def own_types(types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The columns that a file has, of those that are asked for."""
    return {name: kind for name, kind in types.items() if name != BAD}


class FileSource(Protocol):
    """One kind of file."""

    @property
    def untyped(self) -> bool:
        """Whether values are text that reads as any type."""
        ...

    @property
    def times_in_text(self) -> bool:
        """Whether dates and times are text in the file."""
        ...

    @property
    def label(self) -> str | None:
        """The column of the labels, where the kind of file says."""
        ...

    def schema(self) -> pa.Schema:
        """Names and types of the columns; where the file has no types, those of its start."""
        ...

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The columns named in ``types``, read as those types, without the first ``skip`` rows."""
        ...

    def total(self) -> float | None:
        """Rows in the file, where it can be told: exactly, or estimated by what was read so far."""
        ...

    def at(self, row: int) -> FileSource:
        """A source of the same rows for who reads from a row on: where it is known it begins there.

        It can be sent to another process.
        """
        ...

    def widen(self, columns: Sequence[str]) -> None:
        """These columns will be asked for: a sparse file has them though it may not show them."""
        ...


class Dense:
    """Kinds of files that show all their columns."""

    untyped = False
    times_in_text = False
    label: str | None = None

    def at(self, row: int) -> Self:
        return self

    def widen(self, columns: Sequence[str]) -> None:
        pass


def without(batches: Iterator[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """Batches without their first rows."""
    for batch in batches:
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


# ----------------------------------------------------------------------------------------
# Files by URL: s3://, gs://, hdfs://, file:// and what else PyArrow's file systems know.
#
# A `Remote` stands where a path would: it has a name, a size, and can be opened. Who reads it
# needs nothing else, so that workers of a cluster read the same places by themselves.

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Remote:
    """A file or directory of a file system of PyArrow."""

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
        """For messages; to open it again there is ``url``."""
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
        """With the size in bytes."""
        return SimpleNamespace(st_size=self._info.size)

    def open(self, mode: str = "rb") -> Any:
        """The file, to be read from any place."""
        return self.system.open_input_file(self.place)

    def inside(self) -> list[Remote]:
        """The files of a directory, or those that a pattern in the last part of the name names."""
        from pyarrow import fs

        folder, pattern = self.place.rstrip("/"), "*"
        if not self.is_dir():
            folder, pattern = posixpath.split(folder)
        found = self.system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        start, _, end = self.url.partition(self.place)  # what stands around the place stays
        return [
            Remote(start + info.path + end.removeprefix("/"), self.system, info.path)
            for info in found
            if info.is_file and fnmatch.fnmatchcase(info.base_name, pattern)
        ]


def has_pattern(path: Any) -> bool:
    """Whether a name is a pattern; what follows ? in a URL is none."""
    return glob.has_magic(path.place if isinstance(path, Remote) else str(path))


def is_url(file: str) -> bool:
    return _URL.match(file) is not None


def local_name(file: str) -> str:
    """The path behind file://; other URLs as they are."""
    return Remote.of(file).place if file.startswith("file://") else file


def located(file: str) -> Any:
    """Where a file is: a path, or a place in a file system."""
    return Remote.of(file) if is_url(file) else Path(file)


def opened(path: Any) -> Any:
    """A file of Arrow's, for a path or a place."""
    return path.open() if isinstance(path, Remote) else pa.OSFile(str(path))


# ----------------------------------------------------------------------------------------
# Text, from files and pipes, in pieces of whole rows.
#
# Each piece is parsed by itself: a streaming reader would run far ahead of the rows that are used.
# Rows of a pipe come as they are written: a piece is what arrives within a moment.

#: Read at once from a text, whose types are inferred from the first piece; longest row.
_TEXT_BYTES = 1 << 20
_ROW_BYTES = 1 << 26
#: Lines that a piece has at least, unless it would be larger than this.
_LINES, _WIDE_BYTES = 256, 1 << 24
#: Seconds that a piece of a pipe waits for more after its first byte; the first ones, which decide
#: types and task, wait longer.
_WAIT, _FIRST_WAIT, _FIRST = 0.05, 1.0, 2
#: Bytes of a pipe that are kept, so that its start can be looked at before it is read.
_KEPT_BYTES = 1 << 26

#: What UTF-16 begins with.
_UTF16, _MARKS = "utf-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

#: Where the whole rows at the start of some text end, 0 if there is none; whether it is the last.
Ending = Callable[[bytes, bool], int]


def line_ending(text: bytes, last: bool) -> int:
    """Where the whole lines end, if each row is a line."""
    return len(text) if last else text.rfind(b"\n") + 1


class TextFile:
    """A text file, plain or compressed."""

    def __init__(self, path: Path | Remote, charset: str | None = None) -> None:
        self.path = path
        self._charset = charset
        self.share: float | None = None  # of the file's bytes that the pieces so far take

    def __str__(self) -> str:
        return str(self.path)

    @property
    def seekable(self) -> bool:
        """Whether the bytes of a piece are those of the file: reading may begin at any row."""
        plain = self.path.suffix.lower() not in COMPRESSED
        return plain and self._charset is None and self._marked() is None

    def pieces(self, ending: Ending = line_ending, start: int = 0) -> Iterator[bytes]:
        """Some whole rows at a time; of a seekable file from the byte ``start`` on."""
        charset = self._charset or (None if start else self._marked())
        with opened(self.path) as file, self._decompressed(file) as stream:
            size = file.size()
            if start:
                file.seek(start)
            read = stream if charset is None else _Decoded(stream, charset, str(self))
            for piece, ahead in _cut(read, str(self), ending):
                self.share = max(1, file.tell() - ahead * (file is read)) / max(1, size)
                yield piece

    def _marked(self) -> str | None:
        """UTF-16, if the text begins with its mark."""
        with opened(self.path) as file, self._decompressed(file) as stream:
            return _UTF16 if stream.read(2) in _MARKS else None

    def _decompressed(self, file: Any) -> Any:
        codec = COMPRESSED.get(self.path.suffix.lower())
        return file if codec is None else pa.CompressedInputStream(file, codec)


class Pipe:
    """Standard input, or a named pipe. Its start is kept, to be looked at and then read again.

    It is read in chunks of what arrives within a moment; read again, the chunks are the same.
    """

    def __init__(self, path: Path | None = None, charset: str | None = None) -> None:
        self._charset = charset
        self.share: float | None = None
        self._path = path
        self._stream: Any = None
        self._kept = bytearray()
        self._ends: list[int] = []  # of the chunks that are kept
        self._dropped = False
        self._over = False

    def __str__(self) -> str:
        return "standard input" if self._path is None else str(self._path)

    seekable = False

    def pieces(self, ending: Ending = line_ending, start: int = 0) -> Iterator[bytes]:
        """The whole rows that have arrived, from the start."""
        if self._dropped:
            raise StreamError(f"{self} can be read only once; write it to a file first")
        reader, rest, enough, size = self._reader(), b"", 0, _TEXT_BYTES
        while data := reader.read(size):
            rest += data
            # A row ends with a line. A long one is looked through a few times only.
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
        charset = self._charset or (_UTF16 if _Replayed(self).read(2) in _MARKS else None)
        reader = _Replayed(self)
        return reader if charset is None else _Decoded(reader, charset, str(self))

    def first_byte(self) -> bytes:
        """The first byte that is no space."""
        reader = self._reader()
        while data := reader.read(1):
            if not data.isspace():
                return data
        return b""

    def fetch(self, place: int, size: int) -> bytes:
        """Some bytes at a place: kept ones, then new ones, which are kept while there is room."""
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
        """What arrives within a moment after the first byte."""
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
    """The descriptor of a stream whose bytes come with time; None of a file, and of no system's."""
    try:
        handle: int = stream.fileno()
        regular = stat.S_ISREG(os.fstat(handle).st_mode)
    except (OSError, ValueError, AttributeError):
        return None
    return handle if hasattr(select, "poll") and not regular else None


class _Replayed:
    """A reader from the start of a pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._place = 0

    def read(self, size: int) -> bytes:
        data = self._pipe.fetch(self._place, size)
        self._place += len(data)
        return data


class _Decoded:
    """A reader of text in some encoding, as UTF-8."""

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
    """Pieces of whole rows, and how many bytes were read beyond the next ones."""
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
            enough = 2 * len(rest)  # so that a long row is looked through a few times only
        data = following


def _next_size(text: bytes, end: int, size: int) -> int:
    """Bytes to read next. A parser has work for every column of a piece: of wide rows more."""
    lines = max(1, text.count(b"\n", 0, end)) * _TEXT_BYTES // size
    wanted = _TEXT_BYTES * _LINES // max(1, lines)
    return max(_TEXT_BYTES, min(wanted, _WIDE_BYTES, _ROW_BYTES // 4))


def _too_long(name: str) -> StreamError:
    return StreamError(f"{name} has a line or quoted value of more than {_ROW_BYTES} bytes")


Text = TextFile | Pipe


class TextSource(Dense):
    """What the kinds of text have in common."""

    def __init__(self, file: Text) -> None:
        self.file = file
        self._rows = 0

    def total(self) -> float | None:
        return self._rows / self.file.share if self.file.share else None
