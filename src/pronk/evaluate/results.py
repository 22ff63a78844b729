"""Summaries of a comparison: mean and deviation over the runs of each learner, the best first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pronk.evaluate.baselines import Lead, leads
from pronk.evaluate.comparison import RECORDS, ComparedLearner, Comparison
from pronk.evaluate.metrics import DEFAULTS
from pronk.evaluate.study import Outcome, Store

#: Numbers that the result of every run has.
_FIGURES = ("rows", "seconds", "microseconds_per_row", "memory")


@dataclass(frozen=True)
class OverRuns:
    """Mean and standard deviation over runs; a single run has no deviation."""

    mean: float
    deviation: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> OverRuns:
        known = len(values) > 1 and all(map(math.isfinite, values))
        return cls(fmean(values), stdev(values) if known else None)

    def to_dict(self) -> dict[str, float | None]:
        return {"mean": self.mean, "std": self.deviation}


@dataclass(frozen=True)
class Summary:
    """One learner over its runs."""

    label: str
    algorithm: str
    params: dict[str, Any]
    runs: int
    metrics: dict[str, OverRuns]
    recent: dict[str, OverRuns]
    microseconds_per_row: OverRuns
    size: OverRuns | None
    memory: OverRuns
    records: list[Outcome] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON, without the curves."""
        return {
            "name": self.label,
            "algorithm": self.algorithm or None,
            "params": self.params,
            "runs": self.runs,
            "metrics": {name: spread.to_dict() for name, spread in self.metrics.items()},
            "recent": {name: spread.to_dict() for name, spread in self.recent.items()},
            "microseconds_per_row": self.microseconds_per_row.to_dict(),
            "size": None if self.size is None else self.size.to_dict(),
            "memory": self.memory.to_dict(),
        }


def summary(compared: ComparedLearner, records: list[Outcome], task: str) -> Summary:
    """Summarise the records of a learner."""
    results = [record["result"] for record in records]
    names = DEFAULTS[task]
    sizes = [result["size"] for result in results]

    def spread(part: str, name: str) -> OverRuns:
        return OverRuns.of([_number(result[part][name]) for result in results])

    return Summary(
        compared.label,
        compared.algorithm,
        results[0]["params"],
        len(results),
        {name: spread("metrics", name) for name in names},
        {name: spread("recent", name) for name in names},
        OverRuns.of([result["microseconds_per_row"] for result in results]),
        OverRuns.of(sizes) if all(sizes) else None,
        OverRuns.of([result["memory"] for result in results]),
        records,
    )


def _number(value: float | None) -> float:
    """Read a figure from JSON, which stores infinity as null."""
    return math.inf if value is None else value


@dataclass(frozen=True)
class Results:
    """A comparison and the summaries of its finished runs, the best first."""

    comparison: Comparison
    summaries: list[Summary]
    baseline: Summary | None
    damaged: int = 0
    """Lines of the records that could not be read."""

    @property
    def everyone(self) -> list[Summary]:
        """The learners, then the baseline."""
        return [*self.summaries, *([self.baseline] if self.baseline else [])]

    @property
    def missing(self) -> int:
        """Number of unfinished runs."""
        jobs = len(self.comparison.jobs())
        return jobs - sum(summary.runs for summary in self.everyone)

    def worse(self, one: Summary) -> list[Lead]:
        """Return the metrics in which the baseline is better than a learner, by means over runs."""
        if self.baseline is None:
            return []
        own, theirs = (
            {name: spread.mean for name, spread in each.metrics.items()}
            for each in (one, self.baseline)
        )
        return leads(own, {self.baseline.label: theirs})

    @property
    def made(self) -> dict[str, Any]:
        """Versions and machine of the last run."""
        records = [record for summary in self.everyone for record in summary.records]
        made: dict[str, Any] = records[-1]["made"] if records else {}
        return made


def results(
    comparison: Comparison, store: Store, keys: Sequence[tuple[str, str]] | None = None
) -> Results:
    """Return the results of a comparison in a store, by its keys or the given ones."""
    found: dict[str, list[Outcome]] = {}
    if keys is None:
        keys = [(job.label, job.key) for job in comparison.jobs()]
    for label, key in keys:
        record = store.find(key)
        if record is not None:
            found.setdefault(label, []).append(_checked(record, store.path))
    summaries = [
        summary(compared, found[compared.label], comparison.task)
        for compared in comparison.learners
        if compared.label in found
    ]
    name = comparison.metric
    summaries.sort(key=lambda one: one.metrics[name].mean)
    last = comparison.baseline
    baseline = summary(last, found[last.label], comparison.task) if last.label in found else None
    return Results(comparison, summaries, baseline, store.damaged)


def _checked(record: Outcome, path: Path) -> Outcome:
    """Return a record; raise a ValueError if it lacks figures of the summary."""
    try:
        result = record["result"]
        assert {"metrics", "recent", "size", "params"} <= result.keys()
        assert all(isinstance(result[name], int | float) for name in _FIGURES)
        assert all(len(result["curve"][name]) for name in ("rows", "seconds", "memory"))
    except (AssertionError, AttributeError, KeyError, TypeError):
        raise ValueError(
            f"{str(path)!r} is damaged: a run of {record.get('label', 'unknown')!r} lacks "
            "figures; `pronk compare --fresh` repeats all runs"
        ) from None
    return record


def load_results(directory: Path) -> Results:
    """Load the results of `pronk compare` from a folder; raise a ValueError if there are none."""
    comparison, keys = Comparison.load(directory)
    store = Store(directory / RECORDS)
    found = results(comparison, store, keys)
    if not found.everyone:
        what = "has no finished run yet"
        if store.damaged:
            what = f"has no readable run; {RECORDS} is damaged"
        raise ValueError(f"{str(directory)!r} {what}; run `pronk compare` again")
    return found
