"""`pronk run --by`: one learner per key, its errors on the first rows, and what is saved."""

import json

import numpy as np
import pandas as pd
import pytest

import pronk
from helpers import pronk_run
from pronk.cli import main
from pronk.estimators.registry import make_for_key

ROWS = 1200


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    sensor = rng.integers(4, size=ROWS)
    a, b = rng.uniform(0, 100, ROWS), rng.normal(size=ROWS)
    colour = rng.choice(["red", "blue"], ROWS)
    y = 20 + 5 * sensor + 0.1 * a + 3 * b + 2 * (colour == "red") + 0.1 * rng.normal(size=ROWS)
    names = np.array(["north", "east", "south", "west"])[sensor]
    return pd.DataFrame({"sensor": names, "a": a, "b": b, "colour": colour, "y": y})


@pytest.fixture
def run(capsys, frame, tmp_path):
    """A command in one process; what it prints. Rows are the first or the others."""
    half = ROWS // 2
    frame[:half].to_csv(tmp_path / "first.csv", index=False)
    frame[half:].to_csv(tmp_path / "second.csv", index=False)
    frame.to_csv(tmp_path / "all.csv", index=False)

    def call(*words, code=0):
        with pytest.raises(SystemExit) as exit_:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert exit_.value.code == code, err
        return out if code == 0 else err

    return call


def mean_of_key(frame):
    """Running means of each key's earlier rows."""
    sums = frame.groupby("sensor").y.cumsum() - frame.y
    counts = frame.groupby("sensor").cumcount()
    return (sums / counts.clip(lower=1)).to_numpy()


def test_the_default_beats_the_mean_of_each_key_from_the_first_rows(run, frame, tmp_path):
    out = tmp_path / "p.csv"
    words = ["--by", "sensor", "--categorical", "colour", "--predictions", out, "--json"]
    found = json.loads(run("run", tmp_path / "all.csv", "-t", "y", *words))
    assert found["algorithm"] == "online-kernel"
    assert found["params"]["budget"] == 32 and found["params"]["experts"] == "few"
    assert found["chosen"] == {"budget": 32, "experts": "few"}
    assert found["scale_target"] is False  # the default learner scales y itself
    made = pd.read_csv(out)
    errors = (made.prediction - made.y).to_numpy() ** 2
    baseline = (mean_of_key(frame) - frame.y.to_numpy()) ** 2
    turn = frame.groupby("sensor").cumcount().to_numpy()
    early, late = (turn >= 10) & (turn < 20), turn >= 100
    assert errors[early].mean() < 0.35 * baseline[early].mean()
    assert errors[late].mean() < 0.02 * baseline[late].mean()
    words = ["--categorical", "sensor", "--categorical", "colour", "--predictions", out]
    run("run", tmp_path / "all.csv", "-t", "y", *words)
    together = pd.read_csv(out)
    one = ((together.prediction - together.y).to_numpy() ** 2)[late].mean()
    assert errors[late].mean() < 3 * one  # a quarter of the rows for each of the four


