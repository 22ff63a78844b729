"""Values as JSON has them."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:
    """A value for JSON: NaN and infinity become None, arrays lists, what it does not know text."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def setting(value: Any) -> Any:
    """A parameter for JSON: itself, or what Python writes for it."""
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
