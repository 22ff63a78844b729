"""A client of `pronk serve` whose retries never learn a row twice.

It needs only NumPy and the standard library. Every call that learns has an id (a random one if none
is given). If the connection breaks, or the server is busy or restarts, the call is sent again with
the same id, and the server returns the stored answer if it has already learned the rows.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self, cast
from urllib.parse import quote, urlsplit

import numpy as np

#: Status codes after which a call is retried: full queue, full disk, stopping server, proxy errors.
RETRIED = (429, 502, 503, 504, 507)


class ServerError(Exception):
    """Raised if the server answers with an error; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """Call a running server.

    Parameters
    ----------
    url : the server's address, as ``http://127.0.0.1:8765``
    token : an access token, created by ``pronk serve token``
    timeout : seconds per attempt
    retries : most retries per call, with growing pauses
    context : an `ssl.SSLContext`, for https with a self-signed certificate

    Examples
    --------
    ::

        client = Client("http://127.0.0.1:8765", token)
        client.create("prices", columns=["size", "age"])
        client.learn("prices", [[80.0, 12.0]], [210.0])
        client.infer("prices", [{"size": 70.0, "age": 3.0}], id="offer-17")["prediction"]
        client.label("prices", "offer-17", [190.0])
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        retries: int = 8,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must look like http://127.0.0.1:8765, got {url!r}")
        place: dict[str, Any] = {"host": parts.hostname, "port": parts.port, "timeout": timeout}
        self._connect = partial(http.client.HTTPConnection, **place)
        if parts.scheme == "https":
            self._connect = partial(http.client.HTTPSConnection, **place, context=context)
        self._base = parts.path.rstrip("/")
        self._token, self._retries = token, retries
        self._local = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    # -- rows --------------------------------------------------------------------------------------

    def infer(self, model: str, rows: Any, id: str | None = None) -> dict[str, Any]:
        """Predict rows (lists in the order of the columns, or dicts).

        Returns ``prediction`` and, if the model has them, ``probability`` with ``classes``, or
        ``lower``, ``upper`` and ``quantiles``; and the ``version`` of the model. With an ``id`` the
        server stores the rows until `label` sends their labels.
        """
        return self._rows("infer", model, {} if id is None else {"id": id}, rows)

    def learn(self, model: str, rows: Any, labels: Any, id: str | None = None) -> dict[str, Any]:
        """Predict rows, then learn their labels; retries do not learn them again."""
        body = {"id": id or uuid.uuid4().hex, "labels": _listed(labels)}
        return self._rows("learn", model, body, rows)

    def _rows(self, call: str, model: str, body: dict[str, Any], rows: Any) -> dict[str, Any]:
        """Send rows, arrays of numbers in binary and everything else as JSON."""
        headers = {}
        if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "biuf":
            values = np.ascontiguousarray(rows, dtype="<f8").tobytes()
            tensor = {
                "name": "rows", "shape": list(rows.shape), "datatype": "FP64",
                "parameters": {"binary_data_size": len(values)},
            }  # fmt: skip
            text = _encoded({**body, "inputs": [tensor]})
            headers["Inference-Header-Content-Length"] = str(len(text))
            data = text + values
        else:
            data = _encoded({**body, "rows": _listed(rows)})
        return _outputs(self._call("POST", self._path(model, call), data, headers))

    def label(self, model: str, id: str, labels: Any) -> dict[str, Any]:
        """Learn the labels of rows that `infer` predicted with this id: a list, or one label."""
        several = isinstance(labels, Sequence | np.ndarray) and not isinstance(labels, str)
        body = {"id": id, "labels": _listed(labels if several else [labels])}
        return _outputs(self._call("POST", self._path(model, "learn"), body))

    # -- models ------------------------------------------------------------------------------------

    def create(self, model: str, columns: Any, task: str = "regression", **spec: Any) -> Any:
        """Create a model, unless it exists with the same specification.

        ``spec`` are other entries of the body of ``PUT /v2/models/{model}``.
        """
        return self._call("PUT", self._path(model), {"columns": columns, "task": task, **spec})

    def models(self) -> list[dict[str, Any]]:
        """List all models."""
        return cast(list[dict[str, Any]], self._call("GET", "/v2/models")["models"])

    def model(self, model: str) -> dict[str, Any]:
        """Describe a model: specification, rows and metrics so far, size, certificate."""
        return cast(dict[str, Any], self._call("GET", self._path(model)))

    def snapshot(self, model: str) -> int:
        """Save a snapshot of the model that is kept; return its version."""
        return int(self._call("POST", self._path(model, "snapshot"))["model_version"])

    def rollback(self, model: str, version: int | None = None) -> int:
        """Restore a version, by default that of the last requested snapshot; return the version."""
        body = None if version is None else {"version": version}
        return int(self._call("POST", self._path(model, "rollback"), body)["model_version"])

    def remove(self, model: str) -> None:
        """Remove a model, its rows and its snapshots."""
        self._call("DELETE", self._path(model))

    def ready(self) -> bool:
        """Return whether the server is ready."""
        try:
            return self._once("GET", "/v2/health/ready", None)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    # -- one call ----------------------------------------------------------------------------------

    def _path(self, model: str, call: str = "") -> str:
        return f"/v2/models/{quote(model, safe='')}" + (f"/{call}" if call else "")

    def _call(
        self, method: str, path: str, body: Any = None, more: dict[str, str] | None = None
    ) -> Any:
        data = body if isinstance(body, bytes | None) else _encoded(body)
        for attempt in range(self._retries):
            asked = None
            with suppress(OSError, http.client.HTTPException):
                status, asked, text = self._once(method, path, data, more)
                if status not in RETRIED:
                    break
            _pause(attempt, asked)
        else:
            status, _, text = self._once(method, path, data, more)
        found = json.loads(text) if text else {}
        if status >= 400:
            raise ServerError(status, str(found.get("error", "")))
        return found

    def _once(
        self, method: str, path: str, data: bytes | None, more: dict[str, str] | None = None
    ) -> tuple[int, str | None, bytes]:
        """Send a request; return the status, the header Retry-After and the body."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request(method, self._base + path, data, headers | (more or {}))
            response = connection.getresponse()
            return response.status, response.getheader("Retry-After"), response.read()
        except BaseException:
            self.close()  # a connection cannot be reused after an incomplete exchange
            raise


