"""How much memory a model holds: its arrays and the objects around them, counted once each."""

from __future__ import annotations

import sys
from collections import deque
from types import ModuleType
from typing import Any

import numpy as np

_ATOMS = frozenset({str, bytes, int, float, complex, bool, type(None)})


def held_bytes(model: Any) -> int:
    """Bytes of everything that can be reached from a model; code and classes do not count.

    Arrays count with the memory they own or keep alive: one with room to grow counts whole.

    >>> import numpy as np
    >>> from pronk.evaluate import held_bytes
    >>> held_bytes(np.zeros((100, 100))[:5]) >= 80_000
    True
    """
    total = 0
    seen: set[int] = set()
    stack = [model]
    while stack:
        item = stack.pop()
        while isinstance(item, np.ndarray) and isinstance(item.base, np.ndarray):
            item = item.base
        if id(item) in seen:
            continue
        seen.add(id(item))
        kind = type(item)
        if kind in _ATOMS:  # most of all objects
            total += sys.getsizeof(item)
        elif isinstance(item, np.ndarray):
            total += max(item.nbytes, sys.getsizeof(item))
            if item.dtype == object:
                stack.extend(item.tolist())
        elif not _is_code(item):
            total += sys.getsizeof(item, 0)
            if isinstance(item, dict):
                stack.extend(item.keys())
                stack.extend(item.values())
            elif isinstance(item, list | tuple | set | frozenset | deque):
                stack.extend(item)
            elif not isinstance(item, np.generic):
                stack.extend(_attributes(item))
    return total


def _is_code(item: Any) -> bool:
    """Classes, modules and functions, also compiled ones."""
    if isinstance(item, type | ModuleType):
        return True
    return callable(item) and hasattr(item, "__name__")


def _attributes(item: Any) -> list[Any]:
    values = [item.__dict__] if hasattr(item, "__dict__") else []
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                values.append(getattr(item, name))
    return values
