"""The report of a comparison: one HTML file with its charts, their code, its tables and settings.

It asks the network for nothing, and says so to the browser (Content-Security-Policy). Without
JavaScript the tables and settings are there, the charts are not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from pronk.cli.screen import number
from pronk.evaluate.metrics import WORDS
from pronk.evaluate.summaries import Results
from pronk.report.series import Chart, charts
from pronk.report.settings import settings
from pronk.report.tables import main_table, pm, regret_table, swatch

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "img-src data: blob:"
)


def write_report(results: Results, path: Path) -> None:
    """Write the report; a file of that name is replaced when the new one is complete."""
    text = html(results)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def html(results: Results) -> str:
    """The report as text."""
    from pronk.report.charts import line_chart, trade_off

    comparison = results.comparison
    labels = [one.label for one in results.everyone]
    drawn = charts(results)
    specs = {chart.name: line_chart(chart, labels) for chart in drawn}
    specs["trade-off"] = trade_off(results, labels)
    data = {
        "charts": specs,
        "labels": labels,
        "baseline": results.baseline.label if results.baseline else None,
    }
    title = f"{Path(comparison.file).name}: {_count(len(results.summaries), 'learner')} compared"
    parts = [
        f"<h1>{escape(title)}</h1>",
        *_introduction(results),
        *main_table(results),
        "<h2>Along the stream</h2>",
        "<noscript><p>The charts need JavaScript; the tables do not.</p></noscript>",
        *_legend(results),
        '<div class="charts">',
        *_figures(drawn),
        "</div>",
        *regret_table(results, labels),
        *settings(results),
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_file('page.css')}</style>",
            "</head>",
            "<body>",
            "<main>",
            *parts,
            "</main>",
            f'<script type="application/json" id="data">{_json(data)}</script>',
            f"<script>{_script(_libraries())}</script>",
            f"<script>{_script(_file('page.js'))}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


# -- what is embedded ----------------------------------------------------------------------------


def _file(name: str) -> str:
    return files("pronk.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed, as vl-convert has them for Altair's version."""
    import altair
    import vl_convert

    wanted = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    version = wanted if wanted in known else known[-1]
    bundle: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
    return bundle


def _script(text: str) -> str:
    """A text that cannot end the script it stands in."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


# -- the parts of the page -----------------------------------------------------------------------


def _introduction(results: Results) -> list[str]:
    comparison = results.comparison
    order = "in the given order" if comparison.order == "given" else "each in its own random order"
    lines = [
        f'<p class="dim">{comparison.task.capitalize()} of <code>{escape(comparison.target)}</code>'
        f" from {_count(len(comparison.columns), 'column')}; {comparison.rows:,} rows; "
        f"{_count(comparison.runs, 'run')}, {order}.</p>"
    ]
    if results.summaries:
        best, loss = results.summaries[0], WORDS[comparison.metric]
        text = f"Least {loss}: <strong>{escape(best.label)}</strong>, "
        text += pm(best.metrics[comparison.metric])
        if results.baseline is not None:
            base = results.baseline
            figure = number(base.metrics[comparison.metric].mean)
            text += f" ({escape(base.label)}: {figure})"
        lines.append(f'<p class="answer">{text}.</p>')
    if results.missing:
        lines.append(f"<p><strong>{_count(results.missing, 'run')} not done yet.</strong></p>")
    return lines


def _legend(results: Results) -> list[str]:
    boxes = []
    for i, one in enumerate(results.everyone):
        value = escape(one.label)
        line = swatch(i, one is results.baseline)
        boxes.append(f'<label><input type="checkbox" value="{value}" checked>{line}{value}</label>')
    return [
        '<fieldset class="legend" aria-label="Learners drawn in the charts">',
        *boxes,
        '<button type="button" id="all">all or none</button>',
        "</fieldset>",
    ]


def _figures(drawn: Sequence[Chart]) -> list[str]:
    caption = (
        "A point a learner: down is better, left is faster. In a crowd, touch it for its name."
    )
    blocks = [(chart.name, chart.title, chart.caption) for chart in drawn]
    blocks.insert(2, ("trade-off", "Loss against time", caption))
    return [
        f"<figure><h3>{escape(title)}</h3><figcaption>{escape(text)}</figcaption>"
        f'<div class="chart" id="chart-{name}" role="group" aria-label="{escape(title)}"></div>'
        "</figure>"
        for name, title, text in blocks
    ]


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}" + ("" if n == 1 else "s")
