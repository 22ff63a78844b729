"""Consoles, notes, progress bars and JSON, for all commands."""

from __future__ import annotations

import json
import math
import platform
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from pronk._version import __version__
from pronk.cli.errors import visible as visible
from pronk.evaluate.formatting import finite
from pronk.evaluate.formatting import number as number
from pronk.evaluate.formatting import size as size

_BARS = "▁▂▃▄▅▆▇█"


def output() -> Console:
    """Return the console for results, on stdout."""
    return Console(highlight=False)


def messages() -> Console:
    """Return the console for progress and notes, on stderr, so that results can be piped."""
    return Console(stderr=True, highlight=False)


def note(text: str, console: Console | None = None) -> None:
    """Print a note: one line that is not a result."""
    from pronk.data.errors import without_secret

    line = f"note: {visible(' '.join(without_secret(text).split()))}"
    (console or messages()).print(line, style="yellow", markup=False, soft_wrap=True)


def bars(console: Console, *columns: Any) -> Any:
    """Return progress bars that vanish at the end; disabled if the console is not a terminal."""
    from rich.progress import Progress

    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def warnings_as_notes(console: Console) -> Iterator[None]:
    """Print Python warnings as notes, above a progress bar if there is one."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: note(str(message), console)
        yield


def print_json(value: Any, file: Any = None) -> None:
    """Print one JSON object; NaN and infinity, which JSON lacks, become null."""
    print(json.dumps(finite(value), indent=2), file=file)


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
