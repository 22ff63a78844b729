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
from pronk.serve.http import openapi
from pronk.serve.http.bodies import Refused, Rollback, not_json, work_of, works_of_lines
from pronk.serve.http.exchange import (
    NDJSON,
    Receive,
    Reply,
    Request,
    Scope,
    Send,
    as_json,
    decompressed,
    encode,
)
from pronk.serve.http.monitoring import POLICY, Metrics, Page, describe, page_files
from pronk.serve.online import PIECE, OnlineModel
from pronk.serve.rows import response
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError
from pronk.serve.tokens import Tokens
from pronk.serve.worker import Work, resolve

# -- calls -----------------------------------------------------------------------------------------

INTERNAL = "internal error; see the log of the server"
_spec_decoder = msgspec.json.Decoder(spec.Spec)
_rollback_decoder = msgspec.json.Decoder(Rollback)

#: Timeout in seconds for the body of a model file.
FILE_SECONDS = 600.0
#: Bodies of more bytes are decoded in another thread, so that other calls do not wait for them.
SHORT = 20_000
#: Bodies that are decoded at once: all these threads and the event loop share one interpreter.
DECODERS = 2


class Calls:
    """Handle the calls of one service.

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

    async def _body(self, request: Request) -> bytes:
        body = await request.body(self.most_bytes, self.seconds)
        encoding = request.header(b"content-encoding")
        if encoding:
            body = await self._aside(SHORT + 1, decompressed, body, encoding, self.most_bytes)
        return body

    def _model(self, request: Request) -> OnlineModel:
        """Return a model, in the version of the path if it has one: only the last is served."""
        online = self.service.model(request.model)
        _check_version(request, online.version)
        return online

    # -- infer and learn ---------------------------------------------------------------------------

    async def infer(self, request: Request) -> Reply:
        """Predict; with an id, store rows until their labels arrive."""
        return await self._ask(request, learn=False)

    async def learn(self, request: Request) -> Reply:
        """Predict, then learn; or learn the labels of an earlier id."""
        return await self._ask(request, learn=True)

    async def _ask(self, request: Request, learn: bool) -> Reply:
        online = self._model(request)
        body = await self._body(request)
        length = request.header(b"inference-header-content-length")
        if not length and request.header(b"content-type").startswith(NDJSON):
            return await self._answer_lines(online, body, learn)
        work = await self._aside(len(body), work_of, online, body, learn, length)
        del body
        answer = await self._submit(work)
        _check_version(request, answer.version)
        return Reply(await self._aside(SHORT * work.count // PIECE, _encoded, work, answer))

    async def _answer_lines(self, online: OnlineModel, body: bytes, learn: bool) -> Reply:
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
        return Reply(b"".join(found), kind=NDJSON)

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

    async def _schedule(self, call: Callable[..., Any], name: str, *arguments: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self.service.schedule(name, partial(call, name, *arguments), future)
        return await future

    # -- models ------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Reply:
        """Create a model."""
        name = spec.check_name(request.model)
        create = partial(self._schedule, self.service.create, name)
        if request.header(b"content-type").startswith(b"application/octet-stream"):
            hint = "start the server with a larger --max-model"
            data = await request.body(self.most_model_bytes, FILE_SECONDS, hint)
            encoding = request.header(b"content-encoding")
            data = await asyncio.to_thread(decompressed, data, encoding, self.most_model_bytes)
            online, new = await create(*await asyncio.to_thread(spec.read_upload, data))
        else:
            given = _decode(_spec_decoder, await self._body(request))
            async with self._creating:  # one compilation at a time
                if name not in self.service.models:
                    await asyncio.to_thread(spec.check, given)
                online, new = await create(given)
        return as_json(describe(online), 201 if new else 200)

    async def models(self, request: Request) -> Reply:
        """List all models."""
        return as_json({"models": [describe(one) for one in self.service.models.values()]})

    async def model(self, request: Request) -> Reply:
        """Describe a model: rows, metrics, size and certificate."""
        online = self._model(request)
        # In a thread: it waits for the model's lock, and the certificate is computed.
        return as_json(await asyncio.to_thread(describe, online, long=True))

    async def model_ready(self, request: Request) -> Reply:
        """Tell whether a model is ready."""
        error = self._model(request).refusal
        found = {"name": request.model, "ready": error is None}
        return as_json(found) if error is None else as_json(found, error.status, error.headers)

    async def remove(self, request: Request) -> Reply:
        """Remove a model and all its data."""
        await self._schedule(self.service.remove, request.model)
        return as_json({"removed": request.model})

    async def snapshot(self, request: Request) -> Reply:
        """Keep a snapshot of a model."""
        version = await self._schedule(self.service.snapshot, request.model)
        return as_json({"model_name": request.model, "model_version": str(version)})

    async def rollback(self, request: Request) -> Reply:
        """Restore an earlier version; without a body, that of the last requested snapshot."""
        body = await self._body(request)
        wanted = None  # the last requested snapshot
        if body:
            text = str(_decode(_rollback_decoder, body).version)
            if not (text.isascii() and text.isdigit() and len(text) < 19):
                raise HTTPError(422, "version must be a whole number")
            wanted = int(text)
        version = await self._schedule(self.service.rollback, request.model, wanted)
        return as_json({"model_name": request.model, "model_version": str(version)})

    # -- the server --------------------------------------------------------------------------------

    async def server(self, request: Request) -> Reply:
        """Return name, version and extensions of the server."""
        return as_json({"name": "pronk", "version": __version__, "extensions": ["learning"]})

    async def live(self, request: Request) -> Reply:
        """Answer while the process runs."""
        return as_json({"live": True})

    async def ready(self, request: Request) -> Reply:
        """Tell whether the server is ready."""
        if not self.service.recovered:
            return as_json({"ready": False, "reason": "the server is recovering its models"}, 503)
        failed = self.service.journal.failed is not None or self.service.writes.closed
        return as_json({"ready": not failed}, 503 if failed else 200)


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


def _check_version(request: Request, version: int) -> None:
    if request.version not in (None, str(version)):
        given = str(request.version)[:30]
        raise HTTPError(
            404, f"version {given!r} is not served, the last one is {version}; leave out "
            "/versions/.. for the last one",
        )  # fmt: skip


# -- the application -------------------------------------------------------------------------------

Handler = Callable[[Request], Awaitable[Reply]]
#: Method -> handler and scope; scope None needs no token.
Methods = dict[str, tuple[Handler, str | None]]
_PREFIX = "/v2/models/"


def _always(call: str, reply: Reply) -> Methods:
    """Return the route of a call that always has the same answer and needs no token."""

    async def handler(request: Request) -> Reply:
        return reply

    handler.__name__ = call
    return {"GET": (handler, None)}


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
        self.stopping = False
        self.metrics = Metrics(service)
        self.failure: Exception | None = None  # why the models could not be recovered
        self.on_failure: Callable[[], None] = lambda: None
        self._recovering: threading.Thread | None = None
        calls = Calls(service, most_bytes, most_model_bytes, seconds)
        page = Page(service, self.metrics, lambda: self.stopping)
        #: Calls without a model, by path.
        self.fixed: dict[str, Methods] = {
            "/v2": {"GET": (calls.server, "")},
            "/v2/models": {"GET": (calls.models, "")},
            "/v2/health/live": {"GET": (calls.live, None)},
            "/v2/health/ready": {"GET": (calls.ready, None)},
            "/metrics": {"GET": (self.metrics.metrics, "")},
            "/v2/events": {"GET": (page.events, "")},
        }
        #: Calls of a model, by the path after its name.
        self.of_model: dict[str, Methods] = {
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
        #: Calls of a version of a model, by the path after the version.
        self.of_version: dict[str, Methods] = {
            "infer": self.of_model["infer"],
            "ready": self.of_model["ready"],
            "": {"GET": self.of_model[""]["GET"]},
        }
        described = openapi.describe(self.fixed, self.of_model)
        html = Reply(openapi.page(described), 200, b"text/html; charset=utf-8", POLICY)
        self.fixed |= {
            "/docs": _always("docs", html),
            "/openapi.json": _always("openapi", as_json(described)),
            **{path: _always("page", reply) for path, reply in page_files().items()},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        if scope["type"] != "http":
            return
        began = perf_counter()
        request, status = Request(scope, receive), 0
        try:
            reply = await self._reply(request)
            status = reply.status
            await reply.send(send)
        finally:
            self._finished(request, status, perf_counter() - began)

    async def _reply(self, request: Request) -> Reply:
        try:
            return await self._handler(request)(request)
        except HTTPError as error:
            return as_json({"error": str(error)}, error.status, error.headers)
        except Exception as error:
            self.service.log("failed", path=request.path, reason=repr(error)[:300])
            return as_json({"error": INTERNAL}, 500)

    def _finished(self, request: Request, status: int, seconds: float) -> None:
        """Count a request; log it, without its content, if it failed."""
        model = request.model if request.model in self.service.models else None
        self.metrics.count(request.call, status, seconds, model)
        if status >= 400 and status not in (404, 429):
            self.service.log(
                "request failed",
                call=request.call,
                status=status,
                ms=round(1000 * seconds, 1),
                token=request.token,
            )

    def _handler(self, request: Request) -> Handler:
        """Return the handler of a request that is allowed; set what its path names."""
        path, method = request.path, request.method
        methods = self.fixed.get(path)
        if methods is None and path.startswith(_PREFIX):
            request.model, _, call = path[len(_PREFIX) :].partition("/")
            methods = self.of_model.get(call) if request.model else None
            if call.startswith("versions/"):
                _, request.version, *rest = call.split("/", 2)
                methods = self.of_version.get("".join(rest))
        found = None if methods is None else methods.get("GET" if method == "HEAD" else method)
        if found is not None:
            request.call = found[0].__name__
        needed = "" if found is None else found[1]
        if needed is not None:
            self._authorise(request, needed)
            if not self.service.opened:
                raise HTTPError(503, "the server is recovering its models", {"Retry-After": "1"})
        if methods is None:
            raise HTTPError(404, "unknown path; /docs lists the calls")
        if found is None:
            allowed = ", ".join(methods)
            raise HTTPError(405, f"method not allowed; use {allowed}", {"Allow": allowed})
        return found[0]

    def _authorise(self, request: Request, needed: str) -> None:
        kind, _, text = request.header(b"authorization").decode("latin-1").partition(" ")
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
        request.token = token.id
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
