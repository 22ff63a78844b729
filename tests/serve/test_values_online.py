"""Values in JSON are those of files: a model that learned from a file predicts the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from serving import SMALL, Site

import pronk
from pronk.data import FileStream

KIND = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[pronk.Prepared, bytes]:
    """A model of a CSV file with whole numbers and booleans as categories, and with dates."""
    rng = np.random.default_rng(0)
    lines = ["k,t,flag,when,day,y"]
    for _ in range(200):
        k, hour, day = rng.integers(1, 5), rng.integers(0, 24), rng.integers(1, 29)
        t, flag = rng.choice(["true", "false"], 2)
        y = [10.0, -10.0, 3.0, -3.0][k - 1] + (t == "true") + (flag == "true") + hour / 24
        lines.append(f"{k},{t},{flag},2015-01-{day:02d}T{hour:02d}:00:00+09:00,{day}.01.2015,{y}")
    folder = tmp_path_factory.mktemp("learned")
    (folder / "d.csv").write_text("\n".join(lines) + "\n")
    stream = FileStream(folder / "d.csv", "y", categorical=["k", "t"])
    assert stream.kinds == ["category", "category", "boolean", "time", "date"]
    assert stream.orders == ["iso", "iso", "iso", "iso", "dayfirst"]
    model = pronk.Prepared(pronk.make("pkawv-nystrom", history="projected", random_state=0))
    model.with_columns(stream.columns, stream.kinds, stream.orders)
    for X, y in stream:
        model.partial_fit(X, y)
    model.save(folder / "m.pronk")
    return model, (folder / "m.pronk").read_bytes()


def test_a_model_of_a_file_answers_json(
    site: Site, learned: tuple[pronk.Prepared, bytes], tmp_path: Path
) -> None:
    model, data = learned
    assert site.call("PUT", "/v2/models/from-csv", data, headers=KIND).status == 201
    when = {1: "2015-01-03T05:00:00+09:00", 2: "2015-01-02T20:00:00Z", 3: "2015-01-02 20:00",
            4: "02.01.2015 20:00"}  # fmt: skip
    (tmp_path / "d.csv").write_text(
        "k,t,flag,when,day\n"
        + "".join(f"{k},true,false,2015-01-02T20:00:00Z,{k}.01.2015\n" for k in when)
    )
    stream = FileStream(tmp_path / "d.csv", categorical=["k", "t"])
    ((X, _),) = stream
    expected = model.predict(X).tolist()
    assert max(expected) - min(expected) > 10
    for spelled in (lambda k: k, float, str, lambda k: f"{k}.0"):
        rows = [
            {"k": spelled(k), "t": t, "flag": flag, "when": when[1 + k % 3], "day": f"{k}.1.2015"}
            for k, t, flag in zip(
                (1, 2, 3, 4), (True, "true", "True", True), (False, "false", 0, 0.0), strict=True
            )
        ]
        asked = site.call("POST", "/v2/models/from-csv/infer", {"rows": rows})
        assert asked.status == 200, asked.body
        assert asked.prediction == expected
    tensors = [
        {"name": "k", "datatype": "INT64", "shape": [2], "data": [1, 2]},
        {"name": "t", "datatype": "BOOL", "shape": [2], "data": [True, True]},
        {"name": "flag", "datatype": "BOOL", "shape": [2], "data": [False, False]},
        {"name": "when", "datatype": "BYTES", "shape": [2], "data": [when[3]] * 2},
        {"name": "day", "datatype": "BYTES", "shape": [2], "data": ["1.1.2015", "2015-01-02"]},
    ]
    asked = site.call("POST", "/v2/models/from-csv/infer", {"inputs": tensors})
    assert asked.prediction == pytest.approx(expected[:2], abs=1e-9)
    inputs = site.call("GET", "/v2/models/from-csv").json["inputs"]
    assert [one["datatype"] for one in inputs] == ["BYTES", "BYTES", "BOOL", "BYTES", "BYTES"]


def test_booleans_and_dates_are_kinds_of_columns(site: Site) -> None:
    columns = [
        {"name": "on", "kind": "boolean"},
        {"name": "day", "kind": "date", "dates": "monthfirst"},
        {"name": "at", "kind": "time"},
    ]
    path = "/v2/models/kinds"
    assert site.call("PUT", path, {"columns": columns, **SMALL}).status == 201
    good = {"rows": [[True, "1/31/2015", "2015-01-31 10:00"], ["false", "2015-01-31", 1e9]],
            "labels": [1.0, 2.0]}  # fmt: skip
    assert site.call("POST", f"{path}/learn", good).status == 200
    for row, words in [
        ([2, "1/31/2015", 0], "'on': expected true or false"),
        (["yes", "1/31/2015", 0], "'on': expected true or false"),
        ([True, "31/1/2015", 0], "'day': not a date"),
        ([True, "1/31/2015", "31.1.2015"], "'at': not a time, with the year first"),
        ([True, "1/31/2015 10:00", 0], "'day': a date cannot have a time of day"),
        ([True, "NA", 0], "'day': the value is missing"),
        (["", "1/31/2015", 0], "'on': the value is missing"),
    ]:
        refused = site.call("POST", f"{path}/infer", {"rows": [row]})
        assert refused.status == 422 and words in refused.error, refused.body


def test_words_for_missing_are_missing_as_in_files(site: Site) -> None:
    columns = [{"name": "c", "kind": "category"}, {"name": "at", "kind": "time"}]
    path, strict = "/v2/models/words-filled", "/v2/models/words-refused"
    assert site.call("PUT", path, {"columns": columns, "missing": "mean", **SMALL}).status == 201
    assert site.call("PUT", strict, {"columns": columns, **SMALL}).status == 201
    rows = [["a", "2015-01-31 10:00"], ["b", "2015-01-31 18:00"]] * 10
    body = {"rows": rows, "labels": [1.0, 5.0] * 10}
    for name in (path, strict):
        assert site.call("POST", f"{name}/learn", body).status == 200
    gaps = [[None, None], ["", "NA"], ["NA", "null"], ["n/a", ""]]
    found = site.call("POST", f"{path}/infer", {"rows": gaps})
    assert found.status == 200 and len(set(found.prediction)) == 1, found.body
    for row in gaps:
        refused = site.call("POST", f"{strict}/infer", {"rows": [row]})
        assert refused.status == 422 and "column 'c': the value is missing" in refused.error


def test_a_long_whole_number_keeps_its_digits_as_a_category(site: Site) -> None:
    path = "/v2/models/long"
    columns = [{"name": "id", "kind": "category"}]
    assert site.call("PUT", path, {"columns": columns, **SMALL}).status == 201
    ids = [9007199254740993, 9007199254740992, 123456789012345678901234567890]
    body = {"rows": [[one] for one in ids * 20], "labels": [1.0, 5.0, 9.0] * 20}
    assert site.call("POST", f"{path}/learn", body).status == 200
    whole = site.call("POST", f"{path}/infer", {"rows": [[one] for one in ids]}).prediction
    words = site.call("POST", f"{path}/infer", {"rows": [[str(one)] for one in ids]}).prediction
    assert whole == words and whole[1] - whole[0] > 2 and whole[2] - whole[1] > 2
