"""The learner that --algorithm and --param name; what was chosen beside them is printed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from pronk.cli.errors import CommandError
from pronk.estimators.registry import find, make, make_for_key


def build(
    name: str, task: str, settings: Sequence[str], seed: int, *, per_key: bool = False
) -> Any:
    """Build a learner as `pronk.make` does, with parameters given as text, ``key=value``."""
    params = dict(map(read_setting, settings))
    try:
        find(name).learner_class(task)
    except ValueError as error:
        raise CommandError(f"--algorithm: {error}; see --task") from None
    if "random_state" in params:
        raise CommandError("--param: random_state is given as --seed")
    try:
        return (make_for_key if per_key else make)(name, task, random_state=seed, **params)
    except (TypeError, ValueError) as error:
        raise CommandError(f"--param: {error}") from None


def read_setting(text: str) -> tuple[str, Any]:
    """Read ``key=value``; the value is a number, a list, true, false, none or text."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise CommandError(f"--param: {text!r} must have the form key=value, as in alpha=0.1")
    words = {"true": True, "false": False, "none": None}
    value = value.strip()
    if value.lower() in words:
        return key.strip(), words[value.lower()]
    try:
        return key.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key.strip(), value


def in_words(chosen: dict[str, Any]) -> str:
    """Describe what was chosen, and how to choose otherwise."""
    told = []
    if "bandwidth" in chosen:
        found = chosen["bandwidth"]
        number = f"{found:.4g}" if isinstance(found, float) else found
        told.append(f"bandwidth={number}, the median distance of the first rows")
    if "budget" in chosen:
        small = "experts" in chosen  # the default learner, which always has a budget
        lifted = "500 is that of one model" if small else "none lifts it"
        told.append(f"budget={chosen['budget']} (-p budget={lifted})")
    others = {k: v for k, v in chosen.items() if k not in ("bandwidth", "budget")}
    told += [f"{k}={v}" if isinstance(v, str) else f"{k}={v:g}" for k, v in others.items()]
    return "; ".join(told)
