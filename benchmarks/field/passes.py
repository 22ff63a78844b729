"""One pass of a learner over a stream: its error by length, time per row and memory.

Learners, by name:

    pronk                         the default learner without a parameter, in blocks of 1,000 rows
    lightgbm-5000, xgboost-5000, hgb-5000
                                  `field.retrained`, trained every 5,000 rows on all rows so far;
                                  any other number of rows in place of 5000
    ..-w5000, ..-lags, ..-cat     the same on the last 5,000 rows; with the last 3 targets as
                                  columns; with codes declared as categories (lightgbm)
    arf, amf, linear, knn, ..     `field.peers`, row by row
    last, mean                    the last target or label; the mean of the targets, or the most
                                  frequent label, of the rows before
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import numpy as np

from field import measures, peers, retrained, streams
from field.retrained import Retrained
from field.sets import Data

#: Rows of a block of the default learner; all lengths of `field.streams` but the end are multiples.
BLOCK = 1_000
#: Past targets that a learner with `-lags` sees.
LAGS = 3

LIBRARIES = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "hgb": "HistGradientBoosting"}
RIVER = ("linear", "hat", "amf", "arf")
#: These see standardised columns; runs whose version does not say so saw raw ones.
STANDARDISED = ("hat", "arf")


def parse(learner: str) -> Retrained | None:
    """The retrained learner of a name, or None; the name must be one that is listed above."""
    library, *parts = learner.split("-")
    if library not in LIBRARIES:
        if learner not in ("pronk", "mean", *peers.PEERS):
            raise ValueError(f"no learner {learner!r}; benchmarks/field/passes.py lists them")
        return None
    settings: dict[str, Any] = {"every": int(parts[0])}
    for part in parts[1:]:
        if part == "lags":
            settings["lags"] = LAGS
        elif part == "cat" and library == "lightgbm":
            settings["categories"] = True
        elif part[0] == "w":
            settings["window"] = int(part[1:])
        else:
            raise ValueError(f"{learner!r}: {part!r} is none of wROWS, lags, cat")
    return Retrained(library, **settings)


def version(learner: str) -> str:
    """The version of the library, or the mark of the default learner (`measures.mark`)."""
    if learner == "pronk":
        return measures.mark()
    settings = parse(learner)
    if settings is not None:
        return retrained.version(settings.library)
    if learner in RIVER:
        columns = ", standardised columns" if learner in STANDARDISED else ""
        return f"river {version_of('river')}{columns}"
    if learner in peers.CAPYMOA:
        return f"capymoa {version_of('capymoa')}"
    return "1"


def fits(learner: str, name: str) -> bool:
    """Whether a learner is for a set: targets it can predict, lags in the order of time, codes."""
    settings = parse(learner)
    if settings is None:
        return peers.fits(learner, streams.has_labels(name))
    in_order = name in streams.IN_ORDER or not settings.lags
    return in_order and (name in streams.CATEGORIES or not settings.categories)


def predictions(learner: str, name: str, data: Data) -> Iterator[np.ndarray]:
    """Predictions of the rows in order, some rows at a time."""
    settings = parse(learner)
    if settings is not None:
        return settings.predictions(data, streams.CATEGORIES.get(name, ()))
    if learner == "pronk":
        return by_blocks(data)
    if learner == "mean":
        return iter([retrained.running(data.y, data.labels)])
    return by_rows(learner, data)


def by_blocks(data: Data) -> Iterator[np.ndarray]:
    """The default learner; it discovers the labels."""
    import pronk

    kind = pronk.OnlineKernelClassifier if data.labels else pronk.OnlineKernelRegressor
    learner = kind(random_state=0)
    for i in range(0, len(data.y), BLOCK):
        found = learner.predict_then_learn(data.X[i : i + BLOCK], data.y[i : i + BLOCK])
        yield np.array([0 if p is None else p for p in found.tolist()])


def by_rows(learner: str, data: Data) -> Iterator[np.ndarray]:
    """A peer; where it has no probabilities yet, the label is 0."""
    for found in peers.PEERS[learner](data):
        if data.labels:
            found = max(found, key=found.get) if found else 0
        yield np.array([found])


def run(name: str, learner: str, rows: int | None, longest: float) -> dict[str, Any]:
    """One pass over the first rows of a set, see `measured`."""
    data = streams.read(name)
    total, variance = len(data.y), float(data.y.var())
    made = version(learner)  # for the default learner, this also loads its compiled code
    data = data.first(rows or total)
    lengths = streams.lengths(name, total, len(data.y))
    return {
        "set": name, "learner": learner, "version": made, "total": total, "variance": variance,
        **measured(predictions(learner, name, data), data, lengths, longest),
    }  # fmt: skip


def measured(
    walk: Iterator[np.ndarray], data: Data, lengths: list[int], longest: float
) -> dict[str, Any]:
    """One pass of predictions; it is stopped after ``longest`` seconds of CPU time.

    Return the mean loss (0-1 or squared) of all rows and of the last quarter of them, and the time
    per row, at each length; the longest time between two predictions; the memory that the pass
    added, with that of compiled code and of libraries that the learner loads during the pass.
    """
    n = len(data.y)
    loss, clock, longest_step = np.zeros(n), np.zeros(n), 0.0
    done = 0
    gc.collect()
    before = memory(reset=True)
    start = last = time.process_time()
    with np.errstate(over="ignore"):
        for found in walk:
            now = time.process_time()
            stop = done + len(found)
            truth = data.y[done:stop]
            if data.labels:
                loss[done:stop] = found != truth
            else:
                loss[done:stop] = (np.nan_to_num(found) - truth) ** 2
            clock[done:stop] = now - start
            longest_step, last, done = max(longest_step, now - last), now, stop
            if now - start > longest and done < n:
                break
    after = memory()
    result: dict[str, Any] = {
        "rows": done, "labels": data.labels, "columns": data.X.shape[1],
        "longest step": longest_step,
        "megabytes": None if after is None or before is None else (after - before) / 2**20,
        "loss": {}, "last quarter": {}, "microseconds": {},
    }  # fmt: skip
    if done < n:
        result["stopped after"] = longest
    for length in lengths:
        if length <= done:
            result["loss"][str(length)] = float(loss[:length].mean())
            result["last quarter"][str(length)] = float(loss[length - length // 4 : length].mean())
            result["microseconds"][str(length)] = 1e6 * float(clock[length - 1]) / length
    return result


def missing(run: dict[str, Any] | None, rows: int | None, longest: float) -> bool:
    """Whether there is no such run, or it is shorter than asked for."""
    if run is None:
        return True
    if run["rows"] >= min(rows or run["total"], run["total"]):
        return False
    return run.get("stopped after", 0.0) < longest


def memory(reset: bool = False) -> float | None:
    """Peak of the resident memory in bytes, or its present value, from which a new peak begins.

    None where /proc does not tell (other systems than Linux).
    """
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    field = "VmRSS:" if reset else "VmHWM:"
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(field))
