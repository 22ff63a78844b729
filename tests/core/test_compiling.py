"""Compiled functions: one version for Python, parts for compiled callers."""

import gc
import signal
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import njit
from numba.core import event
from numba.core.caching import NullCache
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys
from numba.core.target_extension import cpu_target, jit_registry

from pronk.core import compiling
from pronk.core.compiling import PartLibrary, compiled


@compiled
def root(x, n):
    if n > 3:
        raise ValueError("n is larger than", 3)
    return np.sqrt(x) + n


@compiled
def twice(x, n):
    return 2.0 * root(x, n)


@compiled(fastmath={"contract"})
def both(x, n):
    return twice(x, n) + root(x, 1)


@njit
def of_others(x, n):
    return both(x, n) + 1.0


for function in (root, twice, both):
    function._cache = NullCache()  # compile in every run


def libraries(function):
    return [result.library for result in function.overloads.values()]


def test_python_calls_one_version_and_compiled_code_another():
    assert both(4.0, 2) == 2.0 * 4.0 + 3.0
    assert not twice.signatures  # Python has not called it
    (part,) = libraries(twice._part)
    assert isinstance(part, PartLibrary)
    assert twice(9.0, 1) == 8.0
    (whole,) = libraries(twice)
    assert not isinstance(whole, PartLibrary)
    assert whole.get_pointer_to_function(next(iter(twice.overloads.values())).fndesc.llvm_func_name)


def test_a_part_holds_its_own_code_only():
    both(4.0, 2)
    (part,) = libraries(twice._part)
    defined = [f.name for f in part._final_module.functions if not f.is_declaration]
    assert len(defined) == 1 and "twice" in defined[0]


def test_compiled_functions_of_others_may_call_them():
    assert of_others(4.0, 2) == 12.0


@pytest.mark.parametrize("function", [root, twice, both, of_others])
def test_an_error_in_a_part_reaches_python(function):
    with pytest.raises(ValueError, match="larger") as raised:
        function(4.0, 9)
    assert raised.value.args == ("n is larger than", 3)


def test_options_are_those_of_the_function_not_of_its_caller():
    both(4.0, 2)
    (result,) = twice._part.overloads.values()
    assert not result.fndesc.inline
    assert twice.targetoptions["fastmath"] is False
    assert "contract" not in str(result.library._final_module)


def test_garbage_is_collected_again_after_compiling():
    @compiled
    def once(x):
        return x + 1

    assert gc.isenabled()
    once(1)
    assert gc.isenabled()
    gc.disable()
    try:
        once(1.0)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_another_version_of_numba_compiles_by_itself(monkeypatch):
    assert compiling.is_tested(numba.__version__)
    assert compiling.is_tested("0.61.0") and not compiling.is_tested("0.60.2")
    assert not compiling.is_tested("1.0") and not compiling.is_tested("next")
    monkeypatch.setattr(numba, "__version__", "99.0.1")
    plain = compiled(fastmath={"contract"})(both.py_func)
    assert type(plain) is type(of_others)
    plain._cache = NullCache()
    assert plain(4.0, 2) == both(4.0, 2)


# -- translation -----------------------------------------------------------------------------------


class Pair(NamedTuple):
    matrix: np.ndarray
    vector: np.ndarray


@compiled
def first_of(pair):
    return pair.vector


@compiled
def row_of(pair, i):
    return pair.matrix[i]


@compiled
def largest(given):
    largest = given
    for i in range(len(given)):
        if given[i] > largest[0]:
            largest = given[i : i + 1]
    return largest


@compiled
def swapped(pair, times):
    for _ in range(times):
        pair = Pair(pair.matrix + 1.0, pair.matrix[0])
    return pair


@compiled
def parts_of_swapped(pair, times):
    made = swapped(pair, times)
    return made.matrix, made.vector


@compiled
def through(pair, i, times):
    matrix, vector = pair
    if i > 2:
        vector = vector.copy()
    made = swapped(pair, times)
    field = first_of(made)
    return row_of(made, i), field, largest(first_of(pair)), vector, matrix[1:, i]


@compiled
def elements(matrix, vector, columns, flags, i, k):
    for j in range(-3, 3):
        matrix[j, k] += vector[i] * matrix[i, j]
    for j in range(3, -3):
        matrix[j, k] = np.nan
    for j in range(5, 0, -2):
        vector[j % 3] -= j
    flags[i] = matrix[i, k] > 2
    columns[i, -1] = len(columns) + columns.size + columns.shape[1]
    total = 0
    for j in range(i):
        if j > 1:
            break
        total += j + 1
    return total


for function in (first_of, row_of, largest, swapped, parts_of_swapped, through, elements):
    function._cache = NullCache()


@njit
def through_of_others(matrix, vector, i, times):
    pair = Pair(matrix, vector)
    return through(pair, i, times)


