"""Generate streams in blocks: the same rows for the same seed, in blocks of any size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
