"""One process owns a folder: a lock that the system lets go of when the process dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO


class FolderInUse(Exception):
    """Another process has the folder."""


class FolderLock:
    """Held from construction until `release`, or until the process ends in whatever way."""

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        self._file: IO[str] = path.open("a+")
        try:
            _take(self._file)
        except OSError:
            self._file.seek(0)
            owner = self._file.read().strip()
            self._file.close()
            who = f"process {owner}" if owner.isdigit() else "another process"
            raise FolderInUse(f"{folder} is in use by {who}: one server a folder") from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let the folder go."""
        self._file.close()


def _take(file: IO[str]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
