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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk import parallel
from pronk.cluster.pool import result_of
from pronk.core.checks import without_gaps, without_label
from pronk.core.linalg import add_products
from pronk.core.runtime import limited
from pronk.estimators import files
from pronk.estimators.estimator import ADVICE, OnlineLearner
from pronk.evaluate.progressive import Evaluation
from pronk.newton.certificate import merge_ledgers
from pronk.newton.spaces import CHUNK, GrowingFeatures
from pronk.parallel import newton
from pronk.parallel import newton as split
from pronk.parallel.newton import FixedMap, grow, span_map

# ----------------------------------------------------------------------------------------
# The tasks of a pass on a cluster: pure functions of where the rows are and of a model's bytes.
#
# A lost task can be done again anywhere. A task reads its rows itself; what comes back is small.

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Piece:
    """Rows ``start`` to ``stop`` of a stream."""

    start: int
    stop: int


@dataclass(frozen=True)
class Asking:
    """Rows that a dictionary may accept: their numbers among the labelled ones, and themselves."""

    labelled: int
    numbers: NDArray[np.int64]
    rows: Array
    uniforms: Array


@dataclass(frozen=True)
class Contribution:
    """How many rows a piece has, and what the labelled ones add: sum phi phi' and sum phi y'.

    Of a classifier H has a column a label: the sums of the features of its rows. The labels stand
    in the order of their first rows.
    """

    rows: int
    labelled: int
    G: Array
    H: Array
    labels: NDArray[Any] | None


@dataclass(frozen=True)
class PieceOutcome:
    """The targets and predictions of a piece, and the ledger of its losses."""

    targets: NDArray[Any]
    predictions: NDArray[Any]
    ledger: Array


def blocks(stream: Any, piece: Piece) -> Iterator[tuple[Array, NDArray[Any]]]:
    """The blocks of a piece."""
    left = piece.stop - piece.start
    for X, y, *_ in stream.blocks(piece.start):
        yield X[:left], y[:left]
        left -= len(y)
        if left <= 0:
            return


def labelled(stream: Any, piece: Piece) -> Iterator[tuple[Array, NDArray[Any]]]:
    """The rows of a piece that have a label."""
    return with_label(blocks(stream, piece))


def with_label(given: Iterable[tuple[Array, NDArray[Any]]]) -> Iterator[Any]:
    """Blocks without the rows that have no label."""
    for X, y in given:
        missing = without_label(y)
        if missing is None:
            yield X, y
        elif not missing.all():
            yield np.ascontiguousarray(X[~missing]), without_gaps(y[~missing])


@limited
def ask(stream: Any, piece: Piece, model: bytes, ahead: int) -> Asking:
    """The rows that a dictionary, read so far, may accept; ``ahead`` rows were read since then."""
    dictionary = files.from_bytes(model, "a model of a task")._model.dictionary
    dictionary.draw(ahead)
    numbers, rows, uniforms, count = [], [], [], 0
    for X, _ in labelled(stream, piece):
        for i in range(0, len(X), 288):
            part = X[i : i + 288]
            coins = dictionary.draw(len(part))
            asking = np.flatnonzero(dictionary.asks(part, coins))
            numbers.append(count + asking)
            rows.append(part[asking])
            uniforms.append(coins[asking] if len(coins) else coins)
            count += len(part)
    if not numbers:
        return Asking(0, np.empty(0, np.int64), np.empty((0, 0)), np.empty(0))
    return Asking(count, *(np.concatenate(held) for held in (numbers, rows, uniforms)))


@limited
def add_up(stream: Any, piece: Piece, model: bytes, births: NDArray[np.int64]) -> Contribution:
    """What a piece adds to the sums of a model; ``births`` of coordinates count labelled rows."""
    learner = files.from_bytes(model, "a model of a task")
    engine, outputs = learner._model, learner._model.learner.outputs
    features: Any = span_map(engine, births) if grows(engine) else FixedMap(engine)
    size = len(features.births)
    G, count, read = np.zeros((size, size), order="F"), 0, 0

    def counted() -> Iterator[tuple[Array, NDArray[Any]]]:
        nonlocal read
        for X, y in blocks(stream, piece):
            read += len(y)
            yield X, y

    names: list[Any] = []
    columns: list[Array] = [] if classifies(learner) else [np.zeros((size, outputs))]
    for X, y in with_label(counted()):
        part = newton.Partition(count, count + len(y), (count,), features.births)
        Phi = np.zeros((len(y), size))
        shown = part.shown(features(X))
        Phi[:, : shown.shape[1]] = shown
        G = add_products(G, Phi)
        count += len(y)
        if not classifies(learner):
            columns[0] += Phi.T @ y.reshape(len(y), outputs)
            continue
        found, firsts = np.unique(y, return_index=True)
        for label in found[np.argsort(firsts)].tolist():
            if label not in names:
                names.append(label)
                columns.append(np.zeros((size, 1)))
            columns[names.index(label)] += Phi[y == label].sum(axis=0)[:, None]
    H = np.hstack(columns) if columns else np.zeros((size, 0))
    return Contribution(read, count, G, H, np.array(names) if classifies(learner) else None)


