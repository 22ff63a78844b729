"""What the service shows of itself: descriptions of models, metrics for Prometheus, a live page.

The page is static, contains no data and loads nothing from other servers.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from importlib.resources import files
from operator import attrgetter
from typing import Any
from urllib.parse import parse_qs

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, generate_latest
from prometheus_client.core import CounterMetricFamily as Total
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric

from pronk._version import __version__
from pronk.evaluate import held_bytes
from pronk.evaluate.baselines import BASELINES
from pronk.evaluate.drawing import STYLE, Array, Curve, Picture, svg
from pronk.evaluate.metrics import TITLES
from pronk.evaluate.trace import describe_columns, describe_outcome, expert_name
from pronk.serve.http.exchange import Reply, Request, encode
from pronk.serve.keyed import KeyedOnlineModel
from pronk.serve.online import LiveScores, OnlineModel, describe_alarm
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError, Spec

# -- one model -------------------------------------------------------------------------------------


def describe(online: OnlineModel, long: bool = False) -> dict[str, Any]:
    """Describe a model as the Open Inference Protocol does, with additional entries."""
    found: dict[str, Any] = {
        "name": online.name,
        "versions": [str(online.version)],
        "platform": "pronk",
        "inputs": _inputs(online.spec),
        "outputs": [_output(online, name) for name in online.outputs],
        "task": online.spec.task,
        "algorithm": online.spec.algorithm,
        "rows": online.scores.rows,
        "waiting": online.waiting,
        "metrics": online.scores.metrics(),
        "notes": online.scores.notes(),
        "ready": online.ready,
    }
    if online.broken:
        found["reason"] = online.broken
    if long:
        with online.lock:
            found |= _more(online)
    return found


def _inputs(given: Spec) -> list[dict[str, Any]]:
    types = {"number": "FP64", "boolean": "BOOL"}
    found = [] if given.key is None else [(given.key, "BYTES")]
    found += [(column.name, types.get(column.kind, "BYTES")) for column in given.column_list()]
    return [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in found]


def _output(online: OnlineModel, name: str) -> dict[str, Any]:
    kind = "FP64"
    if name == "prediction" and online.spec.task == "classification":
        kind = {"number": "INT64", "boolean": "BOOL"}.get(online.label_kind or "text", "BYTES")
    shape = [-1, -1] if name == "probability" else [-1]
    return {"name": name, "datatype": kind, "shape": shape}


def _more(online: OnlineModel) -> dict[str, Any]:
    found: dict[str, Any] = {
        "spec": msgspec.to_builtins(online.spec),
        "created": online.created,
        "snapshot": str(online.snapshot),
        "points": online.points,
        "bytes": 0,
    }
    if isinstance(online, KeyedOnlineModel):
        found["keys"] = online.keys
    elif online.trained:
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


# -- Prometheus ------------------------------------------------------------------------------------

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: Calls whose latency is kept by model, and how many of the last requests for the quantiles.
TIMED = ("infer", "learn")
LATEST = 500
#: Metrics of a model: their kind, name, attribute and description.
_OF_MODELS: tuple[tuple[type[Gauge | Total], str, str, str], ...] = (
    (Gauge, "rows", "scores.rows", "Rows learned by a model"),
    (Gauge, "unpredicted", "scores.unpredicted", "Rows not scored: no label was known before"),
    (Gauge, "waiting", "waiting", "Predictions waiting for their label"),
    (Gauge, "ready", "ready", "1 if the model can be used"),
    (Gauge, "version", "version", "Sequence number of the last row learned"),
    (Total, "drift_alarms", "scores.alarms", "Alarms of a rising loss"),
)
#: How often the learner of a model has reacted to changes, by kind.
_CHANGES = {
    "trials": "New learners that were tried after an alarm",
    "swaps": "New learners that replaced the old one",
    "returns": "Earlier learners that took over again",
}


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
        self.registry.register(self)
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

    async def metrics(self, request: Request) -> Reply:
        """Return all metrics in the text format of Prometheus."""
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        return Reply(generate_latest(self.registry), kind=kind)

    def collect(self) -> Iterator[Metric]:
        """Read the counters of the service."""
        service = self.service
        for name, text in (
            ("groups", "Transactions of the journal"),
            ("learned_rows", "Rows learned"),
            ("predicted_rows", "Rows predicted"),
            ("repeated", "Requests answered from the journal by their id"),
            ("refused", "Requests refused by the writer"),
            ("labels_expired", "Predictions that expired without a label"),
            ("rows_dropped", "Rows dropped from the journal"),
            ("commit_seconds", "Time in transactions"),
            ("learn_seconds", "Time in learners"),
        ):
            yield Total(f"pronk_{name}", text, value=getattr(service.counters, name))
        for name, text, value in (
            ("queue_rows", "Rows waiting to be learned", service.writes.rows),
            ("sequence", "The last sequence number", service.journal.sequence),
            ("journal_bytes", "Size of the journal", service.journal.size()),
            ("journal_failed", "1 if the last transaction failed", bool(service.journal.failed)),
        ):
            yield Gauge(f"pronk_{name}", text, value=value)
        models = service.models.items()
        for kind, name, attribute, text in _OF_MODELS:
            family = kind(f"pronk_model_{name}", text, labels=["model"])
            for model, online in models:
                family.add_metric([model], attrgetter(attribute)(online))
            yield family
        for name, text in _CHANGES.items():
            changes = Total(f"pronk_model_{name}", text, labels=["model"])
            for model, online in models:
                if (number := online.change_counts.get(name)) is not None:
                    changes.add_metric([model], number)
            yield changes
        losses = Gauge(
            "pronk_model_loss", "Mean loss of all scored rows so far", labels=["model", "metric"]
        )
        for model, online in models:
            for metric, value in online.scores.metrics().items():
                if value is not None and metric not in ("rows", "unpredicted"):
                    losses.add_metric([model, metric], value)
        yield losses


# -- live page -------------------------------------------------------------------------------------

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


def live_status(service: Service, metrics: Metrics, name: str) -> dict[str, Any]:
    """Return the content of one event of the page; ``name`` is the model shown in detail."""
    models = list(service.models.values())[:MOST_LISTED]
    chosen = service.models.get(name)
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
        "ready": online.ready,
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
    share, loss = scores.task == "classification", TITLES[scores.names[0]]
    names = ("model", *BASELINES[scores.task])
    curves = [Curve(name, rows, means[:, i], dashed=i > 0) for i, name in enumerate(names)]
    positive = means[means > 0]
    # Error rates are often 0, which a logarithmic axis cannot show.
    log = not share and len(positive) > 0 and bool(positive.max() > 30 * positive.min())
    return Picture(
        "loss",
        f"{loss.capitalize()} along the stream",
        "",
        "rows",
        loss,
        curves,
        log_y=log,
        percent=share,
        alarms=[event["row"] for event in events if event["row"] <= rows[-1]],
    )


def _events(online: OnlineModel) -> list[dict[str, Any]]:
    """Return what changed along the stream, the newest first: kind, row, and a line of text."""
    found: list[dict[str, Any]] = [
        {"kind": "drift alarm", "row": alarm.row + 1, "text": describe_alarm(alarm)}
        for alarm in online.scores.drift.alarms
    ]
    for change in online.changes:
        columns = describe_columns(change)
        text = describe_outcome(change) + (f"; changed: {columns}" if columns else "")
        found.append({"kind": "new learner", "row": change["row"] + 1, "text": text})
    return sorted(found, key=lambda event: -event["row"])[:MOST_EVENTS]


def _experts(online: OnlineModel) -> list[tuple[str, float]]:
    table = getattr(online.inner, "experts_", []) if online.trained else []
    active = [row for row in table if row.get("active", True)]
    return [(expert_name(row), float(row["weight"])) for row in active[:MOST_EXPERTS]]


class Page:
    """Send the status of a service to the viewers of its live page."""

    def __init__(self, service: Service, metrics: Metrics, stopping: Callable[[], bool]) -> None:
        self.service, self.metrics, self.stopping = service, metrics, stopping
        self._viewers = 0

    async def events(self, request: Request) -> Reply:
        """Send the status once per second as server-sent events, until the viewer disconnects."""
        if self._viewers >= MOST_VIEWERS:
            raise HTTPError(429, "too many viewers of the live page", {"Retry-After": "10"})
        name = parse_qs(request.query).get("model", [""])[0]
        headers = {"X-Accel-Buffering": "no"}
        return Reply(self._statuses(request, name), kind=b"text/event-stream", headers=headers)

    async def _statuses(self, request: Request, name: str) -> AsyncGenerator[bytes]:
        gone = asyncio.ensure_future(request.disconnected())
        self._viewers += 1
        try:
            while not (gone.done() or self.stopping()):
                found = await asyncio.to_thread(live_status, self.service, self.metrics, name)
                yield b"data: " + encode(found) + b"\n\n"
                await asyncio.wait([gone], timeout=1.0)
        finally:
            self._viewers -= 1
            gone.cancel()


def page_files() -> dict[str, Reply]:
    """Return the files of the live page by their path; they contain no data."""
    folder = files("pronk.serve") / "page"
    html, css, script = (
        f"text/{kind}; charset=utf-8".encode() for kind in ("html", "css", "javascript")
    )
    return {
        "/": Reply((folder / "index.html").read_bytes(), 200, html, POLICY),
        "/chart.css": Reply(STYLE.encode(), 200, css, POLICY),
        "/page.css": Reply((folder / "page.css").read_bytes(), 200, css, POLICY),
        "/page.js": Reply((folder / "page.js").read_bytes(), 200, script, POLICY),
    }
