"""Logs: one JSON object a line on stderr, without features, labels or tokens."""

from __future__ import annotations

import json
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
