"""What is done with the requests of one model: written and learned, or predicted.

A writer takes all that waits for a model, writes one transaction (together with the writers of
other models), learns one block, then answers all. There is no timer: what comes while it works is
the next group. The order is journal, learn, answer; a crash between any two is repaired by the
journal. Which thread does it does not matter, as long as it is one per model at a time.

A reader predicts each request by itself (a prediction does not depend on what came with it) and
waits for a model's lock no longer than for one piece of a block.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from pronk.serve import rows as answers
from pronk.serve.errors import Refused
from pronk.serve.journal import LABEL, LEARN, PREDICT, Batch, Entry, Journal, JournalError
from pronk.serve.online import REFUSALS, Online
from pronk.serve.rows import Answer, label_kind, unpack_labels

# ----------------------------------------------------------------------------------------
# Requests on their way, and the queues in which they wait for the threads that work on them.


@dataclass(slots=True, eq=False)
class Work:
    """A request on its way: rows without labels, with labels, or labels alone, as they are kept."""

    model: Online
    id: str | None
    rows: bytes | None
    labels: bytes | None
    count: int
    future: Any = None
    outcome: Answer | Exception | None = None
    earlier: Entry | None = None  # the prediction that labels alone belong to
    entry: Entry | None = None
    twin: Work | None = None  # the same request earlier in the same group

    @property
    def content(self) -> tuple[Any, Any]:
        """An id stands for one content."""
        return self.rows, self.labels


@dataclass(slots=True, eq=False)
class Errand:
    """Something that is done with a model between two groups of requests."""

    call: Callable[[], Any]
    future: Any = None
    outcome: Any = None


Item = Work | Errand
Deliver = Callable[[list[Any]], None]


def resolve(done: list[Any]) -> None:
    """Hand the outcomes over; who is gone is gone."""
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
    """What waits for one model."""

    items: deque[Item]
    rows: int = 0
    busy: bool = False  # a thread works on an earlier part


class Queues:
    """One queue per model, worked on by a pool of threads, one thread per model at a time.

    A model that is slow holds up nothing but itself, as long as fewer than ``threads`` models are.
    All queues together hold ``most_rows``; when they are full, a model that has less than its share
    may still add to its own.
    """

    def __init__(
        self, most_rows: int, group_rows: int, work: Callable[[list[Item]], None], name: str = "",
        threads: int = 32,
    ) -> None:  # fmt: skip
        self.most_rows, self.group_rows, self.most_threads = most_rows, group_rows, threads
        self.work, self.name = work, name
        self.rows = 0
        self.closed = False
        self._queues: dict[str, _Waiting] = {}
        self._ready: deque[str] = deque()  # models for which a thread can begin
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle = 0

    def put(self, model: str, item: Item, *, room: bool = True) -> None:
        """Add to the queue of a model; refused when there is no room, or when it is closed."""
        count = item.count if isinstance(item, Work) else 0
        with self._changed:
            if self.closed:
                raise Refused(503, "the server is stopping", {"Retry-After": "5"})
            queue = self._queues.get(model)
            if queue is None:
                queue = self._queues[model] = _Waiting(deque())
            full = self.rows + count > self.most_rows
            share = self.most_rows / len(self._queues)
            if room and count and queue.rows and full and queue.rows + count > share:
                raise Refused(429, "too many rows wait; try again", {"Retry-After": "1"})
            self.rows += count
            queue.rows += count
            queue.items.append(item)
            if not queue.busy and len(queue.items) == 1:
                self._ready.append(model)
                self._wake()

    def _wake(self) -> None:
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < self.most_threads:
            name = f"{self.name} {len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._ready:
                    if self.closed:
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                model = self._ready.popleft()
                queue = self._queues[model]
                queue.busy = True
                taken = self._take(queue)
            try:
                self.work(taken)
            finally:
                with self._changed:
                    queue.busy = False
                    if queue.items:
                        self._ready.append(model)
                        self._wake()
                    else:
                        del self._queues[model]

    def _take(self, queue: _Waiting) -> list[Item]:
        """One errand, or all requests before the next one, up to the rows of a group."""
        if isinstance(queue.items[0], Errand):
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
        """Take nothing more; what waits is worked on."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until everything is done and the threads have ended; after `close`."""
        for thread in self._threads:
            thread.join()


