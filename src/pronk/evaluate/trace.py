"""The trace of a run in bounded memory: for its report, its charts and its drift alarms.

Losses are summed over segments of equal length, counted from the start of the stream; some rows are
kept at equal distances, and the last ones. When there are too many, neighbouring segments are
merged, or every other row is dropped, and the length doubles. There are no random numbers, and any
cut of the stream into blocks gives the same trace.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Count, Part, Sizes, Stateful, checked_count, require
from pronk.evaluate.baselines import BASELINES, make_baselines
from pronk.evaluate.drift import Alarm, DriftAlarm, ErrorAlarm
from pronk.evaluate.fields import Items, Targets, Values, figure
from pronk.evaluate.metrics import (
    DEFAULTS,
    METRICS,
    Calibration,
    Counts,
    Pinball,
    Scores,
    absolute_errors,
    get_scores,
    usual_metrics,
)
from pronk.evaluate.models import Forecast, column, joined, nothing_known

Array = NDArray[np.float64]

#: Most segments and most sampled rows; even.
SEGMENTS, SAMPLE = 256, 512
#: Last rows that are kept.
RECENT = 256
#: Rows in a segment at the start.
SHORTEST = 32


class SegmentSums(Stateful):
    """Sums of some quantities over segments of rows.

    >>> import numpy as np
    >>> segments = SegmentSums(1)
    >>> segments.add(np.arange(100.0)[:, None])
    >>> print(segments.ends, segments.means[:, 0])
    [ 32  64  96 100] [15.5 47.5 79.5 97.5]
    """

    def __init__(self, columns: int, length: int = SHORTEST) -> None:
        self.length = length
        self.rows = 0
        self.sums = np.zeros((0, columns + 1))  # the last column counts the rows

    def add(self, values: Array) -> None:
        """Add the quantities of the next rows, shape (n, columns)."""
        values = np.column_stack((values, np.ones(len(values))))
        while len(values):
            if self.rows == SEGMENTS * self.length:
                self.sums = self.sums[0::2] + self.sums[1::2]
                self.length *= 2
            room = SEGMENTS * self.length - self.rows
            self._add(values[:room])
            values = values[room:]

    def _add(self, values: Array) -> None:
        """Add rows for which there is room, one after the other, so that any cut gives the same."""
        full, begun = divmod(self.rows, self.length)
        self.rows += len(values)
        if begun:
            end = self.length - begun
            self.sums[full] = _total(np.concatenate((self.sums[full:], values[:end])))
            values = values[end:]
        if len(values):
            whole = len(values) // self.length * self.length
            segments = values[:whole].reshape(-1, self.length, values.shape[1])
            sums = [self.sums, segments.cumsum(axis=1)[:, -1]]
            if whole < len(values):
                sums.append(_total(values[whole:])[None, :])
            self.sums = np.concatenate(sums)

    @property
    def ends(self) -> NDArray[np.int64]:
        """Rows at the end of each segment."""
        return np.minimum(np.arange(1, len(self.sums) + 1) * self.length, self.rows)

    @property
    def means(self) -> Array:
        """Means of the quantities over each segment."""
        return np.asarray(self.sums[:, :-1] / self.sums[:, -1:])

    def curve(
        self, most: int = SEGMENTS, shortest: int = 1
    ) -> tuple[NDArray[np.int64], Array, int]:
        """Return ends and means of at most ``most`` segments for a curve, and their length.

        Segments have at least ``shortest`` rows, except for a stream that is shorter. A last
        segment that is not full is joined to the one before: the mean of a few rows would look like
        a jump.
        """
        several = max(1, -(-len(self.sums) // most), -(-shortest // self.length))
        starts = np.arange(0, len(self.sums), several)
        length = several * self.length
        if len(starts) > 1 and self.rows < len(starts) * length:
            starts = starts[:-1]
        if not len(starts):
            return np.zeros(0, dtype=np.int64), np.zeros((0, self.sums.shape[1] - 1)), length
        sums = np.add.reduceat(self.sums, starts, axis=0)
        ends = np.append(starts[1:] * self.length, self.rows)
        return ends, np.asarray(sums[:, :-1] / sums[:, -1:]), length

    STATE = (
        Count("length", "length", low=1),
        Count("rows", "rows"),
        Values("sums", ("segments", "columns"), "sums"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.sums.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        segments = -(-self.rows // self.length)
        good = sizes["segments"] == segments <= SEGMENTS
        require(good, "sums does not have the segments of the rows")


def _total(values: Array) -> Array:
    """Return the sum of some rows, added one after the other."""
    return np.asarray(values.cumsum(axis=0)[-1])


def _checked_entry(state: Any, name: str) -> tuple[int, dict[str, float]]:
    good = isinstance(state, list) and len(state) == 2 and isinstance(state[1], dict)
    require(good, f"{name} is not an entry")
    values = {str(key): figure(value, name) for key, value in state[1].items()}
    return checked_count(state[0], name), values


class ModelHistory(Stateful):
    """Size and expert weights of the model at some rows, at most one entry per segment of rows.

    Entries are made at the end of a block, so their rows depend on the blocks.
    """

    def __init__(self) -> None:
        self.length = SHORTEST
        self.entries: list[tuple[int, dict[str, float]]] = []

    def due(self, rows: int) -> bool:
        """Return whether an entry is due after a number of rows."""
        return not self.entries or rows // self.length > self.entries[-1][0] // self.length

    def add(self, rows: int, values: dict[str, float]) -> None:
        """Add the values after a number of rows."""
        self.entries.append((rows, values))
        while len(self.entries) > SEGMENTS:
            self.length *= 2
            self.entries = list({one[0] // self.length: one for one in self.entries}.values())

    STATE = (
        Count("length", "length", low=SHORTEST),
        Items("entries", "entries", out=list, back=_checked_entry),
    )

    def _restored(self, sizes: Sizes) -> None:
        rows = [entry[0] for entry in self.entries]
        require(rows == sorted(set(rows)), "entries are not in order")
        require(len(rows) <= SEGMENTS, "entries are too many")


class Sample(Stateful):
    """Every stride-th row, at most `SAMPLE` rows."""

    def __init__(self, columns: int) -> None:
        self.stride = 1
        self.rows = 0
        self.held = np.zeros((0, columns + 1))  # the first column is the row

    def add(self, values: Array) -> None:
        """Add the next rows."""
        numbers = np.arange(self.rows, self.rows + len(values))
        self.rows += len(values)
        wanted = numbers % self.stride == 0
        new = np.column_stack((numbers[wanted], values[wanted]))
        self.held = np.concatenate((self.held, new))
        while len(self.held) > SAMPLE:
            self.stride *= 2
            self.held = self.held[self.held[:, 0] % self.stride == 0]

    STATE = (
        Count("stride", "stride", low=1),
        Count("rows", "rows"),
        Values("held", ("held", "columns"), "held"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.held.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        wanted = np.arange(0, self.rows, self.stride) if self.rows <= SAMPLE * self.stride else None
        good = wanted is not None and np.array_equal(self.held[:, 0], wanted)
        require(good, "held does not have the rows of the stride")


#: Experts whose weights are recorded.
EXPERTS = 12
#: Name under which the sum of the weights of a challenger's experts is recorded.
CHALLENGER = "challenger"
#: Name under which the row is recorded at which the challenger of the entry before ended its trial.
TRIAL_END = "end of the trial"


class Trace(Stateful):
    """Losses along the stream with those of two baselines, drift alarms, calibration, sampled rows.

    The first baseline predicts the mean target, or the most frequent label, of earlier rows; the
    second repeats the target of the previous row. With a ``delay`` both know only the targets of
    rows that are at least delay + 1 rows old.
    """

    def __init__(
        self, labels: bool, probabilities: bool, coverage: float | None, delay: int = 0
    ) -> None:
        self.delay = delay
        self._late: list[Any] = []  # targets that the baselines do not know yet
        self.task = "classification" if labels else "regression"
        self.metric = METRICS[DEFAULTS[self.task][0]]
        interval = coverage is not None
        self.probabilities, self.interval = probabilities, interval
        self.nominal_coverage = coverage or 0.0
        self.baseline, self.repeat = make_baselines(self.task)
        self.baseline_scores = Scores(get_scores(usual_metrics(self.task, probabilities)), None)
        self.repeat_scores = Scores(get_scores(usual_metrics(self.task, False)), None)
        #: Loss, losses of both baselines; with intervals also whether y lay inside, and the width.
        self.segments = SegmentSums(5 if interval else 3)
        self.covered = np.zeros(2)  # intervals that contained y, and all intervals
        self.interval_score = Pinball("interval_score")
        self.drift = DriftAlarm() if labels else ErrorAlarm()
        #: y, prediction and, with intervals, their ends.
        self.sample = Sample(4 if interval else 2)
        self.recent = np.zeros((0, 4 if interval else 2))  # the same of the last rows
        self.counts = Counts()
        self.calibration = Calibration()
        self.model_history = ModelHistory()

    @property
    def alarms(self) -> list[Alarm]:
        """The drift alarms so far."""
        return self.drift.alarms

    def add(self, y: NDArray[Any], forecast: Forecast, unscored: int, blind: int = 0) -> None:
        """Add labelled rows, the first ``blind`` of which have no prediction and are not scored.

        ``unscored`` rows come before the scored ones: those, and those without a label.
        """
        average, last, known = self._predict_baselines(y)
        y, forecast, average, last = y[blind:], forecast[blind:], average[blind:], last[blind:]
        if not len(y):
            return
        # A model that has learned before may predict rows that the baselines cannot.
        late = max(0, known - blind)
        for scores, own in ((self.baseline_scores, average), (self.repeat_scores, last)):
            if late < len(y):
                scores.add(y[late:], own[late:])
        values = [self.metric.rows(y, one.values) for one in (forecast, average, last)]
        for theirs in values[1:]:
            theirs[:late] = values[0][:late]
        if forecast.intervals is not None:
            self.interval_score.add(y, forecast)
            ends = forecast.intervals.reshape(len(y), -1, 2)  # several outputs count together
            inside = (ends[..., 0] <= y.reshape(len(y), -1)) & (
                y.reshape(len(y), -1) <= ends[..., 1]
            )
            shares, widths = inside.mean(axis=1), (ends[..., 1] - ends[..., 0]).mean(axis=1)
            known = ~np.isnan(widths)
            self.covered = self.covered + np.array([shares[known].sum(), known.sum()])
            # The first two rows have no intervals; they enter the curves at nominal coverage.
            values += [np.where(known, shares, self.nominal_coverage), np.where(known, widths, 0.0)]
        self.segments.add(np.column_stack(values))
        if self.task == "classification":
            self.counts.add(y, forecast)
            self.drift.add(values[0], unscored)
            if forecast.probabilities is not None:
                self.calibration.add(y, forecast)
            return
        self.drift.add(absolute_errors(y, forecast), unscored)
        if y.ndim == 1:
            shown = [y, forecast.values]
            if forecast.intervals is not None:
                shown += list(forecast.intervals.T)
            rows = np.column_stack(shown)
            self.sample.add(rows)
            self.recent = np.concatenate((self.recent, rows[-RECENT:]))[-RECENT:]

    def _predict_baselines(self, y: NDArray[Any]) -> tuple[Forecast, Forecast, int]:
        """Return the forecasts of both baselines for rows with targets y, which then arrive.

        Also return how many of the rows come before any target that the baselines know.
        """
        new = not (self.baseline.counts if self.task == "classification" else self.baseline.rows)
        if not self.delay:
            return *self._learn_baselines(y), int(new)
        held = [*self._late, *y.tolist()]
        known, self._late = column(held[: -self.delay]), held[-self.delay :]
        known = known.reshape(-1, *y.shape[1:])
        early = self._before_targets(y[: len(y) - len(known)])
        if not len(known):
            return early, early, len(y)
        average, last = self._learn_baselines(known)
        return joined([early, average]), joined([early, last]), len(early) + new

    def _learn_baselines(self, y: NDArray[Any]) -> tuple[Forecast, Forecast]:
        last = Forecast(self.repeat.predict_then_learn(None, y))
        if not self.probabilities:
            return Forecast(self.baseline.predict_then_learn(None, y)), last
        values, shares = self.baseline.predict_then_learn(None, y, output="both")
        return Forecast(values, shares, self.baseline.classes_), last

    def _before_targets(self, y: NDArray[Any]) -> Forecast:
        """Return the forecast of rows that come before any target is known."""
        if self.task == "regression":
            return Forecast(np.zeros(y.shape))
        unknown = nothing_known(len(y)) if self.probabilities else ()
        return Forecast(np.full(len(y), None), *unknown)

    def observe_model(self, rows: int, model: Any) -> None:
        """Record the number of points and the experts' weights, if an entry is due.

        The experts of a challenger on trial are recorded together.
        """
        history = self.model_history
        if not history.due(rows):
            return
        learner = _learner_of(model)
        values = {}
        if size := getattr(learner, "size_", None):
            values["points"] = float(size)
        trial: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        for expert in getattr(learner, "experts_", []):
            (trial if expert.get("learner") == "challenger" else others).append(expert)
        if share := sum(float(expert.get("weight", 0.0)) for expert in trial):
            values[CHALLENGER] = share
        before, held = history.entries[-1] if history.entries else (0, {})
        if CHALLENGER in held:
            ends = [int(change["end"] or 0) for change in changes_of(model)]
            if ended := [end for end in ends if before < end <= rows]:
                values[TRIAL_END] = float(ended[0])
        for expert in others[:EXPERTS]:
            if weight := float(expert.get("weight", 0.0)):
                values[expert_name(expert)] = weight
        history.add(rows, values)

    @property
    def outputs(self) -> set[tuple[int, ...]]:
        """Shapes of the target of a row; a valid state has one."""
        if self.task == "classification":
            return self.baseline_scores.outputs
        own = {np.shape(self.baseline.total), np.shape(self.repeat.last)}
        own = own if self.baseline.rows or not self.delay else set()  # 0 before any target
        own |= {np.shape(value) for value in self._late}
        return own | self.baseline_scores.outputs | self.repeat_scores.outputs

    @property
    def coverage(self) -> float:
        """Share of the intervals that contained y."""
        held, rows = self.covered
        return float(held / rows) if rows else math.nan

    @property
    def baselines(self) -> dict[str, dict[str, float]]:
        """Metrics of the baselines by name, the default baseline first."""
        first, second = BASELINES[self.task]
        return {first: self.baseline_scores.values(), second: self.repeat_scores.values()}

    STATE = (
        *(Part(name, name) for name in ("baseline", "baseline_scores", "repeat", "repeat_scores")),
        *(Part(name, name) for name in ("segments", "drift", "sample", "counts", "calibration")),
        Part("model_history", "model_history"),
        Part("interval_score", "interval_score"),
        Targets("late"),
        Values("covered", (2,), "covered"),
        Values("recent", ("recent", "shown"), "recent"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"shown": self.recent.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        most = min(RECENT, self.sample.rows)
        require(sizes["recent"] <= most, f"recent has more than {most} rows")
        require(len(self._late) <= self.delay, "late has more targets than delay allows")
        text = all(type(value) is str for value in self._late)
        numbers = not any(type(value) in (str, type(None)) for value in self._late)
        scalars = not any(type(value) is list for value in self._late)
        labels = self.task == "classification"
        good = (text or numbers) and scalars if labels else numbers
        require(good or not self._late, "late are not targets of the task")


def expert_name(expert: dict[str, Any]) -> str:
    """Return a name for an expert of the default learner."""
    view, factor = str(expert.get("view", "plain")), expert.get("factor")
    owner = "challenger, " if expert.get("learner") == "challenger" else ""
    if factor is None:
        return f"{owner}{expert.get('kind', 'baseline')}: {view}"
    window = expert.get("window")
    words = [f"bandwidth x{factor:g}", f"alpha {expert['alpha']:g}"]
    words += [] if view == "plain" else [view]
    return owner + ", ".join([*words, *([f"last {window} rows"] if window else [])])


def _learner_of(model: Any) -> Any:
    """Return the learner inside a `Prepared` or another wrapper."""
    return getattr(model, "learner_", getattr(model, "learner", model))


def changes_of(model: Any, name: str = "changes_") -> list[dict[str, Any]]:
    """Return the last changes to which a model's learner has reacted (`changes_`), if it does."""
    return list(getattr(model, name, getattr(_learner_of(model), name, [])))


