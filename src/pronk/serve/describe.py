"""What a model is and how it does, for `GET` and for the page."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from pronk.evaluate import held_bytes
from pronk.serve.keyed import KeyedOnline
from pronk.serve.online import Online
from pronk.serve.service import Service


def describe(service: Service, online: Online, long: bool = False) -> dict[str, Any]:
    """A model in the words of the protocol, and ours."""
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
            found |= _long(online)
    return found


def _long(online: Online) -> dict[str, Any]:
    found: dict[str, Any] = {
        "spec": msgspec.to_builtins(online.spec),
        "created": online.created,
        "snapshot": str(online.snapshot),
        "points": 0,
        "bytes": 0,
    }
    if isinstance(online, KeyedOnline):
        found["keys"] = online.keys
    elif online.fitted:
        found["points"] = online.points
        found["bytes"] = held_bytes(online.learner)
        found |= _certificate(online)
        if online.spec.task == "classification":
            found["classes"] = online.learner.classes_.tolist()
    return found


def _certificate(online: Online) -> dict[str, Any]:
    """Regret so far and its bound, where the learner has a certificate."""
    try:
        certificate = online.inner.certificate().to_dict()
    except (ValueError, AttributeError, ArithmeticError):
        return {}
    return {"certificate": _numbers(certificate)}


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """The finite numbers of a table, and of tables in it."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found[key] = _numbers(value)
        elif isinstance(value, int | float) and math.isfinite(value):
            found[key] = value
    return found


def _class_type(online: Online) -> str:
    kinds = {"number": "INT64", "boolean": "BOOL"}
    return kinds.get(online.label_kind or "text", "BYTES")
