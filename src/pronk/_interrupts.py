"""Ctrl-C where an exception would do harm: it is raised a little later.

Python raises KeyboardInterrupt between any two steps of the main thread. Modules that are half
imported stay broken for the rest of the process, and so does Numba in the middle of compiling or
loading a function; LLVM may even crash. This module imports nothing that is slow to import.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupts(patient: bool = False) -> Iterator[None]:
    """Handle Ctrl-C only at the end of the block; a second one at once, unless ``patient``.

    Works in the main thread, which gets the signals, with every handler that is written in Python.
    Blocks may be nested. A block that raises and was interrupted raises KeyboardInterrupt.
    """
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual) or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    waits = patient

    def later(number: int, frame: FrameType | None) -> None:
        if received and not waits:
            usual(number, frame)
        else:
            received.append(number)

    signal.signal(signal.SIGINT, later)
    try:
        yield
    finally:
        waits = True  # until the usual handler is back
        if signal.getsignal(signal.SIGINT) is later:  # a handler may have chosen another one
            signal.signal(signal.SIGINT, usual)
        for number in received:
            usual(number, None)
