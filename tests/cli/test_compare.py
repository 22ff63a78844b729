"""`pronk compare` from end to end on small files, and their errors."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest

from helpers import pronk_run

ROWS = 300


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
    chosen = ["--target", target, "--algorithms", algorithms, *drops, "--workers", 1, "--runs", 2]
    return ["compare", file, *chosen, *(["--output", out] if out else []), *more]


def test_the_table_has_everyone_and_fits_80_columns(capsys, monkeypatch, tmp_path, file):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = pronk_run(capsys, *arguments(file, tmp_path / "out"))
    assert (code, err) == (0, "")
    for word in (
        "pkawv-taylor",
        "fogd",
        "running mean",
        "last value",
        "±",
        "µs per row",
        "300 rows",
        "2 runs",
    ):
        assert word in out
    table = [line for line in out.splitlines() if "results:" not in line]
    assert max(map(len, table)) <= 80


def test_json_and_what_is_kept(capsys, tmp_path, file):
    command = arguments(file, tmp_path, "--json", "--order", "random", target="word")
    code, out, err = pronk_run(capsys, *command)
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert set(result) == {
        "file", "target", "columns", "task", "rows", "unlabelled", "unpredicted", "order", "scale",
        "runs", "runs_not_done", "seed", "learners", "baseline", "repeat_last", "results", "report",
        "made",
    }  # fmt: skip
    assert result["task"] == "classification" and result["rows"] == ROWS
    assert [set(one["metrics"]) for one in result["learners"]] == [{"error"}] * 2
    assert all(one["runs"] == 2 for one in [*result["learners"], result["baseline"]])
    assert result["repeat_last"]["name"] == "last label" and result["repeat_last"]["runs"] == 2
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(lines) == 8
    assert all({"settings", "seed", "made", "result", "view"} <= set(line) for line in lines)
    before = (tmp_path / "records.jsonl").read_bytes()
    code, again, _ = pronk_run(capsys, *command)
    assert code == 0 and json.loads(again) == result  # also the times: nothing was run
    assert (tmp_path / "records.jsonl").read_bytes() == before
    code, fresh, _ = pronk_run(capsys, *command, "--fresh")
    losses = [[one["metrics"] for one in json.loads(text)["learners"]] for text in (out, fresh)]
    assert losses[0] == losses[1]
    assert (tmp_path / "records.jsonl").read_bytes() != before


def test_more_runs_use_the_records_of_earlier_ones(capsys, monkeypatch, tmp_path, file):
    from pronk.evaluate import comparison_run

    ran, plain = [], comparison_run._run
    monkeypatch.setattr(comparison_run, "_run", lambda job: ran.append(job.seed) or plain(job))
    pronk_run(capsys, *arguments(file, tmp_path))
    assert sorted(ran) == [0, 0, 0, 0, 1, 1]
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
    assert (tmp_path / "pronk-results" / "data-y" / "records.jsonl").is_file()


def test_a_report_with_the_run_and_again_from_kept_runs(capsys, tmp_path, file):
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    assert pronk_run(capsys, *arguments(file, tmp_path / "out", "--report", first))[0] == 0
    records = (tmp_path / "out" / "records.jsonl").read_bytes()
    again = arguments(file, tmp_path / "out", "--report", second)
    assert pronk_run(capsys, *again)[0] == 0
    assert (tmp_path / "out" / "records.jsonl").read_bytes() == records
    assert first.read_text() == second.read_text()


# -- columns and rows that need care ---------------------------------------------------------------


@pytest.fixture(scope="module")
def rough(tmp_path_factory):
    """Categories, missing values and rows without a label."""
    rng = np.random.default_rng(1)
    a, city = rng.uniform(size=ROWS), rng.choice(["Rome", "Oslo", "Lima"], ROWS)
    y = np.sin(6 * a) + (city == "Rome")
    table = {
        "a": pa.array(a, mask=np.arange(ROWS) % 9 == 0),
        "city": city.tolist(),
        "y": pa.array(y, mask=np.arange(ROWS) % 7 == 3),
        "word": pa.array(np.where(y > 0.5, "up", "down").tolist(), mask=np.arange(ROWS) % 5 == 0),
    }
    path = tmp_path_factory.mktemp("data") / "rough.csv"
    arrow_csv.write_csv(pa.table(table), path)
    return path


@pytest.mark.thinned
@pytest.mark.parametrize("target, other, without", [("y", "word", 43), ("word", "y", 60)])
@pytest.mark.parametrize("encoding", [["hash"], ["onehot", "--slots", 4]])
def test_the_same_options_give_the_same_loss_as_a_run(
    capsys, tmp_path, rough, target, other, without, encoding
):
    options = ["--target", target, "--drop", other, "--categorical", "city", "--missing", "mean"]
    options += ["--encoding", *encoding, "--json"]
    names = ["pkawv-taylor", "online-kernel"]
    single = []
    for name in names:
        code, out, _ = pronk_run(capsys, "run", rough, "-a", name, *options)
        assert code == 0
        single.append(json.loads(out))
    code, out, err = pronk_run(
        capsys, "compare", rough, "-a", ",".join(names), "--runs", 1, "--workers", 1,
        "--output", tmp_path, *options,
    )  # fmt: skip
    assert (code, err) == (0, "")
    given = json.loads(out)
    assert (given["rows"], given["unlabelled"], given["columns"]) == (ROWS, without, ["a", "city"])
    compared = {one["name"]: one["metrics"] for one in given["learners"]}
    for one in single:
        assert one["unlabelled"] == without
        for metric, found in compared[one["algorithm"]].items():
            assert found["mean"] == pytest.approx(one["metrics"][metric], rel=1e-9)
    assert given["baseline"]["metrics"].keys() <= single[0]["baseline"].keys()


def test_a_random_order_takes_them_too(capsys, tmp_path, rough):
    code, out, err = pronk_run(
        capsys, "compare", rough, "-a", "fogd", "-t", "word", "--columns", "city,a", "--order",
        "random", "--runs", 2, "--workers", 1, "--missing", "mean", "--categorical", "city",
        "--output", tmp_path,
    )  # fmt: skip
    assert (code, err) == (0, "") and "60 without a label" in " ".join(out.split())


def test_a_directory_and_a_libsvm_file_are_compared(capsys, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    parts = tmp_path / "parts"
    parts.mkdir()
    for i, rows in enumerate(np.split(X, 2)):
        lines = [f"{'+1' if a > b else '-1'} 1:{a:.6f} 2:{b:.6f}\n" for a, b in rows]
        (parts / f"part-{i}.libsvm").write_text("".join(lines))
    common = ["-a", "pkawv-taylor", "--runs", 1, "--workers", 1, "--json", "--output"]
    code, out, _ = pronk_run(capsys, "compare", parts, *common, tmp_path / "one")
    assert code == 0
    both = json.loads(out)
    assert (both["rows"], both["target"], both["task"]) == (200, "label", "classification")
    records = tmp_path / "one" / "records.jsonl"
    digests = lambda: {json.loads(line)["view"]["digest"] for line in records.open()}  # noqa: E731
    before = digests()
    (parts / "part-1.libsvm").write_text("-1 1:0.5 2:0.25\n" * 100)
    assert pronk_run(capsys, "compare", parts, *common, tmp_path / "one")[0] == 0
    assert before < digests()


def test_a_query_and_a_file_without_names_are_compared(capsys, tmp_path, monkeypatch, file):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    common = ["-a", "pkawv-taylor", "--runs", 1, "--workers", 1, "--json", "--output"]
    query = f"SELECT a, b, y FROM '{file}'"
    code, out, _ = pronk_run(
        capsys, "compare", ":memory:", "--query", query, "-t", "y", *common, "query"
    )
    assert code == 0
    from_query = json.loads(out)
    bare = tmp_path / "bare.csv"
    table = arrow_csv.read_csv(file).select(["a", "b", "y"])
    arrow_csv.write_csv(table, bare, arrow_csv.WriteOptions(include_header=False))
    code, out, _ = pronk_run(capsys, "compare", bare, "--no-header", "-t", "x2", *common, "bare")
    assert code == 0
    without_names = json.loads(out)
    assert without_names["columns"] == ["x0", "x1"] and from_query["columns"] == ["a", "b"]
    metrics = [told["learners"][0]["metrics"] for told in (from_query, without_names)]
    assert metrics[0]["mse"]["mean"] == pytest.approx(metrics[1]["mse"]["mean"], rel=1e-9)


# -- errors: one line on stderr, exit code 2 -------------------------------------------------------


@pytest.mark.parametrize(
    "change, words",
    [
        (["--algorithms", "fogd,pkawv-tailor"], ["--algorithms", "did you mean 'pkawv-taylor'"]),
        (["--algorithms", "fogd,fogd"], ["--algorithms", "twice"]),
        (["--algorithms", " , "], ["--algorithms", "at least one"]),
        (["--algorithms", "perceptron"], ["perceptron does classification only", "--task"]),
        (["--target", "z"], ["--target", "no column 'z'"]),
        (["--categorical", "z"], ["--categorical", "no column 'z'"]),
        (["--columns", "a,c"], ["--columns", "no column 'c'"]),
        (["--slots", "1"], ["--slots"]),
        (["--report", "/dev/null/x.html"], ["--report", "no directory"]),
        (["-p", "alfa=1"], ["--param", "did you mean 'alpha'"]),
        (["-p", "fogd:etta=1"], ["--param", "did you mean 'eta'"]),
        (["-p", "nogd:eta=1"], ["--param", "'nogd'", "pkawv-taylor, fogd"]),
        (["-p", "eta"], ["--param", "key=value"]),
        (["-p", "fogd:eta=-1"], ["--param", "fogd", "eta"]),
        (["--runs", "0"], ["--runs"]),
        (["--workers", "0"], ["--workers"]),
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
    command = [
        "compare",
        file,
        "--strict",
        "-t",
        "y",
        "-a",
        "fogd",
        "--drop",
        "word",
        "--drop",
        "same",
    ]
    code, _, err = pronk_run(capsys, *command, "--output", tmp_path)
    assert code == 2 and err.count("\n") == 1
    assert "'name' is not numeric" in err and "--drop name" in err and "--categorical" in err


def test_a_missing_value_is_named_with_the_way_out(capsys, tmp_path, rough):
    code, _, err = pronk_run(
        capsys,
        "compare",
        rough,
        "--strict",
        "-t",
        "y",
        "-a",
        "fogd",
        "--columns",
        "a",
        "--output",
        tmp_path,
    )
    assert code == 2 and err.count("\n") == 1
    assert "'a' is missing or NaN at row 0" in err and "--missing mean" in err


def test_a_missing_target_and_missing_labels_are_reported(capsys, tmp_path):
    file = tmp_path / "none.csv"
    file.write_text("a,y\n1,\n2,\n")
    command = ["compare", file, "-a", "fogd", "--output", tmp_path / "out"]
    code, _, err = pronk_run(capsys, *command)
    assert code == 2 and "--target is missing" in err
    code, _, err = pronk_run(capsys, *command, "-t", "y")
    assert code == 2 and err.count("\n") == 1 and "no row has a label" in err


def test_what_can_be_read_only_once_is_refused(capsys, tmp_path):
    code, _, err = pronk_run(capsys, "compare", "-", "-t", "y", "-a", "fogd", "--output", tmp_path)
    assert code == 2 and "read only once" in err and err.count("\n") == 1


def test_a_wrong_task_is_refused(capsys, tmp_path, file):
    command = arguments(file, tmp_path, "--task", "regression", target="word")
    code, _, err = pronk_run(capsys, *command)
    assert code == 2 and err.count("\n") == 1
    assert "'word'" in err and "is text" in err and "--task classification" in err


def test_one_class_is_refused(capsys, tmp_path, file):
    code, _, err = pronk_run(capsys, *arguments(file, tmp_path, target="same"))
    assert code == 2 and err.count("\n") == 1
    assert "all 300 rows have the label one" in err


def test_a_bad_value_far_down_shows_before_the_first_run(capsys, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("a,y\n" + "1,2.5\n3,4.5\n" * 3000 + ",1.5\n")
    code, _, err = pronk_run(
        capsys, "compare", file, "--strict", "-t", "y", "-a", "fogd", "--output", tmp_path / "out"
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
        assert code == 2 and err.startswith("pronk: --output") and err.count("\n") == 1


def test_the_input_is_never_overwritten(capsys, tmp_path, file):
    before = file.read_bytes()
    code, _, err = pronk_run(capsys, *arguments(file, tmp_path, "--report", file))
    assert code == 2 and "input file" in err and file.read_bytes() == before


def test_a_failed_run_keeps_the_others(capsys, monkeypatch, tmp_path, file):
    from pronk.evaluate import comparison_run

    plain = comparison_run._run

    def broken(job):
        if job.label == "fogd" and job.seed == 1:
            raise ZeroDivisionError("no luck")
        return plain(job)

    monkeypatch.setattr(comparison_run, "_run", broken)
    code, out, err = pronk_run(capsys, *arguments(file, tmp_path))
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "fogd, seed 1: ZeroDivisionError: no luck" in err and "kept" in err
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) < 6


def test_damaged_records_are_reported_and_run_again(capsys, tmp_path, file):
    command = arguments(file, tmp_path, "--json")
    first = json.loads(pronk_run(capsys, *command)[1])
    records = tmp_path / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:-1]) + lines[-1][:100])  # a line that was cut off
    code, out, err = pronk_run(capsys, *command)
    assert code == 0 and "note: 1 line of" in err and err.count("\n") == 1
    again = json.loads(out)
    assert [one["metrics"] for one in again["learners"]] == [
        one["metrics"] for one in first["learners"]
    ]


KILLED = """
import os, signal
from pronk.evaluate import study
plain = study.Store.add

