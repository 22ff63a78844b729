"""Test the service for long, as parts of `soak.py`: kills, random requests, an hour of load.

Servers run in separate processes on the loopback interface; clients are threads of this process.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from serve_load import request_bytes

Check = Callable[[str, bool, str], None]
SPEC = {
    "algorithm": "pkawv-nystrom",
    "parameters": {"history": "projected", "budget": 60, "bandwidth": 3.0},
}
COLUMNS = 5


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


#: Servers are forked from a process that has imported everything: a start takes no long time.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pronk.serve.run", "pronk.estimators.algorithms.pkawv"])


def _serve(folder: str, port: int, snapshot_rows: int) -> None:
    """Start the process of a server."""
    from pronk.serve import run
    from pronk.serve.service import Settings

    log = os.open(Path(folder) / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    settings = Settings(snapshot_rows=snapshot_rows)
    run.run(run.ServeOptions(Path(folder), port=port, settings=settings))


class Served:
    """A server that can be killed and started again on the same folder and port."""

    def __init__(self, folder: Path, snapshot_rows: int = 50_000) -> None:
        from pronk.serve.tokens import Tokens

        folder.mkdir(exist_ok=True)
        self.folder, self.port = folder, _free_port()
        self.token = Tokens(folder).add(("admin",))
        self.snapshot_rows = snapshot_rows
        self.process = self._start()

    def _start(self) -> Any:
        arguments = (str(self.folder), self.port, self.snapshot_rows)
        process = _processes.Process(target=_serve, args=arguments)
        process.start()
        return process

    def client(self, retries: int = 100_000) -> Any:
        from pronk.serve import Client

        return Client(f"http://127.0.0.1:{self.port}", self.token, retries=retries, timeout=20.0)

    def wait(self) -> None:
        client = self.client()
        for _ in range(2400):
            if client.ready():
                return
            assert self.process.is_alive(), (self.folder / "log").read_text()[-2000:]
            time.sleep(0.05)
        raise AssertionError("the server does not get ready")

    def kill_and_restart(self) -> None:
        self.process.kill()
        self.process.join()
        self.process = self._start()

    def stop(self) -> int:
        self.process.terminate()
        self.process.join(60)
        return int(self.process.exitcode)


class Feeder(threading.Thread):
    """A client that learns rows at once or by a later label, and records the responses."""

    def __init__(self, served: Served, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.client = served.client()
        self.number = number
        self.rng = np.random.default_rng([seed, number])
        self.answers: dict[str, list[float]] = {}
        self.stopping = False
        self.failure: str | None = None

    def run(self) -> None:
        try:
            count = 0
            while not self.stopping:
                count += 1
                self._one(f"{self.number}-{count}")
        except Exception as error:
            self.failure = repr(error)

    def _one(self, id: str) -> None:
        rows = self.rng.normal(size=(int(self.rng.integers(1, 4)), COLUMNS))
        labels = np.sin(rows[:, 0]) + rows[:, 1]
        if self.rng.random() < 0.3:
            early = self.client.infer("m", rows, id=id)
            answer = self.client.label("m", id, labels)
            assert answer["prediction"] == early["prediction"]
        else:
            answer = self.client.learn("m", rows, labels, id=id)
        self.answers[id] = answer["prediction"]


def kills(count: int, seed: int, check: Check) -> None:
    """Kill the server under load; check that acknowledged labels are learned once, bit for bit."""
    rng = np.random.default_rng([seed, 7])
    with tempfile.TemporaryDirectory() as name:
        served = Served(Path(name), 1000)
        served.wait()
        served.client().create("m", COLUMNS, **SPEC)
        feeders = [Feeder(served, number, seed) for number in range(8)]
        for feeder in feeders:
            feeder.start()
        early = 0
        for _ in range(count):
            if rng.random() < 0.2:  # while it recovers
                time.sleep(float(rng.uniform(0.0, 2.0)))
                early += 1
            else:
                served.wait()
                time.sleep(float(rng.uniform(0.05, 1.0)))
            served.kill_and_restart()
        served.wait()
        for feeder in feeders:
            feeder.stopping = True
        for feeder in feeders:
            feeder.join(120)
        assert served.stop() == 0
        failures = [feeder.failure for feeder in feeders if feeder.failure]
        acknowledged = {id: found for feeder in feeders for id, found in feeder.answers.items()}
        once, same, rows, equal = _audit(Path(name), acknowledged)
        check(
            "serve-kills",
            not failures and once == same == len(acknowledged) and equal,
            f"{count} kills ({early} of them while it started), {len(acknowledged):,} acknowledged "
            f"requests of {rows:,} rows; {once:,} learned exactly once, {same:,} answers equal to "
            f"those of the replay; model equal bit by bit to one fed the journal: {equal}"
            + (f"; clients failed: {failures[:2]}" if failures else ""),
        )


def _audit(folder: Path, acknowledged: dict[str, list[float]]) -> tuple[int, int, int, bool]:
    """Return what was learned once, the rows, and whether model and replay have equal bits."""
    from pronk.estimators import files
    from pronk.serve import recovery
    from pronk.serve.journal import Journal
    from pronk.serve.online import OnlineModel

    journal = Journal(folder)
    row = journal.models()[0]
    counts: Counter[str] = Counter()
    answered = {}
    replayed = OnlineModel(row)
    for block in journal.learned(row.number, row.start):
        for entry, answer in zip(block, replayed.learn(block), strict=True):
            counts[entry.id or ""] += 1
            answered[entry.id or ""] = answer.prediction
    stored = recovery.recover(journal, row, folder, lambda *_, **__: None)
    bits = []
    for number, online in enumerate((replayed, stored)):
        path = folder / f"audit-{number}"
        files.save_checkpoint(online.tree(), path)
        bits.append(path.read_bytes())
    journal.close()
    once = sum(counts[id] == 1 for id in acknowledged)
    same = sum(answered.get(id) == found for id, found in acknowledged.items())
    extra = max(counts.values(), default=0) <= 1
    return once, same, replayed.scores.rows, bits[0] == bits[1] and extra


def hour(seconds: float, rate: float, seed: int, check: Check) -> None:
    """Run half the load for long: memory is constant and nothing fails.

    Requests have a schedule, over 64 connections: a late response delays the next request, which is
    still sent. Seven of ten learn a row; three predict, and their labels arrive later.
    """
    with tempfile.TemporaryDirectory() as name:
        served = Served(Path(name), 20_000)
        served.wait()
        served.client().create("m", COLUMNS, **SPEC)
        found = _Paced(served, rate, seed)
        asyncio.run(found.run(seconds))
        code = served.stop()
        grown = (max(found.sizes) - found.sizes[0]) / 1e6
        times = sorted(found.times)
        check(
            "serve-hour",
            not found.failures and code == 0 and grown < 30.0,
            f"{len(times):,} requests in {found.seconds:.0f} s ({len(times) / found.seconds:.0f} a "
            f"second, {rate:.0f} asked for); memory grew by {grown:.1f} MB after the first fifth "
            f"({found.sizes[0] / 1e6:.0f} MB); half of the answers within "
            f"{1000 * times[len(times) // 2]:.0f} ms, 99 of 100 within "
            f"{1000 * times[99 * len(times) // 100]:.0f} ms; {len(found.failures)} failed"
            + (f": {found.failures[:2]}" if found.failures else ""),
        )


class _Paced:
    """Requests on a schedule, and their results."""

    def __init__(self, served: Served, rate: float, seed: int, clients: int = 64) -> None:
        self.served, self.rate, self.clients = served, rate, clients
        self.rng = np.random.default_rng([seed, 11])
        self.times = array("d")
        self.sizes: list[int] = []
        self.failures: list[str] = []
        self.seconds = 0.0

    async def run(self, seconds: float) -> None:
        began = time.monotonic()
        clients = [self._client(number, began, seconds) for number in range(self.clients)]
        watch = asyncio.create_task(self._watch(began, seconds))
        await asyncio.gather(*clients)
        self.seconds = time.monotonic() - began
        await watch

    async def _watch(self, began: float, seconds: float) -> None:
        while time.monotonic() - began < seconds:
            await asyncio.sleep(min(5.0, seconds / 20))
            if time.monotonic() - began > seconds / 5:
                self.sizes.append(_resident(self.served.process.pid))

    async def _client(self, number: int, began: float, seconds: float) -> None:
        streams = await asyncio.open_connection("127.0.0.1", self.served.port)
        due, count = began + number / self.rate, 0
        while due - began < seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            count += 1
            id = f"{number}-{count}"
            row = self.rng.normal(size=COLUMNS).round(6).tolist()
            label = row[0] - row[1]
            early = None
            if self.rng.random() < 0.3:
                early = await self._ask(streams, "infer", {"id": id, "row": row})
                due += self.clients / self.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                answer = await self._ask(streams, "learn", {"id": id, "label": label})
            else:
                answer = await self._ask(streams, "learn", {"id": id, "row": row, "label": label})
            if early is not None and early["outputs"] != answer["outputs"]:
                self.failures.append(f"{id}: {early} then {answer}")
            due += self.clients / self.rate
        streams[1].close()

    async def _ask(self, streams: Any, call: str, body: Any) -> Any:
        reader, writer = streams
        data = json.dumps(body).encode()
        began = time.perf_counter()
        writer.write(request_bytes(f"/v2/models/m/{call}", data, self.served.token))
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:])
            for line in head.split(b"\r\n")
            if line[:15].lower() == b"content-length:"
        )
        found = json.loads(await reader.readexactly(length))
        self.times.append(time.perf_counter() - began)
        if head[9:12] != b"200":
            self.failures.append(f"{head[9:12].decode()}: {found}")
            return {"outputs": None}
        return found


def _resident(pid: int) -> int:
    with Path(f"/proc/{pid}/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cases(count: int, seed: int, check: Check) -> None:
    """Send requests generated from the OpenAPI description (schemathesis, if installed).

    No response is 5xx, and no rejected call changes a state: the journal has no more rows than
    calls with response 200, and the model is the one that the journal gives.
    """
    program = Path(sys.executable).with_name("schemathesis")
    if not program.exists():
        print("skip serve-cases: pip install schemathesis", flush=True)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        served = Served(folder / "served")
        served.wait()
        client = served.client()
        client.create("m", 2, algorithm="fogd")
        described = client._call("GET", "/openapi.json")
        bodies = _narrowed(described)
        (folder / "openapi.json").write_text(json.dumps(described))
        # Else it tries DELETE, and what follows finds no model.
        (folder / "schemathesis.toml").write_text(
            '[phases.coverage]\nunexpected-methods = ["PATCH"]\n'
        )
        done = subprocess.run(
            [
                str(program), "run", str(folder / "openapi.json"), "--phases", "coverage,fuzzing",
                "--url", f"http://127.0.0.1:{served.port}", "--checks", "not_a_server_error",
                "-H", f"Authorization: Bearer {served.token}", "-n", str(count // bodies + 1),
                "--seed", str(seed), "--request-timeout", "600",
            ],
            capture_output=True, text=True, cwd=folder,
        )  # fmt: skip
        told = next((line for line in done.stdout.splitlines() if "generated," in line), "")
        taken = _taken(served, "learn") + _taken(served, "infer")
        refused = sum(_taken(served, call, "4") for call in ("learn", "infer", "rollback"))
        code = served.stop()
        rows, equal = _audit(folder / "served", {})[2:]
        kept = _kept(folder / "served")
        check(
            "serve-cases",
            done.returncode == 0 and code == 0 and equal and kept <= taken,
            f"schemathesis: {told.strip()}; no 5xx; infer and learn: {taken:,} answered, {kept:,} "
            f"kept in the journal; {refused:,} refused; {rows:,} rows learned after all rollbacks; "
            f"model equal bit by bit to one fed the journal: {equal}",
        )
        if done.returncode:
            print(done.stdout[-3000:])


def requests(count: int, seed: int, check: Check) -> None:
    """Send random requests (tests/serve/fuzzing.py lists what is allowed)."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serve"))
    from fuzzing import Fuzz

    with tempfile.TemporaryDirectory() as name:
        served = Served(Path(name))
        served.wait()
        fuzz = Fuzz(served.port, served.token, seed)
        fuzz.prepare()
        before = _resident(served.process.pid)
        fuzz.run(count, served.process.is_alive)
        fuzz.close()
        grown = (_resident(served.process.pid) - before) / 1e6
        code = served.stop()
        log = (Path(name) / "log").read_text()
        failed = [line for line in log.splitlines() if '"failed"' in line]
        check(
            "serve-fuzz",
            not fuzz.wrong and not failed and code == 0,
            f"{count:,} random requests: {dict(sorted(fuzz.counts.items()))}; {len(fuzz.wrong)} "
            f"without an answer, with a 5xx or followed by a model that no longer answers; "
            f"{len(failed)} failures in the log; memory grew by {grown:.1f} MB",
        )
        for text in [*fuzz.wrong[:10], *failed[:10]]:
            print(f"       {text[:600]}")


