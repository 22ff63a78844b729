"""Experiments: the jobs of a table or figure, and how they run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from papers import datasets
from papers.datasets import DataView
from papers.page import Page, of
from pronk.evaluate import study
from pronk.evaluate.study import Outcome, Store, run


@dataclass(frozen=True)
class Job(study.Job):
    """A job whose view is a data set and its scaling (`papers.datasets.DataView`)."""

    def data(self) -> DataView:
        """Return the data set and its scaling."""
        return as_view(self.view)


def as_view(choices: dict[str, Any]) -> DataView:
    """Make a view from JSON, which has no tuples."""
    pairs: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in choices.items()
    }
    return DataView(**pairs)


def view(**choices: Any) -> dict[str, Any]:
    """Return a view as JSON, as a job holds it."""
    held: dict[str, Any] = json.loads(json.dumps(asdict(DataView(**choices))))
    return held


@dataclass(frozen=True)
class Options:
    """How much of an experiment to run."""

    quick: bool = False
    runs: int | None = None
    data: tuple[str, ...] = ()
    """Only these data sets; empty: all."""

    def seeds(self, usual: int) -> range:
        """Return the seeds of the runs: as many as requested, 2 if quick, else the usual number."""
        return range(self.runs if self.runs is not None else 2 if self.quick else usual)

    def rows(self, quick: int = 2000) -> int | None:
        """Return the number of rows to use; None: all."""
        return quick if self.quick else None

    def wanted(self, names: Sequence[str]) -> list[str]:
        """Filter the names of data sets."""
        return [name for name in names if not self.data or name in self.data]


#: A phase makes jobs from the options and the records of the phase before it.
Phase = Callable[[Options, list[Outcome]], list[Job]]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper: its jobs, in phases, and the page of their records."""

    name: str
    data: tuple[str, ...]
    phases: tuple[Phase, ...]
    page: Callable[[Options, list[Outcome]], Page]


def command(experiment: Experiment, options: Options) -> str:
    """Return the command that makes a page."""
    words = ["python -m papers", experiment.name]
    if options.quick:
        words.append("--quick")
    if options.runs is not None:
        words.append(f"--runs {options.runs}")
    words += [f"--data {name}" for name in options.data]
    return " ".join(words)


def run_experiment(
    experiment: Experiment,
    options: Options,
    store: Store,
    workers: int = 1,
    started: Callable[[list[Job]], None] | None = None,
    done: Callable[[study.Job, bool], None] | None = None,
) -> list[Outcome]:
    """Run all phases and return the records of the last; ``started`` gets the jobs of each."""
    for name in options.data:
        if name not in experiment.data:
            raise ValueError(
                f"{experiment.name} has no data set {name!r}; it has {', '.join(experiment.data)}"
            )
    datasets.need(options.wanted(experiment.data))
    records: list[Outcome] = []
    for phase in experiment.phases:
        jobs = phase(options, records)
        if started is not None:
            started(jobs)
        records = run(jobs, store, workers, done)
    return records


def runs_text(options: Options, records: Sequence[Outcome], paper: int) -> str:
    """Say how many runs the page summarises, and how many the paper has."""
    counts = sorted({len(of(records, r["group"], r["label"])) for r in records})
    ours = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    short = " Quick: the first rows of each permutation only." if options.quick else ""
    return f"Runs, each on another random permutation: {ours} (the paper: {paper}).{short}"
