"""Rows as they come: blocks from files, generated streams, scaling on the way."""

from pronk.streams.errors import StreamError
from pronk.streams.files import FileStream
from pronk.streams.generators import drifting
from pronk.streams.pending import Pending
from pronk.streams.prepared import Prepared
from pronk.streams.reading import Preparing, Reading
from pronk.streams.scaling import MinMax, Robust, Standard, make_scaler

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
