"""Notebooks: run every script in examples/notebooks cell by cell; write a page and an .ipynb.

A script is in the percent format (`# %%` starts a cell of code, `# %% [markdown]` one of text),
which Jupytext, VS Code, Spyder and PyCharm open as a notebook. The page shows what each cell prints
and draws; the .ipynb beside it has no outputs and runs in Jupyter.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import pages

NOTEBOOKS = Path(__file__).parent.parent.parent / "examples" / "notebooks"


class Cell(NamedTuple):
    """A cell of a script: its kind, "code" or "markdown", and its text."""

    kind: str
    text: str


def cells(source: str) -> list[Cell]:
    """Return the cells of a script in the percent format."""
    found = []
    for part in source.split("# %%")[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            found.append(Cell("markdown", "\n".join(lines)))
        else:
            found.append(Cell("code", body.strip()))
    return found


def notebook(found: list[Cell]) -> dict[str, Any]:
    """Return the cells as a notebook of format 4.5, without outputs."""
    written = []
    for number, cell in enumerate(found):
        entry: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": cell.text.splitlines(keepends=True),
        }
        written.append(
            entry | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {})
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": written,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def generate(app: Any) -> None:
    keep = set()
    for script in sorted(NOTEBOOKS.glob("*.py")):
        found = cells(script.read_text(encoding="utf-8"))
        code = [cell.text for cell in found if cell.kind == "code"]
        outputs = iter(pages.run(script.name, code))
        text = [found[0].text, f"Download as a notebook: {{download}}`{script.stem}.ipynb`."]
        keep |= {f"{script.stem}.md", f"{script.stem}.ipynb"}
        for number, cell in enumerate(found[1:]):
            if cell.kind == "markdown":
                text.append(cell.text)
                continue
            output = next(outputs)
            text.append(f"```python\n{cell.text}\n```")
            if output["printed"]:
                text.append(f"```text\n{output['printed'].rstrip()}\n```")
            if output["drawn"]:
                image = f"{script.stem}-{number}.png"
                keep.add(image)
                (pages.GENERATED / "notebooks").mkdir(parents=True, exist_ok=True)
                (pages.GENERATED / "notebooks" / image).write_bytes(
                    base64.b64decode(output["drawn"])
                )
                text.append(f"![figure {number}]({image})")
        pages.write(f"notebooks/{script.stem}.ipynb", json.dumps(notebook(found), indent=1))
        pages.write(f"notebooks/{script.stem}.md", "\n\n".join(text))
    pages.remove_others("notebooks", keep)


def setup(app):
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
