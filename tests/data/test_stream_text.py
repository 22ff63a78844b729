"""Text files: encodings, decimal commas, words for missing values, tabs, columns of names."""

import gzip
import io
import sys

import numpy as np
import pytest

from pronk.data import FileStream, StreamError

LINES = ["größe;y", *(f"{i},5;{i % 5},25" for i in range(60))]


def rows(path, target="y", **choices):
    blocks = list(FileStream(path, target, **choices))
    return np.vstack([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


@pytest.mark.parametrize("charset", ["latin-1", "cp1252", "utf-16", "utf-8", "utf-8-sig"])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_encodings_and_decimal_commas(tmp_path, charset, ending):
    path = tmp_path / f"d{ending}"
    data = "\n".join(LINES).encode(charset)
    path.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    given = {} if charset.startswith("utf") else {"charset": charset}
    stream = FileStream(path, "y", decimal=",", **given)
    assert stream.columns == ["größe"]
    X, y = rows(path, decimal=",", **given)
    assert X[:, 0].tolist() == [i + 0.5 for i in range(60)] and y[3] == 3.25


def test_encodings_of_pipes(monkeypatch):
    data = "\n".join(LINES).encode("utf-16")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert rows("-", decimal=",")[0][7, 0] == 7.5


def test_bytes_that_are_not_utf8_are_reported(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("\n".join(LINES).encode("latin-1"))
    with pytest.raises(StreamError, match=r"not UTF-8 text.*charset='latin-1'"):
        FileStream(path, "y", strict=True, decimal=",")
    path.write_bytes(b"c,y\n" + b"\xe9t\xe9,1.5\n" * 9)
    with pytest.raises(StreamError, match=r"charset='latin-1'|is not numeric"):
        rows(path, categorical=["c"], strict=True)
    path.write_bytes(b"a,y\n\xff\xff\xff,1\n")
    with pytest.raises(StreamError, match="not utf-16 text"):
        FileStream(path, "y", strict=True, charset="utf-16")
    with pytest.raises(StreamError, match="'utf-99' is not a known encoding"):
        FileStream(path, "y", strict=True, charset="utf-99")


def test_words_for_missing(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,y\n" + "1,2.5\n?,3\n4,-\n" * 20)
    with pytest.raises(StreamError, match=r"has only numbers and '\?'; .*give na='\?'"):
        FileStream(path, "y", strict=True, task="regression", drop=["y"][:0])
    X, y = rows(path, na=["?", "-"], missing="mean", unlabelled=True)
    assert np.isnan(X[1, 0]) and np.isnan(y[2]) and X[0, 0] == 1 and y[0] == 2.5


@pytest.mark.parametrize("spelled", ["-999", "-999.0", "-9.99e2", "-999.00"])
@pytest.mark.parametrize("lenient", [False, True])
def test_a_number_for_missing_is_found_in_any_spelling(tmp_path, spelled, lenient):
    path = tmp_path / "d.csv"
    lines = ["a,b,c,y", "1,2.5,u,1.5", f"{spelled},{spelled},{spelled},{spelled}", "4,-99,-99,2"]
    bad = ["1,2,u,3,4"] if lenient else []
    path.write_text("\n".join([*lines, *lines[1:3] * 20, *bad]))
    choices = {"na": ["-999"], "missing": "mean", "task": "regression", "categorical": ["c"]}
    X, y = rows(path, unlabelled=True, skip_bad=lenient, **choices)
    assert np.isnan(X[1]).all() and np.isnan(y[1]) and not np.isnan(X[[0, 2]]).any()
    assert X[2, 1] == -99 and np.isnan(y).sum() == 21
    comma = "\n".join([line.replace(",", ";").replace(".", ",") for line in lines])
    path.write_text(comma)
    X, y = rows(path, unlabelled=True, decimal=",", **choices)
    assert np.isnan(X[1]).all() and np.isnan(y[1]) and X[0, 1] == 2.5


@pytest.mark.parametrize("delimiter", ["\t", "\\t", "tab"])
def test_tabs(tmp_path, delimiter):
    path = tmp_path / "d.csv"
    path.write_text("a\ty\n" + "1\t2.5\n" * 9)
    assert rows(path, delimiter=delimiter)[0].shape == (9, 1)


@pytest.mark.parametrize("number", ["1,234", "12,345,678.5", "1.234.567", "1 234", "1'234"])
def test_thousands_separators_are_refused(tmp_path, number):
    path = tmp_path / "d.csv"
    path.write_text("a;y\n" + f"{number};2.5\n17;1\n" * 9)
    with pytest.raises(StreamError, match=r"'a' has thousands separators, such as .1.*without"):
        FileStream(path, "y", strict=True, delimiter=";")


def test_other_spellings_are_reported(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a;y\n" + "1,5;2\n0,25;1\n" * 9)
    with pytest.raises(StreamError, match=r"'a' has decimal commas.*give decimal=','"):
        FileStream(path, "y", strict=True, delimiter=";")
    with pytest.raises(StreamError, match="decimal and delimiter are both ','"):
        FileStream(path, "y", strict=True, delimiter=",", decimal=",")
    (tmp_path / "d.ndjson").write_text('{"a": 1, "y": 2}\n')
    with pytest.raises(StreamError, match=r"decimal: .* is not a CSV file"):
        FileStream(tmp_path / "d.ndjson", "y", strict=True, decimal=",")


def test_columns_that_name_rows_are_pointed_out(tmp_path):
    path = tmp_path / "d.csv"
    lines = [
        f"{1000 + i},{(7 * i) % 101},k{i},{i / 7},{(31 * i) % 97},{i % 3}.5" for i in range(90)
    ]
    path.write_text("n,user_id,word,a,b,y\n" + "\n".join(lines))
    stream = FileStream(path, "y", categorical=["word"])
    named = [note.split("'")[1] for note in stream.notes()]
    assert named == ["n", "user_id", "word"]
    assert "drop='n'" in stream.notes()[0] and "--drop n" in stream.notes(options=True)[0]
    assert FileStream(path, "y", columns=["a", "b"]).notes() == []


def test_names_with_commas_and_names_between_commas(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('"a,b",c,d,e,y\n' + "1,2,3,4,5.5\n" * 9)
    assert FileStream(path, "y", drop=["a,b", "c,d"]).columns == ["e"]
    assert FileStream(path, "y", columns=["e,c", "a,b"]).columns == ["e", "c", "a,b"]


@pytest.mark.parametrize(
    "text, advice",
    [
        ("a;b;y\n1,5;2;3\n", "decimal=',' if its numbers have decimal commas, else delimiter=';'"),
        ("a\tb\ty\n1\t2\t3\n", r"separated by tab: give delimiter='\\t'"),
        ("a|b|y\n1|2|3\n", "separated by '|': give delimiter='|'"),
    ],
)
def test_another_delimiter_is_named(tmp_path, text, advice):
    file = tmp_path / "data.csv"
    file.write_text(text * 3)
    with pytest.raises(StreamError) as error:
        FileStream(file, "y", strict=True)
    assert advice in str(error.value)
