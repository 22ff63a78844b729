"""CSV rows one by one, after Arrow refused a piece of them: the good ones, and why others are bad.

Slower than Arrow by far, so only pieces that hold a bad row come here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pronk.streams.sources.base import BAD

_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")


def lenient_rows(
    piece: bytes,
    names: Sequence[str],
    types: dict[str, pa.DataType],
    *,
    delimiter: str,
    decimal: str,
    missing: Sequence[str],
) -> pa.Table:
    """The columns of ``types``; a bad row has no values there and its reason in the column BAD."""
    csv.field_size_limit(1 << 27)
    text = io.StringIO(piece.decode("utf-8", "replace"), newline="")
    rows = [row for row in csv.reader(text, delimiter=delimiter) if row]
    reasons: list[str | None] = [
        None if len(row) == len(names) else f"has {len(row)} values instead of {len(names)}: "
        + delimiter.join(row)[:200]
        for row in rows
    ]  # fmt: skip
    columns: dict[str, Any] = {}
    gaps = set(missing)
    for name, kind in types.items():
        place, read = list(names).index(name), _reader(kind, decimal)
        values: list[Any] = []
        for i, row in enumerate(rows):
            word = row[place] if reasons[i] is None or len(row) == len(names) else ""
            try:
                values.append(None if word in gaps else read(word))
            except ValueError:
                values.append(None)
                reasons[i] = reasons[i] or f"column {name!r} has {word[:40]!r}"
        columns[name] = pa.array(values, type=kind)
    columns[BAD] = pa.array(reasons, type=pa.string())
    return pa.table(columns)


def _reader(kind: pa.DataType, decimal: str) -> Callable[[str], Any]:
    """A function from a word to a value of a type; a ValueError if it is none.

    It reads what Arrow reads: 1_0 and digits of other scripts are numbers to Python only.
    """
    if pa.types.is_floating(kind):
        return lambda word: _number(word, decimal)
    if pa.types.is_integer(kind):
        return _whole
    if pa.types.is_boolean(kind):
        return _truth
    return lambda word: word


def _number(word: str, decimal: str) -> float:
    if "_" in word or not word.isascii() or (decimal == "," and "." in word):
        raise ValueError
    return float(word.replace(decimal, "."))


def _whole(word: str) -> int:
    if "_" in word or not word.isascii():
        raise ValueError
    return int(word)


def _truth(word: str) -> bool:
    if word not in _TRUE + _FALSE:
        raise ValueError
    return word in _TRUE


def with_reasons(table: pa.Table) -> pa.Table:
    """A table of good rows with the column of reasons."""
    return table.append_column(BAD, pa.nulls(len(table), pa.string()))


def mostly_numbers(words: pa.Array, decimal: str) -> bool:
    """Whether more than half of some text reads as numbers."""
    good = total = 0
    for item in words.drop_null().value_counts().to_pylist():
        total += item["counts"]
        try:
            _number(item["values"], decimal)
        except ValueError:
            continue
        good += item["counts"]
    return 2 * good > total