def directions_of(model: Any) -> list[dict[str, Any]]:
    """Return the directions along which a model's prediction changes (`directions_`), if any."""
    return changes_of(model, "directions_")


def count_changes(model: Any) -> dict[str, int]:
    """Return how many trials and swaps there were (`change_counts_`); empty if it has none."""
    return dict(getattr(_learner_of(model), "change_counts_", {}))


#: What happened to a challenger; "restarted" is followed by the next one.
_OUTCOMES = {
    "swap": "replaced the old one at row",
    "dropped": "was dropped at row",
    "restarted": "was restarted at row",
}


def describe_outcome(change: dict[str, Any]) -> str:
    """Describe what became of the challenger of one entry of ``changes_``."""
    if change["outcome"] not in _OUTCOMES:
        return "is on trial"
    return f"{_OUTCOMES[change['outcome']]} {change['end']:,}"


def describe_change(change: dict[str, Any]) -> str:
    """Describe one entry of ``changes_``."""
    columns = describe_columns(change)
    returned = change.get("returned")
    earlier = f"; an earlier learner returned at row {returned:,}" if returned else ""
    text = f"a new learner started at row {change['row'] + 1:,} and {describe_outcome(change)}"
    return f"{text}{earlier}{f' (changed: {columns})' if columns else ''}"


def describe_columns(change: dict[str, Any]) -> str:
    """Name the columns that changed, and what changed: the most certain one first."""
    listed = change.get("details", [])
    return ", ".join(f"{one['column']} ({one['changed']})" for one in listed)
