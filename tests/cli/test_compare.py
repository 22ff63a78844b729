"""`pronk compare` and `pronk report` from end to end on small files, and their errors."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest

from pronk.cli import main

ROWS = 300


def pronk_run(capsys, *arguments):
    """The exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, [1, 100], (ROWS, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] / 100
    path = tmp_path_factory.mktemp("data") / "data.csv"
    table = {
        "a": X[:, 0], "b": X[:, 1], "name": [f"row {i}" for i in range(ROWS)], "y": y,
        "word": np.where(y > 0.5, "up", "down"), "same": ["one"] * ROWS,
    }  # fmt: skip
    arrow_csv.write_csv(pa.table(table), path)
    return path


def arguments(file, out, *more, target="y", algorithms="pkawv-taylor,fogd"):
    others = [name for name in ("name", "y", "word", "same") if name != target]
    drops = [part for name in others for part in ("--drop", name)]
    chosen = ["--target", target, "--algorithms", algorithms, *drops, "--jobs", 1, "--runs", 2]
    return ["compare", file, *chosen, *(["--out", out] if out else []), *more]


def test_the_table_has_everyone_and_fits_80_columns(capsys, monkeypatch, tmp_path, file):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = pronk_run(capsys, *arguments(file, tmp_path / "out"))
    assert (code, err) == (0, "")
    for word in ("pkawv-taylor", "fogd", "running mean", "±", "us a row", "300 rows", "2 runs"):
        assert word in out
    table = [line for line in out.splitlines() if "results:" not in line]
    assert max(map(len, table)) <= 80


def test_json_and_what_is_kept(capsys, tmp_path, file):
    command = arguments(file, tmp_path, "--json", "--order", "random", target="word")
    code, out, err = pronk_run(capsys, *command)
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert set(result) == {
        "file", "target", "columns", "task", "rows", "order", "scale", "runs", "seed", "learners",
        "baseline", "results", "report", "made",
    }  # fmt: skip
    assert result["task"] == "classification" and result["rows"] == ROWS
    assert [set(one["metrics"]) for one in result["learners"]] == [{"error"}] * 2
    assert all(one["runs"] == 2 for one in [*result["learners"], result["baseline"]])
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    assert all({"settings", "seed", "made", "result", "view"} <= set(line) for line in lines)
    before = (tmp_path / "records.jsonl").read_bytes()
    code, again, _ = pronk_run(capsys, *command)
    assert code == 0 and json.loads(again) == result  # also the times: nothing was run
    assert (tmp_path / "records.jsonl").read_bytes() == before
    code, fresh, _ = pronk_run(capsys, *command, "--fresh")
    losses = [[one["metrics"] for one in json.loads(text)["learners"]] for text in (out, fresh)]
    assert losses[0] == losses[1]
    assert (tmp_path / "records.jsonl").read_bytes() != before


def test_more_runs_go_on_from_those_that_are_there(capsys, monkeypatch, tmp_path, file):
    from pronk.evaluate import comparison

    ran, plain = [], comparison._walk
    monkeypatch.setattr(comparison, "_walk", lambda job: ran.append(job.seed) or plain(job))
    pronk_run(capsys, *arguments(file, tmp_path))
    assert sorted(ran) == [0, 0, 0, 1, 1]
    ran.clear()
    assert pronk_run(capsys, *arguments(file, tmp_path, "--runs", 3))[0] == 0
    assert ran == [2, 2]


def test_parameters_for_one_and_for_all(capsys, tmp_path, file):
    more = ["-p", "bandwidth=0.5", "-p", "small:n_features=10", "-p", "degree=3", "--json"]
    names = "small=fogd,large=fogd,pkawv-taylor"
    code, out, _ = pronk_run(capsys, *arguments(file, tmp_path, *more, algorithms=names))
    assert code == 0
    params = {one["name"]: one["params"] for one in json.loads(out)["learners"]}
    assert params["small"]["n_features"] == 10 != params["large"]["n_features"]
    assert {one["kernel__bandwidth"] for one in params.values()} == {0.5}
    assert params["pkawv-taylor"]["degree"] == 3 and "degree" not in params["large"]


def test_results_go_to_a_directory_of_the_name(capsys, monkeypatch, tmp_path, file):
    monkeypatch.chdir(tmp_path)
    assert pronk_run(capsys, *arguments(file, None))[0] == 0
    assert (tmp_path / "pronk-results" / "data-y" / "comparison.json").is_file()


def test_a_report_with_the_run_and_again_without(capsys, tmp_path, file):
    pytest.importorskip("vl_convert")
    first, second, figures = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "figures"
    command = arguments(file, tmp_path / "out", "--report", first)
    assert pronk_run(capsys, *command)[0] == 0
    code, out, err = pronk_run(
        capsys, "report", tmp_path / "out", "-o", second, "--figures", figures
    )
    assert (code, err) == (0, "") and "written" in out
    assert first.read_text() == second.read_text()
    assert {"loss.png", "loss.svg"} <= {path.name for path in figures.iterdir()}
    assert pronk_run(capsys, "report", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "report.html").is_file()


# -- errors: one line on stderr, exit code 2 -------------------------------------------------------


