"""What a run looked like, in bounded memory: for its report, its pictures and its alarms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.baselines import LastLabel, LastValue, RunningMajority, RunningMean
from pronk.evaluate.counts import Counts
from pronk.evaluate.course import Course, Marks, Sample
from pronk.evaluate.drift import Alarm, DriftAlarm, ErrorAlarm
from pronk.evaluate.forecasts import Forecast
from pronk.evaluate.metrics import ALL, DEFAULTS, METRICS, get_scores
from pronk.evaluate.scores import Scores
from pronk.evaluate.state import AnyReal, Values, figure
from pronk.evaluate.statistics import absolute_errors
from pronk.parts.state import Part, Sizes, Stateful

Array = NDArray[np.float64]

#: What the baselines are called.
BASELINES = {
    "regression": ("running mean", "last value"),
    "classification": ("most frequent label", "last label"),
}
#: Bins of probabilities, for their calibration.
CALIBRATION = 20
#: Experts whose weights are drawn.
EXPERTS = 12


class Portrait(Stateful):
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

    def _take(self, state: Any) -> Sizes:
        wanted = self.wanted
        held = figure(state.get("wanted") if isinstance(state, dict) else None, "wanted")
        if held != wanted:
            self.course, self.sample = Course(4 if held else 2), Sample(4 if held else 2)
        sizes = super()._take(state)
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
