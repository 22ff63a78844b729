"""Bodies of infer and learn: decoded, checked, and made into work for the threads.

Each model has its own decoder, so that wrong types are found while the JSON is read. Where that
fails, a second, slow look names the row and the column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pronk.serve.errors import Refused, not_json
from pronk.serve.http.exchange import size_of
from pronk.serve.http.tensors import InputTensor, binary_rows, rows_of
from pronk.serve.labels import check_labels
from pronk.serve.online import Online
from pronk.serve.queues import Work
from pronk.serve.rows import Columns

#: An id of a request: unique for its model.
Id = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Label = float | int | str | bool


class Decoders:
    """Of one model: a body of infer and one of learn."""

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


def decoders(online: Online) -> Decoders:
    """The decoders of a model, made once."""
    found: Decoders | None = getattr(online, "decoders", None)
    if found is None:
        found = Decoders(online.columns, online.spec.task)
        online.decoders = found  # type: ignore[attr-defined]
    return found


def binary_work(online: Online, body: bytes, length: bytes, learn: bool) -> Work:
    """A body whose first ``length`` bytes are JSON and whose tensors follow in binary."""
    size = size_of(length)
    if size is None or size > len(body):
        raise Refused(422, "Inference-Header-Content-Length must be the length of the JSON")
    try:
        given: Any = decoders(online).body.decode(body[:size])
    except msgspec.ValidationError as error:
        raise Refused(422, str(error)[:300]) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body[:size]) from None
    if given.inputs is UNSET or given.row is not UNSET or given.rows is not UNSET:
        raise Refused(422, "inputs must be given, and nothing else with rows")
    rows, labels = binary_rows(given.inputs, memoryview(body)[size:], online.columns)
    if labels is not None:
        if given.labels is not UNSET or given.label is not UNSET:
            raise Refused(422, "labels are given twice, as a tensor and beside it")
    elif given.labels is not UNSET:
        labels = given.labels
    return _made(online, given.id, rows if len(rows) else None, labels, learn)


def work_of(online: Online, body: bytes, learn: bool) -> Work:
    """What a body asks for."""
    try:
        given = decoders(online).body.decode(body)
    except msgspec.ValidationError as error:
        raise _explained(online, body, str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise not_json(error, body) from None
    return _work(online, given, learn)


def works_of_lines(online: Online, body: bytes, learn: bool) -> list[Work | Refused]:
    """What each line asks for, or why it is refused; refused as a whole if no line is good."""
    found: list[Work | Refused]
    try:
        bodies = decoders(online).body.decode_lines(body)
        found = [_or_refused(_work, online, given, learn) for given in bodies]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        lines = [line for line in body.split(b"\n") if line.strip()]
        found = [_or_refused(work_of, online, line, learn) for line in lines]
    if not found:
        raise Refused(422, "the body has no lines")
    if isinstance(found[0], Refused) and not any(isinstance(work, Work) for work in found):
        raise Refused(found[0].status, f"line 0: {found[0]}")
    return found


def _or_refused(made: Callable[..., Work], online: Online, given: Any, learn: bool) -> Any:
    try:
        return made(online, given, learn)
    except Refused as error:
        return error


def _work(online: Online, given: Any, learn: bool) -> Work:
    rows, labels = _content(online.columns, given)
    return _made(online, given.id, rows, labels, learn)


def _made(online: Online, id: str | None, rows: Any, labels: Any, learn: bool) -> Work:
    if not learn:
        if labels is not None:
            raise Refused(422, "labels: infer takes none; POST them to learn")
        if rows is None:
            raise Refused(422, "rows, row or inputs must be given")
        return Work(online, id, online.columns.pack(rows), None, len(rows))
    if labels is None:
        raise Refused(422, "label or labels must be given")
    if rows is None:
        if id is None:
            raise Refused(422, "labels without rows need the id of an earlier prediction")
        packed = check_labels(labels, len(labels), online.spec.task)
        return Work(online, id, None, packed, len(labels))
    kept = online.columns.pack(rows)
    packed = check_labels(labels, len(rows), online.spec.task)
    return Work(online, id, kept, packed, len(rows))


def _content(columns: Columns, given: Any) -> tuple[Sequence[Any] | None, Any]:
    """Rows and labels from whichever form they came in."""
    forms = [name for name in ("row", "rows", "inputs") if getattr(given, name) is not UNSET]
    if len(forms) > 1:
        raise Refused(422, f"{' and '.join(forms)} say the same: give one of them")
    if given.label is not UNSET and given.labels is not UNSET:
        raise Refused(422, "label and labels say the same: give one of them")
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
        raise Refused(422, "labels are given twice, as a tensor and beside it")
    if isinstance(rows, list):
        columns.explain(rows)
    if more is None:
        more = labels
    if not len(rows) and more is not None:
        return None, more
    return rows, more


def _explained(online: Online, body: bytes, message: str) -> Refused:
    """The row and column of a body of wrong types, by name."""
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
    except Refused as error:
        return error
    except (ValueError, RecursionError):
        pass
    return Refused(422, message[:300])
