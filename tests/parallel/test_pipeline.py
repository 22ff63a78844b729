"""The pipeline of a split pass: results in order, few partitions in flight, no task left."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from pronk.parallel.pipeline import PartitionedPass


def double(number):
    return 2 * number


def add(start, number):
    return start + number


class RunningSums(PartitionedPass):
    """Yield n and the sum of 2 m over all m < n, plus n."""

    def __init__(self, pool, numbers, most=6):
        super().__init__(pool, most)
        self.numbers, self.total = numbers, 0
        self.submitted = self.collected = self.largest = 0

    def partitions(self):
        for number in self.numbers:
            self.submitted += 1
            yield number

    def sum_task(self, part):
        self.largest = max(self.largest, self.submitted - self.collected)
        return double, part

    def scan(self, part, summed):
        if part < 0:
            self.collected += 1
            return None
        start, self.total = self.total, self.total + summed
        return add, start, part

    def collect(self, part, learned):
        self.collected += 1
        return [(part, learned)]

    def finish(self):
        return [("end", self.total)]


class Reluctant:
    """An executor whose tasks are never done before their result is needed."""

    def submit(self, function, *arguments):
        class Later(Future):
            def result(self):
                self.set_result(function(*arguments))
                return super().result()

        return Later()


EXPECTED = [(n, n * (n - 1) + n) for n in range(40)] + [("end", 40 * 39)]


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order(workers):
    with ThreadPoolExecutor(workers) as pool:
        assert list(RunningSums(pool, range(40)).run()) == EXPECTED


def test_the_number_of_partitions_in_flight_is_bounded():
    run = RunningSums(Reluctant(), range(40), most=6)
    assert list(run.run()) == EXPECTED
    assert 6 <= run.largest <= 7  # the bound, and the one that is submitted next


def test_a_partition_behind_the_end_is_dropped():
    with ThreadPoolExecutor(2) as pool:
        assert list(RunningSums(pool, [0, 1, -1, -1]).run()) == [(0, 0), (1, 1), ("end", 2)]


def test_a_pass_that_fails_leaves_no_task_running():
    begun, free, ended = Event(), Event(), []

    def slow():
        begun.set()
        free.wait(30)
        ended.append("slow")

    class Fails(RunningSums):
        def partitions(self):
            self.tasks.submit(slow)
            self.tasks.submit(ended.append, "never")
            begun.wait(30)
            free.set()
            yield 0
            raise ValueError("no more rows")

    with ThreadPoolExecutor(1) as pool:
        run = Fails(pool, [])
        run.sum_task = lambda part: (ended.append, "sums")
        with pytest.raises(ValueError, match="no more rows"):
            list(run.run())
        assert ended[0] == "slow"
        left = list(ended)
    assert left == ended  # whatever had not begun was cancelled, the rest was waited for
