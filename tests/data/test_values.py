"""A value is the same in files, frames and JSON; dates are read in the usual spellings."""

import datetime
import json
import unicodedata
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pronk
from helpers import pronk_run
from pronk.columns.dates import decide, read, read_one
from pronk.columns.preparation import notes
from pronk.columns.values import MISSING_WORDS, as_number, as_numbers, column_of, word_reader
from pronk.data import FileStream, StreamError

#: Rows with a number, true or false, a whole number and a fraction as categories, true or false as
#: a category, text, a moment with an offset, a date, a clock time.
KINDS = ["number", "boolean", "category", "category", "category", "category", "time", "date"]
KINDS += ["clock"]
NAMES = ["n", "b", "k", "f", "t", "w", "when", "day", "clock"]
CATEGORICAL = ["k", "f", "t", "w"]
TEXT = [
    ["1.5", "true", "1", "1.0", "True", "x", "2015-06-30T12:00:00+09:00", "2015-06-30", "12:30"],
    ["2.0", "false", "2", "2.5", "False", "y", "2015-07-01T00:00:00Z", "2015-07-01", "00:15:30"],
    ["7.0", "true", "3", "3.0", "True", "x", "2015-07-01T00:30:00-05:30", "2015-07-02", "23:59"],
]


def python_rows():
    """The same as Python has it."""
    zones = [datetime.timezone(datetime.timedelta(hours=h)) for h in (9, 0, -5.5)]
    moments = [
        datetime.datetime(2015, 6, 30, 12, tzinfo=zones[0]),
        datetime.datetime(2015, 7, 1, 0, tzinfo=zones[1]),
        datetime.datetime(2015, 7, 1, 0, 30, tzinfo=zones[2]),
    ]
    clocks = [datetime.time(12, 30), datetime.time(0, 15, 30), datetime.time(23, 59)]
    return [
        [
            float(row[0]), row[1] == "true", int(row[2]), float(row[3]), row[4] == "True", row[5],
            moment, datetime.date.fromisoformat(row[7]), clock,
        ]
        for row, moment, clock in zip(TEXT, moments, clocks, strict=True)
    ]  # fmt: skip


def table():
    columns = list(zip(*python_rows(), strict=True))
    made = {name: list(values) for name, values in zip(NAMES, columns, strict=True)}
    utc = [moment.astimezone(datetime.UTC) for moment in made["when"]]
    return pa.table({**made, "when": pa.array(utc, pa.timestamp("us", "Asia/Tokyo"))})


def from_file(path, **choices):
    stream = FileStream(path, "y", categorical=CATEGORICAL, **choices)
    assert stream.kinds == KINDS and stream.columns == NAMES
    ((X, _),) = stream
    return X


def test_all_ways_in_give_the_same_numbers(tmp_path):
    polars = pytest.importorskip("polars")
    text = "\n".join(",".join([*row, "0.5"]) for row in TEXT)
    (tmp_path / "d.csv").write_text(",".join([*NAMES, "y"]) + "\n" + text + "\n")
    expected = from_file(tmp_path / "d.csv")
    assert expected[:, 1].tolist() == [1.0, 0.0, 1.0]
    noon = datetime.datetime(2015, 6, 30, 3) - datetime.datetime(1970, 1, 1)
    assert expected[0, 6] == noon.total_seconds()  # in UTC
    own = table().append_column("y", pa.array([0.5, 0.5, 0.5]))
    parquet.write_table(own, tmp_path / "d.parquet")
    feather.write_feather(own, str(tmp_path / "d.arrow"))
    lines = [
        dict(zip([*NAMES, "y"], [*row[:6], *words[6:], 0.5], strict=True))
        for row, words in zip(python_rows(), TEXT, strict=True)
    ]
    (tmp_path / "d.ndjson").write_text("\n".join(map(json.dumps, lines)))
    for name in ("d.parquet", "d.arrow", "d.ndjson"):
        np.testing.assert_array_equal(from_file(tmp_path / name), expected)

    def prepared(X):
        model = pronk.Prepared(pronk.make("fogd", random_state=0), categorical=[2, 3, 4, 5])
        assert model.fit(X, [0.5, 0.5, 0.5]).kinds_ == KINDS
        return model.encode(X)

    words = pd.DataFrame(TEXT, columns=NAMES).assign(
        n=[float(row[0]) for row in TEXT], b=[row[1] == "true" for row in TEXT]
    )
    objects = np.array(python_rows(), dtype=object)
    arrow = table()
    for X in (arrow, arrow.to_pandas(), polars.from_arrow(arrow), words, objects, python_rows()):
        np.testing.assert_array_equal(prepared(X), expected)
    # What JSON brings to the service.
    single = [
        [as_number(line[name], kind) for name, kind in zip(NAMES, KINDS, strict=True)]
        for line in lines
    ]
    np.testing.assert_array_equal(single, expected)


