"""Figures through Matplotlib, in colours that the colour-blind can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Panels, two in a row, with one legend; the kind of file is that of the name."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("figures need Matplotlib: pip install 'pronk[plot]'") from None
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
