"""Logs: one JSON object a line on stderr, without features, labels or tokens."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from typing import Any

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
