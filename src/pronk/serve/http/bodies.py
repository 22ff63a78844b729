"""Bodies of infer and learn: rows and labels as JSON, NDJSON or tensors, decoded and checked.

Tensors are those of the Open Inference Protocol: one for all columns, or one per column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from pronk.columns.values import NUMBER
from pronk.serve.http.exchange import size_of
from pronk.serve.online import PIECE, OnlineModel
from pronk.serve.rows import Columns, check_labels, float_table, floats_of
from pronk.serve.spec import HTTPError
from pronk.serve.worker import Work

# -- tensors ---------------------------------------------------------------------------------------

#: Names of the tensor that holds labels.
LABELS = ("label", "labels")
_NUMBERS = {
    "FP64", "FP32", "FP16", "INT64", "INT32", "INT16", "INT8",
    "UINT64", "UINT32", "UINT16", "UINT8", "BOOL",
}  # fmt: skip


class InputTensor(msgspec.Struct):
    """Input tensor of a request."""

    name: str
    shape: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1, max_length=2)]
    datatype: str
    data: list[Any] = []
    parameters: dict[str, Any] | None = None


_BINARY = {
    "FP64": "<f8", "FP32": "<f4", "FP16": "<f2", "INT64": "<i8", "INT32": "<i4", "INT16": "<i2",
    "INT8": "<i1", "UINT64": "<u8", "UINT32": "<u4", "UINT16": "<u2", "UINT8": "<u1", "BOOL": "?",
}  # fmt: skip


def read_binary(tensors: list[InputTensor], data: memoryview) -> dict[int, NDArray[Any]]:
    """Return the tensors that follow the JSON (the protocol's binary extension), by index.

    Those of text are put into their ``data``.
    """
    found, start = {}, 0
    for place, tensor in enumerate(tensors):
        size = (tensor.parameters or {}).get("binary_data_size")
        if size is None:
            continue
        name = tensor.name[:100]
        if type(size) is not int or not 0 <= size <= len(data) - start:
            raise HTTPError(422, f"inputs: {name!r} extends past the end of the body")
        part = data[start : start + size]
        start += size
        count = math.prod(tensor.shape)
        if tensor.datatype == "BYTES":
            tensor.data = _texts(part, count, name)
            continue
        kind = _BINARY.get(tensor.datatype)
        if kind is None:
            raise HTTPError(422, f"inputs: {name!r} cannot be binary with its datatype")
        if not count or size != count * np.dtype(kind).itemsize:
            raise HTTPError(422, f"inputs: {name!r} has {size} bytes for its shape and datatype")
        found[place] = np.frombuffer(part, dtype=kind).reshape(tensor.shape)
    if start != len(data):
        raise HTTPError(422, f"the body has {len(data) - start} bytes that belong to no tensor")
    return found


def _texts(data: memoryview, count: int, name: str) -> list[Any]:
    """Return texts that follow their lengths, which are 4 bytes each."""
    found: list[Any] = []
    start = 0
    while start < len(data) and len(found) < count:
        end = start + 4 + int.from_bytes(data[start : start + 4], "little")
        if end > len(data):
            raise HTTPError(422, f"inputs: a text of {name!r} extends past its end")
        try:
            found.append(str(data[start + 4 : end], "utf-8"))
        except UnicodeDecodeError:
            raise HTTPError(422, f"inputs: row {len(found)} of {name!r} is not UTF-8") from None
        start = end
    if len(found) < count or start < len(data):
        raise HTTPError(422, f"inputs: {name!r} has not {count} texts, each after its length")
    return found


def binary_rows(tensors: list[InputTensor], data: memoryview, columns: Columns) -> tuple[Any, Any]:
    """Do as `rows_of`; return rows and labels as arrays if they are one binary tensor each."""
    arrays = read_binary(tensors, data)
    rest, rows, labels = [], None, None
    features = sum(not _is_label(tensor, columns) for tensor in tensors)
    for place, tensor in enumerate(tensors):
        values = arrays.get(place)
        if values is None:
            rest.append(tensor)
        elif _is_label(tensor, columns) and values.ndim == 1:
            labels = values
        elif features == 1 and _is_table(tensor, columns):
            rows = np.ascontiguousarray(values, dtype=np.float64)
        else:
            tensor.data = values.ravel().tolist()
            rest.append(tensor)
    more_rows, more_labels = rows_of(rest, columns)
    return more_rows if rows is None else rows, more_labels if labels is None else labels


def _is_label(tensor: InputTensor, columns: Columns) -> bool:
    return tensor.name in LABELS and tensor.name not in columns.places


def _is_table(tensor: InputTensor, columns: Columns) -> bool:
    """Return whether a tensor has all columns of a model whose columns are numbers."""
    return (
        columns.plain
        and columns.key is None
        and tensor.datatype in _NUMBERS
        and tensor.shape[1:] == [len(columns.names)]
    )


def _numbers(tensor: InputTensor) -> NDArray[np.float64] | None:
    """Return a table of floats as an array; None if its values must be checked one by one."""
    nested = bool(tensor.data) and isinstance(tensor.data[0], list)
    found = float_table(tensor.data, tensor.shape[1]) if nested else floats_of(tensor.data)
    fits = found is not None and found.size == tensor.shape[0] * tensor.shape[1] > 0
    return found.reshape(tensor.shape) if found is not None and fits else None


def rows_of(tensors: list[InputTensor], columns: Columns) -> tuple[Any, list[Any] | None]:
    """Return rows in the order of the columns, and the labels or None.

    Rows are an array if they are one tensor of floats, otherwise a list of lists.
    """
    labels = None
    features = []
    names = columns.names if columns.key is None else [columns.key, *columns.names]
    for tensor in tensors:
        if _is_label(tensor, columns):
            labels = [row[0] for row in _rows(tensor, width=1)]
        else:
            features.append(tensor)
    if len(features) == 1 and features[0].name not in names:
        table = _numbers(features[0]) if _is_table(features[0], columns) else None
        if table is not None:
            return table, labels
        return _rows(features[0], len(names)), labels
    if not features:
        return [], labels
    given = {tensor.name: tensor for tensor in features}
    for name in names:
        if name not in given:
            raise HTTPError(422, f"inputs: there is no tensor for the column {name!r}")
    unknown = given.keys() - set(names)
    if unknown or len(given) < len(features):
        name = min(unknown) if unknown else "a column"
        raise HTTPError(422, f"inputs: the tensor {name[:100]!r} is unknown or occurs twice")
    parts = [_rows(given[name], width=1) for name in names]
    for part, name in zip(parts, names, strict=True):
        place = columns.places.get(name)
        if place is not None and columns.kinds[place] == NUMBER and given[name].datatype == "BOOL":
            part[:] = [[float(x) if isinstance(x, bool) else x] for (x,) in part]
    if len({len(part) for part in parts}) > 1:
        raise HTTPError(422, "inputs: the tensors have different numbers of rows")
    return [[part[i][0] for part in parts] for i in range(len(parts[0]))], labels


def _rows(tensor: InputTensor, width: int) -> list[list[Any]]:
    """Return a tensor of shape [rows] or [rows, width], nested or flat, as a list of rows."""
    if tensor.datatype not in _NUMBERS and tensor.datatype != "BYTES":
        raise HTTPError(422, f"inputs: unknown datatype {tensor.datatype[:20]!r}")
    given = tensor.shape[1] if len(tensor.shape) == 2 else 1
    if given != width:
        raise HTTPError(
            422, f"inputs: {tensor.name[:100]!r} has {given} columns, {width} are expected"
        )
    flat: list[Any] = []
    for item in tensor.data:
        if isinstance(item, list):
            flat.extend(item)
        else:
            flat.append(item)
    if len(flat) != tensor.shape[0] * width:
        raise HTTPError(
            422, f"inputs: {tensor.name[:100]!r} has {len(flat)} values for shape {tensor.shape}"
        )
    for value in flat:
        if isinstance(value, list | dict):
            raise HTTPError(422, f"inputs: {tensor.name[:100]!r} is nested too deeply")
    if tensor.datatype == "BOOL" and width == 1:
        return [[value] for value in flat]
    if tensor.datatype in _NUMBERS:
        flat = [int(value) if isinstance(value, bool) else value for value in flat]
    return [flat[i : i + width] for i in range(0, len(flat), width)]


# -- bodies ----------------------------------------------------------------------------------------

#: Most lines of an NDJSON body. Each takes about a kilobyte until all are answered.
MOST_LINES = 20_000
#: Most rows of a request.
MOST_ROWS = 100_000
#: Most lists and objects of a body: an empty one takes 3 bytes of the body and 30 times as much of
#: the server's memory.
MOST_PARTS = 2 * MOST_ROWS + 1_000
#: Most rows of a prediction with an id: the journal keeps about half a kilobyte of each.
MOST_WAITING = PIECE

#: An id of a request: unique within its model.
Id = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="unique within the model; a repeated id returns the stored answer",
    ),
]
Label = float | int | str | bool


class OutputTensor(msgspec.Struct):
    """Output that a request asks for; answers are JSON, whatever its parameters."""

    name: str


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a rollback: the version to restore."""

    version: int | str


def body_type(name: str, row: Any, label: Any = None) -> Any:
    """Return the type of the bodies of infer, or of learn if it has labels of a type."""
    labels: list[Any] = []
    if label is not None:
        labels = [
            ("label", label | UnsetType, UNSET),
            ("labels", list.__class_getitem__(label) | UnsetType, UNSET),
        ]
    return msgspec.defstruct(
        name,
        [
            ("id", Id | None, None),
            ("row", row | UnsetType, UNSET),
            ("rows", list.__class_getitem__(row) | UnsetType, UNSET),
            ("inputs", list[InputTensor] | UnsetType, UNSET),
            *labels,
            ("outputs", list[OutputTensor] | None, None),
            ("parameters", msgspec.Raw | UnsetType, UNSET),
        ],
        forbid_unknown_fields=True,
    )


class Decoders:
    """Decode and check the bodies of infer and learn for one model.

    The types of its columns are checked while the JSON is decoded. If that fails, `_explained`
    finds the row and the column in a second, slower pass.
    """

    def __init__(self, columns: Columns, task: str) -> None:
        label: Any = float if task == "regression" else Label
        body = body_type("Body", columns.row_type, label)
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
    _check_parts(body[:size])
    try:
        given: Any = decoders(online).body.decode(body[:size])
    except msgspec.ValidationError as error:
        raise HTTPError(422, str(error)[:300]) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body[:size]) from None
    if given.inputs is UNSET or given.row is not UNSET or given.rows is not UNSET:
        raise HTTPError(422, "a binary body must have inputs, without row or rows")
    rows, labels = binary_rows(given.inputs, memoryview(body)[size:], online.columns)
    if isinstance(rows, list):
        online.columns.explain(rows)
    if labels is not None:
        if given.labels is not UNSET or given.label is not UNSET:
            raise HTTPError(422, "labels are given twice, as a tensor and beside it")
    elif given.labels is not UNSET:
        labels = given.labels
    work = _made(online, given.id, rows if len(rows) else None, labels, learn)
    work.outputs = _wanted(online, given.outputs, learn)
    return work


