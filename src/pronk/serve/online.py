"""A model that is online: its learner, its scores, its version, and the one way it learns.

Live requests and the replay of a journal go through the same `learn`, block by block, so that a
replay gives the same bits.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.calibration import at_coverage
from pronk.core.state import Count, Numbers, Part, Sizes, Stateful, checked_count, require
from pronk.estimators import files
from pronk.evaluate.baselines import RunningMajority, RunningMean
from pronk.evaluate.forecasts import Items
from pronk.evaluate.metrics import DEFAULTS, METRICS
from pronk.serve import rows as answers
from pronk.serve import spec
from pronk.serve.journal import LABEL, Entry, ModelRow
from pronk.serve.rows import Answer, Columns, label_kind, targets

# ----------------------------------------------------------------------------------------
# How a model did so far: loss of the predictions that were given, beside a baseline's.
#
# A row is scored with the prediction that was returned for it, also when its label came later. The
# curve has at most 240 pieces of equally many rows; when they are full, neighbours are joined.

Array = NDArray[np.float64]

MOST_PIECES = 240
FIRST_LENGTH = 16


class LossCurve(Stateful):
    """Sums along the stream in pieces of equal length, which doubles when there are too many."""

    def __init__(self, series: int) -> None:
        self.length = FIRST_LENGTH
        self.rows = 0
        self.sums = np.zeros((0, series))

    def add(self, values: Array) -> None:
        """Some rows, (rows, series)."""
        while self.rows + len(values) > MOST_PIECES * self.length:
            self._join()
        first, end = self.rows // self.length, self.rows + len(values)
        more = -(-end // self.length) - len(self.sums)
        if more > 0:
            self.sums = np.concatenate([self.sums, np.zeros((more, values.shape[1]))])
        starts = np.arange(first * self.length, end, self.length) - self.rows
        self.sums[first:] += np.add.reduceat(values, np.maximum(starts, 0))
        self.rows = end

    def _join(self) -> None:
        padded = np.concatenate([self.sums, np.zeros((len(self.sums) % 2, self.sums.shape[1]))])
        self.sums = padded[::2] + padded[1::2]
        self.length *= 2

    def points(self) -> tuple[list[int], Array]:
        """Where each piece ends, and the means over it."""
        ends = np.minimum(np.arange(1, len(self.sums) + 1) * self.length, self.rows)
        counts = np.diff(np.concatenate([[0], ends]))
        return ends.tolist(), self.sums / counts[:, None]

    STATE = (
        Count("length", "length", low=FIRST_LENGTH),
        Count("rows", "rows"),
        Numbers("sums", ("pieces", "series"), "sums", low=0.0, high=math.inf),
    )

    def _sizes(self) -> dict[str, int]:
        return {"series": self.sums.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        pieces = -(-self.rows // self.length)
        require(pieces <= MOST_PIECES, f"length is too small for {self.rows} rows")
        require(sizes["pieces"] == pieces, f"sums has {sizes['pieces']} pieces, not {pieces}")


class LiveScores(Stateful):
    """Mean losses of all rows, of the baseline, the share of intervals that held, and the curve."""

    def __init__(self, task: str) -> None:
        self.names = DEFAULTS[task]
        self.rows = 0
        self.totals = np.zeros(len(self.names))
        self.baseline_totals = np.zeros(len(self.names))
        self.covered = [0, 0]  # intervals, and those that held the label
        self.baseline: Any = RunningMean() if task == "regression" else RunningMajority()
        self.curve = LossCurve(2)

    def add(
        self, y: NDArray[Any], predictions: NDArray[Any], lower: Array | None, upper: Array | None
    ) -> None:
        """Rows that were learned."""
        naive = self.baseline.predict_then_learn(y, y)
        losses = self._losses(y, predictions)
        baseline = self._losses(y, naive)
        self.rows += len(y)
        self.totals = self.totals + losses.sum(axis=0)
        self.baseline_totals = self.baseline_totals + baseline.sum(axis=0)
        self.curve.add(_side_by_side([losses[:, 0], baseline[:, 0]]))
        if lower is not None and upper is not None:
            known = ~np.isnan(lower)
            held = int(((lower <= y) & (y <= upper))[known].sum())
            self.covered = [self.covered[0] + int(known.sum()), self.covered[1] + held]

    def _losses(self, y: NDArray[Any], predictions: NDArray[Any]) -> Array:
        return _side_by_side([METRICS[name].rows(y, predictions) for name in self.names])

    def metrics(self) -> dict[str, Any]:
        """For people and machines; null before the first row."""
        found: dict[str, Any] = {"rows": self.rows}
        for name, total, naive in zip(self.names, self.totals, self.baseline_totals, strict=True):
            found[name] = _mean(float(total), self.rows)
            found[f"{name}_baseline"] = _mean(float(naive), self.rows)
        if self.covered[0]:
            found["coverage"] = self.covered[1] / self.covered[0]
        return found

    STATE = (
        Count("rows", "rows"),
        Numbers("totals", ("metrics",), "totals", low=0.0, high=math.inf),
        Numbers("baseline_totals", ("metrics",), "baseline_totals", low=0.0, high=math.inf),
        Items("intervals", "covered", out=int, back=checked_count),
        Part("baseline", "baseline"),
        Part("curve", "curve"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"metrics": len(self.names)}

    def _restored(self, sizes: Sizes) -> None:
        pair = len(self.covered) == 2 and self.covered[1] <= self.covered[0] <= self.rows
        require(pair, "intervals are not how many there were and how many held")
        require(self.curve.rows == self.rows, "curve is of other rows")


def _side_by_side(columns: list[Array]) -> Array:
    """Columns as a matrix; `numpy.column_stack` takes longer than the losses."""
    found = np.empty((len(columns[0]), len(columns)))
    for place, column in enumerate(columns):
        found[:, place] = column
    return found


def _mean(total: float, rows: int) -> float | None:
    mean = total / rows if rows else math.nan
    return mean if math.isfinite(mean) else None


#: Rows learned at a stretch: predictions wait no longer than for these.
PIECE = 1000
#: What a learner raises about rows it does not take; it is then as it was.
REFUSALS = (ValueError, TypeError, ArithmeticError)


class FairLock:
    """A lock that goes to who has waited for it: one thread that takes it again and again, as a
    writer does between the pieces of a block, lets the others pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # held by the next one

    def __enter__(self) -> None:
        with self._turn:
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def let_pass(self) -> None:
        """Let those that wait have the lock first; it is held before and after."""
        self.__exit__()
        self.__enter__()


