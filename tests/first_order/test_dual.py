"""DualSGD and DualSVRG against their brute-force twins, on uneven blocks, and their edge cases."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

import pronk
from helpers import blockwise
from naive import dual, kernels, losses
from naive.features import root
from naive.randomness import stream as numbered
from pronk import (
    DualSGDClassifier,
    DualSGDRegressor,
    DualSVRGClassifier,
    DualSVRGRegressor,
    Gaussian,
)

CLOSE = dict(rtol=1e-8, atol=1e-8)
REGRESSION = ["squared", "absolute", "epsilon_insensitive", "huber"]
CLASSIFICATION = ["hinge", "logistic", "squared_hinge", "smooth_hinge", "squared"]
BANDWIDTH = 0.7
FREQUENCIES = 11
SEED = 4
KERNEL = partial(kernels.gaussian, bandwidth=BANDWIDTH)
COMMON = dict(kernel=Gaussian(BANDWIDTH), n_features=FREQUENCIES, random_state=SEED)


def stream(seed, n=150, d=2, signs=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n)
    return X, np.where(y >= 0, 1, -1) if signs else y


def classes_of(y):
    """Four classes, of which the first rows show only some."""
    return np.digitize(y, [-0.7, 0.1, 0.9])


def frequencies(d=2):
    return numbered(SEED, 2).standard_normal((d, FREQUENCIES)) / BANDWIDTH


def check_model(learner, twin, X, output):
    """Compare the points, oldest first, and the predictions of the current model."""
    np.testing.assert_array_equal(learner.dictionary_, X[list(twin.coefficients)])
    fresh = stream(99)[0]
    expected = dual.decision(twin, X, KERNEL, frequencies(), fresh)
    np.testing.assert_allclose(getattr(learner, output)(fresh), expected, **CLOSE)


# --- DualSGD ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("budget, merge", [(1, 1), (10, 1), (10, 4), (5, 99), (999, 1)])
@pytest.mark.thinned
def test_dual_sgd_regression(loss, budget, merge):
    X, y = stream(0)
    learner = DualSGDRegressor(alpha=1.5, budget=budget, merge=merge, loss=loss, **COMMON)
    twin = dual.dual_sgd(X, y, KERNEL, frequencies(), 1.5, budget, merge, loss)
    np.testing.assert_allclose(blockwise(learner, X, y), twin.predictions, **CLOSE)
    check_model(learner, twin, X, "predict")


@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("budget, merge", [(1, 1), (10, 3), (999, 1)])
@pytest.mark.thinned
def test_dual_sgd_two_classes(loss, budget, merge):
    X, y = stream(1, signs=True)
    alpha = 1.0 if loss.startswith("squared") else 0.02
    learner = DualSGDClassifier(alpha=alpha, budget=budget, merge=merge, loss=loss, **COMMON)
    twin = dual.dual_sgd(X, y.astype(float), KERNEL, frequencies(), alpha, budget, merge, loss)
    np.testing.assert_allclose(
        blockwise(learner, X, y, output="decision"), twin.predictions, **CLOSE
    )
    check_model(learner, twin, X, "decision_function")


@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("budget, merge", [(1, 1), (12, 3), (999, 1)])
@pytest.mark.thinned
def test_dual_sgd_several_classes(loss, budget, merge):
    X, f = stream(2)
    y = classes_of(f)
    alpha = 2.0 if loss.startswith("squared") else 0.02
    learner = DualSGDClassifier(alpha=alpha, budget=budget, merge=merge, loss=loss, **COMMON)
    learner.partial_fit(X[:1], y[:1], classes=range(4))
    twin = dual.dual_sgd_multiclass(X, y, 4, KERNEL, frequencies(), alpha, budget, merge, loss)
    scores = blockwise(learner, X[1:], y[1:], output="decision")
    np.testing.assert_allclose(scores, twin.predictions[1:], **CLOSE)
    check_model(learner, twin, X, "decision_function")


def test_dual_sgd_moves_the_oldest_of_equal_coefficients():
    X, y = stream(3, signs=True)
    learner = DualSGDClassifier(alpha=1e-3, budget=5, **COMMON)  # the hinge: all are equal
    expected = []
    for t in range(len(X)):
        before = learner.size_ if t else 0
        score = learner.decision_function(X[t : t + 1])[0] if t else 0.0
        learner.partial_fit(X[t : t + 1], y[t : t + 1])
        if y[t] * score < 1:
            expected = [*expected, t][-5:]
        assert learner.size_ == len(expected) >= min(before, 5)
    np.testing.assert_array_equal(learner.dictionary_, X[expected])


# --- DualSVRG ---------------------------------------------------------------------


ORACLES = [
    ("always-move", dict()),
    ("budget", dict(budget=1)),
    ("budget", dict(budget=20)),
    ("coverage", dict(radius=0.3)),
    ("coverage", dict(radius=0.0)),
    ("coverage", dict(radius=np.inf)),
]
MEMORIES = [(1, 1), (5, 1), (1, 30), (10, 7), (64, 50), (10**9, 20), (7, 10**9)]


def svrg_twin(X, y, oracle, limits, alpha, eta, memory, period, loss, n_classes=None):
    limits = {"budget": None, "radius": None} | limits
    if n_classes is None:
        run, first = dual.dual_svrg, (X, y)
    else:
        run, first = dual.dual_svrg_multiclass, (X, y, n_classes)
    return run(
        *first, KERNEL, frequencies(), alpha, eta, oracle, limits["budget"], limits["radius"],
        memory, period, loss,
    )  # fmt: skip


@pytest.mark.parametrize("oracle, limits", ORACLES)
@pytest.mark.parametrize("memory, period", MEMORIES)
@pytest.mark.thinned
def test_dual_svrg_regression(oracle, limits, memory, period):
    X, y = stream(4, n=120)
    learner = DualSVRGRegressor(
        alpha=0.1, oracle=oracle, memory=memory, period=period, **limits, **COMMON
    )
    twin = svrg_twin(X, y, oracle, limits, 0.1, 1 / 152, memory, period, "squared")
    np.testing.assert_allclose(blockwise(learner, X, y), twin.predictions, **CLOSE)
    moved = dual.moved_rows(X, oracle, limits.get("budget"), limits.get("radius"))
    if oracle != "always-move":
        np.testing.assert_array_equal(learner.dictionary_, X[~moved])
    fresh = stream(99)[0]
    expected = dual.decision(twin, X, KERNEL, frequencies(), fresh)
    np.testing.assert_allclose(learner.predict(fresh), expected, **CLOSE)


@pytest.mark.parametrize("oracle, limits", ORACLES[::2])
@pytest.mark.parametrize("memory, period", MEMORIES[2:5])
@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.thinned
def test_dual_svrg_two_classes(oracle, limits, memory, period, loss):
    X, y = stream(5, n=120, signs=True)
    eta = 0.02 if loss == "squared" else 0.2  # far above auto: more decisions to agree on
    learner = DualSVRGClassifier(
        alpha=0.1, eta=eta, oracle=oracle, memory=memory, period=period, loss=loss, **limits,
        **COMMON,
    )  # fmt: skip
    twin = svrg_twin(X, y.astype(float), oracle, limits, 0.1, eta, memory, period, loss)
    np.testing.assert_allclose(
        blockwise(learner, X, y, output="decision"), twin.predictions, **CLOSE
    )


@pytest.mark.parametrize("oracle, limits", ORACLES[::2])
@pytest.mark.parametrize("memory, period", MEMORIES[2:5])
@pytest.mark.parametrize("loss", ["smooth_hinge", "logistic"])
@pytest.mark.thinned
def test_dual_svrg_several_classes(oracle, limits, memory, period, loss):
    X, f = stream(6, n=120)
    y = classes_of(f)
    learner = DualSVRGClassifier(
        alpha=0.1, eta=0.2, oracle=oracle, memory=memory, period=period, loss=loss, **limits,
        **COMMON,
    )  # fmt: skip
    learner.partial_fit(X[:1], y[:1], classes=range(4))
    twin = svrg_twin(X, y, oracle, limits, 0.1, 0.2, memory, period, loss, n_classes=4)
    scores = blockwise(learner, X[1:], y[1:], output="decision")
    np.testing.assert_allclose(scores, twin.predictions[1:], **CLOSE)


@pytest.mark.parametrize("loss", REGRESSION)
def test_dual_svrg_other_losses_with_a_given_step(loss):
    X, y = stream(7, n=100)
    limits = dict(budget=15)
    learner = DualSVRGRegressor(
        alpha=0.01, eta=0.01, oracle="budget", memory=9, period=8, loss=loss, **limits, **COMMON
    )
    twin = svrg_twin(X, y, "budget", limits, 0.01, 0.01, 9, 8, loss)
    np.testing.assert_allclose(blockwise(learner, X, y), twin.predictions, **CLOSE)


@pytest.mark.parametrize(
    "loss, tau, eta", [("smooth_hinge", 0.5, 1 / 152), ("smooth_hinge", 2.0, 2 / 76),
                       ("logistic", 0.5, 1 / 19), ("squared_hinge", 0.5, 1 / 152)]
)  # fmt: skip
def test_the_automatic_step(loss, tau, eta):
    X, y = stream(8, signs=True)
    automatic = DualSVRGClassifier(loss=loss, tau=tau, **COMMON)
    given = DualSVRGClassifier(loss=loss, tau=tau, eta=eta, **COMMON)
    np.testing.assert_allclose(
        automatic.fit(X, y).decision_function(X),
        given.fit(X, y).decision_function(X),
        rtol=1e-12,
        atol=0,
    )


@pytest.mark.parametrize("alpha", [0.0, 1e-4, 1.0, 100.0, 1e6, 1e300])
@pytest.mark.parametrize("period", [300, 10**9])
def test_long_periods(alpha, period):
    """(1 + eta alpha)^-t leaves the range of floats long before the period ends."""
    X, y = stream(9, n=3100)
    W = frequencies()
    eta = 1e-2
    learner = DualSVRGRegressor(
        alpha=alpha, eta=eta, oracle="budget", budget=3, memory=2, period=period, **COMMON
    )
    # The definition, on vectors [random features, core coordinates].
    Q = np.hstack((dual.random_features(X, W), KERNEL(X, X[:3])))
    rows = Q.copy()
    rows[:, -3:] = 0.0
    rows[:3] = np.eye(Q.shape[1])[-3:]
    w, u, total = np.zeros((3, Q.shape[1]))
    expected = np.empty(len(X))
    for t in range(len(X)):
        expected[t] = Q[t] @ w
        last = range(max(0, t - 1), t + 1)
        v = sum(2 * (Q[i] @ u - y[i]) * rows[i] for i in last) / len(last)
        v = v + 2 * (expected[t] - Q[t] @ u) * rows[t]
        w = (w - eta * v) / (1 + eta * alpha)
        total = total + w
        if (t + 1) % period == 0:
            u = w = total / period
            total = 0.0
    np.testing.assert_allclose(blockwise(learner, X, y), expected, rtol=1e-8, atol=1e-10)


def test_a_wide_stream_with_the_coverage_oracle():
    """Beyond 32 columns distances go through BLAS; duplicates are still at distance 0."""
    rng = np.random.default_rng(10)
    X = rng.standard_normal((80, 50))
    X[40:] = X[rng.integers(0, 40, 40)]
    y = X[:, 0]
    learner = DualSVRGRegressor(oracle="coverage", radius=0.0, random_state=0)
    learner.fit(X, y)
    np.testing.assert_array_equal(learner.dictionary_, X[:40])


# --- classes discovered on the way --------------------------------------------------


def discover(X, labels, moved, step, memory, period, loss):
    """The rule for new classes, on explicit vectors; step: ("sgd", alpha), ("svrg", alpha, eta).

    Two classes: one function, targets -1, 1; a lone label counts as -1. A new class: zero; at the
    third the function s becomes -s/2, s/2. Gradients of the memory use the classes known now.
    Returns for each row the label predicted and a dict of the scores.
    """
    loss = losses.get(loss)
    F, Phi = root(KERNEL(X, X)), dual.random_features(X, frequencies())
    test = np.hstack([F, Phi])
    psi = np.hstack([F * ~moved[:, None], Phi * moved[:, None]])
    size = test.shape[1]

    def gradient(scores, label, known):
        if len(known) <= 2:
            sign = 1.0 if known.index(label) == 1 else -1.0
            return np.array([loss.slope(scores[0], sign)])
        y = known.index(label)
        z = max((c for c in range(len(known)) if c != y), key=lambda c: scores[c])
        g = np.zeros(len(known))
        g[y] = loss.slope(scores[y] - scores[z], 1.0)
        g[z] = -g[y]
        return g

    def carry(M, old, new):
        if len(new) <= 2:
            flipped = len(old) == 1 and new.index(old[0]) == 1
            return -M if flipped else M
        out = np.zeros((size, len(new)))
        for i, c in enumerate(old):
            out[:, new.index(c)] = (i - 0.5) * M[:, 0] if len(old) == 2 else M[:, i]
        return out

    known, w, u, iterates = [], np.zeros((size, 1)), np.zeros((size, 1)), []
    predicted, decisions = [], []
    for t in range(len(X)):
        s = test[t] @ w
        if len(known) > 2:
            predicted.append(known[int(np.argmax(s))])
        else:
            predicted.append(known[min(int(s[0] >= 0), len(known) - 1)] if known else None)
        decisions.append(s)
        if labels[t] not in known:
            new = sorted([*known, labels[t]])
            w, u, *iterates = (carry(M, known, new) for M in (w, u, *iterates))
            known = new
        at_w = np.outer(psi[t], gradient(test[t] @ w, labels[t], known))
        if step[0] == "sgd":
            w = (1 - 1 / (t + 1)) * w - at_w / (step[1] * (t + 1))
            continue
        last = range(max(0, t + 1 - memory), t + 1)
        terms = {i: np.outer(psi[i], gradient(test[i] @ u, labels[i], known)) for i in last}
        v = sum(terms.values()) / len(last) + at_w - terms[t]
        w = (w - step[2] * v) / (1 + step[2] * step[1])
        iterates.append(w)
        if (t + 1) % period == 0:
            u = w = np.mean(iterates[-period:], axis=0)
    return predicted, decisions, test @ w


def labelled_stream(seed, order):
    X, f = stream(seed, n=120)
    y = np.array(list(order))[classes_of(f)]
    y[:25] = y[0]  # one label alone for a while, then two
    y[25:40] = np.where(y[25:40] == y[0], y[0], order[1] if y[0] != order[1] else order[0])
    return X, y


@pytest.mark.parametrize("seed, order", [(11, "abcd"), (12, "dcba"), (13, "bdac")])
@pytest.mark.parametrize("loss", ["smooth_hinge", "logistic"])
def test_dual_svrg_discovers_classes(seed, order, loss):
    X, y = labelled_stream(seed, order)
    moved = dual.moved_rows(X, "budget", budget=20)
    names, _, last = discover(X, y, moved, ("svrg", 0.1, 0.2), 9, 14, loss)
    make = partial(
        DualSVRGClassifier, alpha=0.1, eta=0.2, oracle="budget", budget=20, memory=9, period=14,
        loss=loss, **COMMON,
    )  # fmt: skip
    for walker in (blockwise, lambda learner, X, y: learner.predict_then_learn(X, y)):
        learner = make()
        assert list(walker(learner, X, y)) == names
        np.testing.assert_allclose(learner.decision_function(X), last, **CLOSE)


@pytest.mark.parametrize("seed, order", [(11, "abcd"), (12, "dcba"), (13, "bdac")])
def test_dual_sgd_discovers_classes(seed, order):
    X, y = labelled_stream(seed, order)
    moved = np.zeros(len(X), bool)
    names, decisions, last = discover(X, y, moved, ("sgd", 0.05), 0, 0, "logistic")
    learner = DualSGDClassifier(alpha=0.05, budget=999, loss="logistic", **COMMON)
    assert list(blockwise(learner, X, y)) == names
    np.testing.assert_allclose(learner.decision_function(X), last, **CLOSE)
    # One call: all scores in the columns of the classes known at its end.
    whole = DualSGDClassifier(alpha=0.05, budget=999, loss="logistic", **COMMON)
    scores = whole.predict_then_learn(X, y, output="decision")
    known = [sorted(set(y[:t])) for t in range(len(y))]
    for t in (30, 60, 119):
        expected = np.zeros(4)
        for i, c in enumerate(known[t]):
            two = len(known[t]) == 2
            value = (i - 0.5) * decisions[t][0] if two else decisions[t][i]
            expected[np.searchsorted(whole.classes_, c)] = value
        np.testing.assert_allclose(scores[t], expected, **CLOSE)


@pytest.mark.parametrize("make", [DualSGDClassifier, DualSVRGClassifier])
@pytest.mark.parametrize(
    "first, then", [(1, 0), (1, -1), (0, 1), (0, 2), (1, 2), (-1, -7), (True, False), (3, 2)]
)
def test_pairs_and_their_signs(make, first, then):
    """Whatever was seen first, two classes give what the classes named beforehand give."""
    X, s = stream(14, n=60, signs=True)
    y = np.where(s > 0, first, then)
    y[:6] = first
    given = make(**COMMON)
    given.partial_fit(X[:1], y[:1], classes=[first, then])
    given.partial_fit(X[1:], y[1:])
    found = make(**COMMON)
    blockwise(found, X, y)
    np.testing.assert_array_equal(found.classes_, given.classes_)
    np.testing.assert_allclose(found.decision_function(X), given.decision_function(X), **CLOSE)


def test_a_third_number_may_join_a_pair():
    X, f = stream(15)
    y = np.where(f > 0, 1, -1)
    y[80:] = np.digitize(f[80:], [-0.5, 0.5]) - 1
    learner = DualSVRGClassifier(**COMMON)
    blockwise(learner, X, y)
    assert learner.classes_.tolist() == [-1, 0, 1]
    assert learner.decision_function(X).shape == (len(X), 3)


# --- laws -------------------------------------------------------------------------


def learners():
    return [
        DualSGDRegressor(budget=10, merge=3, **COMMON),
        DualSGDClassifier(budget=10, **COMMON),
        DualSVRGRegressor(oracle="coverage", radius=0.5, memory=13, period=17, **COMMON),
        DualSVRGClassifier(oracle="budget", budget=10, memory=13, period=17, **COMMON),
        DualSVRGClassifier(oracle="always-move", memory=30, period=17, **COMMON),
    ]


@pytest.mark.parametrize("learner", learners(), ids=lambda l: type(l).__name__)
def test_save_load_continue_equals_never_stopping(learner, tmp_path):
    X, y = stream(16)
    if "Classifier" in type(learner).__name__:
        y = classes_of(y)
    for start, stop in [(0, 3), (3, 10), (10, 70), (70, 71)]:
        learner.partial_fit(X[start:stop], y[start:stop])
        learner.save(tmp_path / "model")
        again = pronk.load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(X), learner.predict(X))
    a, b = (m.predict_then_learn(X[71:], y[71:]) for m in (learner, again))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(learner.predict(X), again.predict(X))
    np.testing.assert_array_equal(learner._model.weights, again._model.weights)


@pytest.mark.parametrize("learner", learners(), ids=lambda l: type(l).__name__)
def test_predict_is_the_next_prediction(learner):
    X, y = stream(17)
    output = "predict"
    options = {}
    if "Classifier" in type(learner).__name__:
        y, output, options = classes_of(y), "decision_function", {"output": "decision"}
    learner.partial_fit(X[:100], y[:100])
    for t in range(100, 110):
        now = getattr(learner, output)(X[t : t + 1])
        after = learner.predict_then_learn(X[t : t + 1], y[t : t + 1], **options)
        np.testing.assert_allclose(now, after, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("learner", learners(), ids=lambda l: type(l).__name__)
def test_an_invalid_call_changes_nothing(learner):
    X, y = stream(18)
    if "Classifier" in type(learner).__name__:
        y = classes_of(y)
    learner.partial_fit(X[:60], y[:60])
    before = learner.predict(X)
    bad = X[60:].copy()
    bad[20, 1] = np.inf
    with pytest.raises(ValueError, match="row 20"):
        learner.partial_fit(bad, y[60:])
    assert learner.n_seen_ == 60
    np.testing.assert_array_equal(learner.predict(X), before)


def test_several_outputs_are_learned_independently():
    X, y = stream(22)
    Y = np.column_stack((y, np.cos(y)))
    for make in (partial(DualSGDRegressor, **COMMON), partial(DualSVRGRegressor, **COMMON)):
        together = blockwise(make(), X, Y)
        for o in range(2):
            np.testing.assert_allclose(together[:, o], blockwise(make(), X, Y[:, o]), **CLOSE)


def test_sparse_rows_are_rows():
    X, y = stream(19, n=300)
    X[np.abs(X) < 0.5] = 0.0
    y = classes_of(y)
    for learner, twin in zip(learners()[1::2], learners()[1::2], strict=True):
        scores = learner.predict_then_learn(sparse.csr_matrix(X), y, output="decision")
        expected = twin.predict_then_learn(X, y, output="decision")
        np.testing.assert_allclose(scores, expected, **CLOSE)


def test_steps_that_overshoot_raise_and_nothing_is_learned():
    X, y = stream(20, n=3000)
    for learner in (
        DualSGDRegressor(alpha=1e-4, **COMMON),
        DualSVRGRegressor(eta=50.0, **COMMON),
    ):
        learner.partial_fit(X[:5], y[:5])
        before = learner.predict(X)
        with pytest.raises(ValueError, match="overshoot"):
            learner.partial_fit(X[5:], y[5:])
        assert learner.n_seen_ == 5
        np.testing.assert_array_equal(learner.predict(X), before)


@pytest.mark.parametrize(
    "learner, message",
    [
        (DualSGDRegressor(alpha=0.0), "alpha"),
        (DualSGDRegressor(budget=0), "budget"),
        (DualSGDRegressor(merge=0), "merge"),
        (DualSGDRegressor(loss="logistic"), "loss"),
        (DualSGDRegressor("polynomial"), "gaussian, laplacian or matern"),
        (DualSVRGRegressor(alpha=-1.0), "alpha"),
        (DualSVRGRegressor(eta=0.0), "eta"),
        (DualSVRGRegressor(loss="absolute"), "eta='auto' needs a smooth loss"),
        (DualSVRGRegressor(radius=-0.1), "radius"),
        (DualSVRGRegressor(radius=np.nan), "radius"),
        (DualSVRGRegressor(memory=0), "memory"),
        (DualSVRGRegressor(period=0), "period"),
        (DualSVRGRegressor(oracle="none"), "oracle"),
        (DualSVRGRegressor(tau=0.0), "tau"),
    ],
)
def test_parameters_out_of_range_are_named(learner, message):
    X, y = stream(21)
    with pytest.raises(ValueError, match=message):
        learner.fit(X, y)
    assert not hasattr(learner, "n_seen_")


@pytest.mark.parametrize("name", ["dual-sgd", "dual-svrg-c"])
def test_a_negated_engine_is_that_of_the_negated_targets(name):
    """What `OneVsRest` asks of every engine of one output."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 2))
    y = np.sin(X[:, 0])
    engine, opposite = (
        pronk.make(name, "regression", random_state=0).fit(X, sign * y)._model
        for sign in (1.0, -1.0)
    )
    expected = opposite.predict(X)
    engine.remap(-np.eye(1))
    np.testing.assert_allclose(engine.predict(X), expected, rtol=1e-12, atol=1e-12)
    assert np.abs(expected).max() > 0.1
