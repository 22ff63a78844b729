"""A model of the service: its learner, its scores and its version.

Requests and the replay of the journal use the same method `learn` with the same blocks, so that a
replay gives the same bits.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import without_label
from pronk.core.state import Count, Numbers, Part, Sizes, Stateful, checked_count, require
from pronk.estimators import files
from pronk.estimators.waiting import Line
from pronk.evaluate.baselines import BASELINES, describe_repeating, leads, make_baselines
from pronk.evaluate.drift import Alarm, DriftAlarm, ErrorAlarm
from pronk.evaluate.fields import Items
from pronk.evaluate.metrics import DEFAULTS, METRICS, describe_leads
from pronk.evaluate.models import labels_learned, own_delay
from pronk.evaluate.trace import SegmentSums, changes_of, count_changes
from pronk.serve import spec
from pronk.serve.journal import LABEL, Entry, ModelRow
from pronk.serve.rows import (
    Answer,
    Columns,
    label_kind,
    pack,
    pack_kept,
    targets,
    unpack_answer,
    unpack_kept,
)
from pronk.serve.spec import HTTPError, one_line

Array = NDArray[np.float64]

# -- scores ----------------------------------------------------------------------------------------

#: Rows of a segment of the loss curve at first.
FIRST_LENGTH = 16
#: Drift alarms that are kept, the newest.
MOST_ALARMS = 50

#: Rows of a call with the predictions of both baselines for them.
Known = tuple[slice, Sequence[Any]]


class LiveScores(Stateful):
    """Keep losses of a model and of two baselines, interval coverage, loss curve, drift alarms.

    A row is scored with the prediction that was returned for it, even if its label came later, and
    the baselines with the labels that they knew then: one predicts the mean or the most frequent
    label so far, the other repeats the last label. A row without a prediction is not scored, and
    the baselines are not scored in rows from before the first label that they know.
    """

    def __init__(self, task: str) -> None:
        self.task, self.names = task, DEFAULTS[task]
        self.rows = 0
        self.unpredicted = 0  # rows that are not scored
        self.compared = 0  # rows in which the baselines are scored
        self.totals = np.zeros((3, len(self.names)))  # of the model and of both baselines
        self.covered = [0, 0]  # intervals, and intervals that contained the label
        self.baseline, self.repeat = make_baselines(task)
        self.curve = SegmentSums(3, FIRST_LENGTH)
        self.drift = ErrorAlarm() if task == "regression" else DriftAlarm()
        self.alarms = 0  # all alarms so far; `drift` keeps the newest

    def add(
        self, y: NDArray[Any], predictions: NDArray[Any], lower: Array | None, upper: Array | None,
        known: Iterable[Known] = (),
    ) -> None:  # fmt: skip
        """Add learned rows; ``known`` has the baselines' predictions that were made earlier.

        Rows without a prediction (NaN or None) are only counted.
        """
        start = [] if self.rows else [(slice(0, 1), self.predict_baselines())]
        naive = [one.predict_then_learn(y, y) for one in (self.baseline, self.repeat)]
        for rows, values in (*start, *known):
            for own, value in zip(naive, values, strict=True):
                own[rows] = value
        self.rows += len(y)
        if (blind := without_label(predictions)) is not None:
            self.unpredicted += int(np.count_nonzero(blind))
            y, predictions = y[~blind], predictions[~blind]
            naive = [own[~blind] for own in naive]
            if lower is not None and upper is not None:
                lower, upper = lower[~blind], upper[~blind]
            if not len(y):
                return
        losses = self._compare(y, predictions, naive)
        if lower is not None and upper is not None:
            ends = ~np.isnan(lower)
            held = int(((lower <= y) & (y <= upper))[ends].sum())
            self.covered = [self.covered[0] + int(ends.sum()), self.covered[1] + held]
        numeric = self.task == "regression"
        before = len(self.drift.alarms)
        self.drift.add(np.abs(y - predictions) if numeric else losses[:, 0], self.unpredicted)
        self.alarms += len(self.drift.alarms) - before
        del self.drift.alarms[:-MOST_ALARMS]

    def _compare(
        self, y: NDArray[Any], predictions: NDArray[Any], naive: list[NDArray[Any]]
    ) -> Array:
        """Score the model and both baselines; return the losses of the model.

        Where the baselines know no label, their curves have the loss of the model.
        """
        losses = np.stack([self._losses(y, predictions)] * 3)  # (3, rows, metrics)
        unknown = without_label(naive[0])
        known = np.ones(len(y), bool) if unknown is None else ~unknown
        self.compared += int(np.count_nonzero(known))
        for own, values in zip(losses[1:], naive, strict=True):
            own[known] = self._losses(y[known], values[known])
        sums = np.vstack((losses[:1].sum(axis=1), losses[1:, known].sum(axis=1)))
        self.totals = self.totals + sums
        self.curve.add(losses[:, :, 0].T)
        return np.asarray(losses[0])

    def _losses(self, y: NDArray[Any], predictions: NDArray[Any]) -> Array:
        found = np.empty((len(y), len(self.names)))
        for place, name in enumerate(self.names):
            found[:, place] = METRICS[name].rows(y, predictions)
        return found

    def predict_baselines(self) -> list[Any]:
        """Return what both baselines predict for the next row; None before the first label."""
        if not self.rows:
            return [None, None]
        return [one.predict([0]).tolist()[0] for one in (self.baseline, self.repeat)]

    @property
    def scored(self) -> int:
        """Rows that are scored."""
        return self.rows - self.unpredicted

    @property
    def _counts(self) -> tuple[int, int, int]:
        """Scored rows of the model and of both baselines."""
        return self.scored, self.compared, self.compared

    def metrics(self) -> dict[str, Any]:
        """Return the scores by name; losses are None before the first scored row."""
        found: dict[str, Any] = {"rows": self.rows, "unpredicted": self.unpredicted}
        endings = "", "_baseline", "_repeat_last"
        for ending, totals, rows in zip(endings, self.totals, self._counts, strict=True):
            for name, total in zip(self.names, totals, strict=True):
                mean = float(total) / rows if rows else math.nan
                found[f"{name}{ending}"] = mean if math.isfinite(mean) else None
        if self.covered[0]:
            found["coverage"] = self.covered[1] / self.covered[0]
        return found

    def notes(self) -> list[str]:
        """Return sentences if a baseline is better, or if past labels carry the score."""
        if not self.compared:
            return []
        own, baselines = self._means()
        texts = (
            describe_repeating(self.names[0], own, baselines),
            describe_leads(leads(own, baselines)),
        )
        return [text for text in texts if text]

    def _means(self) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """Return the mean losses by metric, and those of each baseline."""
        own, *theirs = (
            dict(zip(self.names, (totals / rows).tolist(), strict=True))
            for totals, rows in zip(self.totals, self._counts, strict=True)
        )
        return own, dict(zip(BASELINES[self.task], theirs, strict=True))

    @property
    def worse(self) -> list[Any]:
        """The metrics in which a baseline is better."""
        return list(leads(*self._means())) if self.compared else []

    STATE = (
        Count("rows", "rows"),
        Count("unpredicted", "unpredicted"),
        Count("compared", "compared"),
        Numbers("totals", (3, "metrics"), "totals", low=0.0, high=math.inf),
        Items("intervals", "covered", out=int, back=checked_count),
        Part("baseline", "baseline"),
        Part("repeat", "repeat"),
        Part("curve", "curve"),
        Part("drift", "drift"),
        Count("alarms", "alarms"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"metrics": len(self.names)}

    def _restored(self, sizes: Sizes) -> None:
        pair = len(self.covered) == 2 and self.covered[1] <= self.covered[0] <= self.rows
        require(pair, "intervals must be a pair of counts, all and those that contained the label")
        require(self.unpredicted <= self.rows, "unpredicted are more than all rows")
        require(self.compared <= self.scored, "compared are more than the scored rows")
        require(self.curve.rows == self.scored, "curve has another number of rows")
        require(len(self.drift.alarms) <= self.alarms, "alarms are more than their number")


# -- models ----------------------------------------------------------------------------------------

#: Most rows learned or predicted while the lock is held, which other calls have to wait for.
PIECE = 1000
#: Why a model cannot be used while its journal is replayed.
RECOVERING = "it is being recovered"
#: Exceptions by which a learner rejects rows, without a change of its state.
REFUSALS = (ValueError, TypeError, ArithmeticError)


class FairLock:
    """A lock that a waiting thread gets before the thread that has just released it.

    The writer releases the lock between the pieces of a block; predictions then come first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # held by the next thread

    def __enter__(self) -> None:
        with self._turn:
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def release_and_reacquire(self) -> None:
        """Let a waiting thread use the lock; the caller holds it before and after."""
        self.__exit__()
        self.__enter__()


