"""Better now than after an hour: can the results be written?"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pronk.cli.errors import CommandError


def check_file(option: str, path: Path, source: Path | None = None) -> None:
    """Refuse a file that cannot be written, or that is the input."""
    where = f"{option}: {str(path)!r}"
    if path.is_dir():
        raise CommandError(f"{where} is a directory; give a file name")
    if not path.parent.is_dir():
        raise CommandError(f"{where}: there is no directory {str(path.parent)!r}; make it first")
    check_place(path, where)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise CommandError(f"{where} is the input file; choose another name")


def check_directory(option: str, path: Path) -> None:
    """Refuse a directory that cannot be made or written to."""
    where = f"{option}: {str(path)!r}"
    if path.exists() and not path.is_dir():
        raise CommandError(f"{where} is no directory")
    check_place(path, where)


def check_place(path: Path, where: str) -> None:
    """Make a file that vanishes at once, where the path is or in the nearest directory above."""
    place = path if path.is_dir() else path.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        if path.is_file():
            path.open("ab").close()
        else:
            with tempfile.TemporaryFile(dir=place):
                pass
    except OSError as error:
        raise CommandError(f"{where} cannot be written: {error.strerror or error}") from None