def test_intervals_of_pandas_are_categories():
    """Those of `pandas.cut` and of an index of intervals; periods as categories are times."""
    numbers = np.array([1.0, 4.0, np.nan, 9.0] * 3)
    cut = pd.Series(pd.cut(numbers, [0.0, 2.5, 5.0, 10.0]))
    months = pd.Series(pd.period_range("2024-01", periods=12, freq="M"))
    words = pd.DataFrame({"a": cut.astype(object).map(str, na_action="ignore"), "m": months})
    expected = pronk.Prepared(pronk.make("fogd", random_state=0)).encode(words)
    for column in (cut, pd.Series(pd.arrays.IntervalArray(cut))):
        frame = pd.DataFrame({"a": column, "m": months.astype("category")})
        model = pronk.Prepared(pronk.make("fogd", random_state=0)).fit(frame, np.arange(12.0))
        assert model.layout_.kinds == ("category", "date")
        np.testing.assert_array_equal(model.encode(frame), expected)
        np.testing.assert_array_equal(model.encode(frame[3:4]), expected[3:4])
        first = {"a": frame["a"].iloc[0], "m": months[0].to_timestamp().date()}
        np.testing.assert_array_equal(model.encode([first]), expected[:1])
        np.testing.assert_array_equal(model.layout_.rows(model.layout_.row(first)), expected[:1])


def test_a_number_in_a_column_of_times_is_its_seconds(tmp_path, capsys):
    """In arrays, frames, tables, dicts, JSON and the files that a saved model predicts."""
    polars = pytest.importorskip("polars")
    moments = pd.date_range("2015-01-31 18:30", periods=60, freq="min")
    seconds = moments.astype("datetime64[s]").astype(np.int64).to_numpy()
    frame = pd.DataFrame({"when": moments})
    model = pronk.Prepared(pronk.make("fogd", random_state=0))
    model.fit(frame, np.arange(60.0))
    expected = seconds[:, None].astype(np.float64)
    numbers = pd.DataFrame({"when": seconds})
    ways = [
        frame, numbers, numbers.astype(float), polars.from_pandas(numbers),
        pa.table({"when": seconds}), expected,
    ]  # fmt: skip
    for X in ways:
        np.testing.assert_array_equal(model.encode(X), expected)
        np.testing.assert_array_equal(model.encode(X[:1] if X is not ways[4] else X.slice(0, 1)),
                                      expected[:1])  # fmt: skip
    for value in (int(seconds[0]), float(seconds[0]), np.float64(seconds[0])):
        np.testing.assert_array_equal(model.layout_.row({"when": value}), expected[:1])
    assert as_number(int(seconds[0]), "time") == as_number(float(seconds[0]), "time") == seconds[0]
    model.save(tmp_path / "model.pronk")
    found = []
    for name, X in (("moments", frame), ("numbers", numbers)):
        X.to_parquet(tmp_path / f"{name}.parquet")
        code, out, err = pronk_run(
            capsys, "predict", tmp_path / "model.pronk", tmp_path / f"{name}.parquet"
        )
        assert code == 0, err
        found.append(out)
    assert found[0] == found[1]


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans()))
def test_a_category_is_its_text(value):
    """A number, its text and an Arrow column of it are one category."""
    numbers = as_numbers(column_of([value, value]), "category").tolist()
    assert numbers == [as_number(value, "category")] * 2 == [as_number(str(value), "category")] * 2


def test_other_text_is_another_category():
    codes = [as_number(word, "category") for word in ("1", "01", " 1", "1_0", "10", "one", "+1")]
    assert len(set(codes)) == len(codes)
    assert as_number("1.50", "category") == as_number(1.5, "category")


