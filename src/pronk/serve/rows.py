"""Rows, labels and answers of requests: checks, the packed form of the journal, arrays.

A row is a list in the order of the columns or an object with their names. The journal stores rows
as they were sent: as float64 if all columns are numbers, otherwise as msgpack.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pronk.columns.dates import CLOCK, DATE, ISO
from pronk.columns.values import (
    BOOLEAN,
    CATEGORY,
    NUMBER,
    as_number,
    has_hours,
    is_missing_word,
)
from pronk.core.checks import LARGEST_INPUT
from pronk.estimators.waiting import Kept, Line, Meaning
from pronk.serve.spec import HTTPError, Spec

# -- lists of floats as msgpack --------------------------------------------------------------------
#
# In msgpack a float is a type byte and eight bytes. In a packed list of floats the numbers lie at
# equal distances, and NumPy reads them in place. This takes a fifth of the time of `numpy.array`,
# which inspects the type of every object, and also checks that all are floats.

Array = NDArray[np.float64]

encode = msgspec.msgpack.Encoder().encode
_FLOAT = 0xCB  # type byte; the number follows in big-endian order
_STEP = 9
_FEW = 16  # lists of at least this many elements have a header of more than one byte


def _head(count: int) -> bytes:
    """Return the msgpack header of a list."""
    if count < _FEW:
        return bytes([0x90 | count])
    if count < 2**16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def unpack_floats(data: bytes) -> Array | None:
    """Return a packed list as an array; None if it is empty or not a list of floats."""
    count = len(data) // _STEP
    start = len(data) - _STEP * count
    if not count or data[:start] != _head(count):
        return None
    marks = np.frombuffer(data, np.uint8, offset=start)[::_STEP]
    if (marks != _FLOAT).any():
        return None
    return np.ndarray((count,), ">f8", data, start + 1, (_STEP,)).astype(np.float64)


def floats_of(values: Sequence[Any] | NDArray[Any]) -> Array | None:
    """Return a list of floats or an array of numbers as an array; None for anything else."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64, copy=False) if values.dtype.kind in "iuf" else None
    data = _encoded(values)
    return None if data is None else unpack_floats(data)


def pack_floats(values: Array) -> bytes:
    """Return an array of numbers as a packed list."""
    cells = np.empty(len(values), dtype=[("mark", "u1"), ("value", ">f8")])
    cells["mark"], cells["value"] = _FLOAT, values
    return _head(len(values)) + cells.tobytes()


def float_table(rows: Sequence[Any], width: int) -> Array | None:
    """Return lists of ``width`` floats as an array; None for anything else."""
    data = _encoded(rows)
    start, head = len(_head(len(rows))), _head(width)
    step = len(head) + _STEP * width
    if data is None or not width or len(data) != start + step * len(rows):
        return None
    cells = np.frombuffer(data, np.uint8, offset=start).reshape(-1, step)
    marks = cells[:, len(head) :: _STEP]
    if (cells[:, : len(head)] != np.frombuffer(head, np.uint8)).any() or (marks != _FLOAT).any():
        return None
    first = start + len(head) + 1
    values = np.ndarray((len(rows), width), ">f8", data, first, (step, _STEP))
    return values.astype(np.float64)


def _encoded(values: Sequence[Any]) -> bytes | None:
    try:
        return encode(values)
    except OverflowError:  # a whole number of more than 64 bits
        return None


# -- rows ------------------------------------------------------------------------------------------

_unpack = msgspec.msgpack.decode


def _in_msgpack(value: int) -> bool:
    return -(2**63) <= value < 2**64


