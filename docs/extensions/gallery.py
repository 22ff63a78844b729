"""The gallery: every script in examples/ is run, its figure and its output become a page."""

from __future__ import annotations

import ast
import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pages
from docstrings import to_markdown

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def page(script: Path, printed: str) -> str:
    source = script.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or script.stem).partition("\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).strip()
    return "\n\n".join(
        [
            f"# {title.rstrip('.')}",
            to_markdown(text),
            f"![{title}]({script.stem}.png)",
            f"```python\n{code}\n```",
            f"It prints\n\n```text\n{printed.rstrip()}\n```",
            f"Run it yourself: `python examples/{script.name}`.",
        ]
    )


def card(script: Path) -> str:
    title = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split("\n")[0]
    link = f"/generated/gallery/{script.stem}"
    return f"## [{title.rstrip('.')}]({link}.md)\n\n[![{title}]({link}.png)]({link}.md)"


def generate(app: Any) -> None:
    scripts = sorted(EXAMPLES.glob("*.py"))
    folder = pages.GENERATED / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda s: pages.run(s.name, [s.read_text("utf-8")])[0], scripts))
    for script, output in zip(scripts, outputs, strict=True):
        (folder / f"{script.stem}.png").write_bytes(base64.b64decode(output["drawn"]))
        pages.write(f"gallery/{script.stem}.md", page(script, output["printed"]))
    keep = {script.stem + ending for script in scripts for ending in (".md", ".png")}
    pages.remove_others("gallery", keep)
    pages.write("fragments/gallery.md", "\n\n".join(card(script) for script in scripts))


def setup(app):
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
