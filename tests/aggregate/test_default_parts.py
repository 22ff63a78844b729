"""The parts of the default learner against their brute-force twins and definitions."""

import numpy as np
import pytest

import pronk
from helpers import Forecaster
from naive import default as naive
from pronk import Gaussian, Laplacian, OnlineKernelRegressor
from pronk.aggregate.baselines import LONGEST, Baselines, Past
from pronk.aggregate.calibration import (
    FIRST_ROWS,
    LEVELS,
    NORMAL,
    SMALLEST_SLOPE,
    STEEPEST_SLOPE,
    ErrorScale,
    Quantiles,
    Temperature,
    around,
    ends_of,
    log_squares,
    project_slopes,
)
from pronk.aggregate.clipping import ErrorClipping, TargetClipping
from pronk.aggregate.experts import Experts
from pronk.aggregate.mixture import Mixture
from pronk.aggregate.settings import ALPHA, FULL, PLAIN, Group, Setting, View, grid
from pronk.core.scales import FixedScale
from pronk.core.state import StateError


def close(got, expected, atol=1e-9):
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol)


# -- the mixture ------------------------------------------------------------------------------


def some_experts(n=400, outputs=2, seed=4):
    rng = np.random.default_rng(seed)
    y = np.sin(np.arange(n) / 20)[:, None] * np.arange(1, outputs + 1)
    y = y + 0.1 * rng.normal(size=y.shape)
    P = y[:, None] * np.array([1.0, 0.5, -0.3, 0.0])[:, None]
    return P + np.array([0.5, 0.2, 0.3, 0.4])[:, None] * rng.normal(size=P.shape), y


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("lags", [(), (1, 2, 7)])
def test_the_mixture_is_its_twin(outputs, signed, lags):
    P, y = some_experts(outputs=outputs)
    limits = np.tile([[-0.5], [0.5]], (1, outputs))
    if signed:
        y, limits = np.sign(y), 2 * limits
        y[:200, -1] = 1.0  # an output with one label for a while
    mixture = Mixture(4, limits, signed, windows=(0.0, 50.0), lags=lags)
    got = np.concatenate(
        [mixture.learn(P[:100], y[:100]).final, mixture.learn(P[100:], y[100:]).final]
    )
    expected, losses, ledger = naive.mixture(P, y, limits, (0.0, 50.0), signed, lags=lags)
    close(got, expected)
    close(mixture.losses, losses)
    certificate = mixture.certificate()
    close([certificate.loss, certificate.best_loss], [ledger[0], ledger[1:].min()])
    close(certificate.bound, np.log(4) + np.log(3) + 2 * np.log(401))
    assert certificate.rows == 400 and certificate.regret <= certificate.bound
    following = mixture.predict(P[:1]).final
    close(mixture.learn(P[:1], y[:1]).final, following, 1e-12)


def test_errors_are_read_at_their_lags_after_any_number_of_rows():
    """More rows than are stored: against the twin, and as `Mixture.errors` returns them."""
    P, y = some_experts(outputs=1)
    P, y = np.concatenate((P, P, P))[:, ::2], np.concatenate((y, -y, y))
    lags, limits = (1, 24, LONGEST), np.array([[-2.0], [2.0]])
    mixture, fresh = (Mixture(2, limits, False, (0.0,), lags) for _ in range(2))
    got = np.concatenate(
        [mixture.learn(P[i : i + 7], y[i : i + 7]).final for i in range(0, len(P), 7)]
    )
    rows = list(naive.mixture_rows(P, y, limits, (0.0,), lags=lags))
    close(got, [row["final"] for row in rows])
    errors = y - [row["m"] for row in rows]
    assert len(y) > 2 * LONGEST
    close(mixture.errors, errors[-LONGEST:])
    fresh.learn(P[:30], y[:30])
    close(fresh.errors, errors[:30])


