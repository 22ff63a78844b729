"""Numbers as text, the same on screens, in pictures and on pages."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """Four digits that matter.

    >>> print(number(0.0643123), number(1234.5), number(3e-7))
    0.06431 1,234 3.00e-07
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        digits = 4 if value == 0 else max(0, min(6, 3 - math.floor(math.log10(abs(value)))))
        return f"{value:,.{digits}f}"
    return f"{value:.2e}"


def size(bytes_held: int) -> str:
    """Bytes in kB or MB."""
    if bytes_held < 999_500:
        return f"{bytes_held / 1e3:,.0f} kB" if bytes_held >= 9950 else f"{bytes_held / 1e3:.1f} kB"
    return f"{bytes_held / 1e6:,.1f} MB"


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


def count(n: int, word: str) -> str:
    """A number of things.

    >>> print(count(1, "run"), count(2000, "row"))
    1 run 2,000 rows
    """
    return f"{n:,} {word}" + ("" if n == 1 else "s")
