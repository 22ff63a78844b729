"""Failures: one line on stderr and an exit code, no traceback.

Separate from `screen` because it is imported at every start, and must not import Rich.
"""

from __future__ import annotations

import os
import sys


class CommandError(Exception):
    """A failure with a one-line message and an exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def visible(text: str) -> str:
    """Return a text with its control characters escaped, which a terminal would obey."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def end_with(error: BaseException) -> int:
    """Print an error and return the exit code; PRONK_TRACEBACK=1 in the environment raises it."""
    if os.environ.get("PRONK_TRACEBACK"):
        raise error
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, BrokenPipeError):  # `pronk algorithms | head`
        sys.stderr.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    from pronk.data.errors import without_secret  # slow to import

    message, code = _describe(error)
    message = without_secret(message)
    print("pronk: " + visible(" ".join(message.split())), file=sys.stderr)
    return code


def _describe(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "interrupted from the keyboard", 130
    if isinstance(error, CommandError):
        return str(error), error.code
    if hasattr(error, "as_options"):  # a StreamError, without importing it
        return error.as_options(), 2
    if hasattr(error, "format_message"):  # Typer's usage errors
        return f"{error.format_message()} (--help lists the options)", 2
    if isinstance(error, MemoryError):
        return f"out of memory: {error}".rstrip(": "), 1
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}", 1
    if isinstance(error, ValueError) and type(error).__name__ != "LinAlgError":
        return str(error), 2
    return f"failed: {type(error).__name__}: {error}", 1