def test_the_requested_learner_learns(run, frame, tmp_path):
    words = ["run", tmp_path / "all.csv", "-t", "y", "--by", "sensor", "--drop", "colour"]
    folder = tmp_path / "models"
    more = ["-a", "con-kons", "-p", "budget=20", "--save", folder, "--json"]
    found = json.loads(run(*words, *more))
    assert found["algorithm"] == "con-kons" and found["params"]["budget"] == 20
    assert found["chosen"] == {"bandwidth": "auto"} and found["scale"] == "minmax"
    assert found["scale_target"] is True
    model = pronk.load(folder)
    assert type(model.learner.learner) is pronk.ProsNKONSRegressor and model.by == "sensor"
    own = frame[frame.sensor == "east"]
    alone = pronk.Prepared(pronk.make("con-kons", budget=20))
    alone.learner.random_state = model["east"].learner.random_state
    expected = alone.fit(own[["a", "b"]], own.y).predict(own[["a", "b"]])
    np.testing.assert_allclose(model["east"].predict(own[["a", "b"]]), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    "more", [[], pytest.param(["--workers", 2], marks=pytest.mark.slow)], ids=["here", "workers"]
)
def test_saved_models_resume_predict_and_are_inspected(run, frame, tmp_path, more):
    folder, out = tmp_path / "models", tmp_path / "p.csv"
    words = ["-t", "y", "--by", "sensor", "--categorical", "colour"]
    run("run", tmp_path / "first.csv", *words, "--save", folder, *more)
    found = json.loads(run("run", tmp_path / "second.csv", "--model", folder, "--json", *more))
    assert found["rows"] == ROWS and found["rows_before"] == ROWS // 2
    assert found["by"] == "sensor" and found["keys"] == 4
    again = run("run", tmp_path / "second.csv", "--model", folder, *more, code=2)
    assert "has learned 'second.csv' already" in again
    told = json.loads(run("inspect", folder, "--json"))["model"]
    assert told["keys"] == 4 and told["by"] == "sensor" and told["rows"] == ROWS
    assert told["names"] == ["a", "b", "colour"] and told["kinds"][2] == "category"
    text = run("inspect", folder)
    assert "OnlineKernelRegressor" in text and "4 in column sensor" in text
    new = frame.assign(sensor=np.where(np.arange(ROWS) < 7, "nobody", frame.sensor))
    new.drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    run("predict", folder, tmp_path / "new.csv", "-o", out)
    made = pd.read_csv(out)
    np.testing.assert_allclose(made.prediction[:7], frame.y.mean(), rtol=1e-12, atol=0)
    assert made.sensor[7] == frame.sensor[7]
    models = pronk.load(folder)
    expected = models.predict(frame.drop(columns="y")[7:])
    models.close()
    np.testing.assert_allclose(made.prediction[7:], expected, rtol=1e-12, atol=0)
    assert np.mean((expected - frame.y[7:]) ** 2) < 1.0


@pytest.mark.slow
def test_a_folder_that_exists_does_not_learn_a_file_twice(run, tmp_path):
    folder = tmp_path / "models"
    words = ["-t", "y", "--by", "sensor", "--drop", "colour", "-a", "fogd", "--save", folder]
    run("run", tmp_path / "first.csv", *words)
    err = run("run", tmp_path / "first.csv", *words, code=2)
    assert "--save: " in err and "has learned 'first.csv' already (600 rows)" in err
    models = pronk.load(folder)
    assert models.n_seen_ == ROWS // 2
    models.close()
    run("run", tmp_path / "second.csv", *words)
    learned = json.loads(run("inspect", folder, "--json"))["model"]["learned"]
    assert [file["name"] for one in learned for file in one["files"]] == ["first.csv", "second.csv"]
    run("run", tmp_path / "first.csv", *words, "--again", "--workers", 2)
    assert pronk.load(folder).n_seen_ == 3 * ROWS // 2


def test_labels_of_keys(run, frame, tmp_path):
    frame.assign(y=np.where(frame.b > 0, "up", "down")).to_csv(tmp_path / "l.csv", index=False)
    folder, out = tmp_path / "models", tmp_path / "p.csv"
    words = ["-t", "y", "--by", "sensor", "--drop", "colour", "--save", folder, "--json"]
    found = json.loads(run("run", tmp_path / "l.csv", *words))
    assert found["metrics"]["error"] < 0.1
    run("predict", folder, tmp_path / "l.csv", "-o", out)
    assert set(pd.read_csv(out).prediction) == {"up", "down"}


def test_a_row_without_a_key_is_named(run, frame, tmp_path):
    gap = frame.assign(sensor=frame.sensor.where(frame.index != 17))
    gap.to_csv(tmp_path / "gap.csv", index=False)
    words = ["-t", "y", "--by", "sensor", "--drop", "colour"]
    told = run("run", tmp_path / "gap.csv", *words, code=2)
    assert (
        "gap.csv: the key 'sensor' is missing at row 17 (counting from 0); fill it in, or leave "
        "such rows out with --skip-bad FILE"
    ) in told
    models, bad = tmp_path / "models", tmp_path / "bad.csv"
    told = run("run", tmp_path / "gap.csv", *words, "--skip-bad", bad, "--save", models, "--json")
    assert json.loads(told)["rows"] == ROWS - 1
    assert pd.read_csv(bad)[["row", "reason"]].values.tolist() == [
        [17, "the key 'sensor' is missing"]
    ]
    told = run("predict", models, tmp_path / "gap.csv", code=2)
    assert "missing at row 17 (counting from 0); fill it in, or leave such rows out of the" in told
    told = run("run", tmp_path / "gap.csv", "-t", "y", "--by", "sensors", code=2)
    assert "--by: " in told and "no column 'sensors'; did you mean 'sensor'" in told


