"""The calls over HTTP: what they do, and that a request with the same id is done once."""

from __future__ import annotations

import json
from datetime import date
from datetime import time as clock

import numpy as np
import pandas as pd
import pytest
from serving import SMALL, Site

import pronk


def test_predictions_are_those_of_the_library_row_by_row(site: Site) -> None:
    path = site.create("exact", parameters={"history": "projected", "budget": 10}, scale="none")
    inner = pronk.make("pkawv-nystrom", history="projected", budget=10, random_state=0)
    learner = pronk.Prepared(inner, scale="none")
    X = np.random.default_rng(0).normal(size=(12, 2))
    for i, row in enumerate(X):
        y = float(np.sin(row[0]))
        reply = site.call("POST", f"{path}/learn", {"row": row.tolist(), "label": y})
        expected = learner.predict_then_learn(row[None], [y]).tolist()
        assert reply.prediction == (expected if i else [None])
    asked = site.call("POST", f"{path}/infer", {"rows": X.tolist()})
    assert asked.prediction == learner.predict(X).tolist()
    told = site.call("GET", path).json
    assert told["rows"] == 12 and told["points"] == learner.size_
    assert told["versions"] == [asked.json["model_version"]]


def test_a_model_returns_its_regrets(site: Site) -> None:
    path = site.create("told", algorithm="online-kernel", parameters={"budget": 10})
    rows = np.random.default_rng(0).normal(size=(20, 2))
    site.call("POST", f"{path}/learn", {"rows": rows.tolist(), "labels": rows[:, 0].tolist()})
    told = site.call("GET", path).json["certificate"]
    for regret in (told, told["combination"]):
        assert regret["rows"] == 20 and regret["regret"] <= regret["bound"]


def test_the_same_id_gives_the_stored_answer_and_learns_nothing(site: Site) -> None:
    path = site.create("same")
    body = {"id": "one", "rows": [[1, 2], {"b": 3, "a": 4}], "labels": [1, 2]}
    first = site.call("POST", f"{path}/learn", body)
    site.call("POST", f"{path}/learn", {"row": [5, 5], "label": 1})
    again = site.call("POST", f"{path}/learn", {**body, "rows": [{"a": 1, "b": 2}, [4.0, 3.0]]})
    assert first.status == again.status == 200 and first.body == again.body
    assert site.call("GET", path).json["rows"] == 3
    other = site.call("POST", f"{path}/learn", {**body, "labels": [1, 3]})
    assert other.status == 422 and "other content" in other.error
    assert site.call("POST", f"{path}/infer", {"id": "one", "row": [1, 2]}).status == 422


def test_a_label_comes_later_and_scores_the_earlier_prediction(site: Site) -> None:
    path = site.create("later")
    early = site.call("POST", f"{path}/infer", {"id": "x", "row": [1, 2]})
    assert early.prediction == [None] and early.json["parameters"] == {"trained": False}
    assert site.call("GET", path).json["waiting"] == 1
    for _ in range(5):
        site.call("POST", f"{path}/learn", {"row": [1, 2], "label": 3})
    assert site.call("POST", f"{path}/infer", {"id": "x", "row": [1, 2]}).body == early.body
    done = site.call("POST", f"{path}/learn", {"id": "x", "label": 4})
    assert done.prediction == [None]
    before = site.call("GET", path).json
    assert before["waiting"] == 0 and before["rows"] == 6
    assert site.call("POST", f"{path}/learn", {"id": "x", "label": 4}).body == done.body
    assert site.call("POST", f"{path}/learn", {"id": "x", "label": 5}).status == 422
    assert site.call("POST", f"{path}/learn", {"id": "y", "label": 5}).status == 404
    assert site.call("GET", path).json | {"bytes": 0} == before | {"bytes": 0}


