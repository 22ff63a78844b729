"""One process at a time: a lock that the system lets go of when the process ends, however it ends.

`pronk serve` holds one for its folder, `pronk run` one for its checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import IO, Self

#: What a file system says that knows no locks: there is none to wait for.
_UNKNOWN = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class InUse(Exception):
    """Another process, or another part of this one, has the lock."""


class FileLock:
    """Held from construction until `release`, or until the process ends in whatever way.

    Parameters
    ----------
    path : the file that is locked; it holds the number of the process
    what : how messages call what is locked
    advice : what they say at their end
    stays : whether the file stays; one that goes is removed by the last that held it
    """

    def __init__(self, path: Path, what: str, advice: str, *, stays: bool = True) -> None:
        self._path, self._stays = path, stays
        self._file = self._held(f"{what} is in use by", advice)
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def _held(self, what: str, advice: str) -> IO[str]:
        while True:
            file = self._path.open("a+")
            try:
                _take(file)
            except BlockingIOError:
                file.seek(0)
                owner = file.read(20).strip()
                file.close()
                who = f"process {owner}" if owner.isdigit() else "another process"
                raise InUse(f"{what} {who}: {advice}") from None
            except BaseException:
                file.close()
                raise
            if _is_at(file, self._path):
                return file
            file.close()  # the one that held it removed it meanwhile

    def release(self) -> None:
        """Let go."""
        if self._file.closed:
            return
        if not self._stays:
            with contextlib.suppress(OSError):  # Windows removes no open file
                self._path.unlink()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _take(file: IO[str]) -> None:
    """Lock a file or raise a BlockingIOError."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            raise BlockingIOError from None
        if error.errno not in _UNKNOWN:
            raise
