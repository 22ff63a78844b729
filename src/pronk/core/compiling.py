"""Compile functions with Numba, in as little time as a first call allows.

Numba optimises every function and makes machine code of it, then copies it into each function that
calls it and does both again: a function under four callers is compiled five times. `compiled` makes
two versions instead, each when it is first needed. Calls from Python use one that is optimised, has
machine code and is kept on disk. Calls from compiled code use a *part*: what Numba translated,
without machine code or functions that convert Python's objects. A part is optimised once, together
with the function that Python calls. Numba's own functions, such as `numpy.empty`, become parts too.

What a function computes therefore depends on the sources alone, not on what was compiled before
it. Options that Numba would inherit from the caller are always given for the same reason.

This uses what Numba does not document, so only versions with which it was tested are extended; with
another one Numba compiles by itself, which takes longer and gives the same results up to rounding.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import config
from numba.core import types as numba_types

from pronk._interrupts import deferred_interrupts

types: Any = numba_types

#: First and last version of Numba with which the extension was tested.
TESTED = (0, 61), (0, 68)


def is_tested(version: str) -> bool:
    """Return whether a version of Numba, such as "0.68.1", is one of those."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and TESTED[0] <= (int(found[1]), int(found[2])) <= TESTED[1]


try:
    from llvmlite import binding as llvm
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import CPUDispatcher
    from numba.core.target_extension import cpu_target, jit_registry
    from numba.core.types.misc import unliteral
except ImportError:
    if is_tested(numba.__version__):
        raise
    JITCodeLibrary = Compiler = CPUDispatcher = object  # not used


class PartLibrary(JITCodeLibrary):
    """The code of one part; it does not hold that of the parts it calls."""

    _final_module: Any
    _shared_module: Any
    _linking_libraries: list[Any]

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Let the code be linked into that of several callers."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        inherit(self)
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return this code and all that it calls, for a function that others compile."""
        if self._shared_module is None:
            self._ensure_finalized()
            self._shared_module = self._final_module.clone()
            for library in link_parts(self._shared_module, self._linking_libraries):
                self._shared_module.link_in(library._get_module_for_linking(), preserve=True)
        return self._shared_module


class WholeLibrary(JITCodeLibrary):
    """The code of a function for Python and of all parts that it calls."""

    unroll = True
    _final_module: Any
    _shared_module: Any
    _linking_libraries: list[Any]

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        codegen: Any = self._codegen
        if self.unroll or not hasattr(codegen, "_pass_builder"):  # before Numba 0.62
            super()._optimize_final_module()
            return
        # As Numba does, but for the loops.
        first, builder = codegen._module_pass_manager(
            opt=0, loop_vectorize=False, slp_vectorize=False, cost="cheap"
        )
        first.run(self._final_module, builder)
        options = llvm.create_pipeline_tuning_options()
        options.speed_level = config.OPT
        options.slp_vectorization = config.SLP_VECTORIZE
        options.loop_vectorization = config.LOOP_VECTORIZE
        options.loop_unrolling = False
        builder = llvm.create_pass_builder(codegen._tm, options)
        second = builder.getModulePassManager()
        second.add_refprune_pass()
        second.run(self._final_module, builder)

    def finalize(self) -> None:
        """Link the parts, optimise everything, and make machine code."""
        inherit(self)
        self._linking_libraries = link_parts(self._final_module, self._linking_libraries)
        super().finalize()


def inherit(library: Any) -> None:
    """Add what the code of linked libraries needs when it is loaded from disk."""
    for own in library._linking_libraries:
        if hasattr(own, "_reload_init"):  # from Numba 0.62 on
            library._reload_init.update(own._reload_init)


def link_parts(module: Any, libraries: list[Any]) -> list[Any]:
    """Link these parts, and those that they call, each once; return the other libraries."""
    found = list(libraries)
    for library in found:  # callers before what they call; the list grows meanwhile
        if isinstance(library, PartLibrary):
            module.link_in(library._final_module, preserve=True)
            found += [own for own in library._linking_libraries if own not in found]
    return [library for library in found if not isinstance(library, PartLibrary)]


class PartCompiler(Compiler):
    """Numba's compiler up to the code that callers link."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Translate a function."""
        state = self.state
        state.flags.no_compile = True
        state.library = PartLibrary(state.targetctx.codegen(), func.__qualname__)
        result = super().compile_extra(func)
        key = object()  # callers find the code by it; there is no function for Python
        state.targetctx.insert_user_function(key, result.fndesc, [result.library])
        return result._replace(entry_point=key)


