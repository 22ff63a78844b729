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
    if deviation == 0:
        return f"{text} ± 0"
    if "e" in text:
        return f"{text} ± {deviation:.0e}"
    decimals = len(text.partition(".")[2])
    return f"{text} ± {deviation:,.{decimals}f}"


def microseconds(mean: float, deviation: float | None) -> str:
    """Three digits: a clock has no more to say.

    >>> print(microseconds(31.512, 2.561))
    31.5 ± 2.6
    """
    decimals = 2 if mean < 10 else 1 if mean < 100 else 0
    text = f"{mean:,.{decimals}f}"
    return text if deviation is None else f"{text} ± {deviation:,.{decimals}f}"
