"""PKAWV, PKRR, Kernel-AWV and kernel ridge with a discount: definition, certificate, bound."""

from itertools import pairwise

import numpy as np
import pytest

import pronk
from naive import awv, features
from naive.kernels import gaussian, laplacian
from naive.kors import kors
from naive.randomness import stream as numbered
from pronk import (
    Gaussian,
    KernelAWVClassifier,
    KernelAWVRegressor,
    Laplacian,
    PKAWVClassifier,
    PKAWVRegressor,
)
from pronk.newton import discounted
from pronk.regret import bound_for, discounted_awv_bound, discounted_variation

CUTS = [0, 1, 2, 9, 10, 75, 140, 141, 170]


def stream(n=170):
    """A target that changes after half of the rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    X[100:110] = X[20:30]
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)
    y[n // 2 :] *= -1
    return X, y


def in_blocks(learner, X, y, **options):
    parts = [learner.predict_then_learn(X[i:j], y[i:j], **options) for i, j in pairwise(CUTS)]
    return np.concatenate(parts)


def twin_laplacian(X, Z):
    return laplacian(X, Z, 1.5)


def fading(n, discount, rows):
    """The share of alpha at each row if it is put back after every so many rows."""
    return discount ** (np.arange(n) % rows)


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("discount", [0.7, 0.97])
def test_fixed_features_and_several_outputs(discount, anticipate):
    X, y = stream()
    Y = np.column_stack((y, np.cos(X[:, 0])))
    learner = PKAWVRegressor(
        Gaussian(1.3), alpha=0.5, features="taylor", degree=4, anticipate=anticipate,
        discount=discount,
    )  # fmt: skip
    Phi = features.taylor(X, 4, 1.3)
    expected = awv.discounted_awv(Phi, Y, 0.5, anticipate, discount)
    np.testing.assert_allclose(in_blocks(learner, X, Y), expected, rtol=0, atol=1e-8)
    # the next row, and what predict says of it
    more = np.vstack((Phi, Phi[:1]))
    last = awv.discounted_awv(more, np.vstack((Y, Y[:1])), 0.5, anticipate, discount)[-1]
    np.testing.assert_allclose(learner.predict(X[:1])[0], last, rtol=0, atol=1e-9)


@pytest.mark.parametrize("anticipate", [True, False])
def test_a_growing_dictionary(anticipate):
    X, y = stream()
    learner = PKAWVRegressor(Laplacian(1.5), anticipate=anticipate, discount=0.98, random_state=4)
    uniforms = numbered(4, 0).random(len(X))
    accepted, _, _ = kors(X, twin_laplacian, 1.0, 0.5, 1.0, uniforms, None)
    F = features.root(twin_laplacian(X, X))
    rows = [features.projector(F[: t + 1][accepted[: t + 1]]) @ F[t] for t in range(len(X))]
    expected = awv.discounted_awv(np.array(rows), y, 1.0, anticipate, 0.98)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("anticipate", [True, False])
def test_the_whole_rkhs(monkeypatch, anticipate):
    monkeypatch.setattr(discounted, "EXACT_SIZE", 1000)
    X, y = stream()
    learner = KernelAWVRegressor(Laplacian(1.5), alpha=0.5, anticipate=anticipate, discount=0.95)
    F = features.root(twin_laplacian(X, X))
    expected = awv.discounted_awv(F, y, 0.5, anticipate, 0.95)
    np.testing.assert_allclose(in_blocks(learner, X, y), expected, rtol=0, atol=1e-8)
    again = awv.discounted_awv(F[[*range(170), 3]], np.append(y, 0.0), 0.5, anticipate, 0.95)[-1]
    assert learner.predict(X[3:4])[0] == pytest.approx(again, abs=1e-9)


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("learner", [PKAWVRegressor, KernelAWVRegressor])
def test_large_spaces_put_the_regulariser_back_every_few_rows(monkeypatch, learner, anticipate):
    """The first row of Kernel-AWV is a block of its own."""
    monkeypatch.setattr(discounted, "EXACT_SIZE", 0)
    X, y = stream()
    assert discounted.put_back_rows(1, 0.99) == 10 and discounted.put_back_rows(1, 0.5) == 8
    if learner is PKAWVRegressor:
        made = PKAWVRegressor(dictionary=X[:30], discount=0.99, anticipate=anticipate)
        Phi, faded = features.nystrom(X, X[:30], gaussian), fading(170, 0.99, 10)
    else:
        made = KernelAWVRegressor(Laplacian(1.5), discount=0.99, anticipate=anticipate)
        Phi, faded = features.root(twin_laplacian(X, X)), fading(179, 0.99, 10)[9:]
        faded[0] = 1.0
    expected = awv.discounted_awv(Phi, y, 1.0, anticipate, 0.99, faded)
    np.testing.assert_allclose(in_blocks(made, X, y), expected, rtol=0, atol=1e-8)
    certificate = made.certificate()
    assert certificate.regret <= certificate.bound


def test_the_compiled_loop_and_the_blocks_of_one_row_give_the_same(monkeypatch):
    X, y = stream()
    made = [PKAWVRegressor(dictionary=X[:40], alpha=0.1, discount=0.9) for _ in range(2)]
    compiled = in_blocks(made[0], X, y)
    monkeypatch.setattr(discounted, "COMPILED_SIZE", -1)
    np.testing.assert_allclose(in_blocks(made[1], X, y), compiled, rtol=0, atol=1e-10)
    ours, other = (learner.certificate().to_dict() for learner in made)
    assert ours == pytest.approx(other, rel=1e-8)


def test_half_life_is_another_way_to_give_the_discount():
    X, y = stream()
    for one in (PKAWVRegressor, KernelAWVRegressor):
        p = one(half_life=50.0, random_state=1).predict_then_learn(X, y)
        q = one(discount=0.5 ** (1 / 50), random_state=1).predict_then_learn(X, y)
        np.testing.assert_array_equal(p, q)
    labels = np.where(y > 0, "up", "down")
    for one in (PKAWVClassifier, KernelAWVClassifier):
        f = one(half_life=20.0, random_state=1).predict_then_learn(X, labels)
        plain = one(random_state=1).predict_then_learn(X, labels)
        assert np.mean(f[100:] != labels[100:]) < np.mean(plain[100:] != labels[100:])


def test_invalid_settings():
    X, y = stream()
    with pytest.raises(ValueError, match="discount needs history='projected'"):
        pronk.make("pkawv-nystrom", discount=0.9).fit(X, y)
    with pytest.raises(ValueError, match="two ways to give one number"):
        PKAWVRegressor(discount=0.9, half_life=3).fit(X, y)
    with pytest.raises(ValueError, match="forgets every row at once"):
        KernelAWVRegressor(half_life=1e-3).fit(X, y)
    for value in (0.0, 1.1, -0.5):
        with pytest.raises(ValueError, match="'discount' parameter"):
            PKAWVRegressor(discount=value).fit(X, y)
    fitted = PKAWVRegressor(dictionary=X[:5], discount=0.9).fit(X, y)
    with pytest.raises(ValueError, match="cannot be merged"):
        pronk.merge(fitted, fitted)
    with pytest.raises(ValueError, match="theorems"):
        bound_for(fitted, X, y, None)


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("discount", [0.6, 0.95])
def test_the_certificate_is_of_the_discounted_losses(discount, anticipate):
    X, y = stream()
    n, Phi = len(y), features.taylor(X, 3, 1.3)
    options = {"alpha": 0.3, "anticipate": anticipate, "discount": discount}
    learner = PKAWVRegressor(Gaussian(1.3), features="taylor", degree=3, **options)
    p = in_blocks(learner, X, y)
    w = discount ** np.arange(n - 1, -1, -1.0)
    least, v = awv.discounted_best(Phi, y, 0.3, discount)
    certificate = learner.certificate()
    assert certificate.rows == n
    assert certificate.loss == pytest.approx(w @ (p - y) ** 2, rel=1e-9)
    assert certificate.penalty == pytest.approx(0.3 * v @ v, rel=1e-7)
    assert certificate.best_loss + certificate.penalty == pytest.approx(least, rel=1e-8)
    assert certificate.regret == pytest.approx(w @ (p - y) ** 2 - least, rel=1e-8)
    # c of every row, from its leverage in the sums of the rows before
    terms = np.zeros(n)
    for t in range(n):
        ages = discount ** np.arange(t - 1, -1, -1.0)[:, None]
        A = 0.3 * np.eye(Phi.shape[1]) + Phi[:t].T @ (ages * Phi[:t])
        q = Phi[t] @ np.linalg.solve(A, Phi[t])
        terms[t] = (
            y[t] ** 2 * q / (q + 2 - 1 / discount)
            if anticipate
            else (y[t] - p[t]) ** 2 * q / (q + discount)
        )
    assert certificate.bound == pytest.approx(w @ terms, rel=1e-8)
    assert 0 < certificate.regret <= certificate.bound


def test_the_certificate_of_the_whole_rkhs(monkeypatch):
    monkeypatch.setattr(discounted, "EXACT_SIZE", 1000)
    X, y = stream()
    learner = KernelAWVRegressor(Laplacian(1.5), alpha=0.5, discount=0.95)
    p = in_blocks(learner, X, y)
    least, v = awv.discounted_best(features.root(twin_laplacian(X, X)), y, 0.5, 0.95)
    certificate, w = learner.certificate(), 0.95 ** np.arange(169, -1, -1.0)
    assert certificate.loss == pytest.approx(w @ (p - y) ** 2, rel=1e-9)
    assert certificate.penalty == pytest.approx(0.5 * v @ v, rel=1e-7)
    assert certificate.regret == pytest.approx(w @ (p - y) ** 2 - least, rel=1e-8)
    assert 0 < certificate.regret <= certificate.bound


def test_without_a_bound_for_a_discount_of_one_half():
    X, y = stream()
    learner = PKAWVRegressor(features="taylor", discount=0.5).fit(X, y)
    assert learner.certificate().bound is None
    assert PKAWVRegressor(features="taylor", discount=0.51).fit(X, y).certificate().bound > 0


@pytest.mark.parametrize("discount", [0.6, 0.9, 0.99, 1.0])
def test_the_regret_against_a_changing_sequence_stays_below_its_bound(discount):
    X, y = stream()
    n = len(y)
    Phi = features.taylor(X, 3, 1.3)
    learner = PKAWVRegressor(
        Gaussian(1.3), alpha=0.3, features="taylor", degree=3, discount=discount
    )
    p = in_blocks(learner, X, y)
    halves = [awv.discounted_best(Phi[rows], y[rows], 0.3, 1.0)[1] for rows in
              (slice(0, n // 2), slice(n // 2, n))]  # fmt: skip
    constant = awv.discounted_best(Phi, y, 0.3, 1.0)[1]
    drifting = np.outer(1 - np.arange(n) / n, halves[0]) + np.outer(np.arange(n) / n, halves[1])
    for U in (
        np.tile(constant, (n, 1)),
        np.repeat(halves, n // 2, axis=0),
        drifting,
    ):
        regret = np.sum((p - y) ** 2 - (np.einsum("ij,ij->i", U, Phi) - y) ** 2)
        variation = discounted_variation(Phi, y, U, discount)
        # from the definition
        F = [
            [np.sum(discount ** np.arange(t, -1, -1.0) * (y[: t + 1] - Phi[: t + 1] @ u) ** 2)
             for u in (U[t + 1], U[t])] for t in range(n - 1)
        ]  # fmt: skip
        assert variation == pytest.approx(np.sum(np.array(F) @ [1, -1]), rel=1e-8, abs=1e-9)
        bound = discounted_awv_bound(
            n, 0.3, discount, np.sum(U**2, axis=1), variation, np.abs(y).max(), Phi.shape[1]
        )
        assert regret <= bound


def test_the_formula_of_the_bound():
    g, alpha, r, n = 0.8, 0.5, 3, 4
    norms = np.array([1.0, 2.0, 3.0, 4.0])
    rows = (1 - g**n) / (1 - g)
    expected = alpha * (4 + 0.2 * 6) + g * 5.0
    expected += 4.0 / (2 - 1 / g) * r * (np.log(1 + 2 * rows / (alpha * r)) + n * np.log(1 / g))
    got = discounted_awv_bound(n, alpha, g, norms, 5.0, 2.0, r, largest_kernel=2.0)
    assert got == pytest.approx(expected, rel=1e-12)
    assert discounted_awv_bound(n, alpha, 0.5, norms, 5.0, 2.0, r) == np.inf
    with pytest.raises(ValueError, match="one entry per row"):
        discounted_awv_bound(5, alpha, g, norms, 5.0, 2.0, r)
    with pytest.raises(ValueError, match="shape of Phi"):
        discounted_variation(np.ones((4, 2)), np.ones(4), np.ones((3, 2)), g)


def test_the_standard_deviation_is_that_of_the_discounted_rows(monkeypatch):
    """sigma^2 (1 + q) with sigma^2 = V_T / sum of the weights, for features and for the RKHS."""
    monkeypatch.setattr(discounted, "EXACT_SIZE", 1000)
    X, y = stream()
    g, alpha = 0.97, 0.4
    weights = g ** np.arange(len(y) - 1, -1, -1.0)
    whole = KernelAWVRegressor(Laplacian(1.5), alpha=alpha, discount=g).fit(X, y)
    F = features.root(twin_laplacian(X, X))
    least, _ = awv.discounted_best(F, y, alpha, g)
    A = alpha * np.eye(len(F)) + F.T @ (weights[:, None] * F)
    q = np.einsum("ij,ij->i", F[:5], np.linalg.solve(A, F[:5].T).T)
    expected = np.sqrt((1 + q) * least / weights.sum())
    _, deviation = whole.predict(X[:5], return_std=True)
    np.testing.assert_allclose(deviation, expected, rtol=1e-7, atol=0)
    some = PKAWVRegressor(Laplacian(1.5), alpha=alpha, discount=g, dictionary=X).fit(X, y)
    _, deviation = some.predict(X[:5], return_std=True)
    np.testing.assert_allclose(deviation, expected, rtol=1e-5, atol=0)


def test_weights_count_rows_as_often():
    """With a discount, a row of weight w is the row times the root of w."""
    X, y = stream()
    Phi = features.taylor(X, 3, 1.3)
    w = np.random.default_rng(2).choice([0.5, 2.0], len(y))
    learner = PKAWVRegressor(Gaussian(1.3), features="taylor", degree=3, discount=0.95)
    p = learner.predict_then_learn(X, y, sample_weight=w)
    root = np.sqrt(w)
    expected = awv.discounted_awv(Phi * root[:, None], y * root, 1.0, True, 0.95) / root
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-8)
    whole = KernelAWVRegressor(Gaussian(1.3), discount=0.95)
    half = slice(0, 120)
    p = whole.predict_then_learn(X[half], y[half], sample_weight=w[half])
    F = features.root(gaussian(X[half], X[half], 1.3)) * root[half, None]
    expected = awv.discounted_awv(F, y[half] * root[half], 1.0, True, 0.95) / root[half]
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-8)