class WholeCompiler(Compiler):
    """Numba's compiler for functions that Python calls; it links parts."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function."""
        state = self.state
        state.library = WholeLibrary(state.targetctx.codegen(), func.__qualname__)
        state.library.enable_object_caching()
        state.library.unroll = getattr(func, "unroll", True)
        result = super().compile_extra(func)
        if not is_plain(kind := result.signature.return_type):
            raise TypeError(
                f"{func.__qualname__} returns {kind} to Python; a compiled function that Python "
                "calls may return numbers, arrays and tuples of them: build other objects in Python"
            )
        return result


def is_plain(kind: Any) -> bool:
    """Return whether Numba turns values of a type into Python's objects without running Python.

    It calls the class of a named tuple or of an enumeration, and does not check that this returns
    an object. If Ctrl-C raises KeyboardInterrupt there, the process crashes.
    """
    if isinstance(kind, types.Optional):
        return is_plain(kind.type)
    if isinstance(kind, types.BaseNamedTuple):
        return False
    if isinstance(kind, types.BaseTuple):
        return all(map(is_plain, kind.types))
    return isinstance(kind, (types.Number, types.Boolean, types.NoneType, types.Array))


class Helper(CPUDispatcher):
    """One of Numba's own functions, for compiled code only."""

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled."""
        self.overloads[tuple(cres.signature.args)] = cres


class Part(Helper):
    """The part of a function for each kind of arguments; Python never calls it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what a call has as types; constants are no types of their own."""
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template([unliteral(kind) for kind in args], plain)


def make_helper(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator like `numba.jit` that makes helpers."""

    def decorate(function: Any) -> Any:
        made = numba.jit(**{"pipeline_class": PartCompiler, **options})(function)
        if type(made) is CPUDispatcher and "pipeline_class" not in options:
            made.__class__ = Helper
        return made

    return decorate


@contextmanager
def with_helpers() -> Iterator[None]:
    """Let Numba compile its own functions as helpers inside; no other thread compiles meanwhile."""
    with global_compiler_lock:
        usual = jit_registry[cpu_target]
        try:
            del jit_registry[cpu_target]
            jit_registry[cpu_target] = make_helper
            yield
        finally:
            jit_registry.pop(cpu_target, None)
            jit_registry[cpu_target] = usual


class Function(CPUDispatcher):
    """A compiled function: itself for Python, its part for compiled code."""

    _part: Part | None = None

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, locals or {}, targetoptions, WholeCompiler)

    @property
    def _numba_type_(self) -> Any:
        if self._part is None:
            options = {**self.targetoptions, "no_cpython_wrapper": True}
            self._part = Part(self.py_func, {}, options, pipeline_class=PartCompiler)
        return self._part._numba_type_

    def compile(self, sig: Any) -> Any:
        """Compile for arguments of these types, or load what is on disk.

        Numba makes millions of objects that are all kept for a while; looking for garbage among
        them would take a sixth of the time. Ctrl-C waits for the function, or Numba may stay
        broken and LLVM may crash.
        """
        with deferred_interrupts(patient=True):
            collecting = gc.isenabled()
            gc.disable()
            try:
                with with_helpers():
                    return super().compile(sig)
            finally:
                if collecting:
                    gc.enable()


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: set[str] | bool = False,
    forceinline: bool = False,
    unroll: bool = True,
) -> Any:
    """Compile a function when it is first called: ``@compiled`` or ``@compiled(fastmath=...)``.

    ``fastmath`` are names of LLVM's licences to round differently, such as "contract" (use fused
    multiply-add). Division by 0 gives infinity or NaN, as in NumPy. Other threads run meanwhile.
    What Python gets back is a number, an array or a tuple of them (`is_plain`).
    Without ``unroll``, LLVM unrolls no loops of the function for Python: large functions compile in
    less time and are no slower.
    """
    if function is None:
        return lambda given: compiled(
            given, fastmath=fastmath, forceinline=forceinline, unroll=unroll
        )
    options = {
        "nopython": True, "boundscheck": None, "nogil": True, "error_model": "numpy",
        "fastmath": fastmath, "forceinline": forceinline, "no_cfunc_wrapper": True,
    }  # fmt: skip
    if config.DISABLE_JIT:
        return function
    if not is_tested(numba.__version__):
        del options["nopython"]
        plain = numba.njit(cache=True, **options)(function)
        plain.compile = deferred_interrupts(patient=True)(plain.compile)
        return plain
    function.unroll = unroll  # type: ignore[attr-defined]
    made = Function(function, {}, options)
    made.enable_caching()
    return made
