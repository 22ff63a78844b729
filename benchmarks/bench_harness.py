"""Measure the overhead of `progressive` against a plain loop over the same blocks.

    python benchmarks/bench_harness.py

The learner takes about 5 us per row (PKAWV on 100 Nystrom points, history projected). There are two
figures: the median ratio of CPU times of two learners that run in turns block by block, one of them
in the harness; and the time of the harness around a model that only returns recorded predictions,
as a share of the learner's time, which is less noisy.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import measure  # one thread, before NumPy
import pronk
from pronk.evaluate import progressive

ROWS, COLUMNS, POINTS, TURNS = 100_000, 10, 100, 9
TARGET = "< 2 %"


def learner(X: Any) -> Any:
    return pronk.make(
        "pkawv-nystrom", dictionary=X[:POINTS], history="projected", kernel=pronk.Gaussian(2.0)
    )


def blocks(X: Any, y: Any, size: int) -> list[Any]:
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


def consume(model: Any, stream: Iterable[Any], **options: Any) -> None:
    for _ in progressive(model, stream, **options):
        pass


class Recorded:
    """A model that returns recorded predictions, block by block."""

    def __init__(self, X: Any, stream: list[Any]) -> None:
        self.model = learner(X)
        self.predictions = [self.model.predict_then_learn(*block) for block in stream]
        self.size_ = self.model.size_
        self.block = -1

    def predict_then_learn(self, X: Any, y: Any) -> Any:
        self.block = (self.block + 1) % len(self.predictions)
        return self.predictions[self.block]


def in_turns(X: Any, stream: list[Any], **options: Any) -> tuple[float, float]:
    """Return CPU seconds of a learner alone and of another one in the harness, by block."""
    spent = {"alone": 0.0, "harness": 0.0}
    last: list[Any] = [time.process_time(), "harness"]

    def turn(to: str) -> None:
        now = time.process_time()
        spent[last[1]] += now - last[0]
        last[:] = [time.process_time(), to]

    def both() -> Iterator[Any]:
        twin = learner(X)
        for block in stream:
            turn("alone")
            twin.predict_then_learn(*block)
            turn("harness")
            yield block

    consume(learner(X), both(), **options)
    turn("")
    return spent["alone"], spent["harness"]


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=ROWS)
    cases: list[tuple[str, int, dict[str, Any]]] = [
        ("blocks of 4096", 4096, {}),
        ("blocks of 4096, a record every 1000 rows", 4096, {"every": 1000}),
        ("the same, without memory", 4096, {"every": 1000, "memory": False}),
        ("blocks of 4096, a bar", 4096, {"progress": "always"}),
        ("blocks of 256", 256, {}),
        ("blocks of 32", 32, {}),
    ]
    consume(learner(X), blocks(X[:5000], y[:5000], 4096), every=1000, progress="always")
    for name, size, options in cases:
        stream = blocks(X, y, size)
        turns = [in_turns(X, stream, **options) for _ in range(TURNS)]
        alone, ratio = min(t[0] for t in turns), median(t[1] / t[0] for t in turns)
        own = measure.seconds(partial(consume, Recorded(X, stream), stream, **options), TURNS)
        measure.report(f"{name}: learner alone", 1e6 * alone / ROWS, "us per row", "about 5")
        target = "-" if size < 4096 or options else TARGET
        measure.report("  progressive adds, in turns", 100 * (ratio - 1), "%", target)
        measure.report("  progressive by itself", 100 * own / alone, "%", target)


if __name__ == "__main__":
    main()
