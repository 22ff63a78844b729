"""The options of `pronk run`, what they read and where they write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pronk.cli.errors import CommandError
from pronk.cli.metrics_file import check_metrics_ending
from pronk.cli.places import check_outputs
from pronk.cli.predictions import STANDARD_OUTPUT, check_ending
from pronk.streams import FileStream, Preparing, Reading
from pronk.streams.sources import open_source, reads_once


@dataclass(frozen=True)
class RunOptions:
    """The options of `pronk run`."""

    reading: Reading
    preparing: Preparing
    algorithm: str
    params: tuple[str, ...] = ()
    model: Path | None = None
    again: bool = False
    delay: int = 0
    save: Path | None = None
    predictions: Path | None = None
    interval: float | None = None
    probabilities: bool = True
    metrics: Path | None = None
    metrics_every: int = 1000
    window: int = 1000
    report: Path | None = None
    checkpoint: Path | None = None
    every: int = 100_000
    skip_bad: Path | None = None
    seed: int = 0
    workers: int | None = None
    cluster: str | None = None
    by: str | None = None


def open_with_target(reading: Reading, rows: int | None = None) -> FileStream:
    """The rows of the input, which must have a target."""
    if reading.target is None and (reads_once(reading.file) or open_source(reading).label is None):
        raise CommandError("--target is missing: which column is to be predicted?")
    return reading.open(rows=rows)


def check_job(job: RunOptions) -> None:
    """Can the results be written, each to its own file?"""
    printed = job.predictions is not None and str(job.predictions) == STANDARD_OUTPUT
    if printed and job.checkpoint is not None:
        raise CommandError(
            "--predictions: a run with --checkpoint needs a file, for what is printed cannot be "
            "taken back"
        )
    keyed = job.model is not None and (job.model / "store.json").is_file()
    if job.model is not None and not job.model.is_file() and not keyed:
        raise CommandError(f"--model: {str(job.model)!r} does not exist, or is no saved model")
    if job.again and job.model is None:
        raise CommandError("--again goes with --model: without it, every run begins anew")
    if job.reading.keep and job.predictions is None:
        raise CommandError("--keep: the columns go along with --predictions, which is missing")
    outputs = {
        # Models of keys are a folder.
        "--save": None if job.by or keyed else job.model if job.save is None else job.save,
        "--predictions": None if printed else job.predictions,
        "--metrics": job.metrics,
        "--report": job.report,
        "--checkpoint": job.checkpoint,
        "--skip-bad": job.skip_bad,
    }
    check_outputs(outputs, job.reading.file, job.reading.query)
    if job.metrics is not None:
        check_metrics_ending(job.metrics)
    if job.predictions is not None and not printed:
        check_ending(job.predictions, "--predictions")
