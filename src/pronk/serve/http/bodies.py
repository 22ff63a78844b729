"""Bodies of infer and learn: rows and labels as JSON, NDJSON or tensors, decoded and checked.

Tensors are those of the Open Inference Protocol: one for all columns, or one per column.
"""

from __future__ import annotations

import json
import math
import re
from itertools import chain
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from pronk.columns.values import NUMBER
from pronk.serve.http.exchange import size_of
from pronk.serve.online import PIECE, OnlineModel
from pronk.serve.rows import Columns, check_labels
from pronk.serve.spec import HTTPError
from pronk.serve.worker import Work

# -- tensors ---------------------------------------------------------------------------------------

#: Names of the tensor that holds labels.
LABELS = ("label", "labels")
#: Datatypes of numbers, and the NumPy types of their binary form.
_NUMBERS = {
    "FP64": "<f8", "FP32": "<f4", "FP16": "<f2", "INT64": "<i8", "INT32": "<i4", "INT16": "<i2",
    "INT8": "<i1", "UINT64": "<u8", "UINT32": "<u4", "UINT16": "<u2", "UINT8": "<u1", "BOOL": "?",
}  # fmt: skip


class InputTensor(msgspec.Struct):
    """Input tensor of a request; `read_binary` replaces the data of a binary one by an array."""

    name: str
    shape: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1, max_length=2)]
    datatype: str
    data: list[Any] = []
    parameters: dict[str, Any] | None = None


def read_binary(tensors: list[InputTensor], data: memoryview) -> None:
    """Set the data of tensors that follow the JSON (the protocol's binary extension)."""
    start = 0
    for tensor in tensors:
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
        kind = _NUMBERS.get(tensor.datatype)
        if kind is None:
            raise HTTPError(422, f"inputs: {name!r} cannot be binary with its datatype")
        if not count or size != count * np.dtype(kind).itemsize:
            raise HTTPError(422, f"inputs: {name!r} has {size} bytes for its shape and datatype")
        tensor.data = np.frombuffer(part, dtype=kind)  # type: ignore[assignment]
    if start != len(data):
        raise HTTPError(422, f"the body has {len(data) - start} bytes that belong to no tensor")


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


def rows_of(tensors: list[InputTensor], columns: Columns) -> tuple[Any, list[Any] | None]:
    """Return rows in the order of the fields, and the labels; None for what is not there.

    Rows are an array if they are one tensor of floats, otherwise a list of lists.
    """
    labels, features = None, []
    for tensor in tensors:
        if tensor.name in LABELS and tensor.name not in columns.places:
            if labels is not None:
                raise HTTPError(422, "inputs: labels are given twice, in two tensors")
            labels = _column(tensor)
        else:
            features.append(tensor)
    if not features:
        return None, labels
    names = columns.fields
    if len(features) == 1 and features[0].name not in names:
        return _table(features[0], columns), labels
    given = {tensor.name: tensor for tensor in features}
    for name in names:
        if name not in given:
            raise HTTPError(422, f"inputs: there is no tensor for the column {name!r}")
    unknown = given.keys() - set(names)
    if unknown or len(given) < len(features):
        name = min(unknown) if unknown else "a column"
        raise HTTPError(422, f"inputs: the tensor {name[:100]!r} is unknown or occurs twice")
    parts = [_column(given[name]) for name in names]
    for part, kind in zip(parts, columns.field_kinds, strict=True):
        if kind == NUMBER:
            part[:] = [float(value) if isinstance(value, bool) else value for value in part]
    if len({len(part) for part in parts}) > 1:
        raise HTTPError(422, "inputs: the tensors have different numbers of rows")
    return [list(row) for row in zip(*parts, strict=True)], labels


def _table(tensor: InputTensor, columns: Columns) -> Any:
    """Return a tensor of all fields as an array of floats, or as a list of rows."""
    width = len(columns.fields)
    flat = _flat(tensor, width)
    floats = isinstance(flat, np.ndarray) or set(map(type, flat)) == {float}
    if columns.plain and tensor.datatype in _NUMBERS and floats:
        return np.array(flat, dtype=np.float64).reshape(-1, width)
    values = _listed(flat, integers=tensor.datatype in _NUMBERS)
    return [values[i : i + width] for i in range(0, len(values), width)]


def _column(tensor: InputTensor) -> list[Any]:
    """Return a tensor of one column as a list of values."""
    return _listed(_flat(tensor, 1), integers=tensor.datatype not in ("BYTES", "BOOL"))


def _listed(flat: Any, integers: bool) -> list[Any]:
    """Return values as a list; with ``integers`` booleans become 0 and 1."""
    values: list[Any] = flat.tolist() if isinstance(flat, np.ndarray) else flat
    if integers:
        return [int(value) if isinstance(value, bool) else value for value in values]
    return values


