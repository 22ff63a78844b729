"""Files and frames with rare types, mixed columns, and bad rows of every type."""

import datetime
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import scipy.sparse

import pronk
from pronk.columns.frames import Layout, as_table
from pronk.columns.values import as_numbers, in_words, kind_of
from pronk.data import FileStream, Reading, StreamError
from pronk.data.csv import CSVSource
from pronk.data.source import TextFile, as_types

DAY = 86400.0
NOON = datetime.datetime(2024, 3, 1, 12)


def test_times_of_every_type_are_seconds_in_utc():
    wall = (NOON - datetime.datetime(1970, 1, 1)).total_seconds()
    day = NOON.date()
    for values, expected in [
        (pa.array([NOON, None], pa.timestamp("us")), wall),
        (pa.array([NOON, None], pa.timestamp("ns", "Asia/Tokyo")), wall),  # NOON is in UTC
        (pa.array(["2024-03-01T21:00:00+09:00", None]), wall),
        (pa.array([day, None], pa.date32()), wall - DAY / 2),
        (pa.array([day, None], pa.date64()), wall - DAY / 2),
        (pa.array([datetime.time(12), None], pa.time32("s")), DAY / 2),
        (pa.array([datetime.time(12), None], pa.time64("us")), DAY / 2),
    ]:
        text = values.type == pa.string()
        got = as_numbers(values, "time" if text else kind_of(values.type))
        np.testing.assert_allclose(got, [expected, np.nan], rtol=1e-15, atol=0)
        assert in_words(values.type) == ("text" if text else "a date or time")
    assert np.isnan(as_numbers(pa.nulls(3), "time")).all()
    assert kind_of(pa.time32("s")) == "clock" and kind_of(pa.duration("s")) == "number"


def test_a_clock_alone_is_a_circle_and_its_day(tmp_path):
    """A column of times of the day: learned, and missing ones are refused by their name."""
    clock = [datetime.time(i % 24) for i in range(300)]
    y = np.cos(2 * np.pi * np.arange(300) / 24)
    table = pa.table({"clock": pa.array(clock, pa.time32("s")), "y": y})
    parquet.write_table(table, tmp_path / "d.parquet")
    stream = FileStream(tmp_path / "d.parquet", "y")
    assert stream.kinds == ["clock"]
    model = pronk.Prepared(pronk.make("pkawv-taylor", degree=2)).fit(table.select(["clock"]), y)
    error = np.abs(model.predict(table.select(["clock"])) - y).mean()
    assert error < 0.05 and model.kinds_ == ["clock"]


def test_frames_that_are_refused():
    for names, kinds, words in [
        (None, ("number", "smell"), "kinds must be among"),
        (("a",), ("number", "number"), "1 names for 2 columns"),
    ]:
        with pytest.raises(ValueError, match=words):
            Layout(names, kinds)
    model = pronk.Prepared(pronk.make("fogd", random_state=0), categorical=(5,))
    with pytest.raises(ValueError, match="categorical column 5: X has 2 columns"):
        model.fit(np.zeros((4, 2)), np.zeros(4))
    plain = Layout(None, ("number", "number"))
    with pytest.raises(ValueError, match="3 features, but this model is expecting 2"):
        plain.rows(np.array([["1", 2, 3]], dtype=object))
    mixed = pd.DataFrame({"a": [1, "x", b"y"]})
    with pytest.raises(ValueError, match="X has a column of mixed values: "):
        as_table(mixed)
    with pytest.raises(ValueError, match=r"X column 'a' has True at row 0 .* not a time like"):
        Layout(("a",), ("time",)).rows(pd.DataFrame({"a": [True, False]}))


def test_frames_without_names_and_tables_of_others():
    """Columns of a frame that have numbers for names, sparse rows, any Arrow stream, dates."""
    layout = Layout(None, ("number", "number"))
    rows = np.arange(6.0).reshape(3, 2)
    assert (layout.rows(pd.DataFrame(rows)) == rows).all()
    assert (layout.rows(scipy.sparse.csr_array(rows)) == rows).all()

    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"a": rows[:, 0], "b": rows[:, 1]}).__arrow_c_stream__(requested_schema)

    assert (layout.rows(Capsule()) == rows).all()
    days = np.array([["2024-03-01"], ["NaT"]], dtype="datetime64[D]")
    got = Layout(None, ("date",)).rows(days)
    assert got[0, 0] == (NOON.date() - datetime.date(1970, 1, 1)).days * DAY and np.isnan(got[1, 0])
    words = as_table(np.array([[1], ["x"], [None]], dtype=object))
    assert words.column(0).to_pylist() == ["1", "x", None]


