"""Numbers as text and JSON, the same on screens, in charts and in reports; the progress bar."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.console import Console

    from pronk.evaluate.evaluation import Evaluation


def number(value: float) -> str:
    """Format a number with four significant digits.

    >>> print(number(0.0643123), number(1234.5), number(3e-7))
    0.06431 1,234 3.00e-07
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        digits = 4 if value == 0 else max(0, min(6, 3 - math.floor(math.log10(abs(value)))))
        return f"{value:,.{digits}f}"
    return f"{value:.2e}"


def size(bytes_held: int) -> str:
    """Format bytes in kB or MB."""
    if bytes_held < 999_500:
        return f"{bytes_held / 1e3:,.0f} kB" if bytes_held >= 9950 else f"{bytes_held / 1e3:.1f} kB"
    return f"{bytes_held / 1e6:,.1f} MB"


def mean_and_deviation(mean: float, deviation: float | None) -> str:
    """Format mean and deviation with the digits of the mean.

    >>> print(mean_and_deviation(0.06431, 0.000123))
    0.06431 ± 0.00012
    """
    text = number(mean)
    if deviation is None or not math.isfinite(mean):
        return text
    if deviation == 0:
        return f"{text} ± 0"
    if "e" in text:
        return f"{text} ± {deviation:.0e}"
    decimals = len(text.partition(".")[2])
    return f"{text} ± {deviation:,.{decimals}f}"


def microseconds(mean: float, deviation: float | None) -> str:
    """Format a time with three digits, the precision of its measurement.

    >>> print(microseconds(31.512, 2.561))
    31.5 ± 2.6
    """
    decimals = 2 if mean < 10 else 1 if mean < 100 else 0
    text = f"{mean:,.{decimals}f}"
    return text if deviation is None else f"{text} ± {deviation:,.{decimals}f}"


def count(n: int, word: str) -> str:
    """Format a number of things.

    >>> print(count(1, "run"), count(2000, "row"))
    1 run 2,000 rows
    """
    return f"{n:,} {word}" + ("" if n == 1 else "s")


# -- JSON ------------------------------------------------------------------------------------------


def describe_rows(rows: int, unpredicted: int) -> str:
    """Describe a number of rows, and how many of them had no prediction that could be scored.

    >>> describe_rows(5000, 1)
    '5,000 rows, the first not scored (no label was known)'
    """
    if not unpredicted:
        return f"{rows:,} rows"
    first = "first" if unpredicted == 1 else f"first {unpredicted:,}"
    return f"{rows:,} rows, the {first} not scored (no label was known)"


def finite(value: Any) -> Any:
    """Convert a value for JSON: NaN and infinity to None, arrays to lists, others to text."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def setting(value: Any) -> Any:
    """Convert a parameter for JSON: simple values as they are, others to their repr."""
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


# -- progress --------------------------------------------------------------------------------------

#: Seconds between two updates of the bar: blocks may be single rows.
PAUSE = 0.25


class Bar:
    """A progress bar of an evaluation: rows, loss, time left; hidden if stderr is not a terminal.

    ``console`` replaces stderr. Rich is imported when the bar is shown.
    """

    def __init__(self, stream: Any, always: bool = False, console: Console | None = None) -> None:
        self._stream = stream
        self._always = always
        self._console = console
        self._progress: Any = None
        self._task: Any = None
        self._total = 0
        self._next = 0.0

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        always = self._always or None
        console = self._console or Console(stderr=True, highlight=False, force_terminal=always)
        if not (console.is_terminal or console.is_jupyter):
            return self
        self._progress = Progress(
            TextColumn("{task.fields[rows]}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[loss]}", style="bold"),
            TimeLeft(compact=True),
            console=console,
            transient=True,
            refresh_per_second=4,
            # Output printed meanwhile appears above the bar.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._task = self._progress.add_task("", total=None, rows="0 rows", loss="")
        if isinstance(self._stream, Sequence):
            self._expect(sum(len(y) for _, y in self._stream))
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, evaluation: Evaluation) -> None:
        """Show the state after a block."""
        if self._progress is None or (now := monotonic()) < self._next:
            return
        self._next = now + PAUSE
        if hasattr(self._stream, "expected_rows"):
            self._expect(self._stream.expected_rows())
        rows = evaluation.rows + evaluation.unlabelled
        name, value = next(iter(evaluation.metrics.items()))
        self._progress.update(
            self._task, completed=rows, rows=f"{rows:,} rows", loss=f"{name} {number(value)}"
        )

    def _expect(self, total: int | None) -> None:
        # A new total resets the measured speed, so small changes of an estimate are ignored.
        if total is not None and abs(total - self._total) > 0.05 * self._total:
            self._total = total
            self._progress.update(self._task, total=total)
