"""Translate functions to LLVM with less than half of the code that Numba makes.

Numba and LLVM take time in proportion to that code, and little of it computes. Most takes arrays
and named tuples of arrays apart before each call, puts them together after it, counts references to
them, and copies an array to memory to read one element. Here

- an argument of several values is passed as a pointer to them; the callee reads them where it
  begins, and passes the pointer on if it passes the argument or a field of it on;
- references to arguments, to their fields and to views of them are not counted: the caller has
  references to the arguments until the call ends;
- a variable that is assigned once has no place in memory;
- elements, shapes and ``range(start, stop)`` are translated directly.

What is computed stays the same, to the bit.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite.ir import Constant
from llvmlite.ir.instructions import ExtractValue, LoadInstr
from numba.core import cgutils, ir
from numba.core import types as numba_types

from pronk.core.inference import call_type, options_of
from pronk.core.numba_version import is_tested

try:
    from numba.core.analysis import compute_cfg_from_blocks
    from numba.core.compiler_machinery import register_pass
    from numba.core.datamodel import ArgPacker
    from numba.core.imputils import user_function
    from numba.core.lowering import Lower
    from numba.core.typed_passes import NativeLowering
    from numba.cpython import slicing
    from numba.np.arrayobj import load_item, store_item
except ImportError:
    if is_tested(numba.__version__):
        raise
    Lower = NativeLowering = object  # not used

    def register_pass(**_: Any) -> Any:
        return lambda given: given


types: Any = numba_types

#: Places of the fields of an array.
SIZE, DATA, SHAPE, STRIDES = 2, 4, 5, 6
#: Types of indices with which indexing gives an element or a view, and of elements.
INDICES = types.Integer, types.SliceType, types.EllipsisType
PLAIN = types.Number, types.Boolean
#: Expressions whose value may be a part of an argument.
ACCESSES = "getattr", "static_getitem", "getitem", "exhaust_iter"


# -- arguments -----------------------------------------------------------------------------------


def place_of(builder: Any, value: Any) -> Any:
    """Return a pointer to an argument of the function, or to a field of one; None for others.

    Nothing is stored there during the call.
    """
    if not getattr(builder.function, "takes_pointers", False):
        return None
    if isinstance(value, LoadInstr) and value.operands[0] in builder.function.args:
        return value.operands[0]
    if isinstance(value, ExtractValue):
        place = place_of(builder, value.operands[0])
        if place is not None:
            return cgutils.gep_inbounds(builder, place, 0, *value.indices)
    return None


class Pointer:
    """Model of an argument that is passed as a pointer to its values."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def get_argument_type(self) -> Any:
        """Return the type of the pointer."""
        return self._model.get_value_type().as_pointer()

    def as_argument(self, builder: Any, value: Any) -> Any:
        """Return where the callee reads the values: where they are, or a new place."""
        place = place_of(builder, value)
        if place is None:
            with builder.goto_entry_block():
                place = builder.alloca(value.type)
            builder.store(value, place)
        return place

    def from_argument(self, builder: Any, place: Any) -> Any:
        """Read the values."""
        return builder.load(place)


class Models:
    """Models of arguments: pointers for those of several values."""

    def __init__(self, models: Any) -> None:
        self._models = models

    def lookup(self, kind: Any) -> Any:
        """Return the model of a type."""
        model = self._models.lookup(kind)
        values = model.get_argument_type()
        return Pointer(model) if isinstance(values, tuple | list) and values else model


def with_pointers(context: Any) -> Any:
    """Return a copy of a target context in which functions take pointers."""
    made = copy.copy(context)
    models = Models(context.data_model_manager)
    made.get_arg_packer = lambda kinds: ArgPacker(models, kinds)
    return made


def insert_function(context: Any, key: Any, descriptor: Any, library: Any) -> None:
    """Let other functions call one that takes pointers."""
    usual = user_function(descriptor, [library])

    def call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return usual(with_pointers(context), builder, signature, values)

    call.signature, call.libs = usual.signature, usual.libs  # type: ignore[attr-defined]
    context._defns[key].append(call, usual.signature)


