"""What the service shows of itself: descriptions of models, metrics for Prometheus, a live page.

The page is static, contains no data and loads nothing from other servers.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pronk._version import __version__
from pronk.evaluate import held_bytes
from pronk.evaluate.baselines import BASELINES
from pronk.evaluate.drawing import STYLE, Array, Curve, Picture, svg
from pronk.evaluate.metrics import TITLES
from pronk.evaluate.trace import (
    changes_of,
    count_changes,
    describe_columns,
    describe_outcome,
    expert_name,
)
from pronk.serve.http.exchange import Receive, Scope, Send, send_bytes
from pronk.serve.keyed import KeyedOnlineModel
from pronk.serve.online import LiveScores, OnlineModel
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError, Spec

# -- one model -------------------------------------------------------------------------------------


def describe(online: OnlineModel, long: bool = False) -> dict[str, Any]:
    """Describe a model as the Open Inference Protocol does, with additional entries."""
    task = online.spec.task
    found: dict[str, Any] = {
        "name": online.name,
        "versions": [str(online.version)],
        "platform": "pronk",
        "inputs": _inputs(online.spec),
        "outputs": [_output(online, name) for name in online.outputs],
        "task": task,
        "algorithm": online.spec.algorithm,
        "rows": online.scores.rows,
        "waiting": online.waiting,
        "metrics": online.scores.metrics(),
        "notes": online.scores.notes(),
        "ready": online.broken is None,
    }
    if online.broken:
        found["reason"] = online.broken
    if long:
        with online.lock:
            found |= _more(online)
    return found


def _inputs(given: Spec) -> list[dict[str, Any]]:
    types = {"number": "FP64", "boolean": "BOOL"}
    found = [(column.name, types.get(column.kind, "BYTES")) for column in given.column_list()]
    if given.key is not None:
        found.insert(0, (given.key, "BYTES"))
    return [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in found]


def _output(online: OnlineModel, name: str) -> dict[str, Any]:
    classes = name == "prediction" and online.spec.task == "classification"
    shape = [-1, -1] if name == "probability" else [-1]
    return {"name": name, "datatype": _class_type(online) if classes else "FP64", "shape": shape}


def _more(online: OnlineModel) -> dict[str, Any]:
    found: dict[str, Any] = {
        "spec": msgspec.to_builtins(online.spec),
        "created": online.created,
        "snapshot": str(online.snapshot),
        "points": 0,
        "bytes": 0,
    }
    if isinstance(online, KeyedOnlineModel):
        found["keys"] = online.keys
    elif online.fitted:
        found["points"] = online.points
        found["bytes"] = held_bytes(online.learner)
        found |= _certificate(online)
        if online.spec.task == "classification":
            found["classes"] = online.learner.classes_.tolist()
    return found


def _certificate(online: OnlineModel) -> dict[str, Any]:
    """Return the regret so far and its bound, if the learner has a certificate."""
    try:
        certificate = online.inner.certificate().to_dict()
    except (ValueError, AttributeError, ArithmeticError):
        return {}
    return {"certificate": _numbers(certificate)}


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Return the finite numbers of a nested table."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found[key] = _numbers(value)
        elif isinstance(value, int | float) and math.isfinite(value):
            found[key] = value
    return found


def _class_type(online: OnlineModel) -> str:
    kinds = {"number": "INT64", "boolean": "BOOL"}
    return kinds.get(online.label_kind or "text", "BYTES")


# -- Prometheus ------------------------------------------------------------------------------------

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


#: Calls whose latency is kept by model, and how many of the last requests for the quantiles.
TIMED = ("infer", "learn")
LATEST = 500


class Metrics:
    """Collect requests, latency and the counters of the service in one registry."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "pronk_requests", "Requests answered", ["call", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "pronk_request_seconds",
            "Time from a request to its answer",
            ["call"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.of_models = Summary(
            "pronk_model_seconds", "Time of successful requests", ["model", "call"],
            registry=self.registry,
        )  # fmt: skip
        self.registry.register(_Service(service))
        self._latest: deque[float] = deque(maxlen=LATEST)

    def count(self, call: str, status: int, seconds: float, model: str | None = None) -> None:
        """Count one request; ``model`` is the name of an existing model."""
        self.requests.labels(call, str(status)).inc()
        self.seconds.labels(call).observe(seconds)
        if model is not None and call in TIMED and status < 400:
            self.of_models.labels(model, call).observe(seconds)
            self._latest.append(seconds)

    def quantile(self, share: float) -> float | None:
        """Return a quantile of the times of the last requests, in milliseconds."""
        times = sorted(self._latest)
        return 1000.0 * times[min(len(times) - 1, int(share * len(times)))] if times else None

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Service:
    """Read the counters of the service whenever metrics are collected."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Any]:
        counters, service = self.service.counters, self.service
        for name, text, value in (
            ("groups", "Transactions of the journal", counters.groups),
            ("learned_rows", "Rows learned", counters.learned_rows),
            ("predicted_rows", "Rows predicted", counters.predicted_rows),
            ("repeated", "Requests answered from the journal by their id", counters.repeated),
            ("refused", "Requests refused by the writer", counters.refused),
            ("labels_expired", "Predictions that expired without a label", service.expired),
            ("rows_dropped", "Rows dropped from the journal", service.dropped),
            ("commit_seconds", "Time in transactions", counters.commit_seconds),
            ("learn_seconds", "Time in learners", counters.learn_seconds),
        ):
            yield CounterMetricFamily(f"pronk_{name}", text, value=value)
        for name, text, value in (
            ("queue_rows", "Rows waiting to be learned", service.writes.rows),
            ("sequence", "The last sequence number", service.journal.sequence),
            ("journal_bytes", "Size of the journal", service.journal.size()),
            ("journal_failed", "1 if the last transaction failed", bool(service.journal.failed)),
        ):
            yield GaugeMetricFamily(f"pronk_{name}", text, value=value)
        yield from self._models()

    def _models(self) -> Iterator[Any]:
        gauges = {
            name: GaugeMetricFamily(f"pronk_model_{name}", text, labels=["model"])
            for name, text in (
                ("rows", "Rows learned by a model"),
                ("unpredicted", "Rows learned that are not scored: no label was known before"),
                ("waiting", "Predictions waiting for their label"),
                ("ready", "1 if the model can be used"),
                ("version", "Sequence number of the last row learned"),
            )
        }
        alarms = CounterMetricFamily(
            "pronk_model_drift_alarms", "Alarms of a rising loss", labels=["model"]
        )
        losses = GaugeMetricFamily(
            "pronk_model_loss", "Mean loss of all scored rows so far", labels=["model", "metric"]
        )
        changes = {
            name: CounterMetricFamily(f"pronk_model_{name}", text, labels=["model"])
            for name, text in (
                ("trials", "New learners that were tried after an alarm"),
                ("swaps", "New learners that replaced the old one"),
                ("returns", "Earlier learners that took over again"),
            )
        }
        for name, online in self.service.models.items():
            gauges["rows"].add_metric([name], online.scores.rows)
            gauges["unpredicted"].add_metric([name], online.scores.unpredicted)
            gauges["waiting"].add_metric([name], online.waiting)
            gauges["ready"].add_metric([name], float(online.broken is None))
            gauges["version"].add_metric([name], online.version)
            alarms.add_metric([name], online.scores.alarms)
            for metric, value in online.scores.metrics().items():
                if value is not None and metric not in gauges:
                    losses.add_metric([name, metric], value)
            counts = _change_counts(online)
            for kind, family in changes.items():
                if kind in counts:
                    family.add_metric([name], counts[kind])
        yield from gauges.values()
        yield from (losses, alarms, *changes.values())


def _change_counts(online: OnlineModel) -> dict[str, int]:
    """Return how often the learner of a model has reacted to changes; empty if it does not."""
    if isinstance(online, KeyedOnlineModel) or not online.fitted:
        return {}
    return count_changes(online.inner)


# -- live page -------------------------------------------------------------------------------------

_KINDS = {
    "index.html": b"text/html; charset=utf-8",
    "chart.css": b"text/css; charset=utf-8",
    "page.css": b"text/css; charset=utf-8",
    "page.js": b"text/javascript; charset=utf-8",
}
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
#: Most viewers at once; others get 429.
MOST_VIEWERS = 100


#: Most models and experts on the live page.
MOST_LISTED = 200
MOST_EXPERTS = 8
#: Most events of a model on the live page.
MOST_EVENTS = 20


def live_status(service: Service, metrics: Metrics, name: str | None) -> dict[str, Any]:
    """Return the content of one event of the page; ``name`` is the model shown in detail."""
    models = list(service.models.values())[:MOST_LISTED]
    chosen = service.models.get(name or "")
    counters = service.counters
    return {
        "server": {
            "version": __version__,
            "learned": counters.learned_rows,
            "requests": counters.requests,
            "queue": service.writes.rows,
            "p50": metrics.quantile(0.5),
            "p99": metrics.quantile(0.99),
            "journal": service.journal.size(),
        },
        "models": [_summary(online) for online in models],
        "model": None if chosen is None else _summary(chosen) | _details(chosen),
    }


def _summary(online: OnlineModel) -> dict[str, Any]:
    scores = online.scores
    metrics, name = scores.metrics(), scores.names[0]
    return {
        "name": online.name,
        "rows": scores.rows,
        "unpredicted": scores.unpredicted,
        "metric": TITLES[name],
        "loss": metrics[name],
        "baseline": metrics[f"{name}_baseline"],
        "repeat_last": metrics[f"{name}_repeat_last"],
        "waiting": online.waiting,
        "alarms": scores.alarms,
        "version": str(online.version),
    }


def _details(online: OnlineModel) -> dict[str, Any]:
    scores, spec = online.scores, online.spec
    with online.lock:
        ends, means, length = scores.curve.curve()
        points = online.points
        experts, events = _experts(online), _events(online)
    rows = (ends + scores.unpredicted).astype(np.float64)
    return {
        "task": spec.task,
        "algorithm": spec.algorithm,
        "columns": len(online.columns.names),
        "points": points,
        "ready": online.broken is None,
        "reason": online.broken,
        "notes": scores.notes(),
        "curve": {
            "rows": int(rows[-1]) if len(rows) else 0,
            "svg": svg(_loss_picture(scores, rows, means, events)) if len(rows) else "",
            "length": length,
        },
        "coverage": scores.metrics().get("coverage"),
        "wanted": spec.coverage,
        "experts": experts,
        "events": events,
    }


def _loss_picture(
    scores: LiveScores, rows: Array, means: Array, events: list[dict[str, Any]]
) -> Picture:
    """Return the losses of a model and of both baselines along the stream, with its changes."""
    share = scores.task == "classification"
    names = ("model", *BASELINES[scores.task])
    curves = [Curve(name, rows, means[:, i], dashed=i > 0) for i, name in enumerate(names)]
    shown = means[:, : len(names)]
    positive = shown[shown > 0]
    # Error rates are often 0, which a logarithmic axis cannot show.
    log = not share and len(positive) > 0 and bool(positive.max() > 30 * positive.min())
    changes = [event["row"] for event in events if event["row"] <= rows[-1]]
    title = f"{TITLES[scores.names[0]].capitalize()} along the stream"
    return Picture(
        "loss", title, "", "rows", TITLES[scores.names[0]], curves, log_y=log, percent=share,
        alarms=changes,
    )  # fmt: skip


def _events(online: OnlineModel) -> list[dict[str, Any]]:
    """Return what changed along the stream, the newest first: kind, row, and a line of text."""
    alarms: Iterable[Any] = online.scores.drift.alarms
    found = [
        {
            "kind": "drift alarm",
            "row": alarm.row + 1,
            "text": f"the loss has been higher since row {alarm.since + 1:,}",
        }
        for alarm in alarms
    ]
    if online.fitted and not isinstance(online, KeyedOnlineModel):
        found += [
            {"kind": "new learner", "row": change["row"] + 1, "text": _change(change)}
            for change in changes_of(getattr(online, "learner", online.inner))
        ]
    return sorted(found, key=lambda event: -event["row"])[:MOST_EVENTS]


def _change(change: dict[str, Any]) -> str:
    columns = describe_columns(change)
    return describe_outcome(change) + (f"; changed: {columns}" if columns else "")


def _experts(online: OnlineModel) -> list[tuple[str, float]]:
    learner = online.inner
    if not online.fitted or not hasattr(learner, "experts_"):
        return []
    table = [row for row in learner.experts_ if row.get("active", True)]
    return [(expert_name(row), float(row["weight"])) for row in table[:MOST_EXPERTS]]


class Page:
    """Serve the live page of a service."""

    def __init__(self, service: Service, metrics: Metrics, stopping: Callable[[], bool]) -> None:
        self.service, self.metrics, self.stopping = service, metrics, stopping
        folder = files("pronk.serve") / "page"
        self._files = {name: (folder / name).read_bytes() for name in _KINDS if name != "chart.css"}
        self._files["chart.css"] = STYLE.encode()
        self._viewers = 0
        self._encode = msgspec.json.Encoder().encode

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].lstrip("/") or "index.html"
        await send_bytes(send, 200, self._files[name], _KINDS[name], POLICY)

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the status once per second as server-sent events, until the viewer disconnects."""
        if self._viewers >= MOST_VIEWERS:
            raise HTTPError(429, "too many viewers of the live page", {"Retry-After": "10"})
        query = parse_qs(scope["query_string"].decode("latin-1"))
        name = query.get("model", [None])[0]
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        gone = asyncio.ensure_future(_gone(receive))
        self._viewers += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not (gone.done() or self.stopping()):
                found = await asyncio.to_thread(live_status, self.service, self.metrics, name)
                data = b"data: " + self._encode(found) + b"\n\n"
                await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.wait([gone], timeout=1.0)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._viewers -= 1
            gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def page_routes(page: Page) -> dict[str, dict[str, Any]]:
    """Return the routes of the page; the page itself needs no token, its events do."""
    static = {"GET": (page.page, None)}
    return {
        "/": static,
        "/chart.css": static,
        "/page.css": static,
        "/page.js": static,
        "/v2/events": {"GET": (page.events, "")},
    }
