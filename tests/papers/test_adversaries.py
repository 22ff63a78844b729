"""Adversarial streams, and the papers' claims about them: log(T) against sqrt(T)."""

import numpy as np
import pytest

import pronk
from naive import awv, ons, regret
from papers.adversaries import alternating, greedy, repeating
from pronk import Gaussian
from pronk.regret import cumulative_regret, kernel_awv_penalised_regret, penalised_regret

LENGTHS = [200, 400, 800, 1600, 3200]


def arrays(blocks):
    X, y = zip(*blocks, strict=True)
    return np.concatenate(X), np.concatenate(y)


# --- the streams -----------------------------------------------------------------


def test_alternating_is_one_point_with_turning_labels_in_any_cut():
    X, y = arrays(alternating(100, seed=3, columns=4, size=2.0, block=7))
    X2, y2 = arrays(alternating(100, seed=3, columns=4, size=2.0))
    assert (X == X2).all() and (y == y2).all() and X.shape == (100, 4)
    assert (X[0] == X).all() and (y[::2] == 2).all() and (y[1::2] == -2).all()
    assert (arrays(alternating(1, seed=4, columns=4))[0] != X[:1]).any()


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("labels", ["fixed", "alternating"])
def test_repeating_visits_far_points_in_turn(columns, labels):
    X, y = arrays(repeating(90, 9, seed=1, labels=labels, columns=columns, distance=8, block=11))
    points = X[:9]
    gaps = np.linalg.norm(points[:, None] - points, axis=2) + 1e9 * np.eye(9)
    assert gaps.min() == 8
    np.testing.assert_array_equal(X, np.tile(points, (10, 1)))
    visits = y.reshape(10, 9)
    turns = visits[1:] * visits[:-1]
    assert (turns == (1 if labels == "fixed" else -1)).all()
    assert abs(visits[0].sum()) == 1  # five of one sign, four of the other
    assert (arrays(repeating(90, 9, seed=2, labels=labels))[1] != y).any()


def test_streams_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="n_rows"):
        next(alternating(0))
    with pytest.raises(ValueError, match="n_points"):
        next(repeating(10, 0))
    with pytest.raises(ValueError, match="labels"):
        next(repeating(10, 2, labels="random"))


# --- the greedy adversary --------------------------------------------------------


def test_the_greedy_adversary_takes_the_best_row_of_the_grid():
    """Against brute force: every candidate tried with the naive twins, from scratch."""
    kernel, alpha, n = Gaussian(0.5), 0.5, 12
    grid = np.random.default_rng(0).uniform(-1, 1, (15, 2))
    game = greedy(pronk.KernelAWVRegressor(kernel, alpha=alpha), n, kernel, alpha, grid=grid)
    for t in range(n):
        values = []
        for y in (1.0, -1.0):
            for x in grid:
                X = np.vstack([game.X[:t], x])
                labels = np.append(game.y[:t], y)
                predictions = awv.kernel_awv(X, labels, kernel, alpha, True)
                loss = np.sum((predictions - labels) ** 2)
                values.append(loss - regret.best_regularised_loss(kernel(X, X), labels, alpha))
        assert game.regret[t] == pytest.approx(max(values), abs=1e-9)
    np.testing.assert_allclose(
        game.regret,
        penalised_regret(game.predictions, game.X, game.y, kernel, alpha),
        atol=1e-9,
        rtol=1e-7,
    )


def test_the_greedy_adversary_is_deterministic_and_worse_than_chance():
    kernel = Gaussian(0.5)
    games = [greedy(pronk.KernelAWVRegressor(kernel), 60, kernel, columns=2, seed=1) for _ in "ab"]
    np.testing.assert_array_equal(games[0].X, games[1].X)
    np.testing.assert_array_equal(games[0].regret, games[1].regret)
    rng = np.random.default_rng(2)
    for _ in range(5):
        X, y = rng.uniform(-1, 1, (60, 2)), rng.choice([-1.0, 1.0], 60)
        assert kernel_awv_penalised_regret(X, y, kernel)[-1] < games[0].regret[-1]


def test_kernel_awv_stands_the_greedy_adversary_best():
    """Fig. 3 of the PKAWV paper: exact AWV first, Taylor features approach it with the degree."""
    kernel = Gaussian(1.0)
    final = {}
    for degree in (1, 2, 20):  # the last is off by 2^21/21! = 4e-14, less than a tie
        learner = pronk.PKAWVRegressor(kernel, features="taylor", degree=degree)
        final[degree] = greedy(learner, 80, kernel, columns=2).regret[-1]
    final["exact"] = greedy(pronk.KernelAWVRegressor(kernel), 80, kernel, columns=2).regret[-1]
    pros = pronk.ProsNKONSRegressor(kernel, clip=1.0, random_state=0)
    final["pros"] = greedy(pros, 80, kernel, columns=2).regret[-1]
    assert final["exact"] <= final[2] <= final[1]
    assert final[20] == pytest.approx(final["exact"], rel=1e-6)
    assert final["exact"] < final["pros"]


