"""A pass over a stream by the workers of a cluster: points, sums, prefix, rows.

The stream is cut into pieces of so many rows; the cut is part of the job, so the number of workers
changes no bit. The first block is learned here: after it the learner knows its columns. Then, for
every piece,

    ask      where a dictionary grows: which rows it may accept, against the points known so far;
             the few that ask are gone through here, in order
    add_up   what the piece adds to the sums
    prefix   here: the model as it stands at the start of the piece
    learn    the ordinary learner from there: the predictions of the piece

A task is a pure function of the place of the rows and of the bytes of a model, so what a lost
worker did is done again elsewhere. Rows never go through the scheduler; predictions come back in
the order of the stream, each piece with the model behind it, which is what a checkpoint holds.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.cluster import tasks
from pronk.cluster.tasks import Asking, Contribution, Piece, PieceOutcome
from pronk.cluster.waiting import result_of
from pronk.engines import splitting
from pronk.engines.newton import split
from pronk.engines.newton.ahead import grow
from pronk.engines.newton.certificate import merge_ledgers
from pronk.engines.newton.embedded import CHUNK
from pronk.estimators import storage
from pronk.estimators.faces.base import OnlineLearner
from pronk.estimators.faces.threads import ADVICE
from pronk.evaluate.evaluation import Evaluation
from pronk.parts.threads import limited

Array = NDArray[np.float64]

#: Rows of a piece, where nothing else is said: a task should take a second or more.
PIECE_ROWS = 1 << 17


@dataclass
class Advance:
    """The rows of a stream that were predicted and learned since the last part."""

    rows: int  # of the stream that are done now
    targets: NDArray[Any]
    predictions: NDArray[Any]
    behind: bytes  # the model as it stands behind them, but for
    ledger: Array  # its losses

    def model(self) -> Any:
        """The model behind the part."""
        model = storage.from_bytes(self.behind, "a model of a task")
        model._model.learner.ledger[:] = self.ledger
        return model


class ClusterPass:
    """Predict then learn a stream on a cluster.

    Parameters
    ----------
    model : a PKAWV learner, new or one that learned before
    stream : what has ``blocks(skip)``, as `FileStream`; sent to the workers, which read it
    client : a Dask ``Client``, or an executor of `concurrent.futures`
    rows : int
        Rows of a piece, a whole number of the stream's blocks.
    workers : int
        How many pieces may be under way, about; without effect on any result.
    """

    def __init__(
        self, model: Any, stream: Any, client: Any, *, rows: int | None = None, workers: int = 4
    ) -> None:
        if not isinstance(model, OnlineLearner):
            raise ValueError(
                f"a {type(model).__name__} cannot be spread over a cluster: its columns are "
                f"prepared on the way; prepare them before, or scale=none; {ADVICE}"
            )
        self.model: Any = copy.deepcopy(model)
        self.stream, self.client = stream, client
        block = int(getattr(stream, "rows", 1))
        self.rows = max(1, (rows or PIECE_ROWS) // block) * block
        self.ahead = max(4, 2 * workers)

    def run(self, done: int = 0) -> Iterator[Advance]:
        """The parts of the stream after its first ``done`` rows, in order."""
        if not self.model.__sklearn_is_fitted__() or not self.model._settled:
            part = self._lead_in(done)
            if part is None:
                return
            yield part
            if not self.model._settled:  # the stream is shorter than the first rows
                return
            done = part.rows
        self._check()
        yield from self._pieces(done)

    def _check(self) -> None:
        reason = splitting.why_not(getattr(self.model._model, "inner", self.model._model))
        if reason is not None:
            name = type(self.model).__name__
            raise ValueError(f"the pass of {name} cannot be spread: {reason}; {ADVICE}")

    def _lead_in(self, done: int) -> Advance | None:
        """Learn the first blocks here, until one had a label and the bandwidth is known."""
        evaluation = Evaluation(self.model, predictions=True, memory=False, portrait=False)
        for X, y in self.stream.blocks(done):
            evaluation.feed(X, y)
            done += len(y)
            if evaluation.rows and self.model._settled:
                break
        record = evaluation.record()
        if record.predictions is None or record.targets is None:
            return None
        self._check()
        ledger = self.model._model.learner.ledger.copy()
        behind = storage.to_bytes(self.model)
        return Advance(done, record.targets, record.predictions, behind, ledger)

    # -- pieces ----------------------------------------------------------------------------------

    def _pieces(self, done: int) -> Iterator[Advance]:
        ledger = self.model._model.learner.ledger.copy()
        front = self.model
        front._model.learner.settle()
        front._model.learner.ledger[:] = 0.0
        going: deque[tuple[Piece, Any, bytes]] = deque()
        for piece, start, behind in self._starts(front, done):
            going.append((piece, self._submit(tasks.learn, piece, start), behind))
            while len(going) > self.ahead or (going and going[0][1].done()):
                yield self._collect(*going.popleft(), ledger)
        while going:
            yield self._collect(*going.popleft(), ledger)

    def _starts(self, front: Any, done: int) -> Iterator[tuple[Piece, bytes, bytes]]:
        """Pieces in order, with the models at their starts and behind them."""
        stretch, start = 1, storage.to_bytes(front)
        while True:
            group = [
                Piece(done + i * self.rows, done + (i + 1) * self.rows) for i in range(stretch)
            ]
            ends = self._ends(front, start, group)
            adding = [
                self._submit(tasks.add_up, piece, model, births)
                for piece, (model, births) in zip(group, ends, strict=True)
            ]
            for piece, task, (model, _) in zip(group, adding, ends, strict=True):
                added: Contribution = self._result(task, piece)
                if not added.rows:
                    return
                self._advance(front, added, model)
                behind = storage.to_bytes(front)
                yield Piece(piece.start, piece.start + added.rows), start, behind
                start = behind
                if added.rows < self.rows:
                    return
            done = group[-1].stop
            stretch = min(2 * stretch, self.ahead)

    def _ends(
        self, front: Any, start: bytes, group: list[Piece]
    ) -> list[tuple[bytes, NDArray[np.int64]]]:
        """For each piece a model whose features are those at its end, and when they were born."""
        engine = front._model
        if not tasks.grows(engine) or engine.dictionary.full:
            return [(start, np.full(engine.learner.size, -1))] * len(group)
        asking = [
            self._submit(tasks.ask, piece, start, i * self.rows) for i, piece in enumerate(group)
        ]
        twin = storage.from_bytes(start, "a model of a task")
        ends, read = [], 0
        for i, (piece, task) in enumerate(zip(group, asking, strict=True)):
            found: Asking = self._result(task, piece)
            if read != i * self.rows:  # rows without a label came before: these have other coins
                found = self._result(self._submit(tasks.ask, piece, start, read), piece)
            old = np.full(twin._model.nystrom.size, -1, dtype=np.int64)
            with limited:
                born = _take_in(twin._model, found)
            ends.append((_features_of(twin), np.concatenate((old, born))))
            read += found.labelled
        return ends

    def _advance(self, front: Any, added: Contribution, end: bytes) -> None:
        """The front moves behind a piece: its points and its sums."""
        engine = front._model
        newton = engine.learner
        with limited:
            if tasks.grows(engine):
                if engine.dictionary.full:
                    engine.dictionary.draw(added.labelled)
                else:
                    after = storage.from_bytes(end, "a model of a task")._model
                    engine.dictionary, engine.nystrom = after.dictionary, after.nystrom
            H = added.H
            if added.labels is not None and len(added.labels):
                H = _coded(front, added)
            sums = split.Sums(*newton.sums)
            after_rows = sums.after(split.Element(1.0, added.G, H), newton.alpha)
            newton.continue_from(after_rows.A, after_rows.b)
        front.n_seen_ += added.labelled

    # -- tasks -----------------------------------------------------------------------------------

    def _submit(self, function: Any, piece: Piece, *arguments: Any) -> Any:
        # Dask need not tell equal tasks by their arguments: every task is another one.
        options = {"pure": False} if hasattr(self.client, "scheduler_info") else {}
        stream = self.stream.at(piece.start) if hasattr(self.stream, "at") else self.stream
        return self.client.submit(function, stream, piece, *arguments, **options)

    def _result(self, task: Any, piece: Piece) -> Any:
        try:
            return result_of(task, self.client)
        except ValueError as error:  # a stream names what cannot be read
            rows = f"rows {piece.start:,} to {piece.stop - 1:,}"
            raise type(error)(f"{error} (in {rows})") from None

    def _collect(self, piece: Piece, task: Any, behind: bytes, ledger: Array) -> Advance:
        outcome: PieceOutcome = self._result(task, piece)
        if outcome.ledger.shape != ledger.shape:  # classes were discovered meanwhile
            ledger.resize(outcome.ledger.shape, refcheck=False)
        merge_ledgers(ledger, outcome.ledger)
        return Advance(piece.stop, outcome.targets, outcome.predictions, behind, ledger.copy())


def _take_in(engine: Any, found: Asking) -> NDArray[np.int64]:
    """Let a dictionary choose among the rows that ask; the births of the new coordinates."""
    accepted: list[int] = []
    uniforms = found.uniforms
    for i in range(0, len(found.rows), CHUNK):
        rows = np.ascontiguousarray(found.rows[i : i + CHUNK])
        K = engine.kernel(rows, engine.dictionary.points)
        coins = uniforms[i : i + CHUNK] if len(uniforms) else uniforms
        accepted += [i + row for row in engine.dictionary.scan(rows, K, coins)[0]]
    engine.dictionary.draw(found.labelled)
    born = grow(engine, found.rows, accepted)
    # `grow` counts rows of those that ask, plus the lag.
    numbers = found.numbers[np.array(born, dtype=np.int64) - engine.lag] + engine.lag
    return np.asarray(numbers, dtype=np.int64)


def _features_of(model: Any) -> bytes:
    """A model with the points and the map it has, and no sums: its learner does not fit them."""
    twin = copy.copy(model)
    twin._model = copy.copy(model._model)
    learner = copy.copy(model._model.learner)
    size = twin._model.nystrom.size
    learner.continue_from(learner.alpha * np.eye(size), np.zeros((size, learner.outputs)))
    twin._model.learner = learner
    return storage.to_bytes(twin)


def _coded(learner: Any, added: Contribution) -> Array:
    """Sums of features by label as sums of features times targets; new labels get known."""
    labels = added.labels
    assert labels is not None
    _, _, after = learner._labels.receive(labels, len(labels), learner.max_classes)
    if after.classes is not learner._labels.classes:
        learner._model.remap(learner._labels.matrix(after))
    learner._labels = after
    return np.asarray(added.H @ after.targets(labels))
