"""The inner learner of the default one: many ridge regressions on one dictionary, aggregated.

It predicts with an error scale per row; `recovery` has one or two such learners and calibrates
their prediction. The default learner combines eight ideas, one or two files each:

1. **Scales** (here, `core.scales`, `clipping`). Columns and targets are scaled by the first rows,
   without outliers, so that no unit matters. Targets and errors are clipped to limit the effect of
   outliers.
2. **Experts** (`settings`, `experts`, `baselines`). Ridge regressions that differ in what they read
   of a row (`representation`), kernel, bandwidth and window, which counts rows or time (`clock`);
   baselines; linear experts for labels.
3. **Points** (`points`). One dictionary of Nystrom points for all experts, chosen by leverage,
   growing with the stream up to ``budget``.
4. **Local experts** (`local`). Partition trees with small exact kernel learners in their leaves,
   from row 128 on: their capacity grows with the stream.
5. **Boosted trees** (`boosting`), fitted to the last rows while the stream goes on.
6. **Aggregation** (`mixture`, `stacks`, `certificate`). Exponential weights over the experts, ridge
   or logistic regression on their predictions, and exponential weights over both.
7. **Calibration** (`calibration`, `probabilities`). The scale of the next error, prediction
   intervals; class probabilities, which mix the margins with rates and logistic learners under log
   loss.
8. **Recovery** (`recovery`, `trial`, `returning`). A challenger that starts where the stream has
   changed, and replaced learners that return with their concept.

Everything that changes the set of points or experts happens at rows counted from the start of the
stream (stages and epochs), and every row is predicted and learned by the same compiled steps, so
any cut of the stream into calls gives the same bits:

    row 8, 32, .., 512 scales and bandwidths are set from all rows so far, which are stored; new
                       experts choose points among them and learn them again, from row 128 on with
                       local experts
    row 2048           the same with the best settings only and more points; the stored rows are
                       dropped
    every 256 rows     proposed rows become points, up to most_points(t)
    row 8192           the worst experts are dropped; all but the best keep half of their points

Predictions of the first 8 rows are the median of earlier targets (the mean of labels). Experts
learn clipped targets; the error scale and the intervals use targets as given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import MOST_TARGETS, Past, find_lags, informative_outputs
from pronk.aggregate.certificate import MixtureCertificate
from pronk.aggregate.clipping import ErrorClipping, TargetClipping
from pronk.aggregate.clock import LONGEST_GAP
from pronk.aggregate.experts import Experts
from pronk.aggregate.far import FarHead
from pronk.aggregate.late import MOST_NUMBERS, Reader, ReadRows
from pronk.aggregate.points import most_points
from pronk.aggregate.representation import ColumnScale, column_scale, local_metrics
from pronk.aggregate.settings import (
    FULL,
    PAST,
    PLAIN,
    RELEVANCE,
    Setting,
    View,
    empty_views,
    grid,
    make_views,
    views_of,
)
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingRows, recombined
from pronk.core.randomness import KORS_COINS, Uniforms, generator
from pronk.core.state import (
    LARGEST,
    LARGEST_TARGET,
    Count,
    Numbers,
    Part,
    Rows,
    Sizes,
    Stateful,
    Unsaved,
    checked_count,
    require,
)
from pronk.newton.forecaster import EPOCH

Array = NDArray[np.float64]

#: Rows at which scales, points and experts are set from all rows so far.
STAGES = (8, 32, 128, 256, 512, 2048)
#: First stage with local experts; the same where past labels are read, which say more at first.
LOCAL_ROWS, LOCAL_ROWS_LATE = 128, 512
#: Number of experts without window that are kept at the last stage.
SURVIVORS = 4
#: Last rows whose median lateness is that of the next ones.
LATE_ROWS = 64
#: Smaller differences between targets count as 0.
SMALLEST = 1e-300
#: Random stream for the order in which first rows are offered as points.
ORDER = 4


class InnerLearner(Stateful):
    """Scales, stages and experts for unscaled rows and targets; predictions and error scales."""

    def __init__(
        self, kernel: Kernel, columns: int, outputs: int, budget: int, seed: int, signed: bool,
        forgetting: bool = True, few: bool = False, memory: int = 0, delay: int = 0,
        timed: bool = False,
    ) -> None:  # fmt: skip
        self.delay, self.timed = delay, timed
        self.kernel, self.columns, self.outputs = kernel, columns, outputs
        self.few = few  # a small set of experts
        self.memory = memory if RELEVANCE in views_of(kernel) else 0  # bytes of local experts
        self.budget, self.seed, self.signed = budget, seed, signed
        self.forgetting = forgetting
        self._rows = 0
        self._late_Y = np.empty((0, outputs))  # targets that have not arrived
        # How late the labels of the last rows were (`late`), row t at t modulo LATE_ROWS, and the
        # lateness that the experts were made for.
        self._late_rows, self.lateness = np.zeros(LATE_ROWS), 0
        self.clipping = TargetClipping(outputs)
        self.error_clipping = ErrorClipping(outputs)
        self._first_X, self._first_Y = GrowingRows(columns), GrowingRows(outputs)
        self._first_gaps = GrowingRows(1) if timed else None
        # Predictions of the first rows, and their targets with clipped errors.
        self._first_P, self._first_clipped = GrowingRows(outputs), GrowingRows(outputs)
        self._scale: ColumnScale | None = None
        self._level = np.zeros(outputs)
        self._size = np.ones(outputs)
        self.experts: Experts | None = None

    @property
    def rows(self) -> int:
        """Number of rows learned so far; with a delay, whose targets have arrived."""
        return self._rows

    @property
    def points(self) -> Array:
        """Points of the dictionary, scaled as the kernel reads them."""
        return np.empty((0, self.columns)) if self.experts is None else self.experts.points

    @property
    def directions(self) -> Array:
        """Weights (columns, m) of the directions that experts read; m is 0 where none does."""
        views = [] if self.experts is None else self.experts.views
        return next((v.weights for v in views if v.number == FULL), np.zeros((self.columns, 0)))

    # -- learning ---------------------------------------------------------------------------

    def learn(
        self, X: Array, Y: Array, gaps: Array | None = None, read: ReadRows | None = None
    ) -> tuple[Array, Array]:
        """Predict then learn each row; return predictions and error scales, (n, outputs).

        With a delay a target is learned when it arrives (`late`). ``gaps`` (n,) are the gaps before
        the rows (`clock`), if it is timed. ``read``: rows as they were predicted earlier.
        """
        out, scales = np.empty((len(X), self.outputs)), np.ones((len(X), self.outputs))
        start = 0
        while start < len(X):
            stop, waiting = len(X), len(self._late_Y)
            for stage in STAGES:
                if self._rows < stage:
                    stop = min(stop, start + stage - self._rows + self.delay - waiting)
                    break
            rows = slice(start, stop)
            given = self._arriving(Y[rows])
            if self._rows < STAGES[-1]:
                self._first_X.append(X[rows])
                self._first_Y.append(given)
                if self._first_gaps is not None and gaps is not None:
                    self._first_gaps.append(gaps[rows, None])
            targets = given if self.signed else self.clipping.learn(given)
            after = None if gaps is None else gaps[rows]
            earlier = None if read is None else read[rows].fitting(self._stage, self._mark)
            out[rows], scales[rows] = self._learn_rows(
                X[rows], targets, given, after, waiting, earlier
            )
            self._store_clipped(out[rows])
            self._note_lateness(len(given), None if read is None else read[rows])
            self._rows += len(given)
            if len(given) and self._rows in STAGES:
                self._set_stage()
            start = stop
        return out, scales

    def _note_lateness(self, rows: int, read: ReadRows | None = None) -> None:
        """Store how late the labels of the next rows are, up to the last stage."""
        if self._rows >= STAGES[-1]:
            return
        late = np.zeros(rows) if read is None else read.lateness(self._rows)
        if late.any() or self._late_rows.any():
            self._late_rows = self._late_rows.copy()
            last = np.arange(max(0, rows - LATE_ROWS), rows)
            self._late_rows[(self._rows + last) % LATE_ROWS] = late[last]

    def _arriving(self, Y: Array) -> Array:
        """Add the targets of new rows; return those that arrive by the last of these rows."""
        if not self.delay:
            return Y
        held = np.vstack((self._late_Y, Y))
        count = max(0, len(held) - self.delay)
        self._late_Y = held[count:].copy()
        return held[:count]

    def _store_clipped(self, P: Array) -> None:
        """Store first targets with errors clipped, to be learned again at the next stage.

        P (n, outputs) are the predictions of new rows, whose targets may arrive later.
        """
        if self._rows >= STAGES[-1] or self.signed:
            return
        self._first_P.append(P)
        known = self._first_clipped.size
        # A row that was predicted before any target was known has no error.
        first = max(known, min(1 + self.delay, self._first_Y.size))
        Y = self._first_Y.values
        self._first_clipped.append(Y[known:first])
        clipped = self.error_clipping.learn(self._first_P.values[first : len(Y)], Y[first:])
        self._first_clipped.append(clipped)

    def _scaled_targets(self, Y: Array) -> Array:
        """Return targets in the units that the experts learn."""
        return np.asarray((Y - self._level) / self._size)

    def _learn_rows(
        self, X: Array, Y: Array, given: Array, gaps: Array | None, waiting: int,
        read: ReadRows | None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Predict then learn rows; return predictions and error scales.

        Y and ``given`` are the targets that arrive, clipped and as given; ``waiting`` rows before
        these had no target yet.
        """
        if self.experts is None:
            known = self._rows + np.maximum(np.arange(waiting, waiting + len(X)) - self.delay, 0)
            P = np.stack([self._first_prediction(count) for count in known.tolist()])
            return P, np.ones(P.shape)
        Z, targets = self._scaled(X, learn=True), self._scaled_targets(Y)
        given = targets if self.signed else self._scaled_targets(given)
        P, scales = self.experts.learn(Z, targets, given, gaps, read=read)
        return P * self._size + self._level, scales * self._size

    def _first_prediction(self, rows: int) -> Array:
        """Return the prediction before the first stage: the mean label, or the median target."""
        Y = self._first_Y.values[:rows]
        if not rows:
            return np.zeros(self.outputs)
        return np.asarray(Y.mean(axis=0) if self.signed else np.median(Y, axis=0))

    def _scaled(self, X: Array, *, learn: bool = False) -> Array:
        """Return scaled rows; a user's kernel function gets them unscaled."""
        if self._scale is None:
            return X
        return self._scale.learn_transform(X) if learn else self._scale.transform(X)

    def _set_stage(self) -> None:
        """Set scales, bandwidths, points and experts from the rows so far; learn them again."""
        X, Y = self._first_X.values, self._first_Y.values
        n, given = len(Y), Y
        self.lateness = min(int(np.median(self._late_rows[:n])), n - 1)
        delay = self.delay or self.lateness
        # Scales of columns and targets.
        if not self.signed:
            Y = self.clipping.start(self._first_clipped.values)
            self._set_target_scale(Y)
        targets = self._scaled_targets(Y)
        sources = informative_outputs(targets, self.signed)
        metric = None
        if not self.kernel.foreign:
            chooses = RELEVANCE in views_of(self.kernel) and not self.few
            of_scale = targets[:, sources] if chooses else targets[:, :0]
            self._scale, metric = column_scale(X, of_scale, self.seed)
        Z = self._scaled(X)
        # Settings, lags and views of new experts.
        lags, error_lags = self._find_lags(targets, sources, delay)
        settings = grid(self.kernel, self.forgetting, bool(lags), self.few)
        if n == STAGES[-1] and self.experts is not None:
            settings = [self.experts.settings[i] for i in sorted(self.experts.best(SURVIVORS))]
        numbers = sorted({PLAIN, *(s.view for s in settings)})
        if PAST not in numbers:
            lags = []
        elif not lags:  # experts that read lagged targets were kept, but no lag is significant now
            sources, lags = sources[:MOST_TARGETS], [1, 2]
        past = Past(self.outputs, sources, lags, delay)
        whole, Z = Z, Z[:n]  # with the rows that wait for their targets, and without
        views = make_views(self.kernel, numbers, Z, targets, past, self.seed, metric)
        self.experts = self._make_experts(settings, views, past, self._limits(targets), error_lags)
        Z = np.hstack((Z, past.columns_of(targets)))
        if self._has_local(n, past):
            first = Z if n == STAGES[-1] else None
            found = [v.weights[:, 0] for v in views if v.number == (PAST if lags else RELEVANCE)]
            metrics = local_metrics(Z, targets[:, sources], self.seed, *found)
            self.experts.add_local(metrics, first)
        # Points among the rows so far, offered in random order.
        order = generator(self.seed, ORDER).permutation(n)
        uniforms = Uniforms(self.seed, KORS_COINS).draw(n)
        self.experts.add_points(
            np.ascontiguousarray(Z[order]), uniforms[order], most_points(n, self.budget)
        )
        # The rows so far again.
        gaps = None if self._first_gaps is None else self._first_gaps.values[:, 0].copy()
        self.experts.learn_again(
            np.ascontiguousarray(whole), targets, self._scaled_targets(given), gaps, self.lateness
        )
        self.experts.mixture.losses[:] = 0.0  # rows learned again do not count
        if n == STAGES[-1]:
            self._first_X, self._first_Y = GrowingRows(self.columns), GrowingRows(self.outputs)
            self._first_P, self._first_clipped = (GrowingRows(self.outputs) for _ in range(2))
            self._first_gaps = GrowingRows(1) if self.timed else None

    def _set_target_scale(self, Y: Array) -> None:
        """Set level and size (outputs,) to mean and deviation of Y (n, outputs); size 1 for 0."""
        # Divided by the largest first: squares of small targets would underflow to 0.
        largest = np.maximum(np.abs(Y).max(axis=0), SMALLEST)
        self._level, deviation = Y.mean(axis=0), (Y / largest).std(axis=0) * largest
        varies = (deviation > 1e-12 * np.abs(self._level)) & (deviation > SMALLEST)
        self._size = np.where(varies, deviation, 1.0)

    def _find_lags(
        self, targets: Array, sources: list[int], delay: int
    ) -> tuple[list[int], list[int]]:
        """Return the lags at which targets are read and those at which errors are read.

        The former are significant for the targets, the latter for targets or recent errors.
        """
        if PAST not in views_of(self.kernel):
            return [], []
        found = find_lags(targets, sources, self.signed, delay)
        if len(sources) > MOST_TARGETS:  # of many classes only labels are read
            return found, []
        again = []
        if self.experts is not None:
            again = find_lags(self.experts.mixture.errors, sources, delay=delay)
        return found, sorted({*found, *again})

    def _limits(self, targets: Array) -> Array:
        """Return the range (2, outputs) of the first targets."""
        if self.signed:
            return np.tile([[-1.0], [1.0]], (1, self.outputs))
        return np.stack((targets.min(axis=0), targets.max(axis=0)))

    def _has_local(self, rows: int, past: Past) -> bool:
        """Whether there are local experts after ``rows`` rows."""
        first = LOCAL_ROWS_LATE if self.signed and past.columns else LOCAL_ROWS
        return self.memory > 0 and rows >= first

    def _make_experts(
        self, settings: list[Setting], views: list[View], past: Past, limits: Array,
        error_lags: Sequence[int] = (),
    ) -> Experts:  # fmt: skip
        return Experts(
            settings, views, past, self.outputs, self.budget, self.seed, limits, self.signed,
            self.columns, self.forgetting, error_lags, self.memory, self.few, self.delay,
            self.timed, self.lateness,
        )  # fmt: skip

    def set_memory(self, memory: int) -> None:
        """Set the bytes that local experts may use from now on; 0 stays 0."""
        self.memory = memory if self.memory else 0
        if self.experts is not None:
            self.experts.memory = self.memory
            if self.experts.local is not None:
                self.experts.local.forest.set_memory(self.memory)
            if self.experts.far is not None:
                self.experts.far.set_memory(self.memory)

    # -- the current model --------------------------------------------------------------------

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predict rows that may come next; return predictions and error scales, (n, outputs)."""
        if not len(X):
            return np.empty((0, self.outputs)), np.empty((0, self.outputs))
        if self.experts is None:
            P = np.tile(self._first_prediction(self._rows), (len(X), 1))
            return P, np.ones(P.shape)
        blocks = [X[i : i + EPOCH] for i in range(0, len(X), EPOCH)]
        parts = [self.experts.predict(self._scaled(block)) for block in blocks]
        P, scales = (np.concatenate(part) for part in zip(*parts, strict=True))
        return P * self._size + self._level, scales * self._size

    @property
    def _stage(self) -> int:
        """Number of stages that have set the experts."""
        return sum(stage <= self._rows for stage in STAGES)

    @property
    def _mark(self) -> int:
        """Digest of the units of the views: of those that the last stage found."""
        units = [] if self.experts is None else [float(view.unit) for view in self.experts.views]
        return crc32(np.array(units).tobytes())

    def read(self, X: Array, started: int) -> tuple[Array, Array, Reader | None, Array]:
        """Predict rows that may come next; return predictions, error scales, reader and record.

        ``started`` is the row at which the learner started. There is no reader, and the record is
        empty, before there are experts and where a record would be too long (`late`).
        """
        nothing = np.empty((len(X), 0))
        if self.experts is None or self.experts.record_width() > MOST_NUMBERS:
            return *self.predict(X), None, nothing
        blocks = [X[i : i + EPOCH] for i in range(0, len(X), EPOCH)]
        parts = [self.experts.read(self._scaled(block)) for block in blocks]
        P, scales, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        active, rows = tuple(self.experts.active), np.full((len(X), 1), float(self._rows))
        values = np.hstack((rows, values))
        reader = Reader(started, self._stage, self._mark, active, values.shape[1])
        return P * self._size + self._level, scales * self._size, reader, values

    @property
    def far(self) -> FarHead | None:
        """The second head (`far`), if there is one that has learned."""
        return self.experts.far if self.experts is not None and self.experts.looks_far else None

    def predict_far(self, X: Array) -> Array:
        """Predict rows far ahead with the second head; 2 P - 1 for classes of probability P."""
        assert self.experts is not None
        blocks = [X[i : i + EPOCH] for i in range(0, len(X), EPOCH)]
        P = np.concatenate([self.experts.predict_far(self._scaled(block)) for block in blocks])
        if self.signed:
            assert self.far is not None
            return self.far.calibrated(P)
        return np.asarray(P * self._size + self._level)

    def far_deviation(self, rows: int) -> Array:
        """Return the standard deviation of y around predictions of `predict_far`, (n, outputs)."""
        assert self.far is not None
        return np.tile(self.far.errors.deviation * self._size, (rows, 1))

    def far_half_widths(self, rows: int, coverage: float) -> Array:
        """Return the half-widths (n, outputs) of intervals around predictions of `predict_far`."""
        assert self.far is not None
        return np.tile(self.far.errors.half_widths(coverage) * self._size, (rows, 1))

    def variance(self, X: Array) -> Array:
        """Return the ridge leverage (n,) of rows for the leading expert; 0 before any."""
        if self.experts is None or not len(X):
            return np.zeros(len(X))
        blocks = [X[i : i + EPOCH] for i in range(0, len(X), EPOCH)]
        return np.concatenate([self.experts.variance(self._scaled(block)) for block in blocks])

    def certificate(self) -> MixtureCertificate:
        """Return that of the mixture over all outputs; early rows as they were learned again."""
        if self.experts is None:
            raise ValueError(f"a certificate needs at least {STAGES[0]} rows")
        inner = self.experts.mixture.certificate()
        if self.experts.local is None:
            return inner
        return replace(self.experts.local.mixture.certificate(), inner=inner)

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.outputs = matrix.shape[1]
        self.clipping = TargetClipping(self.outputs)
        self._first_Y.remap(matrix)
        self._late_Y = recombined(self._late_Y, matrix)
        self._first_P.remap(matrix)
        self._first_clipped.remap(matrix)
        self._level, self._size = np.zeros(self.outputs), np.ones(self.outputs)
        if self.experts is not None:
            self.experts.remap(matrix)

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Count("rows"),
        Part("clipping", "clipping", sizes={"outputs": "outputs"}),
        Rows("first_X", ("first_rows", "columns")),
        Rows("first_Y", ("first", "outputs")),
        Numbers("late_Y", ("late", "outputs"), written="replaced"),
        Numbers("late_rows", (LATE_ROWS,), low=0.0, whole="float", written="replaced"),
        Rows("first_P", ("predicted", "outputs")),
        Rows("first_clipped", ("clipped", "outputs")),
        Rows("first_gaps", ("first_rows", 1), low=0.0, high=LONGEST_GAP),
        Part("error_clipping", "error_clipping", sizes={"outputs": "clipping"}),
        Numbers("level", ("outputs",), written="replaced"),
        Numbers("size", ("outputs",), low=SMALLEST, written="replaced"),
        Part("scale", make="_new_scale"),
        Part("experts", "experts", make="_new_experts"),
        Unsaved("outputs"),
        Unsaved("lateness"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.columns, "outputs": self.outputs}

    def to_state(self) -> dict[str, Any]:
        """Return the state with the settings and units from which the experts are built."""
        state = super().to_state()
        if self.experts is not None:
            state["settings"] = [asdict(setting) for setting in self.experts.settings]
            state["units"] = [float(view.unit) for view in self.experts.views]
            state["lateness"] = self.lateness
        return state

    def _load(self, state: Any) -> Sizes:
        require(isinstance(state, dict), "the state is not a table")
        names = "settings", "units", "lateness"
        made = {name: state[name] for name in names if name in state}
        held = "experts" in state
        require(len(made) == len(names) * held, "settings and units are not there as experts are")
        if held:
            units, possible = made["units"], grid(self.kernel, self.forgetting, True, self.few)
            listed = made["settings"] if isinstance(made["settings"], list) else []
            settings = [s for s in possible if asdict(s) in listed]
            require(listed == [asdict(s) for s in settings], "settings are not of the grid")
            numbers = sorted({PLAIN, *(s.view for s in settings)})
            good = isinstance(units, list) and len(units) == len(numbers)
            good = good and all(type(u) in (int, float) and 0.0 < u < LARGEST for u in units)
            require(good, "units are not positive numbers, one per view")
            self.lateness = checked_count(made["lateness"], "lateness", 0, STAGES[-1])
            self._made = settings, empty_views(self.kernel, numbers, units)
        return super()._load({name: v for name, v in state.items() if name not in made})

    def _new_experts(self) -> Experts:
        past = Past(self.outputs, [], [], self.delay or self.lateness)
        return self._make_experts(*self._made, past, np.zeros((2, self.outputs)))

    def _new_scale(self) -> ColumnScale:
        return ColumnScale(np.zeros((1, self.columns)))

    def _restored(self, sizes: Sizes) -> None:
        # With labels no errors are clipped.
        fits = self.signed or sizes["clipping"] == self.outputs
        require(fits, "error_clipping does not fit the outputs")
        Y = self._first_Y.values
        if self.signed:
            require((np.abs(Y) == 1.0).all(), "first_Y are not labels")
            unit = (self._level == 0.0).all() and (self._size == 1.0).all()
            require(unit, "level and size are not those of labels")
        for values in (Y, self._first_clipped.values, self._level, self._size):
            within = np.abs(values).max(initial=0.0) <= LARGEST_TARGET
            require(within, "first_Y, level or size is larger than a target may be")
        if len(Y) and not self.signed:  # mean and deviation of the first targets
            span = (1.0 + 1e-9) * np.abs(Y).max(axis=0)
            require((np.abs(self._level) <= span).all(), "level is not that of the first targets")
            sized = (self._size <= span) | (self._size == 1.0)
            require(sized.all(), "size is not that of the first targets")
        kept = self._rows if self._rows < STAGES[-1] else 0
        require(sizes["first"] == kept, "first_Y has another number of rows than rows says")
        clipped = 0 if self.signed else kept
        require(sizes["clipped"] == clipped, "first_clipped has other rows than first_Y")
        require(sizes["late"] <= self.delay, "late_Y has more rows than wait")
        require(sizes["late"] == self.delay or not self._rows, "late_Y has fewer rows than wait")
        kept += sizes["late"] if self._rows < STAGES[-1] else 0
        require(sizes["first_rows"] == kept, "first_X has another number of rows than rows says")
        predicted = 0 if self.signed else kept
        require(sizes["predicted"] == predicted, "first_P has other rows than first_X")
        held = self._rows >= STAGES[0]
        require((self.experts is not None) == held, "experts are not there as rows says")
        if self.experts is not None:
            waits = self.experts.ring.rows == sizes["late"]
            require(waits, "experts have other rows that wait than late_Y")
            local = self._has_local(self._rows, self.experts.past)
            require((self.experts.local is not None) == local, "local is not there as rows says")
            self._require_ranges(self.experts)
        scaled = held and not self.kernel.foreign
        require((self._scale is not None) == scaled, "scale is not there as rows says")

    def _require_ranges(self, experts: Experts) -> None:
        """Raise unless the ranges of targets are those of labels, or have the first mean inside."""
        slack = 1e-9 * (1.0 + np.abs(self._level) / self._size)  # the mean is rounded
        for low, high in experts.ranges:
            good = (
                (low == -1.0) & (high == 1.0) if self.signed else (low <= slack) & (high >= -slack)
            )
            require(good.all(), "experts have a range without the first targets")
