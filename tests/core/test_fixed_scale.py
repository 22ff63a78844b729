"""Scales fixed by the first rows, against their definition."""

import numpy as np
import pytest

from naive import scaling as naive
from pronk.core.scales import FixedScale, without_outliers

RNG = np.random.default_rng(11)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def changes(scale, X):
    """Return whether a column that was constant so far changes in these rows."""
    return bool(scale.transform(X)[:, scale.unit == 0.0].any())


@pytest.mark.parametrize("rows", [4, 5, 60, 499, 500, 1100])
def test_scales_are_their_twin(rows):
    first = RNG.normal(size=(rows, 4)) * [1.0, 1e-3, 50.0, 1.0] + [0.0, 7.0, -3.0, 2.0]
    first[:, 3] = 2.0
    first[1, 0], first[2, 2] = 1e4, -1e5
    later = 3.0 * first[RNG.integers(rows, size=200)] + RNG.normal(size=(200, 4))
    later[:40, 3] = 2.0
    scale = FixedScale(first)
    close(scale.transform(first), naive.fixed(first, first))
    assert changes(scale, later) and not changes(scale, later[:40])
    close(scale.learn_transform(later), naive.fixed(first, later))
    assert not changes(scale, later)


@pytest.mark.parametrize("rows", [4, 5, 499, 500, 1100])
@pytest.mark.parametrize("away", [9.9, 10.1])
@pytest.mark.parametrize("outliers", [1, 2, 3, 4])
def test_few_values_far_away_are_outliers(rows, away, outliers):
    """Ten ranges of the others is the border, and the few are one in five hundred at each end."""
    column = np.linspace(0.0, 1.0, rows)
    if outliers < rows // 2:
        column[:outliers], column[-1] = -away, 1.0 + away
    got = without_outliers(column[:, None])[:, 0]
    close(got, naive.without_outliers(column))


def test_outliers_of_columns_are_their_own():
    X = np.zeros((600, 2))
    X[7, 0] = 1.0  # all others are one number: no outlier
    X[:, 1] = np.arange(600)
    X[300, 1] = 1e6
    got = without_outliers(X)
    close(got[:, 0], X[:, 0])
    assert got[300, 1] == 599.0
    close(got[:, 1], naive.without_outliers(X[:, 1]))


def test_rounding_is_no_spread():
    """A column of one number, up to rounding, is constant; a step within rounding is none."""
    first = np.column_stack((1e6 * (1.0 + 1e-13 * RNG.normal(size=50)), np.full(50, 1e6)))
    scale = FixedScale(first)
    assert scale.unit.tolist() == [0.0, 0.0]
    later = np.array([[1e6, 1e6 * (1 + 0.5e-12)], [1e6, 1e6 * (1 + 2e-12)]])
    assert scale.transform(later)[:, 1].tolist() == [0.0, 1.0]
    assert not changes(scale, later[:1]) and changes(scale, later)


def test_a_column_of_zeros_does_not_change():
    scale = FixedScale(np.zeros((20, 1)))
    assert not changes(scale, np.zeros((3, 1))) and changes(scale, np.array([[0.0], [1e-300]]))
    assert scale.transform(np.zeros((2, 1))).tolist() == [[0.0], [0.0]]


def test_ten_ranges_away_is_not_yet_an_outlier():
    column = np.linspace(0.0, 1.0, 30)
    for place, kept, drawn in ((-1, 11.0, 11.5), (0, -10.0, -10.5)):
        column[1], column[-2] = 0.0, 1.0
        for value, expected in ((kept, kept), (drawn, column[place - 1 if place else 1])):
            given = column.copy()
            given[place] = value
            assert without_outliers(given[:, None])[place, 0] == expected


def test_a_column_that_grows_without_end_does_not_saturate():
    scale = FixedScale(np.linspace(0.0, 1.0, 100)[:, None])
    x = np.concatenate((np.linspace(-3.0, 4.0, 701), 10.0 ** np.arange(1, 300)))[:, None]
    z = scale.transform(x)[:, 0]
    assert (np.diff(z) > 0.0).all() and np.isfinite(scale.transform(np.full((1, 1), 1e308))).all()
    slopes = np.diff(z[:701]) / np.diff(x[:701, 0]) * scale.unit[0]
    assert slopes.max() < 1.0 + 1e-9 and slopes[250:450] == pytest.approx(1.0)
    assert slopes[[248, 451]] == pytest.approx(1.0, abs=0.05)  # and just beyond the edges
    far = (z[701 + 3] - scale.transform(np.array([[1.5]]))[0, 0]) * scale.unit[0]  # at 10^4
    assert far == pytest.approx(0.5 * np.log(2e4), rel=1e-3)
