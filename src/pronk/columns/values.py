"""Convert values of any origin to numbers: those of files, frames, Python lists and JSON.

This module and `pronk.columns.dates` are the only places that decide what a value means. Readers of
files, frames and the service call them, so that a value is the same wherever it comes from. The
kind of a column is one of:

    number      a number; as text also an amount, as $1,234.50 (`pronk.columns.spelling`)
    boolean     1 or 0; as text one of true, True, TRUE, 1, false, False, FALSE, 0
    category    a number computed from the text of the category; 1, 1.0, "1" and "1.0" are the
                category "1", and True, "True" and "true" the category "true"; "01" is another one.
                Composed and decomposed accents are the same (NFC)
    time        seconds since 1970. A moment with an offset or a time zone is converted to UTC, one
                without is not converted. Spellings in text: `pronk.columns.dates`.
    date        a time without a time of day
    clock       a time of any day, in seconds since midnight

A missing value is NaN: None, a null, NaN, and in columns of every kind the text in
`MISSING_WORDS`, which are the empty text, NA, N/A, NULL, nan and the like. The rule is the same for
CSV files, where these words are the only way to write a missing value, for other files, for frames
and for JSON: a model that was trained on a CSV file and is then given frames or requests sees the
same values. A category that is spelled like one of these words must be renamed. Labels are not
converted: a label is missing where its file or array has no value.

A number in a column of times is its seconds, in arrays, frames, files and JSON. An array of numbers
has the code of a category (`code`), as `FileStream` returns it.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from pronk.columns.dates import CLOCK, DATE, ISO, TIME, read, read_one
from pronk.columns.spelling import by_word, loosely, number_of, numbers_in_text
from pronk.core.arrays import Array
from pronk.core.checks import no_label

NUMBER, BOOLEAN, CATEGORY = "number", "boolean", "category"
KINDS = (NUMBER, BOOLEAN, CATEGORY, TIME, DATE, CLOCK)
#: Kinds whose values are numbers.
NUMERIC = (NUMBER, BOOLEAN)
#: Text that means missing: the words that Arrow and pandas read as missing in CSV files.
MISSING_WORDS = frozenset(
    {"", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NULL", "null"}
    | {"NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
#: The spelling of categories that are the words true or false.
_TRUTHS = {"true": "true", "True": "true", "TRUE": "true"}
_TRUTHS |= {"false": "false", "False": "false", "FALSE": "false"}
#: Text in a boolean column.
_BOOLEANS = {word: spelling == "true" for word, spelling in _TRUTHS.items()}
_BOOLEANS |= {"1": True, "0": False}
#: Text that reads as a number, without leading zeros: those of 007 have a meaning.
_NUMERAL = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)


# -- columns -------------------------------------------------------------------------------------


def kind_of(type_: pa.DataType) -> str:
    """Return the kind of a column by its type; text is categories."""
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
    """Convert a column of a kind to float64; missing values and unreadable times are NaN.

    ``order`` is how dates with the year last are read, see `pronk.columns.dates`.
    """
    if kind == CATEGORY:
        return codes(values)
    if kind == BOOLEAN:
        return truths(values)
    values = _with_nulls(values) if is_text(values.type) else values
    if kind == NUMBER and is_text(values.type):
        return numbers(numbers_in_text(values)[0])
    if kind == NUMBER and not pa.types.is_temporal(values.type):
        return numbers(values)
    if is_text(values.type):
        return read(values, kind, order)
    if is_number(values.type) and not pa.types.is_boolean(values.type):
        return numbers(values)  # of seconds
    return seconds(values)


def truths(values: pa.Array) -> Array:
    """Convert true and false to 1 and 0; raise ArrowInvalid for other values."""

    def truth(word: str) -> float:
        return math.nan if word in MISSING_WORDS else _BOOLEANS.get(word, math.inf)

    found = by_word(values, truth, math.nan) if is_text(values.type) else numbers(values)
    if not (np.isnan(found) | (found == 0.0) | (found == 1.0)).all():
        raise pa.ArrowInvalid("not true or false")
    return found


def seconds(values: pa.Array) -> Array:
    """Convert times to seconds since 1970 in UTC, clock times to seconds since midnight."""
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


def codes(values: pa.Array) -> Array:
    """Convert categories to their codes (`code`); missing values are NaN."""
    return by_word(values, lambda word: np.nan if word in MISSING_WORDS else code(word), np.nan)


def numbers(values: pa.Array) -> Array:
    """Convert a column to float64; missing values are NaN."""
    result: Array = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return result


def labels(values: pa.Array) -> NDArray[Any]:
    """Convert labels to an array of text, booleans or numbers; of objects if some are None."""
    y = _filled(values)
    missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if missing.any():
        y = y.astype(object)
        y[missing] = None
    return y


def _filled(values: pa.Array) -> NDArray[Any]:
    """Return labels, with some value of the same type for a missing one."""
    if is_text(values.type):
        return by_word(values, str, "")
    if pa.types.is_boolean(values.type):
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))
    if pa.types.is_integer(values.type):
        return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    return numbers(values)


def column_of(values: Sequence[Any]) -> pa.Array:
    """Return Python values as an Arrow column; values of several types as their text."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


