"""Run one pass over rows as tasks of partitions, on threads.

Every partition of the rows goes through four steps:

    sums      a task: what the rows of the partition add to the state
    scan      here, in order: the state at the start of the partition
    rows      a task: the predictions of the partition, from that state
    collect   here, in order: the predictions

An engine supplies the steps as a subclass of `PartitionedPass` (`newton.py`). An executor supplies
``submit``: a pool of threads.

Tasks are pure functions of their arguments. The partitions do not depend on the executor, and scans
and collections are in order: the number of workers changes no bit of a result. The number of
partitions in flight is bounded, and so is memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import Any, Generic, Protocol, TypeVar

#: A pure function, then its arguments.
Task = tuple[Any, ...]
P = TypeVar("P")  # a partition
T = TypeVar("T")  # what a pass yields


class Pending(Protocol):
    """A submitted task."""

    def result(self) -> Any: ...
    def done(self) -> bool: ...
    def cancel(self) -> Any: ...


class Pool(Protocol):
    """An executor, as of `concurrent.futures`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any: ...


class TaskGroup:
    """Submit tasks to an executor and remember those that are not done."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._pending: set[Pending] = set()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Pending:
        future: Pending = self.pool.submit(function, *arguments)
        self._pending = {other for other in self._pending if not other.done()} | {future}
        return future

    def cancel(self) -> None:
        """Cancel what has not begun and wait for what has.

        A task of a call that failed must not read a state that is being rolled back.
        """
        pending = [future for future in self._pending if not future.done()]
        for future in pending:
            future.cancel()
        wait([future for future in pending if isinstance(future, Future)])


class PartitionedPass(ABC, Generic[P, T]):
    """Take partitions through their steps; a subclass says what the steps do.

    Parameters
    ----------
    pool : an executor
    most : int
        Partitions in flight, at most. Half of them may wait for their predictions.
    """

    def __init__(self, pool: Pool, most: int) -> None:
        self.tasks, self.most = TaskGroup(pool), most
        self._summing: deque[tuple[P, Pending]] = deque()
        self._learning: deque[tuple[P, Pending]] = deque()

    @abstractmethod
    def partitions(self) -> Iterator[P]:
        """Yield the partitions in order.

        Points of a growing dictionary are chosen here, ahead of the sums.
        """

    @abstractmethod
    def sum_task(self, part: P) -> Task:
        """Return the task that sums up a partition."""

    @abstractmethod
    def scan(self, part: P, summed: Any) -> Task | None:
        """Move the state behind a partition; return the task that predicts and learns its rows.

        None drops the partition: it is behind the end of the stream.
        """

    @abstractmethod
    def collect(self, part: P, learned: Any) -> Iterable[T]:
        """Return what the pass yields for the rows of a partition."""

    def limit(self, part: P) -> int:
        """Return how many partitions as large as this one may be in flight."""
        return self.most

    def finish(self) -> Iterable[T]:
        """Return what the pass yields behind the last partition."""
        return ()

    def run(self) -> Iterator[T]:
        """Yield the results of all partitions, in order."""
        try:
            for part in self.partitions():
                self._summing.append((part, self.tasks.submit(*self.sum_task(part))))
                limit = self.limit(part)
                while len(self._summing) + len(self._learning) > limit or self._is_ready():
                    yield from self._advance()
            while self._summing or self._learning:
                yield from self._advance()
            yield from self.finish()
        finally:
            self.tasks.cancel()

    def _is_ready(self) -> bool:
        """Return whether the next scan or the next collection needs no waiting."""
        return any(queue and queue[0][1].done() for queue in (self._summing, self._learning))

    def _advance(self) -> Iterable[T]:
        """Move the oldest partition one step on; scans go first, they give work to the pool."""
        if self._scans_next():
            part, pending = self._summing.popleft()
            task = self.scan(part, pending.result())
            if task is not None:
                self._learning.append((part, self.tasks.submit(*task)))
            return ()
        part, pending = self._learning.popleft()
        return self.collect(part, pending.result())

    def _scans_next(self) -> bool:
        if not self._summing or not self._learning:
            return bool(self._summing)
        if len(self._learning) > self.most // 2:
            return False
        return self._summing[0][1].done() or not self._learning[0][1].done()