def kill(store, job, result):
    plain(store, job, result)
    if len(store._records) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

study.Store.add = kill
from pronk.cli import main
if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.slow
def test_a_killed_comparison_resumes(capsys, tmp_path, file):
    said = [str(argument) for argument in arguments(file, tmp_path / "out", "--json")]
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    # The pipe ends when the last process that was started has ended.
    process = subprocess.run([sys.executable, script, *said, "--workers", "2"], capture_output=True)
    assert process.returncode == -signal.SIGKILL
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 2
    code, out, err = pronk_run(capsys, *said)
    assert (code, err) == (0, "")
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 6
    whole = json.loads(pronk_run(capsys, *arguments(file, tmp_path / "whole", "--json"))[1])
    assert [one["metrics"] for one in json.loads(out)["learners"]] == [
        one["metrics"] for one in whole["learners"]
    ]


INTERRUPTED = """
import os, signal
from pronk.evaluate import comparison_run
plain = comparison_run._run

def interrupt(job):
    if job.seed:
        os.kill(os.getpid(), signal.SIGINT)
    return plain(job)

comparison_run._run = interrupt
from pronk.cli import main
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="POSIX signals")
@pytest.mark.slow
def test_a_signal_stops_a_real_process_in_one_line(tmp_path, file):
    said = [str(argument) for argument in arguments(file, tmp_path)]
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *said], capture_output=True, text=True
    )
    assert process.returncode == 130 and process.stdout == ""
    assert process.stderr.count("\n") == 1 and "the same command resumes" in process.stderr
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 4
