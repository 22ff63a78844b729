"""`pronk run FILE -t y` with nothing else, on the kinds of files that people have.

The score shows that every column was read: without the wave of the hour, the category or the
number, R2 is below .9.
"""

import json

import numpy as np
import pandas as pd
import pytest

import kinds
import pronk
from helpers import pronk_run

#: What is printed for a kind, in this order.
SAID = {
    "european": ["columns separated by ';' and decimal commas"],
    "latin": ["not UTF-8 and is read as cp1252"],
    "repeated_header": ["2 rows were left out, because the header is repeated: first at row 499"],
    "nested": ["columns of lists are left out: 'place.tags'"],
    "identifiers": ["column 'id' is left out"],
    "long_text": ["column 'comment' is left out"],
    "odd_numbers": ["column 'size' does not read as a number in 16 rows", "first '-' at row 62"],
    "spreadsheet": ["column '' is left out", "1 row was left out, because 'Total'", "row 1500"],
    "newest_first": ["column 'time' runs backwards, so the rows are read from the last one on"],
    "codes": ["column 'city' has 4 different whole numbers"],
    "comments": ["runs of spaces and lines of comments"],
    "carriage_returns": ["lines that end in a carriage return"],
}


@pytest.mark.parametrize("name", kinds.KINDS)
def test_a_file_needs_no_option(capsys, tmp_path, name):
    code, out, err = pronk_run(capsys, "run", kinds.write(name, tmp_path), "-t", "y", "--json")
    assert code == 0, err
    found, least = json.loads(out), kinds.KINDS[name][2]
    metrics = found["metrics"]
    if least is not None:
        assert metrics.get("r2", 1.0 - metrics.get("error", 1.0)) >= least
    place = 0
    for text in SAID.get(name, []):
        place = " ".join(err.split()).index(text, place)
    left = [repr(column["name"]) for column in found["became"] if column["kind"] == "dropped"]
    assert all(name in err for name in left), "columns are left out without a word"


@pytest.mark.parametrize("name", ["european", "lines", "nested", "codes", "only_y", "spreadsheet"])
def test_a_saved_model_reads_such_a_file_again(capsys, tmp_path, name):
    file, model = kinds.write(name, tmp_path), tmp_path / "m.pronk"
    code, _, err = pronk_run(capsys, "run", file, "-t", "y", "--save", model)
    assert code == 0, err
    code, out, err = pronk_run(
        capsys, "predict", model, file, "-t", "y", "-o", tmp_path / "p.csv", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["metrics"]["mse"] < 0.5 * pd.Series(kinds.table()["y"]).var()
    code, _, err = pronk_run(capsys, "run", file, "--model", model, "--again")
    assert code == 0, err


def test_files_that_the_shell_has_listed_are_one_input(capsys, tmp_path):
    frame = kinds.table(600)
    files = [tmp_path / f"part-{i}.csv" for i in (1, 2, 10)]
    for i, file in enumerate(files):
        kinds.as_csv(frame[200 * i :][:200], file)
    options = ["-t", "y", "-a", "fogd", "--json"]
    _, pattern, _ = pronk_run(capsys, "run", tmp_path / "part-*.csv", *options)
    code, listed, err = pronk_run(capsys, "run", *sorted(files, key=str), *options)
    assert code == 0, err
    assert json.loads(listed)["metrics"] == json.loads(pattern)["metrics"]
    code, _, err = pronk_run(capsys, "run", *files, "gone.csv", *options)
    assert code == 2 and "gone.csv" in err


def test_a_column_that_starts_empty_may_be_text(capsys, tmp_path):
    file = tmp_path / "a.csv"
    frame = kinds.table(40000).assign(
        late=["" if i < 35000 else "abc"[i % 3] for i in range(40000)]
    )
    kinds.as_csv(frame, file)
    code, out, err = pronk_run(capsys, "run", file, "-t", "y", "-a", "fogd", "--json")
    assert code == 0, err
    became = {column["name"]: column["kind"] for column in json.loads(out)["became"]}
    assert became["late"] == "category"


def test_predictions_stay_in_the_order_of_the_file(capsys, tmp_path):
    file, model = kinds.write("newest_first", tmp_path), tmp_path / "m.pronk"
    pronk_run(capsys, "run", file, "-t", "y", "-a", "fogd", "--save", model)
    code, _, err = pronk_run(capsys, "predict", model, file, "-o", tmp_path / "p.csv")
    assert code == 0, err
    expected = pronk.load(model).predict(pd.read_csv(file).drop(columns="y"))
    made = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-9)


def test_months_and_what_grows_are_no_codes(capsys, tmp_path):
    frame = kinds.table(400)
    frame["month"] = [202401 + i % 12 + 100 * (i % 2) for i in range(400)]
    frame["batch"] = [1000 + 7 * (i // 20) + i // 100 for i in range(400)]
    kinds.as_csv(frame, tmp_path / "a.csv")
    _, out, _ = pronk_run(capsys, "run", tmp_path / "a.csv", "-t", "y", "-a", "fogd", "--json")
    became = {column["name"]: column["kind"] for column in json.loads(out)["became"]}
    assert became["month"] == became["batch"] == "number" and became["city"] == "category"