class Known(NamedTuple):
    """What a snapshot records of the folder: the journal's last number, the models' versions."""

    sequence: int
    versions: dict[str, int]


class Online:
    """One model. Its lock is held while it learns a piece or predicts a request."""

    def __init__(self, row: ModelRow) -> None:
        self.number, self.name, self.created = row.number, row.name, row.created
        self.spec = spec.read(row.spec)
        self.columns = Columns(self.spec)
        self.learner = spec.build(self.spec)
        self.scores = LiveScores(self.spec.task)
        self.version = row.start
        self.snapshot = row.start  # the version of the last snapshot
        self.rows_since_snapshot = 0
        self.waiting = 0  # predictions whose label has not come
        self.broken: str | None = None  # why it cannot be used
        #: Answers of learned blocks, by block, that go with the model's next transaction.
        self.unwritten: dict[int, list[Answer]] = {}
        self.known: Known | None = None  # what its snapshot recorded, of one that was restored
        self.verified: set[tuple[Any, ...]] = set()  # snapshots that were read back
        self.lock = FairLock()

    @property
    def fitted(self) -> bool:
        return self.learner is not None and bool(self.learner.__sklearn_is_fitted__())

    @property
    def inner(self) -> Any:
        """The learner behind its preparation."""
        return getattr(self.learner, "learner_", self.learner)

    @property
    def label_kind(self) -> str | None:
        """Of a classifier that has learned: text, number or boolean."""
        seen = getattr(self.scores.baseline, "counts", None)
        return label_kind(next(iter(seen))) if seen else None

    @property
    def labels(self) -> Collection[Any]:
        """The labels that a classifier has learned, here or before it came as a file."""
        counts: Collection[Any] = getattr(self.scores.baseline, "counts", ())
        if self.spec.algorithm == spec.FILE and self.fitted:
            return {*counts, *self.learner.classes_.tolist()}
        return counts

    @property
    def most_labels(self) -> int:
        """Labels that a classifier may have; a keyed one over all its keys."""
        learner = self.learner
        while hasattr(learner, "learner"):  # behind its preparation, or the template of the keys
            learner = learner.learner
        return int(learner.max_classes)

    @property
    def points(self) -> int:
        """Points held now."""
        return int(self.learner.size_) if self.fitted else 0

    # -- predicting ------------------------------------------------------------------------------

    def predict(self, packed: bytes) -> Answer:
        """The answer to rows now; changes nothing. Before the first label there is none: null."""
        X = self.columns.matrix(packed)
        with self.lock:
            version = self.version
            if not self.fitted:
                return Answer(version, [None] * len(X), untrained=True)
            P = self.learner.predict(X)
            answer = Answer(version, finite_or_none(P))
            if hasattr(self.learner, "predict_interval"):
                ends = self.learner.predict_interval(X, self.spec.coverage)
                answer.lower, answer.upper = _ends(ends)
            if hasattr(self.inner, "predict_proba"):
                answer.probability = self.learner.predict_proba(X).tolist()
                answer.classes = self.learner.classes_.tolist()
        return answer

    # -- learning --------------------------------------------------------------------------------

    def learn(self, entries: Sequence[Entry]) -> list[Answer]:
        """Learn the entries of one block, in order; their answers.

        Rows that the learner does not take are an answer with an error, and change nothing. Which
        ones that are follows from the state alone, so a replay finds the same ones.
        """
        found = []
        for some in self._portions(entries):
            try:
                found += self._learn_together(some)
            except REFUSALS as error:
                if len(some) == 1:
                    text = " ".join(str(error).split())
                    found.append(Answer(some[0].sequence, [], error=text))
                else:
                    found += [answer for entry in some for answer in self.learn([entry])]
            self.version = some[-1].sequence
        return found

    def _portions(self, entries: Sequence[Entry]) -> list[list[Entry]]:
        """Entries of up to a piece of rows together: a learner that refuses is as it was."""
        found: list[list[Entry]] = []
        rows = 0
        for entry in entries:
            rows += entry.size
            if not found or rows > PIECE:
                found.append([])
                rows = entry.size
            found[-1].append(entry)
        return found

    def relearn(self, entries: Sequence[Entry], stored: list[Answer] | None) -> list[Answer]:
        """A block of the journal again; ``stored`` are its answers, if they were kept."""
        return self.learn(entries)

    def _learn_together(self, entries: Sequence[Entry]) -> list[Answer]:
        parts = [self.columns.matrix(entry.rows or b"") for entry in entries]
        X = np.concatenate(parts) if len(parts) > 1 else parts[0]
        y = self._targets(entries)
        P, ends = self._pass(entries, X, y)
        self.rows_since_snapshot += len(X)
        return self._answers(entries, y, P, ends)

    def _targets(self, entries: Sequence[Entry]) -> NDArray[Any]:
        return targets([entry.labels or b"" for entry in entries], self.spec.task)

    def _pass(
        self, entries: Sequence[Entry], X: Array, y: NDArray[Any]
    ) -> tuple[NDArray[Any], Array | None]:
        """Predict then learn all rows, piece by piece; the lock is free between pieces."""
        before = copy.deepcopy(self.learner) if len(X) > PIECE else None
        pieces = []
        try:
            for start in range(0, len(X), PIECE):
                rows = slice(start, start + PIECE)
                with self.lock:
                    pieces.append(self._walk(X[rows], y[rows]))
        except BaseException:
            if before is not None:
                with self.lock:
                    self.learner = before
            raise
        P = np.concatenate([piece[0] for piece in pieces])
        ends = None if pieces[0][1] is None else np.concatenate([piece[1] for piece in pieces])
        return P, ends

    def _walk(self, X: Array, y: NDArray[Any]) -> tuple[NDArray[Any], Any]:
        """Predictions, and the intervals around them where the learner has intervals."""
        P = np.asarray(self.learner.predict_then_learn(X, y))
        if not hasattr(self.inner, "predict_interval"):
            return P, None
        half = at_coverage(self.inner._model.last_widths, self.spec.coverage)[:, 0]
        return P, np.stack([P - half, P + half], axis=1)

    def _answers(
        self, entries: Sequence[Entry], y: NDArray[Any], P: NDArray[Any], ends: Array | None
    ) -> list[Answer]:
        """One answer per entry; a prediction that was given before its label stands as it was."""
        given = P.astype(object) if P.dtype.kind != "f" else P.copy()
        predictions = finite_or_none(P)
        lower = upper = None
        if ends is not None:
            lower, upper = ends[:, 0].copy(), ends[:, 1].copy()
        found, start = [], 0
        for entry in entries:
            rows = slice(start, start + entry.size)
            start += entry.size
            if entry.kind == LABEL and entry.answer is not None:
                earlier = answers.unpack(entry.answer)
                earlier.version = entry.sequence
                given[rows] = self._scored(earlier.prediction)
                if lower is not None and upper is not None:
                    lower[rows] = np.nan if earlier.lower is None else earlier.lower
                    upper[rows] = np.nan if earlier.upper is None else earlier.upper
                found.append(earlier)
                continue
            answer = Answer(entry.sequence, predictions[rows])
            if lower is not None and upper is not None:
                answer.lower, answer.upper = _ends(np.stack([lower[rows], upper[rows]], axis=1))
            found.append(answer)
        self.scores.add(y, given, lower, upper)
        return found

    def _scored(self, predictions: list[Any]) -> list[Any]:
        """Predictions as they are scored: where a regressor had none it counts as 0."""
        if self.spec.task != "regression":
            return predictions
        return [0.0 if value is None else value for value in predictions]

    # -- keeping ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Let what is not in the snapshot's file reach the disk; here nothing."""

    def close(self) -> None:
        """Leave the files, if there are any."""

    def tree(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        known = self.fitted and self.spec.key is None
        return {
            "model": files.learner_tree(self.learner) if known else None,
            "scores": self.scores.to_state(),
            "sequence": self.version,
            "name": self.name,
            "spec": spec.canonical(self.spec),
        }

    def restore(self, tree: dict[str, Any], path: Any) -> None:
        """Go on from a snapshot; a ValueError if it is none of this model."""
        entries = {"model", "scores", "sequence", "name", "spec", "journal", "versions"}
        require(set(tree) == entries, "entries are missing")
        require(tree["name"] == self.name, "it is of another model")
        own = spec.canonical(spec.read(tree["spec"])) == spec.canonical(self.spec)
        require(own, "it is of a model of another kind")
        sequence = checked_count(tree["sequence"], "sequence")
        if tree["model"] is not None:
            learner = files.learner_from_tree(tree["model"], path)
            require(self._fits(learner), "its learner is of another kind")
            self.learner = learner
        self.scores.restore(tree["scores"])
        self.known = _known(tree)
        self.version = self.snapshot = sequence
        self.rows_since_snapshot = 0

    def _fits(self, learner: Any) -> bool:
        """Whether a learner is of the kind that the spec makes, for these columns."""
        fresh, width = self.learner, len(self.columns.names)
        same = fresh is None or (
            type(learner) is type(fresh)
            and type(getattr(learner, "learner", None)) is type(getattr(fresh, "learner", None))
        )
        classifies = hasattr(getattr(learner, "learner_", learner), "classes_")
        task = classifies == (self.spec.task == "classification")
        return bool(same and task and learner.n_features_in_ == width)


def finite_or_none(predictions: NDArray[Any]) -> list[Any]:
    """Predictions as a list; None where there is none."""
    found: list[Any] = predictions.tolist()
    if predictions.dtype.kind == "f" and not np.isfinite(predictions).all():
        found = [value if np.isfinite(value) else None for value in found]
    return found


def _known(tree: dict[str, Any]) -> Known:
    """What a snapshot recorded of its folder."""
    versions = tree["versions"]
    require(isinstance(versions, dict), "versions are no table")
    counts = {str(name): checked_count(value, "versions") for name, value in versions.items()}
    return Known(checked_count(tree["journal"], "journal"), counts)


def _ends(ends: Array) -> tuple[list[float | None], list[float | None]]:
    finite = np.isfinite(ends)
    values = np.where(finite, ends, 0.0).tolist()
    known = finite.tolist()
    lower = [value[0] if good[0] else None for value, good in zip(values, known, strict=True)]
    upper = [value[1] if good[1] else None for value, good in zip(values, known, strict=True)]
    return lower, upper
