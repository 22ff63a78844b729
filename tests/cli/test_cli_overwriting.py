"""No output overwrites an input, a model that is read, or another output."""

import os
import socket
import stat
import subprocess
import sys

import numpy as np
import pytest

import pronk
from helpers import pronk_run

ROWS = "a,y\n" + "".join(f"{i % 7},{i % 5}.5\n" for i in range(40))
OUTPUTS = {"--predictions": ".csv", "--save": ".csv", "--checkpoint": ".csv"}


@pytest.fixture
def folder(tmp_path):
    """Three files of a directory, and a subdirectory to write to."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for name in ("1.csv", "2.csv", "10.csv"):
        (tmp_path / "in" / name).write_text(ROWS)
    return tmp_path


def run(capsys, source, *arguments):
    return pronk_run(capsys, "run", source, "-t", "y", "-a", "pkawv-taylor", *arguments)


def refused(result, folder, words="input file"):
    code, _, err = result
    assert code == 2 and words in err and err.count("\n") == 1, err
    assert all(file.read_text() == ROWS for file in (folder / "in").iterdir())


@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("source", ["in", "in/*.csv", "**/*.csv"])
def test_a_file_of_a_directory_or_pattern_is_kept(capsys, monkeypatch, folder, option, source):
    monkeypatch.chdir(folder)
    (folder / "link.csv").symlink_to("in/2.csv")
    for name in ("in/2.csv", "in/../in/2.csv", folder / "in" / "2.csv", "link.csv"):
        refused(run(capsys, source, option, name), folder)


def test_a_hard_link_is_the_file(capsys, folder):
    (folder / "twin.csv").hardlink_to(folder / "in" / "10.csv")
    refused(run(capsys, folder / "in", "--predictions", folder / "twin.csv"), folder)
    assert (folder / "twin.csv").read_text() == ROWS


def test_a_file_that_would_be_read_the_next_time_is_refused(capsys, folder):
    new = folder / "in" / "new.csv"
    for source in (folder / "in", folder / "in" / "*.csv", folder / "*" / "[a-z0-9]*.csv"):
        code, _, err = run(capsys, source, "--predictions", new)
        assert code == 2 and "the next time" in err and not new.exists()
    code, _, err = run(capsys, folder / "in", "--predictions", folder / "out" / "new.csv")
    assert code == 0, err


def test_redirected_standard_input_is_kept(folder):
    file = folder / "in" / "1.csv"
    command = [sys.executable, "-m", "pronk", "run", "-", "-t", "y", "--predictions", str(file)]
    with file.open("rb") as data:
        done = subprocess.run(command, stdin=data, capture_output=True, text=True, check=False)
    refused((done.returncode, done.stdout, done.stderr), folder)


def test_files_of_a_query_are_kept(capsys, folder):
    duckdb = pytest.importorskip("duckdb")
    file, database = folder / "in" / "1.csv", folder / "rows.duckdb"
    for query in (
        f"SELECT * FROM '{file}'",
        f"SELECT * FROM '{folder}/in/*.csv'",
    ):
        refused(run(capsys, ":memory:", "--query", query, "--predictions", file), folder)
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{file}'")
    before = database.read_bytes()
    given = ["--query", "SELECT * FROM t", "--save", database]
    refused(run(capsys, database, *given), folder)
    assert database.read_bytes() == before


def test_outputs_are_different_files(capsys, folder):
    one = folder / "out" / "one.csv"
    (folder / "out" / "link.csv").symlink_to(one)
    source = folder / "in"
    for other in (one, folder / "out" / ".." / "out" / "one.csv", folder / "out" / "link.csv"):
        result = run(capsys, source, "--predictions", one, "--save", other)
        refused(result, folder, "name the same file")
    assert not one.exists()


def test_predict_keeps_its_input_and_its_model(capsys, folder):
    model = folder / "model.csv"
    code, _, err = run(capsys, folder / "in", "--save", model)
    assert code == 0, err
    before = model.read_bytes()
    call = ["predict", model, folder / "in", "--output"]
    refused(pronk_run(capsys, *call, folder / "in" / "2.csv"), folder)
    refused(pronk_run(capsys, *call, model), folder, "is the model")
    assert model.read_bytes() == before


def test_compare_keeps_its_input(capsys, folder):
    call = ["compare", folder / "in", "-t", "y", "-a", "pkawv-taylor", "--runs", 1]
    refused(pronk_run(capsys, *call, "--output", folder / "in"), folder, "the next time")
    report = ["--output", folder / "out", "--report", folder / "in" / "1.csv"]
    refused(pronk_run(capsys, *call, *report), folder)


# -- nodes that are no files, all made here -------------------------------------------------------


def node(folder, kind, name):
    """Make a node of a kind under a name, or a link to one; what the system says of it."""
    place = folder / name
    if kind == "link":
        os.mkfifo(folder / f"real-{name}")
        place.symlink_to(folder / f"real-{name}")
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    elif kind == "socket":
        before = os.getcwd()
        os.chdir(folder)  # the name of a socket may have about a hundred bytes
        try:
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(name)
        finally:
            os.chdir(before)
    else:
        try:
            os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except OSError:
            pytest.skip("no right to make a device")
    return place, described(place)


def described(place):
    return [(one.st_ino, one.st_mode, one.st_rdev) for one in (os.lstat(place), os.stat(place))]


ENDINGS = {
    "--predictions": ".csv",
    "--metrics": ".ndjson",
    "--skip-bad": ".csv",
    "--report": ".html",
    "--save": ".pronk",
    "--checkpoint": ".c",
}
NODES = ("fifo", "link", "socket", "directory", "device")


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("option", ENDINGS)
def test_what_is_no_regular_file_is_refused_before_the_run(capsys, folder, option, kind):
    place, before = node(folder / "out", kind, f"node{ENDINGS[option]}")
    code, _, err = run(capsys, folder / "in", option, place)
    assert code == 2 and option in err and "give" in err and err.count("\n") == 1
    assert described(place) == before


def test_no_other_command_writes_to_a_pipe(capsys, folder):
    source, out = folder / "in" / "1.csv", folder / "out"
    assert run(capsys, source, "--save", out / "m.pronk")[0] == 0
    pipes = [node(out, "fifo", name) for name in ("p.parquet", "records.jsonl", "p.csv")]
    refused(run(capsys, source, "--predictions", out / "p.parquet"), folder, "a pipe")
    call = ["predict", out / "m.pronk", source, "--output", out / "p.csv"]
    refused(pronk_run(capsys, *call), folder, "a pipe")
    call = ["compare", source, "-t", "y", "-a", "fogd", "--runs", 1, "--output", out, "--fresh"]
    refused(pronk_run(capsys, *call), folder, "a pipe")
    assert all(described(place) == before for place, before in pipes)


@pytest.mark.parametrize("kind", NODES)
def test_a_model_is_not_saved_over_a_node(tmp_path, kind):
    place, before = node(tmp_path, kind, "model.pronk")
    model = pronk.PKAWVRegressor(random_state=0).fit(np.arange(6.0)[:, None], np.arange(6.0))
    with pytest.raises(OSError, match="not a regular file"):
        model.save(place)
    assert described(place) == before
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]