class OnlineModel:
    """Predict and learn with one model; its lock is held for a piece or a prediction."""

    def __init__(self, row: ModelRow, learner: Any = None) -> None:
        self.number, self.name, self.created = row.number, row.name, row.created
        self.spec = spec.read(row.spec)
        self.columns = Columns(self.spec)
        self.learner = spec.build(self.spec) if learner is None else learner
        self.scores = LiveScores(self.spec.task)
        self.version = row.start
        self.snapshot = row.start  # the version of the last snapshot
        self.rows_since_snapshot = 0
        self.waiting = 0  # predictions that wait for their label
        self.broken: str | None = None  # why the model cannot be used
        #: Answers of learned blocks, by block, to be written in the model's next transaction.
        self.unwritten: dict[int, list[Answer]] = {}
        self.verified: set[tuple[Any, ...]] = set()  # snapshots that are known to be readable
        self.lock = FairLock()

    @property
    def ready(self) -> bool:
        """Whether the model can be used."""
        return self.broken is None

    @property
    def refusal(self) -> HTTPError | None:
        """The error of a request if the model cannot be used, else None."""
        if self.broken is None:
            return None
        headers = {"Retry-After": "1"} if self.broken == RECOVERING else {}
        return HTTPError(503, f"model {self.name!r} cannot be used: {self.broken}", headers)

    def answers(self) -> list[tuple[int, int, bytes]]:
        """Return the answers to be written in the next transaction, as the journal has them."""
        return [(block, self.number, pack(found)) for block, found in self.unwritten.items()]

    @property
    def fitted(self) -> bool:
        return self.learner is not None and bool(self.learner.__sklearn_is_fitted__())

    @property
    def trained(self) -> bool:
        """Whether it is one learner, not one per key, that has learned rows."""
        return self.spec.key is None and self.fitted

    @property
    def _blind(self) -> int:
        """How many of the next rows come before the first label that is learned."""
        learned = labels_learned(self.learner) if self.fitted else 0
        return max(0, 1 + own_delay(self.learner) - learned)

    @property
    def inner(self) -> Any:
        """The learner inside its preparation."""
        return getattr(self.learner, "learner_", self.learner)

    @property
    def label_kind(self) -> str | None:
        """Kind of the labels of a trained classifier: text, number or boolean."""
        seen = getattr(self.scores.baseline, "counts", None)
        return label_kind(next(iter(seen))) if seen else None

    @property
    def labels(self) -> Collection[Any]:
        """Labels that a classifier has learned, here or before it was uploaded."""
        counts: Collection[Any] = getattr(self.scores.baseline, "counts", ())
        if self.spec.algorithm == spec.FILE and self.fitted:
            return {*counts, *self.learner.classes_.tolist()}
        return counts

    @property
    def most_labels(self) -> int:
        """Most labels of a classifier, over all keys if it is keyed."""
        learner = self.learner
        while hasattr(learner, "learner"):  # inside its preparation, or the template of the keys
            learner = learner.learner
        return int(learner.max_classes)

    @property
    def points(self) -> int:
        """Points of the current model; 0 of one per key."""
        return int(self.learner.size_) if self.trained else 0

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The last changes to which the learner has reacted."""
        return changes_of(self.learner) if self.trained else []

    @property
    def change_counts(self) -> dict[str, int]:
        """How often the learner has reacted to changes, by kind; empty if it does not."""
        return count_changes(self.learner) if self.trained else {}

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs; those of a model that has learned nothing are missing values."""
        found = ["prediction"]
        if hasattr(self.learner, "predict_quantiles"):
            found += ["lower", "upper", *(["quantiles"] if self.spec.quantiles else [])]
        if hasattr(self.learner, "predict_proba"):
            found.append("probability")
        return found

    # -- predicting ------------------------------------------------------------------------------

    def predict_to_wait(self, packed: bytes) -> Answer:
        """Return predictions for rows that wait for their labels, with what is kept of them.

        Each row is predicted as the next one: weights and intervals are learned at the lateness
        that labels have.
        """
        answer = self.predict(packed, waits=True)
        answer.baselines = self.scores.predict_baselines()
        return answer

    def predict(self, packed: bytes, waits: bool = False, later: bool = False) -> Answer:
        """Return predictions for packed rows, None before the first label; change nothing.

        ``later``: other rows of the same request come before these.
        """
        X = self.columns.matrix(packed)
        with self.lock:
            version = self.version
            if self._blind:
                return Answer(version, [None] * len(X), untrained=True)
            looks_ahead = getattr(self.inner, "_looks_ahead", False)
            following = {"ahead": True} if later and looks_ahead else {}
            answer = Answer(version, [])
            if waits and hasattr(self.learner, "_predict_to_wait"):
                P, kept = self.learner._predict_to_wait(X)
                answer.kept = pack_kept(kept)
                following = {"ahead": False} if looks_ahead else {}
            else:
                P = self.learner.predict(X, **following)
            answer.prediction = finite_or_none(P)
            if hasattr(self.learner, "predict_quantiles"):
                levels = spec.levels_of(self.spec)
                _set_quantiles(answer, self.learner.predict_quantiles(X, levels, **following))
            if hasattr(self.inner, "predict_proba"):
                answer.probability = self.learner.predict_proba(X, **following).tolist()
                answer.classes = self.learner.classes_.tolist()
        return answer

    def frozen(self) -> OnlineModel:
        """Return a copy that predicts as this model does now, and does not wait for its lock."""
        found = copy.copy(self)
        with self.lock:
            found.learner, found.version = copy.deepcopy(self.learner), self.version
        found.lock = FairLock()
        return found

    # -- learning --------------------------------------------------------------------------------

    def learn(self, entries: Sequence[Entry]) -> list[Answer]:
        """Learn the entries of one block in order and return their answers.

        An entry that the learner rejects changes nothing, and its answer is an error. Rejection
        depends on the state alone, so a replay rejects the same entries.
        """
        found = []
        for some in self._portions(entries):
            try:
                found += self._learn_together(some)
            except REFUSALS as error:
                if len(some) == 1:
                    found.append(Answer(some[0].sequence, [], error=one_line(error)))
                else:
                    found += [answer for entry in some for answer in self.learn([entry])]
            self.version = some[-1].sequence
        return found

    def _portions(self, entries: Sequence[Entry]) -> list[list[Entry]]:
        """Group entries into portions of at most a piece of rows, or a single entry."""
        found: list[list[Entry]] = []
        rows = 0
        for entry in entries:
            rows += entry.size
            if not found or rows > PIECE:
                found.append([])
                rows = entry.size
            found[-1].append(entry)
        return found

    def _learn_together(self, entries: Sequence[Entry]) -> list[Answer]:
        X = np.concatenate([self.columns.matrix(entry.rows or b"") for entry in entries])
        y = targets([entry.labels or b"" for entry in entries], self.spec.task)
        earlier = [_earlier(entry) for entry in entries]
        blind = self._blind
        P, ends = self._learn_rows(entries, X, y, _lines(entries, earlier))
        P = P.astype(np.float64 if P.dtype.kind == "f" else object)
        P[:blind] = None
        self.rows_since_snapshot += len(X)
        return self._answers(entries, earlier, y, P, ends)

    def _learn_rows(
        self, entries: Sequence[Entry], X: Array, y: NDArray[Any], lines: Sequence[Line]
    ) -> tuple[NDArray[Any], Array | None]:
        """Predict then learn all rows, piece by piece; release the lock between pieces."""
        before = copy.deepcopy(self.learner) if len(X) > PIECE else None
        pieces = []
        try:
            for start in range(0, len(X), PIECE):
                rows = slice(start, start + PIECE)
                with self.lock:
                    pieces.append(self._predict_then_learn(X[rows], y[rows], lines[rows]))
        except BaseException:
            if before is not None:
                with self.lock:
                    self.learner = before
            raise
        P = np.concatenate([piece[0] for piece in pieces])
        ends = None if pieces[0][1] is None else np.concatenate([piece[1] for piece in pieces])
        return P, ends

    def _predict_then_learn(
        self, X: Array, y: NDArray[Any], lines: Sequence[Line]
    ) -> tuple[NDArray[Any], Any]:
        """Return predictions, and the ends of intervals and quantiles (rows, q) or None."""
        learn = self.learner.predict_then_learn
        if any(line is not None for line in lines):
            learn = partial(self.learner._learn_waiting, lines=lines)
        if not hasattr(self.learner, "predict_quantiles"):
            return np.asarray(learn(X, y)), None
        P, ends = learn(X, y, quantiles=spec.levels_of(self.spec))
        return np.asarray(P), ends

    def _answers(
        self,
        entries: Sequence[Entry],
        earlier: Sequence[Answer | None],
        y: NDArray[Any],
        P: NDArray[Any],
        ends: Array | None,
    ) -> list[Answer]:
        """Return one answer per entry, and score it; an earlier prediction is not replaced."""
        predictions, given = finite_or_none(P), P
        lower = upper = None
        if ends is not None:
            lower, upper = ends[:, 0].copy(), ends[:, 1].copy()
        found: list[Answer] = []
        known: list[Known] = []
        start = 0
        for entry, answer in zip(entries, earlier, strict=True):
            rows = slice(start, start := start + entry.size)
            if answer is None:
                answer = Answer(entry.sequence, predictions[rows])
                if ends is not None:
                    _set_quantiles(answer, ends[rows])
            else:
                if answer.baselines is not None:
                    known.append((rows, answer.baselines))
                answer.version, answer.baselines, answer.kept = entry.sequence, None, None
                given[rows] = answer.prediction  # NaN if a regressor had none
                if lower is not None and upper is not None:
                    lower[rows] = np.nan if answer.lower is None else answer.lower
                    upper[rows] = np.nan if answer.upper is None else answer.upper
            found.append(answer)
        self.scores.add(y, given, lower, upper, known)
        return found

    # -- snapshots -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write state that is not part of the snapshot's file to disk; here nothing."""

    def close(self) -> None:
        """Close the files of the model, if it has any."""

    def tree(self) -> dict[str, Any]:
        """Return the content of a snapshot."""
        return {
            "model": files.learner_tree(self.learner) if self.trained else None,
            "scores": self.scores.to_state(),
            "sequence": self.version,
            "name": self.name,
            "spec": spec.canonical(self.spec),
        }

    def restore(self, tree: dict[str, Any], path: Any) -> None:
        """Restore the state of a snapshot; raise a ValueError if it is not of this model."""
        entries = {"model", "scores", "sequence", "name", "spec"}
        require(set(tree) == entries, "entries are missing")
        require(tree["name"] == self.name, "it belongs to another model")
        own = spec.canonical(spec.read(tree["spec"])) == spec.canonical(self.spec)
        require(own, "it belongs to a model with another specification")
        sequence = checked_count(tree["sequence"], "sequence")
        if tree["model"] is not None:
            learner = files.learner_from_tree(tree["model"], path)
            require(self._fits(learner), "its learner does not match the specification")
            self.learner = learner
        self.scores.restore(tree["scores"])
        self.version = self.snapshot = sequence
        self.rows_since_snapshot = 0

    def _fits(self, learner: Any) -> bool:
        """Return whether a learner matches the spec and the number of columns."""
        fresh, width = self.learner, len(self.columns.names)
        same = fresh is None or (
            type(learner) is type(fresh)
            and type(getattr(learner, "learner", None)) is type(getattr(fresh, "learner", None))
        )
        classifies = hasattr(getattr(learner, "learner_", learner), "classes_")
        task = classifies == (self.spec.task == "classification")
        return bool(same and task and learner.n_features_in_ == width)


