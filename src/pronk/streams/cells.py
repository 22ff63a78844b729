"""Single rows as numbers without Arrow: what a loop hands over, one event at a time.

A table is made for thousands of rows; for one row its construction costs more than the learner.
Here every cell of a row is read by its Python type. Only types whose number is beyond doubt are
read, to the same bits as in a table; for everything else the functions return None, and the row
goes through a table as any frame does, which also names what is wrong with it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.parts.missing import no_label
from pronk.streams.dates import CLOCK, read_one
from pronk.streams.values import BOOLEAN, CATEGORY, NUMBER, as_number

Array = NDArray[np.float64]

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
