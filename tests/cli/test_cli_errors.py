"""Errors of the command line that other tests do not cover: one line each."""

import errno
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import pronk
from helpers import pronk_run
from pronk.cli import inputs, outputs
from pronk.cli.app import _algorithm_names
from pronk.cli.screen import end_with
from pronk.data import stream

ROWS = 300


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, ROWS))
    who = [None if i == 200 else "xyz"[i % 3] for i in range(ROWS)]
    path = tmp_path_factory.mktemp("refused") / "data.parquet"
    table = {"a": a, "b": b, "who": who, "y": a + b, "kind": np.where(a > 0, "up", "down")}
    table["gap"] = np.where(np.arange(ROWS) == 100, np.inf, b)
    nested = pa.array([[1.0, 2.0]] * ROWS)
    parquet.write_table(pa.table({**table, "list": nested}), path)
    return path


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, file):
    """A run of a small learner; its exit code and its message, which is one line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 64)

    def refused(*more, target="y", columns="a,b", learner=("-a", "fogd")):
        words = ["run", file, "-t", target, "--columns", columns, *learner, *more]
        code, _, err = pronk_run(capsys, *words)
        assert not code or (err.count("\n") == 1 and "Traceback" not in err)
        return code, err

    return refused


@pytest.mark.parametrize(
    "more, words",
    [
        (["--delay", 3, "--workers", 2], "--workers excludes --delay"),
        (["--delay", 3, "--cluster", "local:1"], "--workers excludes --delay"),
        (["--by", "who", "--interval", 0.9], "--interval: FOGDRegressor has no intervals"),
        (["--by", "who", "--interval", 0.9, "--workers", 2], "--interval with --by excludes"),
        (["--by", "who"], "the key 'who' is missing at row "),
        (
            ["--by", "who", "-p", "delay=3"],
            "--param delay with --by counts the rows of a key",
        ),
        (["--by", "nosuch"], "--by: "),
        (["--metrics", "m.txt"], "--metrics: 'm.txt' must end in .csv or .ndjson"),
        (["--predictions", "p.csv", "--keep", "list"], "which CSV cannot hold"),
        (["--decimal", "x"], "--decimal must be . or a comma"),
        (["--cluster", "tcp://127.0.0.1:1"], "must be local:N, which is --workers N"),
        (["--checkpoint", "no/c"], "--checkpoint"),
    ],
)
def test_options_that_do_not_go_together(run, more, words):
    learner = ["-a", "pkawv-taylor"] if "--cluster" in more else ["-a", "fogd"]
    code, err = run(*more, learner=learner)
    assert code == 2 and words in err


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("method", ["_append", "sync"])
@pytest.mark.parametrize("option", ["--predictions", "--metrics", "--skip-bad"])
def test_a_full_disk_is_named_by_its_option(run, monkeypatch, tmp_path, option, method):
    """When the file is written, and when a snapshot lets it reach the disk."""
    if method == "_append":
        monkeypatch.setattr(outputs.AppendedFile, "_append", full)
    else:
        monkeypatch.setattr(outputs.os, "fsync", full)
        monkeypatch.setattr("pronk.cli.checkpoint.save_checkpoint", lambda *_: None)
    more = [
        "--missing",
        "error",
        "--checkpoint",
        tmp_path / "c",
        "--checkpoint-every",
        64,
    ]
    more += ["--metrics-every", 50] if option == "--metrics" else []
    columns = "a,gap" if option == "--skip-bad" else "a,b"
    code, err = run(option, tmp_path / "f.csv", *more, columns=columns)
    assert code == 1 and f"{option}: " in err and "No space left" in err


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_a_disk_that_is_full_at_the_end(run, monkeypatch, tmp_path, option):
    monkeypatch.setattr("pronk.estimators.atomic.os.replace", full)
    code, err = run(option, tmp_path / "out.html")
    assert code == 1 and f"{option}: " in err and "No space left" in err


def test_a_run_with_labels_resumes_with_its_columns(run, monkeypatch, tmp_path):
    """The classes of the predictions' header are the snapshot's, also of those that come late."""
    more = [
        "--predictions",
        tmp_path / "p.csv",
        "--checkpoint",
        tmp_path / "c",
        "--checkpoint-every",
        64,
    ]
    learner = ["-a", "default"]
    assert run(*more, target="kind", learner=learner)[0] == 0
    whole = (tmp_path / "p.csv").read_bytes()
    (tmp_path / "p.csv").unlink()
    (tmp_path / "c").unlink()
    from pronk.cli import run_loop

    block = run_loop.RunLoop._block

    def stop(self, rows):
        if self.position >= 128:
            raise MemoryError
        block(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(run_loop.RunLoop, "_block", stop)
        assert run(*more, target="kind", learner=learner)[0] == 1
    assert run(*more, target="kind", learner=learner)[0] == 0
    assert (tmp_path / "p.csv").read_bytes() == whole


def test_models_that_a_run_cannot_resume(capsys, run, tmp_path, file):
    model, keyed, snapshot = tmp_path / "m.pronk", tmp_path / "keys", tmp_path / "c"
    X = np.random.default_rng(1).normal(size=(50, 2))
    pronk.make("fogd", random_state=0).fit(X, X[:, 0]).save(model)

    def go_on(*words, columns="a,b"):
        code, _, err = pronk_run(capsys, "run", file, "--columns", columns, *words)
        assert code == 2 and err.count("\n") == 1
        return err

    assert "--target is missing" in go_on("--model", model)
    assert "--columns names 1 columns; name the 2 of the model" in go_on(
        "--model", model, "-t", "y", columns="a"
    )
    assert "is a single model without keys" in go_on("--by", "kind", "--model", model, "-t", "y")
    assert run("--checkpoint", snapshot)[0] == 0
    assert "is a checkpoint; name the new model with --save" in go_on("--model", snapshot)
    assert run("--by", "kind", "--save", keyed, learner=())[0] == 0
    assert "has its keys in column 'kind'" in go_on("--by", "who", "--model", keyed, "-t", "y")
    assert "is not a saved model" in go_on("--model", tmp_path, "-t", "y")


def test_inspect_shows_how_far_a_checkpoint_is(capsys, run, tmp_path):
    assert run("--checkpoint", tmp_path / "c")[0] == 0
    code, out, _ = pronk_run(capsys, "inspect", tmp_path / "c")
    assert code == 0 and f"{ROWS} rows done, finished" in out
    code, out, _ = pronk_run(capsys, "inspect", tmp_path / "c", "--json")
    held = json.loads(out)["checkpoint"]
    assert (held["rows"], held["finished"]) == (ROWS, True)


def test_how_an_input_is_another_one(tmp_path):
    """Rows may be appended to the last file; nothing else may change."""
    changed, stream = "which has changed since", [tmp_path / "d.csv"]

    def of(text):
        stream[0].write_text(text)
        return inputs.input_contents(stream, ())

    def how(before, now):
        if now is not None:
            now = inputs.input_contents(stream, before or ())
        return inputs.describe_change(before, now, stream)

    assert how(None, None) == ""
    long = "a,y\n" + "1,2\n" * 40_000
    before = of(long)
    assert how(before, None) == how(None, before) == changed
    assert how(before, of(long + "3,4\n")) == ""
    assert how(before, of(long[:-4])) == changed
    assert how(before, of(long[:-4] + "9,9\n")) == changed
    assert how(before, of("b" + long[1:])) == changed


def test_predict_to_standard_output_by_its_name(capsys, run, tmp_path, file):
    assert run("--save", tmp_path / "m")[0] == 0
    words = ["predict", tmp_path / "m", file, "--limit", 3]
    code, out, _ = pronk_run(capsys, *words, "--output", "-")
    assert code == 0 and pronk_run(capsys, *words)[1] == out != ""


def test_names_of_algorithms_complete_in_a_shell():
    assert _algorithm_names("pk") == [name for name in pronk.algorithms() if name.startswith("pk")]
    assert "pkawv-taylor" in _algorithm_names("pk") and _algorithm_names("no-such") == []


def test_traceback_on_demand(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PRONK_TRACEBACK", "1")
    with pytest.raises(Exception, match="no-such"):
        pronk.cli.main(["run", str(tmp_path / "no-such.csv"), "-t", "y"])


def test_a_learner_of_the_other_task(run):
    code, err = run(target="kind", learner=("-a", "krls"))
    assert code == 2 and "--algorithm: " in err and "see --task" in err


def test_the_end_of_a_file_is_no_interrupt(run, monkeypatch):
    """Typer raises Abort for an EOFError, as for Ctrl-C in a dialogue."""

    def end(*_, **__):
        raise EOFError("Ran out of input")

    monkeypatch.setattr("pronk.cli.run.run_job", end)
    code, error = run()
    assert (code, error) == (1, "pronk: failed: EOFError: Ran out of input\n")


def test_errors_of_the_system_are_one_line(capsys):
    assert end_with(OSError(errno.EACCES, "Permission denied", "/some/file")) == 1
    assert capsys.readouterr().err == "pronk: /some/file: Permission denied\n"
    assert end_with(OSError("strange\nthing")) == 1
    assert capsys.readouterr().err == "pronk: strange thing\n"


@pytest.mark.parametrize(
    "more, words",
    [
        (["--metrics-every", 10], "--metrics-every has no effect without --metrics"),
        (["--checkpoint-every", 10], "--checkpoint-every has no effect without --checkpoint"),
        (["--no-probabilities"], "--no-probabilities has no effect without --predictions"),
        (["--predictions", "p.parquet", "--checkpoint", "c"], "need a .csv or .ndjson file"),
    ],
)
def test_an_option_without_effect_is_an_error(run, more, words):
    code, err = run(*more)
    assert code == 2 and words in err