def test_a_constant_output_does_not_change_the_mixture():
    P, y = some_experts()
    y[:, 1] = 0.25
    limits = np.array([[-0.5, 0.25], [0.5, 0.25]])
    mixture = Mixture(4, limits, signed=False, windows=(0.0, 50.0))
    got = np.concatenate(
        [mixture.learn(P[:100], y[:100]).final, mixture.learn(P[100:], y[100:]).final]
    )
    expected, losses, _ = naive.mixture(P, y, limits, (0.0, 50.0))
    close(got, expected)
    close(mixture.losses, losses)
    close(got[:, 1], 0.25, 1e-14)


@pytest.mark.parametrize("signed", [False, True])
def test_coefficients_are_those_of_the_final_prediction(signed):
    """By differences where nothing is clipped; the stacks of labels are linear at 0."""
    P, y = some_experts(outputs=1)
    mixture = Mixture(4, np.array([[-9.0], [9.0]]), signed, windows=(0.0, 50.0))
    mixture.learn(P, np.sign(y) if signed else y)
    got = mixture.coefficients
    steps = 1e-5 * np.concatenate((np.eye(4), -np.eye(4)))
    ends = mixture.predict(steps[:, :, None]).final[:, 0]
    close(got, (ends[:4] - ends[4:]) / 2e-5, 1e-7)
    assert np.ptp(got) > 0.05
    close(mixture.stack_shares.sum(), 1.0)


def test_the_bound_of_the_certificate_includes_dropped_experts():
    P, y = some_experts(outputs=1)
    mixture = Mixture(4, np.array([[-2.0], [2.0]]), signed=False)
    mixture.learn(P[:200], y[:200])
    before, weights = mixture.certificate(), mixture.weights
    mixture.keep([0, 2])
    after = mixture.certificate()
    close(after.bound - before.bound, -np.log(weights[[0, 2]].sum()))
    assert after.loss == before.loss and after.best_loss >= before.best_loss
    mixture.learn(P[200:, [0, 2]], y[200:])
    assert mixture.certificate().regret <= mixture.certificate().bound


@pytest.mark.parametrize("signed", [False, True])
def test_the_mixture_continues_from_its_state(signed):
    """A state with other experts, without weights, or below the regulariser raises."""
    P, y = some_experts()
    y = np.sign(y) if signed else y
    mixture = Mixture(4, np.tile([[-1.0], [1.0]], (1, 2)), signed, (0.0, 50.0), (1, 3))
    mixture.learn(P[:100], y[:100])
    state = mixture.to_state()
    again = Mixture(4, np.tile([[-1.0], [1.0]], (1, 2)), signed, windows=(0.0, 50.0))
    again.restore(state)
    assert np.array_equal(
        again.learn(P[100:200], y[100:200]).final, mixture.learn(P[100:200], y[100:200]).final
    )
    wrong = {
        "ledger": state["ledger"][:-1],
        "log_w": state["log_w"] - 3e-6,
        "log_v": state["log_v"] - 3e-6,
        "A": 0.49 * mixture._alpha * np.tile(np.eye(4 + signed + 2), (2, 1, 1)),
        "errors": state["errors"][:2],
        "counter": np.array([1e300]),
        "limits": state["limits"][::-1],
    }
    for name, value in wrong.items():
        with pytest.raises(StateError, match=name):
            Mixture(4, mixture.limits, signed, windows=(0.0, 50.0)).restore({**state, name: value})
    least = 0.51 * mixture._alpha * np.tile(np.eye(4 + signed + 2), (2, 1, 1))
    close_to_one = {"log_w": state["log_w"] - 1e-7, "log_v": state["log_v"] + 1e-7, "A": least}
    again.restore({**state, **close_to_one})
    other = {**state, "A": state["A"][:, :-1, :-1], "b": state["b"][:, :-1]}
    with pytest.raises(StateError, match="A has other experts"):
        again.restore(other)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_learner_has_a_certificate(task):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(700, 2))
    score = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=700)
    y = score if task == "regression" else np.digitize(score, [-0.3, 0.3])
    learner = pronk.make("default", task, budget=20, random_state=0).partial_fit(X[:5], y[:5])
    with pytest.raises(ValueError, match="8 rows"):
        learner.certificate()
    certificate = learner.partial_fit(X[5:], y[5:]).certificate()
    assert certificate.rows == 700
    assert 0 < certificate.best_loss < 700 and certificate.regret <= certificate.bound


