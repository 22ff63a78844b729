"""Charts of a comparison as PNG and SVG for papers, drawn by Matplotlib."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from pronk.estimators.atomic import write_atomically
from pronk.evaluate.pictures import COLOURS
from pronk.evaluate.results import Results
from pronk.report.charts import Chart, charts

GREY = "#6b6b6b"
_DASHES = ("-", (0, (6, 3)), (0, (2, 2)), (0, (9, 3, 2, 3)))


def write_figures(results: Results, directory: Path) -> list[Path]:
    """Write one PNG and one SVG per chart and return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in charts(results):
        figure = _drawn(chart, results)
        for ending in ("svg", "png"):
            path = directory / f"{chart.name}.{ending}"
            # Without dates, the same results give the same bytes.
            stamp = {"Date": None} if ending == "svg" else {"Software": None}
            drawn = BytesIO()
            figure.savefig(drawn, format=ending, dpi=200, metadata=stamp)
            write_atomically(path, drawn.getvalue())
            paths.append(path)
    return paths


def _drawn(chart: Chart, results: Results) -> Any:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    matplotlib.rcParams["svg.hashsalt"] = "pronk"
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    labels = [one.label for one in results.everyone]
    for one in chart.series:
        i = labels.index(one.label)
        grey = results.baseline is not None and one.label == results.baseline.label
        colour = GREY if grey else COLOURS[i % len(COLOURS)]
        style = _DASHES[(i + i // 8) % len(_DASHES)]
        if one.kind:
            style = "-" if one.kind == "regret" else "--"
        name = f"{one.label}: {one.kind}" if one.kind else one.label
        mean = np.where(one.mean > 0, one.mean, np.nan) if chart.log_y else one.mean
        axes.plot(one.rows, mean, color=colour, linestyle=style, linewidth=1.4, label=name)
        if one.deviation is not None:
            low = mean - one.deviation
            low = np.maximum(low, mean / 10) if chart.log_y else low
            axes.fill_between(one.rows, low, mean + one.deviation, color=colour, alpha=0.15, lw=0)
    axes.set_xlabel("rows")
    axes.set_ylabel(chart.y)
    axes.set_xscale("log" if chart.log_x else "linear")
    axes.set_yscale("log" if chart.log_y else "linear")
    bottom, top = axes.get_ylim()
    if chart.log_y and top < 100 * bottom:  # few powers of ten: more ticks, plain numbers
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize="small", frameon=False)
    return figure
