"""The runs of a comparison summed up: mean and deviation of each learner, the best first."""

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
    """Mean and standard deviation over the runs; no deviation of one run."""

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
        """The figures, for JSON; without the curves."""
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
    """The figures of a learner from its records."""
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
    """A figure as it was before JSON, which has no infinity."""
    return math.inf if value is None else value


@dataclass(frozen=True)
class Results:
    """A comparison and the summaries of the runs that are done, the best first."""

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
        """Runs that are not done."""
        jobs = len(self.comparison.jobs())
        return jobs - sum(summary.runs for summary in self.everyone)

    def worse(self, one: Summary) -> list[Lead]:
        """Where the baseline did better than a learner, by the means over the runs."""
        if self.baseline is None:
            return []
        own, theirs = (
            {name: spread.mean for name, spread in each.metrics.items()}
            for each in (one, self.baseline)
        )
        return leads(own, {self.baseline.label: theirs})

    @property
    def made(self) -> dict[str, Any]:
        """Versions and machine."""
        records = [record for summary in self.everyone for record in summary.records]
        made: dict[str, Any] = records[-1]["made"] if records else {}
        return made


def results(
    comparison: Comparison, store: Store, keys: Sequence[tuple[str, str]] | None = None
) -> Results:
    """Everything a store has of a comparison, by its keys or those it was saved with."""
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
    """A record of a run with all that a summary needs, or a ValueError."""
    try:
        result = record["result"]
        assert {"metrics", "recent", "size", "params"} <= result.keys()
        assert all(isinstance(result[name], int | float) for name in _FIGURES)
        assert all(len(result["curve"][name]) for name in ("rows", "seconds", "memory"))
    except (AssertionError, AttributeError, KeyError, TypeError):
        raise ValueError(
            f"{str(path)!r} is damaged: a run of {record.get('label', 'unknown')!r} has not all "
            "its figures; `pronk compare --fresh` runs everything again"
        ) from None
    return record


def load_results(directory: Path) -> Results:
    """What `pronk compare` left in a directory, or a ValueError."""
    comparison, keys = Comparison.load(directory)
    store = Store(directory / RECORDS)
    found = results(comparison, store, keys)
    if not found.everyone:
        what = "has no finished run yet"
        if store.damaged:
            what = f"has no run that can be read; {RECORDS} is damaged"
        raise ValueError(f"{str(directory)!r} {what}; run `pronk compare` again")
    return found
