"""Read CSV files, with or without a header line.

A quoted value may contain line breaks. A quote opens a quoted value only at the start of the value,
and must then be closed; anywhere else it is an ordinary character, as in Arrow's parser.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from pronk.columns.spelling import is_total, mostly_numbers, read_each
from pronk.columns.values import (
    MISSING_WORDS,
    spelled_numbers,
    without_numbers,
    word_reader,
)
from pronk.data.errors import StreamError, argument, other_delimiter
from pronk.data.source import BAD, NOT_DATA, Text, TextFile, TextSource, count, not_text, own_types

#: More than this share of the words of a column must spell numbers for numbers; less if rows that
#: are not rows of numbers are left out.
_MOSTLY, _HALF = 0.9, 0.5


def _as_text(field: pa.Field) -> pa.Field:
    """Return a field of text for one that Arrow reads as bytes: it raises where it is used."""
    return field.with_type(pa.string()) if pa.types.is_binary(field.type) else field


class CSVSource(TextSource):
    """Read a CSV file, plain or compressed; without a header its columns are x0, x1, ..

    If it is read loosely, numbers may be amounts (`pronk.columns.spelling`), a word among numbers
    is a missing value, and a header that is repeated or a row of totals has a reason in the column
    BAD.
    """

    untyped = times_in_text = True

    def __init__(
        self,
        file: Text,
        delimiter: str = ",",
        header: bool = True,
        decimal: str = ".",
        na: Sequence[str] = (),
        lenient: bool = False,
        loose: bool = False,
    ) -> None:
        super().__init__(file)
        self._lenient = lenient
        self._loose = loose
        self._unread: dict[str, dict[str, Any]] = {}
        self._exact: set[str] = set()
        if delimiter == decimal:
            raise StreamError(
                f"{argument('decimal')} and {argument('delimiter')} are both {decimal!r}; values "
                "must be separated by something else"
            )
        self._delimiter = delimiter
        self._decimal = decimal
        self._missing = [*sorted(MISSING_WORDS), *na]
        #: Numbers that mean missing, however they are spelled: -999 also as -999.0.
        self._missing_numbers = spelled_numbers(na, decimal)
        self._grammar = _Grammar(delimiter)
        self._header = header
        self._names: list[str] = []
        self._lines = 0  # of the file, before the current piece

    def schema(self) -> pa.Schema:
        for piece in self._pieces():
            if self._lenient or self._loose:
                return self._lenient_schema(piece)
            return pa.schema(map(_as_text, self._table(piece, None).schema))
        return pa.schema([(name, pa.null()) for name in self._names])

    def require(self, columns: Iterable[str]) -> None:
        self._exact = set(columns)

    def unread_words(self) -> dict[str, dict[str, Any]]:
        return self._unread

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows, self._unread = 0, {}
        for piece in self._pieces(types):
            yield from self._table(piece, types).to_batches()

    def _pieces(self, types: dict[str, pa.DataType] | None = None) -> Iterator[bytes]:
        """Yield some whole rows at a time; find the names of the columns first."""
        self._lines, started = 0, False
        for piece in self.file.pieces(self._ending):
            if not started:
                start = len(piece) - len(piece.lstrip(b"\r\n"))
                started = start < len(piece)
                if started:
                    end = self._grammar.first_row(piece, start)
                    self._find_names(piece[start:end], types or {})
                    start = end if self._header else start
                self._lines += piece.count(b"\n", 0, start)
                piece = piece[start:]
            if piece:
                yield piece
                self._lines += piece.count(b"\n")
        if not started:
            raise StreamError(f"{self.file} is empty")

    def _ending(self, text: bytes, last: bool) -> int:
        end = self._grammar.whole_rows(text)
        if last and not self._grammar.is_row(text[end:]):
            line = self._lines + text.count(b"\n", 0, end) + 1
            raise StreamError(
                f"{self.file} has a quote in line {line} that is never closed",
                hint="close it, or write it twice if it belongs to a text",
            )
        return len(text) if last else end

    def _find_names(self, row: bytes, types: dict[str, pa.DataType]) -> None:
        """Find the names in the first row, once; later files must have the same columns."""
        if self._names:
            return
        row = row if row.endswith((b"\n", b"\r")) else row + b"\n"  # Arrow reads no header without
        if self._header:
            try:
                self._names = [name.strip() for name in self._read(row).column_names]
            except UnicodeDecodeError:
                raise not_text(str(self.file)) from None
        else:
            self._names = [f"x{i}" for i in range(self._read(row, generate=True).num_columns)]
        for name in types:
            if name not in (*self._names, BAD):
                raise StreamError(f"{self.file} has no column {name!r}, as the files before it")

    def _table(self, piece: bytes, types: dict[str, pa.DataType] | None) -> pa.Table:
        """Parse some rows; an error names the row, or the line of the file."""
        wanted = None if types is None else own_types(types)
        try:
            table = self._read(piece, self._names, wanted)
        except pa.ArrowInvalid as error:
            found = None
            if wanted is not None and (self._lenient or self._loose):
                found = self._word_by_word(piece, wanted)
            if found is None:
                raise self._explain(error, piece) from None
            table = found
        self._rows += len(table)
        return self._without_numbers(table)

    def _word_by_word(self, piece: bytes, types: dict[str, pa.DataType]) -> pa.Table | None:
        """Read rows that Arrow refused as text, and then each word.

        A row that is bad, or no row of data, has the reason in the column BAD; other words among
        numbers are missing values. Return None if a row is bad and bad rows are errors.
        """
        skipped: list[Any] = []

        def skip(row: Any) -> str:
            skipped.append(row)
            return "skip"

        piece = piece.decode("utf-8", "replace").encode() if self._lenient else piece
        asked = dict.fromkeys(types, pa.string())
        try:
            words = self._read(piece, self._names, asked, parse=self._parsing(skip))
        except pa.ArrowInvalid:
            return None
        why: list[str | None] = [None] * (len(words) + len(skipped))
        for row in skipped:
            what = f"has {row.actual_columns} values instead of {row.expected_columns}"
            why[row.number - 1] = f"{what}: {row.text[:200]}"
        given = np.array([reason is None for reason in why], dtype=bool)
        words = words.take(pa.array(np.cumsum(given) - 1, mask=~given))
        columns: dict[str, Any] = {}
        unread: list[tuple[str, int, str]] = []
        for name, type_ in types.items():
            column = words.column(name).combine_chunks()
            columns[name], failed = read_each(
                column, word_reader(type_, self._decimal, self._loose), type_
            )
            found = np.flatnonzero(failed.to_numpy(zero_copy_only=False)).tolist()
            unread += [(name, row, column[row].as_py()) for row in found]
        other = any(not pa.types.is_floating(types[name]) for name, *_ in unread)
        if (skipped or other) and not self._lenient:
            return None
        for name, row, word in unread if self._loose else ():
            if word == name:
                why[row] = f"{NOT_DATA}the header is repeated"
            elif is_total(word):
                why[row] = f"{NOT_DATA}{word!r} is in the column {name!r} of numbers"
        for name, row, word in unread:
            if why[row] is not None:
                continue
            if self._lenient or name in self._exact:
                why[row] = f"column {name!r} has {word[:40]!r}"
            else:
                count(self._unread, name, self._rows + row, word)
        return pa.table({**columns, BAD: pa.array(why, pa.string())})

    def _without_numbers(self, table: pa.Table) -> pa.Table:
        """Return a table in which the numbers that mean missing are missing."""
        for place, name in enumerate(table.column_names if self._missing_numbers else ()):
            if name != BAD:
                kept = without_numbers(table.column(place), self._missing_numbers, self._decimal)
                table = table.set_column(place, name, kept)
        return table

    def _lenient_schema(self, piece: bytes) -> pa.Schema:
        """Infer types from the good rows; a column of mostly numbers is numbers."""
        start = self._read(piece, self._names, parse=self._parsing(lambda row: "skip"))
        share = _HALF if self._lenient else _MOSTLY
        fields = []
        for column, field in zip(start.columns, map(_as_text, start.schema), strict=True):
            if pa.types.is_string(column.type) and mostly_numbers(column, self._decimal, share):
                field = field.with_type(pa.float64())
            fields.append(field)
        if self._loose:
            fields = self._look_ahead(fields)
        return pa.schema(fields)

    def _look_ahead(self, fields: list[pa.Field]) -> list[pa.Field]:
        """Return fields whose types are known also for columns that start empty.

        The file is read as far as needed, unless it is a pipe.
        """
        empty = {field.name for field in fields if pa.types.is_null(field.type)}
        found: dict[str, pa.DataType] = {}
        twin = copy.copy(self)
        if not empty or not isinstance(self.file, TextFile):
            return fields
        twin.file = copy.copy(self.file)
        for piece in twin._pieces():
            wanted = sorted(empty - set(found))
            if not wanted:
                break
            parse = self._parsing(lambda row: "skip")
            words = self._read(piece, self._names, dict.fromkeys(wanted, pa.string()), parse=parse)
            for name in wanted:
                column = words.column(name).drop_null()
                if len(column):
                    numeric = mostly_numbers(column, self._decimal, _MOSTLY)
                    found[name] = pa.float64() if numeric else pa.string()
        return [field.with_type(found.get(field.name, field.type)) for field in fields]

    def _parsing(self, skips: Callable[[Any], str] | None = None) -> arrow_csv.ParseOptions:
        return arrow_csv.ParseOptions(delimiter=self._delimiter, invalid_row_handler=skips)

    def _read(
        self,
        piece: bytes,
        names: list[str] | None = None,
        types: dict[str, pa.DataType] | None = None,
        generate: bool = False,
        parse: arrow_csv.ParseOptions | None = None,
    ) -> pa.Table:
        return arrow_csv.read_csv(
            pa.py_buffer(piece),
            read_options=arrow_csv.ReadOptions(
                block_size=len(piece) + 1,
                use_threads=False,
                column_names=names,
                autogenerate_column_names=generate,
            ),
            parse_options=parse or self._parsing(),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(types or ()),
                column_types=types,
                strings_can_be_null=True,
                null_values=self._missing,
                decimal_point=self._decimal,
            ),
        )

    def _explain(self, error: Exception, piece: bytes) -> StreamError:
        text = str(error).strip()
        found = re.search(r"In CSV column #(\d+): .* to (\w+): invalid value '(.*)'", text, re.S)
        if found:
            name, kind, value = self._names[int(found[1])], found[2], found[3]
            column = self._read(piece, self._names, {name: pa.string()}).column(0)
            row = self._rows + int((column.to_numpy() == value).argmax())
            return StreamError(
                f"{self.file}: column {name!r} has {value[:40]!r} at row {row} (counting from 0), "
                f"which does not read as {kind} like the rows before",
                column=name,
                row=row,
            )
        found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
        if found:
            line = self._lines + self._grammar.line_of(piece, int(found[1]))
            what = f"{found[3]} values instead of {found[2]} in line {line}"
            skip = f"correct the line, or leave such lines out with {argument('skip_bad', 'FILE')}"
            hint = other_delimiter(self._names, True) or skip
            return StreamError(f"{self.file} has {what}", hint=hint)
        if "invalid UTF8" in text:
            return not_text(str(self.file))
        return StreamError(f"{self.file} cannot be read: {text.splitlines()[0]}")


class _Grammar:
    """Find where rows end.

    In text without quotes the last line end is enough, and with well-placed quotes counting them is
    enough. Other text is matched by possessive patterns, which do not backtrack: about 100 MB per
    second.
    """

    def __init__(self, delimiter: str) -> None:
        between = re.escape(delimiter.encode())
        plain = rb"[^%s\r\n]*+" % between
        quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
        value = rb'(?:%s%s|(?!")%s)' % (quoted, plain, plain)
        # A file may begin with the byte order mark of UTF-8. A lone \r also ends a line.
        row = rb"(?:\xef\xbb\xbf)?+(?:%s[%s\r])*+%s" % (value, between, value)
        self._last = re.compile(row)
        self._row = re.compile(row + rb"\n")
        self._rows = re.compile(rb"(?:%s\n)*+" % row)
        self._before_quote = np.zeros(256, dtype=bool)
        self._before_quote[list(delimiter.encode() + b'"\r\n')] = True

    def whole_rows(self, text: bytes) -> int:
        """Return where the last complete row ends."""
        if b'"' not in text:
            return text.rfind(b"\n") + 1
        data = np.frombuffer(text, dtype=np.uint8)
        quotes = np.flatnonzero(data == ord('"'))
        # Every second quote opens a value or, right after the one before it, doubles that one.
        opening = quotes[::2]
        if not self._before_quote[data[opening[opening > 0] - 1]].all():
            found = self._rows.match(text)
            return found.end() if found else 0
        end = text.rfind(b"\n") + 1
        while (before := int(quotes.searchsorted(end))) % 2:  # that line's end is inside a value
            end = text.rfind(b"\n", 0, int(quotes[before - 1])) + 1
        return end

    def is_row(self, text: bytes) -> bool:
        """Return whether the text is a row without a line end, or empty."""
        return b'"' not in text or self._last.fullmatch(text) is not None

    def first_row(self, text: bytes, start: int) -> int:
        """Return where the row ends that begins at ``start``."""
        found = self._row.match(text, start)
        return found.end() if found else len(text)

    def line_of(self, text: bytes, row: int) -> int:
        """Return the line in which a row begins, both counted from 1; empty lines do not count."""
        place = 0
        while found := self._row.match(text, place):
            row -= bool(found[0].strip(b"\r\n"))
            if not row:
                break
            place = found.end()
        return text.count(b"\n", 0, place) + 1
