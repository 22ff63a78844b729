"""The one error of streams: the data is not as it should be, in one line for the user.

A message may name an argument, as in ``missing='mean'``. Who calls from Python reads it like that;
the command line words it as its option, ``--missing mean``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

#: Around an argument's name and value in the text of an error; they stand in no data.
_MARKS = "\x1c{}\x1d{}\x1e"
_MARKED = re.compile("\x1c([^\x1d]*)\x1d([^\x1e]*)\x1e")


def argument(name: str, value: str = "") -> str:
    """An argument, perhaps with a value, for the text of a `StreamError`."""
    return _MARKS.format(name, value)


def option(name: str, value: object = "") -> str:
    """An argument as the command line has it: ``--no-header`` for ``header=False``."""
    if value in (False, "False"):
        return f"--no-{name}"
    words = f"--{name.replace('_', '-')}"
    return words if value == "" else f"{words} {shlex.quote(str(value))}"


def _as_python(name: str, value: str) -> str:
    if not value:
        return name
    return f"{name}={value}" if value in ("True", "False") else f"{name}={value!r}"


def as_arguments(text: str) -> str:
    """A text that names arguments, in the words of Python."""
    return _MARKED.sub(lambda found: _as_python(found[1], found[2]), text)


def as_options(text: str) -> str:
    """A text that names arguments, in the words of the command line."""
    return _MARKED.sub(lambda found: option(found[1], found[2]), text)


def other_delimiter(names: Sequence[str], decimal_commas: bool = False) -> str:
    """What to say where the only name of a CSV file is several with another delimiter."""
    for character, spelling in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
        if len(names) == 1 and character in names[0]:
            give = argument("delimiter", "\\t" if character == "\t" else character)
            if character == ";" and decimal_commas:  # which means the delimiter too
                give = f"{argument('decimal', ',')} if its numbers have decimal commas, else {give}"
            return f"; its columns seem to be separated by {spelling}: give {give}"
    return ""


class StreamError(ValueError):
    """A file, a column or a row cannot be used; the message says which and what to do."""

    def __init__(self, message: str, column: str | None = None) -> None:
        self.text = without_secret(message)
        self.column = column
        super().__init__(as_arguments(self.text))

    def as_options(self) -> str:
        """The message in the words of the command line."""
        return as_options(self.text)


#: User and password of a URL. A password may hold @, and one that is not quoted as it should be a
#: slash too: then there is a colon, and behind it no port.
_LOGIN = re.compile(r"(?<=://)(?:[^/\s'\"?#]*@|(?!\[)[^/@:\s]*:(?!\d*(?:[/?#\s'\"]|$))[^\s'\"]*@)")
#: A parameter of a URL, or of a database's address, whose value is a secret.
_GIVEN = re.compile(
    r"(?i)\b((?:[\w.-]*(?:secret|token|password|passwd|signature|credential)[\w.-]*"
    r"|[\w.-]+[_-]key|(?<=[?&])key|pwd|sig)\s*=\s*)('[^']*'|[^\s&;'\"#]+)"
)
#: The same in SQL: CREATE SECRET (.., SECRET 'text').
_SQL = re.compile(r"(?i)\b(secret|password|token|key_id)(\s+)'[^']*'")


def without_secret(text: str) -> str:
    """Return a text without the passwords of URLs and addresses in it, for screens and files."""
    text = _LOGIN.sub("", text)
    return _SQL.sub(r"\1\2'***'", _GIVEN.sub(r"\1***", text))


def without_secrets(value: Any) -> Any:
    """Return a table or list with `without_secret` of every text in it."""
    if isinstance(value, dict):
        return {key: without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return without_secret(value) if isinstance(value, str) else value
