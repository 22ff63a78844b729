"""Better now than after an hour: can the results be written?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pronk.cli.errors import CommandError
from pronk.estimators.atomic import regular_or_new
from pronk.evaluate.study import Store


def check_file(option: str, path: Path) -> None:
    """Refuse a file that cannot be written."""
    where = f"{option}: {str(path)!r}"
    if path.is_dir():
        raise CommandError(f"{where} is a directory; give a file name")
    check_regular(path, where)
    if not path.parent.is_dir():
        raise CommandError(f"{where}: there is no directory {str(path.parent)!r}; make it first")
    check_place(path, where)


def check_regular(path: Path, where: str) -> None:
    """Refuse devices, pipes and sockets: a rename would replace them, and a pipe may block."""
    try:
        good = regular_or_new(path)
    except OSError:  # no permission to look, or a loop of links: writing will fail with a reason
        return
    if not good:
        raise CommandError(f"{where} is a device, a pipe or a socket; give the name of a file")


def check_figure_tools(figures: Path | None) -> None:
    """Refuse figures that nothing here can draw."""
    if figures is not None and find_spec("matplotlib") is None:
        raise CommandError('--figures needs Matplotlib: pip install ".[plot]" in the clone')


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


@contextmanager
def results(directory: Path) -> Iterator[None]:
    """Write into the directory of --out, which is made; a failure is one line."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--out: {str(directory)!r} cannot be written: {reason}") from None


def open_store(path: Path, fresh: bool) -> Store:
    """The records of a study, after the first write into their file."""
    check_regular(path, f"--out: {str(path)!r}")
    if fresh:
        path.unlink(missing_ok=True)
    path.open("ab").close()
    return Store(path)
