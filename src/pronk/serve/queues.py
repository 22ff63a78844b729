"""Requests on their way, and the queues in which they wait for the threads of `worker`."""

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
    entry: Entry | None = None
    twin: Work | None = None  # the same request earlier in the same group

    @property
    def content(self) -> tuple[Any, Any]:
        """An id stands for one content."""
        return self.rows, self.labels


@dataclass(slots=True, eq=False)
class Errand:
    """Something that the writer does between two groups."""

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


class Queue:
    """What waits, counted in rows; a full one refuses."""

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self.rows = 0
        self.items: deque[Item] = deque()
        self.changed = threading.Condition()
        self.closed = False

    def put(self, item: Item, *, room: bool = True) -> None:
        count = item.count if isinstance(item, Work) else 0
        with self.changed:
            if self.closed:
                raise Refused(503, "the server is stopping", {"Retry-After": "5"})
            if room and count and self.rows and self.rows + count > self.most_rows:
                raise Refused(429, "too many rows wait; try again", {"Retry-After": "1"})
            self.rows += count
            self.items.append(item)
            self.changed.notify()

    def take(self, most: int, timeout: float | None = None) -> list[Item] | None:
        """All that waits, up to so many rows; None when it is closed and empty."""
        with self.changed:
            if not self.items and not self.closed:
                self.changed.wait(timeout)
            if not self.items:
                return None if self.closed else []
            taken: list[Item] = []
            rows = 0
            while self.items:
                item = self.items[0]
                count = item.count if isinstance(item, Work) else 0
                if taken and (rows + count > most or isinstance(item, Errand)):
                    break
                taken.append(self.items.popleft())
                rows += count
                if isinstance(item, Errand):
                    break
            self.rows -= rows
            return taken

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
