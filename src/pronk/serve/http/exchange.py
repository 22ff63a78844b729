"""The least of an ASGI exchange: read a body within limits, send JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from pronk.serve.errors import Refused

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_encode = msgspec.json.Encoder().encode
JSON = b"application/json"
NDJSON = b"application/x-ndjson"


class ClientGone(Exception):
    """The client closed the connection before its body was there."""


def header(scope: Scope, name: bytes) -> bytes:
    """A header of the request, or nothing."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def size_of(text: bytes) -> int | None:
    """A number of bytes as a header has it; None if it is none, or has more than 18 digits."""
    return int(text) if text.isdigit() and len(text) <= 18 else None


async def read_body(
    scope: Scope, receive: Receive, most: int, seconds: float, hint: str = "send it in pieces"
) -> bytes:
    """The body; too large a one, or one that does not come, is refused."""
    too_large = Refused(413, f"the body is larger than {most:,} bytes; {hint}")
    length = header(scope, b"content-length")
    if length and (size_of(length) or 0) > most:
        raise too_large
    first = await _receive(receive, seconds)
    if not first.get("more_body"):
        body = first.get("body", b"")
        if len(body) > most:
            raise too_large
        return bytes(body)
    parts, size = [first.get("body", b"")], len(first.get("body", b""))
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        if size > most:
            raise too_large
        left = deadline - asyncio.get_running_loop().time()
        message = await _receive(receive, left)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body"):
            break
    if size > most:
        raise too_large
    return b"".join(parts)


async def _receive(receive: Receive, seconds: float) -> MutableMapping[str, Any]:
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise Refused(408, "the body did not come in time", {"Connection": "close"}) from None
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


async def send_bytes(
    send: Send, status: int, body: bytes, kind: bytes = JSON, headers: dict[str, str] | None = None
) -> None:
    """A whole answer."""
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
    await send_bytes(send, status, _encode(value), headers=headers)


async def send_lines(send: Send, values: list[Any]) -> None:
    """NDJSON: an object a line."""
    await send_bytes(send, 200, b"\n".join([*(_encode(value) for value in values), b""]), NDJSON)