def test_the_greedy_adversary_needs_a_fresh_learner():
    learner = pronk.KernelAWVRegressor().fit([[0.0]], [1.0])
    with pytest.raises(ValueError, match="fresh"):
        greedy(learner, 5)
    with pytest.raises(ValueError, match="grid"):
        greedy(pronk.KernelAWVRegressor(), 5, grid=np.zeros(3))


# --- logarithm against square root -------------------------------------------------


def gradient_descent(Phi, y):
    """Plain first-order steps w <- w - (w'phi - y) phi / sqrt(t) on half the squared loss."""
    w, predictions = np.zeros(Phi.shape[1]), np.zeros(len(y))
    for t, phi in enumerate(Phi):
        predictions[t] = phi @ w
        w = w - (predictions[t] - y[t]) / np.sqrt(t + 1) * phi
    return predictions


def exponent(regrets, lengths=LENGTHS):
    """The slope of log R against log T."""
    return np.polyfit(np.log(lengths), np.log(regrets), 1)[0]


def orthogonal(stream_of, n_points):
    """Features of far-apart points: coordinates, as their kernel values vanish."""
    X, y = arrays(stream_of)
    rows = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    return X, np.eye(n_points)[rows], y


@pytest.mark.parametrize("n_points", [1, 4])
def test_newton_steps_pay_a_logarithm_where_gradient_steps_pay_a_root(n_points):
    """003 Sec. 6 and 000 Sec. 3: labels that turn at every visit of a point; the best predicts 0.

    In one dimension the step s turns the prediction by s/2, so a row costs about s: 1/sqrt(t) sums
    to 2 sqrt(T), while A = alpha + eta sum g^2 = alpha + T/4 (C = 1) gives 8/(t + 4 alpha), which
    sums to 8 log(1 + T/(4 alpha)) a point. So R(4T)/R(T) tends to 2 for the one, and is about
    log(1 + 4x)/log(1 + x) with x = T/(4 alpha n_points) for the other: at most 1.4 here.
    """
    alpha = 0.25
    X, Phi, y = orthogonal(repeating(LENGTHS[-1], n_points, labels="alternating"), n_points)
    newton = cumulative_regret(ons.ons(Phi, y, alpha, "squared", "auto", 1.0), y)
    first_order = cumulative_regret(gradient_descent(Phi, y), y)
    newton, first_order = ([r[T - 1] for T in LENGTHS] for r in (newton, first_order))
    for quarter, whole in ((0, 2), (1, 3), (2, 4)):
        assert newton[whole] / newton[quarter] < 1.6
        assert first_order[whole] / first_order[quarter] > 1.7
    assert exponent(newton) < 0.32
    assert exponent(first_order) > 0.42
    x = np.array(LENGTHS) / (4 * alpha * n_points)
    assert exponent(newton) == pytest.approx(exponent(np.log1p(x)), abs=0.08)
    # The learner is the same: its kernel matrix has these features.
    learner = pronk.KONSRegressor(Gaussian(1.0), alpha=alpha, clip=1.0)
    predictions = learner.predict_then_learn(X[:1600], y[:1600])
    assert cumulative_regret(predictions, y[:1600])[-1] == pytest.approx(newton[3], rel=1e-6)


def test_pros_n_kons_pays_a_power_of_the_logarithm():
    """It restarts about log T times, as duplicates enter too, and pays log T an epoch: log^2 T.

    (log 4T/log T)^2 is 1.31 at T = 12800; a root would give 2.
    """
    lengths = [3200, 12800, 51200]
    X, y = arrays(alternating(lengths[-1]))
    runs = []
    for seed in range(12):  # the mean exponent is 0.27; over 12 seeds it scatters by 0.02
        learner = pronk.ProsNKONSRegressor(clip=1.0, random_state=seed)
        total = cumulative_regret(learner.predict_then_learn(X, y), y)
        runs.append([total[T - 1] for T in lengths])
        assert learner.size_ < 60
    newton = np.mean(runs, axis=0)
    first_order = cumulative_regret(gradient_descent(np.ones((len(y), 1)), y), y)
    first_order = [first_order[T - 1] for T in lengths]
    assert newton[2] / newton[1] < 1.6 and exponent(newton, lengths) < 0.32
    assert first_order[2] / first_order[1] > 1.7 and exponent(first_order, lengths) > 0.45


def test_a_budget_smaller_than_the_set_pays_for_ever():
    """Fixed labels, 12 points: 8 held points leave a third of the rows unknown, at 1 a row."""
    X, y = arrays(repeating(2400, 12))
    kernel = Gaussian(1.0)

    def losses(learner):
        return np.cumsum((learner.predict_then_learn(X, y) - y) ** 2)

    common = dict(gamma=0.1, beta=5.0, random_state=0)
    small = losses(pronk.PKAWVRegressor(kernel, budget=8, **common))
    whole = losses(pronk.PKAWVRegressor(kernel, budget=12, **common))
    newton = losses(pronk.ProsNKONSRegressor(kernel, clip=1.0, budget=8, **common))
    for held in (small, newton):
        late = held[2399] - held[1199]
        assert late == pytest.approx(1200 * 4 / 12, rel=0.05)
    assert whole[2399] - whole[1199] < 0.01 * (small[2399] - small[1199])
