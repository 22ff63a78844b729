"""The walk of `pronk run`: rows in blocks, snapshots between them, predictions to a file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from pronk.cli import screen
from pronk.cli.checkpoint import Checkpoint, Interruptions, Stopped, fingerprint
from pronk.cli.errors import CommandError
from pronk.cli.job import Job
from pronk.cli.predictions import PredictionsFile
from pronk.estimators import storage
from pronk.evaluate import Evaluation, Record, RunningMajority, RunningMean
from pronk.evaluate.progress import Bar
from pronk.streams import FileStream, StreamError
from pronk.streams.scaled import named


class Run:
    """A walk through a stream, from its start or from the last snapshot."""

    def __init__(self, job: Job, stream: FileStream, model: Any, console: Console) -> None:
        self.job = job
        self.stream = stream
        self.model = model
        self.console = console
        self.position = 0  # rows of the stream that are done
        self.resumed = 0
        self.finished = False
        self.checkpoint: Checkpoint | None = None
        self.file: PredictionsFile | None = None
        naive: Any = RunningMajority() if stream.task == "classification" else RunningMean()
        self.baseline = Evaluation(naive, memory=False)
        self.evaluation = self._evaluation()

    def _evaluation(self) -> Evaluation:
        return Evaluation(self.model, predictions=self.job.predictions is not None, memory=False)

    def walk(self) -> tuple[Record, dict[str, float]]:
        """Predict then learn all rows; the last record and the baseline's metrics."""
        job, resume = self.job, None
        if job.checkpoint is not None:
            self.checkpoint = Checkpoint(job.checkpoint, job.every, self._settings())
            resume = self._resume()
        with ExitStack() as stack:
            if job.predictions is not None:
                self.file = stack.enter_context(self._predictions_file(job.predictions, resume))
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
        self.baseline.finish()
        return self.evaluation.record(), self.baseline.record().metrics

    def _rows(self, stack: ExitStack) -> None:
        bar = Bar(self.stream, console=self.console, number=screen.number)
        stack.enter_context(bar)
        signals = Interruptions()
        if self.checkpoint is not None:
            stack.enter_context(signals)
        for X, y in self.stream.blocks(self.position):
            with signals.block():
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
        if self.file and record.predictions is not None:
            self.file.write(record.targets, record.predictions)

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
            "blocks of": self.stream.rows,
        }

    def _snapshot(self) -> None:
        if self.checkpoint is None:
            return
        if self.file is not None:
            self.file.sync()
        fitted = self.evaluation.rows > 0
        self.checkpoint.save(
            self.position,
            model=storage.learner_tree(self.model) if fitted else None,
            evaluation=self.evaluation.to_state(),
            baseline=[self.baseline.model.to_state(), self.baseline.to_state()],
            predictions=None if self.file is None else [self.file.rows, self.file.bytes],
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

    def _predictions_file(self, path: Path, resume: dict[str, Any] | None) -> PredictionsFile:
        kind, resumable = self.stream.target_type, self.checkpoint is not None
        file = PredictionsFile(path, kind, resumable=resumable)
        if resume is None:
            file.start()
        elif not (self.finished and file.finished):
            file.resume(*resume["predictions"])
        return file

    def _stop(self, stopped: Stopped) -> CommandError:
        """Between two blocks: a last snapshot."""
        assert self.checkpoint is not None
        if self.position % self.stream.rows == 0 and self.position > self.checkpoint.rows:
            self._snapshot()
        return CommandError(
            f"stopped by {stopped.name}; {self.checkpoint.advice()}", 128 + stopped.number
        )
