"""State by declaration: a class names what it holds, and saving, loading and undoing follow.

    class Ledger(Stateful):
        STATE = (
            Numbers("sums", ("size", "outputs")),
            Numbers("places", ("size",), whole=True, low=0),
            Count("rows", attribute="rows"),
            Part("factor", sizes={"size": "size"}),
        )

gives `to_state`, `restore`, `mark` and `undo`. What is restored may come from a file that anybody
wrote, so everything is checked before an array reaches compiled code: the fields are those of the
table and no others; kind, dimensions and contents are what the table says; a size that two fields
name is the same in both. Sizes known beforehand (`_sizes`) are compared, others are learned from
the first field that names them. What does not fit is a `StateError` that names the field.

`mark` remembers the state at little cost and `undo` goes back to it. An array is copied, except
where the class says that it is never written in place (``kept``): then the old array is the mark.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, ClassVar

from pronk.parts.fields import (
    LARGEST,
    LARGEST_TARGET,
    MOST,
    Count,
    Field,
    LowerTriangle,
    Numbers,
    Part,
    Parts,
    Places,
    Real,
    Rows,
    Sizes,
    StateError,
    checked_count,
    require,
    take_part,
)

#: Who has a state takes all of it from here; the kinds of entries are in `fields`.
__all__ = [
    "LARGEST",
    "LARGEST_TARGET",
    "MOST",
    "Count",
    "Field",
    "LowerTriangle",
    "Numbers",
    "Part",
    "Parts",
    "Places",
    "Real",
    "Rows",
    "Sizes",
    "StateError",
    "Stateful",
    "checked_count",
    "require",
    "take_part",
]


class Stateful:
    """An object whose state is the table ``STATE``.

    ``DERIVED`` names attributes that are no part of the saved state but change with it (a size, a
    cache); they are never written in place, and a mark holds them too.
    """

    STATE: ClassVar[tuple[Field, ...]] = ()
    DERIVED: ClassVar[tuple[str, ...]] = ()
    _plan: ClassVar[tuple[Any, ...]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._plan = _plan(cls)

    def _sizes(self) -> dict[str, int]:
        """The sizes that a new object knows before its state comes."""
        return {}

    def _restored(self, sizes: Sizes) -> None:
        """What is left to check or to make once the fields are in their places."""

    def to_state(self) -> dict[str, Any]:
        """The state as arrays, numbers and text."""
        values = ((field.name, field.give(self)) for field in self.STATE)
        return {name: value for name, value in values if value is not None}

    def restore(self, state: Any) -> None:
        """Take over a state of an object made with the same arguments; a StateError if it is none.

        After a StateError the object is of no use.
        """
        self._take(state)

    def _take(self, state: Any) -> Sizes:
        require(isinstance(state, dict), "the state is not a table")
        sizes = Sizes(self._sizes())
        known = {field.name for field in self.STATE}
        for name in state:
            require(name in known, f"{name} is unknown")
        taken: dict[str, Any] = {}
        for field in self.STATE:
            held = state.get(field.name) is not None
            expected = field.expected(self, held)
            require(held == expected, f"{field.name} is {'unknown' if held else 'missing'}")
            taken[field.name] = field.take(self, state[field.name], sizes) if held else None
        self._adopt(taken)
        self._restored(sizes)
        return sizes

    def _adopt(self, values: dict[str, Any]) -> None:
        """Put checked values in their places."""
        for field in self.STATE:
            setattr(self, field.attribute, values[field.name])

    def mark(self) -> Any:
        """The state as it is, to `undo` what follows."""
        kept, copied, nested = self._plan
        return (
            kept(self) if kept else (),
            [getattr(self, name).copy(order="K") for name in copied],
            [field.mark(self) for field in nested],
        )

    @classmethod
    def copied_names(cls) -> list[str]:
        """The attributes with arrays that are written in place."""
        return list(cls._plan[1])

    def undo(self, mark: Any) -> None:
        """Go back to the mark; it can be used once."""
        names = [field.attribute for field in self.STATE if _is_kept(field)]
        for name, value in zip((*names, *self.DERIVED), mark[0], strict=True):
            setattr(self, name, value)
        _, copied, nested = self._plan
        for name, value in zip(copied, mark[1], strict=True):
            setattr(self, name, value)
        for field, value in zip(nested, mark[2], strict=True):
            field.undo(self, value)


def _is_kept(field: Field) -> bool:
    """Whether the attribute itself is the mark: numbers, and arrays that are never written to."""
    return isinstance(field, Count | Real) or (
        isinstance(field, Numbers) and field.kept and not isinstance(field, Rows)
    )


def _plan(cls: type[Stateful]) -> tuple[Any, ...]:
    """How to mark quickly: a getter of what is kept, the names of what is copied, the rest."""
    kept = (*(field.attribute for field in cls.STATE if _is_kept(field)), *cls.DERIVED)
    rest = [f for f in cls.STATE if not _is_kept(f) and getattr(f, "marked", True)]
    copied = [f.attribute for f in rest if type(f) is Numbers and not f.optional]
    nested = [f for f in rest if not (type(f) is Numbers and not f.optional)]
    getter: Any = None
    if len(kept) == 1:
        single = attrgetter(kept[0])
        getter = lambda owner: (single(owner),)  # noqa: E731
    elif kept:
        getter = attrgetter(*kept)
    return getter, copied, nested
