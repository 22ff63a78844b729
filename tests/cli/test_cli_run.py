"""`pronk run` from end to end on small files: results, files it writes, and its errors."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

import pronk
from helpers import pronk_run
from pronk.cli.models import build
from pronk.data import MinMax, Prepared, Standard
from pronk.estimators import files

ROWS = 600


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, [1, 100, 1e-3], (ROWS, 3))
    y = np.sin(6 * X[:, 0]) + X[:, 1] / 100
    return X, y


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data):
    """The data as CSV, CSV.gz and Parquet, with a text column and two kinds of labels."""
    folder = tmp_path_factory.mktemp("data")
    X, y = data
    table = pa.table(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "c": X[:, 2],
            "name": [f"row {i}" for i in range(ROWS)],
            "y": y,
            "sign": np.where(y > 0.5, 1, -1),
            "word": np.array(["low", "middle", "high"])[np.digitize(y, [0, 1])],
        }
    )
    arrow_csv.write_csv(table, folder / "data.csv")
    (folder / "data.csv.gz").write_bytes(gzip.compress((folder / "data.csv").read_bytes()))
    parquet.write_table(table, folder / "data.parquet")
    return folder


def options(target="y", algorithm="pkawv-taylor"):
    others = [name for name in ("y", "sign", "word") if name != target]
    drops = [part for name in ("name", *others) for part in ("--drop", name)]
    plain = ["--param", "bandwidth=1", "--scale-target", "none"]
    return ["--target", target, "--algorithm", algorithm, *plain, *drops]


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.parquet"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_predictions_are_those_of_the_learner(capsys, tmp_path, folder, data, name, ending):
    X, y = data
    file = tmp_path / f"predictions{ending}"
    code, out, err = pronk_run(
        capsys, "run", folder / name, *options(), "-p", "degree=3", "--predictions", file, "--json"
    )
    assert (code, err) == (0, "")
    learner = pronk.make("pkawv-taylor", degree=3, bandwidth=1.0, random_state=0)
    expected = learner.predict_then_learn(MinMax().learn_transform(X), y)
    table = arrow_csv.read_csv(file) if ending == ".csv" else parquet.read_table(file)
    assert table.column_names == ["row", "y", "prediction"]
    np.testing.assert_array_equal(table["row"], np.arange(ROWS))
    np.testing.assert_array_equal(table["y"], y)
    assert table["prediction"][0].as_py() is None  # no label was known
    np.testing.assert_allclose(table["prediction"][1:], expected[1:], rtol=1e-12, atol=1e-12)
    result = json.loads(out)
    assert result["rows"] == ROWS and result["task"] == "regression"
    assert result["unpredicted"] == 1
    assert result["metrics"]["mse"] == pytest.approx(np.mean((expected - y)[1:] ** 2))
    assert result["metrics"]["mse"] < result["baseline"]["mse"]
    assert result["columns"] == ["a", "b", "c"]


def test_shape_of_the_json(capsys, folder):
    _, out, _ = pronk_run(capsys, "run", folder / "data.csv", *options(), "--json")
    assert set(json.loads(out)) == {
        "file", "target", "columns", "became", "task", "algorithm", "params", "scale", "seed",
        "rows",
        "scale_target", "metrics", "seconds", "microseconds_per_row", "size", "memory", "baseline",
        "saved",
        "predictions", "versions", "unlabelled", "unpredicted", "checkpoint", "resumed_at", "drift",
        "recent", "changes", "directions",
        "repeat_last", "worse", "this_input", "metrics_file", "report", "chosen", "rows_before",
        "bad_rows",
    }  # fmt: skip


@pytest.mark.parametrize(
    "flags, scaled",
    [
        (["--scale", "standard"], lambda X: Standard().learn_transform(X)),
        (["--scale", "none"], lambda X: X),
    ],
)
def test_scaling_is_a_choice(capsys, tmp_path, folder, data, flags, scaled):
    X, y = data
    file = tmp_path / "predictions.parquet"
    arguments = [*options(algorithm="pkawv-nystrom"), *flags, "--seed", 7, "--limit", 200]
    code, _, _ = pronk_run(
        capsys, "run", folder / "data.parquet", *arguments, "--predictions", file
    )
    assert code == 0
    learner = pronk.make("pkawv-nystrom", bandwidth=1.0, random_state=7)
    expected = learner.predict_then_learn(scaled(X[:200]), y[:200])
    given = parquet.read_table(file)["prediction"]
    np.testing.assert_allclose(given[1:], expected[1:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("target, kind", [("sign", np.integer), ("word", np.str_)])
def test_labels_are_recognised(capsys, tmp_path, folder, data, target, kind):
    X, _ = data
    file = tmp_path / "predictions.csv"
    code, out, _ = pronk_run(
        capsys, "run", folder / "data.csv", *options(target), "--predictions", file, "--json"
    )
    assert code == 0
    result = json.loads(out)
    assert result["task"] == "classification" and next(iter(result["metrics"])) == "error"
    table = arrow_csv.read_csv(file)
    labels = table["y"].to_numpy()
    learner = pronk.make("pkawv-taylor", "classification", bandwidth=1.0, random_state=0)
    expected = learner.predict_then_learn(MinMax().learn_transform(X), labels)
    assert isinstance(learner.classes_[0], kind)
    given = table["prediction"].to_numpy()
    np.testing.assert_array_equal(given[1:], expected[1:])
    assert result["metrics"]["error"] == pytest.approx(np.mean(expected[1:] != labels[1:]))


@pytest.mark.parametrize("flags", [[], ["--scale", "none"]])
def test_the_saved_model_resumes(capsys, tmp_path, folder, data, flags):
    X, y = data
    file = tmp_path / "model.pronk"
    code, out, _ = pronk_run(
        capsys, "run", folder / "data.csv", *options(), *flags, "--limit", 400, "--save", file
    )
    assert code == 0 and "model.pronk" in "".join(out.split())
    model = files.load(file)
    assert model.n_seen_ == 400
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    twin = pronk.make("pkawv-taylor", bandwidth=1.0, random_state=0)
    twin = twin if flags else Prepared(twin, scale_target="none")
    twin.predict_then_learn(X[:400], y[:400])
    np.testing.assert_array_equal(
        model.predict_then_learn(X[400:], y[400:]), twin.predict_then_learn(X[400:], y[400:])
    )


def test_the_summary_fits_80_columns(capsys, monkeypatch, folder):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = pronk_run(capsys, "run", folder / "data.csv", *options())
    assert (code, err) == (0, "")
    for word in ("regression", "600 of 3 columns", "running mean", "us per row", "fixed", "kB",
                 "not scored   1 at the start: no label was known yet"):  # fmt: skip
        assert word in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_unbounded_memory_is_noted(capsys, folder):
    file = folder / "data.csv"
    _, _, err = pronk_run(capsys, "run", file, *options(algorithm="pkawv-nystrom"))
    assert "note: the memory of pkawv-nystrom grows" in err and "history=projected" in err
    arguments = [*options(algorithm="pkawv-nystrom"), "-p", "history=projected"]
    assert pronk_run(capsys, "run", file, *arguments)[2] == ""
    kons = [*options(algorithm="con-kons"), "-p"]
    assert "grows" not in pronk_run(capsys, "run", file, *kons, "alpha=1")[2]  # budget 500 chosen
    assert "grows" in pronk_run(capsys, "run", file, *kons, "budget=none")[2]


# -- parameters ----------------------------------------------------------------------------------


def test_parameters_are_read_as_python_values():
    learner = build(
        "pkawv-nystrom",
        "regression",
        ("alpha=0.5", "budget=none", "anticipate=False", "kernel=laplacian", "bandwidth=2"),
        3,
    )
    assert learner.alpha == 0.5 and learner.budget is None and learner.anticipate is False
    assert learner.kernel == pronk.Laplacian(2) or repr(learner.kernel) == repr(pronk.Laplacian(2))
    assert learner.random_state == 3
    learner = build("pkawv-nystrom", "regression", ("kernel__bandwidth=0.25",), 0)
    assert learner.kernel.bandwidth == 0.25


# -- errors: one line on stderr, exit code 2 -------------------------------------------------------


@pytest.mark.parametrize(
    "change, words",
    [
        (["--algorithm", "pkawv-tailor"], ["--algorithm", "did you mean 'pkawv-taylor'"]),
        (["--target", "z"], ["--target", "no column 'z'"]),
        (["--drop", "nme"], ["--drop", "did you mean 'name'"]),
        (["-p", "alfa=1"], ["--param", "did you mean 'alpha'"]),
        (["-p", "alpha"], ["--param", "key=value"]),
        (["-p", "alpha=-1"], ["--param", "alpha"]),
        (["-p", "bandwidth=0"], ["bandwidth"]),
        (["--task", "sorting"], ["--task", "sorting"]),
        (["--limit", "0"], ["--limit"]),
        (["--seed", "-1"], ["--seed"]),
        (["--scale", "log"], ["--scale", "log"]),
        (["--save", "no/where/model"], ["--save", "no directory"]),
        (["--predictions", "no/where/p.csv"], ["--predictions", "no directory"]),
        (["--predictions", "p.txt"], ["--predictions", ".csv, .ndjson or .parquet"]),
        (["--save", "."], ["--save", "is a directory"]),
        (["--surprise"], ["--surprise"]),
    ],
)
def test_a_wrong_option_is_named(capsys, monkeypatch, tmp_path, folder, change, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = pronk_run(capsys, "run", folder / "data.csv", *options(), *change)
    assert (code, out) == (2, "")
    assert err.startswith("pronk: ") and err.count("\n") == 1 and "Traceback" not in err
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == []  # nothing was written


@pytest.mark.parametrize(
    "content, words",
    [
        ("", "is empty"),
        ("a,y\n", "no rows"),
        ("a,y\n1,2.5\n,3.5\n", "'a' is missing or NaN at row 1"),
        ("a,y\n1,2.5\nx,3.5\n", "'a' is not numeric"),
        ("a,y\n1,2.5\n1\n", "line 3"),
        ("a,y\n1,up\n2,up\n", "all 2 rows have the label up"),
    ],
)
def test_a_wrong_file_is_named(capsys, tmp_path, content, words):
    file = tmp_path / "data.csv"
    file.write_text(content)
    code, out, err = pronk_run(capsys, "run", file, "-t", "y", "-a", "pkawv-taylor", "--strict")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and words in err


def test_missing_arguments_are_named(capsys, folder):
    assert "--target" in pronk_run(capsys, "run", folder / "data.csv", "-a", "fogd")[2]
    code, _, err = pronk_run(capsys, "run", tmp := folder / "none.csv", *options())
    assert code == 2 and tmp.name in err and "does not exist" in err


def test_rows_before_a_bad_one_are_in_the_predictions(capsys, tmp_path):
    file, predictions = tmp_path / "data.csv", tmp_path / "p.parquet"
    file.write_text("a,y\n" + "1,2.5\n" * 10 + ",1\n")
    code, _, err = pronk_run(
        capsys,
        "run",
        file,
        "--strict",
        "-t",
        "y",
        "-a",
        "pkawv-taylor",
        "--predictions",
        predictions,
    )
    assert code == 2 and "row 10" in err
    assert parquet.read_table(predictions).num_rows == 10


def test_the_input_is_never_overwritten(capsys, tmp_path, folder):
    file = tmp_path / "data.csv"
    file.write_bytes((folder / "data.csv").read_bytes())
    for option in ("--save", "--predictions"):
        code, _, err = pronk_run(capsys, "run", file, *options(), option, file)
        assert code == 2 and "input file" in err
    assert file.read_bytes() == (folder / "data.csv").read_bytes()


def test_a_failed_run_is_one_line_and_code_1(capsys, monkeypatch, folder):
    def broken(*_, **__):
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr("pronk.cli.run_loop.RunLoop.run", broken)
    code, _, err = pronk_run(capsys, "run", folder / "data.csv", *options())
    assert (code, err) == (1, "pronk: failed: ZeroDivisionError: no luck\n")


def test_a_keyboard_interrupt_is_one_line_and_code_130(capsys, monkeypatch, folder):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pronk.cli.run_loop.RunLoop.run", interrupted)
    code, _, err = pronk_run(capsys, "run", folder / "data.csv", *options())
    assert (code, err) == (130, "pronk: interrupted from the keyboard\n")


INTERRUPTED = """
import os, signal
from pronk.data import FileStream

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)

FileStream._features = interrupt
from pronk.cli import main
main()
"""


def test_a_signal_stops_a_real_process_in_one_line(folder):
    command = [sys.executable, "-c", INTERRUPTED, "run", str(folder / "data.csv"), *options()]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 130
    assert process.stderr == "pronk: interrupted from the keyboard\n"
