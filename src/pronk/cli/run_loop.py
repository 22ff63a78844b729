"""The loop of `pronk run`: blocks, its output files, snapshots and signals between blocks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from rich.console import Console

from pronk.cli import screen
from pronk.cli.checkpoint import Checkpoint, damage_reported, without_part
from pronk.cli.inputs import LearnedFile, LearnedInput, add_input, input_files
from pronk.cli.models import check_weights
from pronk.cli.on_alarm import OnAlarm
from pronk.cli.outputs import AppendedFile, BadRowsFile, MetricsFile
from pronk.cli.predictions import (
    STANDARD_OUTPUT,
    PredictionColumns,
    PredictionsFile,
    StandardOutput,
)
from pronk.cli.scale_out import KeyedRun
from pronk.cli.screen import CommandError
from pronk.core.state import require
from pronk.data import FileStream, StreamError
from pronk.data.errors import option
from pronk.data.stream import Block
from pronk.estimators.files import learner_from_tree, learner_tree
from pronk.evaluate import Evaluation, Record
from pronk.evaluate.evaluation import PIECE
from pronk.evaluate.formatting import Bar
from pronk.evaluate.metrics import usual_metrics
from pronk.evaluate.models import can
from pronk.evaluate.trace import Trace, changes_of, count_changes

if TYPE_CHECKING:
    from pronk.cli.run import RunOptions


class Stopped(BaseException):
    """Raised between two blocks after a signal to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interruptions:
    """Defers SIGINT and SIGTERM to the end of a block while a run has checkpoints.

    A second signal stops at once.
    """

    def __init__(self) -> None:
        self._working = False
        self._received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            pa.enable_signal_handlers(False)
            for sent in (signal.SIGINT, signal.SIGTERM):
                self._before[sent] = signal.signal(sent, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        self._release()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._release()
        if not self._working:
            raise Stopped(number)
        self._received = number

    def _release(self) -> None:
        for sent, handler in self._before.items():
            signal.signal(sent, handler)
        if self._before:
            pa.enable_signal_handlers(True)
        self._before = {}

    @contextmanager
    def block(self) -> Iterator[None]:
        """Process a block; a signal received meanwhile stops the run at its end."""
        self._working = True
        yield
        self._working = False
        if self._received:
            raise Stopped(self._received)


#: What must be the same for the metrics of a model to be continued.
SCORED_AS = ("the task", "--window", "the kind of probabilities", "--quantiles", "--interval")


class RunLoop:
    """One pass over a stream, from its start or from the last snapshot."""

    def __init__(
        self,
        job: RunOptions,
        stream: FileStream,
        model: Any,
        console: Console,
        as_json: bool = False,
    ) -> None:
        self.job = job
        self.stream = stream
        self.model = model
        self.console = console
        self.position = 0  # rows of the stream processed so far
        self.resumed = 0
        self.learned: list[LearnedInput] = []  # inputs that the model learned earlier
        self.files_read: list[LearnedFile] | None = None  # files that the model learns in this run
        self.finished = False
        self.checkpoint: Checkpoint | None = None
        self.as_json = as_json
        self.predictions: PredictionsFile | None = None
        self.metrics: MetricsFile | None = None
        self.bad: BadRowsFile | None = None
        self.evaluation = self._evaluation()
        self._records: list[Record] = []
        self._alarms_printed = 0
        self._on_alarm = None if job.on_alarm is None else OnAlarm(job.on_alarm, console)
        self.chosen: dict[str, Any] = {}  # parameters that were not given

    def _evaluation(self) -> Evaluation:
        shares = self.stream.task == "classification" and can(self.model, "predict_proba")
        shares = shares and self.job.by is None
        names = usual_metrics(self.stream.task, shares)
        if self.job.quantiles is not None:
            names = (*names, "pinball", "crps")
        return Evaluation(
            self.model,
            names,
            self.job.metrics_every if self.job.metrics is not None else None,
            window=self.job.window,
            predictions=self.job.predictions is not None,
            memory=self.job.metrics is not None,
            probabilities=shares,
            interval=self.job.interval,
            quantiles=self.job.quantiles,
            delay=self.job.delay,
            piece=max(PIECE, self.stream.rows),
            short_first=self.job.by is None,  # charts show no single model of --by
        )

    def resume_metrics(self, training_record: dict[str, Any]) -> None:
        """Continue the metrics of the rows that the model learned earlier."""
        with damage_reported(f"--model: {str(self.job.model)!r}", "train it again"):
            scored_as = training_record["scored_as"]
            for name, before, now in zip(SCORED_AS, scored_as, self.scored_as, strict=True):
                if before != now:
                    what = f"{name} is not that of the model"
                    screen.note(f"the metrics start over: {what}", self.console)
                    return
            self.evaluation.restore(training_record["evaluation"])
        self._alarms_printed = len(self.trace.alarms)
        self.evaluation.begin_part()

    @property
    def before(self) -> int:
        """Rows that the model learned in earlier runs."""
        part = self.evaluation.part
        return 0 if part is None else self.evaluation.rows - part[0]

    @property
    def scored_as(self) -> list[Any]:
        """The values of `SCORED_AS`."""
        evaluation, levels = self.evaluation, self.job.quantiles
        kinds = [evaluation.probabilities, None if levels is None else list(levels)]
        return [self.stream.task, self.job.window, *kinds, evaluation.interval]

    def training_record(self) -> dict[str, Any]:
        """Return what a saved model stores about its rows, to resume with others."""
        evaluation = self.evaluation.to_state(clock=False)
        return {**self._facts(), "evaluation": without_part(evaluation)}

    def _facts(self) -> dict[str, Any]:
        """Return the training record without the metrics."""
        learned = add_input(self.learned, self.files_read, self.position)
        return {
            "target": self.stream.target,
            **({"targets": self.several} if self.several else {}),
            "weight": self.stream.weight,
            "time": self.stream.time,
            "algorithm": self.job.algorithm,
            "scored_as": self.scored_as,
            "learned": [one.to_dict() for one in learned],
        }

    @property
    def several(self) -> list[str]:
        """The names of the targets if there are several, else none."""
        return self.stream.targets if len(self.stream.targets) > 1 else []

    @property
    def trace(self) -> Trace:
        """The trace of the run."""
        assert self.evaluation.trace is not None
        return self.evaluation.trace

    def run(self) -> Record:
        """Predict and learn all rows; return the last record."""
        job, resume = self.job, None
        if job.checkpoint is not None:
            paths, settings = input_files(job.reading), self._settings()
            self.checkpoint = Checkpoint(job.checkpoint, job.checkpoint_every, settings, paths)
            resume = self._resume()
        with ExitStack() as stack:
            self._open_files(stack, resume or {})
            try:
                if not self.finished:
                    self._rows(stack)
                    self.finished = True
                    # Before delayed labels are learned: rows appended to the file come before them.
                    self._snapshot()
                rest = self.evaluation.finish()
                self._records = [] if rest is None else [rest]
                self._write()
            except Stopped as stopped:
                raise self._stop(stopped) from None
            except (CommandError, StreamError) as error:
                if self.checkpoint is None or self.checkpoint.advice() in str(error):
                    raise
                code = error.code if isinstance(error, CommandError) else 2
                text = error.as_options() if isinstance(error, StreamError) else str(error)
                raise CommandError(f"{text}; {self.checkpoint.advice()}", code) from None
        if self.predictions is not None:
            self._note_late(self.predictions.layout)
        if self._on_alarm is not None:
            self._on_alarm.finish()
        return self.evaluation.record()

    def _files(self) -> dict[str, AppendedFile | None]:
        return {"predictions": self.predictions, "metrics": self.metrics, "bad": self.bad}

    def _open_files(self, stack: ExitStack, places: dict[str, Any]) -> None:
        """Create the output files, or truncate them to their positions in a snapshot."""
        job, stream = self.job, self.stream
        if job.predictions is not None:
            layout = PredictionColumns(
                stream.target_type,
                intervals=job.interval is not None,
                quantiles=job.quantiles or (),
                probabilities=self.evaluation.probabilities and job.probabilities,
                kept=stream.kept_types(),
                names=self.several,
            )
            if layout.probabilities and not places:
                layout.classes = stream.known_labels()
            printed = str(job.predictions) == STANDARD_OUTPUT
            self.predictions = (
                StandardOutput(layout, lines=self.as_json)
                if printed
                else PredictionsFile(job.predictions, layout)
            )
        if job.metrics is not None:
            self.metrics = MetricsFile(job.metrics, self.several)
        if job.skip_bad is not None:
            self.bad = BadRowsFile(job.skip_bad)
        for name, file in self._files().items():
            if file is not None:
                with damage_reported(f"--checkpoint: {str(job.checkpoint)!r}"):
                    file.begin(places.get(name))
                stack.enter_context(file)

    def _rows(self, stack: ExitStack) -> None:
        bar = stack.enter_context(Bar(self.stream, console=self.console))
        signals = Interruptions()
        if self.checkpoint is not None:
            stack.enter_context(signals)
        if isinstance(self.model, KeyedRun):
            stack.enter_context(self.model.on_workers(self.job.workers))
        for block in self.stream.blocks(self.position):
            with signals.block():
                self._block(block)
                self._write()
                bar.show(self.evaluation)
                # A shorter block precedes an invalid row or the end.
                whole = self.position % self.stream.rows == 0
                if self.checkpoint is not None and whole and self.checkpoint.due(self.position):
                    self._snapshot()

    def _block(self, block: Block) -> None:
        self._records = []
        if len(block.y):
            X = block.X
            if self.predictions is not None:
                self.predictions.kept.add(block.kept)
            if isinstance(self.model, KeyedRun):
                X = self.model.with_keys(X, block.kept)
            if self.stream.weight is not None:
                check_weights(block.weights, self.model.learner, self.job.algorithm, self.position)
            self._records = self.evaluation.feed(X, block.y, block.weights)
        self.position = block.position
        if self.bad is not None and block.bad:
            self.bad.write(block.bad)

    def _write(self) -> None:
        """Write the predictions and records of a block, and print its drift alarms."""
        swaps = count_changes(self.model).get("swaps", 0) if self._records else 0
        for record in self._records:
            if self.metrics is not None:
                self.metrics.write(record, len(self.trace.alarms), swaps)
        if self.predictions is not None:
            for record in (*self._records, self.evaluation.record()):
                if record.forecast is not None:
                    kept = self.predictions.kept.pop(len(record.forecast))
                    self.predictions.write(record.targets, record.forecast, kept)
        self._records = []
        for alarm in self.trace.alarms[self._alarms_printed :]:
            text = f"drift: the loss rose since row {alarm.since:,}, detected at row {alarm.row:,}"
            screen.note(text, self.console)
            if self._on_alarm is not None:
                facts = {"file": self.job.reading.name, "target": self.stream.target}
                last = changes_of(self.model)[-1:]
                self._on_alarm.call({**facts, **alarm.to_dict(), "changes": last})
        self._alarms_printed = len(self.trace.alarms)

    def _note_late(self, layout: PredictionColumns) -> None:
        if layout.late:
            names = ", ".join(sorted(layout.late)[:5]) + (", .." if len(layout.late) > 5 else "")
            screen.note(
                f"--predictions has no column for the probability of {names}: the header was "
                "written before the label occurred",
                self.console,
            )

    # -- snapshots -------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        """Return the options on which the result depends."""
        job = self.job
        return {
            **self.stream.decides(),
            **{option(name): value for name, value in asdict(job.preparing).items()},
            "--algorithm": job.algorithm,
            "--param": list(job.param),
            "--seed": job.seed,
            "the extension of --predictions": job.predictions and job.predictions.suffix.lower(),
            "--interval": job.interval,
            "--quantiles": None if job.quantiles is None else list(job.quantiles),
            "--model": None if job.model is None else str(job.model),
            "--delay": job.delay or None,
            "--window": job.window,
            "--metrics-every": None if job.metrics is None else job.metrics_every,
            "--no-probabilities": None if job.probabilities else True,
        }

    def _snapshot(self) -> None:
        if self.checkpoint is None:
            return
        fitted = self.model.__sklearn_is_fitted__()
        self.checkpoint.save(
            self.position,
            model=learner_tree(self.model) if fitted else None,
            evaluation=self.evaluation.to_state(),
            training_record=self._facts(),
            **{name: file and file.position() for name, file in self._files().items()},
            finished=self.finished,
        )

    def _resume(self) -> dict[str, Any] | None:
        assert self.checkpoint is not None
        tree = self.checkpoint.load()
        if tree is None:
            return None
        where = f"--checkpoint: {str(self.checkpoint.path)!r}"
        with damage_reported(where):
            if tree["model"] is not None:
                self.model = learner_from_tree(tree["model"], self.checkpoint.path)
            self.evaluation = self._evaluation()
            self.evaluation.restore(tree["evaluation"])
            known = self.evaluation.rows + self.evaluation.unlabelled
            require(self.before or known <= tree["rows"], "rows are fewer than were scored")
        self._alarms_printed = len(self.trace.alarms) if self.evaluation.trace else 0
        self.position = self.resumed = int(tree["rows"])
        grown = tree["finished"] and self.checkpoint.grown
        self.finished = tree["finished"] and not grown
        what = "the run was finished" if self.finished else "the run resumes"
        what = f"the input has grown: {what}" if grown else what
        screen.note(f"{what} after {self.position:,} rows", self.console)
        return tree

    def _stop(self, stopped: Stopped) -> CommandError:
        """Take a last snapshot between two blocks; return the error that ends the run."""
        assert self.checkpoint is not None
        if self.position % self.stream.rows == 0 and self.position > self.checkpoint.rows:
            self._snapshot()
        return CommandError(
            f"stopped by {signal.Signals(stopped.number).name}; {self.checkpoint.advice()}",
            128 + stopped.number,
        )
