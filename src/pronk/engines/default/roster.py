"""Which experts go on, and the table that tells of all of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.grid import EXPERT_WINDOWS, Setting
from pronk.engines.default.mixture import Mixture
from pronk.engines.default.views import NAMES as VIEWS

Array = NDArray[np.float64]


def best_settings(
    settings: list[Setting], awake: list[int], losses: Array, stable: int
) -> list[int]:
    """The best settings that do not forget, and the best of each window, by recent loss.

    The one of half the leader's bandwidth is among them: it gains most by more points. Three or
    more are not all of one view: what another view sees is worth more to the mixture.
    """
    digits = np.round(losses / max(losses.max(), 1e-300), 9)  # rounding decides no tie
    order = [awake[i] for i in np.argsort(digits, kind="stable")]
    ranked = [i for i in order if settings[i].window is None]
    chosen = ranked[:stable]
    leader = settings[chosen[0]]
    narrower = Setting(leader.factor / 2.0, leader.alpha, None, leader.view)
    if stable > 1 and narrower in [settings[i] for i in ranked[stable:]]:
        chosen[-1] = next(i for i in ranked if settings[i] == narrower)
    others = [i for i in ranked if settings[i].view != leader.view]
    if stable > 2 and others and not set(others) & set(chosen):
        chosen[-2] = others[0]
    for window in EXPERT_WINDOWS:
        chosen += [i for i in order if settings[i].window == window][:1]
    return chosen


def table_rows(
    settings: list[Setting], sizes: dict[int, int], units: dict[int, float]
) -> list[dict[str, Any]]:
    """A row a setting; ``sizes`` are the points of those awake, ``units`` those of the views."""
    rows = []
    for i, setting in enumerate(settings):
        row = {**asdict(setting), "view": VIEWS[setting.view], "points": sizes.get(i, 0)}
        rows.append({**row, "bandwidth": setting.factor * units[setting.view]})
    return rows


def with_weights(
    rows: list[dict[str, Any]], awake: list[int], guesses: tuple[str, ...], mixture: Mixture
) -> list[dict[str, Any]]:
    """The rows of settings and of guesses, the heaviest first; those that sleep last."""
    weights, coefficients = mixture.weights, mixture.coefficients
    places: list[int | None] = [
        awake.index(i) if i in awake else None for i in range(len(rows))
    ] + list(range(len(awake), len(awake) + len(guesses)))
    none = dict.fromkeys(("factor", "alpha", "window", "bandwidth"))
    rows = [*rows, *({**none, "view": name, "points": 0} for name in guesses)]
    listed = [
        {
            **row,
            "awake": place is not None,
            "weight": 0.0 if place is None else float(weights[place]),
            "coefficient": 0.0 if place is None else float(coefficients[place]),
        }
        for row, place in zip(rows, places, strict=True)
    ]
    return sorted(listed, key=lambda row: (-row["weight"], -row["awake"]))