# -- target clipping -----------------------------------------------------------------------------


def test_target_clipping_is_its_twin():
    rng = np.random.default_rng(0)
    y = np.column_stack((rng.standard_t(1, 900), 100 + rng.exponential(size=900)))
    clipping = TargetClipping(2)
    clipping.start(y[:128])
    got = np.concatenate([clipping.learn(y[128:200]), clipping.learn(y[200:])])
    for o in range(2):
        centre, size = naive.clipping_start(y[:128, o])
        close(got[:, o], naive.clipped_targets(y[128:, o], centre, size))
    assert np.any(got != y[128:])


def test_one_row_changes_the_clipping_by_five_per_cent():
    y = np.random.default_rng(1).normal(size=(2000, 1))
    clipping = TargetClipping(1)
    assert np.array_equal(clipping.learn(y[:5]), y[:5])  # before any row
    close(clipping.start(y), y, 0)  # nothing is clipped
    before = clipping.size.copy()
    let = clipping.learn(np.array([[1e9]]))
    close(let[0], clipping.centre + 3 * before)
    assert before < clipping.size <= 1.06 * before
    moved = clipping.learn(np.full((200, 1), 1e4))
    assert moved[-1] == 1e4  # a permanent change is followed


def test_clipping_where_nearly_all_targets_are_equal():
    y = np.zeros((100, 1))
    clipping = TargetClipping(1)
    assert np.array_equal(clipping.start(y), y)
    assert clipping.learn(np.array([[3.0]])) == 3.0
    y[50] = 2.0
    assert clipping.start(y)[50] == 2.0


def test_error_clipping_is_its_twin():
    rng = np.random.default_rng(2)
    P = rng.normal(size=(500, 2))
    Y = P + rng.standard_t(3, size=(500, 2)) * [1, 50]
    Y[:40, 0], Y[[50, 300]] = P[:40, 0], 1e6  # no error, then a glitch
    Y[400:, 1] *= 1e3
    clipping = ErrorClipping(2)
    got = np.concatenate([clipping.learn(P[:70], Y[:70]), clipping.learn(P[70:], Y[70:])])
    size, expected = np.zeros(2), []
    for t in range(500):
        clipped, size = naive.clipped_around(Y[t], P[t], size, t + 1)
        expected.append(clipped)
    close(got, expected, 1e-12)
    assert np.array_equal(got[:32], Y[:32]) and (np.abs(got[300]) < 2e3).all()
    assert np.mean(got[415:] == Y[415:]) > 0.9  # a permanent change is followed


# -- error scale and quantiles -------------------------------------------------------------------


def test_log_squares_are_their_twin():
    errors = np.random.default_rng(2).normal(size=(300, 2)) * [1, 50]
    errors[100] = 1e-12
    errors[150] = 1e9
    errors[200:] *= 30
    running, levels, targets = np.zeros((4, 2)), np.empty((300, 2)), np.empty((300, 2))
    log_squares(errors[:70], running, levels[:70], targets[:70])
    log_squares(errors[70:], running, levels[70:], targets[70:])
    for o in range(2):
        for got, expected in zip(
            (levels[:, o], targets[:, o]), naive.error_scale_targets(errors[:, o]), strict=True
        ):
            close(got, expected)


