"""The settings of a comparison, as a report tells them, and the command that runs it again."""

from __future__ import annotations

import shlex
from pathlib import Path

from pronk.evaluate.comparison import Comparison
from pronk.evaluate.summaries import Results, Summary
from pronk.streams.errors import without_secret
from pronk.streams.reading import as_words


def settings(results: Results) -> dict[str, str]:
    """What was compared on what, by name."""
    comparison, made = results.comparison, results.made
    last = comparison.seed + comparison.runs - 1
    versions = sorted(made.items(), key=lambda item: item[0] != "pronk")
    return {
        "file": f"{Path(comparison.file).name}, SHA-256 {comparison.digest[:16]}..",
        "target": comparison.target,
        "task": comparison.task
        + (f", guessed from {comparison.reason}" if comparison.reason else ""),
        "columns": ", ".join(comparison.columns),
        "left out": ", ".join(comparison.reading.drop) or "nothing",
        **_categories(comparison),
        "rows": f"{comparison.rows:,}"
        + (" (a limit)" if comparison.reading.limit else "")
        + (f", {comparison.unlabelled:,} without a label" if comparison.unlabelled else ""),
        "order": comparison.order,
        "scaling": _scaling(comparison),
        "seeds": f"{comparison.seed}" + (f" to {last}" if comparison.runs > 1 else ""),
        "machine": made.get("machine", "not known"),
        "versions": ", ".join(f"{name} {v}" for name, v in versions if name != "machine"),
    }


def parameters(results: Results) -> dict[str, str]:
    """The parameters of each learner."""
    return {_named(one): _params(one) for one in results.summaries}


def _categories(comparison: Comparison) -> dict[str, str]:
    """What became of columns that are no plain numbers."""
    told = {}
    reading, preparing = comparison.reading, comparison.preparing
    if reading.categorical:
        how = "by a hash" if preparing.encoding == "hash" else "as they come"
        names = ", ".join(reading.categorical)
        told["categories"] = f"{names}; {preparing.slots} slots each, {how}"
    if reading.missing == "mean":
        told["missing values"] = "the mean of the column so far"
    return told


def _scaling(comparison: Comparison) -> str:
    own = [f"{one.scale} for {one.label}" for one in comparison.contenders if one.scale]
    return "; ".join([comparison.scale, *own])


def command(comparison: Comparison) -> str:
    """The command that runs a comparison."""
    names = [
        one.algorithm if one.label == one.algorithm else f"{one.label}={one.algorithm}"
        for one in comparison.contenders
    ]
    said = ["pronk", "compare", Path(comparison.file).name, "--target", comparison.target]
    said += ["--algorithms", ",".join(names), "--runs", str(comparison.runs)]
    said += ["--order", comparison.order, "--task", comparison.task]
    if not any(one.scale for one in comparison.contenders):  # else it is as nothing was chosen
        said += ["--scale", comparison.scale]
    for one in comparison.contenders:
        for name, value in one.params.items():
            said += ["--param", f"{one.label}:{name}={value}"]
    chosen = comparison.reading.chosen()
    preparing = comparison.preparing.chosen() if comparison.reading.categorical else {}
    said += as_words(
        {
            name: value
            for name, value in {**chosen, **preparing}.items()
            if name not in ("file", "target", "task", "scale")
        }
    )
    if comparison.seed:
        said += ["--seed", str(comparison.seed)]
    return without_secret(shlex.join(said))


def _named(one: Summary) -> str:
    same = one.label == one.algorithm
    return one.label if same else f"{one.label} ({one.algorithm})"


def _params(one: Summary) -> str:
    own = {k: v for k, v in one.params.items() if not k.startswith("kernel__")}
    nested = {k.partition("__")[2]: v for k, v in one.params.items() if k.startswith("kernel__")}
    said = [f"{name}={value}" for name, value in own.items() if name != "kernel"]
    kernel = str(own.get("kernel", "")).partition("(")[0].lower()
    inside = ", ".join(f"{name}={value}" for name, value in nested.items())
    return ", ".join([f"kernel={kernel}({inside})", *said])
