"""A fitted learner in a notebook: what it has learned and holds, not only its parameters."""

from __future__ import annotations

from html import escape
from typing import Any

#: Classes and experts that are named.
SHOWN = 6


def facts(learner: Any) -> dict[str, str]:
    """What a fitted learner can tell of itself, by name."""
    told = {"rows learned": f"{learner.n_seen_:,}", "columns": f"{learner.n_features_in_:,}"}
    names = getattr(learner, "feature_names_in_", None)
    if names is not None:
        told["columns"] += f": {_some([str(name) for name in names])}"
    told["points held"] = f"{learner.size_:,}" if learner.size_ else "none: fixed features"
    if hasattr(learner, "classes_"):
        told["classes"] = _some([str(label) for label in learner.classes_.tolist()])
    try:
        proof = learner.certificate()
        told["regret"] = _proof(proof)
        if getattr(proof, "combination", None) is not None:
            told["regret, combinations"] = _proof(proof.combination)
    except (AttributeError, TypeError, ValueError):
        pass  # it is not tracked
    for expert in getattr(learner, "experts_", [])[:SHOWN]:
        if expert.get("weight", 0.0) >= 0.005:
            setting = f"guess: {expert.get('view')}"
            if expert["bandwidth"] is not None:
                setting = f"bandwidth {expert['bandwidth']:.3g}, alpha {expert['alpha']:g}"
                setting += f", last {expert['window']} rows" if expert.get("window") else ""
            told[f"expert: {setting}"] = f"weight {expert['weight']:.0%}"
    return told


def as_html(learner: Any, more: dict[str, str] | None = None) -> str:
    """A small table, with the parameters below; ``more`` comes first."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in {**(more or {}), **facts(learner)}.items()
    )
    return (
        f"<div><strong>{escape(type(learner).__name__)}</strong><table>{rows}</table>"
        f"<details><summary>parameters</summary><code>{escape(repr(learner))}</code></details></div>"
    )


def _proof(proof: Any) -> str:
    bound = "none known" if proof.bound is None else f"{proof.bound:.4g}"
    return f"{proof.regret:.4g}, bound {bound}"


def _some(texts: list[str]) -> str:
    return ", ".join(texts[:SHOWN]) + (", .." if len(texts) > SHOWN else "")
