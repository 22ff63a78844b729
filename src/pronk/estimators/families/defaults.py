"""Other default values for a constructor that is otherwise the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def defaults(**values: Any) -> Callable[[type], type]:
    """A class decorator: the inherited ``__init__`` with these default values.

    The two faces of an algorithm take the same parameters, and only some defaults differ. The
    signature is set too, because scikit-learn and the help text read the parameters from it.
    """

    def decorate(cls: Any) -> Any:
        inherited = cls.__init__
        signature = inspect.signature(inherited)
        parameters = [
            p.replace(default=values.get(p.name, p.default)) for p in signature.parameters.values()
        ]

        @functools.wraps(inherited)
        def __init__(self: Any, *args: Any, **params: Any) -> None:
            inherited(self, *args, **{**values, **params})

        __init__.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        cls.__init__ = __init__
        return cls

    return decorate
