"""Run compiled functions as plain Python, line by line (NUMBA_DISABLE_JIT=1).

The intrinsics of `pronk.core.elementary` are replaced by plain Python; the fused multiply-add uses
a longer float, with which the tests of 2 ulp pass.

Tests have a limit in CPU seconds: plain Python is a hundred times slower, and a long stream hardly
reaches another line in its second minute. ``PRONK_TEST_SECONDS`` is the limit of a test; all cases
of a parametrised one together have four times as much. Lines that a stopped test has run count.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pronk.core import elementary

SECONDS = float(os.environ.get("PRONK_TEST_SECONDS", "0"))


def fma(a: float, b: float, c: float) -> float:
    """Return a * b + c, rounded (nearly always) once."""
    return float(np.longdouble(a) * np.longdouble(b) + np.longdouble(c))


def bits(x: float) -> int:
    """Return the 64 bits of a float64 as an int64."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def from_bits(i: int) -> float:
    """Return the float64 with these 64 bits; higher bits are dropped."""
    return float(struct.unpack("<d", struct.pack("<Q", int(i) & (2**64 - 1)))[0])


def install() -> None:
    """Replace the intrinsics, which plain Python cannot call."""
    elementary._fma, elementary._bits, elementary._from_bits = fma, bits, from_bits


_spent: Counter[str] = Counter()


def _stop(number: int, frame: Any) -> None:
    pytest.skip(f"stopped after {SECONDS:g} s of plain Python")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Stop a test after its limit of seconds; 0 is no limit."""
    test = f"{item.path}::{getattr(item, 'originalname', item.name)}"
    if SECONDS and _spent[test] > 4 * SECONDS:
        pytest.skip("other cases of this test have used its time")
    signal.signal(signal.SIGPROF, _stop)
    signal.signal(signal.SIGALRM, _stop)
    began = time.process_time()
    # Again and again: what waits for a thread of a stopped test would wait for ever.
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 20 * SECONDS, SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        _spent[test] += time.process_time() - began  # type: ignore[assignment]
