"""llms.txt: the pages of the site with a line about each, for programs that read documentation.

The format is a title, a summary, and lists of links (https://llmstxt.org). It is written beside
index.html; the build fails if it misses a page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes

#: Parts of the file: title, and how the names of their pages start. The last part takes the rest.
PARTS = [
    (
        "Start",
        ("index", "tutorial", "which", "why", "limitations", "gallery", "generated/notebooks"),
    ),
    ("How to", ("howto/",)),
    ("Reference", ("api/", "glossary", "backcompat")),
    ("Algorithms", ("algorithms", "generated/algorithms", "theory", "errata")),
    ("Optional", ("",)),
]


def line(app: Any, name: str) -> str:
    """Return the link to a page with its first sentence."""
    tree = app.env.get_doctree(name)
    title = app.env.titles[name].astext()
    text = next((node.astext() for node in tree.findall(nodes.paragraph)), "")
    text = re.split(r"(?<=[.:])\s", " ".join(text.split()))[0].rstrip(":")
    return f"- [{title}]({app.builder.get_target_uri(name)})" + (f": {text}" if text else "")


def finish(app: Any, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    left = sorted(app.env.found_docs - {"generated/fragments"})
    text = [
        "# pronk",
        "> Online prediction from a stream in Python: one pass, predict first and learn after,"
        " bounded time and memory per row, no parameters to choose. scikit-learn interface,"
        " command line, HTTP service.",
        "The one operation that changes a learner is `predictions = learner.predict_then_learn(X,"
        " y)`; `predict` changes nothing. Start with `pronk.OnlineKernelRegressor()` or"
        " `pronk.OnlineKernelClassifier()`.",
    ]
    for title, starts in PARTS:
        names = [name for name in left if name.startswith(starts)]
        left = [name for name in left if name not in names]
        text += [f"## {title}", "\n".join(line(app, name) for name in names)]
    assert not left, left
    (Path(app.outdir) / "llms.txt").write_text("\n\n".join(text) + "\n", encoding="utf-8")


def setup(app):
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
