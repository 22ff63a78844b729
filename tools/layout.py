"""Measure the size of the tree: files, lines, the path of one row, options, words.

    python -m tools.layout

prints a table. Run it from the root of a clone.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import pronk
from pronk.data.stream import BLOCK_ROWS

PACKAGE = Path(pronk.__file__).parent
#: The packages that a user's data passes through before and after the arithmetic.
OUTER = ("cli", "data", "evaluate", "report", "serve", "keyed", "compat", "estimators")
SMALL = 100


def tracked(pattern: str) -> list[Path]:
    """Return the files under version control that match a pattern."""
    listed = subprocess.run(
        ["git", "ls-files", pattern], capture_output=True, text=True, check=True
    )
    return [Path(name) for name in listed.stdout.split() if Path(name).exists()]


def lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def small_files() -> list[Path]:
    """Return the modules of the outer packages with fewer than 100 lines."""
    return [
        file
        for file in tracked("src/*.py")
        if file.name != "__init__.py" and file.parts[2] in OUTER and lines(file) < SMALL
    ]


def calls_by_file(call: Callable[[], Any]) -> Counter[str]:
    """Run a call; return how many calls it makes into each file of the package."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            counts[str(Path(frame.f_code.co_filename).relative_to(PACKAGE))] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


def path_of_a_row() -> Counter[str]:
    """Return the files that one row of the default learner enters, after 3,000 others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3001, 4))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1]
    model = pronk.OnlineKernelRegressor(random_state=0)
    model.partial_fit(X[:2990], y[:2990])
    for row in range(2990, 3000):
        model.predict_then_learn(X[row : row + 1], y[row : row + 1])
    return calls_by_file(lambda: model.predict_then_learn(X[3000:], y[3000:]))


def path_through_run(rows: int) -> Counter[str]:
    """Return the files that `pronk run` enters, including set-up and summary."""
    from pronk.cli.app import app

    rng = np.random.default_rng(0)
    # All digits: a file of some megabytes is read in several pieces.
    lines = "\n".join(f"{a},{b},{a * b}" for a, b in rng.uniform(-1, 1, (rows, 2)).tolist())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        file.write_text("a,b,y\n" + lines + "\n")
        command = ["run", str(file), "--target", "y", "--json"]
        with contextlib.redirect_stdout(io.StringIO()):
            return calls_by_file(lambda: app(command, standalone_mode=False))


def path_of_a_block() -> set[str]:
    """Return the files outside the learner that are entered more often when a file has more rows.

    What sets up a run, or ends it, is called equally often for both.
    """
    few, many = path_through_run(6 * BLOCK_ROWS), path_through_run(9 * BLOCK_ROWS)
    inside = ("core", "newton", "first_order", "aggregate", "estimators")
    grown = {file for file in many if many[file] > few[file]}
    return {file for file in grown if file.partition("/")[0] not in inside}


def options_of_run() -> int:
    import typer.main

    from pronk.cli.app import app

    group = typer.main.get_command(app)
    return len(group.commands["run"].params)  # type: ignore[attr-defined]


def main() -> None:
    sources = tracked("src/*.py")
    words = sum(len(file.read_text().split()) for file in tracked("*.md"))
    row, run, block = path_of_a_row(), path_through_run(300), path_of_a_block()
    small = small_files()
    print(f"Python files in src                          {len(sources)}")
    print(f"lines in src                                 {sum(map(lines, sources)):,}")
    print(f"files under {SMALL} lines in the outer packages   {len(small)}")
    calls = f"({row.total()} calls)"
    print(f"files that one row of the default learner passes through   {len(row)} {calls}")
    print(f"files outside the learner that a block of pronk run passes  {len(block)}")
    print(f"files of pronk run, from options to summary  {len(run)}")
    print(f"options of pronk run                         {options_of_run()}")
    print(f"words of Markdown                            {words:,}")
    lists = {"one row": row, "a block": block, "pronk run": run, "small": map(str, small)}
    for title, files in lists.items():
        print(f"\n{title}:", *sorted(files), sep="\n  ")


if __name__ == "__main__":
    main()
