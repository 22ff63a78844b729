"""With NUMBA_DISABLE_JIT=1: the intrinsics of `pronk.parts.elementary` in plain Python.

So that coverage can walk compiled functions line by line. The fused multiply-add goes through a
longer float, which is as good here: the tests of 2 ulp hold.
"""

from __future__ import annotations

import struct

import numpy as np

from pronk.parts import elementary


def fma(a: float, b: float, c: float) -> float:
    """a * b + c, rounded (nearly always) once."""
    return float(np.longdouble(a) * np.longdouble(b) + np.longdouble(c))


def bits(x: float) -> int:
    """The 64 bits of a float64, as int64."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def from_bits(i: int) -> float:
    """The float64 with these 64 bits; what was shifted out of them is gone."""
    return float(struct.unpack("<d", struct.pack("<Q", int(i) & (2**64 - 1)))[0])


def install() -> None:
    """Put them in the place of the intrinsics, which plain Python cannot call."""
    elementary._fma, elementary._bits, elementary._from_bits = fma, bits, from_bits
