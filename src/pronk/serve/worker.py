"""Queues of requests, and the threads that write, learn and predict them.

The writer processes all waiting requests of a model as one group: it writes one transaction
(together with the groups of other models), learns one block, then answers. There is no timer:
requests that arrive meanwhile form the next group. The order is journal, learn, answer; after a
crash between two steps the journal is replayed. Any thread may process a group, but only one thread
per model at a time.

The reader predicts each request on its own, because a prediction does not depend on the other
requests, and waits for a model's lock at most while one piece of a block is learned. Requests of
many rows have a queue of their own: a copy of the model predicts them in pieces, beside the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, cast

from pronk.serve.journal import (
    LABEL,
    LEARN,
    PREDICT,
    Batch,
    Entry,
    Journal,
    JournalError,
    Statement,
)
from pronk.serve.online import PIECE, REFUSALS, OnlineModel
from pronk.serve.rows import (
    Answer,
    join_answers,
    label_kind,
    pack,
    unpack,
    unpack_answer,
    unpack_answers,
)
from pronk.serve.spec import HTTPError, one_line

# -- requests and queues ---------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Work:
    """Hold a request while it is processed: packed rows, packed labels, or both."""

    model: OnlineModel
    id: str | None
    rows: bytes | None
    labels: bytes | None
    count: int
    future: Any = None
    outcome: Answer | Exception | None = None
    earlier: Entry | None = None  # the prediction that the labels belong to
    entry: Entry | None = None
    duplicate_of: Work | None = None  # the same request earlier in the same group
    outputs: list[str] | None = None  # those to be sent; None for all


@dataclass(slots=True, eq=False)
class Task:
    """Hold a function that the writer calls between two groups of a model's requests."""

    call: Callable[[], Any]
    future: Any = None
    outcome: Any = None


Item = Work | Task
Deliver = Callable[[list[Any]], None]


def resolve(done: list[Any]) -> None:
    """Set the outcomes as results of the futures, unless a client has disconnected."""
    for item in done:
        future, outcome = item.future, item.outcome
        if future is None or future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


@dataclass(slots=True, eq=False)
class _Waiting:
    """Hold the queue of one model."""

    items: deque[Item] = field(default_factory=deque)
    rows: int = 0


class Queues:
    """Process one queue per model by a pool of threads, one thread per model at a time.

    A slow model delays only itself, as long as fewer than ``threads`` models are slow. All queues
    together hold ``most_rows`` rows; if they are full, a model with less than its share of them may
    still add requests.
    """

    def __init__(
        self, most_rows: int, group_rows: int, work: Callable[[list[Item]], None], name: str = "",
        threads: int = 32,
    ) -> None:  # fmt: skip
        self.most_rows, self.group_rows, self.work = most_rows, group_rows, work
        self.rows = 0
        self.closed = False
        self._queues: dict[str, _Waiting] = {}  # those with items, waiting or being processed
        self._changed = threading.Condition()
        self._threads = ThreadPoolExecutor(threads, name)

    def put(self, model: str, item: Item, *, limited: bool = True) -> None:
        """Add an item to a model's queue; raise 429 if it is full, 503 if the queues are closed."""
        count = item.count if isinstance(item, Work) else 0
        with self._changed:
            if self.closed:
                raise HTTPError(503, "the server is stopping", {"Retry-After": "5"})
            idle = model not in self._queues
            queue = self._queues.setdefault(model, _Waiting())
            full = self.rows + count > self.most_rows
            share = self.most_rows / len(self._queues)
            if limited and count and queue.rows and full and queue.rows + count > share:
                raise HTTPError(
                    429, "too many rows are waiting; try again later", {"Retry-After": "1"}
                )
            self.rows += count
            queue.rows += count
            queue.items.append(item)
            if idle:
                self._threads.submit(self._run, model)

    def _run(self, model: str) -> None:
        """Process the next items of a queue, then let a thread process those that came since."""
        with self._changed:
            queue = self._queues[model]
            taken = self._next_group(queue)
        try:
            self.work(taken)
        finally:
            with self._changed:
                if queue.items:
                    self._threads.submit(self._run, model)
                else:
                    del self._queues[model]
                    self._changed.notify_all()

    def _next_group(self, queue: _Waiting) -> list[Item]:
        """Remove one task, or the requests before the next task, up to the rows of a group."""
        if isinstance(queue.items[0], Task):
            return [queue.items.popleft()]
        taken: list[Item] = []
        rows = 0
        while queue.items:
            item = queue.items[0]
            if not isinstance(item, Work) or (taken and rows + item.count > self.group_rows):
                break
            taken.append(queue.items.popleft())
            rows += item.count
        queue.rows -= rows
        self.rows -= rows
        return taken

    def close(self) -> None:
        """Accept no more items; those in the queues are still processed."""
        with self._changed:
            self.closed = True

    def join(self) -> None:
        """Wait until all items are processed and the threads have ended; call after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queues)
        self._threads.shutdown()


# -- writer and reader -----------------------------------------------------------------------------

#: Most rows per group.
GROUP = 4000
#: Most probabilities of classes in an answer.
MOST_PROBABILITIES = 2_000_000


class Counters:
    """Count requests, rows and seconds, for metrics and the live page."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = self.groups = self.refused = self.repeated = 0
        self.learned_rows = self.predicted_rows = 0
        self.labels_expired = self.rows_dropped = 0
        self.commit_seconds = self.learn_seconds = 0.0

    def add(self, **more: float) -> None:
        """Add to some counters."""
        with self._lock:
            for name, value in more.items():
                setattr(self, name, getattr(self, name) + value)


