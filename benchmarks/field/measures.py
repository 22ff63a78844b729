"""Measures of one pass: error, log loss, calibration, coverage, the first rows, time per row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import pronk
from field.sets import Data

#: Probabilities are no less than this where their logarithm is taken.
LEAST = 1e-4
#: Rows of a cold start; of a window of coverage; first rows that coverage leaves out.
FIRST, WINDOW, EARLY = 500, 200, 500
BLOCK = 1024


def calibration_error(P: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """Mean distance of the largest probability from how often it was right, by bins of it."""
    place = np.minimum((P * bins).astype(int), bins - 1)
    return float(
        sum(
            abs(P[place == k].mean() - right[place == k].mean()) * np.mean(place == k)
            for k in np.unique(place)
        )
    )


def of_labels(wrong: np.ndarray, sure: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Errors, the probability of the predicted label and that of the one that came."""
    return {
        "loss": 100 * float(wrong.mean()),
        "first": 100 * float(wrong[:FIRST].mean()),
        "log loss": float(-np.log(np.maximum(truth, LEAST)).mean()),
        "calibration": 100 * calibration_error(sure, 1.0 - wrong),
    }


def of_numbers(P: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Mean squared errors, over the variance of y too."""
    squares = (P - y) ** 2
    return {
        "loss": float(squares.mean()),
        "first": float(squares[:FIRST].mean()),
        "share": float(squares.mean() / y.var()),
        "absolute": float(np.sqrt(squares).mean()),
    }


def of_intervals(P: np.ndarray, covered: np.ndarray) -> dict[str, Any]:
    """Coverage in all, by quintile of the prediction, and of the worst window, early rows apart."""
    late = slice(EARLY, None) if len(P) > 2 * EARLY else slice(None)
    cut = np.quantile(P[late], [0.2, 0.4, 0.6, 0.8])
    place = np.searchsorted(cut, P[late])
    window = np.convolve(covered[late], np.full(WINDOW, 1 / WINDOW), "valid")
    return {
        "coverage": float(covered.mean()),
        "quintiles": [float(covered[late][place == k].mean()) for k in np.unique(place)],
        "window": float(window.min()),
    }


def of_default(data: Data, seed: int = 0, **parameters: Any) -> dict[str, Any]:
    """One pass of the default learner in blocks."""
    kind = pronk.OnlineKernelClassifier if data.labels else pronk.OnlineKernelRegressor
    learner = kind(random_state=seed, **parameters)
    return {**of_learner(learner, data), "points": learner.size_, "leader": learner.experts_[0]}


def of_learner(learner: Any, data: Data) -> dict[str, Any]:
    """One pass of a learner of ours, with intervals or probabilities."""
    X, y, classes = data.wide, data.y, np.unique(data.y)
    found: list[Any] = []
    start = time.process_time()
    for i in range(0, len(X), BLOCK):
        rows, target = X[i : i + BLOCK], y[i : i + BLOCK]
        if not data.labels:
            found.append(learner.predict_then_learn(rows, target, interval=0.9))
            continue
        if not i:
            learner.partial_fit(rows[:1], target[:1], classes=classes)
            P = np.full((1, len(classes)), 1 / len(classes))
            rows, target = rows[1:], target[1:]
            found.append((classes[:1], P))
        found.append(learner.predict_then_learn(rows, target, output="both"))
    seconds = time.process_time() - start
    P, more = (np.concatenate(part) for part in zip(*found, strict=True))
    timed = {"rows": len(X), "microseconds": 1e6 * seconds / len(X)}
    if data.labels:
        truth = more[np.arange(len(y)), np.searchsorted(classes, y)]
        return {**of_labels((y != P).astype(float), more.max(axis=1), truth), **timed}
    covered = (more[:, 0] <= y) & (y <= more[:, 1])
    return {**of_numbers(P, y), **of_intervals(P, covered), **timed}


def of_peer(walk: Iterator[Any], data: Data, longest: float = 600.0) -> dict[str, Any]:
    """One pass of a peer; it is stopped after ``longest`` seconds of its own."""
    n = len(data.y)
    P, truth, wrong = np.zeros(n), np.zeros(n), np.zeros(n)
    start = time.process_time()
    for t, (found, target) in enumerate(zip(walk, data.y.tolist(), strict=True)):
        if time.process_time() - start > longest:
            return {"rows": n, "stopped": t, "longest": longest}
        if not data.labels:
            P[t] = found
            continue
        label = max(found, key=found.get) if found else None
        wrong[t] = label != target
        P[t] = found[label] if found else 0.0
        truth[t] = found.get(target, 0.0)
    seconds = time.process_time() - start
    timed = {"rows": n, "microseconds": 1e6 * seconds / n}
    if data.labels:
        return {**of_labels(wrong, np.clip(P, 0.0, 1.0), truth), **timed}
    with np.errstate(over="ignore"):
        return {**of_numbers(np.nan_to_num(P), data.y), **timed}


def mark() -> str:
    """How the default learner of this tree does on three small streams: another learner, another

    mark. Results that carry another mark than the tree's are those of an earlier learner.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4600, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=len(X))
    y[3000:] -= X[3000:, 2]
    regressor = pronk.OnlineKernelRegressor(budget=40, random_state=0)
    P, intervals = regressor.predict_then_learn(X, y, interval=0.9)
    slow = y + 2 * np.sin(np.arange(len(y)) / 6)
    lags = pronk.OnlineKernelRegressor(budget=20, random_state=0).predict_then_learn(X, slow)
    labels = np.digitize(y, [0.0, 0.8])
    classifier = pronk.OnlineKernelClassifier(budget=40, random_state=0)
    _, chances = classifier.predict_then_learn(X[:2200], labels[:2200], output="both")
    numbers = (
        np.mean((P - y) ** 2),
        np.nanmean(np.diff(intervals)),
        np.mean((lags - slow) ** 2),
        np.nanmean(chances[:, 0] ** 2),
    )
    return " ".join(f"{number:.6g}" for number in numbers)
