"""Values of any origin as NumPy's numbers: those of files, frames, Python lists and JSON.

What a column holds is its kind: a number, true or false, a category, a point in time, a date (a
point in time without an hour), or a clock time (of any day). All values pass through here as Arrow
arrays, so that a value is the same wherever it comes from:

    boolean     1 or 0; also from the words true and false
    category    a number that stands for its text; 1, 1.0, "1" and "1.0" are the category "1", and
                True, "True" and "true" the category "true"; "01" is another one than "1"
    time        seconds since 1970, or since midnight. A moment with an offset or a time zone is
                converted to UTC, one without is taken as it stands. Text: `pronk.data.dates`.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from pronk.core.checks import no_label
from pronk.data.dates import CLOCK, DATE, ISO, TIME, read, read_one
from pronk.data.errors import StreamError
from pronk.data.source import BAD

Array = NDArray[np.float64]

NUMBER, BOOLEAN, CATEGORY = "number", "boolean", "category"
KINDS = (NUMBER, BOOLEAN, CATEGORY, TIME, DATE, CLOCK)
#: Kinds whose values are numbers as they are.
NUMERIC = (NUMBER, BOOLEAN)
#: Text that reads as a number, without zeros in front: those of 007 mean something.
_NUMERAL = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_TRUTHS = {"true": "true", "True": "true", "TRUE": "true"}
_TRUTHS |= {"false": "false", "False": "false", "FALSE": "false"}


def kind_of(type_: pa.DataType) -> str:
    """The kind of a column of a type, if nobody says otherwise: text is categories."""
    if pa.types.is_timestamp(type_):
        return TIME
    if pa.types.is_date(type_):
        return DATE
    if pa.types.is_time(type_):
        return CLOCK
    if pa.types.is_boolean(type_):
        return BOOLEAN
    return NUMBER if is_number(type_) or pa.types.is_duration(type_) else CATEGORY


def as_numbers(values: pa.Array, kind: str, order: str = ISO) -> Array:
    """A column of a kind as float64; what is missing is NaN, and a time that cannot be read.

    ``order`` says how dates with the year last are read, see `pronk.data.dates`.
    """
    if kind == CATEGORY:
        return codes(values)
    if kind == BOOLEAN:
        return truths(values)
    if kind != NUMBER and is_text(values.type):
        return read(values, kind, order)
    if kind == NUMBER and not pa.types.is_temporal(values.type):
        return numbers(values)
    return seconds(values)


def as_number(value: Any, kind: str, order: str = ISO) -> float:
    """One Python value, as JSON has it, as `as_numbers` makes it; numbers of times are seconds."""
    if value is None:
        return math.nan
    if kind == CATEGORY:
        return code(value if isinstance(value, str) else str(value))
    if isinstance(value, str):
        if kind == BOOLEAN:
            return {"true": 1.0, "false": 0.0}.get(_TRUTHS.get(value, value), math.nan)
        return read_one(value, kind, order)
    return float(value)


def truths(values: pa.Array) -> Array:
    """True or false as 1 or 0; an ArrowInvalid for what is neither."""
    if is_text(values.type):
        words = [None if w is None else _TRUTHS.get(w, w) for w in values.to_pylist()]
        values = pa.array(words, pa.string()).cast(pa.bool_())
    found = numbers(values)
    if not (np.isnan(found) | (found == 0.0) | (found == 1.0)).all():
        raise pa.ArrowInvalid("not true or false")
    return found


def seconds(values: pa.Array) -> Array:
    """Times as seconds since 1970 in UTC, clock times since midnight."""
    kind = values.type
    if pa.types.is_null(kind):
        return numbers(values)
    if pa.types.is_date32(kind):
        return numbers(values.cast(pa.int32())) * 86400.0
    if pa.types.is_date64(kind):
        return numbers(values.cast(pa.int64())) / 1e3
    whole, unit = values.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()), kind.unit
    if unit == "ns":  # as float64 they would be less exact than microseconds
        whole, unit = compute.divide(whole, 1000), "us"
    return numbers(whole) / {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers, or can be."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)  # a CSV column that starts empty
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text, also as a dictionary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_time(kind: pa.DataType) -> bool:
    """Whether values of a type are dates, times or durations."""
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def in_words(kind: pa.DataType) -> str:
    """A type in plain words."""
    if is_text(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_temporal(kind):
        return "a date or time"
    return f"of type {kind}"


def reads_as_number(value: Any) -> bool:
    """Whether a value is a number, text that reads as one, or missing."""
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def as_types(batch: pa.RecordBatch, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """A batch with the columns and types asked for, which sources of several files may lack."""
    if batch.schema.names == list(types) and batch.schema.types == list(types.values()):
        return batch
    columns = []
    for name, kind in types.items():
        if name == BAD and batch.schema.get_field_index(name) < 0:
            columns.append(pa.nulls(batch.num_rows, kind))
            continue
        if batch.schema.get_field_index(name) < 0:
            raise StreamError(f"a file has no column {name!r}, as the files before it")
        column = batch.column(name)
        if kind == pa.float64() and column.type != kind:
            column = column.cast(kind, safe=False)
        columns.append(column if column.type == kind else column.cast(kind))
    return pa.record_batch(columns, names=list(types))


def codes(values: pa.Array) -> Array:
    """Categories as whole numbers below 2^52 that stand for their text; what is missing is NaN."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    words = values.dictionary.cast(pa.string()).to_pylist()
    numbers = np.array([np.nan, *(np.nan if word is None else code(word) for word in words)])
    return numbers[values.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1]


