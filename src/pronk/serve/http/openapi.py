"""Documentation of the calls: OpenAPI at /openapi.json, and a page for readers at /docs.

Both are made from the table of routes, the docstrings of the handlers and the types of the bodies.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pronk._version import __version__
from pronk.serve.http.bodies import InferRequest, InputTensor, LearnRequest, Rollback
from pronk.serve.http.exchange import JSON, Receive, Scope, Send, send_bytes
from pronk.serve.rows import Response
from pronk.serve.spec import NAME, Spec

#: Types of the bodies by call.
BODIES = {
    "create": Spec,
    "infer": InferRequest,
    "learn": LearnRequest,
    "rollback": Rollback,
}
#: Calls whose bodies may also be lines of NDJSON; their answers are of this type.
ANSWERS = {"infer": Response, "learn": Response}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
    "description": "what is wrong, with row and column",
}
#: Method -> handler and scope; scope None needs no token.
Methods = Mapping[str, tuple[Callable[..., Any], str | None]]


def _answers(*codes: tuple[str, str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for code, text, schema in codes:
        found[code] = {"description": text, "content": {"application/json": {"schema": schema}}}
    refused = [
        ("400", "the body is not JSON"), ("401", "the token is missing or unknown"),
        ("403", "the token does not have the scope"), ("404", "no such model or id"),
        ("405", "the method is not allowed"), ("408", "the body was not complete in time"),
        ("409", "the name is taken"), ("410", "the answer is no longer stored"),
        ("413", "the body is too large"),
        ("415", "the encoding is unknown"), ("422", "the content of the body is invalid"),
        ("429", "too many rows are waiting"), ("503", "the model or the server is not available"),
        ("507", "the disk is full; nothing was learned"),
    ]  # fmt: skip
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for code, text in refused:
        found.setdefault(code, {"description": text, "content": error})
    return found


def _call(handler: Callable[..., Any], scope: str | None) -> dict[str, Any]:
    """Describe a call by its handler."""
    id, text = handler.__name__, handler.__doc__ or ""
    answer = _schema(ANSWERS[id]) if id in ANSWERS else {"type": "object"}
    codes = [("200", "the model exists already" if id == "create" else "done", answer)]
    codes += [("201", "done", answer)] if id == "create" else []
    found: dict[str, Any] = {"operationId": id, "summary": text.partition("\n")[0].rstrip(".")}
    found["responses"] = _answers(*codes)
    if scope is None:
        found["security"] = []
    elif scope:
        found["description"] = f"Scope: {scope}."
    if id in BODIES:
        content = {"application/json": {"schema": _schema(BODIES[id])}}
        if id in ANSWERS:
            lines = {"application/x-ndjson": {"schema": {"type": "string"}}}
            content |= lines
            found["responses"]["200"]["content"] |= lines
        # A rollback without a body restores the last requested snapshot.
        found["requestBody"] = {"required": id != "rollback", "content": content}
    return found


def _schema(kind: Any) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def describe(fixed: Mapping[str, Methods], of_model: Mapping[str, Methods]) -> dict[str, Any]:
    """Return the OpenAPI document of the calls of the server and of a model, by path."""
    kinds = [*BODIES.values(), InputTensor, Response]
    _, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    name = {
        "name": "model",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    }
    paths: dict[str, Any] = {
        path: {method.lower(): _call(*call) for method, call in methods.items()}
        for path, methods in fixed.items()
        if path.startswith("/v2") and path != "/v2/events"  # the live page's
    }
    for path, methods in of_model.items():
        calls = {method.lower(): _call(*call) for method, call in methods.items()}
        paths[f"/v2/models/{{model}}/{path}".rstrip("/")] = {**calls, "parameters": [name]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pronk serve",
            "version": __version__,
            "description": "Open Inference Protocol v2, with an extension for learning.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**components, "Error": _ERROR},
        },
    }


class Docs:
    """Serve the documentation as JSON and as a page that loads nothing from other servers."""

    def __init__(
        self, policy: dict[str, str], fixed: Mapping[str, Methods], of_model: Mapping[str, Methods]
    ) -> None:
        found = describe(fixed, of_model)
        self._json = json.dumps(found).encode()
        self._page = _page(found).encode()
        self._policy = policy

    async def openapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_bytes(send, 200, self._json, JSON)

    async def docs(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_bytes(send, 200, self._page, b"text/html; charset=utf-8", self._policy)


def _page(found: dict[str, Any]) -> str:
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<title>pronk serve: calls</title><link rel="icon" href="data:,">',
        '<link rel="stylesheet" href="chart.css">',
        '<link rel="stylesheet" href="page.css"></head><body>',
        '<header><h1>pronk serve</h1><a href="./">live page</a></header>',
        "<p>Open Inference Protocol v2, with an extension for learning. All calls except health"
        " checks need <code>Authorization: Bearer TOKEN</code>. An error is"
        ' <code>{"error": "what is wrong"}</code>.'
        ' Machine-readable: <a href="openapi.json">openapi.json</a>.</p>',
    ]
    for path, calls in found["paths"].items():
        for method, call in calls.items():
            if method != "parameters":
                parts.append(_section(path, method, call, found))
    return "".join([*parts, "</body></html>"])


def _section(path: str, method: str, call: dict[str, Any], whole: dict[str, Any]) -> str:
    text = [
        f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>",
        f"<p>{html.escape(call['summary'])}. {html.escape(call.get('description', ''))}</p>",
    ]
    body = call.get("requestBody")
    if body:
        schema = body["content"]["application/json"]["schema"]
        if "$ref" in schema:
            schema = whole["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        rows = "".join(
            f"<tr><th>{html.escape(key)}</th><td>{html.escape(_words(value))}</td></tr>"
            for key, value in schema["properties"].items()
        )
        text.append(f'<div class="scroll"><table class="left"><tbody>{rows}</tbody></table></div>')
        if "application/x-ndjson" in body["content"]:
            text.append(
                '<p class="dim">Also as <code>application/x-ndjson</code>: one request per line,'
                " one answer per line.</p>"
            )
    return "".join(text)


def _words(schema: dict[str, Any]) -> str:
    """Describe a schema in a few words."""
    if "description" in schema:
        return str(schema["description"])
    if "enum" in schema:
        text = " | ".join(map(str, schema["enum"]))
    elif "anyOf" in schema or "oneOf" in schema:
        text = " or ".join(_words(each) for each in schema.get("anyOf") or schema["oneOf"])
    elif "$ref" in schema:
        text = str(schema["$ref"].rsplit("/", 1)[1])
    elif schema.get("type") == "array":
        text = f"list of: {_words(schema.get('items', {}))}"
    else:
        text = str(schema.get("type", "anything"))
    return f"{text} (default {json.dumps(schema['default'])})" if "default" in schema else text
