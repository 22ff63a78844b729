"""A column of sample weights on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import pronk
from helpers import pronk_run
from pronk.data import FileStream
from pronk.evaluate import progressive
from pronk.evaluate.comparison_run import order_of

ROWS = 300


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (ROWS, 2)) * [1.0, 50.0]
    y = np.sin(3 * X[:, 0]) + X[:, 1] / 50
    w = rng.choice([0.0, 0.1, 1.0, 2.5], ROWS)
    w[:2] = 0.0  # nothing is known yet
    return pd.DataFrame({"a": X[:, 0], "w": w, "b": X[:, 1], "y": y})


def learner():
    """What `run` builds."""
    inner = pronk.make("pkawv-nystrom", "regression", random_state=0, budget=32)
    return pronk.Prepared(inner.set_params(kernel__bandwidth=1), scale="minmax")


def run(capsys, file, *arguments, algorithm="pkawv-nystrom"):
    chosen = [] if algorithm is None else ["-a", algorithm, "-p", "bandwidth=1", "-p", "budget=32"]
    return pronk_run(capsys, "run", file, *chosen, *arguments)


def good(result):
    code, out, err = result
    assert code == 0, err
    return out


def predictions(path):
    return pd.read_csv(path)["prediction"].to_numpy()


def from_python(frame, weights):
    X = frame[["a", "b"]]
    return learner().predict_then_learn(X, frame["y"], sample_weight=weights)


def test_weights_are_those_of_python_and_no_feature(capsys, tmp_path, frame):
    file, out = tmp_path / "d.csv", tmp_path / "p.csv"
    frame.to_csv(file, index=False)
    said = good(run(capsys, file, "-t", "y", "--weight", "w", "--predictions", out, "--json"))
    told = json.loads(said)
    assert told["columns"] == ["a", "b"] and told["weight"] == "w" and told["rows"] == ROWS
    found = predictions(out)
    expected = from_python(frame, frame["w"])
    blind = 1 + int((frame["w"] > 0).to_numpy().argmax())  # up to the first label of a weight
    assert told["unpredicted"] == blind and np.isnan(found[:blind]).all()
    np.testing.assert_allclose(found[blind:], expected[blind:], rtol=1e-9, atol=1e-12)
    errors = (found - frame["y"])[blind:]
    assert told["metrics"]["mse"] == pytest.approx(np.mean(errors**2))
    once = from_python(frame, None)
    assert np.abs(once - expected).max() > 0.01


@pytest.mark.parametrize("verb", ["predict_then_learn", "rows"])
def test_a_row_of_weight_0_moves_no_scale(frame, verb):
    far = frame.assign(b=np.where(frame["w"] == 0, 1e6, frame["b"]))
    kept = far["w"] > 0
    one, two = learner(), learner()
    if verb == "rows":
        for i in range(ROWS):
            row = far[i : i + 1]
            one.partial_fit(row[["a", "b"]], row["y"], sample_weight=row["w"])
    else:
        one.predict_then_learn(far[["a", "b"]], far["y"], sample_weight=far["w"])
    rest = far[kept]
    two.predict_then_learn(rest[["a", "b"]], rest["y"], sample_weight=rest["w"])
    X = frame[["a", "b"]]
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-9, atol=1e-12)


def test_weights_in_halves_late_and_without_bad_rows(capsys, tmp_path, frame):
    names = ("all", "one", "two")
    every, one, two = (tmp_path / f"{name}.csv" for name in names)
    frame.to_csv(every, index=False)
    frame[:180].to_csv(one, index=False)
    frame[180:].to_csv(two, index=False)
    at_once, model, out = (tmp_path / name for name in ("a.pronk", "m.pronk", "p.csv"))
    good(run(capsys, every, "-t", "y", "--weight", "w", "--save", at_once, "--predictions", out))
    whole = predictions(out)
    good(run(capsys, one, "-t", "y", "--weight", "w", "--save", model))
    # The model knows its column of weights, as it knows its target.
    said = good(pronk_run(capsys, "run", two, "--model", model, "--predictions", out, "--json"))
    assert json.loads(said)["weight"] == "w"
    np.testing.assert_allclose(predictions(out), whole[180:], rtol=1e-9, atol=1e-12)

    late = ["-t", "y", "--weight", "w", "--delay", "7"]
    good(run(capsys, every, *late, "--predictions", out))
    stream = FileStream(every, "y", weight="w")
    (record,) = progressive(learner(), stream, delay=7, predictions=True)
    np.testing.assert_allclose(predictions(out), record.forecast.values, rtol=1e-9, atol=1e-12)
    assert np.nanmax(np.abs(record.forecast.values - whole)) > 1e-3

    bad = frame.astype(object)
    for row, value in ((20, -1), (30, "inf"), (40, None), (50, "much")):
        bad.loc[row, "w"] = value
    file, left = tmp_path / "bad.csv", tmp_path / "left.csv"
    bad.to_csv(file, index=False)
    good(run(capsys, file, "-t", "y", "--weight", "w", "--skip-bad", left, "--predictions", out))
    told = pd.read_csv(left)
    assert told["row"].tolist() == [20, 30, 40, 50]
    assert all("'w'" in reason for reason in told["reason"])
    rest = frame.drop(index=[20, 30, 40, 50])
    expected = from_python(rest, rest["w"])
    found = predictions(out)
    known = ~np.isnan(found)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-9, atol=1e-12)


def test_weights_resume_from_a_checkpoint(capsys, tmp_path, frame):
    file, out, snapshot = (tmp_path / name for name in ("d.csv", "p.csv", "job"))
    late = ["-t", "y", "--weight", "w", "--delay", "3", "--predictions", out]
    frame.to_csv(file, index=False)
    good(run(capsys, file, *late))
    whole = predictions(out)
    frame[:200].to_csv(file, index=False)
    good(run(capsys, file, *late, "--checkpoint", snapshot))
    frame.to_csv(file, index=False)  # it has grown; labels of three rows are still out
    good(run(capsys, file, *late, "--checkpoint", snapshot))
    np.testing.assert_allclose(predictions(out), whole, rtol=1e-9, atol=1e-12)
    code, _, err = run(capsys, file, *late[:2], *late[4:], "--checkpoint", snapshot)
    assert code == 2 and "--weight" in err


@pytest.mark.parametrize(
    ("value", "what"),
    [(-1, "is negative (-1)"), ("", "is missing"), ("inf", "is infinite"), ("x", "'x'")],
)
def test_a_bad_weight_is_named_by_its_row(capsys, tmp_path, frame, value, what):
    bad = frame.astype(object)
    bad.loc[250, "w"] = value
    file = tmp_path / "d.csv"
    bad.to_csv(file, index=False)
    code, _, err = pronk_run(capsys, "run", file, "-a", "fogd", "-t", "y", "--weight", "w")
    assert code == 2 and err.count("\n") == 1
    assert "'w'" in err and what in err
    assert "row 250" in err and "--missing" not in err


def test_what_has_no_meaning_is_one_line(capsys, tmp_path, frame):
    file, model = tmp_path / "d.csv", tmp_path / "m.pronk"
    frame.assign(text="t").to_csv(file, index=False)
    drop = ["--drop", "text"]
    good(run(capsys, file, "-t", "y", *drop, "--save", model))
    wrong = {
        "online-kernel has only the weights 0 and 1": ["-t", "y", *drop, "--weight", "w"],
        "'y' is the target": ["-t", "y", *drop, "--weight", "y"],
        "no column 'v'": ["-t", "y", *drop, "--weight", "v"],
        "'w' is the weight": ["-t", "y", "--columns", "a,w", "--weight", "w"],
        "is text": ["-t", "y", "--weight", "text"],
        "is a feature of the model": ["--model", model, "--weight", "w"],
    }
    for what, arguments in wrong.items():
        code, _, err = pronk_run(capsys, "run", file, *arguments)
        assert code == 2 and what in err and err.count("\n") == 1, err


@pytest.mark.parametrize("order", ["given", "random"])
def test_weights_in_a_comparison(capsys, tmp_path, frame, order):
    file, moved = tmp_path / "d.csv", tmp_path / "moved.csv"
    frame.to_csv(file, index=False)
    found = {}
    for weight in (["--weight", "w"], ["--drop", "w"]):
        call = [
            "-a",
            "fogd",
            "-p",
            "bandwidth=1",
            "--runs",
            "1",
            "--workers",
            "1",
            "--order",
            order,
        ]
        place = ["--output", tmp_path / f"r{weight[0]}", "--json"]
        said = good(pronk_run(capsys, "compare", file, "-t", "y", *call, *place, *weight))
        found[weight[0]] = told = json.loads(said)
        assert told["columns"] == ["a", "b"]
    places = np.arange(ROWS) if order == "given" else order_of(0, ROWS)
    frame.iloc[places].to_csv(moved, index=False)
    call = ["-t", "y", "-a", "fogd", "-p", "bandwidth=1", "--weight", "w", "--json"]
    single = json.loads(good(pronk_run(capsys, "run", moved, *call)))
    mse = {name: told["learners"][0]["metrics"]["mse"]["mean"] for name, told in found.items()}
    assert mse["--weight"] == pytest.approx(single["metrics"]["mse"], rel=1e-9)
    assert mse["--weight"] != pytest.approx(mse["--drop"], rel=1e-3)
    y = frame["y"].iloc[places].to_numpy()
    means = np.cumsum(y)[:-1] / np.arange(1, ROWS)
    for told in found.values():  # the baseline has no weights, and is scored on the same rows
        errors = (means - y[1:])[told["unpredicted"] - 1 :]
        assert told["baseline"]["metrics"]["mse"]["mean"] == pytest.approx(np.mean(errors**2))
    code, _, err = pronk_run(capsys, "compare", file, "-t", "y", "--weight", "w")
    assert (
        code == 2 and "online-kernel has only the weights 0 and 1" in err and err.count("\n") == 1
    )
