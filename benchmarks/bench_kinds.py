"""`pronk run FILE -t y` with nothing else, beside LightGBM that is retrained as the file goes on.

    python benchmarks/bench_kinds.py [--page docs/kinds.md]

The files are those of `tests/kinds.py`: one per kind of file that people have. LightGBM gets the
rows as pronk reads them (delimiter, decimals, encoding, types, gaps, bad rows), which is the larger
part of the work, and beside them what a careful person would add: hour, day of the week and day of
the year of every time, categories as categories, and in a second variant the last label, the one 24
rows before and the mean of the last 24. It is retrained every 100 rows on all rows before; the
better of the two variants counts. Both are scored on the same rows, from row 100 on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pronk.data import FileStream, Preparing, Reading
from pronk.data.prepared import prepared
from pronk.estimators.registry import make

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import kinds

#: Rows between two trainings, and the first row that is scored.
EVERY = 100


def read(path: Path) -> tuple[FileStream, np.ndarray, np.ndarray, np.ndarray]:
    """Return the stream, its rows and labels, and the predictions of pronk."""
    stream = Reading(str(path), "y").open()
    model = prepared(make("online-kernel", stream.task, random_state=0), stream, Preparing("none"))
    X, y, P = [], [], []
    for block in stream.blocks():
        if len(block.y):
            X.append(block.X)
            y.append(block.y)
            P.append(np.asarray(model.predict_then_learn(block.X, block.y)))
    return stream, np.concatenate(X), np.concatenate(y), np.concatenate(P)


def careful(stream: FileStream, X: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return columns for LightGBM, and the places of its categories."""
    columns, categories = [], []
    for j, kind in enumerate(stream.kinds):
        values = X[:, j]
        if kind == "category":
            codes = {code: i for i, code in enumerate(np.unique(values[~np.isnan(values)]))}
            categories.append(len(columns))
            columns.append(np.array([codes.get(v, -1) for v in values.tolist()], dtype=float))
        elif kind in ("time", "date"):
            days = values / 86400.0
            columns += [days, (days % 1.0) * 24.0, np.floor(days + 3) % 7, days % 365.2425]
        else:
            columns.append(values)
    return np.column_stack(columns) if columns else np.empty((len(X), 0)), categories


def with_past(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the columns with labels of earlier rows."""
    known = y.astype(float)
    last = np.concatenate(([np.nan], known[:-1]))
    day = np.concatenate((np.full(24, np.nan), known))[: len(y)]
    mean = np.array([np.nanmean(known[max(0, t - 24) : t]) if t else np.nan for t in range(len(y))])
    return np.column_stack((X, last, day, mean))


def retrained(X: np.ndarray, y: np.ndarray, labels: bool, categories: list[int]) -> np.ndarray:
    """Return the predictions of LightGBM, trained every 100 rows on all rows before."""
    import lightgbm

    kind = lightgbm.LGBMClassifier if labels else lightgbm.LGBMRegressor
    P = np.full(len(y), None if labels else np.nan, dtype=object if labels else float)
    known = np.array([v is not None and v == v for v in y.tolist()])
    for start in range(EVERY, len(y), EVERY):
        rows, before = slice(start, start + EVERY), known[:start]
        if not before.any():
            continue
        if labels and len(set(y[:start][before].tolist())) < 2:
            P[rows] = y[:start][before][0]
            continue
        model = kind(verbose=-1, n_jobs=1, random_state=0, min_child_samples=10)
        given = y[:start][before]
        given = given.astype(str) if labels else given.astype(float)
        model.fit(X[:start][before], given, categorical_feature=categories or "auto")
        P[rows] = model.predict(X[rows])
    return P


def error(y: np.ndarray, P: np.ndarray, labels: bool) -> float:
    """Return the share of wrong labels, or the root mean square error over that of the mean."""
    known = np.array([v is not None and v == v for v in y.tolist()])
    known[:EVERY] = False
    if not known.any():
        return float("nan")
    if labels:
        return float(np.mean([str(a) != str(b) for a, b in zip(y[known], P[known], strict=True)]))
    target, found = y[known].astype(float), P[known].astype(float)
    return float(np.sqrt(np.mean((found - target) ** 2) / np.var(target)))


def compare(name: str, folder: Path) -> dict[str, Any]:
    stream, X, y, P = read(kinds.write(name, folder))
    labels = stream.task == "classification"
    own = error(y, P, labels)
    plain, categories = careful(stream, X)
    found = []
    if len(y) > EVERY:
        if plain.shape[1]:
            found.append(error(y, retrained(plain, y, labels, categories), labels))
        if not labels:
            found.append(error(y, retrained(with_past(plain, y), y, labels, categories), labels))
    return {"kind": name, "task": stream.task, "rows": len(y), "pronk": own,
            "lightgbm": min(found, default=float("nan"))}  # fmt: skip


def verdict(row: dict[str, Any]) -> str:
    ours, theirs = row["pronk"], row["lightgbm"]
    if theirs != theirs:  # NaN
        return "too short"
    if ours <= 1.03 * theirs and theirs <= 1.03 * ours:
        return "level"
    return "pronk" if ours < theirs else "**LightGBM**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path, help="write the table into this page, after its text")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| kind of file | rows | pronk | LightGBM | lower |", "|:--|--:|--:|--:|:--|"]
    with tempfile.TemporaryDirectory() as folder:
        for name in kinds.KINDS:
            row = compare(name, Path(folder))
            theirs = f"{row['lightgbm']:.3f}" if row["lightgbm"] == row["lightgbm"] else ""
            ours = f"{row['pronk']:.3f}" if row["pronk"] == row["pronk"] else ""
            lines.append(f"| {name} | {row['rows']:,} | {ours} | {theirs} | {verdict(row)} |")
            print(lines[-1], flush=True)
    if arguments.page is not None:
        text = arguments.page.read_text(encoding="utf-8").partition("| kind of file")[0]
        arguments.page.write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
