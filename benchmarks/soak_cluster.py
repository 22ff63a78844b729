"""Test a pass on a cluster for long: kill workers and the scheduler.

    python benchmarks/soak_cluster.py [--only workers | keyed | scheduler | memory]

workers     A worker process gets SIGKILL while tasks of one kind run; Dask starts another one and
            runs the lost tasks again. The predictions must be those of a run without kills,
            to the last bit, for PKAWV and for the default learner.
keyed       The same for models of keys: each row is learned once.
scheduler   `pronk run --cluster tcp://.. --checkpoint`: the scheduler gets SIGKILL. The command
            ends with one line; with another scheduler it resumes, to the same bits.
memory      An input larger than the memory of the workers is processed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from pronk import Keyed, OnlineKernelRegressor, PKAWVRegressor
from pronk.aggregate import experts
from pronk.cli.scale_out import LATE
from pronk.cluster import ClusterPass, ClusterPool, pool
from pronk.data import FileStream
from pronk.evaluate import progressive
from pronk.evaluate.progressive import Arrays
from pronk.keyed import ParallelKeyed
from pronk.parallel import using_pool

ROWS, PIECE = 30_000, 4096
DEFAULT_ROWS = 10_000


class Killer:
    """A client that kills a worker after it has submitted the first task of a kind."""

    def __init__(self, client, step: str | None) -> None:
        self.client, self.step = client, step
        self.killed = 0

    def scheduler_info(self):
        return self.client.scheduler_info()

    def submit(self, function, *arguments, **options):
        future = self.client.submit(function, *arguments, pure=False)
        if function.__name__ == self.step and not self.killed:
            pid = next(iter(self.client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            self.killed = pid
        return future


def data(rows: int, columns: int = 4):
    X = np.random.default_rng(0).normal(size=(rows, columns))
    return X, np.sin(X[:, 0]) * X[:, 1]


def workers() -> None:
    import dask
    from distributed import Client, LocalCluster

    # Experts are fixed early and bundles are short, so that few rows have every kind of task.
    experts.ACTIVE_EXPERTS, pool.BUNDLE, pool.STRETCH, pool.CALL = {2560: 3}, 1024, 2048, 8192

    def pkawv(killer):
        model = PKAWVRegressor(gamma=50.0, random_state=0)
        parts = list(ClusterPass(model, Arrays(*data(ROWS)), killer, rows=PIECE).run())
        return np.concatenate([part.predictions for part in parts])

    def default(killer):
        X, y = data(DEFAULT_ROWS)
        model = OnlineKernelRegressor(budget=700, random_state=0)
        with using_pool(ClusterPool(killer, 2)):
            return model.predict_then_learn(X, y)

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": LATE}),
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for learn, steps in (
            (default, ("find_candidates", "sum_bundle", "learn_bundle")),
            (pkawv, ("find_candidates", "sum_piece", "learn_piece")),
        ):
            expected = learn(Killer(client, None))
            for step in steps:
                killer = Killer(client, step)
                found = learn(killer)
                assert killer.killed, f"{learn.__name__}: no task {step}"
                assert (found == expected).all(), (learn.__name__, step)
                print(
                    f"{learn.__name__}: a worker killed in {step}: the same {len(found):,} "
                    "predictions",
                    flush=True,
                )


def keyed() -> None:
    """Kill a worker in tasks of several calls; Dask starts another one each time."""
    import dask
    from distributed import Client, LocalCluster

    X, y = data(8000)
    keys = np.random.default_rng(1).integers(400, size=len(y))

    def learn(client) -> tuple[np.ndarray, int, int]:
        with tempfile.TemporaryDirectory() as folder:
            model, killed, found = Keyed(folder=folder, cache_size=20), 0, []
            for start in range(0, len(y), 2000):
                killer = Killer(client, "learn_shard") if client else None
                who = ParallelKeyed(model, killer) if killer else model
                rows = slice(start, start + 2000)
                found.append(who.predict_then_learn(X[rows], y[rows], keys[rows]))
                killed += bool(killer and killer.killed)
            return np.concatenate(found), model.n_seen_, killed

    expected, _, _ = learn(None)
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": LATE}),
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        found, rows, killed = learn(client)
    assert killed == 4 and rows == len(y) and (found == expected).all()
    print(
        f"keyed: {killed} workers killed: the same {rows:,} predictions, no row twice", flush=True
    )


def scheduler() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        X, y = data(280_000)  # three calls of the default learner
        table = pa.table({**{f"x{i}": X[:, i] for i in range(4)}, "y": y})
        parquet.write_table(table, folder / "rows.parquet", row_group_size=20_000)
        for name, options in {
            "default": ["-p", "budget=12", "--interval", "0.9"],
            "pkawv": ["-a", "pkawv-taylor", "-p", "degree=2", "--scale", "none"],
        }.items():
            expected = folder / f"{name}-whole.parquet"
            with_scheduler(folder, options, expected, None)
            found = folder / f"{name}.parquet"
            ended = with_scheduler(folder, options, found, folder / name, kill_after=1)
            assert ended.returncode == 1, ended.stderr
            print(ended.stderr.strip().splitlines()[-1], flush=True)
            ended = with_scheduler(folder, options, found, folder / name)
            one, two = parquet.read_table(expected), parquet.read_table(found)
            assert one == two and one.num_rows == len(y)
            print(f"{name}: scheduler killed, another one: the same {len(y):,} rows", flush=True)


def with_scheduler(folder, options, out, checkpoint, kill_after: int | None = None):
    """Run `pronk run` with its own scheduler and two workers.

    The scheduler is killed when the snapshot has been written ``kill_after`` times.
    """
    python = [sys.executable, "-m"]
    file = folder / f"scheduler-{time.time()}.json"
    started = [
        subprocess.Popen(
            [*python, "dask", "scheduler", "--port", "0", "--dashboard-address", ":0",
             "--scheduler-file", str(file)],
            stderr=subprocess.DEVNULL,
        )
    ]  # fmt: skip
    while not file.exists():
        time.sleep(0.1)
    for _ in range(2):
        started.append(
            subprocess.Popen(
                [*python, "dask", "worker", "--scheduler-file", str(file), "--nthreads", "1",
                 "--no-dashboard", "--no-nanny"],
                stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
    address = json_address(file)
    command = [*python, "pronk", "run", str(folder / "rows.parquet"), "-t", "y", *options]
    command += ["--cluster", address, "--predictions", str(out)]
    if checkpoint is not None:
        command += ["--checkpoint", str(checkpoint), "--checkpoint-every", "100000"]
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        if kill_after is not None:
            seen: set[int] = set()
            while len(seen) < kill_after and running.poll() is None:
                if checkpoint.exists():
                    seen.add(checkpoint.stat().st_mtime_ns)
                time.sleep(0.02)
            os.kill(started[0].pid, signal.SIGKILL)
        _, said = running.communicate(timeout=900)
    finally:
        for process in started:
            process.kill()
            process.wait()
    if kill_after is None:
        assert running.returncode == 0, said
    return subprocess.CompletedProcess(command, running.returncode, "", said)


def json_address(file: Path) -> str:
    import json

    return str(json.loads(file.read_text())["address"])


def memory() -> None:
    """Learn with 700 MB per worker, of which the libraries use half."""
    from distributed import Client, LocalCluster

    fourier = PKAWVRegressor(features="fourier", n_features=20, random_state=0)
    for name, model, columns, rows in (
        ("pkawv", fourier, 200, 1_000_000),
        ("default", OnlineKernelRegressor(budget=12, random_state=0), 1000, 100_000),
    ):
        with (
            tempfile.TemporaryDirectory() as place,
            LocalCluster(
                2, threads_per_worker=1, memory_limit="700MB", dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            path, began = Path(place) / "rows.parquet", time.perf_counter()
            write_wide(path, rows, columns)
            stream = FileStream(path, "y")
            done = [record.rows for record in progressive(model, stream, client=client)][-1]
            peaks = [peak / 1024 for peak in client.run(largest).values()]
            print(
                f"{name}: {done:,} rows, {8e-6 * rows * (columns + 1):,.0f} MB as numbers, by two "
                f"workers of 700 MB that used {max(peaks):.0f} MB at most; this process used "
                f"{largest() / 1024:.0f} MB; {time.perf_counter() - began:.0f} s",
                flush=True,
            )
            assert done == rows and max(peaks) < 700


def write_wide(path: Path, rows: int, columns: int, parts: int = 50) -> None:
    schema = pa.schema([*((f"x{i}", pa.float64()) for i in range(columns)), ("y", pa.float64())])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for part in range(parts):
            X = np.random.default_rng(part).normal(size=(rows // parts, columns))
            writer.write_table(pa.table([*X.T, X[:, 0] * X[:, 1]], schema=schema))


def largest() -> int:
    """The most memory that a process used, in KB; a child's does not begin with its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise OSError("/proc/self/status does not tell")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("workers", "keyed", "scheduler", "memory"))
    given = parser.parse_args()
    for test in (workers, keyed, scheduler, memory):
        if given.only in (None, test.__name__):
            test()


if __name__ == "__main__":
    main()
