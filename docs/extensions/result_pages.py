"""The list of the pages that commands make: those that are there."""

from __future__ import annotations

from pathlib import Path

import pages

DOCS = Path(__file__).parent.parent


def generate(app):
    found = [DOCS / "reliability.md", *sorted((DOCS / "results").glob("[a-z]*.md"))]
    names = [str(path.relative_to(DOCS).with_suffix("")) for path in found if path.exists()]
    text = "```{toctree}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```" if names else ""
    pages.write("fragments/results.md", text)


def setup(app):
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
