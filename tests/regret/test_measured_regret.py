"""Measured regret against its definition, and the closed forms of the squared loss."""

import numpy as np
import pytest

from naive import awv, losses, regret
from pronk import Gaussian, KernelAWVRegressor
from pronk.core.losses import LOSSES
from pronk.regret import (
    best_in_span,
    cumulative_regret,
    kernel_awv_penalised_regret,
    online_effective_dimension,
    penalised_regret,
    regret_against_best,
)

KERNEL = Gaussian(0.6)


def stream(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("name", LOSSES)
def test_cumulative_regret_is_the_running_sum(name):
    rng = np.random.default_rng(1)
    p, f = rng.uniform(-2, 2, (2, 50))
    y = rng.choice([-1.0, 1.0], 50)
    loss = losses.get(name)
    total, expected = 0.0, []
    for i in range(50):
        total += loss.value(p[i], y[i]) - loss.value(f[i], y[i])
        expected.append(total)
    np.testing.assert_allclose(cumulative_regret(p, y, f, name), expected, atol=1e-10, rtol=1e-7)
    with pytest.raises(ValueError, match="one length"):
        cumulative_regret(p, y[:-1], 0.0, name)


@pytest.mark.parametrize("alpha", [0.05, 1.0, 10.0])
def test_both_forms_of_the_penalised_supremum(alpha):
    X, y = stream()
    predictions = awv.kernel_awv(X, y, KERNEL, alpha, True)
    mine = penalised_regret(predictions, X, y, KERNEL, alpha)
    closed = kernel_awv_penalised_regret(X, y, KERNEL, alpha)
    np.testing.assert_allclose(mine, closed, atol=1e-9, rtol=1e-7)
    for t in (1, 7, 80):
        value = regret.regret_supremum(X[:t], y[:t], KERNEL, alpha)
        assert mine[t - 1] == pytest.approx(value, abs=1e-9)
    assert mine[-1] == pytest.approx(regret.regret_supremum_closed_form(X, y, KERNEL, alpha))
    # The learner is Kernel-AWV, so its measured supremum is the closed form too.
    fast = KernelAWVRegressor(KERNEL, alpha=alpha).predict_then_learn(X, y)
    np.testing.assert_allclose(
        penalised_regret(fast, X, y, KERNEL, alpha), closed, atol=1e-8, rtol=1e-7
    )


def test_regret_against_the_best_and_the_supremum_agree():
    X, y = stream(seed=2)
    predictions = awv.kernel_awv(X, y, KERNEL, 0.5, False)
    measured = regret_against_best(predictions, X, y, KERNEL, alpha=0.5)
    assert measured.supremum == pytest.approx(
        penalised_regret(predictions, X, y, KERNEL, 0.5)[-1], abs=1e-8
    )
    assert measured.regret - 0.5 * measured.best.norm2 == pytest.approx(measured.supremum)
    assert measured.learner_loss == pytest.approx(np.sum((predictions - y) ** 2))


def test_the_comparator_may_be_clipped_or_given():
    X, y = stream(seed=3)
    zeros = np.zeros(len(y))
    clipped = regret_against_best(zeros, X, 3 * y, KERNEL, alpha=0.01, clip=1.0)
    assert np.abs(clipped.best.predictions).max() <= 1.0 and np.isnan(clipped.supremum)
    span = best_in_span(X, y, X[:5], KERNEL, alpha=0.1)
    given = regret_against_best(zeros, X, y, KERNEL, best=span)
    assert given.regret == pytest.approx(np.sum(y**2) - span.loss)


@pytest.mark.parametrize("seed", range(5))
def test_kernel_awv_never_pays_more_than_the_online_dimension(seed):
    X, y = stream(seed=seed)
    sup = kernel_awv_penalised_regret(X, y, KERNEL, 0.3)[-1]
    limit = np.max(y**2) * online_effective_dimension(KERNEL(X, X), 0.3)
    assert 0 < sup <= limit
    signs = np.where(y >= 0, 1.0, -1.0)  # y^2 = 1: only the predictions' part is left between them
    sup = kernel_awv_penalised_regret(X, signs, KERNEL, 0.3)[-1]
    limit = online_effective_dimension(KERNEL(X, X), 0.3)
    assert limit / 3 < sup <= limit