@dataclass
class Writer:
    """Write groups of requests to the journal, learn them and answer."""

    journal: Journal
    deliver: Deliver
    counters: Counters
    current: Callable[[str], OnlineModel]
    after: Callable[[str], None]
    log: Callable[..., None]

    def work(self, taken: list[Item]) -> None:
        """Process the next items of a model's queue."""
        if isinstance(taken[0], Task):
            self._run_task(taken[0])
            return
        works = cast(list[Work], taken)
        try:
            self.group(works)
            self.after(works[0].model.name)
        except Exception as error:  # a bug: answer all requests, or their clients wait for ever
            self.log("failed", model=works[0].model.name, reason=repr(error)[:300])
            for work in works:
                work.outcome = error
            self.deliver(works)

    def _run_task(self, task: Task) -> None:
        try:
            task.outcome = task.call()
        except (JournalError, OSError) as error:
            text = one_line(error)
            self.log("task failed", reason=text)
            task.outcome = HTTPError(507, f"{text}; nothing was changed", {"Retry-After": "10"})
        except Exception as error:
            task.outcome = error
        self.deliver([task])

    def group(self, works: list[Work]) -> None:
        """Write, learn and answer requests of one model."""
        admitted = self._admit(works)
        if written := self._commit(admitted):
            self._learn(written)
        for work in works:
            if work.duplicate_of is not None:
                work.outcome = work.duplicate_of.outcome
        refused = sum(isinstance(work.outcome, HTTPError) for work in works)
        self.counters.add(groups=1, requests=len(works), refused=refused)
        self.deliver(works)

    def _admit(self, works: list[Work]) -> list[Work]:
        """Return the requests to be written; set the outcome of all others."""
        admitted: list[Work] = []
        try:
            model = self.current(works[0].model.name)  # it may have been replaced meanwhile
            if model.refusal is not None:
                raise model.refusal
        except HTTPError as error:
            for work in works:
                work.outcome = error
            return []
        seen: dict[tuple[str, bool], Work] = {}
        ids = [work.id for work in works if work.id is not None]
        known = self.journal.find(model.number, ids) if ids else {}
        labels = LabelCheck(model)
        for work in works:
            work.model = model
            before = known.get(work.id or "", {})
            try:
                if work.id is not None and self._repeated(work, work.id, seen, before):
                    self.counters.add(repeated=1)
                    continue
                self._check(work, before.get(PREDICT), labels)
            except HTTPError as error:
                work.outcome = error
                continue
            admitted.append(work)
            if work.id is not None:
                seen[work.id, work.labels is not None] = work
        return admitted

    def _repeated(
        self, work: Work, id: str, seen: dict[tuple[str, bool], Work], before: dict[int, Entry]
    ) -> bool:
        """Return whether the id was used before; its answer is then the stored one."""
        learns = work.labels is not None
        earlier: Work | Entry | None = seen.get((id, learns))
        if earlier is None and learns:
            earlier = before.get(LEARN) or before.get(LABEL)
        elif earlier is None:
            earlier = before.get(PREDICT)
            if earlier is None and LEARN in before:
                raise _other_content(id)
        if earlier is None:
            return False
        labels_alone = learns and work.rows is None
        if work.labels != earlier.labels or not (labels_alone or work.rows == earlier.rows):
            raise _other_content(id)
        if isinstance(earlier, Work):
            work.duplicate_of = earlier
        else:
            work.outcome = self._stored(work.model, earlier)
        return True

    def _stored(self, model: OnlineModel, entry: Entry) -> Answer | HTTPError:
        if entry.kind == PREDICT:
            return unpack_answer(entry.answer or b"")
        block = entry.block or 0
        found = model.unwritten.get(block)
        if found is None:
            stored = self.journal.answers(block, entry.model)
            found = [] if stored is None else unpack_answers(stored)
        for answer in found:
            if answer.version == entry.sequence:
                return _outcome(answer)
        raise HTTPError(410, f"id {entry.id!r} was learned; its answer is no longer stored")

    def _check(self, work: Work, earlier: Entry | None, labels: LabelCheck) -> None:
        """Check labels against earlier requests, in the order of the requests."""
        if work.labels is None:
            return
        if work.rows is None and earlier is None:
            raise HTTPError(
                404, f"there is no prediction with the id {work.id!r}, or it has expired"
            )
        if earlier is not None:
            if work.rows is not None and work.rows != earlier.rows:
                raise _other_content(work.id or "")
            if work.count != earlier.size:
                raise HTTPError(422, f"labels: got {work.count} for {earlier.size} rows")
            work.earlier = earlier
        labels.check(work.labels)

    def _commit(self, works: list[Work]) -> list[Work]:
        """Write the group's transaction; return the requests that are in it, none if it failed."""
        if not works:
            return []
        model = works[0].model
        todo = []
        for work in works:
            if work.labels is None:
                try:
                    work.outcome = model.predict_to_wait(work.rows or b"")
                except Exception as error:
                    work.outcome = _refusal(error)
                    continue
            todo.append(work)
        began = perf_counter()
        try:
            self.journal.commit(lambda last: self._batch(model, todo, last))
        except JournalError as error:
            refusal = HTTPError(507, f"{error}; nothing was learned", {"Retry-After": "10"})
            for work in works:
                work.outcome, work.entry = refusal, None
            self.log("journal failed", reason=str(error), requests=len(works))
            return []
        model.unwritten.clear()
        self.counters.add(commit_seconds=perf_counter() - began)
        return todo

    def _batch(self, model: OnlineModel, works: list[Work], last: int) -> Batch:
        """Return the entries of requests, numbered after the journal's last entry."""
        now, block = self.journal.now(), None
        more: list[Statement] = []
        for sequence, work in enumerate(works, last + 1):
            kind, rows, answer, earlier = LEARN, work.rows, None, work.earlier
            if work.labels is None:
                kind, answer = PREDICT, pack(work.outcome)
            elif block is None:
                block = sequence
            if earlier is not None:
                kind, rows, answer = LABEL, earlier.rows, earlier.answer
                more.append(
                    ("UPDATE journal SET done = ? WHERE sequence = ?", (sequence, earlier.sequence))
                )
            work.entry = Entry(
                sequence,
                model.number,
                work.id,
                kind,
                work.count,
                rows,
                work.labels,
                None if kind == PREDICT else block,
                answer,
                now,
            )
        return Batch([work.entry for work in works if work.entry], model.answers(), more)

    def _learn(self, works: list[Work]) -> None:
        """Learn the written entries as one block."""
        model, began = works[0].model, perf_counter()
        entries = [work.entry for work in works if work.entry is not None]
        kinds = [entry.kind for entry in entries]
        model.waiting += kinds.count(PREDICT) - kinds.count(LABEL)
        rows = sum(entry.size for entry in entries if entry.kind == PREDICT)
        self.counters.add(predicted_rows=rows)
        works = [work for work in works if work.labels is not None]
        entries = [entry for entry in entries if entry.kind != PREDICT]
        if not works:
            return
        try:
            found = model.learn(entries)
        except Exception as error:  # such as no memory: a restart learns it from the journal
            model.broken = f"learning failed ({type(error).__name__}); restart the server"
            self.log("learning failed", model=model.name, reason=repr(error))
            for work in works:
                work.outcome = HTTPError(503, f"model {model.name!r}: {model.broken}")
            return
        model.unwritten[entries[0].block or 0] = found
        for work, answer in zip(works, found, strict=True):
            work.outcome = _outcome(answer)
        rows = sum(work.count for work in works)
        self.counters.add(learned_rows=rows, learn_seconds=perf_counter() - began)


