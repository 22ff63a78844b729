"""`pronk run -a NAME` without parameters: a bandwidth and a budget are chosen and printed."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from scipy.spatial.distance import pdist

import pronk
from pronk.cli import main
from pronk.core.first_rows import LAST_RESTART
from pronk.estimators import registry


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["run", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert exit_.value.code == 0, err
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1, 100, 0.01]
    y = np.sin(X[:, 0]) + X[:, 1] / 100
    file = tmp_path_factory.mktemp("data") / "data.csv"
    arrow_csv.write_csv(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}), file)
    return file, X, y


def test_the_bandwidth_is_the_median_distance_of_the_first_rows(capsys, data):
    file, X, y = data
    options = [file, "-t", "y", "-a", "fogd", "--scale", "none", "--scale-target", "none", "--json"]
    found = json.loads(run(capsys, *options))
    median = np.median(pdist(X[:LAST_RESTART]))
    assert found["chosen"] == {"bandwidth": pytest.approx(median, rel=1e-9)}
    learner = pronk.make("fogd", random_state=0)
    loss = np.mean((learner.predict_then_learn(X, y) - y)[1:] ** 2)  # row 0 is not scored
    assert found["metrics"]["mse"] == pytest.approx(loss, rel=1e-9)
    again = json.loads(run(capsys, *options, "-p", "bandwidth=auto"))
    assert again["metrics"] == found["metrics"]


def test_a_growing_dictionary_gets_a_budget(capsys, data, monkeypatch):
    monkeypatch.setattr(registry, "BUDGET", 7)
    monkeypatch.setenv("COLUMNS", "200")
    options = [data[0], "-t", "y", "-a", "pkawv-nystrom", "-p", "bandwidth=0.1"]
    text = run(capsys, *options)
    assert "budget=7 (-p budget=none: no limit)" in text and "median distance" not in text
    assert json.loads(run(capsys, *options, "--json"))["size"] == 7
    free = json.loads(run(capsys, *options, "-p", "budget=none", "--json"))
    assert free["chosen"] == {} and free["size"] > 50


def test_what_chooses_for_itself_is_left_alone(capsys, data):
    assert json.loads(run(capsys, data[0], "-t", "y", "--limit", 50, "--json"))["chosen"] == {}
    options = ["-a", "fogd", "-p", "bandwidth=2", "--json"]
    assert json.loads(run(capsys, data[0], "-t", "y", *options))["chosen"] == {}
    assert registry.defaults_of("krls", "regression", {"kernel": "linear"}) == {}
    assert registry.defaults_of("ogd", "regression", {}) == {"bandwidth": "auto"}


def test_steps_and_sizes_are_chosen_and_printed(capsys, data, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = run(capsys, data[0], "-t", "y", "-a", "pros-n-kons")
    assert "budget=30" in text and "alpha=10" in text and "--scale-target none" in text
    options = [data[0], "-t", "y", "-a", "pa-1", "--json"]
    found = json.loads(run(capsys, *options))
    assert found["chosen"]["C"] == 0.3 and found["scale_target"]
    given = json.loads(run(capsys, *options, "-p", "C=1", "--scale-target", "none"))
    assert "C" not in given["chosen"] and not given["scale_target"]
    chosen = registry.defaults_of("pros-n-kons", "classification", {"bandwidth": 1.0})
    assert chosen == {"budget": registry.RESTART_BUDGET}


@pytest.mark.parametrize("name", ["pa-1", "sketched-kons", "dual-svrg-b", "pros-n-kons", "krls"])
def test_numbers_far_from_zero_are_learned(capsys, data, tmp_path, name):
    _, X, y = data
    file = tmp_path / "far.csv"
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": 454 + 17 * y}
    arrow_csv.write_csv(pa.table(columns), file)
    found = json.loads(run(capsys, file, "-t", "y", "-a", name, "--json"))
    assert found["metrics"]["mse"] < found["baseline"]["mse"]