NOON = datetime.datetime(2015, 1, 31, 18, 30)


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ("2015-01-31T18:30:00", "iso"),
        ("2015-01-31 18:30", "iso"),
        ("2015/1/31 18:30:00.000", "iso"),
        ("2015-01-31T18:30Z", "iso"),
        ("2015-01-31 19:30:00+01:00", "iso"),
        ("2015-01-31T1300-0530", "iso"),
        ("31.01.2015 18:30", "dayfirst"),
        ("31/1/2015 18:30:00", "dayfirst"),
        ("31-01-2015 6:30 PM", "dayfirst"),
        ("1/31/2015 6:30pm", "monthfirst"),
        ("31 Jan 2015 18:30", "iso"),
        ("31-jan-2015 18:30", "iso"),
        ("January 31, 2015 18:30", "iso"),
    ],
)
def test_spellings_of_a_moment(words, order):
    expected = (NOON - datetime.datetime(1970, 1, 1)).total_seconds()
    assert read_one(words, "time", order) == expected
    assert read(pa.array([words, None, words]), "time", order)[[0, 2]].tolist() == [expected] * 2
    found = decide(pa.array([words, None, "?"] + [words] * 3))
    assert found == ("time", order, True)


@pytest.mark.parametrize(
    "words",
    ["20150131", "2015-02-29", "31.04.2015", "13/13/2015", "2015-01-31 25:00", "soon", "", "12:30",
     "2015-01-31 13:00 PM", "0000-01-01", "٢٠١٥-01-31", "1 Foo 2015"],
)  # fmt: skip
def test_what_is_no_moment_is_missing(words):
    for order in ("iso", "dayfirst", "monthfirst"):
        assert np.isnan(read(pa.array([words, "2015-01-31"]), "time", order)).tolist() == [1, 0]
    assert decide(pa.array([words])) is None or words == "12:30"


@settings(deadline=None, max_examples=50)
@given(st.lists(st.datetimes(datetime.datetime(1, 1, 2)), min_size=1, max_size=5))
def test_what_arrow_reads_is_read_the_same_one_by_one(moments):
    """So that a single odd value in a block does not change the others."""
    words = [moment.isoformat(" ") for moment in moments]
    together = read(pa.array(words), "time")
    assert together.tolist() == [read_one(word, "time") for word in words]
    assert read(pa.array([*words, "soon"]), "time")[:-1].tolist() == together.tolist()


def test_the_order_is_decided_by_the_values_and_stated(tmp_path):
    for words, order, shown in [
        (["01/02/2015", "13/02/2015"], "dayfirst", True),
        (["01/02/2015", "02/13/2015"], "monthfirst", True),
        (["01/02/2015"], "monthfirst", False),
        (["01.02.2015"], "dayfirst", False),
        (["2015-01-02"], "iso", True),
    ]:
        assert decide(pa.array(words)) == ("date", order, shown)
    path = tmp_path / "d.csv"
    path.write_text("t,y\n" + "".join(f"0{1 + i % 9}/02/2015,{i}\n" for i in range(60)))
    stream = FileStream(path, "y")
    assert stream.kinds == ["date"] and stream.orders == ["monthfirst"]
    (note,) = stream.notes(options=True)
    assert "'t' are read with the month first" in note and "--dates dayfirst" in note
    given_one = FileStream(path, "y", dates="dayfirst")
    assert given_one.orders == ["dayfirst"] and not given_one.notes()
    with pytest.raises(StreamError, match="'t' is not numeric"):
        FileStream(path, "y", dates="iso", strict=True)
    assert FileStream(path, "y", dates="iso", categorical="auto").kinds == ["category"]
    with pytest.raises(StreamError, match="dates must be one of auto, iso, dayfirst, monthfirst"):
        FileStream(path, "y", dates="us")


def test_a_time_that_cannot_be_read_is_an_error_or_missing(tmp_path):
    # The odd values stand behind what decides the types of the columns.
    lines = [f"2015-01-{1 + i % 28:02d} 10:00,{i}" for i in range(90_000)]
    lines[80_000] = "soon,1"
    lines[80_003] = "31.01.2015 10:00,1"
    path = tmp_path / "d.csv"
    path.write_text("t,y\n" + "\n".join(lines) + "\n")
    with pytest.raises(StreamError, match=r"'t' has 'soon', .* at row 80000 .*missing='mean'"):
        list(FileStream(path, "y", strict=True))
    stream = FileStream(path, "y", missing="mean")
    X = np.concatenate([X for X, _ in stream])
    assert np.flatnonzero(np.isnan(X[:, 0])).tolist() == [80_000, 80_003]
    assert stream.unread == {"t": {"rows": 2, "first": 80_000, "value": "soon"}}
    lenient = list(FileStream(path, "y", skip_bad=True, strict=True).blocks())
    assert sum(len(block.y) for block in lenient) == 89_998
    assert [(bad.row, "'t' has" in bad.reason) for block in lenient for bad in block.bad] == [
        (80_000, True), (80_003, True)
    ]  # fmt: skip