class LabelCheck:
    """Check that the labels of a classifier are of one kind and not too many, over a group."""

    def __init__(self, model: OnlineModel) -> None:
        self.classifies = model.spec.task == "classification"
        self.kind = model.label_kind
        self.known = model.labels if self.classifies else ()
        self.most = model.most_labels if self.classifies else 0
        self.added: set[Any] = set()

    def check(self, packed: bytes) -> None:
        """Add the labels of a request, or raise."""
        if not self.classifies:
            return
        labels = unpack(packed)
        kind = label_kind(labels[0])
        if kind != (self.kind or kind):
            raise HTTPError(
                422, f"row 0, label: expected {self.kind} as in earlier labels, got {kind}"
            )
        fresh: set[Any] = set()
        for row, label in enumerate(labels):
            if label in self.known or label in self.added or label in fresh:
                continue
            if len(self.known) + len(self.added) + len(fresh) == self.most:
                raise HTTPError(
                    422, f"row {row}, label: it would be label {self.most + 1:,} of the model, "
                    f"which allows {self.most:,} (max_classes)",
                )  # fmt: skip
            fresh.add(label)
        self.kind = kind
        self.added |= fresh


def _outcome(answer: Answer) -> Answer | HTTPError:
    return answer if answer.error is None else HTTPError(422, answer.error)


