"""The other commands: demo, algorithms, version, help."""

import contextlib
import json
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pronk
from pronk.cli import app, main, screen
from pronk.evaluate.formatting import number, size

runner = CliRunner()


def test_version():
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"pronk {pronk.__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_the_commands(arguments):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0
    for command in ("demo", "run", "algorithms"):
        assert command in result.output


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from pronk.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'sklearn', 'pyarrow', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_algorithms_lists_the_whole_registry():
    result = runner.invoke(app, ["algorithms", "--json"])
    listed = json.loads(result.output)
    assert set(listed) == set(pronk.algorithms())
    assert listed["pkawv-taylor"]["bounded"] is True
    table = runner.invoke(app, ["algorithms"], env={"COLUMNS": "80"}).output
    assert all(name in table for name in listed)
    assert max(len(line) for line in table.splitlines()) <= 80


def test_unknown_command(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["ran"])
    _, err = capsys.readouterr()
    assert exit_.value.code == 2 and err.count("\n") == 1 and "'ran'" in err


def test_the_demo_is_the_main_job_and_ends_with_the_command_for_a_file(tmp_path):
    command = ["demo", "--rows", "600", "--output", str(tmp_path / "demo")]
    result = runner.invoke(app, command, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    for word in ("mean squared error", "running mean", "coverage", "page.html in a browser"):
        assert word in result.output
    last = result.output.strip().splitlines()[-1].strip()
    assert last.startswith("pronk run FILE --target COLUMN") and last.endswith("page.html")
    made = {file.name for file in (tmp_path / "demo").iterdir()}
    assert made == {"rentals.csv", "predictions.csv", "model.pronk", "page.html"}
    # The command that was shown, and the one it ends with, work as they stand.
    shown = next(line for line in result.output.splitlines() if line.startswith("    pronk run"))
    own = {
        "FILE": tmp_path / "demo" / "rentals.csv",
        "COLUMN": "rentals",
        "page.html": tmp_path / "p",
    }
    for line in (shown, last):
        words = [str(own.get(word, word)) for word in shlex.split(line)[1:]]
        assert runner.invoke(app, words).exit_code == 0


def test_numbers_as_text():
    assert [number(v) for v in (0.0, 0.012346, 1.5, 123.456, 1e-9, float("inf"))] == [
        "0.0000", "0.01235", "1.500", "123.5", "1.00e-09", "inf",
    ]  # fmt: skip
    assert [size(v) for v in (500, 20_000, 5_000_000)] == ["0.5 kB", "20 kB", "5.0 MB"]
    assert screen.bar_chart([0.01, 0.1, 1.0, 5.0, float("inf")], 0.01, 1.0) == "▁▅██!"


@pytest.mark.parametrize(
    "given, inside", [((), 1), (("--threads", "2"), 2), (("--threads", "0"), None)]
)
def test_threads_for_the_time_of_a_command(given, inside, tmp_path, monkeypatch):
    from pronk.cli import run
    from pronk.core.runtime import limited

    seen = []
    monkeypatch.setattr(run, "run_job", lambda *_, **__: seen.append(limited.wanted))
    (tmp_path / "a.csv").touch()
    result = runner.invoke(app, ["run", str(tmp_path / "a.csv"), *given])
    assert result.exit_code == 0, result.output
    assert seen == [inside] and limited.wanted == 1


@pytest.mark.parametrize("command", ["run", "predict", "compare", "demo"])
def test_every_command_that_learns_has_threads(command):
    assert "--threads N" in runner.invoke(app, [command, "--help"]).output


def test_inspect_shows_and_does_not_obey_what_stands_in_a_file(capsys, tmp_path):
    names = ["\x1b[2Jclear", "two\nlines", "[link=http://x]q[/link]"]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=names)
    learner = pronk.FOGDClassifier(n_features=5, random_state=0)
    learner.fit(X, np.where(X[names[0]] > 0, "\x1b[31mred", "[bold]b")).save(tmp_path / "m")
    from pronk.cli import main

    with contextlib.suppress(SystemExit):
        main(["inspect", str(tmp_path / "m")])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\\x1b[31mred" in shown and "[bold]b" in shown
    assert "two\\nlines" in shown and "[link=" in shown
