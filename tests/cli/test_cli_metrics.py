"""`pronk run`: metrics, recent ones, --metrics FILE, drift alarms, errors above the baseline."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from sklearn import metrics as sk

from helpers import pronk_run as call
from pronk.data import stream

ROWS = 1200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, ROWS))
    # From row 800 on numbers and labels that no learner gets used to.
    read = np.where(np.arange(ROWS) < 800, a, rng.uniform(-1, 1, ROWS))
    kind = np.where(read > 0, "up", "down")
    table = pa.table({"a": a, "b": b, "y": 3 * read + b, "kind": kind})
    arrow_csv.write_csv(table, folder / "data.csv")
    return folder


def test_all_metrics_are_those_of_the_predictions(capsys, tmp_path, folder):
    file = tmp_path / "p.csv"
    code, out, err = call(
        capsys, "run", folder / "data.csv", "-t", "kind", "--columns", "a,b", "--window", 200,
        "--predictions", file, "--report", tmp_path / "r.html", "--json",
    )  # fmt: skip
    result = json.loads(out)
    assert code == 0 and "drift: the loss rose since row" in err
    assert "ADWIN monitors the error rate" in (tmp_path / "r.html").read_text(encoding="utf-8")
    rows = list(csv.DictReader(file.open()))
    assert rows[0]["prediction"] == "" and result["unpredicted"] == 1
    y = np.array([row["y"] for row in rows[1:]])
    named = np.array([row["prediction"] for row in rows[1:]])
    assert result["metrics"]["error"] == pytest.approx(np.mean(y != named))
    labels = ["down", "up"]
    f1 = sk.f1_score(y, named, labels=labels, average="macro")
    assert result["metrics"]["f1"] == pytest.approx(f1, rel=1e-12)
    recent = result["recent"]
    assert recent["rows"] == 200
    assert recent["kappa"] == pytest.approx(sk.cohen_kappa_score(y[-200:], named[-200:]))
    up = np.array([float(row["p_up"] or "nan") for row in rows[1:]])
    assert recent["auc"] == pytest.approx(sk.roc_auc_score(y[-200:] == "up", up[-200:]))
    assert result["confusion"]["labels"] == labels
    assert sum(map(sum, result["confusion"]["matrix"])) == ROWS - 1  # the first has no prediction
    assert set(result["baseline"]) == set(result["metrics"])
    assert 800 <= result["drift"][0]["row"] < 950 and not result["worse"]


@pytest.mark.parametrize("ending", [".csv", ".ndjson"])
def test_metrics_are_written_during_the_run(capsys, tmp_path, folder, monkeypatch, ending):
    monkeypatch.setattr(stream, "BLOCK_ROWS", 256)
    file = tmp_path / f"m{ending}"
    arguments = ["run", folder / "data.csv", "-t", "y", "-a", "fogd", "--columns", "a,b", "--json"]
    options = ["--metrics", file, "--metrics-every", 300, "--predictions", tmp_path / "p.csv"]
    code, out, _ = call(capsys, *arguments, *options)
    assert code == 0 and json.loads(out)["metrics_file"] == str(file)
    if ending == ".csv":
        rows = list(csv.DictReader(file.open()))
    else:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [int(row["rows"]) for row in rows] == [300, 600, 900, 1200]
    final = json.loads(out)["metrics"]
    assert float(rows[-1]["mse"]) == pytest.approx(final["mse"], rel=1e-12)
    assert all(float(row["recent_r2"]) <= 1 and row["time"] for row in rows)
    # Records in between take no predictions away.
    given = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert [int(row["row"]) for row in given] == list(range(ROWS))


def test_metrics_resume_from_a_checkpoint(capsys, tmp_path, folder, monkeypatch):
    monkeypatch.setattr(stream, "BLOCK_ROWS", 256)
    arguments = [
        "run", folder / "data.csv", "-t", "y", "-a", "fogd", "--columns", "a,b", "--metrics",
        tmp_path / "m.csv", "--metrics-every", 100, "--checkpoint", tmp_path / "c",
        "--checkpoint-every", 300,
    ]  # fmt: skip

    from pronk.cli import run_loop

    feed = run_loop.RunLoop._block

    def stop(self, block):
        feed(self, block)
        if self.position >= 800:
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(run_loop.RunLoop, "_block", stop)
        assert call(capsys, *arguments)[0] == 1
    code, _, err = call(capsys, *arguments)
    assert code == 0 and "resumes after 512 rows" in err
    rows = [int(row["rows"]) for row in csv.DictReader((tmp_path / "m.csv").open())]
    assert rows == list(range(100, ROWS + 1, 100))


def test_the_screen_shows_recent_values_and_what_guessing_has(capsys, monkeypatch, folder):
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["run", folder / "data.csv", "-t", "y", "--columns", "a,b", "--window", 300]
    code, out, err = call(capsys, *arguments, "--interval", 0.9)
    assert code == 0 and "alarms at rows" in out
    for word in ("all rows", "last 300", "running mean", "median absolute error", "R2",
                 "loss curve",
                 "of the intervals contained y (nominal: 90%)"):  # fmt: skip
        assert word in out
    assert "worse than" not in err
    assert max(len(line) for line in out.splitlines()) <= 80


def test_worse_than_the_baseline_prints_a_warning(capsys, folder, tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=300), "y": rng.normal(size=300)})
    arrow_csv.write_csv(table, tmp_path / "noise.csv")
    code, out, err = call(
        capsys, "run", tmp_path / "noise.csv", "-t", "y", "-a", "fogd", "-p", "eta=0.9", "--json"
    )
    assert code == 0 and json.loads(out)["worse"]
    assert "note: worse than the running mean: mean squared error" in err and "against" in err


def test_worse_than_the_last_value_prints_a_warning_after_five_rows(capsys, tmp_path):
    (tmp_path / "few.csv").write_text("a,y\n3,100\n9,101\n1,102\n4,103\n2,104\n")
    code, out, err = call(
        capsys, "run", tmp_path / "few.csv", "-t", "y", "--task", "regression", "--json"
    )
    assert code == 0 and "last value" in {one["baseline"] for one in json.loads(out)["worse"]}
    assert "note: worse than the last value: mean squared error" in err


def test_control_characters_do_not_reach_the_terminal(capsys, tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n1,\x1b[2Jx\n2,\x1b[2Jx\n")
    code, _, err = call(capsys, "run", tmp_path / "d.csv", "-t", "y")
    assert code == 2 and "\x1b" not in err and "\\x1b[2Jx" in err
