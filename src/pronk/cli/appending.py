"""A file that grows as the stream goes, and can be cut back to where a snapshot was taken."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import Any, Self

from pronk.cli.errors import CommandError


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, but not a pipe that appeared under its name: that would wait for a reader."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


class AppendedFile:
    """Rows and bytes written so far; what is written is in the file at once.

    Parameters
    ----------
    path : file name
    option : how messages call it
    place : where the bytes go, if not to ``path``
    """

    def __init__(self, path: Path, option: str, place: Path | None = None) -> None:
        self.path = path
        self.option = option
        self.rows = 0
        self.bytes = 0
        self._place = place or path
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file, also after an error: what was written until then can be read."""
        if self._file is not None:
            self._file.close()

    def start(self) -> None:
        """Begin an empty file."""
        self._open(0)

    def resume(self, rows: int, size: int) -> None:
        """Go on after so many rows and bytes; what stands behind them is cut off."""
        held = self._place.stat().st_size if self._place.exists() else 0
        if held < size:
            raise CommandError(
                f"{self.option}: {str(self._place)!r} has {held:,} bytes, but the checkpoint says "
                f"{size:,}; give the file that belongs to it, or remove the checkpoint"
            )
        self._open(size)
        self.rows = rows

    def _open(self, size: int) -> None:
        try:
            # Unbuffered: what is written is in the file, and a full disk is noticed at once.
            self._file = FileIO(self._place, "r+" if size else "w", opener=_without_waiting)
            self._file.truncate(size)
            self._file.seek(size)
        except OSError as error:
            raise self._failed(error) from None
        self.bytes = size

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.bytes += len(data)

    def sync(self) -> None:
        """Let everything written so far reach the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> CommandError:
        reason = error.strerror or error
        return CommandError(f"{self.option}: {str(self.path)!r} cannot be written: {reason}", 1)
