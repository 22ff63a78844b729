"""Random requests to a server, valid, nearly valid and broken, and the outcomes that are allowed.

No answer is a 5xx, no line of an NDJSON answer has the status 500, every answer comes in time and
is JSON, and valid requests to all models are answered as before.
"""

from __future__ import annotations

import gzip
import http.client
import json
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

#: Seconds after which a request counts as one without an answer.
PATIENCE = 60.0
_SMALL = {"algorithm": "pkawv-nystrom", "parameters": {"history": "projected", "budget": 10}}
_MIXED: list[Any] = [
    "x",
    {"name": "on", "kind": "boolean"},
    {"name": "city", "kind": "category"},
    {"name": "at", "kind": "time"},
    {"name": "day", "kind": "date"},
    {"name": "clock", "kind": "clock"},
]
MODELS: dict[str, dict[str, Any]] = {
    "fuzz-numbers": {"columns": ["a", "b"], "parameters": {"budget": 10}},
    "fuzz-classes": {"columns": 2, "task": "classification", "parameters": {"budget": 10}},
    "fuzz-mixed": {"columns": _MIXED, "missing": "mean", **_SMALL},
    "fuzz-keyed": {"columns": ["x"], "key": "k", **_SMALL},
    "fuzz-keyed-mixed": {"columns": _MIXED, "key": "k", **_SMALL, "task": "classification"},
}
_NUMBERS = [0, 1, -1, 0.5, -0.0, 1e-320, 1e150, 1e151, 1e308, 2**53, 2**63, 2**64, -(2**63) - 1,
            10**30, int("9" * 400), int("9" * 4000)]  # fmt: skip
_TEXTS = ["", " ", "a", "NaN", "null", "nan", "1", "1e5", "true", "2024-01-01", "10:30", "\0",
          "\ud800", "é", "e\u0301", "\U0001f600", "x" * 300, "[" * 50, "9999-12-31T23:59:59",
          "0000-00-00", "-1", "$ref", "__proto__"]  # fmt: skip
_KEYS = ["id", "row", "rows", "label", "labels", "inputs", "outputs", "parameters", "name", "shape",
         "datatype", "data", "binary_data_size", "x", "k", "a", "b", "on", "city", ""]  # fmt: skip
_TYPES = ["FP64", "FP32", "FP16", "INT64", "INT8", "UINT64", "BOOL", "BYTES", "WHAT", ""]
_FORMS = {"FP64": "<f8", "FP32": "<f4", "FP16": "<f2", "INT64": "<i8", "INT8": "<i1",
          "UINT64": "<u8", "BOOL": "?"}  # fmt: skip
_CONTENT = ["application/json", "application/x-ndjson", "application/octet-stream", "text/plain",
            "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "\xff",
            "application/x-ndjson; charset=utf-16"]  # fmt: skip

Headers = dict[str, str]


class Request:
    """Method, path, body and headers of a request."""

    def __init__(self, path: str, body: bytes, headers: Headers, method: str = "POST") -> None:
        self.method, self.path, self.body, self.headers = method, path, body, headers

    def __repr__(self) -> str:
        body = self.body[:300] + (b".." if len(self.body) > 300 else b"")
        return f"{self.method} {self.path} {self.headers} {len(self.body)} bytes: {body!r}"


