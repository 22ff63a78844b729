"""Files that are damaged, unusual or malicious: one clear error, or the right rows."""

import decimal
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from pronk.columns.preparation import notes
from pronk.data import FileStream, StreamError, source

LINES = b"a,c,y\n" + b"1,x,2.5\n" * 400


def read(path, **choices):
    return [y for _, y in FileStream(path, "y", **choices)]


def refused(path, words, **choices):
    with pytest.raises(StreamError, match=words) as caught:
        read(path, **choices)
    assert "\n" not in str(caught.value)


def test_damaged_containers(tmp_path):
    path = tmp_path / "d.csv.gz"
    whole = gzip.compress(LINES * 20)
    path.write_bytes(whole[: len(whole) // 2])
    refused(path, "cannot be read: Truncated", drop=["c"])
    path.write_bytes(b"no gzip at all")
    refused(path, "cannot be read")
    path = tmp_path / "d.parquet"
    columns = {"a": np.arange(9000.0), "y": np.arange(9000.0) % 7 + 0.5}
    parquet.write_table(pa.table(columns), path, row_group_size=3000)
    good = path.read_bytes()
    path.write_bytes(good[:4000] + b"\x0e" * 400 + good[4400:])
    with pytest.raises(StreamError, match=r"cannot be read|is missing|is infinite|too large"):
        read(path)
    path.write_bytes(good[: len(good) // 2])
    refused(path, "cannot be read: Parquet magic bytes")


def test_types_that_are_no_numbers(tmp_path):
    path = tmp_path / "d.parquet"
    y = np.arange(90.0) % 7 + 0.5
    parquet.write_table(pa.table({"n": pa.array([{"x": 1}] * 90), "a": y, "y": y}), path)
    refused(path, r"'n' is not numeric \(of type struct.*drop='n'$", strict=True)
    refused(path, "'n' .*cannot be a category", categorical=["n"], strict=True)
    assert len(np.concatenate(read(path, drop=["n"]))) == 90
    values = [decimal.Decimal(f"{i % 3}.25") for i in range(90)]
    parquet.write_table(pa.table({"a": pa.array(values), "y": pa.array(values)}), path)
    assert np.concatenate(read(path))[:3].tolist() == [0.25, 1.25, 2.25]


def test_whole_numbers_that_a_double_cannot_hold(tmp_path):
    path = tmp_path / "d.parquet"
    large = pa.array([2**62 + i % 2 for i in range(90)], pa.int64())
    parquet.write_table(pa.table({"a": np.arange(90.0), "y": large}), path)
    assert np.concatenate(read(path)).tolist() == large.to_pylist()  # labels are exact
    stream = FileStream(path, "a", task="regression", categorical=["y"])
    assert len({x for X, _ in stream for x in X[:, 0].tolist()}) == 2  # categories too
    X, _ = next(iter(FileStream(path, "a", task="regression")))
    assert X[0, 0] == float(2**62)  # numbers are rounded as everywhere
    beyond = pa.array([2**63 + i % 2 for i in range(90)], pa.uint64())
    parquet.write_table(pa.table({"a": np.arange(90.0), "y": beyond}), path)
    refused(path, "column 'y' cannot be used: Integer value")


def test_long_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_TEXT_BYTES", 1 << 12)
    monkeypatch.setattr(source, "_ROW_BYTES", 1 << 18)
    path = tmp_path / "d.csv"
    path.write_bytes(LINES + b"1," + b"z" * (1 << 17) + b",3\n" + b"1,x,2.5\n" * 9)
    assert np.concatenate(read(path, categorical=["c"]))[400] == 3
    path.write_bytes(LINES + b"1," + b"z" * (1 << 19) + b",3\n")
    refused(path, "a line or quoted value of more than", categorical=["c"])


@pytest.mark.parametrize("where", [b"1,\xff\xfe,2.5\n", b"1,x\xc3,2.5\n"])
def test_bytes_that_are_no_text(tmp_path, where):
    path = tmp_path / "d.csv"
    for data in (b"a,c,y\n" + where + LINES[6:], LINES * 1 + where):
        path.write_bytes(data)
        refused(path, "not UTF-8 text.*charset", categorical=["c"], strict=True)
        assert len(np.concatenate(read(path, drop=["c"]))) == 401
    path = tmp_path / "d.ndjson"
    path.write_bytes(b'{"a":1,"c":"\xff\xfe","y":2.5}\n' + b'{"a":1,"c":"x","y":2.5}\n' * 9)
    refused(path, "not UTF-8 text", categorical=["c"], strict=True)


def test_zero_bytes(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(b"a,c,y\n1,x\0y,2.5\n" + LINES[6:])
    assert len(np.concatenate(read(path, categorical=["c"]))) == 401
    path.write_bytes(b"a,c,y\n\0,x,2.5\n" + LINES[6:])
    refused(path, r"'a' has only numbers and '\\x00'", drop=["c"], strict=True)


def test_many_columns(tmp_path):
    path = tmp_path / "d.csv"
    names = ",".join(f"c{i}" for i in range(3000))
    path.write_text(f"{names},y\n" + f"{','.join(['1.5'] * 3000)},2.5\n" * 300)
    assert len(np.concatenate(read(path))) == 300


def test_json_by_columns_is_not_read_as_one_row(tmp_path):
    (tmp_path / "d.json").write_text('{"a":{"0":1,"1":2},"y":{"0":3,"1":4}}')
    with pytest.raises(StreamError, match=r"not a row per object; .*orient='records'"):
        FileStream(tmp_path / "d.json", "y")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_infinite_values_of_a_column_are_counted(tmp_path, ending):
    values = np.where(np.isin(np.arange(200), [60, 150]), np.inf, np.arange(200.0))
    values[7] = np.nan
    table = pa.table({"a": values, "b": np.arange(200) % 3, "y": np.arange(200) / 7})
    write = {"csv": arrow_csv.write_csv, "parquet": parquet.write_table}[ending]
    write(table, tmp_path / f"d.{ending}")
    stream = FileStream(tmp_path / f"d.{ending}", "y")
    for _ in range(2):
        X = np.concatenate([X for X, _ in stream])
    assert np.flatnonzero(np.isnan(X[:, 0])).tolist() == [7, 60, 150]
    note = "column 'a' is infinite in 2 rows, treated as missing: first at row 60"
    assert [note in one for one in notes(stream.columns_became())] == [True]


def test_an_infinite_target_names_the_option_that_leaves_its_row_out(tmp_path):
    rows = "".join(f"{i % 7},{i}.5\n" for i in range(60))
    (tmp_path / "d.csv").write_text(f"a,y\n{rows}1,inf\n")
    with pytest.raises(StreamError, match=r"infinite at row 60 .*; leave such rows .* skip_bad="):
        list(FileStream(tmp_path / "d.csv", "y"))
