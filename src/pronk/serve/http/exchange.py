"""Requests and their answers over ASGI; limits for connections and request heads."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pronk.serve.spec import HTTPError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

encode = msgspec.json.Encoder().encode
JSON = b"application/json"
NDJSON = b"application/x-ndjson"


class Reply(NamedTuple):
    """Hold an answer; its body may be sent in parts."""

    body: bytes | AsyncGenerator[bytes]
    status: int = 200
    kind: bytes = JSON
    headers: dict[str, str] = {}

    async def send(self, send: Send) -> None:
        """Send the answer."""
        given = {"cache-control": "no-store", "x-content-type-options": "nosniff", **self.headers}
        lines = [(key.lower().encode(), value.encode()) for key, value in given.items()]
        lines.append((b"content-type", self.kind))
        if isinstance(self.body, bytes):
            lines.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": lines})
        if isinstance(self.body, bytes):
            await send({"type": "http.response.body", "body": self.body})
            return
        async with aclosing(self.body) as parts:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """Return an answer in JSON."""
    return Reply(encode(value), status, headers=headers or {})


class Request:
    """Hold a request, with the call, the model and the token that it names."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.path: str = scope["path"]
        self.method: str = scope["method"]
        self.query: str = scope["query_string"].decode("latin-1")
        self._headers, self.receive = scope["headers"], receive
        self.call, self.model = "none", ""  # the names of the call and of the model
        self.version: str | None = None  # the version of the model
        self.token: str | None = None  # the id of the token

    def header(self, name: bytes) -> bytes:
        """Return a header, or b"" if it is missing."""
        return next((bytes(value) for key, value in self._headers if key == name), b"")

    async def body(
        self, most: int, seconds: float, hint: str = "split it into several requests"
    ) -> bytes:
        """Return the body; raise 413 if it is too large, 408 if it is not complete in time."""
        too_large = HTTPError(413, f"the body is larger than {most:,} bytes; {hint}")
        if (size_of(self.header(b"content-length")) or 0) > most:
            raise too_large
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPError(499, "the client has closed the connection")
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
                    if size > most:
                        raise too_large
        except TimeoutError:
            raise HTTPError(
                408, "the body was not complete in time", {"Connection": "close"}
            ) from None
        return b"".join(parts)

    async def disconnected(self) -> None:
        """Wait until the client has closed the connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def size_of(text: bytes) -> int | None:
    """Return the number of bytes that a header gives; None if it is not a number below 1e18."""
    return int(text) if text.isdigit() and len(text) <= 18 else None


def decompressed(body: bytes, encoding: bytes, most: int) -> bytes:
    """Return the content of a body with a Content-Encoding; raise 413 if it is too large."""
    encoding = encoding.strip().lower()
    if encoding in (b"", b"identity"):
        return body
    if encoding not in (b"gzip", b"x-gzip", b"deflate"):
        raise HTTPError(
            415, "Content-Encoding must be gzip or deflate", {"Accept-Encoding": "gzip, deflate"}
        )
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # reads the formats of gzip and zlib
    try:
        found = stream.decompress(body, most + 1)
    except zlib.error as error:
        raise HTTPError(400, f"the body cannot be decompressed: {error}") from None
    if len(found) > most:
        raise HTTPError(413, f"the decompressed body is larger than {most:,} bytes; split it")
    if not stream.eof or stream.unused_data:
        raise HTTPError(400, "the body cannot be decompressed: it must be one complete stream")
    return found


# -- limits of connections -------------------------------------------------------------------------


def _answer(status: str, text: str) -> bytes:
    """Return an answer that is sent before there is a request for the application."""
    lines = ["HTTP/1.1 " + status, "content-type: text/plain", f"content-length: {len(text)}"]
    return "\r\n".join([*lines, "connection: close", "", text]).encode()


class LimitedProtocol(HttpToolsProtocol):
    """Add limits to uvicorn's protocol for clients that have not sent a valid token.

    A connection is closed if the head of a request is too large or not complete in time, and if the
    body of a rejected request does not end in time. With too many connections, the one that has
    been idle for longest is closed.
    """

    silence = 30.0  # seconds from the first byte, or the connection, to the end of the head
    unread = 5.0  # seconds from the answer to the end of a body that is not read
    most_head = 65_536
    most_connections = 2_000

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._heading, self._head = True, 0
        self._ended = 0  # heads and bodies that ended so far
        self._idle_since: float | None = self.loop.time()  # None while a request is answered
        self._closing: asyncio.TimerHandle | None = None
        self._close_after(self.silence)
        if len(self.connections) > self.most_connections:
            self._make_room()

    def _make_room(self) -> None:
        """Close the connection that has been idle for longest, or this one if none is idle."""
        others = [
            other
            for other in self.connections
            if isinstance(other, LimitedProtocol)
            and other is not self
            and other._idle_since is not None
            and not other.transport.is_closing()
        ]
        if others:
            min(others, key=lambda other: other._idle_since or 0.0).transport.close()
        else:
            self.transport.write(_answer("503 Service Unavailable", "too many connections"))
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        ended = self._ended
        super().data_received(data)
        if not self._heading or ended != self._ended or self.transport.is_closing():
            return  # part of a body, or a head or body ended: the next head begins later
        self._head += len(data)
        if self._head > self.most_head:
            self._refuse()
        elif self._closing is None and (self.cycle is None or self.cycle.response_complete):
            self._close_after(self.silence)

    def on_message_begin(self) -> None:
        self._parsed = 0  # bytes of this head; the data may contain other bytes too
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > self.most_head:
            raise ValueError("the head is too large")  # the parser stops, and calls send_400

    def send_400_response(self, msg: str) -> None:
        if getattr(self, "_parsed", 0) > self.most_head:
            self._refuse()
        else:
            super().send_400_response(msg)

    def on_headers_complete(self) -> None:
        self._heading, self._idle_since = False, None
        self._ended += 1
        self._stay_open()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._heading, self._head = True, 0  # for the next request
        self._ended += 1
        self._stay_open()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        cycle = self.cycle
        if self.transport.is_closing() or not cycle.response_complete:
            return
        self._idle_since = self.loop.time()
        if cycle.more_body:  # answered before its body was read: wait briefly for the rest
            self._close_after(self.unread)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stay_open()
        super().connection_lost(exc)

    def _close_after(self, seconds: float) -> None:
        self._closing = self.loop.call_later(seconds, self.transport.close)

    def _stay_open(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def _refuse(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            text = "the head of the request is too large"
            self.transport.write(_answer("431 Request Header Fields Too Large", text))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Do not warn: requests for a web socket are answered like others."""