# -- missing values ------------------------------------------------------------------------------


def is_missing_word(value: Any) -> bool:
    """Return whether one value is None or text that means missing."""
    return value is None or (isinstance(value, str) and value in MISSING_WORDS)


def present(words: pa.Array) -> pa.Array:
    """Return a column of text without its missing values."""
    return words.filter(compute.invert(_missing(words)))


def unread(values: pa.Array, numbers: Array) -> NDArray[np.bool_]:
    """Return which values of a column are text that its conversion to numbers did not read."""
    gaps = np.isnan(numbers)
    if not is_text(values.type) or not gaps.any():
        return np.zeros(len(numbers), dtype=bool)
    missing: NDArray[np.bool_] = _missing(values).to_numpy(zero_copy_only=False)
    return gaps & ~missing


def has_hours(numbers: Array) -> NDArray[np.bool_]:
    """Return which times, in seconds since 1970, have a time of day."""
    return ~np.isnan(numbers) & (np.where(np.isnan(numbers), 0.0, numbers) % _DAY != 0.0)


def _missing(values: pa.Array) -> pa.Array:
    if not is_text(values.type):
        return values.is_null(nan_is_null=True)
    values = _as_text(values)
    words = pa.array(sorted(MISSING_WORDS), values.type)
    return compute.or_(values.is_null(), compute.is_in(values, value_set=words))


def _with_nulls(values: pa.Array) -> pa.Array:
    """Return a column of text with null for words that mean missing."""
    values = _as_text(values)
    # Not `if_else`, which reads other bytes of a slice in PyArrow 19 to 22.
    return compute.replace_with_mask(values, _missing(values), pa.scalar(None, values.type))


def _as_text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values


# -- single values -------------------------------------------------------------------------------


def as_number(value: Any, kind: str, order: str = ISO) -> float:
    """Convert one Python value, as JSON has it, as `as_numbers` does; NaN for unreadable text."""
    if is_missing_word(value):
        return math.nan
    if kind == CATEGORY:
        return code(value if isinstance(value, str) else str(value))
    if not isinstance(value, str):
        return float(value)
    if kind == BOOLEAN:
        return float(_BOOLEANS.get(value, math.nan))
    if kind == NUMBER:
        try:
            return loosely(value)
        except ValueError:
            return math.nan
    return read_one(value, kind, order)


def word_reader(type_: pa.DataType, decimal: str, loose: bool = False) -> Callable[[str], Any]:
    """Return the function that reads one word as a value of a type; it raises ValueError.

    It reads what Arrow reads: 1_0 and digits of other scripts are numbers only to Python. With
    ``loose`` it also reads amounts, see `pronk.columns.spelling`.
    """
    if pa.types.is_floating(type_):
        return lambda word: (loosely if loose else number_of)(word, decimal)
    if pa.types.is_integer(type_):
        return _whole
    if pa.types.is_boolean(type_):
        return _truth
    return lambda word: word


def _whole(word: str) -> int:
    if "_" in word or "+" in word or not word.isascii():
        raise ValueError(word)
    return int(word)


def _truth(word: str) -> bool:
    if word not in _BOOLEANS:
        raise ValueError(word)
    return _BOOLEANS[word]


