"""What is refused, as the status and the line that the client gets."""

from __future__ import annotations

import re

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