def pair():
    return Pair(np.arange(12.0).reshape(4, 3), np.array([3.0, 5.0, 4.0]))


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize("i", [0, 2, -1])
def test_tuples_fields_and_views_are_those_of_python(i, times):
    names = first_of, row_of, largest, swapped
    usual = {function.py_func.__name__: function.py_func for function in names}
    wanted = eval_with(through.py_func, usual)(pair(), i, times)
    for found in (through(pair(), i, times), through_of_others(*pair(), i, times)):
        for own, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(own, want)


def eval_with(function, names):
    """Return a function whose global names are others."""
    return type(function)(function.__code__, {**function.__globals__, **names})


@pytest.mark.parametrize(("i", "k"), [(0, 0), (2, -1), (-1, 1)])
def test_elements_and_loops_are_those_of_python(i, k):
    def arrays():
        matrix = np.arange(9.0).reshape(3, 3)
        return matrix, np.ones(3), np.zeros((4, 3)).T[:, ::2], np.zeros(3, dtype=np.bool_)

    own, wanted = arrays(), arrays()
    assert elements(*own, i, k) == elements.py_func(*wanted, i, k)
    for one, want in zip(own, wanted, strict=True):
        np.testing.assert_array_equal(one, want)


@pytest.fixture
def counted_allocations():
    _nrt.memsys_enable_stats()
    yield
    _nrt.memsys_disable_stats()


def test_references_are_dropped_and_none_twice(counted_allocations):
    given = pair()
    through(given, 1, 2), through_of_others(*given, 1, 2), parts_of_swapped(given, 1)  # compiled
    gc.collect()
    before, counts = rtsys.get_allocation_stats(), [sys.getrefcount(part) for part in given]
    for times in range(3):
        found = through(given, 1, times)
        found += through_of_others(*given, 1, times)
        copies = [part.copy() for part in found]
        largest(given.vector), parts_of_swapped(given, times), first_of(given)
        for own, want in zip(found, copies, strict=True):
            np.testing.assert_array_equal(own, want)  # nothing that it views was freed
        del found, own
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    assert [sys.getrefcount(part) for part in given] == counts


def test_what_is_returned_outlives_the_arguments():
    given = pair()
    row, field = row_of(given, 1), first_of(given)
    del given
    gc.collect()
    np.testing.assert_array_equal(row, [3.0, 4.0, 5.0])
    np.testing.assert_array_equal(field, [3.0, 5.0, 4.0])


# -- Ctrl-C ----------------------------------------------------------------------------------------


@compiled
def tuple_of_pairs(pair):
    return 1.0, (pair, pair)


@compiled
def pair_or_none(pair, wanted):
    return pair if wanted else None


for function in (tuple_of_pairs, pair_or_none):
    function._cache = NullCache()


@pytest.mark.parametrize(
    ("function", "more"), [(swapped, (1,)), (tuple_of_pairs, ()), (pair_or_none, (True,))]
)
def test_no_function_that_python_calls_returns_a_named_tuple(function, more):
    """Numba calls its class in Python; if Ctrl-C raises there, the process crashes."""
    with pytest.raises(TypeError, match=r"returns .*Pair.* to Python; .* build other objects"):
        function(pair(), *more)
    assert not function.signatures


class Pressed(event.Listener):
    """Press Ctrl-C so many times when a function begins to compile."""

    def __init__(self, times):
        self.times = times

    def on_start(self, found):
        for _ in range(self.times):
            signal.raise_signal(signal.SIGINT)

    def on_end(self, found):
        self.on_start(found)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("version", [numba.__version__, "99.0.1"])
def test_an_interrupt_waits_for_the_function_that_is_compiled(monkeypatch, times, version):
    monkeypatch.setattr(numba, "__version__", version)

    @compiled
    def interrupted(x, n):
        return both(x, n) - 1.0

    interrupted._cache = NullCache()
    with event.install_listener("numba:compile", Pressed(times)), pytest.raises(KeyboardInterrupt):
        interrupted(4.0, 2)
    assert len(interrupted.signatures) == 1 and gc.isenabled()
    assert jit_registry[cpu_target] is numba.jit
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert interrupted(4.0, 2) == 10.0


def test_the_target_of_numba_is_put_back_wherever_an_interrupt_comes():
    """At every line of `with_helpers` up to its block; later ones are deferred by `compile`."""
    own = compiling.with_helpers.__wrapped__.__code__
    stopped, inside = 0, False
    while not inside:
        lines = []

        def trace(frame, kind, _, lines=lines, stop=stopped):
            if frame.f_code is own and kind == "line":
                lines.append(frame.f_lineno)
                if len(lines) > stop:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        try:
            sys.settrace(trace)
            with compiling.with_helpers():
                sys.settrace(before)
                inside = True
        except KeyboardInterrupt:
            stopped += 1
        finally:
            sys.settrace(before)
        assert jit_registry.get(cpu_target) is numba.jit
    assert stopped >= 5


def test_an_invalid_call_has_the_message_of_numba():
    @compiled
    def wrong(x):
        return x + "text"

    with pytest.raises(numba.TypingError, match="No implementation of function"):
        wrong(1.0)
    assert jit_registry[cpu_target] is numba.jit
