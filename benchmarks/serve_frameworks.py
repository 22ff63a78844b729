"""Time the hot path of the service in several web frameworks: decode a row, queue it, respond.

    python benchmarks/serve_frameworks.py [requests]

A framework that is not installed is left out (pip install fastapi litestar starlette orjson
msgspec). Every server decodes and checks a learn request of one row of 20 numbers, passes it to a
writer thread that responds to all waiting requests together (no journal, no learner, so that the
cost of the framework remains), and encodes the response. Requests come from 64 connections of
another process, in turns, best of 3; the figure to compare is the server's CPU time per request.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from serve_load import drive, in_a_process, rows_as_requests


class Writer:
    """A thread that responds to all waiting requests together."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.condition = threading.Condition()
        threading.Thread(target=self.work, daemon=True).start()

    async def submit(self, rows: Any, labels: Any) -> list[float]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self.condition:
            self.waiting.append((rows, labels, future, loop))
            self.condition.notify()
        return await future

    def work(self) -> None:
        while True:
            with self.condition:
                while not self.waiting:
                    self.condition.wait()
                taken, self.waiting = self.waiting, []
            answers = [(future, [float(row[0]) for row in rows]) for rows, _, future, _ in taken]
            taken[0][3].call_soon_threadsafe(_answer, answers)


def _answer(answers: Any) -> None:
    for future, result in answers:
        future.set_result(result)


def raw_asgi() -> Any:
    import msgspec

    writer = Writer()
    decoder = msgspec.json.Decoder(_struct())
    headers = [(b"content-type", b"application/json")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message.get("more_body"):
                break
        given = decoder.decode(body)
        data = msgspec.json.encode({"outputs": await writer.submit(given.rows, given.labels)})
        length = (b"content-length", str(len(data)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": data})

    return app


def _struct() -> Any:
    import msgspec

    return msgspec.defstruct(
        "Learn", [("id", str), ("rows", list[list[float]]), ("labels", list[float])]
    )


def _starlette(decode: Any, encode: Any) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    writer = Writer()

    async def learn(request: Request) -> Response:
        rows, labels = decode(await request.body())
        data = encode({"outputs": await writer.submit(rows, labels)})
        return Response(data, media_type="application/json")

    return Starlette(routes=[Route("/v2/models/{model}/learn", learn, methods=["POST"])])


def starlette_msgspec() -> Any:
    import msgspec

    decoder = msgspec.json.Decoder(_struct())

    def decode(body: bytes) -> Any:
        given = decoder.decode(body)
        return given.rows, given.labels

    return _starlette(decode, msgspec.json.encode)


def starlette_orjson() -> Any:
    import orjson

    return _starlette(_checked(orjson.loads), orjson.dumps)


def starlette_json() -> Any:
    return _starlette(_checked(json.loads), lambda value: json.dumps(value).encode())


def _checked(loads: Any) -> Any:
    def decode(body: bytes) -> Any:
        given = loads(body)
        for row in given["rows"]:
            for value in row:
                if not isinstance(value, float | int):
                    raise ValueError
        return given["rows"], given["labels"]

    return decode


def fastapi_pydantic() -> Any:
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Learn(BaseModel):
        id: str
        rows: list[list[float]]
        labels: list[float]

    app, writer = FastAPI(), Writer()

    async def learn(model: str, given: Any) -> Any:
        return {"outputs": await writer.submit(given.rows, given.labels)}

    learn.__annotations__["given"] = Learn
    app.post("/v2/models/{model}/learn")(learn)
    return app


def litestar_msgspec() -> Any:
    from litestar import Litestar, post

    writer = Writer()
    Learn = _struct()

    async def learn(model: str, data: Any) -> dict[str, list[float]]:
        return {"outputs": await writer.submit(data.rows, data.labels)}

    learn.__annotations__.update(model=str, data=Learn)
    learn.__annotations__["return"] = dict[str, list[float]]
    return Litestar(
        [post("/v2/models/{model:str}/learn", status_code=200)(learn)], openapi_config=None
    )


FRAMES = {
    "ASGI alone, msgspec": (raw_asgi, ("msgspec",)),
    "Starlette, msgspec": (starlette_msgspec, ("starlette", "msgspec")),
    "Starlette, orjson": (starlette_orjson, ("starlette", "orjson")),
    "Starlette, json": (starlette_json, ("starlette",)),
    "Litestar, msgspec": (litestar_msgspec, ("litestar",)),
    "FastAPI, pydantic": (fastapi_pydantic, ("fastapi",)),
}


def serve(name: str, port: int) -> None:
    import uvicorn

    uvicorn.run(FRAMES[name][0](), host="127.0.0.1", port=port, log_level="error", access_log=False)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    requests = rows_as_requests("/v2/models/m/learn", count, 20)
    frames = {
        name: port
        for port, (name, (_, needs)) in enumerate(FRAMES.items(), 18_600)
        if all(importlib.util.find_spec(need) for need in needs)
    }
    processes = [in_a_process(serve, name, port) for name, port in frames.items()]
    for port in frames.values():
        _wait(port)
    rates: dict[str, float] = dict.fromkeys(frames, 0.0)
    spent: dict[str, float] = dict.fromkeys(frames, float("inf"))
    for _ in range(3):
        for (name, port), process in zip(frames.items(), processes, strict=True):
            began = _processor(process.pid)
            load = drive(port, requests, 64)
            assert load.statuses == {200: count}, (name, load.statuses)
            rates[name] = max(rates[name], load.rate)
            spent[name] = min(spent[name], (_processor(process.pid) - began) / count)
    print(f"{'frame':<24}{'requests/s':>12}{'us per request':>16}{'x the first':>14}")
    first = next(iter(spent.values()))
    for name, each in spent.items():
        print(f"{name:<24}{rates[name]:>12,.0f}{1e6 * each:>16.0f}{each / first:>14.2f}")
    for process in processes:
        process.terminate()


def _processor(pid: int | None) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait(port: int) -> None:
    for _ in range(6000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"no server on port {port}")


if __name__ == "__main__":
    main()
