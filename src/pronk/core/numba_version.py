"""Versions of Numba whose undocumented parts pronk's compiler extends."""

from __future__ import annotations

import re

#: First and last version of Numba with which the extension was tested.
TESTED = (0, 61), (0, 68)


def is_tested(version: str) -> bool:
    """Return whether a version of Numba, such as "0.68.1", is one of those."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and TESTED[0] <= (int(found[1]), int(found[2])) <= TESTED[1]
