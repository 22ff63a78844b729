"""A progress bar on stderr: rows, loss, time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.console import Console

    from pronk.evaluate.evaluation import Evaluation

#: Seconds between two looks at an evaluation, and two drawings: blocks may be single rows.
PAUSE = 0.25


class Bar:
    """The state of an evaluation while it walks a stream; nothing where stderr is no terminal.

    A ``console`` is drawn on instead of stderr; ``number`` makes the loss text. Rich is loaded when
    a bar is shown.
    """

    def __init__(
        self,
        stream: Any,
        always: bool = False,
        console: Console | None = None,
        number: Callable[[float], str] = "{:.4g}".format,
    ) -> None:
        self._stream = stream
        self._always = always
        self._console = console
        self._number = number
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
            # What is printed meanwhile stands above the bar, and goes where it would go.
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
        """The state after a block."""
        if self._progress is None or (now := monotonic()) < self._next:
            return
        self._next = now + PAUSE
        if hasattr(self._stream, "expected_rows"):
            self._expect(self._stream.expected_rows())
        rows = evaluation.rows + evaluation.unlabelled
        name, value = next(iter(evaluation.metrics.items()))
        self._progress.update(
            self._task, completed=rows, rows=f"{rows:,} rows", loss=f"{name} {self._number(value)}"
        )

    def _expect(self, total: int | None) -> None:
        # A new total forgets the speed so far, so an estimate counts only if it moved.
        if total is not None and abs(total - self._total) > 0.05 * self._total:
            self._total = total
            self._progress.update(self._task, total=total)
