"""Ctrl-C held back for a moment: work that must not stop halfway ends first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[None]:
    """Let the block end before a KeyboardInterrupt; a second Ctrl-C does not wait.

    Only where Python's own handler is in place, and in the main thread, which gets the signals.
    """
    usual = signal.default_int_handler
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not usual
    ):
        yield
        return
    came: list[FrameType | None] = []

    def later(number: int, frame: FrameType | None) -> None:
        if came:
            usual(number, frame)
        came.append(frame)

    signal.signal(signal.SIGINT, later)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if came:
        raise KeyboardInterrupt
