"""KORS as other programs compute it: how the dictionary's size depends on weights and bandwidth."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

from pronk.estimators.algorithms import pros_n_kons
from pronk.paper import work
from pronk.paper.data import load
from pronk.paper.jobs import Job
from pronk.paper.work import Array, chosen_rows
from pronk.parts.dictionaries import KORS
from pronk.parts.kernels import Gaussian
from pronk.parts.randomness import KORS_COINS, generator

#: Bandwidth and beta with which KORS as in public code, weights 1/p, keeps about as many points as
#: PROS-N-KONS (2017) prints.
PUBLIC = {
    "KORS with 1/p, exp(-r²/32)": (4.0, 1.0),
    "KORS with 1/p, exp(-r²/64), β=2": (8.0 / np.sqrt(2.0), 2.0),
}


class PublicKORS(KORS):
    """KORS with weights 1/p instead of 1/sqrt(p) on each side of the kernel matrix."""

    def enter(
        self, x: Array, w: Array, diagonal: float, scale: float, column: Array, W: Array
    ) -> Array:
        return super().enter(x, w, diagonal, scale * scale, column, W)


def online(job: Job) -> dict[str, Any]:
    """As `work.online`, for a learner that samples with `PublicKORS`."""
    with patch.object(pros_n_kons, "KORS", PublicKORS):
        return work.online(job)


def dictionary(job: Job) -> dict[str, Any]:
    """Points that KORS accepts with gamma = beta = 1, epsilon = 0.5 and weights p^-power.

    power = 1/2 is the definition (weights on both sides of the kernel matrix); public programs have
    power = 1. With the rows' coordinates w in the dictionary's span and rho = k(x, x) - |w|^2,

        tau = 3/2 rho/(rho + 1);   accept where u < min(tau, 1)
    """
    X, _ = load(job.data())
    rows = chosen_rows(job, len(X))
    bandwidth, power = job.settings["bandwidth"], job.settings["power"]
    uniforms = generator(job.seed, KORS_COINS).random(len(rows))
    return {"size": _size(X[rows], Gaussian(bandwidth), power, uniforms)}


def _size(X: Array, kernel: Gaussian, power: float, uniforms: Array) -> int:
    W, rho = np.zeros((len(X), 0)), kernel.diagonal(X).copy()
    points, start = 0, 0
    while True:
        kept = np.maximum(rho[start:], 0.0)
        p = np.minimum(1.5 * kept / (kept + 1.0), 1.0)
        hits = np.flatnonzero(uniforms[start:] < p)
        if not hits.size:
            return points
        i = start + int(hits[0])
        scale = float(p[hits[0]]) ** -power
        w = scale * W[i]
        pivot = np.sqrt(scale * scale + 1.0 - w @ w)
        column = np.zeros(len(X))
        column[i:] = (scale * kernel(X[i:], X[i : i + 1])[:, 0] - W[i:] @ w) / pivot
        W, rho = np.column_stack([W, column]), rho - column * column
        points, start = points + 1, i + 1