GAPS = ["", "NA", "null", "n/a"]


def test_words_for_missing_are_those_of_arrow():
    assert set(arrow_csv.ConvertOptions().null_values) == MISSING_WORDS


def test_text_that_means_missing_is_missing_in_every_way_in(tmp_path):
    """The words are missing in text of every kind: of CSV and other files, frames and JSON."""
    words = {"w": ["a", *GAPS, "b"], "b": ["true", *GAPS, "false"]}
    words |= {"t": ["2015-01-01 10:00", *GAPS, "2015-01-02 11:00"], "c": ["10:00", *GAPS, "11:00"]}
    kinds = ["category", "category", "time", "clock"]
    rows = list(zip(*words.values(), strict=True))
    lines = [",".join([*row, "0.5"]) for row in rows]
    (tmp_path / "d.csv").write_text("\n".join(["w,b,t,c,y", *lines]) + "\n")
    parquet.write_table(pa.table({**words, "y": [0.5] * 6}), tmp_path / "d.parquet")
    lines = [json.dumps({**dict(zip(words, row, strict=True)), "y": 0.5}) for row in rows]
    (tmp_path / "d.ndjson").write_text("\n".join(lines))
    found = []
    for name in ("d.csv", "d.parquet", "d.ndjson"):
        stream = FileStream(tmp_path / name, "y", missing="mean", categorical=["w", "b"])
        assert stream.kinds == kinds
        ((X, _),) = stream
        assert not stream.unread
        found.append(X)
    frame = pd.DataFrame(words)
    model = pronk.Prepared(pronk.make("fogd", random_state=0), missing="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(frame, [0.5] * 6).kinds_ == kinds
        found.append(model.encode(frame))
        found.append(np.concatenate([model.encode(frame[i : i + 1]) for i in range(6)]))
        found.append(np.concatenate([model.layout_.row(row) for row in frame.to_dict("records")]))
        found.append(model.encode(frame.astype("category")))
    found.append([[as_number(v, k) for v, k in zip(row, kinds, strict=True)] for row in rows])
    assert np.isnan(found[0]).all(axis=1).tolist() == [0, 1, 1, 1, 1, 0]
    for X in found[1:]:
        np.testing.assert_array_equal(X, found[0])
    for values in (words["b"], [True, None, None, None, None, False]):
        numbers = as_numbers(pa.array(values), "boolean")
        np.testing.assert_array_equal(numbers, [1, *[np.nan] * 4, 0])
    strict = pronk.Prepared(pronk.make("fogd", random_state=0), missing="error")
    with pytest.raises(ValueError, match=r"'w' is missing or NaN at row 1 .*missing='mean'"):
        strict.fit(frame, [0.5] * 6)


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "0", "False", "tRue", "2", "yes"])
def test_true_and_false_in_text_are_the_same_for_files_frames_and_json(word):
    number = as_number(word, "boolean")
    try:
        column = as_numbers(pa.array([word]), "boolean")[0]
    except pa.ArrowInvalid:
        column = np.nan
    try:
        csv = float(word_reader(pa.bool_(), ".")(word))
    except ValueError:
        csv = np.nan
    np.testing.assert_array_equal([column, csv], [number, number])


