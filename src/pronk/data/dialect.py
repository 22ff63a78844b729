"""Find how a text file is written: encoding, delimiter, decimal mark, comments, line ends.

The start of the file decides. A delimiter fits if it splits the lines into equally many values, as
many as the header has, and more than one; of several that fit, the one with most values is right.
What a user gives is not questioned.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pronk.columns.values import reads_as_number
from pronk.data.errors import argument

#: Lines of the start that are looked at.
LINES = 100
#: The delimiters that are looked for; runs of spaces come last.
DELIMITERS = (",", ";", "\t", "|")
SPACES = " "
#: The share of the lines that a delimiter has to split into equally many values.
_MOST = 0.9

_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+(?:[eE][-+]?\d+)?")
_POINT = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)\.\d+(?:[eE][-+]?\d+)?")
#: The line by which Excel names the delimiter.
_EXCEL = re.compile(r'"?sep=([^"\s]|\t)"?')
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+")


@dataclass(frozen=True)
class Dialect:
    """How the rows of a CSV file are written.

    ``comments`` is whether lines that begin with # are left out, ``header`` whether the last of
    those at the top has the names of the columns, ``returns`` whether lines end in a carriage
    return alone, ``excel`` whether the first line is Excel's ``sep=;``, which is left out.
    """

    delimiter: str = ","
    decimal: str = "."
    comments: bool = False
    header: bool = False
    returns: bool = False
    excel: bool = False

    def cleaner(self) -> Callable[[], Callable[[bytes], bytes]] | None:
        """Return a function that begins to clean a file, or None if its text is used as it is."""
        if not (self.comments or self.returns or self.excel or self.delimiter == SPACES):
            return None
        return self._cleaner

    def _cleaner(self) -> Callable[[bytes], bytes]:
        """Return a function that turns whole lines of a file into lines of plain CSV, in order."""
        without_comments, first = _without_comments(self.header), self.excel

        def clean(text: bytes) -> bytes:
            nonlocal first
            lines = (text.replace(b"\r", b"\n") if self.returns else text).split(b"\n")
            if first:
                lines, first = lines[1:], False
            if self.comments:
                lines = without_comments(lines)
            if self.delimiter == SPACES:
                lines = [b" ".join(line.split()) for line in lines]
            return b"\n".join(lines)

        return clean

    def notes(self) -> list[str]:
        """Return what was found, if it is not what a CSV file usually has."""
        found: list[str] = []
        if self.delimiter != ",":
            names = {"\t": "tabs", SPACES: "runs of spaces"}
            found.append(f"columns separated by {names.get(self.delimiter, repr(self.delimiter))}")
        if self.decimal == ",":
            found.append("decimal commas")
        if self.comments:
            found.append("lines of comments that begin with #")
        if self.returns:
            found.append("lines that end in a carriage return")
        return [f"the file has {' and '.join(found)}"] if found else []


def _without_comments(header: bool) -> Callable[[list[bytes]], list[bytes]]:
    """Return a function that drops comments of lines; but with ``header`` the last at the top."""
    top: list[bytes] | None = [] if header else None

    def clean(lines: list[bytes]) -> list[bytes]:
        nonlocal top
        kept = []
        for line in lines:
            if not line.startswith(b"#"):
                if top and line.strip():  # the last comment before the rows
                    kept.append(top[-1].lstrip(b"# \t"))
                    top = None
                kept.append(line)
            elif top is not None:
                top = [line]
        return kept

    return clean


def charset_of(start: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8: Windows' Latin alphabet, or Latin-1.

    None if it is UTF-8, or no text at all.
    """
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
        return None
    except UnicodeDecodeError:
        if b"\0" in start:
            return None
    try:
        start.decode("cp1252")
        return "cp1252"
    except UnicodeDecodeError:
        return "latin-1"


def dialect_of(
    start: bytes, delimiter: str | None = None, decimal: str | None = None, *, header: bool = True
) -> Dialect:
    """Return how a file is written, by its start in UTF-8; what is given stays as it is."""
    text = start.decode("utf-8", "replace").removeprefix("\ufeff")
    returns = "\r" in text and "\n" not in text
    whole = re.split(r"\r\n|\n|\r" if not returns else r"\r", text)
    lines = [line for line in whole[:-1] or whole if line.strip()][:LINES]
    excel = _EXCEL.fullmatch(lines[0]) if lines else None
    if excel is not None:
        delimiter, lines = delimiter or excel[1], lines[1:]
    comments = bool(lines) and lines[0].startswith("#")
    top = [line for line in lines if line.startswith("#")]
    rows = [line for line in lines if not (comments and line.startswith("#"))]
    found = delimiter or _delimiter(rows, decimal)
    named = comments and header and _is_header(top[-1].lstrip("# \t"), rows, found)
    if decimal is None:
        decimal = _decimal(_cells(rows[0 if named else 1 :], found), found)
    return Dialect(found, decimal, comments, named, returns, excel is not None)


def _delimiter(rows: list[str], decimal: str | None) -> str:
    usual = ";" if decimal == "," else ","
    best, most = usual, 1
    for candidate in (*DELIMITERS, SPACES):
        if candidate == decimal:
            continue
        counts = [len(cells) for cells in _cells(rows, candidate)]
        if not counts or counts[0] < 2 or (candidate == SPACES and most > 1):
            continue
        count, often = Counter(counts).most_common(1)[0]
        if count == counts[0] and often >= _MOST * len(counts) and count > most:
            best, most = candidate, count
    if most == 1 and best == "," and any("," in row for row in rows[1:]) and "," not in rows[0]:
        words = [cell for (cell,) in _cells(rows[1:], ";") if cell]
        if words and all(map(_COMMA.fullmatch, words)):
            return ";"  # one column of numbers with decimal commas
    return best


def _cells(rows: list[str], delimiter: str) -> list[list[str]]:
    if delimiter == SPACES:
        rows = [" ".join(row.split()) for row in rows]
    return [[cell.strip() for cell in row] for row in csv.reader(rows, delimiter=delimiter)]


def _decimal(rows: list[list[str]], delimiter: str) -> str:
    if delimiter == ",":
        return "."
    cells = [cell for row in rows for cell in row]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    points = [cell for cell in cells if _POINT.fullmatch(cell)]
    thousands = delimiter != ";" and all(map(_THOUSANDS.fullmatch, commas))
    return "," if commas and not points and not thousands else "."


def _is_header(line: str, rows: list[str], delimiter: str) -> bool:
    """Return whether a comment names the columns of rows that have no other header."""
    if not rows:
        return False
    first, names = _cells([rows[0]], delimiter)[0], _cells([line], delimiter)[0]
    return (
        len(names) == len(first)
        and any(map(reads_as_number, first))
        and not any(map(reads_as_number, names))
    )


def charset_note(charset: str) -> str:
    """Return the note for text whose encoding was found."""
    give = argument("charset", "NAME")
    return f"the text is not UTF-8 and is read as {charset}; if letters are wrong, give {give}"
