"""PKAWV and Kernel-AWV with a half-life in time: definition, certificate, files, messages."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pronk
from naive import awv, features
from naive.kernels import gaussian, laplacian
from pronk import Gaussian, KernelAWVRegressor, Laplacian, PKAWVClassifier, PKAWVRegressor
from pronk.newton import discounted

CUTS = [0, 1, 2, 9, 10, 75, 110, 111, 130]
CLOSE = {"rtol": 0.0, "atol": 1e-8}


def stream(n=130):
    """Rows with bursts, equal times and two long gaps."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    gaps = rng.exponential(10.0, n) * rng.choice([0.0, 1.0, 3.0], n)
    gaps[[50, 90]] = 1e4
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n), 1e9 + np.cumsum(gaps)


def in_blocks(learner, X, y, times):
    return np.concatenate(
        [learner.predict_then_learn(X[i:j], y[i:j], times=times[i:j]) for i, j in pairwise(CUTS)]
    )


def faded(discounts, opened=0, least=0.9, fewest=8, longest=256):
    """The share of alpha at each row if it is put back when it has faded, or after many rows."""
    shares, kept, rows = [], 1.0, opened
    for discount in discounts:
        shares.append(kept)
        kept, rows = kept * discount, rows + 1
        if (kept < least and rows >= fewest) or rows == longest:
            kept, rows = 1.0, 0
    return np.array(shares)


@pytest.mark.parametrize("anticipate", [True, False])
@pytest.mark.parametrize("exact", [1000, 0])
@pytest.mark.parametrize("whole", [False, True])
def test_the_definition(monkeypatch, whole, exact, anticipate):
    """Exact in blocks; with ``exact`` 0 the regulariser is put back every few rows."""
    monkeypatch.setattr(discounted, "EXACT_SIZE", exact)
    X, y, times = stream()
    d = awv.time_discounts(times, 300.0)
    options = {"anticipate": anticipate, "half_life": "5min"}
    if whole:
        learner = KernelAWVRegressor(Laplacian(1.5), **options)
        Phi = features.root(laplacian(X, X, 1.5))
        shares = np.append(1.0, faded(d[1:]))  # the first row is a block of its own
    else:
        learner = PKAWVRegressor(dictionary=X[:30], **options)
        Phi, shares = features.nystrom(X, X[:30], gaussian), faded(d)
    expected = awv.discounted_awv(Phi, y, 1.0, anticipate, d, None if exact else shares)
    assert_allclose(in_blocks(learner, X, y, times), expected, **CLOSE)
    certificate = learner.certificate()
    weights = np.array([np.prod(d[s + 1 :]) for s in range(len(y))])
    assert certificate.loss == pytest.approx(weights @ (expected - y) ** 2, rel=1e-8)
    assert certificate.regret <= certificate.bound


def test_equal_gaps_are_a_half_life_in_rows():
    X, y, _ = stream()
    times = np.arange(130) * np.timedelta64(500, "ms") + np.datetime64("2026-03-01T12:00")
    for one in (partial(PKAWVRegressor, random_state=0), KernelAWVRegressor):
        made = one(Gaussian(0.7), half_life="10s"), one(Gaussian(0.7), half_life=20)
        found = in_blocks(made[0], X, y, times)
        assert_allclose(found, made[1].predict_then_learn(X, y), **CLOSE)
        assert_allclose(made[0].predict(X[:5]), made[1].predict(X[:5]), **CLOSE)


@pytest.mark.parametrize("bandwidth", ["auto", 1.0])
def test_first_rows_files_weights_and_missing_labels(tmp_path, bandwidth):
    """Rows of weight 0 and without a label are not learned: their gap belongs to the next row."""
    X, y, times = stream()
    y = 100.0 + 50.0 * y  # `Prepared` scales targets by the first rows
    weights = np.where(np.arange(130) % 7 == 3, 0.0, 1.0 + (np.arange(130) % 2))
    y[[4, 60]] = np.nan
    learned = (weights > 0.0) & ~np.isnan(y)
    inner = PKAWVRegressor(Gaussian(bandwidth), half_life="10min", random_state=0)
    whole, cut, few = (pronk.Prepared(inner) for _ in range(3))
    options = {"sample_weight": weights, "times": times}
    expected = whole.predict_then_learn(X, y, **options)
    parts = []
    for i, j in pairwise(CUTS):
        own = {name: values[i:j] for name, values in options.items()}
        parts.append(cut.predict_then_learn(X[i:j], y[i:j], **own))
        cut.save(tmp_path / "model.pronk")
        cut = pronk.load(tmp_path / "model.pronk")
    assert_allclose(np.concatenate(parts), expected, rtol=1e-8, atol=1e-6)
    found = few.predict_then_learn(
        X[learned], y[learned], sample_weight=weights[learned], times=times[learned]
    )
    assert_allclose(found, expected[learned], rtol=1e-8, atol=1e-6)


def test_a_classifier_and_a_call_that_is_rolled_back():
    X, y, times = stream()
    labels = np.where(y > 0, "up", "down")
    options = {"dictionary": X[:20], "half_life": "2min"}
    one, other = PKAWVClassifier(**options), PKAWVClassifier(**options)
    expected = one.fit(X, labels, times=times).decision_function(X)
    other.partial_fit(X[:50], labels[:50], times=times[:50])
    with pytest.raises(ValueError, match=r"times decrease at row 0 .*; sort the rows by time"):
        other.partial_fit(X[50:], labels[50:], times=times[50:] - 1e7)
    other.partial_fit(X[50:], labels[50:], times=times[50:])
    assert_allclose(other.decision_function(X), expected, **CLOSE)


def test_messages():
    X, y, times = stream()
    timed = PKAWVRegressor(half_life="1h")
    with pytest.raises(ValueError, match="half_life='1h' is a time; give times="):
        timed.fit(X, y)
    late = times.copy()
    late[7] = 0.0
    with pytest.raises(ValueError, match=r"times decrease at row 7 \(counting from 0\)"):
        timed.fit(X, y, times=late)
    with pytest.raises(ValueError, match="times has 3 entries, X has 130 rows"):
        timed.fit(X, y, times=times[:3])
    with pytest.raises(ValueError, match="times has"):
        timed.fit(X, y, times=np.where(np.arange(130) == 5, np.nan, times))
    with pytest.raises(ValueError, match="times must hold seconds or datetimes"):
        timed.fit(X, y, times=["soon"] * 130)
    for learner in (PKAWVRegressor(half_life=20), PKAWVRegressor()):
        with pytest.raises(ValueError, match="times has no meaning for PKAWVRegressor"):
            learner.fit(X, y, times=times)
    with pytest.raises(ValueError, match="times has no meaning for FOGDRegressor"):
        pronk.Prepared(pronk.FOGDRegressor()).partial_fit(X, y, times=times)
    for text in ("soon", "1 fortnight", "0h", "1.2.3h", "-1h"):
        with pytest.raises(ValueError, match="is no time; give a number and one of s, min, h"):
            PKAWVRegressor(half_life=text).fit(X, y, times=times)
    with pytest.raises(ValueError, match="two ways to give"):
        PKAWVRegressor(half_life="1h", discount=0.9).fit(X, y, times=times)
