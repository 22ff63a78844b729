"""Floats read through msgpack equal, bit by bit, those that NumPy makes of the lists."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import Site

from pronk.serve.rows import (
    check_labels,
    float_table,
    floats_of,
    pack_floats,
    pack_labels,
    targets,
    unpack_labels,
)
from pronk.serve.spec import HTTPError

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


def _same(found: Any, wanted: Any) -> bool:
    return found is not None and found.dtype == np.float64 and found.tobytes() == wanted.tobytes()


@given(st.data(), st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_tables_and_lists_are_what_numpy_makes_of_them(
    data: st.DataObject, rows: int, width: int
) -> None:
    flat = data.draw(st.lists(NUMBERS, min_size=rows, max_size=rows))
    table = [data.draw(st.lists(NUMBERS, min_size=width, max_size=width))] * rows
    assert _same(floats_of(flat), np.array(flat))
    assert _same(float_table(table, width), np.array(table))
    assert pack_floats(np.array(flat)) == msgspec.msgpack.encode(flat)


@pytest.mark.parametrize("count", [1, 15, 16, 65_535, 65_536])
def test_the_head_of_a_list_grows_with_it(count: int) -> None:
    values = np.arange(float(count))
    assert _same(floats_of(values.tolist()), values)
    assert pack_floats(values) == msgspec.msgpack.encode(values.tolist())
    wide = values.reshape(1, -1)
    assert _same(float_table(wide.tolist(), count), wide)
    assert _same(float_table(wide.T.tolist(), 1), wide.T)


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 2.0], [1.0, 2]],
        [[1.0, 2.0], [1.0, None]],
        [[1.0, 2.0], [1.0, True]],
        [[1.0, 2.0], [1.0, "12345678"]],  # as many bytes as a float
        [[1.0], [1.0, 2.0, 3.0]],  # as many bytes in all as two rows of two
        [[1.0, 2.0], {"a": 1.0, "b": 2.0}],
        [[1.0, 2.0], [1.0, 2**70]],
        [[1.0, [2.0]], [1.0, 2.0]],
        [1.0, 2.0],
    ],
)
def test_anything_else_is_left_to_a_closer_look(rows: list[Any]) -> None:
    assert float_table(rows, 2) is None


@pytest.mark.parametrize("bad", [2, None, True, "12345678", 2**70, [2.0]])
def test_a_list_of_not_only_floats_is_left_to_a_closer_look(bad: Any) -> None:
    assert floats_of([1.0] * 20 + [bad]) is None
    assert floats_of([]) is None


@pytest.mark.parametrize("count", [1, 40])  # few are looked at one by one, many as an array
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
    if isinstance(bad, float):
        with pytest.raises(HTTPError, match=rf"^row {count - 1}, label: .*{words}"):
            check_labels(np.array(given), count, "regression")
    flags = np.ones(count, dtype=bool)
    with pytest.raises(HTTPError, match=r"^row 0, label: expected a number, got bool"):
        check_labels(flags, count, "regression")


@pytest.mark.parametrize("count", [1, 40])
def test_labels_are_kept_alike_in_whatever_form_they_come(count: int) -> None:
    values = np.arange(count) / 2.0
    kept = pack_labels(values.tolist())
    mixed = [int(value) if value.is_integer() else value for value in values.tolist()]
    for form in (values, values.tolist(), mixed, values.astype(np.float32)):
        assert check_labels(form, count, "regression") == kept
    back = targets([kept, kept], "regression")
    assert back.dtype == np.float64 and back.tolist() == values.tolist() * 2
    whole = np.arange(count)
    assert unpack_labels(check_labels(whole, count, "classification")) == list(range(count))


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
