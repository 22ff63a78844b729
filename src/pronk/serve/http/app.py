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
from typing import Any, cast

import msgspec

from pronk._version import __version__
from pronk.serve import spec
from pronk.serve.http.bodies import (
    Refused,
    Rollback,
    not_json,
    work_of,
    works_of_lines,
)
from pronk.serve.http.exchange import (
    JSON,
    NDJSON,
    ClientGone,
    Receive,
    Scope,
    Send,
    decompressed,
    encode,
    header,
    read_body,
    send_bytes,
    send_json,
)
from pronk.serve.http.monitoring import POLICY, Metrics, Page, describe, page_routes
from pronk.serve.http.openapi import Docs
from pronk.serve.online import PIECE, OnlineModel
from pronk.serve.rows import response
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError
from pronk.serve.tokens import Tokens
from pronk.serve.worker import Work, resolve

# -- calls -----------------------------------------------------------------------------------------

EXTENSIONS = ["learning"]
INTERNAL = "internal error; see the log of the server"
_spec_decoder = msgspec.json.Decoder(spec.Spec)

#: Timeout in seconds for the body of a model file.
FILE_SECONDS = 600.0
#: Bodies of more bytes are decoded in another thread, so that other calls do not wait for them.
SHORT = 20_000
#: Bodies that are decoded at once: all these threads and the event loop share one interpreter.
DECODERS = 2


_rollback_decoder = msgspec.json.Decoder(Rollback)