def _pause(attempt: int, asked: str | None) -> None:
    """Wait with a growing, random pause, so that clients do not retry all at once."""
    pause = min(0.1 * 2.0**attempt, 5.0)
    if asked is not None and asked.isdigit():
        pause = max(pause, min(float(asked), 30.0))
    time.sleep(pause * random.uniform(0.5, 1.0))


def _listed(values: Any) -> Any:
    """Convert arrays to lists, and frames and tables to lists of dicts."""
    if hasattr(values, "collect") and hasattr(values, "collect_schema"):  # Polars LazyFrame
        values = values.collect()
    for method in ("to_dicts", "to_pylist"):  # Polars DataFrame, Arrow table
        if hasattr(values, method):
            return getattr(values, method)()
    if hasattr(values, "to_dict") and hasattr(values, "columns"):  # pandas DataFrame
        return values.to_dict("records")
    for method in ("tolist", "to_list"):
        if hasattr(values, method):
            return getattr(values, method)()
    return [row.tolist() if hasattr(row, "tolist") else row for row in values]


def _encoded(body: Any) -> bytes:
    """Encode as JSON, missing values as null and times in ISO format."""
    try:
        return json.dumps(body, allow_nan=False, default=_plain).encode()
    except ValueError:
        return json.dumps(_without_nan(body), allow_nan=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not support."""
    if hasattr(value, "isoformat"):
        text = value.isoformat()
        return None if text == "NaT" else text
    if hasattr(value, "item"):  # NumPy scalar
        return value.item()
    if type(value).__name__ == "NAType":  # pandas.NA
        return None
    raise TypeError(f"rows and labels cannot contain {type(value).__name__}")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value


def _outputs(found: dict[str, Any]) -> dict[str, Any]:
    """Convert an answer of the protocol to lists by name."""
    result: dict[str, Any] = {"version": int(found["model_version"])}
    for output in found["outputs"]:
        data = output["data"]
        if len(output["shape"]) == 2:
            width = output["shape"][1]
            data = [data[i : i + width] for i in range(0, len(data), width)]
        result[output["name"]] = data
        if "classes" in output.get("parameters", {}):
            result["classes"] = output["parameters"]["classes"]
    return result