@limited
def learn(stream: Any, piece: Piece, model: bytes) -> PieceOutcome:
    """Predict then learn the rows of a piece with the model of its start."""
    learner = files.from_bytes(model, "a model of a task")
    evaluation = Evaluation(learner, predictions=True, memory=False, trace=False)
    for X, y in blocks(stream, piece):
        evaluation.feed(X, y)
    record = evaluation.record()
    return PieceOutcome(
        np.empty(0) if record.targets is None else record.targets,
        np.empty(0) if record.predictions is None else record.predictions,
        learner._model.learner.ledger.copy(),
    )


def grows(engine: Any) -> bool:
    """Whether the space of an engine grows."""
    return isinstance(engine, GrowingFeatures)


def classifies(learner: Any) -> bool:
    return hasattr(learner, "classes_")


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
        model = files.from_bytes(self.behind, "a model of a task")
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
        if not self.model.__sklearn_is_fitted__() or not self.model._bandwidth_is_final:
            part = self._lead_in(done)
            if part is None:
                return
            yield part
            if not self.model._bandwidth_is_final:  # the stream is shorter than the first rows
                return
            done = part.rows
        self._check()
        yield from self._pieces(done)

    def _check(self) -> None:
        reason = parallel.why_not(getattr(self.model._model, "inner", self.model._model))
        if reason is not None:
            name = type(self.model).__name__
            raise ValueError(f"the pass of {name} cannot be spread: {reason}; {ADVICE}")

    def _lead_in(self, done: int) -> Advance | None:
        """Learn the first blocks here, until one had a label and the bandwidth is known."""
        evaluation = Evaluation(self.model, predictions=True, memory=False, trace=False)
        for X, y, *_ in self.stream.blocks(done):
            evaluation.feed(X, y)
            done += len(y)
            if evaluation.rows and self.model._bandwidth_is_final:
                break
        record = evaluation.record()
        if record.predictions is None or record.targets is None:
            return None
        self._check()
        ledger = self.model._model.learner.ledger.copy()
        behind = files.to_bytes(self.model)
        return Advance(done, record.targets, record.predictions, behind, ledger)

    # -- pieces ----------------------------------------------------------------------------------

    def _pieces(self, done: int) -> Iterator[Advance]:
        ledger = self.model._model.learner.ledger.copy()
        front = self.model
        front._model.learner.settle()
        front._model.learner.ledger[:] = 0.0
        going: deque[tuple[Piece, Any, bytes]] = deque()
        for piece, start, behind in self._starts(front, done):
            going.append((piece, self._submit(learn, piece, start), behind))
            while len(going) > self.ahead or (going and going[0][1].done()):
                yield self._collect(*going.popleft(), ledger)
        while going:
            yield self._collect(*going.popleft(), ledger)

    def _starts(self, front: Any, done: int) -> Iterator[tuple[Piece, bytes, bytes]]:
        """Pieces in order, with the models at their starts and behind them."""
        stretch, start = 1, files.to_bytes(front)
        while True:
            group = [
                Piece(done + i * self.rows, done + (i + 1) * self.rows) for i in range(stretch)
            ]
            ends = self._ends(front, start, group)
            adding = [
                self._submit(add_up, piece, model, births)
                for piece, (model, births) in zip(group, ends, strict=True)
            ]
            for piece, task, (model, _) in zip(group, adding, ends, strict=True):
                added: Contribution = self._result(task, piece)
                if not added.rows:
                    return
                self._advance(front, added, model)
                behind = files.to_bytes(front)
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
        if not grows(engine) or engine.dictionary.full:
            return [(start, np.full(engine.learner.size, -1))] * len(group)
        asking = [self._submit(ask, piece, start, i * self.rows) for i, piece in enumerate(group)]
        twin = files.from_bytes(start, "a model of a task")
        ends, read = [], 0
        for i, (piece, task) in enumerate(zip(group, asking, strict=True)):
            found: Asking = self._result(task, piece)
            if read != i * self.rows:  # rows without a label came before: these have other coins
                found = self._result(self._submit(ask, piece, start, read), piece)
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
            if grows(engine):
                if engine.dictionary.full:
                    engine.dictionary.draw(added.labelled)
                else:
                    after = files.from_bytes(end, "a model of a task")._model
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
    return files.to_bytes(twin)


def _coded(learner: Any, added: Contribution) -> Array:
    """Sums of features by label as sums of features times targets; new labels get known."""
    labels = added.labels
    assert labels is not None
    _, _, after = learner._labels.receive(labels, len(labels), learner.max_classes)
    if after.classes is not learner._labels.classes:
        learner._model.remap(learner._labels.matrix(after))
    learner._labels = after
    return np.asarray(added.H @ after.targets(labels))
