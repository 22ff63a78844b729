"""The default learner on a cluster: rows are read here and sent with the tasks."""

import numpy as np
import pytest

import pronk
from helpers import InlineExecutor
from pronk.aggregate import experts
from pronk.cluster import pool
from pronk.evaluate import progressive
from pronk.parallel import aggregate

RNG = np.random.default_rng(0)
ROWS = 5000
X = RNG.normal(size=(ROWS, 3))
Y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=ROWS)
LABELS = np.where(Y > 0.2, "a", np.where(Y < -0.4, "b", "c"))
LABELS = np.where(np.arange(ROWS) < 3000, np.where(LABELS == "b", "c", LABELS), LABELS)


@pytest.fixture(autouse=True)
def fix_experts_early(monkeypatch):
    monkeypatch.setattr(experts, "ACTIVE_EXPERTS", {2304: 5, 2560: 3})
    monkeypatch.setattr(aggregate, "LEAST_ROWS", 400)
    monkeypatch.setattr(aggregate, "LAST_BUNDLE", 200)
    for name, value in {"BUNDLE": 500, "STRETCH": 700, "CALL": 1500}.items():
        monkeypatch.setattr(pool, name, value)


class Blocks:
    """A stream in short blocks, which are concatenated."""

    def __init__(self, y):
        self.y = y

    def __iter__(self):
        for i in range(0, ROWS, 300):
            yield X[i : i + 300], self.y[i : i + 300]


def scored(learner, y, **options):
    last = list(progressive(learner, Blocks(y), predictions=True, every=1000, **options))
    return np.concatenate([record.predictions for record in last]), last, learner


def test_numbers_of_the_sequential_pass_with_intervals():
    kind, settings = pronk.OnlineKernelRegressor, {"budget": 600, "random_state": 1}
    expected, records, one = scored(kind(**settings), Y, interval=0.8)
    executor = InlineExecutor()
    found, others, model = scored(kind(**settings), Y, interval=0.8, client=executor)
    assert {"find_candidates", "sum_bundle", "learn_bundle"} <= set(executor.names)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert [r.rows for r in records] == [r.rows for r in others]
    assert others[-1].metrics == pytest.approx(records[-1].metrics, rel=1e-9)
    np.testing.assert_allclose(
        others[-1].forecast.intervals, records[-1].forecast.intervals, rtol=1e-7, atol=1e-9
    )
    assert model.n_seen_ == ROWS and (model.dictionary_ == one.dictionary_).all()


@pytest.mark.parametrize("prepared", [pytest.param(False, marks=pytest.mark.matrix), True])
def test_new_labels_during_the_pass_with_probabilities(prepared):
    def learner():
        learner = pronk.OnlineKernelClassifier(budget=30, random_state=1)
        return pronk.Prepared(learner) if prepared else learner

    expected, records, _ = scored(learner(), LABELS, probabilities=True)
    found, others, _ = scored(learner(), LABELS, probabilities=True, client=InlineExecutor())
    assert (found == expected).all()
    for a, b in zip(records, others, strict=True):
        np.testing.assert_allclose(
            b.forecast.probabilities, a.forecast.probabilities, rtol=1e-7, atol=1e-9
        )


def test_the_number_of_workers_changes_no_bit():
    results = []
    for workers in (1, 5):
        model = pronk.OnlineKernelRegressor(budget=60, random_state=1).fit(X[:2600], Y[:2600])
        shared = pool.ClusterPool(InlineExecutor(), workers)
        with pronk.parallel.using_pool(shared):
            results.append(model.predict_then_learn(X[2600:], Y[2600:]))
    assert (results[0] == results[1]).all()


def test_rows_without_a_label_are_predicted_only():
    y = np.where(RNG.random(ROWS) < 0.002, np.nan, Y)
    settings = {"budget": 20, "random_state": 1}
    expected, _, _ = scored(pronk.OnlineKernelRegressor(**settings), y)
    found, _, model = scored(pronk.OnlineKernelRegressor(**settings), y, client=InlineExecutor())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert model.n_seen_ == (~np.isnan(y)).sum()
