"""The calls of the HTTP interface: decode a request, pass it to the service, send the answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pronk._version import __version__
from pronk.serve import spec
from pronk.serve.errors import HTTPError
from pronk.serve.http.exchange import (
    NDJSON,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    send_json,
    send_lines,
    size_of,
)
from pronk.serve.http.tensors import InputTensor, binary_rows, rows_of
from pronk.serve.online import OnlineModel
from pronk.serve.rows import Columns, check_labels, response
from pronk.serve.service import Service
from pronk.serve.status import describe
from pronk.serve.worker import Work

# -- bodies of infer and learn ---------------------------------------------------------------------

#: An id of a request: unique within its model.
Id = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Label = float | int | str | bool


class Decoders:
    """Decode and check the bodies of infer and learn for one model.

    The types of its columns are checked while the JSON is decoded. If that fails, `_explained`
    finds the row and the column in a second, slower pass.
    """

    def __init__(self, columns: Columns, task: str) -> None:
        label: Any = float if task == "regression" else Label
        row: Any = columns.row_type
        body = msgspec.defstruct(
            "Body",
            [
                ("id", Id | None, None),
                ("row", row | UnsetType, UNSET),
                ("rows", list.__class_getitem__(row) | UnsetType, UNSET),
                ("inputs", list[InputTensor] | UnsetType, UNSET),
                ("label", label | UnsetType, UNSET),
                ("labels", list.__class_getitem__(label) | UnsetType, UNSET),
                ("outputs", Any, None),
                ("parameters", Any, None),
            ],
            forbid_unknown_fields=True,
        )
        self.body = msgspec.json.Decoder(body)


def decoders(online: OnlineModel) -> Decoders:
    """Return the decoders of a model, which are built once."""
    found: Decoders | None = getattr(online, "decoders", None)
    if found is None:
        found = Decoders(online.columns, online.spec.task)
        online.decoders = found  # type: ignore[attr-defined]
    return found


def binary_work(online: OnlineModel, body: bytes, length: bytes, learn: bool) -> Work:
    """Decode a body whose first ``length`` bytes are JSON, followed by binary tensors."""
    size = size_of(length)
    if size is None or size > len(body):
        raise HTTPError(
            422, "Inference-Header-Content-Length must be the length of the JSON in bytes"
        )
    try:
        given: Any = decoders(online).body.decode(body[:size])
    except msgspec.ValidationError as error:
        raise HTTPError(422, str(error)[:300]) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body[:size]) from None
    if given.inputs is UNSET or given.row is not UNSET or given.rows is not UNSET:
        raise HTTPError(422, "a binary body must have inputs, without row or rows")
    rows, labels = binary_rows(given.inputs, memoryview(body)[size:], online.columns)
    if labels is not None:
        if given.labels is not UNSET or given.label is not UNSET:
            raise HTTPError(422, "labels are given twice, as a tensor and beside it")
    elif given.labels is not UNSET:
        labels = given.labels
    return _made(online, given.id, rows if len(rows) else None, labels, learn)


def work_of(online: OnlineModel, body: bytes, learn: bool) -> Work:
    """Decode a JSON body."""
    try:
        given = decoders(online).body.decode(body)
    except msgspec.ValidationError as error:
        raise _explained(online, body, str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body) from None
    return _work(online, given, learn)


def works_of_lines(online: OnlineModel, body: bytes, learn: bool) -> list[Work | HTTPError]:
    """Decode each line of a body to work or an error; raise if no line is valid."""
    found: list[Work | HTTPError]
    try:
        bodies = decoders(online).body.decode_lines(body)
        found = [_or_refused(_work, online, given, learn) for given in bodies]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        lines = [line for line in body.split(b"\n") if line.strip()]
        found = [_or_refused(work_of, online, line, learn) for line in lines]
    if not found:
        raise HTTPError(422, "the body has no lines")
    if isinstance(found[0], HTTPError) and not any(isinstance(work, Work) for work in found):
        raise HTTPError(found[0].status, f"line 0: {found[0]}")
    return found


def _or_refused(made: Callable[..., Work], online: OnlineModel, given: Any, learn: bool) -> Any:
    try:
        return made(online, given, learn)
    except HTTPError as error:
        return error


def _work(online: OnlineModel, given: Any, learn: bool) -> Work:
    rows, labels = _content(online.columns, given)
    return _made(online, given.id, rows, labels, learn)


def _made(online: OnlineModel, id: str | None, rows: Any, labels: Any, learn: bool) -> Work:
    if not learn:
        if labels is not None:
            raise HTTPError(422, "labels: infer takes none; POST them to learn")
        if rows is None:
            raise HTTPError(422, "rows, row or inputs must be given")
        return Work(online, id, online.columns.pack(rows), None, len(rows))
    if labels is None:
        raise HTTPError(422, "label or labels must be given")
    if rows is None:
        if id is None:
            raise HTTPError(422, "labels without rows need the id of an earlier prediction")
        packed = check_labels(labels, len(labels), online.spec.task)
        return Work(online, id, None, packed, len(labels))
    kept = online.columns.pack(rows)
    packed = check_labels(labels, len(rows), online.spec.task)
    return Work(online, id, kept, packed, len(rows))


def _content(columns: Columns, given: Any) -> tuple[Sequence[Any] | None, Any]:
    """Return the rows and the labels of a body, from any of their forms."""
    forms = [name for name in ("row", "rows", "inputs") if getattr(given, name) is not UNSET]
    if len(forms) > 1:
        raise HTTPError(422, f"only one of {' and '.join(forms)} may be given")
    if given.label is not UNSET and given.labels is not UNSET:
        raise HTTPError(422, "only one of label and labels may be given")
    labels = None
    if given.label is not UNSET:
        labels = [given.label]
    elif given.labels is not UNSET:
        labels = given.labels
    if not forms:
        return None, labels
    if forms[0] == "row":
        return [given.row], labels
    if forms[0] == "rows":
        return given.rows, labels
    rows, more = rows_of(given.inputs, columns)
    if more is not None and labels is not None:
        raise HTTPError(422, "labels are given twice, as a tensor and beside it")
    if isinstance(rows, list):
        columns.explain(rows)
    if more is None:
        more = labels
    if not len(rows) and more is not None:
        return None, more
    return rows, more


def _explained(online: OnlineModel, body: bytes, message: str) -> HTTPError:
    """Return an error that names the row and the column with a wrong type."""
    try:
        given = json.loads(body)
        if isinstance(given, dict):
            if "rows" in given:
                online.columns.explain(given["rows"])
            if "row" in given:
                online.columns.explain([given["row"]])
            labels = given.get("labels", [given["label"]] if "label" in given else None)
            if isinstance(labels, list):
                check_labels(labels, len(labels), online.spec.task)
    except HTTPError as error:
        return error
    except (ValueError, RecursionError):
        pass
    return HTTPError(422, message[:300])


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
            await send_json(send, describe(self.service, online), 201 if new else 200)
            return
        given = _decode(_spec_decoder, await self._body(scope, receive))
        async with self._creating:  # one compilation at a time
            if name not in self.service.models:
                await asyncio.to_thread(spec.check, given)
            online, new = await self._schedule(self.service.create, name, given)
        await send_json(send, describe(self.service, online), 201 if new else 200)

    async def models(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        found = [describe(service, online) for online in service.models.values()]
        await send_json(send, {"models": found})

    async def model(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        online = self.service.model(name)
        # In a thread: it waits for the model's lock, and the certificate is computed.
        found = await asyncio.to_thread(describe, self.service, online, long=True)
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


_NOT_FINITE = re.compile(rb"[\[:,\s]-?(NaN|Infinity)")


def not_json(error: Exception, body: bytes) -> HTTPError:
    """Return the error for a body that is not JSON."""
    if isinstance(error, RecursionError):
        return HTTPError(400, "the body is nested too deeply")
    hint = "; JSON has no NaN and Infinity, use null for a missing value"
    return HTTPError(
        400, f"the body is not JSON: {error}"[:300] + (hint if _NOT_FINITE.search(body) else "")
    )


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
