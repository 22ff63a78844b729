"""Which files an input is read from, so that no output is ever written over one of them.

A directory or a pattern is all its files, and those that would join them; standard input is the
file it was redirected from; a query is its database, every file that its text names, and every file
that DuckDB opens to plan it.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pronk.streams.errors import StreamError
from pronk.streams.sources.opening import files_in_order, reads_as_known
from pronk.streams.sources.remote import local_name
from pronk.streams.sources.sql import SQLSource

#: What databases keep beside their file.
_BESIDE = ("", ".wal", "-wal", "-shm", "-journal")


class Origins:
    """The files of one input.

    Parameters
    ----------
    name : what is read: a file, "-", a directory, a pattern, or with ``query`` a database
    query : SQL
    """

    def __init__(self, name: str, query: str | None = None) -> None:
        # Of places elsewhere no output can be one.
        self._name = local_name(name) if query is None else name
        self._query = query
        self._read = list(self._identities())

    def holds(self, path: Path) -> bool:
        """Whether a file is one of them, by whatever name or link."""
        try:
            found = path.stat()
        except OSError:
            return False
        return any(os.path.samestat(found, one) for one in self._read)

    def would_hold(self, path: Path) -> bool:
        """Whether a file that is not there yet would be one of them the next time."""
        if self._query is not None:
            patterns = [text for text in _literals(self._query) if glob.has_magic(text)]
            return any(_matches(path, pattern) for pattern in patterns)
        source = Path(self._name)
        if source.is_dir():
            return path.resolve().parent == source.resolve() and reads_as_known(path)
        return not source.exists() and glob.has_magic(self._name) and _matches(path, self._name)

    def _identities(self) -> Iterator[os.stat_result]:
        if self._name == "-" and self._query is None:
            yield from _redirected()
            return
        for file in self._files():
            try:
                yield file.stat()
            except OSError:  # its reader will say so
                continue

    def _files(self) -> Iterator[Path]:
        if self._query is None:
            path = Path(self._name)
            several = path.is_dir() or (not path.exists() and glob.has_magic(self._name))
            try:
                yield from files_in_order(path) if several else [path]
            except StreamError:  # its reader will say so
                return
            return
        place = self._name
        if place.startswith("adbc:"):
            place = place.split(":", 2)[-1].removeprefix("file:").partition("?")[0]
        yield from (Path(place + ending) for ending in _BESIDE)
        for text in _literals(self._query):
            yield Path(text)
            if glob.has_magic(text):
                yield from map(Path, glob.glob(text, recursive=True))
        yield from map(Path, SQLSource(self._name, self._query).opened())


def _literals(query: str) -> list[str]:
    """What stands in quotes in a query: DuckDB reads files by such names."""
    return [one or other for one, other in re.findall(r"'([^']+)'|\"([^\"]+)\"", query)]


def _redirected() -> list[os.stat_result]:
    """The file that standard input comes from, if it is one."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return []
    return [found] if stat.S_ISREG(found.st_mode) else []


def _matches(path: Path, pattern: str) -> bool:
    """Whether a pattern would find a file."""
    place = Path(os.path.realpath(path.parent)) / path.name
    steps = Path(os.path.abspath(pattern)).parts
    still = next((i for i, step in enumerate(steps) if glob.has_magic(step)), len(steps))
    fixed = Path(os.path.realpath(Path(*steps[:still]))).parts
    return _fits(place.parts, (*fixed, *steps[still:]))


def _fits(names: Sequence[str], steps: Sequence[str]) -> bool:
    if not steps:
        return not names
    if steps[0] == "**":
        return any(_fits(names[i:], steps[1:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], steps[0]) and _fits(names[1:], steps[1:])