class Calls:
    """Handle the calls of one service; each method is an ASGI handler.

    The docstring of a handler is its summary in the documentation (`openapi`).
    """

    def __init__(
        self, service: Service, most_bytes: int, most_model_bytes: int, seconds: float
    ) -> None:
        self.service = service
        self.most_bytes, self.most_model_bytes = most_bytes, most_model_bytes
        self.seconds = seconds
        self._creating = asyncio.Lock()
        self._decoding = asyncio.Semaphore(DECODERS)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        body = await read_body(scope, receive, self.most_bytes, self.seconds)
        encoding = header(scope, b"content-encoding")
        if not encoding:
            return body
        return cast(
            bytes, await self._aside(SHORT + 1, decompressed, body, encoding, self.most_bytes)
        )

    def _model(self, scope: Scope, name: str) -> OnlineModel:
        """Return a model, in the version of the path if it has one: only the last is served."""
        online = self.service.model(name)
        _check_version(scope, online.version)
        return online

    # -- infer and learn ---------------------------------------------------------------------------

    async def infer(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Predict; with an id, store rows until their labels arrive."""
        await self._ask(scope, receive, send, name, learn=False)

    async def learn(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Predict, then learn; or learn the labels of an earlier id."""
        await self._ask(scope, receive, send, name, learn=True)

    async def _ask(
        self, scope: Scope, receive: Receive, send: Send, name: str, learn: bool
    ) -> None:
        online = self._model(scope, name)
        body = await self._body(scope, receive)
        length = header(scope, b"inference-header-content-length")
        if not length and header(scope, b"content-type").startswith(NDJSON):
            await self._answer_lines(send, online, body, learn)
            return
        work = await self._aside(len(body), work_of, online, body, learn, length)
        del body
        answer = await self._submit(work)
        _check_version(scope, answer.version)
        encoded = await self._aside(SHORT * work.count // PIECE, _encoded, work, answer)
        await send_bytes(send, 200, encoded, JSON)

    async def _answer_lines(
        self, send: Send, online: OnlineModel, body: bytes, learn: bool
    ) -> None:
        """Answer an NDJSON body, a piece of its lines at a time, so that other requests come in."""
        todo = await self._aside(len(body), works_of_lines, online, body, learn)
        del body
        found = []
        for start in range(0, len(todo), PIECE):
            futures = [
                self._submit(one) if isinstance(one, Work) else one
                for one in todo[start : start + PIECE]
            ]
            for place, future in enumerate(futures, start):
                found.append(await self._line(todo[place], future))
                todo[place] = None
        await send_bytes(send, 200, b"".join(found), NDJSON)

    async def _line(self, work: Work | Refused | Exception, future: Any) -> bytes:
        """Return the answer to one line; a failure does not affect the other lines."""
        found: dict[str, Any] = {}
        try:
            if isinstance(work, Exception):
                raise work
            if isinstance(work, Work):
                if work.id is not None:
                    found["id"] = work.id
                return _encoded(work, await future) + b"\n"
            status, text = work
        except HTTPError as error:
            status, text = error.status, str(error)
        except Exception as error:
            self.service.log("failed", path="a line of NDJSON", reason=repr(error)[:300])
            status, text = 500, INTERNAL
        return encode({**found, "error": text, "status": status}) + b"\n"

    async def _aside(self, size: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, in another thread if its argument or result is large."""
        if size <= SHORT:
            return call(*arguments)
        async with self._decoding:
            return await asyncio.to_thread(call, *arguments)

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
        """Create a model."""
        spec.check_name(name)
        if header(scope, b"content-type").startswith(b"application/octet-stream"):
            hint = "start the server with a larger --max-model"
            data = await read_body(scope, receive, self.most_model_bytes, FILE_SECONDS, hint)
            encoding = header(scope, b"content-encoding")
            data = await asyncio.to_thread(decompressed, data, encoding, self.most_model_bytes)
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
        """List all models."""
        found = [describe(online) for online in self.service.models.values()]
        await send_json(send, {"models": found})

    async def model(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Describe a model: rows, metrics, size and certificate."""
        online = self._model(scope, name)
        # In a thread: it waits for the model's lock, and the certificate is computed.
        found = await asyncio.to_thread(describe, online, long=True)
        await send_json(send, found)

    async def model_ready(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Tell whether a model is ready."""
        online = self._model(scope, name)
        error = online.refusal
        status, headers = (200, {}) if error is None else (error.status, error.headers)
        await send_json(send, {"name": name, "ready": error is None}, status, headers)

    async def remove(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Remove a model and all its data."""
        await self._schedule(self.service.remove, name)
        await send_json(send, {"removed": name})

    async def snapshot(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Keep a snapshot of a model."""
        version = await self._schedule(self.service.snapshot, name)
        await send_json(send, {"model_name": name, "model_version": str(version)})

    async def rollback(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Restore an earlier version; without a body, that of the last requested snapshot."""
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
        """Return name, version and extensions of the server."""
        await send_json(send, {"name": "pronk", "version": __version__, "extensions": EXTENSIONS})

    async def live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer while the process runs."""
        await send_json(send, {"live": True})

    async def ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell whether the server is ready."""
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


def _encoded(work: Work, answer: Any) -> bytes:
    model = work.model
    return encode(response(model.name, work.id, answer, model.spec, work.outputs))


def _check_version(scope: Scope, version: int) -> None:
    given = scope.get("version", str(version))
    if given != str(version):
        raise HTTPError(
            404, f"version {given[:30]!r} is not served, the last one is {version}; leave out "
            "/versions/.. for the last one",
        )  # fmt: skip


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

        docs = Docs(POLICY, self.fixed, self.of_model)
        self.fixed |= {
            "/docs": {"GET": (docs.docs, None)},
            "/openapi.json": {"GET": (docs.openapi, None)},
        }

        #: Calls of a version of a model: path after the version.
        self.of_version: dict[str, dict[str, tuple[Handler, str | None]]] = {
            "infer": self.of_model["infer"],
            "ready": self.of_model["ready"],
            "": {"GET": self.of_model[""]["GET"]},
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
                await send_json(watched, {"error": INTERNAL}, 500)
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
            if call.startswith("versions/"):
                _, scope["version"], *rest = call.split("/", 2)
                methods = self.of_version.get("".join(rest))
        found = None if methods is None else methods.get("GET" if method == "HEAD" else method)
        scope["call"] = found and found[0].__name__.strip("_")
        scope["model"] = name if name in self.service.models else None
        needed = "" if found is None else found[1]
        if needed is not None:
            self._authorise(scope, needed)
            if not self.service.opened:
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
