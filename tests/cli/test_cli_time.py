"""A column of times on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import pronk
from helpers import pronk_run

ROWS = 300


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (ROWS, 2))
    y = np.sin(3 * X[:, 0] + np.arange(ROWS) / 40) + X[:, 1]
    gaps = rng.exponential(60.0, ROWS) * rng.choice([0.0, 1.0, 9.0], ROWS)
    when = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.cumsum(gaps).round(), unit="s")
    return pd.DataFrame({"a": X[:, 0], "when": when, "b": X[:, 1], "y": y})


@pytest.fixture
def file(frame, tmp_path):
    path = tmp_path / "d.csv"
    frame.to_csv(path, index=False)
    return path


def good(result):
    code, out, err = result
    assert code == 0, err
    return out


def refused(result):
    code, _, err = result
    assert code == 2, err
    assert len(err.strip().splitlines()) == 1
    return err


def from_python(frame, columns, algorithm="online-kernel", **params):
    learner = pronk.make(algorithm, "regression", random_state=0, **params)
    model = pronk.Prepared(learner, scale="minmax" if params else "auto", scale_target="none")
    return model.predict_then_learn(frame[columns], frame["y"], times=frame["when"])


@pytest.mark.parametrize("drop", [False, True])
def test_times_are_those_of_python(capsys, tmp_path, frame, file, drop):
    """The column stays a feature, unless it is dropped."""
    out = tmp_path / "p.csv"
    options = ["--time", "when", "--predictions", out, *(["--drop", "when"] if drop else [])]
    told = json.loads(good(pronk_run(capsys, "run", file, "-t", "y", *options, "--json")))
    columns = ["a", "b"] if drop else ["a", "when", "b"]
    assert told["columns"] == columns and told["time"] == "when" and told["rows"] == ROWS
    found = pd.read_csv(out)["prediction"].to_numpy()
    expected = from_python(frame, columns)
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-9, atol=1e-9)
    good(pronk_run(capsys, "run", file, "-t", "y", "--drop", "when", "--predictions", out))
    assert np.abs(pd.read_csv(out)["prediction"] - found).max() > 1e-3


def test_seconds_and_a_half_life(capsys, tmp_path, frame):
    path, out = tmp_path / "d.parquet", tmp_path / "p.csv"
    frame.assign(when=(frame["when"] - frame["when"][0]).dt.total_seconds()).to_parquet(path)
    options = ["--drop", "when", "-a", "kernel-awv", "-p", "half_life=10min", "-p", "bandwidth=1"]
    run = ["run", path, "-t", "y", *options, "--scale-target", "none", "--predictions", out]
    good(pronk_run(capsys, *run, "--time", "when"))
    made = {"half_life": "10min", "kernel": pronk.Gaussian(1.0)}
    expected = from_python(frame, ["a", "b"], "kernel-awv", **made)
    found = pd.read_csv(out)["prediction"].to_numpy()
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-9, atol=1e-9)
    assert "--time is missing: half_life='10min' is a time" in refused(pronk_run(capsys, *run))


def test_a_model_and_a_checkpoint_resume(capsys, tmp_path, frame, file):
    """The column is known from the first run; the last time too."""
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    frame[:200].to_csv(first, index=False)
    frame[200:].to_csv(second, index=False)
    model, one, two = tmp_path / "m.pronk", tmp_path / "one.csv", tmp_path / "two.csv"
    good(pronk_run(capsys, "run", file, "-t", "y", "--time", "when", "--predictions", one))
    good(pronk_run(capsys, "run", first, "-t", "y", "--time", "when", "--save", model))
    good(pronk_run(capsys, "run", second, "--model", model, "--predictions", two))
    whole, rest = (pd.read_csv(path)["prediction"].to_numpy() for path in (one, two))
    np.testing.assert_allclose(rest, whole[200:], rtol=1e-8, atol=1e-8)
    good(pronk_run(capsys, "predict", model, file, "--output", two))
    code, _, err = pronk_run(capsys, "run", first, "--model", model, "--again")
    assert code and "times decrease at row 0" in err
    point = tmp_path / "c.checkpoint"
    run = ["run", first, "-t", "y", "--time", "when", "--predictions", two]
    run += ["--checkpoint", point, "--checkpoint-every", "100"]
    good(pronk_run(capsys, *run))
    frame.to_csv(first, index=False)  # rows are appended
    good(pronk_run(capsys, *run))
    np.testing.assert_allclose(
        pd.read_csv(two)["prediction"].to_numpy(), whole, rtol=1e-8, atol=1e-8
    )


def test_rows_whose_time_cannot_be_used(capsys, tmp_path, frame):
    path, bad = tmp_path / "d.csv", tmp_path / "bad.csv"
    text = frame["when"].astype(str)
    frame.assign(when=text.mask(text.index == 120, "2020-01-01 00:00:00")).to_csv(path, index=False)
    run = ["run", path, "-t", "y", "--time", "when"]
    code, _, err = pronk_run(capsys, *run)
    assert code and err.strip().endswith(
        "the time 'when' is before that of an earlier row at row 120 (counting from 0); sort the "
        "rows by time"
    )
    told = json.loads(good(pronk_run(capsys, *run, "--skip-bad", bad, "--json")))
    assert told["rows"] == ROWS - 1 and pd.read_csv(bad)["row"].tolist() == [120]
    frame.assign(when=text.mask(text.index == 7, "")).to_csv(path, index=False)
    code, _, err = pronk_run(capsys, *run, "--missing", "mean")
    assert code and "the time 'when' is missing or cannot be read at row 7" in err


def test_what_excludes_times(capsys, tmp_path, file):
    run = ["run", file, "-t", "y", "--time"]
    for options, text in [
        (["when", "--workers", "2"], "--time excludes --workers: a pass with times is not split"),
        (["when", "--cluster", "local:2"], "--time excludes --workers"),
        (["when", "-a", "fogd"], "--time: fogd does not forget by time; use the default learner"),
        (["y"], "--time: 'y' is the target"),
        (["nothing"], "has no column 'nothing'"),
    ]:  # fmt: skip
        assert text in refused(pronk_run(capsys, *run, *options))
    good(pronk_run(capsys, *run, "when", "--delay", "3"))
    words = tmp_path / "words.csv"
    pd.DataFrame({"t": ["09:00", "10:00"] * 9, "x": range(18), "y": range(18)}).to_csv(
        words, index=False
    )
    text = refused(pronk_run(capsys, "run", words, "-t", "y", "--time", "t"))
    assert "is times of day without a date; it must hold dates or numbers of seconds" in text


@pytest.mark.slow
def test_compare_gives_times_to_learners_that_use_them(capsys, tmp_path, frame, file):
    options = ["-t", "y", "--drop", "when", "--algorithms", "online-kernel,fogd", "--json"]
    runs = ["compare", file, *options, "--runs", "1", "--output", tmp_path / "r"]
    assert "--time needs --order given" in refused(
        pronk_run(capsys, *runs, "--time", "when", "--order", "random")
    )
    found = [
        json.loads(good(pronk_run(capsys, *runs, "--order", "given", *more)))
        for more in ([], ["--time", "when"])
    ]
    assert found[1]["time"] == "when" and "time" not in found[0]
    losses = [{one["name"]: one["metrics"]["mse"] for one in each["learners"]} for each in found]
    assert losses[0]["fogd"] == losses[1]["fogd"]
    assert losses[0]["online-kernel"] != losses[1]["online-kernel"]
    expected = np.mean((from_python(frame, ["a", "b"]) - frame["y"])[1:] ** 2)
    assert losses[1]["online-kernel"]["mean"] == pytest.approx(expected, rel=1e-8)
