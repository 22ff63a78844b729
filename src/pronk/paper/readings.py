"""KORS as other programs compute it: how the dictionary's size depends on weights and bandwidth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pronk.engines.newton.embedded import CHUNK
from pronk.paper import work
from pronk.paper.data import load
from pronk.paper.jobs import PaperJob
from pronk.paper.work import chosen_rows
from pronk.parts.dictionaries import Dictionary
from pronk.parts.kernels import Gaussian
from pronk.parts.rules import KORS

#: Bandwidth and beta with which KORS as in public code, weights 1/p, keeps about as many points as
#: PROS-N-KONS (2017) prints.
PUBLIC = {
    "KORS with 1/p, exp(-r²/32)": (4.0, 1.0),
    "KORS with 1/p, exp(-r²/64), β=2": (8.0 / np.sqrt(2.0), 2.0),
}


def online(job: PaperJob) -> dict[str, Any]:
    """As `work.online`, for a learner whose dictionary weighs points by 1/p."""
    params = dict(job.settings["params"])
    numbers = {name: params.pop(name) for name in ("gamma", "epsilon", "beta") if name in params}
    params["dictionary"] = KORS(**numbers, power=1.0)
    return work.online(replace(job, settings={**job.settings, "params": params}))


def dictionary(job: PaperJob) -> dict[str, Any]:
    """Points that KORS accepts with gamma = beta = 1, epsilon = 0.5 and weights p^-power.

    power = 1/2 is the definition (weights on both sides of the kernel matrix); public programs have
    power = 1.
    """
    X, _ = load(job.data())
    rows = chosen_rows(job, len(X))
    kernel = Gaussian(job.settings["bandwidth"])
    points = Dictionary(kernel, X.shape[1], KORS(power=job.settings["power"]), job.seed)
    for start in range(0, len(rows), CHUNK):
        block = np.ascontiguousarray(X[rows[start : start + CHUNK]])
        points.scan(block, kernel(block, points.points))
    return {"size": len(points.points)}
