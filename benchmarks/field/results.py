"""Finished runs, kept in benchmarks/field/runs.json: one that is there is not made again.

A run of the default learner carries the mark of the learner that made it (`measures.mark`).
Pages are kept as JSON in docs/results, as those of the papers are (`papers.page`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

RUNS = Path(__file__).parent / "runs.json"
PAGES = Path(__file__).parent.parent.parent / "docs" / "results"

Runs = dict[str, dict[str, Any]]
#: A text in Markdown, the head of a table, or a row of the table above it.
Part = str | dict[str, Any] | list[str]


def table(columns: list[str], rows: list[list[str]], left: int | None = None) -> list[Part]:
    """Return a table as parts of a page; columns after the first ``left`` ones are numbers."""
    return [{"columns": columns, "left": len(columns) if left is None else left}, *rows]


def keep_page(name: str, parts: list[Part]) -> None:
    """Write a page that the documentation renders, with one part per line."""
    lines = ",\n".join(json.dumps(part, ensure_ascii=False) for part in parts)
    (PAGES / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def load(path: Path = RUNS) -> Runs:
    return json.loads(path.read_text()) if path.exists() else {}


def keep(key: str, value: dict[str, Any], path: Path = RUNS) -> None:
    """Add a run; another process may add others meanwhile."""
    results = load(path)
    results[key] = value
    text = json.dumps(rounded(results), indent=1, sort_keys=True)
    written = path.with_suffix(f".{os.getpid()}")
    written.write_text(text + "\n")
    written.replace(path)
    print(key, json.dumps({k: rounded(value[k]) for k in list(value)[:5]}), flush=True)


def rounded(value: Any) -> Any:
    """Numbers to six digits: more of them say nothing."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def stale(run: dict[str, Any] | None, mark: str) -> bool:
    """Whether a run is not there, or an earlier learner's."""
    return run is None or run.get("mark", mark) != mark


def fill(template: str, page: Any, starred: bool, **words: str) -> list[Part]:
    """Return the parts of a page: `{name}` alone is what that method of the page returns."""
    star = " A star marks figures of an earlier learner than the tree's." if starred else ""
    found: list[Part] = []
    for text in template.split("\n\n"):
        if text.startswith("{"):
            found += getattr(page, text.strip("{}"))()
        else:
            found.append(text.format(star=star, **words))
    return found
