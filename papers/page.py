"""Turn the records of runs into a page: tables beside the printed values, figures, Markdown.

Pages are stored as JSON in docs/results; the documentation renders them (`markdown`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pronk.evaluate.study import Outcome

#: Printed values, as published: value, deviation, points held, seconds; None is not printed.
#: Losses are mean squared losses; errors and mistake rates are in percent.
Printed = tuple[float | None, ...]


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
class Figure:
    """A figure: its name, its caption, and a function that draws it to a path."""

    name: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Page:
    """The result of an experiment, for a screen or a file."""

    title: str
    intro: list[str]
    sections: list[Section]
    notes: list[str]
    figures: list[Figure] = field(default_factory=list)


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
    """Summarise the records that have this number; None if there are none."""
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
    """Return the records of one row of one section."""
    return [r for r in records if r["group"] == group and r["label"] == label]


def labels(records: Sequence[Outcome], group: str) -> list[str]:
    """Return the labels of the rows of a section, in the order of the jobs."""
    return list(dict.fromkeys(r["label"] for r in records if r["group"] == group))


def loss_text(value: float, spread: float | None, percent: bool) -> str:
    """Format a loss and its deviation: 0.0643 ± 0.0001, or in percent."""
    scale, digits = (100.0, 2) if percent else (1.0, 5)
    text = f"{scale * value:.{digits}f}"
    if spread is not None and not math.isnan(spread):
        text += f" ± {scale * spread:.{digits}f}"
    return text


def seconds_text(seconds: float | None) -> str:
    """Format seconds with three digits."""
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
    """Return the cells of a row: ours beside the printed ones (value, spread, points, seconds)."""
    cells = [name, setting, "", "", ""]
    if ours is not None:
        cells[2] = loss_text(ours.loss, ours.spread, percent)
        cells[3] = "" if not ours.size else f"{ours.size:.0f}"
        cells[4] = seconds_text(ours.seconds) if timed else ""
    value, spread, points, seconds = (*(printed or ()), None, None, None, None)[:4]
    scale = 0.01 if percent else 1.0
    paper = "" if value is None else loss_text(
        value * scale, None if spread is None else spread * scale, percent
    )  # fmt: skip
    return (*cells, paper, "" if points is None else str(points), seconds_text(seconds))


# -- pages as data ------------------------------------------------------------------------------

#: A page as JSON: a text in Markdown, the head of a table, or a row of the table above it.
Part = str | dict[str, Any] | Sequence[str]


def parts(page: Page, command: str, records: list[Outcome]) -> list[Part]:
    """Return a page as data, with the command and the versions that made it."""
    made = records[0]["made"] if records else {}
    versions = ", ".join(f"{name} {text}" for name, text in made.items() if name != "machine")
    found: list[Part] = [f"# {page.title}", *page.intro]
    if made:
        found.append(f"Made by `{command}` on {made['machine']}; {versions}.")
    for figure in page.figures:
        found += [f"![{figure.caption}]({figure.name}.svg)", figure.caption]
    for section in page.sections:
        found += [f"## {section.title}"] + ([section.text] if section.text else [])
        found += [{"columns": section.header, "left": section.left}, *section.rows]
    if page.notes:
        notes = "\n".join(f"- {note}" for note in page.notes)
        found += ["## Differences and readings", notes]
    return found


def markdown(page: Sequence[Part]) -> str:
    """Format a page as Markdown; ``left`` columns of a table are text, the others numbers."""
    lines: list[str] = []
    for part in page:
        if isinstance(part, str):
            lines += ["", part]
        elif isinstance(part, dict):
            rules = [":--" if i < part["left"] else "--:" for i in range(len(part["columns"]))]
            lines += ["", _row(part["columns"]), _row(rules)]
        else:
            lines.append(_row(part))
    return "\n".join(lines).strip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def as_json(page: Sequence[Part]) -> str:
    """Format a page as a JSON list with one part per line."""
    return "[\n" + ",\n".join(json.dumps(part, ensure_ascii=False) for part in page) + "\n]\n"


def draw_figures(page: Page, directory: Path) -> None:
    """Draw the figures of a page (SVG and PNG) in a directory."""
    for figure in page.figures:
        for ending in ("svg", "png"):
            figure.draw(directory / f"{figure.name}.{ending}")


# -- figures ------------------------------------------------------------------------------------

# Okabe and Ito's palette.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Line:
    """A curve with its name."""

    label: str
    x: Any
    y: Any


#: Names of the axes, curves, scales of the axes.
Panel = tuple[str, str, Sequence[Line], tuple[str, str]]


def draw(panels: Sequence[Panel], path: Path, titles: Sequence[str] = ()) -> None:
    """Draw panels, two in a row, with one legend; the suffix of the path decides the format."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError('figures need Matplotlib: pip install ".[papers]"') from None
    width = min(2, len(panels))
    height = -(-len(panels) // width)
    figure = Figure(figsize=(4.6 * width + (0 if width > 1 else 1.2), 3.3 * height + 0.9))
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(line.label for panel in panels for line in panel[2]))
    for i, (x_name, y_name, lines, scales) in enumerate(panels):
        axes = figure.add_subplot(height, width, i + 1)
        for line in lines:
            number = names.index(line.label)
            axes.plot(
                line.x, line.y, label=line.label, color=COLOURS[number % len(COLOURS)],
                linestyle=STYLES[(number + number // len(COLOURS)) % len(STYLES)], linewidth=1.5,
            )  # fmt: skip
        axes.set(xlabel=x_name, ylabel=y_name, xscale=scales[0], yscale=scales[1])
        if titles:
            axes.set_title(titles[i], fontsize=10)
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(), found.keys(), loc="lower center", ncols=min(4, len(found)), frameon=False,
        fontsize=8,
    )  # fmt: skip
    rows = -(-len(found) // 4)
    figure.tight_layout(rect=(0, 0.02 + 0.22 * rows / (3.3 * height + 0.9), 1, 1))
    # No date: the same records make the same file.
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, dpi=150, metadata=metadata)