def test_a_key_of_numbers_is_the_same_from_files_and_frames(capsys, tmp_path):
    """In a CSV file it is text, in Parquet and in a frame a number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sensor": rng.integers(5, 8, 300), "a": rng.normal(size=300)})
    frame["y"] = 10.0 * frame.sensor + frame.a
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet", index=False)
    options = ["-t", "y", "--by", "sensor", "-a", "fogd", "--save", tmp_path / "models"]
    for name in ("d.csv", "d.parquet"):
        code, _, err = pronk_run(capsys, "run", tmp_path / name, *options, "--again")
        assert code == 0, err
    models = pronk.load(tmp_path / "models")
    assert len(models) == 3
    found = models.predict(frame[["sensor", "a"]])
    text = models.predict(frame[["sensor", "a"]].astype({"sensor": str}))
    models.close()
    assert np.abs(found - frame.y).mean() < 1.0
    np.testing.assert_array_equal(found, text)


@pytest.mark.parametrize(
    "options",
    [
        ["--interval", "0.8"],
        ["--time", "when"],
        ["--weight", "w"],
        ["--delay", "5"],
        ["--delay", "5", "--interval", "0.8", "--time", "when", "--weight", "w"],
    ],
)
def test_options_of_a_single_model_reach_the_models_of_keys(capsys, tmp_path, options):
    """The predictions are those of `Keyed`, with a numeric key, text and gaps."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=n, freq="min"),
            "sensor": rng.integers(1, 6, n),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "city": rng.choice(["Rome", "Oslo"], n),
            "w": rng.integers(0, 2, n),
        }
    )
    y = frame.sensor * np.nan_to_num(frame.x.to_numpy()) + (frame.city == "Rome")
    file, out = tmp_path / "d.csv", tmp_path / "p.csv"
    frame.assign(y=y).to_csv(file, index=False)
    options = [*options, "--drop", "when"] if "--time" not in options else options
    drop = [] if "--weight" in options else ["--drop", "w"]
    call = ["run", file, "-t", "y", "--by", "sensor", *options, *drop, "--predictions", out]
    assert pronk_run(capsys, *call, "--seed", "0")[0] == 0
    found = pd.read_csv(out)
    names = ["x", "city", *(["when"] if "--time" in options else [])]
    rows = frame[[name for name in frame if name in (*names, "sensor")]]
    learner = make_for_key("online-kernel", random_state=0)
    keyed = pronk.Keyed(pronk.Prepared(learner), by="sensor")
    given = {}
    if "--weight" in options:
        given["sample_weight"] = frame.w.to_numpy(float)
    if "--time" in options:
        given["times"] = frame.when.to_numpy()
    late = 5 if "--delay" in options else 0
    coverage = 0.8 if "--interval" in options else None
    expected, ends = [], []
    for i in range(n):  # from the definition: predict, then learn the label that has arrived
        if late:
            expected.append(keyed.predict(rows[i : i + 1])[0] if i > late else np.nan)
            if coverage:
                new = [[np.nan, np.nan]]
                ends.append((keyed.predict_interval(rows[i : i + 1], 0.8) if i > late else new)[0])
        j = i - late
        if j >= 0:
            own = {name: values[j : j + 1] for name, values in given.items()}
            answer = keyed.predict_then_learn(
                rows[j : j + 1], y[j : j + 1].to_numpy(), interval=coverage, **own
            )
            if not late:
                expected.append(answer[0][0] if coverage else answer[0])
                if coverage:
                    ends.append(answer[1][0])
    first = late + 1 + (8 if "--weight" in options else 0)
    np.testing.assert_allclose(found.prediction[first:], expected[first:], rtol=1e-9, atol=1e-9)
    if coverage:
        low = [end[0] for end in ends]
        np.testing.assert_allclose(found.low[first:], low[first:], rtol=1e-9, atol=1e-9)