def work_of(online: OnlineModel, body: bytes, learn: bool) -> Work:
    """Decode a JSON body."""
    _check_parts(body)
    return _work_of(online, body, learn)


def _check_parts(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") > MOST_PARTS:
        raise HTTPError(
            413, f"the body has more than {MOST_PARTS:,} lists and objects; split it into several "
            "requests",
        )  # fmt: skip


def _work_of(online: OnlineModel, body: bytes, learn: bool) -> Work:
    try:
        given = decoders(online).body.decode(body)
    except msgspec.ValidationError as error:
        raise _explained(online, body, str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body) from None
    return _work(online, given, learn)


class Refused(NamedTuple):
    """Hold the status and the message of a refused line; an exception takes ten times as much."""

    status: int
    text: str


def works_of_lines(
    online: OnlineModel, body: bytes, learn: bool
) -> list[Work | Refused | Exception]:
    """Decode each line of a body to work, a refusal or a bug; raise if no line is valid."""
    if body.count(b"\n") >= MOST_LINES + body.endswith(b"\n"):
        raise HTTPError(
            413, f"the body has more than {MOST_LINES:,} lines; split it into several requests"
        )
    _check_parts(body)
    found = [_work_or_refused(online, line, learn) for line in body.split(b"\n") if line.strip()]
    if not found:
        raise HTTPError(422, "the body has no lines")
    first = found[0]
    if isinstance(first, Refused) and not any(isinstance(work, Work) for work in found):
        raise HTTPError(first.status, f"line 0: {first.text}")
    return found


def _work_or_refused(online: OnlineModel, line: bytes, learn: bool) -> Work | Refused | Exception:
    try:
        return _work_of(online, line, learn)
    except HTTPError as error:
        return Refused(error.status, str(error))
    except Exception as error:
        return error


def _work(online: OnlineModel, given: Any, learn: bool) -> Work:
    rows, labels = _content(online.columns, given)
    work = _made(online, given.id, rows, labels, learn)
    work.outputs = _wanted(online, given.outputs, learn)
    return work


def _wanted(online: OnlineModel, given: list[OutputTensor] | None, learn: bool) -> list[str] | None:
    """Return the names of the outputs that a request asks for; None for all."""
    if not given:
        return None
    names = list(dict.fromkeys(output.name for output in given))
    known = [name for name in online.outputs if not learn or name != "probability"]
    for name in names:
        if name not in known:
            raise HTTPError(
                422, f"outputs: {name[:100]!r} is unknown; the model has {', '.join(known)}"
            )
    return names


def _made(online: OnlineModel, id: str | None, rows: Any, labels: Any, learn: bool) -> Work:
    if rows is not None and len(rows) > MOST_ROWS:
        raise HTTPError(
            413, f"rows: got {len(rows):,}, a request has at most {MOST_ROWS:,}; split it into "
            "several requests",
        )  # fmt: skip
    if not learn:
        if labels is not None:
            raise HTTPError(422, "labels: infer takes none; POST them to learn")
        if rows is None:
            raise HTTPError(422, "rows, row or inputs must be given")
        if id is not None and len(rows) > MOST_WAITING:
            raise HTTPError(
                413, f"rows: {len(rows):,} would wait for their labels under one id, at most "
                f"{MOST_WAITING:,} can; split them over several ids",
            )  # fmt: skip
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


_NOT_FINITE = re.compile(rb"[\[:,\s]-?(NaN|Infinity)")


def not_json(error: Exception, body: bytes) -> HTTPError:
    """Return the error for a body that is not JSON."""
    if isinstance(error, RecursionError):
        return HTTPError(400, "the body is nested too deeply")
    hint = "; JSON has no NaN and Infinity, use null for a missing value"
    return HTTPError(
        400, f"the body is not JSON: {error}"[:300] + (hint if _NOT_FINITE.search(body) else "")
    )
