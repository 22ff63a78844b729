"""The first 10,000 rows of the field's sets, with the strongest batch learners.

They are trained on all rows so far after `AT` rows (`field.retrained`) and know the categories.
The default learner reads blocks of 1,000 rows, in which categories are columns of zeros and ones;
it and the peers (`field.peers`) learn every row after they predict it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from field import passes, peers, retrained, sets
from field.retrained import Retrained
from field.sets import Data

ROWS = 10_000
#: After how many rows batch learners are trained; before the first, all predict the running mean.
AT = (500, 1_000, 2_000, 4_000, 7_000)
#: Error and time are stored at these lengths and at the end.
LENGTHS = (500, 1_000, 2_000, 5_000, 10_000)
#: Past targets that a learner with `-lags` sees.
LAGS = 3
LIBRARIES = {
    "lightgbm": "LightGBM", "xgboost": "XGBoost", "hgb": "HistGB", "catboost": "CatBoost",
    "xrfm": "xRFM", "realmlp": "RealMLP",
}  # fmt: skip
#: Those that read past targets too, on sets in the order of time.
LAGGED = {"lightgbm-lags": "LightGBM, lags", "catboost-lags": "CatBoost, lags"}
ONLINE = ("last", "linear", "knn", "amf")
NAMES = {"pronk": "pronk", **LIBRARIES, **LAGGED, **{p: peers.NAMES[p] for p in ONLINE}}
OTHERS = tuple(NAMES)[1:]


def fits(learner: str, name: str) -> bool:
    """Whether a learner is for a set: lags are for sets in the order of time."""
    return learner not in LAGGED or name in sets.STREAMS


def predictions(learner: str, data: Data) -> Iterator[np.ndarray]:
    """Predictions of the rows in order, some rows at a time."""
    if learner == "pronk":
        return passes.by_blocks(Data(data.wide, data.y, data.labels))
    if learner in ONLINE:
        return passes.by_rows(learner, data)
    library, _, lags = learner.partition("-")
    model = Retrained(library, lags=LAGS if lags else 0, categories=True, at=AT)
    return model.predictions(data, data.categories)


def version(learner: str) -> str:
    """The version of the library; the default learner carries its mark instead."""
    library = learner.partition("-")[0]
    return retrained.version(library) if library in LIBRARIES else passes.version(learner)


def run(name: str, learner: str, longest: float) -> dict[str, Any]:
    """One pass over the first rows; it stops at the first training that ends after ``longest``."""
    data = sets.read(name, 0, ROWS)
    made = version(learner)  # for the default learner, this also loads its compiled code
    n = len(data.y)
    lengths = [*(length for length in LENGTHS if length < n), n]
    return {
        "version": made, "total": n, "variance": float(data.y.var()),
        **passes.measured(predictions(learner, data), data, lengths, longest),
    }  # fmt: skip
