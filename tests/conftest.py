"""For all tests: hypothesis draws the same examples in every run."""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # make coverage
    from tools import plain

    plain.install()
    pytest_runtest_call = plain.pytest_runtest_call
