"""A run that is killed resumes from its last snapshot, and ends with the same bits."""

import copy
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

import pronk
from pronk.cli import main
from pronk.cli.checkpoint import locked
from pronk.data import stream
from pronk.estimators import files
from pronk.estimators.atomic import remove_leftovers

ROWS = 1000
BLOCK = 64

#: Runs of `pronk` with small blocks, each in a process of its own that does something to itself at
#: a given moment. They are forked from one process, so that libraries and compiled functions are
#: loaded once; what is read there is one list of runs a line.
RUNS = """
import json, os, sys
import numpy as np, sklearn.base, pyarrow.parquet
import pronk.cli.run
from pronk import make
from pronk.cli import main, predictions, run_loop
from pronk.data import source, stream
from pronk.estimators import files

stream.BLOCK_ROWS = {block}
source._TEXT_BYTES = 1000
seen = 0

def prepare(number, rows, moment):
    def act():
        os.kill(os.getpid(), number)

    def counted(self, block, feed=run_loop.RunLoop._block):
        feed(self, block)
        if self.position >= rows and moment == "block":
            act()

    def written(self, *arguments, write=predictions.PredictionsFile.write):
        before = self.rows
        if before >= rows and moment == "half a line":
            self._append(b"1234,0.")
            act()
        write(self, *arguments)
        if before >= rows and moment == "predictions":
            act()

    def finished(self, finish=run_loop.Evaluation.finish):
        if moment == "end":
            act()
        return finish(self)

    def replaced(source, target, replace=os.replace):
        global seen
        seen += 1
        if moment == "snapshot" and seen > 2:
            act()
        replace(source, target)

    run_loop.RunLoop._block = counted
    run_loop.Evaluation.finish = finished
    predictions.PredictionsFile.write = written
    files.os.replace = replaced

X = np.random.default_rng(0).uniform(size=(300, 3))
for name in ("pros-n-kons", "con-kons"):
    for task, y in (("regression", X[:, 0]), ("classification", X[:, 0] > 0.5)):
        for rows in (1, 40, 300):
            make(name, task, random_state=0).partial_fit(X[:rows], y[:rows]).predict(X)
for line in sys.stdin:
    ended = []
    for arguments, number, rows, moment in json.loads(line):
        out, err = os.memfd_create("out"), os.memfd_create("err")
        child = os.fork()
        if not child:
            os.dup2(out, 1)
            os.dup2(err, 2)
            prepare(number, rows, moment)
            main(arguments)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = [os.pread(file, 1 << 20, 0).decode() for file in (out, err)]
        ended.append([code, *texts])
        os.close(out)
        os.close(err)
    print(json.dumps(ended), flush=True)
"""


class Ended:
    """A process that ended."""

    def __init__(self, code, out, err):
        self.returncode, self.stdout, self.stderr = code, out, err


@pytest.fixture(scope="module")
def processes():
    """Runs one after the other; an act is (signal, rows, moment)."""
    command = [sys.executable, "-c", RUNS.format(block=BLOCK)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:

        def run(arguments, *acts):
            plan = [[[str(a) for a in arguments], int(n), rows, moment] for n, rows, moment in acts]
            parent.stdin.write(json.dumps(plan) + "\n")
            parent.stdin.flush()
            return [Ended(*each) for each in json.loads(parent.stdout.readline())]

        yield run
        parent.stdin.close()


KILL, NOTHING = signal.SIGKILL, (0, 0, "never")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (ROWS, 3))
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    table = pa.table(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "city": np.array(["Rome", "Oslo", "Lima,\nPeru"])[rng.integers(0, 3, ROWS)],
            "y": [None if i % 50 == 7 else v for i, v in enumerate(y.tolist())],
            "word": np.where(y > 0.5, "high", "low"),
        }
    )
    arrow_csv.write_csv(table, folder / "data.csv")
    parquet.write_table(table, folder / "data.parquet", row_group_size=150)
    return folder


