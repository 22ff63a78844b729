"""The generated stream: repeatable, the same for every cut, and truly changing."""

import numpy as np
import pytest

from pronk.data import drifting


def together(blocks):
    blocks = list(blocks)
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def test_blocks_are_an_execution_detail():
    X, y = together(drifting(5000, seed=3))
    for block in (1, 700, 10_000):
        other_X, other_y = together(drifting(5000, seed=3, block=block))
        np.testing.assert_array_equal(other_X, X)
        np.testing.assert_allclose(other_y, y, atol=1e-12, rtol=1e-7)


def test_seeds_differ_and_repeat():
    first, again, other = (together(drifting(100, seed=seed))[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_the_function_changes():
    """The same inputs, far apart in time, have other targets: more than the noise explains."""
    still = {"noise": 0.0, "columns": 2, "seed": 0}
    X, y = together(drifting(20_000, **still))
    assert np.abs(X).max() <= 1
    early, late = X[:2000], X[-2000:]
    nearest = ((late[:, None] - early[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean((y[-2000:] - y[nearest]) ** 2) > 0.05


def test_counts_are_checked():
    with pytest.raises(ValueError, match="n_rows and block"):
        next(drifting(0))
