"""Where rows come from: Arrow record batches from one kind of input each, in bounded memory.

`open_source` picks the source for a file; each kind of source has a module of its own.
"""

from pronk.streams.sources.base import FileSource
from pronk.streams.sources.opening import files_in_order, open_source, reads_once
from pronk.streams.sources.origins import Origins

__all__ = ["FileSource", "Origins", "files_in_order", "open_source", "reads_once"]
