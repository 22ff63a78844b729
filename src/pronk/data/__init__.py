"""Read files and frames as rows, prepare and scale their columns, generate streams."""

from pronk.data.errors import StreamError
from pronk.data.generated import drifting
from pronk.data.pending import Pending
from pronk.data.prepared import Prepared
from pronk.data.scaling import MinMax, Robust, Standard, make_scaler
from pronk.data.schema import Preparing, Reading
from pronk.data.stream import FileStream

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
