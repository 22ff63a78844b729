"""Several targets, `-t y1,y2`: run, predictions, metrics, report, save, resume, predict."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

import pronk
from helpers import pronk_run
from pronk.data import FileStream

ROWS = 150
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (ROWS, 2))
Y = np.column_stack((np.sin(3 * X[:, 0]), 100 + X[:, 1]))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.csv"
    lacking = [None if i % 40 == 7 else v for i, v in enumerate(Y[:, 1].tolist())]
    word = np.where(X[:, 0] > 0, "up", "down")
    columns = {"a": X[:, 0], "b": X[:, 1], "y1": Y[:, 0], "y2": lacking, "word": word}
    arrow_csv.write_csv(pa.table(columns), path)
    return path


def given(path):
    with path.open() as text:
        return list(csv.DictReader(text))


def test_each_target_has_its_columns_and_metrics(capsys, tmp_path, file):
    out = tmp_path / "p.csv"
    code, said, err = pronk_run(
        capsys, "run", file, "-t", "y1,y2", "--drop", "word", "--predictions", out, "--keep", "a",
        "--interval", "0.8", "--metrics", tmp_path / "m.csv", "--metrics-every", 50,
        "--report", tmp_path / "page.html", "--json",
    )  # fmt: skip
    assert code == 0, err
    found, rows = json.loads(said), given(out)
    assert list(rows[0]) == [
        "row", "a", "y_y1", "y_y2", "prediction_y1", "prediction_y2", "low_y1", "high_y1",
        "low_y2", "high_y2",
    ]  # fmt: skip
    # A row that lacks one of its targets is predicted only.
    lack = np.arange(ROWS) % 40 == 7
    assert found["unlabelled"] == lack.sum() and [r["y_y1"] == "" for r in rows] == lack.tolist()
    assert rows[0]["prediction_y1"] == rows[0]["prediction_y2"] == ""
    assert found["unpredicted"] == 1
    names = "prediction_y1", "prediction_y2"
    P = np.array([[float(r[name] or "nan") for name in names] for r in rows])
    learner = pronk.OnlineKernelRegressor(random_state=0)
    expected = learner.predict_then_learn(X[~lack], Y[~lack])
    np.testing.assert_allclose(P[~lack][1:], expected[1:], rtol=1e-6, atol=1e-6)
    lack[0] = True  # it is not scored
    for i, name in enumerate(("y1", "y2")):
        own = found["targets"][name]
        assert own["mae"] == pytest.approx(mean_absolute_error(Y[~lack, i], P[~lack, i]))
        assert own["r2"] == pytest.approx(r2_score(Y[~lack, i], P[~lack, i]))
    means = [np.mean([found["targets"][name]["mse"] for name in ("y1", "y2")])]
    assert found["metrics"]["mse"] == pytest.approx(*means)
    last = given(tmp_path / "m.csv")[-1]
    assert float(last["mae_y2"]) == pytest.approx(found["targets"]["y2"]["mae"], rel=0.5)
    page = (tmp_path / "page.html").read_text()
    assert ">y1<" in page and ">y2<" in page


def test_the_screen_has_a_line_a_target(capsys, file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = pronk_run(
        capsys, "run", file, "-t", "y1, y2", "--drop", "word", "-a", "fogd", "--delay", 3
    )
    assert [line.split()[0] for line in out.splitlines() if line.startswith("y")] == ["y1", "y2"]


@pytest.mark.parametrize("algorithm", [[], ["-a", "pros-n-kons"]])
def test_a_saved_model_resumes_and_predicts(capsys, tmp_path, file, algorithm):
    model, whole = tmp_path / "model.pronk", tmp_path / "whole.csv"
    options = ["--drop", "word", *algorithm]
    run = ["run", file, "-t", "y1,y2", *options]
    assert pronk_run(capsys, *run, "--limit", 60, "--save", model)[0] == 0
    first = pronk.load(model)
    later = tmp_path / "later.csv"
    lines = file.read_text().splitlines(keepends=True)
    later.write_text("".join([lines[0], *lines[61:]]))
    code, said, _ = pronk_run(capsys, "run", later, "--model", model, "--json")
    gone_on = json.loads(said)
    assert code == 0 and gone_on["target"] == "y1,y2"
    if not algorithm:  # the bandwidth of the others is that of the first rows
        _, said, _ = pronk_run(capsys, *run, "--json")
        for name, own in json.loads(said)["targets"].items():
            assert gone_on["targets"][name] == pytest.approx(own)
    frame = pa.table({"a": X[:, 0], "b": X[:, 1]})
    assert first.predict(frame).shape == (ROWS, 2)
    code, said, _ = pronk_run(capsys, "predict", model, later, "-o", whole)
    assert code == 0 and list(given(whole)[0]) == ["row", "prediction_y1", "prediction_y2"]
    code, said, _ = pronk_run(capsys, "predict", model, later, "-o", whole, "-t", "y1,y2", "--json")
    assert code == 0 and json.loads(said)["metrics"]["mae"] < 5
    code, _, err = pronk_run(capsys, "predict", model, later, "-o", whole, "-t", "y1")
    assert code == 2 and "names 1" in err and "2 targets, y1,y2" in err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["-t", "y1,y3"], "no column 'y3'; it has"),
        (["-t", "y1,word"], "column 'word' of"),
        (["-t", "y1,y2", "--drop", "word", "--task", "classification"], "one label at a time"),
        (["-t", "y1,y2", "--keep", "y2", "--predictions", "x.csv"], "'y2' is the target"),
        (["-t", "y1,y2", "--by", "word"], "--by supports one target"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, file, arguments, words):
    code, _, err = pronk_run(capsys, "run", file, *arguments)
    assert code == 2 and words in err and len(err.splitlines()) == 1


def test_a_comparison_has_one_target(capsys, file):
    code, _, err = pronk_run(capsys, "compare", file, "-t", "y1,y2", "--drop", "word")
    assert code == 2 and "one target" in err


def test_a_name_with_a_comma_is_one_target(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text('a,"y1,y2"\n' + "".join(f"{i},{i / 7}\n" for i in range(30)))
    stream = FileStream(path, "y1,y2")
    assert stream.targets == ["y1,y2"] and next(iter(stream))[1].shape == (30,)
