"""Write files atomically, and lock them against other processes.

A file is written under a temporary name in the same folder, synced and renamed, so a crash leaves
the old file or the new one. The writer holds a lock on the temporary file; a temporary file whose
lock is free was left by a killed writer, and the next writer of the same file removes it.
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

#: Permissions of a new file before the process's umask, which determines who may read a model.
_NEW_FILE = 0o666
#: Errors of a file system that has no locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def write_atomically(path: str | Path, data: bytes, permissions: int | None = None) -> None:
    """Write a file, whole or not at all; of a symbolic link, the file that it names.

    ``permissions`` default to those of the existing file, or of a new file. Raise an OSError if the
    folder does not exist, or if ``path`` is a device, a pipe, a socket or a directory, which a
    rename would replace.
    """
    place = Path(os.path.realpath(path))
    if not regular_or_new(place):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if not place.parent.is_dir():
        reason = f"there is no folder {str(place.parent)!r}; make it first"
        raise FileNotFoundError(errno.ENOENT, reason)
    remove_leftovers(place)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            _lock(file.fileno())
            file.write(data)
            file.flush()
            if permissions is None:
                permissions = (
                    place.stat().st_mode & 0o7777 if place.exists() else _new_permissions()
                )
            os.chmod(name, permissions)
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
    """Flush a rename in the folder to the disk."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(path: str | Path) -> None:
    """Remove temporary files that killed writers of ``path`` left; live writers hold a lock."""
    place = Path(os.path.realpath(path))
    for other in place.parent.glob(f".{glob.escape(place.name)}.????????"):
        try:
            with open(other, "rb") as file:
                if _lock(file.fileno()):
                    other.unlink(missing_ok=True)
        except OSError:
            continue  # owned by another user, or removed meanwhile


def _lock(handle: int) -> bool:
    """Lock a file for as long as it is open; return False if another process has the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _new_permissions() -> int:
    """Return the permissions of a new file; those of mkstemp are for the owner only."""
    mask = os.umask(0)
    os.umask(mask)
    return _NEW_FILE & ~mask


class InUse(Exception):
    """Raised if another process, or another part of this one, has the lock."""


class FileLock:
    """Hold a lock from construction until `release`, or until the process ends in any way.

    `pronk serve` locks its folder, `pronk run` its checkpoint.

    Parameters
    ----------
    path : the file that is locked; it contains the number of the process
    what : the name of the locked thing in messages
    advice : the end of messages
    keep_file : whether the file remains after `release`
    """

    def __init__(self, path: Path, what: str, advice: str, *, keep_file: bool = True) -> None:
        self._path, self._keep_file = path, keep_file
        self._file = self._acquired(f"{what} is in use by", advice)
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def _acquired(self, what: str, advice: str) -> IO[str]:
        """Return the open and locked file; raise an InUse if another process has the lock."""
        while True:
            file = self._path.open("a+")
            try:
                _lock_or_raise(file)
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
            file.close()  # the last owner removed the file meanwhile: open a new one

    def release(self) -> None:
        """Release the lock."""
        if self._file.closed:
            return
        if not self._keep_file:
            with contextlib.suppress(OSError):  # Windows cannot remove an open file
                self._path.unlink()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _is_at(file: IO[str], path: Path) -> bool:
    """Return whether ``path`` still names an open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock_or_raise(file: IO[str]) -> None:
    """Lock a file; raise a BlockingIOError if another process has the lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            raise BlockingIOError from None
        if error.errno not in _NO_LOCKS:
            raise
