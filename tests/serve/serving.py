"""A server on the loopback interface, and a client for it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn

from pronk.serve.http.app import App
from pronk.serve.http.exchange import LimitedProtocol
from pronk.serve.run import listen
from pronk.serve.service import Service, Settings
from pronk.serve.tokens import Tokens

SMALL = {"algorithm": "pkawv-nystrom", "parameters": {"history": "projected", "budget": 10}}


class Reply:
    """Status, headers and body of an answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def error(self) -> str:
        return str(self.json["error"])

    @property
    def prediction(self) -> list[Any]:
        outputs = {output["name"]: output["data"] for output in self.json["outputs"]}
        found: list[Any] = outputs["prediction"]
        return found


class Site:
    """A running server and a way to ask it."""

    def __init__(self, folder: Path, recover: bool = True, **settings: Any) -> None:
        self.folder = folder
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.service = Service(folder, Settings(**settings), self._note, recover=recover)
        self.tokens = Tokens(folder)
        self.token = self.tokens.add(("admin",))
        self.app = App(self.service, self.tokens, most_bytes=1_000_000, seconds=1.0)
        socket = listen("127.0.0.1", 0)
        self.port = socket.getsockname()[1]
        config = uvicorn.Config(
            self.app,
            http=LimitedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [socket]})
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def _note(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def stop(self) -> None:
        self.app.stopping = True
        self.server.should_exit = True
        self.thread.join()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = "",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One request; without a token argument with the one of the admin, with None without."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        lines = dict(headers or {})
        if token is not None:
            lines["Authorization"] = f"Bearer {token or self.token}"
        if isinstance(body, str):
            body = body.encode()
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, lines)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def create(self, name: str, columns: Any = ("a", "b"), **more: Any) -> str:
        spec = {"columns": columns, **SMALL, **more}
        reply = self.call("PUT", f"/v2/models/{name}", spec)
        assert reply.status == 201, reply.body
        return f"/v2/models/{name}"
