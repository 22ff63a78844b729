"""Status of the server and its models, for the live page and for `GET /v2/models`."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from pronk._version import __version__
from pronk.evaluate import held_bytes
from pronk.evaluate.formatting import finite
from pronk.evaluate.metrics import TITLES
from pronk.evaluate.trace import expert_name
from pronk.serve.keyed import KeyedOnlineModel
from pronk.serve.online import OnlineModel
from pronk.serve.service import Service

#: Most models and experts on the live page.
MOST_LISTED = 200
MOST_EXPERTS = 8


class LiveStatus:
    """Read the status of a service for one viewer of the live page.

    Rates are those since the viewer's previous read.
    """

    def __init__(self, service: Service, times: dict[str, list[float]]) -> None:
        self.service = service
        self.times = times
        self._before = (time.monotonic(), *self._counts())

    def _counts(self) -> tuple[int, int]:
        counters = self.service.counters
        return counters.learned_rows, counters.requests

    def read(self, name: str | None) -> dict[str, Any]:
        """Return the content of one event; ``name`` is the model shown in detail."""
        models = list(self.service.models.values())[:MOST_LISTED]
        chosen = self.service.models.get(name or "")
        return {
            "server": self._server(),
            "models": [_summary(online) for online in models],
            "model": None if chosen is None else _details(chosen),
        }

    def _server(self) -> dict[str, Any]:
        now, learned, asked = (time.monotonic(), *self._counts())
        before = self._before
        self._before = (now, learned, asked)
        passed = max(now - before[0], 1e-3)
        recent = sorted(self.times["learn"][-500:] + self.times["infer"][-500:])
        return {
            "version": __version__,
            "rate": (learned - before[1]) / passed,
            "asked": (asked - before[2]) / passed,
            "queue": self.service.writes.rows,
            "p50": _share(recent, 0.5),
            "p99": _share(recent, 0.99),
            "repeated": self.service.counters.repeated,
            "journal": self.service.journal.size(),
        }


def _share(times: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted times in milliseconds."""
    return 1000.0 * times[min(len(times) - 1, int(share * len(times)))] if times else None


def _summary(online: OnlineModel) -> dict[str, Any]:
    scores = online.scores
    metrics, name = scores.metrics(), scores.names[0]
    return {
        "name": online.name,
        "rows": scores.rows,
        "loss": metrics[name],
        "baseline": metrics[f"{name}_baseline"],
        "waiting": online.waiting,
        "version": str(online.version),
    }


def _details(online: OnlineModel) -> dict[str, Any]:
    scores, spec = online.scores, online.spec
    with online.lock:
        ends, means = scores.curve.points()
        points = online.points
        experts = _experts(online)
    regression = spec.task == "regression"
    return {
        **_summary(online),
        "task": spec.task,
        "algorithm": spec.algorithm,
        "columns": len(online.columns.names),
        "points": points,
        "ready": online.broken is None,
        "reason": online.broken,
        "metric": TITLES[scores.names[0]],
        "naive": "mean of the labels so far" if regression else "most frequent label so far",
        "curve": {
            "ends": ends,
            "loss": finite(means[:, 0]),
            "baseline": finite(means[:, 1]),
            "length": scores.curve.length,
        },
        "coverage": scores.metrics().get("coverage"),
        "wanted": spec.coverage,
        "experts": experts,
    }


def _experts(online: OnlineModel) -> list[tuple[str, float]]:
    learner = online.inner
    if not online.fitted or not hasattr(learner, "experts_"):
        return []
    table = [row for row in learner.experts_ if row.get("active", True)]
    return [(expert_name(row), float(row["weight"])) for row in table[:MOST_EXPERTS]]


# -- one model -------------------------------------------------------------------------------------


def describe(service: Service, online: OnlineModel, long: bool = False) -> dict[str, Any]:
    """Describe a model as the Open Inference Protocol does, with additional entries."""
    task = online.spec.task
    found: dict[str, Any] = {
        "name": online.name,
        "versions": [str(online.version)],
        "platform": "pronk",
        "inputs": [
            {
                "name": column.name,
                "datatype": {"number": "FP64", "boolean": "BOOL"}.get(column.kind, "BYTES"),
                "shape": [-1],
            }
            for column in online.spec.column_list()
        ],
        "outputs": [
            {
                "name": "prediction",
                "datatype": "FP64" if task == "regression" else _class_type(online),
                "shape": [-1],
            }
        ],
        "task": task,
        "algorithm": online.spec.algorithm,
        "rows": online.scores.rows,
        "waiting": online.waiting,
        "metrics": online.scores.metrics(),
        "ready": online.broken is None,
    }
    if online.broken:
        found["reason"] = online.broken
    if long:
        with online.lock:
            found |= _more(online)
    return found


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
