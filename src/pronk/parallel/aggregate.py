"""The pass of the default learner in bundles of rows that are worked on side by side.

From the row on at which its grid stands the experts are squared-loss learners on shared points, so
their passes split (`engines.newton.split`), each in its own blocks:

    ask      where points may still enter: which rows may become points, against those of the start
             of a stretch; the few that ask are gone through here, in order, at the ends of epochs
    sums     what the rows of a bundle do to the sums of each expert
    prefix   here: the sums at the start of each bundle
    rows     the experts' predictions for the bundle
    mixture  here, in order: baselines, weights, stacks, the spread; a few numbers a row

Rows at the start of a call that fill open blocks, and those behind the last whole blocks, are
learned by the experts themselves. The cut depends on the rows alone: the number of workers changes
no bit. Memory is bounded by the bundles under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate import experts as grid
from pronk.aggregate.experts import Experts
from pronk.aggregate.learner import OnlineKernel
from pronk.aggregate.settings import FORGETFUL_POINTS
from pronk.newton.discounted import EPOCH, DiscountedNewton
from pronk.parallel import bundles, newton
from pronk.parallel.bundles import Bundle, Cut, Held, Range, Spans, Summed

Array = NDArray[np.float64]
Births = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """How a pass is cut, which is part of the job, and how many bundles may be under way."""

    bundle: int = 1024  # rows of a bundle, about
    hold: bool = True  # whether tasks share the memory: features are held between sums and rows
    stretch: int = 8192  # rows that are asked ahead
    longest: int = 1 << 16  # rows that are walked at a time
    most: int = 24  # bundles under way, and the bytes they may hold
    least: int = 6
    bytes: int = 1 << 28


#: For threads of this process.
THREADS = Plan()
#: Rows of a shorter bundle at the end of a call, at least.
LAST_BUNDLE = 1024
#: Fewer rows than this are not worth a split: the longest block, and a few bundles.
LEAST_ROWS = 4096
#: Experts with more coordinates than this sum their blocks one by one, and only once.
APART = 128


def learn(engine: OnlineKernel, X: Array, Y: Array, pool: Any) -> Array:
    """As ``engine.learn(X, Y)`` up to rounding, by the threads of a pool.

    A pool that has a ``plan`` is elsewhere: its tasks get the rows they need, and its `keep` makes
    something of a snapshot that many tasks get.
    """
    plan = getattr(pool, "plan", THREADS)
    return engine.learn(X, Y, partial(walk, pool=pool, plan=plan))


def stands() -> int:
    """The row from which on no expert falls asleep."""
    return max(grid.ACTIVE_EXPERTS)


def walk(
    experts: Experts,
    Z: Array,
    Y: Array,
    given: Array,
    pool: Any,
    plan: Plan = THREADS,
) -> Iterator[tuple[Array, Array]]:
    """Predictions and spreads of rows, some after the other, in order.

    Y are the targets to learn, ``given`` those that the spread follows.
    """
    start = min(len(Z), max(0, stands() - experts.rows))
    if start:
        yield experts.learn(Z[:start], Y[:start], given[:start])
    while start < len(Z):
        stop = min(len(Z), start + plan.longest)
        if len(Z) - stop < LEAST_ROWS:
            stop = len(Z)
        rows = slice(start, stop)
        if stop - start < LEAST_ROWS:
            yield experts.learn(Z[rows], Y[rows], given[rows])
        else:
            yield from _Pass(experts, Z[rows], Y[rows], given[rows], pool, plan).run()
        start = stop


@dataclass
class _Expert:
    """An expert on its way: its settings, where its next block begins, the sums there."""

    learner: DiscountedNewton
    group: int
    place: int  # among the active
    blank: DiscountedNewton
    border: int = 0  # rows that were given out
    known: int = 0  # rows that were predicted
    sums: newton.Sums | None = None
    ledgers: list[Array] | None = None

    @property
    def most(self) -> int | None:
        """Coordinates that it reads at most."""
        return None if self.learner.discount == 1.0 else FORGETFUL_POINTS


class _Pass:
    """The rows of one call."""

    def __init__(
        self, experts: Experts, Z: Array, Y: Array, given: Array, pool: Any, plan: Plan
    ) -> None:
        self.experts, self.pool, self.plan = experts, pool, plan
        self.Y, self.given_Y, self.n = Y, given, len(Y)
        past = experts.past.learn(Y)
        self.Z = np.hstack((Z, past)) if past.shape[1] else Z
        self.source = Held(self.Z, Y)
        self.uniforms = experts.candidates.uniforms.take(self.n)
        self.groups = experts.all_groups()
        self.births = [np.full(g.nystrom.size, -1, dtype=np.int64) for g in self.groups]
        active = experts.active
        self.P = np.empty((self.n, len(active) + experts.baselines.count, experts.outputs))
        self.P[:, len(active) :] = experts.baselines.learn(Z, Y)
        self.ways = [
            _Expert(learner, g, active.index(number), _blank(learner))
            for g, group in enumerate(self.groups)
            for number, learner in group.learners.items()
        ]
        self.given = 0  # rows in bundles
        self.mixed = 0  # rows that have their prediction
        self.read: deque[Array] = deque()  # features for the spread of rows that were not mixed
        self.summing: deque[tuple[Any, Bundle, Future[Summed]]] = deque()
        self.learning: deque[tuple[Bundle, Future[list[newton.Learned]]]] = deque()
        self.going: set[Future[Any]] = set()

    def run(self) -> Iterator[tuple[Array, Array]]:
        try:
            yield from self._run()
        finally:  # what a failed call left behind must not run while it is rolled back
            open_ones = [future for future in self.going if not future.done()]
            for future in open_ones:
                future.cancel()
            wait([future for future in open_ones if isinstance(future, Future)])

    def _run(self) -> Iterator[tuple[Array, Array]]:
        spans = None
        kept: Any = None
        for spans, reach in self._stretches():
            if self.ways[0].sums is None:
                self._head(spans)
            if kept is None or kept[0] is not spans:
                kept = spans, self._keep(spans)
            for bundle in self._bundles(reach):
                yield from self._give_out(kept[1], bundle)
        while self.summing or self.learning:
            yield from self._advance()
        assert spans is not None
        self._tail(spans)
        yield from self._mix(self.n)
        for group in self.groups:
            group.grow()  # by points that enter behind the last row
        if self.experts.error_scale is not None:
            self.experts.error_scale.grow()
        self.experts.count_rows(self.n)

    def _submit(self, function: Any, *arguments: Any) -> Any:
        future = self.pool.submit(function, *arguments)
        self.going = {other for other in self.going if not other.done()} | {future}
        return future

    def _keep(self, spans: Spans) -> Any:
        """A snapshot for many tasks."""
        return spans if self.plan.hold else self.pool.keep(spans)

    def _rows_of(self, reach: tuple[int, int]) -> Held:
        """Where a task finds its rows."""
        return self.source if self.plan.hold else self.source.only(reach)

    # -- points ---------------------------------------------------------------------------------

    def _stretches(self) -> Iterator[tuple[Spans, int]]:
        """Snapshots of the spans, and the rows up to which their coordinates are all there are."""
        experts, epoch, done = self.experts, EPOCH, 0
        first = experts.rows  # before this call
        spans = Spans(experts)
        while done < self.n:
            if experts.candidates.points.size >= experts.budget:
                yield spans, self.n
                return
            stop = min(self.n, done + self.plan.stretch)
            if stop < self.n:
                stop -= (first + stop) % epoch
            asked = self._asking(spans, done, stop)
            end = done + epoch - (first + done) % epoch
            grown = False
            while end <= stop:
                grown |= self._end_epoch(first, end, asked[asked < end])
                asked = asked[asked >= end]
                end += epoch
            if grown:
                spans = Spans(experts)
            if (
                len(asked) and experts.candidates.room(first + end) > 0
            ):  # of an epoch that stays open
                asked = asked[spans.asking(self.Z[asked], self.uniforms[asked])]
                self._wait(asked)
            yield spans, stop
            done = stop

    def _asking(self, spans: Spans, start: int, stop: int) -> NDArray[np.int64]:
        kept = self._keep(spans)
        edges = [*range(start, stop, max(1, self.plan.bundle // 2)), stop]
        futures = [
            self._submit(
                bundles.ask, kept, self._rows_of(reach), reach, self.uniforms[slice(*reach)]
            )
            for reach in pairwise(edges)
        ]
        return np.concatenate([future.result() for future in futures])

    def _wait(self, rows: NDArray[np.int64]) -> None:
        self.experts.candidates.propose(self.Z[rows], self.uniforms[rows])

    def _end_epoch(self, first: int, end: int, asked: NDArray[np.int64]) -> bool:
        """Points enter the spans, not yet the learners; whether any did."""
        candidates = self.experts.candidates
        room = candidates.room(first + end)
        if room > 0:
            self._wait(asked)
        if not candidates.proposed.size:
            return False
        entered = self.experts.extend_spans(*candidates.pop_proposed(), room)
        for g, group in enumerate(self.groups):
            new = group.nystrom.size - len(self.births[g])
            self.births[g] = np.concatenate((self.births[g], np.full(new, end)))
        return entered

    def _births(self, way: _Expert) -> Births:
        return self.births[way.group][: way.most]

    # -- bundles ----------------------------------------------------------------------------------

    def _bundles(self, reach: int) -> Iterator[Bundle]:
        """Bundles of rows up to ``reach``; they end where a block of the largest expert does."""
        anchor = max(self.ways, key=lambda way: len(self._births(way)))
        while True:
            stop = self.given
            for part in bundles.cut_blocks(
                anchor.blank, self._births(anchor), anchor.border, reach, True
            ):
                stop = part.stop
                if stop - self.given >= self.plan.bundle:
                    break
            wanted = self.plan.bundle if reach < self.n else min(self.plan.bundle, LAST_BUNDLE)
            if stop - self.given < wanted:
                return
            cuts = []
            for way in self.ways:
                births = self._births(way)
                apart = self.plan.hold and len(births) > APART
                parts = bundles.cut_blocks(way.blank, births, way.border, stop, apart)
                if parts:
                    cuts.append(Cut(way.blank, way.group, parts))
                    way.border = parts[-1].stop
            read: Range = None if self.experts.error_scale is None else (self.given, stop)
            bundle = Bundle.of(cuts, len(self.groups), read)
            self.given = stop
            yield bundle

    def _give_out(self, spans: Any, bundle: Bundle) -> Iterator[tuple[Array, Array]]:
        future = self._submit(
            bundles.sum_up, spans, self._rows_of(bundle.reach), bundle, self.plan.hold
        )
        self.summing.append((spans, bundle, future))
        while len(self.summing) + len(self.learning) > self._under_way(bundle) or (
            self.summing and self.summing[0][2].done()
        ):
            yield from self._advance()

    def _under_way(self, bundle: Bundle) -> int:
        """How many bundles fit: features, and the sums of each part."""
        rows = bundle.reach[1] - bundle.reach[0]
        sizes = [len(self._births(way)) for way in self.ways]
        held = 8 * sum(r * r * (1 + len(c.parts)) for r, c in zip(sizes, bundle.cuts, strict=True))
        held += 8 * rows * sum(len(births) for births in self.births)
        return max(self.plan.least, min(self.plan.most, self.plan.bytes // held))

    def _advance(self) -> Iterator[tuple[Array, Array]]:
        """The oldest bundle goes one step on."""
        if self.summing and len(self.learning) <= self.plan.most // 2:
            spans, bundle, future = self.summing.popleft()
            summed: Summed = future.result()
            if summed.read is not None:
                self.read.append(summed.read)
            ways = self._of(bundle)
            starts = [way.sums for way in ways]
            for way, total in zip(ways, summed.totals, strict=True):
                assert way.sums is not None
                way.sums = way.sums.after(total, way.blank.alpha)
            given = replace(summed, totals=[], read=None) if self.plan.hold else None
            rows = self._rows_of(bundle.reach)
            task = self._submit(bundles.learn_rows, spans, rows, bundle, starts, given)
            self.learning.append((bundle, task))
        else:
            bundle, learning = self.learning.popleft()
            for way, cut, learned in zip(
                self._of(bundle), bundle.cuts, learning.result(), strict=True
            ):
                self.P[slice(*cut.reach), way.place] = learned.predictions
                way.known = cut.reach[1]
                assert way.ledgers is not None
                way.ledgers.append(learned.ledger)
            yield from self._mix(min(way.known for way in self.ways))

    def _of(self, bundle: Bundle) -> list[_Expert]:
        """The experts of a bundle's cuts."""
        by_blank = {id(way.blank): way for way in self.ways}
        return [by_blank[id(cut.newton)] for cut in bundle.cuts]

    # -- the ends of a call -----------------------------------------------------------------------

    def _head(self, spans: Spans) -> None:
        """Open blocks are filled by the experts themselves."""
        for way in self.ways:
            way.border = way.learner.open_room if way.learner.open_rows else 0
        self._replay(spans, [(0, way.border) for way in self.ways])
        for way in self.ways:
            way.sums = newton.Sums(*(np.array(held, order="F") for held in way.learner.sums))
            way.ledgers, way.known = [], way.border

    def _tail(self, spans: Spans) -> None:
        """The experts stand behind their last whole blocks and learn the other rows."""
        for way in self.ways:
            assert way.sums is not None and way.ledgers is not None
            if way.ledgers:
                newton.adopt(way.learner, way.sums, way.ledgers)
        epoch = self.n - (self.experts.rows + self.n) % EPOCH  # the last that begins in the call
        self._replay(spans, [(way.border, max(way.border, epoch)) for way in self.ways])
        for group in self.groups:
            group.grow()
        self.experts.begin_epoch()
        if epoch < self.n:
            self._open_epoch(epoch)
        if self.experts.error_scale is not None:
            wanted: list[Range] = [None] * len(self.groups)
            wanted[-1] = (self.given, self.n)
            rows = self.Z[self.given :]
            self.read.append(spans.features(rows, self.given, wanted)[-1])

    def _open_epoch(self, epoch: int) -> None:
        """The rows of the last epoch, if it stays open, as one call: a file has it (`openrows`)."""
        Z, Y = self.Z[epoch:], self.Y[epoch:]
        self.experts.log_rows(Z, Y)
        ways = {id(way.learner): way for way in self.ways}
        for group, Phi in self.experts.features(Z):
            for learner in group.learners.values():
                way = ways[id(learner)]
                first = max(0, way.border - epoch)
                predicted = learner.learn(Phi[first:, : learner.size], Y[first:])
                self.P[epoch + first :, way.place] = predicted

    def _replay(self, spans: Spans, reaches: list[tuple[int, int]]) -> None:
        """Each expert learns some rows itself."""
        submit = self._submit if self.plan.hold else _now
        futures = [
            (way, reach, submit(_replayed, way, self._births(way), spans, self, reach))
            for way, reach in zip(self.ways, reaches, strict=True)
            if reach[1] > reach[0]
        ]
        for way, reach, future in futures:
            self.P[slice(*reach), way.place] = future.result()

    # -- in order ---------------------------------------------------------------------------------

    def _mix(self, stop: int) -> Iterator[tuple[Array, Array]]:
        """One prediction of the experts' for rows whose predictions are all there."""
        start, experts = self.mixed, self.experts
        if stop <= start:
            return
        out = experts.mixture.learn(self.P[start:stop], self.Y[start:stop])
        scales = np.ones(out.shape)
        if experts.error_scale is not None:
            Phi, births = self._take_read(stop - start), self.births[-1]
            edges = [start, *(b for b in np.unique(births).tolist() if start < b < stop), stop]
            for low, high in pairwise(edges):
                rows, size = slice(low - start, high - start), int((births <= low).sum())
                experts.error_scale.grow(size)
                own = np.ascontiguousarray(Phi[rows, :size])
                scales[rows] = experts.error_scale.learn(own, out[rows], self.given_Y[low:high])
        self.mixed = stop
        yield out, scales

    def _take_read(self, rows: int) -> Array:
        """The features of the next rows for the spread; later coordinates of them are not read."""
        size, taken = len(self.births[-1]), []
        while rows:
            held = self.read.popleft()
            if len(held) > rows:
                self.read.appendleft(held[rows:])
                held = held[:rows]
            rows -= len(held)
            taken.append(np.pad(held, ((0, 0), (0, size - held.shape[1]))))
        return np.concatenate(taken)


def _now(function: Any, *arguments: Any) -> Any:
    """A task of this process, where the pool is elsewhere."""
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _blank(learner: DiscountedNewton) -> DiscountedNewton:
    """The settings of a learner, without its rows."""
    blank = DiscountedNewton(learner.rule, learner.alpha, 0, learner.outputs)  # type: ignore[arg-type]
    blank.discount = learner.discount
    return blank


def _replayed(
    way: _Expert, births: Births, spans: Spans, rows: _Pass, reach: tuple[int, int]
) -> Array:
    """An expert learns rows itself: it changes."""
    wanted: list[Range] = [None] * len(spans.spans)
    wanted[way.group] = reach
    Phi = spans.features(rows.Z[slice(*reach)], reach[0], wanted)[way.group]
    whole = newton.Partition(*reach, (reach[0],), births)
    return newton.replay(way.learner, whole.shown(Phi), rows.Y[slice(*reach)], births, reach[0])
