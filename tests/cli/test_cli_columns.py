"""`pronk run` with categories, dates and missing values."""

import json

import numpy as np
import pandas as pd
import pytest

import pronk
from helpers import pronk_run
from pronk.data import FileStream
from pronk.evaluate import progressive

ROWS = 1200


def result(capsys, *words):
    code, out, err = pronk_run(capsys, *words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_categories_do_not_share_a_slot_by_chance(tmp_path, capsys):
    # By a hash of their text into 32 slots, "1" and "2" are one category.
    rng = np.random.default_rng(0)
    k = rng.integers(0, 5, ROWS)
    y = np.array([0.0, 10.0, -10.0, 5.0, -5.0])[k] + rng.normal(0, 0.1, ROWS)
    pd.DataFrame({"k": k, "y": y}).to_csv(tmp_path / "k.csv", index=False)
    found = result(capsys, "run", tmp_path / "k.csv", "-t", "y", "--categorical", "k")
    assert found["metrics"]["r2"] > 0.95


def messy(form, n=ROWS):
    """Hourly rows with a time in some format, an id, a flag and a city; y follows the hour."""
    rng = np.random.default_rng(0)
    moments = pd.date_range("2015-01-01", periods=n, freq="h")
    return pd.DataFrame(
        {
            "t": moments.strftime(form).to_numpy(dtype=object),
            "id": np.arange(n),
            "flag": rng.random(n) < 0.5,
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "y": 10 + 5 * np.sin(2 * np.pi * moments.hour / 24) + rng.normal(0, 0.3, n),
        }
    )


def test_dates_of_all_formats_are_one(tmp_path, capsys):
    errors = {}
    for form, dates in [
        ("%Y-%m-%d %H:%M", "iso"),
        ("%d.%m.%Y %H:%M", "dayfirst"),
        ("%m/%d/%Y %I:%M %p", "monthfirst"),
    ]:
        frame = messy(form)
        if dates == "iso":  # one in ten is written otherwise, one not at all
            frame.loc[::10, "t"] = messy("%d.%m.%Y %H:%M")["t"][::10]
            frame.loc[5, "t"] = "soon"
            dates = "dayfirst"
        path = tmp_path / "d.csv"
        frame.to_csv(path, index=False)
        options = ["--categorical", "auto", "--drop", "id", "--missing", "mean", "-a", "fogd"]
        found = result(capsys, "run", path, "-t", "y", *options)
        became = {one.pop("name"): one for one in found["became"]}
        unread = became["t"].pop("unread", None)
        assert became == {
            "t": {"kind": "time", "dates": dates},
            "flag": {"kind": "boolean"},
            "city": {"kind": "category", "categories": 3, "slots": 32},
            "id": {"kind": "dropped"},
        }
        if unread is not None:
            assert unread == {"rows": 1, "first": 5, "value": "soon"}
        errors[form] = found["metrics"]["mse"]
    plain = errors.pop("%d.%m.%Y %H:%M")
    for error in errors.values():
        assert abs(error - plain) < 0.1 * plain


def test_summary_and_page_show_what_each_column_became(tmp_path, capsys):
    frame = messy("%d.%m.%Y %H:%M", 300)
    frame["city"] = [f"city {i % 40}" for i in range(300)]
    frame.loc[7, "t"] = "soon"
    frame.to_csv(tmp_path / "d.csv", index=False)
    options = ["--categorical", "auto", "--drop", "id", "-a", "fogd"]
    code, _, err = pronk_run(capsys, "run", tmp_path / "d.csv", "-t", "y", *options, "--strict")
    assert code != 0 and "column 't' has 'soon', which does not read as a date or time" in err
    options += ["--report", tmp_path / "r.html", "--save", tmp_path / "m"]
    code, out, err = pronk_run(capsys, "run", tmp_path / "d.csv", "-t", "y", *options)
    assert code == 0
    told = "t: date and time, day first, 1 not read; flag: true or false; city: 40 categories, "
    told += "8 of them beyond the slots; id: not a feature"
    assert " ".join(out.split()).find(told) > 0
    assert told in (tmp_path / "r.html").read_text(encoding="utf-8")
    err = " ".join(err.split())
    assert "'t' does not read as a date or time in 1 rows" in err and "'soon' at row 7" in err
    assert "'city' has 40 categories and 32 slots" in err and "--slots" in err
    # A model keeps the order of its dates for other files, also where they do not show it.
    other = messy("%d.%m.%Y %H:%M", 48).drop(columns=["y"])
    other.loc[3, "t"] = "late"
    other.to_csv(tmp_path / "o.csv", index=False)
    out_file = tmp_path / "p.csv"
    words = ["predict", tmp_path / "m", tmp_path / "o.csv", "--output", out_file]
    code, _, err = pronk_run(capsys, *words)
    assert code == 0, err
    assert "'t' does not read as a date or time in 1 rows" in " ".join(err.split())
    with pytest.warns(UserWarning, match="'late' at row 3"):
        expected = pronk.load(tmp_path / "m").predict(other)
    got = pd.read_csv(out_file)["prediction"]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=0)


