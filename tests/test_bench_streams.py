"""The benchmark on whole streams: retrained peers against a row by row twin, runs, the page."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from field import passes, retrained, streams_page
from field.retrained import Retrained
from field.sets import Data


class Nearest:
    """A model that is wrong everywhere but near its training rows: the nearest one's target."""

    def fit(self, X, y):
        self.X, self.y = np.nan_to_num(X), y

    def predict(self, X):
        off = np.nan_to_num(X)[:, None] - self.X[None]
        return self.y[np.argmin((off**2).sum(axis=2), axis=1)]


def naive(data, settings):
    """Predict row by row, and train again after the rows that the description names."""
    y, found, model = data.y.tolist(), [], None
    for t in range(len(y)):
        early = [250, 500, 1000, 2000, 4000]
        planned = t in settings.at
        if settings.every:
            planned = (t % settings.every == 0 and t) or (t in early and t < settings.every)
        if planned:
            model = Nearest()
            begin = 0 if settings.window is None else max(0, t - settings.window)
            rows = [with_lags(data, y, i, settings.lags) for i in range(begin, t)]
            model.fit(np.array(rows), np.array(y[begin:t]))
        if model is None:
            known = y[:t]
            if data.labels:
                found.append(max(set(known), key=known.count) if known else 0)
            else:
                found.append(np.mean(known) if known else 0.0)
        else:
            found.append(model.predict(np.array([with_lags(data, y, t, settings.lags)]))[0])
    return found


def with_lags(data, y, t, lags):
    return [*data.X[t], *(y[t - k] if t >= k else 0.0 for k in range(1, lags + 1))]


def stream(labels, n=1300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + X[:, 1] > 0.3).astype(int) if labels else X[:, 0] * X[:, 1]
    return Data(X, y, labels)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"window": 300}, {"lags": 3}, {"every": 0, "at": (250, 700, 1300, 2000)}]
)
def test_retrained_peer_against_row_by_row(labels, settings, monkeypatch):
    monkeypatch.setattr(retrained, "make", lambda library, labels: Nearest())
    data, peer = stream(labels), Retrained("lightgbm", **{"every": 400, **settings})
    found = np.concatenate(list(peer.predictions(data)))
    if labels:  # several labels may be the most frequent in the first rows
        assert np.mean(found[:250] != naive(data, peer)[:250]) < 0.05
        np.testing.assert_array_equal(found[250:], naive(data, peer)[250:])
    else:
        np.testing.assert_allclose(found, naive(data, peer), rtol=1e-12, atol=1e-12)


def test_retrained_peer_never_sees_the_target_it_predicts(monkeypatch):
    monkeypatch.setattr(retrained, "make", lambda library, labels: Nearest())
    data, peer = stream(False), Retrained("lightgbm", 400, lags=3)
    before = np.concatenate(list(peer.predictions(data)))
    for t in (0, 100, 250, 799, 800, 1001):
        changed = Data(data.X, data.y.copy(), False)
        changed.y[t:] += 100.0
        after = np.concatenate(list(peer.predictions(changed)))
        np.testing.assert_array_equal(after[: t + 1], before[: t + 1])
        assert (after[t + 1 :] != before[t + 1 :]).any()


def test_one_label_in_the_training_rows():
    data = stream(True)
    data.y[:] = 1
    peer = Retrained("lightgbm", 400)
    assert np.concatenate(list(peer.predictions(data)))[1:].tolist() == [1] * (len(data.y) - 1)


@pytest.mark.parametrize("name", ["boost-1000", "lightgbm-1000-x", "hgb-1000-cat"])
def test_learners_that_are_none(name):
    with pytest.raises(ValueError, match=r"none of|no learner"):
        passes.parse(name)


def test_names_of_learners():
    for learner in streams_page.LEARNERS:
        passes.parse(learner)
    assert passes.parse("lightgbm-1000-w5000-lags") == Retrained("lightgbm", 1000, 5000, 3)
    assert passes.fits("lightgbm-1000-lags", "elec2")
    assert not passes.fits("lightgbm-1000-lags", "casp")
    assert not passes.fits("lightgbm-1000-cat", "elec2")


def test_run_is_made_once_and_again_for_more_rows(monkeypatch):
    monkeypatch.setattr(passes.streams, "read", lambda name: stream(False))
    run = passes.run("casp", "mean", 1200, 60.0)
    assert run["rows"] == 1200 and run["total"] == 1300
    assert list(run["loss"]) == ["1000", "1200"]
    y = stream(False).y
    squares = (retrained.running(y, False) - y) ** 2
    assert run["loss"]["1000"] == pytest.approx(squares[:1000].mean(), rel=1e-12)
    assert run["last quarter"]["1200"] == pytest.approx(squares[900:1200].mean(), rel=1e-12)
    assert not passes.missing(run, 1200, 60.0) and not passes.missing(run, 100, 60.0)
    assert passes.missing(run, None, 60.0) and passes.missing(None, 10, 60.0)
    stopped = run | {"stopped after": 60.0}
    assert not passes.missing(stopped, None, 60.0) and passes.missing(stopped, None, 61.0)


def test_page_with_and_without_runs_of_pronk(monkeypatch):
    monkeypatch.setattr(passes.streams, "read", lambda name: stream(False))
    runs = {"mean": passes.run("casp", "mean", None, 60.0)}
    assert "pronk's runs were not made yet." in streams_page.Page(runs, "mark").parts()
    runs["boosting"] = runs["mean"] | {"learner": "lightgbm-5000"}
    worse = {length: 2 * loss for length, loss in runs["mean"]["loss"].items()}
    runs["own"] = runs["mean"] | {"learner": "pronk", "version": "mark", "loss": worse}
    text = str(streams_page.Page(runs, "mark").parts())
    assert (
        "geometric mean: 0.50 (1). First on 0 of 1, within 3 % of the first on 0, behind on 1:"
        in text
    )
    assert "A star marks" not in text
    assert "A star marks" in str(streams_page.Page(runs, "another mark").parts())
