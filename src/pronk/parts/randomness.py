"""Random numbers that a check can replay: numbered streams of one seed, countable and resumable."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The streams of `default_rng([seed, stream])`, one for each use.
KORS_COINS, FREQUENCIES, REMOVALS = 0, 2, 3


def make_seed(random_state: int | np.random.Generator | None) -> int:
    """The seed a learner keeps: the int itself, or one int63 drawn from the generator."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    return int(random_state)


class Uniforms:
    """One uniform a row, in stream order, whatever the blocks: `default_rng([seed, stream])`."""

    def __init__(self, seed: int, stream: int, count: int = 0) -> None:
        self.seed, self.stream, self.count = seed, stream, count
        self._generator = np.random.default_rng([seed, stream])
        # One double takes one 64-bit draw, so the position is the number of doubles taken.
        self._generator.bit_generator.advance(count)  # type: ignore[attr-defined]

    def take(self, n: int) -> NDArray[np.float64]:
        """The next n uniforms."""
        self.count += n
        return self._generator.random(n)

    def to_state(self) -> dict[str, Any]:
        return {"seed": self.seed, "stream": self.stream, "count": self.count}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Uniforms:
        return cls(state["seed"], state["stream"], state["count"])
