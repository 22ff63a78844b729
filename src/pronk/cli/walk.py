"""The walk of `pronk run`: rows in blocks, snapshots between them, predictions to a file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pronk.cli import screen
from pronk.cli.checkpoint import Checkpoint, Interruptions, Stopped, fingerprint
from pronk.cli.errors import CommandError
from pronk.cli.job import Job
from pronk.cli.predictions import (
    STANDARD_OUTPUT,
    Kept,
    Layout,
    PredictionsFile,
    StandardOutput,
)
from pronk.estimators import storage
from pronk.evaluate import Evaluation, Record, RunningMajority, RunningMean
from pronk.evaluate.adapters import has_probabilities
from pronk.evaluate.progress import Bar
from pronk.streams import FileStream, StreamError
from pronk.streams.scaled import named


class Run:
    """A walk through a stream, from its start or from the last snapshot."""

    def __init__(
        self, job: Job, stream: FileStream, model: Any, console: Console, as_json: bool = False
    ) -> None:
        self.job = job
        self.as_json = as_json
        self.stream = stream
        self.model = model
        self.console = console
        self.position = 0  # rows of the stream that are done
        self.resumed = 0
        self.finished = False
        self.checkpoint: Checkpoint | None = None
        self.file: PredictionsFile | StandardOutput | None = None
        self.kept = Kept()
        naive: Any = RunningMajority() if stream.task == "classification" else RunningMean()
        self.baseline = Evaluation(naive, memory=False)
        self.evaluation = self._evaluation()

    def _evaluation(self) -> Evaluation:
        wanted = self.job.predictions is not None
        return Evaluation(
            self.model,
            predictions=wanted,
            memory=False,
            probabilities=wanted and self.job.probabilities and has_probabilities(self.model),
            interval=self.job.interval,
        )

    def walk(self) -> tuple[Record, dict[str, float]]:
        """Predict then learn all rows; the last record and the baseline's metrics."""
        job, resume = self.job, None
        if job.checkpoint is not None:
            self.checkpoint = Checkpoint(job.checkpoint, job.every, self._settings())
            resume = self._resume()
        with ExitStack() as stack:
            if job.predictions is not None:
                self.file = self._predictions_file(job.predictions, resume)
                stack.enter_context(self.file)
            if not self.finished:
                try:
                    self._rows(stack)
                except Stopped as stopped:
                    raise self._stop(stopped) from None
                except (CommandError, StreamError) as error:
                    if self.checkpoint is None or self.checkpoint.advice() in str(error):
                        raise
                    code = error.code if isinstance(error, CommandError) else 2
                    raise CommandError(f"{error}; {self.checkpoint.advice()}", code) from None
                self.finished = True
                self._snapshot()
        if self.file is not None and not self.file.finished:
            self.file.finish()
            self._note_late(self.file.layout)
        self.baseline.finish()
        return self.evaluation.record(), self.baseline.record().metrics

    def _rows(self, stack: ExitStack) -> None:
        bar = Bar(self.stream, console=self.console, number=screen.number)
        stack.enter_context(bar)
        signals = Interruptions()
        if self.checkpoint is not None:
            stack.enter_context(signals)
        for X, y, kept in self.stream.blocks_with_kept(self.position):
            with signals.block():
                self.kept.add(kept)
                self._block(X, y)
                self._keep()
                bar.show(self.evaluation)
                # A shorter block comes before a bad row, or at the end.
                whole = self.position % self.stream.rows == 0
                if self.checkpoint is not None and whole and self.checkpoint.due(self.position):
                    self._snapshot()
        if not self.evaluation.rows:
            self.evaluation.finish()  # says why

    def _block(self, X: Any, y: Any) -> None:
        rows = named(X, self.stream.columns) if not self.evaluation.rows else X
        self.baseline.feed(X, y)
        self.evaluation.feed(rows, y)
        self.position += len(y)

    def _keep(self) -> None:
        """The predictions of a block go to the file."""
        record = self.evaluation.record()
        if self.file and record.forecast is not None:
            kept = self.kept.take(len(record.forecast))
            self.file.write(record.targets, record.forecast, kept)

    def _note_late(self, layout: Layout) -> None:
        if layout.late:
            names = ", ".join(sorted(layout.late)[:5]) + (", .." if len(layout.late) > 5 else "")
            screen.note(
                f"--predictions has no column for the probability of {names}: the header was "
                "written before the label came",
                self.console,
            )

    # -- snapshots -------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        """What decides the result."""
        job = self.job
        return {
            "input": fingerprint(job.file, job.query),
            "--query": job.query,
            "--target": self.stream.target,
            "--task": self.stream.task,
            "--algorithm": job.algorithm,
            "--param": list(job.params),
            "the columns": list(self.stream.columns),
            "--categorical": list(self.stream.categorical),
            "--encoding": job.encoding,
            "--slots": job.slots,
            "--missing": job.missing,
            "--scale": job.scale,
            "--limit": job.limit,
            "--delimiter": job.delimiter,
            "--no-header": None if job.header else True,  # older snapshots do not have it
            "--seed": job.seed,
            "the ending of --predictions": job.predictions and job.predictions.suffix.lower(),
            "--keep": list(self.stream.keep) or None,
            "--interval": job.interval,
            "--no-probabilities": None if job.probabilities else True,
            "blocks of": self.stream.rows,
        }

    def _snapshot(self) -> None:
        if self.checkpoint is None:
            return
        place = None
        if isinstance(self.file, PredictionsFile):
            self.file.sync()
            classes = self.file.layout.classes
            place = [
                self.file.rows,
                self.file.bytes,
                None if classes is None else classes.tolist(),
                self.kept.to_state(),
            ]
        fitted = self.evaluation.rows > 0
        self.checkpoint.save(
            self.position,
            model=storage.learner_tree(self.model) if fitted else None,
            evaluation=self.evaluation.to_state(),
            baseline=[self.baseline.model.to_state(), self.baseline.to_state()],
            predictions=place,
            finished=self.finished,
        )

    def _resume(self) -> dict[str, Any] | None:
        assert self.checkpoint is not None
        tree = self.checkpoint.load()
        if tree is None:
            return None
        if tree["model"] is not None:
            self.model = storage.learner_from_tree(tree["model"], self.checkpoint.path)
        self.evaluation = self._evaluation()
        self.evaluation.restore(tree["evaluation"])
        model, evaluation = tree["baseline"]
        self.baseline.model.restore(model)
        self.baseline.restore(evaluation)
        self.position = self.resumed = int(tree["rows"])
        self.finished = tree["finished"]
        what = "the run was finished" if self.finished else "the run goes on"
        screen.note(f"{what} after {self.position:,} rows", self.console)
        return tree

    def _predictions_file(
        self, path: Path, resume: dict[str, Any] | None
    ) -> PredictionsFile | StandardOutput:
        layout = Layout(
            self.stream.target_type,
            intervals=self.job.interval is not None,
            probabilities=self.evaluation.probabilities,
            kept=self.stream.kept_types(),
        )
        if layout.probabilities and resume is None:
            layout.classes = self.stream.known_labels()
        if str(path) == STANDARD_OUTPUT:
            return StandardOutput(layout, lines=self.as_json)
        file = PredictionsFile(path, layout, resumable=self.checkpoint is not None)
        if resume is None:
            file.start()
        elif not (self.finished and file.finished):
            rows, size, *more = resume["predictions"]
            if more:  # snapshots of older versions have no more
                layout.classes = None if more[0] is None else np.asarray(more[0])
                self.kept.restore(more[1])
            file.resume(rows, size)
        return file

    def _stop(self, stopped: Stopped) -> CommandError:
        """Between two blocks: a last snapshot."""
        assert self.checkpoint is not None
        if self.position % self.stream.rows == 0 and self.position > self.checkpoint.rows:
            self._snapshot()
        return CommandError(
            f"stopped by {stopped.name}; {self.checkpoint.advice()}", 128 + stopped.number
        )