def test_lines_are_requests_of_their_own(site: Site) -> None:
    path = site.create("lines")
    lines = [
        {"id": "1", "row": [1, 2], "label": 3},
        {"id": "none", "label": 3},
        {"row": [2, 2], "label": 4},
    ]
    kind = {"Content-Type": "application/x-ndjson"}
    body = "\n".join(json.dumps(line) for line in lines)
    reply = site.call("POST", f"{path}/learn", body, headers=kind)
    assert reply.headers["content-type"] == "application/x-ndjson"
    first, second, third = reply.lines
    assert first["id"] == "1" and first["outputs"][0]["data"] == [None]
    assert second == {"id": "none", "status": 404, "error": second["error"]}
    assert third["model_version"] > first["model_version"]
    assert site.call("GET", path).json["rows"] == 2
    mixed = (
        '{"row": [1, "x"], "label": 1}\n{"row": [3, 2], "label": 1}\n{"row": [1]\n{"row": [1, 2]}'
    )
    some = site.call("POST", f"{path}/learn", mixed, headers=kind).lines
    assert [line.get("status") for line in some] == [422, None, 400, 422]
    assert "row 0, column 'b'" in some[0]["error"]
    assert site.call("GET", path).json["rows"] == 3
    bad = site.call("POST", f"{path}/learn", '{"row": [1\n5', headers=kind)
    assert bad.status == 400 and bad.error.startswith("line 0:")
    assert site.call("GET", path).json["rows"] == 3


def test_tensors_of_the_open_inference_protocol(site: Site) -> None:
    path = site.create("tensors")
    whole = [{"name": "x", "shape": [2, 2], "datatype": "FP64", "data": [1, 2, 3, 4]}]
    label = {"name": "label", "shape": [2], "datatype": "FP64", "data": [1, 2]}
    assert site.call("POST", f"{path}/learn", {"inputs": [*whole, label]}).status == 200
    columns = [
        {"name": "b", "shape": [2, 1], "datatype": "FP32", "data": [[2], [4]]},
        {"name": "a", "shape": [2], "datatype": "INT64", "data": [1, 3]},
    ]
    one = site.call("POST", f"{path}/infer", {"inputs": whole}).prediction
    two = site.call("POST", f"{path}/infer", {"inputs": columns}).prediction
    rows = site.call("POST", f"{path}/infer", {"rows": [[1, 2], [3, 4]]}).prediction
    assert one == two == rows


def test_a_classifier_answers_labels_and_probabilities(site: Site) -> None:
    path = site.create("classes", task="classification", algorithm="online-kernel", parameters={})
    assert site.call("POST", f"{path}/infer", {"row": [1, 2]}).prediction == [None]
    rows = np.random.default_rng(1).normal(size=(60, 2))
    labels = ["up" if row[0] > 0 else "down" for row in rows]
    learned = site.call("POST", f"{path}/learn", {"rows": rows.tolist(), "labels": labels})
    assert learned.status == 200, learned.body
    reply = site.call("POST", f"{path}/infer", {"rows": [[2, 0], [-2, 0]]}).json
    prediction, probability = reply["outputs"]
    assert prediction["data"] == ["up", "down"] and prediction["datatype"] == "BYTES"
    assert probability["shape"] == [2, 2]
    assert probability["parameters"]["classes"] == ["down", "up"]
    wrong = site.call("POST", f"{path}/learn", {"row": [1, 2], "label": 5})
    assert wrong.status == 422 and "text" in wrong.error


def test_intervals_stand_beside_predictions(site: Site) -> None:
    path = site.create("intervals", algorithm="online-kernel", parameters={"budget": 20})
    X = np.random.default_rng(2).normal(size=(200, 2))
    body = {"rows": X.tolist(), "labels": X.sum(axis=1).tolist()}
    learned = site.call("POST", f"{path}/learn", body).json
    assert [output["name"] for output in learned["outputs"]] == ["prediction", "lower", "upper"]
    asked = site.call("POST", f"{path}/infer", {"row": [0, 0]}).json
    prediction, lower, upper = (output["data"][0] for output in asked["outputs"])
    assert lower < prediction < upper
    assert 0.5 < site.call("GET", path).json["metrics"]["coverage"] <= 1.0


