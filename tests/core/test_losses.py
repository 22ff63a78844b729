"""Losses: slopes against differences, kinks, and the constants against dense grids."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pronk.core import losses
from pronk.core.losses import LOSSES, Loss, get_loss

NAMES = list(LOSSES)
CLIPS = [0.01, 0.3, 0.99, 1.0, 1.01, 2.0, 5.0, 30.0]

# Every loss, those with a parameter also with one so large that they are curved in reach.
VARIANTS = [get_loss(name) for name in NAMES] + [
    get_loss("smooth_hinge", tau=1.0),
    get_loss("smooth_hinge", tau=4.0),
    get_loss("epsilon_insensitive", epsilon=0.0),
    get_loss("epsilon_insensitive", epsilon=0.7),
    get_loss("huber", delta=0.2),
    get_loss("huber", delta=5.0),
]
variants = pytest.mark.parametrize(
    "loss", VARIANTS, ids=lambda loss: f"{loss.name}-{loss.parameter}"
)


def naive_value(loss, z, y):
    """The definitions, in plain NumPy."""
    r, a, p = z - y, y * z, loss.parameter
    below = np.maximum(0.0, 1.0 - a)
    return {
        "squared": lambda: r**2,
        "logistic": lambda: np.logaddexp(0.0, -a),
        "squared_hinge": lambda: below**2,
        "hinge": lambda: below,
        "smooth_hinge": lambda: np.where(a <= 1.0 - p, below - p / 2, below**2 / (2 * p)),
        "absolute": lambda: np.abs(r),
        "epsilon_insensitive": lambda: np.maximum(0.0, np.abs(r) - p),
        "huber": lambda: np.where(np.abs(r) <= p, r**2 / 2, p * (np.abs(r) - p / 2)),
    }[loss.name]()


def kinks(loss, y):
    """Where the slope of l(., y) jumps."""
    if loss.name in ("hinge", "absolute"):
        return [y]
    if loss.name == "epsilon_insensitive":
        return [y - loss.parameter, y + loss.parameter]
    return []


def labels(loss, clip=1.0, n=9):
    return [-1.0, 1.0] if loss.task == "classification" else list(np.linspace(-clip, clip, n))


@variants
def test_value_is_the_definition(loss):
    z = np.linspace(-6.0, 6.0, 1001)
    for y in labels(loss):
        np.testing.assert_allclose(
            loss.value(z, y), naive_value(loss, z, y), rtol=1e-14, atol=1e-15
        )


@variants
def test_slope_is_the_derivative(loss):
    z, h = np.linspace(-4.0, 4.0, 997), 1e-6
    for y in labels(loss):
        smooth = np.all([np.abs(z - kink) > 2 * h for kink in kinks(loss, y)] + [z == z], axis=0)
        difference = (loss.value(z + h, y) - loss.value(z - h, y)) / (2 * h)
        # A jump of the second derivative costs h M / 4, rounding 1e-16 l / h.
        np.testing.assert_allclose(
            loss.slope(z, y)[smooth], difference[smooth], atol=1e-5, rtol=1e-7
        )


@variants
def test_slope_is_a_subgradient(loss):
    """Convexity, at the kinks too: l(w) >= l(u) + l'(u) (w - u)."""
    for y in labels(loss):
        u = np.concatenate([np.linspace(-3.0, 3.0, 121), kinks(loss, y)])
        line = loss.value(u, y)[:, None] + loss.slope(u, y)[:, None] * (u[None, :] - u[:, None])
        assert (loss.value(u, y)[None, :] - line).min() >= -1e-12


