"""The other kinds of files, several files, standard input and SQL: the same rows from each."""

import gzip
import io
import json
import os
import sqlite3
import sys
import threading

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest

from pronk.columns.values import code
from pronk.data import FileStream, StreamError
from pronk.data import source as module
from pronk.data.formats import SQLSource

ROWS = 500
#: The number of a category, which saved models rely on.
OSLO = 4449763015986155.0


@pytest.fixture(scope="module")
def content():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "a": rng.standard_normal(ROWS).round(6),
            "b": rng.integers(0, 1000, ROWS),
            "c": rng.random(ROWS) < 0.5,
            "city": np.array(["Rome", "Oslo", "Lima"])[rng.integers(0, 3, ROWS)],
            "y": rng.standard_normal(ROWS).round(6),
        }
    )


def as_lines(table):
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()


def write(path, table):
    name = path.name
    if name.endswith(".csv"):
        arrow_csv.write_csv(table, path)
    elif name.endswith(".ndjson"):
        path.write_bytes(as_lines(table))
    elif name.endswith(".jsonl.gz"):
        path.write_bytes(gzip.compress(as_lines(table)))
    elif name.endswith(".arrow"):
        with pa.OSFile(str(path), "wb") as file, ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=77)
    elif name.endswith(".ipc"):
        with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=77)
    else:
        parquet.write_table(table, path, row_group_size=120)
    return path


KINDS = ["d.csv", "d.ndjson", "d.jsonl.gz", "d.arrow", "d.ipc", "d.parquet"]


def rows_of(blocks):
    blocks = list(blocks)
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def expected(table):
    columns = [table[name].to_numpy().astype(float) for name in ("a", "b", "c")]
    return np.column_stack(columns), table["y"].to_numpy()


@pytest.mark.parametrize("piece", [300, 1 << 20])
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_gives_the_same_blocks(tmp_path, monkeypatch, content, name, piece):
    monkeypatch.setattr(module, "_TEXT_BYTES", piece)
    stream = FileStream(write(tmp_path / name, content), "y", drop=["city"], rows=64)
    X, y = expected(content)
    for given, wanted in zip(rows_of(stream), (X, y), strict=True):
        np.testing.assert_array_equal(given, wanted)
    assert [len(y) for _, y in stream] == [64] * 7 + [52]
    for skip in (64, 256, 448):  # a run that goes on
        np.testing.assert_array_equal(rows_of(stream.blocks(skip))[0], X[skip:])
    assert list(stream.blocks(ROWS)) == []
    limited = FileStream(tmp_path / name, "y", drop=["city"], rows=64, limit=100)
    np.testing.assert_array_equal(rows_of(limited.blocks(64))[0], X[64:100])


