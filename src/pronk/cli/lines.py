"""Rows as lines of CSV or NDJSON that are safe to open and to print.

A spreadsheet takes a cell that begins with = + - @ for a formula and runs it, and a terminal obeys
control characters. So in CSV a text that can do something as a formula gets an apostrophe in front,
which spreadsheets hide: one that begins with =, or with + - @ and calls a function, another program
or another file, which needs one of ( | ! [. Labels such as "+", "--" or "-inf" stay as they are.
Control characters become U+FFFD; line ends and tabs stay, in quotes. NDJSON escapes them by its own
rules and changes nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from pronk.evaluate.plain_json import finite

#: What a spreadsheet would run; it drops a tab or a line's end before a formula.
_FORMULA = r"(?s)^[\t\r]|^=.*[^=+\-@]|^[+\-@].*[(|!\[]"
#: Control characters that no cell needs.
_CONTROL = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]"


def csv_lines(batch: pa.RecordBatch, header: bool) -> bytes:
    """Rows as CSV."""
    columns = [_harmless(column) for column in batch.columns]
    names = [harmless_text(name) for name in batch.schema.names]
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(
        pa.record_batch(columns, names=names), sink, arrow_csv.WriteOptions(include_header=header)
    )
    return bytes(sink.getvalue().to_pybytes())


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Rows as one JSON object a line; dates as text."""
    lines = (json.dumps(finite(row), default=str) for row in batch.to_pylist())
    return b"".join(line.encode() + b"\n" for line in lines)


def harmless_text(text: str) -> str:
    """One cell."""
    text = re.sub(_CONTROL, "\ufffd", text)
    if re.match(_FORMULA, text):
        return "'" + text
    return text


def _harmless(column: pa.Array) -> pa.Array:
    """A column of cells; only text can do harm."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    plain = pc.match_substring_regex(column, "[^\\x20-\\x7e\\n\\r\\t\\x{a0}-\\x{10ffff}]")
    risky = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(pc.or_(plain, risky)).as_py():
        return column
    cells: list[Any] = column.to_pylist()
    return pa.array([None if c is None else harmless_text(c) for c in cells], type=column.type)
