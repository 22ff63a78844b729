"""Six messy files: one message lists all problems of a file, and each has a report."""

import json
import re
import shlex

import pytest

from helpers import pronk_run
from messy import FILES, ROWS


@pytest.mark.parametrize("name", FILES)
def test_one_message_lists_all_that_a_file_needs(capsys, tmp_path, name):
    """The first command names no options; what its error says is enough for the second."""
    write, target, needed = FILES[name]
    file, page = write(tmp_path / f"{name}.csv"), tmp_path / "page.html"
    call = [
        "run",
        file,
        "-t",
        target,
        "-a",
        "fogd",
        "--report",
        page,
        "--json",
        "--limit",
        300,
        "--strict",
    ]
    code, _, err = pronk_run(capsys, *call, *needed[: 2 * (name == "energy")])
    given = []
    if code:
        assert code == 2 and err.count("\n") == 1, err
        said = re.search(r"all together: (.*)$", err) or re.search(
            r"with (--categorical auto)", err
        )
        given = shlex.split(said[1])
    elif name == "energy":
        given = list(needed)
    code, out, err = pronk_run(capsys, *call, *given)
    assert code == 0, err
    assert json.loads(out)["rows"] > 200 and page.exists()


@pytest.mark.parametrize("name", FILES)
def test_the_page_shows_what_each_column_became(capsys, tmp_path, name):
    write, target, needed = FILES[name]
    file, page = write(tmp_path / f"{name}.csv"), tmp_path / "page.html"
    choices = ["--report", page, *needed]
    code, out, err = pronk_run(capsys, "run", file, "-t", target, "-a", "fogd", *choices)
    assert code == 0, err
    text = page.read_text()
    with file.open() as lines:
        columns = next(lines).strip().replace(";", ",").split(",")
    for column in columns:
        if column != target:
            assert re.search(rf"<dd>[^<]*\b{column}\b", text), column
            assert column in out
    assert f"{ROWS:,} rows" in text or "without a label" in text
    assert "NaN" not in text.partition("<script")[0]


def test_free_text_is_left_out_and_many_categories_are_noted(capsys, tmp_path):
    file = FILES["tickets"][0](tmp_path / "t.csv")
    _, _, err = pronk_run(capsys, "run", file, "-t", "hours", "-a", "fogd")
    assert "column 'message' is left out" in err and "--categorical auto,message" in err
    _, _, err = pronk_run(
        capsys, "run", file, "-t", "hours", "-a", "fogd", "--categorical", "auto,message"
    )
    lines = {line.split("'")[1]: line for line in err.splitlines() if "categories and" in line}
    assert lines["message"].endswith("ignore it with --drop message")
    assert lines["product"].endswith("more --slots give each category its own")
