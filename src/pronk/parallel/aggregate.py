"""Split the pass of the default learner, from the row on after which its set of experts is fixed.

From there on its experts are squared-loss learners on shared points, so their passes split
(`partition.py`), each in its own blocks. A partition of the pass is a `Bundle` of about a thousand
rows:

    points    tasks find the rows that may become points, against those of the start of a stretch;
              these candidates are visited here, in order, at the ends of epochs
    sums      a task: what the rows of a bundle add to the sums of each expert
    scan      here: the sums at the start of each bundle
    rows      a task: the experts' predictions for the bundle
    collect   here, in order: baselines, mixture, error scale, a few numbers per row

Rows at the start of a call that fill open blocks, and those behind the last whole blocks, are
learned by the experts themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate import experts as grid
from pronk.aggregate.experts import Experts
from pronk.aggregate.far import next_anchor
from pronk.aggregate.recovery import RecoveringKernel
from pronk.aggregate.settings import FORGETFUL_POINTS
from pronk.newton.discounted import EPOCH, DiscountedNewton
from pronk.parallel.bundles import (
    Bundle,
    Cut,
    Range,
    Rows,
    Spans,
    Summed,
    cut_blocks,
    find_candidates,
    learn_bundle,
    sum_bundle,
)
from pronk.parallel.partition import FirstRows, Learned, Partition, Sums, adopt, replay
from pronk.parallel.pipeline import PartitionedPass, Pool, Task

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """How a pass is cut, which is part of the job, and how many bundles may be in flight."""

    bundle: int = 1024  # rows of a bundle, about
    keep_features: bool = True  # between the two tasks of a bundle: they share memory
    stretch: int = 8192  # rows whose candidates are found together
    longest: int = 1 << 16  # rows that are split together
    most: int = 24  # bundles in flight, and the bytes they may hold
    least: int = 6
    bytes: int = 1 << 28


#: For threads of this process.
THREADS = Plan()
#: Rows of a shorter bundle at the end of a call, at least.
LAST_BUNDLE = 1024
#: Fewer rows than this are not split: the longest block, and a few bundles.
LEAST_ROWS = 4096
#: Experts with more coordinates than this sum their blocks one by one, and only once.
APART = 128


def learn(engine: RecoveringKernel, X: Array, Y: Array, pool: Pool) -> Array:
    """Return ``engine.learn(X, Y)``, up to rounding, computed by the workers of a pool.

    The tasks of a pool that has a ``plan`` run in other processes: they get the rows they need, and
    the pool's ``share`` sends a snapshot that many tasks read.
    """
    plan = getattr(pool, "plan", THREADS)
    return engine.learn(X, Y, partial(learn_split, pool=pool, plan=plan))


def first_split_row() -> int:
    """Return the first row after which the set of experts is fixed."""
    return max(grid.ACTIVE_EXPERTS)


def learn_split(
    experts: Experts,
    Z: Array,
    Y: Array,
    unclipped: Array,
    pool: Pool,
    plan: Plan = THREADS,
) -> Iterator[tuple[Array, Array]]:
    """Predict then learn rows; yield predictions and error scales, in order.

    Y are the targets to learn; the error scale follows the ``unclipped`` ones.
    """
    start = min(len(Z), max(0, first_split_row() - experts.rows))
    if start:
        yield experts.learn(Z[:start], Y[:start], unclipped[:start])
    while start < len(Z):
        stop = min(len(Z), start + plan.longest)
        if len(Z) - stop < LEAST_ROWS:
            stop = len(Z)
        if experts.far is not None:  # its weights are copied between two passes
            stop = min(stop, start + next_anchor(experts.rows) - experts.rows)
        rows = slice(start, stop)
        if stop - start < LEAST_ROWS:
            yield experts.learn(Z[rows], Y[rows], unclipped[rows])
        else:
            yield from _Pass(experts, Z[rows], Y[rows], unclipped[rows], pool, plan).run()
            experts.copy_far_weights()
        start = stop


@dataclass
class _Expert:
    """The progress of one expert through the rows of a call."""

    learner: DiscountedNewton
    group: int
    place: int  # among the active
    settings: DiscountedNewton  # without rows
    bundled: int = 0  # rows in bundles: where its next block begins
    predicted: int = 0  # rows that have its prediction
    sums: Sums | None = None  # before the next bundle
    ledgers: list[Array] = field(default_factory=list)

    @property
    def most(self) -> int | None:
        """Coordinates that it reads at most."""
        return None if self.learner.discount == 1.0 else FORGETFUL_POINTS


@dataclass(frozen=True)
class _Sent:
    """A bundle with the features that both of its tasks compute with."""

    bundle: Bundle
    spans: Any  # `Spans`, or what the pool has made of them


class _Pass(PartitionedPass[_Sent, tuple[Array, Array]]):
    """Yield predictions and error scales of the rows of one call."""

    def __init__(
        self, experts: Experts, Z: Array, Y: Array, unclipped: Array, pool: Any, plan: Plan
    ) -> None:
        super().__init__(pool, plan.most)
        self.experts, self.pool, self.plan = experts, pool, plan
        self.Y, self.unclipped, self.n = Y, unclipped, len(Y)
        past = experts.past.learn(Y)
        self.Z = np.hstack((Z, past)) if past.shape[1] else Z
        self.rows = Rows(self.Z, Y)
        self.uniforms = experts.candidates.uniforms.draw(self.n)
        self.groups = experts.all_groups()
        self.first_rows = [np.full(g.nystrom.size, -1, dtype=np.int64) for g in self.groups]
        active = experts.active
        self.P = np.empty((self.n, len(active) + experts.baselines.count, experts.outputs))
        self.P[:, len(active) :] = experts.baselines.learn(Z, Y)
        self.progress = [
            _Expert(learner, g, active.index(number), _settings(learner))
            for g, group in enumerate(self.groups)
            for number, learner in group.learners.items()
        ]
        self.bundled = 0  # rows in bundles
        self.mixed = 0  # rows that have their prediction
        self.scale_features: deque[Array] = deque()  # of rows that have none yet
        self._snapshot()

    def _snapshot(self) -> None:
        """Let the tasks from here on compute with the present points."""
        self.spans = Spans(self.experts)
        self.shared = self.spans if self.plan.keep_features else self.pool.share(self.spans)

    def _rows_of(self, reach: tuple[int, int]) -> Rows:
        """Return the rows of a task; to another process no others are sent."""
        return self.rows if self.plan.keep_features else self.rows.only(reach)

    def _first_rows(self, expert: _Expert) -> FirstRows:
        return self.first_rows[expert.group][: expert.most]

    # -- points ---------------------------------------------------------------------------------

    def _stretches(self) -> Iterator[int]:
        """Choose points ahead; yield the rows up to which the present coordinates are complete."""
        experts, done = self.experts, 0
        first = experts.rows  # before this call
        while done < self.n:
            if experts.candidates.points.size >= experts.budget:
                yield self.n
                return
            stop = min(self.n, done + self.plan.stretch)
            if stop < self.n:
                stop -= (first + stop) % EPOCH
            candidates = self._find_candidates(done, stop)
            end = done + EPOCH - (first + done) % EPOCH
            grown = False
            while end <= stop:
                grown |= self._end_epoch(first, end, candidates[candidates < end])
                candidates = candidates[candidates >= end]
                end += EPOCH
            if grown:
                self._snapshot()
            # Candidates of an epoch that stays open.
            if len(candidates) and experts.candidates.room(first + end) > 0:
                own = self.Z[candidates], self.uniforms[candidates]
                self._propose(candidates[self.spans.are_candidates(*own)])
            yield stop
            done = stop

    def _find_candidates(self, start: int, stop: int) -> NDArray[np.int64]:
        edges = [*range(start, stop, max(1, self.plan.bundle // 2)), stop]
        pending = [
            self.tasks.submit(
                find_candidates,
                self.shared,
                self._rows_of(reach),
                reach,
                self.uniforms[slice(*reach)],
            )
            for reach in pairwise(edges)
        ]
        return np.concatenate([task.result() for task in pending])

    def _propose(self, rows: NDArray[np.int64]) -> None:
        self.experts.candidates.propose(self.Z[rows], self.uniforms[rows])

    def _end_epoch(self, first: int, end: int, rows: NDArray[np.int64]) -> bool:
        """Add points to the spans, not yet to the learners; return whether there were any."""
        candidates = self.experts.candidates
        room = candidates.room(first + end)
        if room > 0:
            self._propose(rows)
        if not candidates.proposed.size:
            return False
        entered = self.experts.extend_spans(*candidates.pop_proposed(), room)
        for g, group in enumerate(self.groups):
            new = group.nystrom.size - len(self.first_rows[g])
            self.first_rows[g] = np.concatenate((self.first_rows[g], np.full(new, end)))
        return entered

    # -- bundles --------------------------------------------------------------------------------

    def partitions(self) -> Iterator[_Sent]:
        for reach in self._stretches():
            if self.progress[0].sums is None:
                self._learn_open_blocks()
            for bundle in self._bundles(reach):
                yield _Sent(bundle, self.shared)

    def _bundles(self, reach: int) -> Iterator[Bundle]:
        """Yield bundles of rows up to ``reach``; they end with a block of the largest expert."""
        largest = max(self.progress, key=lambda expert: len(self._first_rows(expert)))
        while True:
            stop = self.bundled
            blocks = cut_blocks(
                largest.settings, self._first_rows(largest), largest.bundled, reach, True
            )
            for block in blocks:
                stop = block.stop
                if stop - self.bundled >= self.plan.bundle:
                    break
            wanted = self.plan.bundle if reach < self.n else min(self.plan.bundle, LAST_BUNDLE)
            if stop - self.bundled < wanted:
                return
            cuts = []
            for expert in self.progress:
                first_rows = self._first_rows(expert)
                apart = self.plan.keep_features and len(first_rows) > APART
                parts = cut_blocks(expert.settings, first_rows, expert.bundled, stop, apart)
                if parts:
                    cuts.append(Cut(expert.settings, expert.group, parts))
                    expert.bundled = parts[-1].stop
            scaled = None if self.experts.error_scale is None else (self.bundled, stop)
            bundle = Bundle.of(cuts, len(self.groups), scaled)
            self.bundled = stop
            yield bundle

    def limit(self, part: _Sent) -> int:
        """Count what a bundle holds: features, and the sums of each partition."""
        bundle = part.bundle
        rows = bundle.reach[1] - bundle.reach[0]
        sizes = [len(self._first_rows(expert)) for expert in self.progress]
        numbers = sum(r * r * (1 + len(c.parts)) for r, c in zip(sizes, bundle.cuts, strict=True))
        numbers += rows * sum(len(first_rows) for first_rows in self.first_rows)
        return max(self.plan.least, min(self.plan.most, self.plan.bytes // (8 * numbers)))

    def sum_task(self, part: _Sent) -> Task:
        rows, keep = self._rows_of(part.bundle.reach), self.plan.keep_features
        return sum_bundle, part.spans, rows, part.bundle, keep

    def scan(self, part: _Sent, summed: Summed) -> Task:
        bundle, kept = part.bundle, None
        if summed.scale_features is not None:
            self.scale_features.append(summed.scale_features)
        experts = self._experts_of(bundle)
        starts = [expert.sums for expert in experts]
        for expert, total in zip(experts, summed.totals, strict=True):
            assert expert.sums is not None
            expert.sums = expert.sums.after(total, expert.settings.alpha)
        if self.plan.keep_features:
            kept = replace(summed, totals=[], scale_features=None)
        return learn_bundle, part.spans, self._rows_of(bundle.reach), bundle, starts, kept

    def collect(self, part: _Sent, learned: list[Learned]) -> Iterator[tuple[Array, Array]]:
        cuts = part.bundle.cuts
        for expert, cut, own in zip(self._experts_of(part.bundle), cuts, learned, strict=True):
            self.P[slice(*cut.reach), expert.place] = own.predictions
            expert.predicted = cut.reach[1]
            expert.ledgers.append(own.ledger)
        return self._mix(min(expert.predicted for expert in self.progress))

    def _experts_of(self, bundle: Bundle) -> list[_Expert]:
        """Return the experts of a bundle's cuts."""
        by_settings = {id(expert.settings): expert for expert in self.progress}
        return [by_settings[id(cut.newton)] for cut in bundle.cuts]

    # -- the ends of a call ---------------------------------------------------------------------

    def _learn_open_blocks(self) -> None:
        """Let the experts fill their open blocks."""
        for expert in self.progress:
            expert.bundled = expert.learner.open_room if expert.learner.open_rows else 0
        self._learn_here([(0, expert.bundled) for expert in self.progress])
        for expert in self.progress:
            expert.sums, expert.predicted = Sums.of(expert.learner), expert.bundled

    def finish(self) -> Iterator[tuple[Array, Array]]:
        self._learn_last_rows()
        yield from self._mix(self.n)
        for group in self.groups:
            group.grow()  # by points that enter behind the last row
        if self.experts.error_scale is not None:
            self.experts.error_scale.grow()
        self.experts.count_rows(self.n)

    def _learn_last_rows(self) -> None:
        """Move the experts behind their last whole blocks and let them learn the other rows."""
        for expert in self.progress:
            assert expert.sums is not None
            if expert.ledgers:
                adopt(expert.learner, expert.sums, expert.ledgers)
        epoch = self.n - (self.experts.rows + self.n) % EPOCH  # the last that begins in the call
        self._learn_here([(e.bundled, max(e.bundled, epoch)) for e in self.progress])
        for group in self.groups:
            group.grow()
        self.experts.begin_epoch()
        if epoch < self.n:
            self._learn_open_epoch(epoch)
        if self.experts.error_scale is not None:
            wanted: list[Range] = [None] * len(self.groups)
            wanted[-1] = (self.bundled, self.n)
            rows = self.Z[self.bundled :]
            self.scale_features.append(self.spans.features(rows, self.bundled, wanted)[-1])

    def _learn_open_epoch(self, epoch: int) -> None:
        """Learn the rows of an epoch that stays open as one call; a saved model contains them."""
        Z, Y = self.Z[epoch:], self.Y[epoch:]
        self.experts.log_rows(Z, Y)
        by_learner = {id(expert.learner): expert for expert in self.progress}
        for group, Phi in self.experts.features(Z):
            for learner in group.learners.values():
                expert = by_learner[id(learner)]
                first = max(0, expert.bundled - epoch)
                predicted = learner.learn(Phi[first:, : learner.size], Y[first:])
                self.P[epoch + first :, expert.place] = predicted

    def _learn_here(self, reaches: list[tuple[int, int]]) -> None:
        """Let each expert learn some rows itself, on threads where the pool has them."""
        submit = self.tasks.submit if self.plan.keep_features else _run_now
        pending = [
            (expert, reach, submit(self._learned_by, expert, reach))
            for expert, reach in zip(self.progress, reaches, strict=True)
            if reach[1] > reach[0]
        ]
        for expert, reach, task in pending:
            self.P[slice(*reach), expert.place] = task.result()

    def _learned_by(self, expert: _Expert, reach: tuple[int, int]) -> Array:
        """Let an expert learn rows, which changes it; return its predictions."""
        wanted: list[Range] = [None] * len(self.groups)
        wanted[expert.group] = reach
        rows, first_rows = slice(*reach), self._first_rows(expert)
        Phi = self.spans.features(self.Z[rows], reach[0], wanted)[expert.group]
        whole = Partition(*reach, (reach[0],), first_rows)
        return replay(expert.learner, whole.masked(Phi), self.Y[rows], first_rows, reach[0])

    # -- in order -------------------------------------------------------------------------------

    def _mix(self, stop: int) -> Iterator[tuple[Array, Array]]:
        """Combine the predictions of rows that have those of all experts."""
        start, experts = self.mixed, self.experts
        if stop <= start:
            return
        rows = slice(start, stop)
        Z = self.Z[rows, : experts.columns]
        experts.learn_far(Z, self.Y[rows], self.unclipped[rows], self._far_features, start)
        out = experts.mix(self.P[rows], self.Z[rows], self.Y[rows])
        scales = np.ones(out.shape)
        if experts.error_scale is not None:
            Phi, first_rows = self._next_scale_features(stop - start), self.first_rows[-1]
            inside = (row for row in np.unique(first_rows).tolist() if start < row < stop)
            for low, high in pairwise([start, *inside, stop]):
                rows, size = slice(low - start, high - start), int((first_rows <= low).sum())
                experts.error_scale.grow(size)
                own = np.ascontiguousarray(Phi[rows, :size])
                scales[rows] = experts.error_scale.learn(own, out[rows], self.unclipped[low:high])
        self.mixed = stop
        yield out, scales

    def _far_features(self, Z: Array) -> Iterator[tuple[Any, Array]]:
        """Yield the groups of experts with the features of rows Z."""
        wanted: list[Range] = [(0, len(Z)) if group.learners else None for group in self.groups]
        found = zip(self.groups, self.spans.features(Z, 0, wanted), strict=True)
        yield from ((group, Phi) for group, Phi in found if group.learners)

    def _next_scale_features(self, rows: int) -> Array:
        """Return the error scale's features of the next rows; coordinates they lack are 0."""
        size, found = len(self.first_rows[-1]), []
        while rows:
            Phi = self.scale_features.popleft()
            if len(Phi) > rows:
                self.scale_features.appendleft(Phi[rows:])
                Phi = Phi[:rows]
            rows -= len(Phi)
            found.append(np.pad(Phi, ((0, 0), (0, size - Phi.shape[1]))))
        return np.concatenate(found)


def _run_now(function: Any, *arguments: Any) -> Any:
    """Run a task of this process where the pool has none."""
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _settings(learner: DiscountedNewton) -> DiscountedNewton:
    """Return a learner with the same settings and no rows."""
    blank = DiscountedNewton(learner.rule, learner.alpha, 0, learner.outputs)  # type: ignore[arg-type]
    blank.discount = learner.discount
    return blank
