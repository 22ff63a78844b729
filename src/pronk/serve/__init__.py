"""Predictions now, labels later, nothing lost: learners behind HTTP, and a client for them.

`pronk serve FOLDER` starts a server (`pip install ".[serve]"`); `Client` needs nothing else.
"""

from typing import Any as _Any

__all__ = ["Client", "ServerError"]


def __getattr__(name: str) -> _Any:
    if name not in __all__:
        raise AttributeError(f"module 'pronk.serve' has no attribute {name!r}")
    from pronk.serve import client

    return getattr(client, name)