@pytest.mark.parametrize("way", ["write_ipc", "write_ipc_stream"])
def test_text_in_arrow_files_of_polars(tmp_path, way):
    """Polars writes views of text, also as the values of a dictionary."""
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"c": ["x", None, "y"] * 20, "y": [1.0, 2.5, 3.2] * 20})
    frame = frame.with_columns(k=frame["c"].cast(polars.Categorical))
    getattr(frame, way)(tmp_path / "p.arrow")
    frame.write_csv(tmp_path / "p.csv")
    options = {"target": "y", "columns": ["c", "k"], "categorical": ["c", "k"], "missing": "mean"}
    arrow, csv = (
        rows_of(FileStream(tmp_path / f"p.{kind}", **options)) for kind in ("arrow", "csv")
    )
    for got, wanted in zip(arrow, csv, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", KINDS)
def test_columns_are_chosen_in_order(tmp_path, content, name):
    stream = FileStream(write(tmp_path / name, content), "y", columns=["c", "a"])
    assert stream.columns == ["c", "a"]
    np.testing.assert_array_equal(rows_of(stream)[0], expected(content)[0][:, [2, 0]])
    with pytest.raises(StreamError, match=r"columns: .* no column 'z'"):
        FileStream(tmp_path / name, "y", columns=["z"])
    with pytest.raises(StreamError, match="columns: 'y' is the target"):
        FileStream(tmp_path / name, "y", columns=["y"])


@pytest.mark.parametrize("name", KINDS)
def test_categories_have_the_same_numbers_in_every_kind(tmp_path, content, name):
    stream = FileStream(write(tmp_path / name, content), "y", categorical=["city", "b"])
    X, _ = rows_of(stream)
    city = X[:, stream.columns.index("city")]
    assert len(set(city)) == 3 and (city == np.rint(city)).all() and city.max() < 2**52
    oslo = city[content["city"].to_pylist().index("Oslo")]
    assert oslo == OSLO
    number = X[:, stream.columns.index("b")]
    assert number[0] == code(str(content["b"][0].as_py()))


@pytest.mark.parametrize("name", KINDS)
def test_missing_values_and_labels(tmp_path, content, name):
    a, y, city = (content[n].to_pylist() for n in ("a", "y", "city"))
    a[70] = y[90] = city[80] = None
    table = content.set_column(0, "a", pa.array(a)).set_column(4, "y", pa.array(y))
    table = table.set_column(3, "city", pa.array(city))
    path = write(tmp_path / name, table)
    with pytest.raises(StreamError, match=r"'a' is missing or NaN at row 70 .*missing='mean'"):
        list(FileStream(path, "y", strict=True, drop=["city"]))
    with pytest.raises(StreamError, match="target 'y' is missing at row 90"):
        list(FileStream(path, "y", strict=True, columns=["b"]))
    stream = FileStream(path, "y", missing="mean", unlabelled=True, categorical=["city"])
    X, given = rows_of(stream)
    assert np.argwhere(np.isnan(X)).tolist() == [[70, 0], [80, 3]]
    assert np.flatnonzero(np.isnan(given)).tolist() == [90]


# -- LIBSVM --------------------------------------------------------------------------------------


LIBSVM = b"+1 1:0.5 3:2\n-1 2:-1e-3\n\n-1\n1 1:1 2:2 3:3 \n"
DENSE = [[0.5, 0, 2], [0, -1e-3, 0], [0, 0, 0], [1, 2, 3]]


@pytest.mark.parametrize("name", ["d.libsvm", "d.svm.gz"])
@pytest.mark.parametrize("piece", [8, 1 << 20])
def test_libsvm(tmp_path, monkeypatch, name, piece):
    monkeypatch.setattr(module, "_TEXT_BYTES", piece)
    path = tmp_path / name
    path.write_bytes(gzip.compress(LIBSVM) if name.endswith(".gz") else LIBSVM)
    stream = FileStream(path, task="classification")
    assert stream.target == "label" and stream.columns == ["1", "2", "3"]
    X, y = rows_of(stream)
    np.testing.assert_array_equal(X, DENSE)
    assert y.tolist() == [1, -1, -1, 1]
    wide = FileStream(path, columns=["1", "5"])  # a model that has seen more columns
    np.testing.assert_array_equal(rows_of(wide)[0], [[0.5, 0], [0, 0], [0, 0], [1, 0]])


@pytest.mark.parametrize("line", [b"1 x:2", b"1 1:2 3", b"one 1:1", b"1 0:5", b"1 qid:3 1:2"])
def test_a_bad_line_of_libsvm_is_named(tmp_path, line):
    path = tmp_path / "d.libsvm"
    path.write_bytes(b"1 1:1 2:2\n" * 3 + line + b"\n1 1:1\n")
    with pytest.raises(StreamError, match=r"row 3 .* not of the form"):
        list(FileStream(path))


@pytest.mark.parametrize("index", ["1000001", "1000000000", "9" * 23])
def test_an_index_of_libsvm_that_no_dense_row_can_have(tmp_path, index):
    path = tmp_path / "d.libsvm"
    path.write_text(f"1 1:1 2:2\n0 1:1 {index}:2\n1 2:1\n")
    with pytest.raises(StreamError, match=r"row 1 .* with indices up to 1,000,000"):
        list(FileStream(path))
    (block,) = FileStream(path, skip_bad=True).blocks()
    assert block.X.shape == (2, 2) and [bad.row for bad in block.bad] == [1]
    path.write_text(f"0 {index}:2\n")
    with pytest.raises(StreamError, match="no index:value with an index up to 1,000,000"):
        list(FileStream(path))


@pytest.mark.parametrize("depth", [65, 5_000, 100_000])
def test_json_that_is_nested_deeply_is_a_bad_row(tmp_path, depth):
    path = tmp_path / "d.ndjson"
    deep = '{"a": ' + "[" * depth + "1" + "]" * depth + ', "y": 2}'
    path.write_text('{"a": 1, "y": 1}\n' * 3 + "\n" * 200 + deep + '\n{"a": 2, "y": 2}\n')
    with pytest.raises(StreamError, match=r"row 3 .* nests more than 64 lists and objects"):
        list(FileStream(path, "y"))
    (block,) = FileStream(path, "y", skip_bad=True).blocks()
    assert len(block.y) == 4 and [bad.row for bad in block.bad] == [3]
    path.write_text(deep)
    with pytest.raises(StreamError, match="nests more than 64"):
        list(FileStream(path, "y"))


def test_brackets_within_a_text_are_not_nested(tmp_path):
    path = tmp_path / "d.ndjson"
    path.write_text('{"a": "' + "[{" * 200 + '\\" [[", "y": 1}\n{"a": "b", "y": 2}\n')
    (block,) = FileStream(path, "y", categorical="a").blocks()
    assert block.y.tolist() == [1.0, 2.0]


# -- several files ---------------------------------------------------------------------------------


def split(folder, content, kinds):
    starts = [0, 90, 90, 300]
    ends = [90, 90, 300, ROWS]
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        kind = kinds[i % len(kinds)]
        write(folder / f"part-{9 + i}{kind}", content.slice(start, end - start))
    (folder / "_SUCCESS").write_text("")
    (folder / "notes.md").write_text("no data")


@pytest.mark.parametrize("kinds", [[".csv"], [".parquet"], [".ndjson"], [".parquet", ".csv"]])
def test_a_directory_is_its_files_in_order(tmp_path, content, kinds):
    if kinds == [".ndjson"]:
        content_parts = content
        starts = [(0, 90), (90, 300), (300, ROWS)]
        for i, (start, end) in enumerate(starts):
            write(tmp_path / f"part-{9 + i}.ndjson", content_parts.slice(start, end - start))
    else:
        split(tmp_path, content, kinds)
    X, y = expected(content)
    for path in (tmp_path, tmp_path / "part-*"):
        stream = FileStream(path, "y", columns=["a", "b", "c"], rows=64)
        given = rows_of(stream)
        np.testing.assert_array_equal(given[0], X)
        np.testing.assert_array_equal(given[1], y)
        for skip in (64, 320):
            np.testing.assert_array_equal(rows_of(stream.blocks(skip))[0], X[skip:])


def test_files_that_do_not_fit_are_named(tmp_path):
    (tmp_path / "1.csv").write_text("a,y\n1,0.5\n")
    (tmp_path / "2.csv").write_text("y,b\n0.5,1\n")
    with pytest.raises(StreamError, match=r"2.csv has no column 'a'"):
        list(FileStream(tmp_path, "y"))
    with pytest.raises(StreamError, match=r"pattern .* has no file"):
        FileStream(tmp_path / "*.parquet", "y")


def test_columns_of_later_files_may_come_in_another_order(tmp_path):
    (tmp_path / "1.csv").write_text("a,y\n1,0.5\n")
    (tmp_path / "2.csv").write_text("y,a\n0.7,2.5\n")
    X, y = rows_of(FileStream(tmp_path, "y"))
    assert X[:, 0].tolist() == [1, 2.5] and y.tolist() == [0.5, 0.7]


# -- standard input --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["d.csv", "d.ndjson"])
def test_standard_input_is_read_once(tmp_path, monkeypatch, content, kind):
    monkeypatch.setattr(module, "_TEXT_BYTES", 1000)
    data = write(tmp_path / kind, content).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    stream = FileStream("-", "y", drop=["city"], rows=64)
    np.testing.assert_array_equal(rows_of(stream)[0], expected(content)[0])
    assert sys.stdin.buffer.read() == b""
    assert stream.expected_rows() is None


def test_standard_input_keeps_a_bounded_start(tmp_path, monkeypatch, content):
    monkeypatch.setattr(module, "_TEXT_BYTES", 1000)
    monkeypatch.setattr(module, "_KEPT_BYTES", 6000)
    data = write(tmp_path / "d.csv", content).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    stream = FileStream("-", "y", drop=["city"], rows=64)
    np.testing.assert_array_equal(rows_of(stream)[0], expected(content)[0])
    assert len(stream._source.file._kept) == 0
    with pytest.raises(StreamError, match="only once"):
        list(stream)


@pytest.fixture
def pipe(tmp_path):
    """A function that makes a named pipe, into which a thread writes some bytes once."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("the system has no named pipes")
    threads = []

    def make(name, data):
        path = tmp_path / name
        os.mkfifo(path)
        threads.append(threading.Thread(target=path.write_bytes, args=[data], daemon=True))
        threads[-1].start()
        return path

    yield make
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("name", ["pipe", "pipe.csv", "pipe.ndjson"])
def test_a_named_pipe_is_read_once(tmp_path, pipe, content, name):
    kind = "d.ndjson" if name.endswith("ndjson") else "d.csv"
    path = pipe(name, write(tmp_path / kind, content).read_bytes())
    stream = FileStream(path, "y", drop=["city"], rows=64)
    np.testing.assert_array_equal(rows_of(stream)[0], expected(content)[0])
    np.testing.assert_array_equal(rows_of(stream.blocks(64))[0], expected(content)[0][64:])


@pytest.mark.parametrize("name", ["pipe.parquet", "pipe.libsvm", "pipe.csv.gz"])
def test_a_named_pipe_brings_only_plain_text(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(StreamError, match=f"{name} is a pipe; only plain CSV or NDJSON"):
        FileStream(tmp_path / name, "y")


def test_a_broken_line_of_json_is_named(tmp_path):
    path = tmp_path / "d.ndjson"
    path.write_text('{"a": 1, "y": 0.5}\n' * 5 + '{"a": "x", "y": 0.5}\n')
    with pytest.raises(StreamError, match=r"d.ndjson cannot be read"):
        list(FileStream(path, "y", strict=True))
    path.write_text("\n")
    with pytest.raises(StreamError, match="is empty"):
        FileStream(path, "y", strict=True)


# -- SQL -------------------------------------------------------------------------------------------


def test_a_query_of_duckdb(tmp_path, content):
    database = tmp_path / "data.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.register("given", content)
        connection.execute("CREATE TABLE t AS SELECT *, row_number() OVER () AS i FROM given")
    query = "SELECT a, b::DECIMAL(9, 2) AS b, c, y FROM t ORDER BY i"
    stream = FileStream(database, "y", query=query, rows=64)
    np.testing.assert_array_equal(rows_of(stream)[0], expected(content)[0])
    np.testing.assert_array_equal(rows_of(stream.blocks(128))[0], expected(content)[0][128:])
    path = write(tmp_path / "d.parquet", content)
    stream = FileStream(":memory:", "y", query=f"SELECT a, y FROM '{path}'")
    assert rows_of(stream)[0].shape == (ROWS, 1)
    with pytest.raises(StreamError, match=r"query: .*nothing"):
        FileStream(database, "y", query="SELECT nothing FROM t")
    with pytest.raises(StreamError, match="does not exist"):
        FileStream(tmp_path / "none.duckdb", "y", query=query)
    content.to_pandas().to_csv(tmp_path / "d.csv")
    with pytest.raises(StreamError, match=r"not a DuckDB file; give ':memory:', and the file in"):
        FileStream(tmp_path / "d.csv", "y", query="SELECT 1")


def test_a_query_through_adbc(tmp_path):
    with sqlite3.connect(tmp_path / "data.sqlite") as connection:
        connection.execute("CREATE TABLE t (a REAL, y REAL)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, i / 2) for i in range(99)])
    database = f"adbc:adbc_driver_sqlite:{tmp_path / 'data.sqlite'}"
    X, y = rows_of(FileStream(database, "y", query="SELECT a, y FROM t ORDER BY a"))
    assert X[:, 0].tolist() == list(range(99)) and y[-1] == 49


@pytest.mark.parametrize(
    "database, words",
    [
        ("adbc:", "'adbc:' names no driver"),
        ("adbc:adbc_driver_none:x", "pip install adbc-driver-none"),
        ("adbc:adbc_driver_sqlite:no/where.sqlite", "query: .*no/where.sqlite"),
    ],
)
def test_a_database_that_cannot_be_opened(database, words):
    with pytest.raises(StreamError, match=words):
        FileStream(database, "y", query="SELECT 1 AS a, 2 AS y")


@pytest.mark.parametrize(
    "database, query",
    [(":memory:", ""), ("adbc:adbc_driver_sqlite", "CREATE TABLE t (a REAL)")],
)
def test_a_statement_that_is_no_query(database, query):
    with pytest.raises(StreamError, match="query: the statement returns no rows"):
        FileStream(database, "y", query=query)


def test_a_query_installs_nothing(tmp_path):
    path = tmp_path / "data.sqlite"  # DuckDB has an extension for these, which it would fetch
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a REAL, y REAL)")
    with pytest.raises(StreamError, match=r"query: |no rows"):
        FileStream(path, "y", query="SELECT * FROM t")
    source = SQLSource(":memory:", "SELECT current_setting('autoinstall_known_extensions') AS a")
    assert [batch["a"].to_pylist() for batch in source.batches({"a": pa.bool_()})] == [[False]]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(StreamError, match=r'needs the package duckdb: pip install "\.\[sql\]"'):
        FileStream(":memory:", "y", query="SELECT 1 AS a, 2 AS y")
