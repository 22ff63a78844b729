"""The experts of the default learner on one dictionary, and the prediction of their mixture.

All groups of experts share the points (`points.Candidates`). `features.Features` computes the
features of a row in all groups, `newton.Forecasters` predicts and learns it with all experts,
`mixture.Mixture` combines their predictions and those of the baselines, and from row 128 on
`local.LocalExperts` combines its prediction with those of the local experts. Lagged targets, where
they are read, are stored behind the columns of a row.

Each of these is one compiled step per row, so any cut of the stream into calls gives the same bits,
and a call of one row is a block of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import Baselines, Past
from pronk.aggregate.calibration import ErrorScale
from pronk.aggregate.far import STRIDE, FarHead, is_anchor
from pronk.aggregate.features import Features
from pronk.aggregate.late import ReadRows, Ring
from pronk.aggregate.local import LocalExperts
from pronk.aggregate.mixture import WINDOWS as STACK_WINDOWS
from pronk.aggregate.mixture import Mixture, Row
from pronk.aggregate.points import GAMMA, Candidates, OpenRows, outside, proposes
from pronk.aggregate.representation import in_half_medians
from pronk.aggregate.settings import (
    FORGETFUL_POINTS,
    PAST,
    PLAIN,
    RELEVANCE,
    Group,
    Setting,
    View,
    best_settings,
    expert_table,
    views_of,
)
from pronk.core.linalg import recombined
from pronk.core.state import (
    LARGEST_TARGET,
    Count,
    Part,
    Parts,
    Places,
    Sizes,
    Stateful,
    Unsaved,
    require,
)
from pronk.newton.forecaster import EPOCH, Forecasters, weighted_sums

Array = NDArray[np.float64]

#: Number of experts without window that stay active, by rows seen.
ACTIVE_EXPERTS = {8192: 3}
#: Share of the points that all but the best of them keep at the last of these rows.
LATE_SHARE = 1 / 2


class Recorded(NamedTuple):
    """Rows as they were predicted (`late`), where ``known`` (n,).

    past    (n, lagged targets)
    inner   the parts of the mixture's prediction, for n rows
    own     those of the local experts' mixture, if there is one
    scales  (n, outputs) error scales
    """

    known: NDArray[np.bool_]
    past: Array
    inner: Row
    own: Row | None
    scales: Array

    def cut(self, rows: slice) -> Recorded:
        """Return some of the rows."""
        inner, own = Row(*(part[rows] for part in self.inner)), None
        if self.own is not None:
            own = Row(*(part[rows] for part in self.own))
        return Recorded(self.known[rows], self.past[rows], inner, own, self.scales[rows])


def is_within(rows: Row, limits: Array) -> NDArray[np.bool_]:
    """Return which rows (n,) have predictions and lagged errors within a mixture's limits.

    Predictions are clipped to the limits, which only grow, so lagged errors are at most their
    distance. All are allowed some rounding.
    """
    low, high = limits
    slack = 1e-6 * np.maximum(np.abs(low), np.abs(high))
    good = (np.abs(rows.lagged) <= (high - low + slack)[:, None]).all(axis=(1, 2))
    for part in (rows.clipped, rows.candidates, rows.final[:, None]):
        good &= ((part >= low - slack) & (part <= high + slack)).all(axis=(1, 2))
    return np.asarray(good)


class Experts(Stateful):
    """All active experts on one dictionary; rows and targets are scaled."""

    def __init__(
        self, settings: list[Setting], views: list[View], past: Past, outputs: int, budget: int,
        seed: int, limits: Array, signed: bool, columns: int, forgetting: bool,
        error_lags: Sequence[int] = (), memory: int = 0, small: bool = False, delay: int = 0,
        timed: bool = False, lateness: int = 0,
    ) -> None:  # fmt: skip
        self.delay, self.timed = delay, timed
        self.settings, self.views, self.past = settings, views, past
        self.seed, self.signed = seed, signed
        self.memory, self.small = memory, small
        self.local: LocalExperts | None = None
        self.budget, self.outputs, self.columns = budget, outputs, columns
        self._active = list(range(len(settings)))
        self._leader: list[int] = []  # the best, from the last row of ACTIVE_EXPERTS on
        by_number = {view.number: view for view in views}
        keys = sorted({(s.view, -s.factor) for s in settings})
        self._groups = [Group(by_number[number], -factor) for number, factor in keys]
        self.forecasters = Forecasters(
            [setting.alpha for setting in settings], [setting.window for setting in settings],
            self._group_places(), outputs, anticipate=False,
        )  # fmt: skip
        self.error_scale = None if signed else ErrorScale(by_number[PLAIN], outputs, budget)
        straight = signed and RELEVANCE in views_of(by_number[PLAIN].kernel)
        season = 0 if signed else past.season
        linear = columns if straight else None
        self.baselines = Baselines(outputs, linear, season, delay or lateness)
        self._set_limits()
        self.windows = STACK_WINDOWS if forgetting else (0.0,)
        self.mixture = Mixture(
            len(settings) + self.baselines.count, limits, signed, self.windows, tuple(error_lags)
        )
        self.candidates = Candidates(columns + past.columns, budget, seed)
        self._batches: list[int] = []  # first point of each batch that entered together
        self._rows = 0
        self.far: FarHead | None = None
        if past.columns or error_lags:
            self.far = self._make_far(self._active, past.columns, limits)
        self._log = self._new_log()
        self.ring = self._new_ring()
        self.clear_caches()

    def add_local(self, metrics: Array, Z: Array | None = None) -> None:
        """Add local experts with the metrics (2, wide) for rows with lagged targets (`local`).

        With first rows Z (n, wide) also those of the second head, if there is one.
        """
        if self.far is not None and Z is not None:
            own = slice(0, self.columns)
            self.far.add_forest(in_half_medians(metrics[:, own], Z[:, own]))
        self.local = LocalExperts(
            metrics, self.mixture.limits, self.signed, self.seed, self.memory, self.small,
            self.windows, self.mixture.lags,
        )  # fmt: skip

    def _new_ring(self) -> Ring:
        """Return a ring of the rows that wait for their targets, with lagged targets."""
        return Ring({"Z": ("wide",)}, {"wide": self.columns + self.past.columns})

    def _make_far(self, active: list[int], past: int, limits: Array) -> FarHead:
        return FarHead(
            active, len(self.settings), self.columns, past, limits, self.signed, self.seed,
            self.memory,
        )  # fmt: skip

    def _new_far(self) -> FarHead:
        """Return a second head whose state is restored later."""
        return self._make_far([0], 0, self.mixture.limits)

    def _new_local(self) -> LocalExperts:
        """Return local experts whose state is restored later."""
        self.add_local(np.ones((2, self.columns + self.past.columns)))
        assert self.local is not None
        return self.local

    def clear_caches(self) -> None:
        """Drop what is computed from points and experts."""
        self._features: Features | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Caches are not copied.
        return {**super().__getstate__(), "_features": None}

    @property
    def features(self) -> Features:
        """The features of all groups."""
        if self._features is None:
            self._features = Features(self.all_groups(), self.candidates.points.values)
        return self._features

    @property
    def final_mixture(self) -> Mixture:
        """The mixture that makes the final prediction."""
        return self.mixture if self.local is None else self.local.mixture

    @property
    def rows(self) -> int:
        """Number of rows learned so far."""
        return self._rows

    @property
    def active(self) -> list[int]:
        """Numbers of the settings whose experts are active."""
        return self._active

    @property
    def points(self) -> Array:
        """Points of the dictionary that experts use, without lagged targets."""
        used = max(group.nystrom.points for group in self.all_groups())
        return self.candidates.points.values[:used, : self.columns]

    # -- learning ---------------------------------------------------------------------------

    def learn(
        self, Z: Array, Y: Array, given: Array, gaps: Array | None = None, *, fixed: bool = False,
        read: ReadRows | Recorded | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Predict rows Z (n, columns); after each, learn the row whose target arrives, if one does.

        Y (m, outputs) are clipped targets for the experts, ``given`` targets as given for the error
        scale, of the oldest m rows: without a delay m = n, and otherwise some rows wait (`late`).
        ``gaps`` (n,) are the gaps before the rows (`clock`), where there are times: rows fade by
        the gaps between the arrivals of targets. ``fixed``: no points are added and no experts
        dropped. ``read``: rows as they were predicted earlier.

        Return predictions and error scales (1 for labels), (n, outputs).
        """
        out, scales = np.empty((len(Z), self.outputs)), np.ones((len(Z), self.outputs))
        late = self.ring.rows + len(Z) - len(Y)
        start = first = 0
        while start < len(Z):
            early = late - self.ring.rows  # rows after which no target arrives
            stop = min(len(Z), start + early + EPOCH - self._rows % EPOCH)
            rows, count = slice(start, stop), max(0, stop - start - early)
            new = slice(first, first + count)
            after = None if gaps is None else gaps[stop - count : stop]
            recorded = None
            if isinstance(read, Recorded):
                recorded = read.cut(rows)
            elif read is not None:
                recorded = self.recorded(read[rows], stop - start)
            out[rows], scales[rows] = self._learn_rows(
                Z[rows], Y[new], given[new], after, fixed, recorded
            )
            self._rows += count
            if count and self._rows % EPOCH == 0:
                self._end_epoch(fixed)
            start, first = stop, new.stop
        return out, scales

    def learn_again(
        self, Z: Array, Y: Array, given: Array, gaps: Array | None, lateness: int
    ) -> None:
        """Learn first rows without new points, as if their targets had come ``lateness`` rows late.

        With a delay that is what `learn` does, with the targets that have arrived. Otherwise the
        targets of all rows are known: those of the last rows come at the end, without new rows.
        """
        known = len(Y) if self.delay else max(0, len(Y) - lateness)
        self.learn(Z, Y[:known], given[:known], gaps, fixed=True)
        if known == len(Y):
            return
        (wide,), self.ring = self.ring.parts, self._new_ring()
        inner = self.mixture.release()
        final = None if self.local is None else self.local.mixture.release()
        all_known, scales = np.ones(len(wide), dtype=np.bool_), np.ones(Y[known:].shape)
        rest = Recorded(all_known, wide[:, self.columns :], inner, final, scales)
        after = None if gaps is None else gaps[known:]
        self.learn(Z[known:], Y[known:], given[known:], after, fixed=True, read=rest)

    def _learn_rows(
        self, Z: Array, Y: Array, given: Array, gaps: Array | None, fixed: bool,
        recorded: Recorded | None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Do what `learn` does with rows of one epoch."""
        past = self.past.learn(len(Z), Y)
        if recorded is not None:
            past[recorded.known] = recorded.past[recorded.known]
        new = np.hstack((Z, past)) if self.past.columns else Z
        (rows,) = self.ring.extend(len(new))
        rows[len(rows) - len(new) :] = new
        old, later = rows[: len(Y)], None if len(Y) == len(rows) else new
        self._learn_far(old[:, : self.columns], Y, given)
        P = np.empty((len(Z), len(self._active) + self.baselines.count, self.outputs))
        read = None if later is None else Z
        P[:, len(self._active) :] = self.baselines.learn(old[:, : self.columns], Y, read)
        self._log.add(old, Y, gaps)
        gaps = np.ones(len(Y)) if gaps is None else gaps
        Phi = self.features.of(old)
        later_Phi = None if later is None else self.features.of(later)
        self.forecasters.learn(Phi, Y, gaps, later_Phi, P)
        uniforms = self.candidates.uniforms.draw(len(Y))
        if not fixed and self._open_to_points:
            own = Phi[self._groups.index(self.reference), :, : self.reference.nystrom.size]
            chosen = proposes(outside(self.reference.diagonal(old), own), uniforms)
            self.candidates.propose(old[chosen], uniforms[chosen])
        final = self._mix(P, old, Y, later, gaps, recorded)
        out, scales = final[len(final) - len(Z) :], np.ones(Z.shape[:1] + Y.shape[1:])
        if self.error_scale is not None:  # its group is the last
            later_own = None if later_Phi is None else later_Phi[-1]
            scales = self.error_scale.learn(Phi[-1], final[: len(Y)], given, later_own, out)
            if recorded is not None:
                scales[recorded.known] = recorded.scales[recorded.known]
        self.ring.drop(len(Y))
        return out, scales

    def _mix(
        self, P: Array, Z: Array, Y: Array, later: Array | None, gaps: Array | None,
        recorded: Recorded | None,
    ) -> Array:  # fmt: skip
        """Combine the predictions P (n, experts, outputs) of rows; learn rows Z with targets Y.

        Return the final predictions of all rows, first of those that wait; where they are
        ``recorded``, those.
        """
        made = None if recorded is None else (recorded.known, recorded.inner)
        G = self.mixture.learn(P, Y, gaps, made).final
        if self.local is None:
            return G
        made = None
        if recorded is not None and recorded.own is not None:
            made = recorded.known, recorded.own
        return self.local.learn(Z, Y, G[: len(Y)], gaps, later, G[len(G) - len(P) :], made)

    @property
    def ranges(self) -> list[Array]:
        """The ranges of targets (2, outputs) that predictions are clipped to."""
        own = [self.mixture.limits]
        if self.local is not None:
            own += [self.local.mixture.limits, self.local.forest.limits]
        return own if self.far is None else own + self.far.ranges

    # -- rows that wait outside (`late`) -----------------------------------------------------------

    def read(self, Z: Array) -> tuple[Array, Array, Array]:
        """Predict rows Z that may come next; return predictions, error scales and the record.

        The record (n, width) has what `recorded` unpacks when the rows are learned.
        """
        P, Z, Phi = self._predict_all(Z)
        rows = self.mixture.predict(P)
        parts = [Z[:, self.columns :], *rows]
        if self.local is not None:
            rows = self.local.predict(Z, rows.final)
            parts += rows
        final, scales = rows.final, np.ones(rows.final.shape)
        if self.error_scale is not None:
            scales = self.error_scale.predict(Phi, final)
        parts.append(scales)
        return final, scales, np.hstack([part.reshape(len(final), -1) for part in parts])

    def _shapes(self, active: int, outputs: int) -> list[tuple[int, ...]]:
        """Return the shapes of the parts of a record of ``active`` experts and ``outputs``."""
        inner = self.mixture.row_shapes(active + self.baselines.count, outputs)
        own = []
        if self.local is not None:
            own = self.local.mixture.row_shapes(len(self.local.mixture.weights), outputs)
        return [(self.past.columns,), *inner, *own, (outputs,)]

    def record_width(self) -> int:
        """Return the numbers of a record per row."""
        return sum(map(math.prod, self._shapes(len(self._active), self.outputs)))

    def recorded(self, read: ReadRows, rows: int) -> Recorded | None:
        """Return ``rows`` rows as they were predicted; None if no record fits.

        The record of `read` comes after the number of rows that were learned then.
        """
        parts = [
            np.zeros((rows, *shape)) for shape in self._shapes(len(self._active), self.outputs)
        ]
        for own, reader, values, outputs, matrix in read.groups:
            count = len(reader.active)
            kept = [i for i, number in enumerate(reader.active) if number in self._active]
            shapes = self._shapes(count, outputs)
            ends = 1 + np.cumsum([math.prod(shape) for shape in shapes])
            mapped = self.outputs if matrix is None else matrix.shape[1]
            if len(kept) < len(self._active) or ends[-1] != reader.width or mapped != self.outputs:
                continue
            kept += range(count, count + self.baselines.count)
            for place, piece in enumerate(np.split(values, [1, *ends[:-1]], axis=1)[1:]):
                piece = piece.reshape(len(own), *shapes[place])
                if place == 1:
                    piece = piece[:, kept]
                if matrix is not None and place > 0:
                    # Of a `Row`'s four parts the last, lagged errors, has its outputs first.
                    last = place % 4 == 0 and place < len(shapes) - 1
                    piece = recombined(piece, matrix, axis=-2 if last else -1)
                parts[place][own] = piece
            read.used[own] = True
        past, *mixed, scales = parts
        scales = np.abs(scales)  # an output may have become its negation
        inner, second = Row(*mixed[:4]), Row(*mixed[4:]) if self.local is not None else None
        # A record comes from outside: numbers that no prediction can have are not used.
        good = is_within(inner, self.mixture.limits)
        if self.local is not None and second is not None:
            good &= is_within(second, self.local.mixture.limits)
        good &= (np.abs(past) <= (1.0 if self.signed else LARGEST_TARGET)).all(axis=1)
        good &= ((scales > 0.0) & (scales <= LARGEST_TARGET)).all(axis=1)
        read.used &= good
        if not read.used.any():
            return None
        return Recorded(read.used.copy(), past, inner, second, scales)

    def all_groups(self) -> list[Group]:
        """Return the groups of the experts and, last, that of the error scale."""
        return self._groups if self.error_scale is None else [*self._groups, self.error_scale.group]

    def _group_places(self) -> list[int]:
        """Return the place of the group of each active expert."""
        keys = [group.key for group in self._groups]
        return [keys.index(self.settings[i].key) for i in self._active]

    # -- points -----------------------------------------------------------------------------

    @property
    def _open_to_points(self) -> bool:
        """Whether points may enter at the end of the epoch."""
        return self.candidates.room(self._rows - self._rows % EPOCH + EPOCH) > 0

    def add_points(self, Z: Array, uniforms: Array, room: int) -> None:
        """Offer rows as points to the reference group in order; add those that enter to all groups.

        A row enters if its uniform number is below rho / (rho + GAMMA), rho its squared distance to
        the span of the points before it; at most ``room`` rows enter.
        """
        if self.extend_spans(Z, uniforms, room):
            self.forecasters.resize(self._sizes_of_experts())
            if self.error_scale is not None:
                self.error_scale.grow()

    def _sizes_of_experts(self) -> list[int]:
        """Return how many coordinates of its group's span each active expert reads."""
        spans = [self._groups[g].nystrom.size for g in self._group_places()]
        windows = [self.settings[i].window for i in self._active]
        return [
            size if window is None else min(size, FORGETFUL_POINTS)
            for size, window in zip(spans, windows, strict=True)
        ]

    def extend_spans(self, Z: Array, uniforms: Array, room: int) -> bool:
        """Add points to the spans, not yet to the learners; return whether any entered."""
        self.clear_caches()
        reference, held = self.reference, self.candidates.points
        known = full = held.size
        full += room
        for start in range(0, len(Z), EPOCH):
            left = full - held.size
            if left <= 0:
                break
            rows, coins = Z[start : start + EPOCH], uniforms[start : start + EPOCH]
            entered = reference.offer(rows, held.values, left, coins, GAMMA)
            if len(entered):
                self._batches = [*self._batches, held.size]
                held.append(rows[entered])
                for group in self.all_groups():
                    self._extend(group, held.values, self._batches[-1])
        return held.size > known

    def _extend(self, group: Group, points: Array, known: int) -> None:
        """Add the points from ``known`` on to a group's span, up to its limit.

        All are offered together whatever the limit: their coordinates then have the same bits in a
        group whose limit was larger before, and in a model that is loaded.
        """
        if group.nystrom.size < group.limit and group.nystrom.points == known:
            group.offer(points[known:], points[:known], len(points) - known)

    # -- the open epoch -----------------------------------------------------------------------

    def _new_log(self) -> OpenRows:
        return OpenRows(self.columns + self.past.columns, self.outputs)

    def _learn_open_rows_again(self) -> None:
        """Learn the logged rows of the open blocks with all experts."""
        log, rows = self._log, self._log.rows
        block = slice(rows - rows % self.forecasters.block_length, rows)
        gaps = log.gaps.values[block, 0].copy() if log.gaps.size else None
        self.forecasters.learn(self.features.of(log.Z.values[block]), log.Y.values[block], gaps)

    def _end_epoch(self, fixed: bool) -> None:
        """Add points and drop experts, unless ``fixed``."""
        self._log = self._new_log()
        if self.candidates.proposed.size and not fixed:
            self.add_points(*self.candidates.pop_proposed(), self.candidates.room(self._rows))
        if self._rows in ACTIVE_EXPERTS and not fixed:
            kept = self.best(ACTIVE_EXPERTS[self._rows])
            if self._has_leader(self._rows):
                self._leader = kept[:1]
            self._drop(kept)
        self._copy_far_weights()

    # -- selection --------------------------------------------------------------------------

    def best(self, stable: int) -> list[int]:
        """Return the settings to keep by recent loss (`settings.best_settings`)."""
        losses = self.mixture.losses[: len(self._active)]
        return best_settings(self.settings, self._active, losses, stable)

    def _drop(self, kept: list[int]) -> None:
        """Drop all experts but these settings; reset the losses."""
        baselines = range(len(self._active), len(self._active) + self.baselines.count)
        self.mixture.keep([*self._keep(kept), *baselines])
        if self.far is not None:
            self.far.keep(kept)
        self._set_limits()
        self.forecasters.resize(self._sizes_of_experts())

    def _keep(self, kept: list[int]) -> list[int]:
        """Keep the groups and forecasters of these settings; return the experts' places so far."""
        self.clear_caches()
        places = [place for place, number in enumerate(self._active) if number in kept]
        self._active = [self._active[place] for place in places]
        keys = {self.settings[number].key for number in self._active}
        self._groups = [group for group in self._groups if group.key in keys]
        self.forecasters.keep(places, self._group_places())
        return places

    def _has_leader(self, rows: int) -> bool:
        """Whether one expert has more points than the others after ``rows`` rows."""
        return self.local is not None and rows >= max(ACTIVE_EXPERTS, default=rows + 1)

    def _set_limits(self) -> None:
        """Set the most points of each group, and the group that chooses the points.

        That is the narrowest in the first view of the groups with the most points.
        """
        for group in self._groups:
            group.limit = self.budget
            readers = [i for i in self._active if self.settings[i].key == group.key]
            if all(self.settings[i].window is not None for i in readers):
                group.limit = min(self.budget, FORGETFUL_POINTS)
            elif self._leader and self._leader[0] not in readers:
                group.limit = math.ceil(LATE_SHARE * self.budget)
            group.shrink()
        choosing = [group for group in self._groups if group.limit == self.budget]
        self.reference = min(choosing, key=lambda group: group.key)

    # -- the current model --------------------------------------------------------------------

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Predict rows Z that may come next; return predictions and error scales (1 for labels)."""
        P, Z, Phi = self._predict_all(Z)
        out = self.mixture.predict(P).final
        if self.local is not None:
            out = self.local.predict(Z, out).final
        if self.error_scale is None:
            return out, np.ones(out.shape)
        return out, self.error_scale.predict(Phi, out)

    def _predict_all(self, Z: Array) -> tuple[Array, Array, Array]:
        """Predict rows that may come next with all experts, P (n, experts, outputs).

        Return P, the rows with lagged targets, and the features of the error scale.
        """
        P = np.empty((len(Z), len(self._active) + self.baselines.count, self.outputs))
        P[:, len(self._active) :] = self.baselines.predict(Z)
        Z = self._with_last(Z)
        Phi = self.features.of(Z)
        self.forecasters.predict(Phi, P)
        return P, Z, Phi[-1]

    def _copy_far_weights(self) -> None:
        """Copy the weights of the second head's experts, if it is due (`far`)."""
        due = is_anchor(self._rows) or self._rows in ACTIVE_EXPERTS  # points may be dropped there
        if self.far is not None and due:
            weights = [self.forecasters.weights_of(e) for e in range(len(self._active))]
            past = self.past.predict(1)[0]
            self.far.copy(self._rows, weights, self.baselines.means, past)

    def _learn_far(self, Z: Array, Y: Array, given: Array) -> None:
        """Learn every eighth of rows Z (n, columns) with the second head, if there is one.

        Its forest learns all of them.
        """
        far = self.far
        if far is None:
            return
        chosen = slice(-self._rows % STRIDE, None, STRIDE)
        if far.begun and len(rows := Z[chosen]):
            P = far.new_predictions(rows)
            wide = np.hstack((rows, np.tile(far.past, (len(rows), 1))))
            weights = [far.weights_of(number) for number in self._active]
            self._predict_with(weights, self.features.of(wide), P)
            far.learn(P, Y[chosen], given[chosen])
        far.add_rows(Z, Y, self._rows + len(Z))

    @property
    def looks_far(self) -> bool:
        """Whether there is a second head that can predict."""
        return self.far is not None and self.far.ready

    def predict_far(self, Z: Array) -> Array:
        """Predict rows Z (n, columns) far ahead with the second head; return (n, outputs)."""
        assert self.far is not None
        P = self.far.new_predictions(Z, self.baselines.means)
        weights = [self.forecasters.weights_of(e) for e in range(len(self._active))]
        self._predict_with(weights, self.features.of(self._with_last(Z)), P)
        return self.far.mixture.predict(P).final

    def _predict_with(self, weights: list[Array], Phi: Array, P: Array) -> None:
        """Write predictions from features by the experts' weights to P (n, experts, outputs)."""
        for e, (place, own) in enumerate(zip(self._group_places(), weights, strict=True)):
            weighted_sums(Phi[place], own, P[:, e])

    def _with_last(self, Z: Array) -> Array:
        """Return rows that may come next with lagged targets, where those are read."""
        return np.hstack((Z, self.past.predict(len(Z)))) if self.past.columns else Z

    def variance(self, Z: Array) -> Array:
        """Return the leverage (n,) of rows for the setting with the largest weight."""
        leader = int(np.argmax(self.mixture.weights[: len(self._active)]))
        return self.forecasters.variance(self.features.of(self._with_last(Z)), leader)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per expert, the largest weight first and dropped experts last."""
        sizes = dict(zip(self._active, self.forecasters.sizes, strict=True))
        units = {view.number: view.unit for view in self.views}
        rows = expert_table(
            self.settings, self._active, sizes, units, self.baselines.names, self.mixture
        )
        if self.local is None:
            return rows
        # The mixture of the others is one expert beside the local ones.
        weight, coefficient = self.local.mixture.weights[0], self.local.mixture.coefficients[0]
        for row in rows:
            row["weight"] *= float(weight)
            row["coefficient"] *= float(coefficient)
        rows += self.local.table()
        return sorted(rows, key=lambda row: (-row["weight"], -row["active"]))

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.clear_caches()
        self.outputs = matrix.shape[1]
        self.forecasters.remap(matrix)
        self.mixture.remap(matrix)
        if self.local is not None:
            self.local.remap(matrix)
        self.baselines.remap(matrix)
        self.past.remap(matrix)
        if self.far is not None:
            self.far.remap(matrix)
        self._log.Y.remap(matrix)

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Places("active", high="settings"),
        Places("leader", high="settings"),
        Parts("views", "views"),
        Part("past", "past", sizes={"outputs": "outputs"}),
        Part("baselines", "baselines", sizes={"outputs": "outputs"}),
        Part("candidates", "candidates", sizes={"points": "points", "wide": "wide"}),
        Parts("groups", saved=False),
        Part("forecasters", "forecasters", sizes={"outputs": "outputs"}),
        Part("mixture", "mixture", sizes={"experts": "experts"}),
        Part("local", "local", make="_new_local"),
        Count("rows"),
        Part("error_scale", "error_scale"),
        Part("far", "far", make="_new_far"),
        Places("batches", high="points"),
        Part("ring", "ring", sizes={"wide": "wide"}),
        Part("log", sizes={"wide": "wide", "outputs": "outputs"}),
        Unsaved("outputs"),
        Unsaved("reference"),
    )

    def to_state(self) -> dict[str, Any]:
        """Return the state, with the logged rows instead of open blocks."""
        state = super().to_state()
        opened = state["forecasters"]
        opened.update(Phi=opened["Phi"][:, :0], Y=opened["Y"][:0], gaps=opened["gaps"][:0])
        return state

    def _load(self, state: Any) -> Sizes:
        require(isinstance(state, dict), "the state is not a table")
        places = Places("active", high="settings")
        self._keep(places.load(self, state.get("active"), Sizes(self._sizes())))
        return super()._load(state)

    def _sizes(self) -> dict[str, int]:
        return {"settings": len(self.settings), "outputs": self.outputs}

    def _update_derived(self) -> None:
        self.clear_caches()

    def _restored(self, sizes: Sizes) -> None:
        self.clear_caches()
        wide = self.columns + self.past.columns
        require(sizes["wide"] == wide, "points have another width")
        for view in self.views:
            read = wide if view.number == PAST else self.columns
            require(len(view.weights) == read, "views have other columns")
        numbers = self._active
        require(
            sizes["experts"] == len(numbers) + self.baselines.count,
            "mixture has another number of experts",
        )
        if self.far is not None:
            require(self.far.experts == numbers, "far has other experts")
            require(len(self.far.past) == self.past.columns, "far has other lagged targets")
            weights = [len(self.far.weights_of(i)) for i in numbers if self.far.begun]
            fits = [r <= size for r, size in zip(weights, self.forecasters.sizes, strict=False)]
            require(all(fits), "far has weights of more points")
        stable = any(self.settings[i].window is None for i in numbers)
        require(stable, "active has no expert that does not forget")
        known = len(self._leader) == self._has_leader(self._rows)
        leads = all(i in numbers and self.settings[i].window is None for i in self._leader)
        require(known and leads, "leader is not one of the active experts, from where there is one")
        self._set_limits()
        self._restore_spans()
        rings = [self.ring, self.mixture.ring]
        rings += [] if self.local is None else [self.local.mixture.ring]
        require(len({ring.rows for ring in rings}) == 1, "rings have different numbers of rows")
        require(self._log.rows == self._rows % EPOCH, "log has other rows than rows says")
        require(bool(self._log.gaps.size) <= self.timed, "log has gaps without times")
        require(not self.forecasters.open_rows, "forecasters have open rows beside the log")
        self._learn_open_rows_again()

    def _restore_spans(self) -> None:
        """Add the points to the spans in the batches in which they entered."""
        points, places = self.candidates.points.values, self._group_places()
        largest = [group.limit for group in self.all_groups()]
        for place in set(places):
            sizes = zip(places, self.forecasters.sizes, strict=True)
            largest[place] = max(size for own, size in sizes if own == place)
        edges = [*self._batches, len(points)]
        require(edges[0] == 0, "batches do not begin with the first point")
        require(max(np.diff(edges), default=0) <= EPOCH, "batches are longer than an epoch")
        for known, stop in pairwise(edges):
            for group, most in zip(self.all_groups(), largest, strict=True):
                self._extend(group, points[:stop], known)
                # Checked at each batch: the spans never use more memory than the file's matrices.
                require(group.nystrom.size <= most, "forecasters have too few points")
        fits = self.forecasters.sizes == self._sizes_of_experts()
        require(fits, "forecasters have other points than the spans")
        if self.error_scale is not None:
            self.error_scale.require_size()