class TestKinks:
    @pytest.mark.parametrize("y", [-1.0, 1.0])
    def test_hinge_at_margin_one(self, y):
        hinge = get_loss("hinge")
        assert hinge.slope(y, y) == 0.0
        assert hinge.slope(np.nextafter(y, 0.0), y) == -y
        assert hinge.slope(np.nextafter(y, 2.0 * y), y) == 0.0

    @pytest.mark.parametrize("y", [-0.3, 0.0, 2.5])
    def test_absolute_at_the_label(self, y):
        absolute = get_loss("absolute")
        assert absolute.slope(y, y) == 0.0
        assert absolute.slope([y - 1.0, y + 1e-12], y).tolist() == [-1.0, 1.0]

    def test_epsilon_insensitive_at_the_border(self):
        loss = get_loss("epsilon_insensitive", epsilon=0.25)
        z = np.array([-0.26, -0.25, 0.0, 0.25, 0.26])
        assert loss.slope(z, 0.0).tolist() == [-1.0, 0.0, 0.0, 0.0, 1.0]
        assert loss.value(z, 0.0)[1:4].tolist() == [0.0, 0.0, 0.0]

    def test_epsilon_zero_is_the_absolute_loss(self):
        z = np.linspace(-2.0, 2.0, 41)
        loss = get_loss("epsilon_insensitive", epsilon=0.0)
        np.testing.assert_array_equal(loss.slope(z, 0.0), get_loss("absolute").slope(z, 0.0))
        np.testing.assert_array_equal(loss.value(z, 0.0), get_loss("absolute").value(z, 0.0))

    def test_smooth_hinge_pieces(self):
        loss = get_loss("smooth_hinge", tau=0.5)
        margins = np.array([-3.0, 0.5, 0.75, 1.0, 2.0])
        assert loss.slope(margins, 1.0).tolist() == [-1.0, -1.0, -0.5, 0.0, 0.0]
        assert loss.slope(-margins, -1.0).tolist() == [1.0, 1.0, 0.5, 0.0, 0.0]

    def test_squared_hinge_at_margin_one(self):
        assert get_loss("squared_hinge").slope(1.0, 1.0) == 0.0

    def test_huber_slope_stops_at_delta(self):
        loss = get_loss("huber", delta=0.5)
        assert loss.slope([-9.0, -0.5, 0.25, 0.5, 9.0], 0.0).tolist() == [
            -0.5,
            -0.5,
            0.25,
            0.5,
            0.5,
        ]


def pairs(loss, clip, y, n=301):
    """(gap, square) over a grid of (u, w): gap >= sigma/2 square is the curvature inequality."""
    grid = np.linspace(-clip, clip, n)
    u, w = grid[:, None], grid[None, :]
    gradient = loss.slope(u, y)
    gap = loss.value(w, y) - loss.value(u, y) - gradient * (w - u)
    return gap, (gradient * (w - u)) ** 2


@variants
@pytest.mark.parametrize("clip", CLIPS)
def test_curvature_inequality(loss, clip):
    sigma = loss.curvature(clip)
    assert sigma >= 0.0
    for y in labels(loss, clip):
        gap, square = pairs(loss, clip, y)
        scale = max(1.0, np.abs(loss.value(np.array([-clip, clip]), y)).max())
        assert (gap - 0.5 * sigma * square).min() >= -1e-14 * scale


@variants
@pytest.mark.parametrize("clip", CLIPS)
def test_curvature_is_the_largest_possible(loss, clip):
    """One part in 10^6 more violates the inequality; the logistic constant is 6 times small."""
    slack = 6.0 if loss.name == "logistic" else 1.0
    sigma = loss.curvature(clip)
    largest = math.inf
    for y in labels(loss, clip):
        gap, square = pairs(loss, clip, y)
        # Next to u = w both sides are rounding errors; the quotient is the same further off.
        clear = square > 1e-6 * square.max()
        largest = min(largest, (2.0 * gap[clear] / square[clear]).min(initial=math.inf))
    if loss.name == "epsilon_insensitive" and 2.0 * clip <= loss.parameter:
        assert largest == math.inf  # the loss is 0 throughout
    elif loss.name == "logistic" and clip > 20.0:
        assert sigma == pytest.approx(0.5 * math.exp(-clip))  # the gaps are below rounding
    elif sigma > 0.0:
        assert largest <= slack * sigma * (1.0 + 1e-6)
    else:
        assert abs(largest) <= 1e-6 / min(1.0, clip) ** 2  # against sigma's size elsewhere