def test_the_error_scale_is_an_awv_forecaster_of_log_squares():
    rng = np.random.default_rng(3)
    Phi, P = rng.normal(size=(150, 4)), rng.normal(size=(150, 1))
    Y = P + np.exp(Phi[:, :1]) * rng.normal(size=(150, 1))
    scales = ErrorScale(View(PLAIN, Gaussian(), np.ones(2), 1.0), 1, 50)
    scales.group.offer(rng.normal(size=(4, 2)), np.empty((0, 2)), 4)
    scales.grow()
    got = scales.learn(Phi[:60], P[:60], Y[:60])
    levels, targets = naive.error_scale_targets((Y - P)[:60, 0])
    F = np.column_stack((np.ones(150), P, np.minimum(P**2, 9.0), Phi))
    keep = 1 - 1 / 2000
    A, b, expected = 5.0 * np.eye(7), np.zeros(7), []
    for t in range(60):
        A = keep * A + np.outer(F[t], F[t])
        g = np.clip(F[t] @ np.linalg.solve(A, keep * b), -4, 4)
        expected.append(np.exp((levels[t] + g) / 2))
        b = keep * b + targets[t] * F[t]
        if t + 1 == scales._shape.block_length:
            A = A + (1 - keep ** (t + 1)) * 5.0 * np.eye(7)
    close(got[:, 0], expected)
    following = scales.predict(Phi[60:61], P[60:61])
    close(scales.learn(Phi[60:61], P[60:61], Y[60:61]), following, 1e-12)


def tracking(outputs=1):
    """Return quantiles that track errors from the next row on."""
    quantiles = Quantiles(outputs)
    ones = np.ones((FIRST_ROWS, outputs))
    quantiles.learn(0 * ones, ones, 0 * ones)
    assert quantiles.tracked
    return quantiles


def test_quantiles_are_their_twin():
    rng = np.random.default_rng(4)
    n = 1300  # more than are held, and their level moves
    P, scales = rng.normal(size=(n, 2)) + np.array([0, 5]), np.exp(rng.normal(size=(n, 2)))
    P += np.arange(n)[:, None] / 400
    Y = P + scales * rng.standard_t(3, size=(n, 2)) * (1 + (np.arange(n)[:, None] > 500) * 9)
    Y[:, 1] = P[:, 1] + scales[:, 1] * rng.exponential(size=n)  # asymmetric
    Y[[300, 700]] *= 1e5
    quantiles = tracking(2)
    parts = [slice(0, 3), slice(3, 31), slice(31, 400), slice(400, n)]
    used = np.concatenate([quantiles.learn(P[rows], scales[rows], Y[rows]) for rows in parts])
    R = (Y - P) / scales
    for o in range(2):
        expected = naive.quantile_offsets(R[:, o], P[:, o], LEVELS, NORMAL)
        close(used[:, :, o], expected * scales[:, [o]], 1e-8)
    assert (np.diff(used, axis=1) >= 0.0).all()
    following = quantiles.current(P[:1], scales[:1])
    close(quantiles.learn(P[:1], scales[:1], Y[:1]), following, 1e-12)


def test_predictions_that_are_equal_up_to_rounding_are_in_one_quintile():
    rng = np.random.default_rng(5)
    P = rng.choice([-3.0, 1.0, 7.0], (400, 1))
    Y, ones = P + rng.normal(size=P.shape), np.ones(P.shape)
    used = []
    for factor in (np.ones(P.shape), 1.0 + 1e-13 * rng.normal(size=P.shape)):
        quantiles = tracking()
        used.append(quantiles.learn(P * factor, ones, Y + P * factor - P))
        used.append(quantiles.current((P * factor)[:9], ones[:9]))
    close(used[2], used[0])
    close(used[3], used[1])


