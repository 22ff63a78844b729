"""What the start of a stream decides: the columns, whether they are numbers, and the task."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa

from pronk.core.checks import did_you_mean
from pronk.data.dates import DATES, DAY_FIRST, ISO, MONTH_FIRST, decide
from pronk.data.errors import StreamError, argument, option, other_delimiter, without_secret
from pronk.data.values import (
    CATEGORY,
    NUMBER,
    in_words,
    is_number,
    is_text,
    is_time,
    kind_of,
    reads_as_number,
)

if TYPE_CHECKING:
    from pronk.data.stream import FileStream

# ----------------------------------------------------------------------------------------
# How a file is read, in one description: it opens the stream, and tells what was chosen.
#
# Checkpoints and results of comparisons keep what was chosen, and a report tells it as a command.
# What is as usual is left out, so that a choice which a later version adds leaves old ones alone.

TASKS = ("auto", "regression", "classification")
MISSING = ("error", "mean")
#: In the place of names: all columns of text are categories.
AUTOMATIC = "auto"


@dataclass(frozen=True)
class Reading:
    """Which rows and columns of a file are read, and as what.

    Parameters
    ----------
    file : file name
        CSV (``.csv``, ``.tsv``), NDJSON (``.ndjson``, ``.jsonl``) or LIBSVM text (``.libsvm``,
        ``.svm``), also compressed (``.gz``, ``.bz2``, ``.zst``, ``.lz4``); ``.parquet``; Arrow
        (``.arrow``, ``.feather``). "-" is standard input; it and named pipes bring CSV or NDJSON.
        A directory, or a pattern with ``*``, is its files in the order of their names. With
        ``query`` a database.
    target : str, optional
        The column to predict; "label" for LIBSVM. Without it all rows have no label.
    columns : sequence of str, optional
        The columns of X, in this order; all if not given.
    drop : sequence of str
        Columns to leave out. All others must be numbers, booleans, dates or times.
    keep : sequence of str
        Columns that go along with the predictions as they are, whether or not they are in X.
    categorical : sequence of str
        Columns that hold categories; their numbers in X only stand for them. "auto": all columns
        of text that is no date.
    missing : "error" or "mean"
        What a missing value in X is, and a time that cannot be read: an error, or NaN for the model
        to fill in.
    dates : "auto", "dayfirst", "monthfirst" or "iso"
        How dates in text that have the year last are read, as 01/02/2015. "auto" looks at the first
        block; "iso" takes them for text. See `pronk.data.dates`.
    task : "auto", "regression" or "classification"
        Whether y is numbers or labels. "auto" looks at the first block: text, booleans, whole
        numbers with at most 20 distinct values and 0/1 or -1/1 are labels.
    weight : str, optional
        The column that says how much each row counts when it is learned, which is then no feature;
        0 is predicted only. See ``sample_weight`` of the learners.
    limit : int, optional
        Stop after so many rows.
    delimiter : str, optional
        Of a CSV file; a comma, or a tab for ``.tsv``. "\\t" in two characters is a tab too.
    decimal : "." or ","
        What stands before the fraction of a number in a CSV file; with "," the delimiter is ";"
        unless given.
    na : sequence of str
        Values of a CSV file that mean missing, as "?", beside the empty one, NA, NaN, null, ..
    charset : str, optional
        How text is encoded, as "latin-1"; UTF-8, or UTF-16 where a file begins with its mark.
    header : bool, default True
        Whether the first line of a CSV file has the columns' names; else they are x0, x1, ..
    skip_bad : bool, default False
        Leave bad rows out and tell of them in `FileStream.bad`, in place of an error at the first.
    query : str, optional
        SQL; ``file`` is then a DuckDB file, ":memory:" or "adbc:DRIVER:URI".
    """

    file: str
    target: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: str = "error"
    dates: str = "auto"
    task: str = "auto"
    weight: str | None = None
    limit: int | None = None
    delimiter: str | None = None
    decimal: str = "."
    na: tuple[str, ...] = ()
    charset: str | None = None
    header: bool = True
    skip_bad: bool = False
    query: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("task", TASKS), ("missing", MISSING), ("dates", DATES)):
            if getattr(self, name) not in allowed:
                words = ", ".join(allowed)
                got = getattr(self, name)
                raise StreamError(f"{argument(name)} must be one of {words}; got {got!r}")
        object.__setattr__(self, "file", str(self.file))
        if self.decimal not in (".", ","):
            raise StreamError(f"{argument('decimal')} must be . or a comma; got {self.decimal!r}")
        if self.charset is not None:
            try:
                codecs.lookup(self.charset)
            except LookupError:
                raise StreamError(
                    f"{argument('charset')}: {self.charset!r} is no known encoding; latin-1, "
                    "cp1252 and utf-16 are some"
                ) from None
        for name in ("columns", "drop", "keep", "categorical", "na"):
            object.__setattr__(self, name, _names(getattr(self, name)))

    @property
    def name(self) -> str:
        """How messages call the input."""
        return "standard input" if self.file == "-" else without_secret(self.file)

    def open(self, *, unlabelled: bool = True, rows: int | None = None) -> FileStream:
        """The stream; arguments as in `FileStream`."""
        from pronk.data.stream import FileStream

        choices = {one.name: getattr(self, one.name) for one in fields(self)}
        return FileStream(choices.pop("file"), **choices, unlabelled=unlabelled, rows=rows)

    def chosen(self) -> dict[str, Any]:
        """What is not as usual, by name, as JSON has it; always the file and the target."""
        return {**_chosen(self), "file": self.file, "target": self.target}

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> Self:
        """The description that `chosen` told, among other things."""
        return _of(cls, choices)


@dataclass(frozen=True)
class Preparing:
    """What columns become before the learner sees them; see `pronk.Prepared`."""

    scale: str = "minmax"
    encoding: str = "onehot"
    slots: int = 32
    scale_target: str = "auto"

    def chosen(self) -> dict[str, Any]:
        """What is not as usual, by name."""
        return _chosen(self)

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> Self:
        """The description that `chosen` told, among other things."""
        return _of(cls, choices)


def as_words(choices: Mapping[str, Any]) -> list[str]:
    """Choices as the words of a command line."""
    words: list[str] = []
    for name, value in choices.items():
        if value is False:
            words.append(option(name, value))
        elif name == "columns":
            words += ["--columns", ",".join(value)]
        else:
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [option(name), str(one)]
    return words


def _names(given: str | Iterable[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def _chosen(description: Any) -> dict[str, Any]:
    found = {}
    for one in fields(description):
        value = getattr(description, one.name)
        if value != one.default:
            found[one.name] = list(value) if isinstance(value, tuple) else value
    return found


def _of(cls: Any, choices: Mapping[str, Any]) -> Any:
    known = {one.name for one in fields(cls)}
    return cls(**{name: value for name, value in choices.items() if name in known})


#: From a column to the row and value of the first value that is no number.
Odd = Callable[[str], tuple[int, str]]

#: A target of whole numbers with at most this many distinct values is taken for classes.
FEW = 20
#: Text with more distinct values than this is taken for a name, not for a class.
MANY = 100


#: 1,234,567 or 1.234.567 or 1 234 567.8, and 3,25
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:(?:,\d{3})+(?:\.\d+)?|(?:\.\d{3}){2,}|(?:[ '_]\d{3})+.*)")
_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
#: Rows after which a column that never repeats is pointed out.
LEAST_ROWS = 50


class ChosenColumns(NamedTuple):
    """The columns of X, which are named as categories, whether text is, and those that go along."""

    used: list[str]
    categorical: list[str]
    automatic: bool
    kept: list[str]


class Kinds(NamedTuple):
    """What each column of X holds, how its dates are read, and what is to be said of that."""

    kinds: list[str]
    orders: list[str]
    notes: list[str]


class Chooser:
    """Choices for one stream.

    Parameters
    ----------
    name : how messages call the stream
    schema : names and types of all its columns
    untyped : whether its values are text that reads as any type
    target : the column to predict, or several with commas between
    """

    def __init__(self, name: str, schema: pa.Schema, untyped: bool, target: str | None) -> None:
        self._name = name
        self._schema = schema
        self._untyped = untyped
        self.targets = [] if target is None else self._several(target)

    def columns(self, reading: Reading) -> ChosenColumns:
        """The columns to use, in order; every name that was asked for must be there."""
        names = self._schema.names
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            hint = self._header_hint() or "; rename one"
            raise StreamError(f"{self._name} has two columns named {twice[0]!r}{hint}")
        automatic = reading.categorical == (AUTOMATIC,) and AUTOMATIC not in names
        asked = {
            "target": self.targets,
            "weight": [reading.weight] if reading.weight is not None else [],
            "columns": self._split(reading.columns),
            "drop": self._split(reading.drop),
            "keep": self._split(reading.keep),
            "categorical": [] if automatic else self._split(reading.categorical),
        }
        known = set(names)
        for choice, several in asked.items():
            for name in several:
                if name not in known:
                    hint = self._name_hint(name)
                    raise StreamError(
                        f"{argument(choice)}: {self._name} has no column {name!r}{hint}"
                    )
                if name in self.targets and choice != "target":
                    raise StreamError(f"{argument(choice)}: {name!r} is the target")
                if name == reading.weight and choice in ("columns", "categorical"):
                    raise StreamError(
                        f"{argument(choice)}: {name!r} is the weight, which is no feature"
                    )
        chosen = asked["columns"] or names
        left = {*self.targets, reading.weight, *asked["drop"]}
        columns = [name for name in chosen if name not in left]
        named = set(asked["categorical"])
        categorical = [name for name in columns if name in named]
        return ChosenColumns(columns, categorical, automatic, asked["keep"])

    def _several(self, target: str) -> list[str]:
        known = self._schema.names
        parts = self._split([target])
        return [name if name in known else name.strip() for name in parts]

    def _split(self, given: Sequence[str]) -> list[str]:
        """Names, also several in one text with commas between, unless a name has the comma."""
        known = set(self._schema.names)
        parts = [[text] if text in known else text.split(",") for text in given]
        return list(dict.fromkeys(name for some in parts for name in some))

    def _name_hint(self, name: str) -> str:
        names = self._schema.names
        if self._untyped and (hint := other_delimiter(names)):
            return hint
        if not reads_as_number(name) and (hint := self._header_hint()):
            return hint
        shown = ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
        return did_you_mean(name, names, otherwise=f"; it has {shown}")

    def _header_hint(self) -> str:
        if self._untyped and all(map(reads_as_number, self._schema.names)):
            return f"; its first line seems to be data: give {argument('header', 'False')}"
        return ""

    def kinds(self, columns: ChosenColumns, start: pa.RecordBatch, dates: str) -> Kinds:
        """What the columns are by their types and, of text, by the first rows."""
        found = Kinds([], [], [])
        for name in columns.used:
            type_ = self._schema.field(name).type
            kind, order = kind_of(type_), ISO if dates == "auto" else dates
            if name in columns.categorical:
                kind = CATEGORY
            elif is_text(type_) and (decision := decide(start.column(name), dates)) is not None:
                kind, order, shown = decision
                found.notes.extend([] if shown else [_ambiguous(name, order)])
            found.kinds.append(kind)
            found.orders.append(order)
        return found

    def check_usable(
        self,
        columns: Sequence[str],
        categorical: Sequence[str],
        start: pa.RecordBatch,
        odd: Odd,
        *,
        gaps: bool,
    ) -> None:
        """Refuse columns that are neither numbers nor times nor named as categories, all at once.

        ``odd`` finds the first value of a column that is no number, wherever it stands. Unless
        ``gaps`` are allowed, columns with missing values are named beside the others.
        """
        kinds = {name: self._schema.field(name).type for name in columns}
        for name in categorical:
            if pa.types.is_nested(kinds[name]):
                raise StreamError(
                    f"{argument('categorical')}: column {name!r} of {self._name} is "
                    f"{in_words(kinds[name])}, which is no category"
                )
        named = set(categorical)
        plain = [name for name in columns if name not in named]
        bad = [name for name in plain if not (is_number(kinds[name]) or is_time(kinds[name]))]
        if not bad:
            return
        told: dict[str, list[str]] = {}  # what is wrong, and the options that put it right
        text = []
        for name in bad:
            found = self._explained(name, start, odd)
            if found is None:
                text.append(name)
            else:
                told[found[0]] = found[1]
        if text:
            plain_text = any(not pa.types.is_nested(kinds[name]) for name in text)
            give = [argument("categorical", AUTOMATIC)] if plain_text else []
            told[self._not_numeric(text, kinds, start)] = give
        missing = [name for name in plain if start.column(name).null_count]
        if missing and not gaps:
            fills = argument("missing", "mean")
            told[f"{_these(missing)} missing values; {fills} fills them in"] = [fills]
        together = " ".join(dict.fromkeys(word for each in told.values() for word in each))
        end = f"; all together: {together}" if len(told) > 1 and together else ""
        raise StreamError(f"{self._name}: {'; '.join(told)}{end}")

    def _not_numeric(
        self, names: Sequence[str], kinds: dict[str, pa.DataType], start: pa.RecordBatch
    ) -> str:
        """Columns that are no numbers, and what can be done with them."""
        drops = " ".join(argument("drop", name) for name in names)
        words = [name for name in names if not pa.types.is_nested(kinds[name])]
        every = argument("categorical", AUTOMATIC)
        if len(names) > 1:
            quoted = ", ".join(repr(name) for name in names)
            more = f", or take text as categories with {every}" if words else ""
            return f"columns {quoted} are not numeric; leave them out with {drops}{more}"
        (name,) = names
        if words:
            one = argument("categorical", name)
            drops += f", or take it as categories with {one} ({every}: all columns of text)"
        values = [v for v in start.column(name).to_pylist() if not reads_as_number(v)]
        such = f", such as {str(values[0])[:40]!r}" if values else ""
        what = in_words(kinds[name])
        return f"column {name!r} is not numeric ({what}{such}); leave it out with {drops}"

    def check_weight(self, name: str, start: pa.RecordBatch) -> None:
        """Refuse weights that are no numbers, and show the first."""
        if is_number(kind := self._schema.field(name).type):
            return
        odd = ((i, v) for i, v in enumerate(start.column(name).to_pylist()) if _is_word(v))
        row, value = next(odd, (0, None))
        such = "" if value is None else f", such as {value[:40]!r} at row {row} (counting from 0)"
        raise StreamError(
            f"{argument('weight')}: column {name!r} of {self._name} is {in_words(kind)}{such}; it "
            "must hold numbers"
        )

    def _explained(
        self, name: str, start: pa.RecordBatch, find: Odd
    ) -> tuple[str, list[str]] | None:
        """Text that is numbers in another spelling, or numbers with a word for missing.

        What is wrong, and the options that put it right, if there are some.
        """
        if not (self._untyped and is_text(self._schema.field(name).type)):
            return None
        words = [word for word in start.column(name).to_pylist() if word is not None]
        odd = [word for word in words if not reads_as_number(word)]
        column = f"column {name!r}"
        if not odd:
            row, value = find(name)
            return (
                f"{column} has {value[:40]!r} at row {row} (counting from 0), and the rows before "
                f"are numbers; correct it, leave the column out with {argument('drop', name)}, or "
                f"take it as categories with {argument('categorical', name)}",
                [],
            )
        if all(map(_THOUSANDS.fullmatch, odd)):
            such = f"such as {odd[0]!r}; write its numbers without"
            return f"{column} has thousands separators, {such}", []
        if all(map(_COMMA.fullmatch, odd)):
            give = argument("decimal", ",")
            return f"{column} has decimal commas, such as {odd[0]!r}; give {give}", [give]
        if len(set(odd)) == 1 and 2 * len(odd) < len(words):
            give = argument("na", odd[0])
            return (
                f"{column} is numbers but for {odd[0][:40]!r}; if that means missing, give {give}, "
                f"or leave the column out with {argument('drop', name)}",
                [give, argument("missing", "mean")],
            )
        return None

    def notes(self, columns: dict[str, str], start: pa.RecordBatch) -> list[str]:
        """What is odd but no error: columns, given with their kinds, that name each row."""
        said = []
        for name in columns if len(start) >= LEAST_ROWS else ():
            values = start.column(name)
            kind = values.type
            if columns[name] not in (NUMBER, CATEGORY):
                continue
            whole = pa.types.is_integer(kind) or is_text(kind)
            if not whole or len(values.unique()) < len(values):
                continue
            named = re.search(r"(^|[_\W])(id|uuid|guid|key|index|no|nr)$", name, re.I)
            numbered = pa.types.is_integer(kind) and _counts_up(values)
            if named or numbered or is_text(kind) or name.endswith(("Id", "ID")):
                said.append(
                    f"column {name!r} has another value in each of the first {len(values):,} rows; "
                    f"if it names the row, leave it out with {argument('drop', name)}"
                )
        return said

    def task(self, task: str, start: pa.RecordBatch) -> tuple[str, str]:
        """The task, "auto" by the first rows, and why."""
        if not self.targets:
            return ("regression" if task == "auto" else task), "no target"
        if len(self.targets) > 1:
            return self._several_numbers(task)
        (target,) = self.targets
        values = start.column(target)
        kind = self._schema.field(target).type
        text = is_text(kind)
        column = f"{argument('target')}: column {target!r} of {self._name}"
        if not (text or is_number(kind)):
            raise StreamError(
                f"{column} is {in_words(kind)}; it must hold numbers, booleans or text"
            )
        if task == "regression" and text:
            value = next((v for v in values.to_pylist() if not reads_as_number(v)), "text")
            raise StreamError(
                f"{column} is text, such as {str(value)[:40]!r}; regression needs numbers: use "
                f"{argument('task', 'classification')}"
            )
        if task != "auto":
            return task, "as given"
        distinct = len(values.drop_null().unique())
        if text and distinct > MANY:
            raise StreamError(
                f"{column} is text with {distinct} distinct values in {len(values)} rows, too many "
                f"for classes; if it is right, give {argument('task', 'classification')}"
            )
        if text or pa.types.is_boolean(kind):
            return "classification", in_words(kind)
        if pa.types.is_integer(kind) and distinct <= min(FEW, max(2, len(values) // 5)):
            return "classification", f"{distinct} distinct whole numbers"
        if distinct == 2 and set(values.drop_null().unique().to_pylist()) in ({0, 1}, {-1, 1}):
            return "classification", "two distinct values"
        return "regression", f"{distinct} distinct numbers"

    def _several_numbers(self, task: str) -> tuple[str, str]:
        if task == "classification":
            raise StreamError(
                f"{argument('target')}: several targets are learned as numbers; take labels one "
                "at a time"
            )
        for name in self.targets:
            kind = self._schema.field(name).type
            if not is_number(kind):
                raise StreamError(
                    f"{argument('target')}: column {name!r} of {self._name} is {in_words(kind)}; "
                    "several targets must be numbers, take labels one at a time"
                )
        return "regression", f"{len(self.targets)} targets"


def _ambiguous(name: str, order: str) -> str:
    """What is said where the values do not show which part of a date is which."""
    said, other = ("day", MONTH_FIRST) if order == DAY_FIRST else ("month", DAY_FIRST)
    return (
        f"dates of column {name!r} are read with the {said} first, which the first rows do not "
        f"show; if that is wrong, give {argument('dates', other)}"
    )


def _these(names: Sequence[str]) -> str:
    """Columns at the start of a sentence."""
    quoted = ", ".join(map(repr, names))
    return f"column {quoted} has" if len(names) == 1 else f"columns {quoted} have"


def _is_word(value: object) -> bool:
    return isinstance(value, str) and not reads_as_number(value)


def _counts_up(values: pa.Array) -> bool:
    """Whether whole numbers rise by one."""
    numbers = [value for value in values.to_pylist() if value is not None]
    return all(after - before == 1 for before, after in pairwise(numbers))
