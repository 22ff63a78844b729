"""Run `pronk run -a NAME` for every algorithm with default parameters, against a baseline.

    PRONK_DATA=DIR python benchmarks/bench_names.py [--rows N] [--write]

Each cell is the loss divided by that of a baseline (the running mean, or the most frequent label):
below 1 the learner is better. The command line chooses bandwidth and budget.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import sys
from pathlib import Path

from field import results
from field.results import Part

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

SETS = (
    "abalone", "bike_hour", "cadata", "casp", "cpusmall", "parkinsons", "powerplant",
    "codrna", "covtype", "elec2", "ijcnn1", "letter", "susy_30k",
)  # fmt: skip


def ratio(file: Path, name: str, rows: int) -> float | None:
    """Return the loss divided by the baseline's; None if the algorithm does not do the task."""
    from pronk.cli import main

    out, err = io.StringIO(), io.StringIO()
    arguments = ["run", str(file), "-t", "y", "-a", name, "--limit", str(rows), "--json"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as end:
            if end.code:
                text = err.getvalue().strip().splitlines()[-1]
                if "only, not" in text:
                    return None
                print(f"{file.stem}, {name}: {text}", file=sys.stderr)
                return float("nan")
    found = json.loads(out.getvalue())
    metric = next(iter(found["metrics"]))
    return found["metrics"][metric] / found["baseline"][metric]


def page(table: dict[str, dict[str, float | None]], sets: list[str], rows: int) -> list[Part]:
    """Return the page: the table with its explanation."""
    chosen = "" if tuple(sets) == SETS else f" --sets {','.join(sets)}"
    intro = (
        f"`pronk run FILE -t y -a NAME --limit {rows}` without parameters: the loss (mean squared "
        "error, or error rate) divided by that of a baseline (the running mean, or the most "
        "frequent label). **Bold**: worse than the baseline where the default learner is better; "
        "(brackets): where it is not better either. The bandwidth is the median distance of the "
        "first rows, a growing dictionary holds 500 points (30 for learners that restart at every "
        "point), and targets are centred and scaled by the first rows. Made by "
        f"`python benchmarks/bench_names.py --rows {rows}{chosen}`."
    )
    lines = []
    for name, row in table.items():
        cells = [name]
        for one in sets:
            value = row.get(one)
            if value is None:
                cells.append("-")
            elif math.isnan(value):
                cells.append("refused")
            elif value < 1:
                cells.append(f"{value:.2f}" if value < 0.995 else f"{value:.3f}")
            else:
                shown = f"{value:.2f}" if value < 100 else f"{value:.0e}"
                ours = table.get("online-kernel", {}).get(one)
                cells.append(f"({shown})" if ours is None or ours >= 1 else f"**{shown}**")
        lines.append(cells)
    worse = any("**" in cell for cells in lines for cell in cells)
    note = "" if worse else "Every learner beats the baseline wherever the default learner does. "
    if "codrna" in sets:
        note += (
            "The first 1,000 rows of cod-rna all have one label, so nothing can be better there; "
            "learners that restart predict no label after each restart."
        )
    head = ["# Every algorithm with default parameters", intro, *([note.strip()] if note else [])]
    return [*head, *results.table(["name", *sets], lines, left=1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--names", default="")
    parser.add_argument("--write", action="store_true", help="keep it as docs/results/names.json")
    options = parser.parse_args()
    if "PRONK_DATA" not in os.environ:
        sys.exit("bench_names: PRONK_DATA is not set, nothing to measure")
    from pronk.estimators.registry import algorithms

    folder = Path(os.environ["PRONK_DATA"])
    sets = [name for name in options.sets.split(",") if (folder / f"{name}.parquet").exists()]
    names = [n for n in options.names.split(",") if n] or list(algorithms())
    table: dict[str, dict[str, float | None]] = {}
    for name in names:
        table[name] = {}
        for one in sets:
            table[name][one] = ratio(folder / f"{one}.parquet", name, options.rows)
        shown = " ".join(f"{v:.2f}" if v is not None else "-" for v in table[name].values())
        print(f"{name:<16} {shown}", flush=True)
    if options.write:
        results.keep_page("names", page(table, sets, options.rows))


if __name__ == "__main__":
    main()
