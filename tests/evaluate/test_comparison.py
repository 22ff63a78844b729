"""Comparisons: at which rows errors are recorded, what a run computes, how runs are summarised."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from pronk.data import FileStream, MinMax, Preparing, Reading
from pronk.evaluate import comparison_run
from pronk.evaluate.comparison import (
    RECORDS,
    ComparedLearner,
    Comparison,
    OverRuns,
    results,
)
from pronk.evaluate.comparison_run import RunError, cut, inspect, one_run, record_rows
from pronk.evaluate.study import Store, run

ROWS = 450


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, [1, 100], (ROWS, 2))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] / 100


@pytest.fixture(scope="module")
def file(tmp_path_factory, data):
    X, y = data
    path = tmp_path_factory.mktemp("data") / "data.csv"
    table = {"a": X[:, 0], "b": X[:, 1], "y": y, "word": np.where(y > 0.5, "up", "down")}
    arrow_csv.write_csv(pa.table(table), path)
    return path


def comparison(file, target="y", names=("pkawv-taylor", "fogd"), **choices):
    stream = FileStream(file, target, drop=[{"y": "word", "word": "y"}[target]])
    rows, unlabelled, digest = inspect(stream)
    reading = {"target": target, "task": stream.task, "drop": stream.reading.drop}
    return Comparison(
        Reading(str(file), **reading),
        digest=digest,
        reason=stream.reason,
        columns=stream.columns,
        rows=rows,
        unlabelled=unlabelled,
        learners=[ComparedLearner(name, name) for name in names],
        **{"runs": 2, **choices},
    )


@given(st.integers(1, 10**6), st.integers(1, 2000))
@settings(deadline=None, max_examples=50)
def test_record_rows_lie_in_the_stream_and_end_it(rows, window):
    marks = record_rows(rows, min(rows, max(window, rows // 50)))
    assert max(marks) == rows and min(marks) >= 1
    assert len(marks) < 115
    assert rows < 1000 or {10, 100, 1000} <= marks


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.sets(st.integers(1, 90)),
)
@settings(deadline=None, max_examples=50)
def test_blocks_are_cut_at_record_rows_only(lengths, marks):
    rows = np.arange(sum(lengths))
    edges = np.cumsum(lengths)
    blocks = [(part[:, None] * 1.0, part) for part in np.split(rows, edges[:-1])]
    pieces = list(cut(blocks, marks))
    np.testing.assert_array_equal(np.concatenate([y for _, y in pieces]), rows)
    assert all(len(X) == len(y) > 0 for X, y in pieces)
    ends = set(np.cumsum([len(y) for _, y in pieces]).tolist())
    assert ends == {*edges.tolist(), *(mark for mark in marks if mark < len(rows))}


def test_a_run_is_a_plain_pass(file, data):
    X, y = data
    job = comparison(file, preparing=Preparing(scale_target="none")).jobs()[0]
    result = one_run(job)
    learner = pronk.make("pkawv-taylor", random_state=0)
    losses = (learner.predict_then_learn(MinMax().learn_transform(X), y) - y) ** 2
    curve = result["curve"]
    assert result["rows"] == ROWS == curve["rows"][-1]
    assert result["unpredicted"] == 1
    assert result["metrics"]["mse"] == pytest.approx(losses[1:].mean())
    means = (np.cumsum(losses) - losses[0]) / np.maximum(np.arange(ROWS), 1)
    np.testing.assert_allclose(
        curve["metrics"]["mse"], means[np.array(curve["rows"]) - 1], rtol=1e-7, atol=0
    )
    assert result["recent"]["mse"] == pytest.approx(losses[-100:].mean())
    certificate = learner.certificate()
    assert curve["regret"][-1] == pytest.approx(certificate.regret, rel=1e-6)
    assert curve["bound"][-1] == pytest.approx(certificate.bound, rel=1e-6)
    assert result["params"]["kernel__bandwidth"] == "auto" and result["notes"] == []


def test_a_random_order_is_that_of_the_seed(file, data):
    X, y = data
    plain = Preparing(scale="none", scale_target="none")
    job = comparison(file, order="random", preparing=plain).jobs()[-4]  # the second run's first
    assert job.seed == 1 and job.label == "pkawv-taylor"
    order = np.random.default_rng([1, 1]).permutation(ROWS)
    learner = pronk.make("pkawv-taylor", random_state=1)
    losses = (learner.predict_then_learn(X[order], y[order]) - y[order]) ** 2
    assert one_run(job)["metrics"]["mse"] == pytest.approx(losses[1:].mean())


def test_baselines_run_once_where_the_order_is_given(file):
    assert sum(not job.settings["algorithm"] for job in comparison(file, runs=5).jobs()) == 2
    shuffled = comparison(file, runs=5, order="random").jobs()
    assert sum(not job.settings["algorithm"] for job in shuffled) == 10
    assert len({job.key for job in shuffled}) == len(shuffled)


@pytest.mark.parametrize("target", ["y", "word"])
def test_baselines_are_the_mean_and_the_last_label(file, data, target):
    jobs = comparison(file, target, names=["fogd"], runs=1).jobs()
    found = [one_run(job)["metrics"] for job in jobs if not job.settings["algorithm"]]
    labels = target == "word"
    y = np.where(data[1] > 0.5, "up", "down") if labels else data[1]
    name = "error" if labels else "mse"
    expected = np.mean(y[1:] != y[:-1]) if labels else np.mean((y[1:] - y[:-1]) ** 2)
    assert found[1][name] == pytest.approx(expected)  # without the first row
    assert found[0][name] != found[1][name]


def test_a_learner_takes_parameters_of_its_kernel():
    chosen = {"kernel": "laplacian", "bandwidth": 2.0, "alpha": 0.5}
    learner = ComparedLearner("x", "kernel-awv", chosen).build("regression", 7)
    assert repr(learner.kernel) == repr(pronk.Laplacian(2.0))
    assert learner.alpha == 0.5 and learner.random_state == 7


def test_another_file_or_setting_is_another_job(file):
    base = comparison(file)
    limited = replace(base.reading, limit=10)
    unscaled = Preparing(scale="none")
    for change in (
        {"order": "random"}, {"preparing": unscaled}, {"reading": limited}, {"digest": "x"},
        {"preparing": Preparing(slots=5)},
    ):  # fmt: skip
        other = Comparison(**{**vars(base), **change})
        assert {job.key for job in other.jobs()}.isdisjoint(job.key for job in base.jobs())
    more = Comparison(**{**vars(base), "runs": 3})
    assert {job.key for job in base.jobs()} < {job.key for job in more.jobs()}


@pytest.mark.slow
def test_results_in_two_processes_are_kept_and_come_back(file, tmp_path):
    compared = comparison(file, "word", runs=2)
    run(compared.jobs(), Store(tmp_path / RECORDS), workers=2)
    found = results(compared, Store(tmp_path / RECORDS))
    assert found.missing == 0
    assert [one.label for one in found.baselines] == ["most frequent label", "last label"]
    errors = [one.metrics["error"].mean for one in found.summaries]
    assert errors == sorted(errors) and len(errors) == 2
    one = next(one for one in found.summaries if one.label == "fogd")
    values = [record["result"]["metrics"]["error"] for record in one.records]
    assert one.metrics["error"] == OverRuns(np.mean(values), pytest.approx(np.std(values, ddof=1)))
    assert one.runs == 2 and one.size is None  # fixed features hold no points
    assert results(compared, Store(tmp_path / "none")).missing == len(compared.jobs())


def test_a_failed_run_is_named(file):
    job = comparison(file, names=["fogd"]).jobs()[0]
    job.settings["rows"] = ROWS + 1
    with pytest.raises(RunError, match="fogd, seed 0: the file now has 450 rows"):
        one_run(job)


def test_warnings_become_notes(file, monkeypatch):
    import warnings

    plain = comparison_run._run

    def noisy(job):
        for _ in range(2):
            warnings.warn("a  little\njitter", stacklevel=1)
        return plain(job)

    monkeypatch.setattr(comparison_run, "_run", noisy)
    assert one_run(comparison(file).jobs()[0])["notes"] == ["a little jitter"]


def test_spreads():
    assert OverRuns.of([1.0, 3.0]) == OverRuns(2.0, pytest.approx(math.sqrt(2)))
    assert OverRuns.of([2.0]) == OverRuns(2.0, None)
    assert OverRuns.of([1.0, math.inf]) == OverRuns(math.inf, None)
