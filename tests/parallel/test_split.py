"""The pass of a Newton engine in partitions has the predictions of the sequential pass."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from pronk import parallel
from pronk.core.losses import get_loss
from pronk.core.runtime import limited
from pronk.evaluate import progressive
from pronk.newton.engine import Newton, OnlineNewton, Squared
from pronk.parallel import partition

ROWS = 2500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3))
Y = np.column_stack((np.sin(X[:, 0]), X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=ROWS)))

LEARNERS = {
    "fourier": {"features": "fourier", "n_features": 20},
    "taylor": {"features": "taylor", "degree": 2},
    "points": {"dictionary": X[:30]},
    "kors": {"gamma": 2.0},
    "kors with a budget": {"gamma": 0.3, "budget": 25},
    "ridge": {"gamma": 2.0, "anticipate": False},
}


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch):
    """Make many partitions of some thousand rows."""
    monkeypatch.setattr(partition, "LEAST_WORK", 1e6)


@pytest.mark.parametrize("settings_of", LEARNERS.values(), ids=LEARNERS)
def test_the_split_pass_is_the_sequential_one(settings_of):
    cuts = [0, 17, 1200, 1201, ROWS]
    models = [
        pronk.PKAWVRegressor(random_state=1, n_jobs=n, **settings_of) for n in (None, 1, 2, 3)
    ]
    passes = [
        np.concatenate([m.predict_then_learn(X[i:j], Y[i:j]) for i, j in pairwise(cuts)])
        for m in models
    ]
    one, split_one, *others = passes
    np.testing.assert_allclose(split_one, one, rtol=1e-9, atol=1e-9)
    for many in others:
        assert (many == split_one).all()  # to the last bit
    sequential, split = models[0], models[2]
    if settings_of.get("features") is None:
        assert (sequential.dictionary_ == split.dictionary_).all()
    before, after = sequential.certificate().to_dict(), split.certificate().to_dict()
    for name in before:
        assert after[name] == pytest.approx(before[name], rel=1e-9)
    np.testing.assert_allclose(
        split.predict(X[:9]), sequential.predict(X[:9]), rtol=1e-8, atol=1e-9
    )


def test_the_split_pass_is_the_sequential_one_for_labels():
    labels = np.array(["a", "b", "c"])[RNG.integers(3, size=ROWS)]
    models = [pronk.PKAWVClassifier(random_state=1, n_jobs=n, gamma=2.0) for n in (None, 2)]
    a, b = (model.predict_then_learn(X, labels, output="decision") for model in models)
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_a_model_saved_between_split_calls_resumes(tmp_path):
    whole = pronk.PKAWVRegressor(gamma=2.0, random_state=1, n_jobs=2)
    expected = np.concatenate([whole.predict_then_learn(X[r], Y[r]) for r in HALVES])
    first = pronk.PKAWVRegressor(gamma=2.0, random_state=1, n_jobs=3)
    head = first.predict_then_learn(X[HALVES[0]], Y[HALVES[0]])
    first.save(tmp_path / "model")
    tail = pronk.load(tmp_path / "model").predict_then_learn(X[HALVES[1]], Y[HALVES[1]])
    assert (np.concatenate((head, tail)) == expected).all()


HALVES = (slice(0, 1300), slice(1300, ROWS))


# -- elements ------------------------------------------------------------------------------------


@given(
    size=st.integers(1, 20),
    seed=st.integers(0, 1000),
    groups=st.lists(st.integers(1, 3), min_size=1, max_size=4),
)
@settings(max_examples=20, deadline=None)
def test_elements_compose_to_the_sums_of_the_engine(size, seed, groups):
    """Group whole blocks in any way, for several outputs."""
    rng = np.random.default_rng(seed)
    newton = Newton(Squared(), 0.7, size, 2)
    length = newton.rule.block_rows(size)
    first_rows = np.full(size, -1)
    start, total = 0, None
    start_sums = partition.Sums(*(held.copy() for held in newton.sums))
    for blocks in groups:
        stop = start + blocks * length
        Phi, targets = rng.normal(size=(stop - start, size)), rng.normal(size=(stop - start, 2))
        part = partition.Partition(start, stop, tuple(range(start, stop, length)), first_rows)
        element = partition.contribution(newton, part, Phi, targets)
        learned = partition.learn_partition(
            newton, part, partition.Sums(*newton.sums), Phi, targets
        )
        before = newton.ledger.copy()
        expected = newton.learn(Phi, targets)
        np.testing.assert_allclose(learned.predictions, expected, rtol=1e-10, atol=1e-10)
        gained = newton.ledger[:3] - before[:3]
        np.testing.assert_allclose(learned.ledger[:3], gained, rtol=1e-9, atol=1e-9)
        total = element if total is None else total.then(element)
        start = stop
    after = start_sums.after(total, newton.alpha)
    A, b = newton.sums
    np.testing.assert_allclose(np.tril(after.A), np.tril(A), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(after.b, b, rtol=1e-10, atol=1e-10)


def test_elements_compose_in_any_grouping():
    rng = np.random.default_rng(0)
    a, b, c = (
        partition.Element(k, rng.normal(size=(r, r)), rng.normal(size=(r, 1)))
        for k, r in ((0.5, 2), (0.9, 3), (0.7, 3))
    )
    left, right = a.then(b).then(c), a.then(b.then(c))
    assert left.kept == pytest.approx(right.kept, rel=1e-15)
    np.testing.assert_allclose(left.G, right.G, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(left.H, right.H, rtol=1e-13, atol=1e-13)


def test_every_row_is_in_one_partition():
    first_rows = np.array([0, 3, 3, 50, 400])
    parts = list(partition.partitions(Squared(), first_rows, 7, 5000))
    assert parts[0].start == 7 and all(a.stop == b.start for a, b in pairwise(parts))
    assert parts[-1].stop <= 5000 and [p.size for p in parts][-1] == 5


# -- learners that cannot be split------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner, reason",
    [
        (pronk.PKAWVRegressor(history="exact", n_jobs=2, random_state=0), "learns all rows again"),
    ],
)
def test_a_learner_that_cannot_be_split_is_refused(learner, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        learner.predict_then_learn(X, Y)
    assert "PKAWVRegressor" in str(caught.value) and not hasattr(learner, "n_seen_")


def test_a_fitted_learner_that_cannot_be_split_is_refused():
    """`n_jobs` may be set after the first row; the default learner has none."""
    exact = pronk.PKAWVRegressor(history="exact", random_state=0).fit(X[:30], Y[:30, 0])
    default = pronk.OnlineKernelRegressor().fit(X[:30], Y[:30, 0])
    for learner, reason in ((exact, "learns all rows again"), (default, "cannot be split")):
        before = learner.n_seen_
        with pytest.raises(ValueError, match=reason):
            list(progressive(learner, (X, Y[:, 0]), n_jobs=2))
        assert learner.n_seen_ == before
    with pytest.raises(ValueError, match="learns all rows again"):
        exact.set_params(n_jobs=2).partial_fit(X[30:40], Y[30:40, 0])


def test_updates_that_depend_on_predictions_are_refused():
    newton = Newton(OnlineNewton(get_loss("logistic")), 1.0, 3)
    assert parallel.why_sequential(newton) == "its updates depend on its predictions"
    for name in ("fogd", "kons", "dual-sgd", "pros-n-kons"):
        model = pronk.make(name, random_state=0).fit(X[:30], Y[:30, 0])
        assert parallel.why_sequential(model._model) is not None


def test_a_pool_of_any_size_gives_the_same_bits():
    model = pronk.PKAWVRegressor(gamma=2.0, random_state=1).fit(X[:5], Y[:5])
    results = []
    for workers in (1, 4):
        engine = pronk.PKAWVRegressor(gamma=2.0, random_state=1).fit(X[:5], Y[:5])._model
        with limited, ThreadPoolExecutor(workers) as pool:
            results.append(parallel.learn(engine, X[5:], Y[5:], pool))
    assert (results[0] == results[1]).all() and len(model.dictionary_)
