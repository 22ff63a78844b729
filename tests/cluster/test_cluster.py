"""A pass in which tasks read their partitions has the predictions of the sequential pass."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import pronk
from helpers import InlineExecutor
from pronk.cluster import ClusterPass
from pronk.cluster.pool import ClusterTask
from pronk.data import FileStream
from pronk.evaluate import progressive

RNG = np.random.default_rng(0)
ROWS = 2600
X = RNG.normal(size=(ROWS, 4))  # wide enough for points that do not depend on each other
Y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=ROWS)
LABELS = np.array(["b", "a", "c"])[(np.arange(ROWS) > 900) * (1 + (np.arange(ROWS) > 1500)) * 1]
LABELS = np.where(X[:, 0] > 0.3, LABELS, "b")


class Arrays:
    """A stream of blocks in memory."""

    rows = 100

    def __init__(self, X, y):
        self.X, self.y = X, y

    def blocks(self, skip=0):
        for i in range(skip, len(self.y), self.rows):
            yield self.X[i : i + self.rows], self.y[i : i + self.rows]


class Broken(Arrays):
    def blocks(self, skip=0):
        for i, block in enumerate(super().blocks(skip)):
            if skip + i * self.rows == 1500:
                raise ValueError("part-7.parquet is damaged")
            yield block


def passed(model, y, client=None, rows=300, **options):
    parts = list(
        ClusterPass(model, Arrays(X, y), client or InlineExecutor(), rows=rows, **options).run()
    )
    assert [part.rows for part in parts][-1] == len(y)
    targets = np.concatenate([part.targets for part in parts])
    return targets, np.concatenate([part.predictions for part in parts]), parts[-1].model(), parts


REGRESSORS = {
    "fourier": {"features": "fourier", "n_features": 10},
    "points": {"dictionary": X[:15]},
    "kors": {"gamma": 4.0},
    "kors with a budget": {"gamma": 2.0, "budget": 20},
    "ridge": {"gamma": 4.0, "anticipate": False},
}


@pytest.mark.parametrize("settings", REGRESSORS.values(), ids=REGRESSORS)
def test_numbers_of_the_sequential_pass(settings):
    one = pronk.PKAWVRegressor(random_state=1, **settings)
    expected = one.predict_then_learn(X, Y)
    targets, predictions, model, _ = passed(pronk.PKAWVRegressor(random_state=1, **settings), Y)
    assert (targets == Y).all()
    np.testing.assert_allclose(predictions, expected, rtol=1e-9, atol=1e-9)
    assert model.n_seen_ == ROWS and model.size_ == one.size_
    np.testing.assert_allclose(model.predict(X[:5]), one.predict(X[:5]), rtol=1e-8, atol=1e-9)
    before, after = one.certificate().to_dict(), model.certificate().to_dict()
    for name in before:
        assert after[name] == pytest.approx(before[name], rel=1e-8)


def test_new_labels_during_the_pass():
    one = pronk.PKAWVClassifier(random_state=1, budget=15)
    expected = np.concatenate(
        [one.predict_then_learn(X[i : i + 100], LABELS[i : i + 100]) for i in range(0, ROWS, 100)]
    )
    _, predictions, model, _ = passed(pronk.PKAWVClassifier(random_state=1, budget=15), LABELS)
    assert (predictions == expected).all()
    assert (model.classes_ == one.classes_).all()
    np.testing.assert_allclose(
        model.decision_function(X[:9]), one.decision_function(X[:9]), rtol=1e-8, atol=1e-9
    )


def test_rows_without_a_label_are_predicted_only():
    y = np.where(RNG.random(ROWS) < 0.2, np.nan, Y)
    one = pronk.PKAWVRegressor(random_state=1, gamma=4.0)
    known = ~np.isnan(y)
    expected = one.predict_then_learn(X[known], y[known])
    targets, predictions, model, _ = passed(pronk.PKAWVRegressor(random_state=1, gamma=4.0), y)
    assert np.array_equal(targets, y, equal_nan=True) and model.n_seen_ == known.sum()
    np.testing.assert_allclose(predictions[known], expected, rtol=1e-9, atol=1e-9)


def test_the_number_of_workers_changes_no_bit():
    results = []
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            model = pronk.PKAWVRegressor(random_state=1, gamma=4.0)
            results.append(passed(model, Y, pool, workers=workers)[1])
    assert (results[0] == results[1]).all()


def test_it_resumes_from_the_model_behind_any_piece():
    """Resume as from a checkpoint, to the same bits."""
    _, whole, last, parts = passed(pronk.PKAWVRegressor(random_state=1, budget=12), Y)
    for part in parts[1:-1:3]:
        rest = ClusterPass(part.model(), Arrays(X, Y), InlineExecutor(), rows=300).run(part.rows)
        tail = list(rest)
        assert (np.concatenate([p.predictions for p in tail]) == whole[part.rows :]).all()
        assert (tail[-1].model().predict(X[:5]) == last.predict(X[:5])).all()


def test_a_piece_that_cannot_be_read_is_named():
    model = pronk.PKAWVRegressor(random_state=1, budget=9)
    parts = ClusterPass(model, Broken(X, Y), InlineExecutor(), rows=300).run()
    assert next(parts).rows == 100
    with pytest.raises(ValueError, match=r"part-7.parquet is damaged \(in rows 1,"):
        list(parts)


@pytest.mark.parametrize("name", ["fogd", "kons", "pkawv-nystrom", "krls"])
def test_other_learners_are_refused_by_name(name):
    with pytest.raises(ValueError, match="cannot be split") as caught:
        list(ClusterPass(pronk.make(name, random_state=0), Arrays(X, Y), InlineExecutor()).run())
    assert "PKAWV" in str(caught.value)
    with pytest.raises(ValueError, match="Prepared cannot"):
        ClusterPass(pronk.Prepared(pronk.PKAWVRegressor()), Arrays(X, Y), InlineExecutor())


# -- progressive validation ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["n_jobs", "client"])
def test_progressive_validation_in_parallel(how):
    one = pronk.PKAWVRegressor(random_state=1, gamma=4.0)
    expected = list(progressive(one, (X, Y), every=1000, predictions=True))
    model = pronk.PKAWVRegressor(random_state=1, gamma=4.0)
    options = {"n_jobs": 2} if how == "n_jobs" else {"client": InlineExecutor()}
    found = list(progressive(model, (X, Y), every=1000, predictions=True, **options))
    assert [record.rows for record in found] == [record.rows for record in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.metrics == pytest.approx(b.metrics, rel=1e-9)
        assert a.unpredicted == b.unpredicted == 1
        np.testing.assert_allclose(a.predictions, b.predictions, rtol=1e-9, atol=1e-9)
    assert model.n_seen_ == ROWS and model.n_jobs is None
    np.testing.assert_allclose(model.predict(X[:5]), one.predict(X[:5]), rtol=1e-8, atol=1e-9)


def test_a_learner_that_cannot_be_split_is_refused_by_name():
    with pytest.raises(ValueError, match="pass of FOGDRegressor cannot be split"):
        list(progressive(pronk.FOGDRegressor(), (X, Y), n_jobs=2))
    with pytest.raises(ValueError, match="delay"):
        progressive(pronk.PKAWVRegressor(), (X, Y), delay=3, n_jobs=2)


def test_the_wait_for_a_cluster_without_workers_ends(monkeypatch):
    from pronk.cluster import pool as waiting

    monkeypatch.setattr(waiting, "PATIENCE", 3 * waiting.STEP)

    class Task:
        calls, status = 0, "pending"

        def result(self, timeout):
            Task.calls += 1
            raise TimeoutError

    class Client:
        def scheduler_info(self):
            return {"workers": {"one": {}} if Task.calls == 2 else {}}

    with pytest.raises(waiting.NoWorkersError, match="no worker for"):
        ClusterTask(Task(), Client()).result()
    assert Task.calls == 5  # a worker was there at the second check


def test_a_file_of_text_is_read_from_where_a_piece_begins(tmp_path, monkeypatch):
    """Read values with line breaks in quotes; a task parses nothing far before its piece."""
    monkeypatch.setattr("pronk.data.source._TEXT_BYTES", 4000)
    monkeypatch.setattr("pronk.data.source._LINES", 1)
    path = tmp_path / "t.csv"
    rows = np.column_stack((X, Y)).tolist()
    lines = [f'"two\nlines",{",".join(map(repr, row))}' for row in rows]
    path.write_text("\n".join(["text,a,b,c,d,y", *lines]))
    stream = FileStream(path, "y", drop=["text"], rows=100)
    _, expected, _, _ = passed(pronk.PKAWVRegressor(random_state=1, gamma=4.0), Y)
    read = []

    def blocks(self, skip=0):
        read.append((skip, self._source.before(skip).rows))
        yield from original(self, skip)

    original = FileStream.blocks
    monkeypatch.setattr(FileStream, "blocks", blocks)
    learner = pronk.PKAWVRegressor(random_state=1, gamma=4.0)
    parts = list(ClusterPass(learner, stream, InlineExecutor(), rows=300).run())
    found = np.concatenate([part.predictions for part in parts])
    assert np.array_equal(found, expected)
    assert max(skip for skip, _ in read) > 2000
    assert all(begun > min(skip, ROWS) - 200 for skip, begun in read)


class Late:
    """A Dask task that ends right after the wait for it."""

    def __init__(self, error=None):
        self.calls, self.status, self.error = 0, "pending", error

    def result(self, timeout):
        self.calls += 1
        if self.status == "pending" or self.error is not None:
            self.status = "finished" if self.error is None else "error"
            raise TimeoutError(self.error)
        return 7


def test_a_task_that_ends_right_after_the_wait_is_not_late():
    client = SimpleNamespace(scheduler_info=lambda: {"workers": {"one": 1}})
    task = Late()
    assert ClusterTask(task, client).result() == 7 and task.calls == 2
    with pytest.raises(TimeoutError, match="its own"):
        ClusterTask(Late("its own"), client).result()


@pytest.mark.parametrize("rows", [130, 3000])
def test_the_bandwidth_of_the_first_rows_is_found_before_the_rows_are_spread(rows):
    model = pronk.PKAWVRegressor(pronk.Gaussian("auto"), random_state=1, budget=9)
    parts = list(ClusterPass(model, Arrays(X[:rows], Y[:rows]), InlineExecutor(), rows=300).run())
    made = np.concatenate([part.predictions for part in parts])
    expected = pronk.PKAWVRegressor(pronk.Gaussian("auto"), random_state=1, budget=9)
    # The pieces are sums of other blocks: equal up to rounding.
    np.testing.assert_allclose(
        made, expected.predict_then_learn(X[:rows], Y[:rows]), rtol=1e-6, atol=1e-8
    )
