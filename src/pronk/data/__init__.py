"""Read files and frames as rows, prepare and scale their columns, generate streams.

A name is imported when it is first used, so that an error of the command line loads no reader.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from pronk.columns.scaling import MinMax, Robust, Standard, make_scaler
    from pronk.data.errors import StreamError
    from pronk.data.generated import drifting
    from pronk.data.pending import Pending
    from pronk.data.schema import Preparing, Reading
    from pronk.data.stream import FileStream
    from pronk.estimators.prepared import Prepared

__all__ = [
    "FileStream",
    "MinMax",
    "Pending",
    "Prepared",
    "Preparing",
    "Reading",
    "Robust",
    "Standard",
    "StreamError",
    "drifting",
    "make_scaler",
]

_HOMES = {
    "pronk.columns.scaling": ("MinMax", "Robust", "Standard", "make_scaler"),
    "pronk.data.errors": ("StreamError",),
    "pronk.data.generated": ("drifting",),
    "pronk.data.pending": ("Pending",),
    "pronk.data.schema": ("Preparing", "Reading"),
    "pronk.data.stream": ("FileStream",),
    "pronk.estimators.prepared": ("Prepared",),
}


def __getattr__(name: str) -> _Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(_import_module(home), name)
            return value
    raise AttributeError(f"module 'pronk.data' has no attribute {name!r}")