def test_a_word_far_down_in_a_column_of_numbers_is_named(tmp_path, capsys):
    lines = [f"{i},{i}" for i in range(6000)]
    lines[5000] = "soon,1"
    (tmp_path / "d.csv").write_text("a,y\n" + "\n".join(lines) + "\n")
    code, _, err = pronk_run(capsys, "run", tmp_path / "d.csv", "-t", "y", "--strict")
    assert code == 2 and "'a' has 'soon' at row 5000" in err and "--drop a" in err


def test_a_name_with_a_superscript_is_a_name(tmp_path, capsys):
    for name in ("1²3.csv", "2.csv"):
        (tmp_path / name).write_text("a,y\n" + "".join(f"{i},{2 * i}\n" for i in range(50)))
    found = result(capsys, "run", tmp_path, "-t", "y", "-a", "fogd")
    assert found["rows"] == 100


def test_bad_labels_beyond_the_first_piece_are_bad_rows(tmp_path, capsys):
    # In the first megabyte the types are found; a label 1_0 after it must not become 10.
    lines = [f"{i % 7}.25{'0' * 20},{i % 3}" for i in range(60_000)]
    lines[50_000] = "1,1_0"
    lines[50_001] = "1_0,1"
    (tmp_path / "d.csv").write_text("a,y\n" + "\n".join(lines) + "\n")
    options = ["--skip-bad", tmp_path / "bad.ndjson", "-a", "fogd", "--task", "classification"]
    found = result(capsys, "run", tmp_path / "d.csv", "-t", "y", *options)
    assert found["bad_rows"] == 2 and found["rows"] == 59_998
    assert found["confusion"]["labels"] == [0, 1, 2]


@pytest.mark.parametrize("row", [0, 50])
def test_a_string_in_a_number_column_of_ndjson_is_a_bad_row(tmp_path, capsys, row):
    lines = [json.dumps({"a": i, "y": 2.0 * i}) for i in range(200)]
    lines[row] = json.dumps({"a": "soon", "y": 1.0})
    (tmp_path / "d.ndjson").write_text("\n".join(lines))
    options = ["-a", "fogd", "--skip-bad", tmp_path / "bad.csv"]
    found = result(capsys, "run", tmp_path / "d.ndjson", "-t", "y", *options)
    assert found["rows"] == 199 and found["bad_rows"] == 1
    assert f"{row}," in (tmp_path / "bad.csv").read_text() and found["task"] == "regression"
    code, _, err = pronk_run(
        capsys, "run", tmp_path / "d.ndjson", "-t", "y", "-a", "fogd", "--strict"
    )
    assert code == 2 and f"row {row} " in err


def test_dates_beside_keys(tmp_path, capsys):
    frame = messy("%d.%m.%Y %H:%M", 400)
    frame.to_csv(tmp_path / "d.csv", index=False)
    options = ["-t", "y", "--by", "city", "--drop", "id", "-a", "fogd"]
    found = result(capsys, "run", tmp_path / "d.csv", *options, "--save", tmp_path / "models")
    assert found["became"][0] == {"name": "t", "kind": "time", "dates": "dayfirst"}
    other = frame.drop(columns=["y"])[:5]
    keyed = pronk.load(tmp_path / "models")
    assert keyed.orders_ == ["dayfirst", "iso"]
    moments = pd.to_datetime(other["t"], format="%d.%m.%Y %H:%M")
    np.testing.assert_array_equal(keyed.predict(other), keyed.predict(other.assign(t=moments)))


def test_python_and_the_command_line_give_the_same_figures(tmp_path, capsys):
    """What howto/files.md says."""
    rng = np.random.default_rng(7)
    X = rng.uniform([0, 10, -5], [100, 20, 5], size=(1500, 3))
    y = np.sin(X[:, 0] / 15) + 0.1 * X[:, 2]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    frame.to_csv(tmp_path / "job.csv", index=False)
    found = result(capsys, "run", tmp_path / "job.csv", "--target", "y", "--algorithm", "con-kons")
    learner = pronk.Prepared(pronk.make("con-kons", random_state=0))
    stream = FileStream(tmp_path / "job.csv", target="y")
    *_, last = progressive(learner, stream, metrics=["mse", "mae"])
    assert last.metrics["mse"] == pytest.approx(found["metrics"]["mse"], rel=1e-9)
    assert last.metrics["mae"] == pytest.approx(found["metrics"]["mae"], rel=1e-9)
