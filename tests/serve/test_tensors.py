"""Clients of the Open Inference Protocol: binary text, keys, versions, compression, outputs.

Bodies are built here from the protocol and its binary extension, as tritonclient sends them.
"""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import numpy as np
import pytest
from serving import Reply, Site

MIXED = ["x", {"name": "on", "kind": "boolean"}, {"name": "city", "kind": "category"}]
_FORMS = {"FP64": "<f8", "FP32": "<f4", "INT64": "<i8", "UINT8": "<u1", "BOOL": "?"}


def texts(values: list[Any]) -> bytes:
    """Return texts of the binary extension: 4 bytes of length before each."""
    parts = [value if isinstance(value, bytes) else value.encode() for value in values]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def binary(tensors: list[tuple[str, str, list[Any]]], **more: Any) -> tuple[bytes, dict[str, str]]:
    """Return a body of binary tensors (name, datatype, values), and its headers."""
    inputs, data = [], b""
    for name, kind, values in tensors:
        form = _FORMS.get(kind)
        raw = texts(values) if form is None else np.array(values, dtype=form).tobytes()
        shape = list(np.array(values, dtype=object).shape)
        size = {"binary_data_size": len(raw)}
        inputs.append({"name": name, "datatype": kind, "shape": shape, "parameters": size})
        data += raw
    text = json.dumps({"inputs": inputs, **more}).encode()
    return text + data, {"Inference-Header-Content-Length": str(len(text))}


def ask(site: Site, path: str, body: bytes, headers: dict[str, str]) -> Reply:
    return site.call("POST", path, body, headers=headers)


ROWS: list[tuple[str, str, list[Any]]] = [
    ("city", "BYTES", ["Zürich", "", "Oslo"]),
    ("x", "FP32", [0.5, 1.5, 2.5]),
    ("on", "BOOL", [True, False, True]),
]
AS_JSON = [[0.5, True, "Zürich"], [1.5, False, ""], [2.5, True, "Oslo"]]


@pytest.fixture(scope="module")
def mixed(site: Site) -> str:
    path = site.create("binary-text", columns=MIXED, missing="mean")
    body, headers = binary([*ROWS, ("label", "FP64", [1.0, 2.0, 3.0])])
    assert ask(site, f"{path}/learn", body, headers).status == 200
    return path


def test_binary_text_is_that_of_json(site: Site, mixed: str) -> None:
    body, headers = binary(ROWS)
    found = ask(site, f"{mixed}/infer", body, headers)
    assert found.status == 200, found.body
    assert found.prediction == site.call("POST", f"{mixed}/infer", {"rows": AS_JSON}).prediction
    assert site.call("GET", mixed).json["rows"] == 3


def test_labels_may_be_binary_text(site: Site) -> None:
    path = site.create("binary-labels", task="classification", algorithm="online-kernel",
                       parameters={})  # fmt: skip
    rows = ("rows", "FP64", np.random.default_rng(0).normal(size=(40, 2)).tolist())
    labels = ["up" if a > 0 else "down" for a, _ in rows[2]]
    for kind in (("label", "BYTES", labels), ("labels", "BYTES", labels)):
        body, headers = binary([rows, kind])
        assert ask(site, f"{path}/learn", body, headers).status == 200
    body, headers = binary([rows])
    assert set(ask(site, f"{path}/infer", body, headers).prediction) == {"up", "down"}


