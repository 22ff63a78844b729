"""Input tensors of the Open Inference Protocol: one for all columns, or one per column."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from pronk.data.values import NUMBER
from pronk.serve import rows as floats
from pronk.serve.errors import HTTPError
from pronk.serve.rows import Columns

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
    """Return the tensors that follow the JSON (the protocol's binary extension), by index."""
    found, start = {}, 0
    for place, tensor in enumerate(tensors):
        size = (tensor.parameters or {}).get("binary_data_size")
        if size is None:
            continue
        kind = _BINARY.get(tensor.datatype)
        count = int(np.prod(tensor.shape, dtype=object))
        name = tensor.name[:100]
        if kind is None:
            raise HTTPError(422, f"inputs: {name!r} cannot be binary with its datatype")
        if type(size) is not int or size != count * np.dtype(kind).itemsize:
            raise HTTPError(422, f"inputs: {name!r} has {size!r} bytes for its shape and datatype")
        if start + size > len(data):
            raise HTTPError(422, f"inputs: {name!r} extends past the end of the body")
        values = np.frombuffer(data[start : start + size], dtype=kind)
        found[place] = values.reshape(tensor.shape)
        start += size
    if start != len(data):
        raise HTTPError(422, f"the body has {len(data) - start} bytes that belong to no tensor")
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
    found = floats.table(tensor.data, tensor.shape[1]) if nested else floats.flat(tensor.data)
    fits = found is not None and found.size == tensor.shape[0] * tensor.shape[1] > 0
    return found.reshape(tensor.shape) if found is not None and fits else None


def rows_of(tensors: list[InputTensor], columns: Columns) -> tuple[Any, list[Any] | None]:
    """Return rows in the order of the columns, and the labels or None.

    Rows are an array if they are one tensor of floats, otherwise a list of lists.
    """
    labels = None
    features = []
    for tensor in tensors:
        if _is_label(tensor, columns):
            labels = [row[0] for row in _rows(tensor, width=1)]
        else:
            features.append(tensor)
    if len(features) == 1 and features[0].name not in columns.places:
        table = _numbers(features[0]) if _is_table(features[0], columns) else None
        if table is not None:
            return table, labels
        return _rows(features[0], len(columns.names)), labels
    if not features:
        return [], labels
    given = {tensor.name: tensor for tensor in features}
    for name in columns.names:
        if name not in given:
            raise HTTPError(422, f"inputs: there is no tensor for the column {name!r}")
    unknown = [name for name in given if name not in columns.places]
    if unknown or len(given) < len(features):
        name = unknown[0] if unknown else "a column"
        raise HTTPError(422, f"inputs: the tensor {name[:100]!r} is unknown or occurs twice")
    parts = [_rows(given[name], width=1) for name in columns.names]
    for place, kind in enumerate(columns.kinds):
        if kind == NUMBER and given[columns.names[place]].datatype == "BOOL":
            parts[place] = [[float(value)] for (value,) in parts[place]]
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
