"""Settings of all tests.

Hypothesis draws the same examples in every run. SIGINT has Python's own handler, which tests that
send the signal need: a suite that is started with SIGINT ignored (nohup, some CI runners) passes
that on to the processes that it starts.

Tests marked `matrix` repeat others with further parameters: `make test` leaves them out, `make
testall` and `.ci/run` run them. They are marked by hand, or by `pytest.mark.thinned` on a test
whose parameters form a product. Of three parameters or more, every pair of values of the first two
(by number of values) remains; of two, every value.
"""

import os
import signal
import threading
from collections import defaultdict

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def thinned_out(combinations):
    """Yield for each combination of parameter values, given by their numbers, if it is left out."""
    axes = {tuple(axis) for axis in zip(*combinations, strict=True)}  # one per parametrize
    axes = sorted(axes, key=lambda axis: (-max(axis), axis))
    free = 1 if len(axes) == 2 else 2
    for numbers in zip(*axes, strict=True):
        yield any(
            numbers[k] != sum(numbers[:k]) % (max(axes[k]) + 1) for k in range(free, len(axes))
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    variants = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thinned"):
            variants[item.nodeid.split("[")[0]].append(item)
    for same in variants.values():
        names = sorted(same[0].callspec.indices)
        combinations = [[item.callspec.indices[name] for name in names] for item in same]
        for item, left_out in zip(same, thinned_out(combinations), strict=True):
            if left_out:
                item.add_marker(pytest.mark.matrix)


if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # make coverage
    from tools import plain

    plain.install()
    pytest_runtest_call = plain.pytest_runtest_call
