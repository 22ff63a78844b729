"""Pages of results: docs/results/NAME.json, which a command wrote, becomes NAME.md beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pages

from papers.page import markdown

RESULTS = Path(__file__).parent.parent / "results"


def generate(app):
    for path in RESULTS.glob("*.md"):
        if not path.with_suffix(".json").exists():
            path.unlink()
    for path in RESULTS.glob("*.json"):
        text = markdown(json.loads(path.read_text(encoding="utf-8")))
        pages.write(f"../results/{path.stem}.md", text)


def setup(app):
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
