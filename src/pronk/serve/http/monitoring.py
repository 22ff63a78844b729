"""Metrics for Prometheus, and the live page with its events.

The page is static, contains no data and loads nothing from other servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pronk.serve.http.exchange import Receive, Scope, Send, send_bytes
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError
from pronk.serve.status import LiveStatus

# -- Prometheus ------------------------------------------------------------------------------------

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """Collect requests, latency and the counters of the service in one registry."""

    def __init__(self, service: Service) -> None:
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
        self.registry.register(_Service(service))
        self._known: dict[tuple[str, int], tuple[Any, Any]] = {}
        self.latest: dict[str, list[float]] = {"infer": [], "learn": []}

    def count(self, call: str, status: int, seconds: float) -> None:
        """Count one request."""
        found = self._known.get((call, status))
        if found is None:
            found = (self.requests.labels(call, str(status)), self.seconds.labels(call))
            self._known[call, status] = found
        found[0].inc()
        found[1].observe(seconds)
        times = self.latest.get(call)
        if times is not None:
            times.append(seconds)
            if len(times) > 2000:
                del times[:1000]

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
                ("waiting", "Predictions waiting for their label"),
                ("ready", "1 if the model can be used"),
                ("version", "Sequence number of the last row learned"),
            )
        }
        losses = GaugeMetricFamily(
            "pronk_model_loss", "Mean loss of all rows so far", labels=["model", "metric"]
        )
        for name, online in self.service.models.items():
            gauges["rows"].add_metric([name], online.scores.rows)
            gauges["waiting"].add_metric([name], online.waiting)
            gauges["ready"].add_metric([name], float(online.broken is None))
            gauges["version"].add_metric([name], online.version)
            for metric, value in online.scores.metrics().items():
                if value is not None and metric != "rows":
                    losses.add_metric([name, metric], value)
        yield from gauges.values()
        yield losses


# -- live page -------------------------------------------------------------------------------------

_KINDS = {
    "index.html": b"text/html; charset=utf-8",
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


class Page:
    """Serve the live page of a service."""

    def __init__(self, service: Service, metrics: Metrics, stopping: Callable[[], bool]) -> None:
        self.service, self.metrics, self.stopping = service, metrics, stopping
        folder = files("pronk.serve") / "page"
        self._files = {name: (folder / name).read_bytes() for name in _KINDS}
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
            live = LiveStatus(self.service, self.metrics.latest)
            while not (gone.done() or self.stopping()):
                found = await asyncio.to_thread(live.read, name)
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
        "/page.css": static,
        "/page.js": static,
        "/v2/events": {"GET": (page.events, "")},
    }
