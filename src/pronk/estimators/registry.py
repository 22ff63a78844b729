"""The algorithms by name: what `pronk.make` builds and `pronk.algorithms` lists."""

from __future__ import annotations

from typing import Any

from pronk.estimators.entries import Algorithm, all_algorithms
from pronk.parts.spelling import did_you_mean


def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name, with paper, cost a row in time and memory, and boundedness.

    >>> import pronk
    >>> print(pronk.algorithms()["pkawv-taylor"].memory)
    r^2
    """
    return dict(all_algorithms())


#: Other spellings that `find` and `make` take.
ALIASES = {"default": "online-kernel"}


def find(name: str) -> Algorithm:
    """The algorithm of that name, or a ValueError that suggests the nearest one."""
    name = ALIASES.get(name, name)
    known = all_algorithms()
    if name in known:
        return known[name]
    hint = did_you_mean(name, known, otherwise=f"; known: {', '.join(known)}")
    raise ValueError(f"algorithm {name!r} is not known{hint}")


def make(name: str, task: str = "regression", **params: Any) -> Any:
    """A learner by its short name, with the paper's choices; ``params`` override them.

    >>> import pronk
    >>> pronk.make("pkrr-taylor", degree=3)
    PKAWVRegressor(anticipate=False, degree=3, features='taylor')
    """
    algorithm = find(name)
    return algorithm.learner_class(task)(**{**algorithm.params, **params})
