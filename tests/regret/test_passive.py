"""The bounds of Passive-Aggressive learners: their formula, and what learners do below it."""

import numpy as np
import pytest

import pronk
from naive.kernels import gaussian
from pronk.regret import pa_mistake_bound, pa_squared_loss_bound


def test_the_formulas():
    assert pa_mistake_bound(0.25, 3.0, 2.0, 1.5) == 4.0 * (3.0 + 2 * 0.25 * 2.0)
    assert pa_mistake_bound(5.0, 3.0, 2.0, 1.5) == 1.5 * (3.0 + 2 * 5.0 * 2.0)
    assert pa_squared_loss_bound(0.25, 3.0, 2.0, 1.5) == (1.5 + 2.0) * (3.0 + 2 * 0.25 * 2.0)
    with pytest.raises(ValueError, match="C must be positive"):
        pa_mistake_bound(0.0, 1.0, 1.0)


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("signs", [True, False])
def test_learners_stay_below_their_bounds(C, signs):
    """Against ridge fits of all strengths: from far too smooth to nearly exact."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (300, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=300)
    y = np.where(y > 0, 1.0, -1.0) if signs else y
    K = gaussian(X, X, 0.4)
    name = "KernelPAClassifier" if signs else "KernelPARegressor"
    form = {"output": "decision"} if signs else {}
    first, second = (
        getattr(pronk, name)(pronk.Gaussian(0.4), variant=v, C=C).predict_then_learn(X, y, **form)
        for v in ("pa-1", "pa-2")
    )

    def loss(f):
        return np.maximum(1 - y * f, 0) if signs else np.maximum(np.abs(f - y) - 0.1, 0)

    for ridge in (0.01, 0.3, 10.0):
        a = np.linalg.solve(K + ridge * np.eye(300), y)
        norm2, left = a @ K @ a, loss(K @ a)
        assert np.sum(loss(second) ** 2) <= pa_squared_loss_bound(C, norm2, np.sum(left**2))
        if signs:
            assert np.sum(y * first <= 0) <= pa_mistake_bound(C, norm2, np.sum(left))
