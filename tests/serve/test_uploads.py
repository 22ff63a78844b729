"""Uploaded model files resume where they were; other files are rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from driving import opened
from serving import Site

import pronk
from pronk.serve import spec as uploads

KIND = {"Content-Type": "application/octet-stream"}


def test_an_uploaded_model_file_resumes(site: Site, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=30), "city": rng.choice(["a", "b"], 30)})
    learner = pronk.Prepared(pronk.make("pkawv-nystrom", history="projected", random_state=0))
    learner.partial_fit(frame, frame.x * 2)
    learner.save(tmp_path / "model.pronk")
    data = (tmp_path / "model.pronk").read_bytes()
    made = site.call("PUT", "/v2/models/sent", data, headers=KIND)
    assert made.status == 201, made.body
    assert site.call("PUT", "/v2/models/sent", data, headers=KIND).status == 200
    rows = frame.to_dict("records")
    asked = site.call("POST", "/v2/models/sent/infer", {"rows": rows})
    assert asked.prediction == learner.predict(frame).tolist()
    taught = site.call("POST", "/v2/models/sent/learn", {"row": rows[0], "label": 1.5})
    assert taught.prediction == learner.predict_then_learn(frame[:1], [1.5]).tolist()


def test_what_is_not_a_model_file_is_refused(site: Site, tmp_path: Path) -> None:
    learner = pronk.make("fogd", random_state=0).partial_fit([[1.0]], [1.0])
    learner.save(tmp_path / "model")
    data = bytearray((tmp_path / "model").read_bytes())
    data[-1] ^= 1
    for body in (b"", b"\x80\x04pickle", bytes(data), bytes(data[:-9])):
        reply = site.call("PUT", "/v2/models/never-sent", body, headers=KIND)
        assert reply.status == 422 and "the file" in reply.error, reply.body
    spec = {"columns": 1, "algorithm": "file", "file": "0" * 64}
    assert site.call("PUT", "/v2/models/never-sent", spec).status == 422
    assert "never-sent" not in site.service.models


def test_a_restart_has_it_from_its_snapshots_only(tmp_path: Path) -> None:
    learner = pronk.make("fogd", random_state=0).partial_fit([[1.0, 2.0]], [1.0])
    learner.save(tmp_path / "model")
    service = opened(tmp_path / "served")
    service.create("m", *uploads.read_upload((tmp_path / "model").read_bytes()))
    service.close()
    again = opened(tmp_path / "served")
    X = np.array([[1.0, 2.0]])
    assert again.model("m").learner.predict(X).tolist() == learner.predict(X).tolist()
    again.close()
    for path in (tmp_path / "served").glob("m-*.pronk"):
        path.write_bytes(b"damaged")
    broken = opened(tmp_path / "served")
    assert "model file" in (broken.model("m").broken or "")
    broken.close()
