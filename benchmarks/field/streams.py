"""Data of the benchmark on whole streams: which sets, in which order, and where they are compared.

Two groups, all read from PRONK_DATA. `SETS` are the files of the folder itself; elec2, bike_hour
and flights2001 come in the order of time, the others are shuffled as in `field.sets`, by
``numpy.random.default_rng(0)``. `STREAMS` are the files of its folder `streams`: real data in the
order of time, on which nothing was chosen.

All learners read the same columns of numbers. Categories are integer codes, because one-hot columns
of some streams are thousands; `CATEGORIES` names these columns for a learner that treats codes as
categories by itself.
"""

from __future__ import annotations

import numpy as np

from field import sets
from field.sets import CHOOSE_ON, Data

#: In the order of the tables. The number of rows on which the learners are compared; None is all.
SETS: dict[str, int | None] = {
    "covtype": 100_000, "casp": None, "ijcnn1": None, "cadata": None, "bike_hour": None,
    "elec2": None, "letter": None, "cod-rna": 200_000, "susy_30k": None, "flights2001": 100_000,
    "powerplant": None, "cpusmall": None, "parkinson": None, "w8a": None,
}  # fmt: skip
STREAMS = (
    "airlines", "bank_marketing", "employment_ma", "kdd99_10pct", "metro_traffic", "nab_nyc_taxi",
    "obd_click", "occupancy", "outdoor", "pjme_load", "pm25_beijing", "powersupply", "steel_energy",
    "weather_aus",
)  # fmt: skip
#: Rows of `STREAMS` on which the learners are compared.
STREAM_ROWS = 20_000
#: Rows of flights2001 that are read; its file has 3,000,000.
FLIGHTS = 200_000
#: Error is stored at these lengths, at the length of comparison and at the end.
LENGTHS = (1_000, 5_000, 20_000, 100_000)

NUMBERS = ("metro_traffic", "nab_nyc_taxi", "pjme_load", "pm25_beijing", "steel_energy")
IN_ORDER = ("elec2", "bike_hour", "flights2001", *STREAMS)
#: Columns of integer codes.
CATEGORIES: dict[str, tuple[int, ...]] = {
    "airlines": (0, 1, 2, 3, 4),
    "bank_marketing": (1, 2, 3, 4, 5, 6, 7, 8, 9, 13),
    "employment_ma": tuple(range(1, 16)),
    "flights2001": (5, 6),
    "kdd99_10pct": (1, 2, 3),
    "metro_traffic": (0, 1, 2),
    "obd_click": tuple(range(10)),
    "pm25_beijing": (6,),
    "steel_energy": (5, 6, 7),
    "weather_aus": (16, 17, 18, 19),
}
NAMES = (*SETS, *STREAMS)

__all__ = ["CHOOSE_ON", "NAMES", "compared", "has_labels", "lengths", "read"]


def has_labels(name: str) -> bool:
    return name in sets.LABELS or (name in STREAMS and name not in NUMBERS)


def read(name: str) -> Data:
    """A whole set: labels 0, 1, .., numbers scaled to [0, 1], rows in the order of the benchmark.

    covtype has its seven classes here, and two in `field.sets`.
    """
    if name == "w8a":
        X, y = sets.libsvm(name)
    else:
        X, y = sets.columns(name, "streams" if name in STREAMS else ".")
    if name == "cod-rna":
        X, y = X[59_535:], y[59_535:]  # the file cod-rna.t
    if name == "flights2001":
        X, y = X[:FLIGHTS], y[:FLIGHTS]
    labels = has_labels(name)
    if labels:
        y = np.unique(y, return_inverse=True)[1]
    else:
        y = y.astype(np.float64)
        y = (y - y.min()) / (y.max() - y.min())
    if name not in IN_ORDER:
        order = np.random.default_rng(0).permutation(len(X))
        X, y = X[order], y[order]
    return Data(np.ascontiguousarray(X), y, labels)


def compared(name: str, total: int) -> int:
    """Rows on which the learners are compared, of a set of ``total`` rows."""
    return min(total, STREAM_ROWS if name in STREAMS else SETS[name] or total)


def lengths(name: str, total: int, rows: int) -> list[int]:
    """Where the error of a run over ``rows`` rows of a set of ``total`` rows is stored."""
    return sorted({n for n in (*LENGTHS, compared(name, total)) if n < rows} | {rows})
