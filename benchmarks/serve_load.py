"""Make load for the benchmarks of the service: clients with open connections on the loopback."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Load:
    """The results of a run of requests."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


Bodies = Callable[[], Iterator[bytes]]


def request_bytes(
    path: str, body: bytes, token: str = "", method: str = "POST", *more: str
) -> bytes:
    """Return the bytes of a request."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *more,
    ]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _client(port: int, requests: Iterator[bytes], load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for data in requests:
        began = time.perf_counter()
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        length = 0
        for line in head.split(b"\r\n"):
            if line[:15].lower() == b"content-length:":
                length = int(line[15:])
        await reader.readexactly(length)
        load.times.append(time.perf_counter() - began)
        load.statuses[status] = load.statuses.get(status, 0) + 1
    writer.close()


def drive(port: int, requests: list[bytes], clients: int) -> Load:
    """Send all requests over several connections, each of which waits for its responses."""
    load = Load()
    shared = iter(requests)

    async def run() -> None:
        await asyncio.gather(*(_client(port, shared, load) for _ in range(clients)))

    began = time.perf_counter()
    asyncio.run(run())
    load.seconds = time.perf_counter() - began
    return load


def rows_as_requests(
    path: str, count: int, features: int, token: str = "", rows: int = 1, start: str = "r"
) -> list[bytes]:
    """Return learn requests of generated rows."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(count * rows, features))
    y = np.sin(X[:, 0])
    found = []
    for i in range(count):
        some = slice(i * rows, (i + 1) * rows)
        body: dict[str, Any] = {
            "id": f"{start}{i}",
            "rows": X[some].tolist(),
            "labels": y[some].tolist(),
        }
        found.append(request_bytes(path, json.dumps(body).encode(), token))
    return found


def binary_requests(
    path: str, count: int, features: int, token: str, rows: int, start: str = "binary"
) -> list[bytes]:
    """Return learn requests whose rows are a binary tensor, as `Client` sends arrays."""
    import numpy as np

    rng = np.random.default_rng(0)
    found = []
    for i in range(count):
        X = rng.normal(size=(rows, features))
        size = {"binary_data_size": X.nbytes}
        tensor = {"name": "x", "shape": X.shape, "datatype": "FP64", "parameters": size}
        body = {"id": f"{start}{i}", "inputs": [tensor], "labels": np.sin(X[:, 0]).tolist()}
        text = json.dumps(body).encode()
        line = f"Inference-Header-Content-Length: {len(text)}"
        found.append(request_bytes(path, text + X.tobytes(), token, "POST", line))
    return found


def in_a_process(target: Callable[..., None], *arguments: Any) -> multiprocessing.Process:
    """Start a server in a separate process."""
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    process.start()
    return process
