"""The calls: each takes a request apart, asks the service, and answers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from pronk._version import __version__
from pronk.serve import spec, uploads
from pronk.serve.answers import response
from pronk.serve.describe import describe
from pronk.serve.errors import Refused, not_json
from pronk.serve.http.exchange import (
    NDJSON,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    send_json,
    send_lines,
)
from pronk.serve.http.requests import binary_work, work_of, works_of_lines
from pronk.serve.queues import Work
from pronk.serve.service import Service

EXTENSIONS = ["learning"]
_spec_decoder = msgspec.json.Decoder(spec.Spec)


#: Seconds that a model file may take to come, which is larger than rows.
FILE_SECONDS = 600.0


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a rollback: the version to go back to."""

    version: int | str


_rollback_decoder = msgspec.json.Decoder(Rollback)


class Calls:
    """The calls of one service."""

    def __init__(
        self, service: Service, most_bytes: int, most_model_bytes: int, seconds: float
    ) -> None:
        self.service = service
        self.most_bytes, self.most_model_bytes = most_bytes, most_model_bytes
        self.seconds = seconds
        self._creating = asyncio.Lock()

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        return await read_body(scope, receive, self.most_bytes, self.seconds)

    # -- the hot ones ------------------------------------------------------------------------------

    async def infer(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        await self._ask(scope, receive, send, name, learn=False)

    async def learn(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        await self._ask(scope, receive, send, name, learn=True)

    async def _ask(
        self, scope: Scope, receive: Receive, send: Send, name: str, learn: bool
    ) -> None:
        online = self.service.model(name)
        body = await self._body(scope, receive)
        coverage = online.spec.coverage
        length = header(scope, b"inference-header-content-length")
        if length or not header(scope, b"content-type").startswith(NDJSON):
            made = binary_work(online, body, length, learn) if length else None
            work = made or work_of(online, body, learn)
            answer = await self._submit(work)
            await send_json(send, response(name, work.id, answer, coverage))
            return
        asked = works_of_lines(online, body, learn)
        futures = [self._submit(work) for work in asked if isinstance(work, Work)]
        outcomes = iter(await asyncio.gather(*futures, return_exceptions=True))
        found = [work if isinstance(work, Refused) else next(outcomes) for work in asked]
        await send_lines(
            send,
            [
                _line(name, getattr(work, "id", None), outcome, coverage)
                for work, outcome in zip(asked, found, strict=True)
            ],
        )

    def _submit(self, work: Work) -> asyncio.Future[Any]:
        work.future = asyncio.get_running_loop().create_future()
        try:
            self.service.submit(work)
        except Refused as error:
            work.future.set_exception(error)
        return work.future

    async def _order(self, call: Any, name: str, *arguments: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self.service.order(name, lambda: call(name, *arguments), future)
        return await future

    # -- models ------------------------------------------------------------------------------------

    async def create(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        spec.check_name(name)
        if header(scope, b"content-type").startswith(b"application/octet-stream"):
            hint = "start the server with a larger --max-model"
            data = await read_body(scope, receive, self.most_model_bytes, FILE_SECONDS, hint)
            given, learner = await asyncio.to_thread(uploads.read, data)
            online, new = await self._order(self.service.create, name, given, learner)
            await send_json(send, describe(self.service, online), 201 if new else 200)
            return
        given = _decode(_spec_decoder, await self._body(scope, receive))
        async with self._creating:  # compiling twice at once helps nobody
            if name not in self.service.models:
                await asyncio.to_thread(spec.check, given)
            online, new = await self._order(self.service.create, name, given)
        await send_json(send, describe(self.service, online), 201 if new else 200)

    async def models(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        found = [describe(service, online) for online in service.models.values()]
        await send_json(send, {"models": found})

    async def model(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        online = self.service.model(name)
        # It waits for the model's lock, and a certificate takes arithmetic.
        found = await asyncio.to_thread(describe, self.service, online, long=True)
        await send_json(send, found)

    async def model_ready(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        online = self.service.model(name)
        status = 503 if online.broken else 200
        await send_json(send, {"name": name, "ready": not online.broken}, status)

    async def remove(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        await self._order(self.service.remove, name)
        await send_json(send, {"removed": name})

    async def snapshot(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        version = await self._order(self.service.snapshot, name)
        await send_json(send, {"model_name": name, "model_version": str(version)})

    async def rollback(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        body = await self._body(scope, receive)
        wanted = None  # the last snapshot that was kept
        if body:
            text = str(_decode(_rollback_decoder, body).version)
            if not (text.isascii() and text.isdigit() and len(text) < 19):
                raise Refused(422, "version must be a whole number")
            wanted = int(text)
        version = await self._order(self.service.rollback, name, wanted)
        await send_json(send, {"model_name": name, "model_version": str(version)})

    # -- the server --------------------------------------------------------------------------------

    async def server(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, {"name": "pronk", "version": __version__, "extensions": EXTENSIONS})

    async def live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, {"live": True})

    async def ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.service.recovered:
            await send_json(send, {"ready": False, "reason": "recovering its models"}, 503)
            return
        failed = self.service.journal.failed is not None or self.service.writes.closed
        await send_json(send, {"ready": not failed}, 503 if failed else 200)


def _decode(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refused(422, str(error)[:300]) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body) from None


def _line(name: str, id: str | None, outcome: Any, coverage: float) -> Any:
    if isinstance(outcome, Refused):
        found: dict[str, Any] = {"error": str(outcome), "status": outcome.status}
        return found if id is None else {"id": id, **found}
    if isinstance(outcome, BaseException):
        raise outcome
    return response(name, id, outcome, coverage)
