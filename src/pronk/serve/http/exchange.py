"""Read request bodies and send answers over ASGI; limits for connections and request heads."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pronk.serve.spec import HTTPError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

encode = msgspec.json.Encoder().encode
JSON = b"application/json"
NDJSON = b"application/x-ndjson"


class ClientGone(Exception):
    """Raised if the client closes the connection before its body is complete."""


def header(scope: Scope, name: bytes) -> bytes:
    """Return a header of the request, or b"" if it is missing."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def size_of(text: bytes) -> int | None:
    """Return the number of bytes that a header gives; None if it is not a number below 1e18."""
    return int(text) if text.isdigit() and len(text) <= 18 else None


async def read_body(
    scope: Scope,
    receive: Receive,
    most: int,
    seconds: float,
    hint: str = "split it into several requests",
) -> bytes:
    """Return the body; raise 413 if it is too large, 408 if it is not complete in time."""
    too_large = HTTPError(413, f"the body is larger than {most:,} bytes; {hint}")
    length = header(scope, b"content-length")
    if length and (size_of(length) or 0) > most:
        raise too_large
    parts: list[bytes] = []
    size, more = 0, True
    deadline = asyncio.get_running_loop().time() + seconds
    while more:
        left = deadline - asyncio.get_running_loop().time()
        message = await _receive(receive, left)
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > most:
            raise too_large
    return b"".join(parts)


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


async def _receive(receive: Receive, seconds: float) -> MutableMapping[str, Any]:
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise HTTPError(408, "the body was not complete in time", {"Connection": "close"}) from None
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


async def send_bytes(
    send: Send, status: int, body: bytes, kind: bytes = JSON, headers: dict[str, str] | None = None
) -> None:
    """Send a complete answer."""
    lines = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    lines += [(key.lower().encode(), value.encode()) for key, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


async def send_json(
    send: Send, value: Any, status: int = 200, headers: dict[str, str] | None = None
) -> None:
    await send_bytes(send, status, encode(value), headers=headers)


# -- limits of connections -------------------------------------------------------------------------

_TOO_LARGE = b"the head of the request is too large"
_TOO_MANY = b"too many connections"


def _answer(status: bytes, text: bytes) -> bytes:
    length = str(len(text)).encode()
    return (
        b"HTTP/1.1 " + status + b"\r\ncontent-type: text/plain\r\ncontent-length: " + length
        + b"\r\nconnection: close\r\n\r\n" + text
    )  # fmt: skip


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
        self._silent: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._idle_since: float | None = self.loop.time()  # None while a request is answered
        self._watch()
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
            self.transport.write(_answer(b"503 Service Unavailable", _TOO_MANY))
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        ended = self._ended
        super().data_received(data)
        if not self._heading or ended != self._ended or self.transport.is_closing():
            return  # part of a body, or a head or body ended: the next head begins later
        self._head += len(data)
        if self._head > self.most_head:
            self._refuse()
        elif self._silent is None and (self.cycle is None or self.cycle.response_complete):
            self._watch()

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
        self._rest()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._heading, self._head = True, 0  # for the next request
        self._ended += 1
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        cycle = self.cycle
        if self.transport.is_closing() or not cycle.response_complete:
            return
        self._idle_since = self.loop.time()
        if cycle.more_body:  # answered before its body was read: wait briefly for the rest
            self._unread = self.loop.call_later(self.unread, self._close_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._silent = self.loop.call_later(self.silence, self._close_silent)

    def _rest(self) -> None:
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def _close_silent(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _refuse(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_answer(b"431 Request Header Fields Too Large", _TOO_LARGE))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Do not warn: requests for a web socket are answered like others."""
