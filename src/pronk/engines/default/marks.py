"""What a call must put back if it does not come to its end, taken when it is known what changes.

A mark of all parts costs as much as a third of learning a row. A row that closes no block, ends no
epoch and sets no stage changes little: the small arrays that the tables of its parts name, some
counters, and the places in open blocks that no state speaks of. So the mark of the default learner
is empty until the first change, and then holds those, or for other rows everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from pronk.parts.linalg import GrowingRows
from pronk.parts.state import Stateful


class Mark:
    """Held by the call; `held` is None until something is about to change."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held: Any = None


class CalmRow:
    """Where one row that changes no structure writes.

    ``parts`` have arrays that their tables name; ``others`` are pairs of an object and the name of
    an attribute that is replaced, never written to; ``rows`` are only appended to.
    """

    def __init__(
        self,
        parts: Iterable[Stateful],
        others: Iterable[tuple[object, str]],
        rows: Iterable[GrowingRows],
    ) -> None:
        self._arrays = [(part.__dict__, name) for part in parts for name in part.copied_names()]
        self._others = [(owner.__dict__, name) for owner, name in others]
        self._rows = list(rows)
        self._first = self._arrays[0][0]

    def speaks_of(self, part: Stateful, rows: Sequence[GrowingRows]) -> bool:
        """Whether these are still its first part and its rows, and no others in their place."""
        return self._first is part.__dict__ and all(map(is_, self._rows, rows))

    def save(self) -> tuple[Any, ...]:
        return (
            self,
            [held[name].copy() for held, name in self._arrays],
            [held[name] for held, name in self._others],
            [rows.size for rows in self._rows],
        )

    def put_back(self, saved: tuple[Any, ...]) -> None:
        _, arrays, others, sizes = saved
        for (held, name), value in zip(self._arrays, arrays, strict=True):
            held[name] = value
        for (held, name), value in zip(self._others, others, strict=True):
            held[name] = value
        for rows, size in zip(self._rows, sizes, strict=True):
            rows.size = size