def test_models_are_made_once_listed_kept_and_removed(site: Site) -> None:
    path = site.create("kept")
    spec = {"columns": ["a", "b"], **SMALL}
    assert site.call("PUT", path, spec).status == 200
    assert site.call("PUT", path, {**spec, "seed": 7}).status == 409
    assert site.call("PUT", "/v2/models/KEPT", spec).status == 409
    names = [model["name"] for model in site.call("GET", "/v2/models").json["models"]]
    assert "kept" in names
    site.call("POST", f"{path}/learn", {"row": [1, 2], "label": 3})
    version = site.call("POST", f"{path}/snapshot").json["model_version"]
    kept = site.folder / f"kept-{version}.pronk"
    assert pronk.load(kept).n_seen_ == 1
    site.call("POST", f"{path}/learn", {"row": [1, 2], "label": 3})
    back = site.call("POST", f"{path}/rollback", {"version": version})
    assert back.status == 200 and back.json["model_version"] == version
    assert site.call("GET", path).json["rows"] == 1
    assert site.call("DELETE", path).status == 200
    assert site.call("GET", path).status == 404 and not kept.exists()
    assert site.call("PUT", path, spec).status == 201


def test_columns_of_all_kinds_are_prepared_as_in_a_run(site: Site) -> None:
    columns = [
        {"name": "size", "kind": "number"},
        {"name": "city", "kind": "category"},
        {"name": "when", "kind": "time"},
        {"name": "day", "kind": "date"},
        {"name": "at", "kind": "clock"},
    ]
    path = site.create("mixed", columns=columns, missing="mean")
    frame = pd.DataFrame(
        {
            "size": [1.0, None, 3.0],
            "city": ["Rome", "Oslo", "Rome"],
            "when": pd.to_datetime(["2024-01-01 10:00", "2024-01-02 11:30", "2024-02-01 00:00"]),
            "day": [date(2024, 1, 1), date(2024, 5, 1), date(2024, 7, 1)],
            "at": [clock(10, 0), clock(23, 59), clock(0, 0)],
        }
    )
    inner = pronk.make("pkawv-nystrom", history="projected", budget=10, random_state=0)
    learner = pronk.Prepared(inner, missing="mean")
    expected = learner.predict_then_learn(frame, [1.0, 2.0, 3.0])
    rows = [
        {"size": 1, "city": "Rome", "when": "2024-01-01T10:00", "day": "2024-01-01", "at": "10:00"},
        {"size": None, "city": "Oslo", "when": "2024-01-02T13:30:00+02:00", "day": "2024-05-01",
         "at": "23:59"},
        [3, "Rome", "2024-02-01", "2024-07-01", "00:00:00"],
    ]  # fmt: skip
    reply = site.call("POST", f"{path}/learn", {"rows": rows, "labels": [1, 2, 3]})
    assert reply.status == 200 and reply.prediction == [None, *expected[1:].tolist()]
    wrong = site.call("POST", f"{path}/infer", {"rows": [rows[0], {**rows[0], "when": "soon"}]})
    assert wrong.status == 422 and "row 1, column 'when': not a time" in wrong.error


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_model_that_has_learned_nothing_returns_an_error(site: Site, task: str) -> None:
    path = site.create(f"untrained-{task}", algorithm="online-kernel", parameters={}, task=task)
    early = site.call("POST", f"{path}/infer", {"id": "1", "rows": [[1, 2], [3, 4]]})
    assert early.prediction == [None, None] and early.json["parameters"] == {"trained": False}
    assert [output["name"] for output in early.json["outputs"]] == ["prediction"]
    labels = {"id": "1", "labels": [2, 2]}
    late = site.call("POST", f"{path}/learn", labels)
    assert late.status == 200 and late.prediction == [None, None]
    model = site.call("GET", path).json
    assert model["rows"] == model["metrics"].pop("unpredicted") == 2
    assert model["metrics"].pop("rows") == 2 and set(model["metrics"].values()) == {None}
    now = site.call("POST", f"{path}/infer", {"row": [1, 2]})
    assert now.prediction != [None] and "parameters" not in now.json


def test_the_first_row_that_is_learned_has_no_interval(site: Site) -> None:
    path = site.create("first-interval", algorithm="online-kernel", parameters={})
    reply = site.call("POST", f"{path}/learn", {"rows": [[1, 2], [3, 4]], "labels": [5, 6]})
    outputs = {output["name"]: output["data"] for output in reply.json["outputs"]}
    assert outputs["lower"][0] is None and outputs["upper"][0] is None
