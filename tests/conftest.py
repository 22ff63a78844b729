"""Settings of all tests.

Hypothesis draws the same examples in every run. SIGINT has Python's own handler, which tests that
send the signal need: a suite that is started with SIGINT ignored (nohup, some CI runners) passes
that on to the processes that it starts.

`make test` leaves out tests marked `slow` (some seconds) or `matrix` (further parameters of other
tests); `make testall` and `.ci/run` run them. Tests are marked `matrix` by hand, or by
`pytest.mark.thinned` on a test whose parameters form a product. Of three parameters or more, every
pair of values of the two with most values remains; of two, every value.
"""

import os
import signal
import threading
from collections import defaultdict
from itertools import product
from math import prod

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def remaining(sizes):
    """Return the combinations of a `thinned` test that remain, by numbers of values.

    The two parameters with most values are free, of two parameters the first one. With their
    numbers i and j (else 0), a further one of s values has (i // r + j) % s, r the product of the
    further sizes before it. So it has every value, since j (else i) has at least s.
    """
    order = sorted(range(len(sizes)), key=lambda axis: -sizes[axis])
    free = 1 if len(sizes) == 2 else 2
    found = set()
    for base in product(*(range(sizes[axis]) for axis in order[:free])):
        numbers, radix = dict(zip(order, base, strict=False)), 1
        for axis in order[free:]:
            numbers[axis] = (base[0] // radix + sum(base[1:])) % sizes[axis]
            radix *= sizes[axis]
        found.add(tuple(numbers[axis] for axis in range(len(sizes))))
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    variants = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thinned"):
            variants[item.nodeid.split("[")[0]].append(item)
    for same in variants.values():
        sizes = [len(mark.args[1]) for mark in same[0].iter_markers("parametrize")]
        of_fixtures, rest = divmod(len(same), prod(sizes))
        if rest:
            continue  # some were chosen by name
        sizes = [of_fixtures, *sizes] if of_fixtures > 1 else sizes
        kept = remaining(sizes)
        assert all(len({numbers[axis] for numbers in kept}) == n for axis, n in enumerate(sizes))
        for item, numbers in zip(same, product(*map(range, sizes)), strict=True):
            if numbers not in kept:
                item.add_marker(pytest.mark.matrix)


#: Modules of the optional extras; `make bare` skips what fails because one of them is missing.
EXTRAS = (
    "adbc_driver_manager", "adbc_driver_sqlite", "duckdb", "httptools",
    "matplotlib", "mlflow", "msgspec", "pandas", "polars", "pooch", "prometheus_client", "river",
    "uvicorn",
)  # fmt: skip


def _missing(error):
    """Return the extra whose import failed, looking through the causes of an error."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in EXTRAS:
            return error.name
        error = error.__cause__ or error.__context__
    return None


def _skip_if_missing(report, place, excinfo):
    name = report.failed and excinfo and _missing(excinfo.value)
    if name:
        report.outcome, report.longrepr = "skipped", (str(place), 0, f"Skipped: needs {name}")
    return report


if os.environ.get("PRONK_TEST_BARE") == "1":

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(collector):
        report = yield
        return _skip_if_missing(
            report, collector.path, getattr(report, "call", None) and report.call.excinfo
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item, call):
        report = yield
        return _skip_if_missing(report, item.path, call.excinfo)


if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # make coverage
    from tools import plain

    plain.install()
    pytest_runtest_call = plain.pytest_runtest_call
