"""`pronk run` with --workers and --by."""

import json
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import pronk
from helpers import pronk_run as command

ROWS = 9000
OPTIONS = [
    "-t", "y", "--drop", "who", "-a", "pkawv-taylor", "-p", "degree=2", "--scale", "none",
    "--scale-target", "none",
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    table = pa.table(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "who": rng.choice(["x", "y", "z"], ROWS),
            "y": np.sin(X[:, 0]) + X[:, 1],
            "sign": np.where(X[:, 0] > 0, "up", "down"),
        }
    )
    path = tmp_path_factory.mktemp("parallel") / "data.parquet"
    parquet.write_table(table.drop_columns(["sign"]), path, row_group_size=2000)
    parquet.write_table(table.drop_columns(["y"]), path.with_name("labels.parquet"))
    return path


@pytest.fixture
def pronk_run(capsys):
    """A command's exit code, output and messages."""
    return lambda *words: SimpleNamespace(
        **dict(zip(("returncode", "stdout", "stderr"), command(capsys, *words), strict=True))
    )


def predictions(path):
    return parquet.read_table(path)["prediction"].to_numpy()


def test_one_model_learns_on_one_core(pronk_run, file, tmp_path):
    found = []
    for number, more in enumerate(([], ["--workers", "2"], ["--cluster", "local:3"])):
        out = tmp_path / f"{number}.parquet"
        done = pronk_run("run", file, *OPTIONS, "--predictions", out, *more)
        assert done.returncode in (0, None), done.stderr
        assert ("one model learns on one core" in done.stderr) == bool(more)
        found.append(predictions(out))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize(
    "more, message",
    [
        (["--cluster", "tcp://127.0.0.1:1"], "--workers N; a pass is not split over machines"),
        (["--cluster", "local:none"], "local:N"),
        (["--cluster", "local:1", "--workers", "2"], "exclude each other"),
        (["--by", "who", "--checkpoint", "c"], "folder of --save"),
        (["--by", "y"], "is the target"),
    ],
)
def test_impossible_requests_are_one_line(pronk_run, file, more, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    options = [word for word in OPTIONS if "--by" not in more or word not in ("--drop", "who")]
    done = pronk_run("run", file, *options, *more)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_model_a_key(pronk_run, file, tmp_path):
    folder, out = tmp_path / "models", tmp_path / "predictions.csv"
    done = pronk_run(
        "run", file, "-t", "y", "--by", "who", "--save", folder, "--predictions", out, "--limit",
        "3000", "--json",
    )  # fmt: skip
    assert done.returncode in (0, None), done.stderr
    assert json.loads(done.stdout)["keys"] == 3
    table = parquet.read_table(file).slice(0, 3000)
    model = pronk.load(folder)
    assert sorted(model) == ["x", "y", "z"] and model.n_seen_ == 3000
    own = table["who"].to_numpy(zero_copy_only=False) == "y"
    assert model["y"].n_seen_ == own.sum()
    lines = out.read_text().splitlines()
    assert lines[0] == '"row","who","y","prediction"' and len(lines) == 3001
    model.close()
    again = pronk_run(
        "run", file, "-t", "y", "--by", "who", "--save", folder, "--limit", "100", "--again"
    )
    assert again.returncode in (0, None), again.stderr
    assert pronk.load(folder).n_seen_ == 3100  # it goes on


@pytest.mark.slow
def test_workers_share_the_shards_of_keyed_models(pronk_run, file, tmp_path, monkeypatch):
    """Blocks, keys and shards mixed: predictions in the order of the input, no bit changed."""
    monkeypatch.setattr("pronk.cli.scale_out.MOST", 1100)
    monkeypatch.setattr("pronk.cli.scale_out.LEAST", 1100)
    words = ["run", file, "-t", "y", "--by", "who", "--limit", "3000", "--json"]
    made, told, held = [], [], []
    for i, more in enumerate(([], ["--workers", "2"])):
        out, folder = tmp_path / f"{i}.parquet", tmp_path / f"models{i}"
        done = pronk_run(*words, "--predictions", out, "--save", folder, *more)
        assert done.returncode in (0, None), done.stderr
        made.append(parquet.read_table(out))
        told.append(json.loads(done.stdout))
        model = pronk.load(folder)
        held.append({key: (rows, figures) for key, rows, figures in model.metrics_by_key()})
        model.close()
    done = pronk_run(*words, "--save", folder, "--again", *more)  # it goes on
    assert done.returncode in (0, None), done.stderr
    assert pronk.load(folder).n_seen_ == 6000
    for error, message in (  # what fails leaves no trace
        (pronk.keyed.StoreError("a shard is damaged"), "a shard is damaged"),
        (BrokenProcessPool(), "--workers: a process was killed"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("pronk.keyed.workers.KeyedWorkers.predict_then_learn", fails(error))
            done = pronk_run(*words, "--save", folder, "--again", *more)
        assert done.returncode and message in done.stderr
        assert pronk.load(folder).n_seen_ == 6000
    assert made[0].equals(made[1]) and told[0]["metrics"] == told[1]["metrics"]
    assert held[0] == held[1] and set(held[0]) == {"x", "y", "z"}
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert folders == {"models0", "models1"}


def fails(error):
    def call(*_):
        raise error

    return call


def test_a_model_a_key_for_labels(pronk_run, file):
    labels = file.with_name("labels.parquet")
    options = ["-t", "sign", "--by", "who", "-a", "rbp", "--limit", "900", "--json"]
    done = pronk_run("run", labels, *options)
    assert done.returncode in (0, None), done.stderr
    assert json.loads(done.stdout)["metrics"]["error"] < 0.2
