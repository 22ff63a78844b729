"""What the bounds share: the range of their arguments, and the logarithm of their proofs."""

from __future__ import annotations

import math


def log_factor(x: float) -> float:
    """2 log(2x) of the theorems, and 1 + log(1 + x) of their proofs where that is larger."""
    printed = 2.0 * math.log(2.0 * x) if x > 0.0 else -math.inf
    return max(printed, 1.0 + math.log1p(x))


def check(
    positive: dict[str, float] | None = None,
    nonnegative: dict[str, float] | None = None,
    at_most_one: dict[str, float] | None = None,
) -> None:
    """ValueError for a number outside its range; NaN is outside every range."""
    for name, value in (positive or {}).items():
        if not 0.0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value!r}")
    for name, value in (nonnegative or {}).items():
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{name} must be non-negative and finite, got {value!r}")
    for name, value in (at_most_one or {}).items():
        if not value <= 1.0:
            raise ValueError(f"{name} must be at most 1, got {value!r}")