#: Rows that are taken at once. What waits beyond them is the next group.
GROUP = 4000


@dataclass
class Figures:
    """What the threads count."""

    lock: threading.Lock = field(default_factory=threading.Lock)

    requests: int = 0
    groups: int = 0
    learned_rows: int = 0
    predicted_rows: int = 0
    refused: int = 0
    commit_seconds: float = 0.0
    learn_seconds: float = 0.0
    largest_group: int = 0
    repeated: int = 0


@dataclass
class Writer:
    """Writes the journal and learns."""

    journal: Journal
    deliver: Deliver
    figures: Figures
    current: Callable[[str], Online]
    after: Callable[[str], None]
    note: Callable[..., None]

    def work(self, taken: list[Item]) -> None:
        """What was taken from the queue of a model."""
        if isinstance(taken[0], Errand):
            self._obey(taken[0])
            return
        works = [item for item in taken if isinstance(item, Work)]
        try:
            self.group(works)
            self.after(works[0].model.name)
        except Exception as error:  # a fault of this program: those who wait must not wait for ever
            self.note("failed", model=works[0].model.name, reason=repr(error)[:300])
            for work in works:
                work.outcome = error
            self.deliver(works)

    def _obey(self, order: Errand) -> None:
        try:
            order.outcome = order.call()
        except (JournalError, OSError) as error:
            text = " ".join(str(error).split())
            self.note("order failed", reason=text)
            order.outcome = Refused(507, f"{text}; nothing was changed", {"Retry-After": "10"})
        except Exception as error:
            order.outcome = error
        self.deliver([order])

    # -- one group: journal, learn, answer ---------------------------------------------------------

    def group(self, works: list[Work]) -> None:
        """Take requests of one model through the three steps."""
        admitted = self._admit(works)
        if admitted and self._commit(admitted):
            self._learn(admitted)
        for work in works:
            if work.twin is not None:
                work.outcome = work.twin.outcome
        figures = self.figures
        with figures.lock:
            figures.groups += 1
            figures.requests += len(works)
            figures.refused += sum(isinstance(work.outcome, Refused) for work in works)
        self.deliver(works)

    def _admit(self, works: list[Work]) -> list[Work]:
        """Those that go into the journal; the others have their outcome."""
        admitted: list[Work] = []
        try:
            model = self.current(works[0].model.name)  # it may be another one by now
            if model.broken:
                raise Refused(503, f"model {model.name!r} cannot be used: {model.broken}")
        except Refused as error:
            for work in works:
                work.outcome = error
            return []
        seen: dict[tuple[str, bool], Work] = {}
        ids = [work.id for work in works if work.id is not None]
        known = self.journal.find(model.number, ids) if ids else {}
        labels = NewLabels(model)
        for work in works:
            work.model = model
            before = known.get(work.id or "", {})
            try:
                if work.id is not None and self._repeated(work, seen, before):
                    with self.figures.lock:
                        self.figures.repeated += 1
                    continue
                self._check(work, before.get(PREDICT), labels)
            except Refused as error:
                work.outcome = error
                continue
            admitted.append(work)
            if work.id is not None:
                seen[work.id, work.labels is not None] = work
        return admitted

    def _repeated(
        self,
        work: Work,
        seen: dict[tuple[str, bool], Work],
        before: dict[int, Entry],
    ) -> bool:
        """Whether this id was there before: then its answer is the stored one."""
        assert work.id is not None
        labels_alone = work.labels is not None and work.rows is None
        twin = seen.get((work.id, work.labels is not None))
        if twin is not None:
            same = work.labels == twin.labels if labels_alone else work.content == twin.content
            if not same:
                raise _other_content(work.id)
            work.twin = twin
            return True
        if work.labels is None:
            entry = before.get(PREDICT)
            if entry is None and LEARN in before:
                raise _other_content(work.id)
        else:
            entry = before.get(LEARN) or before.get(LABEL)
        if entry is None:
            return False
        same = labels_alone or work.rows == entry.rows
        if work.labels is not None:
            same = same and work.labels == entry.labels
        if not same:
            raise _other_content(work.id)
        work.outcome = self._stored(work.model, entry)
        return True

    def _stored(self, model: Online, entry: Entry) -> Answer | Refused:
        if entry.kind == PREDICT:
            return answers.unpack(entry.answer or b"")
        block = entry.block or 0
        found = model.unwritten.get(block)
        if found is None:
            found = answers.unpack_block(self.journal.answers(block, entry.model) or b"\x90")
        for answer in found:
            if answer.version == entry.sequence:
                return _outcome(answer)
        raise Refused(410, f"the answer to id {entry.id!r} is no longer kept; it was learned")

    def _check(self, work: Work, earlier: Entry | None, labels: NewLabels) -> None:
        """What only the writer can check, in the order of the requests."""
        if work.labels is None:
            return
        if work.rows is None and earlier is None:
            raise Refused(
                404, f"no prediction with the id {work.id!r} is known, or it waited too long"
            )
        if earlier is not None:
            if work.rows is not None and work.rows != earlier.rows:
                raise _other_content(work.id or "")
            if work.count != earlier.size:
                raise Refused(422, f"labels: there are {work.count} for {earlier.size} rows")
            work.earlier = earlier
        labels.check(work.labels)

    def _commit(self, works: list[Work]) -> bool:
        """Write the transaction; False if it was not taken, and then nothing was learned."""
        model = works[0].model
        predicted: dict[Work, bytes] = {}
        for work in works:
            if work.labels is None:
                try:
                    found = model.predict(work.rows or b"")
                except Exception as error:
                    work.outcome = _refusal(error)
                    continue
                work.outcome = found
                predicted[work] = answers.pack(found)
        todo = [work for work in works if work.labels is not None or work in predicted]
        began = perf_counter()
        try:
            self.journal.commit(lambda last: self._batch(model, todo, predicted, last))
        except JournalError as error:
            refusal = Refused(507, f"{error}; nothing was learned", {"Retry-After": "10"})
            for work in works:
                work.outcome, work.entry = refusal, None
            self.note("journal failed", reason=str(error), requests=len(works))
            return False
        model.unwritten.clear()
        with self.figures.lock:
            self.figures.commit_seconds += perf_counter() - began
        return True

    def _batch(
        self, model: Online, works: list[Work], predicted: dict[Work, bytes], last: int
    ) -> Batch:
        """The entries of requests, numbered after the last one."""
        now, block = self.journal.now(), None
        batch = Batch([], [], [])
        for sequence, work in enumerate(works, last + 1):
            if work.labels is None:
                work.entry = Entry(
                    sequence, model.number, work.id, PREDICT, work.count, work.rows, None, None,
                    predicted[work], now,
                )  # fmt: skip
            else:
                block = sequence if block is None else block
                kind, rows, answer, earlier = LEARN, work.rows, None, work.earlier
                if earlier is not None:
                    kind, rows, answer = LABEL, earlier.rows, earlier.answer
                    done = (sequence, earlier.sequence)
                    batch.more.append(("UPDATE journal SET done = ? WHERE sequence = ?", done))
                work.entry = Entry(
                    sequence, model.number, work.id, kind, work.count, rows, work.labels, block,
                    answer, now,
                )  # fmt: skip
            batch.entries.append(work.entry)
        for number, found in model.unwritten.items():
            batch.answers.append((number, model.number, answers.pack(found)))
        return batch

    def _learn(self, works: list[Work]) -> None:
        """Learn what was written, as one block."""
        model = works[0].model
        todo, predicted = [], 0
        for work in works:
            if work.entry is None:
                continue
            if work.entry.kind == PREDICT:
                model.waiting += 1
                predicted += work.count
                continue
            if work.entry.kind == LABEL:
                model.waiting -= 1
            todo.append(work)
        with self.figures.lock:
            self.figures.predicted_rows += predicted
        if todo:
            self._learn_block(model, todo)

    def _learn_block(self, model: Online, works: list[Work]) -> None:
        entries = [work.entry for work in works if work.entry is not None]
        began = perf_counter()
        try:
            found = model.learn(entries)
        except Exception as error:  # no memory, say: the journal has it, a restart learns it
            model.broken = f"learning failed ({type(error).__name__}); restart the server"
            self.note("learning failed", model=model.name, reason=repr(error))
            for work in works:
                work.outcome = Refused(503, f"model {model.name!r}: {model.broken}")
            return
        model.unwritten[entries[0].block or 0] = found
        rows = 0
        for work, answer in zip(works, found, strict=True):
            work.outcome = _outcome(answer)
            rows += work.count
        figures = self.figures
        with figures.lock:
            figures.learned_rows += rows
            figures.largest_group = max(figures.largest_group, rows)
            figures.learn_seconds += perf_counter() - began


