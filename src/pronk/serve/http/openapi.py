"""Documentation of the calls: OpenAPI at /openapi.json, and a page for readers at /docs.

Both are made from the table of routes, the docstrings of the handlers and the types of the bodies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment

from pronk._version import __version__
from pronk.serve.http.bodies import InferRequest, InputTensor, LearnRequest, Rollback
from pronk.serve.rows import Response
from pronk.serve.spec import NAME, Spec

#: Types of the bodies by call.
BODIES = {
    "create": Spec,
    "infer": InferRequest,
    "learn": LearnRequest,
    "rollback": Rollback,
}
#: Calls whose bodies may also be lines of NDJSON.
LINES = ("infer", "learn")
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
    "description": "what is wrong, with row and column",
}
#: Method -> handler and scope; scope None needs no token.
Methods = Mapping[str, tuple[Callable[..., Any], str | None]]


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


_REFUSED = {
    code: {"description": text, **_json({"$ref": "#/components/schemas/Error"})}
    for code, text in (
        ("400", "the body is not JSON"),
        ("401", "the token is missing or unknown"),
        ("403", "the token does not have the scope"),
        ("404", "no such model or id"),
        ("405", "the method is not allowed"),
        ("408", "the body was not complete in time"),
        ("409", "the name is taken"),
        ("410", "the answer is no longer stored"),
        ("413", "the body is too large"),
        ("415", "the encoding is unknown"),
        ("422", "the content of the body is invalid"),
        ("429", "too many rows are waiting"),
        ("503", "the model or the server is not available"),
        ("507", "the disk is full; nothing was learned"),
    )
}


def _call(handler: Callable[..., Any], scope: str | None) -> dict[str, Any]:
    """Describe a call by its handler."""
    id, text = handler.__name__, handler.__doc__ or ""
    answer = _json(_schema(Response) if id in LINES else {"type": "object"})
    codes = {"200": "done"}
    if id == "create":
        codes = {"200": "the model exists already", "201": "done"}
    answers = {code: {"description": text, **answer} for code, text in codes.items()}
    found: dict[str, Any] = {"operationId": id, "summary": text.partition("\n")[0].rstrip(".")}
    found["responses"] = answers | _REFUSED
    if scope is None:
        found["security"] = []
    elif scope:
        found["description"] = f"Scope: {scope}."
    if id in BODIES:
        content = _json(_schema(BODIES[id]))["content"]
        if id in LINES:
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


def page(found: dict[str, Any]) -> bytes:
    """Return the page of an OpenAPI document; it loads nothing from other servers."""
    environment = Environment(autoescape=True, trim_blocks=True)
    environment.filters["words"] = _words
    template = (files("pronk.serve") / "page/docs.html").read_text(encoding="utf-8")
    schemas = found["components"]["schemas"]
    text = environment.from_string(template).render(paths=found["paths"], schemas=schemas)
    return text.encode()


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
