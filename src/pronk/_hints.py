"""Hints after unknown names; loads nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(
    name: object, known: Iterable[str], otherwise: str = "", cutoff: float = 0.6
) -> str:
    """Return a hint to append: the nearest known name, or ``otherwise`` if none is near.

    >>> did_you_mean("logstic", ["hinge", "logistic"])
    "; did you mean 'logistic'?"
    """
    names = list(known)
    alike = [other for other in names if other.strip().casefold() == str(name).strip().casefold()]
    near = alike or difflib.get_close_matches(str(name), names, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else otherwise