class Columns:
    """Check the rows of a model, pack them for the journal, and convert them to matrices."""

    def __init__(self, spec: Spec) -> None:
        columns = spec.column_list()
        self.names = [column.name for column in columns]
        self.places = {name: place for place, name in enumerate(self.names)}
        self.kinds = [column.kind for column in columns]
        self.orders = [column.dates for column in columns]
        self.plain = set(self.kinds) == {NUMBER}
        self.fills = spec.missing == "mean"
        number = float | None if self.fills else float
        self.key = spec.key
        mixed = self.key is not None or not self.plain
        value: Any = int | float | str | bool | None if mixed else number
        #: Type of a row for msgspec.
        self.row_type: Any = list[value] | dict[str, value]

    def pack(self, rows: Sequence[Any]) -> bytes:
        """Return rows in packed form; raise with the row and column of an invalid value."""
        if self.key is not None:
            return self._pack_keyed(rows)
        if isinstance(rows, np.ndarray):
            return self.pack_array(rows)
        if len(rows) == 1 and self.plain:
            packed = self._pack_one(rows[0])
            if packed is not None:
                return packed
        if not rows:
            raise HTTPError(422, "rows: at least one is required")
        if not self.plain:
            return self._pack_mixed([self._ordered(row, i) for i, row in enumerate(rows)])
        return self.pack_array(self._array(rows))

    def _pack_keyed(self, rows: Sequence[Any]) -> bytes:
        """Pack the keys, and the rows without them."""
        if not len(rows) or isinstance(rows, np.ndarray):
            raise HTTPError(422, f"rows: at least one is required, with its {self.key!r}")
        parts = [self._split(row, number) for number, row in enumerate(rows)]
        rest = [self._ordered(row, number) for number, (_, row) in enumerate(parts)]
        packed = self._pack_mixed(rest)
        if self.plain:
            packed = self.pack_array(np.array(rest, dtype=np.float64))
        return encode([[key for key, _ in parts], packed])

    def _split(self, row: Any, number: int) -> tuple[Any, Any]:
        """Return the key of a row and the other values."""
        if isinstance(row, dict):
            if self.key not in row:
                raise HTTPError(422, f"row {number} has no key {self.key!r}")
            key = row[self.key]
            rest: Any = {name: value for name, value in row.items() if name != self.key}
        else:
            key, rest = (row[0] if row else None), list(row[1:])
        if isinstance(key, float) and key.is_integer() and abs(key) < 2**53:
            key = int(key)
        short = isinstance(key, str) and len(key) <= 200
        whole = isinstance(key, int) and not isinstance(key, bool) and _in_msgpack(key)
        if not (short or whole):
            raise HTTPError(
                422, f"row {number}, {self.key!r}: a key must be short text or a 64-bit integer"
            )
        return key, rest

    def keys(self, packed: bytes) -> list[Any]:
        """Return the keys of packed rows of a keyed model."""
        found: list[Any] = _unpack(packed)[0]
        return found

    def _pack_one(self, row: Any) -> bytes | None:
        """Pack one row of numbers without NumPy; None if that is not possible."""
        if not isinstance(row, list) or len(row) != len(self.names) or None in row:
            return None
        if not (max(row) <= LARGEST_INPUT and min(row) >= -LARGEST_INPUT):
            return None
        return array("d", row).tobytes()

    def _array(self, rows: Sequence[Any]) -> Array:
        found = float_table(rows, len(self.names))
        if found is not None:
            return found
        try:
            values = np.array(rows, dtype=np.float64)  # None becomes NaN
        except (TypeError, ValueError):  # objects, or different lengths
            values = np.empty(0)
        if values.ndim == 2 and values.shape[1] == len(self.names):
            return values
        return np.array([self._ordered(row, i) for i, row in enumerate(rows)], dtype=np.float64)

    def pack_array(self, values: Array) -> bytes:
        """Pack rows of numbers that are an array."""
        bad = ~(np.abs(values) <= LARGEST_INPUT)
        if self.fills:
            bad &= ~np.isnan(values)
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            self._invalid_number(row, column, float(values[row, column]))
        return values.tobytes()

    def _ordered(self, row: Any, number: int) -> list[Any]:
        if isinstance(row, dict):
            if row.keys() != self.places.keys():
                raise HTTPError(422, self._names_differ(row, number))
            return [row[name] for name in self.names]
        if len(row) != len(self.names):
            raise HTTPError(
                422, f"row {number} has {len(row)} values; the model has {len(self.names)} columns"
            )
        return list(row)

    def _names_differ(self, row: dict[str, Any], number: int) -> str:
        missing = [name for name in self.names if name not in row]
        if missing:
            return f"row {number} has no column {missing[0]!r} (use null for a missing value)"
        unknown = next(name for name in row if name not in self.places)
        return f"row {number} has the unknown column {unknown[:100]!r}"

    def _pack_mixed(self, rows: list[list[Any]]) -> bytes:
        for number, row in enumerate(rows):
            for place, value in enumerate(row):
                self._check_value(number, place, value)
                if isinstance(value, int) and not _in_msgpack(value):
                    row[place] = str(value) if self.kinds[place] == CATEGORY else float(value)
        return encode(rows)

    def _check_value(self, row: int, place: int, value: Any) -> None:
        """Check a value against the kind of its column."""
        kind = self.kinds[place]
        if value is None or (kind != NUMBER and is_missing_word(value)):
            if not self.fills:
                self._invalid_number(row, place, math.nan)
        elif kind == CATEGORY:
            if not isinstance(value, str | bool | int | float):
                self._wrong_kind(row, place, "text", value)
        elif kind == BOOLEAN:
            truth = as_number(value, kind) if isinstance(value, str) else value
            if truth not in (0, 1):
                self._wrong_kind(row, place, "true or false", value)
        elif kind != NUMBER and isinstance(value, str):
            number = as_number(value, kind, self.orders[place])
            name, year = self.names[place], ""
            if kind == DATE and has_hours(np.array([number]))[0]:
                raise HTTPError(
                    422,
                    f"row {row}, column {name!r}: a date cannot have a time of day; create the "
                    "model with a column of kind time to use it",
                )
            if math.isnan(number):
                if self.orders[place] == ISO and kind != CLOCK:
                    year = ", with the year first (see dates)"
                raise HTTPError(422, f"row {row}, column {name!r}: not a {kind}{year}")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong_kind(row, place, "a number" if kind == NUMBER else f"a {kind}", value)
        elif not abs(value) <= LARGEST_INPUT:
            self._invalid_number(row, place, value)

    def _invalid_number(self, row: int, column: int, value: float) -> None:
        name = self.names[column]
        if value != value:
            raise HTTPError(
                422,
                f"row {row}, column {name!r}: the value is missing; create the model with "
                "missing=mean to fill it in",
            )
        raise HTTPError(422, f"row {row}, column {name!r}: the number is too large; rescale it")

    def _wrong_kind(self, row: int, column: int, wanted: str, value: Any) -> None:
        got = type(value).__name__
        name = self.names[column]
        raise HTTPError(422, f"row {row}, column {name!r}: expected {wanted}, got {got}")

    def matrix(self, packed: bytes) -> Array:
        """Return packed rows as a matrix for the learner, without their keys."""
        if self.key is not None:
            packed = _unpack(packed)[1]
        if self.plain:
            return np.frombuffer(packed).reshape(-1, len(self.names)).copy()
        rows = _unpack(packed)
        out = np.empty((len(rows), len(self.names)))
        for place, (kind, order) in enumerate(zip(self.kinds, self.orders, strict=True)):
            out[:, place] = [as_number(row[place], kind, order) for row in rows]
        return out

    def values(self, packed: bytes) -> list[list[Any]]:
        """Return packed rows as they were sent, without their keys."""
        if self.key is not None and not self.plain:
            packed = _unpack(packed)[1]
        found: list[list[Any]] = self.matrix(packed).tolist() if self.plain else _unpack(packed)
        return found

    def split(self, packed: bytes, count: int, most: int) -> list[bytes]:
        """Split packed rows into packed pieces of at most ``most`` rows and nearly equal sizes.

        No piece has a single row: learners may predict one row otherwise than several.
        """
        pieces = -(-count // most)
        ends = [count * place // pieces for place in range(pieces + 1)]
        keys: list[Any] | None = None
        if self.key is not None:
            keys, packed = _unpack(packed)
        if self.plain:
            step = 8 * len(self.names)
            found = [packed[step * a : step * b] for a, b in pairwise(ends)]
        else:
            rows = _unpack(packed)
            found = [encode(rows[a:b]) for a, b in pairwise(ends)]
        if keys is None:
            return found
        own = [keys[a:b] for a, b in pairwise(ends)]
        return [encode(list(each)) for each in zip(own, found, strict=True)]

    def explain(self, rows: Any) -> None:
        """Raise with the first invalid row and column of a body that msgspec rejected, if any."""
        if not isinstance(rows, list):
            raise HTTPError(422, "rows must be a list of rows")
        for number, row in enumerate(rows):
            if not isinstance(row, list | dict):
                raise HTTPError(422, f"row {number} must be a list of values or an object")
            if self.key is not None:
                row = self._split(row, number)[1]
            for place, value in enumerate(self._ordered(row, number)):
                self._check_value(number, place, value)


# -- labels ----------------------------------------------------------------------------------------

#: Limit of labels. Learners and scores keep sums of squares of labels, and files hold numbers up to
#: 1e300. Learners accept 1e140, so that sums over 1e15 rows can be saved; labels may be centred.
LARGEST_LABEL = 4e139


def check_labels(labels: Sequence[Any] | NDArray[Any], count: int, task: str) -> bytes:
    """Check and pack the labels of a request, one per row: numbers, or classes of one kind."""
    if len(labels) != count:
        raise HTTPError(422, f"labels: got {len(labels)} for {count} rows")
    if not count:
        raise HTTPError(422, "labels: at least one is required")
    if isinstance(labels, np.ndarray) and (task != "regression" or count < _FEW):
        labels = labels.tolist()
    if task == "regression":
        return _checked_numbers(labels)
    found = [_class_label(value, row) for row, value in enumerate(labels)]
    first = label_kind(found[0])
    for row, value in enumerate(found):
        if label_kind(value) != first:
            raise HTTPError(422, f"row {row}, label: expected {first}, got {label_kind(value)}")
    return pack_labels(found)


def _checked_numbers(labels: Sequence[Any] | NDArray[Any]) -> bytes:
    if len(labels) >= _FEW:
        values = floats_of(labels)
        if values is not None and (np.abs(values) <= LARGEST_LABEL).all():
            return pack_floats(values)
        labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return encode([_number(value, row) for row, value in enumerate(labels)])


def _number(value: Any, row: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise HTTPError(422, f"row {row}, label: expected a number, got {type(value).__name__}")
    if value != value:
        raise HTTPError(422, f"row {row}, label: the value is missing")
    if not abs(value) <= LARGEST_LABEL:
        raise HTTPError(422, f"row {row}, label: the number is too large; rescale it")
    return float(value)


def _class_label(value: Any, row: int) -> Any:
    if isinstance(value, str):
        if len(value) > 1000:
            raise HTTPError(422, f"row {row}, label: longer than 1,000 characters")
        if "\0" in value:
            raise HTTPError(422, f"row {row}, label: text must not contain the character NUL")
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < 2**53 and float(value).is_integer():
        return int(value)
    raise HTTPError(422, f"row {row}, label: expected text, an integer or a boolean")


def label_kind(value: Any) -> str:
    """Return text, number or boolean; the labels of a model are all of one kind."""
    return "text" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"


def pack_labels(labels: list[Any]) -> bytes:
    """Return labels in packed form."""
    return encode(labels)


def unpack_labels(packed: bytes) -> list[Any]:
    """Return packed labels as they were sent."""
    found: list[Any] = _unpack(packed)
    return found


def targets(packed: Sequence[bytes], task: str) -> NDArray[Any]:
    """Return the labels of several requests as an array for the learner."""
    if task == "regression" and max(map(len, packed)) > 9 * _FEW:
        return np.concatenate([_numbers(labels) for labels in packed])
    found = [label for labels in packed for label in unpack_labels(labels)]
    return np.array(found, dtype=np.float64 if task == "regression" else None)


def _numbers(packed: bytes) -> Array:
    found = unpack_floats(packed)
    return np.array(unpack_labels(packed), dtype=np.float64) if found is None else found


# -- answers ---------------------------------------------------------------------------------------


class Answer(msgspec.Struct, array_like=True, omit_defaults=True):
    """Hold the answer to one request; ``error`` is set if its rows could not be learned.

    The journal stores answers as msgpack; `response` converts them to tensors.
    """

    version: int
    prediction: list[Any]
    lower: list[float | None] | None = None
    upper: list[float | None] | None = None
    probability: list[list[float]] | None = None
    classes: list[Any] | None = None
    error: str | None = None
    untrained: bool = False  # the model has learned nothing yet
    baselines: list[Any] | None = None  # their predictions then, of rows that wait for labels
    kept: bytes | None = None  # what the learner keeps of such rows
    quantiles: list[list[float | None]] | None = None


_one = msgspec.msgpack.Decoder(Answer)
_several = msgspec.msgpack.Decoder(list[Answer])


def pack_answers(answer: Answer | list[Answer]) -> bytes:
    return encode(answer)


def unpack_answer(data: bytes) -> Answer:
    return _one.decode(data)


def pack_kept(kept: Kept | None) -> bytes | None:
    """Return what a learner keeps of predictions in packed form."""
    return None if kept is None else encode([kept.meaning.to_list(), kept.values.tobytes()])


def unpack_kept(data: bytes) -> list[Line]:
    """Return what was kept of each row; raise a ValueError if it is not readable."""
    meaning, values = _unpack(data)
    found = Meaning.from_list(meaning)
    kept = Kept(found, np.frombuffer(values).reshape(-1, found.header.width))
    kept.check()
    return kept.lines


def unpack_answers(data: bytes) -> list[Answer]:
    return _several.decode(data)


def join_answers(answers: list[Answer]) -> Answer:
    """Return the answers to the pieces of one request as one answer."""

    def joined(name: str) -> list[Any] | None:
        parts = [getattr(answer, name) for answer in answers]
        return None if None in parts else list(chain.from_iterable(parts))

    first = answers[0]
    return Answer(
        first.version,
        joined("prediction") or [],
        joined("lower"),
        joined("upper"),
        joined("probability"),
        first.classes,
        untrained=all(answer.untrained for answer in answers),
        quantiles=joined("quantiles"),
    )


class Tensor(msgspec.Struct):
    """Output tensor of the Open Inference Protocol."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any]
    parameters: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class Response(msgspec.Struct):
    """Body of an answer to infer and learn."""

    model_name: str
    model_version: str
    outputs: list[Tensor]
    id: str | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


def response(
    model: str, id: str | None, answer: Answer, spec: Spec, wanted: list[str] | None = None
) -> Response:
    """Convert an answer to the form of the Open Inference Protocol, with the wanted outputs."""
    count = len(answer.prediction)
    kind = _datatype(answer.prediction)
    outputs = [Tensor("prediction", kind, [count], answer.prediction)]
    if answer.probability is not None and answer.classes is not None:
        flat = [value for row in answer.probability for value in row]
        shape = [count, len(answer.classes)]
        outputs.append(Tensor("probability", "FP64", shape, flat, {"classes": answer.classes}))
    for name, values in (("lower", answer.lower), ("upper", answer.upper)):
        if values is not None:
            outputs.append(Tensor(name, "FP64", [count], values, {"coverage": spec.coverage}))
    if answer.quantiles is not None:
        data = list(chain.from_iterable(answer.quantiles))
        shape = [count, len(spec.quantiles)]
        outputs.append(Tensor("quantiles", "FP64", shape, data, {"levels": spec.quantiles}))
    if wanted is not None:
        known = {output.name: output for output in outputs}
        outputs = [known.get(name) or _missing(name, count) for name in wanted]
    given = msgspec.UNSET if id is None else id
    found = Response(model, str(answer.version), outputs, given)
    if answer.untrained:
        found.parameters = {"trained": False}
    return found


def _missing(name: str, count: int) -> Tensor:
    """Return an output that a model which has learned nothing does not have yet."""
    if name in ("probability", "quantiles"):
        return Tensor(name, "FP64", [count, 0], [])
    return Tensor(name, "FP64", [count], [None] * count)


def _datatype(values: list[Any]) -> str:
    first = next((value for value in values if value is not None), 0.0)
    if isinstance(first, bool):
        return "BOOL"
    if isinstance(first, int):
        return "INT64"
    return "BYTES" if isinstance(first, str) else "FP64"
