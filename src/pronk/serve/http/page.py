"""The live page and its events. Nothing in the page comes from elsewhere, and it holds no data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import msgspec

from pronk.serve.http.exchange import Receive, Scope, Send, send_bytes
from pronk.serve.http.metrics import Metrics
from pronk.serve.live import Live
from pronk.serve.service import Service

_KINDS = {
    "index.html": b"text/html; charset=utf-8",
    "page.css": b"text/css; charset=utf-8",
    "page.js": b"text/javascript; charset=utf-8",
}
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
#: Watchers at once; more are told to come back.
MOST_WATCHERS = 100


class Page:
    """The page of one service."""

    def __init__(self, service: Service, metrics: Metrics, stopping: Callable[[], bool]) -> None:
        self.service, self.metrics, self.stopping = service, metrics, stopping
        folder = files("pronk.serve") / "page"
        self._files = {name: (folder / name).read_bytes() for name in _KINDS}
        self._watchers = 0
        self._encode = msgspec.json.Encoder().encode

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].lstrip("/") or "index.html"
        await send_bytes(send, 200, self._files[name], _KINDS[name], POLICY)

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Server-sent events: the state once a second, until the watcher goes."""
        if self._watchers >= MOST_WATCHERS:
            from pronk.serve.errors import Refused

            raise Refused(429, "too many watch already", {"Retry-After": "10"})
        query = parse_qs(scope["query_string"].decode("latin-1"))
        name = query.get("model", [None])[0]
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        gone = asyncio.ensure_future(_gone(receive))
        self._watchers += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            live = Live(self.service, self.metrics.latest)
            while not (gone.done() or self.stopping()):
                found = await asyncio.to_thread(live.look, name)
                data = b"data: " + self._encode(found) + b"\n\n"
                await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.wait([gone], timeout=1.0)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._watchers -= 1
            gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def calls(page: Page) -> dict[str, dict[str, Any]]:
    """Where the page is; the page itself needs no token, what it shows does."""
    static = {"GET": (page.page, None)}
    return {
        "/": static,
        "/page.css": static,
        "/page.js": static,
        "/v2/events": {"GET": (page.events, "")},
    }
