"""Files that are written whole or not at all.

A file is written beside its place, synced and renamed, so a crash leaves the old file or the new
one. What a killed writer left beside the place is removed by the next writer of the same file. The
name beside tells whose it is: its process, and a lock on it while that process lives.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import IO, Self

try:
    import fcntl
except ImportError:  # not on Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

#: Rights of a new file before the process's umask: a model tells of the data it learned from, and
#: the umask says who may read.
_NEW_FILE = 0o666


def write_atomically(path: str | Path, data: bytes, rights: int | None = None) -> None:
    """Write a file, whole or not at all. A symbolic link stays one: what it names is written.

    ``rights`` are those of the file there is, or of a new one, if not given. An OSError if ``path``
    is a device, a pipe, a socket or a directory, which a rename would replace by a file.
    """
    place = Path(os.path.realpath(path))
    if not regular_or_new(place):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(place)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            _lock(file.fileno())
            file.write(data)
            file.flush()
            if rights is None:
                rights = place.stat().st_mode & 0o7777 if place.exists() else _rights()
            os.chmod(name, rights)
            os.fsync(file.fileno())
            os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(place.parent)


def regular_or_new(path: str | Path) -> bool:
    """Return whether ``path``, or what it links to, is a regular file or does not exist."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def sync_folder(folder: Path) -> None:
    """Let a rename in the folder reach the disk too."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(path: str | Path) -> None:
    """Remove the files that killed writers of ``path`` left beside it; live ones hold a lock."""
    place = Path(os.path.realpath(path))
    for other in place.parent.glob(f".{glob.escape(place.name)}.????????"):
        try:
            with open(other, "rb") as file:
                if _lock(file.fileno()):
                    other.unlink(missing_ok=True)
        except OSError:
            continue  # somebody else's, or gone already


def _lock(handle: int) -> bool:
    """Take the lock of a file for as long as it is open; False if another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _rights() -> int:
    """What a newly created file gets: mkstemp's would be the owner's alone."""
    mask = os.umask(0)
    os.umask(mask)
    return _NEW_FILE & ~mask


# ----------------------------------------------------------------------------------------
# One process at a time: a lock that the system lets go of when the process ends, however it ends.
#
# `pronk serve` holds one for its folder, `pronk run` one for its checkpoint.

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