def _narrowed(described: Any) -> int:
    """Return bodies for an existing model, half of them valid, and how many calls have a body."""
    number = {"type": "number", "minimum": -1e6, "maximum": 1e6}
    row = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
    known = {"enum": ["a", "b", "c"]}
    good: dict[str, list[Any]] = {
        "infer": [{"row": row}, {"row": row, "id": {"type": "string", "minLength": 1}}],
        "learn": [{"row": row, "label": number}, {"id": known, "row": row, "label": number}],
    }
    bodies = 0
    for path, calls in described["paths"].items():
        if "{model}" in path:
            calls["parameters"][0]["schema"] = {"enum": ["m"]}
        calls.pop("delete", None)
        for method in calls.keys() - {"parameters"}:
            content = calls[method].get("requestBody", {}).get("content")
            bodies += content is not None
            name = path.rsplit("/", 1)[1]
            if content is not None and name in good:
                content.pop("application/x-ndjson", None)
                forms = [
                    {"type": "object", "properties": form, "required": list(form)}
                    | {"additionalProperties": False}
                    for form in good[name]
                ]
                # Under a name of its own: one schema for both would be the wider one alone.
                content["application/any+json"] = content["application/json"]
                content["application/json"] = {"schema": {"anyOf": forms}}
    return bodies


def _taken(served: Served, call: str, status: str = "2") -> int:
    """Return the number of calls with a response status, from the metrics of the server."""
    _, _, text = served.client()._once("GET", "/metrics", None)
    start = f'pronk_requests_total{{call="{call}",status="{status}'
    return int(
        sum(
            float(line.split()[-1]) for line in text.decode().splitlines() if line.startswith(start)
        )
    )


def _kept(folder: Path) -> int:
    """Return the rows of infer and learn in the journal, including those of rollbacks."""
    from pronk.serve.journal import ROLLBACK, Journal

    journal = Journal(folder)
    query = f"SELECT count(*) FROM journal WHERE kind <> {ROLLBACK}"
    found = int(journal.connection.execute(query).fetchone()[0])
    journal.close()
    return found
