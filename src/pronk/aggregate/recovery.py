"""The default learner: an inner learner, a challenger after an alarm, and their calibration.

An inner learner (`learner.InnerLearner`) fixes its scales, experts and points in the first rows. On
a stream that changes abruptly it would never become as good as one that starts at the change. So:

1. **Alarm.** ADWIN (`core.drift`) watches the losses of the final prediction: |y - p| / (|y - p| +
   s) with y as given, or half the Brier score of labels.
2. **Trial** (`trial`). At the row after the alarm a challenger starts beside the incumbent: a new
   inner learner with scales of its own. The prediction is a weighted average of the two.
3. **Decision.** The challenger replaces the incumbent if it is clearly better, and is dropped if it
   is clearly worse or after 8,192 rows. Another alarm after 512 rows of a trial restarts the
   challenger. Each challenger that is dropped halves the chance of a false alarm that the detector
   accepts; a swap resets the detector.
4. **Return** (`returning`). A replaced learner is kept as it was at the alarm. It takes over again
   once it predicts the last rows clearly better; a challenger starts in any case.

Each alarm names the columns that changed (`changes`).

The incumbent does not depend on the challenger, and all of this happens at rows counted from the
start of the stream, so the cut into calls changes nothing. With a delay (`late`) the detector, the
weights and the decisions read errors once their targets have arrived. The challenger's local
experts may use half the memory of the incumbent's until it replaces the incumbent.

Quantiles and probabilities follow the final prediction and targets as given.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate import returning
from pronk.aggregate.baselines import remapped_labels
from pronk.aggregate.calibration import LEVELS, SUREST, Quantiles, around
from pronk.aggregate.certificate import MixtureCertificate
from pronk.aggregate.changes import DISTRIBUTION, MOST_NAMED, RecentRows
from pronk.aggregate.clock import Clock
from pronk.aggregate.experts import Experts
from pronk.aggregate.late import Arrived, Header, ReadRows, Record, Ring
from pronk.aggregate.learner import STAGES, InnerLearner
from pronk.aggregate.probabilities import Probabilities
from pronk.aggregate.trial import (
    DROPPED,
    ON_TRIAL,
    RESTARTED,
    SWAPPED,
    Trial,
    absolute_errors,
    label_losses,
)
from pronk.core.drift import DELTA, ErrorWindow, LossWindow, Rise
from pronk.core.kernels import Kernel
from pronk.core.linalg import recombined
from pronk.core.state import Count, Field, Numbers, Part, Parts, Sizes, Stateful, Unsaved, require

Array = NDArray[np.float64]

#: Rows of an incumbent before an alarm starts a trial, and of a trial before it is restarted.
LEAST_ROWS, RESTART_ROWS = 512, 512
#: Whether replaced learners are kept.
KEEPS = True
#: Most challengers that are counted as dropped since the last swap.
MOST_DROPPED = 64
#: Calls of fewer rows than this together are rolled back by learning the others again.
REPLAYED = 64
#: Most entries of the log; the oldest are dropped.
LOGGED = 64
#: Columns of the log (entries, 7): row of the alarm, first row of the higher loss, mean losses
#: before and since, outcome of the trial, number of rows seen when it ended (0: it has not), and
#: when a retired learner took over (0: none has).
ALARM, SINCE, BEFORE, AFTER, OUTCOME, END, RETURNED = range(7)
#: Numbers of a column that changed (`changes.Changed`); those of entries without one are EMPTY.
COLUMN, KIND, P_VALUE = range(3)
CHANGED, EMPTY = 9, -1.0
#: Names of the outcomes.
OUTCOMES = {ON_TRIAL: "on trial", SWAPPED: "swap", DROPPED: "dropped", RESTARTED: "restarted"}


class LabelWindow(LossWindow):
    """Detect rises of half the Brier score; rows are margins and labels +-1, (n, 2, outputs)."""

    def __init__(self, outputs: int, delta: float = DELTA) -> None:
        super().__init__(delta)
        self.seen_labels = np.zeros((2, outputs))

    def _losses(self, values: Array) -> Array:
        P, Y = np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])
        out, seen = np.empty(len(P)), self.seen_labels.copy()
        label_losses(P, Y, seen, out)
        self.seen_labels = seen
        return out

    STATE: ClassVar[tuple[Field, ...]] = (
        *LossWindow.STATE,
        Numbers(
            "seen_labels", (2, "outputs"), "seen_labels", low=0.0, high=1.0, written="replaced"
        ),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self.seen_labels.shape[1]}


#: Parts of the rows that wait: predictions, error scales, targets, and the quantiles that the
#: predictions had (`calibration.track_rows`).
PARTS: dict[str, tuple[str | int, ...]] = {
    "P": ("outputs",), "scales": ("outputs",), "Y": ("outputs",), "shown": ("levels", "outputs"),
}  # fmt: skip


class _Call:
    """Rows of a call, and the final predictions and error scales (n, outputs) to be filled.

    ``parts`` are those of `PARTS`, of the rows that wait for their targets and then of these rows.
    ``arrived`` are rows that were predicted before the call.
    """

    def __init__(
        self, X: Array, Y: Array, gaps: Array | None, parts: list[Array], delay: int,
        arrived: Arrived | None,
    ) -> None:  # fmt: skip
        self.X, self.Y, self._gaps, self.arrived = X, Y, gaps, arrived
        self._all_P, scales, self._all_Y, _ = parts
        self._waiting, self._delay = len(scales) - len(Y), delay
        self.P, self.scales = self._all_P[self._waiting :], scales[self._waiting :]
        self._all_Y[self._waiting :] = Y

    def gaps(self, rows: slice) -> Array | None:
        """Return the gaps before rows (`clock`), where there are times."""
        return None if self._gaps is None else self._gaps[rows]

    def read(self, started: int, rows: slice) -> ReadRows | None:
        """Return some rows as the learner read them that started at a row of the stream."""
        return None if self.arrived is None else self.arrived.of(started)[rows]

    def fill(self, rows: slice, P: Array, scales: Array) -> None:
        """Store predictions and error scales of some rows; those of arrived rows as made."""
        self.P[rows], self.scales[rows] = P, scales
        if self.arrived is not None:
            made = np.flatnonzero(self.arrived.known[rows]) + rows.start
            self.P[made], self.scales[made] = self.arrived.P[made], self.arrived.scales[made]

    def arriving(self, rows: slice) -> tuple[Array, Array]:
        """Return predictions and targets that arrive once these rows are predicted."""
        shift = self._waiting - self._delay
        arrived = slice(max(0, rows.start + shift), max(0, rows.stop + shift))
        return self._all_P[arrived], self._all_Y[arrived]


class Base:
    """A snapshot of the learner, and the calls that it has learned since."""

    def __init__(self, snapshot: Any) -> None:
        self.snapshot, self.rows = snapshot, 0
        self.calls: list[tuple[Any, ...]] = []

    def add(self, call: tuple[Any, ...]) -> None:
        """Add a call of (X, Y, times, arrived), unless it is long."""
        X, Y, *others = call
        self.rows += len(X)
        if self.rows < REPLAYED:
            self.calls.append((X.copy(), Y.copy(), *others))


class DefaultLearner(Stateful):
    """Incumbent, challenger and the calibration of their prediction."""

    def __init__(
        self, kernel: Kernel, columns: int, outputs: int, budget: int, seed: int, signed: bool,
        forgetting: bool = True, few: bool = False, memory: int = 0, delay: int = 0,
    ) -> None:  # fmt: skip
        self.delay = delay
        levels = 0 if signed else len(LEVELS)
        self._ring = Ring(PARTS, {"outputs": outputs, "levels": levels})
        self.columns, self.outputs, self.signed = columns, outputs, signed
        self.memory = memory
        self._make = partial(
            InnerLearner, kernel, columns, budget=budget, seed=seed, signed=signed,
            forgetting=forgetting, few=few, delay=delay,
        )  # fmt: skip
        self.clock: Clock | None = None  # with times
        self.incumbent = self._make(outputs=outputs, memory=memory)
        self.trial: Trial | None = None
        self._dropped = 0  # challengers since the last swap
        self._returns = 0  # retired learners that took over
        self._log = np.zeros((0, 7))
        self._named = np.zeros((0, MOST_NAMED, CHANGED))  # columns that changed, per entry
        self.recent = RecentRows(columns, outputs)
        self.kept: InnerLearner | None = None  # the incumbent as it was at the alarm of the trial
        self.retired: list[InnerLearner] = []  # replaced learners, the newest last
        self._most_retired = returning.FEW_RETIRED if few else returning.MOST_RETIRED
        self._outcomes = np.zeros(len(OUTCOMES), dtype=np.int64)  # trials, and their outcomes
        self._set_detector()
        self.quantiles = Quantiles(outputs, delay)
        self.probabilities = Probabilities(outputs, columns, delay) if signed else None
        self.last_offsets = np.empty((0, 0, outputs))
        self._rows = 0
        self._started = 0  # first row of the incumbent
        self._base: Base | None = None

    @property
    def experts(self) -> Experts | None:
        """Experts of the incumbent; None before the first stage."""
        return self.incumbent.experts

    @property
    def points(self) -> Array:
        """Points of the incumbent's dictionary, scaled as the kernel reads them."""
        return self.incumbent.points

    @property
    def predicted(self) -> int:
        """Number of rows predicted so far, those that wait for their targets included."""
        return self._rows + self._ring.rows

    @property
    def late_targets(self) -> Array:
        """Targets (rows, outputs) that have not arrived."""
        return self._ring.parts[2]

    def known_classes(self, ones: int, classes: int) -> NDArray[np.bool_]:
        """Return which of the classes have arrived; ``ones`` outputs come before theirs."""
        assert self.probabilities is not None
        return self.probabilities.temperature.known_classes(ones, classes)

    # -- learning ---------------------------------------------------------------------------

    def start_clock(self) -> None:
        """Let the windows count time, before the first row is learned."""
        self._base, self.clock = None, Clock()
        self.incumbent = self._make(outputs=self.outputs, memory=self.memory, timed=True)
        self.recent = RecentRows(self.columns, self.outputs, timed=True)

    def learn(
        self, X: Array, Y: Array, times: Array | None = None, arrived: Arrived | None = None
    ) -> Array:
        """Predict then learn each row.

        ``times`` (n,) are the times of the rows in seconds, if there is a clock. Rows that have
        ``arrived`` are learned as they were predicted (`late`).
        """
        gaps = None if self.clock is None or times is None else self.clock.count(times)
        if arrived is not None:
            arrived.leave_out(self.signed)
            if not self.signed and self._rows + len(X) > STAGES[0]:
                arrived.known &= arrived.scaled  # errors are in units of the error scale
        first, start = self.predicted, 0
        call = _Call(X, Y, gaps, self._ring.extend(len(X)), self.delay, arrived)
        while start < len(X):
            rows = slice(start, len(X))
            rows = slice(start, min(len(X), start + self._rows_to_event(first + start)))
            read = call.read(self._started, rows)
            own = self.incumbent.learn(X[rows], Y[rows], call.gaps(rows), read)
            start = self._try(call, *own, rows, first, read)
        P = call.P.copy() if self.delay else call.P  # rows that wait stay as they are
        if self.probabilities is None:
            made, scales, targets, shown = self._ring.parts
            self.last_offsets = self.quantiles.learn(made, scales, targets, shown, len(X))
        else:
            P = self.probabilities.learn(X, call.P, Y)
        known = max(0, self._ring.rows - self.delay)
        self._ring.drop(known)
        self._rows += known
        if self._base is not None:
            self._base.add((X, Y, times, arrived))
        return P

    def _rows_to_event(self, row: int) -> int:
        """Return how many rows after ``row`` rows the next alarm, decision or return may come."""
        rows = max(0, self.delay - row) + self.detector.rows_to_bucket
        if self.trial is not None:
            rows = min(rows, self.trial.rows_to_check)
        return min(rows, returning.GRID - row % returning.GRID) if self.retired else rows

    def _keep(self, since: int = 0) -> None:
        """Keep a copy of the incumbent as it is now, ``since`` rows after a change.

        It learns the last rows before the change again, to return as it was then.
        """
        self.kept = copy.deepcopy(self.incumbent)
        if since and returning.REFRESH + since <= min(self.recent.rows, self.recent.newest):
            X, Y, _, gaps = self.recent.last(returning.REFRESH, since)
            self.kept.learn(X.copy(), Y.copy(), None if gaps is None else gaps.copy())

    def _try(
        self, call: _Call, own: Array, own_scales: Array, block: slice, first: int,
        read: ReadRows | None,
    ) -> int:  # fmt: skip
        """Watch a block of rows of a call, which the incumbent has learned.

        ``own`` and ``own_scales`` are the incumbent's predictions and error scales, ``read`` the
        rows as it read them earlier; the final ones go to the call, whose row 0 is row ``first`` of
        the stream. Return the row behind a swap, from which on the new incumbent has to learn, or
        the end of the block.
        """
        done, start, stop = block.start, block.start, block.stop
        while done < stop:
            trial, rows = self.trial, slice(done, stop)
            if trial is not None:
                rows = slice(done, min(stop, done + trial.rows_to_check))
            if self.retired:
                grid = returning.GRID - (first + done) % returning.GRID
                rows = slice(done, min(rows.stop, done + grid))
            here = slice(rows.start - start, rows.stop - start)
            P, scales = own[here], own_scales[here]
            if trial is not None:
                P, scales = trial.learn(
                    call.X[rows], call.Y[rows], P, scales, call.gaps(rows),
                    call.read(trial.started, rows), None if read is None else read.used[here],
                )  # fmt: skip
            call.fill(rows, P, scales)
            done, rise = self._first_rise(call, rows, first)
            new = slice(rows.start, done)
            self.recent.add(call.X[new], call.Y[new], call.P[new], call.gaps(new))
            if rise is not None:
                if self.kept is None:
                    since = first + done - 1 - self.delay - (rise.row - rise.since)
                    self._keep(first + done - since)
                self._start_trial(first + done, rise)
            if self._wake(first + done):
                break
            if rise is not None:
                continue
            if trial is not None and (outcome := trial.outcome()) != ON_TRIAL:
                if outcome == SWAPPED and self.kept is None:
                    self._keep()
                self._end_trial(outcome, first + done)
                if outcome == SWAPPED:
                    break
        return done

    def _first_rise(self, call: _Call, rows: slice, first: int) -> tuple[int, Rise | None]:
        """Watch the targets that arrive with some rows, up to the first rise that starts a trial.

        Return the row of the call behind the alarm, or behind all rows, and the rise.
        """
        P, Y = call.arriving(rows)
        if self.signed:
            values = np.stack((P, Y), axis=1)
        else:
            absolute_errors(P, np.ascontiguousarray(Y), values := np.empty(P.shape))
        started, least = self._started, LEAST_ROWS
        if self.trial is not None:
            started, least = self.trial.started, RESTART_ROWS
        seen = 0
        while seen < len(values):
            count, rise = self.detector.first_rise(values[seen:])
            seen += count
            behind = rows.stop - len(values) + seen
            if rise is not None and first + behind - started >= least + self.delay:
                return behind, rise
        return rows.stop, None

    def _start_trial(self, row: int, rise: Rise) -> None:
        """Start a challenger at a row of the stream, behind the one that raised the alarm."""
        if self.trial is not None:
            self._end_trial(RESTARTED, row)
        since = row - 1 - self.delay - (rise.row - rise.since)
        entry = [row - 1, since, rise.before, rise.after, ON_TRIAL, 0.0, 0.0]
        self._log = np.vstack((self._log, [entry]))[-LOGGED:]
        named = np.full((1, MOST_NAMED, CHANGED), EMPTY)
        for i, one in enumerate(self.recent.changed(since, row - self.delay)):
            named[0, i] = one.column, one.kind, one.p, *one.before, *one.since
        self._named = np.concatenate((self._named, named))[-LOGGED:]
        self._outcomes[ON_TRIAL] += 1
        self.trial = self._new_trial(row)

    def _end_trial(self, outcome: int, row: int) -> None:
        """Log the outcome of the trial after ``row`` rows of the stream; carry it out."""
        assert self.trial is not None
        self._log = self._log.copy()
        self._log[-1, [OUTCOME, END]] = outcome, row
        self._outcomes[outcome] += 1
        if outcome == SWAPPED:
            self._replace_by(self.trial.challenger, row)
            self._dropped = 0
        elif outcome == DROPPED and not self._log[-1, RETURNED]:
            self._dropped = min(self._dropped + 1, MOST_DROPPED)
            self.detector.delta = self._delta
        self.kept = None if outcome != RESTARTED else self.kept
        self.trial = None

    def _replace_by(self, learner: InnerLearner, row: int) -> None:
        """Make a learner the incumbent after ``row`` rows; the old one, as kept, is retired."""
        assert self.kept is not None
        found = [one for one in self.retired if one is not learner]
        # One that has returned and is replaced after all is the first to be dropped.
        twice = self.trial is not None and learner is self.trial.challenger
        found.insert(0 if twice and self._log[-1, RETURNED] else len(found), self.kept)
        self.retired, self.kept = found[-self._most_retired :] if KEEPS else [], None
        self.incumbent, self._started = learner, self._first_row(learner, row)
        learner.set_memory(self.memory)
        self._set_detector()

    def _first_row(self, learner: InnerLearner, row: int) -> int:
        """Return the row at which a learner would have started to have its rows after ``row``."""
        return row - learner.rows - self.delay

    def _wake(self, row: int) -> bool:
        """Replace the incumbent after ``row`` rows by a retired learner that is better.

        It learns the last rows. A challenger starts, if there is none since an alarm just before.
        """
        if (
            not self.retired
            or row % returning.GRID
            or not returning.watched(self.recent, self.delay)
        ):
            return False
        alarm = self.trial is not None and self.trial.rows <= returning.AFTER_ALARM
        ratio, before, after = returning.growth(self.recent, self.delay)
        if not alarm and ratio < returning.JUMP:
            return False
        found = returning.best_retired(self.retired, self.recent, self.delay, self.signed)
        if found is None:
            return False
        learner, rows = found
        known = rows + self.delay
        if learner.rows + known > row:
            return False
        X, Y, _, gaps = self.recent.last(known)
        learner.learn(X.copy(), Y.copy(), gaps=None if gaps is None else gaps.copy())
        if self.kept is None:
            self._keep(known)
        self._replace_by(learner, row)
        if not alarm:
            self._start_trial(row, Rise(rows, 1, before, after))
        self._log = self._log.copy()
        self._log[-1, RETURNED] = row
        self._returns += 1
        return True

    def _make_learner(self, memory: int = 0) -> InnerLearner:
        timed = self.clock is not None
        return self._make(outputs=self.outputs, memory=memory or self.memory, timed=timed)

    def _new_trial(self, row: int = 0) -> Trial:
        challenger = self._make_learner((self.memory + 1) // 2)
        seen = self.detector.seen_labels if isinstance(self.detector, LabelWindow) else None
        seen = np.zeros((2, self.outputs)) if seen is None else seen
        return Trial(challenger, row, seen, self.delay)

    def _set_detector(self) -> None:
        """Start a new detector, with the labels that were seen."""
        old = getattr(self, "detector", None)
        self.detector: LossWindow
        if self.signed:
            self.detector = LabelWindow(self.outputs, self._delta)
            if isinstance(old, LabelWindow):
                self.detector.seen_labels = old.seen_labels
        else:
            self.detector = ErrorWindow(self.outputs, self._delta)

    @property
    def _delta(self) -> float:
        """Chance of a false alarm that the detector accepts."""
        return float(DELTA * 0.5**self._dropped)

    @property
    def counts(self) -> dict[str, int]:
        """Number of trials so far, and of each of their outcomes."""
        names = {ON_TRIAL: "trials", SWAPPED: "swaps", DROPPED: "dropped", RESTARTED: "restarted"}
        found = {name: int(self._outcomes[outcome]) for outcome, name in names.items()}
        return {**found, "returns": self._returns}

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Alarms, the columns that changed, and outcomes of their trials, oldest first."""
        return [
            {
                "row": int(entry[ALARM]), "since": int(entry[SINCE]),
                "before": float(entry[BEFORE]), "after": float(entry[AFTER]),
                "outcome": OUTCOMES[int(entry[OUTCOME])], "end": int(entry[END]) or None,
                "returned": int(entry[RETURNED]) or None,
                "details": [_described(one) for one in named if one[COLUMN] != EMPTY],
            }
            for entry, named in zip(self._log, self._named, strict=True)
        ]  # fmt: skip

    # -- rolling back a call ----------------------------------------------------------------------

    def snapshot(self) -> tuple[Base, int]:
        """Return what `roll_back` needs: a snapshot, and the number of calls learned since.

        Copying the state takes as long as learning a row. So calls of few rows share a snapshot.
        """
        if self._base is None or self._base.rows >= REPLAYED:
            self._base = Base(super().snapshot())
        return self._base, len(self._base.calls)

    def roll_back(self, snapshot: tuple[Base, int]) -> None:
        """Return to the state at a snapshot: roll back to that of its base and learn the calls."""
        base, count = snapshot
        super().roll_back(base.snapshot)
        self._base = None
        for X, Y, times, arrived in base.calls[:count]:
            self.learn(X, Y, times, arrived)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_base": None}

    # -- the current model --------------------------------------------------------------------

    @property
    def reads_past(self) -> bool:
        """Whether past labels are read, so that rows far ahead have a second head (`far`)."""
        return self.incumbent.far is not None

    def _following(self, rows: int, ahead: bool | None) -> int:
        """Return how many rows are predicted as the next one; those after them lie far ahead.

        ``ahead`` None: the rows follow the stream in order, so it is the first row.
        """
        if ahead is False or not self.reads_past:
            return rows
        return 0 if ahead else min(1, rows)

    def predict(self, X: Array, ahead: bool | None = None) -> Array:
        """Predict rows that follow the stream in order: the next one, then rows far ahead."""
        following = self._following(len(X), ahead)
        near, far = X[:following], X[following:]
        parts = []
        if len(near) or not len(X):
            P, _ = self._predict(near)
            parts.append(P if self.probabilities is None else self.probabilities.predict(near, P))
        if len(far):  # no class has the probability 0
            parts.append(self.incumbent.predict_far(far) * (SUREST if self.signed else 1.0))
        return np.concatenate(parts)

    def _predict(self, X: Array) -> tuple[Array, Array]:
        """Predict rows that may come next; return predictions and error scales, (n, outputs)."""
        P, scales = self.incumbent.predict(X)
        return (P, scales) if self.trial is None else self.trial.predict(X, P, scales)

    def read(self, X: Array) -> tuple[Array, Record]:
        """Predict rows that may come next; return predictions, and the record to learn them with.

        The rows may be learned later, in any order (`Arrived`).
        """
        P, scales, reader, own = self.incumbent.read(X, self._started)
        readers, parts, scaled = [reader], [own], self.incumbent.experts is not None
        if self.trial is not None:
            Q, theirs, reader, own = self.trial.challenger.read(X, self.trial.started)
            readers.append(reader)
            parts.append(own)
            P, scales = self.trial.mixed(P, Q, scales, theirs)
        out = P if self.probabilities is None else self.probabilities.predict(X, P)
        header = Header(self.outputs, scaled, tuple(one for one in readers if one is not None))
        return out, Record(header, np.hstack([P, scales, *parts]))

    def predict_quantiles(self, X: Array, levels: Array, ahead: bool | None = None) -> Array:
        """Return quantiles (n, outputs, q) at levels (q,); those of rows far ahead are symmetric.

        Rows are those of `predict`.
        """
        following = self._following(len(X), ahead)
        near, far = X[:following], X[following:]
        parts = []
        if len(near) or not len(X):
            P, scales = self._predict(near)
            parts.append(around(P, self.quantiles.current(P, scales), levels))
        if len(far):
            P = self.incumbent.predict_far(far)
            half = [self.incumbent.far_half_widths(len(P), abs(2.0 * q - 1.0)) for q in levels]
            parts.append(P[..., None] + np.sign(levels - 0.5) * np.stack(half, axis=-1))
        return np.concatenate(parts)

    def current_offsets(self, X: Array) -> Array:
        """Return the offsets (n, levels, outputs) of rows that may come next; 0 for labels.

        NaN before any error is known.
        """
        if self.signed:
            return np.zeros((len(X), *self.last_offsets.shape[1:]))
        return self.quantiles.current(*self._predict(X))

    def deviation(self, X: Array, ahead: bool | None = None) -> Array:
        """Return the standard deviation of y around each prediction, (n, outputs)."""
        following = self._following(len(X), ahead)
        near, rest = X[:following], len(X) - following
        if not following and rest:
            return self.incumbent.far_deviation(rest)
        scales = self._predict(near)[1] * self.quantiles.deviation
        variance = self.incumbent.variance(near)
        if self.trial is not None and (w := self.trial.weight):
            variance = (1.0 - w) * variance + w * self.trial.challenger.variance(near)
        found = np.asarray(np.sqrt(1.0 + variance)[:, None] * scales)
        return np.concatenate([found, self.incumbent.far_deviation(rest)]) if rest else found

    def table(self) -> list[dict[str, Any]]:
        """Return one row per expert of both learners, the largest weight first."""
        learners = [("incumbent", self.incumbent, 1.0)]
        if self.trial is not None:
            w = self.trial.weight
            learners = [(*learners[0][:2], 1.0 - w), ("challenger", self.trial.challenger, w)]
        rows = []
        for name, learner, weight in learners:
            for row in [] if learner.experts is None else learner.experts.table():
                scaled = {key: weight * row[key] for key in ("weight", "coefficient")}
                rows.append({**row, **scaled, "learner": name})
        return sorted(rows, key=lambda row: (-row["weight"], -row["active"]))

    def certificate(self, output: int = 0) -> MixtureCertificate:
        """Return that of the incumbent's mixture over all outputs, since its first row."""
        return self.incumbent.certificate()

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        if self._base is not None:
            self._base.rows = REPLAYED
        self.outputs = matrix.shape[1]
        self.incumbent.remap(matrix)
        if self.trial is not None:
            self.trial.remap(matrix)
        assert isinstance(self.detector, LabelWindow)
        self.detector.seen_labels = remapped_labels(self.detector.seen_labels, matrix)
        self.recent.remap(matrix)
        for learner in (*self.retired, *([] if self.kept is None else [self.kept])):
            learner.remap(matrix)
        self._ring.replace(*(recombined(part, matrix) for part in self._ring.parts))
        if self.probabilities is not None:
            self.probabilities.remap(matrix)

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Count("rows"),
        Count("started"),
        Count("dropped", high=MOST_DROPPED),
        Count("returns"),
        Part("clock", "clock", make="_new_clock"),
        Part("incumbent", "incumbent"),
        Part("kept", "kept", make="_make_learner"),
        Part("ring", sizes={"rows": "late", "outputs": "outputs", "levels": "levels"}),
        Part("detector", "detector"),
        Part("trial", "trial", make="_new_trial"),
        Numbers("log", ("entries", 7), low=0.0, written="replaced"),
        Numbers("named", ("entries", MOST_NAMED, CHANGED), written="replaced"),
        Part("recent", "recent", sizes={"outputs": "outputs"}),
        Parts("retired", "retired"),
        Numbers("outcomes", (len(OUTCOMES),), whole=True, low=0, high=2**53),
        Part("quantiles", "quantiles", sizes={"outputs": "followed"}),
        Part("probabilities", "probabilities", sizes={"outputs": "outputs"}),
        Unsaved("outputs"),
        Unsaved("last_offsets"),
    )

    def _load(self, state: Any) -> Sizes:
        if isinstance(state, dict):
            if state.get("clock") is not None:
                self.start_clock()
            kept = state.get("retired")
            count = len(kept) if isinstance(kept, list) else 0
            require(count <= self._most_retired, "retired has too many learners")
            self.retired = [self._make_learner() for _ in range(count)]
        return super()._load(state)

    def _new_clock(self) -> Clock:
        return Clock()

    def _restored(self, sizes: Sizes) -> None:
        # With labels the quantiles are never used.
        require(
            self.signed or sizes["followed"] == self.outputs, "quantiles do not fit the outputs"
        )
        levels = 0 if self.signed else len(LEVELS)
        require(sizes["levels"] == levels, "ring has other levels")
        predicted = self.predicted
        rows = predicted - self._started
        require(max(0, rows - self.delay) == self.incumbent.rows, "started is not as rows says")
        require(rows >= 0, "started is not as rows says")
        require(self.detector.rows <= predicted, "detector has more rows than rows says")
        require(self.recent.rows == predicted, "recent has another number of rows than rows says")
        columns = self._named[:, :, COLUMN]
        require(np.isin(columns, np.arange(EMPTY, self.columns)).all(), "named has other columns")
        whole = np.delete(self._log, [BEFORE, AFTER], axis=1)
        require((whole == np.floor(whole)).all(), "log has a fraction")
        require((self._log[:, [BEFORE, AFTER]] <= 1.0).all(), "log has losses above 1")
        require((self._log[:, OUTCOME] <= RESTARTED).all(), "log has an unknown outcome")
        require((whole <= predicted).all(), "log has rows that are not there")
        require(sizes["entries"] <= LOGGED, "log is too long")
        opened = np.flatnonzero(self._log[:, OUTCOME] == ON_TRIAL).tolist()
        last = [len(self._log) - 1] if self.trial is not None else []
        require(opened == last, "log has another trial than there is")
        ended = self._outcomes[ON_TRIAL] - self._outcomes[1:].sum()
        require(ended == (self.trial is not None), "outcomes are not those of the trials")
        require(self._outcomes[ON_TRIAL] >= sizes["entries"], "outcomes are fewer than the log has")
        require(self.kept is None or self.trial is not None, "kept is there without a trial")
        if self.trial is not None:
            rows = predicted - self.trial.started
            require(rows == self.trial.rows, "trial did not start as rows says")

    def _update_derived(self) -> None:
        self.detector.delta = self._delta
        self.incumbent.set_memory(self.memory)
        if self.trial is not None:
            self.trial.challenger.set_memory((self.memory + 1) // 2)


def _described(one: Array) -> dict[str, Any]:
    """Return a column that changed, by its number."""
    kind = "distribution" if one[KIND] == DISTRIBUTION else "relation"
    return {
        "place": int(one[COLUMN]), "changed": kind, "p": float(one[P_VALUE]),
        "before": one[3:6].tolist(), "since": one[6:9].tolist(),
    }  # fmt: skip
