"""Numbers as text."""

from __future__ import annotations

import math

from pronk.cli.screen import number


def mean_and_deviation(mean: float, deviation: float | None) -> str:
    """Both with the digits of the mean.

    >>> print(mean_and_deviation(0.06431, 0.000123))
    0.06431 ± 0.00012
    """
    text = number(mean)
    if deviation is None or not math.isfinite(mean):
        return text
    if "e" in text:
        return f"{text} ± {deviation:.0e}"
    decimals = len(text.partition(".")[2])
    return f"{text} ± {deviation:,.{decimals}f}"
