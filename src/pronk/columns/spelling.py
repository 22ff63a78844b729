"""Read numbers as people and spreadsheets write them.

    1,234.50    thousands separators: a comma, a space, an apostrophe; a point with decimal commas
    $12  12 €   an amount of money, before or after it the sign or the code of its currency
    (12)        a negative amount
    8.5%        8.5: the unit of a column is that of its values

`number_of` reads what Arrow reads; `loosely` reads the spellings above too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_CURRENCY = r"(?:[$€£¥₹₩]|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)"
_UNIT = rf"(?:\s*(?:{_CURRENCY}|%))?"
_EXPONENT = r"(?:[eE][-+]?\d+)?"


def _amount(thousands: str, decimal: str) -> re.Pattern[str]:
    whole = rf"(?:\d{{1,3}}(?:[{thousands}]\d{{3}})+|\d+)"
    number = rf"(?:{whole}(?:{decimal}\d*)?|{decimal}\d+){_EXPONENT}"
    return re.compile(
        rf"(?P<sign>[-+]?)\s*{_CURRENCY}?\s*(?P<second>[-+]?)(?P<number>{number}){_UNIT}", re.ASCII
    )


_AMOUNTS = {".": _amount(r", '\u2019\u202f\xa0", r"\."), ",": _amount(r". '\u2019\u202f\xa0", ",")}
#: A number and a unit.
_MEASURED = re.compile(r"\s*(?P<number>[^a-zA-Z]*\d)\s*(?P<unit>[^\W\d_][^\s]{0,9}|°[CF]?)\s*")
#: Words in a column of numbers or dates that stand before the sums under a table.
_TOTALS = frozenset({"total", "totals", "grand total", "subtotal", "sum", "average", "mean"})


def number_of(word: str, decimal: str = ".") -> float:
    """Return the number that a word spells; raise ValueError if it spells none."""
    if "_" in word or not word.isascii() or (decimal == "," and "." in word):
        raise ValueError(word)
    return float(word.replace(decimal, "."))


def loosely(word: str, decimal: str = ".") -> float:
    """Return the number that a word spells in some way; raise ValueError if it spells none."""
    try:
        return number_of(word, decimal)
    except ValueError:
        text = word.strip().replace("\u2212", "-")
    negative = text.startswith("(") and text.endswith(")")
    found = _AMOUNTS[decimal].fullmatch(text[1:-1] if negative else text)
    if found is None or (found["sign"] and found["second"]):
        raise ValueError(word)
    digits = re.sub(r"[^0-9eE.,+-]", "", found["number"])
    digits = digits.replace("," if decimal == "." else ".", "").replace(decimal, ".")
    value = float(digits)
    return -value if negative or "-" in (found["sign"], found["second"]) else value


def is_amount(word: str) -> bool:
    """Return whether a word is a number in a spelling of people, not of programs."""
    try:
        number_of(word)
        return False
    except ValueError:
        pass
    try:
        loosely(word)
    except ValueError:
        return False
    return True


def unit_of(words: Iterable[str], decimal: str = ".") -> str | None:
    """Return the unit that all words have behind a number, as kg in "12.5 kg"; None if none."""
    units = set()
    for word in words:
        found = _MEASURED.fullmatch(word)
        try:
            loosely(found["number"] if found else "", decimal)
        except ValueError:
            return None
        units.add(found["unit"] if found else "")
    return units.pop() if len(units) == 1 else None


def is_total(word: Any) -> bool:
    """Return whether a word stands before the sums under a table."""
    return isinstance(word, str) and word.strip().rstrip(":").lower() in _TOTALS


def read_each(
    words: pa.Array, read: Callable[[str], Any], type_: pa.DataType
) -> tuple[pa.Array, pa.Array]:
    """Return what a function reads in each word, null for others; and which words those are.

    The function raises ValueError for a word that it cannot read.
    """
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    if not pa.types.is_dictionary(words.type):
        words = words.dictionary_encode()
    values: list[Any] = []
    for word in words.dictionary.to_pylist():
        try:
            values.append(None if word is None else read(word))
        except ValueError:
            values.append(None)
    found = pa.array(values, type_).take(words.indices)
    unread = pa.array([value is None for value in values], pa.bool_()).take(words.indices)
    return found, unread.fill_null(False)


def by_word(words: pa.Array, read: Callable[[str], Any], missing: Any) -> NDArray[Any]:
    """Return what a function makes of each word, and a value for missing ones."""
    if not pa.types.is_dictionary(words.type):
        words = words.dictionary_encode()
    distinct = words.dictionary.cast(pa.string()).to_pylist()
    known = [missing if word is None else read(word) for word in distinct]
    return np.array([*known, missing])[
        words.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    ]


def numbers_in_text(words: pa.Array, decimal: str = ".") -> tuple[pa.Array, pa.Array]:
    """Return the numbers that words spell, null for others; and which words spell none."""
    return read_each(words, lambda word: loosely(word, decimal), pa.float64())


def mostly_numbers(words: pa.Array, decimal: str, share: float) -> bool:
    """Return whether more than a share of some words spell numbers.

    More than half are enough if all others are the same word, which then means missing.
    """
    known = words.drop_null()
    _, unread = numbers_in_text(known, decimal)
    others = sum(unread.to_pylist())
    if others and len(known.filter(unread).unique()) == 1:
        share = 0.5
    return bool(len(unread)) and others < (1.0 - share) * len(unread)
