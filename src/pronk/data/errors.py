"""The error of streams, and the messages that name arguments.

A message is text in which arguments are marked (`argument`). Python reads an argument as
``missing='mean'``; the command line reads the same argument as its option, ``--missing mean``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any

#: An argument in the text of a message: its name and its value, between control characters.
_MARKED = re.compile("\x02([^\x02]*)\x03([^\x02]*)\x02")


def argument(name: str, value: str = "") -> str:
    """Return an argument, perhaps with a value, for the text of a message."""
    return f"\x02{name}\x03{value}\x02"


def option(name: str, value: object = "") -> str:
    """Return an argument as the command line spells it: ``--no-header`` for ``header=False``."""
    if value in (False, "False"):
        return f"--no-{name}"
    words = f"--{name.replace('_', '-')}"
    return words if value == "" else f"{words} {shlex.quote(str(value))}"


def _in_code(name: str, value: str) -> str:
    """Return an argument as Python code: ``missing='mean'``."""
    if not value:
        return name
    return f"{name}={value}" if value in ("True", "False") else f"{name}={value!r}"


def in_python(message: str) -> str:
    """Return a message with its arguments spelled as in Python."""
    return _MARKED.sub(lambda found: _in_code(*found.groups()), message)


def with_options(message: str) -> str:
    """Return a message with its arguments spelled as options of the command line."""
    return _MARKED.sub(lambda found: option(*found.groups()), message)


def other_delimiter(names: Sequence[str], decimal_commas: bool = False) -> str:
    """Return a hint if the only column name of a CSV file contains another delimiter."""
    for character, spelling in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
        if len(names) == 1 and character in names[0]:
            give = argument("delimiter", "\\t" if character == "\t" else character)
            if character == ";" and decimal_commas:  # this option implies the delimiter
                decimal = argument("decimal", ",")
                give = f"{decimal} if its numbers have decimal commas, else {give}"
            return f"its columns seem to be separated by {spelling}: give {give}"
    return ""


class StreamError(ValueError):
    """A file, a column or a row cannot be used.

    Parameters
    ----------
    message : what is wrong
    argument : the argument whose value is wrong
    column : the column at fault
    row : the row at fault, counted from 0 at the first row of data
    hint : what to do
    """

    def __init__(
        self,
        message: str,
        *,
        argument: str | None = None,
        column: str | None = None,
        row: int | None = None,
        hint: str = "",
    ) -> None:
        self.message, self.hint = message, hint
        self.argument, self.column, self.row = argument, column, row
        super().__init__(without_secret(in_python(self._text())))

    def _text(self) -> str:
        prefix = "" if self.argument is None else f"{argument(self.argument)}: "
        return prefix + self.message + (f"; {self.hint}" if self.hint else "")

    def as_options(self) -> str:
        """Return the text with arguments spelled as options of the command line."""
        return without_secret(with_options(self._text()))

    def changed(self, **fields: Any) -> StreamError:
        """Return a copy with other values of some fields."""
        return StreamError(self.message, **{**self._fields(), **fields})

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("argument", "column", "row", "hint")}

    def __reduce__(self) -> Any:  # workers send errors to the main process
        return partial(StreamError, **self._fields()), (self.message,)


#: User and password of a URL. A password may hold @, and one that is not quoted as it should be a
#: slash too: then there is a colon, and behind it no port.
_LOGIN = re.compile(r"(?<=://)(?:[^/\s'\"?#]*@|(?!\[)[^/@:\s]*:(?!\d*(?:[/?#\s'\"]|$))[^\s'\"]*@)")
#: The same in an address of ADBC without "//": adbc:DRIVER:user:password@account.
_ADBC = re.compile(r"(\badbc:[\w.-]+:)(?!file:|[^\s'\"]*://)[^\s'\"/@:]*:[^\s'\"]*@")
#: A parameter of a URL, or of a database's address, whose value is a secret.
_GIVEN = re.compile(
    r"(?i)\b((?:[\w.-]*(?:secret|token|password|passwd|signature|credential)[\w.-]*"
    r"|[\w.-]+[_-]key|(?<=[?&])key|pwd|sig)\s*=\s*)('[^']*'|[^\s&;'\"#]+)"
)
#: The same in SQL: CREATE SECRET (.., SECRET 'text').
_SQL = re.compile(r"(?i)\b(secret|password|token|key_id)(\s+)'[^']*'")


def without_secret(text: str) -> str:
    """Return a text without the passwords of URLs and addresses in it, for screens and files."""
    text = _ADBC.sub(r"\1", _LOGIN.sub("", text))
    return _SQL.sub(r"\1\2'***'", _GIVEN.sub(r"\1***", text))


def without_secrets(value: Any) -> Any:
    """Return a table or list with `without_secret` of every text in it."""
    if isinstance(value, dict):
        return {key: without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return without_secret(value) if isinstance(value, str) else value
