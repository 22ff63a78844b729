"""The pass of the default learner in bundles has the predictions of the sequential pass."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from pronk.aggregate import experts
from pronk.core.runtime import limited
from pronk.estimators import files
from pronk.parallel import aggregate
from pronk.parallel.aggregate import Plan, learn_split

RNG = np.random.default_rng(0)
FIRST, ROWS = 2600, 6000
X = RNG.normal(size=(ROWS, 4))
NOISE = 0.1 * RNG.normal(size=ROWS)
Y = np.sin(X[:, 0]) * X[:, 1] + NOISE
WALK = np.sin(np.arange(ROWS) / 7.0) + np.cumsum(NOISE) + X[:, 0]
LABELS = np.where(Y > 0.3, "a", np.where(Y < -0.4, "b", "c"))

CASES = {
    "a full dictionary": (pronk.OnlineKernelRegressor, {"budget": 20}, Y),
    "a dictionary that grows": (pronk.OnlineKernelRegressor, {"budget": 675}, Y),
    "the past": (pronk.OnlineKernelRegressor, {"budget": 130}, WALK),
    "two targets": (pronk.OnlineKernelRegressor, {"budget": 30}, np.column_stack((Y, WALK))),
    "labels": (pronk.OnlineKernelClassifier, {"budget": 150}, LABELS),
    "a kernel without distances": (
        pronk.OnlineKernelRegressor,
        {"budget": 20, "kernel": pronk.Polynomial()},
        Y,
    ),
}


@pytest.fixture(autouse=True)
def few_first_rows(monkeypatch):
    """Fix the set of experts early and split short calls, so that some thousand rows suffice."""
    fix_experts_early(monkeypatch.setattr)


def fix_experts_early(setattr_):
    setattr_(experts, "ACTIVE_EXPERTS", {2304: 5, 2560: 3})
    setattr_(aggregate, "LEAST_ROWS", 400)


@cache
def begun(case: str) -> bytes:
    """Return a model that has learned the first rows."""
    kind, options, y = CASES[case]
    model = kind(random_state=1, **options)
    model.fit(X[:FIRST], y[:FIRST])
    return files.to_bytes(model)


@cache
def sequential(case: str):
    """Return predictions of the other rows, interval widths or factors, and the model."""
    return rest(case, None, [ROWS - FIRST], None)


def rest(case, plan, lengths, workers):
    model, y = files.from_bytes(begun(case), "a model"), CASES[case][2]
    kept = model._labels.targets(y) if hasattr(model, "_labels") else y.reshape(ROWS, -1)
    start, out, errors = FIRST, [], []
    with limited, ThreadPoolExecutor(workers or 1) as pool:
        split = None if workers is None else partial(learn_split, pool=pool, plan=plan)
        for length in [*lengths, ROWS]:
            rows = slice(start, min(start + length, ROWS))
            if rows.stop > start:
                out.append(model._model.learn(X[rows], kept[rows], split))
                errors.append(out[-1] if model._model.signed else model._model.last_offsets)
            start = rows.stop
    return np.concatenate(out), np.concatenate(errors), model


#: The cases that `make test` runs: every stage of the dictionary, and labels.
QUICK = ("a dictionary that grows", "labels")


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=[pytest.mark.matrix] * (name not in QUICK)) for name in CASES],
)
@given(
    lengths=st.lists(st.integers(1, 2500), max_size=3),
    bundle=st.sampled_from([50, 300, 700]),
    stretch=st.sampled_from([512, 1111]),
    apart=st.booleans(),
)
@settings(max_examples=2, deadline=None)
def test_the_split_pass_is_the_sequential_one(case, lengths, bundle, stretch, apart):
    with pytest.MonkeyPatch.context() as patch:
        fix_experts_early(patch.setattr)
        patch.setattr(aggregate, "APART", 10 if apart else 10_000)
        plan = Plan(bundle=bundle, stretch=stretch, longest=2000)
        expected, widths, one = sequential(case)
        found, found_widths, split_one = rest(case, plan, lengths, 1)
        again, _, _ = rest(case, plan, lengths, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found_widths, widths, rtol=1e-7, atol=1e-9)
    assert (again == found).all()  # to the last bit
    assert (split_one.dictionary_ == one.dictionary_).all()
    before, after = one._model.experts, split_one._model.experts
    proposed = [experts.candidates.proposed.size for experts in (before, after)]
    assert proposed[0] == proposed[1] and before.rows == after.rows
    for a, b in zip(before._groups, after._groups, strict=True):
        for number, learner in a.learners.items():
            twin = b.learners[number]
            assert (twin.size, twin.open_rows) == (learner.size, learner.open_rows)
            # The coordinate of a point at distance 1e-10 from the span is accurate to 1e-16/1e-10,
            # and so is its weight; predictions are accurate to all digits.
            size = np.abs(learner.weights).max()
            np.testing.assert_allclose(twin.weights, learner.weights, rtol=1e-6, atol=1e-6 * size)
            np.testing.assert_allclose(twin.ledger, learner.ledger, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        split_one._model.predict(X[:9]), one._model.predict(X[:9]), rtol=1e-8, atol=1e-8
    )


def test_the_cases_have_the_property_in_their_name():
    grown = sequential("a dictionary that grows")[2]
    before = files.from_bytes(begun("a dictionary that grows"), "a model")
    assert before.size_ < grown.size_ < grown.budget
    active = [e["view"] for e in sequential("the past")[2].experts_ if e["active"]]
    assert "past" in active


def test_threads_of_the_estimator(tmp_path):
    """Use n_jobs, save between two calls, and compare probabilities."""
    models = [files.from_bytes(begun("labels"), "a model") for _ in range(3)]
    models[1].n_jobs, models[2].n_jobs = 1, 2
    passes = []
    for i, model in enumerate(models):
        parts = []
        for low, high in pairwise((FIRST, 4200, ROWS)):
            parts.append(
                model.predict_then_learn(X[low:high], LABELS[low:high], output="probability")
            )
            model.save(tmp_path / f"{i}")
            model = pronk.load(tmp_path / f"{i}")
        passes.append(np.concatenate(parts))
    one, split_one, two = passes
    np.testing.assert_allclose(split_one, one, rtol=1e-7, atol=1e-9)
    assert (two == split_one).all()


def test_a_call_that_fails_leaves_nothing_behind():
    """Roll back to the same bits if a user's kernel raises in a task."""
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        if len(calls) == 40:
            raise ValueError("no kernel value")
        return A @ B.T

    model = pronk.OnlineKernelRegressor(kernel, budget=8, random_state=0)
    calls.extend([0] * 100)
    model.fit(X[:FIRST], Y[:FIRST])
    before = model._model.to_state()
    model.n_jobs = 2
    calls.clear()
    with pytest.raises(ValueError, match="no kernel value"):
        model.predict_then_learn(X[FIRST:], Y[FIRST:])
    assert str(before) == str(model._model.to_state())
    model.predict_then_learn(X[FIRST:], Y[FIRST:])
    assert model.n_seen_ == ROWS
