"""What each column became, as data for files and in a line for people.

A column is a table of its name and kind. A category has how many categories came, its slots, and
how many categories came after all slots were given; a date has how dates with the year last are
read; ``unread`` tells of text that is no date and was taken as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pronk.streams.dates import CLOCK, DATE, DAY_FIRST, ISO, MONTH_FIRST, TIME
from pronk.streams.preparing import Categories
from pronk.streams.values import BOOLEAN, CATEGORY, NUMBER

#: The kind of a column that is left out.
DROPPED = "dropped"
_WORDS = {
    NUMBER: "number",
    BOOLEAN: "true or false",
    TIME: "date and time",
    DATE: "date",
    CLOCK: "time of the day",
    DROPPED: "dropped",
}
_ORDERS = {ISO: "", DAY_FIRST: ", day first", MONTH_FIRST: ", month first"}
#: Names of a group of columns that are spelled out.
_NAMED = 8


def column(name: str, kind: str, order: str, encoder: Categories | None = None) -> dict[str, Any]:
    """A column that is used."""
    found: dict[str, Any] = {"name": name, "kind": kind}
    if encoder is not None:
        categories = len(encoder.known)
        found |= {"categories": categories, "slots": encoder.slots}
        if encoder.encoding != "hash" and categories > encoder.slots:
            found["beyond"] = categories - encoder.slots
    elif kind in (TIME, DATE):
        found["dates"] = order
    return found


def in_words(found: dict[str, Any]) -> str:
    """A column without its name."""
    if found["kind"] == CATEGORY:
        if "categories" not in found:
            return "category"
        beyond = f", {found['beyond']:,} of them beyond the slots" if "beyond" in found else ""
        words = "1 category" if found["categories"] == 1 else f"{found['categories']:,} categories"
        return f"{words}{beyond}"
    unread = f", {found['unread']['rows']:,} not read" if "unread" in found else ""
    return f"{_WORDS[found['kind']]}{_ORDERS[found.get('dates', ISO)]}{unread}"


def in_a_line(columns: Sequence[dict[str, Any]]) -> str:
    """All columns, those of the same words together."""
    groups: dict[str, list[str]] = {}
    for found in columns:
        groups.setdefault(in_words(found), []).append(found["name"])
    return "; ".join(f"{_listed(names)}: {words}" for words, names in groups.items())


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def notes(columns: Sequence[dict[str, Any]]) -> list[str]:
    """What a user should know of some columns."""
    said = []
    for found in columns:
        column = f"column {found['name']!r}"
        if "beyond" in found:
            said.append(
                f"{column} has {found['categories']:,} categories and {found['slots']} slots; the "
                f"{found['beyond']:,} that came last are told apart less well"
            )
        if "unread" in found:
            rows, row, value = (found["unread"][key] for key in ("rows", "first", "value"))
            said.append(
                f"{column} does not read as a date or time in {rows:,} rows, taken as missing: "
                f"first {value[:40]!r} at row {row} (counting from 0)"
            )
    return said
