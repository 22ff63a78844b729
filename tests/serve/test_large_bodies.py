"""Small bodies that are much work for the server: limits, memory, other clients."""

from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from driving import created, opened
from serving import Site

from pronk.serve.http import app
from pronk.serve.http.bodies import MOST_LINES, MOST_PARTS, MOST_ROWS, Refused, works_of_lines
from pronk.serve.worker import Work

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def path(site: Site) -> str:
    found = site.create("large-bodies")
    site.call("POST", f"{found}/learn", {"row": [1, 2], "label": 3})
    return found


def test_a_body_has_a_limit_of_lines(site: Site, path: str) -> None:
    for end in (b"", b"\n"):
        body = b"{}\n" * (MOST_LINES - 1) + b'{"row": [1, 2]}' + end
        assert len(site.call("POST", f"{path}/infer", body, headers=NDJSON).lines) == MOST_LINES
        reply = site.call("POST", f"{path}/infer", b"{}\n" + body, headers=NDJSON)
        assert reply.status == 413 and "more than 20,000 lines" in reply.error


@pytest.mark.parametrize(
    "body",
    [
        '{"rows": [%s]}',
        '{"row": [1, 2], "parameters": [%s]}',
        '{"row": [1, 2], "outputs": [%s]}',
        '{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [%s]}]}',
        '{"what": [%s]}',
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_a_body_has_a_limit_of_lists(site: Site, path: str, body: str, kind: str) -> None:
    text = body % ",".join(["[]"] * MOST_PARTS)
    reply = site.call("POST", f"{path}/infer", text, headers={"Content-Type": kind})
    assert reply.status == 413 and "lists and objects" in reply.error
    length = {"Inference-Header-Content-Length": str(len(text))}
    assert site.call("POST", f"{path}/infer", text, headers=length).status == 413


@pytest.mark.parametrize("call", ["infer", "learn"])
def test_a_body_has_a_limit_of_rows(site: Site, path: str, call: str) -> None:
    count = MOST_ROWS + 1
    tensor = {"name": "x", "shape": [count, 2], "datatype": "INT8", "data": [1] * 2 * count}
    body: dict[str, Any] = {"inputs": [tensor]}
    if call == "learn":
        body["labels"] = [1] * count
    reply = site.call("POST", f"{path}/{call}", body)
    assert reply.status == 413 and "at most 100,000" in reply.error


def test_refused_lines_take_little_memory(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    model = service.model("m")
    body = b"{}\n" * (MOST_LINES - 1) + b'{"row": [1, 2]}'
    works_of_lines(model, body, learn=False)
    tracemalloc.start()
    found = works_of_lines(model, body, learn=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(found[0], Refused) and isinstance(found[-1], Work)
    assert peak < 400 * MOST_LINES
    service.close()


@pytest.mark.parametrize("kind", ["json", "x-ndjson"])
def test_other_calls_are_answered_while_a_large_body_is_decoded(
    site: Site, path: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder waits until another client has its answer."""
    begun, answered = threading.Event(), threading.Event()
    name = "work_of" if kind == "json" else "works_of_lines"
    decode = getattr(app, name)

    def slow(*arguments: Any) -> Any:
        if len(arguments[1]) > app.SHORT:
            begun.set()
            assert answered.wait(60)
        return decode(*arguments)

    monkeypatch.setattr(app, name, slow)
    rows = ", ".join(["[1.25, 2.5]"] * 5000)
    found = []

    def large() -> None:
        headers = {"Content-Type": f"application/{kind}"}
        found.append(site.call("POST", f"{path}/infer", f'{{"rows": [{rows}]}}', headers=headers))

    client = threading.Thread(target=large)
    client.start()
    assert begun.wait(60)
    assert site.call("GET", "/v2/health/live").status == 200
    assert site.call("POST", f"{path}/infer", {"row": [1, 2]}).status == 200
    answered.set()
    client.join()
    assert found[0].status == 200 and len(found[0].lines[0]["outputs"][0]["data"]) == 5000
