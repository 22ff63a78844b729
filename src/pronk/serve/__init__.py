"""An HTTP service for online learning, and a client for it.

`pronk serve FOLDER` starts a server (it needs `pip install ".[serve]"`); `Client` needs no extra.
"""

from typing import Any as _Any

__all__ = ["Client", "ServerError"]


def __getattr__(name: str) -> _Any:
    if name not in __all__:
        raise AttributeError(f"module 'pronk.serve' has no attribute {name!r}")
    from pronk.serve import client

    return getattr(client, name)
