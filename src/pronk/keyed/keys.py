"""Keys as text, the shard that a key belongs to, and the rows of a block by key.

A key is text, a whole number or a truth value. As text it is its JSON, which tells 1 from "1".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Key = str | int | bool


def encoded(key: Any) -> str:
    """A key as text, the same for equal keys of Python, NumPy and files."""
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if not isinstance(key, str | int):
        raise ValueError(f"a key must be text, a whole number or a truth value, got {key!r}")
    return json.dumps(key, ensure_ascii=False)


def decoded(text: str) -> Key:
    """The key that `encoded` made text."""
    key: Key = json.loads(text)
    return key


def digest(text: str) -> int:
    """64 bits of an encoded key, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def shard_of(text: str, shards: int) -> int:
    """The number of the shard that holds an encoded key."""
    return digest(text) % shards


def groups(keys: Sequence[Any] | NDArray[Any], shards: int) -> Iterator[tuple[str, Any]]:
    """Encoded keys and the numbers of their rows, in order; shard by shard.

    Keys of one shard come in the order of their first rows.
    """
    rows: dict[Any, list[int]] = {}
    for row, key in enumerate(keys.tolist() if isinstance(keys, np.ndarray) else keys):
        rows.setdefault(key, []).append(row)
    texts: dict[str, list[int]] = {}
    for key, numbers in rows.items():
        try:
            text = encoded(key)
        except ValueError as error:
            raise ValueError(f"{error} at row {numbers[0]} (counting from 0)") from None
        texts[text] = sorted(texts[text] + numbers) if text in texts else numbers
    for text in sorted(texts, key=lambda text: shard_of(text, shards)):
        yield text, np.array(texts[text])
