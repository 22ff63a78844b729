"""How a file is read: the choices of the user, and what its first rows decide.

`Reading` holds the choices: which rows and columns of a file are read, and as what. Checkpoints and
results of comparisons store the choices that differ from the defaults. `Chooser` completes them by
the types and the first rows of the file: the columns, their kinds, and the task.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from pronk.columns.dates import CLOCK, DATE, DATES, DAY_FIRST, ISO, MONTH_FIRST, TIME, decide
from pronk.columns.model import MISSING
from pronk.columns.spelling import unit_of
from pronk.columns.values import (
    CATEGORY,
    NUMBER,
    in_words,
    is_number,
    is_text,
    is_time,
    kind_of,
    present,
    reads_as_number,
)
from pronk.core.checks import did_you_mean
from pronk.data.errors import StreamError, argument, other_delimiter, without_secret

if TYPE_CHECKING:
    from pronk.data.stream import FileStream

TASKS = ("auto", "regression", "classification")
#: Given instead of names: all columns of text are categories.
AUTOMATIC = "auto"


class Described:
    """A dataclass that is made from a table with other entries."""

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> Self:
        """Return the description with these fields; ignore other entries."""
        known = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in choices.items() if name in known})


@dataclass(frozen=True)
class Reading(Described):
    """Which rows and columns of a file are read, and as what.

    Parameters
    ----------
    file : file name
        CSV (``.csv``, ``.tsv``), NDJSON (``.ndjson``, ``.jsonl``) or LIBSVM text (``.libsvm``,
        ``.svm``), also compressed (``.gz``, ``.bz2``, ``.zst``, ``.lz4``); ``.parquet``; Arrow
        (``.arrow``, ``.feather``). "-" is standard input; it and named pipes bring CSV or NDJSON.
        A directory, or a pattern with ``*``, is its files in the order of their names; several
        names stand one per line. With ``query`` a database.
    target : str, optional
        The column to predict; "label" for LIBSVM. Without it all rows have no label.
    columns : sequence of str, optional
        The columns of X, in this order; all if not given.
    drop : sequence of str
        Columns to leave out.
    keep : sequence of str
        Columns that are copied to the predictions unchanged, whether or not they are in X.
    categorical : sequence of str
        Columns that hold categories; X holds a number for each category. "auto", the default: all
        columns of text that is not dates.
    missing : "mean" or "error"
        How to treat a missing value in X, and a time that cannot be read: pass NaN for the model to
        fill in (the default), or raise an error.
    strict : bool, default False
        Guess nothing: without ``categorical`` text raises an error, and so does a missing value
        without ``missing``; a CSV file has commas, points and UTF-8 unless said otherwise.
    dates : "auto", "dayfirst", "monthfirst" or "iso"
        How dates in text that have the year last are read, as 01/02/2015. "auto" decides by the
        first block; "iso" treats them as text. See `pronk.columns.dates`.
    task : "auto", "regression" or "classification"
        Whether y is numbers or labels. "auto" decides by the first block: text, booleans, whole
        numbers with at most 20 distinct values and 0/1 or -1/1 are labels.
    weight : str, optional
        The column of sample weights, which is then not a feature; a row of weight 0 is predicted
        and not learned. See ``sample_weight`` of the learners.
    time : str, optional
        The column of the rows' times, by which learners forget; dates, or numbers of seconds. It
        stays a feature unless it is dropped. See ``times`` of the learners.
    by : str, optional
        The column of keys of keyed models, in ``keep``; a row without a key is a bad one.
    limit : int, optional
        Stop after this many rows.
    delimiter : str, optional
        Of a CSV file; found by its first lines if not given, and a tab for ``.tsv``. "\\t" in two
        characters is a tab too.
    decimal : "." or ",", optional
        The decimal separator of a CSV file; found by its first lines if not given.
    na : sequence of str
        Words of a CSV file that mean missing, such as "?", in addition to the empty text, NA, NaN,
        null and the other words of `pronk.columns.values.MISSING_WORDS`. A number, such as -999, is
        found in any spelling.
    charset : str, optional
        The encoding of text, such as "latin-1"; by default UTF-8, UTF-16 if a file begins with its
        byte order mark, or cp1252 if its start is not UTF-8.
    header : bool, default True
        Whether the first line of a CSV file has the columns' names; else they are x0, x1, ..
    skip_bad : bool, default False
        Leave bad rows out and list them in `Block.bad`, instead of raising at the first one.
    query : str, optional
        SQL; ``file`` is then a DuckDB file, ":memory:" or "adbc:DRIVER:URI".
    """

    file: str
    target: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    categorical: tuple[str, ...] = None  # type: ignore[assignment]  # by `strict`
    missing: str = None  # type: ignore[assignment]  # by `strict`
    strict: bool = False
    dates: str = "auto"
    task: str = "auto"
    weight: str | None = None
    time: str | None = None
    by: str | None = None
    limit: int | None = None
    delimiter: str | None = None
    decimal: str | None = None
    na: tuple[str, ...] = ()
    charset: str | None = None
    header: bool = True
    skip_bad: bool = False
    query: str | None = None

    def __post_init__(self) -> None:
        if self.categorical is None:
            object.__setattr__(self, "categorical", () if self.strict else (AUTOMATIC,))
        if self.missing is None:
            object.__setattr__(self, "missing", "error" if self.strict else "mean")
        for name, allowed in (("task", TASKS), ("missing", MISSING), ("dates", DATES)):
            if getattr(self, name) not in allowed:
                words, got = ", ".join(allowed), getattr(self, name)
                raise StreamError(f"{argument(name)} must be one of {words}; got {got!r}")
        object.__setattr__(self, "file", str(self.file))
        if self.decimal not in (None, ".", ","):
            words = "must be . or a comma"
            raise StreamError(f"{argument('decimal')} {words}; got {self.decimal!r}")
        if self.charset is not None:
            try:
                codecs.lookup(self.charset)
            except LookupError:
                raise StreamError(
                    f"{self.charset!r} is not a known encoding",
                    argument="charset",
                    hint="latin-1, cp1252 and utf-16 are some",
                ) from None
        for name in ("columns", "drop", "keep", "categorical", "na"):
            object.__setattr__(self, name, _names(getattr(self, name)))

    @property
    def name(self) -> str:
        """Return the name of the input in messages."""
        if self.file == "-":
            return "standard input"
        first, *more = self.file.split("\n")
        return without_secret(first) + (f" and {len(more)} more files" if more else "")

    def open(
        self, *, unlabelled: bool = True, rows: int | None = None, as_given: bool = False
    ) -> FileStream:
        """Open the stream; arguments as in `FileStream`."""
        from pronk.data.stream import FileStream

        choices = {one.name: getattr(self, one.name) for one in fields(self)}
        file = choices.pop("file")
        return FileStream(file, **choices, unlabelled=unlabelled, rows=rows, as_given=as_given)


@dataclass(frozen=True)
class Preparing(Described):
    """How columns are prepared for the learner; see `pronk.Prepared`."""

    scale: str = "minmax"
    encoding: str = "onehot"
    slots: int = 32
    scale_target: str = "auto"


def _names(given: str | Iterable[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


#: A function from a column to the row and value of the first value that is not a number.
FirstText = Callable[[str], tuple[int, str]]
#: The kinds of columns, and the orders of their dates.
Kinds = dict[str, tuple[str, str]]

#: A target of whole numbers with at most this many distinct values holds classes.
FEW = 20
#: A target of text with more distinct values than this holds names, not classes.
MANY = 100

#: 1,234,567 or 1.234.567 or 1 234 567.8, and 3,25
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:(?:,\d{3})+(?:\.\d+)?|(?:\.\d{3}){2,}|(?:[ '_]\d{3})+.*)")
_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
#: The name of an index without a name, as spreadsheets and pandas write it.
UNNAMED = re.compile(r"(?:Unnamed: \d+)?")
#: The only column of X if the file has no other than the target; it is 0 in every row.
NO_COLUMN = "(no column)"
#: Whole numbers from this one on, with at most this number of different values, are codes.
_CODES, _FEW_CODES = 1000, 32
#: Years, months and days as whole numbers.
_DATES = ((1900, 2100), (190001, 210012), (19000101, 21001231))
#: Rows after which a note is printed for a column whose values never repeat.
LEAST_ROWS = 50


class Chooser:
    """Choose columns, kinds and task of one stream.

    Parameters
    ----------
    name : name of the stream in messages
    schema : names and types of all its columns
    untyped : whether its values are text that reads as any type
    target : the column to predict, or several with commas between
    """

    def __init__(self, name: str, schema: pa.Schema, untyped: bool, target: str | None) -> None:
        self._name = name
        self._schema = schema
        self._untyped = untyped
        self.targets = [] if target is None else self._several(target)

    def columns(self, reading: Reading) -> tuple[list[str], list[str], bool, list[str]]:
        """Return the columns of X in order, the named categories among them, and those to keep.

        Third is whether all columns of text are categories. Raise if a column does not exist.
        """
        names = self._schema.names
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            hint = self._header_hint() or "rename one"
            raise StreamError(f"{self._name} has two columns named {twice[0]!r}", hint=hint)
        named = self._split(reading.categorical)
        automatic = AUTOMATIC in named and AUTOMATIC not in names
        named = [name for name in named if name != AUTOMATIC or not automatic]
        requested = {
            "target": self.targets,
            "weight": [reading.weight] if reading.weight is not None else [],
            "time": [reading.time] if reading.time is not None else [],
            "columns": self._split(reading.columns),
            "drop": self._split(reading.drop),
            "keep": self._split(reading.keep),
            "categorical": named,
        }
        for role, several in requested.items():
            for name in several:
                if (role, name) != ("columns", NO_COLUMN):
                    self._check_name(role, name, reading.weight)
        candidates = requested["columns"] or names
        excluded = {*self.targets, reading.weight, *requested["drop"]}
        columns = [name for name in candidates if name not in excluded]
        if not columns and not (reading.strict or reading.columns or reading.drop):
            columns = [NO_COLUMN]
        categorical = [name for name in columns if name in set(named)]
        return columns, categorical, automatic, requested["keep"]

    def _check_name(self, argument: str, name: str, weight: str | None) -> None:
        """Raise if an argument cannot name a column."""
        if name not in self._schema.names:
            raise StreamError(
                f"{self._name} has no column {name!r}",
                argument=argument, column=name, hint=self._name_hint(name),
            )  # fmt: skip
        if name in self.targets and argument != "target":
            raise StreamError(
                f"{name!r} is the target; leave it out here", argument=argument, column=name
            )
        if name == weight and argument in ("columns", "categorical", "time"):
            raise StreamError(
                f"{name!r} is the weight, which is not a feature", argument=argument, column=name
            )

    def _several(self, target: str) -> list[str]:
        known = self._schema.names
        if target not in known and {f"{target}.0", f"{target}.1"} <= set(known):
            raise StreamError(
                f"{self._name} has an object with the columns, not a row per object",
                argument="target",
                column=target,
                hint="write its rows, with pandas by to_json(orient='records', lines=True)",
            )
        parts = self._split([target])
        return [name if name in known else name.strip() for name in parts]

    def _split(self, given: Sequence[str]) -> list[str]:
        """Return names; text with commas is several names unless a column has that name.

        The name of a nested column stands for its fields.
        """
        known = self._schema.names
        parts = [[text] if text in known else text.split(",") for text in given]
        found: list[str] = []
        for name in (name for some in parts for name in some):
            fields = [other for other in known if other.startswith(f"{name}.")]
            found += [name] if name in known or not fields else fields
        return list(dict.fromkeys(found))

    def _name_hint(self, name: str) -> str:
        names = self._schema.names
        if self._untyped and (hint := other_delimiter(names)):
            return hint
        if not reads_as_number(name) and (hint := self._header_hint()):
            return hint
        shown = ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
        if self._untyped and len(names) == 1:
            shown += "; if that is a title, delete the lines above the names of the columns"
        return did_you_mean(name, names, otherwise=f"; it has {shown}").removeprefix("; ")

    def _header_hint(self) -> str:
        numbers = sum(map(reads_as_number, self._schema.names))
        if self._untyped and 2 * numbers > len(self._schema.names):
            return f"its first line seems to be data: give {argument('header', 'False')}"
        return ""

    def kinds(
        self,
        columns: Sequence[str],
        categorical: Sequence[str],
        automatic: bool,
        start: pa.RecordBatch,
        dates: str,
    ) -> tuple[Kinds, list[str]]:
        """Return kinds and orders of dates by types, those of text by the first rows; and notes."""
        kinds: Kinds = {}
        notes: list[str] = []
        for name in columns:
            if name == NO_COLUMN:
                kinds[name] = NUMBER, ISO
                continue
            type_, values = self._schema.field(name).type, start.column(name)
            kind, order = kind_of(type_), ISO if dates == "auto" else dates
            if name in categorical:
                kind = CATEGORY
            elif automatic and _are_codes(values):
                kind = CATEGORY
                notes.append(
                    f"column {name!r} has {len(values.drop_null().unique())} different whole "
                    f"numbers, all of {_CODES:,} and more, and is taken as categories; if they are "
                    f"measured, give {argument('strict')}"
                )
            elif is_text(type_) and (decision := decide(present(values), dates)):
                kind, order, shown = decision
                if not shown:
                    first, other = ("day", MONTH_FIRST)
                    if order == MONTH_FIRST:
                        first, other = ("month", DAY_FIRST)
                    notes.append(
                        f"dates of column {name!r} are read with the {first} first, which the "
                        "first rows do not show; if that is wrong, give "
                        f"{argument('dates', other)}"
                    )
            elif is_text(type_) and (unit := _unit_of(values)):
                notes.append(
                    f"column {name!r} has numbers with the unit {unit!r}, read as categories; "
                    "write them without it"
                )
            kinds[name] = kind, order
        return kinds, notes

    def of_no_use(
        self, kinds: Kinds, categorical: Sequence[str], start: pa.RecordBatch
    ) -> dict[str, str]:
        """Return columns that only name or number the rows, with notes, but no named category."""
        found: dict[str, str] = {}
        for name, (kind, _) in kinds.items() if len(start) >= LEAST_ROWS else ():
            if name == NO_COLUMN or name in categorical:
                continue
            values = start.column(name).drop_null()
            if kind == CATEGORY and is_text(values.type):
                distinct = len(values.unique())
                if len(values) >= LEAST_ROWS and distinct > 0.9 * len(values):
                    found[name] = (
                        f"column {name!r} is left out: it has {distinct:,} different texts in the "
                        f"first {len(start):,} rows; to use it, give "
                        f"{argument('categorical', f'auto,{name}')}"
                    )
            elif UNNAMED.fullmatch(name) and is_number(values.type) and _counts_up(values):
                what = "numbers the rows" if len(values) else "no value in the first rows"
                found[name] = f"column {name!r} is left out: it has no name and {what}"
        return found

    def check_usable(
        self,
        columns: Sequence[str],
        categorical: Sequence[str],
        start: pa.RecordBatch,
        first_text: FirstText,
        *,
        gaps: bool,
    ) -> None:
        """Raise one error for all columns that are neither numbers, times nor named categories.

        Unless ``gaps`` are allowed, the error also names the columns with missing values.
        """
        columns = [name for name in columns if name != NO_COLUMN]
        types = {name: self._schema.field(name).type for name in columns}
        for name in categorical:
            if pa.types.is_nested(types[name]):
                raise self._refused(name, "categorical", ", which cannot be a category")
        named = set(categorical)
        others = [name for name in columns if name not in named]
        bad = [name for name in others if not (is_number(types[name]) or is_time(types[name]))]
        if not bad:
            return
        problems: dict[str, list[str]] = {}  # and the arguments that solve each
        text = []
        for name in bad:
            found = self._explained(name, start, first_text)
            if found is None:
                text.append(name)
            else:
                problems[found[0]] = found[1]
        if text:
            flat = any(not pa.types.is_nested(types[name]) for name in text)
            give = [argument("categorical", AUTOMATIC)] if flat else []
            what, advice = self._not_numeric(text, types, start)
            problems[f"{what}; {advice}"] = give
        missing = [name for name in others if start.column(name).null_count]
        if missing and not gaps:
            fills = argument("missing", "mean")
            quoted = ", ".join(map(repr, missing))
            have = f"column {quoted} has" if len(missing) == 1 else f"columns {quoted} have"
            problems[f"{have} missing values; {fills} fills them in"] = [fills]
        if text and len(problems) == 1:
            raise StreamError(f"{self._name}: {what}", hint=advice)
        together = dict.fromkeys(give for each in problems.values() for give in each)
        hint = f"all together: {' '.join(together)}" if len(problems) > 1 and together else ""
        raise StreamError(f"{self._name}: {'; '.join(problems)}", hint=hint)

    def _not_numeric(
        self, names: Sequence[str], types: dict[str, pa.DataType], start: pa.RecordBatch
    ) -> tuple[str, str]:
        """Return the message for columns that are not numbers, and what to do."""
        drops = " ".join(argument("drop", name) for name in names)
        flat = [name for name in names if not pa.types.is_nested(types[name])]
        every = argument("categorical", AUTOMATIC)
        if len(names) > 1:
            quoted = ", ".join(map(repr, names))
            more = f", or take text as categories with {every}" if flat else ""
            return f"columns {quoted} are not numeric", f"leave them out with {drops}{more}"
        (name,) = names
        if flat:
            one = argument("categorical", name)
            drops += f", or take it as categories with {one} ({every}: all columns of text)"
        values = [v for v in start.column(name).to_pylist() if not reads_as_number(v)]
        such = f", such as {str(values[0])[:40]!r}" if values else ""
        what = in_words(types[name])
        return f"column {name!r} is not numeric ({what}{such})", f"leave it out with {drops}"

    def _refused(self, name: str, argument: str, why: str) -> StreamError:
        """Return the error for a column of a type that an argument cannot have."""
        what = f"column {name!r} of {self._name} is {in_words(self._schema.field(name).type)}"
        return StreamError(f"{what}{why}", argument=argument, column=name)

    def check_weight(self, name: str, start: pa.RecordBatch) -> None:
        """Raise if the weights are not numbers."""
        if is_number(self._schema.field(name).type):
            return
        words = enumerate(start.column(name).to_pylist())
        odd = ((i, v) for i, v in words if isinstance(v, str) and not reads_as_number(v))
        row, value = next(odd, (0, None))
        such = "" if value is None else f", such as {value[:40]!r} at row {row} (counting from 0)"
        error = self._refused(name, "weight", f"{such}; it must hold numbers")
        raise error.changed(row=None if value is None else row)

    def time_kind(self, name: str, start: pa.RecordBatch, dates: str) -> tuple[str, str]:
        """Return kind and order of the column of times; raise if it has no times."""
        kind, order = self.kinds([name], [], False, start, dates)[0][name]
        type_ = self._schema.field(name).type
        if kind in (TIME, DATE) or (kind == NUMBER and is_number(type_)):
            return kind, order
        what = "times of day without a date" if kind == CLOCK else in_words(type_)
        raise StreamError(
            f"column {name!r} of {self._name} is {what}; it must hold dates or numbers of seconds",
            argument="time",
            column=name,
        )

    def _explained(
        self, name: str, start: pa.RecordBatch, first_text: FirstText
    ) -> tuple[str, list[str]] | None:
        """Explain text that is numbers in another spelling, or numbers with a word for missing.

        Return the message and the arguments that solve the problem, or None for other text.
        """
        if not (self._untyped and is_text(self._schema.field(name).type)):
            return None
        words = [word for word in start.column(name).to_pylist() if word is not None]
        odd = [word for word in words if not reads_as_number(word)]
        column = f"column {name!r}"
        drop = argument("drop", name)
        if not odd:
            row, value = first_text(name)
            return (
                f"{column} has {value[:40]!r} at row {row} (counting from 0), and the rows before "
                f"are numbers; correct it, leave the column out with {drop}, or take it as "
                f"categories with {argument('categorical', name)}"
            ), []
        if all(map(_THOUSANDS.fullmatch, odd)):
            such = f"such as {odd[0]!r}; write its numbers without"
            return f"{column} has thousands separators, {such}", []
        if all(map(_COMMA.fullmatch, odd)):
            give = argument("decimal", ",")
            return f"{column} has decimal commas, such as {odd[0]!r}; give {give}", [give]
        if len(set(odd)) == 1 and 2 * len(odd) < len(words):
            give = argument("na", odd[0])
            return (
                f"{column} has only numbers and {odd[0][:40]!r}; if that means missing, give "
                f"{give}, or leave the column out with {drop}"
            ), [give, argument("missing", "mean")]
        return None

    def notes(self, kinds: Kinds, start: pa.RecordBatch) -> list[str]:
        """Return notes on columns, given with their kinds, that seem to number or name the rows."""
        found: list[str] = []
        for name, (kind, _) in kinds.items() if len(start) >= LEAST_ROWS else ():
            if kind not in (NUMBER, CATEGORY) or name == NO_COLUMN:
                continue
            values = start.column(name)
            type_ = values.type
            whole = pa.types.is_integer(type_) or is_text(type_)
            if not whole or len(values.unique()) < len(values):
                continue
            named = re.search(r"(^|[_\W])(id|uuid|guid|key|index|no|nr)$", name, re.I)
            numbered = pa.types.is_integer(type_) and _counts_up(values)
            if named or numbered or is_text(type_) or name.endswith(("Id", "ID")):
                found.append(
                    f"column {name!r} has another value in each of the first {len(values):,} "
                    f"rows; if it names the row, leave it out with {argument('drop', name)}"
                )
        return found

    def task(self, task: str, start: pa.RecordBatch, first_text: FirstText) -> tuple[str, str]:
        """Return the task, for "auto" by the first rows, and the reason."""
        if not self.targets:
            return ("regression" if task == "auto" else task), "no target"
        if len(self.targets) > 1:
            what = "several targets must be numbers"
            if task == "classification":
                raise StreamError(f"{what}; predict one label at a time", argument="target")
            for name in self.targets:
                if not is_number(self._schema.field(name).type):
                    raise self._refused(name, "target", f"; {what}, predict one label at a time")
            return "regression", f"{len(self.targets)} targets"
        (target,) = self.targets
        values = start.column(target)
        type_ = self._schema.field(target).type
        text = is_text(type_)
        column = f"column {target!r} of {self._name}"
        classes = argument("task", "classification")
        if not (text or is_number(type_)):
            raise self._refused(target, "target", "; it must hold numbers, booleans or text")
        distinct = len(values.drop_null().unique())
        many = task == "auto" and distinct > MANY
        odd = next((value for value in values.to_pylist() if not reads_as_number(value)), None)
        if text and odd is None and (task == "regression" or many):
            row, value = first_text(target)
            skip = argument("skip_bad", "FILE")
            raise StreamError(
                f"{column} has {value[:40]!r} at row {row} (counting from 0), and the rows before "
                "are numbers",
                argument="target", column=target, row=row,
                hint=f"correct it, or leave such rows out with {skip}",
            )  # fmt: skip
        if task == "regression" and text:
            raise StreamError(
                f"{column} is text, such as {str(odd)[:40]!r}",
                argument="target", column=target, hint=f"regression needs numbers: use {classes}",
            )  # fmt: skip
        if task != "auto":
            return task, "as given"
        if text and (unit := _unit_of(values)):
            raise StreamError(
                f"{column} has numbers with the unit {unit!r}",
                argument="target", column=target,
                hint=f"write them without it; if they are names of classes, give {classes}",
            )  # fmt: skip
        if text and many:
            raise StreamError(
                f"{column} is text with {distinct} distinct values in {len(values)} rows, too many "
                "for classes",
                argument="target", column=target, hint=f"if it is right, give {classes}",
            )  # fmt: skip
        if text or pa.types.is_boolean(type_):
            return "classification", in_words(type_)
        if pa.types.is_integer(type_) and _are_counts(values):
            return "regression", f"{distinct} distinct whole numbers, as of counts"
        if pa.types.is_integer(type_) and distinct <= min(FEW, max(2, len(values) // 5)):
            return "classification", f"{distinct} distinct whole numbers"
        if distinct == 2 and set(values.drop_null().unique().to_pylist()) in ({0, 1}, {-1, 1}):
            return "classification", "two distinct values"
        return "regression", f"{distinct} distinct numbers"


def _are_codes(values: pa.Array) -> bool:
    """Return whether whole numbers are codes, as of places: large, few, and at no even distance.

    Years, months as 202401 and days as 20240131 are numbers, and so is what only grows.
    """
    known = values.drop_null()
    if not pa.types.is_integer(values.type) or len(known) < LEAST_ROWS:
        return False
    distinct = sorted(known.unique().to_pylist())
    if not 2 <= len(distinct) <= min(_FEW_CODES, len(known) // 10) or distinct[0] < _CODES:
        return False
    steps = {after - before for before, after in pairwise(distinct)}
    if len(steps) == 1 or distinct[-1] - distinct[0] <= 4 * len(distinct):
        return False
    if any(all(low <= one <= high for one in distinct) for low, high in _DATES):
        return False
    return any(after < before for before, after in pairwise(known.to_pylist()))


def _unit_of(values: pa.Array) -> str | None:
    """Return the unit of a column of text such as "12.5 kg", of which there are several values."""
    words = present(values).unique().to_pylist()
    return unit_of(words) if len(words) > 2 else None


def _are_counts(values: pa.Array) -> bool:
    """Return whether whole numbers are counts: many, from 0 or 1 on, fewer to both sides of a peak.

    The frequencies of classes are in no order, and a rare class is rarely the last one.
    """
    found = values.drop_null().value_counts().to_pylist()
    often = {item["values"]: item["counts"] for item in found}
    if len(often) < 5 or min(often) not in (0, 1) or len(values) < LEAST_ROWS:
        return False
    shares = [often.get(i, 0) / len(values) for i in range(min(often), max(often) + 1)]
    peak = shares.index(max(shares))
    slack = 2.0 / len(values) ** 0.5  # the error of a share
    rises = all(b >= a - slack for a, b in pairwise(shares[: peak + 1]))
    falls = all(b <= a + slack for a, b in pairwise(shares[peak:]))
    return rises and falls and shares[-1] < 0.02


def _counts_up(values: pa.Array) -> bool:
    """Return whether whole numbers increase by one from row to row."""
    numbers = [value for value in values.to_pylist() if value is not None]
    return all(after - before == 1 for before, after in pairwise(numbers))
