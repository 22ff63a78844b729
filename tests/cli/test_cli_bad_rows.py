"""`--skip-bad`: bad rows are written to a file with the reason, and the run continues."""

import json

import numpy as np
import pandas as pd
import pytest

import pronk
from helpers import pronk_run

ROWS = 300


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 9, (2, ROWS)).round(6)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(ROWS), unit="h")
    return pd.DataFrame({"a": a, "b": b, "day": day, "y": (np.sin(a) + b).round(6)})


def lines(frame, kind):
    if kind == "csv":
        return frame.to_csv(index=False).splitlines()
    if kind == "ndjson":
        return (
            frame.assign(day=frame["day"].astype(str))
            .to_json(orient="records", lines=True)
            .splitlines()
        )
    plain = frame[["y", "a", "b"]].to_numpy()
    return [f"{y} 1:{a} 2:{b}" for y, a, b in plain]


BAD = {
    "csv": ["1,2", "x,1,2024-01-01 00:00:00,2", "1,,2024-01-01 00:00:00,3", "1,2,soon,4"],
    "ndjson": ['{"a": 1, "b": [', '{"a": "x", "b": 1, "day": "2024-01-01", "y": 2}', "nothing"],
    "libsvm": ["1 1:x", "a b c", "2 1:1 1e400:3"],
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_skipped_and_reported(capsys, tmp_path, frame, kind):
    good = lines(frame, kind)
    header = 1 if kind == "csv" else 0
    mixed = list(good)
    for place, text in zip((40, 111, 199, 250), BAD[kind], strict=False):
        mixed.insert(place, text)
    clean, dirty = tmp_path / f"clean.{kind}", tmp_path / f"dirty.{kind}"
    clean.write_text("\n".join(good) + "\n")
    dirty.write_text("\n".join(mixed) + "\n")
    target = [] if kind == "libsvm" else ["-t", "y"]
    drop = ["--drop", "day"] if kind == "ndjson" else []
    call = [*target, *drop, "-a", "fogd", "--json", "--task", "regression", "--strict"]
    bad, models = tmp_path / "bad.csv", [tmp_path / "a.pronk", tmp_path / "b.pronk"]
    code, _, err = pronk_run(capsys, "run", dirty, *call)
    assert code == 2 and err.count("\n") == 1
    skip = ["--skip-bad", bad, "--save", models[0]]
    code, out, err = pronk_run(capsys, "run", dirty, *call, *skip)
    assert code == 0, err
    found = json.loads(out)
    assert found["bad_rows"] == len(BAD[kind]) and found["rows"] == ROWS
    code, out, _ = pronk_run(capsys, "run", clean, *call, "--save", models[1])
    assert json.loads(out)["metrics"] == pytest.approx(found["metrics"], rel=1e-12)
    told = pd.read_csv(bad)
    places = [40, 111, 199, 250][: len(BAD[kind])]
    assert told["row"].tolist() == [place - header for place in places]
    assert told["reason"].str.len().min() > 10
    assert pronk.load(models[0]).n_seen_ == ROWS


def test_a_killed_run_resumes_and_reports_each_bad_row_once(capsys, tmp_path, frame):
    text = lines(pd.concat([frame] * 16, ignore_index=True), "csv")
    for place in (100, 4000, 4500):
        text.insert(place, "1,x,2024-01-01 00:00:00,2")
    file = tmp_path / "d.csv"
    file.write_text("\n".join(text) + "\n")
    call = ["run", file, "-t", "y", "-a", "fogd", "--json", "--skip-bad"]
    code, out, err = pronk_run(capsys, *call, tmp_path / "whole.csv")
    assert code == 0, err
    parts = [tmp_path / "parts.csv", "--checkpoint", tmp_path / "c", "--checkpoint-every", 1]
    code, *_ = pronk_run(capsys, *call, *parts, "--limit", 4096)
    assert code == 0
    with file.open("a") as more:  # a finished run whose input has grown goes on
        more.write("2,y,2024-01-01 00:00:00,2\n1,2,2024-01-01 00:00:00,2\n")
    code, out, err = pronk_run(capsys, *call, *parts, "--limit", 4096)
    assert json.loads(out)["bad_rows"] == 2
    code, out, err = pronk_run(capsys, *call, tmp_path / "all.csv", "--checkpoint", tmp_path / "e")
    assert json.loads(out)["bad_rows"] == 4
    assert pd.read_csv(tmp_path / "all.csv")["row"].tolist() == [99, 3999, 4499, 4803]
    whole = pd.read_csv(tmp_path / "whole.csv")
    assert whole["row"].tolist() == [99, 3999, 4499]
    assert json.loads(whole["values"][0])["a"] == 1.0 and "'x'" in whole["reason"][0]
