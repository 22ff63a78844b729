"""uvicorn's protocol with two limits that it has not: how long a head may take, and its size."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = b"the head of the request is too large"


class PatientProtocol(HttpToolsProtocol):
    """Closes connections whose request does not begin in time, or has a head without end.

    A head is read before a token is known, so silent and slow clients must cost little.
    """

    silence = 30.0  # seconds from the first byte, or the connection, to the end of the head
    most_head = 65_536

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._heading, self._head = True, 0
        self._ended = 0  # heads and bodies so far
        self._silent: asyncio.TimerHandle | None = None
        self._watch()

    def data_received(self, data: bytes) -> None:
        ended = self._ended
        super().data_received(data)
        if not self._heading or ended != self._ended or self.transport.is_closing():
            return  # of a body, or a head or a body ended in it: the next head begins later
        self._head += len(data)
        if self._head > self.most_head:
            self._refuse()
        elif self._silent is None and (self.cycle is None or self.cycle.response_complete):
            self._watch()

    def on_headers_complete(self) -> None:
        self._heading = False
        self._ended += 1
        self._rest()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._heading, self._head = True, 0  # of the next request
        self._ended += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
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
            length = str(len(_TOO_LARGE)).encode()
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\n"
                b"content-length: " + length + b"\r\nconnection: close\r\n\r\n" + _TOO_LARGE
            )
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """There are no web sockets here; the request is answered as any other."""
