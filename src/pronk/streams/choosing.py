"""What the start of a stream decides: the columns, whether they are numbers, and the task."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence

import pyarrow as pa

from pronk.streams.errors import StreamError
from pronk.streams.values import in_words, is_number, is_text, reads_as_number

#: A target of whole numbers with at most this many distinct values is taken for classes.
FEW = 20
#: Text with more distinct values than this is taken for a name, not for a class.
MANY = 100


class Chooser:
    """Choices for one stream.

    Parameters
    ----------
    name : how messages call the stream
    schema : names and types of all its columns
    untyped : whether its values are text that reads as any type
    target : the column to predict
    """

    def __init__(self, name: str, schema: pa.Schema, untyped: bool, target: str | None) -> None:
        self._name = name
        self._schema = schema
        self._untyped = untyped
        self._target = target

    def columns(
        self,
        columns: Sequence[str] | None,
        drop: Sequence[str],
        categorical: Sequence[str],
        keep: Sequence[str] = (),
    ) -> list[str]:
        """The columns to use, in order; every name that was asked for must be there."""
        names, target = self._schema.names, self._target
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            hint = self._header_hint() or "; rename one"
            raise StreamError(f"{self._name} has two columns named {twice[0]!r}{hint}")
        asked = [
            ("target", [target] if target is not None else []),
            ("columns", columns or ()),
            ("drop", drop),
            ("categorical", categorical),
            ("keep", keep),
        ]
        for option, several in asked:
            for name in several:
                if name not in names:
                    raise StreamError(
                        f"--{option}: {self._name} has no column {name!r}{self._name_hint(name)}"
                    )
                if name == target and option != "target":
                    raise StreamError(f"--{option}: {name!r} is the target")
        chosen = list(dict.fromkeys(columns)) if columns is not None else names
        left = {target, *drop}
        return [name for name in chosen if name not in left]

    def _name_hint(self, name: str) -> str:
        names = self._schema.names
        if len(names) == 1 and self._untyped:
            for character, spelling in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
                if character in names[0]:
                    return f"; its columns seem to be separated by {spelling}: give --delimiter"
        if not reads_as_number(name) and (hint := self._header_hint()):
            return hint
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            return f"; did you mean {near[0]!r}?"
        shown = ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
        return f"; it has {shown}"

    def _header_hint(self) -> str:
        if self._untyped and all(map(reads_as_number, self._schema.names)):
            return "; its first line seems to be data: give --no-header"
        return ""

    def check_numeric(self, numbers: Sequence[str], start: pa.RecordBatch) -> None:
        """Refuse columns that are no numbers, with an example from the first rows."""
        bad = [name for name in numbers if not is_number(self._schema.field(name).type)]
        if not bad:
            return
        names = ", ".join(repr(name) for name in bad)
        drops = " ".join(f"--drop {shlex.quote(name)}" for name in bad)
        drops += ", or take it as categories with --categorical"
        what = in_words(self._schema.field(bad[0]).type)
        values = [v for v in start.column(bad[0]).to_pylist() if not reads_as_number(v)]
        such = f", such as {str(values[0])[:40]!r}" if values else ""
        if len(bad) == 1:
            text = f"column {names} is not numeric ({what}{such}); leave it out with {drops}"
        else:
            text = f"columns {names} are not numeric; leave them out with {drops}"
        raise StreamError(f"{self._name}: {text}")

    def task(self, task: str, start: pa.RecordBatch) -> tuple[str, str]:
        """The task, "auto" by the first rows, and why."""
        if self._target is None:
            return ("regression" if task == "auto" else task), "no target"
        values = start.column(self._target)
        kind = self._schema.field(self._target).type
        text = is_text(kind)
        column = f"--target: column {self._target!r} of {self._name}"
        if not (text or is_number(kind)):
            raise StreamError(
                f"{column} is {in_words(kind)}; it must hold numbers, booleans or text"
            )
        if task == "regression" and text:
            value = next((v for v in values.to_pylist() if not reads_as_number(v)), "text")
            raise StreamError(
                f"{column} is text, such as {str(value)[:40]!r}; regression needs numbers: use "
                "--task classification"
            )
        if task != "auto":
            return task, "as given"
        distinct = len(values.drop_null().unique())
        if text and distinct > MANY:
            raise StreamError(
                f"{column} is text with {distinct} distinct values in {len(values)} rows, too many "
                "for classes; if it is right, give --task classification"
            )
        if text or pa.types.is_boolean(kind):
            return "classification", in_words(kind)
        if pa.types.is_integer(kind) and distinct <= min(FEW, max(2, len(values) // 5)):
            return "classification", f"{distinct} distinct whole numbers"
        if distinct == 2 and set(values.drop_null().unique().to_pylist()) in ({0, 1}, {-1, 1}):
            return "classification", "two distinct values"
        return "regression", f"{distinct} distinct numbers"
