"""Several learners over one file, some runs each: who is compared on what, and the results.

`pronk.evaluate.comparison_run` does the runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pronk.data import Preparing, Reading
from pronk.data.errors import without_secret
from pronk.estimators.registry import make
from pronk.evaluate.baselines import BASELINES, Lead, describe_repeating, leads, make_baselines
from pronk.evaluate.metrics import DEFAULTS, describe_leads
from pronk.evaluate.study import Job, Outcome, Store

ORDERS = ("given", "random")
#: Windows of the windowed loss, and rows that a window has at least.
CURVE_WINDOWS = 50
LEAST = 100

#: The file of a results folder.
RECORDS = "records.jsonl"


@dataclass(frozen=True)
class ComparedLearner:
    """A learner in a comparison."""

    label: str
    algorithm: str
    """Name in the registry; empty for a baseline."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters other than the defaults; those of the kernel by their own names."""
    scale: str | None = None
    """Scaling of this learner, if not that of the comparison."""

    def build(self, task: str, seed: int) -> Any:
        """Return a new learner."""
        if not self.algorithm:
            average, last = make_baselines(task)
            return last if self.params else average
        return make(self.algorithm, task, random_state=seed, **self.params)


@dataclass(frozen=True)
class Comparison:
    """The learners, the data and the settings of a comparison."""

    reading: Reading
    """The file and how it is read; its task is known."""
    digest: str
    """Hash of the file: another file of the same name is another comparison."""
    reason: str
    """What the task was inferred from, if it was not given."""
    columns: list[str]
    rows: int
    learners: list[ComparedLearner]
    runs: int
    preparing: Preparing = field(default_factory=Preparing)
    order: str = "given"
    seed: int = 0
    unlabelled: int = 0
    """Rows without a label, which are only predicted."""

    @property
    def file(self) -> str:
        """The name of the input, without passwords."""
        return without_secret(self.reading.file)

    @property
    def target(self) -> str:
        """The column to predict."""
        return str(self.reading.target)

    @property
    def task(self) -> str:
        """Regression or classification."""
        return self.reading.task

    @property
    def scale(self) -> str:
        """The scaling of learners without their own."""
        return self.preparing.scale

    @property
    def baselines(self) -> list[ComparedLearner]:
        """The baselines: the mean or the most frequent label so far, and the last label."""
        first, last = BASELINES[self.task]
        return [ComparedLearner(first, ""), ComparedLearner(last, "", {"repeats": "last"})]

    @property
    def metric(self) -> str:
        """The metric by which learners are ordered."""
        return DEFAULTS[self.task][0]

    @property
    def window(self) -> int:
        """Rows of the windowed metrics."""
        return min(self.rows, max(LEAST, self.rows // CURVE_WINDOWS))

    @property
    def view(self) -> dict[str, Any]:
        """The file and how its rows are read and prepared."""
        preparing = asdict(self.preparing)
        del preparing["scale"]  # it is a setting of each learner
        return {**asdict(self.reading), **preparing, "digest": self.digest}

    def jobs(self) -> list[Job]:
        """Return all runs by seed, so that an interrupted comparison has runs of all learners."""
        from pronk.evaluate.comparison_run import one_run  # which imports this module

        jobs = []
        for run in range(self.runs):
            for compared in [*self.learners, *self.baselines]:
                if not compared.algorithm and run and self.order == "given":
                    continue  # baselines have no seed: one run suffices
                settings = {
                    "algorithm": compared.algorithm,
                    "params": compared.params,
                    "order": self.order,
                    "scale": compared.scale or self.scale,
                    "rows": self.rows,
                    "window": self.window,
                }
                seed = self.seed + run
                jobs.append(Job(compared.label, self.group, one_run, seed, settings, self.view))
        return jobs

    @property
    def group(self) -> str:
        """The name of the data."""
        return f"{Path(self.file).name}, {self.target}"


# -- results: mean and deviation over the runs of each learner, the best first ---------------------


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

    @property
    def means(self) -> dict[str, float]:
        """Means of the metrics over the runs."""
        return {name: spread.mean for name, spread in self.metrics.items()}

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
    sizes = [result["size"] for result in results]

    def over_runs(part: str) -> dict[str, OverRuns]:  # JSON stores infinity as null
        figures = {name: [result[part][name] for result in results] for name in DEFAULTS[task]}
        return {
            name: OverRuns.of([math.inf if value is None else value for value in values])
            for name, values in figures.items()
        }

    return Summary(
        compared.label,
        compared.algorithm,
        results[0]["params"],
        len(results),
        over_runs("metrics"),
        over_runs("recent"),
        OverRuns.of([result["microseconds_per_row"] for result in results]),
        OverRuns.of(sizes) if all(sizes) else None,
        OverRuns.of([result["memory"] for result in results]),
        records,
    )


@dataclass(frozen=True)
class Results:
    """A comparison and the summaries of its finished runs, the best first."""

    comparison: Comparison
    summaries: list[Summary]
    baselines: list[Summary]

    @property
    def everyone(self) -> list[Summary]:
        """The learners, then the baselines."""
        return [*self.summaries, *self.baselines]

    @property
    def unpredicted(self) -> int:
        """Rows at the start of a run that are not scored: no label was known yet."""
        return max((one["result"].get("unpredicted", 0) for one in self._records), default=0)

    @property
    def missing(self) -> int:
        """Number of unfinished runs."""
        return len(self.comparison.jobs()) - len(self._records)

    def worse(self, one: Summary) -> list[Lead]:
        """Return the metrics in which a baseline is better than a learner, by means over runs."""
        return leads(one.means, {each.label: each.means for each in self.baselines})

    def notes(self, one: Summary) -> list[str]:
        """Return sentences that compare a learner with the baselines, where they are as good."""
        baselines = {each.label: each.means for each in self.baselines}
        carried = describe_repeating(self.comparison.metric, one.means, baselines)
        return [text for text in (carried, describe_leads(self.worse(one))) if text]

    @property
    def made(self) -> dict[str, Any]:
        """Versions and machine of the last run."""
        return self._records[-1]["made"] if self._records else {}

    @property
    def _records(self) -> list[Outcome]:
        return [record for summary in self.everyone for record in summary.records]


def results(comparison: Comparison, store: Store) -> Results:
    """Return the results of a comparison in a store."""
    found: dict[str, list[Outcome]] = {}
    for job in comparison.jobs():
        record = store.get(job)
        if record is not None:
            found.setdefault(job.label, []).append(record)
    learners, baselines = (
        [summary(one, found[one.label], comparison.task) for one in several if one.label in found]
        for several in (comparison.learners, comparison.baselines)
    )
    learners.sort(key=lambda one: one.means[comparison.metric])
    return Results(comparison, learners, baselines)
