"""The service under load: durable learns a second, batched learns, predictions while learning.

    python benchmarks/bench_serve.py [requests]

All servers run in processes of their own on the loopback, in turns in the same run:

    bare      uvicorn that decodes the request and answers: no journal, no learner
    service   `pronk serve`: journal, learn, answer
    one by one  the service with groups of one: a sync for every request, as servers do that log
                each label before they learn it

The learner is a PKAWV of 100 points on 20 columns.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import report, seconds
from serve_frameworks import _processor, _wait, raw_asgi
from serve_load import (
    Load,
    binary_requests,
    drive,
    in_a_process,
    request_bytes,
    rows_as_requests,
)

COLUMNS = 20
CLIENTS = 64
SPEC = {
    "columns": COLUMNS,
    "algorithm": "pkawv-nystrom",
    "parameters": {"history": "projected", "budget": 100, "bandwidth": 5.0},
    "scale": "none",
}


def bare(port: int) -> None:
    import uvicorn

    uvicorn.run(raw_asgi(), host="127.0.0.1", port=port, log_level="error", access_log=False)


def service(port: int, folder: str, group: int) -> None:
    from pronk.serve import run, worker

    worker.GROUP = group
    run.run(run.ServeOptions(Path(folder), port=port))


class Server:
    """A server in a process of its own."""

    def __init__(self, port: int, group: int, folder: str) -> None:
        from pronk.serve.tokens import Tokens

        self.port = port
        self.token = Tokens(Path(folder)).add(("admin",))
        self.process = in_a_process(service, port, folder, group)
        _wait(port)
        self.ask("PUT", "/v2/models/m", SPEC)

    def ask(self, method: str, path: str, body: Any = None) -> None:
        data = json.dumps(body).encode()
        load = drive(self.port, [request_bytes(path, data, self.token, method)], 1)
        assert set(load.statuses) <= {200, 201}, load.statuses

    def learns(self, count: int, rows: int = 1, start: str = "") -> list[bytes]:
        return rows_as_requests("/v2/models/m/learn", count, COLUMNS, self.token, rows, start)


def library(rows: int, block: int) -> float:
    """Seconds of the library alone for the same rows in blocks."""
    import numpy as np

    import pronk

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS))
    y = np.sin(X[:, 0])

    def work() -> None:
        kernel = pronk.Gaussian(5.0)
        learner = pronk.make(
            "pkawv-nystrom", kernel=kernel, history="projected", budget=100, random_state=0
        )
        for start in range(0, rows, block):
            learner.predict_then_learn(X[start : start + block], y[start : start + block])

    work()
    return seconds(work)


def while_learning(server: Server) -> tuple[Load, float]:
    """Predictions one after another while batches are learned; the longest batch beside them."""
    batches = server.learns(40, 1000, "w")
    one = request_bytes(
        "/v2/models/m/infer", json.dumps({"row": [0.1] * COLUMNS}).encode(), server.token
    )
    asked, learned = Load(), Load()

    async def run() -> None:
        from serve_load import _client

        learning = asyncio.create_task(_client(server.port, iter(batches), learned))

        def until() -> Any:
            while not learning.done():
                yield one

        await _client(server.port, until(), asked)
        await learning

    asyncio.run(run())
    return asked, max(learned.times)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(dir=".") as one, tempfile.TemporaryDirectory(dir=".") as two:
        plain = in_a_process(bare, 18_700)
        _wait(18_700)
        grouped, single = Server(18_701, 4000, one), Server(18_702, 1, two)
        rates: dict[str, list[float]] = {"bare": [], "service": [], "one by one": []}
        tails, spent = [], []
        for turn in range(3):
            rates["bare"].append(drive(18_700, grouped.learns(count), CLIENTS).rate)
            before = _processor(grouped.process.pid)
            load = drive(18_701, grouped.learns(count, 1, f"t{turn}-"), CLIENTS)
            assert load.statuses == {200: count}, load.statuses
            spent.append((_processor(grouped.process.pid) - before) / count)
            rates["service"].append(load.rate)
            tails.append(load.percentile(0.99))
            few = drive(18_702, single.learns(count // 10, 1, f"t{turn}-"), CLIENTS)
            rates["one by one"].append(few.rate)
        best = {name: max(found) for name, found in rates.items()}
        report("durable learns a second, one row, 64 clients", best["service"], "/s", "2,000")
        report("  processor time a request", 1e6 * min(spent), "us", "")
        report("  p99", 1000 * min(tails), "ms", "50")
        report("  x the rate of a sync a request", best["service"] / best["one by one"], "x", "")
        report("  of the rate of bare uvicorn", best["service"] / best["bare"], "x", "")
        batches = grouped.learns(50, 1000, "b")
        before = _processor(grouped.process.pid)
        load = drive(18_701, batches, 2)
        used = _processor(grouped.process.pid) - before
        alone = library(50_000, 1000)
        report("batched learns, blocks of 1,000: rows a second", 1000 * load.rate, "/s", "")
        report("  processor time, x the library alone", used / alone, "x", "1.3")
        arrays = binary_requests("/v2/models/m/learn", 50, COLUMNS, grouped.token, 1000)
        before = _processor(grouped.process.pid)
        load = drive(18_701, arrays, 2)
        assert load.statuses == {200: 50}, load.statuses
        used = _processor(grouped.process.pid) - before
        report("  the same with binary tensors, x the library", used / alone, "x", "1.3")
        asked, longest = while_learning(grouped)
        report("predictions while batches are learned: longest", 1000 * max(asked.times), "ms", "")
        report("  longest batch meanwhile", 1000 * longest, "ms", "")
        for process in (plain, grouped.process, single.process):
            process.terminate()
            process.join(30)


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")