def test_the_hours_of_a_column_of_dates_are_not_dropped_without_a_note(tmp_path):
    days = ["2015-01-01"] * 5000 + ["2015-01-02 18:30", "2015-01-03", "2015-01-03T06:00"]
    lines = [f"{day},{i % 7}.5" for i, day in enumerate(days)]
    (tmp_path / "d.csv").write_text("t,y\n" + "\n".join(lines) + "\n")
    stream = FileStream(tmp_path / "d.csv", "y")
    assert stream.kinds == ["date"] and sum(len(y) for _, y in stream) == 5003
    assert stream.hours == {"t": {"rows": 2, "first": 5000, "value": "2015-01-02 18:30"}}
    (note,) = notes(stream.columns_became())
    assert "hours of 2 rows are not used: first '2015-01-02 18:30' at row 5000" in note
    later = pd.DataFrame({"t": ["2015-01-02 18:30"]})
    model = pronk.Prepared(pronk.make("fogd", random_state=0))
    model.fit(pd.DataFrame({"t": ["2015-01-01"]}), [1.0])
    several = pd.DataFrame({"t": [*later["t"], "2015-01-01"]})
    for X in (later, several, later.assign(t=pd.to_datetime(later["t"]))):
        with pytest.warns(UserWarning, match="'t' began with dates .* are not used"):
            model.predict(X)
    with pytest.warns(UserWarning, match="'t' began with dates"):
        model.predict_one({"t": "2015-01-02 18:30"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(pd.DataFrame({"t": ["2015-01-02", "2015-01-03 00:00"]}))


def test_frames_of_text_dates(tmp_path):
    moments = pd.date_range("2015-01-01", periods=400, freq="7h")
    y = np.sin(2 * np.pi * moments.hour / 24)
    typed = pronk.Prepared(pronk.make("fogd", random_state=0)).fit(pd.DataFrame({"t": moments}), y)
    for form, dates in [("%Y-%m-%dT%H:%M", "iso"), ("%d.%m.%Y %H:%M", "dayfirst"),
                        ("%m/%d/%Y %I:%M %p", "monthfirst")]:  # fmt: skip
        frame = pd.DataFrame({"t": moments.strftime(form)})
        model = pronk.Prepared(pronk.make("fogd", random_state=0)).fit(frame, y)
        assert model.columns_ == [{"name": "t", "kind": "time", "dates": dates}]
        assert np.array_equal(model.predict(frame), typed.predict(pd.DataFrame({"t": moments})))
        # Row by row, and after a restart, the same.
        single = pronk.Prepared(pronk.make("fogd", random_state=0))
        for i in range(40):
            single.partial_fit(frame[i : i + 1], y[i : i + 1])
        single.save(tmp_path / "m.pronk")
        again = pronk.load(tmp_path / "m.pronk").partial_fit(frame[40:], y[40:])
        assert again.columns_ == model.columns_
        np.testing.assert_allclose(again.predict(frame), model.predict(frame), rtol=0, atol=1e-10)
    odd = pd.DataFrame({"t": ["2015-01-01", "soon"]})
    with pytest.raises(ValueError, match=r"'t' has 'soon' at row 1 .* not a date"):
        pronk.Prepared(pronk.make("fogd", random_state=0), missing="error").fit(odd, [1.0, 2.0])
    filling = pronk.Prepared(pronk.make("fogd", random_state=0), missing="mean")
    with pytest.warns(UserWarning, match="1 such values are treated as missing"):
        filling.fit(odd, [1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert filling.predict(odd[:1]).shape == (1,)


def test_what_each_column_became():
    frame = pd.DataFrame(
        {
            "n": [1.0, 2.0, 3.0, 4.0],
            "b": [True, False, True, True],
            "w": ["a", "b", "c", "d"],
            "day": ["31.01.2015"] * 4,
        }
    )
    model = pronk.Prepared(pronk.make("fogd", random_state=0), slots=3).fit(frame, [1, 2, 3, 4])
    assert model.columns_ == [
        {"name": "n", "kind": "number"},
        {"name": "b", "kind": "boolean"},
        {"name": "w", "kind": "category", "categories": 4, "slots": 3, "beyond": 1},
        {"name": "day", "kind": "date", "dates": "dayfirst"},
    ]


def test_composed_and_decomposed_accents_are_one_category():
    names = [unicodedata.normalize(form, "Genève") for form in ("NFC", "NFD")]
    assert names[0] != names[1]
    codes = [as_number(name, "category") for name in names]
    assert codes[0] == codes[1] and as_numbers(pa.array(names), "category").tolist() == codes
    X = pd.DataFrame({"city": [*names, "Oslo"]})
    model = pronk.Prepared(pronk.FOGDRegressor(random_state=0)).fit(X, [1.0, 2.0, 3.0])
    predicted = model.predict(X)
    assert predicted[0] == predicted[1] != predicted[2]
    assert model.predict(X[1:2])[0] == predicted[0]
