"""The exception that ends a request with an HTTP status and a one-line message.

A file of its own because every module of the service raises it, below and above HTTP.
"""

from __future__ import annotations


class HTTPError(Exception):
    """End a request with an error status; the request changed nothing."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def unknown_model(name: str) -> HTTPError:
    """Return the error for a model that does not exist."""
    return HTTPError(404, f"there is no model {name!r}; GET /v2/models lists all models")