# -- functions -----------------------------------------------------------------------------------


class ShortLower(Lower):
    """Numba's translation of one function, with less code."""

    context: Any
    builder: Any

    def init(self) -> None:
        """Find out which variables need no counted references, and which no memory."""
        super().init()
        self._options = options_of(self.flags)
        self._parts: dict[Any, Any] = {}
        self._ranges: dict[int, Any] = {}
        self._loops: dict[int, Any] = {}
        self._borrowed: set[str] = set()
        self._views: set[str] = set()
        if self.generator_info or self._disable_sroa_like_opt:
            return
        assigned = [one for block in self.blocks.values() for one in block.find_insts(ir.Assign)]
        times = Counter(one.target.name for one in assigned)
        once = [one for one in assigned if times[one.target.name] == 1]
        found = -1
        while len(self._borrowed) > found:  # a part may be assigned before what it is a part of
            found = len(self._borrowed)
            self._borrowed |= {one.target.name for one in once if self._is_borrowed(one)}
        self._find_values({one.target.name for one in once})

    def _is_borrowed(self, one: Any) -> bool:
        """Return whether a variable is an argument, a field of one or a view of one."""
        kind, value = self.typeof(one.target.name), one.value
        if isinstance(value, ir.Arg):
            return bool(kind == self.typeof("arg." + value.name))
        if isinstance(value, ir.Var):
            return value.name in self._borrowed and kind == self.typeof(value.name)
        if not isinstance(value, ir.Expr) or value.op not in ACCESSES:
            return False
        if value.value.name not in self._borrowed:
            return False
        base = self.typeof(value.value.name)
        if value.op == "exhaust_iter":
            return isinstance(base, types.BaseTuple)
        if value.op == "getattr":
            return isinstance(base, types.BaseNamedTuple) and value.attr in base.fields
        if isinstance(base, types.BaseTuple):
            return value.op == "static_getitem" and isinstance(value.index, int)
        index = value.index if value.op == "getitem" else value.index_var
        if index is None or not isinstance(base, types.Array) or not isinstance(kind, types.Array):
            return False
        given = self.typeof(index.name)
        kinds = given.types if isinstance(given, types.BaseTuple) else (given,)
        if not all(isinstance(part, INDICES) for part in kinds):
            return False
        self._views.add(one.target.name)
        return True

    def _find_values(self, once: set[str]) -> None:
        """Find variables without memory: what they are used for follows their only assignment."""
        dominators = compute_cfg_from_blocks(self.blocks).dominators()
        start: dict[str, Any] = {}
        used: dict[str, set[Any]] = {}
        for label, block in self.blocks.items():
            for one in block.body:
                if isinstance(one, ir.Del):
                    continue
                for found in one.list_vars():
                    used.setdefault(found.name, set()).add(label)
                if isinstance(one, ir.Assign):
                    start[one.target.name] = label
        for name in once:
            if name in self._borrowed or self._is_plain(self.typeof(name)):
                first = start[name]
                later = used[name] - {first}
                if all(label > first and first in dominators.get(label, ()) for label in later):
                    self._singly_assigned_vars.add(name)

    def _is_plain(self, kind: Any) -> bool:
        """Return whether values of a type hold no references."""
        return not self.context.data_model_manager[kind].contains_nrt_meminfo()

    @contextmanager
    def _in_context(self, context: Any) -> Iterator[None]:
        own, self.context = self.context, context
        try:
            yield
        finally:
            self.context = own

    def setup_function(self, fndesc: Any) -> None:
        """Declare the function, with pointers."""
        with self._in_context(with_pointers(self.context)):
            super().setup_function(fndesc)
        self.function.takes_pointers = True

    def extract_function_arguments(self) -> Any:
        """Read the arguments."""
        with self._in_context(with_pointers(self.context)):
            return super().extract_function_arguments()

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        """Make the function that Python calls."""
        with self._in_context(with_pointers(self.context)):
            super().create_cpython_wrapper(release_gil)

    # -- variables -------------------------------------------------------------------------------

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """Return the value of an assignment; references to parts of arguments are not counted."""
        value = inst.value
        if inst.target.name not in self._borrowed:
            return super().lower_assign(ty, inst)
        if isinstance(value, ir.Arg):
            return self.fnargs[value.index]
        if isinstance(value, ir.Var):
            return self.loadvar(value.name)
        if inst.target.name in self._views:
            uncounted = copy.copy(self.context)
            uncounted.enable_nrt = False
            with self._in_context(uncounted):
                return self.lower_expr(ty, value)
        base, kind = self.loadvar(value.value.name), self.typeof(value.value.name)
        if value.op == "exhaust_iter":
            return base
        if value.op == "getattr":
            return self._part(base, kind.fields.index(value.attr))
        return self._part(base, value.index + len(kind) * (value.index < 0))

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Store a value in a variable."""
        if name in self._borrowed and name not in self._singly_assigned_vars:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))
        else:
            super().storevar(value, name, argidx)

    def delvar(self, name: str) -> None:
        """Drop the reference of a variable, if it has one."""
        if name not in self._borrowed and not self._is_plain(self.typeof(name)):
            super().delvar(name)

    def _part(self, value: Any, *path: int) -> Any:
        """Return a part of a value: read once per block, or where the function begins."""
        start = getattr(value, "parent", None) is self.entry_block
        key = id(value), path, None if start else id(self.builder.block)
        if key not in self._parts:
            if start:
                with self.builder.goto_entry_block():
                    made = self.builder.extract_value(value, path)
            else:
                made = self.builder.extract_value(value, path)
            self._parts[key] = made, value  # the value is kept, so that its id stays its own
        return self._parts[key][0]

    # -- arrays and numbers ----------------------------------------------------------------------

    def _element(self, name: str, kind: Any, index_name: str, given: Any) -> Any:
        """Return a pointer to an element of an array; None if the index gives anything else."""
        builder, context = self.builder, self.context
        if not isinstance(kind, types.Array) or self.typeof(name) != kind:
            return None
        if not isinstance(kind.dtype, PLAIN) or context.enable_boundscheck:
            return None
        several = isinstance(given, types.BaseTuple)
        kinds = given.types if several else (given,)
        if len(kinds) != kind.ndim or not all(isinstance(one, types.Integer) for one in kinds):
            return None
        array = self.loadvar(name)
        index = context.cast(builder, self.loadvar(index_name), self.typeof(index_name), given)
        places = []
        for k, one in enumerate(kinds):
            place = builder.extract_value(index, k) if several else index
            place = context.cast(builder, place, one, types.intp if one.signed else types.uintp)
            known = isinstance(place, Constant) and place.constant >= 0
            if one.signed and not known:  # count negative indices from the end
                place = slicing.fix_index(builder, place, self._part(array, SHAPE, k))
            places.append(place)
        data = self._part(array, DATA)
        if kind.layout != "C":
            strides = [self._part(array, STRIDES, k) for k in range(kind.ndim)]
            return cgutils.get_item_pointer2(context, builder, data, (), strides, "A", places)
        total = None
        for k, place in enumerate(places):
            for later in range(k + 1, kind.ndim):
                place = builder.mul(place, self._part(array, SHAPE, later))
            total = place if total is None else builder.add(total, place)
        return builder.gep(data, [total])

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Return ``value[index]``."""
        place = self._element(value.name, signature.args[0], index.name, signature.args[1])
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        found = load_item(self.context, self.builder, signature.args[0], place)
        return self.context.cast(self.builder, found, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Translate ``target[index] = value``."""
        kind, given, stored = signature.args
        place = None
        if isinstance(stored, PLAIN):
            place = self._element(target_var.name, kind, index_var.name, given)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self._cast_var(value_var, stored)
        value = self.context.cast(self.builder, value, stored, kind.dtype)
        store_item(self.context, self.builder, kind, value, place)
        return None

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Return the value of an operation on two numbers or other values."""
        signature = self.fndesc.calltypes[expr]
        constant = not (expr.static_lhs is ir.UNDEFINED is expr.static_rhs)
        if constant or not all(isinstance(kind, PLAIN) for kind in (*signature.args, resty)):
            return super().lower_binop(resty, expr, op)
        builder, context = self.builder, self.context
        values = [
            self._cast_var(one, kind)
            for one, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        function = context.typing_context.resolve_value_type(op)
        own = call_type(context.typing_context, function, signature.args, self._options)
        found = context.get_function(function, own)(builder, values)
        return context.cast(builder, found, signature.return_type, resty)

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        """Return the value of a call."""
        key, kinds = getattr(fnty, "typing_key", None), signature.args
        if key is len and isinstance(self.typeof(expr.args[0].name), types.Array):
            return self._part(self.loadvar(expr.args[0].name), SHAPE, 0)
        if key is range and len(kinds) < 3 and signature.return_type == types.range_state64_type:
            ends = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
            zero, one = (self.context.get_constant(types.int64, number) for number in (0, 1))
            start, stop = (zero, *ends)[-2:]
            made = cgutils.make_anonymous_struct(self.builder, [start, stop, one])
            self._ranges[id(made)] = made, start, stop
            return made
        return super()._lower_call_normal(fnty, expr, signature)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Return the value of an expression."""
        if expr.op in ("pair_first", "pair_second"):
            pair = self.loadvar(expr.value.name)
            found = self.builder.extract_value(pair, int(expr.op == "pair_second"))
            self.incref(resty, found)
            return found
        of_array = expr.op == "getattr" and isinstance(self.typeof(expr.value.name), types.Array)
        if of_array and expr.attr in ("shape", "size"):
            place = SHAPE if expr.attr == "shape" else SIZE
            return self._part(self.loadvar(expr.value.name), place)
        if expr.op == "getiter" and id(given := self.loadvar(expr.value.name)) in self._ranges:
            return self._start_loop(resty, *self._ranges[id(given)][1:])
        if expr.op == "iternext" and id(given := self.loadvar(expr.value.name)) in self._loops:
            return self._next_value(resty, *self._loops[id(given)][1:])
        return super().lower_expr(resty, expr)

    # -- loops -----------------------------------------------------------------------------------

    def _start_loop(self, kind: Any, start: Any, stop: Any) -> Any:
        """Return the iterator of ``range(start, stop)``: the next value, and how many are left."""
        builder = self.builder
        with builder.goto_entry_block():
            value, count = builder.alloca(start.type), builder.alloca(start.type)
        builder.store(start, value)
        left = builder.sub(stop, start)
        some = builder.icmp_signed(">", left, left.type(0))
        builder.store(builder.select(some, left, left.type(0)), count)
        made = self.context.get_constant_undef(kind)
        for k, field in enumerate((value, stop, start.type(1), count)):
            made = builder.insert_value(made, field, k)
        self._loops[id(made)] = made, value, count
        return made

    def _next_value(self, kind: Any, value: Any, count: Any) -> Any:
        """Return the next value of a loop, and whether there is one."""
        builder = self.builder
        left = builder.load(count)
        valid = builder.icmp_signed(">", left, left.type(0))
        now = builder.load(value)
        with builder.if_then(valid):
            builder.store(builder.sub(left, left.type(1), flags=["nsw"]), count)
            builder.store(builder.add(now, now.type(1)), value)
        made = self.context.get_constant_undef(kind)
        made = builder.insert_value(made, now, 0)
        return builder.insert_value(made, valid, 1)


@register_pass(mutates_CFG=True, analysis_only=False)
class ShortLowering(NativeLowering):
    """The pass that translates, with less code."""

    _name = "pronk_native_lowering"

    @property
    def lowering_class(self) -> Any:
        """Return the class that translates a function."""
        return ShortLower


def with_short_lowering(pipelines: list[Any]) -> list[Any]:
    """Replace the pass that translates in Numba's pipelines."""
    for pipeline in pipelines:
        pipeline.passes = [
            (ShortLowering if own is NativeLowering else own, text) for own, text in pipeline.passes
        ]
    return pipelines
