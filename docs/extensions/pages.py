"""What pages with outputs share: code that is run, and docs/generated, which is not committed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

GENERATED = Path(__file__).parent.parent / "generated"


def write(name: str, text: str) -> Path:
    """Write a page, unless it is there already: an unchanged page is not built again."""
    path = GENERATED / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text.rstrip() + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def remove_others(folder: str, keep: set[str]) -> None:
    """Pages of algorithms or examples that exist no more."""
    for path in (GENERATED / folder).glob("*"):
        if path.name not in keep:
            path.unlink()


def run(name: str, code: list[str]) -> list[dict[str, str]]:
    """Run pieces of code one after the other in a process of their own.

    Return for each what it prints and, in base64, draws.
    """
    one_thread = {variable: "1" for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    here = Path(__file__).parent
    paths = [str(here.parent.parent / "src"), os.environ.get("PYTHONPATH", "")]
    result = subprocess.run(
        [sys.executable, str(here / "run_cells.py")],
        input=json.dumps(code),
        capture_output=True,
        text=True,
        env={**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    if result.returncode:
        raise RuntimeError(f"{name} failed:\n{result.stderr}")
    found: list[dict[str, str]] = json.loads(result.stdout)
    return found