def job(folder, out, *, target="y", predictions="p.csv", algorithm="pros-n-kons", name="data.csv"):
    other = "word" if target == "y" else "y"
    return [
        "run", folder / name, "-t", target, "-a", algorithm, "--drop", other, "-p", "gamma=0.1",
        "--categorical", "city", "--slots", 4, "--encoding", "onehot", "--scale", "robust",
        "--missing", "mean", "--predictions", out / predictions, "--save", out / "model",
        "--checkpoint", out / "checkpoint", "--checkpoint-every", 100, "--json",
    ]  # fmt: skip


def outcome(process, out, predictions="p.csv"):
    """Everything a run leaves that must not depend on interruptions."""
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    for name in ("seconds", "microseconds_per_row", "saved", "predictions", "checkpoint"):
        del result[name]
    resumed = result.pop("resumed_at")
    memory = result.pop("memory")  # buffers grow with the calls since a start
    assert memory > 0
    bits = (out / "model").read_bytes(), (out / predictions).read_bytes()
    return result, *bits, resumed


@pytest.mark.parametrize(
    "options",
    [
        {"predictions": "p.csv"},
        {"predictions": "p.ndjson", "name": "data.parquet", "target": "word"},
    ],
    ids=["csv", "ndjson"],
)
@pytest.mark.slow
def test_five_kills_change_no_bit(tmp_path, folder, options, processes):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    (never,) = processes(job(folder, whole, **options), NOTHING)
    expected = outcome(never, whole, options["predictions"])
    assert expected[0]["rows"] + expected[0]["unlabelled"] == ROWS and expected[3] is None
    acts = [
        (KILL, 64, "block"),  # before the first snapshot
        (KILL, 256, "predictions"),  # written and not yet counted
        (KILL, 300, "half a line"),
        (KILL, 0, "snapshot"),  # while a snapshot takes the place of another
        (KILL, 960, "block"),
    ]
    *kills, last = processes(job(folder, killed, **options), *acts, NOTHING)
    assert [each.returncode for each in kills] == [-KILL] * 5
    *given, resumed = outcome(last, killed, options["predictions"])
    assert given == list(expected[:3])
    assert 800 <= resumed < ROWS
    assert sorted(path.name for path in killed.iterdir()) == [
        "checkpoint", "model", options["predictions"],
    ]  # fmt: skip
    (again,) = processes(job(folder, killed, **options), NOTHING)  # nothing is left to do
    assert outcome(again, killed, options["predictions"]) == (*expected[:3], ROWS)


def test_a_file_without_header_resumes_from_a_snapshot(tmp_path, folder, processes):
    nameless = tmp_path / "nameless.csv"
    nameless.write_bytes((folder / "data.csv").read_bytes().partition(b"\n")[2])
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()

    def arguments(out):
        return [
            "run", nameless, "--no-header", "-t", "x3", "--drop", "x4", "--categorical", "x2",
            "-a", "con-kons", "-p", "gamma=0.1", "--predictions", out / "p.csv", "--save",
            out / "model", "--checkpoint", out / "checkpoint", "--checkpoint-every", 100, "--json",
        ]  # fmt: skip

    expected = outcome(processes(arguments(whole), NOTHING)[0], whole)
    kill, last = processes(arguments(killed), (KILL, 500, "block"), NOTHING)
    *given, resumed = outcome(last, killed)
    assert kill.returncode == -KILL and given == list(expected[:3]) and resumed == 384
    (other,) = processes([a for a in arguments(killed) if a != "--no-header"], NOTHING)
    assert other.returncode == 2


