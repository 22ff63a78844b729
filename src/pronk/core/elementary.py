"""Exponential, sine and cosine that vectorise inside compiled loops.

The library functions cost 5 to 20 ns per number because a loop around a call does
not vectorise. The functions here are branchless: reduce the argument with a
rounding, evaluate a polynomial, put the exponent or the sign back with integer
operations. Inlined into a plain loop, the compiler runs four of them at once.

    exp(x)      x = k log 2 + r, |r| <= log(2)/2;  exp(x) = 2^k (1 + r + r^2 q(r))
    sin, cos    x = k pi/2 + r,  |r| <= pi/4;      sin r = r + r^3 s(r^2),
                cos r = 1 - r^2/2 + r^4 c(r^2), then swap and sign by k mod 4

Accuracy (tested):

* ``exp_scalar``: at most 2 ulp (1.11 seen) for every normal result, at most one spacing of the
  denormal numbers below that (denormals are kept, not flushed); 0 below -745.14,
  infinity above 709.79, NaN for NaN.
* ``sincos_scalar``: for |x| <= ``ANGLE_LIMIT`` at most 2 ulp (1.5 seen), also next to the
  zeros, hence at most 2.2e-16 absolute; NaN for NaN and for infinity; sin(-0.0) is 0.0.
  Above the limit the result is not valid: ``cos_sin`` calls the library functions for those
  elements.

Every fused multiply-add is written out, with no fast-math flag at all. So an element's
bits depend on its value only: not on its position in the array, not on its neighbours,
not on what the caller does with the result.
"""

import math
from typing import Any

from numba import types
from numba.extending import intrinsic

from pronk.core.arrays import Array
from pronk.core.compiling import compiled

# Beyond this the reduction by three parts of pi/2 is no longer proven good to 2 ulp.
ANGLE_LIMIT = 1048576.0

# Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits.
_ROUND = 6755399441055744.0
_LOG2_E = 1.4426950408889634
_TWO_OVER_PI = 0.6366197723675814

# log 2 and pi/2 as sums of doubles, largest first. The first fused subtraction is exact,
# so the parts need not be shortened.
_LN2_HIGH = 0.6931471805599453
_LN2_LOW = 2.3190468138462996e-17
_PIO2_HIGH = 1.5707963267948966
_PIO2_MIDDLE = 6.123233995736766e-17
_PIO2_LOW = -1.4973849048591698e-33

# exp overflows or underflows well inside +-_EXP_CLAMP; the clamp keeps k/2 in exponent range.
_EXP_CLAMP = 800.0
_EXPONENT_BIAS = 1023 << 52


