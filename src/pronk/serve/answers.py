"""What is answered: predictions with what stands beside them, kept as msgpack, sent as tensors."""

from __future__ import annotations

from typing import Any

import msgspec


class Answer(msgspec.Struct, array_like=True, omit_defaults=True):
    """The answer to one request; ``error`` where its rows could not be learned."""

    version: int
    prediction: list[Any]
    lower: list[float | None] | None = None
    upper: list[float | None] | None = None
    probability: list[list[float]] | None = None
    classes: list[Any] | None = None
    error: str | None = None
    untrained: bool = False  # nothing was learned yet


_encode = msgspec.msgpack.Encoder().encode
_one = msgspec.msgpack.Decoder(Answer)
_several = msgspec.msgpack.Decoder(list[Answer])


def pack(answer: Answer | list[Answer]) -> bytes:
    return _encode(answer)


def unpack(data: bytes) -> Answer:
    return _one.decode(data)


def unpack_block(data: bytes) -> list[Answer]:
    return _several.decode(data)


class Tensor(msgspec.Struct):
    """An output of the Open Inference Protocol."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any]
    parameters: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class Response(msgspec.Struct):
    """The body of an answer to infer and learn."""

    model_name: str
    model_version: str
    outputs: list[Tensor]
    id: str | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


def response(model: str, id: str | None, answer: Answer, coverage: float) -> Response:
    """The answer in the words of the protocol."""
    count = len(answer.prediction)
    kind = _datatype(answer.prediction)
    outputs = [Tensor("prediction", kind, [count], answer.prediction)]
    if answer.probability is not None and answer.classes is not None:
        flat = [value for row in answer.probability for value in row]
        shape = [count, len(answer.classes)]
        outputs.append(Tensor("probability", "FP64", shape, flat, {"classes": answer.classes}))
    for name, values in (("lower", answer.lower), ("upper", answer.upper)):
        if values is not None:
            outputs.append(Tensor(name, "FP64", [count], values, {"coverage": coverage}))
    given = msgspec.UNSET if id is None else id
    found = Response(model, str(answer.version), outputs, given)
    if answer.untrained:
        found.parameters = {"trained": False}
    return found


def _datatype(values: list[Any]) -> str:
    first = next((value for value in values if value is not None), 0.0)
    if isinstance(first, bool):
        return "BOOL"
    if isinstance(first, int):
        return "INT64"
    return "BYTES" if isinstance(first, str) else "FP64"
