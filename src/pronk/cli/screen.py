"""Consoles, notes, progress bars and JSON of all commands, and failures as one line.

It is imported at every start, so Rich and the data package are imported where they are needed.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import sys
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from pronk._version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from pronk.evaluate.tables import Table

_BARS = "▁▂▃▄▅▆▇█"


def output() -> Console:
    """Return the console for results, on stdout."""
    from rich.console import Console

    return Console(highlight=False)


def messages() -> Console:
    """Return the console for progress and notes, on stderr, so that results can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def visible(text: str) -> str:
    """Return a text with its control characters escaped, which a terminal would obey."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def note(text: str, console: Console | None = None) -> None:
    """Print a note: one line that is not a result."""
    from pronk.data.errors import without_secret

    line = f"note: {visible(' '.join(without_secret(text).split()))}"
    (console or messages()).print(line, style="yellow", markup=False, soft_wrap=True)


def plain_table(**options: Any) -> Any:
    """Return an empty table without lines."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **options)


def table(found: Table, hidden: Container[str] = ()) -> Any:
    """Return a table for a console, without the columns of some titles."""
    from rich.text import Text

    shown = plain_table()
    columns = [i for i, title in enumerate(found.header) if title not in hidden]
    for i in columns:
        title = Text(visible(found.header[i]))
        shown.add_column(title, justify="right" if i else "left", overflow="fold")
    for row in found.rows:
        cells = [Text(visible(row.name), "" if row.baseline else "bold")]
        cells += [Text(visible(cell.text), "bold" if cell.best else "") for cell in row.cells]
        shown.add_row(*(cells[i] for i in columns), style="dim" if row.baseline else None)
    return shown


def facts(found: Mapping[str, str]) -> Any:
    """Return names and texts for a console, one per line."""
    from rich.text import Text

    shown = plain_table(show_header=False)
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, text in found.items():
        shown.add_row(name, Text(visible(text)))
    return shown


@contextmanager
def bars(console: Console, *columns: Any) -> Iterator[Any]:
    """Show progress bars that vanish at the end; none if the console is not a terminal."""
    from rich.progress import Progress

    shown = console.is_terminal
    progress = Progress(*columns, console=console, transient=True, disable=not shown)
    with progress if shown else nullcontext():  # Rich before 14.3 prints a line after disabled bars
        yield progress


@contextmanager
def warnings_as_notes(console: Console) -> Iterator[None]:
    """Print Python warnings as notes, above a progress bar if there is one."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: note(str(message), console)
        yield


def print_json(value: Any, file: Any = None) -> None:
    """Print one JSON object; NaN and infinity, which JSON lacks, become null."""
    from pronk.evaluate.formatting import finite

    print(json.dumps(finite(value), indent=2), file=file)


def command_line() -> str:
    """Return the command of this process, without passwords."""
    from pronk.data.errors import without_secret

    return without_secret(shlex.join(["pronk", *sys.argv[1:]]))


def versions() -> dict[str, str]:
    """Return the versions that produced a result."""
    import numpy

    return {"pronk": __version__, "numpy": numpy.__version__, "python": platform.python_version()}


def bar_chart(values: Sequence[float], low: float, high: float) -> str:
    """Return a line of bars on a logarithmic scale from ``low`` to ``high``."""
    span = math.log(high / low) if 0 < low < high else 1.0
    bars = ""
    for value in values:
        level = math.log(value / low) / span if 0 < low < value < math.inf else 0.0
        bars += _BARS[min(len(_BARS) - 1, int(level * len(_BARS)))] if value < math.inf else "!"
    return bars


# -- failures: one line on stderr and an exit code, no traceback -----------------------------------


class CommandError(Exception):
    """A failure with a one-line message and an exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def writing(option: str, path: object, code: int = 1, advice: str = "") -> Iterator[None]:
    """Turn a failure to write a file into one line that names the option and the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        text = f"{option}: {str(path)!r} cannot be written: {reason}{advice}"
        raise CommandError(text, code) from None


@contextmanager
def blaming(option: str, advice: str = "") -> Iterator[None]:
    """Report a ValueError as that of an option."""
    try:
        yield
    except ValueError as error:
        raise CommandError(f"{option}: {error}{advice}") from None


@contextmanager
def without_skip_bad() -> Iterator[None]:
    """Reword the advice of errors for a command that has no --skip-bad."""
    from pronk.data.errors import StreamError, argument

    try:
        yield
    except StreamError as error:
        hint = error.hint.replace(f" with {argument('skip_bad', 'FILE')}", " of the file")
        raise error.changed(hint=hint) from None


def end_with(error: BaseException) -> int:
    """Print an error and return the exit code; PRONK_TRACEBACK=1 in the environment raises it."""
    if os.environ.get("PRONK_TRACEBACK"):
        raise error
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, BrokenPipeError):  # `pronk algorithms | head`
        sys.stderr.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    from pronk.data.errors import without_secret  # slow to import

    message, code = _describe(error)
    message = without_secret(message)
    print("pronk: " + visible(" ".join(message.split())), file=sys.stderr)
    return code


def _describe(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "interrupted from the keyboard", 130
    if isinstance(error, CommandError):
        return str(error), error.code
    if hasattr(error, "as_options"):  # a StreamError, without importing it
        return error.as_options(), 2
    if hasattr(error, "format_message"):  # Typer's usage errors
        return f"{error.format_message()} (--help lists the options)", 2
    if isinstance(error, MemoryError):
        return f"out of memory: {error}".rstrip(": "), 1
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}", 1
    if isinstance(error, ValueError) and type(error).__name__ != "LinAlgError":
        return str(error), 2
    return f"failed: {type(error).__name__}: {error}", 1
