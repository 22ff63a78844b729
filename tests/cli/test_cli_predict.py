"""`pronk predict` and `pronk inspect`, the kinds of files in `pronk run`, and completion."""

import io
import json
import os
import sqlite3
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from typer.main import get_command

import pronk
from helpers import pronk_run as call
from pronk.cli import app, main
from pronk.data import FileStream
from pronk.estimators import files

ROWS = 400


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 3, (2, ROWS))
    city = np.array(["Rome", "Oslo", "Lima"])[rng.integers(0, 3, ROWS)]
    y = np.sin(a) + (city == "Oslo")
    gaps = [None if i % 40 == 3 else v for i, v in enumerate(b.tolist())]
    return pa.table({"a": a, "b": gaps, "city": city, "y": y, "high": y > 1})


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("data")
    arrow_csv.write_csv(table, folder / "data.csv")
    parquet.write_table(table.select(["y", "city", "b", "a"]), folder / "other.parquet")
    return folder


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "model.pronk"
    arguments = [
        "run", folder / "data.csv", "-t", "y", "-a", "pkawv-nystrom", "--columns", "a,b,city",
        "--categorical", "city", "--missing", "mean", "--save", path, "--limit", 300, "--json",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert exit_.value.code == 0
    return path


def test_commands_without_skip_bad_do_not_advise_it(capsys, tmp_path, model):
    lines = [f"{i % 5}.5,{i % 3},Rome,{i % 7}.5" for i in range(60)]
    for row, word, words in ((50, "inf", "infinite at row 50"), (40, "1,2", "values instead of 4")):
        bad = [*lines[:row], f"1.5,2,Oslo,{word}", *lines[row:]]
        (tmp_path / "bad.csv").write_text("\n".join(["a,b,city,y", *bad]))
        for command in (
            ["predict", model, tmp_path / "bad.csv", "-t", "y"],
            ["compare", tmp_path / "bad.csv", "-t", "y", "-a", "fogd", "--output", tmp_path / "o"],
        ):
            code, _, err = call(capsys, *command)
            assert code == 2 and words in err and "out of the file" in err, err


def test_predictions_are_those_of_the_model(capsys, tmp_path, folder, model, table):
    twin = pronk.load(model)
    for ending in ("csv", "ndjson", "parquet"):
        output = tmp_path / f"p.{ending}"
        code, out, err = call(
            capsys, "predict", model, folder / "other.parquet", "-o", output, "--json"
        )
        assert (code, err) == (0, "")
        result = json.loads(out)
        assert result["rows"] == ROWS and result["target"] is None and result["metrics"] == {}
    given = parquet.read_table(tmp_path / "p.parquet")
    assert given.column_names == ["row", "prediction"]
    assert given == arrow_csv.read_csv(tmp_path / "p.csv")
    lines = [json.loads(line) for line in (tmp_path / "p.ndjson").read_text().splitlines()]
    assert lines == given.to_pylist()
    stream = FileStream(
        folder / "data.csv", columns=["a", "b", "city"], categorical=["city"], missing="mean"
    )
    expected = np.concatenate([twin.predict(X) for X, _ in stream])
    np.testing.assert_array_equal(given["prediction"], expected)
    y = table["y"].to_numpy()
    assert np.mean((expected - y) ** 2) < 0.5 * np.var(y)


def test_a_target_is_scored_and_nothing_is_learned(capsys, tmp_path, folder, model):
    before = model.read_bytes()
    code, out, _ = call(
        capsys, "predict", model, folder / "data.csv", "-t", "y", "-o", tmp_path / "p.csv", "--json"
    )
    given = arrow_csv.read_csv(tmp_path / "p.csv")
    assert code == 0 and given.column_names == ["row", "y", "prediction"]
    difference = given["y"].to_numpy() - given["prediction"].to_numpy()
    assert json.loads(out)["metrics"]["mse"] == pytest.approx(np.mean(difference**2))
    assert model.read_bytes() == before


def test_without_a_file_predictions_are_printed(capsys, folder, model):
    code, out, err = call(capsys, "predict", model, folder / "data.csv", "--limit", 5)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == '"row","prediction"' and len(out.splitlines()) == 6
    _, lines, _ = call(capsys, "predict", model, folder / "data.csv", "--limit", 5, "--json")
    assert [json.loads(line)["row"] for line in lines.splitlines()] == [0, 1, 2, 3, 4]


def test_labels_are_predicted(capsys, tmp_path, folder):
    path = tmp_path / "model"
    options = ["-t", "high", "-a", "fogd", "--columns", "a", "--save", path]
    assert call(capsys, "run", folder / "data.csv", *options)[0] == 0
    code, out, _ = call(capsys, "predict", path, folder / "other.parquet", "--limit", 3)
    assert code == 0 and set(out.split()[1:]) <= {
        f"{i},{v}" for i in range(3) for v in ("true", "false")
    }
    code, out, _ = call(capsys, "inspect", path, "--json")
    assert json.loads(out)["model"]["classes"] == [False, True]


def test_wrong_files_are_named(capsys, tmp_path, folder, model):
    code, _, err = call(capsys, "predict", folder / "data.csv", folder / "data.csv")
    assert code == 2 and "not a pronk model file" in err
    (tmp_path / "few.csv").write_text("a,b\n1,2\n")
    code, _, err = call(capsys, "predict", model, tmp_path / "few.csv")
    assert code == 2 and "no column 'city'" in err
    code, _, err = call(capsys, "predict", model, folder / "data.csv", "-o", tmp_path / "p.txt")
    assert code == 2 and "--output" in err
    nameless = pronk.PKAWVRegressor().fit(np.zeros((3, 2)), [0.0, 1.0, 2.0])
    nameless.save(tmp_path / "nameless")
    (tmp_path / "wide.csv").write_text("a,b,c\n1,2,3\n")
    code, _, err = call(capsys, "predict", tmp_path / "nameless", tmp_path / "wide.csv")
    assert code == 2 and "has 3 columns; the model has 2" in err


def test_inspect_shows_the_kind_of_a_file(capsys, monkeypatch, model):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = call(capsys, "inspect", model)
    assert (code, err) == (0, "")
    for word in ("PKAWVRegressor", "300 rows of 3 columns: a, b, city", "minmax", "alpha=1.0",
                 "certificate", "regret", "mean", f"format {files.FORMAT}"):  # fmt: skip
        assert word in out
    assert max(len(line) for line in out.splitlines()) <= 80
    found = json.loads(call(capsys, "inspect", model, "--json")[1])
    assert found["kind"] == "model" and found["model"]["categorical"] == [2]
    assert found["model"]["certificate"]["rows"] == 300
    assert found["bytes"] == model.stat().st_size


def test_inspect_shows_both_regrets_of_the_default_learner(capsys, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    pronk.OnlineKernelRegressor(random_state=0).fit(X, X[:, 0]).save(tmp_path / "model")
    assert "of combinations" in call(capsys, "inspect", tmp_path / "model")[1]
    found = json.loads(call(capsys, "inspect", tmp_path / "model", "--json")[1])
    told = found["model"]["certificate"]["combination"]
    assert told["rows"] == 40 and told["regret"] <= told["bound"]


# -- `pronk run` on other kinds of input ---------------------------------------------------------


def test_rows_without_a_label_are_predicted_only(capsys, tmp_path, table):
    y = table["y"].to_pylist()
    for i in (0, 1, 50, 399):
        y[i] = None
    arrow_csv.write_csv(pa.table({"a": table["a"], "y": y}), tmp_path / "d.csv")
    full = pa.table({"a": table["a"], "y": y}).filter(pa.compute.is_valid(pa.array(y)))
    arrow_csv.write_csv(full, tmp_path / "full.csv")
    results = []
    for name in ("d", "full"):
        code, out, _ = call(
            capsys, "run", tmp_path / f"{name}.csv", "-t", "y", "-a", "pkawv-taylor",
            "-p", "bandwidth=1",  # chosen from the first rows, with or without a label, otherwise
            "--predictions", tmp_path / f"{name}-p.csv", "--save", tmp_path / name, "--json",
        )  # fmt: skip
        assert code == 0
        results.append(json.loads(out))
    assert results[0]["rows"] == 396 and results[0]["unlabelled"] == 4
    assert results[0]["metrics"]["mse"] == pytest.approx(results[1]["metrics"]["mse"], rel=1e-12)
    given = arrow_csv.read_csv(tmp_path / "d-p.csv")
    assert given.num_rows == 400 and given["y"].null_count == 4
    assert given["prediction"].null_count == 3 == given["prediction"][:3].null_count
    kept = given.filter(pa.compute.is_valid(given["y"]))["prediction"].to_numpy()
    np.testing.assert_allclose(
        kept, arrow_csv.read_csv(tmp_path / "full-p.csv")["prediction"], atol=1e-12, rtol=1e-7
    )
    none = tmp_path / "none.csv"
    none.write_text("a,y\n1,\n2,\n")
    code, _, err = call(capsys, "run", none, "-t", "y", "-a", "fogd")
    assert code == 2 and "no row with a label" in err


def test_standard_input_and_libsvm(capsys, monkeypatch, folder, tmp_path):
    data = (folder / "data.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    options = ["-t", "y", "-a", "pkawv-taylor", "--columns", "a", "--json"]
    piped = json.loads(call(capsys, "run", "-", *options)[1])
    filed = json.loads(call(capsys, "run", folder / "data.csv", *options)[1])
    assert piped["metrics"] == filed["metrics"] and piped["rows"] == ROWS
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[data], daemon=True)
    writer.start()
    checkpoint = ["--checkpoint", tmp_path / "checkpoint"]
    named = json.loads(call(capsys, "run", pipe, *options, *checkpoint)[1])
    writer.join(10)
    assert named["metrics"] == filed["metrics"]
    path = tmp_path / "d.libsvm"
    path.write_text("".join(f"{1 if i % 2 else -1} 1:{i % 2} 3:0.5\n" for i in range(50)))
    found = json.loads(call(capsys, "run", path, "-a", "fogd", "--json")[1])
    assert found["target"] == "label" and found["columns"] == ["1", "2", "3"]
    assert found["metrics"]["error"] < 0.1


def test_a_query(capsys, tmp_path, folder, table):
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "data.sqlite") as connection:
        connection.execute("CREATE TABLE t (i INTEGER, a REAL, y REAL)")
        rows = zip(range(ROWS), table["a"].to_pylist(), table["y"].to_pylist(), strict=True)
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    address = f"adbc:adbc_driver_sqlite:file://{tmp_path / 'data.sqlite'}"
    query = ["--query", "SELECT a, y FROM t ORDER BY i"]
    options = ["-t", "y", "-a", "pkawv-taylor", "--columns", "a", "--json"]
    model = tmp_path / "model"
    asked = json.loads(call(capsys, "run", address, *query, *options, "--save", model)[1])
    filed = json.loads(call(capsys, "run", folder / "data.csv", *options)[1])
    assert asked["file"] == address and asked["rows"] == ROWS
    assert asked["metrics"] == pytest.approx(filed["metrics"])
    query = ["--query", f"SELECT a FROM '{folder / 'other.parquet'}'"]
    asked = call(capsys, "predict", model, ":memory:", *query)[1]
    assert asked == call(capsys, "predict", model, folder / "other.parquet")[1]


def test_a_file_without_header(capsys, tmp_path, folder):
    lines = (folder / "data.csv").read_text().splitlines(keepends=True)
    (tmp_path / "nameless.csv").write_text("".join(lines[1:]))
    given = []
    for path, target, column, more in [
        (folder / "data.csv", "y", "a", []),
        (tmp_path / "nameless.csv", "x3", "x0", ["--no-header"]),
    ]:
        model = tmp_path / "model"
        options = ["-t", target, "-a", "pkawv-taylor", "--columns", column, "--save", model, *more]
        run = json.loads(call(capsys, "run", path, *options, "--json")[1])
        assert run["columns"] == [column]
        code, out, _ = call(capsys, "predict", model, path, "-t", target, *more)
        assert code == 0
        given.append((run["metrics"], out))
    assert given[0] == given[1]


def test_exit_codes_are_in_the_help(capsys):
    for arguments in (["--help"], ["run", "--help"], ["predict", "--help"]):
        out = call(capsys, *arguments)[1]
        assert "Exit codes" in out and "130" in out and "143" in out


@pytest.mark.parametrize("words, expected", [("pronk pre", "predict"), ("pronk ins", "inspect")])
def test_a_shell_completes(capsys, monkeypatch, words, expected):
    given = {"_PRONK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert call(capsys)[1].split() == [expected]


def commands(group, words=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name)


def test_every_command_has_json(capsys):
    for words in commands(get_command(app)):
        assert "--json" in call(capsys, *words, "--help")[1], words


def test_json_is_one_document_and_all_of_stdout(capsys, tmp_path, folder, model):
    options = ["-t", "y", "--columns", "a", "-a", "kernel-awv"]  # its memory grows: a note
    for arguments in (
        ["run", folder / "data.csv", *options, "--checkpoint", tmp_path / "checkpoint"],
        ["run", folder / "data.csv", *options, "--checkpoint", tmp_path / "checkpoint"],
        ["predict", model, folder / "data.csv", "-o", tmp_path / "p.csv"],
        ["inspect", model],
        ["inspect", tmp_path / "checkpoint"],
        ["algorithms"],
        ["demo", "--rows", "300", "--output", tmp_path / "demo"],
    ):
        code, out, err = call(capsys, *arguments, "--json")
        assert code == 0, err
        assert isinstance(json.loads(out), dict)
