"""bandwidth="auto": the median distance of the first rows, against a loop over single rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist
from sklearn.model_selection import GridSearchCV

import pronk
from pronk.core.first_rows import LAST_RESTART, RESTARTS
from pronk.estimators.bandwidth import AutomaticBandwidth
from pronk.regret import best_in_hindsight

rng = np.random.default_rng(0)
X = rng.uniform(-50, 50, (300, 2))
y = np.sin(X[:, 0] / 20)
LABELS = np.array(["ant", "bee", "cat"])[np.digitize(y, [-0.4, 0.4])]


def learner(kernel="auto", name="ogd", task="regression"):
    kernel = pronk.Gaussian(kernel) if kernel == "auto" or isinstance(kernel, float) else kernel
    return pronk.make(name, task, kernel=kernel, random_state=0)


def naive(rows, labels, name, task):
    """At every restart a learner of all rows so far with their median distance."""
    current, predictions = learner(1.0, name, task), []
    for t in range(len(rows)):
        predictions.append(current.predict(rows[t : t + 1])[0] if t else 0.0)
        if t + 1 in RESTARTS[1:]:  # one row has no distances
            bandwidth = np.sqrt(np.median(pdist(rows[: t + 1], "sqeuclidean"))).item()
            current = learner(bandwidth, name, task).fit(rows[: t + 1], labels[: t + 1])
        else:
            current.partial_fit(rows[t : t + 1], labels[t : t + 1])
    return predictions


@pytest.mark.parametrize("name", ["ogd", "krls"])
def test_the_twin_agrees(name):
    found = learner(name=name)
    predictions = found.predict_then_learn(X, y)
    assert_allclose(predictions, naive(X, y, name, "regression"), rtol=1e-8, atol=1e-8)
    assert found.kernel_.bandwidth == pytest.approx(np.median(pdist(X[:LAST_RESTART])), rel=1e-3)
    assert not isinstance(found._model, AutomaticBandwidth) and found.kernel.bandwidth == "auto"


def test_labels_that_come_on_the_way():
    found = learner(name="dual-svrg-c", task="classification")
    parts = [found.predict_then_learn(X[i : i + 9], LABELS[i : i + 9]) for i in range(0, 300, 9)]
    whole = learner(name="dual-svrg-c", task="classification").predict_then_learn(X, LABELS)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert np.mean(whole != LABELS) < 0.5


@pytest.mark.parametrize("rows", [1, 2, 100, LAST_RESTART, 280])
def test_a_saved_learner_resumes_to_the_last_bit(tmp_path, rows):
    found = learner(name="pkawv-nystrom")
    weights = rng.integers(0, 3, 300).astype(float)
    weights[:2] = 1.0
    for start in range(0, rows, 7):
        part = slice(start, min(start + 7, rows))
        found.partial_fit(X[part], y[part], sample_weight=weights[part])
    found.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    assert again.kernel_.bandwidth == found.kernel_.bandwidth and again.size_ == found.size_
    expected = found.predict_then_learn(X[rows:], y[rows:])
    np.testing.assert_array_equal(again.predict_then_learn(X[rows:], y[rows:]), expected)


def test_a_failed_call_across_a_restart_changes_nothing():
    found = pronk.FOGDRegressor(pronk.Gaussian("auto"), eta=1e3, n_features=20, random_state=0)
    found.partial_fit(X[:3], y[:3])
    before = found.predict(X[:9])
    with pytest.raises(ValueError, match="overshoot"):
        found.partial_fit(X[3:], y[3:])
    np.testing.assert_array_equal(found.predict(X[:9]), before)
    assert found.n_seen_ == 3


def test_others_take_it_too():
    search = GridSearchCV(learner(), {"kernel__bandwidth": ["auto", 1e-3]}, cv=2).fit(X, y)
    assert search.best_params_ == {"kernel__bandwidth": "auto"}
    default = pronk.OnlineKernelRegressor(pronk.Gaussian("auto"), random_state=0)
    plain = pronk.OnlineKernelRegressor(random_state=0)
    np.testing.assert_array_equal(default.fit(X, y).predict(X), plain.fit(X, y).predict(X))
    assert learner(pronk.Matern("auto", 2.5)).fit(X, y).kernel_.nu == 2.5
    with pytest.raises(ValueError, match="by a learner from its first rows"):
        best_in_hindsight(X, y, pronk.Gaussian("auto"))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"events": []}, "not those held"),
        ({"rows": 256, "events": []}, "over"),
        ({"outputs": 3}, "does not fit"),
        ({"events": [{"X": np.zeros((3, 2)), "Y": np.zeros((2, 1)), "weights": None}]}, "fit"),
        ({"events": [{"X": np.zeros((3, 9)), "Y": np.zeros((3, 1)), "weights": None}]}, "fit"),
        ({"events": [{"other": 1}]}, "another kind"),
    ],
)
def test_a_changed_state_is_refused(change, words):
    state = learner().fit(X[:30], y[:30])._fitted_state()
    state["model"] = {**state["model"], **change}
    with pytest.raises(ValueError, match=words):
        learner()._restore(state)


@pytest.mark.parametrize("value", [1e18, -1.0, 0.5, 3.0])
def test_numbers_of_classes_in_a_file_are_those_of_classes(value):
    """They are indices in compiled code."""
    labels = np.array(["a", "b", "c"])[np.arange(30) % 3]

    def fresh():
        return pronk.DualSVRGClassifier(pronk.Gaussian("auto"), n_features=5, random_state=0)

    state = fresh().partial_fit(X[:30], labels)._fitted_state()
    state["model"]["events"][-1]["Y"][:] = value
    with pytest.raises(ValueError, match="numbers of classes"):
        fresh()._restore(state)
