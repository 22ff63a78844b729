"""Compiled functions: one version for Python, parts for compiled callers."""

import numba
import numpy as np
import pytest
from numba import njit
from numba.core.caching import NullCache

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
    import gc

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
