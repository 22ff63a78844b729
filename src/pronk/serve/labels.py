"""Labels on their way in: checked, and kept as msgpack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pronk.serve import floats
from pronk.serve.errors import Refused

Array = NDArray[np.float64]

#: Learners and scores keep sums of squares of labels, and files hold numbers up to 1e300: with this
#: bound the sums of 1e15 rows can be saved.
LARGEST = 1e140
#: Fewer labels are checked one by one: an array is not worth it.
_FEW = 16
_unpack = msgspec.msgpack.decode


def check_labels(labels: Sequence[Any] | NDArray[Any], count: int, task: str) -> bytes:
    """Labels of a request as they are kept: one a row, numbers or all of one kind."""
    if len(labels) != count:
        raise Refused(422, f"labels: there are {len(labels)} for {count} rows")
    if not count:
        raise Refused(422, "labels: there must be at least one")
    if isinstance(labels, np.ndarray) and (task != "regression" or count < _FEW):
        labels = labels.tolist()
    if task == "regression":
        return _checked_numbers(labels)
    found = [_class_label(value, row) for row, value in enumerate(labels)]
    first = label_kind(found[0])
    for row, value in enumerate(found):
        if label_kind(value) != first:
            raise Refused(422, f"row {row}, label: {label_kind(value)}, the ones before: {first}")
    return pack_labels(found)


def _checked_numbers(labels: Sequence[Any] | NDArray[Any]) -> bytes:
    if len(labels) >= _FEW:
        values = floats.flat(labels)
        if values is not None and (np.abs(values) <= LARGEST).all():
            return floats.packed(values)
        labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return floats.encode([_number(value, row) for row, value in enumerate(labels)])


def _number(value: Any, row: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(422, f"row {row}, label: expected a number, got {type(value).__name__}")
    if value != value:
        raise Refused(422, f"row {row}, label: it is missing")
    if not abs(value) <= LARGEST:
        raise Refused(422, f"row {row}, label: the number is too large; rescale it")
    return float(value)


def _class_label(value: Any, row: int) -> Any:
    if isinstance(value, str):
        if len(value) > 1000:
            raise Refused(422, f"row {row}, label: longer than 1,000 characters")
        if "\0" in value:
            raise Refused(422, f"row {row}, label: text with the character NUL")
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < 2**53 and float(value).is_integer():
        return int(value)
    raise Refused(422, f"row {row}, label: expected text, a whole number or a boolean of a class")


def label_kind(value: Any) -> str:
    """Text, number or boolean: the labels of one model are all of one kind."""
    return "text" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"


def pack_labels(labels: list[Any]) -> bytes:
    """As the journal keeps them."""
    return floats.encode(labels)


def unpack_labels(packed: bytes) -> list[Any]:
    """As they came."""
    found: list[Any] = _unpack(packed)
    return found


def targets(packed: Sequence[bytes], task: str) -> NDArray[Any]:
    """The labels of several requests as a learner takes them."""
    if task == "regression" and max(map(len, packed)) > 9 * _FEW:
        return np.concatenate([_numbers(labels) for labels in packed])
    found = [label for labels in packed for label in unpack_labels(labels)]
    return np.array(found, dtype=np.float64 if task == "regression" else None)


def _numbers(packed: bytes) -> Array:
    found = floats.unpacked(packed)
    return np.array(unpack_labels(packed), dtype=np.float64) if found is None else found
