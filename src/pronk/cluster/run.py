"""Pass a squared-loss learner over a stream that the workers of a cluster read themselves.

The stream is cut into pieces of a given number of rows. The first blocks are learned here: after
them the learner knows its columns. Then the pieces are the partitions of a pipeline
(`parallel.pipeline`):

    points    tasks find the rows that a growing dictionary may accept, against its points at the
              start of a stretch; these candidates are visited here, in order
    sums      a task: what the piece adds to the sums
    scan      here: the model at the start of the piece
    rows      a task: the ordinary learner from there, its predictions
    collect   here, in order: the predictions, and the model behind the piece for a checkpoint

A task is a pure function of where the rows are and of the bytes of a model, so a task of a lost
worker is run again by another one. Rows never go through the scheduler.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk import parallel
from pronk.cluster.pool import ClusterPool
from pronk.core.checks import without_gaps, without_label
from pronk.core.linalg import add_products
from pronk.core.runtime import limited
from pronk.estimators import files
from pronk.estimators.estimator import OnlineLearner
from pronk.evaluate.evaluation import Evaluation
from pronk.newton.certificate import merge_ledgers
from pronk.newton.spaces import CHUNK, GrowingFeatures
from pronk.parallel.newton import FixedMap, accept, grow, span_map
from pronk.parallel.partition import Element, FirstRows, Partition, Sums
from pronk.parallel.pipeline import PartitionedPass, Task

Array = NDArray[np.float64]
Blocks = Iterable[tuple[Array, NDArray[Any]]]

#: Rows of a piece by default: a task should take a second or more.
PIECE_ROWS = 1 << 17


# -- tasks: rows of a stream ---------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Rows ``start`` to ``stop`` of a stream."""

    start: int
    stop: int

    def __str__(self) -> str:
        return f"rows {self.start:,} to {self.stop - 1:,}"


def blocks(stream: Any, piece: Piece) -> Iterator[tuple[Array, NDArray[Any]]]:
    """Yield the blocks of a piece."""
    left = piece.stop - piece.start
    for X, y, *_ in stream.blocks(piece.start):
        yield X[:left], y[:left]
        left -= len(y)
        if left <= 0:
            return


def with_label(given: Blocks) -> Iterator[tuple[Array, NDArray[Any]]]:
    """Yield blocks without the rows that have no label."""
    for X, y in given:
        missing = without_label(y)
        if missing is None:
            yield X, y
        elif not missing.all():
            yield np.ascontiguousarray(X[~missing]), without_gaps(y[~missing])


