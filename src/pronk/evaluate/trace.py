"""What a run looked like, in bounded memory: for its report, its pictures and its alarms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Count, Part, Sizes, Stateful, checked_count, require
from pronk.evaluate.baselines import LastLabel, LastValue, RunningMajority, RunningMean
from pronk.evaluate.drift import Alarm, DriftAlarm, ErrorAlarm
from pronk.evaluate.forecasts import AnyReal, Forecast, Items, Values, figure
from pronk.evaluate.metrics import ALL, DEFAULTS, METRICS, Scores, get_scores
from pronk.evaluate.statistics import Counts, absolute_errors

# ----------------------------------------------------------------------------------------
# A run in bounded memory, for its picture: losses in segments, and some rows spread over all.
#
# Segments have equal length, counted from the start of the stream, and so have the gaps between
# the rows that are held. When there are too many, neighbours become one, or every other goes, and
# the length doubles. No random numbers, and any cut of the stream gives the same.

Array = NDArray[np.float64]

#: Most segments and most rows held; even.
SEGMENTS, SAMPLE = 256, 512
#: Rows of the first segments.
SHORTEST = 32


class Course(Stateful):
    """Sums of some quantities over segments of rows.

    >>> import numpy as np
    >>> course = Course(1)
    >>> course.add(np.arange(100.0)[:, None])
    >>> print(course.ends, course.means[:, 0])
    [ 32  64  96 100] [15.5 47.5 79.5 97.5]
    """

    def __init__(self, columns: int) -> None:
        self.length = SHORTEST
        self.rows = 0
        self.sums = np.zeros((0, columns + 1))  # the last column counts

    def add(self, values: Array) -> None:
        """The quantities of the next rows, (n, columns)."""
        values = np.column_stack((values, np.ones(len(values))))
        while len(values):
            last = len(self.sums) * self.length
            room = last - self.rows
            if not room:
                if len(self.sums) == SEGMENTS:
                    self._double()
                    continue
                new = min(-(-len(values) // self.length), SEGMENTS - len(self.sums))
                self.sums = np.concatenate((self.sums, np.zeros((new, self.sums.shape[1]))))
                continue
            taken = values[:room]
            places = (self.rows + np.arange(len(taken))) // self.length
            np.add.at(self.sums, places, taken)
            self.rows += len(taken)
            values = values[room:]
        self.sums = self.sums[: -(-self.rows // self.length)]

    def _double(self) -> None:
        self.sums = self.sums[0::2] + self.sums[1::2]
        self.length *= 2

    @property
    def ends(self) -> NDArray[np.int64]:
        """Rows at the end of each segment."""
        return np.minimum(np.arange(1, len(self.sums) + 1) * self.length, self.rows)

    @property
    def means(self) -> Array:
        """Means of the quantities over each segment."""
        return np.asarray(self.sums[:, :-1] / self.sums[:, -1:])

    STATE = (
        Count("length", "length", low=SHORTEST),
        Count("rows", "rows"),
        Values("sums", ("segments", "columns"), "sums"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.sums.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        segments = -(-self.rows // self.length)
        good = sizes["segments"] == segments <= SEGMENTS
        require(good, "sums has other segments than the rows make")


def _checked_mark(state: Any, name: str) -> tuple[int, dict[str, float]]:
    good = isinstance(state, list) and len(state) == 2 and isinstance(state[1], dict)
    require(good, f"{name} is not a mark")
    values = {str(key): figure(value, name) for key, value in state[1].items()}
    return checked_count(state[0], name), values


class Marks(Stateful):
    """Values at some rows (points held, weights), at most one for a length of rows that doubles.

    They are those at the end of a block: where they fall depends on the blocks.
    """

    def __init__(self) -> None:
        self.length = SHORTEST
        self.marks: list[tuple[int, dict[str, float]]] = []

    def due(self, rows: int) -> bool:
        """Whether a mark is wanted after so many rows."""
        return not self.marks or rows // self.length > self.marks[-1][0] // self.length

    def add(self, rows: int, values: dict[str, float]) -> None:
        """The values after so many rows."""
        self.marks.append((rows, values))
        while len(self.marks) > SEGMENTS:
            self.length *= 2
            last: dict[int, tuple[int, dict[str, float]]] = {}
            for mark in self.marks:
                last[mark[0] // self.length] = mark
            self.marks = list(last.values())

    STATE = (
        Count("length", "length", low=SHORTEST),
        Items("marks", "marks", out=list, back=_checked_mark),
    )

    def _restored(self, sizes: Sizes) -> None:
        rows = [mark[0] for mark in self.marks]
        require(rows == sorted(set(rows)), "marks are not in order")
        require(len(rows) <= SEGMENTS, "marks are too many")


class Sample(Stateful):
    """Every stride-th row, at most `SAMPLE` of them."""

    def __init__(self, columns: int) -> None:
        self.stride = 1
        self.rows = 0
        self.held = np.zeros((0, columns + 1))  # the first column is the row

    def add(self, values: Array) -> None:
        """The next rows."""
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
        require(good, "held are other rows than the stride says")


#: What the baselines are called.
BASELINES = {
    "regression": ("running mean", "last value"),
    "classification": ("most frequent label", "last label"),
}
#: Bins of probabilities, for their calibration.
CALIBRATION = 20
#: Experts whose weights are drawn.
EXPERTS = 12


class Trace(Stateful):
    """Losses along the stream beside those of two baselines, alarms, calibration, some rows.

    The baselines are the mean of the targets or the most frequent label of the rows before, and the
    target of the row before.
    """

    def __init__(self, labels: bool, probabilities: bool, coverage: float | None) -> None:
        self.task = "classification" if labels else "regression"
        self.metric = METRICS[DEFAULTS[self.task][0]]
        names = [n for n in ALL[self.task] if probabilities or n not in ("log_loss", "auc")]
        interval = coverage is not None
        self.probabilities, self.interval = probabilities, interval
        self.wanted = coverage or 0.0
        self.guess: Any = RunningMajority() if labels else RunningMean()
        self.guessed = Scores(get_scores(names), None)
        self.repeat: Any = LastLabel() if labels else LastValue()
        plain = [name for name in names if name not in ("log_loss", "auc")]
        self.repeated = Scores(get_scores(plain), None)
        #: The loss, that of guessing; whether y lay in the interval, and the interval's width.
        self.course = Course(4 if interval else 2)
        self.covered = np.zeros(2)  # intervals that held y, and how many there were
        self.drift = DriftAlarm() if labels else ErrorAlarm()
        #: y, prediction and, where there are some, the ends of the interval.
        self.sample = Sample(4 if interval else 2)
        self.counts = Counts()
        #: Sum of probabilities, of hits, and rows, by bins of the probability.
        self.calibration = np.zeros((CALIBRATION, 3))
        self.marks = Marks()

    @property
    def alarms(self) -> list[Alarm]:
        """When the loss rose."""
        return self.drift.alarms

    def add(self, y: NDArray[Any], forecast: Forecast, unscored: int) -> None:
        """Rows that were scored, after so many that were not."""
        guessed = self._guess(y)
        self.guessed.add(y, guessed, self.guessed.losses(y, guessed))
        repeated = Forecast(self.repeat.predict_then_learn(None, y))
        self.repeated.add(y, repeated, self.repeated.losses(y, repeated))
        values = [self.metric.rows(y, forecast.values), self.metric.rows(y, guessed.values)]
        if forecast.intervals is not None:
            ends = forecast.intervals.reshape(len(y), -1, 2)  # several outputs count together
            inside = (ends[..., 0] <= y.reshape(len(y), -1)) & (
                y.reshape(len(y), -1) <= ends[..., 1]
            )
            shares, widths = inside.mean(axis=1), (ends[..., 1] - ends[..., 0]).mean(axis=1)
            known = ~np.isnan(widths)
            self.covered = self.covered + np.array([shares[known].sum(), known.sum()])
            # The first two rows have no intervals; in the curves they count as what was wanted.
            values += [np.where(known, shares, self.wanted), np.where(known, widths, 0.0)]
        self.course.add(np.column_stack(values))
        if self.task == "classification":
            self.counts.add(y, forecast)
            self.drift.add(values[0], unscored)
            if forecast.probabilities is not None:
                self._calibrate(y, forecast)
            return
        self.drift.add(absolute_errors(y, forecast), unscored)
        if y.ndim == 1:
            shown = [y, forecast.values]
            if forecast.intervals is not None:
                shown += list(forecast.intervals.T)
            self.sample.add(np.column_stack(shown))

    def _guess(self, y: NDArray[Any]) -> Forecast:
        if not self.probabilities:
            return Forecast(self.guess.predict_then_learn(None, y))
        values, shares = self.guess.predict_then_learn(None, y, output="both")
        return Forecast(values, shares, self.guess.classes_)

    def _calibrate(self, y: NDArray[Any], forecast: Forecast) -> None:
        assert forecast.probabilities is not None and forecast.classes is not None
        known = ~np.isnan(forecast.probabilities).any(axis=1)
        for i, label in enumerate(forecast.classes):
            shares = forecast.probabilities[known, i]
            place = np.minimum((shares * CALIBRATION).astype(np.int64), CALIBRATION - 1)
            hits = (y[known] == label).astype(np.float64)
            added = np.column_stack((shares, hits, np.ones(len(shares))))
            np.add.at(self.calibration, place, added)

    def watch(self, rows: int, model: Any) -> None:
        """Note the points and the experts' weights after so many rows, if it is time."""
        if not self.marks.due(rows):
            return
        learner = getattr(model, "learner", model)
        values = {}
        size = getattr(learner, "size_", None)
        if size:
            values["points"] = float(size)
        for expert in getattr(learner, "experts_", [])[:EXPERTS]:
            if weight := float(expert.get("weight", 0.0)):
                values[expert_name(expert)] = weight
        self.marks.add(rows, values)

    @property
    def outputs(self) -> set[tuple[int, ...]]:
        """Shapes of a row's target, of which there should be one."""
        if self.task == "classification":
            return self.guessed.outputs
        own = {np.shape(self.guess.total), np.shape(self.repeat.last)}
        return own | self.guessed.outputs | self.repeated.outputs

    @property
    def coverage(self) -> float:
        """Share of the intervals that held y."""
        held, rows = self.covered
        return float(held / rows) if rows else math.nan

    @property
    def baselines(self) -> dict[str, dict[str, float]]:
        """The metrics of the baselines by their names, the usual one first."""
        first, second = BASELINES[self.task]
        return {first: self.guessed.values(), second: self.repeated.values()}

    STATE = (
        *(Part(name, name) for name in ("guess", "guessed", "repeat", "repeated")),
        *(Part(name, name) for name in ("course", "drift", "sample", "counts")),
        Values("calibration", (CALIBRATION, 3), "calibration"),
        Part("marks", "marks"),
        AnyReal("wanted", "wanted"),
        Values("covered", (2,), "covered"),
    )

    def _load(self, state: Any) -> Sizes:
        wanted = self.wanted
        held = figure(state.get("wanted") if isinstance(state, dict) else None, "wanted")
        if held != wanted:
            self.course, self.sample = Course(4 if held else 2), Sample(4 if held else 2)
        sizes = super()._load(state)
        if held != wanted:
            self.wanted, self.covered = wanted, np.zeros(2)
            self._without_intervals()
        return sizes

    def _without_intervals(self) -> None:
        """Rows before this had none, or others: they go on without."""
        blank = 2 if self.interval else 0
        sums, held = self.course.sums, self.sample.held
        gone = np.full((len(sums), blank), np.nan)
        self.course.sums = np.hstack((sums[:, :2], gone, sums[:, -1:]))
        self.sample.held = np.hstack((held[:, :3], np.full((len(held), blank), np.nan)))


def expert_name(expert: dict[str, Any]) -> str:
    """An expert of the default learner in words."""
    view, factor = str(expert.get("view", "plain")), expert.get("factor")
    if factor is None:
        return f"guess: {view}"
    window = expert.get("window")
    words = [f"bandwidth x{factor:g}", f"alpha {expert['alpha']:g}"]
    words += [] if view == "plain" else [view]
    return ", ".join([*words, *([f"last {window} rows"] if window else [])])