def reads_as_number(value: Any) -> bool:
    """Return whether a value is a number, text that spells one, or missing."""
    try:
        number_of(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def spelled_numbers(words: Iterable[str], decimal: str) -> set[float]:
    """Return the numbers that some words spell; other words are left out."""
    found = set()
    for word in words:
        try:
            found.add(number_of(word, decimal))
        except ValueError:
            continue
    return found


def without_numbers(column: pa.ChunkedArray, numbers: set[float], decimal: str) -> pa.ChunkedArray:
    """Return a column of a CSV file without some numbers, and without text that spells them."""
    type_ = column.type
    if is_text(type_):
        words = column.drop_null().unique().to_pylist()
        found = [word for word in words if spelled_numbers([word], decimal) & numbers]
        gaps = compute.is_in(column, pa.array(found, type_))
    elif pa.types.is_floating(type_) or pa.types.is_integer(type_):
        values = compute.cast(column, pa.float64(), safe=False)
        gaps = compute.is_in(values, pa.array(sorted(numbers)))
    else:
        return column
    return compute.if_else(gaps, pa.scalar(None, type_), column)


@lru_cache(maxsize=1 << 16)
def code(category: str) -> float:
    """Return the number of a category, 52 bits of a hash of its text: the same on every machine."""
    digest = hashlib.blake2b(spelled(category).encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> 12)


def spelled(word: str) -> str:
    """Return the one spelling of a category: 1 for 1.0, true for True, composed accents (NFC)."""
    word = unicodedata.normalize("NFC", word)
    match = _NUMERAL.fullmatch(word)
    if match is None:
        return _TRUTHS.get(word, word)
    if match[1] is None and match[2] is None:
        return "0" if word == "-0" else word
    value = float(word)
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


# -- types ---------------------------------------------------------------------------------------


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers, or can be."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)  # a CSV column that starts empty
    )


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are text, also as a dictionary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_time(kind: pa.DataType) -> bool:
    """Return whether values of a type are dates, times or durations."""
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def in_words(kind: pa.DataType) -> str:
    """Describe a type in words, for messages."""
    if is_text(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_temporal(kind):
        return "a date or time"
    return f"of type {kind}"


# -- single rows ---------------------------------------------------------------------------------
#
# For one row, building a table costs more than the learner. These functions read every cell by its
# Python type, for types whose number is beyond doubt, to the same bits as in a table. They return
# None for everything else: the row then goes through a table, which also names what is wrong.

_NUMBERS = (float, int, bool, np.float64, np.int64, np.bool_)
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86400.0


def row_of_frame(
    X: Any, names: tuple[str, ...] | None, kinds: Sequence[str], orders: Sequence[str]
) -> Array | None:
    """Return the one row of a pandas or polars frame, (1, columns); None if it needs a table."""
    pandas = hasattr(X, "iloc")
    if names is None or not (pandas or hasattr(X, "to_arrow")) or X.shape[0] != 1:
        return None
    found = X.columns.tolist() if pandas else X.columns
    if len(set(found)) < len(found) or not set(found).issuperset(names):
        return None
    values = X.iloc[0].tolist() if pandas else X.row(0)
    if found == list(names):
        return _row(values, kinds, orders)
    return row_of_dict(dict(zip(found, values, strict=True)), names, kinds, orders)


def row_of_dict(
    x: Mapping[str, Any], names: Sequence[str], kinds: Sequence[str], orders: Sequence[str]
) -> Array | None:
    """Return a row given as a dict, (1, columns); absent names are missing, None as above."""
    return _row([x.get(name) for name in names], kinds, orders)


def _row(values: Sequence[Any], kinds: Sequence[str], orders: Sequence[str]) -> Array | None:
    row = np.empty((1, len(kinds)))
    for j, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        number = _cell(value, kind, orders[j])
        if number is None:
            return None
        row[0, j] = number
    return row


def _cell(value: Any, kind: str, order: str) -> float | None:
    """Return the number of a cell in a column of a kind; None if it needs a table."""
    if no_label(value) or is_missing_word(value):
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
    found = _seconds_of(value, kind, order)
    if found is None or math.isnan(found) or (kind == DATE and found % _DAY):
        return None  # a table warns of what is not read or not used
    return found


def _seconds_of(value: Any, kind: str, order: str) -> float | None:
    """Return the seconds of a moment, a day or a time of day without a time zone."""
    if type(value) is str:
        return read_one(value, kind, order)
    if type(value) in (float, np.float64) or (type(value) is int and abs(value) < 2**53):
        return float(value)
    if kind == CLOCK and type(value) is datetime.time:
        value = datetime.datetime.combine(_EPOCH, value)
    elif kind == CLOCK:
        return None
    elif type(value) is datetime.date:
        value = datetime.datetime.combine(value, datetime.time())
    exact = isinstance(value, datetime.datetime) and not getattr(value, "nanosecond", False)
    if not exact or value.tzinfo is not None:
        return None
    return float((value - _EPOCH) // datetime.timedelta(microseconds=1)) / 1e6