def task_on_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a task with one BLAS thread; an error of the stream names the piece."""

    @wraps(function)
    def run(stream: Any, piece: Piece, *arguments: Any) -> Any:
        try:
            with limited:
                return function(stream, piece, *arguments)
        except ValueError as error:
            raise type(error)(f"{error} (in {piece})") from None

    return run


# -- tasks: candidates, sums, rows ---------------------------------------------------------------


@dataclass(frozen=True)
class Candidates:
    """Rows that a dictionary may accept: their numbers among the labelled rows, and the rows."""

    labelled: int
    numbers: NDArray[np.int64]
    rows: Array
    uniforms: Array


@task_on_rows
def find_candidates(stream: Any, piece: Piece, model: bytes, ahead: int) -> Candidates:
    """Return the rows that a model's dictionary may accept.

    The dictionary has not read the ``ahead`` labelled rows before the piece.
    """
    dictionary = files.from_bytes(model, "a model of a task")._model.dictionary
    dictionary.draw(ahead)
    numbers, rows, uniforms, count = [], [], [], 0
    for X, _ in with_label(blocks(stream, piece)):
        for i in range(0, len(X), CHUNK):
            part = X[i : i + CHUNK]
            own = dictionary.draw(len(part))
            found = np.flatnonzero(dictionary.would_accept(part, own))
            numbers.append(count + found)
            rows.append(part[found])
            uniforms.append(own[found] if len(own) else own)
            count += len(part)
    if not numbers:
        return Candidates(0, np.empty(0, np.int64), np.empty((0, 0)), np.empty(0))
    return Candidates(count, *(np.concatenate(parts) for parts in (numbers, rows, uniforms)))


@dataclass(frozen=True)
class PieceSums:
    """How many rows a piece has, and what the labelled ones add: sum phi phi' and sum phi y'.

    For a classifier H has one column per label, the sum of the features of its rows; the labels
    are in the order of their first rows.
    """

    rows: int
    labelled: int
    G: Array
    H: Array
    labels: NDArray[Any] | None


@task_on_rows
def sum_piece(stream: Any, piece: Piece, model: bytes, first_rows: FirstRows) -> PieceSums:
    """Return what a piece adds to the sums of a model; ``first_rows`` count labelled rows."""
    learner = files.from_bytes(model, "a model of a task")
    engine, outputs = learner._model, learner._model.learner.outputs
    features: Any = span_map(engine, first_rows) if grows(engine) else FixedMap(engine)
    size = len(features.first_rows)
    G, count, read = np.zeros((size, size), order="F"), 0, 0

    def counted() -> Iterator[tuple[Array, NDArray[Any]]]:
        nonlocal read
        for X, y in blocks(stream, piece):
            read += len(y)
            yield X, y

    names: list[Any] = []
    columns: list[Array] = [] if classifies(learner) else [np.zeros((size, outputs))]
    for X, y in with_label(counted()):
        part = Partition(count, count + len(y), (count,), features.first_rows)
        Phi = np.zeros((len(y), size))
        masked = part.masked(features(X))
        Phi[:, : masked.shape[1]] = masked
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
    return PieceSums(read, count, G, H, np.array(names) if classifies(learner) else None)


@dataclass(frozen=True)
class PieceOutcome:
    """The targets and predictions of a piece, and the ledger of its losses."""

    targets: NDArray[Any]
    predictions: NDArray[Any]
    ledger: Array


@task_on_rows
def learn_piece(stream: Any, piece: Piece, model: bytes) -> PieceOutcome:
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
    """Return whether the feature space of an engine grows."""
    return isinstance(engine, GrowingFeatures)


def classifies(learner: Any) -> bool:
    """Return whether a fitted learner is a classifier."""
    return hasattr(learner, "classes_")


# -- the pass ------------------------------------------------------------------------------------


@dataclass
class Advance:
    """The rows of a stream that were predicted and learned since the last one."""

    rows: int  # of the stream that are done now
    targets: NDArray[Any]
    predictions: NDArray[Any]
    behind: bytes  # the model behind them, without
    ledger: Array  # its losses

    def model(self) -> Any:
        """Return the model behind the rows."""
        model = files.from_bytes(self.behind, "a model of a task")
        model._model.learner.ledger[:] = self.ledger
        return model


class ClusterPass:
    """Predict then learn a stream on a cluster.

    Parameters
    ----------
    model : a PKAWV learner, new or fitted
    stream : an object with ``blocks(skip)``, such as `FileStream`; the workers read it
    client : a Dask ``Client``, or an executor of `concurrent.futures`
    rows : int
        Rows of a piece, a whole number of the stream's blocks.
    workers : int
        Bounds the pieces in flight, about two per worker; no effect on any result.
    """

    def __init__(
        self, model: Any, stream: Any, client: Any, *, rows: int | None = None, workers: int = 4
    ) -> None:
        if not isinstance(model, OnlineLearner):
            raise ValueError(
                f"a {type(model).__name__} cannot run on a cluster: it prepares columns in the "
                f"order of the rows; prepare them beforehand, or use scale=none; {parallel.ADVICE}"
            )
        self.model: Any = copy.deepcopy(model)
        self.stream, self.pool = stream, ClusterPool(client, workers)
        block = int(getattr(stream, "rows", 1))
        self.rows = max(1, (rows or PIECE_ROWS) // block) * block

    def run(self, done: int = 0) -> Iterator[Advance]:
        """Yield the predictions after the first ``done`` rows of the stream, in order."""
        if not self.model.__sklearn_is_fitted__() or not self.model._bandwidth_is_final:
            part = self._learn_first_blocks(done)
            if part is None:
                return
            yield part
            if not self.model._bandwidth_is_final:  # the stream is shorter than the first rows
                return
            done = part.rows
        self._check()
        yield from _Pass(self.model, self.stream, self.pool, self.rows, done).run()

    def _check(self) -> None:
        reason = parallel.why_sequential(getattr(self.model._model, "inner", self.model._model))
        if reason is not None:
            name = type(self.model).__name__
            raise ValueError(f"the pass of {name} cannot be split: {reason}; {parallel.ADVICE}")

    def _learn_first_blocks(self, done: int) -> Advance | None:
        """Learn blocks here until one had a label and the bandwidth is known."""
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


@dataclass
class _Sent:
    """A piece on its way: the features at its end, and after the scan the model there."""

    piece: Piece
    features: bytes  # a model without sums
    first_rows: FirstRows
    behind: bytes = b""


class _Pass(PartitionedPass[_Sent, Advance]):
    """Take the pieces of a stream after its first ``done`` rows through the pipeline."""

    def __init__(self, model: Any, stream: Any, pool: ClusterPool, rows: int, done: int) -> None:
        super().__init__(pool, pool.most)
        self.stream, self.rows, self.done = stream, rows, done
        self.model = model  # as it is behind the last piece that was scanned
        self.ledger = model._model.learner.ledger.copy()
        model._model.learner.settle()
        model._model.learner.ledger[:] = 0.0
        self.start = files.to_bytes(model)
        self.ended = False  # whether a scan has found the end of the stream

    def _task(self, function: Any, piece: Piece, *arguments: Any) -> Task:
        stream = self.stream.at(piece.start) if hasattr(self.stream, "at") else self.stream
        return function, stream, piece, *arguments

    # -- points ahead of the sums ---------------------------------------------------------------

    def partitions(self) -> Iterator[_Sent]:
        chooser = files.from_bytes(self.start, "a model of a task")  # its dictionary reads ahead
        features, length, done = self.start, 1, self.done
        while not self.ended:
            starts = [done + i * self.rows for i in range(length)]
            stretch = [Piece(start, start + self.rows) for start in starts]
            for part in self._stretch(chooser, features, stretch):
                features = part.features
                yield part
                if self.ended:
                    return
            done += length * self.rows
            length = min(2 * length, self.most)

    def _stretch(self, chooser: Any, features: bytes, stretch: list[Piece]) -> Iterator[_Sent]:
        """Yield pieces with the features at their ends; ``features`` are those of the start."""
        engine = chooser._model
        if not grows(engine) or engine.dictionary.full:
            size = engine.nystrom.size if grows(engine) else engine.learner.size
            for piece in stretch:
                yield _Sent(piece, features, np.full(size, -1))
            return
        pending = [
            self.tasks.submit(*self._task(find_candidates, piece, features, i * self.rows))
            for i, piece in enumerate(stretch)
        ]
        read = 0
        for i, piece in enumerate(stretch):
            found: Candidates = pending[i].result()
            if read != i * self.rows:  # rows before without a label: these have other uniforms
                again = self._task(find_candidates, piece, features, read)
                found = self.tasks.submit(*again).result()
            old = np.full(engine.nystrom.size, -1, dtype=np.int64)
            with limited:
                new = _read_candidates(engine, found)
            yield _Sent(piece, _without_sums(chooser), np.concatenate((old, new)))
            read += found.labelled

    # -- steps ----------------------------------------------------------------------------------

    def sum_task(self, part: _Sent) -> Task:
        return self._task(sum_piece, part.piece, part.features, part.first_rows)

    def scan(self, part: _Sent, summed: PieceSums) -> Task | None:
        if self.ended or not summed.rows:
            self.ended = True
            return None
        self.ended = summed.rows < self.rows
        part.piece = Piece(part.piece.start, part.piece.start + summed.rows)
        start, self.start = self.start, self._moved_behind(part, summed)
        part.behind = self.start
        return self._task(learn_piece, part.piece, start)

    def _moved_behind(self, part: _Sent, summed: PieceSums) -> bytes:
        """Add the points and the sums of a piece to the model; return its bytes."""
        engine = self.model._model
        newton = engine.learner
        with limited:
            if grows(engine):
                if engine.dictionary.full:
                    engine.dictionary.draw(summed.labelled)
                else:
                    after = files.from_bytes(part.features, "a model of a task")._model
                    engine.dictionary, engine.nystrom = after.dictionary, after.nystrom
            H = summed.H
            if summed.labels is not None and len(summed.labels):
                H = _with_targets(self.model, summed)
            sums = Sums(*newton.sums).after(Element(1.0, summed.G, H), newton.alpha)
            newton.continue_from(sums.A, sums.b)
        self.model.n_seen_ += summed.labelled
        return files.to_bytes(self.model)

    def collect(self, part: _Sent, learned: PieceOutcome) -> list[Advance]:
        if learned.ledger.shape != self.ledger.shape:  # classes were discovered meanwhile
            self.ledger.resize(learned.ledger.shape, refcheck=False)
        merge_ledgers(self.ledger, learned.ledger)
        stop, ledger = part.piece.stop, self.ledger.copy()
        return [Advance(stop, learned.targets, learned.predictions, part.behind, ledger)]


def _read_candidates(engine: Any, found: Candidates) -> NDArray[np.int64]:
    """Let a dictionary read the candidates of a piece; return the first rows of coordinates."""
    accepted = accept(engine, found.rows, found.uniforms)
    engine.dictionary.draw(found.labelled)
    # `grow` counts candidates, plus the lag.
    places = np.array(grow(engine, found.rows, accepted), dtype=np.int64) - engine.lag
    return np.asarray(found.numbers[places] + engine.lag, dtype=np.int64)


def _without_sums(model: Any) -> bytes:
    """Return the bytes of a model with its points and its map, and sums of no rows."""
    twin = copy.copy(model)
    twin._model = copy.copy(model._model)
    learner = copy.copy(model._model.learner)
    size = twin._model.nystrom.size
    learner.continue_from(learner.alpha * np.eye(size), np.zeros((size, learner.outputs)))
    twin._model.learner = learner
    return files.to_bytes(twin)


def _with_targets(learner: Any, summed: PieceSums) -> Array:
    """Turn sums of features by label into sums of features times targets; adopt new labels."""
    labels = summed.labels
    assert labels is not None
    _, _, after = learner._labels.receive(labels, len(labels), learner.max_classes)
    if after.classes is not learner._labels.classes:
        learner._model.remap(learner._labels.matrix(after))
    learner._labels = after
    return np.asarray(summed.H @ after.targets(labels))
