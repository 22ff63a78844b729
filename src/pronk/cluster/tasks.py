"""The tasks of a pass on a cluster: pure functions of where the rows are and of a model's bytes.

A lost task can be done again anywhere. A task reads its rows itself; what comes back is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.newton import split
from pronk.engines.newton.ahead import FixedMap, span_map
from pronk.engines.newton.embedded import GrowingFeatures
from pronk.estimators import storage
from pronk.evaluate.evaluation import Evaluation
from pronk.parts.linalg import add_products
from pronk.parts.missing import without_gaps, without_label
from pronk.parts.threads import limited

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
    for X, y in stream.blocks(piece.start):
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
    dictionary = storage.from_bytes(model, "a model of a task")._model.dictionary
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
    learner = storage.from_bytes(model, "a model of a task")
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
        part = split.Partition(count, count + len(y), (count,), features.births)
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
    learner = storage.from_bytes(model, "a model of a task")
    evaluation = Evaluation(learner, predictions=True, memory=False, portrait=False)
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
