"""The client: the same numbers, and retries that learn no row twice."""

from __future__ import annotations

import http.client
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from serving import SMALL, Site

from pronk.serve import Client, ServerError


@pytest.fixture
def client(site: Site) -> Client:
    return Client(f"http://127.0.0.1:{site.port}", site.token)


def test_arrays_lists_and_frames_are_the_same_rows(site: Site, client: Client) -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))
    y = X.sum(axis=1)
    found = []
    forms: list[Any] = [X, X.tolist(), pd.DataFrame(X, columns=["a", "b"]), X[::-1][::-1]]
    for number, rows in enumerate(forms):
        name = f"form{number}"
        client.create(name, ["a", "b"], **SMALL)
        learned = client.learn(name, rows, y)["prediction"]
        found.append((learned, client.infer(name, rows)["prediction"]))
    assert all(other == found[0] for other in found)


def test_a_lost_response_is_requested_again_and_nothing_is_learned_twice(
    site: Site, client: Client, monkeypatch: Any
) -> None:
    client.create("lost", 1, algorithm="fogd")
    read = http.client.HTTPResponse.read
    failures = iter([True, True])

    def torn(self: Any, *arguments: Any) -> bytes:
        data = read(self, *arguments)
        if next(failures, False):
            raise ConnectionResetError
        return data

    monkeypatch.setattr(http.client.HTTPResponse, "read", torn)
    monkeypatch.setattr("pronk.serve.client.time.sleep", lambda seconds: None)
    client.learn("lost", [[1.0]], [1.0])
    assert client.model("lost")["rows"] == 1


def test_what_the_server_refuses_is_an_error_with_its_words(client: Client) -> None:
    with pytest.raises(ServerError, match="there is no model 'none'") as refused:
        client.infer("none", [[1.0]])
    assert refused.value.status == 404
    with pytest.raises(ValueError, match="url must look like"):
        Client("127.0.0.1:8765", "")


def test_a_round_of_everything(client: Client) -> None:
    client.create("round", ["a"], "classification", algorithm="rbp")
    assert client.ready()
    assert client.infer("round", [[1.0]], id="one")["prediction"] == [None]
    client.label("round", "one", "yes")
    version = client.snapshot("round")
    client.learn("round", [{"a": -1.0}], ["no"])
    assert client.rollback("round", version) == version
    assert [model["name"] for model in client.models()].count("round") == 1
    client.remove("round")
    with pytest.raises(ServerError):
        client.model("round")


def test_binary_tensors_are_checked(site: Site) -> None:
    path = site.create("binary")
    values = np.array([[1.0, 2.0], [3.0, 4.0]])

    def send(tensors: list[Any], data: bytes, length: Any = None, call: str = "infer") -> Any:
        text = json.dumps({"inputs": tensors}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text) if length is None else length)}
        return site.call("POST", f"{path}/{call}", text + data, headers=headers)

    def tensor(size: Any, kind: str = "FP64", shape: Any = (2, 2), name: str = "x") -> Any:
        found = {"name": name, "shape": shape, "datatype": kind}
        return {**found, "parameters": {"binary_data_size": size}}

    good = send([tensor(32)], values.tobytes())
    assert good.status == 200 and good.prediction == [None, None]
    labels = tensor(16, shape=[2], name="label")
    taught = send(
        [tensor(16, "FP32"), labels], values.astype("f4").tobytes() + bytes(16), None, "learn"
    )
    assert taught.status == 200 and site.call("GET", path).json["rows"] == 2
    columns = [tensor(16, shape=[2], name="b"), tensor(16, shape=[2], name="a")]
    assert (
        send(columns, values.T[::-1].tobytes()).prediction
        == send([tensor(32)], values.tobytes()).prediction
    )
    for tensors, data, length in (
        ([tensor(32)], values.tobytes()[:-1], None),
        ([tensor(32)], values.tobytes() + b"x", None),
        ([tensor(31)], values.tobytes(), None),
        ([tensor("32")], values.tobytes(), None),
        ([tensor(32, "BYTES")], values.tobytes(), None),
        ([tensor(32, shape=[4])], values.tobytes(), None),
        ([tensor(32)], values.tobytes(), 10**9),
        ([tensor(32)], values.tobytes(), "x"),
        ([tensor(32)], np.array([[1.0, np.nan], [1.0, np.inf]]).tobytes(), None),
        ([tensor(8, shape=[10**30, 10**30])], bytes(8), None),
    ):
        reply = send(tensors, data, length)
        assert reply.status == 422, (tensors, reply.body)
    single = [tensor(8, shape=[1], name="a"), tensor(8, shape=[1], name="b")]
    reply = send(single, np.array([1.0, np.nan]).tobytes())
    assert reply.status == 422 and "row 0, column 'b': the value is missing" in reply.error


def test_frames_and_tables_of_any_kind_are_rows(site: Site) -> None:
    import datetime

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    client = Client(f"http://127.0.0.1:{site.port}", site.token)
    columns = ["x", {"name": "city", "kind": "category"}, {"name": "day", "kind": "date"}]
    client.create("frames", columns, algorithm="fogd", missing="mean")
    data = {
        "x": [1.0, None, 3.0],
        "city": ["a", "b", None],
        "day": [datetime.date(2024, 3, day) for day in (1, 2, 3)],
    }
    frame = pl.DataFrame(data)
    client.learn("frames", frame, pl.Series([1.0, 2.0, 3.0]))
    expected = client.infer("frames", frame)["prediction"]
    assert len(expected) == 3
    for other in (frame.lazy(), pa.table(data), pd.DataFrame(data), frame.to_dicts()):
        assert client.infer("frames", other)["prediction"] == expected
    client.learn("frames", pd.DataFrame(data), pd.Series([1, 2, 3]))
    client.learn("frames", pa.table(data), pa.chunked_array([[1.0], [2.0, 3.0]]))
    assert client.model("frames")["rows"] == 9
    with pytest.raises(TypeError, match="cannot contain set"):
        client.infer("frames", [{"x": {1}, "city": "a", "day": "2024-03-01"}])
