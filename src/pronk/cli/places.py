"""Outputs that would destroy something: an input, a model that is read, or one another.

This comes before any file is opened for writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from pronk.cli.errors import CommandError
from pronk.cli.outputs import check_file
from pronk.streams.sources import Origins


def check_outputs(outputs: Mapping[str, Path | None], file: str, query: str | None = None) -> None:
    """Can the outputs be written, each to a file of its own, and none of them read?

    ``outputs`` are the files by the option that names them; "-" is standard output. ``file`` and
    ``query`` are the input.
    """
    written = {
        option: path for option, path in outputs.items() if path is not None and str(path) != "-"
    }
    read = Origins(file, query)
    for option, path in written.items():
        for place in (path, *_beside(path)):
            refuse_input(option, place, read)
    for (one, path), (other, place) in combinations(written.items(), 2):
        if any(_same(a, b) for a in (path, *_beside(path)) for b in (place, *_beside(place))):
            raise CommandError(f"{one} and {other} name the same file, {str(path)!r}")
    for option, path in written.items():
        for place in (path, *_beside(path)):
            check_file(option, place)


def refuse_input(option: str, path: Path, read: Origins) -> None:
    """Refuse a file that is read, or that the same command would read the next time."""
    where = f"{option}: {str(path)!r}"
    if read.holds(path):
        raise CommandError(f"{where} is the input file, or one of them; choose another name")
    if not path.exists() and read.would_hold(path):
        raise CommandError(
            f"{where} would be an input file the next time; choose a place that is not read"
        )


def _beside(path: Path) -> list[Path]:
    """What is written beside an output on the way: the spool and the new file of a Parquet file."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        return []
    return [path.with_name(path.name + ending) for ending in (".spool", ".part")]


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()