@intrinsic
def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    signature = types.float64(types.float64, types.float64, types.float64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return signature, codegen


@intrinsic
def _bits(typingctx: Any, x: Any) -> Any:
    """Return the 64 bits of a float64 as an int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@intrinsic
def _from_bits(typingctx: Any, i: Any) -> Any:
    """Return the float64 with these 64 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@compiled(forceinline=True)
def _exp_polynomial(r: float) -> float:
    """Return 1 + r + r^2 q(r) for |r| <= log(2)/2.

    q interpolates (exp(r) - 1 - r)/r^2 in ten Chebyshev nodes: 1.3e-17 off. Even and odd
    powers are summed apart, which halves the chain of dependent operations.
    """
    z = r * r
    even = _fma(z, 2.762010358488696e-07, 2.4801521264122017e-05)
    even = _fma(z, even, 0.0013888888917234206)
    even = _fma(z, even, 0.04166666666662409)
    even = _fma(z, even, 0.5000000000000001)
    odd = _fma(z, 2.5100397137931663e-08, 2.755726843551756e-06)
    odd = _fma(z, odd, 0.00019841269863069374)
    odd = _fma(z, odd, 0.008333333333330058)
    odd = _fma(z, odd, 0.16666666666666669)
    return 1.0 + _fma(z, _fma(r, odd, even), r)


@compiled(forceinline=True)
def exp_scalar(x: float) -> float:
    """Return exp(x) to 2 ulp, for use inside compiled loops.

    2^k is applied as 2^i 2^(k-i) with i close to k/2: both factors are normal numbers for
    every possible k, and the second product alone overflows or becomes denormal.
    """
    # NaN fails both comparisons and remains.
    x = _EXP_CLAMP if x > _EXP_CLAMP else x
    x = -_EXP_CLAMP if x < -_EXP_CLAMP else x
    k = _fma(x, _LOG2_E, _ROUND) - _ROUND
    r = _fma(-k, _LN2_LOW, _fma(-k, _LN2_HIGH, x))
    first = _fma(k, 0.5, _ROUND)
    second = (k - (first - _ROUND)) + _ROUND
    scale_first = _from_bits((_bits(first) << 52) + _EXPONENT_BIAS)
    scale_second = _from_bits((_bits(second) << 52) + _EXPONENT_BIAS)
    return _exp_polynomial(r) * scale_first * scale_second


@compiled(forceinline=True)
def sincos_scalar(x: float) -> tuple[float, float]:
    """Return (sin(x), cos(x)) to 2 ulp for |x| <= ``ANGLE_LIMIT``, inside compiled loops.

    The third part of pi/2 matters only next to the zeros, where the first two cancel.
    """
    rounded = _fma(x, _TWO_OVER_PI, _ROUND)
    k = rounded - _ROUND
    r = _fma(-k, _PIO2_MIDDLE, _fma(-k, _PIO2_HIGH, x))
    r = _fma(-k, _PIO2_LOW, r)
    z = r * r

    s = _fma(z, 1.591810123027412e-10, -2.5051131455427946e-08)
    s = _fma(z, s, 2.755731610068303e-06)
    s = _fma(z, s, -0.0001984126983675497)
    s = _fma(z, s, 0.008333333333330946)
    s = _fma(z, s, -0.16666666666666666)
    s = _fma(r * z, s, r)

    c = _fma(z, -1.1382614868556325e-11, 2.0876146024689747e-09)
    c = _fma(z, c, -2.7557317270560326e-07)
    c = _fma(z, c, 2.4801587298763433e-05)
    c = _fma(z, c, -0.0013888888888887395)
    c = _fma(z, c, 0.041666666666666664)
    c = _fma(z, _fma(z, c, -0.5), 1.0)

    # k mod 4 = 0: (s, c), 1: (c, -s), 2: (-s, -c), 3: (-c, s) for (sin, cos).
    quadrant = _bits(rounded)
    swap = (quadrant & 1) != 0
    sine = c if swap else s
    cosine = s if swap else c
    sine = _from_bits(_bits(sine) ^ ((quadrant & 2) << 62))
    cosine = _from_bits(_bits(cosine) ^ (((quadrant + 1) & 2) << 62))
    return sine, cosine


@compiled
def _cos_sin_row(angles: Array, scale: float, cosines: Array, sines: Array) -> int:
    """Compute scale cos(angles_j) and scale sin(angles_j); return how many angles are too large."""
    large = 0
    for j in range(angles.shape[0]):
        x = angles[j]
        sine, cosine = sincos_scalar(x)
        cosines[j] = cosine * scale
        sines[j] = sine * scale
        large += abs(x) > ANGLE_LIMIT
    return large


@compiled
def _cos_sin_large(angles: Array, scale: float, cosines: Array, sines: Array) -> None:
    """Redo the elements beyond ``ANGLE_LIMIT`` with the library functions.

    Only those: redoing the whole row would make an element's bits depend on its neighbours.
    """
    for j in range(angles.shape[0]):
        x = angles[j]
        if abs(x) > ANGLE_LIMIT:
            cosines[j] = math.cos(x) * scale
            sines[j] = math.sin(x) * scale


@compiled
def cos_sin(angles: Array, scale: float, out: Array) -> None:
    """Compute out = scale [cos(angles) | sin(angles)]; angles (n, L), out (n, 2L), C-contiguous.

    ``out`` must not share memory with ``angles``.
    """
    n_angles = angles.shape[1]
    for i in range(angles.shape[0]):
        row = angles[i]
        cosines = out[i][:n_angles]
        sines = out[i][n_angles:]
        if _cos_sin_row(row, scale, cosines, sines) > 0:
            _cos_sin_large(row, scale, cosines, sines)