def test_bad_words_of_every_type(tmp_path):
    """A row is bad where a word is not of its column's type; the others keep their values."""
    types = {
        "n": pa.float64(),
        "i": pa.int64(),
        "b": pa.bool_(),
        "s": pa.string(),
    }
    text = (
        "1,5;2;true;x\n"  # good
        "1.5;2;true;x\n"
        "1_000;2;true;x\n"
        "1;2.5;true;x\n"
        "1;2;maybe;x\n"
        "1;2_0;false;x\n"
        "1;2\n"
        ";;;\n"  # gaps are no bad rows
    )
    (tmp_path / "d.csv").write_text(";".join(types) + "\n" + text)
    source = CSVSource(TextFile(tmp_path / "d.csv"), ";", decimal=",", lenient=True)
    table = pa.Table.from_batches(source.batches({**types, "\x00why": pa.string()}))
    reasons = table.column(len(types)).to_pylist()
    bad = [reason is not None for reason in reasons]
    assert bad == [False, True, True, True, True, True, True, False]
    for reason, name in zip(reasons[1:6], ("n", "n", "i", "b", "i"), strict=True):
        assert f"column {name!r}" in reason
    assert table.slice(0, 1).to_pylist()[0] | {"\x00why": None} == {
        "n": 1.5, "i": 2, "b": True, "s": "x", "\x00why": None,
    }  # fmt: skip
    assert table.column("n").to_pylist()[3:6] == [1.0, 1.0, 1.0]


def test_bad_rows_of_a_file_with_labels_of_words(tmp_path):
    """Pieces with and without bad rows; text that is neither mostly numbers nor times stays."""
    lines = [f"{i},{'ab'[i % 2]},{'true' if i % 3 else 'false'}" for i in range(60)]
    lines[7] = "x,a,true"
    (tmp_path / "d.csv").write_text("n,w,y\n" + "\n".join(lines) + "\n")
    reading = Reading(tmp_path / "d.csv", "y", skip_bad=True, categorical=("w",))
    stream = reading.open(rows=16)
    blocks = list(stream.blocks())
    assert sum(len(block.X) for block in blocks) == sum(len(block.y) for block in blocks) == 59
    assert [block.position for block in blocks] == [16, 32, 48, 60]
    ((bad,),) = [block.bad for block in blocks if block.bad]
    assert bad.row == 7 and "column 'n' has 'x'" in bad.reason


def test_a_column_that_a_later_file_lacks():
    batch = pa.record_batch({"a": [1, 2]})
    assert as_types(batch, {"a": pa.float64()}).column(0).to_pylist() == [1.0, 2.0]
    with pytest.raises(StreamError, match="a file has no column 'b', as the files before it"):
        as_types(batch, {"a": pa.float64(), "b": pa.float64()})


def test_targets_too_large_are_bad_rows(tmp_path):
    y = np.arange(20.0)
    y[5] = 1e200
    table = {"a": np.arange(20.0), "y": y}
    parquet.write_table(pa.table(table), tmp_path / "d.parquet")
    stream = Reading(tmp_path / "d.parquet", "y", skip_bad=True).open()
    (block,) = stream.blocks()
    assert len(block.y) == 19 and block.position == 20
    assert [bad.row for bad in block.bad] == [5] and "'y'" in block.bad[0].reason


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("d.libsvm", "1\n2\n", "is empty, or it has no index:value"),
        ("d.ndjson", b'{"a": 1, "y": "\xff\xfe"}\n' * 3, "is not UTF-8 text"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(StreamError, match=words):
        list(Reading(tmp_path / name, None if name.endswith("libsvm") else "y").open().blocks())


def test_blank_lines_among_bad_ones(tmp_path):
    good = [f'{{"a": {i}, "y": {i}}}' for i in range(30)]
    (tmp_path / "d.ndjson").write_text("\n".join([*good, "", "nothing", "  ", *good]) + "\n")
    stream = Reading(tmp_path / "d.ndjson", "y", skip_bad=True).open()
    (block,) = stream.blocks()
    assert len(block.y) == 60 and len(block.bad) == 1


def test_a_block_of_bad_rows_has_no_rows_and_its_place(tmp_path):
    lines = [f"{i},{i}" if i < 8 else f"x{i},1" for i in range(12)]
    (tmp_path / "d.csv").write_text("a,y\n" + "\n".join(lines) + "\n")
    stream = FileStream(tmp_path / "d.csv", "y", skip_bad=True, rows=4)
    blocks = list(stream.blocks())
    assert [(len(b.y), b.position, len(b.bad)) for b in blocks] == [
        (4, 4, 0),
        (4, 8, 0),
        (0, 12, 4),
    ]
    assert [len(y) for _, y in stream] == [4, 4]


def test_errors_have_fields_and_survive_another_process(tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n1,0.5\n,1.5\n" + "2,2.5\n" * 9)
    with pytest.raises(StreamError) as caught:
        list(FileStream(tmp_path / "d.csv", "y", strict=True))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.row, error.column, error.argument) == (1, "a", None)
    assert str(error).endswith("at row 1 (counting from 0); missing='mean' fills it in")
    assert error.as_options().endswith("(counting from 0); --missing mean fills it in")
    with pytest.raises(StreamError) as caught:
        FileStream(tmp_path / "d.csv", "z", strict=True)
    assert (caught.value.argument, caught.value.column) == ("target", "z")
    assert str(caught.value).startswith("target: ")
    assert caught.value.as_options().startswith("--target: ")
    assert str(caught.value.changed(argument="by")).startswith("by: ")


def test_how_far_several_files_are(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text("a,y\n" + "1,2\n" * 50)
    stream = FileStream(tmp_path / "*.csv", "y", rows=50)
    seen = [stream._source.total() for _ in stream]
    assert len(seen) == 3 and seen[-1] == 150.0 * 3 / 2  # the last file counts when it is done