@lru_cache(maxsize=1 << 16)
def code(category: str) -> float:
    """The number of a category, the same on every machine: 52 bits of a hash of its text."""
    digest = hashlib.blake2b(_spelled(category).encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> 12)


def _spelled(word: str) -> str:
    """A category in its one spelling: 1 for 1.0, true for True."""
    match = _NUMERAL.fullmatch(word)
    if match is None:
        return _TRUTHS.get(word, word)
    if match[1] is None and match[2] is None:
        return "0" if word == "-0" else word
    value = float(word)
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


def column_of(values: Sequence[Any]) -> pa.Array:
    """Python values as an Arrow column; values of several types as their text."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def numbers(values: pa.Array) -> Array:
    """As float64; what is missing is NaN."""
    result: Array = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return result


def labels(values: pa.Array) -> NDArray[Any]:
    """Text, booleans or numbers; where some are missing, objects with None."""
    y = _filled(values)
    missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if missing.any():
        y = y.astype(object)
        y[missing] = None
    return y


def _filled(values: pa.Array) -> NDArray[Any]:
    """Labels, where a missing one is some value of the same type."""
    if is_text(values.type):
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        words = np.array(["", *values.dictionary.to_pylist()], dtype=np.str_)
        return words[values.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1]
    if pa.types.is_boolean(values.type):
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))
    if pa.types.is_integer(values.type):
        return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    return numbers(values)


# ----------------------------------------------------------------------------------------
# Single rows as numbers without Arrow: what a loop hands over, one event at a time.
#
# A table is made for thousands of rows; for one row its construction costs more than the learner.
# Here every cell of a row is read by its Python type. Only types whose number is beyond doubt are
# read, to the same bits as in a table; for everything else the functions return None, and the row
# goes through a table as any frame does, which also names what is wrong with it.

_NUMBERS = (float, int, bool, np.float64, np.int64, np.bool_)
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
_DAY = 86400.0


def row_of_frame(
    X: Any, names: tuple[str, ...] | None, kinds: Sequence[str], orders: Sequence[str]
) -> Array | None:
    """The one row of a pandas or polars frame, (1, columns); None if it needs a table."""
    pandas = hasattr(X, "iloc")
    if names is None or not (pandas or hasattr(X, "to_arrow")) or X.shape[0] != 1:
        return None
    found = X.columns.tolist() if pandas else X.columns
    if len(set(found)) < len(found) or not set(found).issuperset(names):
        return None
    values = X.iloc[0].tolist() if pandas else X.row(0)
    if found == list(names):
        return _numbers(values, kinds, orders)
    return row_of_dict(dict(zip(found, values, strict=True)), names, kinds, orders)


def row_of_dict(
    x: Mapping[str, Any], names: Sequence[str], kinds: Sequence[str], orders: Sequence[str]
) -> Array | None:
    """A row given as a dict, (1, columns), where an absent name is missing; None as above."""
    return _numbers([x.get(name) for name in names], kinds, orders)


def _numbers(values: Sequence[Any], kinds: Sequence[str], orders: Sequence[str]) -> Array | None:
    row = np.empty((1, len(kinds)))
    for j, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        number = _number(value, kind, orders[j])
        if number is None:
            return None
        row[0, j] = number
    return row


def _number(value: Any, kind: str, order: str) -> float | None:
    """The number of a cell in a column of a kind; None if only a table can tell."""
    if no_label(value):
        return math.nan
    if kind == NUMBER:
        whole = isinstance(value, int) and not -(2**63) <= value < 2**63
        return float(value) if type(value) in _NUMBERS and not whole else None
    if kind == BOOLEAN:
        return float(value) if type(value) in (bool, np.bool_) else None
    if kind == CATEGORY:
        rounded = type(value) is float and abs(value) >= 2**53  # perhaps a whole number, by pandas
        known = type(value) in (str, int, float, bool) and not rounded
        return as_number(value, kind) if known else None
    if type(value) is str:
        found = read_one(value, kind, order)
        return None if math.isnan(found) else found
    if kind == CLOCK:
        return _clock(value) if type(value) is datetime.time and value.tzinfo is None else None
    if type(value) is datetime.date:
        return (value.toordinal() - _FIRST_DAY) * _DAY
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return _moment(value)
    return None


def _moment(value: Any) -> float | None:
    """Seconds since 1970 of a datetime, or of a pandas Timestamp, which counts nanoseconds."""
    if hasattr(value, "unit"):
        return float(value.value // 1000) / 1e6 if value.value >= 0 else None
    days = value.toordinal() - _FIRST_DAY
    return float((days * 86400 + _second(value)) * 10**6 + value.microsecond) / 1e6


def _clock(value: datetime.time) -> float:
    return float(_second(value) * 10**6 + value.microsecond) / 1e6


def _second(value: Any) -> int:
    return (int(value.hour) * 60 + int(value.minute)) * 60 + int(value.second)
