"""The ASGI application: routing, authorisation, errors.

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

from pronk.serve.errors import HTTPError
from pronk.serve.http.calls import Calls
from pronk.serve.http.exchange import (
    ClientGone,
    Receive,
    Scope,
    Send,
    header,
    send_bytes,
    send_json,
)
from pronk.serve.http.monitoring import POLICY, Metrics, Page
from pronk.serve.http.monitoring import calls as page_calls
from pronk.serve.http.openapi import Docs
from pronk.serve.service import Service
from pronk.serve.tokens import Tokens
from pronk.serve.worker import resolve

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
        self.fixed |= page_calls(Page(service, self.metrics, lambda: self.stopping))
        docs = Docs(POLICY)
        self.fixed |= {
            "/docs": {"GET": (docs.docs, None)},
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
        self.metrics.count(call, status, seconds)
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
