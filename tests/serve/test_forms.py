"""Rows and labels are the same, bit by bit, in whatever form a request has them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from serving import Site

from pronk.serve.rows import check_labels, pack, targets, unpack
from pronk.serve.spec import HTTPError


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (math.nan, "value is missing"),
        (1e200, "too large"),
        (-math.inf, "too large"),
        (True, "expected a number, got bool"),
        ("x", "expected a number, got str"),
        (2**70 * 10**140, "too large"),
    ],
)
def test_a_bad_label_is_named_by_its_row(count: int, bad: Any, words: str) -> None:
    given = [0.5] * (count - 1) + [bad]
    with pytest.raises(HTTPError, match=rf"^row {count - 1}, label: .*{words}"):
        check_labels(given, count, "regression")
    flags = [True] * count
    with pytest.raises(HTTPError, match=r"^row 0, label: expected a number, got bool"):
        check_labels(flags, count, "regression")


@pytest.mark.parametrize("count", [1, 40])
def test_labels_are_kept_alike_in_whatever_form_they_come(count: int) -> None:
    values = np.arange(count) / 2.0
    kept = pack(values.tolist())
    mixed = [int(value) if value.is_integer() else value for value in values.tolist()]
    for form in (values.tolist(), mixed):
        assert check_labels(form, count, "regression") == kept
    back = targets([kept, kept], "regression")
    assert back.dtype == np.float64 and back.tolist() == values.tolist() * 2
    whole = list(range(count))
    assert unpack(check_labels(whole, count, "classification")) == whole


def test_rows_are_one_content_in_whatever_form_they_come(site: Site) -> None:
    """Lists, objects, tensors flat and nested, and binary: the same id, the same answer."""
    path = site.create("forms")
    X = np.arange(60.0).reshape(30, 2) / 8
    y = (X[:, 0] > 2).astype(float)
    shape = {"name": "x", "shape": [30, 2], "datatype": "FP64"}
    forms: list[dict[str, Any]] = [
        {"rows": X.tolist()},
        {"rows": [{"a": row[0], "b": row[1]} for row in X.tolist()]},
        {"inputs": [shape | {"data": X.ravel().tolist()}]},
        {"inputs": [shape | {"data": X.tolist()}]},
        {"inputs": [shape | {"data": [int(v) if v.is_integer() else v for v in X.ravel()]}]},
    ]
    answers = [
        site.call("POST", f"{path}/learn", {"id": "once", "labels": y.tolist(), **form}).json
        for form in forms
    ]
    named = {"name": "label", "shape": [30], "datatype": "FP64"}
    tensors = [
        shape | {"parameters": {"binary_data_size": X.nbytes}},
        named | {"parameters": {"binary_data_size": y.nbytes}},
    ]
    text = json.dumps({"id": "once", "inputs": tensors}).encode()
    length = {"Inference-Header-Content-Length": str(len(text))}
    body = text + X.tobytes() + y.tobytes()
    answers.append(site.call("POST", f"{path}/learn", body, headers=length).json)
    assert all(answer == answers[0] for answer in answers)
    assert site.call("GET", path).json["rows"] == 30


def test_no_labels_beside_another_mistake_are_refused(site: Site) -> None:
    path = site.create("choices", task="classification", algorithm="fogd", parameters={})
    body = {"id": 5, "row": [1, 2], "labels": []}
    assert site.call("POST", f"{path}/learn", body).status == 422
