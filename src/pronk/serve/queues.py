"""Requests on their way, and the queues in which they wait for the threads that work on them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pronk.serve.answers import Answer
from pronk.serve.errors import Refused
from pronk.serve.journal import Entry
from pronk.serve.online import Online


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
