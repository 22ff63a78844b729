"""Long reliability test of a pass on a cluster: workers are killed in each of its steps.

    python benchmarks/soak_cluster.py

A worker process gets SIGKILL while tasks of one kind are under way; Dask starts another one and
does the lost tasks again. The predictions must be those of a run without kills, to the last bit.
"""

from __future__ import annotations

import os
import signal

import numpy as np

from pronk import PKAWVRegressor
from pronk.cluster import ClusterPass
from pronk.cluster.run import Advance
from pronk.evaluate.validation import Arrays

ROWS, PIECE = 30_000, 4096


class Killer:
    """A client that kills a worker when it has given out the first task of a kind."""

    def __init__(self, client, step: str | None) -> None:
        self.client, self.step = client, step
        self.killed = 0

    def submit(self, function, *arguments):
        future = self.client.submit(function, *arguments, pure=False)
        if function.__name__ == self.step and not self.killed:
            pid = next(iter(self.client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            self.killed = pid
        return future


def main() -> None:
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4))
    stream = Arrays(X, np.sin(X[:, 0]) * X[:, 1])
    with (
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        expected = None
        for step in (None, "ask", "add_up", "learn"):
            killer = Killer(client, step)
            model = PKAWVRegressor(gamma=50.0, random_state=0)
            parts: list[Advance] = list(ClusterPass(model, stream, killer, rows=PIECE).run())
            found = np.concatenate([part.predictions for part in parts])
            expected = found if expected is None else expected
            assert len(found) == ROWS and (found == expected).all(), step
            assert step is None or killer.killed
            print(f"killed while {step}: the same {ROWS:,} predictions", flush=True)


if __name__ == "__main__":
    main()
