"""Files by URL: s3://, gs://, hdfs://, file:// and what else PyArrow's file systems know.

A `Remote` stands where a path would: it has a name, a size, and can be opened. Who reads it needs
nothing else, so that workers of a cluster read the same places by themselves.
"""

from __future__ import annotations

import fnmatch
import glob
import posixpath
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from pronk.streams.errors import StreamError, without_secret

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
