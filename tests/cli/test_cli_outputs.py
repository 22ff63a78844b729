"""Outputs of `pronk run` and `pronk predict`: probabilities, intervals, columns of the input."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

import pronk
from helpers import pronk_run as call
from pronk.cli.outputs import csv_lines, harmless_text, json_lines
from pronk.data import FileStream
from pronk.data import stream as files

ROWS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, ROWS))
    kind = np.where(a * b > 0, "same", "different")
    kind[250:] = np.where(a[250:] > 0.5, "third", kind[250:])
    ids = [f"{i:04d}" for i in range(ROWS)]
    table = pa.table({"id": ids, "a": a, "b": b, "y": np.sin(3 * a) + b, "kind": kind})
    arrow_csv.write_csv(table, folder / "data.csv")
    parquet.write_table(table, folder / "data.parquet")
    return folder


def xs(folder):
    table = parquet.read_table(folder / "data.parquet")
    return np.column_stack([table["a"], table["b"]]), table


def read(path):
    if path.suffix == ".parquet":
        return parquet.read_table(path)
    if path.suffix == ".csv":
        types = {"id": pa.string()}
        kinds = arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        return arrow_csv.read_csv(path, convert_options=kinds)
    return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])


@pytest.mark.parametrize("ending", [".csv", ".ndjson", ".parquet"])
def test_probabilities_and_kept_columns(capsys, tmp_path, folder, ending):
    file = tmp_path / f"p{ending}"
    options = ["-t", "kind", "--columns", "a,b", "--keep", "id,b", "--json"]
    code, _, err = call(capsys, "run", folder / "data.csv", *options, "--predictions", file)
    assert (code, err) == (0, "")
    given = read(file)
    shares = ["p_different", "p_same", "p_third"]
    assert given.column_names == ["row", "id", "b", "y", "prediction", *shares]
    X, table = xs(folder)
    learner = pronk.make("online-kernel", "classification", random_state=0)
    # One row a call: the probabilities too are those before the label, in any cut.
    labels, expected = [], np.zeros((ROWS, 3))
    for i, label in enumerate(table["kind"].to_pylist()):
        named, row = learner.predict_then_learn(X[i : i + 1], [label], output="both")
        labels.append(named[0] or None)
        for name, share in zip(learner.classes_, row[0], strict=True):
            expected[i, shares.index(f"p_{name}")] = share
        if not i:
            expected[i] = np.nan
    assert given["prediction"].to_pylist() == labels
    found = np.column_stack([given[name].to_numpy() for name in shares])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found[1:].sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert given["id"].to_pylist() == table["id"].to_pylist()
    np.testing.assert_allclose(given["b"], table["b"], rtol=1e-12, atol=0)


def test_intervals_are_those_of_the_learner(capsys, tmp_path, folder):
    file, model = tmp_path / "p.parquet", tmp_path / "model"
    options = ["-t", "y", "--columns", "a,b", "--interval", 0.8, "--save", model]
    code, _, err = call(capsys, "run", folder / "data.parquet", *options, "--predictions", file)
    assert code == 0, err
    X, table = xs(folder)
    learner = pronk.make("online-kernel", random_state=0)
    y = table["y"].to_numpy()
    predictions, intervals = learner.predict_then_learn(X, y, interval=0.8)
    given = read(file)
    assert given.column_names == ["row", "y", "prediction", "low", "high"]
    assert given["prediction"][0].as_py() is None
    np.testing.assert_array_equal(given["prediction"][1:], predictions[1:])
    np.testing.assert_array_equal(np.column_stack([given["low"], given["high"]]), intervals)
    inside = (intervals[100:, 0] <= y[100:]) & (y[100:] <= intervals[100:, 1])
    assert 0.65 < inside.mean() < 0.95
    again = tmp_path / "again.csv"
    arguments = ["predict", model, folder / "data.csv", "--interval", 0.8, "--keep", "id"]
    code, _, err = call(capsys, *arguments, "-o", again)
    assert code == 0, err
    given = read(again)
    assert given.column_names == ["row", "id", "prediction", "low", "high"]
    expected = learner.predict_interval(X, coverage=0.8)
    np.testing.assert_allclose(given["low"], expected[:, 0], rtol=0, atol=1e-9)


def test_quantiles_are_those_of_the_learner(capsys, tmp_path, folder):
    file, model, levels = tmp_path / "p.parquet", tmp_path / "model", (0.1, 0.5, 0.95)
    options = ["-t", "y", "--columns", "a,b", "--quantiles", "0.1,0.5,0.95", "--interval", 0.8]
    command = ["run", folder / "data.parquet", *options, "--predictions", file, "--save", model]
    code, out, err = call(capsys, *command, "--json")
    assert code == 0, err
    X, table = xs(folder)
    learner = pronk.make("online-kernel", random_state=0)
    y = table["y"].to_numpy()
    found = learner.predict_then_learn(X, y, quantiles=levels)[1]
    given = read(file)
    names = ["q0.1", "q0.5", "q0.95"]
    assert given.column_names == ["row", "y", "prediction", "low", "high", *names]
    np.testing.assert_array_equal(np.column_stack([given[name] for name in names]), found)
    np.testing.assert_array_equal(given["low"], given["q0.1"])
    above = y[2:, None] - found[2:]
    losses = np.maximum(np.array(levels) * above, (np.array(levels) - 1) * above)
    summary = json.loads(out)
    assert summary["metrics"]["pinball"] == pytest.approx(losses.mean(), rel=1e-9)
    assert summary["metrics"]["crps"] > 0 and summary["interval_score"] > 0
    arguments = ["predict", model, folder / "data.csv", "--quantiles", "0.3"]
    code, _, err = call(capsys, *arguments, "-o", tmp_path / "again.csv")
    assert code == 0, err
    given = read(tmp_path / "again.csv")
    assert given.column_names == ["row", "prediction", "q0.3"]
    expected = learner.predict_quantiles(X, [0.3])[:, 0]
    np.testing.assert_allclose(given["q0.3"], expected, rtol=0, atol=1e-9)


def test_predictions_on_standard_output(capsys, folder):
    options = ["-t", "y", "-a", "fogd", "--columns", "a,b", "--limit", 5]
    code, out, err = call(capsys, "run", folder / "data.csv", *options, "--predictions", "-")
    assert code == 0 and "mean squared error" in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["row"] for row in rows] == ["0", "1", "2", "3", "4"]
    code, out, err = call(
        capsys, "run", folder / "data.csv", *options, "--predictions", "-", "--json"
    )
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 5 and json.loads(err)["rows"] == 5
    assert rows[0]["prediction"] == "" and lines[0]["prediction"] is None
    assert [one["prediction"] for one in lines[1:]] == [float(r["prediction"]) for r in rows[1:]]


def test_predict_writes_probabilities(capsys, tmp_path, folder):
    model = tmp_path / "model"
    options = ["-t", "kind", "--columns", "a,b", "--save", model]
    assert call(capsys, "run", folder / "data.csv", *options)[0] == 0
    code, out, _ = call(capsys, "predict", model, folder / "data.csv", "--limit", 7, "--json")
    assert code == 0
    found = [[json.loads(line)[f"p_{c}"] for c in ("different", "same", "third")]
             for line in out.splitlines()]  # fmt: skip
    expected = pronk.load(model).predict_proba(xs(folder)[0][:7])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    code, out, _ = call(
        capsys, "predict", model, folder / "data.csv", "--limit", 2, "--no-probabilities"
    )
    assert code == 0 and out.splitlines()[0] == '"row","prediction"'


def test_probabilities_of_a_run_can_be_left_out(capsys, tmp_path, folder):
    file, options = tmp_path / "p.csv", ["-t", "kind", "-a", "fogd", "-p", "loss=logistic"]
    command = ["run", folder / "data.csv", *options, "--drop", "id", "--predictions", file]
    assert call(capsys, *command)[0] == 0
    assert "p_same" in read(file).column_names
    assert call(capsys, *command, "--no-probabilities")[0] == 0
    assert read(file).column_names == ["row", "y", "prediction"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["-t", "y", "--interval", "1.5"], ["--interval", "coverage must lie in (0, 0.998]"]),
        (["-t", "y", "--quantiles", "0.1,2"], ["--quantiles", "[0.001, 0.999], got 2"]),
        (["-t", "y", "--quantiles", "low"], ["--quantiles: 'low' must be levels"]),
        (["-t", "kind", "--quantiles", "0.9"], ["--quantiles is for regression"]),
        (["-t", "y", "--quantiles", "0.9,0.9"], ["--quantiles: a level occurs twice"]),
        (["-t", "kind", "--interval", "0.9"], ["--interval is for regression"]),
        (["-t", "y", "-a", "fogd", "--interval", "0.9"], ["FOGDRegressor has no intervals"]),
        (["-t", "y", "--keep", "id"], ["--keep needs --predictions"]),
        (["-t", "y", "--keep", "idd", "--predictions", "-"], ["--keep", "did you mean 'id'"]),
        (
            ["-t", "y", "--checkpoint", "c", "--predictions", "-"],
            ["--predictions", "a .csv or .ndjson file"],
        ),
    ],
)
def test_wrong_outputs_are_refused_before_anything_is_written(
    capsys, tmp_path, monkeypatch, folder, arguments, words
):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "run", folder / "data.csv", "--columns", "a,b", *arguments)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    for word in words:
        assert word in err
    assert not list(tmp_path.iterdir())


def test_a_kept_column_may_not_take_a_name_of_ours(capsys, tmp_path):
    (tmp_path / "d.csv").write_text("row,a,y\n" + "1,2,3\n" * 10)
    code, _, err = call(
        capsys, "run", tmp_path / "d.csv", "-t", "y", "--keep", "row", "--predictions", "-"
    )
    assert code == 2 and "--keep: 'row'" in err


def test_cells_cannot_be_formulas():
    assert harmless_text("=cmd|'/C calc'!A0") == "'=cmd|'/C calc'!A0"
    assert harmless_text("@SUM(A1)") == "'@SUM(A1)" and harmless_text("\tx") == "'\tx"
    for word in ("-1", "+1.5", "-.5", "-1e-9", "+3E5", "+", "-", "++", "--", "=", "@home", "-inf"):
        assert harmless_text(word) == word
    assert harmless_text("+\n'x'!A1") == "'+\n'x'!A1" and harmless_text("==1") == "'==1"
    assert harmless_text("-1+cmd()") == "'-1+cmd()"
    assert harmless_text("a\x1b[31mred\x00\x9b") == "a\ufffd[31mred\ufffd\ufffd"
    cells = ["=1+1", "a,b", 'say "x"', "line\nend", "\x1b[2J", "-3", None, "ok", "Ünïcode"]
    batch = pa.record_batch([pa.array(cells), pa.array(range(9))], names=["=name", "n"])
    (header, *rows) = csv.reader(io.StringIO(csv_lines(batch, header=True).decode(), newline=""))
    assert header == ["'=name", "n"]
    assert [row[0] for row in rows] == [
        "'=1+1", "a,b", 'say "x"', "line\nend", "\ufffd[2J", "-3", "", "ok", "Ünïcode",
    ]  # fmt: skip
    # NDJSON keeps every value, and no raw control character.
    lines = json_lines(batch)
    assert [json.loads(line)["=name"] for line in lines.splitlines()] == cells
    assert b"\x1b" not in lines


def test_labels_that_are_signs_stay_as_they_are(capsys, tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=120)
    sign = np.where(a > 0, "+", "-")
    arrow_csv.write_csv(pa.table({"a": a, "sign": sign}), tmp_path / "d.csv")
    file = tmp_path / "p.csv"
    model = ["--save", tmp_path / "m.pronk"]
    call(capsys, "run", tmp_path / "d.csv", "-t", "sign", "--predictions", file, *model)
    given = read(file)
    assert given["y"].to_pylist() == sign.tolist()
    assert set(given["prediction"].to_pylist()) == {None, "+", "-"}
    assert given.column_names[-2:] == ["p_+", "p_-"]
    call(capsys, "predict", tmp_path / "m.pronk", tmp_path / "d.csv", "-o", file)
    assert set(read(file)["prediction"].to_pylist()) == {"+", "-"}


def test_labels_from_a_pipe_that_come_late(capsys, monkeypatch, tmp_path, folder):
    monkeypatch.setattr(files, "BLOCK_ROWS", 64)
    data = (folder / "data.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    file = tmp_path / "p.csv"
    code, _, err = call(capsys, "run", "-", "-t", "kind", "--columns", "a,b", "--predictions", file)
    assert code == 0 and "no column for the probability of third" in " ".join(err.split())
    assert read(file).column_names[-2:] == ["p_different", "p_same"]


def test_known_labels_are_those_within_the_limit(folder):
    stream = FileStream(folder / "data.csv", "kind", columns=["a"], limit=100)
    assert stream.known_labels().tolist() == ["different", "same"]
    stream = FileStream(folder / "data.csv", "kind", columns=["a"])
    assert stream.known_labels().tolist() == ["different", "same", "third"]
