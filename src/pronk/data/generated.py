"""Generate a stream in blocks, and the file of `pronk demo`; the same rows for the same seed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from pronk.core.arrays import Array


def drifting(
    n_rows: int = 200_000,
    seed: int = 0,
    *,
    columns: int = 4,
    waves: int = 12,
    jumps: int = 3,
    noise: float = 0.1,
    block: int = 4096,
) -> Iterator[tuple[Array, Array]]:
    """Generate a regression stream that drifts and jumps, as blocks (X, y).

    With s = t / n_rows running from 0 to 1,

        y_t = sqrt(2 / waves) sum_k a_k cos(w_k'x_t + b_k + r_k s) + noise * normal
        x_t = 0.7 uniform + 0.3 (cos, sin, ..)(2 pi s)                    in [-1, 1]

    so that the phases of the waves and the inputs drift slowly; at ``jumps`` evenly spaced moments
    a quarter of the amplitudes a_k change by 0.7.

    >>> from pronk.data import drifting
    >>> blocks = list(drifting(10_000, seed=0))
    >>> print([len(y) for X, y in blocks], round(float(blocks[0][1].std()), 2))
    [4096, 4096, 1808] 0.93
    """
    if n_rows < 1 or block < 1:
        raise ValueError(f"n_rows and block must be at least 1, got {n_rows} and {block}")
    # Random streams that no learner uses: a learner with the same seed must not share them.
    shape, inputs, noises = (np.random.default_rng([seed, i]) for i in (101, 102, 103))
    W = shape.standard_normal((columns, waves)) * 1.5
    phases = shape.uniform(0, 2 * np.pi, waves)
    rates = shape.uniform(-1, 1, waves)
    amplitudes = np.empty((jumps + 1, waves))
    amplitudes[0] = shape.standard_normal(waves)
    for i in range(1, jumps + 1):
        chosen = shape.permutation(waves) < waves / 4
        amplitudes[i] = amplitudes[i - 1] + chosen * shape.choice([-0.7, 0.7], waves)
    amplitudes *= np.sqrt(2 / waves)
    turns = np.arange(columns) * np.pi / 2
    for start in range(0, n_rows, block):
        rows = np.arange(start, min(start + block, n_rows))
        s = rows[:, None] / n_rows
        X = 0.7 * inputs.uniform(-1, 1, (len(rows), columns)) + 0.3 * np.cos(2 * np.pi * s - turns)
        A = amplitudes[(rows * (jumps + 1)) // n_rows]
        y = (A * np.cos(X @ W + phases + rates * s)).sum(axis=1)
        yield X, y + noise * noises.standard_normal(len(rows))


_STATIONS = ("harbour", "museum", "park", "station", "university")
#: The share of the rows after which the price is halved, and the share of temperatures missing.
_CHANGE, _GAPS = 0.6, 0.02


def write_rentals(path: Path, rows: int, seed: int) -> None:
    """Write a CSV file of hourly rentals of bicycles at five stations; the target is "rentals".

    It has what real files have: a time, a category, numbers with missing values, and a target whose
    dependence on them changes along the stream.
    """
    rng = np.random.default_rng(seed)
    hours = np.arange(rows) // len(_STATIONS)
    place = np.arange(rows) % len(_STATIONS)
    hour, weekend = hours % 24, (hours // 24) % 7 >= 5
    season = np.sin(2 * np.pi * hours / (24 * 60))
    temperature = 12 + 8 * season + 4 * np.sin(2 * np.pi * (hour - 9) / 24)
    temperature += rng.normal(0, 1.5, rows)
    rain = rng.random(rows) < 0.15
    peak = np.exp(-0.5 * ((hour - 8) / 1.5) ** 2) + np.exp(-0.5 * ((hour - 17) / 2.0) ** 2)
    leisure = np.exp(-0.5 * ((hour - 14) / 4.0) ** 2)
    commuters = np.array([0.4, 0.3, 0.2, 1.0, 0.8])[place]
    mean = 4 + 30 * np.where(weekend, 0.6 * leisure, commuters * peak + 0.3 * leisure)
    mean *= np.exp(-(((temperature - 21) / 14) ** 2)) * np.where(rain, 0.5, 1.0)
    mean *= np.where(np.arange(rows) >= _CHANGE * rows, 2.0, 1.0)
    rentals = rng.poisson(mean)
    unknown = rng.random(rows) < _GAPS
    start = datetime(2025, 3, 1)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time", "place", "temperature", "rain", "rentals"])
        for i in range(rows):
            when = start + timedelta(hours=int(hours[i]))
            degrees = "" if unknown[i] else f"{temperature[i]:.1f}"
            wet = "yes" if rain[i] else "no"
            writer.writerow([when.isoformat(), _STATIONS[place[i]], degrees, wet, rentals[i]])
