"""Measure the service under load: durable learns per second, batches, predictions while learning.

    python benchmarks/bench_serve.py [requests]
    python benchmarks/bench_serve.py batches

The folders are in the system's temporary folder (TMPDIR), which should be on a disk, because a sync
in memory costs nothing. All servers run in separate processes on the loopback interface, in turns
in the same run:

    bare        uvicorn that decodes the request and responds: no journal, no learner
    service     `pronk serve`: journal, learn, respond
    one by one  the service with groups of one: a sync for every request, as in servers that log
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

from measure import report
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
    from pronk.serve import run
    from pronk.serve import service as serving

    serving.GROUP = group  # type: ignore[attr-defined]
    run.run(run.ServeOptions(Path(folder), port=port))


class Server:
    """A server in a separate process."""

    def __init__(self, port: int, group: int, folder: str) -> None:
        from pronk.serve import Client
        from pronk.serve.tokens import Tokens

        self.port = port
        self.token = Tokens(Path(folder)).add(("admin",))
        self.process = in_a_process(service, port, folder, group)
        _wait(port)
        Client(f"http://127.0.0.1:{port}", self.token).models()  # until it is recovered
        self.ask("PUT", "/v2/models/m", SPEC)

    def ask(self, method: str, path: str, body: Any = None) -> None:
        data = json.dumps(body).encode()
        load = drive(self.port, [request_bytes(path, data, self.token, method)], 1)
        assert set(load.statuses) <= {200, 201}, load.statuses

    def learns(self, count: int, rows: int = 1, start: str = "") -> list[bytes]:
        return rows_as_requests("/v2/models/m/learn", count, COLUMNS, self.token, rows, start)


class Library:
    """The library without the service: one learner that gets the same rows in blocks."""

    def __init__(self, blocks: int, rows: int) -> None:
        import numpy as np

        import pronk

        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(blocks, rows, COLUMNS))
        self.y = np.sin(self.X[:, :, 0])
        self.learner = pronk.make(
            "pkawv-nystrom",
            kernel=pronk.Gaussian(5.0),
            history="projected",
            budget=100,
            random_state=0,
        )
        self.turn()

    def turn(self) -> tuple[float, float]:
        """Return CPU and wall seconds of all blocks."""
        began, used = time.perf_counter(), time.process_time()
        for X, y in zip(self.X, self.y, strict=True):
            self.learner.predict_then_learn(X, y)
        return time.process_time() - used, time.perf_counter() - began


def batches(server: Server, turns: int = 6, blocks: int = 40, rows: int = 1000) -> None:
    """Time blocks of rows as binary tensors, as JSON and in the library, in turns; print the best.

    CPU time is that of the whole server: reading, journal, learning, responding. Wall time includes
    the sync of each group, which several clients share.
    """
    alone = Library(blocks, rows)
    forms = {"binary": binary_requests, "JSON": rows_as_requests}
    used: dict[str, list[float]] = {"library": []}
    wall: dict[str, list[float]] = {"library": []}
    for turn in range(-1, turns):
        for form, requests in forms.items():
            for clients in (1, 4):
                name = f"{form}, {clients} at a time"
                start = f"{form}{clients}-{turn}-"
                path = "/v2/models/m/learn"
                made = requests(path, blocks, COLUMNS, server.token, rows, start)
                before = _processor(server.process.pid)
                load = drive(server.port, made, clients)
                assert load.statuses == {200: blocks}, load.statuses
                used.setdefault(name, []).append(_processor(server.process.pid) - before)
                wall.setdefault(name, []).append(load.seconds)
        for found, seconds in zip((used, wall), alone.turn(), strict=True):
            found["library"].append(seconds)
    rate = blocks * rows / min(wall["library"])
    report("batches of 1,000 rows: the library alone, rows per second", rate, "/s", "")
    for name in used:
        if name != "library":
            cost = min(used[name]) / min(used["library"])
            report(f"  {name}: processor time, x the library", cost, "x", "1.3")
            report("    wall time", min(wall[name]) / min(wall["library"]), "x", "")


def while_learning(server: Server) -> tuple[Load, float]:
    """Time predictions one after another while batches are learned, and the longest batch."""
    blocks = server.learns(40, 1000, "w")
    one = request_bytes(
        "/v2/models/m/infer", json.dumps({"row": [0.1] * COLUMNS}).encode(), server.token
    )
    asked, learned = Load(), Load()

    async def run() -> None:
        from serve_load import _client

        learning = asyncio.create_task(_client(server.port, iter(blocks), learned))

        def until() -> Any:
            while not learning.done():
                yield one

        await _client(server.port, until(), asked)
        await learning

    asyncio.run(run())
    return asked, max(learned.times)


def only_batches() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(18_701, 4000, folder)
        batches(server)
        server.process.terminate()
        server.process.join(30)


def main() -> None:
    if sys.argv[1:] == ["batches"]:
        only_batches()
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
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
        report("durable learns per second, one row, 64 clients", best["service"], "/s", "2,000")
        report("  processor time per request", 1e6 * min(spent), "us", "")
        report("  p99", 1000 * min(tails), "ms", "50")
        report(
            "  x the rate with one sync per request", best["service"] / best["one by one"], "x", ""
        )
        report("  of the rate of bare uvicorn", best["service"] / best["bare"], "x", "")
        batches(grouped)
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
