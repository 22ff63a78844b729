"""CSV files: line breaks in quoted values, no header, blank lines, errors."""

import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pronk.columns.values import code
from pronk.data import FileStream, StreamError, source
from pronk.data.csv import _Grammar

WORDS = ["one", "two\nlines", 'a "quote"', "a, comma", '"\n,\r\n"', "", "three\n\n\nlines"]
ROWS = 200


def rows_of(blocks):
    blocks = list(blocks)
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def written(rows, delimiter=",", end="\n"):
    target = io.StringIO()
    csv.writer(target, delimiter=delimiter, lineterminator=end).writerows(rows)
    return target.getvalue().encode()


@pytest.fixture
def rows():
    return [[i / 8, WORDS[i % len(WORDS)], i % 5 / 2] for i in range(ROWS)]


# -- line breaks in values -------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [7, 64, 1 << 20])
@pytest.mark.parametrize("delimiter, end", [(",", "\n"), (";", "\r\n"), ("|", "\n")])
def test_a_quoted_value_may_hold_line_breaks(tmp_path, monkeypatch, rows, piece, delimiter, end):
    monkeypatch.setattr(source, "_TEXT_BYTES", piece)
    data = written([["a", "the\nword", "y"], *rows], delimiter, end)
    path = tmp_path / "d.csv.gz"
    path.write_bytes(gzip.compress(data))
    stream = FileStream(
        path, "y", categorical=["the\nword"], delimiter=delimiter, rows=16, missing="mean"
    )
    X, y = rows_of(stream)
    expected = [code(word) if word else np.nan for _, word, _ in rows]
    np.testing.assert_array_equal(X[:, 0], [a for a, _, _ in rows])
    np.testing.assert_array_equal(X[:, 1], expected)
    np.testing.assert_array_equal(y, [last for _, _, last in rows])
    for skip in range(16, ROWS, 16):  # a run that goes on
        np.testing.assert_array_equal(rows_of(stream.blocks(skip))[0], X[skip:])


def row_ends(data):
    """Character by character: where rows end, and whether a quote is open at the end."""
    ends, quoted, fresh, place = [0], False, True, 0
    while place < len(data):
        character = data[place : place + 1]
        if quoted and data[place : place + 2] == b'""':
            place += 1
        elif quoted:
            quoted = character != b'"'
        elif fresh and character == b'"':
            quoted, fresh = True, False
        else:
            fresh = character in b",\r\n"
            if character == b"\n":
                ends.append(place + 1)
        place += 1
    return ends, quoted


@settings(max_examples=500, deadline=None)
@given(st.text('a,"\r\n', max_size=30).map(str.encode))
def test_rows_end_as_when_reading_one_character_at_a_time(data):
    grammar = _Grammar(",")
    ends, quoted = row_ends(data)
    assert grammar.whole_rows(data) == ends[-1]
    assert grammar.is_row(data[ends[-1] :]) == (not quoted)
    assert grammar.first_row(data, 0) == (ends[1] if len(ends) > 1 else len(data))


