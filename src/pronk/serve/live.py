"""What the live page shows, once a second: the server, the models, and one of them closely."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pronk._version import __version__
from pronk.evaluate.metrics import WORDS
from pronk.evaluate.plain_json import finite
from pronk.evaluate.portrait import expert_name
from pronk.serve.online import Online
from pronk.serve.service import Service

MOST_LISTED = 200
MOST_EXPERTS = 8


class Live:
    """Looks at a service; rates are between two looks of the same watcher."""

    def __init__(self, service: Service, times: dict[str, list[float]]) -> None:
        self.service = service
        self.times = times
        self._before = (time.monotonic(), *self._counts())

    def _counts(self) -> tuple[int, int]:
        figures = self.service.figures
        return figures.learned_rows, figures.requests

    def look(self, name: str | None) -> dict[str, Any]:
        """Everything for one event."""
        models = list(self.service.models.values())[:MOST_LISTED]
        chosen = self.service.models.get(name or "")
        return {
            "server": self._server(),
            "models": [_short(online) for online in models],
            "model": None if chosen is None else _close(chosen),
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
            "repeated": self.service.figures.repeated,
            "journal": self.service.journal.size(),
        }


def _share(times: Sequence[float], share: float) -> float | None:
    """A quantile of sorted times, in milliseconds."""
    return 1000.0 * times[min(len(times) - 1, int(share * len(times)))] if times else None


def _short(online: Online) -> dict[str, Any]:
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


def _close(online: Online) -> dict[str, Any]:
    scores, spec = online.scores, online.spec
    with online.lock:
        ends, means = scores.curve.points()
        points = online.points
        experts = _experts(online)
    regression = spec.task == "regression"
    return {
        **_short(online),
        "task": spec.task,
        "algorithm": spec.algorithm,
        "columns": len(online.columns.names),
        "points": points,
        "ready": online.broken is None,
        "reason": online.broken,
        "metric": WORDS[scores.names[0]],
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


def _experts(online: Online) -> list[tuple[str, float]]:
    learner = online.inner
    if not online.fitted or not hasattr(learner, "experts_"):
        return []
    table = [row for row in learner.experts_ if row.get("awake", True)]
    return [(expert_name(row), float(row["weight"])) for row in table[:MOST_EXPERTS]]
