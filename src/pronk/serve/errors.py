"""What is refused, as the status and the line that the client gets."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from typing import Any

_NO_NUMBER = re.compile(rb"[\[:,\s]-?(NaN|Infinity)")


class Refused(Exception):
    """A request that is answered with an error; nothing was changed."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def unknown_model(name: str) -> Refused:
    return Refused(404, f"there is no model {name!r}; GET /v2/models lists those there are")


def not_json(error: Exception, body: bytes) -> Refused:
    """A body that cannot be read, and why."""
    if isinstance(error, RecursionError):
        return Refused(400, "the body is nested too deep")
    hint = "; NaN and Infinity are not in JSON, null is a missing value"
    return Refused(
        400, f"the body is not JSON: {error}"[:300] + (hint if _NO_NUMBER.search(body) else "")
    )


# ----------------------------------------------------------------------------------------
# Logs: one JSON object a line on stderr, without features, labels or tokens.

_lock = threading.Lock()


def note(event: str, **fields: Any) -> None:
    """Write a line."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"
    line = json.dumps({"time": moment, "event": event, **fields}, default=str)
    with _lock:
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads it any more
            pass


class _Noted(logging.Handler):
    """Lines of other packages, in our form and without what was sent."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = (
            {"reason": record.exc_info[0].__name__}
            if record.exc_info and record.exc_info[0]
            else {}
        )
        note("server", logger=record.name, text=record.getMessage()[:300], **fields)


def take_over(*names: str) -> None:
    """Have the warnings of these loggers written as lines of this log."""
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers = [_Noted(logging.WARNING)]
        logger.propagate = False