@pytest.mark.parametrize(
    "change, words",
    [
        (["--algorithms", "fogd,pkawv-tailor"], ["--algorithms", "did you mean 'pkawv-taylor'"]),
        (["--algorithms", "fogd,fogd"], ["--algorithms", "twice"]),
        (["--algorithms", " , "], ["--algorithms", "at least one"]),
        (["--algorithms", "perceptron"], ["perceptron does classification only", "--task"]),
        (["--target", "z"], ["--target", "no column 'z'"]),
        (["-p", "alfa=1"], ["--param", "did you mean 'alpha'"]),
        (["-p", "fogd:etta=1"], ["--param", "did you mean 'eta'"]),
        (["-p", "nogd:eta=1"], ["--param", "'nogd'", "pkawv-taylor, fogd"]),
        (["-p", "eta"], ["--param", "key=value"]),
        (["-p", "fogd:eta=-1"], ["--param", "fogd", "eta"]),
        (["--runs", "0"], ["--runs"]),
        (["--jobs", "0"], ["--jobs"]),
        (["--order", "sorted"], ["--order", "sorted"]),
        (["--task", "sorting"], ["--task", "sorting"]),
        (["--report", "."], ["--report", "is a directory"]),
        (["--report", "no/where.html"], ["--report", "no directory"]),
    ],
)
def test_a_wrong_option_is_named(capsys, monkeypatch, tmp_path, file, change, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = pronk_run(capsys, *arguments(file, "out", *change))
    assert (code, out) == (2, "")
    assert err.startswith("pronk: ") and err.count("\n") == 1 and "Traceback" not in err
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == []  # nothing was written


def test_a_column_of_text_is_named_with_the_way_out(capsys, tmp_path, file):
    command = ["compare", file, "-t", "y", "-a", "fogd", "--drop", "word", "--drop", "same"]
    code, _, err = pronk_run(capsys, *command, "--out", tmp_path)
    assert code == 2 and err.count("\n") == 1
    assert "'name' is not numeric" in err and "--drop name" in err


def test_one_class_is_refused(capsys, tmp_path, file):
    code, _, err = pronk_run(capsys, *arguments(file, tmp_path, target="same"))
    assert code == 2 and err.count("\n") == 1
    assert "all 300 rows have the label one" in err


def test_a_bad_value_far_down_shows_before_the_first_run(capsys, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("a,y\n" + "1,2.5\n3,4.5\n" * 3000 + ",1.5\n")
    code, _, err = pronk_run(
        capsys, "compare", file, "-t", "y", "-a", "fogd", "--out", tmp_path / "out"
    )
    assert code == 2 and "'a' is missing or NaN at row 6000" in err
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(capsys, tmp_path, file):
    code, _, err = pronk_run(capsys, *arguments(file.with_name("dat.csv"), tmp_path))
    assert code == 2 and "does not exist; did you mean" in err and err.count("\n") == 1


def test_a_directory_that_cannot_be_written_is_named(capsys, tmp_path, file):
    (tmp_path / "taken").write_text("")
    for out in ("taken", "taken/below"):
        code, _, err = pronk_run(capsys, *arguments(file, tmp_path / out))
        assert code == 2 and err.startswith("pronk: --out") and err.count("\n") == 1
    code, _, err = pronk_run(capsys, *arguments(file, None, "--figures", tmp_path / "taken"))
    assert code == 2 and "--figures" in err


def test_the_input_is_never_overwritten(capsys, tmp_path, file):
    before = file.read_bytes()
    code, _, err = pronk_run(capsys, *arguments(file, tmp_path, "--report", file))
    assert code == 2 and "input file" in err and file.read_bytes() == before


def test_a_failed_run_keeps_the_others(capsys, monkeypatch, tmp_path, file):
    from pronk.evaluate import comparison

    plain = comparison._walk

    def broken(job):
        if job.label == "fogd" and job.seed == 1:
            raise ZeroDivisionError("no luck")
        return plain(job)

    monkeypatch.setattr(comparison, "_walk", broken)
    code, out, err = pronk_run(capsys, *arguments(file, tmp_path))
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "fogd, seed 1: ZeroDivisionError: no luck" in err and "kept" in err
    code, out, _ = pronk_run(capsys, "report", tmp_path, "--figures", tmp_path / "figures")
    assert code == 0 and "1 run is not done" in out


@pytest.mark.parametrize("where", ["none", "."])
def test_a_report_of_nothing_is_refused(capsys, monkeypatch, tmp_path, where):
    monkeypatch.chdir(tmp_path)
    code, out, err = pronk_run(capsys, "report", where, "-o", "r.html")
    assert (code, out) == (2, "") and err.count("\n") == 1 and "pronk compare" in err


INTERRUPTED = """
import os, signal
from pronk.evaluate import comparison
plain = comparison._walk

def interrupt(job):
    if job.seed:
        os.kill(os.getpid(), signal.SIGINT)
    return plain(job)

comparison._walk = interrupt
from pronk.cli import main
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="POSIX signals")
def test_a_signal_stops_a_real_process_in_one_line(tmp_path, file):
    said = [str(argument) for argument in arguments(file, tmp_path)]
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *said], capture_output=True, text=True
    )
    assert process.returncode == 130 and process.stdout == ""
    assert process.stderr.count("\n") == 1 and "the same command goes on" in process.stderr
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 3
