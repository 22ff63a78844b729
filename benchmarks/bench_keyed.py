"""Run one model per key at scale: many keys with few rows each, through `pronk run --by`.

    python benchmarks/bench_keyed.py                  2,000 keys of 20 rows
    python benchmarks/bench_keyed.py --keys 100000    2,000,000 rows: minutes

Rows of all keys are in random order, or key after key ("grouped"). Each run is a separate process.
Printed are its CPU time, its largest memory, the bytes of the models on disk, and the largest
difference of its predictions to those of the first line: keys share nothing, so orders differ by
rounding only, which depends on how a key's rows are cut into calls. ``--workers 1 2`` also runs
with these numbers of processes, which changes no bit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

ROWS = 20  # of each key


def write_rows(path: Path, keys: int, columns: int, grouped: bool) -> None:
    """Write the rows of ``keys`` keys; those of one key are the same in both orders."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (keys * ROWS, columns))
    key = np.repeat(np.arange(keys), ROWS)
    y = np.sin(3.0 * X[:, 0]) * (key % 7 - 3) + X[:, 1] + 0.1 * rng.normal(size=len(key))
    order = np.arange(len(key))
    if not grouped:
        turns = np.argsort(rng.permutation(key), kind="stable")  # any mixture that keeps each
        order[turns] = order.copy()  # key's rows in order
    table = {"key": key, **{f"x{j}": X[:, j] for j in range(columns)}, "y": y}
    parquet.write_table(
        pa.table({name: values[order] for name, values in table.items()}),
        path,
        row_group_size=1 << 16,
    )


def run(rows: Path, models: Path, predictions: Path, *more: str) -> tuple[float, float, float]:
    """Return CPU seconds, wall seconds and the largest memory in MB of one run."""
    command = [sys.executable, "-m", "pronk", "run", str(rows), "-t", "y", "--by", "key"]
    command += ["--save", str(models), "--predictions", str(predictions), *more]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    clock = time.perf_counter() - began
    return used.ru_utime + used.ru_stime, clock, used.ru_maxrss / 1024.0


def by_key(rows: Path, predictions: Path) -> np.ndarray:
    """Return the predictions, key by key."""
    key = parquet.read_table(rows, columns=["key"]).column(0).to_numpy()
    made = parquet.read_table(predictions).column("prediction").to_numpy()
    return made[np.argsort(key, kind="stable")]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--keys", type=int, default=2000)
    options.add_argument("--columns", type=int, default=3)
    options.add_argument("--orders", nargs="+", default=["interleaved", "grouped"])
    options.add_argument("--workers", type=int, nargs="*", default=[])
    chosen = options.parse_args()
    print(f"{chosen.keys:,} keys of {ROWS} rows, {chosen.columns} columns")
    print(
        "order        workers   CPU s   ms per key   clock s   MB at most   MB on disk   difference"
    )
    with tempfile.TemporaryDirectory() as folder:
        place, first = Path(folder), None
        for order in chosen.orders:
            rows = place / f"{order}.parquet"
            write_rows(rows, chosen.keys, chosen.columns, order == "grouped")
            for workers in [0, *chosen.workers]:
                models, made = place / f"{order}-{workers}", place / "predictions.parquet"
                more = ["--workers", str(workers)] if workers else []
                cpu, clock, memory = run(rows, models, made, *more)
                disk = sum(file.stat().st_size for file in models.iterdir()) / 2**20
                values = by_key(rows, made)
                first = values if first is None else first
                off = np.abs(values - first).max()
                each = 1e3 * cpu / chosen.keys
                print(
                    f"{order:<12} {workers or 'none':>7} {cpu:>7.1f} {each:>12.2f} "
                    f"{clock:>9.1f} {memory:>12.0f} {disk:>12.0f} {off:>12.1e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
