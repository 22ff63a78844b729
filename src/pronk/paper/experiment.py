"""What a paper's table is to the command that makes it, and the page it becomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pronk.paper.jobs import Outcome, PaperJob


@dataclass(frozen=True)
class PaperOptions:
    """How much of an experiment to run."""

    quick: bool = False
    runs: int | None = None
    data: tuple[str, ...] = ()
    """Only these data sets, where any are named."""

    def seeds(self, usual: int) -> range:
        """The seeds of the runs; 2 runs where it should be quick."""
        return range(self.runs if self.runs is not None else 2 if self.quick else usual)

    def rows(self, quick: int = 2000) -> int | None:
        """Rows to use: some thousand, or all."""
        return quick if self.quick else None

    def wanted(self, names: Sequence[str]) -> list[str]:
        """The data sets that are asked for."""
        return [name for name in names if not self.data or name in self.data]


@dataclass(frozen=True)
class Section:
    """A table with a title; the first columns are text, the rest numbers."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    text: str = ""
    left: int = 2
    """Columns of text."""


@dataclass(frozen=True)
class Drawing:
    """A drawing: its name, what it shows, and a function that writes it to a path."""

    name: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class ResultPage:
    """The result of an experiment, for a screen or a file."""

    title: str
    intro: list[str]
    sections: list[Section]
    notes: list[str]
    figures: list[Drawing] = field(default_factory=list)


#: A phase gets the options and the records of the phases before it.
Phase = Callable[[PaperOptions, list[Outcome]], list[PaperJob]]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper: its jobs, in phases, and the page of their records."""

    name: str
    title: str
    data: tuple[str, ...]
    phases: tuple[Phase, ...]
    page: Callable[[PaperOptions, list[Outcome]], ResultPage]


# -- records to rows ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Mean and deviation over the runs of one row."""

    loss: float
    spread: float
    size: float | None
    seconds: float
    runs: int
    rows: int


def summarise(records: Sequence[Outcome], key: str = "loss") -> Measured | None:
    """Over all records with that number; None where there are none."""
    results = [r["result"] for r in records if r["result"].get(key) is not None]
    if not results:
        return None
    losses = [result[key] for result in results]
    sizes = [result["size"] for result in results if result.get("size") is not None]
    return Measured(
        fmean(losses),
        stdev(losses) if len(losses) > 1 else math.nan,
        fmean(sizes) if sizes else None,
        fmean(result["seconds"] for result in results),
        len(results),
        results[0]["rows"],
    )


def of(records: Sequence[Outcome], group: str, label: str) -> list[Outcome]:
    """The records of one row of one section."""
    return [r for r in records if r["group"] == group and r["label"] == label]


def labels(records: Sequence[Outcome], group: str) -> list[str]:
    """The rows of a section, in the order of the jobs."""
    return list(dict.fromkeys(r["label"] for r in records if r["group"] == group))


def loss_text(value: float, spread: float | None, percent: bool) -> str:
    """0.0643 ± 0.0001, or in percent."""
    scale, digits = (100.0, 2) if percent else (1.0, 5)
    text = f"{scale * value:.{digits}f}"
    if spread is not None and not math.isnan(spread):
        text += f" ± {scale * spread:.{digits}f}"
    return text


def seconds_text(seconds: float | None) -> str:
    """Three digits."""
    if seconds is None:
        return ""
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.1f}" if seconds < 100 else (
        f"{seconds:,.0f}"
    )  # fmt: skip


HEADER = ("algorithm", "setting", "ours", "points", "s", "printed", "points", "s")


def table_row(
    name: str,
    setting: str,
    ours: Measured | None,
    printed: tuple[Any, ...] | None,
    percent: bool,
    *,
    timed: bool = True,
) -> tuple[str, ...]:
    """A line: our figures beside the printed ones (value, spread, points, seconds)."""
    cells = [name, setting, "", "", ""]
    if ours is not None:
        cells[2] = loss_text(ours.loss, ours.spread, percent)
        cells[3] = "" if not ours.size else f"{ours.size:.0f}"
        cells[4] = seconds_text(ours.seconds) if timed else ""
    value, spread, points, seconds = (*(printed or ()), None, None, None, None)[:4]
    scale = 0.01 if percent else 1.0
    told = "" if value is None else loss_text(
        value * scale, None if spread is None else spread * scale, percent
    )  # fmt: skip
    return (*cells, told, "" if points is None else str(points), seconds_text(seconds))


def runs_text(options: PaperOptions, records: Sequence[Outcome], paper: int) -> str:
    """How many runs stand behind the page, and how many the paper has."""
    counts = sorted({len(of(records, r["group"], r["label"])) for r in records})
    ours = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    short = " Quick: the first rows of each permutation only." if options.quick else ""
    return f"Runs, each on another random permutation: {ours} (the paper: {paper}).{short}"