def test_the_deviation_is_the_discounted_root_mean_square():
    quantiles, one = tracking(), np.ones((1, 1))
    quantiles.learn(0 * one, one, 3 * one)
    close(quantiles.deviation, [3.0], 1e-12)
    quantiles.learn(0 * one, one, -4 * one)
    keep = 1 - 1 / 1000
    close(quantiles.deviation, [np.sqrt((keep * 9 + 16) / (keep + 1))], 1e-12)


def test_before_the_first_stage_both_ends_are_at_the_largest_error():
    quantiles = Quantiles(1)
    P, Y = np.zeros((5, 1)), np.array([[9.0], [1.0], [-3.0], [2.0], [0.0]])
    ones = np.ones((5, 1))
    used = np.concatenate(
        [quantiles.learn(P[:2], ones[:2], Y[:2]), quantiles.learn(P[2:], ones[2:], Y[2:])]
    )
    assert np.isnan(used[:2]).all()  # no error is known yet: the first does not count
    ends = around(P, used, ends_of(0.9))[:, 0]
    assert ends[2:].tolist() == [[-1, 1], [-3, 3], [-3, 3]]


def test_levels_between_those_that_are_tracked_are_interpolated_and_monotone():
    rng = np.random.default_rng(6)
    offsets = np.sort(rng.normal(size=(50, len(LEVELS), 2)), axis=1)
    P, zero = rng.normal(size=(50, 2)), np.zeros((50, 2))
    wanted = np.sort(np.concatenate((rng.uniform(0.001, 0.999, 200), LEVELS, LEVELS[:-1] + 1e-15)))
    found = around(P, offsets, wanted)
    assert found.shape == (50, 2, len(wanted)) and (np.diff(found) >= 0.0).all()
    expected = np.interp(wanted, LEVELS, offsets[7, :, 1])
    close(around(zero, offsets, wanted)[7, 1], expected, 1e-12)
    assert np.array_equal(around(zero, offsets, LEVELS), np.moveaxis(offsets, 1, 2))
    assert [ends_of(c).tolist() for c in (0.9, 0.998)] == [[0.05, 0.95], [0.001, 0.999]]