@pytest.mark.parametrize(
    "sensor",
    [("sensor", "BYTES", ["a", "b", "a"]), ("sensor", "INT64", [1, 2, 1])],
)
def test_keys_are_a_tensor(site: Site, sensor: tuple[str, str, list[Any]]) -> None:
    name = f"binary-keys-{sensor[1]}"
    path = site.create(name, columns=["x"], key="sensor")
    x, y = ("x", "FP64", [0.1, 0.2, 0.3]), ("label", "FP64", [1.0, -1.0, 1.0])
    assert ask(site, f"{path}/learn", *binary([x, sensor, y])).status == 200
    found = ask(site, f"{path}/infer", *binary([sensor, x]))
    rows = [{"sensor": key, "x": value} for key, value in zip(sensor[2], x[2], strict=True)]
    assert found.prediction == site.call("POST", f"{path}/infer", {"rows": rows}).prediction
    tensors = [
        {"name": each, "datatype": kind, "shape": [3], "data": data}
        for each, kind, data in (sensor, x)
    ]
    assert site.call("POST", f"{path}/infer", {"inputs": tensors}).prediction == found.prediction
    reply = ask(site, f"{path}/infer", *binary([x, ("y", "FP64", [1.0, 2.0, 3.0])]))
    assert reply.status == 422 and "no tensor for the column 'sensor'" in reply.error
    assert [one["name"] for one in site.call("GET", path).json["inputs"]] == ["sensor", "x"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (texts(["a", "b"]), "has not 3 texts"),
        (texts(["a", "b", "c", "d"]), "has not 3 texts"),
        (texts(["a", "b", "c"])[:-1], "extends past its end"),
        (texts(["a", "b"]) + b"\x01\x00", "extends past its end"),
        (texts(["a", "b"]) + b"\xff\xff\xff\xff", "extends past its end"),
        (texts(["a", b"\xff\xfe", "c"]), "row 1 of 'city' is not UTF-8"),
    ],
)
def test_text_of_another_form_is_refused(site: Site, mixed: str, data: bytes, words: str) -> None:
    inputs = [
        {"name": "x", "datatype": "FP64", "shape": [3], "data": [1, 2, 3]},
        {"name": "on", "datatype": "BOOL", "shape": [3], "data": [True, True, False]},
        {"name": "city", "datatype": "BYTES", "shape": [3],
         "parameters": {"binary_data_size": len(data)}},
    ]  # fmt: skip
    text = json.dumps({"inputs": inputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    reply = ask(site, f"{mixed}/infer", text + data, headers)
    assert reply.status == 422 and words in reply.error


@pytest.mark.parametrize("kind", ["FP64", "FP32", "INT64", "UINT8"])
def test_an_array_is_rows_of_columns_of_any_kind(site: Site, mixed: str, kind: str) -> None:
    rows: list[list[Any]] = [[3, 1, 7], [0, 0, 7]]
    expected = site.call("POST", f"{mixed}/infer", {"rows": rows}).prediction
    found = ask(site, f"{mixed}/infer", *binary([("rows", kind, rows)]))
    assert found.status == 200 and found.prediction == expected


def test_nan_in_an_array_is_a_missing_value(site: Site, mixed: str) -> None:
    rows = [[np.nan, 1.0, 7.0], [0.5, np.nan, np.nan]]
    given = [[None if value != value else value for value in row] for row in rows]
    expected = site.call("POST", f"{mixed}/infer", {"rows": given}).prediction
    found = ask(site, f"{mixed}/infer", *binary([("rows", "FP64", rows)]))
    assert found.status == 200 and found.prediction == expected


@pytest.mark.thinned
@pytest.mark.parametrize("size", [-1, 10**30, 1.5, "3", None, True, [3]])
@pytest.mark.parametrize("shape", [[3], [0], [10**30, 0], [2**63], [1, 3]])
@pytest.mark.parametrize("kind", ["BYTES", "FP64", "BOOL", "WHAT"])
def test_odd_sizes_and_shapes_are_refused(
    site: Site, mixed: str, size: Any, shape: list[int], kind: str
) -> None:
    tensor = {"name": "x", "datatype": kind, "shape": shape}
    text = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": size}}]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    for data in (b"", b"\x00" * 24):
        assert ask(site, f"{mixed}/infer", text + data, headers).status == 422


@pytest.mark.parametrize("value", ["x", None, 10**400, 2, 1.5, [[1]], {}])
def test_values_of_a_tensor_of_booleans(site: Site, value: Any) -> None:
    path = "/v2/models/booleans"
    site.call("PUT", path, {"columns": ["a", "b"], "algorithm": "fogd"})
    tensors = [
        {"name": name, "datatype": "BOOL", "shape": [2], "data": [True, value]} for name in "ab"
    ]
    reply = site.call("POST", f"{path}/infer", {"inputs": tensors})
    assert reply.status == (200 if isinstance(value, int | float) and value < 3 else 422)


def test_numbers_are_not_text(site: Site) -> None:
    path = site.create("no-text")
    for rows in ([["1.5", "2.5"]], [["1.5", "2.5"], ["1", "2"]]):
        flat = [value for row in rows for value in row]
        data = texts(flat)
        tensor = {"name": "r", "datatype": "BYTES", "shape": [len(rows), 2],
                  "parameters": {"binary_data_size": len(data)}}  # fmt: skip
        text = json.dumps({"inputs": [tensor]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text))}
        reply = ask(site, f"{path}/infer", text + data, headers)
        assert reply.status == 422 and "row 0, column 'a': expected a number" in reply.error


def test_the_last_version_can_be_named(site: Site) -> None:
    path = site.create("named-version")
    site.call("POST", f"{path}/learn", {"row": [1, 2], "label": 3})
    (version,) = site.call("GET", path).json["versions"]
    one, row = f"{path}/versions/{version}", {"row": [1, 2]}
    assert site.call("POST", f"{one}/infer", row).json["model_version"] == version
    assert site.call("GET", one).json["versions"] == [version]
    assert site.call("GET", f"{one}/ready").status == 200
    site.call("POST", f"{path}/learn", {"row": [1, 2], "label": 3})
    for old in (version, "0", "x", "", "1" * 5000, "1/2"):
        for method, call in (("POST", "/infer"), ("GET", ""), ("GET", "/ready")):
            body = row if method == "POST" else None
            reply = site.call(method, f"{path}/versions/{old}{call}", body)
            assert reply.status == 404
    assert "is not served, the last one is" in site.call("POST", f"{one}/infer", row).error
    assert site.call("POST", f"{one}/learn", {"row": [1, 2], "label": 3}).status == 404
    assert site.call("PUT", one, {"columns": 2}).status == 405


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bodies_may_be_compressed(site: Site, mixed: str, encoding: str) -> None:
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    header = {"Content-Encoding": encoding}
    body, headers = binary(ROWS)
    plain = ask(site, f"{mixed}/infer", body, headers)
    packed = compress(body)
    assert ask(site, f"{mixed}/infer", packed, {**headers, **header}).body == plain.body
    text = compress(json.dumps({"rows": AS_JSON}).encode())
    assert ask(site, f"{mixed}/infer", text, header).prediction == plain.prediction
    lines = {**header, "Content-Type": "application/x-ndjson"}
    assert (
        len(ask(site, f"{mixed}/infer", compress(b'{"rows": [[1, 0, "a"]]}\n' * 3), lines).lines)
        == 3
    )
    for wrong in (packed[:-3], packed + b"x", b"", b"{}", packed + packed):
        reply = ask(site, f"{mixed}/infer", wrong, {**headers, **header})
        assert reply.status == 400 and "cannot be decompressed" in reply.error
    reply = ask(site, f"{mixed}/infer", compress(b" " * 1_000_001), header)
    assert reply.status == 413 and "decompressed body" in reply.error
    spec = compress(json.dumps({"columns": 2, "algorithm": "fogd"}).encode())
    assert site.call("PUT", f"/v2/models/made-{encoding}", spec, headers=header).status == 201


def test_other_encodings_are_refused(site: Site, mixed: str) -> None:
    reply = ask(site, f"{mixed}/infer", b"x", {"Content-Encoding": "br"})
    assert reply.status == 415 and reply.headers["accept-encoding"] == "gzip, deflate"
    body = json.dumps({"rows": AS_JSON}).encode()
    assert ask(site, f"{mixed}/infer", body, {"Content-Encoding": "identity"}).status == 200


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_outputs_are_those_of_the_metadata_and_can_be_chosen(site: Site, task: str) -> None:
    path = site.create(f"chosen-{task}", task=task, algorithm="online-kernel", parameters={})
    names = ["prediction", "probability"]
    if task == "regression":
        names = ["prediction", "lower", "upper"]

    def outputs(call: str, **body: Any) -> Reply:
        return site.call("POST", f"{path}/{call}", {"rows": [[1, 2], [3, 4]], **body})

    for trained in (False, True):
        described = site.call("GET", path).json["outputs"]
        assert [one["name"] for one in described] == names
        whole = {one["name"]: one for one in outputs("infer").json["outputs"]}
        assert list(whole) == (names if trained else ["prediction"])
        for wanted in (names, names[::-1], names[1:], [names[1]] * 2):
            asked = [{"name": name, "parameters": {"binary_data": True}} for name in wanted]
            found = outputs("infer", outputs=asked).json["outputs"]
            assert [one["name"] for one in found] == list(dict.fromkeys(wanted))
            for one in found:
                assert one == whole[one["name"]] if trained else one["shape"][0] == 2
                assert len(one["data"]) == np.prod(one["shape"])
        reply = outputs("infer", outputs=[{"name": "predictions"}])
        assert reply.status == 422 and f"the model has {', '.join(names)}" in reply.error
        labels = [1, 2]
        reply = outputs("learn", labels=labels, outputs=[{"name": "probability"}])
        assert reply.status == 422
        reply = outputs("learn", labels=labels, outputs=[{"name": "prediction"}])
        assert [one["name"] for one in reply.json["outputs"]] == ["prediction"]
    for odd in ("prediction", [1], [{}], {"name": "prediction"}):
        assert outputs("infer", outputs=odd).status == 422
    assert len(outputs("infer", outputs=[]).json["outputs"]) == len(names)
