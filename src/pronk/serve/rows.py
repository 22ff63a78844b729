"""Rows, labels and answers of requests: checks, the packed form of the journal, arrays.

A row is a list in the order of the columns or an object with their names. The journal stores rows
as they were sent: as float64 if all columns are numbers, otherwise as msgpack.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
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

Array = NDArray[np.float64]

pack = msgspec.msgpack.Encoder().encode
unpack: Callable[[bytes], Any] = msgspec.msgpack.decode

# -- rows ------------------------------------------------------------------------------------------

#: Kind of the field that names the model of a row.
KEY = "key"


def _in_msgpack(value: int) -> bool:
    return -(2**63) <= value < 2**64


class Columns:
    """Check the rows of a model, pack them for the journal, and convert them to matrices.

    The fields of a row are the key, if the model is keyed, and the columns.
    """

    def __init__(self, spec: Spec) -> None:
        columns = spec.column_list()
        self.names = [column.name for column in columns]
        self.kinds = [column.kind for column in columns]
        self.orders = [column.dates for column in columns]
        self.key = spec.key
        keys = [] if self.key is None else [self.key]
        self.fields = [*keys, *self.names]
        self.field_kinds = [*[KEY for _ in keys], *self.kinds]
        self.places = {name: place for place, name in enumerate(self.fields)}
        self.plain = set(self.field_kinds) == {NUMBER}
        self.fills = spec.missing == "mean"
        #: Types of the values that need no closer look in columns of numbers.
        self.simple = {int, float, type(None)} if self.fills else {int, float}

    def pack(self, rows: Sequence[Any]) -> bytes:
        """Return rows in packed form; raise with the row and column of an invalid value."""
        if not len(rows):
            raise HTTPError(422, "rows: at least one is required")
        if not self.plain:
            return pack([self._checked_row(row, i) for i, row in enumerate(rows)])
        if isinstance(rows, np.ndarray):
            return self._pack_array(rows)
        ordered = [self._ordered(row, i) for i, row in enumerate(rows)]
        if len(ordered) == 1 and self._simple_row(ordered[0]):
            return array("d", ordered[0]).tobytes()  # faster than with NumPy
        if not set(map(type, chain.from_iterable(ordered))) <= self.simple:
            ordered = [self._checked_row(row, i) for i, row in enumerate(ordered)]
        try:
            return self._pack_array(np.array(ordered, dtype=np.float64))  # None becomes NaN
        except OverflowError:  # an integer of hundreds of digits
            return pack([self._checked_row(row, i) for i, row in enumerate(ordered)])

    def _simple_row(self, row: list[Any]) -> bool:
        """Return whether a row has only numbers that are allowed."""
        numbers = set(map(type, row)) <= {int, float}
        return numbers and all(-LARGEST_INPUT <= value <= LARGEST_INPUT for value in row)

    def _pack_array(self, values: Array) -> bytes:
        bad = ~(np.abs(values) <= LARGEST_INPUT)
        if self.fills:
            bad &= ~np.isnan(values)
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            self._invalid_number(row, column, float(values[row, column]))
        return values.tobytes()

    def _ordered(self, row: Any, number: int) -> Any:
        """Return the values of a row in the order of the fields."""
        if isinstance(row, dict):
            if row.keys() != self.places.keys():
                raise HTTPError(422, self._names_differ(row, number))
            return [row[name] for name in self.fields]
        if len(row) != len(self.fields):
            beside = "" if self.key is None else f" beside the key {self.key!r}"
            raise HTTPError(
                422,
                f"row {number} has {len(row)} values; the model has {len(self.names)} columns"
                f"{beside}",
            )
        return row

    def _names_differ(self, row: dict[str, Any], number: int) -> str:
        missing = [name for name in self.fields if name not in row]
        if missing and missing[0] == self.key:
            return f"row {number} has no key {self.key!r}"
        if missing:
            return f"row {number} has no column {missing[0]!r} (use null for a missing value)"
        unknown = next(name for name in row if name not in self.places)
        return f"row {number} has the unknown column {unknown[:100]!r}"

    def _checked_row(self, row: Any, number: int) -> list[Any]:
        """Return the values of a row as they are packed; raise for an invalid one."""
        values = enumerate(self._ordered(row, number))
        return [self._checked(number, place, value) for place, value in values]

    def _checked(self, row: int, place: int, value: Any) -> Any:
        """Return a value as it is packed; raise if it is not of the kind of its field."""
        kind = self.field_kinds[place]
        if kind == KEY:
            return self._checked_key(row, value)
        if value != value:  # NaN in a binary tensor
            value = None
        self._check_value(row, place, value)
        if isinstance(value, int) and (kind == NUMBER or not _in_msgpack(value)):
            return str(value) if kind == CATEGORY else float(value)
        return value

    def _checked_key(self, row: int, key: Any) -> Any:
        if isinstance(key, float) and key.is_integer() and abs(key) < 2**53:
            key = int(key)
        short = isinstance(key, str) and len(key) <= 200
        whole = isinstance(key, int) and not isinstance(key, bool) and _in_msgpack(key)
        if not (short or whole):
            raise HTTPError(
                422, f"row {row}, {self.key!r}: a key must be short text or a 64-bit integer"
            )
        return key

    def _check_value(self, row: int, place: int, value: Any) -> None:
        """Check a value against the kind of its column."""
        kind, name = self.field_kinds[place], self.fields[place]
        order = self.orders[place - len(self.fields)]  # the key, which has none, comes first
        if value is None or (kind != NUMBER and is_missing_word(value)):
            if not self.fills:
                self._invalid_number(row, place, math.nan)
        elif kind == CATEGORY:
            if not isinstance(value, str | bool | int | float):
                self._wrong_kind(row, name, "text", value)
        elif kind == BOOLEAN:
            truth = as_number(value, kind) if isinstance(value, str) else value
            if truth not in (0, 1):
                self._wrong_kind(row, name, "true or false", value)
        elif kind != NUMBER and isinstance(value, str):
            number, year = as_number(value, kind, order), ""
            if kind == DATE and has_hours(np.array([number]))[0]:
                raise HTTPError(
                    422,
                    f"row {row}, column {name!r}: a date cannot have a time of day; create the "
                    "model with a column of kind time to use it",
                )
            if math.isnan(number):
                if order == ISO and kind != CLOCK:
                    year = ", with the year first (see dates)"
                raise HTTPError(422, f"row {row}, column {name!r}: not a {kind}{year}")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong_kind(row, name, "a number" if kind == NUMBER else f"a {kind}", value)
        elif not abs(value) <= LARGEST_INPUT:
            self._invalid_number(row, place, value)

    def _invalid_number(self, row: int, place: int, value: float) -> None:
        reason = "the number is too large; rescale it"
        if value != value:
            reason = "the value is missing; create the model with missing=mean to fill it in"
        raise HTTPError(422, f"row {row}, column {self.fields[place]!r}: {reason}")

    def _wrong_kind(self, row: int, name: str, wanted: str, value: Any) -> None:
        got = type(value).__name__
        raise HTTPError(422, f"row {row}, column {name!r}: expected {wanted}, got {got}")

    def keys(self, packed: bytes) -> list[Any]:
        """Return the keys of packed rows of a keyed model."""
        return [row[0] for row in unpack(packed)]

    def matrix(self, packed: bytes) -> Array:
        """Return packed rows as a matrix for the learner, without their keys."""
        if self.plain:
            return np.frombuffer(packed).reshape(-1, len(self.names)).copy()
        rows = unpack(packed)
        out = np.empty((len(rows), len(self.names)))
        first = len(self.fields) - len(self.names)
        for place, (kind, order) in enumerate(zip(self.kinds, self.orders, strict=True)):
            values = [row[first + place] for row in rows]
            if kind != NUMBER:
                values = [as_number(value, kind, order) for value in values]
            out[:, place] = np.array(values, dtype=np.float64)
        return out

    def values(self, packed: bytes) -> list[list[Any]]:
        """Return the fields of packed rows as they were sent."""
        return self.matrix(packed).tolist() if self.plain else unpack(packed)

    def split(self, packed: bytes, count: int, most: int) -> list[bytes]:
        """Split packed rows into packed pieces of at most ``most`` rows and nearly equal sizes.

        No piece has a single row: learners may predict one row otherwise than several.
        """
        pieces = -(-count // most)
        ends = [count * place // pieces for place in range(pieces + 1)]
        if self.plain:
            step = 8 * len(self.names)
            return [packed[step * a : step * b] for a, b in pairwise(ends)]
        rows = unpack(packed)
        return [pack(rows[a:b]) for a, b in pairwise(ends)]

    def explain(self, rows: Any) -> None:
        """Raise with the first invalid row and column of a body that msgspec rejected, if any."""
        if not isinstance(rows, list):
            raise HTTPError(422, "rows must be a list of rows")
        for number, row in enumerate(rows):
            if not isinstance(row, list | dict):
                raise HTTPError(422, f"row {number} must be a list of values or an object")
            self._checked_row(row, number)


# -- labels ----------------------------------------------------------------------------------------

#: Limit of labels. Learners and scores keep sums of squares of labels, and files hold numbers up to
#: 1e300. Learners accept 1e140, so that sums over 1e15 rows can be saved; labels may be centred.
LARGEST_LABEL = 4e139


def check_labels(labels: Sequence[Any], count: int, task: str) -> bytes:
    """Check and pack the labels of a request, one per row: numbers, or classes of one kind."""
    if len(labels) != count:
        raise HTTPError(422, f"labels: got {len(labels)} for {count} rows")
    if not count:
        raise HTTPError(422, "labels: at least one is required")
    if task == "regression":
        return pack([_number(value, row) for row, value in enumerate(labels)])
    found = [_class_label(value, row) for row, value in enumerate(labels)]
    first = label_kind(found[0])
    for row, value in enumerate(found):
        if label_kind(value) != first:
            raise HTTPError(422, f"row {row}, label: expected {first}, got {label_kind(value)}")
    return pack(found)


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


def targets(packed: Sequence[bytes], task: str) -> NDArray[Any]:
    """Return the labels of several requests as an array for the learner."""
    found = [label for labels in packed for label in unpack(labels)]
    return np.array(found, dtype=np.float64 if task == "regression" else None)


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


unpack_answer = msgspec.msgpack.Decoder(Answer).decode
unpack_answers = msgspec.msgpack.Decoder(list[Answer]).decode


def pack_kept(kept: Kept | None) -> bytes | None:
    """Return what a learner keeps of predictions in packed form."""
    return None if kept is None else pack([kept.meaning.to_list(), kept.values.tobytes()])


def unpack_kept(data: bytes) -> list[Line]:
    """Return what was kept of each row; raise a ValueError if it is not readable."""
    meaning, values = unpack(data)
    found = Meaning.from_list(meaning)
    kept = Kept(found, np.frombuffer(values).reshape(-1, found.header.width))
    kept.check()
    return kept.lines


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
    first = next((value for value in answer.prediction if value is not None), 0.0)
    kind = {bool: "BOOL", int: "INT64", str: "BYTES"}.get(type(first), "FP64")
    outputs = [Tensor("prediction", kind, [count], answer.prediction)]
    coverage, classes = {"coverage": spec.coverage}, answer.classes or []
    others: list[tuple[str, Any, int, dict[str, Any]]] = [
        ("probability", answer.probability, len(classes), {"classes": classes}),
        ("lower", answer.lower, 0, coverage),
        ("upper", answer.upper, 0, coverage),
        ("quantiles", answer.quantiles, len(spec.quantiles), {"levels": spec.quantiles}),
    ]
    for name, rows, width, parameters in others:
        if rows is not None:
            shape = [count, width] if width else [count]
            data = list(chain.from_iterable(rows)) if width else rows
            outputs.append(Tensor(name, "FP64", shape, data, parameters))
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