def _refusal(error: Exception) -> Exception:
    """Turn an error that the rows caused into a 422; return other errors unchanged."""
    return HTTPError(422, one_line(error)) if isinstance(error, REFUSALS) else error


def _other_content(id: str) -> HTTPError:
    return HTTPError(422, f"id {id[:100]!r} was already used with other content")


def reader_queue(work: Work) -> str:
    """Return the name of the queue of a request without an id.

    Each model has two; requests of many rows are predicted one at a time, as each needs a copy of
    the model.
    """
    return work.model.name if work.count <= PIECE else f"{work.model.name} large"


def predict_each(works: list[Work], counters: Counters) -> None:
    """Predict requests without an id, which need no journal."""
    for work in works:
        try:
            predict = work.model.predict if work.count <= PIECE else partial(_in_pieces, work)
            work.outcome = work.model.refusal or predict(work.rows or b"")
        except Exception as error:
            work.outcome = _refusal(error)
    counters.add(requests=len(works), predicted_rows=sum(work.count for work in works))


def _in_pieces(work: Work, rows: bytes) -> Answer:
    """Predict many rows with a copy of the model, which leaves the model to other requests."""
    model = work.model.frozen()
    values = work.count * len(getattr(model.learner, "classes_", ()))
    if values > MOST_PROBABILITIES:
        raise HTTPError(
            413, f"rows: the answer would have {values:,} probabilities, at most "
            f"{MOST_PROBABILITIES:,} are sent; split the rows over several requests",
        )  # fmt: skip
    pieces = model.columns.split(rows, work.count, PIECE)
    return join_answers(
        [model.predict(piece, later=place > 0) for place, piece in enumerate(pieces)]
    )
