"""Random numbers in numbered streams of one seed, which can be counted, resumed and replayed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import Count, Fixed, Stateful

#: The streams of a seed, one for each use.
KORS_COINS, FREQUENCIES, REMOVALS = 0, 2, 3

#: The key of pronk's streams: what a user draws from the same seed has another key, or none.
KEY = 7067


def generator(seed: int, stream: int) -> np.random.Generator:
    """Return the generator of stream number ``stream`` of a seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(KEY, stream)))


def make_seed(random_state: int | np.random.Generator | np.random.RandomState | None) -> int:
    """Return the seed of a learner: the int itself, or one int63 drawn from the generator."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    if isinstance(random_state, np.random.RandomState):  # scikit-learn's
        return int(random_state.randint(2**63 - 1, dtype=np.int64))
    return int(random_state)


class Uniforms(Stateful):
    """One uniform per row, in stream order, for any cut into blocks."""

    def __init__(self, seed: int, stream: int) -> None:
        self.seed, self.stream, self.count = seed, stream, 0
        self._generator = generator(seed, stream)

    def draw(self, n: int) -> NDArray[np.float64]:
        """Return the next n uniforms."""
        self.count += n
        return self._generator.random(n)

    STATE = (Fixed("seed", "seed"), Fixed("stream", "stream"), Count("count", "count"))

    def _update_derived(self) -> None:
        """Move the generator to the position that ``count`` has, from the start of the stream.

        A call that is interrupted between counting and drawing leaves the two different.
        """
        self._generator = generator(self.seed, self.stream)
        # One double takes one 64-bit draw, so the position is the number of doubles drawn.
        self._generator.bit_generator.advance(self.count)  # type: ignore[attr-defined]