def test_curvature_values_of_the_papers():
    assert get_loss("squared").curvature(1.0) / 2 == 1.0 / 16.0
    assert get_loss("squared").curvature(3.0) / 2 == pytest.approx(1.0 / (16.0 * 9.0), rel=1e-15)
    assert get_loss("squared_hinge").curvature(1.0) == 1.0 / 8.0
    assert get_loss("squared_hinge").curvature(0.5) == pytest.approx(
        1.0 / (2.0 * 1.5**2), rel=1e-15
    )
    assert get_loss("squared_hinge").curvature(2.0) == pytest.approx(5.0 / (32.0 * 3.0), rel=1e-15)
    assert get_loss("logistic").curvature(1.0) == 1.0 / 16.0
    assert get_loss("logistic").curvature(5.0) == pytest.approx(math.exp(-5.0) / 2, rel=1e-15)
    for name in ("hinge", "absolute", "epsilon_insensitive", "smooth_hinge", "huber"):
        assert get_loss(name).curvature(1.0) == 0.0


@variants
def test_curved_means_positive_curvature_for_every_clip(loss):
    assert loss.curved == all(loss.curvature(clip) > 0.0 for clip in [*CLIPS, 100.0])


@variants
def test_clip_zero_and_huge_clip_do_not_raise(loss):
    assert loss.curvature(0.0) >= 0.0
    assert loss.curvature(1e200) >= 0.0
    assert loss.lipschitz(0.0) >= 0.0


@variants
@pytest.mark.parametrize("clip", CLIPS)
def test_lipschitz(loss, clip):
    z = np.linspace(-clip, clip, 1001)
    steepest = max(np.abs(loss.slope(z, y)).max() for y in labels(loss, clip))
    bound = loss.lipschitz(clip)
    assert steepest <= bound * (1.0 + 1e-12)
    if loss.name == "logistic" or (
        loss.name == "epsilon_insensitive" and 2.0 * clip <= loss.parameter
    ):
        assert bound == 1.0
    else:
        assert steepest == pytest.approx(bound, rel=1e-12)


@variants
def test_smoothness(loss):
    z, h = np.linspace(-3.0, 3.0, 2001), 1e-5
    steepest = max(
        np.abs(loss.slope(z + h, y) - loss.slope(z - h, y)).max() / (2 * h) for y in labels(loss)
    )
    smoothness = loss.smoothness()
    if math.isinf(smoothness):
        assert kinks(loss, 1.0)
    else:
        assert steepest == pytest.approx(smoothness, rel=1e-5)
        assert not kinks(loss, 1.0)


