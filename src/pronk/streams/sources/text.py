"""Text, from files and pipes, in pieces of whole rows.

Each piece is parsed by itself: a streaming reader would run far ahead of the rows that are used.
Rows of a pipe come as they are written: a piece is what arrives within a moment.
"""

from __future__ import annotations

import codecs
import os
import select
import stat
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from pronk.streams.errors import StreamError, argument
from pronk.streams.sources.base import Dense
from pronk.streams.sources.remote import Remote, opened

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
                    f"{self._name} is no {self._charset} text: {reason}; give another "
                    f"{argument('charset')}"
                ) from None
            if text or not data:
                return text.encode()


def not_text(name: str) -> StreamError:
    """Bytes that are no UTF-8."""
    give = argument("charset", "latin-1")
    return StreamError(f"{name} is no UTF-8 text; give its encoding, as in {give}")


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