@pytest.mark.parametrize(
    "number, code",
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.matrix)],
)
def test_a_signal_waits_for_the_block_and_makes_a_snapshot(
    tmp_path, folder, number, code, processes
):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    (never,) = processes(job(folder, whole), NOTHING)
    expected = outcome(never, whole)
    arguments = [*job(folder, stopped), "--checkpoint-every", 10**6]  # no other snapshot
    ended, last = processes(arguments, (number, 200, "block"), NOTHING)
    assert ended.returncode == code
    assert ended.stderr.splitlines()[-1] == (
        f"pronk: stopped by {number.name}; snapshot after 256 rows: give the same command "
        "again to resume"
    )
    *given, resumed = outcome(last, stopped)
    assert given == list(expected[:3]) and resumed == 256


def test_a_signal_while_the_last_late_labels_are_learned(tmp_path, folder, processes):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    (never,) = processes([*job(folder, whole), "--delay", 20], NOTHING)
    expected = outcome(never, whole)
    arguments = [*job(folder, stopped), "--delay", 20]
    ended, last = processes(arguments, (signal.SIGTERM, 0, "end"), NOTHING)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (
        143,
        f"pronk: stopped by SIGTERM; snapshot after {ROWS:,} rows: give the same command again "
        "to resume",
    )
    assert outcome(last, stopped) == (*expected[:3], ROWS)


def call(capsys, arguments):
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(stream, "BLOCK_ROWS", BLOCK)


