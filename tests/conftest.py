"""For all tests: hypothesis draws the same examples in every run, and Ctrl-C is Python's own.

A suite that is started with SIGINT ignored (nohup, some CI runners) passes that on to itself and to
the processes that it starts; tests that send the signal need the usual handler.
"""

import os
import signal
import threading

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # make coverage
    from tools import plain

    plain.install()
    pytest_runtest_call = plain.pytest_runtest_call
