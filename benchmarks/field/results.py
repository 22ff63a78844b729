"""Finished runs, kept in docs/results/default.json: one that is there is not made again.

A run of the default learner carries the mark of the learner that made it (`measures.mark`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results"

Runs = dict[str, dict[str, Any]]


def load() -> Runs:
    path = RESULTS / "default.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(key: str, value: dict[str, Any]) -> None:
    """Add a run; another process may add others meanwhile."""
    results = load()
    results[key] = value
    text = json.dumps(rounded(results), indent=1, sort_keys=True)
    path = RESULTS / f"default.json.{os.getpid()}"
    path.write_text(text + "\n")
    path.replace(RESULTS / "default.json")
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