@pytest.mark.parametrize("what, rows", [("checkpoint", 384), ("predictions", 512)])
def test_a_full_disk_leaves_the_last_snapshot(
    capsys, monkeypatch, tmp_path, folder, small_blocks, what, rows
):
    whole = tmp_path / "whole"
    whole.mkdir()
    assert call(capsys, job(folder, whole))[0] == 0
    full = OSError(28, "No space left on device")
    with monkeypatch.context() as patch:
        if what == "checkpoint":
            saved = []
            write = files.write_atomically

            def short(path, data):
                saved.append(path)
                if len(saved) > 3:
                    raise full
                write(path, data)

            patch.setattr(files, "write_atomically", short)
        else:
            from pronk.cli.predictions import PredictionsFile

            append = PredictionsFile._append

            def cut(self, data):
                if self.rows >= 450:
                    append(self, data[:20])
                    raise full
                append(self, data)

            patch.setattr(PredictionsFile, "_append", cut)
        code, _, err = call(capsys, job(folder, tmp_path))
    err = err.splitlines()[-1]
    assert (
        code == 1
        and f"--{what}: " in err
        and "No space left" in err
        and "give the same command again" in err
    )
    assert files.load_checkpoint(tmp_path / "checkpoint")["rows"] == rows
    assert call(capsys, job(folder, tmp_path))[0] == 0
    for name in ("model", "p.csv"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_a_checkpoint_of_another_run_is_refused(capsys, tmp_path, folder, small_blocks):
    arguments = job(folder, tmp_path)
    assert call(capsys, [*arguments, "--limit", 500])[0] == 0
    before = (tmp_path / "checkpoint").read_bytes()
    for change, words in [
        ([], "--limit 500, now it is None"),
        (["--limit", 500, "--seed", 1], "--seed 0, now it is 1"),
        (["--limit", 500, "-p", "alpha=2"], "--param"),
        (["--limit", 500, "--scale", "none"], "--scale 'robust'"),
        (["--limit", 500, "--delimiter", ","], "--delimiter None"),
    ]:
        code, _, err = call(capsys, [*arguments, *change])
        assert code == 2 and words in err and "remove the checkpoint" in err
    (tmp_path / "other.csv").write_text("a,b,city,y,word\n" + "1,2,Rome,0.5,low\n" * 600)
    code, _, err = call(capsys, [*job(tmp_path, tmp_path, name="other.csv"), "--limit", 500])
    assert code == 2 and "input file" in err
    assert (tmp_path / "checkpoint").read_bytes() == before
    (tmp_path / "checkpoint").write_bytes(before[:-5])
    code, _, err = call(capsys, [*arguments, "--limit", 500])
    assert code == 2 and "truncated" in err


def test_two_runs_on_one_checkpoint(capsys, tmp_path, folder, small_blocks):
    arguments = job(folder, tmp_path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "checkpoint")
    for held in (tmp_path / "checkpoint", link):
        with locked(held):
            code, out, err = call(capsys, arguments)
            assert code == 2 and not out and len(err.splitlines()) == 1
            assert f"'{tmp_path / 'checkpoint'}' is in use by process {os.getpid()}: wait" in err
            assert not (tmp_path / "p.csv").exists() and not (tmp_path / "model").exists()
    (tmp_path / ".checkpoint.lock").write_text("1\n")  # of a run that was killed
    assert call(capsys, arguments)[0] == 0
    assert not (tmp_path / ".checkpoint.lock").exists()


def test_an_edited_snapshot_is_refused_by_one_line(capsys, tmp_path, folder, small_blocks):
    arguments = job(folder, tmp_path)
    assert call(capsys, arguments)[0] == 0
    place, good = tmp_path / "checkpoint", files.load_checkpoint(tmp_path / "checkpoint")
    predictions = (tmp_path / "p.csv").read_bytes()

    def refused(words):
        code, out, err = call(capsys, arguments)
        said = [line for line in err.splitlines() if not line.startswith("note: ")]
        assert code == 2 and not out and len(said) == 1, err
        assert words in err and "the checkpoint" in err and "Error" not in err

    for path, value, words in [
        (("settings",), [], "settings is missing"),
        (("rows",), -1, "rows is outside"),
        (("finished",), 1, "finished is missing or has the wrong type"),
        (("predictions",), [1, "2", None, None], "predictions is not a whole number"),
        (("predictions",), [1, 2], "predictions is not a position"),
        (("evaluation", "rows"), 1, "trace has other rows"),
        (("evaluation", "scores", "running"), [], "scores/running has 0 entries"),
        (("evaluation", "trace", "drift", "window", "rows"), 1, "open has other losses"),
        (("model", "state"), {}, "does not contain a working"),
    ]:
        tree = copy.deepcopy(good)
        inner = tree
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        place.write_bytes(files.encode(files.CHECKPOINT, {}, tree))
        refused(words)
        assert (tmp_path / "p.csv").read_bytes() == predictions
    files.save_checkpoint(good, place)
    (tmp_path / "p.csv").unlink()
    refused("has 0 bytes, but had")


def test_a_missing_predictions_file_is_noticed(capsys, tmp_path, folder, small_blocks, processes):
    arguments = [*job(folder, tmp_path), "--checkpoint-every", 10**6]
    (ended,) = processes(arguments, (signal.SIGTERM, 200, "block"))
    assert ended.returncode == 143
    (tmp_path / "p.csv").write_text("row,y")
    code, _, err = call(capsys, arguments)
    assert code == 2 and "has 5 bytes, but had" in err


def test_a_checkpoint_is_also_a_model(capsys, tmp_path, folder, processes):
    arguments = [*job(folder, tmp_path), "--checkpoint-every", 10**6]
    assert processes(arguments, (signal.SIGTERM, 200, "block"))[0].returncode == 143
    model = pronk.load(tmp_path / "checkpoint")
    assert model.n_seen_ == 256 - 5  # rows 7, 57, .. have no label
    code, out, _ = call(capsys, ["inspect", tmp_path / "checkpoint", "--json"])
    found = json.loads(out)
    assert code == 0 and found["kind"] == "checkpoint"
    assert found["checkpoint"]["rows"] == 256 and not found["checkpoint"]["finished"]
    assert found["model"]["rows"] == 251
    model.save(tmp_path / "saved")
    with pytest.raises(pronk.ModelFileError, match="not a checkpoint"):
        files.load_checkpoint(tmp_path / "saved")


def test_leftovers_of_a_killed_write_are_removed(tmp_path):
    for name in (".job.abcd1234", ".job.short", ".jobs.abcd1234", "job"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path / "job")
    assert sorted(os.listdir(tmp_path)) == [".job.short", ".jobs.abcd1234", "job"]
