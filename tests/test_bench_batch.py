"""The benchmark beside batch learners: rows as they are given to each, one pass, the page."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import bench_default
from field import batch, batch_page, page, peers, retrained, sets
from field.retrained import Retrained
from field.sets import Data

ROWS = 1200


@pytest.fixture
def small(monkeypatch):
    """A set of 1,200 rows in place of each; its second column is a category."""
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(5, 3, ROWS), rng.integers(0, 3, ROWS) * 2))
    y = X[:, 0] / 10 + (X[:, 1] == 2)

    def read(name, seed=0, rows=None):
        return Data(X, y, False, (1,))

    monkeypatch.setattr(sets, "read", read)
    return read("casp")


class Seen:
    """A model that keeps what it is given and predicts the mean."""

    def __init__(self, **options):
        self.options, self.asked = options, []

    def fit(self, *parts, **more):
        self.parts, self.more = parts, more

    def predict(self, rows):
        self.asked.append(rows)
        return np.full(len(rows), np.mean(self.parts[1]))


def test_xrfm_sees_standardised_numbers_and_columns_per_category(small, monkeypatch):
    pytest.importorskip("pandas")
    models = []

    def xrfm(**options):
        models.append(Seen(**options))
        return models[-1]

    monkeypatch.setitem(sys.modules, "xrfm", SimpleNamespace(xRFM=xrfm))
    peer = Retrained("xrfm", categories=True, at=(500,))
    found = np.concatenate(list(peer.predictions(small, small.categories)))
    (model,) = models
    rows, targets, others, other_targets = model.parts
    assert (len(rows), len(others)) == (400, 100)
    order = np.random.default_rng(0).permutation(500)
    together, known = np.empty((500, 4)), np.empty(500)
    together[order] = np.vstack((rows, others))
    known[order] = np.concatenate((targets, other_targets))
    one = (small.X[:500, 0] - small.X[:500, 0].mean()) / small.X[:500, 0].std()
    np.testing.assert_allclose(together[:, 0], one, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(together[:, 1:], small.X[:500, [1]] == np.array([0, 2, 4]))
    y = small.y[:500]
    np.testing.assert_allclose(known, (y - y.mean()) / y.std(), rtol=1e-5, atol=1e-5)
    assert len(model.asked[0]) == 700  # and predictions are targets as they were
    np.testing.assert_allclose(
        found[500:], y.mean() + y.std() * np.mean(targets), rtol=1e-5, atol=0
    )


def test_catboost_is_told_which_columns_are_categories(small, monkeypatch):
    pytest.importorskip("pandas")
    model = Seen()
    monkeypatch.setattr(retrained, "make", lambda library, labels: model)
    list(Retrained("catboost", lags=3, categories=True, at=(500,)).predictions(small, (1,)))
    assert model.more == {"cat_features": [1]} and list(model.asked[0].columns[:2]) == ["x0", "x1"]
    list(Retrained("hgb", categories=True, at=(500,)).predictions(small, (1,)))
    assert model.more == {} and retrained.coded(model.asked[1]) == [1]
    list(Retrained("hgb", at=(500,)).predictions(small, (1,)))
    assert isinstance(model.asked[2], np.ndarray)


def test_run_of_the_last_target(small):
    run = batch.run("casp", "last", 60.0)
    squares = (small.y - np.concatenate(([0.0], small.y[:-1]))) ** 2
    assert run["rows"] == run["total"] == ROWS and list(run["loss"]) == ["500", "1000", "1200"]
    found = batch_page.Page({"batch/casp/last": run}, "mark").error("casp", "last")
    assert found == pytest.approx(squares[500:].mean() / small.y.var(), rel=1e-9)


def test_a_slow_run_is_stopped_and_is_not_compared(small, monkeypatch):
    monkeypatch.setattr(retrained, "make", lambda library, labels: Seen())
    monkeypatch.setattr(batch, "version", lambda learner: "1")
    run = batch.run("casp", "hgb", -1.0)
    assert run["rows"] == 500 and run["stopped after"] == -1.0
    made = batch_page.Page({"batch/casp/hgb": run, "batch/casp/last": run}, "mark")
    assert made.error("casp", "hgb") is None and made.best("casp", batch_page.RIVALS) is None
    assert "stopped, as too slow, on casp (row 500)" in str(made.parts())


def test_page_with_and_without_runs_of_pronk(small):
    run = batch.run("casp", "last", 60.0)
    runs = {f"batch/{name}/last": run for name in ("casp", "abalone", "elec2", "mv")}
    text = str(batch_page.Page(runs, "mark").parts())
    assert text.count("pronk's runs were not made yet. The best of the others: last on 2.") == 2
    assert "not run" in text and "A star marks" not in text
    for name, factor in (("casp", 0.5), ("abalone", 1.02), ("mv", 1.1)):
        loss = {length: factor * value for length, value in run["loss"].items()}
        runs[f"batch/{name}/pronk"] = run | {"mark": "mark", "loss": loss}
    text = str(batch_page.Page(runs, "mark").parts())
    first = "pronk is first or within 3 % of the first of all learners, batch ones included, on "
    few = "all six batch learners were run to the end on 0 of the"
    assert f"chosen**: {first}1 of 2 sets (first on 0; {few} 2), behind on mv (10 %" in text
    assert f"`+`**: {first}1 of 1 sets (first on 1; {few} 1)." in text
    assert "pronk: 3 of 40 sets; not run on bike_hour, elec2" in text
    assert "A star marks" in str(batch_page.Page(runs, "another mark").parts())


def test_means_leave_out_those_that_diverged():
    runs = {}
    for name, loss in (("casp", 2.0), ("cadata", 1e9), ("elec2", 1e9)):
        runs[f"field/{name}/default"] = {"loss": 1.0, "rows": 10}
        runs[f"field/{name}/hat"] = {"loss": loss, "rows": 10}
    text = "\n".join(page.Page(runs, "mark").sums())
    assert "capped at 100): HAT 14.14 (2)." in text  # of casp and elec2, whose error is a rate
    assert "not in these means: HAT on cadata." in text


def test_trees_of_river_see_standardised_columns(monkeypatch):
    seen = []

    class Model:
        def predict_one(self, x):
            seen.append(x)

        def learn_one(self, x, y):
            pass

    monkeypatch.setattr(peers, "river_model", lambda *_: Model())
    X = np.array([[1e6, 3.0], [3e6, 3.0], [2e6, 4.0]])
    for name in ("hat", "arf"):
        seen.clear()
        assert list(peers.PEERS[name](Data(X, np.arange(3.0), False))) == [0.0, 0.0, 0.0]
        assert [list(x.values()) for x in seen[:2]] == [[0.0, 0.0], [1.0, 0.0]]
        assert seen[2]["x0"] == pytest.approx(0.0) and seen[2]["x1"] == pytest.approx(2**0.5)


def test_jobs_of_the_default_learner_alone():
    options = SimpleNamespace(
        sets="all", field=True, batch=True, cold=False, seeds=0, streams="elec2", work=False,
        peers="none", longest=60.0,
    )  # fmt: skip
    found = dict(bench_default.jobs(options))
    assert len(found) == 81 and {job.func for job in found.values()} <= set(bench_default.OWN)
    options.peers = "catboost,hat"
    names = [key for key, job in bench_default.jobs(options) if job.func not in bench_default.OWN]
    assert len(names) == 81 and "elec2/tree" in names and "batch/letter/catboost" in names
