"""The elementary functions against extended precision, and their bits against position."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from pronk.core.elementary import ANGLE_LIMIT, cos_sin, exp_scalar, sincos_scalar
from pronk.core.kernels import exponential

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant,
    reason="the reference needs a long double wider than float64",
)

# The largest x with finite exp(x), and the smallest with a normal one.
LOG_LARGEST = 709.782712893384
LOG_SMALLEST_NORMAL = -708.3964185322641


def exp_of(x):
    out = np.array(x, dtype=np.float64)
    exponential(out, -1.0)
    return out


def cos_sin_of(x, scale=1.0):
    x = np.ascontiguousarray(x, dtype=np.float64).reshape(1, -1)
    out = np.empty((1, 2 * x.shape[1]))
    cos_sin(x, scale, out)
    return out[0, : x.shape[1]], out[0, x.shape[1] :]


def ulps(got, reference):
    """|got - reference| in spacings of the float64 nearest to the reference."""
    spacing = np.spacing(np.abs(reference.astype(np.float64)))
    return np.abs(got.astype(np.longdouble) - reference) / spacing


def assert_accurate_sin_cos(x):
    cosine, sine = cos_sin_of(x)
    wide = np.asarray(x, dtype=np.longdouble)
    for got, reference in ((cosine, np.cos(wide)), (sine, np.sin(wide))):
        # An extended-precision reference is itself off by 2^-64 relative: nothing here.
        assert ulps(got, reference).max() <= 2.0
        assert np.abs(got - reference).max() <= 2.2e-16


class TestExp:
    @pytest.mark.parametrize("bound", [1e-3, 1.0, 30.0, 708.0])
    def test_two_ulp(self, bound):
        x = np.random.default_rng(0).uniform(-bound, bound, 200_001)
        assert ulps(exp_of(x), np.exp(x.astype(np.longdouble))).max() <= 2.0

    @given(st.floats(LOG_SMALLEST_NORMAL, LOG_LARGEST))
    @settings(max_examples=300, deadline=None)
    def test_two_ulp_over_the_normal_range(self, x):
        x = np.array([x])
        assert ulps(exp_of(x), np.exp(x.astype(np.longdouble))).max() <= 2.0

    def test_where_the_rounding_of_k_changes(self):
        k = np.arange(-1021.0, 1024.0) + 0.5
        x = k * math.log(2.0)
        x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])
        assert ulps(exp_of(x), np.exp(x.astype(np.longdouble))).max() <= 2.0

    def test_denormals_are_kept(self):
        x = np.linspace(-745.2, LOG_SMALLEST_NORMAL, 5001)
        error = np.abs(exp_of(x) - np.exp(x.astype(np.longdouble)))
        assert error.max() <= np.finfo(np.float64).smallest_subnormal

    def test_special_values(self):
        x = [0.0, -0.0, np.inf, -np.inf, np.nan, 709.79, 1e300, -745.2, -1e300, 5e-324]
        expected = [1.0, 1.0, np.inf, 0.0, np.nan, np.inf, np.inf, 0.0, 0.0, 1.0]
        np.testing.assert_array_equal(exp_of(x), expected)

    def test_the_overflow_border(self):
        below, above = exp_of([LOG_LARGEST, np.nextafter(LOG_LARGEST, np.inf)])
        assert np.isfinite(below)
        assert above == np.inf

    def test_never_above_one_for_negative_arguments(self):
        # A Gaussian kernel value must not exceed k(x, x) = 1.
        x = -np.concatenate([np.geomspace(1e-320, 1.0, 20_001), np.linspace(0.0, 1.0, 20_001)])
        assert exp_of(x).max() <= 1.0


class TestSinCos:
    @pytest.mark.parametrize("bound", [1e-8, 1.0, 50.0, 1e3, ANGLE_LIMIT, 1e9])
    def test_two_ulp(self, bound):
        assert_accurate_sin_cos(np.random.default_rng(0).uniform(-bound, bound, 200_001))

    @given(st.floats(-ANGLE_LIMIT, ANGLE_LIMIT))
    @settings(max_examples=300, deadline=None)
    def test_two_ulp_anywhere(self, x):
        assert_accurate_sin_cos([x])

    def test_next_to_the_zeros_and_to_the_quadrant_borders(self):
        first, last = np.arange(1, 40_001), int(ANGLE_LIMIT * 4 / math.pi) - np.arange(40_000)
        x = np.concatenate([first, last]) * (math.pi / 4)
        assert_accurate_sin_cos(np.concatenate([x, -x, np.nextafter(x, 0.0), np.nextafter(x, 1e9)]))

    def test_special_values(self):
        cosine, sine = cos_sin_of([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, -5e-324])
        np.testing.assert_array_equal(cosine, [1.0, 1.0, np.nan, np.nan, np.nan, 1.0, 1.0])
        np.testing.assert_array_equal(sine, [0.0, 0.0, np.nan, np.nan, np.nan, 5e-324, -5e-324])
        for x in (np.nan, np.inf, -np.inf):
            assert np.isnan(sincos_scalar(x)).all()

    def test_one_large_angle_leaves_its_neighbours_alone(self):
        x = np.random.default_rng(1).normal(size=37) * 20.0
        cosine, sine = cos_sin_of(x)
        x[18] = 1e12
        cosine_large, sine_large = cos_sin_of(x)
        others = np.arange(37) != 18
        np.testing.assert_array_equal(cosine[others], cosine_large[others])
        np.testing.assert_array_equal(sine[others], sine_large[others])
        assert abs(cosine_large[18] - math.cos(1e12)) <= 2.2e-16
        assert abs(sine_large[18] - math.sin(1e12)) <= 2.2e-16

    def test_layout_and_scale(self):
        angles = np.random.default_rng(2).normal(size=(5, 7))
        out = np.empty((5, 14))
        cos_sin(angles, 0.25, out)
        expected = 0.25 * np.hstack([np.cos(angles), np.sin(angles)])
        np.testing.assert_allclose(out, expected, rtol=0.0, atol=1e-16)

    def test_no_rows_and_no_angles(self):
        cos_sin(np.empty((0, 3)), 1.0, np.empty((0, 6)))
        cos_sin(np.empty((3, 0)), 1.0, np.empty((3, 0)))


@njit
def gaussian(a, d, out):
    for j in range(d.shape[0]):
        out[j] = exp_scalar(-a * d[j])


@njit(fastmath={"contract"})
def gaussian_contracted(a, d, out):
    # A caller that allows fusing must not reach into the inlined function.
    for j in range(d.shape[0]):
        out[j] = exp_scalar(-a * d[j])


@njit
def one_at_a_time(x, sines, cosines):
    for j in range(x.shape[0]):
        sines[j], cosines[j] = sincos_scalar(x[j])


class TestBitsDependOnTheValueOnly:
    """Vector body, scalar remainder, single call and inlined loop give the same bits."""

    X = np.random.default_rng(3).normal(size=131) * 40.0

    def test_exp_in_every_position(self):
        whole = exp_of(self.X)
        single = np.array([exp_of([x])[0] for x in self.X])
        np.testing.assert_array_equal(whole, single)
        np.testing.assert_array_equal(whole, [exp_scalar(x) for x in self.X])
        for start in range(1, 18):
            for stop in range(len(self.X) - 17, len(self.X)):
                np.testing.assert_array_equal(exp_of(self.X[start:stop]), whole[start:stop])

    def test_sin_cos_in_every_position(self):
        cosine, sine = cos_sin_of(self.X)
        for j, x in enumerate(self.X):
            assert sincos_scalar(x) == (sine[j], cosine[j])
        for start in range(1, 18):
            for stop in range(len(self.X) - 17, len(self.X)):
                c, s = cos_sin_of(self.X[start:stop])
                np.testing.assert_array_equal(c, cosine[start:stop])
                np.testing.assert_array_equal(s, sine[start:stop])

    def test_sin_cos_by_rows(self):
        angles = self.X[:120].reshape(8, 15)
        out, row = np.empty((8, 30)), np.empty((1, 30))
        cos_sin(angles, 0.3, out)
        for i in range(8):
            cos_sin(angles[i : i + 1], 0.3, row)
            np.testing.assert_array_equal(row[0], out[i])

    @pytest.mark.parametrize("loop", [gaussian, gaussian_contracted])
    def test_exp_inlined_in_another_loop(self, loop):
        d, out = np.abs(self.X), np.empty_like(self.X)
        loop(0.7, d, out)
        np.testing.assert_array_equal(out, exp_of(-0.7 * d))

    def test_sin_cos_inlined_in_another_loop(self):
        sines, cosines = np.empty_like(self.X), np.empty_like(self.X)
        one_at_a_time(self.X, sines, cosines)
        cosine, sine = cos_sin_of(self.X)
        np.testing.assert_array_equal(cosines, cosine)
        np.testing.assert_array_equal(sines, sine)

    @given(st.lists(st.floats(width=64), min_size=1, max_size=40), st.integers(0, 39))
    @settings(max_examples=100, deadline=None)
    def test_any_float_anywhere(self, values, cut):
        values = np.array(values)
        cut = min(cut, len(values))
        parts = np.concatenate([exp_of(values[:cut]), exp_of(values[cut:])])
        np.testing.assert_array_equal(exp_of(values), parts)
        whole = cos_sin_of(values)
        left, right = cos_sin_of(values[:cut]), cos_sin_of(values[cut:])
        for i in range(2):
            np.testing.assert_array_equal(whole[i], np.concatenate([left[i], right[i]]))


def test_nothing_compiles_at_import():
    # Explicit signatures would compile when the module is read.
    program = (
        "from pronk.core import elementary as e\n"
        "functions = (e.exp_scalar, e.sincos_scalar, e.cos_sin)\n"
        "assert not any(f.signatures for f in functions)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
