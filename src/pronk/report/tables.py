"""The tables of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from pronk.cli.screen import size
from pronk.evaluate.metrics import WORDS
from pronk.evaluate.summaries import Results, Spread
from pronk.report.text import mean_and_deviation, microseconds


def main_table(results: Results) -> list[str]:
    metrics = list(results.everyone[0].metrics)
    header = [
        "learner",
        *(WORDS.get(name, name) for name in metrics),
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
            *((spread, pm(spread)) for spread in map(one.metrics.__getitem__, metrics)),
            (one.recent[metrics[0]], pm(one.recent[metrics[0]])),
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
        head = f'<th scope="row">{swatch(i, is_baseline)}{escape(one.label)}</th>'
        rows.append(f"<tr{kind}>{head}{''.join(cells)}</tr>")
    several = any(one.runs > 1 for one in results.everyone)
    caption = (
        f"Mean{' ± standard deviation over the runs' if several else ''}; each row is predicted "
        "before its label is learned. Time: in the learner, on one core. Points and memory: at the "
        "end."
    )
    return _table(header, rows, caption)


def regret_table(results: Results, labels: Sequence[str]) -> list[str]:
    rows = []
    for one in results.summaries:
        ends = [_ends(record["result"]["curve"]) for record in one.records]
        regrets = [regret for regret, _ in ends if regret is not None]
        bounds = [bound for _, bound in ends if bound is not None]
        if not regrets:
            continue
        known = pm(Spread.of(bounds)) if bounds else "not known"
        head = f'<th scope="row">{swatch(labels.index(one.label), False)}{escape(one.label)}</th>'
        rows.append(f"<tr>{head}{_cell(pm(Spread.of(regrets)))}{_cell(known)}</tr>")
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


def swatch(i: int, is_baseline: bool) -> str:
    from pronk.report.charts import dash

    colour = "--grey" if is_baseline else f"--c{i % 8}"
    dashes = " ".join(map(str, dash(i)))
    return (
        '<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true"><line x1="0" x2="28" y1="6" '
        f'y2="6" stroke="var({colour})" stroke-dasharray="{dashes}"/></svg>'
    )


def _means(spreads: Iterable[Spread]) -> list[float]:
    return [spread.mean for spread in spreads] or [float("-inf")]


def pm(spread: Spread) -> str:
    return mean_and_deviation(spread.mean, spread.deviation)
