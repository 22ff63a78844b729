"""Blocks from CSV and Parquet files: the same numbers, the same cuts, and errors that help."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from pronk.data import FileStream, StreamError, source

ROWS = 1000


def table(**more):
    rng = np.random.default_rng(0)
    columns = {
        "a": rng.standard_normal(ROWS),
        "b": rng.integers(0, 1000, ROWS),
        "c": rng.random(ROWS) < 0.5,
        "y": rng.standard_normal(ROWS),
    }
    return pa.table(columns | more)


def write(path, content):
    """A table as the kind of file that the name asks for."""
    if path.name.endswith(".csv.gz"):
        plain = path.with_suffix("")
        arrow_csv.write_csv(content, plain)
        path.write_bytes(gzip.compress(plain.read_bytes()))
    elif path.name.endswith(".csv"):
        arrow_csv.write_csv(content, path)
    else:
        parquet.write_table(content, path, row_group_size=300)
    return path


@pytest.fixture(params=["data.csv", "data.csv.gz", "data.parquet"])
def name(request):
    return request.param


def rows_of(stream):
    blocks = list(stream)
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def test_same_numbers_from_every_kind_of_file(tmp_path, name):
    content = table()
    stream = FileStream(write(tmp_path / name, content), "y")
    X, y = rows_of(stream)
    assert stream.columns == ["a", "b", "c"]
    assert stream.task == "regression"
    assert X.dtype == np.float64 and X.flags.c_contiguous
    for j, column in enumerate(stream.columns):
        np.testing.assert_array_equal(X[:, j], content[column].to_numpy().astype(float))
    np.testing.assert_array_equal(y, content["y"].to_numpy())
    assert stream.expected_rows() == ROWS


@pytest.mark.parametrize("piece", [200, 5000, 1 << 20])
def test_blocks_are_cut_by_rows_not_by_how_the_file_is_read(tmp_path, name, piece, monkeypatch):
    monkeypatch.setattr(source, "_TEXT_BYTES", piece)
    path = write(tmp_path / name, table())
    lengths = [len(y) for _, y in FileStream(path, "y", rows=64)]
    assert lengths == [64] * 15 + [40]
    limited = FileStream(path, "y", rows=64, limit=100)
    assert [len(y) for _, y in limited] == [64, 36]
    np.testing.assert_array_equal(rows_of(limited)[0], rows_of(FileStream(path, "y"))[0][:100])


def test_a_stream_can_be_read_again(tmp_path, name):
    stream = FileStream(write(tmp_path / name, table()), "y")
    np.testing.assert_array_equal(rows_of(stream)[0], rows_of(stream)[0])


def test_columns_can_be_dropped(tmp_path, name):
    content = table(text=["word"] * ROWS)
    stream = FileStream(write(tmp_path / name, content), "y", drop=["text", "a"])
    assert stream.columns == ["b", "c"]
    assert next(iter(stream))[0].shape[1] == 2


@pytest.mark.parametrize(
    "target, expected, kind",
    [
        (np.arange(ROWS) % 3, "classification", "i"),
        (np.arange(ROWS) % 50, "regression", "f"),
        (np.array(["no", "yes"])[np.arange(ROWS) % 2], "classification", "U"),
        (np.arange(ROWS) % 2 == 0, "classification", "b"),
        (np.where(np.arange(ROWS) % 2, -1.0, 1.0), "classification", "fi"),
        (np.linspace(0, 1, ROWS), "regression", "f"),
    ],
)
def test_the_task_is_guessed_from_the_first_rows(tmp_path, name, target, expected, kind):
    stream = FileStream(write(tmp_path / name, table(y=target)), "y")
    assert stream.task == expected
    _, y = rows_of(stream)
    assert y.dtype.kind in kind
    np.testing.assert_array_equal(y, target)


def test_a_given_task_wins(tmp_path, name):
    path = write(tmp_path / name, table(y=np.arange(ROWS) % 3))
    _, y = rows_of(FileStream(path, "y", task="regression"))
    assert y.dtype == np.float64


def test_categories_of_parquet_are_labels(tmp_path):
    words = pa.array(["red", "green"] * (ROWS // 2)).dictionary_encode()
    path = write(tmp_path / "data.parquet", table(y=words))
    _, y = rows_of(FileStream(path, "y", rows=77))
    assert y[:2].tolist() == ["red", "green"] and len(y) == ROWS


def test_whole_numbers_may_be_followed_by_fractions(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_TEXT_BYTES", 100)
    path = tmp_path / "data.csv"
    path.write_text("a,y\n" + "1,2\n" * 100 + "1.5,2.5\n")
    X, y = rows_of(FileStream(path, "y", task="regression"))
    assert (X[-1, 0], y[-1]) == (1.5, 2.5)


def test_a_last_line_needs_no_end(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,y\n1,0.5\n2,0.7")
    X, _ = rows_of(FileStream(path, "y"))
    assert X[:, 0].tolist() == [1, 2]


def test_other_separators(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a;y\n1;0.5\n2;0.7\n")
    with pytest.raises(StreamError, match=r"separated by ';'.*give delimiter"):
        FileStream(path, "y", strict=True)
    assert FileStream(path, "y", strict=True, delimiter=";").columns == ["a"]
    for wrong in (";;", "§", '"'):
        for strict in (False, True):
            with pytest.raises(StreamError, match="delimiter must be one ASCII character"):
                FileStream(path, "y", strict=strict, delimiter=wrong)
    tabs = tmp_path / "data.tsv"
    tabs.write_text("a\ty\n1\t0.5\n")
    assert FileStream(tabs, "y", strict=True).columns == ["a"]


# -- what cannot be used -------------------------------------------------------------------------


def test_missing_file_and_column(tmp_path, name):
    path = write(tmp_path / name, table())
    with pytest.raises(StreamError, match="does not exist; did you mean"):
        FileStream(path.with_name(name.replace("data", "dato")), "y")
    with pytest.raises(StreamError, match=r"target: .* no column 'z'.*it has a, b, c, y"):
        FileStream(path, "z")
    with pytest.raises(StreamError, match=r"drop: .* no column 'aa'; did you mean 'a'"):
        FileStream(path, "y", drop=["aa"])
    with pytest.raises(StreamError, match="no column left"):
        FileStream(path, "y", drop=["a", "b", "c"])
    with pytest.raises(StreamError, match="'y' is the target"):
        FileStream(path, "y", drop=["y"])


def test_text_columns_are_named(tmp_path, name):
    path = write(tmp_path / name, table(city=["Paris"] * ROWS, day=["Monday"] * ROWS))
    with pytest.raises(StreamError, match=r"'city', 'day' are not numeric.*drop='city' drop='day'"):
        FileStream(path, "y", strict=True)
    with pytest.raises(StreamError, match=r"'city' is not numeric \(text, such as 'Paris'\)"):
        FileStream(path, "y", strict=True, drop=["day"])


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_csv(tmp_path, content):
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(StreamError, match="is empty"):
        FileStream(path, "y")


def test_no_rows(tmp_path, name):
    with pytest.raises(StreamError, match="has no rows"):
        FileStream(write(tmp_path / name, table().slice(0, 0)), "y")


@pytest.mark.parametrize(
    "value, words", [(None, "missing"), (np.inf, "infinite"), (1e200, "large")]
)
def test_a_bad_value_names_column_and_row_of_the_file(tmp_path, name, value, words):
    values = np.linspace(0, 1, ROWS).tolist()
    values[700] = value
    stream = FileStream(write(tmp_path / name, table(a=values)), "y", rows=128, strict=True)
    lengths = []
    with pytest.raises(StreamError, match=rf"'a' is .*{words}.* at row 700 \(counting from 0\)"):
        lengths.extend(len(y) for _, y in stream)
    assert sum(lengths) == 700  # the rows before it were delivered


@pytest.mark.parametrize(
    "labels", [["a", "b"] * (ROWS // 2), [1, 2] * (ROWS // 2), [0.5, 1.5] * (ROWS // 2)]
)
def test_a_row_without_a_label_comes_with_none(tmp_path, name, labels):
    labels[300] = None
    path = write(tmp_path / name, table(y=labels))
    with pytest.raises(StreamError, match=r"target 'y' is missing.* at row 300"):
        list(FileStream(path, "y"))
    stream = FileStream(path, "y", unlabelled=True)
    _, y = rows_of(stream)
    assert len(y) == ROWS
    if stream.task == "regression":
        assert np.flatnonzero(np.isnan(y)).tolist() == [300]
    else:
        assert y.tolist() == labels


def test_text_far_down_names_the_row(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_TEXT_BYTES", 100)
    path = tmp_path / "data.csv"
    path.write_text("a,y\n" + "1,2.5\n" * 500 + "x,2.5\n")
    with pytest.raises(StreamError, match=r"column 'a' has 'x' at row 500 .*drop='a'"):
        list(FileStream(path, "y", strict=True, rows=10))


def test_a_short_line_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_TEXT_BYTES", 100)
    path = tmp_path / "data.csv"
    path.write_text("a,y\n" + "1,2.5\n" * 500 + "1\n")
    with pytest.raises(StreamError, match="1 values instead of 2 in line 502"):
        list(FileStream(path, "y"))


def test_wrong_task(tmp_path, name):
    path = write(tmp_path / name, table(y=["no", "yes"] * (ROWS // 2)))
    with pytest.raises(StreamError, match=r"'no'; regression needs numbers"):
        FileStream(path, "y", task="regression")
    with pytest.raises(StreamError, match="task must be one of"):
        FileStream(path, "y", task="guess")
    path = write(tmp_path / name, table())
    with pytest.raises(StreamError, match=r"not a label at row .*; use task='regression'"):
        list(FileStream(path, "y", task="classification"))


def test_a_name_is_no_class(tmp_path, name):
    path = write(tmp_path / name, table(y=[f"customer {i}" for i in range(ROWS)]))
    with pytest.raises(StreamError, match="too many for classes"):
        FileStream(path, "y")


def test_files_of_the_wrong_kind(tmp_path):
    (tmp_path / "data.parquet").write_bytes(b"not parquet")
    with pytest.raises(StreamError, match=r"data.parquet cannot be read"):
        FileStream(tmp_path / "data.parquet", "y")
    (tmp_path / "data.xyz").write_text("a,y\n1,2\n")
    with pytest.raises(StreamError, match=r"its name must end in"):
        FileStream(tmp_path / "data.xyz", "y")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StreamError, match="has no file that ends in"):
        FileStream(tmp_path / "empty", "y")
    whole = gzip.compress(b"a,y\n" + b"1,0.5\n" * 100_000)
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StreamError, match="Truncated"):
        list(FileStream(tmp_path / "cut.csv.gz", "y"))


def test_columns_of_one_name(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,a,y\n1,2,0.5\n")
    with pytest.raises(StreamError, match="two columns named 'a'"):
        FileStream(path, "y")
