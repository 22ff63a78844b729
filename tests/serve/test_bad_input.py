"""Invalid input returns a clear error and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from serving import Site

from pronk.serve.tokens import Tokens

DEEP = "[" * 10_000 + "]" * 10_000


@pytest.fixture(scope="module")
def path(site: Site) -> str:
    found = site.create("strict", columns=["a", "b"])
    site.call("POST", f"{found}/learn", {"id": "used", "row": [1, 2], "label": 3})
    return found


BODIES: list[tuple[Any, int, str]] = [
    (b"", 400, "not JSON"),
    (b"{", 400, "not JSON"),
    (b"\xff\xfe", 400, "not JSON"),
    ('{"row": [NaN, 1], "label": 1}', 400, "null for a missing value"),
    ('{"row": [1, -Infinity], "label": 1}', 400, "null for a missing value"),
    (f'{{"row": {DEEP}, "label": 1}}', 422, "row"),
    (f'{{"row": [1, 2], "label": 1, "parameters": {DEEP}}}', 400, "nested too deeply"),
    ('{"row": [1e999, 1], "label": 1}', 422, "row 0, column 'a'"),
    ('{"row": [1, 2], "label": 1e999}', 422, "row 0, label: the number is too large"),
    ([1, 2], 422, "object"),
    ({"row": [1, 2]}, 422, "label"),
    ({"label": 1}, 422, "id"),
    ({"rows": [], "labels": []}, 422, "at least one"),
    ({"rows": [[1, 2], [1]], "labels": [1, 2]}, 422, "row 1 has 1 values"),
    ({"rows": [[1, 2], ["x", 2]], "labels": [1, 2]}, 422, "row 1, column 'a'"),
    ({"rows": [{"a": 1, "b": "x"}], "labels": [1]}, 422, "row 0, column 'b'"),
    ({"rows": [[1, True]], "labels": [1]}, 422, "row 0, column 'b'"),
    ({"rows": [[1, None]], "labels": [1]}, 422, "row 0, column 'b': the value is missing"),
    ({"rows": [[1, 2], [1, 1e200]], "labels": [1, 2]}, 422, "row 1, column 'b'"),
    ({"row": {"a": 1}, "label": 1}, 422, "no column 'b'"),
    ({"row": {"a": 1, "b": 2, "c": 3}, "label": 1}, 422, "unknown column 'c'"),
    ({"rows": [[1, 2]], "labels": [1, 2]}, 422, "2 for 1 rows"),
    ({"rows": [[1, 2]], "labels": ["x"]}, 422, "row 0, label"),
    ({"rows": [[1, 2]], "labels": [True]}, 422, "row 0, label"),
    ({"row": [1, 2], "label": 1e200}, 422, "row 0, label"),
    ({"row": [1, 2], "rows": [[1, 2]], "label": 1}, 422, "only one of"),
    ({"row": [1, 2], "label": 1, "labels": [1]}, 422, "only one of"),
    ({"row": [1, 2], "label": 1, "more": 1}, 422, "more"),
    ({"id": "", "row": [1, 2], "label": 1}, 422, "id"),
    ({"id": "x" * 201, "row": [1, 2], "label": 1}, 422, "id"),
    ({"id": 5, "row": [1, 2], "label": 1}, 422, "id"),
    ({"id": "used", "row": [1, 2], "label": 4}, 422, "other content"),
    ({"id": "unknown", "label": 4}, 404, "unknown"),
    ({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}],
      "label": 1}, 422, "3 columns"),
    ({"inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP64", "data": [1, 2, 3]}],
      "label": 1}, 422, "3 values"),
    ({"inputs": [{"name": "a", "shape": [1], "datatype": "FP64", "data": [1]}], "label": 1},
     422, "column 'b'"),
    ({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1, "y"]}],
      "label": 1}, 422, "row 0, column 'b'"),
    ({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "WHAT", "data": [1, 2]}],
      "label": 1}, 422, "datatype"),
    ({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]},
                 {"name": "label", "shape": [1], "datatype": "FP64", "data": [1]},
                 {"name": "labels", "shape": [1], "datatype": "FP64", "data": [2]}]},
     422, "labels are given twice, in two tensors"),
    ('{"row": [1, 2], "label": 3, "label": 4}', 422, "label is given twice in one body"),
    ('{"rows": [[1, 2]], "labels": [3], "rows": [[5, 6]]}', 422, "rows is given twice"),
    ('{"id": "a", "rows": [{"a": 1, "b": 2}], "labels": [3], "id": "b"}', 422, "id is given twice"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_a_bad_body_is_refused_and_changes_nothing(site: Site, path: str, number: int) -> None:
    body, status, words = BODIES[number]
    online = site.service.model("strict")
    before = (online.version, online.scores.rows, site.service.journal.sequence)
    reply = site.call("POST", f"{path}/learn", body)
    assert (reply.status, words in reply.error) == (status, True), reply.body[:300]
    assert len(reply.body) < 1000
    assert (online.version, online.scores.rows, site.service.journal.sequence) == before


SPECS: list[tuple[Any, str]] = [
    ({}, "columns"),
    ({"columns": []}, "columns"),
    ({"columns": 0}, "columns"),
    ({"columns": 10**9}, "columns"),
    ({"columns": ["a", "a"]}, "'a' occurs twice"),
    ({"columns": 2, "algorithm": "pkawv-nystom"}, "did you mean 'pkawv-nystrom'"),
    ({"columns": 2, "task": "ranking"}, "task"),
    ({"columns": 2, "algorithm": "perceptron"}, "regression"),
    ({"columns": 2, "parameters": {"budgte": 3}}, "did you mean 'budget'"),
    ({"columns": 2, "parameters": {"budget": -3}}, "budget"),
    ({"columns": 2, "parameters": {"kernel": "nothing"}}, "kernel"),
    ({"columns": 2, "parameters": {"kernel": {"__class__": "os.system"}}}, "kernel"),
    ({"columns": 2, "parameters": {"random_state": 3}}, "seed"),
    ({"columns": 2, "coverage": 2.0}, "coverage"),
    ({"columns": 2, "unknown": 1}, "unknown"),
]


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_a_bad_spec_is_refused_and_makes_no_model(site: Site, number: int) -> None:
    spec, words = SPECS[number]
    reply = site.call("PUT", "/v2/models/never", spec)
    assert reply.status == 422 and words in reply.error, reply.body
    assert "never" not in site.service.models


@pytest.mark.parametrize(
    "name", ["..", ".hidden", "a..b", "a%2Fb", "a%00b", "-a", "a.", "x" * 65, "a b", "%C3%A4"]
)
def test_names_are_no_paths(site: Site, name: str) -> None:
    before = sorted(path.name for path in site.folder.iterdir())
    reply = site.call("PUT", f"/v2/models/{name.replace(' ', '%20')}", {"columns": 2})
    assert reply.status in (404, 422)
    assert sorted(path.name for path in site.folder.iterdir()) == before


def test_tokens_of_all_kinds(site: Site, path: str, tmp_path: Path) -> None:
    infer, learn = (site.tokens.add((scope,)) for scope in ("infer", "learn"))
    ask, teach = {"row": [1, 2]}, {"row": [1, 2], "label": 3}
    id = infer.split("_")[1]
    foreign = Tokens(tmp_path).add(("admin",))
    wrong = ["x", "pronk_", f"pronk_{id}_", f"pronk_{id}_wrong", infer + "x", infer[:-1], foreign,
             f"other_{infer.removeprefix('pronk_')}", "\xe9"]  # fmt: skip
    for token in (None, *wrong):
        reply = site.call("POST", f"{path}/infer", ask, token=token)
        assert reply.status == 401 and reply.headers["www-authenticate"] == "Bearer"
        assert ("a token is required" if token is None else "unknown token") in reply.error
        assert site.call("GET", "/v2/nothing", token=token).status == 401
    assert site.call("POST", f"{path}/infer", ask, token=infer).status == 200
    assert site.call("POST", f"{path}/learn", teach, token=infer).status == 403
    assert site.call("POST", f"{path}/learn", teach, token=learn).status == 200
    assert site.call("POST", f"{path}/infer", ask, token=learn).status == 403
    for method, place in (
        ("PUT", ""),
        ("DELETE", ""),
        ("POST", "/snapshot"),
        ("POST", "/rollback"),
    ):
        assert site.call(method, path + place, {}, token=learn).status == 403
    assert site.call("GET", "/v2/models", token=infer).status == 200
    assert site.call("GET", "/v2/health/live", token=None).status == 200
    assert site.call("GET", "/v2/health/ready", token=None).status == 200
    text = (site.folder / "tokens.json").read_text()
    assert infer not in text and infer.split("_", 2)[2] not in text
    assert (site.folder / "tokens.json").stat().st_mode & 0o77 == 0
    site.tokens.revoke(id)
    site.app.tokens.refresh()
    assert site.call("POST", f"{path}/infer", ask, token=infer).status == 401


def test_a_token_is_compared_in_constant_time(monkeypatch: Any, tmp_path: Path) -> None:
    """Known and unknown ids, right and wrong secrets: one comparison of equally long digests."""
    import hmac

    tokens = Tokens(tmp_path)
    token = tokens.add(("infer",))
    seen: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def watched(one: str, other: str) -> bool:
        seen.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr("pronk.serve.tokens.hmac.compare_digest", watched)
    for text in (token, token[:-2], "pronk_00000000_x", "", "x"):
        tokens.check(text)
    assert seen == [(64, 64)] * 5


def test_logs_hold_no_features_labels_or_tokens(site: Site, path: str) -> None:
    site.call("POST", f"{path}/learn", {"row": [31415.9, "secret-text"], "label": 27182.8})
    site.call("POST", f"{path}/learn", {"row": [1, 2]}, token=site.token + "x")
    text = json.dumps(site.events)
    assert '"request failed"' in text
    for secret in ("31415", "secret-text", "27182", site.token, site.token.split("_", 2)[2]):
        assert secret not in text


def test_other_methods_and_places(site: Site, path: str) -> None:
    reply = site.call("PATCH", path)
    assert reply.status == 405 and reply.headers["allow"] == "GET, PUT, DELETE"
    assert site.call("GET", f"{path}/infer").status == 405
    assert site.call("GET", f"{path}/what").status == 404
    assert site.call("POST", "/v2/models/none/infer", {"row": [1]}).status == 404
    for version in (-1, "x", 10**30, 1.5, None):
        assert site.call("POST", f"{path}/rollback", {"version": version}).status == 422


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "1e3", "", " ", "999"])
def test_a_length_of_the_json_that_is_none_is_refused(site: Site, length: str) -> None:
    site.call("PUT", "/v2/models/lengths", {"columns": ["a", "b"], "algorithm": "fogd"})
    reply = site.call(
        "POST", "/v2/models/lengths/infer", {"row": [1, 2]},
        headers={"Inference-Header-Content-Length": length},
    )  # fmt: skip
    assert reply.status == (200 if not length.strip() else 422), reply.body
