"""The report of a comparison: one HTML file with its charts, their code, its tables and settings.

It asks the network for nothing, and says so to the browser (Content-Security-Policy). Without
JavaScript the tables and settings are there, the charts are not.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from pronk.cli.screen import number, size
from pronk.evaluate.comparison import Comparison, Results, Spread, Summary
from pronk.report.series import LOSSES, Chart, charts
from pronk.report.text import mean_and_deviation, microseconds

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
        *_main_table(results),
        "<h2>Along the stream</h2>",
        "<noscript><p>The charts need JavaScript; the tables do not.</p></noscript>",
        *_legend(results),
        '<div class="charts">',
        *_figures(drawn),
        "</div>",
        *_regret_table(results, labels),
        *_settings(results),
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
        best, loss = results.summaries[0], LOSSES[comparison.metric]
        text = f"Least {loss}: <strong>{escape(best.label)}</strong>, "
        text += _pm(best.metrics[comparison.metric])
        if results.baseline is not None:
            base = results.baseline
            figure = number(base.metrics[comparison.metric].mean)
            text += f" ({escape(base.label)}: {figure})"
        lines.append(f'<p class="answer">{text}.</p>')
    if results.missing:
        lines.append(f"<p><strong>{_count(results.missing, 'run')} not done yet.</strong></p>")
    return lines


def _main_table(results: Results) -> list[str]:
    metrics = list(results.everyone[0].metrics)
    header = [
        "learner",
        *(LOSSES.get(name, name) for name in metrics),
        f"of the last {results.comparison.window:,} rows",
        "µs a row",
        "points",
        "memory",
        "runs",
    ]
    best = [
        *(min(_means(one.metrics[name] for one in results.summaries)) for name in metrics),
        min(_means(one.recent[metrics[0]] for one in results.summaries)),
        min(_means(one.microseconds_a_row for one in results.summaries)),
    ]
    rows = []
    for i, one in enumerate(results.everyone):
        is_baseline = one is results.baseline
        time = one.microseconds_a_row
        told = [
            *((spread, _pm(spread)) for spread in map(one.metrics.__getitem__, metrics)),
            (one.recent[metrics[0]], _pm(one.recent[metrics[0]])),
            (time, microseconds(time.mean, time.deviation)),
        ]
        cells = [
            _cell(text, not is_baseline and spread.mean <= least)
            for (spread, text), least in zip(told, best, strict=True)
        ]
        cells += [
            _cell(f"{one.size.mean:,.0f}" if one.size else "–"),
            _cell(size(round(one.memory.mean))),
            _cell(str(one.runs)),
        ]
        kind = ' class="baseline"' if is_baseline else ""
        head = f'<th scope="row">{_swatch(i, is_baseline)}{escape(one.label)}</th>'
        rows.append(f"<tr{kind}>{head}{''.join(cells)}</tr>")
    several = any(one.runs > 1 for one in results.everyone)
    caption = (
        f"Mean{' ± standard deviation over the runs' if several else ''}; each row is predicted "
        "before its label is learned. Time: in the learner, on one core. Points and memory: at the "
        "end."
    )
    return _table(header, rows, caption)


def _regret_table(results: Results, labels: Sequence[str]) -> list[str]:
    rows = []
    for one in results.summaries:
        ends = [_ends(record["result"]["curve"]) for record in one.records]
        regrets = [regret for regret, _ in ends if regret is not None]
        bounds = [bound for _, bound in ends if bound is not None]
        if not regrets:
            continue
        known = _pm(Spread.of(bounds)) if bounds else "not known"
        head = f'<th scope="row">{_swatch(labels.index(one.label), False)}{escape(one.label)}</th>'
        rows.append(f"<tr>{head}{_cell(_pm(Spread.of(regrets)))}{_cell(known)}</tr>")
    if not rows:
        return []
    caption = (
        "The cumulative loss that the learner works with (squared, of its real-valued predictions) "
        "minus that of the best function in hindsight with its norm paid for, after all rows; and "
        "what the theory says it cannot exceed."
    )
    return [
        "<h2>Regret</h2>",
        *_table(["learner", "regret", "at most"], rows, caption),
    ]


def _ends(curve: dict[str, Any]) -> tuple[float | None, float | None]:
    return (curve.get("regret") or [None])[-1], (curve.get("bound") or [None])[-1]


def _legend(results: Results) -> list[str]:
    boxes = []
    for i, one in enumerate(results.everyone):
        value = escape(one.label)
        swatch = _swatch(i, one is results.baseline)
        boxes.append(
            f'<label><input type="checkbox" value="{value}" checked>{swatch}{value}</label>'
        )
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


def _settings(results: Results) -> list[str]:
    comparison, made = results.comparison, results.made
    last = comparison.seed + comparison.runs - 1
    versions = sorted(made.items(), key=lambda item: item[0] != "pronk")
    pairs = {
        "file": f"{Path(comparison.file).name}, SHA-256 {comparison.digest[:16]}..",
        "target": comparison.target,
        "task": comparison.task
        + (f", guessed from {comparison.reason}" if comparison.reason else ""),
        "columns": ", ".join(comparison.columns),
        "left out": ", ".join(comparison.drop) or "nothing",
        "rows": f"{comparison.rows:,}" + (" (a limit)" if comparison.limit else ""),
        "order": comparison.order,
        "scaling": comparison.scale,
        "seeds": f"{comparison.seed}" + (f" to {last}" if comparison.runs > 1 else ""),
        "machine": made.get("machine", "not known"),
        "versions": ", ".join(f"{name} {v}" for name, v in versions if name != "machine"),
    }
    items = [f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in pairs.items()]
    # Long texts: a list, which a narrow screen stacks, and no table.
    chosen = [
        f"<dt>{escape(_named(one))}</dt><dd>{escape(_params(one))}</dd>"
        for one in results.summaries
    ]
    return [
        "<h2>Settings</h2>",
        "<dl>",
        *items,
        "</dl>",
        "<details><summary>Parameters of the learners</summary>",
        "<dl>",
        *chosen,
        "</dl>",
        "</details>",
        "<p>Made by</p>",
        f"<pre>{escape(command(comparison))}</pre>",
    ]


def command(comparison: Comparison) -> str:
    """The command that runs a comparison."""
    names = [
        one.algorithm if one.label == one.algorithm else f"{one.label}={one.algorithm}"
        for one in comparison.contenders
    ]
    said = ["pronk", "compare", Path(comparison.file).name, "--target", comparison.target]
    said += ["--algorithms", ",".join(names), "--runs", str(comparison.runs)]
    said += ["--order", comparison.order, "--task", comparison.task, "--scale", comparison.scale]
    for one in comparison.contenders:
        for name, value in one.params.items():
            said += ["--param", f"{one.label}:{name}={value}"]
    for name in comparison.drop:
        said += ["--drop", name]
    if comparison.limit is not None:
        said += ["--limit", str(comparison.limit)]
    if comparison.delimiter is not None:
        said += ["--delimiter", comparison.delimiter]
    if comparison.seed:
        said += ["--seed", str(comparison.seed)]
    return shlex.join(said)


# -- small pieces --------------------------------------------------------------------------------


def _table(header: Sequence[str], rows: Sequence[str], caption: str) -> list[str]:
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    # Beside the table, not its caption, which would be as wide as a table that scrolls.
    told = [f'<p class="note">{escape(caption)}</p>'] if caption else []
    return [
        '<div class="scroll" tabindex="0"><table>',
        f"<thead><tr>{heads}</tr></thead>",
        "<tbody>",
        *rows,
        "</tbody></table></div>",
        *told,
    ]


def _cell(text: str, best: bool = False) -> str:
    return f"<td{' class=best' if best else ''}>{escape(text)}</td>"


def _swatch(i: int, is_baseline: bool) -> str:
    from pronk.report.charts import dash

    colour = "--grey" if is_baseline else f"--c{i % 8}"
    dashes = " ".join(map(str, dash(i)))
    return (
        '<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true"><line x1="0" x2="28" y1="6" '
        f'y2="6" stroke="var({colour})" stroke-dasharray="{dashes}"/></svg>'
    )


def _named(one: Summary) -> str:
    same = one.label == one.algorithm
    return one.label if same else f"{one.label} ({one.algorithm})"


def _params(one: Summary) -> str:
    own = {k: v for k, v in one.params.items() if not k.startswith("kernel__")}
    nested = {k.partition("__")[2]: v for k, v in one.params.items() if k.startswith("kernel__")}
    said = [f"{name}={value}" for name, value in own.items() if name != "kernel"]
    kernel = str(own.get("kernel", "")).partition("(")[0].lower()
    inside = ", ".join(f"{name}={value}" for name, value in nested.items())
    return ", ".join([f"kernel={kernel}({inside})", *said])


def _means(spreads: Iterable[Spread]) -> list[float]:
    return [spread.mean for spread in spreads] or [float("-inf")]


def _pm(spread: Spread) -> str:
    return mean_and_deviation(spread.mean, spread.deviation)


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}" + ("" if n == 1 else "s")