def test_a_quote_inside_a_value_is_a_character(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_TEXT_BYTES", 10)
    path = tmp_path / "d.csv"
    path.write_text('size,y\n5" pipe,0.5\n"6"" pipe",0.7\n7" pipe,0.9\n')
    stream = FileStream(path, "y", categorical=["size"])
    X, y = rows_of(stream)
    assert X[:, 0].tolist() == [code(f'{i}" pipe') for i in (5, 6, 7)]
    assert y.tolist() == [0.5, 0.7, 0.9]


@pytest.mark.parametrize("piece", [10, 1 << 20])
def test_a_quote_that_is_never_closed_loses_no_rows_silently(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(source, "_TEXT_BYTES", piece)
    path = tmp_path / "d.csv"
    path.write_text('a,word,y\n1,"two\nlines",0.5\n2,"one,0.7\n3,two,0.9\n4,two,0.9\n')
    with pytest.raises(StreamError, match=r"d.csv has a quote in line 4 that is never closed"):
        list(FileStream(path, "y", drop=["word"]))
    monkeypatch.setattr(source, "_ROW_BYTES", 20)
    if piece == 10:
        with pytest.raises(StreamError, match="quoted value of more than 20 bytes"):
            list(FileStream(path, "y", drop=["word"]))


@pytest.mark.parametrize("task", ["auto", "regression"])
def test_text_in_a_later_row_of_the_target_is_named(tmp_path, task):
    path = tmp_path / "d.csv"
    lines = [f"{i % 7},{i + 0.5 if i != 4_500 else 'high'}" for i in range(5_000)]
    path.write_text("\n".join(["a,y", *lines]))
    with pytest.raises(StreamError, match=r"has 'high' at row 4500 .* leave such rows out"):
        FileStream(path, "y", task=task, strict=True)
    list(FileStream(path, "y", task=task, strict=True, skip_bad=True))


def test_a_header_without_a_line_end_is_a_file_without_rows(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,y")
    with pytest.raises(StreamError, match=r"d.csv has no rows of data"):
        FileStream(path, "y")


def test_an_empty_column_after_the_last_delimiter_is_left_out(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("\n".join(["a,y,", *(f"{i % 7},{i}," for i in range(50))]))
    stream = FileStream(path, "y")
    assert stream.columns == ["a"]
    assert "column '' is left out: it has no name and no value in the first rows" in stream.notes()


def test_lines_of_errors_count_line_breaks_in_values(tmp_path, monkeypatch):
    path = tmp_path / "d.csv"
    path.write_text('\n\na,word,y\n1,"two\nlines",0.5\n\n2,"one",0.7\n3,two\n')
    for piece in (30, 1 << 20):
        monkeypatch.setattr(source, "_TEXT_BYTES", piece)
        with pytest.raises(StreamError, match="2 values instead of 3 in line 8"):
            list(FileStream(path, "y", strict=True, drop=["word"]))
    path.write_text("a,y\n" + "1,0.5\n" * 20 + '"x\ny",0.5\n')
    monkeypatch.setattr(source, "_TEXT_BYTES", 30)
    with pytest.raises(StreamError, match=r"column 'a' has 'x\\ny' at row 20"):
        list(FileStream(path, "y", strict=True))


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "\r\n\r\n", ""])
def test_the_end_of_a_file(tmp_path, monkeypatch, end):
    monkeypatch.setattr(source, "_TEXT_BYTES", 8)
    path = tmp_path / "d.csv"
    path.write_text('\ufeff"a\nb",y\n1,0.5\n2,"0.7"' + end)
    stream = FileStream(path, "y")
    X, y = rows_of(stream)
    assert stream.columns == ["a\nb"] and X[:, 0].tolist() == [1, 2] and y.tolist() == [0.5, 0.7]


# -- no header -------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_without_a_header_columns_are_numbered(tmp_path, monkeypatch, rows, piece):
    monkeypatch.setattr(source, "_TEXT_BYTES", piece)
    path = tmp_path / "d.csv"
    path.write_bytes(b"\n\n" + written(rows))
    stream = FileStream(path, "x2", drop=["x1"], header=False, rows=16)
    assert stream.columns == ["x0"]
    X, y = rows_of(stream)
    np.testing.assert_array_equal(X[:, 0], [a for a, _, _ in rows])
    np.testing.assert_array_equal(y, [last for _, _, last in rows])
    np.testing.assert_array_equal(rows_of(stream.blocks(64))[0], X[64:])
    with pytest.raises(StreamError, match=r"no column 'y'; it has x0, x1, x2"):
        FileStream(path, "y", header=False)


def test_several_files_without_headers(tmp_path):
    (tmp_path / "1.csv").write_text("1,0.5\n2,0.7\n")
    (tmp_path / "2.csv").write_text("3,0.9\n")
    X, y = rows_of(FileStream(tmp_path, "x1", header=False))
    assert X[:, 0].tolist() == [1, 2, 3] and y.tolist() == [0.5, 0.7, 0.9]
    (tmp_path / "3.csv").write_text("3\n")
    with pytest.raises(StreamError, match=r"3.csv has no column 'x1'"):
        list(FileStream(tmp_path, "x1", header=False))
    (tmp_path / "3.csv").write_text("")
    with pytest.raises(StreamError, match=r"3.csv is empty"):
        list(FileStream(tmp_path, "x1", header=False))


def test_a_title_above_the_header_is_named(tmp_path):
    (tmp_path / "d.csv").write_text("Sales of 2024\n\na,y\n1,2\n3,4\n")
    with pytest.raises(StreamError, match="it has Sales of 2024; if that is a title, delete"):
        FileStream(tmp_path / "d.csv", "y")


def test_spaces_around_the_names_of_a_header_are_no_part_of_them(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("time, size ,\t y\n" + "".join(f"{i}, {i % 7}, {i % 5}.5\n" for i in range(60)))
    stream = FileStream(path, "y")
    assert stream.columns == ["time", "size"]
    with pytest.raises(StreamError, match="did you mean 'size'"):
        FileStream(path, "Size")


def test_numbers_with_a_unit_are_neither_classes_nor_silently_categories(tmp_path):
    path = tmp_path / "d.csv"
    rows = "".join(f"{i % 9}.5 m,{i % 8} kg,{i % 3}A\n" for i in range(60))
    path.write_text("a,y,flat\n" + rows)
    with pytest.raises(StreamError, match=r"numbers with the unit 'kg'; write them without it"):
        FileStream(path, "y", categorical="auto")
    stream = FileStream(path, "y", categorical="auto", task="classification")
    assert any("'a' has numbers with the unit 'm'" in str(note) for note in stream.notes())
    flats = "".join(f"{i % 9}{'AB'[i % 2]},{i}\n" for i in range(60))
    (tmp_path / "e.csv").write_text("a,y\n" + flats)
    assert not FileStream(tmp_path / "e.csv", "y", categorical="auto").notes()


@pytest.mark.parametrize("first", ["1,0.5", "1,1", "1,Rome,0.5"])
def test_a_missing_header_is_noticed(tmp_path, first):
    path = tmp_path / "d.csv"
    path.write_text(f"{first}\n{first.replace('1', '2')}\n")
    with pytest.raises(StreamError, match="seems to be data: give header=False"):
        FileStream(path, "x1")


def test_only_csv_files_have_no_header(tmp_path):
    (tmp_path / "d.ndjson").write_text('{"a": 1, "y": 0.5}\n')
    with pytest.raises(StreamError, match=r"header=False: .*d.ndjson is not a CSV file"):
        FileStream(tmp_path / "d.ndjson", "y", header=False)


# -- reading from the middle of a file -------------------------------------------------------------


def tricky(rows, header="a,b,y", ends="\n"):
    """Rows with quotes, line breaks in values, doubled quotes, empty lines."""
    rng = np.random.default_rng(rows)
    lines = [header] if header else []
    for i in range(rows):
        text = ['"x\ny"', "plain", '"say ""no""\n\n"', '"a,b"', 'in"side'][int(rng.integers(5))]
        lines += [f"{rng.normal():.6f},{text},{i}"] + ([""] if rng.random() < 0.1 else [])
    return ends.join(lines) + ends


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("header", ["a,b,y", ""])
def test_reading_begins_at_any_row(tmp_path, monkeypatch, ends, header):
    """The same rows as from the start."""
    monkeypatch.setattr("pronk.data.source._TEXT_BYTES", 300)
    monkeypatch.setattr("pronk.data.source._LINES", 1)
    path = tmp_path / "t.csv"
    path.write_bytes(tricky(400, header, ends).encode())
    names = ("y", "b") if header else ("x2", "x1")
    stream = FileStream(path, names[0], drop=[names[1]], header=bool(header), rows=50)
    expected = np.concatenate([y for _, y in stream])
    assert expected.tolist() == list(range(400))
    for row in (0, 1, 57, 200, 399, 400, 1000):
        found = [y for _, y, *_ in stream.blocks(row)]
        assert np.concatenate([*found, np.empty(0)]).tolist() == expected[row:].tolist()


def test_a_bad_row_is_named_by_its_place_also_from_the_middle(tmp_path, monkeypatch):
    monkeypatch.setattr("pronk.data.source._TEXT_BYTES", 300)
    lines = tricky(300).splitlines()
    lines += ["not a number,x,300", "1,2"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    messages = []
    for row in (0, 200):
        with pytest.raises(StreamError) as caught:
            list(FileStream(tmp_path / "t.csv", "y", strict=True, drop=["b"]).blocks(row))
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and f"line {len(lines)}" in messages[0]
    (tmp_path / "t.csv").write_text("\n".join(lines[:-1]) + "\n")
    for row in (0, 200):
        with pytest.raises(StreamError, match="at row 300 "):
            list(FileStream(tmp_path / "t.csv", "y", strict=True, drop=["b"]).blocks(row))


def test_several_files_begin_at_any_row(tmp_path, monkeypatch):
    monkeypatch.setattr("pronk.data.source._TEXT_BYTES", 300)
    for i in range(4):
        lines = [f"{j}.5,{90 * i + j}" for j in range(90)]
        (tmp_path / f"{i}.csv").write_text("\n".join(["a,y", *lines]))
    stream = FileStream(tmp_path, "y", rows=25)
    for row in (0, 89, 90, 200, 359, 360, 500):
        found = [y for _, y, *_ in stream.blocks(row)]
        assert np.concatenate([*found, np.empty(0)]).tolist() == list(range(360))[row:]