def _flat(tensor: InputTensor, width: int) -> Any:
    """Return the values of a tensor of shape [rows] or [rows, width], whose data may be nested."""
    name, data = tensor.name[:100], tensor.data
    if tensor.datatype not in _NUMBERS and tensor.datatype != "BYTES":
        raise HTTPError(422, f"inputs: unknown datatype {tensor.datatype[:20]!r}")
    given = tensor.shape[1] if len(tensor.shape) == 2 else 1
    if given != width:
        raise HTTPError(422, f"inputs: {name!r} has {given} columns, {width} are expected")
    if isinstance(data, np.ndarray):
        return data
    flat = list(chain.from_iterable(x if isinstance(x, list) else [x] for x in data))
    if len(flat) != tensor.shape[0] * width:
        raise HTTPError(422, f"inputs: {name!r} has {len(flat)} values for shape {tensor.shape}")
    if any(isinstance(value, list | dict) for value in flat):
        raise HTTPError(422, f"inputs: {name!r} is nested too deeply")
    return flat


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
Label = int | float | str | bool
Value = Label | None
Row = (
    Annotated[list[Value], Meta(description="values in the order of the columns")]
    | Annotated[dict[str, Value], Meta(description="values by column")]
)


class OutputTensor(msgspec.Struct):
    """Output that a request asks for; answers are JSON, whatever its parameters."""

    name: str


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a rollback: the version to restore."""

    version: int | str


class InferRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a request that predicts rows."""

    id: Id | None = None
    row: Row | UnsetType = UNSET
    rows: list[Row] | UnsetType = UNSET
    inputs: list[InputTensor] | UnsetType = UNSET
    outputs: list[OutputTensor] | None = None
    parameters: msgspec.Raw | UnsetType = UNSET


class LearnRequest(InferRequest, forbid_unknown_fields=True):
    """Body of a request that learns rows."""

    label: Label | UnsetType = UNSET
    labels: list[Label] | UnsetType = UNSET


#: For both calls, as labels in a body of infer have a message of their own.
_decode = msgspec.json.Decoder(LearnRequest).decode


def work_of(online: OnlineModel, body: bytes, learn: bool, length: bytes = b"") -> Work:
    """Decode a JSON body; only its first ``length`` bytes are JSON if binary tensors follow."""
    size = size_of(length) if length else len(body)
    if size is None or size > len(body):
        raise HTTPError(
            422, "Inference-Header-Content-Length must be the length of the JSON in bytes"
        )
    text = body[:size]
    _check_parts(text)
    return _work_of(online, text, learn, memoryview(body)[size:])


def _check_parts(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") > MOST_PARTS:
        raise HTTPError(
            413, f"the body has more than {MOST_PARTS:,} lists and objects; split it into several "
            "requests",
        )  # fmt: skip


def _work_of(
    online: OnlineModel, text: bytes, learn: bool, binary: memoryview | None = None
) -> Work:
    try:
        given = _decode(text)
        _check_repeated(text)
    except msgspec.ValidationError as error:
        raise _explained(online, text, str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, text) from None
    if binary:
        read_binary([] if given.inputs is UNSET else given.inputs, binary)
    rows, labels = _content(online.columns, given)
    work = _made(online, given.id, rows, labels, learn)
    work.outputs = _wanted(online, given.outputs, learn)
    return work


#: Entries of a body, as JSON writes their names.
_ENTRIES = tuple(f'"{field}"'.encode() for field in LearnRequest.__struct_fields__)


def _check_repeated(text: bytes) -> None:
    """Raise if an entry of a body is given twice: a decoder takes the last one."""
    if all(text.count(entry) <= 1 for entry in _ENTRIES):
        return  # usual, and much faster than the other decoder

    def entries(pairs: list[tuple[str, Any]]) -> list[str]:
        return [name for name, _ in pairs]

    # The hook sees the body last. Numbers stay text: those of many digits raise an error.
    names = json.loads(text, object_pairs_hook=entries, parse_int=str, parse_float=str)
    for name in names:
        if names.count(name) > 1:
            raise HTTPError(422, f"{name} is given twice in one body; give it once")


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
    elif labels is None:
        raise HTTPError(422, "label or labels must be given")
    elif rows is None and id is None:
        raise HTTPError(422, "labels without rows need the id of an earlier prediction")
    count = len(labels if rows is None else rows)
    packed = None if rows is None else online.columns.pack(rows)
    checked = check_labels(labels, count, online.spec.task) if learn else None
    return Work(online, id, packed, checked, count)


def _content(columns: Columns, given: LearnRequest) -> tuple[Any, Any]:
    """Return the rows and the labels of a body, from any of their forms."""
    form, label_form = _one_of(given, "row", "rows", "inputs"), _one_of(given, "label", "labels")
    labels = [given.label] if label_form == "label" else given.labels if label_form else None
    if given.inputs is not UNSET:
        rows, more = rows_of(given.inputs, columns)
        if more is not None and labels is not None:
            raise HTTPError(422, "labels are given twice, as a tensor and beside it")
        return rows, labels if more is None else more
    return [given.row] if form == "row" else given.rows if form else None, labels


def _one_of(given: LearnRequest, *forms: str) -> str | None:
    """Return which of some entries a body has, if any; raise if there are several."""
    found = [form for form in forms if getattr(given, form) is not UNSET]
    if len(found) > 1:
        raise HTTPError(422, f"only one of {' and '.join(found)} may be given")
    return found[0] if found else None


def _explained(online: OnlineModel, body: bytes, message: str) -> HTTPError:
    """Return the error of a body that msgspec rejected, with the row and the column if possible."""
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
