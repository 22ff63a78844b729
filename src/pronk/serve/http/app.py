"""The ASGI application: the calls of the interface, routing, authorisation, errors.

No web framework, because it would take most of the time per request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

import msgspec

from pronk._version import __version__
from pronk.serve import spec
from pronk.serve.http.bodies import binary_work, not_json, work_of, works_of_lines
from pronk.serve.http.exchange import (
    NDJSON,
    ClientGone,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    send_bytes,
    send_json,
    send_lines,
)
from pronk.serve.http.monitoring import POLICY, Metrics, Page, describe, page_routes
from pronk.serve.http.openapi import Docs
from pronk.serve.rows import response
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError
from pronk.serve.tokens import Tokens
from pronk.serve.worker import Work, resolve

# -- calls -----------------------------------------------------------------------------------------

EXTENSIONS = ["learning"]
_spec_decoder = msgspec.json.Decoder(spec.Spec)

#: Timeout in seconds for the body of a model file.
FILE_SECONDS = 600.0


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a rollback: the version to restore."""

    version: int | str


_rollback_decoder = msgspec.json.Decoder(Rollback)


class Calls:
    """Handle the calls of one service; each method is an ASGI handler."""

    def __init__(
        self, service: Service, most_bytes: int, most_model_bytes: int, seconds: float
    ) -> None:
        self.service = service
        self.most_bytes, self.most_model_bytes = most_bytes, most_model_bytes
        self.seconds = seconds
        self._creating = asyncio.Lock()

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        return await read_body(scope, receive, self.most_bytes, self.seconds)

    # -- infer and learn ---------------------------------------------------------------------------

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
        found = [work if isinstance(work, HTTPError) else next(outcomes) for work in asked]
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
        except HTTPError as error:
            work.future.set_exception(error)
        return work.future

    async def _schedule(self, call: Any, name: str, *arguments: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self.service.schedule(name, lambda: call(name, *arguments), future)
        return await future

    # -- models ------------------------------------------------------------------------------------

    async def create(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        spec.check_name(name)
        if header(scope, b"content-type").startswith(b"application/octet-stream"):
            hint = "start the server with a larger --max-model"
            data = await read_body(scope, receive, self.most_model_bytes, FILE_SECONDS, hint)
            given, learner = await asyncio.to_thread(spec.read_upload, data)
            online, new = await self._schedule(self.service.create, name, given, learner)
            await send_json(send, describe(online), 201 if new else 200)
            return
        given = _decode(_spec_decoder, await self._body(scope, receive))
        async with self._creating:  # one compilation at a time
            if name not in self.service.models:
                await asyncio.to_thread(spec.check, given)
            online, new = await self._schedule(self.service.create, name, given)
        await send_json(send, describe(online), 201 if new else 200)

    async def models(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = [describe(online) for online in self.service.models.values()]
        await send_json(send, {"models": found})

    async def model(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        online = self.service.model(name)
        # In a thread: it waits for the model's lock, and the certificate is computed.
        found = await asyncio.to_thread(describe, online, long=True)
        await send_json(send, found)

    async def model_ready(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        online = self.service.model(name)
        status = 503 if online.broken else 200
        await send_json(send, {"name": name, "ready": not online.broken}, status)

    async def remove(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        await self._schedule(self.service.remove, name)
        await send_json(send, {"removed": name})

    async def snapshot(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        version = await self._schedule(self.service.snapshot, name)
        await send_json(send, {"model_name": name, "model_version": str(version)})

    async def rollback(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        body = await self._body(scope, receive)
        wanted = None  # the last requested snapshot
        if body:
            text = str(_decode(_rollback_decoder, body).version)
            if not (text.isascii() and text.isdigit() and len(text) < 19):
                raise HTTPError(422, "version must be a whole number")
            wanted = int(text)
        version = await self._schedule(self.service.rollback, name, wanted)
        await send_json(send, {"model_name": name, "model_version": str(version)})

    # -- the server --------------------------------------------------------------------------------

    async def server(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, {"name": "pronk", "version": __version__, "extensions": EXTENSIONS})

    async def live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, {"live": True})

    async def ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.service.recovered:
            await send_json(
                send, {"ready": False, "reason": "the server is recovering its models"}, 503
            )
            return
        failed = self.service.journal.failed is not None or self.service.writes.closed
        await send_json(send, {"ready": not failed}, 503 if failed else 200)


def _decode(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise HTTPError(422, str(error)[:300]) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body) from None


def _line(name: str, id: str | None, outcome: Any, coverage: float) -> Any:
    if isinstance(outcome, HTTPError):
        found: dict[str, Any] = {"error": str(outcome), "status": outcome.status}
        return found if id is None else {"id": id, **found}
    if isinstance(outcome, BaseException):
        raise outcome
    return response(name, id, outcome, coverage)


# -- the application -------------------------------------------------------------------------------

Handler = Callable[..., Awaitable[None]]
_PREFIX = "/v2/models/"


class App:
    """ASGI application of a service."""

    def __init__(
        self,
        service: Service,
        tokens: Tokens,
        most_bytes: int = 16_000_000,
        most_model_bytes: int = 1_000_000_000,
        seconds: float = 30.0,
    ) -> None:
        self.service = service
        self.tokens = tokens
        self.log = service.log
        self.stopping = False
        self.metrics = Metrics(service)
        self.failure: Exception | None = None  # why the models could not be recovered
        self.on_failure: Callable[[], None] = lambda: None
        self._recovering: threading.Thread | None = None
        calls = Calls(service, most_bytes, most_model_bytes, seconds)
        #: Calls without a model: path -> method -> (handler, scope); scope None needs no token.
        self.fixed: dict[str, dict[str, tuple[Handler, str | None]]] = {
            "/v2": {"GET": (calls.server, "")},
            "/v2/models": {"GET": (calls.models, "")},
            "/v2/health/live": {"GET": (calls.live, None)},
            "/v2/health/ready": {"GET": (calls.ready, None)},
            "/metrics": {"GET": (self._metrics, "")},
        }
        self.fixed |= page_routes(Page(service, self.metrics, lambda: self.stopping))
        docs = Docs(POLICY)
        self.fixed |= {
            "/docs": {"GET": (docs.docs, None)},
            "/docs.js": {"GET": (docs.script, None)},
            "/openapi.json": {"GET": (docs.openapi, None)},
        }
        #: Calls of a model: path after its name -> method -> (handler, scope).
        self.of_model: dict[str, dict[str, tuple[Handler, str | None]]] = {
            "infer": {"POST": (calls.infer, "infer")},
            "learn": {"POST": (calls.learn, "learn")},
            "snapshot": {"POST": (calls.snapshot, "admin")},
            "rollback": {"POST": (calls.rollback, "admin")},
            "ready": {"GET": (calls.model_ready, "")},
            "": {
                "GET": (calls.model, ""),
                "PUT": (calls.create, "admin"),
                "DELETE": (calls.remove, "admin"),
            },
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        began = perf_counter()
        status = 0

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._handle(scope, receive, watched)
        except ClientGone:
            status = 499
        except HTTPError as error:
            await send_json(watched, {"error": str(error)}, error.status, error.headers)
        except Exception as error:
            self.log("failed", path=scope["path"], reason=repr(error)[:300])
            if not status:
                await send_json(
                    watched, {"error": "internal error; see the log of the server"}, 500
                )
        finally:
            self.finished(scope, status, perf_counter() - began)

    def finished(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request; log it, without its content, if it failed."""
        call = scope.get("call") or "none"
        self.metrics.count(call, status, seconds, scope.get("model"))
        if status >= 400 and status not in (404, 429):
            self.log(
                "request failed",
                call=call,
                status=status,
                ms=round(1000 * seconds, 1),
                token=scope.get("token"),
            )

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        await send_bytes(send, 200, self.metrics.text(), kind)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        name: str | None = None
        methods = self.fixed.get(path)
        if methods is None and path.startswith(_PREFIX):
            name, _, call = path[len(_PREFIX) :].partition("/")
            methods = self.of_model.get(call) if name else None
        found = None if methods is None else methods.get("GET" if method == "HEAD" else method)
        scope["call"] = found and found[0].__name__.strip("_")
        scope["model"] = name if name in self.service.models else None
        needed = "" if found is None else found[1]
        if needed is not None:
            self._authorise(scope, needed)
            if not self.service.recovered:
                raise HTTPError(503, "the server is recovering its models", {"Retry-After": "1"})
        if methods is None:
            raise HTTPError(404, "unknown path; /docs lists the calls")
        if found is None:
            allowed = ", ".join(methods)
            raise HTTPError(405, f"method not allowed; use {allowed}", {"Allow": allowed})
        if name is None:
            await found[0](scope, receive, send)
        else:
            await found[0](scope, receive, send, name)

    def _authorise(self, scope: Scope, needed: str) -> None:
        kind, _, text = header(scope, b"authorization").decode("latin-1").partition(" ")
        given = text.strip() if kind.lower() == "bearer" else ""
        token = self.tokens.check(given)
        if token is None:
            raise HTTPError(
                401,
                "unknown token: it was revoked, or belongs to another folder"
                if given
                else "a token is required: Authorization: Bearer TOKEN (create one by pronk serve "
                "token FOLDER)",
                {"WWW-Authenticate": "Bearer"},
            )
        scope["token"] = token.id
        if not token.may(needed):
            raise HTTPError(403, f"the token does not have the scope {needed!r}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.service.deliver = partial(_hand_over, asyncio.get_running_loop())
                self._recovering = threading.Thread(target=self._recover, name="recovery")
                self._recovering.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await asyncio.to_thread(self._stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _recover(self) -> None:
        """Recover the models while health checks are already answered."""
        try:
            if not self.service.recovered:
                self.service.recover()
        except Exception as error:
            if not self.service.stopping.is_set():
                self.failure = error
                self.on_failure()
        else:
            self.service.start()

    def _stop(self) -> None:
        self.service.stopping.set()  # ends a recovery early
        if self._recovering is not None:
            self._recovering.join()
        if self.service.recovered:
            self.service.stop()


def _hand_over(loop: asyncio.AbstractEventLoop, done: list[Any]) -> None:
    with suppress(RuntimeError):  # the loop is closed: no client waits
        loop.call_soon_threadsafe(resolve, done)
