"""The status page, its documents, and its curve in a browser while rows arrive."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import time

import numpy as np
import pytest
from serving import Site


def test_the_page_and_the_docs_need_no_token_and_nothing_from_elsewhere(site: Site) -> None:
    for path in ("/", "/chart.css", "/page.css", "/page.js", "/docs"):
        reply = site.call("GET", path, token=None)
        assert reply.status == 200
        text = re.sub(r"http://www\.w3\.org/2000/svg", "", reply.body.decode())
        assert not re.search(r"(https?:)?//[a-z0-9]+\.", text)
    assert (
        "default-src 'none'" in site.call("GET", "/", token=None).headers["content-security-policy"]
    )
    assert "POST /v2/models/{model}/learn" in site.call("GET", "/docs", token=None).body.decode()


def test_every_call_is_described(site: Site) -> None:
    described = site.call("GET", "/openapi.json", token=None).json
    assert described["openapi"].startswith("3.1")
    paths = {path for path in described["paths"] if "{model}" not in path}
    own = {
        "/",
        "/chart.css",
        "/page.css",
        "/page.js",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/v2/events",
    }
    assert paths == set(site.app.fixed) - own
    calls = {
        path.split("{model}")[1].lstrip("/") for path in described["paths"] if "{model}" in path
    }
    assert calls == set(site.app.of_model)


def test_events_describe_the_server_and_the_chosen_model(site: Site) -> None:
    path = site.create("watched")
    site.call("POST", f"{path}/learn", {"rows": [[1, 2]] * 20, "labels": [1.0] * 20})
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
    connection.request(
        "GET", "/v2/events?model=watched", headers={"Authorization": f"Bearer {site.token}"}
    )
    response = connection.getresponse()
    assert response.getheader("content-type") == "text/event-stream"
    line = response.readline()
    connection.close()
    found = json.loads(line.removeprefix(b"data: "))
    assert found["model"]["curve"]["rows"] == 20 and found["model"]["rows"] == 20
    assert all(name in found["model"]["curve"]["svg"] for name in ("model", "running mean"))
    assert found["model"]["unpredicted"] == 1
    assert found["model"]["metric"] == found["models"][0]["metric"] == "mean squared error"
    assert found["server"]["queue"] == 0
    assert found["model"]["events"] == [] and found["models"][0]["alarms"] == 0
    assert 0 < found["server"]["p50"] <= found["server"]["p99"]
    assert site.call("GET", "/v2/events", token=None).status == 401


def test_the_table_of_models_has_a_cell_for_every_header(site: Site) -> None:
    page, script, style = (
        site.call("GET", path, token=None).body.decode() for path in ("/", "/page.js", "/page.css")
    )
    headers = re.findall(r"<th>([^<]*)</th>", page)
    assert f"i < {len(headers) - 1};" in script
    # A phone shows the columns up to the baselines.
    hidden = re.search(r"td:nth-child\(n\+(\d+)\) { display: none; }", style)
    assert hidden is not None and headers[int(hidden[1]) - 2] == "last label"


def test_a_rise_of_the_loss_is_an_alarm_on_the_page_and_survives_a_snapshot() -> None:
    from types import SimpleNamespace
    from typing import Any

    from pronk.serve.http.monitoring import _events
    from pronk.serve.online import MOST_ALARMS, LiveScores

    rng = np.random.default_rng(0)
    errors = rng.normal(size=3000) * np.where(np.arange(3000) < 2000, 0.1, 1.0)
    for task, y in (("regression", errors), ("classification", np.abs(errors) > 0.3)):
        scores, resumed = LiveScores(task), LiveScores(task)
        labels = y if task == "regression" else np.where(y, "a", "b")
        given = np.zeros(3000) if task == "regression" else np.full(3000, "b")
        for part in np.array_split(np.arange(3000), 37):
            scores.add(labels[part], given[part], None, None)
        online: Any = SimpleNamespace(scores=scores, changes=[])
        first = _events(online)[-1]
        assert first["kind"] == "drift alarm" and 2000 < first["row"] < 2300
        assert scores.alarms == len(scores.drift.alarms) <= MOST_ALARMS
        resumed.restore(scores.to_state())
        assert (resumed.drift.alarms, resumed.alarms) == (scores.drift.alarms, scores.alarms)
        change = {"row": 9000, "outcome": "swap", "end": 10_500}
        online.changes = [change]
        newest = _events(online)[0]
        assert (newest["kind"], newest["row"]) == ("new learner", 9001)
        assert newest["text"] == "replaced the old one at row 10,500"


def test_every_kind_of_expert_has_a_name_on_the_page() -> None:
    from types import SimpleNamespace
    from typing import Any

    from pronk.serve.http.monitoring import _experts

    kernel = {"factor": 2.0, "alpha": 0.1, "window": 100, "view": "relevance", "bandwidth": 1.5}
    baseline: dict[str, Any] = dict.fromkeys(("factor", "alpha", "window", "bandwidth"))
    table = [{**kernel, "weight": 0.7}, {**baseline, "view": "last target", "weight": 0.3}]
    dropped = {**kernel, "weight": 0.0, "active": False}
    online: Any = SimpleNamespace(trained=True, inner=SimpleNamespace(experts_=[*table, dropped]))
    assert _experts(online) == [
        ("bandwidth x2, alpha 0.1, relevance, last 100 rows", 0.7),
        ("baseline: last target", 0.3),
    ]


def test_metrics_are_for_prometheus(site: Site) -> None:
    path = site.create("measured")
    site.call("POST", f"{path}/learn", {"row": [1, 2], "label": 1})
    text = site.call("GET", "/metrics").body.decode()
    assert 'pronk_model_rows{model="measured"} 1.0' in text
    assert 'pronk_requests_total{call="learn",status="200"}' in text
    assert 'pronk_model_drift_alarms_total{model="measured"} 0.0' in text
    assert 'pronk_model_seconds_count{call="learn",model="measured"} 1.0' in text
    assert "pronk_labels_expired_total 0.0" in text
    assert site.call("GET", "/metrics", token=None).status == 401


def test_the_curve_moves_in_a_browser(site: Site) -> None:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no chromium with chromedriver is found")
    path = site.create("seen", algorithm="online-kernel", parameters={"budget": 20})
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--disable-gpu", "--window-size=1000,900"):
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    rng = np.random.default_rng(0)

    def more() -> None:
        X = rng.normal(size=(64, 2))
        body = {"rows": X.tolist(), "labels": X.sum(axis=1).tolist()}
        assert site.call("POST", f"{path}/learn", body).status == 200

    more()
    view = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        view.get(f"http://127.0.0.1:{site.port}/#token={site.token}")
        _until(lambda: "live" in view.find_element("id", "state").text)
        assert site.token not in view.current_url
        buttons = view.find_elements("css selector", "#models button")
        next(button for button in buttons if button.text == "seen").click()
        view.execute_script("document.querySelector('#models button').focus()")
        _until(lambda: view.find_element("id", "name").text == "seen")

        def rows() -> int:
            return int(view.find_element("id", "curve").get_attribute("data-rows") or 0)

        _until(lambda: rows() == 64)
        more()
        _until(lambda: rows() == 128)
        focused = view.execute_script("return document.activeElement.closest('#models') !== null")
        assert focused  # rows are drawn anew each second, the focus of a keyboard stays
        wide = view.execute_script("return document.documentElement.scrollWidth")
        assert wide <= view.execute_script("return window.innerWidth")
    finally:
        view.quit()


def _until(holds: object) -> None:
    assert callable(holds)
    for _ in range(300):
        try:
            if holds():
                return
        except Exception as error:  # an element that was just drawn anew
            if "stale" not in str(error).lower():
                raise
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")