class TestExtremes:
    @pytest.mark.parametrize("name", NAMES)
    def test_no_warning(self, name):
        loss = get_loss(name)
        z = np.array([-1e8, 1e8, -1e300, 1e300, 0.0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for y in (-1.0, 1.0):
                assert not np.isnan(loss.value(z, y)).any()
                assert not np.isnan(loss.slope(z, y)).any()

    def test_logistic(self):
        loss = get_loss("logistic")
        assert loss.value([-1e8, 1e8], 1.0).tolist() == [1e8, 0.0]
        assert loss.slope([-1e8, 1e8], 1.0).tolist() == [-1.0, 0.0]
        assert loss.slope([-1e8, 1e8], -1.0).tolist() == [0.0, 1.0]
        # Small losses keep their digits: log(1 + e) = e and the slope is -e.
        assert loss.value(50.0, 1.0) == pytest.approx(math.exp(-50.0), rel=1e-15)
        assert loss.slope(50.0, 1.0) == pytest.approx(-math.exp(-50.0), rel=1e-15)

    @pytest.mark.parametrize("name", NAMES)
    def test_nan_shows_in_the_value(self, name):
        assert math.isnan(get_loss(name).value(math.nan, 1.0))
        assert math.isnan(get_loss(name).value(1.0, math.nan))


class TestOneSourceOfTruth:
    @variants
    def test_scalars_equal_the_methods_bit_for_bit(self, loss):
        rng = np.random.default_rng(0)
        z = rng.normal(size=257) * rng.choice([0.1, 1.0, 30.0], size=257)
        y = (
            rng.choice([-1.0, 1.0], size=257)
            if loss.task == "classification"
            else rng.normal(size=257)
        )
        values = [losses.value(loss.code, loss.parameter, a, b) for a, b in zip(z, y, strict=True)]
        slopes = [losses.slope(loss.code, loss.parameter, a, b) for a, b in zip(z, y, strict=True)]
        np.testing.assert_array_equal(loss.value(z, y), values)
        np.testing.assert_array_equal(loss.slope(z, y), slopes)
        for clip in CLIPS:
            assert loss.curvature(clip) == losses.curvature(loss.code, loss.parameter, clip)
            assert loss.lipschitz(clip) == losses.lipschitz(loss.code, loss.parameter, clip)

    @given(
        st.sampled_from(VARIANTS),
        st.floats(-1e6, 1e6),
        st.sampled_from([-1.0, 1.0]),
    )
    @settings(max_examples=200, deadline=None)
    def test_a_number_alone_equals_the_number_in_an_array(self, loss, z, y):
        many = np.full(9, z)
        assert (loss.value(many, y) == loss.value(z, y)).all()
        assert (loss.slope(many, y) == loss.slope(z, y)).all()

    def test_shapes(self):
        loss = get_loss("squared")
        assert isinstance(loss.value(1, 2), float)
        assert isinstance(loss.slope(1.0, 2.0), float)
        assert loss.value(np.zeros((3, 1)), np.ones((1, 4))).shape == (3, 4)
        assert loss.slope([], []).shape == (0,)
        strided = np.arange(12.0).reshape(3, 4).T
        np.testing.assert_array_equal(loss.value(strided, 1.0), (strided - 1.0) ** 2)
        np.testing.assert_array_equal(
            loss.slope(np.array([1, 2, 3]), [True, False, True]), [0, 4, 4]
        )


class TestRegistry:
    def test_names_codes_and_tasks(self):
        assert [LOSSES[name].name for name in NAMES] == NAMES
        assert len({loss.code for loss in LOSSES.values()}) == len(LOSSES) == 8
        assert {loss.task for loss in LOSSES.values()} == {"regression", "classification", "both"}

    @pytest.mark.parametrize("name", NAMES)
    def test_the_defaults_of_get_loss_are_those_of_the_registry(self, name):
        assert get_loss(name) == LOSSES[name]

    def test_parameters_reach_their_loss_only(self):
        given_all = {"tau": 0.25, "epsilon": 0.5, "delta": 2.0}
        parameters = {name: get_loss(name, **given_all).parameter for name in NAMES}
        assert parameters.pop("smooth_hinge") == 0.25
        assert parameters.pop("epsilon_insensitive") == 0.5
        assert parameters.pop("huber") == 2.0
        assert set(parameters.values()) == {0.0}

    def test_unknown_name(self):
        with pytest.raises(ValueError, match="did you mean 'squared_hinge'") as error:
            get_loss("square_hinge")
        assert all(name in str(error.value) for name in NAMES)
        with pytest.raises(ValueError, match="unknown loss 'xyz'; the losses are squared, "):
            get_loss("xyz")
        with pytest.raises(ValueError, match="unknown loss None"):
            get_loss(None)

    @pytest.mark.parametrize(
        ("name", "parameter"),
        [
            ("smooth_hinge", {"tau": 0.0}),
            ("smooth_hinge", {"tau": math.nan}),
            ("epsilon_insensitive", {"epsilon": -0.1}),
            ("huber", {"delta": math.inf}),
            ("huber", {"delta": 0.0}),
        ],
    )
    def test_parameters_out_of_range(self, name, parameter):
        with pytest.raises(ValueError, match=f"{next(iter(parameter))} must be a "):
            get_loss(name, **parameter)

    def test_frozen(self):
        loss = get_loss("huber")
        assert isinstance(loss, Loss)
        with pytest.raises(dataclasses.FrozenInstanceError):
            loss.parameter = 2.0