def _earlier(entry: Entry) -> Answer | None:
    """Return the prediction of an entry whose label came later, else None."""
    later = entry.kind == LABEL and entry.answer is not None
    return unpack_answer(entry.answer or b"") if later else None


def _lines(entries: Sequence[Entry], earlier: Sequence[Answer | None]) -> list[Line]:
    """Return what was kept of the prediction of each row whose label came later."""
    found: list[Line] = []
    for entry, answer in zip(entries, earlier, strict=True):
        kept = None if answer is None else answer.kept
        own = [] if kept is None else unpack_kept(kept)
        found += own if len(own) == entry.size else [None] * entry.size
    return found


def describe_alarm(alarm: Alarm) -> str:
    """Describe a drift alarm in a few words."""
    return f"the loss has been higher since row {alarm.since + 1:,}"


def finite_or_none(predictions: NDArray[Any]) -> list[Any]:
    """Return predictions as a list, with None in place of NaN and infinity."""
    found: list[Any] = predictions.tolist()
    if predictions.dtype.kind == "f" and not np.isfinite(predictions).all():
        found = [value if np.isfinite(value) else None for value in found]
    return found


def _set_quantiles(answer: Answer, found: Array) -> None:
    """Set the ends of the interval and the quantiles (rows, 2 + q) of an answer; None for NaN."""
    values = found.astype(object)
    values[~np.isfinite(found)] = None
    answer.lower, answer.upper = values[:, 0].tolist(), values[:, 1].tolist()
    if values.shape[1] > 2:
        answer.quantiles = values[:, 2:].tolist()
