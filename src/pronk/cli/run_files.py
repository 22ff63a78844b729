"""The files that `pronk run` writes as the stream goes: predictions, metrics, rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from pronk.cli.appending import AppendedFile
from pronk.cli.bad_rows import BadRowsFile
from pronk.cli.checkpoint import readable
from pronk.cli.metrics_file import MetricsFile
from pronk.cli.predictions import (
    STANDARD_OUTPUT,
    Kept,
    PredictionColumns,
    PredictionsFile,
    StandardOutput,
)
from pronk.cli.run_options import RunOptions
from pronk.evaluate import Record
from pronk.evaluate.state import checked_labels
from pronk.streams import FileStream


class RunFiles:
    """Those that were asked for; begun anew, or cut back to where a snapshot was taken.

    Parameters
    ----------
    job : what was asked for
    stream : where the rows come from, and those that are left out
    several : the targets, where there are several
    as_json : whether predictions on standard output are NDJSON
    """

    def __init__(
        self, job: RunOptions, stream: FileStream, several: Sequence[str], *, as_json: bool
    ) -> None:
        self._job = job
        self._stream = stream
        self._several = several
        self._as_json = as_json
        self.predictions: PredictionsFile | StandardOutput | None = None
        self.kept = Kept()
        self.metrics: MetricsFile | None = None
        self.bad: BadRowsFile | None = None

    def open(
        self,
        stack: ExitStack,
        probabilities: bool,
        resume: dict[str, Any] | None,
        *,
        finished: bool,
    ) -> None:
        """Begin the files, or go on with those of a snapshot; the stack closes them.

        ``finished`` says that the run of the snapshot was at its end.
        """
        job = self._job
        if job.predictions is not None:
            self.predictions = self._predictions(job.predictions, probabilities, resume, finished)
            stack.enter_context(self.predictions)
        if job.metrics is not None:
            self.metrics = MetricsFile(job.metrics, self._several)
            _begin_or_resume(self.metrics, None if resume is None else resume["metrics"])
            stack.enter_context(self.metrics)
        if job.skip_bad is not None:
            self.bad = BadRowsFile(job.skip_bad)
            _begin_or_resume(self.bad, None if resume is None else resume["bad"])
            stack.enter_context(self.bad)

    def _predictions(
        self, path: Path, probabilities: bool, resume: dict[str, Any] | None, finished: bool
    ) -> PredictionsFile | StandardOutput:
        layout = PredictionColumns(
            self._stream.target_type,
            intervals=self._job.interval is not None,
            probabilities=probabilities,
            kept=self._stream.kept_types(),
            names=self._several,
        )
        if layout.probabilities and resume is None:
            layout.classes = self._stream.known_labels()
        if str(path) == STANDARD_OUTPUT:
            return StandardOutput(layout, lines=self._as_json)
        file = PredictionsFile(path, layout, resumable=self._job.checkpoint is not None)
        if resume is None:
            file.start()
        elif not (finished and file.finished):
            with readable(f"--checkpoint: {str(self._job.checkpoint)!r}"):
                rows, size, classes, kept = resume["predictions"]
                if classes is not None:
                    layout.classes = np.asarray(checked_labels(classes, "classes"))
                self.kept.restore(kept, list(layout.kept))
            if file.finished:
                file.reopen(rows)
            else:
                file.resume(rows, size)
        return file

    @property
    def made(self) -> bool:
        """Whether the predictions are all in their file already."""
        return self.predictions is not None and self.predictions.finished

    def tell_bad(self) -> None:
        """The rows that were left out go to their file."""
        if self.bad is not None and self._stream.bad:
            self.bad.write(self._stream.bad)
            self._stream.bad = []

    def tell_metrics(self, records: Sequence[Record], alarms: int) -> None:
        """Records go to their file, with the number of alarms so far."""
        if self.metrics is not None:
            for record in records:
                self.metrics.write(record, alarms)

    def tell_predictions(self, records: Sequence[Record], *, with_kept: bool) -> None:
        """The predictions of records go to their file, with the columns that are kept."""
        assert self.predictions is not None
        for record in records:
            if record.forecast is not None:
                kept = self.kept.take(len(record.forecast)) if with_kept else None
                self.predictions.write(record.targets, record.forecast, kept)

    def places(self) -> dict[str, Any]:
        """How far each file is, for a snapshot; what was written is on the disk."""
        predictions = None
        if isinstance(self.predictions, PredictionsFile):
            classes = self.predictions.layout.classes
            predictions = [
                *_place(self.predictions),
                None if classes is None else classes.tolist(),
                self.kept.to_state(),
            ]
        return {
            "predictions": predictions,
            "metrics": None if self.metrics is None else _place(self.metrics),
            "bad": None if self.bad is None else _place(self.bad),
        }


def _begin_or_resume(file: AppendedFile, place: list[int] | None) -> None:
    if place is None:
        file.start()
    else:
        file.resume(*place)


def _place(file: AppendedFile) -> list[int]:
    file.sync()
    return [file.rows, file.bytes]
