"""Find the types of calls of Numba's own functions once.

Numba tries all implementations of a function in turn, dozens of them for ``+``, at every place
where the function is called. Here the result is kept by the types of the arguments.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import types
from numba.core.errors import TypingError

#: By function, options of the caller and types of the arguments: the signature, the implementation,
#: and the objects whose ids are in the key, so that no other object gets these ids.
_KNOWN: dict[Any, Any] = {}


def options_of(flags: Any) -> str:
    """Return the options with which a function is compiled as text."""
    return str(sorted((name, str(value)) for name, value in flags._values.items()))


def call_type(context: Any, function: Any, kinds: tuple[Any, ...], options: str) -> Any:
    """Return the signature of a call in a function that is compiled with these options."""
    key = id(function), options, *map(id, kinds)
    if key not in _KNOWN:
        signature = function.get_call_type(context, kinds, {})
        _KNOWN[key] = signature, function._impl_keys[signature.args], function, kinds
    signature, implementation, *_ = _KNOWN[key]
    # What is translated next uses the implementation that was found last.
    function._impl_keys[signature.args] = implementation
    return signature


class Typing:
    """Numba's typing context, with results that are kept."""

    def __init__(self, context: Any, options: str) -> None:
        self._context = context
        self._options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        context = self._context
        function = func if isinstance(func, types.Type) else context._lookup_global(func)
        plain = not kws and all(isinstance(kind, types.Type) for kind in args)
        if type(function) is types.Function and plain:
            try:
                return call_type(context, function, tuple(args), self._options)
            except TypingError:
                pass  # raised again, with Numba's message, by the next line
        return context.resolve_function_type(func, args, kws)

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        """Return the signature of ``target[index] = value``."""
        function = self._context.resolve_value_type(operator.setitem)
        return call_type(self._context, function, (target, index, value), self._options)
