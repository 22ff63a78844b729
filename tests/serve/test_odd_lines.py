"""An NDJSON body with one odd line: that line is refused, and the others are answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from serving import Site

from pronk.serve.rows import Columns

NDJSON = {"Content-Type": "application/x-ndjson"}
COLUMNS = ["x", {"name": "b", "kind": "boolean"}, {"name": "c", "kind": "category"}]
GOOD = {"k": "a", "x": 1.5, "b": True, "c": "red"}
LONG = int("9" * 400)


@pytest.fixture(scope="module")
def path(site: Site) -> str:
    return site.create("odd-lines", columns=COLUMNS, key="k")


@pytest.mark.parametrize(
    "odd",
    [
        {"k": 2**64},
        {"k": -(2**63) - 1},
        {"k": LONG},
        {"k": "x" * 201},
        {"k": True},
        {"k": None},
        {"k": 1.5},
        {"x": LONG},
        {"b": LONG},
        {"b": 2},
        {"b": [1]},
        {"b": {"a": 1}},
        {"c": [1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("call", ["infer", "learn"])
def test_an_odd_line_is_refused_alone(site: Site, path: str, odd: Any, call: str) -> None:
    more = {"label": 1.0} if call == "learn" else {}
    lines = [{"row": GOOD, **more}, {"row": {**GOOD, **odd}, **more}, {"row": GOOD, **more}]
    text = "\n".join(map(json.dumps, lines))
    reply = site.call("POST", f"{path}/{call}", text, headers=NDJSON)
    assert reply.status == 200
    assert [line.get("status") for line in reply.lines] == [None, 422, None]
    assert "row 0" in reply.lines[1]["error"] or "$.row" in reply.lines[1]["error"]
    assert site.call("POST", f"{path}/{call}", lines[1]).status == 422


def test_large_integers_are_categories_and_keys(site: Site, path: str) -> None:
    for odd in ({"c": LONG}, {"k": 2**64 - 1}, {"k": -(2**63)}, {"x": 10**30}):
        assert site.call("POST", f"{path}/infer", {"row": {**GOOD, **odd}}).status == 200


def test_a_bug_affects_its_line_alone(
    site: Site, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = Columns.pack

    def failing(self: Columns, rows: Any) -> bytes:
        if rows[0]["x"] == 13:
            raise RuntimeError("bug")
        return pack(self, rows)

    monkeypatch.setattr(Columns, "pack", failing)
    text = "\n".join(json.dumps({"row": {**GOOD, "x": x}}) for x in (1, 13, 2))
    reply = site.call("POST", f"{path}/infer", text, headers=NDJSON)
    assert [line.get("status") for line in reply.lines] == [None, 500, None]
    assert any(event == "failed" and "bug" in more["reason"] for event, more in site.events)
