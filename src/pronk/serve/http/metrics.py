"""Figures for Prometheus: requests, latency, queue, journal, and how each model does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pronk.serve.service import Service

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """What was asked and answered, and what the service counts, in one registry."""

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
        """One request."""
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
        """All figures, as Prometheus reads them."""
        return generate_latest(self.registry)


class _Service:
    """Figures of the service, read when they are asked for."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Any]:
        figures, service = self.service.figures, self.service
        for name, text, value in (
            ("groups", "Transactions of the journal", figures.groups),
            ("learned_rows", "Rows learned", figures.learned_rows),
            ("predicted_rows", "Rows predicted", figures.predicted_rows),
            ("repeated", "Requests answered from the journal by their id", figures.repeated),
            ("refused", "Requests refused by the writer", figures.refused),
            ("labels_expired", "Predictions whose label never came", service.expired),
            ("rows_dropped", "Rows dropped from the journal", service.dropped),
            ("commit_seconds", "Time in transactions", figures.commit_seconds),
            ("learn_seconds", "Time in learners", figures.learn_seconds),
        ):
            yield CounterMetricFamily(f"pronk_{name}", text, value=value)
        for name, text, value in (
            ("queue_rows", "Rows that wait to be learned", service.writes.rows),
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
                ("rows", "Rows learned by a model since it began"),
                ("waiting", "Predictions that wait for their label"),
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