def hostile(name, n=20_000):
    """Return errors of a stream on which quantiles are hard to follow."""
    rng, t = np.random.default_rng(0), np.arange(n)
    return {
        "cauchy": lambda: rng.standard_cauchy(n),
        "growth": lambda: np.exp(t / 2000) * rng.normal(size=n),
        "bursts": lambda: np.where(t // 50 % 20 == 0, 100, 1) * rng.normal(size=n),
        "alternation": lambda: np.where(t % 2, 1.0, -1.0) * (1 + 0.1 * rng.normal(size=n)),
        "regimes": lambda: np.repeat([1.0, 20.0, 0.1, 5.0], n // 4) * rng.standard_t(2, n),
        "skew": lambda: rng.exponential(size=n) - 1,
        "turning skew": lambda: np.where(t < n // 2, 1, -1) * (rng.exponential(size=n) - 1),
    }[name]()


@pytest.mark.parametrize(
    ("name", "interval", "level"),
    [
        ("cauchy", 0.015, 0.015), ("growth", 0.04, 0.02), ("bursts", 0.06, 0.04),
        ("alternation", 0.01, 0.01), ("regimes", 0.02, 0.015), ("skew", 0.02, 0.015),
        ("turning skew", 0.02, 0.015),
    ],
)  # fmt: skip
def test_long_run_shares_on_hostile_streams(name, interval, level):
    """Those of intervals, and those below each quantile."""
    errors = hostile(name)[:, None]
    quantiles = tracking()
    used = quantiles.learn(0 * errors, np.ones_like(errors), errors)[:, :, 0]
    inside = (used[:, ::-1] <= errors) & (errors <= used)
    upper = slice(len(LEVELS) // 2 + 1, None)
    assert np.abs(inside.mean(axis=0) - (2 * LEVELS - 1))[upper].max() < interval
    assert np.abs((errors <= used).mean(axis=0) - LEVELS).max() < level


def test_both_ends_follow_skewed_errors():
    """The ends of a 90 % interval of exponential errors are 0.05 and 3, not -2.3 and 2.3."""
    errors = np.random.default_rng(1).exponential(size=(6000, 1))
    quantiles = tracking()
    used = quantiles.learn(0 * errors, np.ones_like(errors), errors)[2000:, :, 0]
    found = used[:, np.searchsorted(LEVELS, [0.05, 0.5, 0.95])].mean(axis=0)
    np.testing.assert_allclose(found, [0.05, 0.69, 3.0], rtol=0.1, atol=0.05)


# -- probabilities ------------------------------------------------------------------------------


def labelled(n, classes, seed=5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    M = np.clip(-0.8 + 0.3 * rng.normal(size=(n, classes)), -1, 1)
    M[np.arange(n), labels] += 0.6
    return np.clip(M, -1, 1), labels


def test_the_slopes_are_their_twin():
    M, labels = labelled(900, 4)
    labels[:4] = range(4)
    Y = np.where(labels[:, None] == np.arange(4), 1.0, -1.0)
    P, targets = np.column_stack((np.ones(900), M)), np.column_stack((np.ones(900), Y))
    temperature = Temperature(5)
    temperature.learn(P[:4], targets[:4])  # until all classes are seen
    start, H = temperature._slopes.copy(), temperature._H.copy()
    temperature._slopes[:], temperature._H[:] = [1.0, 0.0], np.eye(2)
    for rows in (slice(4, 5), slice(5, 300), slice(300, 900)):
        temperature.learn(P[rows], targets[rows])
    close(temperature._slopes, naive.slopes(M[4:], labels[4:]), 1e-8)
    assert abs(start[1]) > 1e-6 and H[0, 1] != 0


def test_two_classes_have_both_signs_of_one_margin():
    M, labels = labelled(600, 2)
    margin = M[:, 1]
    y = np.column_stack((np.ones(600), 2.0 * labels - 1))
    temperature = Temperature(2)
    first = 1 + int(np.flatnonzero(labels != labels[0])[0])
    temperature.learn(np.column_stack((np.ones(600), margin))[:first], y[:first])
    temperature._slopes[:], temperature._H[:] = [1.0, 0.0], np.eye(2)
    temperature.learn(np.column_stack((np.ones(600), margin))[first:], y[first:])
    pairs = np.column_stack((-margin, margin))
    close(temperature._slopes, naive.slopes(pairs[first:], labels[first:]), 1e-8)


def test_slopes_are_projected_on_the_allowed_set():
    """In the norm of H: on either edge, in the corner, or unchanged."""
    rng = np.random.default_rng(5)
    places = set()
    for _ in range(300):
        slopes, half = 2 * rng.normal(size=2), rng.normal(size=(2, 2))
        H = half @ half.T + 0.01 * np.eye(2)
        expected = naive.nearest_allowed(slopes, H, SMALLEST_SLOPE, STEEPEST_SLOPE)
        places.add(
            (expected[0] > SMALLEST_SLOPE + 1e-9, expected[1] + STEEPEST_SLOPE * expected[0] > 1e-9)
        )
        project_slopes(slopes, H)
        close(slopes, expected, 1e-8)
    assert len(places) == 4


def test_capped_slopes_keep_the_order_of_the_margins():
    for start in ([80.0, -0.99 * STEEPEST_SLOPE * 80.0], [1e6, -1e6], [1e3, 1e3]):
        slopes = np.array(start)
        project_slopes(slopes, np.eye(2))
        assert (
            SMALLEST_SLOPE <= slopes[0] <= 50.0 and -STEEPEST_SLOPE * slopes[0] <= slopes[1] <= 50.0
        )


def test_probabilities_are_calibrated_with_label_noise():
    """One label in ten is wrong: margins near +-1 mean a probability of 0.9."""
    rng = np.random.default_rng(6)
    truth = rng.choice([-1.0, 1.0], 4000)
    margin = np.clip(truth * rng.uniform(0.7, 0.99, 4000), -1, 1)
    came = np.where(rng.random(4000) < 0.1, -truth, truth)
    temperature = Temperature(2)
    P, Y = (np.column_stack((np.ones(4000), z)) for z in (margin, came))
    used = temperature.learn(P, Y)
    sure = temperature.shares(np.abs(margin)[:, None], used)[:, 0]
    assert abs(sure[1000:].mean() - np.mean(came == truth)) < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_rise_with_the_margin(seed):
    """Even if the labels contradict the margins."""
    M, labels = labelled(500, 3, seed)
    Y = np.where((labels[:, None] + 1) % 3 == np.arange(3), 1.0, -1.0)  # another class occurs
    temperature = Temperature(4)
    temperature.learn(np.column_stack((np.ones(500), M)), np.column_stack((np.ones(500), Y)))
    grid = np.linspace(-1, 1, 50)
    shares = temperature.shares(np.column_stack((grid, np.zeros(50))))
    P = shares[:, 0] / shares.sum(axis=1)
    assert np.all(np.diff(P) > 0)


# -- baselines and linear experts ------------------------------------------------------------------


def straight(n=400):
    rng = np.random.default_rng(8)
    Z = rng.normal(size=(n, 4)) * [1, 3, 1, 0]
    y = np.sign(Z @ [1.0, -0.5, 0.2, 0.0] + 0.3 + 0.5 * rng.normal(size=n))
    return Z, np.column_stack((np.ones(n), y, -y))


def test_linear_experts_are_their_twin_in_any_cut():
    Z, Y = straight()
    whole, cut = Baselines(3, 4), Baselines(3, 4)
    expected = naive.linear_experts(Z, Y)
    close(whole.learn(Z, Y)[:, 3:], expected, 1e-10)
    parts = []
    for rows in (slice(0, 1), slice(1, 7), slice(7, 400)):
        close(cut.predict(Z[rows][:1])[0, 3:], expected[rows.start], 1e-10)
        parts.append(cut.learn(Z[rows], Y[rows]))
    close(np.concatenate(parts)[:, 3:], expected, 1e-10)
    assert np.mean(np.sign(expected[100:, :, 1]) != Y[100:, 1:2]) < 0.2
    assert whole.names == ("last target", "mean of 10", "mean", "logistic", "margin")


def test_linear_experts_of_new_outputs_are_those_of_their_sources():
    Z, Y = straight()
    baselines = Baselines(3, 4)
    baselines.learn(Z[:200], Y[:200])
    matrix = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    baselines.remap(matrix)
    close(
        baselines.learn(Z[200:], Y[200:] @ matrix)[:, 3:],
        naive.linear_experts(Z, Y @ matrix)[200:],
        1e-10,
    )


# -- forgetting, scales, the choice of experts ---------------------------------------------------


def test_the_variance_has_the_weight_of_the_next_row():
    rng = np.random.default_rng(6)
    Phi, window = rng.normal(size=(50, 4)), 20
    engine = Forecaster(0.5, 4, 1, window)
    keep = 1 - 1 / window
    A = 0.5 * np.eye(4)
    block = engine.block_length
    for t, phi in enumerate(Phi):
        engine.learn(phi[None], np.ones((1, 1)))
        A = keep * A + np.outer(phi, phi)
        if (t + 1) % block == 0:
            A = A + (1 - keep**block) * 0.5 * np.eye(4)
    new = rng.normal(size=(3, 4))
    expected = [phi @ np.linalg.solve(keep * A, phi) for phi in new]
    close(engine.variance(new), expected)


def test_an_outlier_does_not_set_a_scale():
    X = np.random.default_rng(7).normal(size=(600, 3))
    spoiled = X.copy()
    spoiled[5, 0], spoiled[400, 1], spoiled[300, 2] = 1e9, -1e6, 6.0  # 6 is no outlier
    plain, other = FixedScale(X), FixedScale(spoiled)
    ratio = other.unit / plain.unit
    close(ratio[:2], [1, 1], 0.01)
    assert ratio[2] > 1.1
    # Compressed: some log(1e9) half ranges beyond the rest, in units of half a range or less.
    assert np.abs(other.transform(spoiled)).max() < 30
    rare = np.zeros((600, 1))
    rare[7] = 1.0
    assert FixedScale(rare).width[0] == 1.0


def make_experts(budget=30):
    settings = grid(Gaussian())
    limits = np.array([[-1.0], [1.0]])
    kernels = (PLAIN, Gaussian()), (1, Laplacian()), (FULL, Gaussian())
    views = [View(number, kernel, np.ones(2), 1.0) for number, kernel in kernels]
    past = Past(1, [0], [])
    return Experts(settings, views, past, 1, budget, 0, limits, False, 2, True)


def test_the_best_experts_and_the_one_of_half_the_leaders_bandwidth():
    experts = make_experts()
    losses = np.arange(len(experts.settings) + 3.0) + 10
    leader = experts.settings.index(Setting(1.0, ALPHA, None, FULL))
    losses[leader] = 0.0
    experts.mixture.losses = losses
    chosen = [experts.settings[i] for i in experts.best(3)]
    assert chosen[0] == Setting(1.0, ALPHA, None, FULL)
    assert Setting(0.5, ALPHA, None, FULL) in chosen  # though it ranks behind
    assert [s.window for s in chosen] == [None, None, None, 100]
    assert len(experts.best(1)) == 2


def test_a_group_that_drops_points_is_one_that_never_had_more():
    rng = np.random.default_rng(4)
    view = View(PLAIN, Gaussian(), np.ones(2), 1.0)
    Z, Y = rng.normal(size=(512, 2)), rng.normal(size=(512, 1))
    parts = []
    for limit in (30, 12):
        group = Group(view, 1.0)
        group.limit = limit
        group.offer(Z[:30], Z[:0], limit)
        expert = Forecaster(0.01, group.nystrom.size)
        expert.learn(group.features(Z[:256], Z[: group.nystrom.points]), Y[:256])
        parts.append((group, expert))
    (many, dropped), (few, _) = parts
    many.limit = 12
    many.shrink()
    assert many.nystrom.size == few.nystrom.size == 12
    dropped.resize(12)
    got, expected = (
        expert.learn(group.features(Z[256:], Z[:12]), Y[256:]) for group, expert in parts
    )
    close(got, expected)


def test_three_experts_are_not_all_of_one_view():
    experts = make_experts()
    losses = np.arange(len(experts.settings) + 3.0) + 50
    losses[: len(experts.settings)] -= [40 * (s.view == FULL) for s in experts.settings]
    experts.mixture.losses = losses
    chosen = [experts.settings[i] for i in experts.best(3)][:3]
    others = [s for s in experts.settings if s.view != FULL and s.window is None]
    assert [s.view for s in chosen] == [FULL, others[0].view, FULL]
    assert chosen[1] == others[0]  # the best of them
    assert {s.view for s in [experts.settings[i] for i in experts.best(2)][:2]} == {FULL}
    losses[experts.settings.index(others[1])] = 1.0  # one that is there by itself changes nothing
    chosen = [experts.settings[i] for i in experts.best(3)][:3]
    assert chosen[0] == others[1] and {s.view for s in chosen[1:]} == {FULL}


def test_only_predictions_of_new_rows_count_as_losses():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=600)
    learner = OnlineKernelRegressor(budget=20, random_state=0).partial_fit(X[:512], y[:512])
    assert not learner._model.experts.mixture.losses.any()
    learner.partial_fit(X[512:], y[512:])
    assert learner._model.experts.mixture.losses.all()