class Maker:
    """Make random requests."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    # -- values ------------------------------------------------------------------------------------

    def value(self, depth: int = 0) -> Any:
        """Return any JSON value."""
        kind = int(self.rng.integers(9 if depth < 4 else 6))
        if kind < 2:
            return self.pick(_NUMBERS)
        if kind < 4:
            return self.pick(_TEXTS)
        if kind < 6:
            return self.pick([None, True, False, 0.25, 3])
        count = int(self.rng.integers(4))
        if kind == 6:
            return {self.pick(_KEYS + _TEXTS): self.value(depth + 1) for _ in range(count)}
        return [self.value(depth + 1) for _ in range(count)]

    def cell(self, kind: str) -> Any:
        """Return a valid value of a column, rarely another one."""
        if self.chance(0.03):
            return self.value(3)
        return {
            "number": lambda: round(float(self.rng.normal()), 3),
            "boolean": lambda: self.pick([True, False, 0, 1]),
            "category": lambda: self.pick(["Rome", "Oslo", "é", 5, True]),
            "time": lambda: self.pick(["2024-01-01T10:00", "2024-05-01 11:30:05+02:00", 1.7e9]),
            "date": lambda: self.pick(["2024-01-01", "1999-12-31"]),
            "clock": lambda: self.pick(["10:30", "23:59:59"]),
            "key": lambda: self.pick(["a", "b", 1, 2**63]),
        }[kind]()

    def columns(self, model: str) -> list[tuple[str, str]]:
        """Return names and kinds of the columns of a model, its key first."""
        spec = MODELS[model]
        given = spec["columns"]
        if isinstance(given, int):
            given = [f"x{i}" for i in range(given)]
        found = [(c, "number") if isinstance(c, str) else (c["name"], c["kind"]) for c in given]
        return [("k", "key"), *found] if "key" in spec else found

    def row(self, model: str, valid: bool = False) -> Any:
        columns = self.columns(model)
        while True:
            row: Any = {name: self.cell(kind) for name, kind in columns}
            if not valid or not self._odd(row):
                break
        return row if self.chance(0.5) else list(row.values())

    def _odd(self, row: dict[str, Any]) -> bool:
        return any(
            value is None
            or isinstance(value, list | dict)
            or (isinstance(value, float) and abs(value) > 1e10)
            or value in ("", "\0", "NaN", "null", "nan")
            for value in row.values()
        )

    def label(self, model: str) -> Any:
        if self.chance(0.03):
            return self.value(3)
        if MODELS[model].get("task") == "classification":
            return self.pick(["up", "down"])
        return round(float(self.rng.normal()), 3)

    # -- bodies ------------------------------------------------------------------------------------

    def body(self, model: str, learn: bool) -> Any:
        """Return a nearly valid body: rows or tensors, and often one change."""
        count = int(self.rng.integers(1, 4))
        body: dict[str, Any] = {}
        if self.chance(0.3):
            body["inputs"] = self.tensors(model, count)
        elif count == 1:
            body["row"] = self.row(model)
        else:
            body["rows"] = [self.row(model) for _ in range(count)]
        if learn:
            labels = [self.label(model) for _ in range(count)]
            body |= {"label": labels[0]} if count == 1 else {"labels": labels}
        if self.chance(0.2):
            body["id"] = self.pick(["1", "2", str(int(self.rng.integers(500)))])
        if self.chance(0.1):
            names = ["prediction", "lower", "probability", "what"]
            body["outputs"] = [{"name": self.pick(names)} for _ in range(count)]
        if self.chance(0.35):
            body[self.pick(_KEYS)] = self.value()
        if self.chance(0.1):
            body.pop(self.pick(list(body)), None)
        return body

    def tensors(self, model: str, count: int) -> list[Any]:
        """Return one tensor per column, or one of all columns."""
        columns = self.columns(model)
        if self.chance(0.4):
            data = [[self.cell(kind) for _, kind in columns] for _ in range(count)]
            given = [{"name": "rows", "datatype": "FP64", "shape": [count, len(columns)],
                      "data": data}]  # fmt: skip
        else:
            types = {"number": "FP64", "boolean": "BOOL"}
            given = [
                {"name": name, "datatype": types.get(kind, "BYTES"), "shape": [count],
                 "data": [self.cell(kind) for _ in range(count)]}
                for name, kind in columns
            ]  # fmt: skip
        if self.chance(0.3):
            self.pick(given)[self.pick(["name", "datatype", "shape", "data"])] = self.value(2)
        if self.chance(0.2):
            self.pick(given)["datatype"] = self.pick(_TYPES)
        return given

    def binary(self, model: str, learn: bool) -> tuple[bytes, Headers]:
        """Return a body with binary tensors, and its header."""
        count = int(self.rng.integers(1, 4))
        columns = self.columns(model)
        if learn:
            columns = [*columns, ("label", "label")]
        inputs, data = [], b""
        for name, kind in columns:
            datatype = {"number": "FP64", "boolean": "BOOL", "label": "FP64"}.get(kind, "BYTES")
            if kind == "label" and MODELS[model].get("task") == "classification":
                datatype = "BYTES"
            datatype = self.pick(_TYPES) if self.chance(0.1) else datatype
            values = [self.label(model) if kind == "label" else self.cell(kind)
                      for _ in range(count)]  # fmt: skip
            raw = self.raw(datatype, values)
            size: Any = len(raw) if self.chance(0.95) else self.value(3)
            shape: Any = [count] if self.chance(0.95) else self.value(2)
            inputs.append({"name": name, "datatype": datatype, "shape": shape,
                           "parameters": {"binary_data_size": size}})  # fmt: skip
            data += raw
        text = dumps({"inputs": inputs})
        length = str(len(text)) if self.chance(0.95) else str(self.pick(_NUMBERS))
        return text + data, {"Inference-Header-Content-Length": length[:300]}

    def raw(self, datatype: str, values: list[Any]) -> bytes:
        if datatype in _FORMS:
            with np.errstate(all="ignore"):
                if self.chance(0.1):
                    return self.rng.bytes(len(values) * np.dtype(_FORMS[datatype]).itemsize)
                return self.rng.normal(size=len(values)).astype(_FORMS[datatype]).tobytes()
        parts = [str(value).encode("utf-8", "replace") for value in values]
        if self.chance(0.1):
            parts[0] = self.rng.bytes(5)
        found = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
        return found[: int(self.rng.integers(len(found) + 1))] if self.chance(0.1) else found

    def deep(self) -> bytes:
        """Return JSON that is nested deeply."""
        depth = int(self.pick([50, 900, 1100, 5_000, 100_000]))
        left, right = self.pick([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"row":', b"}]")])
        middle = left * depth + b"1" + right * (depth if self.chance(0.7) else depth - 1)
        return bytes(self.pick([b"%s", b'{"row": %s}', b'{"rows": [%s]}', b'{"parameters": %s}',
                                b'{"row": [1, 2], "label": %s}', b'{"inputs": [{"data": %s}]}',
                                b'{"id": %s}'])) % middle  # fmt: skip

    def damaged(self, body: bytes) -> bytes:
        """Flip, cut or insert some bytes."""
        found = bytearray(body)
        for _ in range(int(self.rng.integers(1, 4))):
            place = int(self.rng.integers(len(found) + 1))
            kind = int(self.rng.integers(3))
            if kind == 0:
                found[place : place + 1] = self.rng.bytes(1)
            elif kind == 1:
                del found[place:]
            else:
                found[place:place] = self.pick([b"\0", b"\n", b'"', b"[", b"NaN", b"\xff", b"\\u"])
        return bytes(found)

    # -- requests ----------------------------------------------------------------------------------

    def request(self) -> Request:
        """Return any request."""
        model = self.pick(list(MODELS))
        learn = self.chance(0.5)
        path = f"/v2/models/{model}/{'learn' if learn else 'infer'}"
        if self.chance(0.02):
            path = f"/v2/models/{model}/versions/{self.pick(['1', 'x', '9' * 400, ''])}/infer"
        if self.chance(0.03):
            calls = [f"/v2/models/{model}/rollback", f"/v2/models/{model}/snapshot", "/v2/models/"]
            return Request(self.pick(calls), dumps(self.value()), {})
        if self.chance(0.02):
            spec = dict(self.pick(list(MODELS.values())))
            spec[self.pick(["columns", "task", "parameters", "key", "scale"])] = self.value()
            return Request("/v2/models/fuzz-new", dumps(spec), {}, "PUT")
        headers: Headers = {}
        kind = int(self.rng.integers(10))
        if kind < 3:
            body = dumps(self.body(model, learn))
        elif kind < 5:
            lines = [dumps(self.body(model, learn)) for _ in range(int(self.rng.integers(1, 8)))]
            lines += [dumps(self.value())] if self.chance(0.3) else []
            body = bytes(self.pick([b"\n", b"\r\n", b"\n\n"])).join(lines)
            headers["Content-Type"] = "application/x-ndjson"
        elif kind < 8:
            body, headers = self.binary(model, learn)
        elif kind == 8:
            body = dumps(self.value())
        else:
            body = self.deep()
        if self.chance(0.15):
            body = self.damaged(body)
        if self.chance(0.1):
            body, headers["Content-Encoding"] = self.compressed(body)
        if self.chance(0.1):
            headers["Content-Type"] = self.pick(_CONTENT)
        return Request(path, body, headers)

    def compressed(self, body: bytes) -> tuple[bytes, str]:
        encoding = self.pick(["gzip", "deflate", "gzip", "br", "gzip, gzip", ""])
        body = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
        if self.chance(0.3):
            body = gzip.compress(b" " * 20_000_000)  # larger than any limit of the body
        return (self.damaged(body) if self.chance(0.5) else body), encoding

    def good(self, model: str, learn: bool) -> Request:
        """Return a valid request."""
        body: dict[str, Any] = {"row": {n: _PLAIN[kind] for n, kind in self.columns(model)}}
        if learn:
            body["label"] = 0.5 if MODELS[model].get("task") != "classification" else "up"
        return Request(f"/v2/models/{model}/{'learn' if learn else 'infer'}", dumps(body), {})


_PLAIN = {"number": 0.5, "boolean": True, "category": "Rome", "time": "2024-01-01T10:00",
          "date": "2024-01-01", "clock": "10:30", "key": "a"}  # fmt: skip


def dumps(value: Any) -> bytes:
    """Return JSON; NaN and lone surrogates, which JSON does not have, are possible."""
    return json.dumps(value).encode()


class Fuzz:
    """Send requests to a server of this machine, and count the outcomes."""

    def __init__(self, port: int, token: str, seed: int) -> None:
        self.port, self.token = port, token
        self.maker = Maker(np.random.default_rng(seed))
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._connection: http.client.HTTPConnection | None = None

    def prepare(self) -> None:
        """Create the models and let each learn a row."""
        for name, spec in MODELS.items():
            status, text = self.send(Request(f"/v2/models/{name}", dumps(spec), {}, "PUT"))
            assert status in (200, 201), text
        self.check_models()

    def run(self, count: int, alive: Callable[[], bool] = lambda: True) -> None:
        """Send random requests; check after each hundred that valid ones are answered."""
        for number in range(count):
            self.one(self.maker.request())
            if number % 100 == 99:
                self.check_models()
            if not alive():
                self.wrong.append(f"the server ended after {number + 1} requests")
                return
        self.check_models()

    def one(self, request: Request) -> None:
        """Send a request, and judge its answer."""
        try:
            status, text = self.send(request)
        except Exception as error:
            self._note(f"no answer ({type(error).__name__})", request)
            return
        self.counts[str(status)] += 1
        try:
            lines = [json.loads(line) for line in text.splitlines()]
        except ValueError:
            self._note(f"{status}, not JSON: {text[:100]!r}", request)
            return
        if status >= 500 or any(isinstance(x, dict) and x.get("status", 0) >= 500 for x in lines):
            self._note(f"{status}: {text[:200]!r}", request)

    def _note(self, what: str, request: Request) -> None:
        self.wrong.append(f"{what}: {request}")

    def check_models(self) -> None:
        """Check that all models answer valid requests."""
        for model in MODELS:
            for learn in (True, False):
                request = self.maker.good(model, learn)
                try:
                    status, text = self.send(request)
                except Exception as error:
                    self._note(f"a valid request has no answer ({error!r})", request)
                    continue
                if status != 200:
                    self._note(f"a valid request is refused: {status} {text[:200]!r}", request)

    def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request over a kept connection; return status and body."""
        headers = {"Authorization": f"Bearer {self.token}", **request.headers}
        connection = self._connection
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            self._connection = connection
        try:
            connection.request(request.method, request.path, request.body, headers)
            response = connection.getresponse()
            found = response.status, response.read()
        except BaseException:
            self.close()
            raise
        if response.will_close:
            self.close()
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
