"""Read dates and times in text.

The spellings that are read:

    year first      2015-01-31, 2015/01/31, 2015.1.31
    year last       31.01.2015, 31/01/2015, 1/31/2015, 31-01-2015: day or month first
    with a name     31 Jan 2015, 31-Jan-2015, January 31, 2015 (English)
    a time after it 2015-01-31T18:30:00.5, 31.01.2015 18:30, 1/31/2015 6:30 PM
    an offset       2015-01-31T18:30:00+01:00, ..Z: the moment is converted to UTC
    a clock time    18:30, 18:30:05.5, 6:30 PM

01/02/2015 does not show whether the day or the month comes first. `decide` searches some values for
a number above 12; if there is none, dots and dashes mean that the day comes first, and slashes that
the month does. A moment without an offset is not converted. Eight digits, 20150131, are a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pronk.columns.spelling import by_word
from pronk.core.arrays import Array

TIME, DATE, CLOCK = "time", "date", "clock"
ISO, DAY_FIRST, MONTH_FIRST = "iso", "dayfirst", "monthfirst"
#: How dates with the year last are read: "iso" does not read them.
ORDERS = (ISO, DAY_FIRST, MONTH_FIRST)
#: The values of the argument ``dates``.
DATES = ("auto", *ORDERS)

#: A time of day; after a date also without colons, as ISO 8601 allows.
_HOURS = (
    r"(?P<hour>\d{1,2})(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?)?)?"
)
_HALF = r"(?: ?(?P<half>[ap]m))?"
_OFFSET = r"(?: ?(?P<offset>z|[+-]\d\d(?::?\d\d)?))?"
_AFTER = rf"(?:(?:t| +){_HOURS}{_HALF}{_OFFSET})?"
_YEAR, _DAY, _NAME = r"(?P<year>\d{4})", r"(?P<day>\d\d?)", r"(?P<name>[a-z]{3,9})"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"\s*{text}\s*", re.ASCII | re.IGNORECASE)


_YEAR_FIRST = _pattern(rf"{_YEAR}[-/.](?P<month>\d\d?)[-/.]{_DAY}{_AFTER}")
_YEAR_LAST = _pattern(rf"(?P<one>\d\d?)(?P<separator>[-/.])(?P<two>\d\d?)[-/.]{_YEAR}{_AFTER}")
_NAMED = _pattern(rf"{_DAY}(?:[- /]|\. ?){_NAME}\.?(?:[- /]|, ?){_YEAR}{_AFTER}")
_NAME_FIRST = _pattern(rf"{_NAME}\.? {_DAY},? {_YEAR}{_AFTER}")
_ALONE = _pattern(rf"(?=\d\d?:){_HOURS}{_HALF}")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
#: Microseconds that mean missing, and those of the first moment of the calendar.
_GAP, _YEAR_ONE = np.iinfo(np.int64).min, (datetime(1, 1, 1) - _EPOCH) // _MICROSECOND


class Decision(NamedTuple):
    """The kind of some text, the order of its dates, and whether the values show the order."""

    kind: str
    order: str
    shown: bool


def decide(words: pa.Array, dates: str = "auto") -> Decision | None:
    """Return the kind of some text if more than half of it is dates or times, else None."""
    words = words.drop_null()
    known = words.unique().to_pylist()
    if not known:
        return None
    order, shown = _order(known) if dates == "auto" else (dates, True)
    for kind in (TIME, CLOCK):
        found = read(words, kind, order)
        found = found[~np.isnan(found)]
        if 2 * len(found) > len(words):
            days = not (found % 86400.0).any() and not any(":" in word for word in known)
            return Decision(DATE if days and kind == TIME else kind, order, shown)
    return None


def _order(words: Sequence[str]) -> tuple[str, bool]:
    """Return whether the day or the month comes first, and whether the values show it."""
    found = [match for match in map(_YEAR_LAST.fullmatch, words) if match]
    if not found:
        return ISO, True
    days = sum(int(match["one"]) > 12 for match in found)
    months = sum(int(match["two"]) > 12 for match in found)
    if days != months:
        return (DAY_FIRST if days > months else MONTH_FIRST), True
    return (MONTH_FIRST if found[0]["separator"] == "/" else DAY_FIRST), False


def read(words: pa.Array, kind: str, order: str = ISO) -> Array:
    """Convert text to seconds since 1970 in UTC, or since midnight; NaN for other text.

    ``order`` is one of `ORDERS`.
    """
    if kind != CLOCK and not pa.types.is_dictionary(words.type):
        with suppress(pa.ArrowInvalid):  # fast, if all values have the usual spelling
            return _seconds(words.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(_GAP))
    return by_word(words, lambda word: read_one(word, kind, order), np.nan)


def read_one(word: str, kind: str, order: str = ISO) -> float:
    """Convert one value as `read` does."""
    found = _moment(word, kind, order)
    return math.nan if found == _GAP else found / 1e6


def _seconds(microseconds: pa.Array) -> Array:
    values = microseconds.to_numpy(zero_copy_only=False)
    return np.where(values < _YEAR_ONE, np.nan, values / 1e6)


def _moment(word: str, kind: str, order: str) -> int:
    """Return microseconds since 1970, or since midnight."""
    if kind == CLOCK:
        match = _ALONE.fullmatch(word)
        return _GAP if match is None else _of_day(match)
    match = _YEAR_FIRST.fullmatch(word) or _NAMED.fullmatch(word) or _NAME_FIRST.fullmatch(word)
    if match is None and order != ISO:
        match = _YEAR_LAST.fullmatch(word)
    if match is None:
        return _GAP
    parts = match.groupdict()
    month, day = parts.get("month"), parts.get("day")
    if "one" in parts:
        day, month = (parts["one"], parts["two"])[:: -1 if order == MONTH_FIRST else 1]
    try:
        if "name" in parts:
            month = _MONTHS.index(parts["name"][:3].lower()) + 1
        date = datetime(int(parts["year"]), int(month), int(day))  # type: ignore[arg-type]
    except ValueError:  # no such day or month
        return _GAP
    of_day = 0 if parts["hour"] is None else _of_day(match)
    return _GAP if of_day == _GAP else (date - _EPOCH) // _MICROSECOND + of_day


def _of_day(match: re.Match[str]) -> int:
    """Return microseconds since midnight, in UTC if there is an offset; _GAP if impossible."""
    parts = match.groupdict("")
    hour, half = int(parts["hour"]), parts["half"].lower()
    minute, second = (int(parts[name] or 0) for name in ("minute", "second"))
    if minute > 59 or second > 59 or not (1 <= hour <= 12 if half else hour <= 23):
        return _GAP
    hour = hour % 12 + 12 * (half == "pm") if half else hour
    part = int(parts["part"].ljust(6, "0")[:6] or 0)
    offset = parts.get("offset", "").replace(":", "")
    if offset not in ("", "z", "Z"):
        sign = -1 if offset[0] == "-" else 1
        hour, minute = hour - sign * int(offset[1:3]), minute - sign * int(offset[3:] or 0)
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + part
