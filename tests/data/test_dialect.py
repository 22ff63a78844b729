"""How a file is written, and how people write numbers."""

import re

import pytest

from pronk.columns.spelling import is_amount, loosely
from pronk.data import FileStream
from pronk.data.dialect import Dialect, charset_of, dialect_of

ROWS = {
    "a,b,y\n1,2,3\n4,5,6\n": Dialect(","),
    "a;b;y\n1,5;2;3\n4,25;5;6\n": Dialect(";", ","),
    "a;b;y\n1.5;2;3\n4;5,5;6\n": Dialect(";"),  # both marks: points, as usual
    "a\tb\n1\t2\n3\t4\n": Dialect("\t"),
    "a|b\n1|x,y\n3|z,w\n": Dialect("|"),
    "y\n1,5\n2,25\n": Dialect(";", ","),
    "y\n1.5\n2.25\n": Dialect(","),
    'a,b\n"x;y",1\n"z;w",2\n': Dialect(","),
    "a  b   y\n1  2   3\n10 2   3\n": Dialect(" "),
    "a b,y\n1,2\n3,4\n": Dialect(","),
    "# one\na,b\n1,2\n3,4\n": Dialect(",", comments=True),
    "# a b y\n1 2 3\n4 5 6\n": Dialect(" ", comments=True, header=True),
    "a,b\r1,2\r3,4\r": Dialect(",", returns=True),
    "a,b\r\n1,2\r\n3,4\r\n": Dialect(","),
    "sep=;\na;b\n1,5;2\n3,5;4\n": Dialect(";", ",", excel=True),
    '"sep=\t"\r\na\tb\r\n1\t2\r\n': Dialect("\t", excel=True),
    "sep=1,b\n1,2\n3,4\n": Dialect(","),
    "": Dialect(","),
    "a,b": Dialect(","),
}


@pytest.mark.parametrize("text", ROWS)
def test_the_first_lines_decide(text):
    assert dialect_of(text.encode()) == ROWS[text]
    assert dialect_of(b"\xef\xbb\xbf" + text.encode()) == ROWS[text]


@pytest.mark.parametrize("piece", [9, 1 << 20])
@pytest.mark.parametrize("delimiter", [None, ";"])
def test_the_line_by_which_excel_names_the_delimiter_is_no_row(
    tmp_path, monkeypatch, delimiter, piece
):
    monkeypatch.setattr("pronk.data.source._TEXT_BYTES", piece)
    text = "\ufeffsep=;\r\na;y\r\n" + "".join(f"{i};{i}.5\r\n" for i in range(9))
    (tmp_path / "d.csv").write_text(text, encoding="utf-8", newline="")
    stream = FileStream(tmp_path / "d.csv", "y", delimiter=delimiter)
    assert stream.columns == ["a"] and sum(len(y) for _, y in stream) == 9


def test_what_is_given_is_not_questioned():
    text = b"a;b\n1,5;2\n"
    assert dialect_of(text, ",").delimiter == "," and dialect_of(text, None, ".").decimal == "."


def test_the_encoding_is_utf8_or_that_of_windows():
    assert charset_of("é€".encode()) is None and charset_of("é".encode()[:1]) is None
    assert charset_of("é€ x".encode("cp1252")) == "cp1252"
    assert charset_of(b"\x81\xe9") == "latin-1" and charset_of(b"\0\xff") is None


def test_a_header_in_a_comment_names_the_columns(tmp_path):
    path = tmp_path / "d.dat"
    path.write_text(
        "# made by hand\n# a b y\n" + "".join(f"{i} {i % 3} {i}.5\n" for i in range(90))
    )
    assert FileStream(path, "y").columns == ["a", "b"]


NUMBERS = {
    "1,234.50": 1234.5, "$12": 12.0, "12 €": 12.0, "EUR 3": 3.0, "(12.5)": -12.5, "-$3": -3.0,
    "$-3": -3.0, "8.5%": 8.5, "1 234 567": 1234567.0, "1'234": 1234.0, "\u22125": -5.0,
    "1e3": 1000.0, ".5": 0.5, "5.": 5.0,
}  # fmt: skip


@pytest.mark.parametrize("word", NUMBERS)
def test_numbers_as_people_write_them(word):
    assert loosely(word) == NUMBERS[word]


@pytest.mark.parametrize("word", ["", "-", "x", "1,23", "12,34,5", "1_0", "$", "%", "--5", "-$-5"])
def test_what_is_no_number(word):
    with pytest.raises(ValueError, match=re.escape(word) + "$"):
        loosely(word)


def test_decimal_commas():
    assert loosely("1.234,5", ",") == 1234.5 and loosely("3,25", ",") == 3.25
    assert loosely("€ 1.000", ",") == 1000.0
    with pytest.raises(ValueError, match="1,234"):
        loosely("1,234.5", ",")


def test_what_programs_write_is_no_amount():
    assert is_amount("$1") and is_amount("1,234") and not any(map(is_amount, ("1", "1.5", "x")))