class NewLabels:
    """Labels of a group against those that a classifier has: of one kind, and not too many."""

    def __init__(self, model: Online) -> None:
        self.classifies = model.spec.task == "classification"
        self.kind = model.label_kind
        self.known = model.labels if self.classifies else ()
        self.most = model.most_labels if self.classifies else 0
        self.added: set[Any] = set()

    def check(self, packed: bytes) -> None:
        """Take the labels of a request in, or refuse them."""
        if not self.classifies:
            return
        labels = unpack_labels(packed)
        kind = label_kind(labels[0])
        if kind != (self.kind or kind):
            raise Refused(422, f"row 0, label: {kind}, the model's labels so far: {self.kind}")
        known, most = self.known, self.most
        fresh = {label for label in labels if label not in known} - self.added
        if len(known) + len(self.added) + len(fresh) > most:
            room = most - len(known) - len(self.added)
            row = _row_of_new(labels, {*known, *self.added}, room)
            raise Refused(
                422, f"row {row}, label: it would be label {most + 1:,} of the model, which takes "
                f"{most:,} (max_classes)",
            )  # fmt: skip
        self.kind = kind
        self.added |= fresh


def _row_of_new(labels: list[Any], known: set[Any], room: int) -> int:
    """The first row whose label is one too many."""
    for row, label in enumerate(labels):
        if label not in known:
            known.add(label)
            room -= 1
        if room < 0:
            return row
    return 0


def _outcome(answer: Answer) -> Answer | Refused:
    return answer if answer.error is None else Refused(422, answer.error)


def _refusal(error: Exception) -> Exception:
    """Rows that a learner does not take are the client's matter; anything else is ours."""
    if isinstance(error, REFUSALS):
        return Refused(422, " ".join(str(error).split()))
    return error


def _other_content(id: str) -> Refused:
    return Refused(422, f"id {id[:100]!r} was used before with other content")


@dataclass
class Reader:
    """Predicts what needs no journal."""

    deliver: Deliver
    figures: Figures

    def work(self, taken: list[Item]) -> None:
        """What was taken from the queue of a model."""
        rows = 0
        for work in taken:
            assert isinstance(work, Work)
            work.outcome = self._predict(work)
            rows += work.count
        with self.figures.lock:
            self.figures.requests += len(taken)
            self.figures.predicted_rows += rows
        self.deliver(taken)

    def _predict(self, work: Work) -> Any:
        if work.model.broken:
            return Refused(503, f"model {work.model.name!r} cannot be used: {work.model.broken}")
        try:
            return work.model.predict(work.rows or b"")
        except Exception as error:
            return _refusal(error)
