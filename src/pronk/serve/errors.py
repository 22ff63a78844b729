"""What is refused, as the status and the line that the client gets."""

from __future__ import annotations


class Refused(Exception):
    """A request that is answered with an error; nothing was changed."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def unknown_model(name: str) -> Refused:
    return Refused(404, f"there is no model {name!r}; GET /v2/models lists those there are")
