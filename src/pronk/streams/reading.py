"""How a file is read, in one description: it opens the stream, and tells what was chosen.

Checkpoints and results of comparisons keep what was chosen, and a report tells it as a command.
What is as usual is left out, so that a choice which a later version adds leaves old ones alone.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from pronk.streams.dates import DATES
from pronk.streams.errors import StreamError, argument, option, without_secret

if TYPE_CHECKING:
    from pronk.streams.files import FileStream

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
        block; "iso" takes them for text. See `pronk.streams.dates`.
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
        from pronk.streams.files import FileStream

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
