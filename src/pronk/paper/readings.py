"""KORS as other programs compute it: how the dictionary's size depends on weights and bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np

from pronk.paper.data import load
from pronk.paper.jobs import Job
from pronk.paper.work import Array, chosen_rows
from pronk.parts.kernels import Gaussian


def dictionary(job: Job) -> dict[str, Any]:
    """Points that KORS accepts with gamma = beta = 1, epsilon = 0.5 and weights p^-power.

    power = 1/2 is the definition (weights on both sides of the kernel matrix); public programs have
    power = 1. With the rows' coordinates w in the dictionary's span and rho = k(x, x) - |w|^2,

        tau = 3/2 rho/(rho + 1);   accept where u < min(tau, 1)
    """
    X, _ = load(job.data())
    rows = chosen_rows(job, len(X))
    bandwidth, power = job.settings["bandwidth"], job.settings["power"]
    uniforms = np.random.default_rng([job.seed, 0]).random(len(rows))
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
